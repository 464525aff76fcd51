"""Kernels that use Python and NumPy as users do: more of `compiled_constructs.CASES`."""

from __future__ import annotations

import math
from collections import namedtuple

import ml_dtypes
import numpy as np
from compiled_constructs import CASES, case, integers, poisoned
from numba import cuda, float32, float64, int8, int32, int64, uint8, uint16
from numba.cuda import float32x4 as four

Pair = namedtuple("Pair", "scale shift")
SCALE, FLAG, SMALL, WIDTH = np.float16(1.5), np.bool_(True), np.int8(-5), np.uint32(7)
PAIRS, NESTED, HALVES = Pair(3, 4.5), ((1, 2), (3, 4)), (np.float16(0.25), 2.0)
BRAIN = ml_dtypes.bfloat16(2.5)
HALF_TABLE = np.arange(8).astype(np.float16) / 4
COMPLEX_TABLE = (np.arange(8) + 2j).astype(np.complex64)
INNER = np.dtype([("a", np.int32), ("v", np.float32, (3,)), ("m", np.float32, (2, 2))], align=True)
OUTER = np.dtype([("p", INNER), ("n", np.int64)], align=True)

# ---------------------------------------------------------------- names and variables


@case(32, 2)
def parameters_that_are_assigned():
    @cuda.jit
    def kernel(x, n, scale, y):
        k, i = cuda.threadIdx.x, cuda.grid(1)
        n += k
        if k % 2:
            scale = -1
            x = x[1:]
        cuda.syncthreads()
        scale *= 2
        y[i] = x[i] * scale + n

    x, k = integers(65), np.arange(64) % 32
    return kernel, (x, 100, 5, poisoned(x[:64])), np.where(k % 2, -2 * x[1:], 10 * x[:64]) + 100 + k


@case(32, 2)
def a_number_in_one_place_and_an_array_in_another():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        value = x[i] + 1
        total = value
        cuda.syncthreads()
        value = x[8:]
        if x.size > 10:
            value = value[1:]
            cuda.syncthreads()
            total += value[i]
        else:
            value = 3
            total += value
        for value in range(2):
            total += value
            cuda.syncthreads()
        while True:
            value = (i, total)
            cuda.syncthreads()
            total = value[0] + value[1]
            value = total > 10
            if x.size:
                break
        x = x[i] if value else -1
        cuda.syncthreads()
        y[i] = total + 1000 * x

    x = integers(80)
    i = np.arange(64)
    total = x[:64] + 1 + x[9:73] + 1 + i
    return kernel, (x, poisoned(x, 64)), total + 1000 * np.where(total > 10, x[:64], -1)


@case(32, 2)
def a_shared_array_whose_name_is_a_number_elsewhere():
    @cuda.jit
    def kernel(x, y):
        tile = cuda.shared.array(32, int64)
        k, i = cuda.threadIdx.x, cuda.grid(1)
        tile[k] = x[i]
        cuda.syncthreads()
        other = tile[31 - k]
        tile = other + 1
        cuda.syncthreads()
        y[i] = tile

    x = integers(64)
    return kernel, (x, poisoned(x)), x.reshape(2, 32)[:, ::-1].ravel() + 1


@case(32, 3)
def two_shared_arrays_that_change_places():
    @cuda.jit
    def kernel(x, y):
        old = cuda.shared.array(32, int64)
        new = cuda.shared.array(32, int64)
        k, i = cuda.threadIdx.x, cuda.grid(1)
        old[k] = x[i]
        cuda.syncthreads()
        step = 1
        while step < 32:
            new[k] = old[k] + (old[k - step] if k >= step else 0)
            cuda.syncthreads()
            old, new = new, old
            step *= 2
        y[i] = old[k]
        old = x  # the next block has its own array
        y[i] += old[0]

    x = integers(96)
    return kernel, (x, poisoned(x)), x.reshape(3, 32).cumsum(1).ravel() + x[0]


@case(4)
def two_local_arrays_of_one_name():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        if x.size > 10:
            mine = cuda.local.array(4, int64)
            mine[1] = x[k]
            y[k] = mine[1]
        else:
            mine = cuda.local.array((2, 2), int64)
            mine[1, 1] = x[k]
            y[k] = mine[1, 1] + 100

    x = integers(4)
    return kernel, (x, poisoned(x)), x + 100


@case(1)
def an_integer_before_a_variable_becomes_a_float():
    @cuda.jit
    def kernel(x, y):
        value = x[0]
        y[0] = value  # float64 has fewer bits
        value = 0.5
        y[1] = 4 * value

    x = np.array([2**62 + 1])
    return kernel, (x, poisoned(x, 2)), np.array([2**62 + 1, 2])


@cuda.jit(device=True)
def emptied(y, i):
    """Write an element that the caller reads before the call."""
    cuda.syncthreads()
    old = y[31 - i]
    cuda.syncthreads()
    y[31 - i] = 0
    cuda.syncthreads()
    return old


@cuda.jit(device=True)
def counted(count):
    return cuda.atomic.add(count, 0, 1)


@case(32)
def operands_are_read_from_left_to_right():
    @cuda.jit
    def kernel(x, more, count, y):
        i = cuda.threadIdx.x
        x[i] += emptied(x, i)
        cuda.syncthreads()
        y[0, i] = x[i]
        x[i] = i + 1
        cuda.syncthreads()
        y[1, i] = x[i] * 100 + emptied(x, i)
        more[i, 2] -= emptied(more[:, 2], i)
        y[2, i] = more[i, 2]
        k = i
        y[3, k + emptied(more[:, 1], i) - more[31 - i, 3] + 2 + i] = (k := 0)  # the value comes first
        k = 5
        y[4, i] = k + (k := 7) * 10 + k * 1000
        if i == 0:
            y[5, 0] = counted(count) + 10 * counted(count) + 100 * counted(count)

    x = integers(32) + 1
    more = np.arange(128).reshape(32, 4) + 1
    i = np.arange(32)
    answer = np.full((6, 32), 77)
    answer[0] = x + x[::-1]
    answer[1] = (i + 1) * 100 + 32 - i
    answer[2] = more[:, 2] - more[::-1, 2]
    answer[3] = 0
    answer[4], answer[5, 0] = 5 + 70 + 7000, 210
    return kernel, (x, more, np.zeros(1, np.int64), poisoned(x, 6, 32)), answer


@case(16)
def a_parameter_that_is_assigned_without_a_barrier():
    @cuda.jit
    def kernel(n, y):
        n += 1
        y[cuda.grid(1)] = n

    return kernel, (123, poisoned(0, 16)), np.full(16, 124)


@cuda.jit(device=True)
def scaled(value, scale, shift):
    if scale is not None and shift is None:
        value *= scale
    elif shift is not None:
        value += shift
    return value * (1 if shift is None else shift) + (20 if scale is None else 10)


@case(8)
def arguments_that_are_none():
    @cuda.jit
    def kernel(x, scale, y):
        k = cuda.threadIdx.x
        value = scaled(x[k], scale, None)
        cuda.syncthreads()
        y[k] = value + scaled(x[k], None, 2)

    x = integers(8)
    return kernel, (x, 3, poisoned(x)), 3 * x + 10 + (x + 2) * 2 + 20


@cuda.jit(device=True)
def innermost(x):
    return x + 1


@cuda.jit(device=True)
def between(x):
    return innermost(x) * 2


@cuda.jit(device=True)
def outermost(x):
    return between(x) + innermost(x)


@case(32)
def device_functions_that_call_one_function():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        y[k] = between(x[k]) + outermost(x[k])

    x = integers(32)
    return kernel, (x, poisoned(x)), 5 * (x + 1)


@cuda.jit(device=True)
def reversed_by_tile(x):
    WIDTH = 32
    tile = cuda.shared.array(WIDTH, int64)
    tile[cuda.threadIdx.x] = x
    cuda.syncthreads()
    return tile[31 - cuda.threadIdx.x]


@case(32)
def shapes_in_variables():
    @cuda.jit
    def kernel(x, y):
        WIDTH = 32
        shape = (WIDTH, 2)
        tile = cuda.shared.array(shape, int64)
        few = 4
        mine = cuda.local.array(few, int64)
        k = cuda.threadIdx.x
        tile[k, 1] = x[k]
        cuda.syncthreads()
        mine[3] = tile[WIDTH - 1 - k, 1]
        y[k] = mine[3] + 1000 * reversed_by_tile(x[k])

    x = integers(32)
    return kernel, (x, poisoned(x)), 1001 * x[::-1]


def tiles(dtype):
    @cuda.jit
    def kernel(x, y):
        tile = cuda.shared.array(32, x.dtype)
        k = cuda.threadIdx.x
        tile[k] = x[k] / 2
        cuda.syncthreads()
        y[k] = tile[31 - k]

    x = integers(32).astype(dtype)
    return kernel, (x, poisoned(0.0, 32)), (x / 2).astype(dtype)[::-1]


@case(32)
def shared_arrays_of_an_arguments_dtype():
    return tiles(np.float32)


@case(32)
def shared_arrays_of_another_dtype():
    return tiles(np.int16)


@case(8)
def constants_of_small_types():
    @cuda.jit
    def kernel(y):
        k = cuda.threadIdx.x
        total = 5 + SMALL
        cuda.syncthreads()
        if FLAG:
            total += PAIRS.scale * PAIRS.shift + NESTED[1][0] + WIDTH
        y[k] = total + COMPLEX_TABLE[k].imag + COMPLEX_TABLE[k].real

    return kernel, (poisoned(0.0, 8),), 13.5 + 3 + 7 + 2 + np.arange(8)


@case(8)
def constants_of_float16_and_bfloat16():
    """numba-cuda 0.30 does not compile them."""

    @cuda.jit
    def kernel(y):
        k = cuda.threadIdx.x
        table = cuda.const.array_like(HALF_TABLE)
        total = float32(SCALE * HALVES[0]) * 8 + HALVES[1]
        cuda.syncthreads()
        y[k] = total + float32(BRAIN) + float32(table[k]) + float32(HALF_TABLE[7 - k])

    return kernel, (poisoned(0.0, 8),), np.full(8, 3 + 2 + 2.5 + 1.75)


@case(32)
def vectors_across_barriers():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        v = four(x[k], 1, 2, 3)
        pair = cuda.float64x2(5.5, x[k])
        w = cuda.int32x4(cuda.int32x2(k, 7), cuda.int32x2(8, 9))
        cuda.syncthreads()
        y[k] = v.x * v.w + pair.y * 10 + pair.x + w.x + w.w

    x = integers(32).astype(np.float32)
    return kernel, (x, poisoned(0.0, 32)), 3 * x + 10 * x.astype(float) + 5.5 + np.arange(32) + 9


@case(32)
def loads_and_stores_that_name_a_cache():
    @cuda.jit
    def kernel(x, table, y):
        k = cuda.threadIdx.x
        cuda.stcg(y, k, cuda.ldca(x, k))
        cuda.stwb(table, (k % 2, k // 2), cuda.ldcs(x, k))
        cuda.syncthreads()
        total = cuda.ldcg(table, (k % 2, k // 2)) * 100 + cuda.ldlu(x, k) * 10
        cuda.stcs(y, k, cuda.ldcv(y, k) + total)
        if k == 0:
            cuda.stwt(table, (0, 0), 1)

    x = integers(32)
    return kernel, (x, poisoned(0, 2, 16), poisoned(x)), 111 * x


@case(4)
def records_with_arrays():
    @cuda.jit
    def kernel(inner, outer, y):
        k = cuda.threadIdx.x
        inner[k].v[1] = 2.5 + k
        inner[k]["m"][1, 0] = 3
        outer[k].p.v[2] = inner[k].a
        cuda.syncthreads()
        outer[k].n = 4
        y[k] = inner[3 - k].v[1] + inner[k].m[1, 0] + outer[k].p.v[2] + outer[k]["n"]

    inner = np.zeros(4, INNER)
    inner["a"] = integers(4)
    return kernel, (inner, np.zeros(4, OUTER), poisoned(0.0, 4)), 5.5 - np.arange(4) + 7 + inner["a"]


# ---------------------------------------------------------------- operators, where a CPU differs from a GPU


@case(25)
def largest_and_smallest():
    @cuda.jit
    def kernel(x, y):
        a, b = x[cuda.threadIdx.x // 5], x[cuda.threadIdx.x % 5]
        up, down, wide = max(a, b), min(a, b), max(a, float64(b))
        code = 0
        if math.isnan(up):
            code = 1000
        elif up == 0:
            code = 10 if math.copysign(1.0, up) > 0 else 20
        if down == 0:
            code += 100 if math.copysign(1.0, down) > 0 else 200
        y[cuda.threadIdx.x] = code + (0 if math.isnan(up) else up + wide)

    x = np.array([np.nan, -2, 3, -0.0, 0.0], np.float32)
    a, b = np.repeat(x, 5), np.tile(x, 5)
    up = np.fmax(a, b).astype(float)
    zero, both = up == 0, np.isnan(a) & np.isnan(b)
    positive = ~np.signbit(np.where(a == 0, a, b)) | ~np.signbit(np.where(b == 0, b, a))
    negative = np.signbit(np.where(a == 0, a, b)) | np.signbit(np.where(b == 0, b, a))
    answer = np.where(zero, np.where(positive, 10, 20), 0)
    answer = answer + np.where(np.fmin(a, b) == 0, np.where(negative, 200, 100), 0)
    return kernel, (x, poisoned(0.0, 25)), np.where(both, 1000, answer + np.where(both, 0, 2 * up))


@case(8)
def largest_of_several_compares_as_python():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        y[k] = max(x[k], 3) * 100 + min(x[k], 5, k) * 10 + max((x[k], k)) + (7 if max(x[8], 1.0, x[k]) != x[8] else 0)

    x = np.append(integers(8) % 9, np.nan)
    k = np.arange(8)
    answer = 100 * np.maximum(x[:8], 3) + 10 * np.minimum(np.minimum(x[:8], 5), k) + np.maximum(x[:8], k)
    return kernel, (x, poisoned(0.0, 8)), answer + 7  # the first of several is NaN, and stays; NaN != NaN


def clamped(x, dtype, missing=0):
    info = np.iinfo(dtype)
    whole = [
        missing if math.isnan(v) else max(info.min, min(info.max, math.trunc(v)))
        for v in np.clip(x, -1e30, 1e30).tolist()
    ]
    return np.array(whole, object)


@case(8)
def floats_beyond_integers():
    @cuda.jit
    def kernel(x, d, y):
        k = cuda.threadIdx.x
        y[0, k] = int32(x[k])
        y[1, k] = uint16(x[k])
        y[2, k] = int(x[k])
        y[3, k] = int32(d[k])
        y[4, k] = int64(d[k])
        y[5, k] = x[k]

    x = np.array([np.nan, np.inf, -np.inf, 1e20, -3e9, 300.7, -5.5, 70000], np.float32)
    d, lowest = x.astype(np.float64), -(2**63)
    wide = [clamped(x, np.int64, lowest)] * 3
    rows = [clamped(x, np.int32), clamped(x, np.uint16), wide[0], clamped(x, np.int32, -(2**31)), wide[1], wide[2]]
    return kernel, (x, d, poisoned(0, 6, 8)), np.array(rows).astype(np.int64)


@case(8)
def floats_beyond_bytes():
    @cuda.jit
    def kernel(x, y):
        k = cuda.threadIdx.x
        y[0, k] = uint8(x[k])
        y[1, k] = int8(x[k])

    x = np.array([np.nan, np.inf, -np.inf, 1e20, -3e9, 300.7, -5.5, 70000], np.float32)
    rows = [clamped(x, np.uint16) & 255, (clamped(x, np.int16) + 128) % 256 - 128]
    return kernel, (x, poisoned(0, 2, 8)), np.array(rows).astype(np.int64)


@case(6)
def shifts_by_any_distance():
    @cuda.jit
    def kernel(x, n, y):
        k = cuda.threadIdx.x
        y[0, k] = x[0] << n[k]
        y[1, k] = x[1] >> n[k]
        y[2, k] = x[0] >> n[k]
        v = x[0]
        v <<= n[k]
        y[3, k] = v
        y[4, k] = 1 << n[k]
        y[5, k] = x[1] >> 3

    n = np.array([0, 3, 31, 33, 63, 64])
    left = np.array([(7 << s) & (2**64 - 1) for s in n.tolist()], np.uint64).astype(np.int64)
    one = np.array([(1 << s) & (2**64 - 1) for s in n.tolist()], np.uint64).astype(np.int64)
    right, minus = np.array([7 >> s for s in n.tolist()]), np.array([-9 >> s for s in n.tolist()])
    answer = np.stack([left, minus, right, left, one, np.full(6, -2)])
    return kernel, (np.array([7, -9]), n, poisoned(0, 6, 6)), answer


@case(6)
def divisions_of_integers():
    @cuda.jit
    def kernel(x, n, y):
        k = cuda.threadIdx.x
        y[0, k] = x[k] // n[k]
        y[1, k] = x[k] % n[k]
        y[2, k] = (k - 3) // 2 * 10 + (k - 3) % 4

    x, n = np.array([7, -7, 7, -7, 7, -(2**63)]), np.array([2, 2, -2, 0, 0, -1])
    rows = [[a // b if b and b != -1 else 0 for a, b in zip(x.tolist(), n.tolist(), strict=True)]]
    rows.append([a % b if b and b != -1 else 0 for a, b in zip(x.tolist(), n.tolist(), strict=True)])
    rows.append([(k - 3) // 2 * 10 + (k - 3) % 4 for k in range(6)])
    return kernel, (x, n, poisoned(0, 3, 6)), np.array(rows)


@case((32, 2), 2)
def bits_of_thread_indices():
    """They are int32 on a GPU."""

    @cuda.jit
    def kernel(y):
        k, row = cuda.threadIdx.x, cuda.threadIdx.y
        i = cuda.grid(1)
        zeros = cuda.clz(k) + cuda.clz(cuda.threadIdx.x) + cuda.clz(cuda.blockDim.x)
        product = (k + 65536) * (k + 65536)  # int64
        y[row, i] = zeros * 1000 + cuda.clz(i) + product.bit_count()

    k, i = np.arange(64) % 32, np.arange(64)

    def zeros(values, width):
        return np.array([width - int(v).bit_length() for v in values])

    ones = np.array([((int(v) + 65536) ** 2).bit_count() for v in k])
    row = 1000 * (2 * zeros(k, 32) + 26) + zeros(i, 64) + ones
    return kernel, (poisoned(0, 2, 64),), np.stack([row, row])


__all__ = ["CASES"]


NOTHING, LARGE = -1, np.float32(np.inf)


@cuda.jit(device=True)
def place_of(x, value, missing=NOTHING):
    for k in range(len(x)):
        if x[k] == value:
            return k
    return missing


@case(32)
def global_numbers_before_other_values():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        best, place = LARGE, NOTHING
        for k in range(i % 5):
            if x[k] * 1.5 < best:
                best = x[k] * 1.5
                place = k
        cuda.syncthreads()
        y[i] = place + 10 * place_of(x[:7], x[i]) + 100 * place_of(x, x[i], x[i])

    x = np.random.default_rng(0).permutation(32)
    answer = [(-1 if i % 5 == 0 else np.argmin(x[: i % 5])) + 10 * (i if i < 7 else -1) + 100 * i for i in range(32)]
    return kernel, (x, np.full(32, -7)), np.array(answer)


@case(64, 2)
def votes_of_a_block_in_a_branch():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        n = 0
        if x.size > 3 and i >= 0:
            n = cuda.syncthreads_count(1 if x[i] > 0 else 0)
        for _ in range(3 + 0 * i):
            n += 100 * cuda.syncthreads_or(1 if x[i] > 2 else 0)
        y[i] = n

    x = np.random.default_rng(0).integers(-5, 6, 128)
    return kernel, (x, np.full(128, -7)), np.repeat((x.reshape(2, 64) > 0).sum(axis=1) + 300, 64)


@case(32)
def compare_and_swap_without_an_index():
    @cuda.jit
    def kernel(x, y):
        if cuda.atomic.compare_and_swap(x, 0, 7) == 0:
            cuda.atomic.add(y, 0, 1)

    return kernel, (np.zeros(1, np.int32), np.zeros(1, np.int32)), np.ones(1)
