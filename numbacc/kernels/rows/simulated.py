"""The intrinsics of `row_lanes` and `row_rings` in plain Python, for Numba's simulator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.casts import cast, quietly
from ...base.dtypes import TABLE
from ...runtime.launch_order import VECTOR_BYTES
from ..primitives.runs import numbers_at, put_numbers
from ..primitives.simulated import _apply, _element


@cuda.jit(device=True)
def kept_memory() -> Any:
    """The shared memory that a launch asks for."""
    return cuda.shared.array(0, np.dtype(np.uint8))


#: What a row in registers has of shared memory.
_NOTHING = np.empty(0, np.uint8)


def make_keeping(spec: Any, reads: Sequence[Any], writes: Sequence[Any], runs: int) -> dict[str, Any]:
    """See `load_store.keeping`."""
    width, results, kept = spec.width, len(spec.writes) - spec.stats, spec.kept

    def kept_at(tile: Any, slot: int, step: int, k: int, run: int, operand: Any) -> Any:
        """What the tile has of a run of input k."""
        start = (slot + (run * kept + k) * step) * spec.access_bytes
        return tile[start : start + spec.access_bytes].view(operand.dtype.numpy)

    def bring(addresses: Any, at: Any, tile: Any, slot: int, step: int) -> None:
        for run, offsets in enumerate(at):
            for k, operand in enumerate(reads[:kept]):
                source = _element(addresses[k], offsets[k], operand.dtype, width, False)
                kept_at(tile, slot, step, k, run, operand)[:] = source

    def loading(which: range, takes: bool = False) -> Any:
        def load(addresses: Any, at: Any, tile: Any = _NOTHING, slot: int = 0, step: int = 0) -> Any:
            found: list[list[Any]] = [[] for _ in which]
            for run, offsets in enumerate(at):
                for k, operand in enumerate(reads):
                    if k not in which:
                        continue
                    if takes and k < kept:
                        cell = kept_at(tile, slot, step, k, run, operand)
                        values = [cast(value, np.dtype(operand.number))[()] for value in cell]
                    else:
                        values = numbers_at(operand, addresses[k], offsets[k], width, False)
                    found[k - which.start] += values
            return tuple(map(tuple, found))

        return load

    def put(address: int, offset: int, dtype: Any, values: Sequence[Any]) -> None:
        target = _element(address, offset, dtype, len(values), True)
        with quietly():
            target[...] = cast(np.asarray(values), target.dtype)

    def store(addresses: Any, at: Any, values: Any, inside: Any) -> None:
        for run, offsets in enumerate(at):
            for k, operand in enumerate(writes[:results]):
                for start in range(0, width, operand.access):
                    first = run * width + start
                    if inside[run if len(inside) > 1 else 0]:
                        own = values[k][first : first + operand.access]
                        put(addresses[k], offsets[k] + start, operand.dtype, own)

    def noting(which: range) -> Any:
        def note(addresses: Any, at: Any, values: Any) -> None:
            for k in which:
                put(addresses[k], at[k], writes[k].dtype, values[k - results : k - results + 1])

        return note

    every = range(len(reads))
    return {
        "load": loading(every),
        "again": loading(every, takes=True),
        "bring": bring,
        "arrived": lambda: None,
        "first": loading(range(kept)),
        "rest": loading(range(kept, len(reads))),
        "store": store,
        "note": noting(range(results + (spec.total is not None), len(writes))),
        "note_total": noting(range(results, results + 1)),
    }


def make_words(spec: Any, operand: Any) -> dict[str, Any]:
    """See `packed.in_words`: numbers stand for their words."""

    def words(addresses: Any, at: Any) -> Any:
        return tuple([n for offsets in at for n in numbers_at(operand, addresses[0], offsets[0], spec.width, False)])

    def largest(words: Any, inside: Any) -> Any:
        each = len(words) // len(inside)
        own = [n if inside[k // each] else np.float32(-np.inf) for k, n in enumerate(words)]
        return ((np.max(own[::2]), np.max(own[1::2])),)

    return {"words": words, "numbers": lambda words: (words,), "largest": largest}


def make_ring(
    spec: Any, formulas: Any, reads: Sequence[Any], writes: Sequence[Any], kept: Any, others: Any, unit: int
) -> dict[str, Any]:
    """See `async_pipeline.ring`. What is copied is there at once."""
    width, runs, parts = spec.rows.width, spec.rows.runs, spec.parts
    lanes = runs * width

    def at(tile: Any, place: Any, cell: Any, slot: Any = None) -> Any:
        thread, threads, rank, group = place
        start = group * cell.before + rank * cell.nbytes
        if slot is not None:
            start = (
                -(-group * others[1] // VECTOR_BYTES) * VECTOR_BYTES
                + threads * (slot * kept[1] + cell.before)
                + thread * cell.nbytes
            )
        return tile[start : start + cell.nbytes]

    def copied(cells: Any, given: Any, place: Any, tile: Any, slot: Any = None) -> None:
        addresses, offsets, inside = given
        for cell in cells:
            if inside[cell.run]:
                operand = reads[cell.operand]
                offset = offsets[cell.run][cell.operand] + cell.start
                source = _element(addresses[cell.operand], offset, operand.dtype, operand.access)
                at(tile, place, cell, slot)[...] = source.view(np.uint8)

    def fetch(addresses: Any, offsets: Any, inside: Any, place: Any, slot: int, tile: Any) -> None:
        copied(kept[0], (addresses, offsets, inside), place, tile, slot)

    def fetch_weights(addresses: Any, offsets: Any, inside: Any, place: Any, tile: Any) -> None:
        copied(others[0], (addresses, offsets, inside), place, tile)

    def nothing() -> None:
        pass

    def take(place: Any, slot: int, tile: Any) -> Any:
        """The numbers of all inputs, lane by lane."""
        found: list[list[Any]] = [[None] * lanes for _ in reads]
        for cells, where in ((kept[0], slot), (others[0], None)):
            for cell in cells:
                operand, first = reads[cell.operand], cell.run * width + cell.start
                elements = at(tile, place, cell, where).view(operand.dtype.numpy)
                numbers = [cast(value, np.dtype(operand.number))[()] for value in elements]
                found[cell.operand][first : first + len(numbers)] = numbers
        return list(zip(*found, strict=True))

    def gathering(stage: SimpleNamespace) -> Any:
        tools, of_numbers, merge = stage.tools, stage.function, stage.merge

        @cuda.jit(device=True)
        def gather(row: Any, inside: Any, given: Any) -> Any:
            found = []
            for run, is_in in enumerate(inside):
                own = [tools.called(of_numbers, each, given) for each in row[run * width : (run + 1) * width]]
                merged = reduce(lambda one, other: tools.called(merge, one + other), own)
                found.append(merged if is_in else tools.starts)
            return tools.by_part([reduce(lambda one, other: tools.called(merge, one + other), found)])

        return gather

    def some(first: int, many: int) -> Any:
        def numbers(row: Any) -> Any:
            return tuple(zip(*row[first * width : (first + many) * width], strict=True))

        return numbers

    function, adding = formulas if parts else (*formulas, None)

    def finish(
        sums: Any, row: Any, addresses: Any, offsets: Any, inside: Any, results: Any, scalars: Any, ahead: Any
    ) -> Any:
        if ahead:
            sources, places, is_there, place, slot, tile = ahead
            if is_there:
                fetch(sources, places, inside, place, slot, tile)
        values = zip(*(_apply(function, each, (*results, *scalars)) for each in row), strict=True)
        for operand, address, k, numbers in zip(writes, addresses, range(len(writes)), values, strict=False):
            for run in range(runs):
                if inside[run]:
                    own = numbers[run * width : (run + 1) * width]
                    put_numbers(operand, address, offsets[run][k], own)
        if adding is None:
            return sums
        found = zip(*(_apply(adding, each, results) for each in row), strict=True)
        return tuple(map(tuple, np.array(sums, np.float32) + np.array(list(found), np.float32)))

    def begin() -> Any:
        return ((np.float32(0),) * lanes,) * parts

    def own(tile: Any, place: Any) -> Any:
        thread, threads = place
        units = tile[: 4 * parts * lanes * threads].view(np.float32).reshape(-1, threads, unit)
        return units[:, thread]

    def put(place: Any, sums: Any, tile: Any) -> None:
        own(tile, place)[...] = np.array(sums, np.float32).reshape(-1, unit)

    def gain_from(place: Any, sums: Any, tile: Any) -> Any:
        return tuple(map(tuple, np.array(sums, np.float32) + own(tile, place).reshape(parts, lanes)))

    def flush(addresses: Any, offsets: Any, sums: Any, inside: Any) -> None:
        for part, address in enumerate(addresses[-parts:]):
            for run in range(runs):
                for start in range(0, width * inside[run], unit):
                    target = _element(address, offsets[run] + start, TABLE["float32"], unit, True)
                    first = run * width + start
                    target[...] = sums[part][first : first + unit]

    tools = (fetch, fetch_weights, take, gathering, some, finish, begin, put, gain_from, flush)
    return {each.__name__: each for each in tools} | {"commit": nothing, "wait": nothing}
