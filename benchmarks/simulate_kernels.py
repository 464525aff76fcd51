"""Kernels of users' kinds, with inputs of any size and their answers: what `benchmarks.simulate` measures.

Imports NumPy and Numba alone, so that `python -m benchmarks.simulate_kernels` runs them in Numba's own simulator.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

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


@cuda.jit
def warm_up(x):
    """Not measured: it loads what the first kernel of a process loads."""
    s = cuda.shared.array(32, float32)
    k = cuda.threadIdx.x
    if k < x.size:
        s[k] = x[k]
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = s[i] + 1
    while k > 1:
        k //= 2


# ---------------------------------------------------------------- GPU-Puzzles: fourteen tasks for beginners

ROW, WIDTH, TAPS = 256, 16, 8


@cuda.jit
def p_map(a, out):
    i = cuda.threadIdx.x
    out[i] = a[i] + 10


@cuda.jit
def p_zip(a, b, out):
    i = cuda.threadIdx.x
    out[i] = a[i] + b[i]


@cuda.jit
def p_guard(a, out):
    i = cuda.threadIdx.x
    if i < out.size:
        out[i] = a[i] + 10


@cuda.jit
def p_map_2d(a, out):
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a[i, j] + 10


@cuda.jit
def p_broadcast(a, b, out):
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a[i, 0] + b[0, j]


@cuda.jit
def p_blocks(a, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = a[i] + 10


@cuda.jit
def p_blocks_2d(a, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    j = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a[i, j] + 10


@cuda.jit
def p_shared(a, out):
    shared = cuda.shared.array(ROW, float32)
    k = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + k
    if i < a.size:
        shared[k] = a[i]
    cuda.syncthreads()
    if i < out.size:
        out[i] = shared[k] + 10


@cuda.jit
def p_pooling(a, out):
    shared = cuda.shared.array(ROW + 2, float32)
    k = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + k
    shared[k + 2] = a[i] if i < a.size else float32(0)
    if k < 2:
        shared[k] = a[i - 2] if i >= 2 else float32(0)
    cuda.syncthreads()
    if i < out.size:
        out[i] = shared[k] + shared[k + 1] + shared[k + 2]


@cuda.jit
def p_dot(a, b, out):
    shared = cuda.shared.array(ROW, float32)
    k = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + k
    shared[k] = a[i] * b[i] if i < a.size else float32(0)
    cuda.syncthreads()
    if k == 0:
        total = float32(0)
        for j in range(ROW):
            total += shared[j]
        out[cuda.blockIdx.x] = total


@cuda.jit
def p_conv(a, b, out):
    shared = cuda.shared.array(ROW + TAPS, float32)
    taps = cuda.shared.array(TAPS, float32)
    k = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + k
    shared[k] = a[i] if i < a.size else float32(0)
    if k < TAPS:
        taps[k] = b[k]
        after = i + cuda.blockDim.x
        shared[k + cuda.blockDim.x] = a[after] if after < a.size else float32(0)
    cuda.syncthreads()
    total = float32(0)
    for j in range(TAPS):
        total += shared[k + j] * taps[j]
    if i < out.size:
        out[i] = total


@cuda.jit
def p_sum(a, out):
    cache = cuda.shared.array(ROW, float32)
    k = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + k
    cache[k] = a[i] if i < a.size else float32(0)
    cuda.syncthreads()
    step = 1
    while step < ROW:
        if k % (2 * step) == 0:
            cache[k] += cache[k + step]
        cuda.syncthreads()
        step *= 2
    if k == 0:
        out[cuda.blockIdx.x] = cache[0]


@cuda.jit
def p_axis_sum(a, out):
    cache = cuda.shared.array(ROW, float32)
    k, batch = cuda.threadIdx.x, cuda.blockIdx.y
    cache[k] = a[batch, k] if k < a.shape[1] else float32(0)
    cuda.syncthreads()
    half = ROW // 2
    while half > 0:
        if k < half:
            cache[k] += cache[k + half]
        cuda.syncthreads()
        half //= 2
    if k == 0:
        out[batch, 0] = cache[0]


@cuda.jit
def p_matmul(a, b, out):
    left = cuda.shared.array((WIDTH, WIDTH), float32)
    right = cuda.shared.array((WIDTH, WIDTH), float32)
    i, j = cuda.grid(2)
    k, m = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for begin in range(0, a.shape[1], WIDTH):
        left[k, m] = a[i, begin + m] if i < a.shape[0] and begin + m < a.shape[1] else float32(0)
        right[k, m] = b[begin + k, j] if begin + k < b.shape[0] and j < b.shape[1] else float32(0)
        cuda.syncthreads()
        for n in range(WIDTH):
            total += left[k, n] * right[n, m]
        cuda.syncthreads()
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = total


# ---------------------------------------------------------------- inputs and answers


class Case(NamedTuple):
    """A kernel with its inputs.

    Attributes:
        launch: grid, block and what follows.
        out: which argument is written.
        answer: what it shall hold, of NumPy in float64 or in integers.
    """

    kernel: Any
    launch: tuple[Any, ...]
    args: tuple[Any, ...]
    out: int
    answer: Any

    @property
    def threads(self) -> int:
        return int(np.prod(self.launch[0]) * np.prod(self.launch[1]))

    def fresh(self) -> tuple[Any, ...]:
        """The arguments, in arrays of their own; what the kernel shall write is poisoned if it does not read it."""
        return tuple(each.copy() if isinstance(each, np.ndarray) else each for each in self.args)

    def is_right(self, args: tuple[Any, ...]) -> bool:
        found = args[self.out]
        if np.issubdtype(found.dtype, np.integer):
            return bool(np.array_equal(found, self.answer))
        scale = float(np.abs(self.answer).max(initial=0.0))
        return bool(np.allclose(found, self.answer, rtol=1e-4, atol=1e-4 * scale))


class Subject(NamedTuple):
    """Cases of one kernel: `make(n)` has about n threads; how many are measured, unchecked and checked."""

    make: Callable[[int], Case]
    threads: int
    checked: int


def _floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _integers(n: int, most: int) -> Any:
    return np.random.default_rng(0).integers(0, most, n).astype(np.int32)


def _poison(*shape: int) -> Any:
    return np.full(shape, np.nan, np.float32)


def _up(n: int, k: int) -> int:
    return -(-n // k)


def _rows(x: Any, n: int) -> Any:
    return np.pad(x, (0, -x.size % n)).reshape(-1, n).astype(np.float64)


def _flat(n: int) -> tuple[int, int]:
    return max(1, _up(n, ROW)), ROW


def _saxpy(n: int) -> Case:
    x, y = _floats(n), _floats(n)
    return Case(saxpy, _flat(n), (np.float32(2), x, y), 2, 2.0 * x + y)


def _grid_stride(n: int) -> Case:
    x = _floats(16 * n)
    return Case(grid_stride, _flat(n), (x, _poison(x.size)), 1, x.astype(float) ** 2)


def _transpose(n: int) -> Case:
    side = 32 * max(1, math.isqrt(n * 4) // 32)
    x = _floats(side, side)
    return Case(transpose, ((side // 32, side // 32), (32, 8)), (x, _poison(side, side)), 1, x.T)


def _block_sum(n: int) -> Case:
    x = _floats(n)
    return Case(block_sum, _flat(n), (x, _poison(_up(n, ROW))), 1, _rows(x, ROW).sum(axis=1))


def _matmul(n: int) -> Case:
    side = math.isqrt(n)
    a, b, g = _floats(side, side), _floats(side, side), _up(side, TILE)
    return Case(matmul, ((g, g), (TILE, TILE)), (a, b, _poison(side, side)), 2, a.astype(float) @ b)


def _stencil(n: int) -> Case:
    x = _floats(n)
    answer = np.zeros(n)
    answer[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return Case(stencil, _flat(n), (x, 0 * x), 1, answer)


def _histogram(n: int) -> Case:
    x = _integers(8 * n, 64)
    return Case(histogram, _flat(n), (x, np.zeros(64, np.int32)), 1, np.bincount(x, minlength=64))


def _scan(n: int) -> Case:
    x = _integers(128 * _up(n, 128), 10)
    return Case(scan, (x.size // 128, 128, 0, 512), (x, 0 * x - 1), 1, np.cumsum(x.reshape(-1, 128), axis=1).ravel())


def _softmax(n: int) -> Case:
    x = _floats(_up(n, 128), 512)
    e = np.exp(x.astype(float) - x.max(axis=1, keepdims=True))
    return Case(softmax_rows, (len(x), 128), (x, _poison(*x.shape)), 1, e / e.sum(axis=1, keepdims=True))


def _shuffle(n: int) -> Case:
    x = _floats(n)
    return Case(shuffle_sum, _flat(n), (x, np.zeros(1, np.float32)), 1, np.full(1, x.sum(dtype=float)))


def _collatz(n: int) -> Case:
    k, answer = np.arange(n), np.zeros(n, np.int64)
    for _ in range(100):
        answer += k > 1
        k = np.where(k > 1, np.where(k % 2, 3 * k + 1, k // 2), k)
    answer[answer == 100] = -1
    return Case(early_return, (_up(n, 128), 128), (answer * 0 - 7,), 0, answer)


def _votes(n: int) -> Case:
    x = _integers(128 * _up(n, 128), 7)
    blocks = 100 * (x.reshape(-1, 128) > 0).sum(axis=1)
    warps = (x.reshape(-1, 32) > 0).sum(axis=1)
    poison = np.full(x.size, -7, np.int64)
    return Case(votes, (x.size // 128, 128), (x, poison, poison), 1, np.repeat(warps, 32) + np.repeat(blocks, 128))


def _local(n: int) -> Case:
    x = _floats(n)
    answer = np.zeros_like(x)
    answer[2:-2] = np.median(np.lib.stride_tricks.sliding_window_view(x, 5), axis=1)
    return Case(local_median, (_up(n, 128), 128), (x, 0 * x), 1, answer)


def _puzzle_flat(kernel: Any, f: Callable[..., Any], inputs: int = 1, one_block: bool = True) -> Callable[[int], Case]:
    def make(n: int) -> Case:
        given = tuple(_floats(n) for _ in range(inputs))
        launch = (1, n) if one_block else _flat(n)
        return Case(kernel, launch, (*given, _poison(n)), inputs, f(*(each.astype(float) for each in given)))

    return make


def _p_guard(n: int) -> Case:
    a = _floats(n - 3)
    return Case(p_guard, (1, n), (a, _poison(n - 3)), 1, a + 10.0)


def _p_map_2d(n: int) -> Case:
    side = math.isqrt(n)
    a = _floats(side - 1, side - 1)
    return Case(p_map_2d, (1, (side, side)), (a, _poison(*a.shape)), 1, a + 10.0)


def _p_broadcast(n: int) -> Case:
    side = math.isqrt(n)
    a, b = _floats(side, 1), _floats(1, side)
    return Case(p_broadcast, (1, (side, side)), (a, b, _poison(side, side)), 2, a.astype(float) + b)


def _p_blocks_2d(n: int) -> Case:
    side = math.isqrt(n)
    a, g = _floats(side - 1, side - 1), _up(side, WIDTH)
    return Case(p_blocks_2d, ((g, g), (WIDTH, WIDTH)), (a, _poison(*a.shape)), 1, a + 10.0)


def _pooled(a: Any) -> Any:
    return a + np.concatenate([[0], a[:-1]]) + np.concatenate([[0, 0], a[:-2]])


def _p_dot(n: int) -> Case:
    a, b = _floats(n), _floats(n)[::-1].copy()
    answer = (_rows(a, ROW) * _rows(b, ROW)).sum(axis=1)
    return Case(p_dot, _flat(n), (a, b, _poison(_up(n, ROW))), 2, answer)


def _p_conv(n: int) -> Case:
    a, b = _floats(n), _floats(TAPS)
    ahead = np.lib.stride_tricks.sliding_window_view(np.pad(a.astype(float), (0, TAPS - 1)), TAPS)
    return Case(p_conv, _flat(n), (a, b, _poison(n)), 2, ahead @ b.astype(float))


def _p_sum(n: int) -> Case:
    a = _floats(n)
    return Case(p_sum, _flat(n), (a, _poison(_up(n, ROW))), 1, _rows(a, ROW).sum(axis=1))


def _p_axis_sum(n: int) -> Case:
    a = _floats(max(1, min(65_535, n // ROW)), ROW - 6)
    out = _poison(len(a), 1)
    return Case(p_axis_sum, ((1, len(a)), ROW), (a, out), 1, a.astype(float).sum(axis=1, keepdims=True))


def _p_matmul(n: int) -> Case:
    side = math.isqrt(n)
    a, b, g = _floats(side, side), _floats(side, side), _up(side, WIDTH)
    return Case(p_matmul, ((g, g), (WIDTH, WIDTH)), (a, b, _poison(side, side)), 2, a.astype(float) @ b)


_LARGE, _MIDDLE = 1 << 22, 1 << 20
#: Kernels as users write them.
USUAL: dict[str, Subject] = {
    "saxpy with guard": Subject(_saxpy, 1 << 24, _MIDDLE),
    "grid-stride loop, 16 elements a thread": Subject(_grid_stride, _MIDDLE, 1 << 16),
    "tiled transpose, 4 elements a thread": Subject(_transpose, _MIDDLE, 1 << 18),
    "block reduction of 10^7": Subject(_block_sum, 10**7, _MIDDLE),
    "tiled matmul 512^3": Subject(_matmul, 512 * 512, 1 << 14),
    "stencil with early return": Subject(_stencil, 1 << 23, _MIDDLE),
    "histogram, shared and global atomics": Subject(_histogram, _MIDDLE, 1 << 18),
    "scan in dynamic shared memory": Subject(_scan, _LARGE, 1 << 18),
    "softmax of rows of 512": Subject(_softmax, _MIDDLE, 1 << 16),
    "warp shuffles in a device function": Subject(_shuffle, _LARGE, _MIDDLE),
    "device function with a loop": Subject(_collatz, 1 << 19, 1 << 18),
    "votes, and a break between barriers": Subject(_votes, _MIDDLE, 1 << 18),
    "local array": Subject(_local, _MIDDLE, 1 << 18),
}
PUZZLES: dict[str, Subject] = {
    "GPU-Puzzles 1, map": Subject(_puzzle_flat(p_map, lambda a: a + 10), 1024, 1024),
    "GPU-Puzzles 2, zip": Subject(_puzzle_flat(p_zip, lambda a, b: a + b, 2), 1024, 1024),
    "GPU-Puzzles 3, guard": Subject(_p_guard, 1024, 1024),
    "GPU-Puzzles 4, map 2D": Subject(_p_map_2d, 1024, 1024),
    "GPU-Puzzles 5, broadcast": Subject(_p_broadcast, 1024, 1024),
    "GPU-Puzzles 6, blocks": Subject(_puzzle_flat(p_blocks, lambda a: a + 10, 1, False), _LARGE, _MIDDLE),
    "GPU-Puzzles 7, blocks 2D": Subject(_p_blocks_2d, _LARGE, _MIDDLE),
    "GPU-Puzzles 8, shared": Subject(_puzzle_flat(p_shared, lambda a: a + 10, 1, False), _LARGE, _MIDDLE),
    "GPU-Puzzles 9, pooling": Subject(_puzzle_flat(p_pooling, _pooled, 1, False), _LARGE, _MIDDLE),
    "GPU-Puzzles 10, dot product": Subject(_p_dot, _LARGE, _MIDDLE),
    "GPU-Puzzles 11, 1D convolution": Subject(_p_conv, _LARGE, 1 << 18),
    "GPU-Puzzles 12, prefix sum": Subject(_p_sum, _LARGE, _MIDDLE),
    "GPU-Puzzles 13, axis sum": Subject(_p_axis_sum, _LARGE, _MIDDLE),
    "GPU-Puzzles 14, matmul": Subject(_p_matmul, 1 << 16, 1 << 14),
}
SUBJECTS = {**USUAL, **PUZZLES}


def _module(name: str) -> Any:
    """A module of the notebooks' folder."""
    folder = Path(__file__).resolve().parent.parent / "notebooks"
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _notebook(kernel: Any, puzzle: Any) -> Callable[[int], Case]:
    def make(n: int) -> Case:
        rng = np.random.default_rng(0)
        *given, out = (
            rng.standard_normal(each).astype(np.float32) + np.float32(puzzle.shift) for each in puzzle.shapes
        )
        answer = puzzle.answer(*(each.astype(float) for each in given))
        return Case(kernel, (puzzle.grid, puzzle.block), (*given, np.full_like(out, np.nan)), len(given), answer)

    return make


def subjects() -> dict[str, Subject]:
    """Return all subjects, notebook 08's kernels too. Its module imports numbacc."""
    solutions, puzzles = _module("puzzle_solutions").SOLUTIONS, _module("puzzles").PUZZLES
    of_notebook = {
        f"notebook 08, {name}": Subject(_notebook(solutions[name], each), 0, 0) for name, each in puzzles.items()
    }
    return {**SUBJECTS, **of_notebook}


# ---------------------------------------------------------------- in Numba's own simulator


def interpreted(names: list[str], threads: int) -> Iterator[dict[str, Any]]:
    """Run subjects with about so many threads in this process's simulator: their threads per second."""
    every = subjects()
    for name in names:
        case = every[name].make(threads)
        args = case.fresh()
        start = time.perf_counter()
        try:
            case.kernel[case.launch](*args)
        except Exception as error:
            yield {"name": name, "why": f"{type(error).__name__}: {error}"[:80]}
            continue
        seconds = time.perf_counter() - start
        yield {"name": name, "threads_per_s": case.threads / seconds, "right": case.is_right(args)}


def without_numbacc() -> None:
    """Give notebook 08's module stand-ins for numbacc, which would replace the simulator's scheduler."""
    launches = "numbacc.simulator.compiled.launches"
    made = {name: ModuleType(name) for name in ("numbacc", "numbacc.tracing", launches)}
    vars(made["numbacc"])["cuda"] = cuda
    vars(made["numbacc.tracing"])["compile_errors"] = None
    vars(made[launches])["in_notebook"] = lambda: False
    sys.modules.update(made)


if __name__ == "__main__":
    assert os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", "runs in Numba's simulator"
    without_numbacc()
    for line in interpreted(sys.argv[1:], 1024):
        print(json.dumps(line), flush=True)
