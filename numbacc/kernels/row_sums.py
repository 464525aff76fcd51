"""The kernel of gradients of rows and of weights: rows one after the other, and sums over all of them.

A block takes some rows after the other, and each of its threads always the same columns of them: what it adds up it has
in registers. The next rows are on their way meanwhile. In the end a block's groups of threads bring their sums
together, and a row of them is in memory for each block; a reduction of these follows. A row that is too long for one
block is shared by those of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base._numba import cuda
from ..base.dtypes import TABLE
from . import groups
from .fold_lanes import parts_intrinsics
from .folds import spreading
from .groups import CELLS
from .intrinsics import operands, scalar_reader
from .row_lanes import kept_memory
from .row_maps import insides, reducing_registers, spreading_some
from .row_rings import ring
from .row_specs import SumsSpec
from .specs import Kernel, words_of


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
    """`row_maps.insides` where all are."""
    inside = (True,) * runs

    def are_inside(item, step, end):
        return inside

    jitted: Callable[..., Any] = cuda.jit(device=True)(are_inside)
    return jitted


def _sharing(is_cluster: bool) -> Any:
    """The device functions () -> (the number of a block, or of its cluster, how many these are, a block's number in its
    cluster), and () -> nothing: all blocks of the cluster have begun when it returns."""
    if not is_cluster:

        def alone():
            return cuda.blockIdx.x, cuda.gridDim.x, 0

        return cuda.jit(device=True)(alone), cuda.jit(device=True)(lambda: None)

    number, many, own, arrive, wait = (
        groups.cluster_number, groups.clusters, groups.block_in_cluster, groups.arrive, groups.wait
    )  # fmt: skip

    def together():
        return number(), many(), own()

    def begun():
        arrive()
        wait()

    return cuda.jit(device=True)(together), cuda.jit(device=True)(begun)


def _advancing(spec: SumsSpec, finish: Any, fetch: Any, unravel: Any, spread: Any) -> Any:
    """The device function (sums, source, results, number, coming, slot, row) -> the sums with those of a row of that
    number, whose results are written; the one that comes behind those on their way, in its place, is on its way then.

    `row` is what is the same for all of them.
    """

    def behind(sums, source, results, number, coming, slot, row):
        ins, outs, in_steps, out_steps, outer, rows, item, step, line, inside, place, tile, more = row
        if number < rows:
            places = spread(unravel(number, outer), item, step, line, out_steps)
            sums = finish(sums, source, outs, places, inside, results, more, ())
        if coming < rows:
            fetch(ins, spread(unravel(coming, outer), item, step, line, in_steps), inside, place, slot, tile)
        return sums

    def between(sums, source, results, number, coming, slot, row):
        ins, outs, in_steps, out_steps, outer, rows, item, step, line, inside, place, tile, more = row
        if number < rows:
            is_there = coming < rows
            ahead = spread(unravel(coming if is_there else 0, outer), item, step, line, in_steps)
            places = spread(unravel(number, outer), item, step, line, out_steps)
            sums = finish(sums, source, outs, places, inside, results, more, (ins, ahead, is_there, place, slot, tile))
        return sums

    # Without another row on its way, memory would wait while this one's results are made.
    return cuda.jit(device=True)(behind if spec.depth > 1 else between)


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
    fetch, fetch_weights, commit, wait, take = own.fetch, own.fetch_weights, own.commit, own.wait, own.take
    finish, begin, put, gain_from, flush = own.finish, own.begin, own.put, own.gain_from, own.flush
    reduce_all, (sharing, begun) = reducing_registers(row, own.gathering, walks=True), _sharing(row.is_cluster)
    advance = _advancing(spec, finish, fetch, unravel, spread)
    slots, each = max(len(stage.start) for stage in stages), len(stages) * CELLS
    both = 2 * each
    parts = parts_intrinsics((row.compute,), (np.dtype(row.compute).type(0),), row.compute)
    cell, enter, leave, memory = parts.cell, parts.enter, parts.leave, kept_memory

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, blocks, units, words):
        more = scalars(words)
        enter()
        cells = cuda.shared.array((slots, both), cell)
        leave()
        tile = memory()
        rank, group, side, sides = cuda.threadIdx.x, cuda.blockDim.x, cuda.threadIdx.y, cuda.blockDim.y
        place = side * group + rank, group * sides
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
        begun()
        sums = begin()
        same = ins, outs, in_steps, out_steps, outer, rows, item, step, line, inside, place, tile, more
        unit, base, slot = first, 0, 0
        while unit < units:
            wait()
            source = take(place, slot, tile)
            at = cells, base, place[0], rank, group, 1, blocks
            results = reduce_all((source, inside, columns), at, more)
            sums = advance(sums, source, results, unit * sides + side, ahead * sides + side, slot, same)
            commit()
            ahead += apart
            unit += apart
            slot = slot + 1 if slot + 1 < depth else 0
            # What one row's threads still read the next one's must not overwrite.
            base = each - base
        left = sides
        while left > 1:
            half = (left + 1) // 2
            cuda.syncthreads()
            if side >= half and side < left:
                put((place[0] - half * group, half * group), sums, tile)
            cuda.syncthreads()
            if side + half < left:
                sums = gain_from((place[0], half * group), sums, tile)
            left = half
        if side == 0:
            flush(outs, places_of(first * columns + item, step), sums, inside)

    return kernel


#: Integers behind `outer`.
_SCALARS = 4


def parameters(spec: SumsSpec) -> Sequence[tuple[str, Any]]:
    """See `registry.parameters`."""
    row, integer = spec.rows, "int64" if spec.wide else "int32"
    return [
        ("uint64", len(row.reads)),
        ("uint64", len(row.writes) + spec.parts),
        (integer, (len(row.reads), row.rank + 1)),
        (integer, (len(row.writes), row.rank + 1)),
        (integer, row.rank),
        *[(integer, None)] * _SCALARS,
        ("int64", words_of(row.scalars)),
    ]
