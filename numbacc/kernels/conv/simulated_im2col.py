"""The intrinsics of `windows` in plain Python, for Numba's simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import TABLE
from ..primitives.simulated import _element, _unravel
from .im2col_spec import WINDOW_LANES, WindowsSpec

_WORDS = TABLE["uint16"]


def make_moves(spec: WindowsSpec) -> dict[str, Any]:
    """See `im2col.moves_of`."""

    def split(number: int, outer: int, inner: int) -> Any:
        return _unravel(number, (1, outer, inner))

    def look(cell: int, width: int, steps: Any, across: int, apart: int, left: int) -> Any:
        column, piece = divmod(int(cell), spec.pitch // WINDOW_LANES)
        found = []
        for channel in range(piece * WINDOW_LANES, (piece + 1) * WINDOW_LANES):
            a, t, c = _unravel(channel, (1, spec.columns, spec.channels))
            there = column * across + t * apart - left
            is_there = 0 <= there < width and a < spec.rows
            found.append((a, a * steps[0] + there * steps[1] + c * steps[2]) if is_there else None)
        return tuple(found)

    def move(source: int, row: int, height: int, places: Any, target: int) -> None:
        found = np.zeros(WINDOW_LANES, np.uint16)
        for lane, place in enumerate(places):
            if place is not None and 0 <= row + place[0] < height:
                found[lane] = _element(source, place[1], _WORDS, 1)[0]
        _element(target, 0, _WORDS, WINDOW_LANES, True)[...] = found

    return {"split": split, "look": look, "move": move, "below": lambda row: row + 1}
