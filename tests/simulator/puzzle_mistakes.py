"""Usual mistakes in the puzzles of notebook 08: three kernels or more of each, and what the check must answer."""

from __future__ import annotations

import math

from numba import cuda, float32

MISTAKES = []


def mistake(name, *words):
    """A kernel that does not solve a puzzle."""

    def put(function):
        MISTAKES.append((name, cuda.jit(function), words))
        return function

    return put


@mistake("map", "race", "thread 1", "y[0]", "an element of its own")
def all_at_one(x, y):
    i = cuda.blockIdx.x
    y[i] = x[i] + 10


@mistake("map", "An input was changed", "only y")
def in_the_input(x, y):
    i = cuda.threadIdx.x
    x[i] = x[i] + 10


@mistake("map", "KernelError", "index 32 is out of bounds of axis 0 of x", "thread (31, 0, 0)")
def counted_from_one(x, y):
    i = cuda.threadIdx.x + 1
    y[i] = x[i] + 10


@mistake("map", "does nothing yet")
def empty(x, y):
    pass


@mistake("guard", "line ", "index 50 is out of bounds", "of block (1, 0, 0)", "put an `if` around it")
def no_guard(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + 10


@mistake("guard", "index 50 is out of bounds of axis 0 of x", "thread (18, 0, 0) of block (1, 0, 0)")
def one_too_far(x, y):
    i = cuda.grid(1)
    if i <= x.size:
        y[i] = x[i] + 10


@mistake("guard", "nothing orders blocks", "cuda.grid(1) counts through all blocks")
def within_the_block(x, y):
    i = cuda.threadIdx.x
    if i < x.size:
        y[i] = x[i] + 10


@mistake("map 2d", "The values are right", "800 sectors of x", "200 would do", "neighbouring threadIdx.x")
def rows_along_x(x, y):
    row, column = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        y[row, column] = 2 * x[row, column]


@mistake("map 2d", "index (40, 0) is out of bounds of axis 0 of x", "put an `if` around it")
def half_a_guard(x, y):
    column, row = cuda.grid(2)
    if column < x.shape[1]:
        y[row, column] = 2 * x[row, column]


@mistake("map 2d", "transposed", "that was read")
def turned(x, y):
    column, row = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        y[column, row] = 2 * x[row, column]


@mistake("broadcast", "a and b are exchanged")
def exchanged(a, b, y):
    column, row = cuda.grid(2)
    y[row, column] = a[column] + b[row]


@mistake("broadcast", "both have the row's index")
def one_index(a, b, y):
    column, row = cuda.grid(2)
    y[row, column] = a[row] + b[row]


@mistake("broadcast", "sectors of y", "neighbouring threadIdx.x")
def down_the_columns(a, b, y):
    k = cuda.threadIdx.x + 32 * (cuda.threadIdx.y + 4 * cuda.blockIdx.y)
    row, column = k % 32, k // 32
    y[row, column] = a[row] + b[column]


@mistake("strided loop", "y[128] is not written", "cuda.gridsize(1)")
def no_loop(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * x[i]


@mistake("strided loop", "The values are right", "sectors of x", "neighbouring elements")
def a_chunk_each(x, y):
    for k in range(8):
        i = 8 * cuda.grid(1) + k
        value = x[i]
        y[i] = value * value


@mistake("strided loop", "nothing orders blocks", "cuda.grid(1) counts through all blocks")
def a_blocks_step(x, y):
    for i in range(cuda.threadIdx.x, x.size, cuda.blockDim.x):
        y[i] = x[i] * x[i]


@mistake("shared", "race", "s[0]", "Put cuda.syncthreads()")
def unordered(x, y):
    s = cuda.shared.array(64, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    s[k] = x[i]
    y[i] = s[k] + s[(k + 1) % 64]


@mistake("shared", "only 63 of 64 threads of block (0, 0, 0)", "line ", "out of the branch")
def barrier_in_a_branch(x, y):
    s = cuda.shared.array(64, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    s[k] = x[i]
    if k < 63:
        cuda.syncthreads()
        y[i] = s[k] + s[k + 1]
    else:
        y[i] = s[k] + x[i - 63]


@mistake("shared", "The values are right", "1,024 bytes of x", "512 would do", "put it in shared memory")
def not_shared(x, y):
    k, i = cuda.threadIdx.x, cuda.grid(1)
    y[i] = x[i] + x[i - k + (k + 1) % 64]


@mistake("shared", "the next block's element")
def over_the_border(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + x[(i + 1) % x.size]


@mistake("shared", "line ", "s, shared memory, is read at element 63 before it is written, in thread")
def half_written(x, y):
    s = cuda.shared.array(64, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    if k < 63:
        s[k] = x[i]
    cuda.syncthreads()
    y[i] = s[k] + s[(k + 1) % 64]


@mistake("pooling", "miss their neighbours", "the block before")
def no_neighbours(x, y):
    s = cuda.shared.array(64, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    s[k] = x[i]
    cuda.syncthreads()
    total = s[k]
    if k >= 1:
        total += s[k - 1]
    if k >= 2:
        total += s[k - 2]
    y[i] = total


@mistake("pooling", "a negative index counts from the end")
def negative(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + x[i - 1] + x[i - 2]


@mistake("pooling", "The values are right", "520 would do", "two of them the two before")
def read_three_times(x, y):
    i = cuda.grid(1)
    total = float32(0)
    for k in range(3):
        if i >= k:
            total += x[i - k]
    y[i] = total


@mistake("dot product", "race", "y[0]", "Sums of many threads need shared memory")
def lost(a, b, y):
    for i in range(cuda.threadIdx.x, a.size, 64):
        y[0] += a[i] * b[i]


@mistake("dot product", "The values are right", "wait for each other at one address", "shared memory")
def all_atomic(a, b, y):
    if cuda.threadIdx.x == 0:
        y[0] = 0
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, a.size, 64):
        cuda.atomic.add(y, 0, a[i] * b[i])


@mistake("dot product", "only the first 64 products")
def one_each(a, b, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = a[k] * b[k]
    cuda.syncthreads()
    if k == 0:
        total = float32(0)
        for i in range(64):
            total += s[i]
        y[0] = total


@mistake("dot product", "race", "s[", "Put cuda.syncthreads()")
def no_barrier_in_the_loop(a, b, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = float32(0)
    for i in range(k, a.size, 64):
        s[k] += a[i] * b[i]
    cuda.syncthreads()
    half = 32
    while half:
        if k < half:
            s[k] += s[k + half]
        half //= 2
    if k == 0:
        y[0] = s[0]


@mistake("prefix sum", "race", "s[", "Put cuda.syncthreads()")
def read_and_written(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = x[k]
    cuda.syncthreads()
    distance = 1
    while distance < 64:
        if k >= distance:
            s[k] += s[k - distance]
        cuda.syncthreads()
        distance *= 2
    y[k] = s[k]


@mistake("prefix sum", "y is one late", "the thread's own element")
def exclusive(x, y):
    k = cuda.threadIdx.x
    total = float32(0)
    for i in range(k):
        total += x[i]
    y[k] = total


@mistake("prefix sum", "The values are right", "8,320 bytes of x", "256 would do", "step by step")
def each_sums_all(x, y):
    k = cuda.threadIdx.x
    total = float32(0)
    for i in range(k + 1):
        total += x[i]
    y[k] = total


@mistake("transpose", "The values are right", "sectors of y", "512 would do", "neighbouring threadIdx.x")
def straight(x, y):
    j, i = cuda.grid(2)
    y[j, i] = x[i, j]


@mistake("transpose", "conflicts in shared memory", "make its rows one longer")
def no_padding(x, y):
    tile = cuda.shared.array((32, 32), float32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
    tile[i, j] = x[row + i, column + j]
    cuda.syncthreads()
    y[column + i, row + j] = tile[j, i]


@mistake("transpose", "lies where it was", "the block's indices")
def tiles_stay(x, y):
    tile = cuda.shared.array((32, 33), float32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
    tile[i, j] = x[row + i, column + j]
    cuda.syncthreads()
    y[row + i, column + j] = tile[j, i]


@mistake("softmax", "y[0, 0] is NaN", "inf / inf", "exp of numbers above 88", "subtract the largest of the row")
def no_maximum(x, y):
    s = cuda.shared.array(64, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    power = math.exp(x[row, k])
    s[k] = power
    cuda.syncthreads()
    total = float32(0)
    for i in range(64):
        total += s[i]
    y[row, k] = power / total


@mistake("softmax", "race", "s[", "Put cuda.syncthreads()")
def sums_over_the_maximum(x, y):
    s = cuda.shared.array(64, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    value = x[row, k]
    s[k] = value
    cuda.syncthreads()
    largest = s[0]
    for i in range(64):
        largest = max(largest, s[i])
    s[k] = math.exp(value - largest)
    cuda.syncthreads()
    total = float32(0)
    for i in range(64):
        total += s[i]
    y[row, k] = s[k] / total


@mistake("softmax", "The values are right", "bytes of x", "2,048 would do", "keep what a thread has read")
def read_again_and_again(x, y):
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    largest = x[row, 0]
    for i in range(64):
        largest = max(largest, x[row, i])
    total = 0.0
    for i in range(64):
        total += math.exp(x[row, i] - largest)
    y[row, k] = math.exp(x[row, k] - largest) / total


@mistake("softmax", "does not add up to 1")
def not_divided(x, y):
    s = cuda.shared.array(64, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    s[k] = x[row, k]
    cuda.syncthreads()
    largest = s[0]
    for i in range(64):
        largest = max(largest, s[i])
    y[row, k] = math.exp(s[k] - largest)


@mistake("fused gate", "the halves are exchanged")
def first_gates(x, y):
    rows, columns = y.shape
    for i in range(cuda.grid(1), rows * columns, cuda.gridsize(1)):
        row, column = i // columns, i % columns
        b, a = x[row, column], x[row, column + columns]
        y[row, column] = a * b / (1 + math.exp(-b))


@mistake("fused gate", "neighbours are paired")
def pairs(x, y):
    rows, columns = y.shape
    for i in range(cuda.grid(1), rows * columns, cuda.gridsize(1)):
        row, column = i // columns, i % columns
        a, b = x[row, 2 * column], x[row, 2 * column + 1]
        y[row, column] = a * b / (1 + math.exp(-b))


@mistake("fused gate", "bytes of x", "6,144 would do", "keep what a thread has read")
def read_twice(x, y):
    rows, columns = y.shape
    for i in range(cuda.grid(1), rows * columns, cuda.gridsize(1)):
        row, column = i // columns, i % columns
        gate = x[row, column + columns] / (1 + math.exp(-x[row, column + columns]))
        y[row, column] = x[row, column] * gate


@mistake("fused gate", "sigmoid(b) alone")
def glu(x, y):
    rows, columns = y.shape
    for i in range(cuda.grid(1), rows * columns, cuda.gridsize(1)):
        row, column = i // columns, i % columns
        y[row, column] = x[row, column] / (1 + math.exp(-x[row, column + columns]))
