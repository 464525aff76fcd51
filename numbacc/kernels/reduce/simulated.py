"""The intrinsics of `fold_lanes` in plain Python, for Numba's simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base.casts import cast, quietly
from ..primitives.simulated import _apply, _element


def nothing_to_do() -> None:
    """Simulated threads run one after the other, so they allocate shared memory one after the other, too."""


def _numbers(operand: Any, address: int, offset: int, width: int, is_loose: bool) -> list[Any]:
    """The numbers of `width` elements that lie next to each other."""
    if operand.repeated:
        found = [_element(address, offset, operand.dtype, 1)[0]] * width
    else:
        access = 1 if is_loose else operand.access
        parts = [_element(address, offset + start, operand.dtype, access) for start in range(0, width, access)]
        found = [value for part in parts for value in part]
    # As compiled code does, differences of truth values count.
    kind = np.dtype("int8" if operand.number == "bool" else operand.number)
    return [cast(value, kind)[()] for value in found]


def make_loads(rows: Sequence[Any], width: int, runs: int, index: str) -> dict[str, Any]:
    """See `lanes.loads`."""

    def load(addresses: Any, at: Any, step: int, is_loose: bool = False) -> Any:
        found: list[list[Any]] = [[] for _ in range(len(rows) + bool(index))]
        for offsets in at:
            for k, operand in enumerate(rows):
                found[k] += _numbers(operand, addresses[k], offsets[k], width, is_loose)
            if index:
                found[-1] += [np.dtype(index).type(offsets[-1] + lane * step) for lane in range(width)]
        return tuple(map(tuple, found))

    # Words are the numbers in them.
    return {"load_runs": load, "load_words": load, "load_loose": partial(load, is_loose=True)}


def put_numbers(operand: Any, address: int, offset: int, numbers: Sequence[Any]) -> None:
    """Put numbers next to each other, in the operand's accesses."""
    for start in range(0, len(numbers), operand.access):
        target = _element(address, offset + start, operand.dtype, operand.access, True)
        with quietly():
            target[...] = cast(np.asarray(numbers[start : start + operand.access]), target.dtype)


def make_parts(names: Sequence[str], starts: Sequence[Any], count: str) -> dict[str, Any]:
    """See `lanes.parts_of`."""
    dtypes = [np.dtype(name) for name in names]

    def called(formula: Callable[..., Any], numbers: Sequence[Any], scalars: Sequence[Any] = ()) -> tuple[Any, ...]:
        found = _apply(formula, tuple(numbers), tuple(scalars))
        return tuple(cast(value, dtype)[()] for value, dtype in zip(found, dtypes, strict=True))

    def by_part(lanes: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
        return tuple(zip(*lanes, strict=True))

    def by_lane(parts: Any) -> list[tuple[Any, ...]]:
        return list(zip(*parts, strict=True))

    def start(lanes: int) -> Any:
        return lambda: by_part([tuple(starts)] * lanes)

    def first(function: Any, values: Any, scalars: Any) -> Any:
        if function is None:
            return values
        return by_part([called(function, numbers, scalars) for numbers in by_lane(values)])

    def join(merge: Any, parts: Any, others: Any) -> Any:
        pairs = zip(by_lane(parts), by_lane(others), strict=True)
        return by_part([called(merge, one + other) for one, other in pairs])

    def merged(merge: Any, numbers: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        if len(numbers) == 1:
            return numbers[0]
        return called(merge, merged(merge, numbers[::2]) + merged(merge, numbers[1::2]))

    def fold(lanes: int) -> Any:
        def folded(merge: Any, parts: Any) -> Any:
            found = by_lane(parts)
            return by_part([merged(merge, found[lane::lanes]) for lane in range(lanes)])

        return folded

    def fold_some(merge: Any, parts: Any, inside: Any) -> Any:
        found = by_lane(parts)
        each = len(found) // len(inside)
        runs = [merged(merge, found[run * each : (run + 1) * each]) for run in range(len(inside))]
        return by_part(
            [merged(merge, [run if is_in else tuple(starts) for run, is_in in zip(runs, inside, strict=True)])]
        )

    def put(cells: Any, lane: int, thread: int, parts: Any) -> None:
        for k, numbers in enumerate(by_lane(parts)):
            cells[lane + k, thread] = numbers

    def take(cells: Any, lane: int, thread: int) -> Any:
        return by_part([cells[lane, thread]])

    def gain(merge: Any, cells: Any, thread: int, parts: Any) -> None:
        for lane, numbers in enumerate(by_lane(parts)):
            cells[lane, thread] = called(merge, cells[lane, thread] + numbers)

    def finish(function: Any, parts: Any, number: int, scalars: Any) -> Any:
        own = tuple(part[0] for part in parts)
        return own if function is None else _apply(function, (*own, cast(number, np.dtype(count))[()]), scalars)

    return {
        "tools": SimpleNamespace(called=called, by_part=by_part, by_lane=by_lane, starts=tuple(starts)),
        "enter": nothing_to_do,
        "leave": nothing_to_do,
        "start": start,
        "first": first,
        "fold": fold,
        "fold_some": fold_some,
        "join": join,
        "put": put,
        "gain": gain,
        "take": take,
        "finish": finish,
    }


def make_chunks(names: Sequence[str], starts: Sequence[Any], count: str) -> Any:
    """See `block_partials.make_chunks`."""
    dtypes, real = [np.dtype(name) for name in names], np.dtype(count)

    def tree(merge: Any, rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        return rows[0] if len(rows) == 1 else _apply(merge, (*tree(merge, rows[::2]), *tree(merge, rows[1::2])), ())

    def as_parts(function: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        found = zip(_apply(function, given, ()), dtypes, strict=True)
        return tuple(cast(value, dtype)[()] for value, dtype in found)

    def make(lanes: int, most: int | None) -> Any:
        def folded(
            first: Any, merge_first: Any, middle: Any, second: Any, merge_second: Any, finish: Any, join: Any,
            values: Any, scalars: Any,
        ) -> Any:  # fmt: skip
            def of_some(rows: list[Any]) -> tuple[Any, ...]:
                how_many = real.type(len(rows))
                firsts = [_apply(first, row, scalars) for row in rows]
                known = _apply(middle, (*tree(merge_first, firsts), how_many), ())
                seconds = [_apply(second, (*row, *known, *starts), ()) for row in rows]
                return as_parts(finish, (*known, *tree(merge_second, seconds), how_many))

            all_rows, found = list(zip(*values, strict=True)), []
            for lane in range(lanes):
                rows = all_rows[lane::lanes]
                step = most or len(rows)
                own = [of_some(rows[k : k + step]) for k in range(0, len(rows), step)]
                found.append(reduce(lambda one, other: as_parts(join, one + other), own))
            return tuple(zip(*found, strict=True))

        return folded

    return make


def make_places(place: Any, spec: Any, names: Sequence[str]) -> SimpleNamespace:
    """See `arg_reduce.make_places`."""
    dtypes = [np.dtype(name) for name in names]

    def tree(merge: Any, numbers: Sequence[Any]) -> Any:
        if len(numbers) == 1:
            return numbers[0]
        return _apply(merge, (tree(merge, numbers[::2]), tree(merge, numbers[1::2])), ())[0]

    def among(lanes: int, width: int, in_words: bool) -> Any:
        def equal(best: Any, values: Any, step: int) -> Any:
            ends = []
            for lane in range(lanes):
                numbers, at = (row[lane::lanes] for row in values)
                whole = tree(best, numbers)
                where = at[numbers.index(whole)] if whole in numbers else at[-1]
                ends.append([cast(value, dtype)[()] for value, dtype in zip((whole, where), dtypes, strict=True)])
            return tuple(zip(*ends, strict=True))

        def nan(parts: Any, values: Any, step: int) -> Any:
            wheres = list(parts[1])
            for lane in range(lanes):
                if parts[0][lane] != parts[0][lane]:
                    numbers, at = (row[lane::lanes] for row in values)
                    wheres[lane] = dtypes[1].type(next(i for x, i in zip(numbers, at, strict=True) if x != x))
            return parts[0], tuple(wheres)

        return equal, nan

    def has_nan(parts: Any) -> bool:
        return any(number != number for number in parts[0])

    return SimpleNamespace(among=among, has_nan=has_nan)
