"""Rows in flight to shared memory, where a block processes them, and sums over all rows.

Each thread copies its part of a row into its own cells of shared memory, some rows ahead, and reads no other cells.
Thus it waits only for its own copies. In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...base.casts import cast
from ...base.dtypes import TABLE
from ...runtime.launch_order import VECTOR_BYTES
from .operands import Operand

if SIMULATED:
    from .runs import put_numbers
    from .simulated import _apply, _element
else:
    from ...base._numba import intrinsic, ir
    from . import formats
    from .formats import I32, I64
    from .instructions import assembly, copies_ahead, copy_ahead, kept_pointer, tell_copies
    from .load_store import address_of, aggregate, lanes_type, pointer_to, resized
    from .operands import call_of, results_of
    from .runs import numbers_of, put_run

    FLOAT = ir.FloatType()

__all__ = ["ring"]

#: float32 elements in an access of shared memory.
_WORDS = VECTOR_BYTES // 4


class SharedCell(NamedTuple):
    """An access of a thread in shared memory.

    Attributes:
        operand, run: number of the input, and of the run of that input.
        start: elements before it in its run.
        before: bytes of each thread before it.
        nbytes: bytes of this access.
    """

    operand: int
    run: int
    start: int
    before: int
    nbytes: int


def _cells(rows: Sequence[Operand], which: range, width: int, runs: int) -> tuple[list[SharedCell], int]:
    """Return the accesses of these inputs, and their total bytes."""
    found, before = [], 0
    for k in which:
        nbytes = rows[k].access * rows[k].dtype.itemsize
        for run in range(runs):
            for start in range(0, width, rows[k].access):
                found.append(SharedCell(k, run, start, before, nbytes))
                before += nbytes
    return found, before


@lru_cache(maxsize=64)
def ring(
    reads: tuple[str, ...], writes: tuple[str, ...], compute: str, width: int, runs: int, kept: int, held: int,
    left: int, formula: Any, adding: Any, parts: int,
) -> SimpleNamespace:  # fmt: skip
    """Return the intrinsics for rows in flight and for sums over all rows.

    `place` is (a thread's number in its block, threads in the block, its number in its group, threads in the group);
    for sums it has only the first two. `slot` is the slot number of a row in flight.

    Args:
        reads, writes: names of the inputs' and outputs' dtypes.
        compute: name of the dtype that elements are converted to.
        width, runs: a thread makes `runs` accesses of `width` elements of each input.
        kept: number of inputs, counted from the first, that are rows; the others are the same for all rows.
        held: number of inputs, counted from the first, whose elements a thread holds in registers.
        left: how many rows may still be in flight when `wait` returns.
        formula: the device function that computes the outputs, from the elements of all inputs, the stages' results and
            the scalars.
        adding: the device function that computes the terms to sum, from the elements and the results; None if nothing
            is summed.
        parts: number of these sums.

    Returns:
        a namespace of
        ``fetch(addresses, at, inside, place, slot, tile)``: start to copy the kept inputs of a row, for runs that are
        inside, given the offsets into all inputs for each run; ``fetch_weights(addresses, at, inside, place, tile)``:
        the same for the other inputs;
        ``commit()``: end the copies of one row (or of none); ``wait()``: wait until the next row has arrived;
        ``take(place, slot, tile)``: that row, as the other functions receive it: the elements of held inputs, and the
        location of the others;
        ``gathering(stage)``: the function (row, inside, given) -> one thread's partial results of a stage;
        ``some(first, many)``: the function (row) -> the elements of all inputs in `many` runs;
        ``finish(sums, row, addresses, at, inside, results, scalars, ahead)``: store the results of a row's formula, and
        return the sums including the terms of `adding`. If `ahead` is (addresses, at, whether the row exists, place,
        slot, tile) of another row, `fetch` each of its runs as soon as that run's elements have been read; () for none;
        ``begin()``: sums of 0; ``put(place, sums, tile)``, ``gain_from(place, sums, tile)``: store sums to shared
        memory, and add those from there;
        ``flush(addresses, at, sums, inside)``: store them in the last arrays, consecutively for each run.
    """
    rows = tuple(Operand(TABLE[name], compute, width, False) for name in reads)
    results = tuple(Operand(TABLE[name], "", width, False) for name in writes)
    own = _cells(rows, range(kept), width, runs)
    others = _cells(rows, range(kept, len(rows)), width, runs)
    sums = parts, min(width, _WORDS)
    return SimpleNamespace(
        **make_ring(rows, results, own, others, (width, runs), (held, left), (formula, adding), sums)
    )


if SIMULATED:

    def make_ring(
        reads: Sequence[Any], writes: Sequence[Any], kept: Any, others: Any, accesses: tuple[int, int],
        waits: tuple[int, int], formulas: tuple[Any, Any], sums: tuple[int, int],
    ) -> dict[str, Any]:  # fmt: skip
        """Return the functions of `ring`. Copies are complete at once."""
        (width, runs), (parts, unit), (function, adding) = accesses, sums, formulas
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
            """Return the elements of all inputs, lane by lane."""
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

else:

    def make_ring(
        reads: Sequence[Any], writes: Sequence[Any], kept: Any, others: Any, accesses: tuple[int, int],
        waits: tuple[int, int], formulas: tuple[Any, Any], sums: tuple[int, int],
    ) -> dict[str, Any]:  # fmt: skip
        (width, runs), (held, left), (parts, unit), (function, adding) = accesses, waits, sums, formulas
        lanes, pieces = runs * width, width // unit
        sums_type = types.Tuple([types.UniTuple(types.float32, lanes)] * parts)
        vector = ir.VectorType(FLOAT, unit) if unit > 1 else FLOAT
        number_types, nowhere = [kind.dtype for kind in lanes_type(reads, len(reads), lanes)], I32(0)

        def numbers_in(builder: Any, place: Any, first: int) -> list[Any]:
            """Return a thread's number and the number of threads, in its block or (if `first` is 2) in its group."""
            return [resized(builder, builder.extract_value(place, first + k), I32) for k in range(2)]

        def pointer(builder: Any, own: Any, before: Any, nbytes: int, kind: Any, start: Any = nowhere) -> Any:
            """Return a pointer to a thread's shared memory, `before` bytes per thread after `start`."""
            thread, threads = own
            start = builder.add(start, builder.add(builder.mul(threads, before), builder.mul(thread, I32(nbytes))))
            return kept_pointer(builder, start, kind)

        def pointer_of(builder: Any, place: Any, cell: SharedCell, slot: Any = None) -> Any:
            """Return a pointer to an access of a row in its slot, or of the weights, which a block's groups share."""
            kind, group = kind_of(cell), numbers_in(builder, place, 2)
            if slot is None:
                return pointer(builder, group, I32(cell.before), cell.nbytes, kind)
            before = builder.add(builder.mul(resized(builder, slot, I32), I32(kept[1])), I32(cell.before))
            # For few threads, the weights' size is not always a multiple of an access.
            start = builder.mul(group[1], I32(others[1]))
            if others[1] % VECTOR_BYTES:
                start = builder.and_(builder.add(start, I32(VECTOR_BYTES - 1)), I32(-VECTOR_BYTES))
            return pointer(builder, numbers_in(builder, place, 0), before, cell.nbytes, kind, start)

        def kind_of(cell: SharedCell) -> Any:
            operand = reads[cell.operand]
            return formats.moved_type(operand.dtype, operand.access)

        def copy(builder: Any, source: Any, target: Any, nbytes: int) -> None:
            if copies_ahead(nbytes):
                copy_ahead(builder, builder.ptrtoint(source, I64), target, nbytes)
            else:
                builder.store(builder.load(source, align=nbytes), target, align=nbytes)

        def copied(builder: Any, cells: list[SharedCell], given: Any, place: Any, slot: Any = None) -> None:
            addresses, at, inside = given
            for run in sorted({cell.run for cell in cells}):
                offsets = builder.extract_value(at, run)
                with builder.if_then(builder.extract_value(inside, run)):
                    for cell in cells:
                        if cell.run != run:
                            continue
                        size = reads[cell.operand].dtype.itemsize
                        start = address_of(builder, (addresses, offsets), cell.operand, size)
                        source = pointer_to(builder, builder.add(start, I64(cell.start * size)), kind_of(cell))
                        copy(builder, source, pointer_of(builder, place, cell, slot), cell.nbytes)

        @intrinsic
        def fetch(typing: Any, addresses: Any, at: Any, inside: Any, place: Any, slot: Any, tile: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                copied(builder, kept[0], args[:3], args[3], args[4])
                return context.get_dummy_value()

            return types.void(addresses, at, inside, place, slot, tile), generate

        @intrinsic
        def fetch_weights(typing: Any, addresses: Any, at: Any, inside: Any, place: Any, tile: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                copied(builder, others[0], args[:3], args[3])
                return context.get_dummy_value()

            return types.void(addresses, at, inside, place, tile), generate

        def telling(text: str) -> Any:
            @intrinsic
            def tell(typing: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    tell_copies(builder, text)
                    return context.get_dummy_value()

                return types.void(), generate

            return tell

        def numbers_at(context: Any, builder: Any, given: Any, run: int) -> list[list[Any]]:
            """Return the elements of each input in a run, from the result of `take`."""
            found = [[builder.extract_value(given, (k, run * width + j)) for j in range(width)] for k in range(held)]
            if held == len(reads):
                return found
            # Read them here, not earlier: otherwise the compiler would hold the elements of all runs in registers at
            # once.
            assembly(builder, ir.VoidType(), "", "~{memory}", [], "convergent")
            place, slot = (builder.extract_value(given, held + k) for k in range(2))
            return found + read_at(context, builder, place, slot, run)[held:]

        def read_at(context: Any, builder: Any, place: Any, slot: Any, run: int) -> list[list[Any]]:
            """Return the elements of each input in a run, from shared memory; unused elements are not read."""
            found: list[list[Any]] = [[] for _ in reads]
            for cells, own in ((kept[0], slot), (others[0], None)):
                for cell in cells:
                    if cell.run == run:
                        operand, bits = reads[cell.operand], builder.load(pointer_of(builder, place, cell, own))
                        found[cell.operand] += numbers_of(context, builder, operand, bits, operand.access)
            return found

        @intrinsic
        def take(typing: Any, place: Any, slot: Any, tile: Any) -> Any:
            result = types.Tuple([*lanes_type(reads, len(reads), lanes).types[:held], place, slot])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {held + k: args[k] for k in range(2)}
                for run in range(runs if held else 0):
                    for k, numbers in enumerate(read_at(context, builder, args[0], args[1], run)[:held]):
                        items |= {(k, run * width + j): number for j, number in enumerate(numbers)}
                return aggregate(context, builder, result, items)

            return result(place, slot, tile), generate

        def some(first: int, many: int) -> Any:
            @intrinsic
            def numbers(typing: Any, row: Any) -> Any:
                result = lanes_type(reads, len(reads), many * width)

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    items: dict[Any, Any] = {}
                    for run in range(many):
                        for k, found in enumerate(numbers_at(context, builder, args[0], first + run)):
                            items |= {(k, run * width + j): number for j, number in enumerate(found)}
                    return aggregate(context, builder, result, items)

                return result(row), generate

            return numbers

        def gathering(stage: SimpleNamespace) -> Any:
            tools, of_numbers, merge_all = stage.tools, stage.function, stage.merge

            @intrinsic
            def gather(typing: Any, function: Any, merge: Any, row: Any, inside: Any, given: Any) -> Any:
                call = function.get_call_type(typing, (*number_types, *given), {})
                merging = tools.merging(typing, merge)

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    more = [builder.extract_value(args[4], k) for k in range(len(given))]
                    nothing, total = tools.constants(context, builder), None
                    for run in range(runs):
                        rows = zip(*numbers_at(context, builder, args[2], run), strict=True)
                        # Merge one after the other: fused multiply-adds make the additions free.
                        own = reduce(
                            lambda one, other: tools.called(context, builder, merge, merging, [*one, *other]),
                            [tools.called(context, builder, function, call, [*row, *more]) for row in rows],
                        )
                        is_in = builder.extract_value(args[3], run)
                        own = [builder.select(is_in, *both) for both in zip(own, nothing, strict=True)]
                        total = own if total is None else tools.called(context, builder, merge, merging, [*total, *own])
                    return tools.packed(context, builder, [total])

                return tools.parts_type(1)(function, merge, row, inside, given), generate

            @cuda.jit(device=True)
            def gather_all(row, inside, given):
                return gather(of_numbers, merge_all, row, inside, given)

            return gather_all

        @intrinsic
        def finish_row(
            typing: Any, function: Any, adding: Any, sums: Any, row: Any, addresses: Any, at: Any, inside: Any,
            results: Any, scalars: Any, ahead: Any,
        ) -> Any:  # fmt: skip
            call, kinds = call_of(function, typing, [*number_types, *results, *scalars])
            add_call = call_of(adding, typing, [*number_types, *results])[0] if parts else None

            def called(context: Any, builder: Any, formula: Any, call: Any, rows: Any, more: Any) -> list[Any]:
                """Return the results of a formula in each lane."""
                own = context.get_function(formula, call)
                return [results_of(builder, call, own(builder, [*row, *more])) for row in rows]

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = args[2]
                known, more = ([builder.extract_value(args[k], j) for j in range(len(given))]
                               for k, given in ((7, results), (8, scalars)))  # fmt: skip
                for run in range(runs):
                    rows = list(zip(*numbers_at(context, builder, args[3], run), strict=True))
                    if len(ahead):
                        fetch_run(builder, args[9], args[6], run)
                    made = called(context, builder, function, call, rows, [*known, *more])
                    offsets = builder.extract_value(args[5], run)
                    with builder.if_then(builder.extract_value(args[6], run)):
                        for k, operand in enumerate(writes):
                            address = address_of(builder, (args[4], offsets), k, operand.dtype.itemsize)
                            put_run(context, builder, operand, kinds[k], address, [each[k] for each in made])
                    for j, each in enumerate(called(context, builder, adding, add_call, rows, known) if parts else ()):
                        for part, number in enumerate(each):
                            place = part, run * width + j
                            both = [builder.extract_value(found, place), number]
                            # Assembly forces the addition to this point; the compiler would move all additions to the
                            # row's end.
                            total = assembly(builder, FLOAT, "add.f32 $0, $1, $2;", "=f,f,f", both, "convergent")
                            found = builder.insert_value(found, total, place)
                return found

            return sums(function, adding, sums, row, addresses, at, inside, results, scalars, ahead), generate

        def fetch_run(builder: Any, ahead: Any, inside: Any, run: int) -> None:
            addresses, at, is_there, place, slot, _ = (builder.extract_value(ahead, k) for k in range(6))
            with builder.if_then(is_there):
                own = [cell for cell in kept[0] if cell.run == run]
                copied(builder, own, (addresses, at, inside), place, slot)

        @cuda.jit(device=True)
        def finish(sums, row, addresses, at, inside, results, scalars, ahead):
            return finish_row(function, adding, sums, row, addresses, at, inside, results, scalars, ahead)

        def every() -> Any:
            """Return (number, part, run, first lane, elements before it in its run) of each unit that stores sums."""
            each = [(p, run, piece) for p in range(parts) for run in range(runs) for piece in range(pieces)]
            return [(n, p, run, run * width + piece * unit, piece * unit) for n, (p, run, piece) in enumerate(each)]

        def packed(builder: Any, sums: Any, part: int, first: int) -> Any:
            numbers = [builder.extract_value(sums, (part, first + j)) for j in range(unit)]
            if unit == 1:
                return numbers[0]
            found = ir.Constant(vector, ir.Undefined)
            for j, number in enumerate(numbers):
                found = builder.insert_element(found, number, I32(j))
            return found

        @intrinsic
        def begin(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                zeros = {(p, lane): ir.Constant(FLOAT, 0.0) for p in range(parts) for lane in range(lanes)}
                return aggregate(context, builder, sums_type, zeros)

            return sums_type(), generate

        def unit_at(builder: Any, place: Any, number: int) -> Any:
            return pointer(builder, numbers_in(builder, place, 0), I32(4 * unit * number), 4 * unit, vector)

        @intrinsic
        def put(typing: Any, place: Any, sums: Any, tile: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for number, part, _, first, _ in every():
                    builder.store(packed(builder, args[1], part, first), unit_at(builder, args[0], number))
                return context.get_dummy_value()

            return types.void(place, sums, tile), generate

        @intrinsic
        def gain_from(typing: Any, place: Any, sums: Any, tile: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {}
                for number, part, _, first, _ in every():
                    found = builder.load(unit_at(builder, args[0], number))
                    for j in range(unit):
                        other = builder.extract_element(found, I32(j)) if unit > 1 else found
                        own = builder.extract_value(args[1], (part, first + j))
                        items[part, first + j] = builder.fadd(own, other)
                return aggregate(context, builder, sums_type, items)

            return sums_type(place, sums, tile), generate

        @intrinsic
        def flush(typing: Any, addresses: Any, at: Any, sums: Any, inside: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for _, part, run, first, before in every():
                    with builder.if_then(builder.extract_value(args[3], run)):
                        array = builder.extract_value(args[0], len(addresses) - parts + part)
                        offset = builder.add(resized(builder, builder.extract_value(args[1], run), I64), I64(before))
                        target = pointer_to(builder, builder.add(array, builder.mul(offset, I64(4))), vector)
                        builder.store(packed(builder, args[2], part, first), target, align=4 * unit)
                return context.get_dummy_value()

            return types.void(addresses, at, sums, inside), generate

        return {
            "fetch": fetch,
            "fetch_weights": fetch_weights,
            "commit": telling("cp.async.commit_group;"),
            "wait": telling(f"cp.async.wait_group {left};"),
            "take": take,
            "gathering": gathering,
            "some": some,
            "finish": finish,
            "begin": begin,
            "put": put,
            "gain_from": gain_from,
            "flush": flush,
        }
