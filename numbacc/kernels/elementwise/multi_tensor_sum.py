"""The kernel that sums a formula over all elements of a list of arrays, with one partial sum for each block.

Arrays, chunks and their tables are those of `multi_tensor`. Here an array may start anywhere: its elements before the
first aligned access and after the last one are added by the array's first block.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import MAX_THREADS, WARP, WORDS
from ..primitives.block_reduce import WARP_CELLS, settling_warps
from ..primitives.operands import operands
from ..primitives.partials import parts_intrinsics
from ..primitives.runs import runs_of
from ..primitives.specialize import specialize
from ..reduce.functions import add, same
from ..specs import Kernel
from .multi_tensor_spec import ListSumSpec

#: Accesses that a thread has in flight.
_RUNS = 4


def make(spec: ListSumSpec) -> Kernel:
    """Return the kernel. Each block sums one chunk of an array."""
    names, compute, width = spec.operands, spec.compute, spec.width
    itemsize, row_words = TABLE[names[0]].itemsize, spec.row_words
    parts = parts_intrinsics((compute,), (np.dtype(compute).type(0),), compute)
    function, merge, done = (specialize(each, compute, False) for each in (spec.formula.function, add, same))
    stage = SimpleNamespace(**vars(parts), merge=merge)
    settle, reduce_lanes, cell = settling_warps(stage, max(MAX_THREADS // WARP, 2)), parts.reduce_lanes(1), parts.cell
    first, join, nothing, finish = parts.first, parts.join, parts.start(1), parts.finish
    load_all, load_access, load_one = (
        runs_of(names, compute, *sizes).load_runs for sizes in ((width, _RUNS), (width, 1), (1, 1))
    )
    load_number = operands((TABLE["int32"],), 1, 1).load
    load_row = operands((TABLE["uint64"],), row_words, 2).load_lanes
    store, runs = operands((TABLE[compute],), 1, 1).store, _RUNS

    def kernel(ins, outs, chunk, words):
        cells = cuda.shared.array((1, WARP_CELLS), cell)
        number = np.int64(load_number((ins[0],), (cuda.blockIdx.x,))[0])
        row = load_row((ins[1],), (number * row_words,), 2)[0]
        arrays, size, own = row[:1], np.int64(row[1]), np.int64(cuda.blockIdx.x) - np.int64(row[2])
        thread, threads = np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x)
        head = min(-(np.int64(row[0]) // itemsize) & (width - 1), size)
        accesses = (size - head) // width
        at, end = own * (chunk // width) + thread, min((own + 1) * (chunk // width), accesses)
        total = nothing()
        while at + (runs - 1) * threads < end:
            a, step = head + at * width, threads * width
            values = load_all(arrays, ((a,), (a + step,), (a + 2 * step,), (a + 3 * step,)), 0)
            total = join(merge, total, reduce_lanes(merge, first(function, values, ())))
            at += runs * threads
        while at < end:
            values = load_access(arrays, ((head + at * width,),), 0)
            total = join(merge, total, reduce_lanes(merge, first(function, values, ())))
            at += threads
        if own == 0:
            at = thread
            while at < size - accesses * width:
                values = load_one(arrays, ((at if at < head else at + accesses * width,),), 0)
                total = join(merge, total, first(function, values, ()))
                at += threads
        rank = np.int32(thread)
        total = settle(total, cells, 0, rank, rank, cuda.blockDim.x)
        if rank == 0:
            store(outs, (cuda.blockIdx.x,), finish(done, total, 1, ()))

    return kernel


def parameters(spec: ListSumSpec) -> Sequence[tuple[str, Any]]:
    """Return the parameters: tables; the blocks' sums; elements of a chunk."""
    return [("uint64", 2), ("uint64", 1), ("int64", None), (WORDS, 0)]
