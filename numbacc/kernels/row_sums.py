"""The kernel of gradients of rows and of weights: rows as `row_maps` has them in registers, and sums over all of them.

A block takes one row after the other, and each of its threads always the same columns of them: what it adds up lies in
shared memory, where no other thread looks, and at the end in memory, one row for each group of threads. A reduction of
these follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base._numba import cuda
from ..base.dtypes import TABLE
from .fold_lanes import parts_intrinsics
from .groups import CELLS
from .intrinsics import operands, scalar_reader
from .row_lanes import keeping, kept_memory, summing
from .row_maps import insides, reducing_registers, spreading_some
from .row_specs import SumsSpec
from .specialize import specialize
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


def make(spec: SumsSpec) -> Kernel:
    """A block of x times y threads: x of them take a row, `units` times y rows are there in all.

    Columns are a multiple of those in an access, and all of a row is in registers.
    """
    row = spec.rows
    own = operands(tuple(TABLE[name] for name in row.reads), 1, 1, row.compute)
    io = SimpleNamespace(offsets=own.offsets, unravel=own.unravel, map_lanes=own.map_lanes)
    unravel, map_lanes, scalars, width = io.unravel, io.map_lanes, scalar_reader(row.scalars), row.width
    stages, lanes, spread = row.formula.stages, keeping(row, row.runs), spreading_some(io, row.runs)
    first, rest, store, inside_of, places_of = (
        lanes.first,
        lanes.rest,
        lanes.store,
        insides(row.runs),
        _placing(row.runs),
    )
    reduce_all = reducing_registers(row)
    function, adding = (specialize(each.function, row.compute, row.narrow) for each in (row.formula, spec.sums))
    slots, each = max(len(stage.start) for stage in stages), len(stages) * CELLS
    both = 2 * each
    parts = parts_intrinsics((row.compute,), (np.dtype(row.compute).type(0),), row.compute)
    cell, enter, leave, sums = parts.cell, parts.enter, parts.leave, summing(row, spec.parts)
    clear, gain, flush, memory = sums.clear, sums.gain, sums.flush, kept_memory

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, units, words):
        more = scalars(words)
        enter()
        cells = cuda.shared.array((slots, both), cell)
        leave()
        tile = memory()
        rank, group = cuda.threadIdx.x, cuda.blockDim.x
        thread, threads = cuda.threadIdx.y * group + rank, group * cuda.blockDim.y
        step, line = group * width, (columns,)
        clear(tile, thread, threads)
        unit, base = cuda.blockIdx.x, 0
        while unit < units:
            number = unit * cuda.blockDim.y + cuda.threadIdx.y
            is_row = number < rows
            here, item = unravel(number if is_row else 0, outer), rank * width if is_row else columns
            places, inside = spread(here, item, step, line, in_steps), inside_of(item, step, columns)
            values = first(ins, places)
            at = cells, base, thread, rank, group, 1, 1
            results = reduce_all((values, ins, places, inside, columns), at, more)
            found = map_lanes(function, values + rest(ins, places), results + more)
            store(outs, spread(here, item, step, line, out_steps), found, inside)
            gain(tile, thread, threads, map_lanes(adding, values, results), inside)
            unit += cuda.gridDim.x
            # What one row's threads still read the next one's must not overwrite.
            base = each - base
        start = (cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y) * columns + rank * width
        flush(outs, tile, thread, threads, places_of(start, step), inside_of(rank * width, step, columns))

    return kernel


#: Integers behind `outer`.
_SCALARS = 3


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
