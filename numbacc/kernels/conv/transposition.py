"""Kernels that transpose many matrices of 16-bit elements: images with channels first to channels last, and back.

    target[n, j, i] = source[n, i, j]

A thread moves 16 elements: with "gather" 16 rows of the source in one column, with "scatter" 16 columns in one row.
They are contiguous in the array with channels last, where a thread accesses them as two vectors, a whole sector of a
cache. In the array with channels first, they are accessed one by one, and adjacent threads access adjacent elements. So
matrices need no particular number of pixels, as tiles in shared memory do.
"""

from __future__ import annotations

from typing import Any

from ...base._numba import cuda
from ...runtime.launch_order import WARP
from ..primitives.masked_gather import gathering
from ..primitives.operands import splitter
from ..specs import Kernel
from .im2col_spec import WINDOW_LANES
from .transposition_spec import TRANSPOSITION_ELEMENTS, TRANSPOSITION_THREADS, TranspositionSpec


def gather_rows(spec: TranspositionSpec) -> Kernel:
    """Return the kernel that gathers rows. `counts` are the matrices, and the rows and columns of one.

    The number of rows is a multiple of 16. Pixels of all matrices are numbered in one sequence; a warp handles 32.
    """
    moves, split = gathering(WINDOW_LANES), splitter()
    gather, put, nbytes = moves.gather, moves.put, 2 * WINDOW_LANES
    every, always = TRANSPOSITION_ELEMENTS, (0,) * WINDOW_LANES

    def kernel(ins, outs, counts):
        thread = cuda.blockIdx.x * TRANSPOSITION_THREADS + cuda.threadIdx.x
        chunk, group, lane = split(thread, counts[1] // every, WARP)
        matrix, _, column = split(chunk * WARP + lane, 1, counts[2])
        if matrix < counts[0]:
            step, first = counts[2], group * every
            source = ins[0] + 2 * ((matrix * counts[1] + first) * step + column)
            target = outs[0] + 2 * ((matrix * step + column) * counts[1] + first)
            offsets = (0, step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 7 * step)
            low = gather(source, offsets, always, 0, 1)
            high = gather(source + nbytes * step, offsets, always, 0, 1)
            put(target, low)
            put(target + nbytes, high)

    return kernel


def scatter_columns(spec: TranspositionSpec) -> Kernel:
    """Return the kernel that scatters columns, whose number is a multiple of 16. The rest is as in `gather_rows`."""
    moves, split = gathering(WINDOW_LANES), splitter()
    take, scatter, nbytes, every = moves.take, moves.scatter, 2 * WINDOW_LANES, TRANSPOSITION_ELEMENTS

    def kernel(ins, outs, counts):
        thread = cuda.blockIdx.x * TRANSPOSITION_THREADS + cuda.threadIdx.x
        chunk, group, lane = split(thread, counts[2] // every, WARP)
        matrix, _, row = split(chunk * WARP + lane, 1, counts[1])
        if matrix < counts[0]:
            step, first = counts[1], group * every
            source = ins[0] + 2 * ((matrix * step + row) * counts[2] + first)
            target = outs[0] + 2 * ((matrix * counts[2] + first) * step + row)
            offsets = (0, step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 7 * step)
            low, high = take(source), take(source + nbytes)
            scatter(target, offsets, low)
            scatter(target + nbytes * step, offsets, high)

    return kernel


_MAKERS = {"gather": gather_rows, "scatter": scatter_columns}


def make(spec: TranspositionSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return _MAKERS[spec.algorithm](spec)


def parameters(spec: TranspositionSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    return [("uint64", 1), ("uint64", 1), ("int64", 3)]
