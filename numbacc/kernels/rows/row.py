"""The kernels that normalize rows: y[i] = function(x[i], values reduced from all x).

A group of threads processes a row, or several blocks of a cluster do. Each thread keeps the elements that it has read:
short rows in registers, longer ones in shared memory as far as they fit; every stage reads the remainder again. Each
thread copies its own elements to shared memory, and starts all copies before it uses the first element. Partial results
are always merged in the same order.

The mean of losses, one result of all rows, is computed in the kernel of the losses. Each block combines what its rows
contribute and publishes it (see `decoupled_look_back`); it does not wait. One extra block, or the first of one extra
cluster, processes no rows: it adds up the results that the other blocks publish, in the order of their numbers, while
they work, so that little is left to do when the last block ends. It resets the words to 0 for the next launch. Only
that block waits, so the others can always start. It starts first; in Numba's simulator, which runs one block after the
other, it is the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ...base.dtypes import TABLE
from ...functions.reduction_formula import ReductionFormula
from ...runtime.launch_order import WORDS
from ..primitives import block_reduce
from ..primitives.block_partials import chunked
from ..primitives.block_reduce import CELLS, WARP_CELLS, exchanging_blocks, settling, settling_blocks, settling_warps
from ..primitives.decoupled_look_back import telling
from ..primitives.instructions import kept_memory, wait_for_previous
from ..primitives.kept_runs import kept_runs
from ..primitives.operands import operands, scalar_reader
from ..primitives.packed_16bit import in_words
from ..primitives.partials import parts_intrinsics
from ..primitives.specialize import specialize
from ..reduce.functions import larger, part
from ..reduce.reduce import spreading
from ..specs import Kernel, words_of
from .spec import ACROSS_THREADS, RowSpec

# ---------------------------------------------------------------- stages


def integer_of(spec: RowSpec) -> Any:
    """Return the integer type that counts elements: Numba widens integers that it adds or multiplies to 64 bits."""
    return np.int64 if spec.wide else np.int32


def stage_of(spec: RowSpec, number: int) -> SimpleNamespace:
    """Return a stage's reduction and its intrinsics."""
    return reduction_of(spec, spec.formula.stages[number])


def reduction_of(spec: RowSpec, reduction: ReductionFormula) -> SimpleNamespace:
    """Return a reduction and its intrinsics."""
    functions = (reduction.function, reduction.merge, reduction.finish)
    function, merge, done = (specialize(each, spec.compute, spec.narrow) for each in functions)
    starts = tuple(np.dtype(spec.compute).type(start) for start in reduction.start)
    names = (spec.compute,) * len(starts)
    parts = parts_intrinsics(names, starts, spec.compute)
    chunk = None
    if reduction.chunk is not None:
        chunk = chunked(reduction.chunk, merge, spec.compute, spec.narrow, names, starts, spec.compute)
    is_largest = (reduction.function, reduction.merge) == (part, larger)
    return SimpleNamespace(**vars(parts), function=function, merge=merge, done=done, chunk=chunk, is_largest=is_largest)


def _runs_of(spec: RowSpec, runs: int) -> SimpleNamespace:
    """Return the `kept_runs` of a kernel's arrays."""
    is_totalled = spec.total is not None
    return kept_runs(spec.reads, spec.writes, spec.compute, spec.width, runs, spec.kept, spec.stats, is_totalled)


def _words_of(spec: RowSpec) -> SimpleNamespace:
    """Return the `in_words` of a kernel's only input."""
    return in_words(spec.reads[0], spec.compute, spec.width, spec.runs)


def settling_of(spec: RowSpec, stage: SimpleNamespace, number: int, walks: bool = False) -> Any:
    """Return the device function that combines the partial results of all threads of a row.

    Its arguments are (parts, cells, base, thread, rank, group, apart, blocks). The cells from `base` on belong to this
    row.

    `walks`: groups process row after row. Each waits only for its own threads, and the kernel has already waited until
    all blocks of a cluster have started. `blocks` is then the argument of `block_reduce.exchanging_blocks`.
    """
    if spec.form == "across":
        put, take, settle, place = stage.put, stage.take, settling(stage, 1), number * ACROSS_THREADS

        def across(parts, cells, base, thread, rank, group, apart, blocks):
            put(cells, 0, base + place + thread, parts)
            settle(cells, base + place + thread, rank, group, apart)
            cuda.syncthreads()
            return take(cells, 0, base + place + thread - rank * apart)

        return cuda.jit(device=True)(across)
    threads, place = settling_warps(stage, spec.warps, walks), number * (WARP_CELLS if walks else CELLS)

    def settle_threads(parts, cells, base, thread, rank, group, apart, blocks):
        return threads(parts, cells, base + place, thread, rank, group)

    found = cuda.jit(device=True)(settle_threads)
    if not spec.is_cluster:
        return found
    if walks:
        send, receive = exchanging_blocks(stage, number, len(spec.formula.stages))

        def settle_groups(parts, cells, base, thread, rank, group, apart, blocks):
            send(found(parts, cells, base, thread, rank, group, apart, blocks), rank, blocks)
            return receive(rank, blocks)

        return cuda.jit(device=True)(settle_groups)
    clusters = settling_blocks(stage, number == 0)

    def settle_all(parts, cells, base, thread, rank, group, apart, blocks):
        parts = found(parts, cells, base, thread, rank, group, apart, blocks)
        return clusters(parts, cells, base + place, thread, blocks)

    return cuda.jit(device=True)(settle_all)


def each_stage(spec: RowSpec, make: Callable[..., Any], number: int) -> Any:
    """Return the device function (row, at, more) -> the results of the stages up to this number.

    `make(number)` is the device function (row, at, more, given) -> the results of one stage, where `given` holds the
    results of all earlier stages and the scalars. `row` and `at` are tuples that only the caller interprets.
    """
    own = make(number)

    def first(row, at, more):
        return own(row, at, more, more)

    if number == 0:
        return cuda.jit(device=True)(first)
    before = each_stage(spec, make, number - 1)

    def later(row, at, more):
        known = before(row, at, more)
        return known + own(row, at, more, known + more)

    return cuda.jit(device=True)(later)


def exchanging(spec: RowSpec, gathering: Callable[..., Any]) -> tuple[Any, Any]:
    """Return two device functions for groups that process row after row and share each row with other blocks.

    (row, many, at, more): sends this group's partial results of a row, of `many` elements, to all blocks of the
    cluster. (columns, at, more) -> the results of both stages, once all blocks' results have arrived. `row` is (source,
    inside); `at` and `gathering` are as in `row.reducing_registers`.
    """
    shared = spec.formula.shared
    assert shared is not None
    joint, real = reduction_of(spec, shared), np.dtype(spec.compute).type
    (first, find_first), (_, find_second) = (_of_group(spec, gathering, number) for number in range(2))
    send, receive = exchanging_blocks(joint, 0, 1)
    parts_of, own_parts, finish, done = joint.first, joint.function, joint.finish, joint.done
    first_finish, first_done = first.finish, first.done

    def send_row(row, many, at, more):
        # If the block's part of the row is empty, any value will do.
        known = first_finish(first_done, find_first(row, at, more), max(many, 1), more)
        found = ((real(many),), known) + find_second(row, at, known + more)
        send(parts_of(own_parts, found, more), at[3], at[-1])

    def results(columns, at, more):
        return finish(done, receive(at[3], at[-1]), columns, more)

    return cuda.jit(device=True)(send_row), cuda.jit(device=True)(results)


def _of_group(spec: RowSpec, gathering: Callable[..., Any], number: int) -> tuple[SimpleNamespace, Any]:
    """Return a stage, and the device function (row, at, given) -> the partial results of a group of threads."""
    stage = stage_of(spec, number)
    gather, settle = gathering(stage), settling_of(spec._replace(is_cluster=False), stage, number, walks=True)

    def find(row, at, given):
        source, inside = row
        cells, base, thread, rank, group, apart, blocks = at
        return settle(gather(source, inside, given), cells, base, thread, rank, group, apart, blocks)

    return stage, cuda.jit(device=True)(find)


# ---------------------------------------------------------------- rows in shared memory

#: Elements that a thread holds in registers while it writes the results of rows in shared memory.
_WRITE_NUMBERS = 32
#: Accesses that a thread starts to copy to shared memory before it checks the loop's end again.
_BRING_RUNS = 4
#: From this number of elements on, partial results are computed together, if a reduction supports that.
_FEWEST = 4


def _write_runs(spec: RowSpec) -> int:
    """Return how many accesses are in flight while results are written, with all inputs in registers."""
    return 1 << min(max(_WRITE_NUMBERS // (spec.width * len(spec.reads)), 1), spec.runs).bit_length() - 1


def _bringing(spec: RowSpec, io: SimpleNamespace, runs: int) -> Any:
    """Return the device function that starts copying the kept elements of a row into the tile.

    It copies those at item, item + step, ... before the end. Its arguments are (ins, here, item, step, end, line,
    steps, tile, slot, threads).
    """
    bring, spread = _runs_of(spec, runs).bring, spreading(io.offsets, io.unravel, runs)
    slots, integer = runs * spec.kept, integer_of(spec)

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
    """Return the device function (values, given) -> the partial results of this many lanes, merged to one."""
    if stage.chunk is not None and lanes >= _FEWEST:
        return stage.chunk(1)
    first, reduce_lanes, function, merge = stage.first, stage.reduce_lanes(1), stage.function, stage.merge

    def parts_of(values, given):
        return reduce_lanes(merge, first(function, values, given))

    return cuda.jit(device=True)(parts_of)


def _gathering(spec: RowSpec, io: SimpleNamespace, stage: SimpleNamespace, how: str, runs: int) -> Any:
    """Return the device function that merges the elements of all runs of a row into the partial results.

    (parts, ins, here, item, step, end, line, steps, tile, slot, threads, given) -> (the partial results including those
    from the elements at item, item + step, ... before the end, the next item, the next slot).

    Args:
        spec, io: the kernel.
        stage: the reduction.
        how: the name of a function in `kept_runs`.
        runs: number of runs in flight at once.
    """
    load, spread = getattr(_runs_of(spec, runs), how), spreading(io.offsets, io.unravel, runs)
    parts_of, join, merge = _parts_of(stage, runs * spec.width), stage.join, stage.merge
    slots, integer = runs * spec.kept, integer_of(spec)

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
    """Return the device function that writes a row up to an end, given the results of all stages.

    It returns the next item and slot.
    """
    lanes, spread = _runs_of(spec, runs), spreading(io.offsets, io.unravel, runs)
    load, store, map_lanes, inside = getattr(lanes, how), lanes.store, io.map_lanes, (True,)
    function, slots = specialize(spec.formula.function, spec.compute, spec.narrow), runs * spec.kept
    integer = integer_of(spec)

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


def _edges(spec: RowSpec, io: SimpleNamespace) -> SimpleNamespace:
    """Return the device functions for elements of a row outside of its aligned accesses: of `RowSpec.is_unaligned`.

    Each of the row's first threads processes one of them. It keeps the element in registers.

    Returns:
        a namespace of
        ``place(ins, here, item, line, steps)``: (the row's first element in an aligned access, the end of all of them,
        this thread's element outside of them, whether it has one);
        ``load(ins, here, edge, line, steps)``: that element of each input;
        ``joining(stage)``: the device function (parts, values, is_edge, given) -> the partial results with the element;
        ``store(outs, here, edge, line, steps, values, is_edge, given)``: write the result of the element.
    """
    integer, width, itemsize = integer_of(spec), spec.width, TABLE[spec.reads[0]].itemsize
    if not spec.is_unaligned:

        def whole(ins, here, item, line, steps):
            return integer(0), line[0], integer(0), False

        return SimpleNamespace(
            place=cuda.jit(device=True)(whole), load=none, joining=lambda stage: _same_parts, store=_nothing
        )
    lanes, spread, offsets = _runs_of(spec._replace(width=1), 1), spreading(io.offsets, io.unravel, 1), io.offsets
    function = specialize(spec.formula.function, spec.compute, spec.narrow)
    load_one, store_one, map_lanes = lanes.load, lanes.store, io.map_lanes

    def place(ins, here, item, line, steps):
        start = np.int64(ins[0]) // itemsize + offsets(here + (0,), steps)[0]
        head = integer(-start & (width - 1))
        accessed = integer((line[0] - head) & -width)
        # Threads without a row have items, and so numbers, after the last element of a row.
        number = integer(item // width)
        is_edge = number < line[0] - accessed
        edge = integer(number if number < head else number + accessed)
        return head, integer(head + accessed), edge if is_edge else integer(0), is_edge

    def load(ins, here, edge, line, steps):
        return load_one(ins, spread(here, edge, 0, line, steps), 0, 0, 0)

    def joining(stage: SimpleNamespace) -> Any:
        parts_of, join, merge = _parts_of(stage, 1), stage.join, stage.merge

        def with_edge(parts, values, is_edge, given):
            if is_edge:
                parts = join(merge, parts, parts_of(values, given))
            return parts

        return cuda.jit(device=True)(with_edge)

    def store(outs, here, edge, line, steps, values, is_edge, given):
        store_one(outs, spread(here, edge, 0, line, steps), map_lanes(function, values, given), (is_edge,))

    place, load, store = (cuda.jit(device=True)(each) for each in (place, load, store))
    return SimpleNamespace(place=place, load=load, joining=joining, store=store)


def in_shared(spec: RowSpec, io: SimpleNamespace) -> Any:
    """Return the counterpart of `_in_registers` for rows with `held` accesses per thread in shared memory."""
    edges, choice = _edges(spec, io), _choosing(spec, io)
    find, last, choose = choice.find, choice.last, choice.choose
    place, load_edge, store_edge = edges.place, edges.load, edges.store

    def make(number: int) -> Any:
        stage = stage_of(spec, number)
        gather = _gathering(spec, io, stage, "load", spec.runs)
        gather_kept = _gathering(spec, io, stage, "again", spec.runs)
        start, finish, done, settle = stage.start(1), stage.finish, stage.done, settling_of(spec, stage, number)
        with_edge = edges.joining(stage)

        def reduce(row, at, more, given):
            ins, here, item, step, end, whole, line, steps, tile, threads, edge, is_edge = row
            cells, base, thread, rank, group, apart, blocks = at
            found, item, _ = gather_kept(start(), ins, here, item, step, end, line, steps, tile, thread, threads, given)
            found, _, _ = gather(found, ins, here, item, step, whole, line, steps, tile, thread, threads, given)
            found = with_edge(found, edge, is_edge, given)
            found = settle(found, cells, base, thread, rank, group, apart, blocks)
            return finish(done, found, line[0], more)

        return cuda.jit(device=True)(reduce)

    reduce_all = each_stage(spec, make, len(spec.formula.stages) - 1)
    write, write_kept = (_mapping(spec, io, how, _write_runs(spec)) for how in ("load", "again"))
    bring, arrived, integer = _bringing(spec, io, _BRING_RUNS), _runs_of(spec, 1).arrived, integer_of(spec)

    def stream(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more, asked):
        head, whole, outside, is_edge = place(ins, here, item, line, steps)
        item, edge = integer(item + head), load_edge(ins, here, outside, line, steps)
        return reduce_all((ins, here, item, step, item, whole, line, steps, tile, at[2], edge, is_edge), at, more)

    if spec.is_reduction:
        return cuda.jit(device=True)(stream)

    def run(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more, asked):
        threads, thread, own = np.int32(cuda.blockDim.x * cuda.blockDim.y), at[2], item
        head, whole, outside, is_edge = place(ins, here, item, line, steps)
        item, end = integer(item + head), integer(min(head + held * step, whole))
        bring(ins, here, item, step, end, line, steps, tile, thread, threads)
        edge = load_edge(ins, here, outside, line, steps)
        chosen = find(asked, ins, here, own, step, line, steps)
        arrived()
        results = reduce_all((ins, here, item, step, end, whole, line, steps, tile, threads, edge, is_edge), at, more)
        given = last(results, more, asked, line)
        item, _ = write_kept(ins, outs, here, item, step, end, line, steps, out_steps, tile, thread, threads, given)
        write(ins, outs, here, item, step, whole, line, steps, out_steps, tile, thread, threads, given)
        store_edge(outs, here, outside, line, out_steps, edge, is_edge, given)
        return choose(outs, here, out_steps, results, chosen, asked, line)

    return cuda.jit(device=True)(run)


# ---------------------------------------------------------------- one result of all rows: the mean of losses

#: Words that a thread of the adding block requests at once.
_AHEAD = 4


def _hearing(stage: SimpleNamespace, told: SimpleNamespace, many: int) -> Callable[..., Any]:
    """Return the device function (words, blocks, block, step) -> the merged partial results of `many` blocks.

    The blocks start at `block` and are `step` apart. All are requested before the thread waits for the first, and
    cleared after they have arrived.
    """
    ask, wait, clear, join, merge = told.ask, told.wait, told.clear, stage.join, stage.merge

    def hear(words, blocks, block, step):
        parts = wait(words, 0, blocks, block, ask(words, 0, blocks, block))
        clear(words, 0, blocks, block)
        return parts

    if many == 1:
        jitted: Callable[..., Any] = cuda.jit(device=True)(hear)
        return jitted
    others = _hearing(stage, told, many - 1)

    def hear_all(words, blocks, block, step):
        asked = ask(words, 0, blocks, block)
        behind = others(words, blocks, block + step, step)
        parts = wait(words, 0, blocks, block, asked)
        clear(words, 0, blocks, block)
        return join(merge, parts, behind)

    all_jitted: Callable[..., Any] = cuda.jit(device=True)(hear_all)
    return all_jitted


def adding(spec: RowSpec, note: Any) -> SimpleNamespace:
    """Return the device functions of kernels with a `RowSpec.total`; in kernels without one they do nothing.

    Returns:
        a namespace of
        ``cells``, ``parts``: how many cells threads combine partial results in, and how many values a cell holds;
        ``is_adding(blocks)``: whether this block, of a cluster of `blocks` blocks, is the one that adds, or in the same
        cluster;
        ``block(blocks)``: the number of any other block;
        ``nothing()``, ``of_row(results, known, more)``: the partial results of no row, and of a row with these results
        of the formula (the last of `known` is the row's index);
        ``tell(outs, cells, thread, blocks, parts)``: combines the partial results of a block's threads and publishes
        them;
        ``add(outs, at, cells, thread, rows, blocks, more)``: computes and stores the result of all rows.
    """
    if spec.total is None:
        return SimpleNamespace(
            cells=0, parts=0, is_adding=_never, block=_block, nothing=none, of_row=none, tell=_nothing, add=_nothing
        )
    stage, place = reduction_of(spec, spec.total), len(spec.formula.stages) * CELLS
    told, settle = telling(stage, 1), settling_warps(stage, spec.warps)
    nothing, of_numbers, first, finish, done = stage.start(1), stage.function, stage.first, stage.finish, stage.done
    hear, hear_one, ahead = _hearing(stage, told, _AHEAD), _hearing(stage, told, 1), _AHEAD
    join, merge, tell_parts, own_block = stage.join, stage.merge, told.tell, _block_behind
    is_last = SIMULATED

    def is_adding(blocks):
        return cuda.blockIdx.x >= cuda.gridDim.x - blocks if is_last else cuda.blockIdx.x < blocks

    def of_row(results, known, more):
        return first(of_numbers, ((results[0],), (known[-1],)), more)

    def tell(outs, cells, thread, blocks, parts):
        parts = settle(parts, cells, place, thread, thread, cuda.blockDim.x * cuda.blockDim.y)
        if thread == 0:
            tell_parts(outs[-1], 0, cuda.gridDim.x - blocks, own_block(blocks), parts)

    def add(outs, at, cells, thread, rows, blocks, more):
        if cuda.blockIdx.x % blocks != 0:
            return
        words, blocks, threads = outs[-1], cuda.gridDim.x - blocks, cuda.blockDim.x * cuda.blockDim.y
        parts, block = nothing(), thread
        while block + (ahead - 1) * threads < blocks:
            parts = join(merge, parts, hear(words, blocks, block, threads))
            block += ahead * threads
        while block < blocks:
            parts = join(merge, parts, hear_one(words, blocks, block, threads))
            block += threads
        parts = settle(parts, cells, place, thread, thread, threads)
        if thread == 0:
            note(outs, at, finish(done, parts, rows, more))

    is_adding, of_row, tell, add = (cuda.jit(device=True)(each) for each in (is_adding, of_row, tell, add))
    return SimpleNamespace(
        cells=CELLS,
        parts=len(spec.total.start),
        is_adding=is_adding,
        block=own_block,
        nothing=nothing,
        of_row=of_row,
        tell=tell,
        add=add,
    )


@cuda.jit(device=True)
def _never(blocks):
    return False


@cuda.jit(device=True)
def _nothing(*ignored):
    pass


@cuda.jit(device=True)
def _same_parts(parts, values, is_edge, given):
    """Return partial results as they are: no element is added."""
    return parts


@cuda.jit(device=True)
def none(*ignored):
    """Return no partial results: nothing is combined."""
    return ()


@cuda.jit(device=True)
def _block(blocks):
    return cuda.blockIdx.x


_before = 0 if SIMULATED else 1


@cuda.jit(device=True)
def _block_behind(blocks):
    return cuda.blockIdx.x - _before * blocks


# ---------------------------------------------------------------- rows in registers


def insides(runs: int) -> Callable[..., Any]:
    """Return the device function (item, step, end) -> whether each of `runs` items, `step` apart, is before the end."""

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
    """Return a variant of `reduce.spreading` that uses the first item for items at or after the end."""
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
    """Return a variant of `spreading_some` for rows whose items are either all before the end or all not."""
    spread = spreading(io.offsets, io.unravel, runs)

    def spread_all(here, item, step, line, steps):
        return spread(here, item if item < line[0] else 0, step, line, steps)

    jitted: Callable[..., Any] = cuda.jit(device=True)(spread_all)
    return jitted


def reducing_registers(spec: RowSpec, gathering: Callable[..., Any], walks: bool = False) -> Any:
    """Return the device function (row, at, more) -> the results of all stages, for a row that a group holds.

    Args:
        spec: the kernel.
        gathering: a function stage -> the device function (source, inside, given) -> the partial results of one thread.
        walks: True if groups process row after row, as in `settling_of`.

    `row` is (source, inside, columns); `at` says where the row's partial results are combined.
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
    """Return `gathering` for `reducing_registers`, for threads that hold a row in packed words."""
    tools = _words_of(spec)
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
    """Return the device function that reads, reduces and writes a row that a group of threads holds in registers.

    (ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more, asked) -> the results of all stages.
    `asked` are the row's index and factor, if the kernel has these.
    """
    lanes = _runs_of(spec, spec.runs)
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
        reduce_all, begin = reducing_registers(spec, _gathering_words(spec)), _words_of(spec).words

    def reduce(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more, asked):
        places, inside = spread(here, item, step, line, steps), inside_of(item, step, line[0])
        return reduce_all(((begin(ins, places), ins, places), inside, line[0]), at, more)

    if spec.is_reduction:
        return cuda.jit(device=True)(reduce)

    choice = _choosing(spec, io)
    find, last, choose = choice.find, choice.last, choice.choose

    def run(ins, outs, here, item, step, line, steps, out_steps, tile, held, at, more, asked):
        places, inside = spread(here, item, step, line, steps), inside_of(item, step, line[0])
        values = first(ins, places)
        chosen = find(asked, ins, here, item, step, line, steps)
        results = reduce_all(((values, ins, places), inside, line[0]), at, more)
        given = last(results, more, asked, line)
        found = map_lanes(function, values + rest(ins, places), given)
        store(outs, spread(here, item, step, line, out_steps), found, inside)
        return choose(outs, here, out_steps, results, chosen, asked, line)

    return cuda.jit(device=True)(run)


# ---------------------------------------------------------------- the kernel


def _placing(spec: RowSpec, block: Any) -> Any:
    """Return the device function (blocks) -> where a thread is.

    Its result is (the thread's row, its number among the row's threads, its number among the row's threads in its
    block, how many these are, how far apart they are).
    """
    if spec.form == "across":

        def across(blocks):
            rank = cuda.threadIdx.y
            return cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, rank, rank, cuda.blockDim.y, cuda.blockDim.x

        return cuda.jit(device=True)(across)
    if not spec.is_cluster:

        def along(blocks):
            rank = cuda.threadIdx.x
            return block(blocks) * cuda.blockDim.y + cuda.threadIdx.y, rank, rank, cuda.blockDim.x, 1

        return cuda.jit(device=True)(along)

    arrive = block_reduce.arrive

    def shared(blocks):
        arrive()
        rank, group = cuda.threadIdx.x, cuda.blockDim.x
        return block(blocks) // blocks, cuda.blockIdx.x % blocks * group + rank, rank, group, 1

    return cuda.jit(device=True)(shared)


@cuda.jit(device=True)
def _no_memory():
    return 0


@cuda.jit(device=True)
def _results_and_scalars(results, more, asked, line):
    """Return the results of the stages and the scalars."""
    return results + more


@cuda.jit(device=True)
def _same_results(outs, here, out_steps, results, chosen, asked, line):
    """Return the results of the stages as they are: no element is replaced."""
    return results


@cuda.jit(device=True)
def _same_row(results, more):
    """Return the results of the stages as they are; they are stored unchanged."""
    return results


@cuda.jit(device=True)
def _all(more):
    return more


def _picking(spec: RowSpec, offsets: Any) -> tuple[Any, Any]:
    """Return the device functions that load a row's index and the element that it selects; () without an index.

    (ins, here, steps, is_first) -> a tuple of the row's index, for the row's first thread; it starts the load before
    the row is read. (index, ins, here, columns, steps) -> the element that it selects, and the index; the element is
    then in the cache.
    """
    if spec.picks is None:
        return none, none
    load = operands((TABLE[spec.reads[0]],), 1, 1, spec.compute).load
    load_index, no_index = operands((TABLE[spec.picks],), 1, 1).load, (np.dtype(spec.picks).type(0),)
    if spec.factor is not None:
        load_factor = operands((TABLE[spec.factor],), 1, 1, spec.compute).load

        def ask_all(ins, here, steps, is_first):
            places = offsets(here + (0,), steps)
            return load_index(ins[1:2], places[1:2]) + load_factor(ins[2:], places[2:])

        return cuda.jit(device=True)(ask_all), none
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


def _choosing(spec: RowSpec, io: SimpleNamespace) -> SimpleNamespace:
    """Return the device functions of kernels with a `RowSpec.factor`; in others they change nothing.

    Returns:
        a namespace of
        ``find(asked, ins, here, item, step, line, steps)``: (the element at the row's index, whether this thread
        writes it, whether this thread stores the row's own result); to be called before the row is written;
        ``last(results, more, asked, line)``: the arguments of the formula's function after the numbers;
        ``choose(outs, here, out_steps, results, chosen, asked, line)``: write the element at the index, and return (the
        row's own result, whether this thread stores it).
    """
    if spec.factor is None:
        return SimpleNamespace(find=none, last=_results_and_scalars, choose=_same_results)
    load, store = operands((TABLE[spec.reads[0]],), 1, 1, spec.compute).load, _runs_of(spec._replace(width=1), 1).store
    row_of, choose_of = (
        specialize(each, spec.compute, spec.narrow) for each in (spec.formula.row, spec.formula.chosen)
    )
    offsets, apply, integer, width = io.offsets, io.apply, integer_of(spec), spec.width
    real = np.dtype(spec.compute).type
    nothing = real(math.nan)

    def find(asked, ins, here, item, step, line, steps):
        index = np.int64(asked[0])
        is_inside = 0 <= index < line[0]
        place = integer(integer(index) % step - item) if is_inside else integer(-1)
        is_own, value = 0 <= place < width, nothing
        if is_own:
            (value,) = load(ins[:1], offsets(here + (integer(index),), steps)[:1])
        return value, is_own, is_own or (item == 0 and not is_inside)

    def known(asked, line):
        return (asked[1], np.int64(asked[0]), line[0], real(1) / real(line[0])) + asked[2:]

    known = cuda.jit(device=True)(known)

    def last(results, more, asked, line):
        return apply(row_of, results + known(asked, line), ())

    def choose(outs, here, out_steps, results, chosen, asked, line):
        value, is_own, is_noting = chosen
        row = nothing
        if is_noting:
            row, element = apply(choose_of, (value,) + results + known(asked, line), ())
            if is_own:
                place = offsets(here + (integer(asked[0]),), out_steps)
                store(outs, (place,), ((element,),), (True,))
        return row, is_noting

    find, last, choose = (cuda.jit(device=True)(each) for each in (find, last, choose))
    return SimpleNamespace(find=find, last=last, choose=choose)


def _of_row(spec: RowSpec, apply: Any) -> Any:
    """Return the device function (results, more) -> the formula's value for the results of all stages."""
    function = specialize(spec.formula.function, spec.compute, spec.narrow)

    def of_row(results, more):
        return apply(function, results, more)

    return cuda.jit(device=True)(of_row)


def _noting(spec: RowSpec, io: SimpleNamespace, pick: Any, total: SimpleNamespace) -> Any:
    """Return the device function that stores a row's statistics and returns what the row adds to the total.

    Its arguments are (results, index, ins, outs, here, columns, in_steps, out_steps, more, is_first). Only the row's
    first thread (`is_first`) stores.
    """
    if spec.factor is not None:
        return _noting_chosen(spec, io, total)
    of_row = _of_row(spec, io.apply) if spec.is_reduction else _same_row
    offsets, note, nothing, add_row = io.offsets, _runs_of(spec, 1).note, total.nothing, total.of_row

    def note_row(results, index, ins, outs, here, columns, in_steps, out_steps, more, is_first):
        parts = nothing()
        if is_first:
            known = results + pick(index, ins, here, columns, in_steps)
            made = of_row(known, more)
            note(outs, offsets(here + (0,), out_steps), made)
            parts = add_row(made, known, more)
        return parts

    return cuda.jit(device=True)(note_row if spec.stats else none)


def _noting_chosen(spec: RowSpec, io: SimpleNamespace, total: SimpleNamespace) -> Any:
    """Return `_noting` for kernels with a factor: the thread that has the row's own result stores it."""
    offsets, note, nothing, add_row = io.offsets, _runs_of(spec, 1).note, total.nothing, total.of_row

    def note_row(results, asked, ins, outs, here, columns, in_steps, out_steps, more, is_first):
        row, is_noting = results
        parts = nothing()
        if is_noting:
            note(outs, offsets(here + (0,), out_steps), (row,))
            parts = add_row((row,), (np.int64(asked[0]),), more)
        return parts

    return cuda.jit(device=True)(note_row)


def make(spec: RowSpec) -> Kernel:
    """Return the kernel. A block has x times y threads, and x of them process a row.

    In the form "across", y threads process a row, and adjacent threads process adjacent rows. The number of columns is
    a multiple of the access width. In a cluster `blocks` blocks share a row. A thread keeps `held` accesses of each
    input in shared memory. With a total there is one more block, see `adding`.

    Blocks that share no row may start before the stream's previous kernel has ended. That saves 0.6 µs of the host's
    time for a launch on an H200's machine, too.
    """
    own = operands(tuple(TABLE[name] for name in spec.reads), 1, 1, spec.compute)
    io = SimpleNamespace(offsets=own.offsets, unravel=own.unravel, map_lanes=own.map_lanes, apply=own.apply)
    stages, offsets, unravel, scalars = spec.formula.stages, io.offsets, io.unravel, scalar_reader(spec.scalars)
    total, width = adding(spec, _runs_of(spec, 1).note_total), spec.width
    slots = max(total.parts, *(len(stage.start) for stage in stages))
    each = len(stages) * (ACROSS_THREADS if spec.form == "across" else CELLS) + total.cells
    parts = parts_intrinsics((spec.compute,), (np.dtype(spec.compute).type(0),), spec.compute)
    cell, placing = parts.cell, _placing(spec, total.block)
    run = (in_shared if spec.is_dynamic else _in_registers)(spec, io)
    memory = kept_memory if spec.is_dynamic and not spec.is_reduction else _no_memory
    (ask, pick), of_stages = _picking(spec, offsets), _all if spec.picks is None else none
    of_formula = none if spec.factor is None else _all
    note_row, integer = _noting(spec, io, pick, total), integer_of(spec)
    is_adding, add, tell, is_early = total.is_adding, total.add, total.tell, spec.is_early

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, blocks, held, words):
        more = scalars(words)
        cells = cuda.shared.array((slots, each), cell)
        row, place, rank, group, apart = placing(blocks)
        row, thread = integer(row), np.int32(cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x)
        if is_early:
            wait_for_previous()
        if is_adding(blocks):
            add(outs, offsets(unravel(0, outer) + (0,), out_steps), cells, thread, rows, blocks, more)
            return
        inside = row < rows
        here, line = unravel(row if inside else 0, outer), (columns,)
        # All threads take part in every stage.
        item, step = integer(place * width) if inside else columns, integer(group * blocks * width)
        at = cells, 0, thread, rank, group, apart, blocks
        is_first = place == 0 and inside
        asked = ask(ins, here, in_steps, is_first)
        known = asked + of_formula(more)
        results = run(
            ins, outs, here, item, step, line, in_steps, out_steps, memory(), held, at, of_stages(more), known
        )
        own = note_row(results, asked, ins, outs, here, columns, in_steps, out_steps, more, is_first)
        tell(outs, cells, thread, blocks, own)

    return kernel


#: Number of integers after `outer`.
_SCALARS = 4


def parameters(spec: RowSpec) -> Sequence[tuple[str, Any]]:
    """Return the parameters of the kernel, in the form of `kernel_code.parameters`."""
    inputs = len(spec.reads) + (spec.picks is not None) + (spec.factor is not None)
    integer, counts = "int64" if spec.wide else "int32", (inputs, len(spec.writes))
    return [
        ("uint64", inputs),
        ("uint64", len(spec.writes) + (spec.total is not None)),
        *((integer, (n, spec.rank + 1)) for n in counts),
        (integer, spec.rank),
        *[(integer, None)] * _SCALARS,
        (WORDS, words_of(spec.scalars)),
    ]
