"""The kernels that reduce arrays over any of their axes: out[i] = finish(x[i, 0] + x[i, 1] + ..., count).

The kept dimensions, `kept`, come before the reduced ones, `reduced`. `reduce_contiguous` is for inputs that are
contiguous along a reduced dimension: adjacent threads read adjacent elements of a row. `reduce_strided` is for all
other inputs: adjacent threads read adjacent columns if those are adjacent in memory, otherwise adjacent reduced
elements.

Each thread has several accesses in flight, merges their elements in a tree, and merges the result into its total, in
two levels. The threads that share a result merge their totals in shared memory, the upper half into the lower half
until one is left. Blocks along the grid's y share a result: they write partial results, which a second pass merges.
Thus errors grow like the logarithm of the length. The order is always the same, so results are bitwise reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.casts import cast
from ...base.dtypes import TABLE, DTypeInfo, real_of
from ...runtime.launch_order import MAX_THREADS, WARP, WORDS
from ..primitives.arg_reduce import finding
from ..primitives.block_partials import chunked
from ..primitives.block_reduce import settling, settling_columns, settling_warps
from ..primitives.operands import Operand, operands, scalar_reader
from ..primitives.partials import parts_intrinsics
from ..primitives.runs import make_loads
from ..primitives.specialize import specialize
from ..specs import CHUNK, Kernel, words_of
from .spec import ReduceSpec

#: From this number of elements on, partial results are computed together, if a reduction supports that.
_FEWEST = 4
#: The most warps of a block.
_WARPS = MAX_THREADS // WARP
#: The most bytes of partial results that threads of a warp exchange by shuffles: more would leave too few registers.
_REGISTER_BYTES = 16


@lru_cache(maxsize=256)
def loads(spec: ReduceSpec, width: int, runs: int) -> SimpleNamespace:
    """Return the intrinsics that load a kernel's inputs.

    Args:
        spec: the kernel.
        width: consecutive elements that are loaded together.
        runs: number of such accesses.

    Returns:
        a namespace with the results of `runs.make_loads`.
    """
    # The second pass merges the results of the first unchanged.
    compute = "" if spec.stage == "second" else spec.compute
    found = tuple(Operand(TABLE[name], compute, width, k in spec.repeated) for k, name in enumerate(spec.reads))
    return SimpleNamespace(
        **make_loads(found, width, runs, ("int64" if spec.wide else "int32") if spec.indexed else "")
    )


def parts_of(spec: ReduceSpec) -> SimpleNamespace:
    """Return the intrinsics for the partial results of a kernel's reduction."""
    starts = tuple(cast(start, np.dtype(name))[()] for start, name in zip(spec.formula.start, spec.parts, strict=True))
    # The count is real even if elements are complex.
    return parts_intrinsics(spec.parts, starts, real_of(spec.compute))


def spreading(offsets: Any, unravel: Any, runs: int) -> Callable[..., Any]:
    """Return the device function (here, item, step, reduced, steps) -> the operands' offsets of several items.

    There are `runs` items, `step` apart.
    """

    def place(here, item, step, reduced, steps):
        return (offsets(here + unravel(item, reduced), steps),)

    one = cuda.jit(device=True)(place)
    if runs == 1:
        return one  # type: ignore[no-any-return]
    others = spreading(offsets, unravel, runs - 1)

    def spread(here, item, step, reduced, steps):
        return one(here, item, step, reduced, steps) + others(here, item + step, step, reduced, steps)

    jitted: Callable[..., Any] = cuda.jit(device=True)(spread)
    return jitted


def _gathering(spec: ReduceSpec, io: SimpleNamespace, width: int, runs: int, lanes: int, is_loose: bool = False) -> Any:
    """Return the device function that loads and reduces the runs at item, item + step, ...

    (ins, here, item, step, reduced, steps, lane_step, more) -> the partial results in `lanes` lanes.
    """
    load = loads(spec, width, runs)
    load_runs = load.load_loose if is_loose else load.load_runs
    spread = spreading(io.offsets, io.unravel, runs)
    first, function, merge, reduce_lanes = io.first, io.function, io.merge, io.reduce_lanes(lanes)
    if io.chunk is not None and width * runs >= _FEWEST * lanes:
        together = io.chunk(lanes, max(CHUNK // lanes, 1))

        def gather_chunk(ins, here, item, step, reduced, steps, lane_step, more):
            return together(load_runs(ins, spread(here, item, step, reduced, steps), lane_step), more)

        return cuda.jit(device=True)(gather_chunk)

    if io.find is not None and width * runs >= _FEWEST * lanes:
        in_words = spec.in_words
        find, load_all = io.find(lanes, width, in_words), load.load_words if in_words else load_runs

        def gather_place(ins, here, item, step, reduced, steps, lane_step, more):
            return find(load_all(ins, spread(here, item, step, reduced, steps), lane_step), lane_step)

        return cuda.jit(device=True)(gather_place)

    def gather(ins, here, item, step, reduced, steps, lane_step, more):
        at = spread(here, item, step, reduced, steps)
        return reduce_lanes(merge, first(function, load_runs(ins, at, lane_step), more))

    return cuda.jit(device=True)(gather)


def _gathering_all(spec: ReduceSpec, io: SimpleNamespace, lanes: int, runs: int, is_edge: bool = False) -> Any:
    """Return the device function that merges all runs at item, item + step, ... before `end` into partial results.

    (parts, ins, here, item, step, end, reduced, steps, lane_step, more) -> (the merged partial results, the next item).
    As many runs as possible are in flight at once, then half as many, and so on. Unless `is_edge` is True, `parts`
    holds no elements, or only earlier ones.
    """
    gather, join, merge = _gathering(spec, io, spec.width, runs, lanes), io.join, io.merge if is_edge else io.later

    def gather_all(parts, ins, here, item, step, end, reduced, steps, lane_step, more):
        while item + (runs - 1) * step < end:
            parts = join(merge, parts, gather(ins, here, item, step, reduced, steps, lane_step, more))
            item += runs * step
        return parts, item

    these = cuda.jit(device=True)(gather_all)
    if runs == 1:
        return these
    fewer = _gathering_all(spec, io, lanes, runs // 2)

    def gather_rest(parts, ins, here, item, step, end, reduced, steps, lane_step, more):
        parts, item = these(parts, ins, here, item, step, end, reduced, steps, lane_step, more)
        return fewer(parts, ins, here, item, step, end, reduced, steps, lane_step, more)

    return cuda.jit(device=True)(gather_rest)


def _settling_rows(io: SimpleNamespace, nbytes: int) -> Any:
    """Return the device function (cells, place, thread, rank, group) -> the partial results of a group of threads.

    The group's first thread gets the result. Each thread has `nbytes` in its cells, and the cells from `place` on are
    free. If registers have room, threads exchange partial results through registers.
    """
    take, settle_cells, settle_warps = io.take, settling(io, 1), settling_warps(io, _WARPS)

    def through_warps(cells, place, thread, rank, group):
        return settle_warps(take(cells, 0, thread), cells, place, thread, rank, group)

    def through_cells(cells, place, thread, rank, group):
        settle_cells(cells, thread, rank, group, 1)
        return take(cells, 0, thread)

    return cuda.jit(device=True)(through_warps if nbytes <= _REGISTER_BYTES else through_cells)


def reduce_contiguous(spec: ReduceSpec, io: SimpleNamespace) -> Kernel:
    """Return the kernel for contiguous rows: x threads reduce a row, and a block reduces blockDim.y rows.

    Its accesses have 16 bytes; rows may start anywhere. The last of the `reduced` dimensions counts a row's pieces of
    `piece` elements. A result consists of `units` pieces, over all outer reduced dimensions. Elements before the first
    16-byte boundary of a piece and after the last are processed one by one. If there are several inputs and `whole` is
    0, all elements are. `repeated` inputs are constant along a row and do not count there.
    """
    put, gain, finish, merge = io.put, io.gain, io.finish, io.merge
    offsets, unravel, scalars, store, done = io.offsets, io.unravel, io.scalars, io.store, io.done
    cell = io.cell
    width, runs, slots = spec.width, spec.runs, len(spec.parts)
    is_alone = len(spec.reads) - len(spec.repeated) == 1
    gather, gather_edge = (
        _gathering_all(spec, io, 1, runs),
        _gathering_all(spec._replace(width=1), io, 1, 1, is_edge=True),
    )
    start, settle = io.start(1), _settling_rows(io, sum(TABLE[name].itemsize for name in spec.parts))
    room = MAX_THREADS + _WARPS
    lead = next(k for k in range(len(spec.reads)) if k not in spec.repeated)
    itemsize = TABLE[spec.reads[lead]].itemsize

    def kernel(ins, outs, in_steps, out_steps, kept, reduced, positions, columns, piece, units, count, whole, words):
        more = scalars(words)
        cells = cuda.shared.array((slots, room), cell)
        rank, threads = cuda.threadIdx.x, cuda.blockDim.x
        thread = cuda.threadIdx.y * threads + rank
        position = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        inside = position < positions
        target = unravel(position if inside else 0, kept)
        lane_step, line = in_steps[-1][-1], (columns,)
        put(cells, 0, thread, start())
        unit = cuda.blockIdx.y
        while inside and unit < units:
            place = unravel(unit, reduced)
            row, left = target + place[:-1], place[-1] * piece
            right = min(left + piece, columns)
            # Start and end of the aligned accesses.
            body, behind = left, right if width == 1 else left
            if width > 1 and (is_alone or whole):
                # The address in elements tells how many elements precede the next access boundary.
                at = offsets(row + (left,), in_steps)
                body = min(left + -(np.int64(ins[lead]) // itemsize + at[lead]) % width, right)
                behind = body + (right - body) // width * width
            first, step = body + rank * width, threads * width
            found, _ = gather(start(), ins, row, first, step, behind, line, in_steps, lane_step, more)
            if width > 1:
                found, _ = gather_edge(found, ins, row, left + rank, threads, body, line, in_steps, lane_step, more)
                found, _ = gather_edge(found, ins, row, behind + rank, threads, right, line, in_steps, lane_step, more)
            gain(merge, cells, thread, found)
            unit += cuda.gridDim.y
        found = settle(cells, MAX_THREADS, thread, rank, threads)
        if rank == 0 and inside:
            results = finish(done, found, count, more)
            store(outs, offsets(target + (cuda.blockIdx.y,), out_steps), results)

    return kernel


def reduce_strided(spec: ReduceSpec, io: SimpleNamespace) -> Kernel:
    """Return the kernel for columns: a block of x times y threads reduces x accesses of adjacent columns.

    Accesses are as wide as alignment allows. The last of the `kept` dimensions counts accesses, `positions` in total.
    The threads of a column process elements y, y + blockDim.y, ... of the block's `span` of all `items`, `piece` at a
    time. If `whole` is 0, inputs need not be aligned: elements are then loaded one by one.
    """
    put, gain, take, join, finish, merge = io.put, io.gain, io.take, io.join, io.finish, io.merge
    offsets, unravel, scalars, store, done = io.offsets, io.unravel, io.scalars, io.store, io.done
    cell = io.cell
    width, runs, slots = spec.width, spec.runs, len(spec.parts) * spec.width
    gather, gather_loose = _gathering_all(spec, io, width, runs), _gathering(spec, io, width, 1, width, is_loose=True)
    start, settle = io.start(width), settling_columns(io, width)

    def kernel(ins, outs, in_steps, out_steps, kept, reduced, positions, items, span, piece, count, whole, words):
        more = scalars(words)
        cells = cuda.shared.array((slots, MAX_THREADS), cell)
        rank, height = cuda.threadIdx.y, cuda.blockDim.y
        thread = rank * cuda.blockDim.x + cuda.threadIdx.x
        position = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        inside = position < positions
        target = unravel(position if inside else 0, kept)
        outer, column = target[:-1], target[-1] * width
        here = outer + (column,)
        put(cells, 0, thread, start())
        item = cuda.blockIdx.y * span
        last = min(items, item + span)
        while inside and item < last:
            found, place, end = start(), item + rank, min(last, item + piece)
            if width == 1 or whole:
                found, _ = gather(found, ins, here, place, height, end, reduced, in_steps, 0, more)
            else:
                while place < end:
                    found = join(merge, found, gather_loose(ins, here, place, height, reduced, in_steps, 0, more))
                    place += height
            gain(merge, cells, thread, found)
            item += piece
        settle(cells, thread, rank, height, cuda.blockDim.x)
        if rank == 0 and inside:
            for lane in range(width):
                results = finish(done, take(cells, lane, thread), count, more)
                store(outs, offsets(outer + (column + lane, cuda.blockIdx.y), out_steps), results)

    return kernel


def storing(writes: Sequence[DTypeInfo], compute: str, adds: Sequence[bool]) -> Any:
    """Return the device function (outs, at, results) that stores one element of each output.

    Results are added to the outputs' elements, in the compute dtype, where `adds` is True; it is () for none.
    """
    store = operands(tuple(writes), 1, 1).store
    if True not in adds:
        return store
    total = _totals(writes, compute, adds, len(adds) - 1)

    def store_totals(outs, at, results):
        store(outs, at, total(outs, at, results))

    return cuda.jit(device=True)(store_totals)


def _totals(writes: Sequence[DTypeInfo], compute: str, adds: Sequence[bool], number: int) -> Any:
    """Return the device function (outs, at, results) -> what `storing` stores, of the outputs up to this number."""
    load = operands((writes[number],), 1, 1, compute).load

    def added(outs, at, results):
        (before,) = load((outs[number],), (at[number],))
        return (before + results[number],)

    def alone(outs, at, results):
        return (results[number],)

    own = cuda.jit(device=True)(added if adds[number] else alone)
    if number == 0:
        return own
    others = _totals(writes, compute, adds, number - 1)

    def totals(outs, at, results):
        return others(outs, at, results) + own(outs, at, results)

    return cuda.jit(device=True)(totals)


_MAKERS = {f.__name__: f for f in (reduce_contiguous, reduce_strided)}
#: Number of integers after `kept` and `reduced`.
_SCALARS = 6


def make(spec: ReduceSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    formula = spec.formula
    functions = (formula.function, formula.merge, formula.finish)
    function, merge, done = (specialize(each, spec.compute, spec.narrow) for each in functions)
    reads, writes = (tuple(TABLE[name] for name in names) for names in (spec.reads, spec.writes))
    own = operands(reads, 1, 1, spec.compute)
    parts = parts_of(spec)
    chunk = find = None
    later = merge
    if formula.chunk is not None and spec.stage != "second":
        chunk = chunked(formula.chunk, merge, spec.compute, spec.narrow, spec.parts, parts.starts, parts.count)
    # The first match has the lowest index only if indices are in order.
    if formula.place is not None and spec.stage != "second" and spec.ordered:
        # Rows are stepped through along one dimension.
        is_even = spec.algorithm == "reduce_contiguous" or spec.reduced == 1
        find = finding(formula.place, spec.reads[0], spec.compute, spec.narrow, is_even, spec.parts)
        later = specialize(formula.place.later, spec.compute, spec.narrow)
    io = SimpleNamespace(
        **vars(parts),
        chunk=chunk,
        find=find,
        offsets=own.offsets,
        unravel=own.unravel,
        store=storing(writes, spec.compute, spec.adds),
        scalars=scalar_reader(spec.scalars),
        # The second pass merges what the first pass writes.
        function=None if spec.stage == "second" else function,
        merge=merge,
        later=later,
        done=None if spec.stage == "first" else done,
    )
    return _MAKERS[spec.algorithm](spec, io)


def parameters(spec: ReduceSpec) -> Sequence[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    integer, inputs, outputs = "int64" if spec.wide else "int32", len(spec.reads), len(spec.writes)
    return [
        *(("uint64", n) for n in (inputs, outputs)),
        (integer, (inputs + spec.indexed, spec.kept + spec.reduced)),
        (integer, (outputs, spec.kept + 1)),
        (integer, spec.kept),
        (integer, spec.reduced),
        *[(integer, None)] * _SCALARS,
        (WORDS, words_of(spec.scalars)),
    ]
