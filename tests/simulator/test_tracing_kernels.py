"""`numbacc.trace` on what kernels have beside x[i]: warps, views, records, grids; counts worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from numba import float32, int32
from skips import skip_if
from traced import traced

import numbacc
from numbacc import cuda
from numbacc.base.dispatch import simulated

in_simulator = skip_if(not simulated(), "simulator")

RECORD = np.dtype([("a", "f4"), ("b", "i4", (2,)), ("c", [("d", "f8")])], align=True)


@cuda.jit
def sum_of_warp(x, y):
    value = x[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        y[cuda.grid(1) // 32] = value


@cuda.jit
def shuffled(x, y):
    i, lane = cuda.grid(1), cuda.laneid
    y[0, i] = cuda.shfl_sync(0xFFFFFFFF, x[i], 3)
    y[1, i] = cuda.shfl_up_sync(0xFFFFFFFF, x[i], 2)
    y[2, i] = cuda.shfl_xor_sync(0xFFFFFFFF, x[i], 1)
    y[3, i] = cuda.popc(cuda.lanemask_lt()) - lane


@cuda.jit
def voted(x, y):
    i = cuda.grid(1)
    y[0, i] = cuda.ballot_sync(0xFFFFFFFF, x[i] > 3)
    y[1, i] = cuda.all_sync(0xFFFFFFFF, x[i] >= 0) + 2 * cuda.any_sync(0xFFFFFFFF, x[i] == 5)
    y[2, i] = cuda.match_any_sync(0xFFFFFFFF, x[i] // 8)
    y[3, i] = cuda.eq_sync(0xFFFFFFFF, x[i] < 7) + 2 * cuda.match_all_sync(0xFFFFFFFF, 5)[1]


@cuda.jit
def within_a_warp(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncwarp()
    y[i] = s[i ^ 31]


@cuda.jit
def across_warps(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncwarp()
    y[i] = s[63 - i]


@cuda.jit
def shuffle_is_no_fence(x, y):
    s = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.shfl_sync(0xFFFFFFFF, i, 0)
    y[i] = s[31 - i]


@cuda.jit
def warps_and_blocks(x, y):
    """Before the block's barrier, the first warp meets at `syncwarp`, the second does not."""
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    if i < 32:
        for step in (1, 2, 4):
            cuda.syncwarp()
            neighbour = s[i ^ step]
            cuda.syncwarp()
            s[i] += neighbour
    cuda.syncthreads()
    y[i] = s[63 - i]


@cuda.jit
def nested(x, y):
    i = cuda.grid(1)
    y[i].c.d = x[i].c.d + x[i].b[1]


@cuda.jit
def by_flat(x, y):
    i = cuda.grid(1)
    y.flat[i] = x.flat[i]


@cuda.jit
def parts(x, y):
    i = cuda.grid(1)
    y[i] = x.real[i]


@cuda.jit
def scalar(x, y):
    y[cuda.grid(1)] = x[()]


@cuda.jit
def copied(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i]


@cuda.jit
def racing_for_long(y):
    for _ in range(3):
        y[0] = 1
        cuda.syncthreads()


@cuda.jit
def three_axes(x):
    i, j, k = cuda.grid(3)
    x[k, j, i] = cuda.threadIdx.z


@cuda.jit
def bank_groups(y):
    s = cuda.shared.array((32, 4), int32)
    i = cuda.threadIdx.x
    for k in range(4):
        s[i, k] = i
    cuda.syncthreads()
    y[i] = s[i, 0]


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


@cuda.jit
def raising(x):
    if cuda.grid(1) == 3:
        raise Odd(1, 2)


@pytest.fixture(params=[None, 0, 5, 40] if simulated() else [None], ids=lambda thread: f"debug {thread}")
def launch(request):
    """A launch under a trace, or with one thread in the caller's."""

    def run(kernel, threads, *arrays):
        if request.param is None:
            return traced(kernel, 1, threads, *arrays)
        with numbacc.debug(request.param):
            kernel[1, threads](*arrays)
        return None

    return run


def test_sums_of_warps(launch):
    x, y = np.arange(64, dtype="f4"), np.full(2, np.nan, "f4")
    t = launch(sum_of_warp, 64, x, y)
    np.testing.assert_array_equal(y, x.reshape(2, 32).sum(axis=1))
    if t:
        counted = t.counts("x")
        assert (counted.requests, counted.sectors, counted.races) == (2, 8, 0)


def test_shuffles(launch):
    x, y = np.random.default_rng(0).standard_normal(64).astype("f4"), np.full((4, 64), np.nan, "f4")
    launch(shuffled, 64, x, y)
    rows = x.reshape(2, 32)
    np.testing.assert_array_equal(y[0].reshape(2, 32), np.repeat(rows[:, 3:4], 32, axis=1))
    # The first two have nobody so far before them, and keep their own.
    np.testing.assert_array_equal(y[1].reshape(2, 32), np.concatenate([rows[:, :2], rows[:, :-2]], axis=1))
    np.testing.assert_array_equal(y[2], x.reshape(32, 2)[:, ::-1].ravel())
    np.testing.assert_array_equal(y[3], 0)


def test_votes(launch):
    x, y = np.tile(np.arange(32), 2), np.full((4, 64), 1, "u4")
    launch(voted, 64, x, y)
    np.testing.assert_array_equal(y[0], 2**32 - 16)
    np.testing.assert_array_equal(y[1], 3)
    np.testing.assert_array_equal(y[2], 0xFF << 8 * (x // 8))
    np.testing.assert_array_equal(y[3], 2)


@in_simulator
def test_lanes_without_a_thread_bring_nan():
    x, y = np.ones(20, "f4"), np.zeros(1, "f4")
    traced(sum_of_warp, 1, 20, x, y)
    assert np.isnan(y[0])


def test_barriers_of_warps(launch):
    x, y = np.random.default_rng(1).standard_normal(64).astype("f4"), np.full(64, np.nan, "f4")
    t = launch(within_a_warp, 64, x, y)
    np.testing.assert_array_equal(y, x.reshape(2, 32)[:, ::-1].ravel())
    assert not t or not t.races
    t = launch(warps_and_blocks, 64, x, y)
    wanted = x.copy()
    wanted[:32] = np.repeat(x[:32].reshape(4, 8).sum(axis=1), 8)
    np.testing.assert_allclose(y, wanted[::-1], rtol=1e-5)
    assert not t or not t.races


def test_a_barrier_of_a_warp_orders_no_other():
    t = traced(across_warps, 1, 64, np.ones(64, "f4"), np.zeros(64, "f4"))
    assert t.counts("s", "write").races == 64 == len(t.races)
    t = traced(shuffle_is_no_fence, 1, 32, np.ones(32, "f4"), np.zeros(32, "f4"))
    assert t.counts("s", "write").races == 32


def test_one_race_of_each_element():
    t = traced(racing_for_long, 2, 64, np.zeros(1, "f8"))
    assert t.counts("y").races == 1 == len(t.races)


def test_what_was_read_so_far():
    x, y = np.ones(32, "f4"), np.zeros(32, "f4")
    with numbacc.trace() as t:
        for launches in (1, 2):
            copied[1, 32](x, y)
            assert t.counts("x").requests == launches and len(t.records) == 64 * launches


def test_records_within_records():
    """8 records of 24 bytes are 192 bytes, 6 sectors, each of which has some of every field."""
    x, y = np.zeros(8, RECORD), np.zeros(8, RECORD)
    x["c"]["d"], x["b"] = np.arange(8), 1
    t = traced(nested, 1, 8, x, y)
    np.testing.assert_array_equal(y["c"]["d"], np.arange(8) + 1)
    assert (t.counts("x").bytes, t.counts("y").bytes) == (8 * (8 + 4), 8 * 8)
    assert (t.counts("x").sectors, t.counts("y").sectors) == (2 * 6, 6)


def test_flat():
    """A column of 32 floats, 16 bytes apart, by one number: 32 x 16 bytes are 16 sectors."""
    d = cuda.to_device(np.arange(128, dtype="f4").reshape(32, 4))
    y = np.zeros(32, "f4")
    t = traced(by_flat, 1, 32, d[:, 1], y)
    np.testing.assert_array_equal(y, 4 * np.arange(32) + 1)
    assert (t.counts("x").sectors, t.counts("y").sectors) == (16, 4)
    with pytest.raises(
        (IndexError, numbacc.KernelError), match=r"flat\[32\] of an array of 32|index 32 is out of bounds"
    ):
        traced(by_flat, 1, 33, d[:, 1], np.zeros(40, "f4"))


def test_parts_of_complex_numbers():
    x, y = np.arange(32) * (1 + 2j), np.zeros(32)
    t = traced(parts, 1, 32, x, y)
    np.testing.assert_array_equal(y, np.arange(32))
    assert (t.counts("x").bytes, t.counts("x").sectors) == (256, 16)


def test_arrays_without_axes():
    y = np.zeros(32, "f4")
    t = traced(scalar, 1, 32, np.array(3, "f4"), y)
    assert (y == 3).all() and (t.counts("x").requests, t.counts("x").bytes, t.counts("x").sectors) == (1, 128, 1)


def test_views_of_one_array():
    """Two parameters in one memory: one element on, backward, and every second."""
    d = cuda.to_device(np.arange(64, dtype="f4"))
    t = traced(copied, 1, 32, d[1:33], d[:32])
    assert t.counts("x").races == t.counts("y").races == 31 == len(t.races) and t.counts("x").sectors == 5
    t = traced(copied, 1, 32, d[::2], d[1::2])
    assert not t.races and (t.counts("x").sectors, t.counts("y").sectors) == (8, 8)
    t = traced(copied, 1, 32, d[31::-1], d[32:])
    assert not t.races and t.elements("x")[:2] == [(0,), (1,)] and t.counts("x").sectors == 4


def test_grids_of_three_axes():
    """A warp of 4 x 4 x 2 threads writes 16 bytes of each of eight rows, of 32 bytes: eight sectors."""
    x = np.full((8, 8, 8), -1, "f4")
    t = traced(three_axes, (2, 2, 2), (4, 4, 4), x)
    np.testing.assert_array_equal(x, (np.arange(8) % 4)[:, None, None] + np.zeros((8, 8, 8)))
    counted = t.counts("x")
    assert (counted.requests, counted.sectors, counted.used) == (16, 16 * 8, 0.5)


def test_words_sixteen_bytes_apart():
    """Eight threads' words fill the banks 0, 4, ..., 28: the 32 threads take four passes, three too many."""
    t = traced(bank_groups, 1, 32, np.zeros(32, "i4"))
    assert (t.counts("s", "write").conflicts, t.counts("s", "read").conflicts) == (12, 3)


def test_for_all():
    """Warps of 32, not a block for each thread, as the simulator has them."""
    x, y = np.ones(200, "f4"), np.zeros(200, "f4")
    with numbacc.trace() as t:
        copied.forall(200)(x, y)
        copied.forall(200, tpb=32)(x, y)
    assert y.all() and [(each.grid[0], each.block[0]) for each in t.launches] == [(2, 128), (7, 32)]
    assert t.counts("x").requests == 7 + 7


@in_simulator
def test_blocks_that_no_gpu_launches():
    x = np.zeros(2048, "f4")
    refused(numbacc.UnsupportedError, "2,048 threads", "1,024", run=lambda: traced(copied, 1, 2048, x, x.copy()))


@in_simulator
def test_errors_of_the_kernels_own():
    refused(RuntimeError, "tid=[3, 0, 0]", "Odd", run=lambda: traced(raising, 1, 32, np.zeros(1)))


@pytest.mark.parametrize(
    "nbytes, apart, conflicts",
    [
        (4, 4, 0), (4, 8, 1), (4, 128, 31), (4, 0, 0),  # all 32 at once: two apart share a bank by twos
        (8, 8, 0), (8, 16, 2), (8, 128, 30),  # 16 at once, twice
        (16, 16, 0), (16, 32, 4), (16, 128, 28),  # 8 at once, four times
    ],
)  # fmt: skip
def test_banks_by_the_width_of_an_access(nbytes, apart, conflicts):
    """A warp's threads so many bytes apart; passes beyond those that 128 bytes each need."""
    from numbacc.tracing import counting
    from numbacc.tracing.recording import FIELDS

    columns = {name: np.zeros(32, np.int64) for name in FIELDS}
    columns |= {"thread": np.arange(32), "address": apart * np.arange(32), "nbytes": np.full(32, nbytes)}
    found = counting.requests(columns, np.ones(32, bool))
    assert (found.sectors.tolist(), found.conflicts.tolist()) == ([0], [conflicts])
