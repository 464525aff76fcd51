"""Kernels that call CUDA's functions, for test_compiled_calls.py."""

import math

import ml_dtypes
import numpy as np
from numba import float32, int32

from numbacc import cuda

bfloat16 = ml_dtypes.bfloat16


@cuda.jit
def warp_calls(x, y):
    """Row k of y: the result of call k."""
    i = cuda.grid(1)
    even = x[i] % 2 == 0
    bits = cuda.ballot_sync(0xFFFFFFFF, even)
    y[0, i] = bits
    cuda.syncthreads()
    y[1, i] = cuda.popc(bits & cuda.lanemask_lt())
    y[2, i] = cuda.match_any_sync(0xFFFFFFFF, x[i])
    mask, same = cuda.match_all_sync(0xFFFFFFFF, x[i] // 100)
    y[3, i] = mask
    y[4, i] = 1 if same else 0
    y[5, i] = 1 if cuda.any_sync(0xFFFFFFFF, x[i] == 7) else 0
    y[6, i] = 1 if cuda.all_sync(0xFFFFFFFF, x[i] < 90) else 0
    y[7, i] = 1 if cuda.eq_sync(0xFFFFFFFF, even) else 0
    y[8, i] = cuda.shfl_xor_sync(0xFFFFFFFF, x[i], 3)
    y[9, i] = cuda.shfl_up_sync(0xFFFFFFFF, x[i], 2)
    y[10, i] = cuda.laneid
    y[11, i] = cuda.clz(bits)
    if even:
        y[12, i] = cuda.activemask()


@cuda.jit
def half_tile(x, y, scale, total):
    """A float16 or bfloat16 array through shared memory, a variable that lives across a barrier, and float32 sums."""
    tile = cuda.shared.array(64, np.float16)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    value = x[i] * scale
    tile[k] = value
    cuda.syncthreads()
    other = tile[63 - k]
    y[i] = value * other + x[i]
    sums = float32(0)
    for j in range(64):
        sums += tile[j]
    if k == 0:
        total[cuda.blockIdx.x] = sums


@cuda.jit
def bfloat_math(x, y):
    tile = cuda.shared.array(32, bfloat16)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    tile[k] = math.sqrt(abs(x[i]))
    cuda.syncthreads()
    best = max(tile[31 - k], x[i])
    y[i] = best - bfloat16(0.5) if best > 1 else -best


@cuda.jit
def counted(x, counts, most, slots, order):
    """Atomics on shared and global arrays, with the old values."""
    shared = cuda.shared.array(8, int32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    if k < 8:
        shared[k] = 0
    cuda.syncthreads()
    cuda.atomic.add(shared, x[i], 1)
    cuda.syncthreads()
    if k < 8:
        cuda.atomic.add(counts, (cuda.blockIdx.x % 2, k), shared[k])
    cuda.atomic.max(most, 0, float32(x[i] * 1.5))
    slot = cuda.atomic.inc(slots, 0, 4294967295)
    order[slot] = i
    cuda.atomic.compare_and_swap(slots[1:], 5, 6)


@cuda.jit
def library(x, y):
    i = cuda.grid(1)
    y[0, i] = cuda.libdevice.rsqrtf(x[i])
    y[1, i] = cuda.fma(x[i], x[i], x[i])
    y[2, i] = cuda.libdevice.fadd_rd(x[i], 1e-9)
    y[3, i] = cuda.selp(x[i] > 1, x[i], -x[i])
    y[4, i] = cuda.libdevice.normcdff(x[i])
    sine, cosine = cuda.libdevice.sincosf(x[i])
    y[5, i] = sine + cosine
    cuda.threadfence()
    y[6, i] = math.fmod(x[i], float32(0.75))
    cuda.nanosleep(100)
