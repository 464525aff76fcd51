"""The order of tiles: which tile of which product a block computes next, and which rows of it exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.device import ld_global_b32, ld_shared_b32, st_shared_b32
from ..primitives.device.emitting import composed
from .spec import GemmSpec


@composed
def divided(x, y):
    """Return quotient and remainder of numbers below 2**32: this takes fewer registers than a division of int64."""
    few, parts = np.uint32(x), np.uint32(y)
    return np.int64(few // parts), np.int64(few % parts)


def tiles_of(spec: GemmSpec) -> tuple[Any, ...]:
    """Return keep(sizes, ...), find(tile, place, ...), span(place, ...) and locate(tile, ...).

    Kernels ask them what to compute; the tiles of a cluster of two blocks count as one. The sizes of groups are in
    shared memory, and all their rows follow each other.
    """
    TALL, WIDE, THREADS = spec.own[0] * spec.cluster, spec.own[1], spec.threads
    GROUPED, BY_K, BAND = spec.is_grouped, spec.by_k, spec.band

    @composed
    def keep(sizes, shared, count, thread):
        """Copy the sizes to shared memory, before a barrier of the block, and return their address there."""
        if GROUPED or BY_K:
            for matrix in range(thread, count, THREADS):
                st_shared_b32(shared + 4 * matrix, ld_global_b32(sizes + 4 * matrix))
        return np.int64(shared)

    @composed
    def find(tile, place, m, across, count, sizes):
        """Return (matrix, its first tile, the first row of its group, the group's rows) of a tile.

        `place` is this of an earlier tile. Before the first of several matrices there is one without rows, number -1.
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
            found, _ = divided(tile, tiles)
            while BY_K and matrix < found:
                matrix, start = matrix + 1, start + rows
                rows = np.int64(ld_shared_b32(sizes + 4 * matrix)) if matrix < count else nothing
                rows = rows if rows < 2**31 else nothing
            matrix, first, rows = found, found * tiles, rows if BY_K else m
        return matrix, first, start, rows

    @composed
    def span(place, m, k):
        """Return (first row, rows, first element along K, elements along K) of the matrix at a place."""
        _, _, start, rows = place
        nothing = np.int64(0)
        return (nothing, m, start, rows) if BY_K else (start, rows, nothing, k)

    @composed
    def locate(tile, rows, across, band):
        """Return the first row and column of a tile of a matrix.

        Blocks compute `band` rows of tiles together, so that they find columns of B in the L2 cache. With groups, a
        constant is as good, and saves registers.
        """
        if GROUPED or BY_K:
            band = BAND
        above, within = divided(tile, band * across)
        high = max(min(band, (rows + TALL - 1) // TALL - band * above), 1)  # 1 after the last tile
        column, row = divided(within, high)
        return (band * above + row) * TALL, column * WIDE

    return keep, find, span, locate
