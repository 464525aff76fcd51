"""The order of tiles: which tile of which product a block computes next."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.device import ld_global_b32, ld_shared_b32, st_shared_b32
from .epilogue import inlined

#: Rows of tiles that blocks compute together, so that they find columns of B in the L2 cache.
BAND = 8


def tiles_of(TALL: int, WIDE: int, GROUPED: bool, THREADS: int) -> tuple[Any, Any, Any]:
    """Return keep(sizes, ...), find(tile, place, ...) and locate(tile, ...): kernels ask them what to compute.

    Args:
        TALL, WIDE: rows and columns of a tile of the result.
        GROUPED: whether the sizes of the matrices are in shared memory, and all their rows follow each other.
        THREADS: threads of a block.
    """

    @inlined
    def keep(sizes, shared, count, thread):
        """Copy the sizes to shared memory, before a barrier of the block, and return their address there."""
        if GROUPED:
            for matrix in range(thread, count, THREADS):
                st_shared_b32(shared + 4 * matrix, ld_global_b32(sizes + 4 * matrix))
        return np.int64(shared)

    @inlined
    def find(tile, place, m, across, count, sizes):
        """Return (matrix, its first tile, its first row, its rows) of a tile; `place` is this of an earlier tile.

        Before the first of several matrices there is one without rows, number -1.
        """
        (matrix, first, start, rows), nothing = place, np.int64(0)
        if GROUPED:
            tiles = (rows + TALL - 1) // TALL * across
            while matrix < count and tile >= first + tiles:
                matrix, first, start = matrix + 1, first + tiles, start + rows
                if matrix < count:
                    rows = np.int64(ld_shared_b32(sizes + 4 * matrix))
                    rows = rows if rows < 2**31 else nothing  # a negative size
                    tiles = (rows + TALL - 1) // TALL * across
        else:
            tiles = (m + TALL - 1) // TALL * across
            matrix = tile // tiles
            first, rows = matrix * tiles, m
        return matrix, first, start, rows

    @inlined
    def locate(tile, rows, across):
        """Return the first row and column of a tile of a matrix."""
        band, within = tile // (BAND * across), tile % (BAND * across)
        high = min(BAND, (rows + TALL - 1) // TALL - BAND * band)
        return (BAND * band + within % high) * TALL, within // high * WIDE

    return keep, find, locate
