"""Loops of compiled kernels: they are compiled in finite time, and can be stopped."""

from __future__ import annotations

import _thread
import math
import signal
import threading

import numpy as np
import pytest
from conftest import refused
from numba import cuda, float32

import numbacc
from numbacc.errors import UnsupportedError

ROUNDS = 64


@cuda.jit
def largest_in_shared_memory(x, y):
    s = cuda.shared.array(64, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    s[k] = x[row, k]
    cuda.syncthreads()
    largest = s[0]
    for i in range(64):
        largest = max(largest, s[i])
    y[row, k] = math.exp(s[k] - largest)


@cuda.jit
def largest_by_a_global_name(x, y):
    s = cuda.shared.array(ROUNDS, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    s[k] = x[row, k]
    cuda.syncthreads()
    largest = s[0]
    for i in range(1, ROUNDS):
        if s[i] > largest:
            largest = s[i]
    y[row, k] = math.exp(s[k] - largest)


@cuda.jit(device=True)
def largest_of(s):
    found = s[0]
    for i in range(64):
        found = max(found, s[i])
    return found


@cuda.jit
def largest_in_a_device_function(x, y):
    s = cuda.shared.array(64, float32)
    row, k = cuda.blockIdx.x, cuda.threadIdx.x
    s[k] = x[row, k]
    cuda.syncthreads()
    y[row, k] = math.exp(s[k] - largest_of(s))


REDUCTIONS = [largest_in_shared_memory, largest_by_a_global_name, largest_in_a_device_function]


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [largest_in_shared_memory, largest_by_a_global_name, largest_in_a_device_function],
    ids=lambda k: k.__name__,
)
def test_a_reduction_that_all_threads_compute(kernel, checked):
    """LLVM's vectorizer never came back from these loops, whose rounds it unrolled."""
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    y = np.full_like(x, np.nan)
    with numbacc.simulate(checked=checked):
        kernel[4, 64](x, y)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, np.exp(wide - wide.max(axis=1, keepdims=True)), rtol=1e-5)


@cuda.jit
def waiting(flag, started):
    started[0] = 1
    while flag[0] == 0:
        started[0] += 1


@cuda.jit
def waiting_at_barriers(flag, started):
    started[0] = 1
    while flag[0] == 0:
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            started[0] += 1


@pytest.mark.parametrize("kernel", [waiting, waiting_at_barriers], ids=lambda k: k.__name__)
def test_an_interrupt_ends_an_endless_loop(kernel):
    """As Ctrl-C does. The launch that compiles the kernel ends by itself."""
    started = np.zeros(1, np.int64)
    with numbacc.simulate(checked=True):
        kernel[1, 1](np.ones(1, np.int64), started)
        started[0] = 0

        def interrupt():
            while not started[0]:
                pass
            _thread.interrupt_main()

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            kernel[1, 1](np.zeros(1, np.int64), started)
        kernel[1, 1](np.ones(1, np.int64), started)  # the next launch is as any
    _no_launch_goes_on()


def test_a_small_launch_handles_signals_itself(monkeypatch):
    """A launch of few threads starts no Python thread. Its signal handler may launch a kernel, or raise any error."""
    flag, started = np.zeros(1, np.int64), np.zeros(1, np.int64)
    ended, seen = np.ones(1, np.int64), []

    def handler(number, frame):
        seen.append(number)
        waiting[1, 1](ended, np.zeros(1, np.int64))
        if len(seen) == 2:
            raise FloatingPointError("an error of the handler")

    def interrupt():
        while not started[0]:
            pass
        for k in range(2):
            _thread.interrupt_main()
            while len(seen) == k:
                pass

    before = signal.signal(signal.SIGINT, handler)
    try:
        with numbacc.simulate(checked=True):
            waiting[1, 1](ended, np.zeros(1, np.int64))
            other = threading.Thread(target=interrupt)
            other.start()
            with pytest.raises(FloatingPointError, match="an error of the handler"):
                waiting[1, 1](flag, started)
            other.join()
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", None)
                waiting[1, 1](ended, started)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(seen) == 2
    _no_launch_goes_on()


def _no_launch_goes_on():
    for each in threading.enumerate():
        if each.name == "numbacc-launch":  # it has written its last value, and may still be ending
            each.join(60)
            assert not each.is_alive()


@cuda.jit
def waiting_quietly(flag):
    while flag[0] == 0:
        pass


@pytest.mark.parametrize("starts", [False, True], ids=["before", "after"])
def test_an_interrupt_while_the_thread_starts(monkeypatch, starts):
    """As on a busy machine, where a thread takes its time to start."""
    start = threading.Thread.start

    def interrupted(thread):
        if starts:
            start(thread)
        raise KeyboardInterrupt

    flag = np.ones(1, np.int64)
    with numbacc.simulate(checked=True):
        waiting_quietly[32, 1024](flag)
        flag[0] = 0
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                waiting_quietly[32, 1024](flag)
    _no_launch_goes_on()


@cuda.jit
def with_a_list(x, y):
    i = cuda.threadIdx.x
    window = []
    for k in range(3):
        window.append(x[i + k])  # noqa: PERF401
    y[i] = window[0] + 2 * window[1] + 3 * window[2]


def test_each_thread_has_a_list_of_its_own():
    """No GPU compiles it; all threads shared one, and results were wrong."""
    x, y = np.arange(34.0), np.full(32, np.nan)
    with numbacc.simulate():
        with_a_list[1, 32](x, y)
    np.testing.assert_array_equal(y, x[:-2] + 2 * x[1:-1] + 3 * x[2:])


@cuda.jit
def of_any_length(x):
    s = cuda.shared.array(cuda.blockDim.x, float32)
    s[cuda.threadIdx.x] = x[0]


def test_a_shape_that_is_not_known_is_refused_with_its_line():
    place = f"test_compiled_loops.py:{of_any_length.py_func.__code__.co_firstlineno + 2}: "
    words = "`cuda.blockDim.x`, which is not known when the kernel is compiled"
    with numbacc.simulate():
        refused(UnsupportedError, place, words, run=lambda: of_any_length[1, 2](np.zeros(3, np.float32)))
