"""Interrupts (Ctrl-C, Jupyter's stop) of kernels in the simulator: all is as it was before, and no thread is left."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from skips import skip_if

from numbacc.base.dispatch import simulated

pytestmark = skip_if(simulated(), "not simulated")

START = """
import os, random, signal, threading, time
import numpy as np
from numba import cuda

import numbacc
from numbacc import elementwise as ew

handler = signal.getsignal(signal.SIGINT)
host = np.random.default_rng(0).standard_normal((2, 40)).astype("f4")
x = numbacc.asarray(host)


def interrupted(work, seconds):
    '''Whether an interrupt that comes in so many seconds ends the work.'''
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        work()
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    timer.join()
    assert threading.active_count() == 1, threading.enumerate()
    assert signal.getsignal(signal.SIGINT) is handler


def fine():
    np.testing.assert_allclose(numbacc.asnumpy(ew.sum(x, axis=-1)), host.sum(-1), rtol=1e-4)
    np.testing.assert_allclose(numbacc.asnumpy(ew.mean(x, axis=0)), host.mean(0), rtol=1e-4, atol=1e-6)

@cuda.jit
def endless(x):
    while True:
        x[0] += 1

@cuda.jit
def stuck(x):
    if cuda.threadIdx.x == 3:
        while True:
            x[0] += 1
    cuda.syncthreads()
"""
CASES = {
    "reductions": """
random.seed(1)
for k in range(20):
    interrupted(lambda: ew.sum(x, axis=-1), random.uniform(0, 0.1))
fine()
""",
    "first calls": """
for k, function in enumerate((ew.softmax, ew.logsumexp, ew.cumsum, ew.var)):
    interrupted(lambda: function(x, axis=-1), 0.03 * (k + 1))
    assert function(x, axis=-1).shape[0] == 2
fine()
""",
    "a kernel that never ends, traced": """
def work():
    with numbacc.trace():
        endless[1, 4](np.zeros(1, "f4"))

interrupted(work, 0.1)
fine()
""",
    "threads at a barrier, traced": """
def work():
    with numbacc.trace():
        stuck[1, 4](np.zeros(1, "f4"))

interrupted(work, 0.1)
fine()
""",
    "a kernel that is debugged": """
def work():
    with numbacc.debug(thread=0):
        stuck[1, 8](np.zeros(1, "f4"))

interrupted(work, 0.3)
fine()
""",
    "a handler that raises nothing": """
seen = []
signal.signal(signal.SIGINT, lambda *arguments: seen.append(arguments))
timers = [threading.Timer(0.01 * k, os.kill, (os.getpid(), signal.SIGINT)) for k in range(5)]
for timer in timers:
    timer.start()
fine()
for timer in timers:
    timer.join()
assert len(seen) == 5
fine()
""",
    "in another thread": """
thread = threading.Thread(target=fine)
thread.start()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    pass
thread.join()
fine()
""",
}


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_an_interrupt_leaves_nothing_behind(code):
    run = subprocess.run(
        [sys.executable, "-c", START + code],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
