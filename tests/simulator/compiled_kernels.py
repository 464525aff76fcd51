"""Thirteen kernels for the compiled simulator, each with inputs, the answer by NumPy and a size for timing."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int32

TILE = 16


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i]


@cuda.jit
def transpose(x, y):
    tile = cuda.shared.array((32, 33), float32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
    for k in range(0, 32, 8):
        tile[i + k, j] = x[row + i + k, column + j]
    cuda.syncthreads()
    for k in range(0, 32, 8):
        y[column + i + k, row + j] = tile[j, i + k]


@cuda.jit
def block_sum(x, y):
    s = cuda.shared.array(256, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    s[k] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if k < half:
            s[k] += s[k + half]
        cuda.syncthreads()
        half //= 2
    if k == 0:
        y[cuda.blockIdx.x] = s[0]


@cuda.jit
def matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for m in range((a.shape[1] + TILE - 1) // TILE):
        sa[ty, tx] = a[row, m * TILE + tx] if row < a.shape[0] and m * TILE + tx < a.shape[1] else float32(0)
        sb[ty, tx] = b[m * TILE + ty, column] if m * TILE + ty < b.shape[0] and column < b.shape[1] else float32(0)
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def stencil(x, y):
    s = cuda.shared.array(258, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    n = x.size
    if i < n:
        s[k + 1] = x[i]
    if k == 0 and i > 0:
        s[0] = x[i - 1]
    if k == cuda.blockDim.x - 1 and i + 1 < n:
        s[k + 2] = x[i + 1]
    cuda.syncthreads()
    if i == 0 or i >= n - 1:
        return
    y[i] = float32(0.25) * s[k] + float32(0.5) * s[k + 1] + float32(0.25) * s[k + 2]


@cuda.jit
def histogram(x, counts):
    s = cuda.shared.array(64, int32)
    k = cuda.threadIdx.x
    if k < 64:
        s[k] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(s, x[i], 1)
    cuda.syncthreads()
    if k < 64:
        cuda.atomic.add(counts, k, s[k])


@cuda.jit
def scan(x, y):
    s = cuda.shared.array(0, int32)  # dynamic
    k, i = cuda.threadIdx.x, cuda.grid(1)
    s[k] = x[i]
    cuda.syncthreads()
    distance = 1
    while distance < cuda.blockDim.x:
        before = s[k - distance] if k >= distance else int32(0)
        cuda.syncthreads()
        s[k] += before
        cuda.syncthreads()
        distance *= 2
    y[i] = s[k]


@cuda.jit
def softmax_rows(x, y):
    s = cuda.shared.array(128, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    best = float32(-math.inf)
    for j in range(k, x.shape[1], cuda.blockDim.x):
        best = max(best, x[row, j])
    s[k] = best
    cuda.syncthreads()
    half = 64
    while half:
        if k < half:
            s[k] = max(s[k], s[k + half])
        cuda.syncthreads()
        half //= 2
    best = s[0]
    cuda.syncthreads()
    total = float32(0)
    for j in range(k, x.shape[1], cuda.blockDim.x):
        total += math.exp(x[row, j] - best)
    s[k] = total
    cuda.syncthreads()
    half = 64
    while half:
        if k < half:
            s[k] += s[k + half]
        cuda.syncthreads()
        half //= 2
    for j in range(k, x.shape[1], cuda.blockDim.x):
        y[row, j] = math.exp(x[row, j] - best) / s[0]


@cuda.jit(device=True)
def warp_sum(value):
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    return value


@cuda.jit
def shuffle_sum(x, y):
    parts = cuda.shared.array(32, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    value = warp_sum(value)
    if k % 32 == 0:
        parts[k // 32] = value
    cuda.syncthreads()
    if k < 32:  # the first warp alone
        value = parts[k] if k < cuda.blockDim.x // 32 else float32(0)
        value = warp_sum(value)
        if k == 0:
            cuda.atomic.add(y, 0, value)


@cuda.jit(device=True)
def collatz(n, most):
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
        if steps == most:
            return -1
    return steps


@cuda.jit
def early_return(y):
    i = cuda.grid(1)
    if i >= y.size:
        return
    if i == 0:
        y[i] = 0
        return
    y[i] = collatz(i, 100)


@cuda.jit
def votes(x, y, z):
    """Warps vote, a block counts, a loop with a barrier ends at a break, and masks diverge within a warp."""
    i = cuda.grid(1)
    ballot = cuda.ballot_sync(0xFFFFFFFF, 1 if x[i] > 0 else 0)
    count = cuda.syncthreads_count(1 if x[i] > 0 else 0)
    turns = 0
    while True:
        if cuda.syncthreads_count(1 if x[i] > turns else 0) == 0:
            break
        turns += 1
    y[i] = cuda.popc(ballot) + 100 * count
    z[i] = turns


@cuda.jit
def local_median(x, y):
    a = cuda.local.array(5, float32)
    i = cuda.grid(1)
    if i < 2 or i >= x.size - 2:
        return
    for k in range(5):
        a[k] = x[i - 2 + k]
    for k in range(1, 5):
        value = a[k]
        j = k - 1
        while j >= 0 and a[j] > value:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = value
    y[i] = a[2]


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def integers(n, most):
    return np.random.default_rng(0).integers(0, most, n).astype(np.int32)


def softmax_of(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def collatz_of(n):
    out = np.zeros(n, np.int64)
    for i in range(1, n):
        k, steps = i, 0
        while k != 1 and steps < 100:
            k, steps = (3 * k + 1 if k % 2 else k // 2), steps + 1
        out[i] = -1 if steps == 100 else steps
    return out


def up(n, k):
    return -(-n // k)


def median_of(x):
    y = np.zeros_like(x)
    y[2:-2] = np.median(np.lib.stride_tricks.sliding_window_view(x, 5), axis=1)
    return y


def stencil_of(x):
    y = np.zeros_like(x)
    y[1:-1] = np.float32(0.25) * x[:-2] + np.float32(0.5) * x[1:-1] + np.float32(0.25) * x[2:]
    return y


def blocks_of(x, n):
    return np.pad(x, (0, -x.size % n)).reshape(-1, n)


def case(name, n):
    """Of a case and a size: kernel, configuration, arguments, which is the output, the answer."""
    if name == "saxpy":
        x, y = floats(n), floats(n)
        return saxpy, (up(n, 256), 256), (np.float32(2), x, y), 2, 2 * x + y
    if name == "grid_stride":
        x = floats(n)
        return grid_stride, (max(1, n // 4096), 256), (x, 0 * x), 1, x * x
    if name == "transpose":
        side = 32 * max(1, math.isqrt(n * 4) // 32)
        x = floats(side, side)
        return transpose, ((side // 32, side // 32), (32, 8)), (x, 0 * x), 1, x.T
    if name == "block_sum":
        x = floats(n)
        return block_sum, (up(n, 256), 256), (x, np.zeros(up(n, 256), "f")), 1, blocks_of(x, 256).sum(axis=1)
    if name == "matmul":
        side = math.isqrt(n)
        a, b = floats(side, side), floats(side, side)
        g = up(side, TILE)
        return matmul, ((g, g), (TILE, TILE)), (a, b, 0 * a), 2, a @ b
    if name == "stencil":
        x = floats(n)
        return stencil, (up(n, 256), 256), (x, 0 * x), 1, stencil_of(x)
    if name == "histogram":
        x = integers(n * 8, 64)
        return histogram, (up(n, 256), 256), (x, np.zeros(64, np.int32)), 1, np.bincount(x, minlength=64)
    if name == "scan":
        n = up(n, 128) * 128
        x = integers(n, 10)
        return scan, (n // 128, 128, 0, 4 * 128), (x, 0 * x), 1, np.cumsum(x.reshape(-1, 128), axis=1).ravel()
    if name == "softmax":
        x = floats(up(n, 128), 512)
        return softmax_rows, (x.shape[0], 128), (x, 0 * x), 1, softmax_of(x)
    if name == "shuffle":
        x = floats(n)
        return shuffle_sum, (up(n, 256), 256), (x, np.zeros(1, "f")), 1, x.sum(dtype=np.float64)
    if name == "early_return":
        return early_return, (up(n, 128), 128), (np.zeros(n, np.int64),), 0, collatz_of(n)
    if name == "votes":
        n = up(n, 128) * 128
        x = integers(n, 7)
        z = (0 * x).astype(np.int64)
        count = 100 * (x.reshape(-1, 128) > 0).sum(axis=1, keepdims=True)
        ballot = (x.reshape(-1, 32) > 0).sum(axis=1, keepdims=True)
        answer = np.broadcast_to(ballot, (n // 32, 32)).ravel() + np.broadcast_to(count, (n // 128, 128)).ravel()
        return votes, (n // 128, 128), (x, z, z.copy()), 1, answer
    if name == "local":
        x = floats(n)
        return local_median, (up(n, 128), 128), (x, 0 * x), 1, median_of(x)
    raise KeyError(name)


CASES = {"saxpy": 1 << 24, "grid_stride": 1 << 24, "transpose": 1 << 22, "block_sum": 10**7, "matmul": 512 * 512,
         "stencil": 1 << 23, "histogram": 1 << 20, "scan": 1 << 22, "softmax": 1 << 20, "shuffle": 1 << 22,
         "early_return": 1 << 19, "votes": 1 << 20, "local": 1 << 20}  # fmt: skip


def right(found, answer):
    scale = np.abs(answer).max() if np.size(answer) else 1
    return bool(np.allclose(found, answer, rtol=1e-4, atol=1e-4 * scale))


def three(size):
    return tuple(int(n) for n in (*np.atleast_1d(size), 1, 1))[:3]


def launch(kernel, configuration, arguments, **options):
    """Run a compiled kernel for a configuration as `kernel[...]` takes it."""
    grid, block, *rest = configuration
    kernel.launch(three(grid), three(block), rest[1] if len(rest) > 1 else 0, tuple(arguments), **options)


def threads(configuration):
    return math.prod(three(configuration[0])) * math.prod(three(configuration[1]))
