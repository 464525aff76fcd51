"""Run in Numba's simulator by test_simulator.py: plain kernels, which numbacc never sees, on its scheduler."""

from __future__ import annotations

import gc
import math
import sys
import threading
import types

import numpy as np
import pytest
from conftest import refused
from numba import cuda, float32, int32

import numbacc
from numbacc.simulator import calls
from numbacc.simulator.blocks import ThreadRunner

pytestmark = pytest.mark.simulator
FULL = 0xFFFFFFFF
seen: list = []


@pytest.fixture(autouse=True)
def nothing_left():
    """After each test `cuda` is Numba's again, and no thread of a kernel is left."""
    seen.clear()
    yield
    assert cuda is sys.modules["numba.cuda"] and not calls._active and calls._way is calls.SimulatedLaunch
    gc.collect()
    # isinstance would ask what weak proxies stand for, which may be gone.
    assert not [each for each in gc.get_objects() if issubclass(type(each), ThreadRunner) and not each.dead]


@cuda.jit
def block_sum(x, y):
    s = cuda.shared.array(64, float32)
    k = cuda.threadIdx.x
    s[k] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if k < half:
            s[k] += s[k + half]
        cuda.syncthreads()
        half //= 2
    if k == 0:
        y[cuda.blockIdx.x] = s[0]


def test_all_threads_are_one_of_the_system():
    @cuda.jit
    def who(x):
        cuda.syncthreads()
        seen.append(threading.get_ident())
        x[cuda.grid(1)] = cuda.laneid

    x = np.zeros(64, "f4")
    who[2, 32](x)
    assert set(seen) == {threading.get_ident()} and len(seen) == 64
    np.testing.assert_array_equal(x, [*range(32), *range(32)])


def test_threads_and_blocks_run_in_order():
    @cuda.jit
    def indices(x):
        seen.append((tuple(cuda.blockIdx), tuple(cuda.threadIdx)))
        assert cuda.grid(3) == tuple(2 * b + t for b, t in zip(cuda.blockIdx, cuda.threadIdx, strict=True))
        assert cuda.grid(2) == cuda.grid(3)[:2] and cuda.grid(1) == cuda.grid(2)[0] and cuda.gridsize(2) == (4, 6)

    indices[(2, 3, 1), (2, 2, 2)](np.zeros(1))
    points = [(x, y, z) for z in range(2) for y in range(2) for x in range(2)]
    assert seen == [((x, y, 0), point) for y in range(3) for x in range(2) for point in points]


def test_shared_memory_and_barriers():
    x, y = np.arange(256, dtype="f4"), np.full(4, np.nan, "f4")
    block_sum[4, 64](x, y)
    np.testing.assert_array_equal(y, x.reshape(4, 64).sum(1))
    d_x, d_y = cuda.to_device(x), cuda.device_array(4, "f4")
    block_sum[4, 64](d_x, d_y)
    np.testing.assert_array_equal(d_y.copy_to_host(), y)


def test_dynamic_shared_memory_is_of_one_launch():
    @cuda.jit
    def reverse(x):
        s = cuda.shared.array(0, float32)
        i = cuda.threadIdx.x
        seen.append(s.size)
        s[i] = x[i]
        cuda.syncthreads()
        x[i] = s[cuda.blockDim.x - 1 - i]

    x = np.arange(8, dtype="f4")
    reverse[1, 8, 0, 32](x)
    np.testing.assert_array_equal(x, np.arange(8)[::-1])
    with pytest.raises(IndexError):
        reverse[1, 8](x)  # as on a GPU: a launch that asks for none has none
    assert seen[-1] == 0


def test_two_shared_arrays_of_one_line():
    @cuda.jit
    def swapped(x, y):
        a, b = cuda.shared.array(4, float32), cuda.shared.array(4, float32)
        i = cuda.threadIdx.x
        a[i], b[i] = x[i], y[i]
        cuda.syncthreads()
        x[i], y[i] = b[3 - i], a[3 - i]

    x, y = np.arange(4, dtype="f4"), np.arange(4, 8, dtype="f4")
    swapped[1, 4](x, y)
    np.testing.assert_array_equal([x, y], [[7, 6, 5, 4], [3, 2, 1, 0]])


def test_local_arrays_and_atomics():
    @cuda.jit
    def histogram(x, counts, most):
        own = cuda.local.array(4, int32)
        for k in range(4):
            own[k] = 0
        own[x[cuda.grid(1)]] += 1
        for k in range(4):
            cuda.atomic.add(counts, k, own[k])
        cuda.atomic.max(most, 0, x[cuda.grid(1)])

    x = np.random.default_rng(0).integers(0, 4, 96)
    counts, most = np.zeros(4, np.int32), np.zeros(1, np.int64)
    histogram[3, 32](x, counts, most)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=4))
    assert most[0] == x.max()


def test_threads_that_have_ended_do_not_count():
    @cuda.jit
    def some(x, y):
        i = cuda.threadIdx.x
        first = cuda.syncthreads_count(i % 2)
        if i < 8:
            return
        y[i] = first, cuda.syncthreads_count(i % 2), cuda.syncthreads_and(i >= 8), cuda.syncthreads_or(i < 8)

    y = np.zeros((32, 4), np.int64)
    some[1, 32](np.zeros(1), y)
    np.testing.assert_array_equal(y[8:], [[16, 12, 1, 0]] * 24)


def test_threads_at_different_barriers_meet():
    """As in Numba's simulator; `numbacc.trace` finds such barriers."""

    @cuda.jit
    def divergent(x):
        i = cuda.threadIdx.x
        if i < 4:
            x[i] = 1
            cuda.syncthreads()
        else:
            cuda.syncthreads()
            x[i] = x[i - 4]

    x = np.zeros(8, "f4")
    divergent[1, 8](x)
    np.testing.assert_array_equal(x, 1)


@cuda.jit(device=True)
def warp_sum(value):
    offset = 16
    while offset:
        value += cuda.shfl_down_sync(FULL, value, offset)
        offset //= 2
    return value


def test_functions_of_warps():
    @cuda.jit
    def sums(x, y):
        s = cuda.shared.array(2, float32)
        i = cuda.threadIdx.x
        total = warp_sum(x[i])
        if cuda.laneid == 0:
            s[i // 32] = total
        cuda.syncthreads()
        if i < 32:  # one warp alone
            y[i] = cuda.shfl_sync(FULL, s[0] + s[1], 0)
            cuda.syncwarp()
        y[i] = y[i % 32] if cuda.any_sync(FULL, i >= 32) else y[i]
        seen.append(int(cuda.ballot_sync(FULL, i % 2)))

    x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    sums[1, 64](x, y)
    np.testing.assert_array_equal(y, x.sum())
    assert set(seen) == {0xAAAAAAAA}


def test_the_sync_of_a_grid():
    @cuda.jit
    def shifted(x):
        i = cuda.grid(1)
        value = x[(i + 1) % x.size]
        cuda.cg.this_grid().sync()
        x[i] = value

    x = np.arange(8, dtype="f4")
    shifted[1, 8](x)
    np.testing.assert_array_equal(x, [1, 2, 3, 4, 5, 6, 7, 0])
    refused(numbacc.UnsupportedError, "(2, 1, 1) blocks", "one block", run=lambda: shifted[2, 4](x))


def test_device_functions_of_other_modules():
    text = "from numba import cuda\n@cuda.jit(device=True)\ndef twice(x):\n    return 2 * x + cuda.threadIdx.x\n"
    other = types.ModuleType("other")
    exec(text, vars(other))

    @cuda.jit
    def kernel(x):
        x[cuda.grid(1)] = other.twice(x[cuda.grid(1)])

    x = np.ones(4, "f4")
    kernel[1, 4](x)
    np.testing.assert_array_equal(x, [2, 3, 4, 5])
    assert other.cuda is cuda


def test_forall_makes_blocks_of_several_threads():
    @cuda.jit
    def count(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = cuda.blockDim.x

    x = np.zeros(300, "f4")
    count.forall(300)(x)
    np.testing.assert_array_equal(x, 128)
    count.forall(300, tpb=32)(x)
    np.testing.assert_array_equal(x, 32)


def test_a_configuration_is_of_one_launch():
    x = np.zeros(64, "f4")
    with pytest.raises(ValueError, match="launch configuration"):
        block_sum(x, x)
    one, other = block_sum[1, 64], block_sum[1, 32]
    assert one.block_dim == (64, 1, 1) and other.block_dim == (32, 1, 1) and block_sum.block_dim is None


def test_a_wrong_number_of_arguments():
    refused(numbacc.errors.ArgumentsError, "block_sum(x, y) takes 2", "given 1", run=lambda: block_sum[1, 64]([1]))


# ---------------------------------------------------------------- contexts


def test_errstate_is_the_callers():
    @cuda.jit
    def inverse(x):
        cuda.syncthreads()
        x[cuda.grid(1)] = np.float32(1) / x[cuda.grid(1)]

    x = np.zeros(4, "f4")
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=r"tid=\[0, 0, 0\]"):
        inverse[1, 4](x)
    with np.errstate(all="ignore"):
        inverse[1, 4](x)
    assert np.isinf(x).all()


def test_debug_finds_divisions_by_zero():
    @cuda.jit(debug=True, opt=False)
    def inverse(x):
        x[cuda.grid(1)] = np.float32(1) / x[cuda.grid(1)]

    with pytest.raises(FloatingPointError, match=r"tid=\[1, 0, 0\] ctaid=\[0, 0, 0\]: divide by zero"):
        inverse[1, 4](np.array([1, 0, 0, 1], "f4"))


# ---------------------------------------------------------------- errors


@cuda.jit(device=True)
def store(x, i):
    x[i] = 1


@cuda.jit
def failing(x, first, width):
    try:
        column, row = cuda.grid(2)
        cuda.syncthreads()
        if row * width + column >= first:
            store(x, x.size)
        cuda.syncthreads()
    finally:
        seen.append(cuda.threadIdx.x)


@pytest.mark.parametrize("first, thread, block", [(0, "0, 0, 0", "0, 0, 0"), (9, "1, 0, 0", "0, 1, 0")])
def test_an_error_names_the_first_thread_and_its_line(first, thread, block):
    x = np.zeros(4, "f4")
    with pytest.raises(IndexError) as caught:
        failing[(1, 2), (8, 1)](x, first, 8)
    assert str(caught.value) == f"tid=[{thread}] ctaid=[{block}]: index 4 is out of bounds for axis 0 with size 4"
    assert [entry.name for entry in caught.traceback[-2:]] == ["failing", "store"]
    assert caught.traceback[-1].lineno + 1 == store.fn.__code__.co_firstlineno + 2
    assert len(seen) == 8 * (1 + (first > 8))  # the others have ended, too
    y = np.zeros(1, "f4")
    block_sum[1, 64](np.ones(64, "f4"), y)
    assert y[0] == 64


def test_the_first_thread_is_that_of_the_least_number():
    @cuda.jit
    def fails(x):
        if cuda.threadIdx.x == 3 or cuda.threadIdx.y == 1:
            x[100] = 0

    with pytest.raises(IndexError, match=r"^tid=\[3, 0, 0\] ctaid=\[0, 0, 0\]"):
        fails[1, (4, 2)](np.zeros(1))


def test_errors_of_any_class():
    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__(one)

    @cuda.jit
    def odd(x):
        raise Odd(x.size, 2)

    @cuda.jit
    def leaves(x):
        cuda.syncthreads()
        raise SystemExit(7)

    with pytest.raises(RuntimeError, match=r"^tid=\[0, 0, 0\] ctaid=\[0, 0, 0\]: Odd: 5$"):
        odd[1, 2](np.zeros(5))
    with pytest.raises(SystemExit) as caught:
        leaves[1, 2](np.zeros(5))
    assert caught.value.code == 7


def test_what_the_simulator_lacks():
    @cuda.jit
    def exchanging(x):
        x[0] = cuda.activemask()

    def with_cuda_inside():
        from numba import cuda

        @cuda.jit
        def kernel(x):
            x[cuda.grid(1)] = 0

        return kernel

    refused(AttributeError, "cuda.activemask", "scalar form", run=lambda: exchanging[1, 1](np.zeros(1)))
    kernel = with_cuda_inside()
    refused(AttributeError, "no attribute 'grid'", "at the top of the file", run=lambda: kernel[1, 1](np.zeros(1)))


def test_a_thread_that_will_not_end():
    @cuda.jit
    def stubborn(x):
        try:
            cuda.syncthreads()
            x[cuda.threadIdx.x + 2] = 0
            cuda.syncthreads()
        finally:
            cuda.syncthreads()
            seen.append(cuda.threadIdx.x)

    with pytest.raises(IndexError, match=r"tid=\[2, 0, 0\]"):
        stubborn[1, 8](np.zeros(4))


# ---------------------------------------------------------------- threads of the host


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    cuda.syncthreads()
    if i < x.size:
        x[i] = value + cuda.blockDim.x


def test_eight_threads_of_the_host():
    problems = []

    def work(k):
        try:
            for _ in range(5):
                x = cuda.to_device(np.zeros(40 * (k + 1), "f4"))
                fill[k + 1, 40](x, 100 * k)
                np.testing.assert_array_equal(x.copy_to_host(), 100 * k + 40)
                fill[2 * (k + 1), 20](x, k)  # the same kernel, otherwise configured
                np.testing.assert_array_equal(x.copy_to_host(), k + 20)
                y = numbacc.asarray(np.arange(8, dtype="f4"))
                assert float(numbacc.asnumpy((y * y).sum())) == 140
                with pytest.raises(IndexError, match=r"tid=\[0, 0, 0\]"):
                    failing[1, 4](np.zeros(1, "f4"), 0, 4)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not problems, problems


def test_cuda_is_numbas_for_other_threads_of_the_host():
    """Also while a kernel of the same file runs, which has another `cuda`."""
    found = []

    @cuda.jit
    def waiting(x):
        thread = threading.Thread(target=lambda: found.append(cuda.to_device(np.ones(2)).copy_to_host().sum()))
        thread.start()
        thread.join()
        x[0] = found[0]

    x = np.zeros(1)
    waiting[1, 1](x)
    assert x[0] == 2


def test_a_launch_within_a_kernel():
    """As typed into a debugger that stops there."""

    @cuda.jit
    def outer(x, y):
        s = cuda.shared.array(4, float32)
        i = cuda.threadIdx.x
        s[i] = x[i]
        cuda.syncthreads()
        if i == 1:
            fill[1, 2](y, 7)
        cuda.syncthreads()
        x[i] = s[3 - i] + cuda.blockDim.x

    x, y = np.arange(4, dtype="f4"), np.zeros(2, "f4")
    outer[1, 4](x, y)
    np.testing.assert_array_equal(x, [7, 6, 5, 4])
    np.testing.assert_array_equal(y, 9)


def test_numbers_stay_pythons():
    @cuda.jit
    def types_of(x):
        seen.extend(type(each) for each in (cuda.threadIdx.x, cuda.grid(1), cuda.gridsize(1), cuda.blockDim.x))
        x[0] = math.sqrt(4)

    types_of[1, 1](np.zeros(1))
    assert set(seen) == {int}
