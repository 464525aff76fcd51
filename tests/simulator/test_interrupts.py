"""Interrupts (Ctrl-C, Jupyter's stop) of kernels in the simulator: all is as it was before, and no thread is left."""

from __future__ import annotations

import os
import subprocess
import sys

from skips import skip_if

from numbacc.base.dispatch import simulated

pytestmark = skip_if(simulated(), "not simulated")

START = """
import gc, os, random, signal, sys, threading, time, traceback
import numpy as np
from numba import cuda, float32

import numbacc
from numbacc import elementwise as ew
from numbacc.simulator import blocks, calls, interrupts

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
    nothing_left()


def nothing_left():
    assert cuda is sys.modules["numba.cuda"] and not calls._active and interrupts._current is None
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, blocks.ThreadRunner) and not each.dead]


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

gc.collect()
gc.freeze()  # `nothing_left` looks at what comes later alone
"""
CASES = {
    "a plain kernel that never ends": """
for seconds in (0.1, 1, 10):  # on a busy machine the kernel may begin late
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        endless[1, 4](np.zeros(1, "f4"))
    except KeyboardInterrupt as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
    timer.join()
    nothing_left()
    if last.name == "endless":
        break
assert last.name == "endless", last  # where the kernel hung
interrupted(lambda: stuck[2, 8](np.zeros(1, "f4")), 0.1)
fine()
""",
    "plain kernels with barriers, at any time": """
@cuda.jit
def reverse(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = s[63 - i]

x, y = np.arange(256, dtype="f4"), np.zeros(256, "f4")

def work():
    while True:
        reverse[4, 64](x, y)

random.seed(2)
for k in range(100):
    interrupted(work, random.uniform(0, 0.02))
y[:] = 0
reverse[4, 64](x, y)
np.testing.assert_array_equal(y, x.reshape(4, 64)[:, ::-1].ravel())
x = numbacc.asarray(host)
fine()
""",
    "between launches": """
# As the handler is called where a launch is prepared, and where it is put back.
def at(name):
    method, calls_of = getattr(calls.SimulatedLaunch, name), []

    def interrupting(self, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        result = method(self, *arguments)
        time.sleep(0.01)
        calls_of.append(name)
        return result

    setattr(calls.SimulatedLaunch, name, interrupting)
    try:
        stuck[1, 2](np.zeros(1, "f4"))
    except KeyboardInterrupt:
        calls_of.append("interrupted")
    setattr(calls.SimulatedLaunch, name, method)
    assert calls_of == [name, "interrupted"], calls_of
    nothing_left()

for name in ("begin", "exchange", "_end"):
    at(name)
fine()
""",
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

def send():
    for k in range(5):  # Python may see two that come at once as one
        os.kill(os.getpid(), signal.SIGINT)
        while len(seen) <= k:
            time.sleep(0.005)

sender = threading.Thread(target=send)
sender.start()
while sender.is_alive():
    fine()
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


#: Run each case in a new process, a fork that needs no imports.
FORK = """
failed = []
for name, code in CASES.items():
    if not os.fork():
        exec(code, globals())
        break
    if os.wait()[1]:
        failed.append(name)
else:
    assert not failed, failed
"""


@skip_if(not hasattr(os, "fork"), "posix")
def test_an_interrupt_leaves_nothing_behind():
    run = subprocess.run(
        [sys.executable, "-c", f"{START}CASES = {CASES}\n{FORK}"],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
