"""The kernel of rows one after the other, and of sums over all of them: long rows, gradients of rows and of weights.

A block takes some rows after the other, and each of its threads always the same columns of them: weights it has in
shared memory, what it adds up in registers. The next rows are on their way meanwhile: each thread copies what it takes
of a row into cells of its own, some rows ahead, and reads no other's, so that it waits for nothing but its own copies.
Of what is added up, in the end a block's groups of threads bring their sums together, and a row of them is in memory
for each block; a reduction of these follows. A row that is too long for one block is shared by those of a cluster. In
Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...base.casts import cast
from ...base.dtypes import TABLE
from ...runtime.launch_order import ROW_BLOCKS, VECTOR_BYTES, WORDS
from ..primitives import block_reduce
from ..primitives.block_reduce import WARP_CELLS
from ..primitives.instructions import kept_memory
from ..primitives.operands import Operand, operands, scalar_reader
from ..primitives.partials import parts_intrinsics
from ..primitives.specialize import specialize
from ..reduce.reduce import spreading
from ..specs import Kernel, words_of
from .row import exchanging, insides, reducing_registers, spreading_some
from .spec import RowSpec, SumsSpec

if SIMULATED:
    from ..primitives.runs import put_numbers
    from ..primitives.simulated import _apply, _element
else:
    from ...base._numba import intrinsic, ir
    from ..primitives import formats
    from ..primitives.formats import I32, I64
    from ..primitives.instructions import assembly, copies_ahead, copy_ahead, kept_place, tell_copies
    from ..primitives.load_store import address_of, aggregate, lanes_type, pointer_to, resized
    from ..primitives.operands import call_of, results_of
    from ..primitives.runs import numbers_of, put_run

    FLOAT = ir.FloatType()

# ---------------------------------------------------------------- rows on their way

#: Numbers of float32 in an access of shared memory.
_WORDS = VECTOR_BYTES // 4


class SharedCell(NamedTuple):
    """An access that a thread has in shared memory.

    Attributes:
        operand, run: which input's, which of its runs'.
        start: elements before it in its run.
        before: bytes that each thread has before it.
        nbytes: its own.
    """

    operand: int
    run: int
    start: int
    before: int
    nbytes: int


def _cells(rows: Sequence[Operand], which: range, width: int, runs: int) -> tuple[list[SharedCell], int]:
    """The accesses of these inputs, and how many bytes they are."""
    found, before = [], 0
    for k in which:
        nbytes = rows[k].access * rows[k].dtype.itemsize
        for run in range(runs):
            for start in range(0, width, rows[k].access):
                found.append(SharedCell(k, run, start, before, nbytes))
                before += nbytes
    return found, before


@lru_cache(maxsize=64)
def ring(spec: SumsSpec) -> SimpleNamespace:
    """The intrinsics of rows on their way, and of sums.

    `place` is (a thread's number in its block, how many these are), and behind it the same in the thread's group; of
    sums it is the former two alone. `slot` is the number of a row of those on their way.

    Returns:
        a namespace of
        ``fetch(addresses, at, inside, place, slot, tile)``: begin to copy what is kept of a row, of the runs that are
        inside, given for each run the offsets into all inputs; ``fetch_weights(addresses, at, inside, place, tile)``:
        the other inputs;
        ``commit()``: behind those of a row, or of none; ``wait()``: until the row that is next is there;
        ``take(place, slot, tile)``: what the other functions are given of that row: the numbers of those inputs that
        the spec says are held, and where the others are;
        ``gathering(stage)``: the function (row, inside, given) -> a stage's parts of one thread;
        ``some(first, many)``: the function (row) -> the numbers of all inputs in so many runs;
        ``finish(sums, row, addresses, at, inside, results, scalars, ahead)``: store the results of a row's formula, and
        return the sums with what the other formula adds; with `ahead` (addresses, at, whether it is there, place, slot,
        tile) of a row, () for none, `fetch` each of its runs as soon as that run's numbers are read;
        ``begin()``: sums of nothing; ``put(place, sums, tile)``, ``gain_from(place, sums, tile)``: into shared memory,
        and added from there;
        ``flush(addresses, at, sums, inside)``: store them in the last arrays, those of each run from one offset on.
    """
    row = spec.rows
    reads = tuple(Operand(TABLE[name], row.compute, row.width, False) for name in row.reads)
    writes = tuple(Operand(TABLE[name], "", row.width, False) for name in row.writes)
    kept = _cells(reads, range(row.kept), row.width, row.runs)
    others = _cells(reads, range(row.kept, len(reads)), row.width, row.runs)
    formulas = [specialize(each.function, row.compute, row.narrow) for each in (row.formula, spec.sums) if each]
    return SimpleNamespace(**make_ring(spec, formulas, reads, writes, kept, others, min(row.width, _WORDS)))


if SIMULATED:

    def make_ring(
        spec: Any, formulas: Any, reads: Sequence[Any], writes: Sequence[Any], kept: Any, others: Any, unit: int
    ) -> dict[str, Any]:
        """See `ring`. What is copied is there at once."""
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

else:

    def make_ring(
        spec: Any, formulas: Any, reads: Sequence[Any], writes: Sequence[Any], kept: Any, others: Any, unit: int
    ) -> dict[str, Any]:
        width, runs, parts, held = spec.rows.width, spec.rows.runs, spec.parts, spec.held
        lanes, pieces = runs * width, width // unit
        sums_type = types.Tuple([types.UniTuple(types.float32, lanes)] * parts)
        vector = ir.VectorType(FLOAT, unit) if unit > 1 else FLOAT
        number_types, nowhere = [kind.dtype for kind in lanes_type(reads, len(reads), lanes)], I32(0)

        def numbers_in(builder: Any, place: Any, first: int) -> list[Any]:
            """A thread's number and how many there are: in its block, or from 2 on in its group."""
            return [resized(builder, builder.extract_value(place, first + k), I32) for k in range(2)]

        def pointer(builder: Any, own: Any, before: Any, nbytes: int, kind: Any, start: Any = nowhere) -> Any:
            """To what a thread has in shared memory from a start on, behind so many bytes of each."""
            thread, threads = own
            start = builder.add(start, builder.add(builder.mul(threads, before), builder.mul(thread, I32(nbytes))))
            return builder.bitcast(builder.gep(kept_place(builder), [I32(0), start]), ir.PointerType(kind, addrspace=3))

        def pointer_of(builder: Any, place: Any, cell: SharedCell, slot: Any = None) -> Any:
            """To an access of a row in its slot, or of the weights, which groups of threads beside each other share."""
            kind, group = kind_of(cell), numbers_in(builder, place, 2)
            if slot is None:
                return pointer(builder, group, I32(cell.before), cell.nbytes, kind)
            before = builder.add(builder.mul(resized(builder, slot, I32), I32(kept[1])), I32(cell.before))
            # Of few threads these are not always a multiple of an access.
            start = builder.mul(group[1], I32(others[1]))
            if others[1] % VECTOR_BYTES:
                start = builder.and_(builder.add(start, I32(VECTOR_BYTES - 1)), I32(-VECTOR_BYTES))
            return pointer(builder, numbers_in(builder, place, 0), before, cell.nbytes, kind, start)

        def kind_of(cell: SharedCell) -> Any:
            operand = reads[cell.operand]
            if operand.access > 1:
                return formats.access_type(operand.dtype, operand.access)
            return formats.memory_type(operand.dtype)

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
            """The numbers of each input in a run, of what `take` returned."""
            found = [[builder.extract_value(given, (k, run * width + j)) for j in range(width)] for k in range(held)]
            if held == len(reads):
                return found
            # They are read here, not before: else the compiler would have those of all runs at once.
            assembly(builder, ir.VoidType(), "", "~{memory}", [], "convergent")
            place, slot = (builder.extract_value(given, held + k) for k in range(2))
            return found + read_at(context, builder, place, slot, run)[held:]

        def read_at(context: Any, builder: Any, place: Any, slot: Any, run: int) -> list[list[Any]]:
            """The numbers of each input in a run, out of shared memory; what is not used is not read."""
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
                        # One after the other: what is added to a product costs nothing.
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
                """The results of a formula in each lane."""
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
                            # Said so, it is done here; the compiler would put off all additions to the row's end.
                            total = assembly(builder, FLOAT, "add.f32 $0, $1, $2;", "=f,f,f", both, "convergent")
                            found = builder.insert_value(found, total, place)
                return found

            return sums(function, adding, sums, row, addresses, at, inside, results, scalars, ahead), generate

        def fetch_run(builder: Any, ahead: Any, inside: Any, run: int) -> None:
            addresses, at, is_there, place, slot, _ = (builder.extract_value(ahead, k) for k in range(6))
            with builder.if_then(is_there):
                own = [cell for cell in kept[0] if cell.run == run]
                copied(builder, own, (addresses, at, inside), place, slot)

        function, adding = formulas if parts else (*formulas, None)

        @cuda.jit(device=True)
        def finish(sums, row, addresses, at, inside, results, scalars, ahead):
            return finish_row(function, adding, sums, row, addresses, at, inside, results, scalars, ahead)

        def every() -> Any:
            """(number, part, run, first lane, elements before it in its run) of the units that sums are stored in."""
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
            "wait": telling(f"cp.async.wait_group {spec.depth - 1 - spec.is_ahead};"),
            "take": take,
            "gathering": gathering,
            "some": some,
            "finish": finish,
            "begin": begin,
            "put": put,
            "gain_from": gain_from,
            "flush": flush,
        }


# ---------------------------------------------------------------- rows one after the other


def _placing(runs: int) -> Callable[..., Any]:
    """The device function (item, step) -> item, item + step, ...: as many as there are runs."""

    def place(item, step):
        return (item,)

    one = cuda.jit(device=True)(place)
    if runs == 1:
        return one  # type: ignore[no-any-return]
    others = _placing(runs - 1)

    def places(item, step):
        return one(item, step) + others(item + step, step)

    jitted: Callable[..., Any] = cuda.jit(device=True)(places)
    return jitted


def _within(runs: int) -> Callable[..., Any]:
    """`row.insides` where all are."""
    inside = (True,) * runs

    def are_inside(item, step, end):
        return inside

    jitted: Callable[..., Any] = cuda.jit(device=True)(are_inside)
    return jitted


def _sharing(is_cluster: bool) -> Any:
    """Three device functions.

    () -> (the number of a block, or of its cluster, how many these are, a block's number in its cluster);
    (signals, thread) -> nothing: all blocks of the cluster have begun when it returns, and wait for these signals;
    (blocks, signals, arrived, turn, side) -> what stages are given of a row that is the first, the second, ... of its
    group.
    """
    if not is_cluster:

        def alone():
            return cuda.blockIdx.x, cuda.gridDim.x, 0

        def of_block(blocks, signals, arrived, turn, side):
            return blocks

        def nothing(signals, thread):
            pass

        return tuple(cuda.jit(device=True)(each) for each in (alone, nothing, of_block))

    number, many, own, arrive, wait, start = (
        block_reduce.cluster_number, block_reduce.clusters, block_reduce.block_in_cluster, block_reduce.arrive,
        block_reduce.wait, block_reduce.start_signal,
    )  # fmt: skip

    def together():
        return number(), many(), own()

    def begun(signals, thread):
        if thread == 0:
            for signal in range(signals.size):
                start(signals, signal)
        arrive()
        wait()

    def of_cluster(blocks, signals, arrived, turn, side):
        return blocks, signals, arrived, turn, side

    return tuple(cuda.jit(device=True)(each) for each in (together, begun, of_cluster))


def _gathering(spec: SumsSpec, ring: SimpleNamespace, stage: SimpleNamespace, first: int = 0) -> Any:
    """`ring.gathering(stage)`; where the parts of several numbers can be made together, those of all runs that are in
    registers and inside a row, else of run by run from a first one on."""
    if stage.chunk is None:
        return ring.gathering(stage)
    runs = spec.rows.runs
    many = runs if spec.whole and spec.held == len(spec.rows.reads) else 1
    take, chunk, nothing, join, merge = ring.some(first, many), stage.chunk(1), stage.start(1), stage.join, stage.merge

    def gather(row, inside, given):
        parts = nothing()
        if inside[first]:
            parts = chunk(take(row), given)
        return parts

    one = cuda.jit(device=True)(gather)
    if first + many == runs:
        return one
    others = _gathering(spec, ring, stage, first + many)

    def gather_all(row, inside, given):
        return join(merge, one(row, inside, given), others(row, inside, given))

    return cuda.jit(device=True)(gather_all)


def _grouping(row: RowSpec) -> Any:
    """The device function () -> (the number of a thread's group in its block, how many groups there are)."""

    def alone():
        return 0, 1

    def beside():
        return cuda.threadIdx.y, cuda.blockDim.y

    # What is known saves registers.
    return cuda.jit(device=True)(alone if row.is_cluster and row.sides == 1 else beside)


def _advancing(spec: SumsSpec, finish: Any, fetch: Any, unravel: Any, spread: Any) -> Any:
    """The device functions (number, slot, given): the row of that number, if there is one, is on its way to that place;
    (sums, source, results, number, coming, slot, given, wanted) -> the sums with those of a row, whose results are
    written.

    The first is called as soon as a row's numbers are in registers. Where they are not, it does nothing, and the other
    one sends for the row that comes next. `given` and `wanted` are what is the same for all rows, read and written.
    """

    def follow(coming, slot, given):
        ins, in_steps, outer, rows, item, step, line, inside, place, tile = given
        if coming < rows:
            fetch(ins, spread(unravel(coming, outer), item, step, line, in_steps), inside, place, slot, tile)

    next_row = cuda.jit(device=True)(follow)

    def alone(sums, source, results, number, coming, slot, given, wanted):
        _, _, outer, rows, item, step, line, inside, _, _ = given
        outs, out_steps, more = wanted
        if number < rows:
            places = spread(unravel(number, outer), item, step, line, out_steps)
            sums = finish(sums, source, outs, places, inside, results, more, ())
        return sums

    finished = cuda.jit(device=True)(alone)

    def behind(sums, source, results, number, coming, slot, given, wanted):
        sums = finished(sums, source, results, number, coming, slot, given, wanted)
        next_row(coming, slot, given)
        return sums

    def between(sums, source, results, number, coming, slot, given, wanted):
        ins, in_steps, outer, rows, item, step, line, inside, place, tile = given
        outs, out_steps, more = wanted
        if number < rows:
            is_there = coming < rows
            ahead = spread(unravel(coming if is_there else 0, outer), item, step, line, in_steps)
            places = spread(unravel(number, outer), item, step, line, out_steps)
            sums = finish(sums, source, outs, places, inside, results, more, (ins, ahead, is_there, place, slot, tile))
        return sums

    if spec.is_early:
        return next_row, finished
    # Memory waits less if each run of a row makes room for one of the next: it would wait all the while where no other
    # row is on its way.
    late = cuda.jit(device=True)(between if spec.depth == 1 or spec.is_ahead else behind)
    return cuda.jit(device=True)(lambda coming, slot, given: None), late


def _counting(spec: SumsSpec) -> Any:
    """The device function (share, blocks, group, columns) -> how many elements of a row a block has."""
    width, runs = spec.rows.width, spec.rows.runs

    def count(share, blocks, group, columns):
        found, start = 0, share * group * width
        for _ in range(runs):
            found += max(min(columns - start, group * width), 0)
            start += blocks * group * width
        return found

    def whole(share, blocks, group, columns):
        return runs * group * width

    return cuda.jit(device=True)(whole if spec.whole else count)


def _finding(spec: SumsSpec, own: SimpleNamespace, soon: Any) -> tuple[Any, Any]:
    """Two device functions: (place, slot, tile, parts, at, more) before the first row, and (place, slot, tile, parts,
    at, more, coming, given, ahead) -> a row, and the results of its stages.

    `parts` are (where a thread's accesses are inside a row, how many elements a block has of it, columns), `ahead` is
    (whether there is a next row, its slot, at) of that.
    """
    wait, take, gathering = own.wait, own.take, partial(_gathering, spec, own)
    if not spec.is_ahead:
        reduce_all = reducing_registers(spec.rows, gathering, walks=True)

        def nothing(place, slot, tile, parts, at, more):
            pass

        def find(place, slot, tile, parts, at, more, coming, given, ahead):
            inside, _, columns = parts
            wait()
            source = take(place, slot, tile)
            soon(coming, slot, given)
            return source, reduce_all((source, inside, columns), at, more)

        return cuda.jit(device=True)(nothing), cuda.jit(device=True)(find)
    send, receive = exchanging(spec.rows, gathering)

    def send_row(place, slot, tile, parts, at, more):
        inside, many, _ = parts
        wait()
        send((take(place, slot, tile), inside), many, at, more)

    send_next = cuda.jit(device=True)(send_row)

    def find_ahead(place, slot, tile, parts, at, more, coming, given, ahead):
        is_there, next_slot, next_at = ahead
        results = receive(parts[2], at, more)
        # What the other blocks have of the next row comes while this one's results are made.
        if is_there:
            send_next(place, next_slot, tile, parts, next_at, more)
        return take(place, slot, tile), results

    return send_next, cuda.jit(device=True)(find_ahead)


def _bringing(shared: Any) -> Any:
    """The device function (fixed, base, turn) -> where a group's row of that number is brought together, as in
    `row.reducing_registers`; `fixed` is the same for all of them."""

    def at_of(fixed, base, turn):
        cells, thread, rank, group, blocks, signals, arrived, side = fixed
        return cells, base, thread, rank, group, 1, shared(blocks, signals, arrived, turn, side)

    return cuda.jit(device=True)(at_of)


def make(spec: SumsSpec) -> Kernel:
    """A block of x times y threads: x of them take a row, `units` times y rows are there in all.

    Columns are a multiple of those in an access, and all of a row is taken at once; in a cluster `blocks` take it.
    """
    row = spec.rows
    own = operands(tuple(TABLE[name] for name in row.reads), 1, 1, row.compute)
    io = SimpleNamespace(offsets=own.offsets, unravel=own.unravel)
    unravel, scalars, width = io.unravel, scalar_reader(row.scalars), row.width
    stages, places_of, depth = row.formula.stages, _placing(row.runs), spec.depth
    if spec.whole:
        spread, inside_of = spreading(io.offsets, io.unravel, row.runs), _within(row.runs)
    else:
        spread, inside_of = spreading_some(io, row.runs), insides(row.runs)
    own = ring(spec)
    fetch, fetch_weights, commit = own.fetch, own.fetch_weights, own.commit
    finish, begin, put, gain_from, flush = own.finish, own.begin, own.put, own.gain_from, own.flush
    (sharing, begun, shared), grouping, counted = _sharing(row.is_cluster), _grouping(row), _counting(spec)
    at_of = _bringing(shared)
    soon, advance = _advancing(spec, finish, fetch, unravel, spread)
    find_first, find = _finding(spec, own, soon)
    slots, each = max(len(stage.start) for stage in stages), len(stages) * WARP_CELLS
    both, has_sums = 2 * each, spec.parts > 0
    sent, signalled = max(len(reduction.start) for reduction in spec.exchanged), 2 * len(spec.exchanged) * row.sides
    received = signalled * ROW_BLOCKS
    parts = parts_intrinsics((row.compute,), (np.dtype(row.compute).type(0),), row.compute)
    cell, enter, leave, memory = parts.cell, parts.enter, parts.leave, kept_memory

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, blocks, units, words):
        more = scalars(words)
        enter()
        cells = cuda.shared.array((slots, both), cell)
        arrived = cuda.shared.array((sent, received), cell)
        signals = cuda.shared.array(signalled, np.uint64)
        leave()
        tile = memory()
        rank, group = cuda.threadIdx.x, cuda.blockDim.x
        side, sides = grouping()
        place = side * group + rank, group * sides, rank, group
        first, apart, share = sharing()
        item, step, line = (share * group + rank) * width, blocks * group * width, (columns,)
        inside = inside_of(item, step, columns)
        fetch_weights(ins, spread(unravel(0, outer), item, step, line, in_steps), inside, place, tile)
        ahead = first
        for slot in range(depth):
            number = ahead * sides + side
            if number < rows:
                fetch(ins, spread(unravel(number, outer), item, step, line, in_steps), inside, place, slot, tile)
            commit()
            ahead += apart
        begun(signals, place[0])
        sums = begin()
        given, wanted = (ins, in_steps, outer, rows, item, step, line, inside, place, tile), (outs, out_steps, more)
        parts = inside, counted(share, blocks, group, columns), columns
        fixed = cells, place[0], rank, group, blocks, signals, arrived, side
        unit, base, slot, turn = first, 0, 0, 0
        find_first(place, slot, tile, parts, at_of(fixed, base, turn), more)
        while unit < units:
            source, results = find(
                place, slot, tile, parts, at_of(fixed, base, turn), more, ahead * sides + side, given,
                (unit + apart < units, slot + 1 if slot + 1 < depth else 0, at_of(fixed, each - base, turn + 1)),
            )  # fmt: skip
            sums = advance(sums, source, results, unit * sides + side, ahead * sides + side, slot, given, wanted)
            commit()
            ahead += apart
            unit += apart
            turn += 1
            slot = slot + 1 if slot + 1 < depth else 0
            # What one row's threads still read the next one's must not overwrite.
            base = each - base
        left = sides if has_sums else 0
        while left > 1:
            half = (left + 1) // 2
            cuda.syncthreads()
            if side >= half and side < left:
                put((place[0] - half * group, half * group), sums, tile)
            cuda.syncthreads()
            if side + half < left:
                sums = gain_from((place[0], half * group), sums, tile)
            left = half
        if has_sums and side == 0:
            flush(outs, places_of(first * columns + item, step), sums, inside)

    return kernel


#: Integers behind `outer`.
_SCALARS = 4


def parameters(spec: SumsSpec) -> Sequence[tuple[str, Any]]:
    """See `kernel_code.parameters`."""
    row, integer = spec.rows, "int64" if spec.wide else "int32"
    return [
        ("uint64", len(row.reads)),
        ("uint64", len(row.writes) + spec.parts),
        (integer, (len(row.reads), row.rank + 1)),
        (integer, (len(row.writes), row.rank + 1)),
        (integer, row.rank),
        *[(integer, None)] * _SCALARS,
        (WORDS, words_of(row.scalars)),
    ]
