"""The kernel that processes rows one after the other: long rows, and gradients of rows with sums over all of them.

A block processes some rows in turn, and each of its threads always handles the same columns: their weights stay in
shared memory, their sums in registers. Meanwhile the next rows are being copied. Each thread copies its own part of a
row, some rows ahead, and reads no other thread's part, so it waits only for its own copies. At the end, a block's
groups of threads combine their sums and write one row of them per block, which a separate reduction adds up. A row that
is too long for one block is shared by the blocks of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import ROW_BLOCKS, WORDS
from ..primitives import block_reduce
from ..primitives.block_reduce import WARP_CELLS
from ..primitives.instructions import kept_memory
from ..primitives.operands import operands, scalar_reader
from ..primitives.partials import parts_intrinsics
from ..primitives.ring import ring
from ..primitives.specialize import specialize
from ..reduce.reduce import spreading
from ..specs import Kernel, words_of
from .row import exchanging, insides, reducing_registers, spreading_some
from .spec import RowSpec, SumsSpec


def _placing(runs: int) -> Callable[..., Any]:
    """Return the device function (item, step) -> (item, item + step, ...), one for each run."""

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
    """Return the counterpart of `row.insides` for rows whose accesses are all inside."""
    inside = (True,) * runs

    def are_inside(item, step, end):
        return inside

    jitted: Callable[..., Any] = cuda.jit(device=True)(are_inside)
    return jitted


def _sharing(is_cluster: bool) -> Any:
    """Return three device functions, for a block alone or for a cluster.

    () -> (the number of this block or cluster, how many there are, the block's number in its cluster);
    (signals, thread) -> nothing: returns when all blocks of the cluster have started and listen to these signals;
    (blocks, signals, arrived, turn, side) -> the `blocks` argument of stages, for the row number `turn` of a group.
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
    """Return a variant of `ring.gathering(stage)` that processes several elements together if possible.

    It combines all runs that are in registers and inside a row. Otherwise it handles run by run, starting at `first`.
    """
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
    """Return the device function () -> (the number of a thread's group in its block, the number of groups)."""

    def alone():
        return 0, 1

    def beside():
        return cuda.threadIdx.y, cuda.blockDim.y

    # Compile-time constants save registers.
    return cuda.jit(device=True)(alone if row.is_cluster and row.sides == 1 else beside)


def _advancing(spec: SumsSpec, finish: Any, fetch: Any, unravel: Any, spread: Any) -> Any:
    """Return the device functions that start copying a row, and that write the results of a row.

    (number, slot, given): starts copying the row of that number, if it exists, to that slot.
    (sums, source, results, number, coming, slot, given, wanted) -> the sums with a row added; writes the row's results.

    The first is called as soon as a row's elements are in registers. If they are not kept there, it does nothing, and
    the second starts copying the next row. `given` (the inputs) and `wanted` (the outputs) are the same for all rows.
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
    # Loads stall less if each run of a row is replaced by one of the next row at once. With no other row in flight,
    # memory would otherwise idle.
    late = cuda.jit(device=True)(between if spec.depth == 1 or spec.is_ahead else behind)
    return cuda.jit(device=True)(lambda coming, slot, given: None), late


def _counting(spec: SumsSpec) -> Any:
    """Return the device function (share, blocks, group, columns) -> how many elements of a row a block has."""
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
    """Return two device functions that find a row and the results of its stages.

    (place, slot, tile, parts, at, more): called before the first row.
    (place, slot, tile, parts, at, more, coming, given, ahead) -> a row, and the results of its stages.

    `parts` is (which of a thread's accesses are inside a row, how many elements of it a block has, columns). `ahead`
    is (whether there is a next row, its slot, its `at`).
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
        # The other blocks' part of the next row arrives while this row's results are computed.
        if is_there:
            send_next(place, next_slot, tile, parts, next_at, more)
        return take(place, slot, tile), results

    return send_next, cuda.jit(device=True)(find_ahead)


def _bringing(shared: Any) -> Any:
    """Return the device function (fixed, base, turn) -> where a group combines its row number `turn`.

    The result is the `at` of `row.reducing_registers`; `fixed` is the same for all rows.
    """

    def at_of(fixed, base, turn):
        cells, thread, rank, group, blocks, signals, arrived, side = fixed
        return cells, base, thread, rank, group, 1, shared(blocks, signals, arrived, turn, side)

    return cuda.jit(device=True)(at_of)


def _ring_of(spec: SumsSpec) -> SimpleNamespace:
    """Return the `ring` of a kernel's rows and sums."""
    row, adding = spec.rows, None
    if spec.sums is not None:
        adding = specialize(spec.sums.function, row.compute, row.narrow)
    formula, left = specialize(row.formula.function, row.compute, row.narrow), spec.depth - 1 - spec.is_ahead
    accesses = row.compute, row.width, row.runs, row.kept
    return ring(row.reads, row.writes, *accesses, spec.held, left, formula, adding, spec.parts)


def make(spec: SumsSpec) -> Kernel:
    """Return the kernel. A block has x times y threads: x of them process a row, and there are `units` times y rows.

    The number of columns is a multiple of the access width. A whole row is processed at once, by `blocks` blocks in a
    cluster.
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
    own = _ring_of(spec)
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
    cell, memory = parts.cell, kept_memory

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, blocks, units, words):
        more = scalars(words)
        cells = cuda.shared.array((slots, both), cell)
        arrived = cuda.shared.array((sent, received), cell)
        signals = cuda.shared.array(signalled, np.uint64)
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
            # The next row must not overwrite what threads still read of this one.
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


#: Number of integers after `outer`.
_SCALARS = 4


def parameters(spec: SumsSpec) -> Sequence[tuple[str, Any]]:
    """Return the parameters of the kernel, in the form of `kernel_code.parameters`."""
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
