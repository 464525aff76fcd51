"""The kernels that normalize rows: y[i] = function(x[i], what is reduced of all x), stage after stage of reductions.

A group of threads takes a row, or several blocks of a cluster do. What a thread has read it keeps: of short rows in
registers, of others in shared memory, as long as there is room for it; what is beyond each stage reads anew. The order
in which numbers are merged is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base._numba import cuda
from ..base.dtypes import TABLE
from . import groups
from .chunks import chunked
from .fold_lanes import parts_intrinsics
from .folds import settling, spreading
from .groups import CELLS, settling_blocks, settling_warps
from .intrinsics import operands, scalar_reader
from .row_lanes import keeping, kept_memory
from .row_specs import ACROSS_THREADS, RowSpec
from .specialize import specialize
from .specs import Kernel, words_of

#: Numbers that a thread has in registers where results are written of rows in shared memory.
_WRITE_NUMBERS = 32
#: Accesses that a thread begins to copy there between two looks at how far it is.
_BRING_RUNS = 4
#: Elements from which on parts are made together, where a reduction has a way to.
_FEWEST = 4


def _write_runs(spec: RowSpec) -> int:
    """Accesses under way at once where results are written, and all inputs are in registers."""
    return 1 << min(max(_WRITE_NUMBERS // (spec.width * len(spec.reads)), 1), spec.runs).bit_length() - 1


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
    """`folds.spreading`, with the first item in place of those that are not before the end."""
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


# ---------------------------------------------------------------- what a stage is


def _stage(spec: RowSpec, number: int) -> SimpleNamespace:
    """A stage's reduction, and its intrinsics."""
    reduction = spec.formula.stages[number]
    functions = (reduction.function, reduction.merge, reduction.finish)
    function, merge, done = (specialize(each, spec.compute, spec.narrow) for each in functions)
    starts = tuple(np.dtype(spec.compute).type(start) for start in reduction.start)
    names = (spec.compute,) * len(starts)
    parts = parts_intrinsics(names, starts, spec.compute)
    chunk = None
    if reduction.chunk is not None:
        chunk = chunked(reduction.chunk, spec.compute, spec.narrow, names, starts, spec.compute)
    return SimpleNamespace(**vars(parts), function=function, merge=merge, done=done, chunk=chunk)


def _settling(spec: RowSpec, stage: SimpleNamespace, number: int) -> Any:
    """The device function (parts, cells, base, thread, rank, group, apart, blocks) -> the parts of all of a row's
    threads; cells from `base` on are this row's."""
    if spec.form == "across":
        put, take, settle, place = stage.put, stage.take, settling(stage, 1), number * ACROSS_THREADS

        def across(parts, cells, base, thread, rank, group, apart, blocks):
            put(cells, 0, base + place + thread, parts)
            settle(cells, base + place + thread, rank, group, apart)
            cuda.syncthreads()
            return take(cells, 0, base + place + thread - rank * apart)

        return cuda.jit(device=True)(across)
    threads, place = settling_warps(stage, spec.warps), number * CELLS

    def settle_threads(parts, cells, base, thread, rank, group, apart, blocks):
        return threads(parts, cells, base + place, thread, rank, group)

    found = cuda.jit(device=True)(settle_threads)
    if not spec.is_cluster:
        return found
    clusters = settling_blocks(stage, number == 0)

    def settle_all(parts, cells, base, thread, rank, group, apart, blocks):
        parts = found(parts, cells, base, thread, rank, group, apart, blocks)
        return clusters(parts, cells, base + place, thread, blocks)

    return cuda.jit(device=True)(settle_all)


def _each_stage(spec: RowSpec, make: Callable[..., Any], number: int) -> Any:
    """The device function (row, at, more) -> the results of the stages up to this number.

    `make(number)` is the device function (row, at, more, given) -> those of one, given those of all before and the
    scalars. `row` and `at` are tuples that the caller knows.
    """
    own = make(number)

    def first(row, at, more):
        return own(row, at, more, more)

    if number == 0:
        return cuda.jit(device=True)(first)
    before = _each_stage(spec, make, number - 1)

    def later(row, at, more):
        known = before(row, at, more)
        return known + own(row, at, more, known + more)

    return cuda.jit(device=True)(later)


# ---------------------------------------------------------------- rows in registers


def reducing_registers(spec: RowSpec) -> Any:
    """The device function (row, at, more) -> the results of all stages, of what a group of threads holds of a row:
    row is (values, ins, places, inside, columns), at where its parts are brought together."""
    rest = keeping(spec, spec.runs).rest

    def make(number: int) -> Any:
        stage = _stage(spec, number)
        first_parts, fold_some, finish, merge = stage.first, stage.fold_some, stage.finish, stage.merge
        of_numbers, done, settle = stage.function, stage.done, _settling(spec, stage, number)

        def reduce(row, at, more, given):
            values, ins, places, inside, count = row
            cells, base, thread, rank, group, apart, blocks = at
            parts = first_parts(of_numbers, values + rest(ins, places), given)
            parts = settle(fold_some(merge, parts, inside), cells, base, thread, rank, group, apart, blocks)
            return finish(done, parts, count, more)

        return cuda.jit(device=True)(reduce)

    return _each_stage(spec, make, len(spec.formula.stages) - 1)


def _in_registers(spec: RowSpec, io: SimpleNamespace) -> Any:
    """The device function (ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more) -> the results of
    all stages: a row that a group of threads holds is read, reduced and written."""
    lanes = keeping(spec, spec.runs)
    spread = (spreading_whole if spec.whole else spreading_some)(io, spec.runs)
    inside_of = insides(1 if spec.whole else spec.runs)
    first, rest, store, map_lanes = lanes.first, lanes.rest, lanes.store, io.map_lanes
    function, reduce_all = specialize(spec.formula.function, spec.compute, spec.narrow), reducing_registers(spec)

    def reduce(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more):
        places, inside = spread(here, item, step, line, steps), inside_of(item, step, line[0])
        return reduce_all((first(ins, places), ins, places, inside, line[0]), at, more)

    if spec.is_reduction:
        return cuda.jit(device=True)(reduce)

    def run(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more):
        places, inside = spread(here, item, step, line, steps), inside_of(item, step, line[0])
        values = first(ins, places)
        results = reduce_all((values, ins, places, inside, line[0]), at, more)
        found = map_lanes(function, values + rest(ins, places), results + more)
        store(outs, spread(here, item, step, line, out_steps), found, inside)
        return results

    return cuda.jit(device=True)(run)


# ---------------------------------------------------------------- rows in shared memory


def _integer(spec: RowSpec) -> Any:
    """What counts elements: Numba makes 64 bits of what it adds or multiplies."""
    return np.int64 if spec.wide else np.int32


def _bringing(spec: RowSpec, io: SimpleNamespace, runs: int) -> Any:
    """The device function (ins, here, item, step, end, line, steps, tile, slot, threads): begin to copy what is kept
    of item, item + step, ... before the end into the tile."""
    bring, spread = keeping(spec, runs).bring, spreading(io.offsets, io.unravel, runs)
    slots, integer = runs * spec.kept, _integer(spec)

    def bring_these(ins, here, item, step, end, line, steps, tile, slot, threads):
        while integer(item + (runs - 1) * step) < end:
            bring(ins, spread(here, item, step, line, steps), tile, slot, threads)
            item = integer(item + runs * step)
            slot = np.int32(slot + slots * threads)
        return item, slot

    these = cuda.jit(device=True)(bring_these)
    if runs == 1:
        return these
    fewer = _bringing(spec, io, runs // 2)

    def bring_all(ins, here, item, step, end, line, steps, tile, slot, threads):
        item, slot = these(ins, here, item, step, end, line, steps, tile, slot, threads)
        return fewer(ins, here, item, step, end, line, steps, tile, slot, threads)

    return cuda.jit(device=True)(bring_all)


def _parts_of(stage: SimpleNamespace, lanes: int) -> Any:
    """The device function (values, given) -> the parts of numbers in so many lanes, merged to one."""
    if stage.chunk is not None and lanes >= _FEWEST:
        return stage.chunk(1)
    first, fold, function, merge = stage.first, stage.fold(1), stage.function, stage.merge

    def parts_of(values, given):
        return fold(merge, first(function, values, given))

    return cuda.jit(device=True)(parts_of)


def _gathering(spec: RowSpec, io: SimpleNamespace, stage: SimpleNamespace, how: str, runs: int) -> Any:
    """The device function (parts, ins, here, item, step, end, line, steps, tile, slot, threads, given) -> (the parts
    and those of all runs at item, item + step, ... before the end, the next item, the next slot).

    Args:
        spec, io: the kernel.
        stage: the reduction.
        how: a name in `row_lanes.keeping`.
        runs: how many are under way at once.
    """
    load, spread = getattr(keeping(spec, runs), how), spreading(io.offsets, io.unravel, runs)
    parts_of, join, merge = _parts_of(stage, runs * spec.width), stage.join, stage.merge
    slots, integer = runs * spec.kept, _integer(spec)

    def gather(parts, ins, here, item, step, end, line, steps, tile, slot, threads, given):
        while integer(item + (runs - 1) * step) < end:
            at = spread(here, item, step, line, steps)
            parts = join(merge, parts, parts_of(load(ins, at, tile, slot, threads), given))
            item = integer(item + runs * step)
            slot = np.int32(slot + slots * threads)
        return parts, item, slot

    these = cuda.jit(device=True)(gather)
    if runs == 1:
        return these
    fewer = _gathering(spec, io, stage, how, runs // 2)

    def gather_all(parts, ins, here, item, step, end, line, steps, tile, slot, threads, given):
        parts, item, slot = these(parts, ins, here, item, step, end, line, steps, tile, slot, threads, given)
        return fewer(parts, ins, here, item, step, end, line, steps, tile, slot, threads, given)

    return cuda.jit(device=True)(gather_all)


def _mapping(spec: RowSpec, io: SimpleNamespace, how: str, runs: int) -> Any:
    """The device function that writes a row up to an end, given the results of all stages, and returns the next item
    and slot."""
    lanes, spread = keeping(spec, runs), spreading(io.offsets, io.unravel, runs)
    load, store, map_lanes, inside = getattr(lanes, how), lanes.store, io.map_lanes, (True,)
    function, slots = specialize(spec.formula.function, spec.compute, spec.narrow), runs * spec.kept
    integer = _integer(spec)

    def write(ins, outs, here, item, step, end, line, steps, out_steps, tile, slot, threads, given):
        while integer(item + (runs - 1) * step) < end:
            values = load(ins, spread(here, item, step, line, steps), tile, slot, threads)
            store(outs, spread(here, item, step, line, out_steps), map_lanes(function, values, given), inside)
            item = integer(item + runs * step)
            slot = np.int32(slot + slots * threads)
        return item, slot

    these = cuda.jit(device=True)(write)
    if runs == 1:
        return these
    fewer = _mapping(spec, io, how, runs // 2)

    def write_all(ins, outs, here, item, step, end, line, steps, out_steps, tile, slot, threads, given):
        item, slot = these(ins, outs, here, item, step, end, line, steps, out_steps, tile, slot, threads, given)
        return fewer(ins, outs, here, item, step, end, line, steps, out_steps, tile, slot, threads, given)

    return cuda.jit(device=True)(write_all)


def _in_shared(spec: RowSpec, io: SimpleNamespace) -> Any:
    """As `_in_registers`, of rows of which a thread keeps `held` accesses in shared memory."""

    def make(number: int) -> Any:
        stage = _stage(spec, number)
        gather = _gathering(spec, io, stage, "load", spec.runs)
        gather_kept = _gathering(spec, io, stage, "again", spec.runs)
        start, finish, done, settle = stage.start(1), stage.finish, stage.done, _settling(spec, stage, number)

        def reduce(row, at, more, given):
            ins, here, item, step, end, line, steps, tile, threads = row
            cells, base, thread, rank, group, apart, blocks = at
            found, item, _ = gather_kept(start(), ins, here, item, step, end, line, steps, tile, thread, threads, given)
            found, _, _ = gather(found, ins, here, item, step, line[0], line, steps, tile, thread, threads, given)
            found = settle(found, cells, base, thread, rank, group, apart, blocks)
            return finish(done, found, line[0], more)

        return cuda.jit(device=True)(reduce)

    reduce_all = _each_stage(spec, make, len(spec.formula.stages) - 1)
    write, write_kept = (_mapping(spec, io, how, _write_runs(spec)) for how in ("load", "again"))
    bring, arrived, integer = _bringing(spec, io, _BRING_RUNS), keeping(spec, 1).arrived, _integer(spec)

    def stream(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more):
        return reduce_all((ins, here, item, step, item, line, steps, tile, at[2]), at, more)

    if spec.is_reduction:
        return cuda.jit(device=True)(stream)

    def run(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more):
        threads, thread = np.int32(cuda.blockDim.x * cuda.blockDim.y), at[2]
        end = integer(min(held * step, line[0]))
        bring(ins, here, item, step, end, line, steps, tile, thread, threads)
        arrived()
        results = reduce_all((ins, here, item, step, end, line, steps, tile, threads), at, more)
        given = results + more
        item, _ = write_kept(ins, outs, here, item, step, end, line, steps, out_steps, tile, thread, threads, given)
        write(ins, outs, here, item, step, line[0], line, steps, out_steps, tile, thread, threads, given)
        return results

    return cuda.jit(device=True)(run)


# ---------------------------------------------------------------- the kernel


def _placing(spec: RowSpec) -> Any:
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
            return cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y, rank, rank, cuda.blockDim.x, 1

        return cuda.jit(device=True)(along)

    arrive = groups.arrive

    def shared(blocks):
        arrive()
        rank, group = cuda.threadIdx.x, cuda.blockDim.x
        return cuda.blockIdx.x // blocks, cuda.blockIdx.x % blocks * group + rank, rank, group, 1

    return cuda.jit(device=True)(shared)


@cuda.jit(device=True)
def _no_memory():
    return 0


@cuda.jit(device=True)
def same_row(results, more):
    """What stages have found is stored as it is."""
    return results


def _of_row(spec: RowSpec, apply: Any) -> Any:
    """The device function (results, more) -> what the formula makes of the results of all stages."""
    function = specialize(spec.formula.function, spec.compute, spec.narrow)

    def of_row(results, more):
        return apply(function, results, more)

    return cuda.jit(device=True)(of_row)


def make(spec: RowSpec) -> Kernel:
    """A block of x times y threads: x of them take a row, or across, y, and neighbours neighbouring rows.

    Columns are a multiple of those in an access. In a cluster `blocks` take a row. A thread keeps `held` accesses of
    each input in shared memory.
    """
    own = operands(tuple(TABLE[name] for name in spec.reads), 1, 1, spec.compute)
    io = SimpleNamespace(offsets=own.offsets, unravel=own.unravel, map_lanes=own.map_lanes)
    stages, offsets, unravel, scalars = spec.formula.stages, io.offsets, io.unravel, scalar_reader(spec.scalars)
    slots, width, note = max(len(stage.start) for stage in stages), spec.width, keeping(spec, 1).note
    each = len(stages) * (ACROSS_THREADS if spec.form == "across" else CELLS)
    parts = parts_intrinsics((spec.compute,), (np.dtype(spec.compute).type(0),), spec.compute)
    cell, enter, leave, placing = parts.cell, parts.enter, parts.leave, _placing(spec)
    run = (_in_shared if spec.is_dynamic else _in_registers)(spec, io)
    memory = kept_memory if spec.is_dynamic and not spec.is_reduction else _no_memory
    of_row = _of_row(spec, own.apply) if spec.is_reduction else same_row
    has_stats, integer = spec.stats > 0, _integer(spec)

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, blocks, held, words):
        more = scalars(words)
        enter()
        cells = cuda.shared.array((slots, each), cell)
        leave()
        row, place, rank, group, apart = placing(blocks)
        row, thread = integer(row), np.int32(cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x)
        inside = row < rows
        here, line = unravel(row if inside else 0, outer), (columns,)
        # All threads take part in every stage.
        item, step = integer(place * width) if inside else columns, integer(group * blocks * width)
        at = cells, 0, thread, rank, group, apart, blocks
        results = run(ins, outs, here, item, step, line, in_steps, out_steps, memory(), held, at, more)
        if has_stats and place == 0 and inside:
            note(outs, offsets(here + (0,), out_steps), of_row(results, more))

    return kernel


#: Integers behind `outer`.
_SCALARS = 4


def parameters(spec: RowSpec) -> Sequence[tuple[str, Any]]:
    """See `registry.parameters`."""
    integer, counts = "int64" if spec.wide else "int32", (len(spec.reads), len(spec.writes))
    return [
        *(("uint64", n) for n in counts),
        *((integer, (n, spec.rank + 1)) for n in counts),
        (integer, spec.rank),
        *[(integer, None)] * _SCALARS,
        ("int64", words_of(spec.scalars)),
    ]
