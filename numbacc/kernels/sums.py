"""The kernel that sums matrices over their rows: out[column] = x[0, column] + x[1, column] + ...

Arrays and steps are as in `maps`. The last of the `outer` dimensions counts the blocks along a matrix's columns; rows
and the columns of a block are the inner ones. The output's step from row to row is 0.
"""

from __future__ import annotations

import numpy as np

from ..base._numba import cuda
from ..base.dtypes import TABLE
from .intrinsics import accessors
from .specialize import specialize_for
from .specs import MAX_THREADS, Kernel, KernelSpec

#: Loads that a thread has under way at once: as many as keep an H200's memory busy with a block a few columns.
_BATCH = 8


def add(total, value):
    """(total + value,)."""
    return (total + value,)


def sum_rows(spec: KernelSpec) -> Kernel:
    """A block of x times y threads sums x accesses of neighbouring columns, of one element or as wide as is aligned.

    The threads of one column add up rows y, y + blockDim.y, ... in the compute dtype; then their totals are added
    up in shared memory, the upper half of them to the lower until one is left. The order is always the same, and so
    are the results' bits.
    """
    dtype, out = TABLE[spec.reads[0]], TABLE[spec.writes[0]]
    width = spec.width
    io = accessors(dtype, width, width * dtype.itemsize)
    store = accessors(out, 1, out.itemsize).store
    load_lanes, map_lanes, offsets, unravel, real = io.load_lanes, io.map_lanes, io.offsets, io.unravel, io.real
    plus = specialize_for(add, dtype)
    zeros = ((np.dtype(dtype.compute).type(0),) * width,)

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns):
        partial = cuda.shared.array((width, MAX_THREADS), real)
        first = unravel(cuda.blockIdx.x, outer)
        row, height = cuda.threadIdx.y, cuda.blockDim.y
        column = cuda.threadIdx.x * width
        inside = first[-1] * cuda.blockDim.x * width + column < columns
        end = rows if inside else 0
        totals = zeros
        while row + (_BATCH - 1) * height < end:
            for k in range(_BATCH):
                place = first + (row + k * height, column)
                totals = map_lanes(plus, totals + load_lanes(ins, offsets(place, in_steps), 0), ())
            row += _BATCH * height
        while row < end:
            totals = map_lanes(plus, totals + load_lanes(ins, offsets(first + (row, column), in_steps), 0), ())
            row += height
        thread = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        for lane in range(width):
            partial[lane, thread] = totals[0][lane]
        half = height // 2
        while half > 0:
            cuda.syncthreads()
            if cuda.threadIdx.y < half:
                for lane in range(width):
                    partial[lane, thread] += partial[lane, thread + half * cuda.blockDim.x]
            half //= 2
        if cuda.threadIdx.y == 0 and inside:
            for lane in range(width):
                store(outs, offsets(first + (0, column + lane), out_steps), (partial[lane, thread],))

    return kernel


#: See `registry`.
INNER = {"sum_rows": 2}
SCALARS = {"sum_rows": 2}


def make(spec: KernelSpec) -> Kernel:
    """See `registry.make`."""
    return sum_rows(spec)
