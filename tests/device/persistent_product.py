"""C = A B^T of bfloat16 matrices on Hopper, at the speed of the vendor's library: persistent blocks, TMA and wgmma."""

from __future__ import annotations

from numbacc import cuda, device

ROWS, COLUMNS, DEPTH = 128, 256, 64  # of a tile of C, and of a stage
STAGES, STAGE = 4, 2 * DEPTH * (ROWS + COLUMNS)
#: Each of the two consumers has two buffers of 64 x 64 numbers for its results; mbarriers follow.
OUT, BUFFER = STAGES * STAGE, 8192
BARRIERS = OUT + 4 * BUFFER
THREADS, SHARED = 384, BARRIERS + 16 * STAGES
#: So many rows of tiles are computed together: blocks that run at the same time share rows and columns in the L2 cache.
GROUP = 16
SUMS, PARTS, STAGE_16, B_AT_16 = COLUMNS // 2, COLUMNS // 64, STAGE // 16, 2 * DEPTH * ROWS // 16
DESCRIPTOR = device.wgmma_descriptor(swizzle=128, stride=1024)


@device.function
def tile_at(number, rows, columns):
    group, within = number // (GROUP * columns), number % (GROUP * columns)
    high = min(GROUP, rows - GROUP * group)
    return GROUP * group + within % high, within // high


@device.function
def store_part(k, words, out, at, map_c, row, column, t, group):
    """Store 64 columns of a consumer's results: to a buffer by stmatrix, and from there by the copy engine."""
    buffer = (k & 1) * BUFFER
    if t == 0:
        device.cp_async_bulk_wait_group_read(1)  # the store before the last one has read this buffer
    device.bar_sync(group + 1, 128)
    device.stmatrix_x4_xor(at + buffer, device.fragment_part(words, k, 16), 32)
    device.fence_proxy_async()
    device.bar_sync(group + 1, 128)
    if t == 0:
        device.tma_store(map_c, (column + 64 * k, row), out + buffer)
        device.cp_async_bulk_commit_group()
    return words


@device.jit(reads=("map_a", "map_b"), launch_bounds=(THREADS, 1))
def product(map_a, map_b, map_c, m, n, depth):
    """Two consumer warpgroups have 64 rows of a tile each; the third warpgroup brings stages of A and B."""
    group, t, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
    shared = device.dynamic_shared()
    full, empty = shared + BARRIERS, shared + BARRIERS + 8 * STAGES
    if cuda.threadIdx.x == 0:
        for s in range(STAGES):
            device.mbarrier_init(full + 8 * s, 1)
            device.mbarrier_init(empty + 8 * s, 2)
        device.fence_mbarrier_init()
    cuda.syncthreads()
    rows, columns = m // ROWS, n // COLUMNS
    stage, phase = 0, 0
    if group == 2:
        device.setmaxnreg_dec(40)
        if t == 0:
            for tile in range(cuda.blockIdx.x, rows * columns, cuda.gridDim.x):
                i, j = tile_at(tile, rows, columns)
                for k in range(depth):
                    at, arrived = shared + stage * STAGE, full + 8 * stage
                    device.mbarrier_wait_parity(empty + 8 * stage, phase ^ 1)
                    device.mbarrier_arrive_expect_tx(arrived, STAGE)
                    device.tma_load(at, map_a, (DEPTH * k, ROWS * i), arrived)
                    device.tma_load(at + 16 * B_AT_16, map_b, (DEPTH * k, COLUMNS * j), arrived)
                    phase ^= stage == STAGES - 1
                    stage = 0 if stage == STAGES - 1 else stage + 1
    else:
        device.setmaxnreg_inc(232)
        a, b = DESCRIPTOR + ((shared + group * 8192) >> 4), DESCRIPTOR + (shared >> 4) + B_AT_16
        out = shared + OUT + group * 2 * BUFFER
        at = out + 128 * (16 * (t >> 5) + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
        for tile in range(cuda.blockIdx.x, rows * columns, cuda.gridDim.x):
            i, j = tile_at(tile, rows, columns)
            sums, before = device.fill_fragment(0.0, SUMS), -1
            for _ in range(depth):
                device.mbarrier_wait_parity(full + 8 * stage, phase)
                sums = device.wgmma_bf16(sums, a + stage * STAGE_16, b + stage * STAGE_16, 4, 2, 2, 0, 0)
                sums = device.wgmma_wait_group(sums, 1)  # the stage before has been read
                if before >= 0 and t == 0:
                    device.mbarrier_arrive(empty + 8 * before)
                before = stage
                phase ^= stage == STAGES - 1
                stage = 0 if stage == STAGES - 1 else stage + 1
            sums = device.wgmma_wait_group(sums, 0)
            if t == 0:
                device.mbarrier_arrive(empty + 8 * before)
            place = (out, at, map_c, ROWS * i + 64 * group, COLUMNS * j, t, group)
            device.unroll(store_part, PARTS, device.pack_bf16(sums), place)
        if t == 0:
            device.cp_async_bulk_wait_group(0)


def maps(a, b, c):
    """The kernel's tensor maps."""
    return device.tensor_map(a, (ROWS, DEPTH)), device.tensor_map(b, (COLUMNS, DEPTH)), device.tensor_map(c, (64, 64))
