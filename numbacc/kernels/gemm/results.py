"""Stores of a part of a result: by the copy engine, from registers, or reduced along its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.device import (
    bar_warp_sync,
    cp_async_bulk_commit_group,
    cp_async_bulk_wait_group_read,
    fence_proxy_async,
    fragment_bits,
    fragment_map_positions,
    fragment_reduce_rows,
    quad_reduce,
    st_global_b32,
    st_global_part,
    st_shared_part_8bit,
    stmatrix_x4_xor,
    tma_store,
)
from ..primitives.device.attention_tiles import plus
from ..primitives.device.emitting import composed
from .operands import FORMATS, TILES
from .spec import COLUMNS, PART, GemmSpec


def store_box(spec: GemmSpec, number: int, stored: int, dtype: str) -> Any:
    """Return the function that stores a part by the copy engine; it clips what is beyond the result's bounds.

    Each warp stores its 16 rows. The last rows of a group are stored by the threads, since the rows after them belong
    to the next group.

    Args:
        number: the number of the result.
        stored: its number among those that are stored so.
    """
    (size, _, pack), step, is_grouped = FORMATS[dtype], sum(is_mapped for _, is_mapped in spec.outs), spec.is_grouped
    # Parts alternate between two places, also from one tile to the next if their number is even.
    ALTERNATES = step * spec.parts * spec.halves % 2 == 0
    by_threads, WARP = store_direct(number, dtype), 16 * COLUMNS * size // 2

    @composed
    def store(
        k, values, outs, out_pitches, row, column, rows, columns, tensor_map, staging, at, left, top, layer, thread,
        group, is_whole, earlier,
    ):  # fmt: skip
        if is_grouped and not is_whole:
            by_threads(k, values, outs, out_pitches, row, column, rows, columns)
        else:
            place = step * (earlier + k) + stored
            slot, warp, line = (place & 1) * PART, thread >> 5, (thread & 31) >> 2
            if thread & 31 == 0:
                if ALTERNATES or place > 0:
                    cp_async_bulk_wait_group_read(1)
                else:
                    cp_async_bulk_wait_group_read(0)
            bar_warp_sync()
            if size == 4:
                stmatrix_x4_xor(at + slot, pack(values), 32)
            else:
                first = staging + slot + WARP * warp
                st_shared_part_8bit(pack(values), first + 64 * line + 16 * ((line >> 1) & 3) + 2 * (thread & 3))
            fence_proxy_async()
            bar_warp_sync()
            if thread & 31 == 0:
                tma_store(tensor_map, (left + COLUMNS * k, top + 16 * warp, layer), staging + slot + WARP * warp)
                cp_async_bulk_commit_group()

    return store


@composed
def _larger(x, y):
    return x if x > y or x != x else y


@composed
def _smaller(x, y):
    return x if x < y or x != x else y


#: Reduction -> its function and the value that changes nothing.
REDUCTIONS = {"sum": (plus, 0.0), "max": (_larger, -np.inf), "min": (_smaller, np.inf)}


def store_reduced(number: int, name: str) -> Any:
    """Return the function that stores the reduction of each row of a part: a column of float32 for each part."""
    function, start = REDUCTIONS[name][0], np.float32(REDUCTIONS[name][1])

    @composed
    def existing(x, row, column, width):
        return x if column < width else start

    @composed
    def store(k, values, outs, out_pitches, row, column, rows, columns):
        width = columns - COLUMNS * k
        found = fragment_map_positions(existing, values, TILES, (width,))
        words = fragment_bits(quad_reduce(function, fragment_reduce_rows(function, found, TILES)))
        first = column & 7  # one of four threads stores
        place = outs[number] + row * out_pitches[number] + (column // COLUMNS + k) * 4
        if first == 0 and width > 0 and rows > 0:
            st_global_b32(place, words[0])
        if first == 0 and width > 0 and rows > 8:
            st_global_b32(place + 8 * out_pitches[number], words[1])

    return store


def store_direct(number: int, dtype: str) -> Any:
    """Return the function that stores a part from the threads' registers."""
    size, _, pack = FORMATS[dtype]
    item = size // 2

    @composed
    def store(k, values, outs, out_pitches, row, column, rows, columns):
        place = outs[number] + row * out_pitches[number] + (column + COLUMNS * k) * item
        st_global_part(pack(values), place, out_pitches[number], TILES, size, rows, columns - COLUMNS * k)

    return store
