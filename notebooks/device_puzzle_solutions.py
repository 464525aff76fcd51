"""A solution of each puzzle of 10-tensor-puzzles.ipynb. There are others; look when you have your own."""

import math

import numpy as np

from numbacc import cuda, device


@device.function
def add(x, y):
    return x + y


@device.jit
def warp_product(a, b, y):
    lane, shared = cuda.threadIdx.x, device.dynamic_shared()
    device.cp_async(shared + 16 * lane, device.address_of(a) + 16 * lane, 16)
    device.cp_async(shared + 512 + 16 * lane, device.address_of(b) + 16 * lane, 16)
    device.cp_async_commit_group()
    device.cp_async_wait_group(0)
    cuda.syncwarp()
    left = device.ldmatrix_x4(shared + 32 * (lane & 15) + 16 * (lane >> 4), 1, 0)
    row = (lane & 7) + ((lane >> 4) << 3)
    right = device.ldmatrix_x4(shared + 512 + 32 * row + 16 * ((lane >> 3) & 1), 1, 0)
    sums = device.mma_f16(device.fill_fragment(0.0, 8), left, right)
    for k in range(8):
        y[(lane >> 2) + k % 4 // 2 * 8, k // 4 * 8 + 2 * (lane & 3) + k % 2] = sums[k]


@device.jit
def swizzle(x, y):
    lane, shared = cuda.threadIdx.x, device.dynamic_shared()
    for part in range(4):
        row, column = 4 * part + (lane >> 3), lane & 7
        to = shared + 128 * row + ((column ^ (row & 7)) << 4)
        device.cp_async(to, device.address_of(x) + 128 * row + 16 * column, 16)
    device.cp_async_commit_group()
    device.cp_async_wait_group(0)
    cuda.syncwarp()
    for step in range(4):
        row, column = lane & 15, 2 * step + (lane >> 4)
        words = device.ldmatrix_x4(shared + 128 * row + ((column ^ (row & 7)) << 4), 1, 0)
        for k in range(4):
            y[step, k, lane] = device.unpack_f16(words)[2 * k + 1]


@device.jit
def two_stages(x, y):
    t, shared = cuda.threadIdx.x, device.dynamic_shared()
    arrived = shared + 2048
    if t == 0:
        device.mbarrier_init(arrived, 1)
        device.mbarrier_init(arrived + 8, 1)
        device.fence_mbarrier_init()
        for k in range(2):
            device.mbarrier_arrive_expect_tx(arrived + 8 * k, 1024)
            device.cp_async_bulk_load(shared + 1024 * k, device.address_of(x) + 1024 * k, 1024, arrived + 8 * k)
    cuda.syncthreads()
    total = np.float32(0)
    for k in range(8):
        stage = k & 1
        device.mbarrier_wait_parity(arrived + 8 * stage, k >> 1 & 1)
        word = device.ld_shared_b32(shared + 1024 * stage + 4 * t)
        total += np.float32(k + 1) * device.fragment_floats((word, word))[0]
        cuda.syncthreads()
        if t == 0 and k < 6:
            device.mbarrier_arrive_expect_tx(arrived + 8 * stage, 1024)
            source = device.address_of(x) + 1024 * (k + 2)
            device.cp_async_bulk_load(shared + 1024 * stage, source, 1024, arrived + 8 * stage)
    y[t] = total


@device.jit
def online_softmax(x, y):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    top, total = np.float32(-np.inf), np.float32(0)
    for k in range(lane, x.shape[1], 32):
        value = x[row, k]
        higher = device.max_f32(top, value)
        total = total * math.exp(top - higher) + math.exp(value - higher)
        top = higher
    highest = device.warp_reduce(device.max_f32, top)
    total = device.warp_reduce(add, total * math.exp(top - highest))
    if lane == 0:
        y[row] = highest + math.log(total)


@device.jit
def persistent_loop(x, y):
    t = cuda.threadIdx.x
    for tile in range(cuda.blockIdx.x, x.shape[0], cuda.gridDim.x):
        total = device.block_reduce(add, x[tile, t])
        if t == 0:
            y[tile] = total


@device.jit
def cluster_sum(x, y):
    t, shared, rank = cuda.threadIdx.x, device.dynamic_shared(), device.cluster_ctarank()
    total = device.block_reduce(add, x[cuda.grid(1)])
    device.cluster_sync()  # all blocks have started
    if t < 4:
        device.st_shared_cluster_b32(shared + 4 * rank, t, total)
    device.cluster_sync()
    everything = 0
    for k in range(4):
        everything += device.ld_shared_b32(shared + 4 * k)
    if t == 0:
        y[cuda.blockIdx.x] = everything


#: Puzzle -> kernel.
SOLUTIONS = {
    "warp product": warp_product,
    "swizzle": swizzle,
    "two stages": two_stages,
    "online softmax": online_softmax,
    "persistent loop": persistent_loop,
    "cluster sum": cluster_sum,
}
