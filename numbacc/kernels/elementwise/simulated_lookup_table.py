"""The intrinsics of `tabulated_lanes` in plain Python, for Numba's simulator: each block makes a table of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.casts import cast, quietly
from ..primitives.simulated import _element


def make_tabulating(read: Any, write: Any, width: int, pieces: int) -> dict[str, Any]:
    """See `lookup_table_lanes.tabulating`."""

    def patterns(group: int) -> Any:
        bits = np.arange(group * width, (group + 1) * width).astype(np.uint16)
        return (tuple(cast(bits.view(read.dtype.numpy), np.dtype(read.number))),)

    def packed(values: Any) -> Any:
        with quietly():
            return cast(np.asarray(values[0]), write.dtype.numpy)

    def put(tile: Any, group: int, results: Any, block: int) -> None:
        start = group * results.nbytes
        tile[start : start + results.nbytes] = results.view(np.uint8)

    def replace(tile: Any, source: tuple[int, int], target: tuple[int, int], count: int) -> None:
        bits = _element(*source, read.dtype, count).view(np.uint16)
        _element(*target, write.dtype, count, True)[...] = tile.view(write.dtype.numpy)[bits]

    def look_up(tile: Any, addresses: Any, at: Any, targets: Any, to: Any, step: int) -> None:
        for start in range(0, pieces * step, step):
            replace(tile, (addresses[0], at[0] + start), (targets[0], to[0] + start), width)

    def look_up_element(tile: Any, addresses: Any, at: Any, targets: Any, to: Any) -> None:
        replace(tile, (addresses[0], at[0]), (targets[0], to[0]), 1)

    @cuda.jit(device=True)
    def meet() -> None:
        cuda.syncthreads()

    return {
        "patterns": patterns,
        "packed": packed,
        "put": put,
        "arrive": meet,
        "wait": meet,
        "look_up": look_up,
        "look_up_element": look_up_element,
    }
