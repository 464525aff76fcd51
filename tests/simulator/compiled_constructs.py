"""Kernels that use one construct each; `CASES` gives their launches and NumPy's answers."""

from __future__ import annotations

import math

import numpy as np
from numba import complex64, cuda, float32, float64, int32, int64

TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
POINT = np.dtype([("x", np.float32), ("n", np.int32)])
CASES = {}


def case(block, grid=1, dynamic=0):
    """Register a kernel: the decorated function returns (kernel, arguments, answer of the last argument)."""

    def register(make):
        CASES[make.__name__] = (make, grid, block, dynamic)
        return make

    return register


def integers(*shape):
    return np.random.default_rng(1).integers(1, 100, shape)


def poisoned(like, *shape, dtype=None):
    return np.full(shape or np.shape(like), 77, dtype or np.asarray(like).dtype)


# ---------------------------------------------------------------- device functions in which threads meet


@cuda.jit(device=True)
def block_total(s, k, n):
    if n > 1000:
        return -1.0
    half = n // 2
    while half > 0:
        if k < half:
            s[k] += s[k + half]
        cuda.syncthreads()
        if s[0] > 1e6:
            return -2.0
        cuda.syncthreads()
        half //= 2
    return s[0]


@case(64, 3)
def device_function_that_returns_early():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(64, float64)
        k = cuda.threadIdx.x
        s[k] = x[cuda.grid(1)]
        cuda.syncthreads()
        y[cuda.grid(1)] = block_total(s, k, 64) + block_total(s, k, 2000)

    x = integers(192).astype(np.float64)
    x[64] = 1e7
    sums = x.reshape(3, 64).sum(axis=1)
    sums[1] = -2
    return kernel, (x, poisoned(x)), np.repeat(sums - 1, 64)


@cuda.jit(device=True)
def neighbour(value, k):
    if k >= 32:
        if value < 50:
            return -value
        return 0
    return cuda.shfl_down_sync(0xFFFFFFFF, value, 1)


@case(64)
def device_function_that_some_threads_leave():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        y[k] = 2 * neighbour(x[k], k) + neighbour(k, k)

    x = integers(64)
    k = np.arange(64)

    def one(v):
        low = np.append(v[1:32], v[31])
        return np.concatenate([low, np.where(v[32:] < 50, -v[32:], 0)])

    return kernel, (x, poisoned(x)), 2 * one(x) + one(k)


@cuda.jit(device=True)
def twice(x, by=2, plus=0):
    return x * by + plus


@cuda.jit(device=True)
def nested(x, s):
    cuda.syncthreads()
    s[cuda.threadIdx.x] = twice(x, plus=1)
    cuda.syncthreads()
    return s[cuda.blockDim.x - 1 - cuda.threadIdx.x] + twice(plus=1, x=x, by=3)


@case(32)
def keyword_arguments_and_nested_device_functions():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, int64)
        k = cuda.threadIdx.x
        y[k] = nested(x=x[k], s=s)

    x = integers(32)
    return kernel, (x, poisoned(x)), (2 * x + 1)[::-1] + 3 * x + 1


@cuda.jit(device=True)
def fill(s, value):
    s[cuda.threadIdx.x] = value
    cuda.syncthreads()


@case(32)
def device_function_without_a_result():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, int64)
        fill(s, x[cuda.threadIdx.x])
        y[cuda.threadIdx.x] = s[31 - cuda.threadIdx.x]

    x = integers(32)
    return kernel, (x, poisoned(x)), x[::-1]


# ---------------------------------------------------------------- views


@case(32, 2)
def views_that_differ_between_threads():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        row = x[i]
        total = 0
        for turn in range(3):
            cuda.syncthreads()
            total += row[turn]
            if i % 2:
                row = x[(i + turn) % x.shape[0]]
        y[i] = total

    x = integers(64, 4)
    answer = np.zeros(64, np.int64)
    for i in range(64):
        row = x[i]
        for turn in range(3):
            answer[i] += row[turn]
            if i % 2:
                row = x[(i + turn) % 64]
    return kernel, (x, poisoned(answer)), answer


@case(64)
def arrays_that_are_swapped():
    @cuda.jit
    def kernel(x, y):
        a = cuda.shared.array(64, int64)
        b = cuda.shared.array(64, int64)
        k = cuda.threadIdx.x
        here, there = a, b
        here[k] = x[k]
        cuda.syncthreads()
        distance = 1
        while distance < 64:
            there[k] = here[k] + (here[k - distance] if k >= distance else 0)
            cuda.syncthreads()
            here, there = there, here
            distance *= 2
        y[k] = here[k]

    x = integers(64)
    return kernel, (x, poisoned(x)), np.cumsum(x)


@case(16, 2)
def slices_across_barriers():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        part = x[i : i + 3, 1]
        cuda.syncthreads()
        y[i] = part[0] + 10 * part[1] + 100 * part[part.size - 1]

    x = np.asfortranarray(integers(34, 2))
    c = x[:, 1]
    return kernel, (x, poisoned(c[:32])), c[:32] + 10 * c[1:33] + 100 * c[2:34]


# ---------------------------------------------------------------- exchanges inside of expressions


@case(64)
def shuffles_in_conditions():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        a = cuda.shfl_xor_sync(0xFFFFFFFF, x[k], 1) if k < 32 else -x[k]
        b = 1 if k < 32 and cuda.shfl_down_sync(0xFFFFFFFF, x[k], 1) > 50 else 0
        c = 1 if k >= 32 or cuda.shfl_up_sync(0xFFFFFFFF, x[k], 1) > 50 or x[k] == 3 else 0
        y[k] = 1000 * a + 10 * b + c

    x = integers(64)
    k = np.arange(64)
    low = k < 32
    a = np.where(low, x[k ^ 1], -x)
    down = x[np.where(k % 32 == 31, k, k + 1) % 64]
    up = x[np.where(k % 32 == 0, k, k - 1)]
    b, c = low & (down > 50), ~low | (up > 50) | (x == 3)
    return kernel, (x, poisoned(x)), 1000 * a + 10 * b + c


@case(64, 2)
def votes_in_loop_conditions():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        v = x[i]
        turns = 0
        while turns < 200 and cuda.syncthreads_or(1 if v > 10 else 0):
            v -= 7
            turns += 1
        y[i] = 1000 * turns + v

    x = integers(128)
    turns = np.repeat([math.ceil((block.max() - 10) / 7) for block in x.reshape(2, 64)], 64)
    return kernel, (x, poisoned(x)), 1000 * turns + x - 7 * turns


# ---------------------------------------------------------------- loops and jumps around barriers


@case(64, 2)
def loops_of_different_lengths_with_warp_votes():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        total = 0
        for _ in range(x[i] % 5):
            total += cuda.popc(cuda.ballot_sync(0xFFFFFFFF, 1))
        y[i] = total

    x = integers(128)
    warps = (x % 5).reshape(-1, 32)
    answer = np.array([[(w > j).sum() for j in range(5)] for w in warps])  # threads that are still there
    totals = [[answer[k, :n].sum() for n in w] for k, w in enumerate(warps)]
    return kernel, (x, poisoned(x)), np.ravel(totals)


@case(32, 3)
def uniform_jumps():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, int64)
        k, i = cuda.threadIdx.x, cuda.grid(1)
        total = 0
        for turn in range(10):
            if turn == 2:
                continue
            s[k] = x[i] + turn
            cuda.syncthreads()
            total += s[31 - k]
            cuda.syncthreads()
            if turn == 5 + cuda.blockIdx.x:
                break
        y[i] = total
        if cuda.blockIdx.x == 1:
            return
        cuda.syncthreads()
        y[i] += 1000

    x = integers(96)
    flipped = x.reshape(3, 32)[:, ::-1]
    answer = np.stack([sum(flipped[b] + t for t in range(6 + b) if t != 2) + 1000 * (b != 1) for b in range(3)])
    return kernel, (x, poisoned(x)), answer.ravel()


@case(32, 3)
def whole_blocks_that_return():
    """Uniform loops end though no thread is left that computes their conditions."""

    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, int64)
        k, i = cuda.threadIdx.x, cuda.grid(1)
        if i >= x.size:
            return
        s[k] = x[i]
        cuda.syncthreads()
        half = 16
        while half > 0:
            if k < half:
                s[k] += s[k + half]
            cuda.syncthreads()
            half //= 2
        y[i] = s[0]
        while True:
            cuda.syncthreads()
            half += 1
            if half == 3:
                return

    x = integers(64)
    answer = np.append(np.repeat(x.reshape(2, 32).sum(axis=1), 32), np.full(32, 77))
    return kernel, (x, poisoned(x, 96)), answer


@case(32)
def loops_over_tuples():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, int64)
        k = cuda.threadIdx.x
        s[k] = x[k]
        cuda.syncthreads()
        for half in (16, 8, 4, 2, 1):
            if k < half:
                s[k] += s[k + half]
            cuda.syncthreads()
        y[k] = s[0]

    x = integers(32)
    return kernel, (x, poisoned(x)), np.full(32, x.sum())


@case(32)
def a_loop_variable_that_is_assigned():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        total = 0
        for n in range(4):
            cuda.syncthreads()
            n += x[k]
            cuda.syncthreads()
            total += n
        y[k] = total

    x = integers(32)
    return kernel, (x, poisoned(x)), 4 * x + 6


@case(32)
def returns_in_nested_loops():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        y[k] = -1
        for a in range(10):
            for b in range(10):
                if a * 10 + b == x[k]:
                    y[k] = a
                    return
            if a == 7:
                return
        y[k] = -2

    x = integers(32)
    return kernel, (x, poisoned(x)), np.where(x >= 80, -1, x // 10)


# ---------------------------------------------------------------- the grid


@case((8, 4), (3, 2))
def grids_that_synchronize():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, int64)
        k, grid = cuda.threadIdx.x + 8 * cuda.threadIdx.y, cuda.cg.this_grid()
        block = cuda.blockIdx.x + 3 * cuda.blockIdx.y
        i = 32 * block + k
        mine = x[i]
        s[k] = mine
        cuda.syncthreads()
        count = cuda.syncthreads_count(1 if mine > 50 else 0)
        for _ in range(3):
            y[i] = x[i] + s[31 - k]
            grid.sync()
            x[i] = y[(i + 32) % 192]
            cuda.cg.this_grid().sync()
        y[i] = x[i] + 1000 * count + 100000 * mine

    x = integers(192)
    now, flipped = x.copy(), x.reshape(6, 32)[:, ::-1].ravel()
    for _ in range(3):
        now = np.roll(now + flipped, -32)
    count = np.repeat((x.reshape(6, 32) > 50).sum(axis=1), 32)
    return kernel, (x, poisoned(x)), now + 1000 * count + 100000 * x


@case((4, 2, 2), (2, 3, 2))
def three_dimensions():
    @cuda.jit
    def kernel(y):
        s = cuda.shared.array((2, 2, 4), int64)
        i, j, k = cuda.grid(3)
        s[cuda.threadIdx.z, cuda.threadIdx.y, cuda.threadIdx.x] = i + 10 * j + 100 * k
        cuda.syncthreads()
        a, b, c = cuda.gridsize(3)
        y[k, j, i] = 1000 * (a + b + c) + s[1 - cuda.threadIdx.z, cuda.threadIdx.y, 3 - cuda.threadIdx.x]

    k, j, i = np.indices((4, 6, 8))
    return kernel, (poisoned(k),), 1000 * 18 + i // 4 * 4 + 3 - i % 4 + 10 * j + 100 * (k // 2 * 2 + 1 - k % 2)


# ---------------------------------------------------------------- arrays and types


@case(32)
def constant_arrays():
    @cuda.jit
    def kernel(y):
        table = cuda.const.array_like(TABLE)
        k = cuda.threadIdx.x
        cuda.syncthreads()
        y[k] = table[k % 8] * 10 + table.shape[0]

    return kernel, (poisoned(TABLE, 32),), np.tile(TABLE * 10 + 8, 4)


@case(32, 2, 32 * 8)
def views_of_dynamic_shared_memory():
    @cuda.jit
    def kernel(x, y):
        whole = cuda.shared.array(0, int32)
        pairs = cuda.shared.array(shape=0, dtype=int64)
        second = whole[32:]
        k, i = cuda.threadIdx.x, cuda.grid(1)
        whole[k] = x[i]
        second[k] = -x[i]
        cuda.syncthreads()
        y[i] = whole[31 - k] * 1000 + second[k] + pairs.size

    x = integers(64).astype(np.int32)
    return kernel, (x, poisoned(x)), x.reshape(2, 32)[:, ::-1].ravel() * 1000 - x + 32


@case(32)
def complex_bool_and_tuples_across_barriers():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, complex64)
        k = cuda.threadIdx.x
        z = complex64(x[k]) * 1j
        big = x[k] > 50
        both = (x[k], (k, 2.5), z)
        s[k] = z + 1
        cuda.syncthreads()
        w = s[31 - k]
        y[k] = w.real + w.imag + z.imag + (100 if big else 0) + both[0] * both[1][1] + both[1][0] + both[2].imag

    x = integers(32).astype(np.float32)
    k = np.arange(32)
    return kernel, (x, poisoned(x)), 1 + x[::-1] + 2 * x + 100 * (x > 50) + 2.5 * x + k


@case(32)
def long_tuples_across_barriers():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        few = x[k], x[k] + 1, x[k] + 2, x[k] + 3, x[k] + 4, x[k] + 5, x[k] + 6, x[k] + 7, x[k] + 8, x[k] + 9
        many = few + few + few + few
        cuda.syncthreads()
        x[k] = many[39]
        cuda.syncthreads()
        y[k] = many[0] + 100 * many[31]

    x = integers(32).astype(np.float32)
    return kernel, (x, poisoned(x)), 101 * x + 100


@case(32)
def records_across_barriers():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        point = x[k]
        cuda.syncthreads()
        x[k].n += 1
        cuda.syncthreads()
        y[k] = point.x + point.n

    x = np.zeros(32, POINT)
    x["x"], x["n"] = integers(32), 5
    return kernel, (x, poisoned(0, 32, dtype=np.float32)), x["x"] + 6


@case(32)
def augmented_assignments():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        v = x[k]
        v += 3
        cuda.syncthreads()
        v *= 5
        v -= k
        cuda.syncthreads()
        v //= 2
        v ^= 9
        y[k] = v
        y[k] <<= 1
        y[k] |= 1

    x = integers(32)
    return kernel, (x, poisoned(x)), ((((x + 3) * 5 - np.arange(32)) // 2) ^ 9) * 2 | 1


@case(32)
def chained_and_swapped_names():
    @cuda.jit
    def kernel(x, y):
        k = t = cuda.threadIdx.x
        block, max_, np__ = x[k], x[31 - k], 2
        cuda.syncthreads()
        block, max_ = max_, block
        (first, second), third = (block, max_), t
        y[k] = first * 1000 + second * np__ + third

    x = integers(32)
    return kernel, (x, poisoned(x)), x[::-1] * 1000 + 2 * x + np.arange(32)


@case(64)
def named_expressions():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        total = 0
        if (n := x[k]) > 50 and (m := x[63 - k]) > 20:
            total = n * m
        cuda.syncthreads()
        while (n := n - 10) > 0:
            total += n
            cuda.syncwarp()
        y[k] = total

    x = integers(64)
    tens = [sum(range(v - 10, 0, -10)) for v in x]
    return kernel, (x, poisoned(x)), np.where((x > 50) & (x[::-1] > 20), x * x[::-1], 0) + tens


FACTOR = 7


@cuda.jit(device=True)
def by_factor(s, k):
    cuda.syncthreads()
    return s[31 - k] * FACTOR


@case(32)
def variables_named_like_globals_of_device_functions():
    @cuda.jit
    def kernel(x, y):
        FACTOR = cuda.threadIdx.x
        s = cuda.shared.array(32, int64)
        s[FACTOR] = x[FACTOR]
        y[FACTOR] = by_factor(s, FACTOR)

    x = integers(32)
    return kernel, (x, poisoned(x)), 7 * x[::-1]


@case(64, 2)
def divergent_jumps_around_exchanges():
    """Threads continue, break and return at different times in a loop with shuffles and a nested loop with votes."""

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        total = 0
        for turn in range(8):
            if x[i] % 3 == turn % 3:
                continue
            if x[i] % 8 == turn:
                break
            if x[i] % 13 == 5 and turn == 5:
                y[i] = -total
                return
            j = 0
            while j < x[i] % 4:
                total += cuda.popc(cuda.ballot_sync(0xFFFFFFFF, x[i] % 2))
                j += 1
        y[i] = total

    x = integers(128)
    answer = np.zeros(128, np.int64)
    for lanes in np.arange(128).reshape(-1, 32):  # a warp, in lockstep
        state = dict.fromkeys(lanes, "runs")
        for turn in range(8):
            here = []
            for i in lanes:
                if state[i] != "runs" or x[i] % 3 == turn % 3:
                    continue
                if x[i] % 8 == turn:
                    state[i] = "left"
                elif x[i] % 13 == 5 and turn == 5:
                    state[i], answer[i] = "back", -answer[i]
                else:
                    here.append(i)
            for j in range(3):
                voters = [i for i in here if j < x[i] % 4]
                for i in voters:
                    answer[i] += sum(x[v] % 2 for v in voters)
    return kernel, (x, poisoned(x)), answer


@case(32)
def reads_of_global_arrays_and_constants():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        v = TABLE[k % 8]
        cuda.syncthreads()
        y[k] = v * x[k] + int32(FACTOR) + math.floor(2.5)

    x = integers(32)
    return kernel, (x, poisoned(x)), np.tile(TABLE, 4) * x + 9


def scaled(scale, shape):
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(shape, float32)
        k = cuda.threadIdx.x
        s[k] = x[k]
        cuda.syncthreads()
        y[k] = s[31 - k] * scale

    return kernel


@case(32)
def closures():
    x = integers(32).astype(np.float32)
    return scaled(3, 32), (x, poisoned(x)), 3 * x[::-1]


@case(32)
def closures_with_other_constants():
    x = integers(32).astype(np.float32)
    return scaled(5, 40), (x, poisoned(x)), 5 * x[::-1]


@case(32)
def local_arrays_across_barriers():
    @cuda.jit
    def kernel(x, y):
        mine = cuda.local.array((2, 2), int64)
        k = cuda.threadIdx.x
        mine[0, 0], mine[1, 1] = x[k], x[31 - k]
        cuda.syncthreads()
        mine[1, 1] += 1
        cuda.syncthreads()
        y[k] = mine[0, 0] * 1000 + mine[1, 1]

    x = integers(32)
    return kernel, (x, poisoned(x)), x * 1000 + x[::-1] + 1


@case(64)
def early_return_of_warps():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        if k >= 40:
            return
        y[k] = cuda.ballot_sync(0xFFFFFFFF, 1)

    bits = np.array([-1] * 32 + [0xFF] * 8)  # an int32, as on a GPU
    return kernel, (bits, poisoned(bits, 40)), bits


# ---------------------------------------------------------------- loops over some of the threads, and values of a block


@case(64, 3)
def guards_of_all_kinds():
    @cuda.jit
    def kernel(x, few, y):
        i, k = cuda.grid(1), cuda.threadIdx.x
        if i <= 150:
            y[0, i] = x[i]
        cuda.syncthreads()
        if x.size > i + 5:
            y[1, i] = x[i]
        cuda.syncthreads()
        if k <= 9 and x[i] > 20 and cuda.blockIdx.x == 1:
            y[2, i] = x[i]
        cuda.syncthreads()
        if k < few[0]:  # of memory
            y[3, i] = x[i]
        cuda.syncthreads()
        if i < x.size - 500:  # none
            y[4, i] = x[i]
        cuda.syncthreads()
        if k + cuda.blockIdx.x < 8 - cuda.blockIdx.x * 5:
            y[5, i] = x[i]

    x = integers(192)
    i = np.arange(192)
    k, b = i % 64, i // 64
    tests = (i <= 150, i + 5 < 192, (k <= 9) & (x > 20) & (b == 1), k < 7, i < -308, k + b < 8 - 5 * b)
    answer = np.stack([np.where(test, x, 77) for test in tests])
    return kernel, (x, np.array([7]), poisoned(x, 6, 192)), answer


@case(64)
def a_guard_of_an_unsigned_integer():
    @cuda.jit
    def kernel(n, x, y):
        k = cuda.threadIdx.x
        if k < n:
            y[k] = x[k]
        cuda.syncthreads()
        if k < n - 40:
            y[k] += 1000

    x = integers(64)
    return kernel, (np.uint32(50), x, poisoned(x)), np.where(np.arange(64) < 50, x, 77) + 1000 * (np.arange(64) < 10)


@case((8, 4))
def guards_in_a_block_of_two_axes():
    @cuda.jit
    def kernel(x, y):
        i, j = cuda.threadIdx.y, cuda.threadIdx.x
        total = 0
        if i < x.shape[0] and j < x.shape[1]:
            total = x[i, j]
        cuda.syncthreads()
        for k in range(j, x.shape[1], cuda.blockDim.x):
            total += x[2, k]
        cuda.syncthreads()
        if j < x.shape[1]:
            y[i, j] = total

    x = integers(3, 7)
    padded = np.zeros((4, 8), np.int64)
    padded[:3, :7] = x
    answer = padded + padded[2]
    answer[:, 7] = 77
    return kernel, (x, poisoned(x, 4, 8)), answer


@case(32, 2)
def uniform_values_between_barriers():
    @cuda.jit
    def kernel(x, y):
        s = cuda.shared.array(32, int64)
        k = cuda.threadIdx.x
        step, scale = 1, 0.5
        s[k] = x[cuda.grid(1)]
        cuda.syncthreads()
        while step < 32:
            more = step * 2
            value = s[k ^ step]
            cuda.syncthreads()
            s[k] += value
            scale *= 2
            cuda.syncthreads()
            step = more
        if x.size > 10:
            step += 5
            cuda.syncthreads()
            scale += step
        y[cuda.grid(1)] = s[k] * scale

    x = integers(64)
    return kernel, (x, poisoned(x, dtype=np.float64)), np.repeat(x.reshape(2, 32).sum(1), 32) * (16 + 37.0)


@case(32)
def strided_loops_with_offsets():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        total = 0
        for i in range(2 * k + 3, x.size, 2 * cuda.blockDim.x):
            total += x[i]
        cuda.syncthreads()
        for i in range(31 - k, x.size, cuda.blockDim.x):
            total += 3 * x[i]
        y[k] = total

    x = integers(300)
    answer = [x[2 * k + 3 :: 64].sum() + 3 * x[31 - k :: 32].sum() for k in range(32)]
    return kernel, (x, poisoned(x, 32)), np.array(answer)
