"""The kernel that reduces matrices over their rows: out[column] = finish(x[0, column] + x[1, column] + ..., rows).

Arrays and steps are as in `map`. The last of the `outer` dimensions counts the blocks along a matrix's columns. The
inner dimensions are the rows, and the columns of a block. The outputs' row strides are 0. If `whole` is 0, inputs need
not be aligned: elements are then loaded one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...functions.reduction_formula import ReductionFormula
from ...runtime.launch_order import MAX_THREADS
from ..primitives.operands import operands, scalar_reader
from ..primitives.specialize import specialize
from ..specs import Kernel, KernelSpec, map_parameters

#: Loads that a thread has in flight at once: enough to keep an H200's memory busy with one block for few columns.
_BATCH = 8


def _collect(count: int, width: int) -> Callable[..., Any]:
    """Return the device function (partial, lane, thread) -> the `count` values that a thread stored for a lane."""
    last = (count - 1) * width
    if count == 1:

        def collected(partial, lane, thread):
            return (partial[lane, thread],)

    else:
        before = _collect(count - 1, width)

        def collected(partial, lane, thread):
            return before(partial, lane, thread) + (partial[last + lane, thread],)

    jitted: Callable[..., Any] = cuda.jit(device=True)(collected)
    return jitted


def reduce_rows(spec: KernelSpec) -> Kernel:
    """Return the kernel whose blocks reduce adjacent columns, x accesses per block of x times y threads.

    An access is one element, or as wide as alignment allows. The threads of one column process rows y, y + blockDim.y,
    ... in the compute dtype. Their partial results are then merged in shared memory, the upper half into the lower half
    until one is left. The order is always the same, so results are bitwise reproducible.
    """
    reduction, width = spec.formula, spec.width
    assert isinstance(reduction, ReductionFormula)
    reads, writes = (tuple(TABLE[name] for name in names) for names in (spec.reads, spec.writes))
    io = operands(reads, width, width, spec.compute, (), spec.repeated)
    store, scalars = operands(writes, 1, 1).store, scalar_reader(spec.scalars)
    load_lanes, load_some, map_lanes, apply = io.load_lanes, io.load_some, io.map_lanes, io.apply
    offsets, unravel, real = io.offsets, io.unravel, io.real
    first, merge, finish = (
        specialize(function, spec.compute, spec.narrow)
        for function in (reduction.function, reduction.merge, reduction.finish)
    )
    number = np.dtype(spec.compute).type
    nothing = tuple((number(start),) * width for start in reduction.start)
    parts = len(reduction.start)
    collect, slots = _collect(parts, width), parts * width

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, whole, words):
        more = scalars(words)
        partial = cuda.shared.array((slots, MAX_THREADS), real)
        coordinates = unravel(cuda.blockIdx.x, outer)
        row, height = cuda.threadIdx.y, cuda.blockDim.y
        column = cuda.threadIdx.x * width
        inside = coordinates[-1] * cuda.blockDim.x * width + column < columns
        end = rows if inside else 0
        totals = nothing
        while whole and row + (_BATCH - 1) * height < end:
            for k in range(_BATCH):
                here = coordinates + (row + k * height, column)
                found = map_lanes(first, load_lanes(ins, offsets(here, in_steps), 0), more)
                totals = map_lanes(merge, totals + found, ())
            row += _BATCH * height
        while row < end:
            at = offsets(coordinates + (row, column), in_steps)
            values = load_lanes(ins, at, 0) if whole else load_some(ins, at, 1, width)
            totals = map_lanes(merge, totals + map_lanes(first, values, more), ())
            row += height
        thread = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        for part in range(parts):
            for lane in range(width):
                partial[part * width + lane, thread] = totals[part][lane]
        half = height // 2
        while half > 0:
            cuda.syncthreads()
            if cuda.threadIdx.y < half:
                other = thread + half * cuda.blockDim.x
                for lane in range(width):
                    both = collect(partial, lane, thread) + collect(partial, lane, other)
                    merged = apply(merge, both, ())
                    for part in range(parts):
                        partial[part * width + lane, thread] = merged[part]
            half //= 2
        if cuda.threadIdx.y == 0 and inside:
            for lane in range(width):
                results = apply(finish, collect(partial, lane, thread) + (real(rows),), more)
                store(outs, offsets(coordinates + (0, column + lane), out_steps), results)

    return kernel


def make(spec: KernelSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return reduce_rows(spec)


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `runtime.kernel_code`."""
    return map_parameters(spec, 2, 3)
