"""The checked mode of the compiled simulator: mistakes that it finds, and right kernels in which it finds none."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from compiled_launch import three
from numba import cuda, float32, from_dtype, int32

from numbacc.errors import KernelError
from numbacc.simulator.compiled import stamps
from numbacc.simulator.compiled.kernel import Kernel

N = 64


@cuda.jit
def out_of_bounds(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + 1  # here


@cuda.jit
def out_of_bounds_2d(x, y):
    i = cuda.grid(1)
    local = cuda.local.array((2, 2), float32)
    local[0, i // 32 + 1] = x[i]  # here
    y[i] = local[0, 1]


@cuda.jit
def race(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = x[k]
    y[k] = s[63 - k]  # here


@cuda.jit
def race_after_reading(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = x[k]
    cuda.syncthreads()
    value = s[(k + 1) % 64]
    s[k] = value  # here


@cuda.jit
def race_of_writers(x, y):
    y[cuda.threadIdx.x // 2] = x[cuda.threadIdx.x]  # here


@cuda.jit
def race_between_blocks(x, y):
    y[cuda.threadIdx.x] += x[cuda.grid(1)]  # here


@cuda.jit
def race_with_an_atomic(x, y):
    k = cuda.threadIdx.x
    cuda.atomic.add(y, 0, x[k])
    if k == 40:
        y[0] = x[k]  # here


@cuda.jit(device=True)
def reversed_of(s, k):
    return s[63 - k]  # here


@cuda.jit
def race_in_a_device_function(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = x[k]
    y[k] = reversed_of(s, k)


@cuda.jit
def race_through_a_view(x, y):
    k = cuda.threadIdx.x
    half = y[1:]
    y[k] = x[k]
    half[k] = x[k]  # here


@cuda.jit
def warps_in_step(x, y):
    """A reduction by two warps whose last steps miss a barrier between them."""
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = x[k]
    cuda.syncthreads()
    half = 32
    while half:
        if k < half:
            s[k] += s[k + half]
        cuda.syncwarp()
        half //= 2
    y[k] = s[0]  # here


@cuda.jit
def divergent(x, y):
    k = cuda.threadIdx.x
    if k < 40:
        y[k] = x[k]
        cuda.syncthreads()  # here


@cuda.jit
def divergent_loop(x, y):
    k = cuda.threadIdx.x
    for _ in range(k, 100, 64):
        y[k] += x[k]
        cuda.syncthreads()  # here


@cuda.jit
def unwritten(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    if k != 5:
        s[k] = x[k]
    cuda.syncthreads()
    y[k] = s[63 - k]  # here


@cuda.jit
def unwritten_counter(x, y):
    s = cuda.shared.array(1, float32)
    cuda.atomic.add(s, 0, x[cuda.threadIdx.x])  # here
    cuda.syncthreads()
    y[cuda.threadIdx.x] = s[0]


@cuda.jit
def plain_then_atomic(x, y):
    k = cuda.threadIdx.x
    if k == 0:
        y[0] = 1
    cuda.atomic.add(y, 0, x[k])  # here


@cuda.jit
def between_barriers_of_the_grid(x, y):
    i, last = cuda.grid(1), cuda.gridsize(1) - 1
    cuda.cg.this_grid().sync()
    x[i] = i
    cuda.syncthreads()
    y[0] = x[last - i] if i == 0 else 0  # here
    cuda.cg.this_grid().sync()


@cuda.jit
def after_a_barrier_of_the_grid(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = x[cuda.grid(1)]
    cuda.cg.this_grid().sync()
    value = s[63 - k]
    s[k] = value  # here


@cuda.jit
def unwritten_in_a_grid_that_synchronizes(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    if k != 5 or cuda.blockIdx.x == 0:
        s[k] = x[cuda.grid(1)]
    cuda.cg.this_grid().sync()
    x[cuda.grid(1)] = s[63 - k]  # here


MISTAKES = {
    out_of_bounds: (2, r"index 100 is out of bounds of axis 0 of y, in thread \(36, 0, 0\) of block \(1, 0, 0\)"),
    out_of_bounds_2d: (1, r"index \(0, 2\) is out of bounds of axis 1 of \w+, in thread \(32, 0, 0\)"),
    race: (1, r"a race on element 32 of s: thread \(32, 0, 0\) .* thread \(31, 0, 0\) reads it in line \d+; there"),
    race_after_reading: (1, r"a race on element 1 of s: thread \(1, 0, 0\) .* writes it, and thread \(0, 0, 0\) reads"),
    race_of_writers: (1, r"a race on element 0 of y: thread \(1, 0, 0\) .* writes it, and thread \(0, 0, 0\) writes"),
    race_between_blocks: (2, r"a race on element 0 of y: .*thread \(0, 0, 0\) of block \(0, 0, 0\) writes it in line"),
    race_with_an_atomic: (1, r"a race on element 0 of y: thread \(41, 0, 0\) .* changes it, and .*40, 0, 0\) writes"),
    race_in_a_device_function: (1, r"a race on element \d+ of s"),
    race_through_a_view: (1, r"a race on element \d+ of \w+: thread"),
    warps_in_step: (1, r"a race on element 0 of s"),
    divergent: (1, r"only 40 of 64 threads of block \(0, 0, 0\) reach this barrier: the branch or loop in line \d+"),
    divergent_loop: (1, r"only 36 of 64 threads of block \(0, 0, 0\) reach this barrier"),
    unwritten: (1, r"s, shared memory, is read at element 5 before it is written, in thread \(58, 0, 0\)"),
    unwritten_counter: (1, r"s, shared memory, is read at element 0 before it is written"),
    plain_then_atomic: (1, r"a race on element 0 of y: thread \(1, 0, 0\) .* changes it, and .*0, 0, 0\) writes it"),
    between_barriers_of_the_grid: (
        2, r"element 127 of x: thread \(0, 0, 0\) of block \(0, 0, 0\) reads it, and .* of block \(1, 0, 0\) writes",
    ),
    after_a_barrier_of_the_grid: (1, r"a race on element \d+ of s: thread .* there is no barrier between them"),
    unwritten_in_a_grid_that_synchronizes: (2, r"s, shared memory, is read at element 5 .* of block \(1, 0, 0\)"),
}  # fmt: skip


@pytest.mark.parametrize("kernel", MISTAKES, ids=lambda k: k.py_func.__name__)
@pytest.mark.sampled(7)
def test_a_mistake_is_found(kernel):
    grid, message = MISTAKES[kernel]
    x, y = np.ones(128, np.float32), np.zeros(100, np.float32)
    with pytest.raises(KernelError, match=message) as raised:
        Kernel(kernel, checked=True).launch(three(grid), three(N), 0, (x, y))
    found = raised.value
    assert f"test_compiled_checks.py:{found.line}: " in str(found)
    with open(__file__) as file:
        lines = file.read().splitlines()
    either = (race, after_a_barrier_of_the_grid, race_with_an_atomic, race_after_reading, warps_in_step)
    if kernel not in (*either, race_in_a_device_function, race_through_a_view):
        assert lines[found.line - 1].endswith("# here")


@cuda.jit
def double_buffer(x, y):
    s = cuda.shared.array((2, 64), float32)
    k = cuda.threadIdx.x
    s[0, k] = x[cuda.grid(1)]
    now = 0
    distance = 1
    while distance < 64:
        cuda.syncthreads()
        value = s[now, k]
        if k >= distance:
            value += s[now, k - distance]
        s[1 - now, k] = value
        now = 1 - now
        distance *= 2
    y[cuda.grid(1)] = s[now, k]


@cuda.jit
def warp_scan(x, y):
    """Each warp works on its own part of shared memory, with `syncwarp` only."""
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    lane = k % 32
    s[k] = x[cuda.grid(1)]
    cuda.syncwarp()
    distance = 1
    while distance < 32:
        value = s[k - distance] if lane >= distance else float32(0)
        cuda.syncwarp()
        s[k] += value
        cuda.syncwarp()
        distance *= 2
    y[cuda.grid(1)] = s[k]


@cuda.jit
def histogram_and_flag(x, y):
    """The block that counts last adds all parts, which other blocks wrote before their atomic operation."""
    parts = y[4:]
    last = cuda.shared.array(1, int32)
    s = cuda.shared.array(4, int32)
    k = cuda.threadIdx.x
    if k < 4:
        s[k] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, int(x[cuda.grid(1)]) % 4, 1)
    cuda.syncthreads()
    if k < 4:
        parts[1 + 4 * cuda.blockIdx.x + k] = s[k]
    cuda.threadfence()
    cuda.syncthreads()
    if k == 0:
        last[0] = cuda.atomic.add(y, 4, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and k < 4:
        total = float32(0)
        for b in range(cuda.gridDim.x):
            total += parts[1 + 4 * b + k]
        y[k] = total


@cuda.jit
def atomics_then_a_flag(x, y):
    i = cuda.grid(1)
    cuda.atomic.max(y, 0, x[i])
    cuda.syncthreads()
    if y[0] >= x[i]:
        y[i + 1] = x[i]


@cuda.jit(device=True)
def swap(a, i, j):
    kept = a[i]
    a[i] = a[j]
    a[j] = kept


@cuda.jit
def views_and_functions(x, y):
    k = cuda.threadIdx.x
    row = y[2 * cuda.grid(1) : 2 * cuda.grid(1) + 2]
    row[0] = x[cuda.grid(1)]
    row[1] = -x[cuda.grid(1)]
    swap(row, 0, 1)
    cuda.syncthreads()
    if k < 32:
        swap(y[128 * cuda.blockIdx.x : 128 * cuda.blockIdx.x + 128], 2 * k, 2 * k + 1)


@cuda.jit
def in_place(x, y):
    i = cuda.grid(1)
    if i > 0 and i < x.size - 1:
        y[i - 1] = x[i] - x[i - 1]
    if i % 2 == 0:
        x[i] = x[i] * 2 if i == cuda.grid(1) - 200 else x[i]


@cuda.jit
def exchanges_of_blocks(x, y):
    """Blocks read what other blocks wrote, and count, in the phases of a grid that synchronizes."""
    s = cuda.shared.array(64, float32)
    grid = cuda.cg.this_grid()
    i, k, last = cuda.grid(1), cuda.threadIdx.x, cuda.gridsize(1) - 1
    s[k] = 1
    for step in range(3):
        x[i] = i + step
        grid.sync()
        y[i] = x[last - i] + s[63 - k]
        cuda.atomic.add(y, last + 1 + step, 1)
        grid.sync()
        s[k] = y[last + 1 + step]
        cuda.syncthreads()
    y[i] += s[63 - k]


def _inputs(n):
    return np.arange(1, 4 * N + 1, dtype=np.float32), np.full(n, np.nan, np.float32)


def test_no_false_alarm_double_buffer():
    x, y = _inputs(4 * N)
    Kernel(double_buffer, checked=True).launch((4, 1, 1), (N, 1, 1), 0, (x, y))
    np.testing.assert_allclose(y, np.cumsum(x.reshape(4, N), axis=1).ravel())


def test_no_false_alarm_warps():
    x, y = _inputs(4 * N)
    Kernel(warp_scan, checked=True).launch((4, 1, 1), (N, 1, 1), 0, (x, y))
    np.testing.assert_allclose(y, np.cumsum(x.reshape(8, 32), axis=1).ravel())


@pytest.mark.parametrize("bits", [18, 38], ids=["numbers of blocks", "more barriers than numbers"])
def test_no_false_alarm_grid(bits, monkeypatch):
    monkeypatch.setattr(stamps, "_COOPERATIVE_BITS", bits)
    x, y = _inputs(4 * N + 3)
    y[4 * N :] = 0
    Kernel(exchanges_of_blocks, checked=True).launch((4, 1, 1), (N, 1, 1), 0, (x, y))
    np.testing.assert_array_equal(y[4 * N :], 4 * N)
    np.testing.assert_array_equal(y[: 4 * N], np.arange(4 * N)[::-1] + 2 + 2 * 4 * N)


@pytest.mark.parametrize("blocks", [4, 512])
def test_no_false_alarm_last_block(blocks):
    x = np.arange(blocks * N, dtype=np.float32)
    y = np.zeros(5 + 4 * blocks, np.float32)
    Kernel(histogram_and_flag, checked=True).launch((blocks, 1, 1), (N, 1, 1), 0, (x, y))
    np.testing.assert_array_equal(y[:4], np.bincount(x.astype(int) % 4))


def test_no_false_alarm_flag_of_another_block():
    x, y = _inputs(4 * N + 1)
    y[0] = 0
    Kernel(atomics_then_a_flag, checked=True).launch((4, 1, 1), (N, 1, 1), 0, (x, y))
    np.testing.assert_array_equal(y[1:], x)


def test_no_false_alarm_views():
    x, y = _inputs(8 * N)
    Kernel(views_and_functions, checked=True).launch((4, 1, 1), (N, 1, 1), 0, (x, y))
    answer = np.stack([-x, x], axis=1).reshape(4, N, 2)
    answer[:, :32] = answer[:, :32, ::-1]
    np.testing.assert_array_equal(y, answer.ravel())


def test_neighbours_that_are_written_are_a_race():
    x, y = _inputs(4 * N)
    with pytest.raises(KernelError, match=r"a race on element .* of x") as raised:
        Kernel(in_place, checked=True).launch((4, 1, 1), (N, 1, 1), 0, (x, y))
    assert re.search(r"in line \d+", str(raised.value))


def test_blocks_in_parallel_find_a_race():
    x, y = np.ones(1 << 16, np.float32), np.zeros(1 << 16, np.float32)
    with pytest.raises(KernelError, match="a race on element"):
        Kernel(race_between_blocks, checked=True).launch((1024, 1, 1), (N, 1, 1), 0, (x, y), workers=2)


def test_an_empty_array():
    with pytest.raises(KernelError, match="index 0 is out of bounds of axis 0 of y"):
        x, y = np.ones(64, np.float32), np.zeros(0, np.float32)
        Kernel(out_of_bounds, checked=True).launch((1, 1, 1), (N, 1, 1), 0, (x, y))


RECORD = np.dtype([("x", np.float32), ("v", np.float32, (3,))], align=True)
#: Accesses to arrays that are expressions: (statement, message). `y` has 8 rows of 20, and a block has 32 threads.
HIDDEN = [
    ("flat[140:][k] = 1", r"index 20 is out of bounds of axis 0 of flat\[140:\]"),
    ("cuda.atomic.add(flat[140:], k, 1)", r"index 20 .* of flat\[140:\]"),
    ("y.T[k, 0] = 1", r"index \(20, 0\) is out of bounds of axis 0 of y\.T"),
    ("y.flat[5 * k + 10] = 1", "index 160 "),
    ("y.reshape(160)[5 * k + 10] = 1", "index 160 "),
    ("pair[1][k * 6] = 1", r"index 162 .* of pair\[1\]"),
    ("records[k].v[k] = 1", r"index 3 .* of records\[k\]\.v"),
    ("records['x'][k + 1] = 1", r"index 32 .* of records\['x'\]"),
    ("y[k, ...][0] = 1", r"index 8 is out of bounds of axis 0 of y"),
    ("y[1:3, k][0] = 1", r"index \(0, 20\) is out of bounds of axis 1 of y"),
    ("column = y[:, k]; cuda.syncthreads(); flat[k] = column[3]", r"index \(0, 20\) is out of bounds of axis 1 of y"),
    ("y.reshape(20, 8).T[k // 4, k % 4 // 2] = k", r"a race on element \(0, 0\) of y\.reshape\(20, 8\)\.T"),
    ("flat[k] = 2; cuda.atomic.add(flat[1:], k, 1)", "a race on element 1 of flat"),
    ("flat[k : k + 2] = 1", r"a race on element 0 of flat\[k:k \+ 2\]: thread \(1, 0, 0\)"),
    ("y[k // 8, 2:5] += k", r"a race on element 0 of y\[k // 8, 2:5\]"),
    (
        "flat[k] = 2; pair[1][2 * k : 2 * k + 2] = flat[k : k + 2]",
        r"a race on element 1 of flat: thread .* reads it",
    ),
    ("pair[1][k] = pair[1][k + 1]", r"a race on element 1 of pair\[1\]: thread \(1, 0, 0\) .*0, 0, 0\) reads it in l"),
    ("a, b = pair; b[k] = b[k + 1]", "a race on element 1 of b: thread"),
    ("for a in pair: a[k % 4] = k", r"a race on element 0 of a: thread \(4, 0, 0\)"),
    ("both = flat, pair[1]; both[0][k] = both[0][k + 1]", r"a race on element 1 of both\[0\]"),
    ("a, b = flat, pair[1]; a, b = b, a; b[k] = b[k + 1]", "a race on element 1 of b"),
    ("cuda.atomic.add(pair[1], k, 1); pair[1][k + 1] = 1", r"a race on element 1 of pair\[1\]: .* changes it"),
    ("flat.view(int32)[2 * k] = flat[k + 1]", "a race on element 2 of flat.view"),
    (
        "records[k].x = records[k - 1].x",
        r"a race on records\[k - 1\]\.x: thread \(1, 0, 0\) .*0, 0, 0\) writes it in l",
    ),
    ("records[k - 1]['x'] = records[k].x", r"a race on records\[k - 1\]\['x'\]: thread"),
    ("records['x'][k] = records[k - 1]['x']", r"a race on records\[k - 1\]\['x'\]"),
    ("records[k].x = records['x'][k - 1]", r"a race on element 0 of records\['x'\]"),
    ("records[0].x += k", r"a race on records\[0\]\.x: thread \(1, 0, 0\) .* changes it"),
    ("records[k].v[1] = records[k - 1].v[1]", r"a race on element 1 of records\[k - 1\]\.v"),
    ("one = records[k - 1]; records[k].x = one.x", r"a race on one\.x"),
    ("records[k] = records[k - 1]", r"a race on records\[k - 1\]: thread"),
    ("records[k].x = 1; records[k - 1] = records[k]", r"a race on .* of records"),
    ("s = cuda.shared.array(32, of_records); s[k].x = k; flat[k] = s[31 - k].x", r"a race on s\[k\]\.x"),
    ("s = cuda.shared.array(32, of_records); s[k].x = k; flat[k] = s[k].v[0]", r"s\[k\]\.v, shared memory, is read at"),
]


@pytest.mark.parametrize(("statement", "message"), HIDDEN)
@pytest.mark.sampled(4)
def test_arrays_that_are_expressions(statement, message, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(
        "from numba import cuda, int32\n\ndef kernel(y, flat, pair, records):\n    k = cuda.threadIdx.x\n    "
        + statement
        + "\n"
    )
    space = {"of_records": from_dtype(RECORD)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    arguments = np.zeros((8, 20)), np.zeros(160), (np.zeros(4), np.zeros(160)), np.zeros(32, RECORD)
    with pytest.raises(KernelError, match=message) as raised:
        Kernel(space["kernel"], checked=True).launch(three(1), three(32), 0, arguments)
    assert raised.value.line == 5


OF_RECORDS = from_dtype(RECORD)


@cuda.jit
def followed_by_address(pair, records, src, dst):
    """Threads touch different bytes of records and of arrays in tuples, or a barrier lies between."""
    s = cuda.shared.array(64, OF_RECORDS)
    one, two = cuda.shared.array(64, float32), cuda.shared.array(64, float32)
    k, i = cuda.threadIdx.x, cuda.grid(1)
    grid = cuda.cg.this_grid()
    records[i].x = records[i].v[0]
    records[(i + 1) % 128].v[1] = records[(i + 2) % 128].v[2]
    s[k].x = records[i].x
    first, second = one, two
    first[k] = i
    cuda.syncthreads()
    for _ in range(3):
        second[k] = first[(k + 1) % 64]
        first, second = second, first
        cuda.syncthreads()
    pair[0][i] = s[63 - k].x + first[k]
    pair[1][127 - i] = i
    grid.sync()
    s[k] = records[127 - i]
    s[k].v[2] = pair[0][127 - i] + pair[1][i]
    records[127 - i] = s[k]
    for _ in range(3):
        dst[i] = src[(i + 1) % 128]
        src, dst = dst, src
        grid.sync()


def test_no_false_alarm_by_address():
    made, pair = np.zeros(128, RECORD), (np.zeros(128), np.zeros(256)[::2])
    made["x"], made["v"][:, 0] = 7, np.arange(128)
    src, dst = np.arange(128.0), np.zeros(128)
    Kernel(followed_by_address, checked=True).launch((2, 1, 1), (64, 1, 1), 0, (pair, made, src, dst))
    k = np.arange(128)
    shifted = k // 64 * 64 + (k + 3) % 64
    np.testing.assert_array_equal(pair[0], k // 64 * 64 + 63 - k % 64 + shifted)
    np.testing.assert_array_equal(made["v"][:, 2], pair[0] + k)
    np.testing.assert_array_equal(dst, (k + 3) % 128)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", ["C", "strided"])
def test_races_of_two_blocks_by_address(order):
    """Blocks run in pieces of a launch, but one allocation has the same stamps in all of them."""

    def kernel(pair, records):
        i = cuda.grid(1)
        records[i % 4096].x = pair[0][i]

    x = np.zeros(16384)[:: 1 if order == "C" else 2]
    with pytest.raises(KernelError, match=r"a race on records\[i % 4096\]\.x: .* of block \(64, 0, 0\) writes it, and"):
        Kernel(kernel, checked=True).launch((x.size // 64, 1, 1), (64, 1, 1), 0, ((x, x), np.zeros(4096, RECORD)))


@cuda.jit
def over_elements(which, x, y):
    """Each value of `which` but the last, 9, is a race."""
    s = cuda.shared.array(64, float32)
    i, k = cuda.grid(1), cuda.threadIdx.x
    items = y.flat
    total = float32(0)
    if which == 0:
        y.flat[i // 2] = i
    if which == 1:
        items[i // 2] = i
    if which == 2:
        y[i, 0] = i
        total += y.T[1, i] + y.flat[2 * ((i + 1) % 128)]
    if which == 3:
        x[i] = i
        for v in x:
            total += v
    if which == 4:
        s[k] = i
        for n, v in enumerate(s[1:], 3):
            total += n * v
    if which == 5:
        x[i] = i
        for n, (v, w) in enumerate(zip(x, y[:, 0])):  # noqa: B905
            total += n * v + w
    if which == 6:
        y[i, 1] = 1
        for v in items:
            total += v
    if which == 7:
        for v in x[:3]:
            total += v
            x[i] = total
            cuda.syncthreads()
    if which == 8:
        x[i] = i
        for (n,), v in np.ndenumerate(x):
            total += n * v
    if which == 9:  # no race
        items[2 * i] = i
        s[k] = k
        cuda.syncthreads()
        for n, v in enumerate(s, 1):
            total += n * v
        for row in y[i : i + 1]:
            for v in row:
                total += v
        for (a, _), v in zip(y[i : i + 1], x):  # noqa: B905
            total += 1000 * a + v
        for v in x[1:4]:
            total += v
            cuda.syncthreads()
        y.flat[2 * i + 1] = total


def test_elements_of_flat_and_of_loops():
    kernel = Kernel(over_elements, checked=True)
    text, first = inspect.getsourcelines(over_elements.py_func)
    for which in range(9):
        x, y = np.zeros(128, np.float32), np.zeros((128, 2), np.float32)
        with pytest.raises(KernelError, match=r"a race on element|s, shared memory, is read at element") as raised:
            kernel.launch(three(2 if which in (2, 3) else 1), three(N), 0, (which, x, y))
        before = "".join(text[: raised.value.line - first])
        assert before.rindex("    if which ==") == before.rindex(f"    if which == {which}:")
    x, y = np.arange(128, dtype=np.float32), np.zeros((128, 2), np.float32)
    kernel.launch(three(2), three(N), 0, (9, x, y))
    k = np.arange(N)
    np.testing.assert_array_equal(y[:, 0], np.arange(128))
    np.testing.assert_array_equal(y[:, 1], sum(k * (k + 1)) + 1001 * np.arange(128) + 6)


@cuda.jit
def next_of(x, y, pair):
    i = cuda.grid(1)
    if i < y.shape[0] and i + 1 < x.shape[0]:
        y[i] = x[i + 1] + pair[1][0]


def test_arguments_that_share_memory():
    """Two blocks: one argument is written, and the other one, or a part of a tuple, is the same memory or not."""
    kernel, apart = Kernel(next_of, checked=True), np.zeros(128)
    whole = np.zeros(256)
    square = np.zeros((16, 16))
    one = np.ones(1)
    races = [
        (whole, whole, "x and y share memory"),
        (whole[1:], whole[:-1], "x and y share memory"),
        (whole[::2], whole[::2], "x and y share memory"),
        (whole[128::-1], whole[::2], "x and y share memory"),
        (apart, whole, "y and pair share memory"),
    ]
    for x, y, names in races:
        pair = (1, one if x is not apart else whole)
        with pytest.raises(KernelError, match=rf"a race on element .*\. {names}"):
            kernel.launch(three(2), three(N), 0, (x, y, pair))
    for x, y in (
        (apart, whole),
        (whole[:128], whole[128:]),
        (whole[::2], whole[1::2]),
        (whole, whole[1:]),  # each thread's own element
        (square[3, :8], square[3, 8:]),
        (whole[:0], whole),
        (whole, apart),
    ):
        y[...], before = 0, np.arange(x.size)
        x[...] = before
        kernel.launch(three(2), three(N), 0, (x, y, (1, one)))
        n = min(y.size, x.size - 1, 128) if x.size else 0
        np.testing.assert_array_equal(y[:n], before[1 : n + 1] + 1)
    kernel.launch(three(1), three(1), 0, (whole, whole[1:], (1, whole)))  # one thread
