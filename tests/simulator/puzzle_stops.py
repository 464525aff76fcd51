"""More usual mistakes in the puzzles of notebook 08: kernels that stop, never end, do nothing, or run in Python."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32
from puzzle_mistakes import mistake


@mistake("map", "race", "y[", "an element of its own")
def at_once(x, y):
    y[:] = x + 10


@mistake("map", "y[0] is not written")
def compared(x, y):
    i = cuda.threadIdx.x
    y[i] == x[i] + 10  # noqa: B015


@mistake("strided loop", "line ", "stopped in this loop", "Does it never end?")
def endless(x, y):
    i = cuda.grid(1)
    while i < x.size:
        y[i] = x[i] * x[i]


@mistake("map", "line ", "stopped in this loop", "Does it never end?")
def endless_with_a_variable(x, y):
    i = cuda.threadIdx.x
    k = 0
    while k < 10:
        y[i] = x[i] + 10
        k = k - k


@mistake("dot product", "y[0] is NaN, as it was", "something must be written")
def added_to_nothing(a, b, y):
    i = cuda.grid(1)
    cuda.atomic.add(y, 0, a[i] * b[i])


@mistake("softmax", "exp of numbers above 88", "subtract the largest of the row")
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


# ---------------------------------------------------------------- what runs in Python alone


@mistake("dot product", "The values are right", "cannot be compiled for a GPU", "line ", "dot of arrays", "in a loop")
def by_numpy(a, b, y):
    if cuda.threadIdx.x == 0:
        y[0] = np.dot(a, b)


@mistake("pooling", "cannot be compiled for a GPU", "line ", "makes a list", "cuda.local.array")
def with_a_list(x, y):
    i = cuda.grid(1)
    window = []
    for k in range(3):
        window.append(x[i - k] if i >= k else float32(0))  # noqa: PERF401
    y[i] = window[0] + window[1] + window[2]


@mistake("map 2d", "cannot be compiled for a GPU", "line ", "makes a set")
def with_a_set(x, y):
    column, row = cuda.grid(2)
    if not {row >= x.shape[0], column >= x.shape[1]} & {True}:
        y[row, column] = 2 * x[row, column]


@mistake("guard", "cannot be compiled for a GPU", "line ", "catches exceptions")
def by_exception(x, y):
    i = cuda.grid(1)
    try:
        y[i] = x[i] + 10
    except IndexError:
        pass


@mistake("shared", "cannot be compiled for a GPU", "line ", "cuda.shared.array must be known")
def of_any_length(x, y):
    s = cuda.shared.array(cuda.blockDim.x, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    s[k] = x[i]
    cuda.syncthreads()
    y[i] = s[k] + s[(k + 1) % 64]


@mistake("softmax", "cannot be compiled for a GPU", "line ", "returns a value")
def returned(x, y):
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    largest = x[row, 0]
    for i in range(64):
        largest = max(largest, x[row, i])
    total = 0.0
    for i in range(64):
        total += math.exp(x[row, i] - largest)
    y[row, k] = math.exp(x[row, k] - largest) / total
    return total
