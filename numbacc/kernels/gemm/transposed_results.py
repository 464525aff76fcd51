"""Stores of a part of a transposed result, whose columns are rows in memory, by the copy engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.device import (
    bar_sync,
    cp_async_bulk_commit_group,
    cp_async_bulk_wait_group_read,
    fence_proxy_async,
    stmatrix_x4_trans,
    tma_store,
)
from ..primitives.device.emitting import composed
from .operands import FORMATS
from .spec import COLUMNS, PART, ROW, GemmSpec


def store_transposed(spec: GemmSpec, dtype: str, tiles: int) -> Any:
    """Return the function that stores a part of 16-bit results transposed, by the copy engine.

    Columns of the part are rows of 128 bytes in shared memory, 16 of them for each `stmatrix`: zeros follow an odd
    number of 8-column tiles.
    """
    pack, STEP, LAST = FORMATS[dtype][2], 16 * ROW, spec.slots - 1
    ALTERNATES = LAST and (spec.parts + (spec.rest > 0)) * spec.halves % 2 == 0

    if tiles % 2:
        space: dict[str, Any] = {"none": np.uint32(0)}
        words = "".join(f"words[{k}], " for k in range(2 * tiles))
        exec(f"def fill(words):\n    return ({words}none, none)\n", space)
        filled = composed(space["fill"])
    else:

        @composed
        def filled(words):
            return words

    @composed
    def store(
        k, values, outs, out_pitches, row, column, rows, columns, tensor_map, staging, at, left, top, layer, thread,
        group, is_whole, earlier,
    ):  # fmt: skip
        place = earlier + k
        slot = (place & LAST) * PART
        if thread == 0:
            if ALTERNATES or (LAST and place > 0):
                cp_async_bulk_wait_group_read(1)
            else:
                cp_async_bulk_wait_group_read(0)
        bar_sync(1 + group, 128)
        stmatrix_x4_trans(at + slot, filled(pack(values)), STEP)
        fence_proxy_async()
        bar_sync(1 + group, 128)
        if thread == 0:
            tma_store(tensor_map, (top, left + COLUMNS * k, layer), staging + slot)
            cp_async_bulk_commit_group()

    return store
