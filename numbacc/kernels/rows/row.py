"""The kernels that normalize rows: y[i] = function(x[i], what is reduced of all x), stage after stage of reductions.

A group of threads takes a row, or several blocks of a cluster do. What a thread has read it keeps: of short rows in
registers, of others in shared memory, as long as there is room for it; what is beyond each stage reads anew. The order
in which numbers are merged is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import WORDS
from ..primitives import block_reduce
from ..primitives.block_reduce import CELLS
from ..primitives.operands import operands, scalar_reader
from ..primitives.partials import parts_intrinsics
from ..primitives.specialize import specialize
from ..reduce.reduce import spreading
from ..specs import Kernel, words_of
from .load_store import keeping, kept_memory
from .loss_mean import adding, none
from .packed import in_words
from .shared import in_shared
from .spec import ACROSS_THREADS, RowSpec
from .stages import each_stage, integer_of, settling_of, stage_of


def insides(runs: int) -> Callable[..., Any]:
    """The device function (item, step, end) -> for each of `runs` items, `step` apart, whether it is before the end."""

    def is_inside(item, step, end):
        return (item < end,)

    one = cuda.jit(device=True)(is_inside)
    if runs == 1:
        return one  # type: ignore[no-any-return]
    others = insides(runs - 1)

    def are_inside(item, step, end):
        return one(item, step, end) + others(item + step, step, end)

    jitted: Callable[..., Any] = cuda.jit(device=True)(are_inside)
    return jitted


def spreading_some(io: SimpleNamespace, runs: int) -> Callable[..., Any]:
    """`reduce.spreading`, with the first item in place of those that are not before the end."""
    offsets, unravel = io.offsets, io.unravel

    def place(here, item, step, line, steps):
        return (offsets(here + unravel(item if item < line[0] else 0, line), steps),)

    one = cuda.jit(device=True)(place)
    if runs == 1:
        return one  # type: ignore[no-any-return]
    others = spreading_some(io, runs - 1)

    def spread(here, item, step, line, steps):
        return one(here, item, step, line, steps) + others(here, item + step, step, line, steps)

    jitted: Callable[..., Any] = cuda.jit(device=True)(spread)
    return jitted


def spreading_whole(io: SimpleNamespace, runs: int) -> Callable[..., Any]:
    """`spreading_some` where all items are before the end, or none is."""
    spread = spreading(io.offsets, io.unravel, runs)

    def spread_all(here, item, step, line, steps):
        return spread(here, item if item < line[0] else 0, step, line, steps)

    jitted: Callable[..., Any] = cuda.jit(device=True)(spread_all)
    return jitted


# ---------------------------------------------------------------- rows in registers


def reducing_registers(spec: RowSpec, gathering: Callable[..., Any], walks: bool = False) -> Any:
    """The device function (row, at, more) -> the results of all stages, of what a group of threads has of a row.

    Args:
        spec: the kernel.
        gathering: stage -> the device function (source, inside, given) -> the parts of one thread.
        walks: True where groups take row after row, as in `settling_of`.

    row is (source, inside, columns), at where its parts are brought together.
    """

    def make(number: int) -> Any:
        stage = stage_of(spec, number)
        gather, settle = gathering(stage), settling_of(spec, stage, number, walks)
        finish, done = stage.finish, stage.done

        def reduce(row, at, more, given):
            source, inside, count = row
            cells, base, thread, rank, group, apart, blocks = at
            parts = gather(source, inside, given)
            parts = settle(parts, cells, base, thread, rank, group, apart, blocks)
            return finish(done, parts, count, more)

        return cuda.jit(device=True)(reduce)

    return each_stage(spec, make, len(spec.formula.stages) - 1)


def _gathering_words(spec: RowSpec) -> Callable[..., Any]:
    """stage -> the device function (source, inside, given) -> the parts of one thread, which has its row in words."""
    tools = in_words(spec)
    numbers, largest = tools.numbers, tools.largest

    def gathering(stage: SimpleNamespace) -> Any:
        first_parts, reduce_lanes, reduce_some = stage.first, stage.reduce_lanes(1), stage.reduce_some
        merge, of_numbers = stage.merge, stage.function

        def gather(source, inside, given):
            return reduce_some(merge, first_parts(of_numbers, numbers(source[0]), given), inside)

        def gather_largest(source, inside, given):
            return reduce_lanes(merge, first_parts(of_numbers, largest(source[0], inside), given))

        return cuda.jit(device=True)(gather_largest if stage.is_largest else gather)

    return gathering


def _in_registers(spec: RowSpec, io: SimpleNamespace) -> Any:
    """The device function (ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more) -> the results of
    all stages: a row that a group of threads holds is read, reduced and written."""
    lanes = keeping(spec, spec.runs)
    spread = (spreading_whole if spec.whole else spreading_some)(io, spec.runs)
    inside_of = insides(1 if spec.whole else spec.runs)
    first, rest, store, map_lanes = lanes.first, lanes.rest, lanes.store, io.map_lanes
    function = specialize(spec.formula.function, spec.compute, spec.narrow)

    def gathering(stage: SimpleNamespace) -> Any:
        first_parts, reduce_some, merge, of_numbers = stage.first, stage.reduce_some, stage.merge, stage.function

        def gather(source, inside, given):
            values, ins, places = source
            return reduce_some(merge, first_parts(of_numbers, values + rest(ins, places), given), inside)

        return cuda.jit(device=True)(gather)

    reduce_all, begin = reducing_registers(spec, gathering), first
    if spec.is_packed:
        reduce_all, begin = reducing_registers(spec, _gathering_words(spec)), in_words(spec).words

    def reduce(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more):
        places, inside = spread(here, item, step, line, steps), inside_of(item, step, line[0])
        return reduce_all(((begin(ins, places), ins, places), inside, line[0]), at, more)

    if spec.is_reduction:
        return cuda.jit(device=True)(reduce)

    def run(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more):
        places, inside = spread(here, item, step, line, steps), inside_of(item, step, line[0])
        values = first(ins, places)
        results = reduce_all(((values, ins, places), inside, line[0]), at, more)
        found = map_lanes(function, values + rest(ins, places), results + more)
        store(outs, spread(here, item, step, line, out_steps), found, inside)
        return results

    return cuda.jit(device=True)(run)


# ---------------------------------------------------------------- the kernel


def _placing(spec: RowSpec, block: Any) -> Any:
    """The device function (blocks) -> (a thread's row, its number among the row's threads, among those of its block,
    how many these are, how far apart)."""
    if spec.form == "across":

        def across(blocks):
            rank = cuda.threadIdx.y
            return cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, rank, rank, cuda.blockDim.y, cuda.blockDim.x

        return cuda.jit(device=True)(across)
    if not spec.is_cluster:

        def along(blocks):
            rank = cuda.threadIdx.x
            return block() * cuda.blockDim.y + cuda.threadIdx.y, rank, rank, cuda.blockDim.x, 1

        return cuda.jit(device=True)(along)

    arrive = block_reduce.arrive

    def shared(blocks):
        arrive()
        rank, group = cuda.threadIdx.x, cuda.blockDim.x
        return cuda.blockIdx.x // blocks, cuda.blockIdx.x % blocks * group + rank, rank, group, 1

    return cuda.jit(device=True)(shared)


@cuda.jit(device=True)
def _no_memory():
    return 0


@cuda.jit(device=True)
def _same_row(results, more):
    """What stages have found is stored as it is."""
    return results


@cuda.jit(device=True)
def _all(more):
    return more


def _picking(spec: RowSpec, offsets: Any) -> tuple[Any, Any]:
    """The device functions (ins, here, steps, is_first) -> a row's index, for its first thread, in a tuple, and
    (index, ins, here, columns, steps) -> what that names, and the index; both return () where there is none.

    The former begins to load it before the row, the latter finds its element in the cache behind it.
    """
    if spec.picks is None:
        return none, none
    load = operands((TABLE[spec.reads[0]],), 1, 1, spec.compute).load
    load_index, no_index = operands((TABLE[spec.picks],), 1, 1).load, (np.dtype(spec.picks).type(0),)
    nothing = np.dtype(spec.compute).type(math.nan)

    def ask(ins, here, steps, is_first):
        if is_first:
            return load_index(ins[1:], offsets(here + (0,), steps)[1:])
        return no_index

    def pick(asked, ins, here, columns, steps):
        index = np.int64(asked[0])
        is_inside = 0 <= index < columns
        (value,) = load(ins[:1], offsets(here + (index if is_inside else 0,), steps)[:1])
        return value if is_inside else nothing, index

    return cuda.jit(device=True)(ask), cuda.jit(device=True)(pick)


def _of_row(spec: RowSpec, apply: Any) -> Any:
    """The device function (results, more) -> what the formula makes of the results of all stages."""
    function = specialize(spec.formula.function, spec.compute, spec.narrow)

    def of_row(results, more):
        return apply(function, results, more)

    return cuda.jit(device=True)(of_row)


def _noting(spec: RowSpec, io: SimpleNamespace, pick: Any, total: SimpleNamespace) -> Any:
    """The device function (results, index, ins, outs, here, columns, in_steps, out_steps, more, is_first) -> what a
    thread's row adds to the total; numbers of the row, of which this is the `is_first` thread, are stored."""
    of_row = _of_row(spec, io.apply) if spec.is_reduction else _same_row
    offsets, note, nothing, add_row = io.offsets, keeping(spec, 1).note, total.nothing, total.of_row

    def note_row(results, index, ins, outs, here, columns, in_steps, out_steps, more, is_first):
        parts = nothing()
        if is_first:
            known = results + pick(index, ins, here, columns, in_steps)
            made = of_row(known, more)
            note(outs, offsets(here + (0,), out_steps), made)
            parts = add_row(made, known, more)
        return parts

    return cuda.jit(device=True)(note_row if spec.stats else none)


def make(spec: RowSpec) -> Kernel:
    """A block of x times y threads: x of them take a row, or across, y, and neighbours neighbouring rows.

    Columns are a multiple of those in an access. In a cluster `blocks` take a row. A thread keeps `held` accesses of
    each input in shared memory. With a total there is one more block, see `row_totals`.
    """
    own = operands(tuple(TABLE[name] for name in spec.reads), 1, 1, spec.compute)
    io = SimpleNamespace(offsets=own.offsets, unravel=own.unravel, map_lanes=own.map_lanes, apply=own.apply)
    stages, offsets, unravel, scalars = spec.formula.stages, io.offsets, io.unravel, scalar_reader(spec.scalars)
    total, width = adding(spec, keeping(spec, 1).note_total), spec.width
    slots = max(total.parts, *(len(stage.start) for stage in stages))
    each = len(stages) * (ACROSS_THREADS if spec.form == "across" else CELLS) + total.cells
    parts = parts_intrinsics((spec.compute,), (np.dtype(spec.compute).type(0),), spec.compute)
    cell, enter, leave, placing = parts.cell, parts.enter, parts.leave, _placing(spec, total.block)
    run = (in_shared if spec.is_dynamic else _in_registers)(spec, io)
    memory = kept_memory if spec.is_dynamic and not spec.is_reduction else _no_memory
    (ask, pick), of_stages = _picking(spec, offsets), _all if spec.picks is None else none
    note_row, integer = _noting(spec, io, pick, total), integer_of(spec)
    is_adding, add, tell = total.is_adding, total.add, total.tell

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, blocks, held, words):
        more = scalars(words)
        enter()
        cells = cuda.shared.array((slots, each), cell)
        leave()
        row, place, rank, group, apart = placing(blocks)
        row, thread = integer(row), np.int32(cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x)
        if is_adding():
            add(outs, offsets(unravel(0, outer) + (0,), out_steps), cells, thread, rows, more)
            return
        inside = row < rows
        here, line = unravel(row if inside else 0, outer), (columns,)
        # All threads take part in every stage.
        item, step = integer(place * width) if inside else columns, integer(group * blocks * width)
        at = cells, 0, thread, rank, group, apart, blocks
        is_first = place == 0 and inside
        index = ask(ins, here, in_steps, is_first)
        results = run(ins, outs, here, item, step, line, in_steps, out_steps, memory(), held, at, of_stages(more))
        own = note_row(results, index, ins, outs, here, columns, in_steps, out_steps, more, is_first)
        tell(outs, cells, thread, own)

    return kernel


#: Integers behind `outer`.
_SCALARS = 4


def parameters(spec: RowSpec) -> Sequence[tuple[str, Any]]:
    """See `kernel_code.parameters`."""
    inputs = len(spec.reads) + (spec.picks is not None)
    integer, counts = "int64" if spec.wide else "int32", (inputs, len(spec.writes))
    return [
        ("uint64", inputs),
        ("uint64", len(spec.writes) + (spec.total is not None)),
        *((integer, (n, spec.rank + 1)) for n in counts),
        (integer, spec.rank),
        *[(integer, None)] * _SCALARS,
        (WORDS, words_of(spec.scalars)),
    ]
