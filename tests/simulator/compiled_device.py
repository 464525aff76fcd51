"""Plain kernels that call functions of `numbacc.device`, for a CPU and a GPU."""

from __future__ import annotations

from numba import cuda, float32

from numbacc import device

BLOCKS, THREADS = 2, 128


@cuda.jit(device=True)
def add(a, b):
    return a + b


@cuda.jit(device=True)
def larger(a, b):
    return a if a > b else b


@cuda.jit(device=True)
def applied_twice(function, x):
    return function(function(x, x), x)


@cuda.jit
def collectives(x, sums, scans, warps, pairs, top):
    i = cuda.grid(1)
    v = x[i]
    total = device.block_reduce(add, v)
    if device.thread_rank() == 0:
        sums[cuda.blockIdx.x] = total
    scans[0, i] = device.block_scan(add, v)
    scans[1, i] = device.block_exclusive_scan(add, v, float32(0))
    warps[0, i] = device.warp_reduce(larger, v)
    warps[1, i] = device.warp_exclusive_scan(add, v, float32(0))
    warps[2, i] = device.warp_broadcast(v, 3) + applied_twice(add, v)
    warps[3, i] = device.block_broadcast(v, 77)
    pairs[0, i], pairs[1, i] = device.block_sort(v, cuda.threadIdx.x, True)
    top[i], _ = device.block_top_k(v, cuda.threadIdx.x, 8)


@cuda.jit
def totals(x, y):
    total = device.block_reduce(larger, applied_twice(add, x[cuda.grid(1)]))
    if device.thread_rank() == 0:
        y[cuda.blockIdx.x] = total


@cuda.jit
def scalars(x, y, seed, drawn, normals, words):
    i = cuda.grid(1)
    v = x[i]
    y[0, i], y[1, i], y[2, i] = device.ex2_approx(v), device.lg2_approx(v), device.rcp_approx(v)
    y[3, i], y[4, i], y[5, i] = device.rsqrt_approx(v), device.sqrt_approx(v), device.sin_approx(v)
    y[6, i], y[7, i] = device.cos_approx(v), device.tanh_approx(v)
    y[8, i], y[9, i] = device.div_full(v, float32(3)), device.max_f32(v, float32(1))
    y[10, i], y[11, i] = device.min_f32(v, float32(1)), device.add_rn(device.mul_rn(v, v), float32(1))
    y[12, i], y[13, i] = device.div_rn(v, float32(7)), device.rcp_rn(v)
    y[14, i], y[15, i] = device.sqrt_rn(v), device.fma_rn(v, v, float32(1))
    drawn[0, i], drawn[1, i] = device.philox_random(seed, i), device.philox_integers(seed, i, 1000)
    four = device.philox_normal_v4(seed, i)
    for k in range(4):
        normals[4 * i + k] = four[k]
        words[4 * i + k] = device.philox_words(seed, i)[k]
