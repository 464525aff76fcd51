"""Rows of which threads keep in shared memory what there is room for, each what it has brought there itself.

What is kept is on its way all at once: each thread begins to copy all of it before it looks at the first number.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives.specialize import specialize
from ..reduce.reduce import spreading
from .load_store import keeping
from .spec import RowSpec
from .stages import each_stage, integer_of, settling_of, stage_of

#: Numbers that a thread has in registers where results are written of rows in shared memory.
_WRITE_NUMBERS = 32
#: Accesses that a thread begins to copy there between two looks at how far it is.
_BRING_RUNS = 4
#: Elements from which on parts are made together, where a reduction has a way to.
_FEWEST = 4


def _write_runs(spec: RowSpec) -> int:
    """Accesses under way at once where results are written, and all inputs are in registers."""
    return 1 << min(max(_WRITE_NUMBERS // (spec.width * len(spec.reads)), 1), spec.runs).bit_length() - 1


def _bringing(spec: RowSpec, io: SimpleNamespace, runs: int) -> Any:
    """The device function (ins, here, item, step, end, line, steps, tile, slot, threads): begin to copy what is kept
    of item, item + step, ... before the end into the tile."""
    bring, spread = keeping(spec, runs).bring, spreading(io.offsets, io.unravel, runs)
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
    """The device function (values, given) -> the parts of numbers in so many lanes, merged to one."""
    if stage.chunk is not None and lanes >= _FEWEST:
        return stage.chunk(1)
    first, reduce_lanes, function, merge = stage.first, stage.reduce_lanes(1), stage.function, stage.merge

    def parts_of(values, given):
        return reduce_lanes(merge, first(function, values, given))

    return cuda.jit(device=True)(parts_of)


def _gathering(spec: RowSpec, io: SimpleNamespace, stage: SimpleNamespace, how: str, runs: int) -> Any:
    """The device function (parts, ins, here, item, step, end, line, steps, tile, slot, threads, given) -> (the parts
    and those of all runs at item, item + step, ... before the end, the next item, the next slot).

    Args:
        spec, io: the kernel.
        stage: the reduction.
        how: a name in `load_store.keeping`.
        runs: how many are under way at once.
    """
    load, spread = getattr(keeping(spec, runs), how), spreading(io.offsets, io.unravel, runs)
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
    """The device function that writes a row up to an end, given the results of all stages, and returns the next item
    and slot."""
    lanes, spread = keeping(spec, runs), spreading(io.offsets, io.unravel, runs)
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


def in_shared(spec: RowSpec, io: SimpleNamespace) -> Any:
    """`row_maps`' function of rows in registers, for those of which a thread keeps `held` accesses in shared memory."""

    def make(number: int) -> Any:
        stage = stage_of(spec, number)
        gather = _gathering(spec, io, stage, "load", spec.runs)
        gather_kept = _gathering(spec, io, stage, "again", spec.runs)
        start, finish, done, settle = stage.start(1), stage.finish, stage.done, settling_of(spec, stage, number)

        def reduce(row, at, more, given):
            ins, here, item, step, end, line, steps, tile, threads = row
            cells, base, thread, rank, group, apart, blocks = at
            found, item, _ = gather_kept(start(), ins, here, item, step, end, line, steps, tile, thread, threads, given)
            found, _, _ = gather(found, ins, here, item, step, line[0], line, steps, tile, thread, threads, given)
            found = settle(found, cells, base, thread, rank, group, apart, blocks)
            return finish(done, found, line[0], more)

        return cuda.jit(device=True)(reduce)

    reduce_all = each_stage(spec, make, len(spec.formula.stages) - 1)
    write, write_kept = (_mapping(spec, io, how, _write_runs(spec)) for how in ("load", "again"))
    bring, arrived, integer = _bringing(spec, io, _BRING_RUNS), keeping(spec, 1).arrived, integer_of(spec)

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
