"""The kernel that normalizes rows: y[i] = function(x[i], what is reduced of all x), stage after stage of reductions.

A group of threads takes a row. What a thread has read it keeps in shared memory, as long as there is room for it; of
longer rows each stage reads the row anew. The order in which numbers are merged is always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base._numba import cuda
from ..base.dtypes import TABLE
from .fold_lanes import parts_intrinsics
from .folds import settling, spreading
from .intrinsics import operands, scalar_reader
from .row_lanes import keeping
from .specialize import specialize
from .specs import MAX_THREADS, VECTOR_BYTES, Kernel, RowSpec, words_of


def _runs(spec: RowSpec) -> int:
    """Accesses that a thread has under way at once: 64 bytes; one in float64, whose exponential takes registers."""
    if spec.compute == "float64":
        return 1
    return max(4 * VECTOR_BYTES // max(spec.access_bytes * spec.kept, VECTOR_BYTES), 1)


def _write_runs(spec: RowSpec) -> int:
    """Those where results are written, and all inputs are in registers."""
    nbytes = sum(spec.width * TABLE[name].itemsize for name in spec.reads)
    return 1 << min(max(8 * VECTOR_BYTES // nbytes, 1), _runs(spec)).bit_length() - 1


def _gathering(spec: RowSpec, io: SimpleNamespace, stage: SimpleNamespace, how: str, runs: int) -> Any:
    """The device function (parts, ins, here, item, step, line, steps, tile, slot, threads, given) -> (the parts and
    those of all runs at item, item + step, ..., the next item, the next slot).

    Args:
        spec, io: the kernel.
        stage: the reduction.
        how: a name in `row_lanes.keeping`.
        runs: how many are under way at once.
    """
    load, spread = getattr(keeping(spec, runs), how), spreading(io.offsets, io.unravel, runs)
    first, fold, join, function, merge = stage.first, stage.fold(1), stage.join, stage.function, stage.merge

    def gather(parts, ins, here, item, step, line, steps, tile, slot, threads, given):
        while item + (runs - 1) * step < line[0]:
            at = spread(here, item, step, line, steps)
            parts = join(merge, parts, fold(merge, first(function, load(ins, at, tile, slot, threads), given)))
            item += runs * step
            slot += runs * threads
        return parts, item, slot

    these = cuda.jit(device=True)(gather)
    if runs == 1:
        return these
    fewer = _gathering(spec, io, stage, how, runs // 2)

    def gather_all(parts, ins, here, item, step, line, steps, tile, slot, threads, given):
        parts, item, slot = these(parts, ins, here, item, step, line, steps, tile, slot, threads, given)
        return fewer(parts, ins, here, item, step, line, steps, tile, slot, threads, given)

    return cuda.jit(device=True)(gather_all)


def _reducing(spec: RowSpec, io: SimpleNamespace, number: int) -> Any:
    """The device function that does the stages up to this number: it returns the results of all."""
    reduction = spec.formula.stages[number]
    functions = (reduction.function, reduction.merge, reduction.finish)
    function, merge, done = (specialize(each, spec.compute, spec.narrow) for each in functions)
    starts = tuple(np.dtype(spec.compute).type(start) for start in reduction.start)
    parts = parts_intrinsics((spec.compute,) * len(starts), starts, spec.compute)
    stage = SimpleNamespace(**vars(parts), function=function, merge=merge)
    is_first = number == 0
    gather = _gathering(spec, io, stage, "load", _runs(spec))
    gather_kept = _gathering(spec, io, stage, "keep" if is_first else "again", _runs(spec))
    before: Any = None if is_first else _reducing(spec, io, number - 1)
    start, put, take, finish, settle = stage.start(1), stage.put, stage.take, stage.finish, settling(stage, 1)

    def reduce(ins, here, item, step, line, steps, tile, cells, thread, rank, group, apart, threads, held, more, given):
        found = start()
        if held:
            found, _, _ = gather_kept(found, ins, here, item, step, line, steps, tile, thread, threads, given)
        else:
            found, _, _ = gather(found, ins, here, item, step, line, steps, tile, thread, threads, given)
        # What the stage before has left there has been read.
        cuda.syncthreads()
        put(cells, 0, thread, found)
        settle(cells, thread, rank, group, apart)
        cuda.syncthreads()
        return finish(done, take(cells, 0, thread - rank * apart), line[0], more)

    own = cuda.jit(device=True)(reduce)

    def first(ins, here, item, step, line, steps, tile, cells, thread, rank, group, apart, threads, held, more):
        return own(
            ins, here, item, step, line, steps, tile, cells, thread, rank, group, apart, threads, held, more, more
        )

    def later(ins, here, item, step, line, steps, tile, cells, thread, rank, group, apart, threads, held, more):
        known = before(ins, here, item, step, line, steps, tile, cells, thread, rank, group, apart, threads, held, more)
        return known + own(
            ins, here, item, step, line, steps, tile, cells, thread, rank, group, apart, threads, held, more,
            known + more,
        )  # fmt: skip

    return cuda.jit(device=True)(first if is_first else later)


def _mapping(spec: RowSpec, io: SimpleNamespace, how: str, runs: int) -> Any:
    """The device function that writes a row, given the results of all stages, and returns the next item and slot."""
    lanes, spread = keeping(spec, runs), spreading(io.offsets, io.unravel, runs)
    load, store, map_lanes = getattr(lanes, how), lanes.store, io.map_lanes
    function = specialize(spec.formula.function, spec.compute, spec.narrow)

    def write(ins, outs, here, item, step, line, steps, out_steps, tile, slot, threads, given):
        while item + (runs - 1) * step < line[0]:
            values = load(ins, spread(here, item, step, line, steps), tile, slot, threads)
            store(outs, spread(here, item, step, line, out_steps), map_lanes(function, values, given))
            item += runs * step
            slot += runs * threads
        return item, slot

    these = cuda.jit(device=True)(write)
    if runs == 1:
        return these
    fewer = _mapping(spec, io, how, runs // 2)

    def write_all(ins, outs, here, item, step, line, steps, out_steps, tile, slot, threads, given):
        item, slot = these(ins, outs, here, item, step, line, steps, out_steps, tile, slot, threads, given)
        return fewer(ins, outs, here, item, step, line, steps, out_steps, tile, slot, threads, given)

    return cuda.jit(device=True)(write_all)


def make(spec: RowSpec) -> Kernel:
    """A block of x times y threads: x of them take a row, or where `across` is 1, y, and neighbours neighbouring rows.

    Columns are a multiple of those in an access. Where `held` is 1, all of a row is kept.
    """
    own = operands(tuple(TABLE[name] for name in spec.reads), 1, 1, spec.compute)
    io = SimpleNamespace(offsets=own.offsets, unravel=own.unravel, map_lanes=own.map_lanes)
    stages, offsets, unravel, scalars = spec.formula.stages, io.offsets, io.unravel, scalar_reader(spec.scalars)
    lanes, slots, width = keeping(spec, 1), max(len(stage.start) for stage in stages), spec.width
    tile_cells, tile_cell, note = lanes.tile, lanes.cell, lanes.note
    parts = parts_intrinsics((spec.compute,), (np.dtype(spec.compute).type(0),), spec.compute)
    cell, enter, leave = parts.cell, parts.enter, parts.leave
    reduce = _reducing(spec, io, len(stages) - 1)
    write, write_kept = (_mapping(spec, io, how, _write_runs(spec)) for how in ("load", "again"))
    has_stats = spec.stats > 0

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, across, held, words):
        more = scalars(words)
        enter()
        cells = cuda.shared.array((slots, MAX_THREADS), cell)
        leave()
        enter()
        tile = cuda.shared.array(tile_cells, tile_cell)
        leave()
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        thread, threads = y * cuda.blockDim.x + x, cuda.blockDim.x * cuda.blockDim.y
        if across:
            rank, group, apart = y, cuda.blockDim.y, cuda.blockDim.x
            row = cuda.blockIdx.x * cuda.blockDim.x + x
        else:
            rank, group, apart = x, cuda.blockDim.x, 1
            row = cuda.blockIdx.x * cuda.blockDim.y + y
        inside = row < rows
        here, line = unravel(row if inside else 0, outer), (columns,)
        # All threads take part in every stage.
        item, step = rank * width if inside else columns, group * width
        results = reduce(
            ins, here, item, step, line, in_steps, tile, cells, thread, rank, group, apart, threads, held, more
        )
        if held:
            write_kept(ins, outs, here, item, step, line, in_steps, out_steps, tile, thread, threads, results + more)
        else:
            write(ins, outs, here, item, step, line, in_steps, out_steps, tile, thread, threads, results + more)
        if has_stats and rank == 0 and inside:
            note(outs, offsets(here + (0,), out_steps), results)

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
