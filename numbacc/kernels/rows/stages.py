"""The stages of kernels that normalize rows: each a reduction of the row, whose threads bring their parts together."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...functions.formula import Reduction
from ..primitives.block_partials import chunked
from ..primitives.block_reduce import CELLS, WARP_CELLS, exchanging_blocks, settling, settling_blocks, settling_warps
from ..primitives.partials import parts_intrinsics
from ..primitives.specialize import specialize
from ..reduce.functions import larger, part
from .spec import ACROSS_THREADS, RowSpec


def integer_of(spec: RowSpec) -> Any:
    """What counts elements: Numba makes 64 bits of what it adds or multiplies."""
    return np.int64 if spec.wide else np.int32


def stage_of(spec: RowSpec, number: int) -> SimpleNamespace:
    """A stage's reduction, and its intrinsics."""
    return reduction_of(spec, spec.formula.stages[number])


def reduction_of(spec: RowSpec, reduction: Reduction) -> SimpleNamespace:
    """A reduction, and its intrinsics."""
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


def settling_of(spec: RowSpec, stage: SimpleNamespace, number: int, walks: bool = False) -> Any:
    """The device function (parts, cells, base, thread, rank, group, apart, blocks) -> the parts of all of a row's
    threads; cells from `base` on are this row's.

    `walks`: groups take row after row. Each waits for its own threads alone, and the kernel has waited for all blocks
    of a cluster to begin; of these `blocks` is what `block_reduce.exchanging_blocks` is given.
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
    """The device function (row, at, more) -> the results of the stages up to this number.

    `make(number)` is the device function (row, at, more, given) -> those of one, given those of all before and the
    scalars. `row` and `at` are tuples that the caller knows.
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
    """Two device functions of groups that take row after row, and share each with other blocks.

    (row, many, at, more): what a group has of a row, so many elements, is on its way to all blocks of the cluster;
    (columns, at, more) -> the results of both stages, once that of all blocks has come. `row` is (source, inside), `at`
    and `gathering` are as in `row.reducing_registers`.
    """
    shared = spec.formula.shared
    assert shared is not None
    joint, real = reduction_of(spec, shared), np.dtype(spec.compute).type
    (first, find_first), (_, find_second) = (_of_group(spec, gathering, number) for number in range(2))
    send, receive = exchanging_blocks(joint, 0, 1)
    parts_of, own_parts, finish, done = joint.first, joint.function, joint.finish, joint.done
    first_finish, first_done = first.finish, first.done

    def send_row(row, many, at, more):
        # Of no elements any number will do.
        known = first_finish(first_done, find_first(row, at, more), max(many, 1), more)
        found = ((real(many),), known) + find_second(row, at, known + more)
        send(parts_of(own_parts, found, more), at[3], at[-1])

    def results(columns, at, more):
        return finish(done, receive(at[3], at[-1]), columns, more)

    return cuda.jit(device=True)(send_row), cuda.jit(device=True)(results)


def _of_group(spec: RowSpec, gathering: Callable[..., Any], number: int) -> tuple[SimpleNamespace, Any]:
    """A stage, and the device function (row, at, given) -> its parts of a group of threads."""
    stage = stage_of(spec, number)
    gather, settle = gathering(stage), settling_of(spec._replace(is_cluster=False), stage, number, walks=True)

    def find(row, at, given):
        source, inside = row
        cells, base, thread, rank, group, apart, blocks = at
        return settle(gather(source, inside, given), cells, base, thread, rank, group, apart, blocks)

    return stage, cuda.jit(device=True)(find)
