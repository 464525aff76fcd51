"""Plain kernels that call functions of `numbacc.device`, for a CPU and a GPU."""

from __future__ import annotations

from numba import cuda, float32, uint32

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


@cuda.jit(device=True)
def begin_stage(x, at, tile, tiles, size):
    """Begin the copies of a tile of 512 floats, by 128 threads; the last tile is not whole."""
    k = cuda.threadIdx.x
    if tile < tiles:
        valid = min(max(4 * (size - 512 * tile - 4 * k), 0), 16)
        device.cp_async_zfill(at + 16 * k, device.address_of(x) + 2048 * tile + 16 * k, valid)
    device.cp_async_commit_group()


@cuda.jit
def pipeline(x, sums, mirrored, words):
    """Tiles arrive in two buffers of dynamic shared memory, one while the block works on the other."""
    static = cuda.shared.array(128, float32)
    k, tiles = cuda.threadIdx.x, (x.size + 511) // 512
    at, total = device.dynamic_shared(), float32(0)
    begin_stage(x, at, 0, tiles, x.size)
    for tile in range(tiles):
        begin_stage(x, at + 2048 * ((tile + 1) % 2), tile + 1, tiles, x.size)
        device.cp_async_wait_group(1)
        cuda.syncthreads()
        four = device.ld_shared_v4(at + 2048 * (tile % 2) + 16 * (127 - k))
        device.st_global_v4(device.address_of(mirrored) + 2048 * tile + 16 * k, four)
        one = device.ld_shared_b32(at + 2048 * (tile % 2) + 4 * k)
        device.st_shared_b32(device.shared_address(static) + 4 * k, one)
        total += static[k]
        cuda.syncthreads()
    device.cp_async(device.shared_address(static[4:]) - 16 + 4 * k, device.address_of(x) + 4 * k, 4)
    device.cp_async_commit_group()
    device.cp_async_wait_group(0)
    sums[k] = total + static[k]
    two = device.ld_global_v2(device.address_of(x) + 8 * k)
    device.st_global_v2(device.address_of(words) + 8 * k, (two[1], two[0]))
    if k < 8:
        device.cp_async_rows(at + 16 * k, device.address_of(x) + 16 * k, 3, 128, 512)
    device.cp_async_commit_group()
    device.cp_async_wait_group(0)
    cuda.syncthreads()
    if k < 96:
        device.st_global_b32(device.address_of(words) + 1024 + 4 * k, device.ld_shared_b32(at + 4 * k))


@cuda.jit(device=True)
def multiply_step(k, sums, at_a, at_b):
    left = device.ldmatrix_x4(at_a ^ (k << 5), 1, 2048)
    return device.mma_f16(sums, left, device.ldmatrix_x4(at_b ^ (k << 5), 4, 2048))


@cuda.jit
def product(a, b, c):
    """Each block of 128 threads computes 64 x 64 elements of A B^T, 64 columns of the factors at a time."""
    t, lane, warp, shared = cuda.threadIdx.x, cuda.threadIdx.x & 31, cuda.threadIdx.x >> 5, device.dynamic_shared()
    row, column, pitch = 64 * cuda.blockIdx.y, 64 * cuda.blockIdx.x, 2 * a.shape[1]
    start, chunk = t >> 3, t & 7
    to = 128 * start + ((chunk ^ (start & 7)) << 4)
    at_a = shared + 128 * (16 * warp + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
    at_b = shared + 8192 + 128 * ((lane & 7) + ((lane >> 4) << 3)) + ((((lane >> 3) & 1) ^ (lane & 7)) << 4)
    sums = device.fill_fragment(0.0, 32)
    for k in range(0, a.shape[1], 64):
        cuda.syncthreads()
        for part in range(4):
            offset = (start + 16 * part) * pitch + 2 * k + 16 * chunk
            device.cp_async(shared + to + 2048 * part, device.address_of(a) + row * pitch + offset, 16)
            device.cp_async(shared + 8192 + to + 2048 * part, device.address_of(b) + column * pitch + offset, 16)
        device.cp_async_commit_group()
        device.cp_async_wait_group(0)
        cuda.syncthreads()
        sums = device.unroll(multiply_step, 4, sums, (at_a, at_b))
    for k in range(32):
        c[row + 16 * warp + (lane >> 2) + k % 4 // 2 * 8, column + k // 4 * 8 + 2 * (lane & 3) + k % 2] = sums[k]


@cuda.jit
def matrices(a, b, floats, integers, matrix, words):
    """One warp: products of each kind, given the words of the factors, and each way to load matrices."""
    s = cuda.shared.array((2, 32, 4), uint32)
    t = cuda.threadIdx.x
    zeros, none = device.fill_fragment(0.5, 4), device.fill_fragment(-3, 4)
    left = a[0, t, 0], a[0, t, 1], a[0, t, 2], a[0, t, 3]
    f = device.mma_f16(zeros, left, (b[0, t, 0], b[0, t, 1]))
    left = a[1, t, 0], a[1, t, 1], a[1, t, 2], a[1, t, 3]
    g = device.mma_bf16(zeros, left, (b[1, t, 0], b[1, t, 1]))
    left = a[2, t, 0], a[2, t, 1], a[2, t, 2], a[2, t, 3]
    h = device.mma_tf32(zeros, left, (b[2, t, 0], b[2, t, 1]))
    left = a[3, t, 0], a[3, t, 1], a[3, t, 2], a[3, t, 3]
    m = device.mma_s8(none, left, (b[3, t, 0], b[3, t, 1]))
    left = a[4, t, 0], a[4, t, 1], a[4, t, 2], a[4, t, 3]
    n = device.mma_u8(none, left, (b[4, t, 0], b[4, t, 1]))
    for k in range(4):
        floats[0, t, k], floats[1, t, k], floats[2, t, k] = f[k], g[k], h[k]
        integers[0, t, k], integers[1, t, k] = m[k], n[k]
        s[0, t, k], s[1, t, k] = matrix[0, t, k], matrix[1, t, k]
    cuda.syncthreads()
    at = device.shared_address(s) + 16 * t
    one, two = device.ldmatrix_x4(at, 2, 512), device.ldmatrix_x4_trans(at, 2, 512)
    three, four = device.ldmatrix_x4_xor(at, 1, 16), device.ldmatrix_x4_trans_xor(at, 2, 16)
    for k in range(8):
        words[0, t, k], words[1, t, k], words[3, t, k] = one[k], two[k], four[k]
        words[2, t, k % 4] = three[k % 4]
