"""More usual mistakes in the puzzles of notebook 08: kernels that stop, never end, or leave y as it was."""

from __future__ import annotations

import math

from numba import cuda, float32
from puzzle_mistakes import mistake


@mistake("map", "TypeError", "a whole array", "x[i]")
def at_once(x, y):
    y[:] = x + 10


@mistake("map", "y[0] is not written")
def compared(x, y):
    i = cuda.threadIdx.x
    y[i] == x[i] + 10  # noqa: B015


@mistake("strided loop", "UnsupportedError", "Does a loop never end?")
def endless(x, y):
    i = cuda.grid(1)
    while i < x.size:
        y[i] = x[i] * x[i]


@mistake("dot product", "y[0] is NaN, as it was", "something must be written")
def added_to_nothing(a, b, y):
    i = cuda.grid(1)
    cuda.atomic.add(y, 0, a[i] * b[i])


@mistake("softmax", "OverflowError", "subtract the largest of the row")
def no_maximum_in_double_precision(x, y):
    s = cuda.shared.array(64, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    value = x[row, k]
    s[k] = value
    cuda.syncthreads()
    total = 0.0
    for i in range(64):
        total += math.exp(s[i])
    y[row, k] = math.exp(value) / total
