"""More kernels for the tracer than `traced_kernels` has: threads differ, and data decide.

As a script, this file prints the counts of all kernels as JSON. Both ways of tracing must count the same.
"""

from __future__ import annotations

import json

import numpy as np
from numba import cuda, float32, float64, int32, int64

PROGRAMS = {}


def program(grid, block, *arrays, dynamic_bytes=0):
    """A kernel's launch: a function that makes each argument."""

    def put(function):
        PROGRAMS[function.__name__] = (function, grid, block, dynamic_bytes, arrays)
        return function

    return put


def numbers(count, dtype="f4"):
    return lambda: np.random.default_rng(count).integers(0, 40, count).astype(dtype)


def zeros(shape, dtype="f4"):
    return lambda: np.zeros(shape, dtype)


@program(2, 64, numbers(128, "i4"), zeros(128, "i4"))
@cuda.jit
def trips_that_differ(x, y):
    """Lanes of one warp leave the loop one after the other."""
    i = cuda.grid(1)
    total = 0
    for k in range(x[i]):
        total += x[(i + 3 * k) % x.size]
        if total > 200:
            break
        if k % 5 == 4:
            continue
        y[i] += 1
    while total > 10:
        total //= 2
        y[(i * 7) % y.size] = total


@program(2, 48, numbers(96, "i4"), zeros(96, "i4"))
@cuda.jit
def branches(x, y):
    i = cuda.grid(1)
    if x[i] % 3 == 0:
        y[i] = x[i] if x[i] > 9 and x[i - 1] < 20 else x[0]
    elif x[i] % 3 == 1:
        for k in range(i % 4):
            y[i] += x[k]
    else:
        return
    y[i] = 2 * y[i]


@program((2, 3), (5, 7), zeros((21, 10)), zeros((10, 21)))
@cuda.jit
def partial_warps(x, y):
    """35 threads: a whole warp, and three."""
    j, i = cuda.grid(2)
    y[j, i] = x[i, j]


@program(2, (4, 4, 4), zeros((4, 4, 8)))
@cuda.jit
def three_axes(x):
    i = cuda.threadIdx.x + 4 * cuda.blockIdx.x
    x[cuda.threadIdx.z, cuda.threadIdx.y, i] += 1


@program(1, 64, numbers(128), zeros(128), numbers(128, "f8"), zeros(128, "f8"))
@cuda.jit
def vectors(x, y, u, v):
    """64 and 128 bits at once, by views of another type."""
    i = cuda.grid(1)
    wide, out = x.view(np.complex64), y.view(np.complex64)
    out[i] = wide[63 - i]
    y.view(np.float64)[i] = x.view(np.float64)[i]
    v.view(np.complex128)[i] = u.view(np.complex128)[i]
    v.view(np.int64)[2 * i] = 1


@program(2, 64, numbers(128, "i4"), zeros(8, "i4"), zeros(8, "f8"), zeros(8, "i8"))
@cuda.jit
def all_atomics(x, y, z, w):
    s = cuda.shared.array(16, int32)
    d = cuda.shared.array(16, float64)
    i = cuda.grid(1)
    k = cuda.threadIdx.x
    if k < 16:
        s[k] = 0
        d[k] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, x[i] % 16, 1)
    cuda.atomic.max(d, (x[i] * 3) % 16, float64(x[i]))
    cuda.syncthreads()
    if k < 8:
        cuda.atomic.max(y, k, s[k])
        cuda.atomic.add(z, k, d[k])
    cuda.atomic.cas(w, i % 8, 0, 5)
    cuda.atomic.exch(y, 7 - i % 8, x[i])
    if y[i % 8] > 3:
        cuda.atomic.sub(y, i % 8, 1)


@program(1, 64, numbers(64), zeros(64))
@cuda.jit
def local_arrays(x, y):
    a = cuda.local.array(4, float32)
    i = cuda.grid(1)
    for k in range(4):
        a[k] = x[(i + k) % 64]
    for k in range(3):
        if a[k] > a[k + 1]:
            a[k], a[k + 1] = a[k + 1], a[k]
    y[i] = a[3]


@program(1, 40, numbers(40), zeros(40))
@cuda.jit
def loops_over_elements(x, y):
    a = cuda.local.array((2, 3), float32)
    row = a[1]
    i = cuda.grid(1)
    row[2] = 0
    for value in x[i // 2 : i]:
        row[2] += value
        if value > 30:
            break
    y[i] = a[1, 2]


@program(1, 32, numbers(32, "f2"), zeros(32, "f2"))
@cuda.jit
def half_precision(x, y):
    s = cuda.shared.array(32, np.float16)
    i = cuda.grid(1)
    s[i] = x[i]
    cuda.syncthreads()
    y[i] = s[31 - i]


@program(2, (8, 8), numbers(256), zeros(256))
@cuda.jit
def padded_tiles(x, y):
    tile = cuda.shared.array((8, 9), float32)
    plain = cuda.shared.array((8, 8), float64)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    for k in range(2):
        tile[i, j] = x[128 * cuda.blockIdx.x + 64 * k + 8 * i + j]
        plain[i, j] = tile[i, j]
        cuda.syncthreads()
        y[128 * cuda.blockIdx.x + 64 * k + 8 * i + j] = tile[j, i] + plain[j, i]
        cuda.syncthreads()


@program(3, 64, numbers(1000), zeros(3))
@cuda.jit
def grid_stride(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    s[k] = total
    cuda.syncthreads()
    half = 32
    while half > 0:
        if k < half:
            s[k] += s[k + half]
        cuda.syncthreads()
        half //= 2
    if k == 0:
        y[cuda.blockIdx.x] = s[0]


@program(2, 64, numbers(128, "i4"), zeros(128, "i4"))
@cuda.jit
def condition_in_memory(x, y):
    """Data that a block wrote to shared memory decide what it does."""
    s = cuda.shared.array(2, int32)
    i, k = cuda.grid(1), cuda.threadIdx.x
    if k == 0:
        s[0] = 4
    cuda.syncthreads()
    while s[0] > 0:
        y[i] += x[(i + s[0]) % 128]
        cuda.syncthreads()
        if k == 5:
            s[0] -= 1
        cuda.syncthreads()
    for k in range(s[0], 2):
        y[i] += k
        cuda.syncthreads()


@program(1, 64, numbers(64), zeros(64))
@cuda.jit
def warps_apart(x, y):
    """Barriers of one warp, of none, and of each in turn."""
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    for step in range(1, 4):
        cuda.syncwarp()
        value = s[i ^ step]
        if i // 32 == step % 2:
            cuda.syncwarp()
            s[i] = value
    y[i] = s[63 - i]


@program(1, 96, numbers(96), zeros(96))
@cuda.jit
def shuffles_among_accesses(x, y):
    i = cuda.grid(1)
    value = x[i]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, x[i] + value, step)
        y[i] = value
    if cuda.ballot_sync(0xFFFFFFFF, y[i] > 2) != 0:
        y[i] += x[95 - i]


@cuda.jit(device=True)
def largest_of(values, k, count):
    best = values[k]
    for n in range(k, count):
        if values[n] > best:
            best = values[n]
    return best


@cuda.jit(device=True)
def block_sum(value, k):
    parts = cuda.shared.array(32, float32)
    parts[k] = value
    cuda.syncthreads()
    total = float32(0)
    for n in range(32):
        total += parts[n]
    cuda.syncthreads()
    return total


@program(2, 32, numbers(64), zeros(64))
@cuda.jit
def device_functions(x, y):
    i = cuda.grid(1)
    y[i] = largest_of(x, i, 64) - largest_of(y, i // 2, 3)
    total = block_sum(x[i], cuda.threadIdx.x) + block_sum(y[i], cuda.threadIdx.x)
    y[i] += total


@program(1, 32, lambda: (numbers(32)(), numbers(32, "i8")(), 3), zeros(32))
@cuda.jit
def tuples_of_arrays(both, y):
    i = cuda.grid(1)
    y[i] = both[0][i] + both[1][31 - i] * both[2]
    both[0][i] = 1


@program(1, 64, zeros(64), zeros(64), numbers(2, "i4"))
@cuda.jit
def buffers_in_turn(x, y, z):
    """A variable is one array, and then the other."""
    i = cuda.grid(1)
    source, target = x, y
    for _ in range(z[0] % 2 + 2):
        target[i] = source[63 - i] + 1
        cuda.syncthreads()
        source, target = target, source


PACKED = np.dtype([("a", "u1"), ("b", "f8"), ("c", "f4", (3,)), ("d", "c8")])


@program(1, 40, zeros(40, PACKED), zeros(40, PACKED))
@cuda.jit
def packed_records(x, y):
    i = cuda.grid(1)
    y[i].b = x[i].b + x[i].a + x[i].c[i % 3]
    y[i].c[i % 2] = 5
    y[i]["d"] = x[i]["d"]
    x[i] = y[39 - i]


@program(4, 32, numbers(32, "f8"), zeros(16, "f8"), zeros(1))
@cuda.jit
def races_of_all_kinds(x, y, z):
    s = cuda.shared.array(16, float64)
    k = cuda.threadIdx.x
    s[k // 2] = x[k]
    if k % 2 == 0:
        s[k // 2] += 1
    cuda.syncthreads()
    y[k % 16] = s[k // 2]
    cuda.atomic.add(z, 0, 1)
    if k == 31:
        z[0] = 4


@program(1, 32, zeros((8, 12)), zeros((12, 8)))
@cuda.jit
def views_and_slices(x, y):
    i = cuda.grid(1)
    if i < 8:
        row = x[i, 2:11:3]
        column = y.T[i]
        for k in range(row.size):
            column[k] = row[k]
        y[3:6, i] = x[i, 6:9]
        x.T[i] = 7
        y[i, 0] = x.reshape(96)[i] + x.ravel()[3 * i]
        x[i][i] += y[i][1]


@program(1, 32, lambda: np.asfortranarray(np.ones((32, 3), "i2")), zeros((32, 3), "i2"))
@cuda.jit
def columns_first(x, y):
    i = cuda.grid(1)
    for k in range(3):
        y[i, k] = x[i, k]


@program(2, 64, numbers(64), zeros(128), dynamic_bytes=64 * 12)
@cuda.jit
def dynamic_memory(x, y):
    whole = cuda.shared.array(0, float32)
    words = whole[:64]
    more = whole[64:192]
    k = cuda.threadIdx.x
    words[k] = x[k]
    more[2 * k] = k
    more[2 * k + 1] = -k
    cuda.syncthreads()
    y[cuda.grid(1)] = words[63 - k] + more[k]


@program(2, 64, numbers(128, "i8"), zeros(128, "i8"))
@cuda.jit
def many_places(x, y):
    """More than 64 places: one for each call of a device function."""
    i = cuda.grid(1)
    for k in (0, 1):
        y[i] = step(x, y, step(x, y, step(x, y, step(x, y, i + k))))
        cuda.syncthreads()
        y[i] += step(x, y, step(x, y, step(x, y, step(x, y, i + k))))


@cuda.jit(device=True)
def step(x, y, i):
    n = int64(x.size)
    return (x[i % n] + x[(i + 1) % n] + x[(i + 2) % n] + x[(2 * i) % n] + y[i % n] * 0 + x[(3 * i) % n] + i) % n


def counted(function, grid, block, dynamic_bytes, arrays):
    """Return the counts of a trace: the rows of its table, the rows of each line, and the races."""
    import numbacc

    arguments = [make() for make in arrays]
    with numbacc.trace() as t:
        function[grid, block, 0, dynamic_bytes](*arguments)
    rows = [sorted([*row] for row in t.table(by_line=by_line).rows) for by_line in (False, True)]
    races = sorted([each.array, [*map(int, each.element)], each.blocks[0] * (each.array == "s")] for each in t.races)
    results = [each.tobytes().hex() for each in arguments if isinstance(each, np.ndarray)]
    return {"rows": rows, "races": races, "results": results}


if __name__ == "__main__":
    print(json.dumps({name: counted(*each) for name, each in PROGRAMS.items()}))
