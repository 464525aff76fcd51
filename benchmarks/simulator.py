"""Measure how many threads a second Numba's CUDA simulator runs: with numbacc's scheduler, and with its own.

    NUMBA_ENABLE_CUDASIM=1 python -m benchmarks.simulator [--repeats 5] [--processor-time]

Needs no GPU. Both schedulers take turns, and results are compared with NumPy's. The figures are of the fastest launch.
"""

from __future__ import annotations

import argparse
import math
import platform
import time

import numpy as np
from numba import cuda, float32, int32
from numba.cuda.simulator.kernel import FakeCUDAKernel

_METHODS = ("__call__", "__getitem__", "forall")
#: Numba's simulator, as it is before numbacc is imported.
_NUMBA = {name: vars(FakeCUDAKernel)[name] for name in _METHODS}

import numbacc  # noqa: E402

TILE = 16


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


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
def scan(x, y):
    s = cuda.shared.array(0, int32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    s[k] = x[i]
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        value = s[k - step] if k >= step else int32(0)
        cuda.syncthreads()
        s[k] += value
        cuda.syncthreads()
        step *= 2
    y[i] = s[k]


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
def matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for m in range(a.shape[1] // TILE):
        sa[ty, tx] = a[row, m * TILE + tx]
        sb[ty, tx] = b[m * TILE + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def softmax(x, y):
    s = cuda.shared.array(128, float32)
    k, row, n = cuda.threadIdx.x, cuda.blockIdx.x, x.shape[1]
    most = float32(-np.inf)
    for j in range(k, n, cuda.blockDim.x):
        most = max(most, x[row, j])
    s[k] = most
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if k < half:
            s[k] = max(s[k], s[k + half])
        cuda.syncthreads()
        half //= 2
    most = s[0]
    cuda.syncthreads()
    total = float32(0)
    for j in range(k, n, cuda.blockDim.x):
        total += math.exp(x[row, j] - most)
    s[k] = total
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if k < half:
            s[k] += s[k + half]
        cuda.syncthreads()
        half //= 2
    total = s[0]
    for j in range(k, n, cuda.blockDim.x):
        y[row, j] = math.exp(x[row, j] - most) / total


def cases():
    """(name, kernel, configuration, arguments, (output, what it must be))."""
    rng = np.random.default_rng(0)

    def some(*shape):
        return rng.standard_normal(shape, np.float32)

    x, out = some(2048), np.zeros(2048, np.float32)
    sums, rows = np.zeros(8, np.float32), x.reshape(8, 256)
    yield "saxpy", saxpy, (8, 256), (np.float32(0), x, out), (out, np.zeros(2048))
    yield "block reduction", block_sum, (8, 256), (x, sums), (sums, rows.sum(1))
    counts, scanned = rng.integers(0, 10, 1024, np.int32), np.zeros(1024, np.int32)
    yield "scan", scan, (8, 128, 0, 512), (counts, scanned), (scanned, counts.reshape(8, 128).cumsum(1).ravel())
    a, turned = some(64, 64), np.zeros((64, 64), np.float32)
    yield "transpose", transpose, ((2, 2), (32, 8)), (a, turned), (turned, a.T)
    left, right, product = some(32, 32), some(32, 32), np.zeros((32, 32), np.float32)
    yield "matmul", matmul, ((2, 2), (TILE, TILE)), (left, right, product), (product, left @ right)
    z, soft = some(8, 512), np.zeros((8, 512), np.float32)
    exps = np.exp(z - z.max(1, keepdims=True))
    yield "softmax", softmax, (8, 128), (z, soft), (soft, exps / exps.sum(1, keepdims=True))


def seconds(clock, kernel, configuration, arguments):
    start = clock()
    kernel[configuration](*arguments)
    return clock() - start


def threads(configuration):
    """How many a launch has."""
    return int(np.prod(configuration[0]) * np.prod(configuration[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="launches of each kernel with each scheduler")
    parser.add_argument("--processor-time", action="store_true", help="where other programs use the cores, too")
    options = parser.parse_args()
    repeats, clock = options.repeats, time.process_time if options.processor_time else time.perf_counter
    saxpy[1, 1](np.float32(0), np.zeros(1, np.float32), np.zeros(1, np.float32))  # the first launch installs it
    ours = {name: vars(FakeCUDAKernel)[name] for name in _METHODS}
    assert ours["__call__"] is not _NUMBA["__call__"]
    print(f"Python {platform.python_version()}, numbacc {numbacc.__version__}; threads a second, {clock.__name__}")
    print("| kernel | Numba's scheduler | numbacc's | factor |\n|---|---|---|---|")
    for name, kernel, configuration, arguments, (output, wanted) in cases():
        best = dict.fromkeys(("numba", "ours"), np.inf)
        for _ in range(repeats):
            for which, methods in (("numba", _NUMBA), ("ours", ours)):
                for method, function in methods.items():
                    setattr(FakeCUDAKernel, method, function)
                output[...] = 0 if name == "saxpy" else 99
                best[which] = min(best[which], seconds(clock, kernel, configuration, arguments))
                np.testing.assert_allclose(output, wanted, rtol=1e-3, atol=1e-4)
        speeds = {which: threads(configuration) / each for which, each in best.items()}
        print(f"| {name} | {speeds['numba']:,.0f} | {speeds['ours']:,.0f} | {speeds['ours'] / speeds['numba']:.0f} |")


if __name__ == "__main__":
    main()
