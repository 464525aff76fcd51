"""The intrinsics of `depthwise_tiles` in plain Python, for Numba's simulator."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...base._numba import types
from ...base.casts import cast, quietly
from ...base.dtypes import TABLE
from ..primitives.operands import Operand
from ..primitives.partials import nothing_to_do
from ..primitives.runs import put_numbers
from ..primitives.simulated import _element, _map_lanes, _unravel
from .depthwise_spec import DEPTHWISE_THREADS, DepthwiseSpec, meetings


def make_tiles(spec: DepthwiseSpec, operand: Any, pieces: Any) -> dict[str, Any]:
    """See `depthwise_tiles.tiles_of`."""
    real, width, half = getattr(np, spec.compute), spec.width, DEPTHWISE_THREADS // 2
    rows, columns = meetings(spec, 0), meetings(spec, 1)
    places = list(product(*map(range, spec.tile)))

    def there(offset: int, place: Any, sizes: Any, steps: Any, row: int, column: int) -> int | None:
        """The offset of what lies so many rows and columns behind a place; None outside of the image."""
        if not (0 <= place[0] + row < sizes[0] and 0 <= place[1] + column < sizes[1]):
            return None
        return int(offset) + row * int(steps[1]) + column * int(steps[2])

    def numbers(address: int, at: int | None) -> Any:
        if at is None:
            return np.zeros(width, real)
        return cast(_element(address, at, operand.dtype, width), np.dtype(real))

    def flat(found: Any) -> tuple[Any, ...]:
        return tuple(real(number) for each in found for number in each)

    def taps_met() -> Any:
        """(row, column) of an element, and of the place and the tap that it meets."""
        for (i, down), (j, across) in product(rows.items(), columns.items()):
            for (p, r), (q, s) in product(down, across):
                yield i, j, (p, q), r * spec.taps[1] + s

    def slot(tap: int, lane: int, k: int) -> Any:
        return pieces.start(tap, k // pieces.size) + lane * pieces.size + k % pieces.size

    def weight(cells: Any, tap: int, lane: int) -> Any:
        return np.array([cells[slot(tap, lane, k)] for k in range(width)], real)

    def split(tile: int, tall: int, wide: int) -> Any:
        return _unravel(tile, (1, tall, wide))

    def put(cells: Any, tap: int, channel: int, number: Any) -> None:
        lane, piece, rest = pieces.split(int(channel))
        cells[slot(int(tap), lane, piece * pieces.size + rest)] = number

    def sweep(
        formula: Any, addresses: Any, offsets: Any, start: Any, place: Any, x_sizes: Any, y_sizes: Any, x_steps: Any,
        y_steps: Any, cells: Any, lane: int, factors: Any,
    ) -> None:  # fmt: skip
        sums = {each: np.zeros(width, real) for each in places}
        for i, j, each, tap in taps_met():
            found = numbers(addresses[0], there(offsets[0], start, x_sizes, x_steps, i, j))
            with quietly():
                sums[each] = sums[each] + found * weight(cells, tap, lane)
        for (p, q), total in sums.items():
            at = there(offsets[1], place, y_sizes, y_steps, p, q)
            if at is not None:
                own = [total]
                if spec.adds:
                    own.append(numbers(addresses[1], at))
                if spec.biased:
                    own.append(weight(cells, prod(spec.taps), lane))
                found = _map_lanes(formula, tuple(map(tuple, own)), factors if spec.scaled else ())[0]
                put_numbers(operand, addresses[-1], at, found)

    def nothing() -> Any:
        return (real(0),) * (prod(spec.taps) * width)

    def collect(
        sums: Any, addresses: Any, offsets: Any, start: Any, place: Any, x_sizes: Any, y_sizes: Any, x_steps: Any,
        y_steps: Any,
    ) -> Any:  # fmt: skip
        found = np.array(sums, real).reshape(-1, width)
        for i, j, (p, q), tap in taps_met():
            x = numbers(addresses[0], there(offsets[0], start, x_sizes, x_steps, i, j))
            dy = numbers(addresses[1], there(offsets[1], place, y_sizes, y_steps, p, q))
            with quietly():
                found[tap] += x * dy
        return flat(found)

    def put_sums(cells: Any, thread: int, sums: Any) -> None:
        for k, number in enumerate(sums):
            cells[k * half + thread] = number

    def gain(cells: Any, thread: int, sums: Any) -> Any:
        with quietly():
            return tuple(number + cells[k * half + thread] for k, number in enumerate(sums))

    def store_sums(address: int, offset: int, step: int, sums: Any) -> None:
        own = Operand(TABLE[spec.compute], spec.compute, width, False)
        for tap in range(prod(spec.taps)):
            put_numbers(own, address, offset + tap * step, sums[tap * width : (tap + 1) * width])

    return {
        "shared": lambda count: (count, getattr(types, spec.compute), None),
        "enter": nothing_to_do,
        "leave": nothing_to_do,
        "split": split,
        "put": put,
        "sweep": sweep,
        "nothing": nothing,
        "collect": collect,
        "put_sums": put_sums,
        "gain": gain,
        "store_sums": store_sums,
    }
