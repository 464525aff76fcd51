"""Blocks of Numba's simulator, run by greenlets: as `numbacc.simulator.threads`, whose threads take most of a kernel's
time where it has barriers. To go from one thread of the system to another takes ten times as long as from one greenlet
to another, and far longer where processors are busy.

What Numba does for each call of a device function, and where shared memory is allocated, is done in fewer steps, too.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from types import SimpleNamespace

import numpy as np
from greenlet import greenlet

from numbacc.base._numba import cuda, simulator_api, simulator_kernel, types
from numbacc.simulator.threads import become, placed


class Runner:
    """One thread of a block after the other, up to one that comes to a barrier: that one it is from then on."""

    abort = debug = False
    syncthreads_count = simulator_kernel.BlockThread.syncthreads_count
    syncthreads_and = simulator_kernel.BlockThread.syncthreads_and
    syncthreads_or = simulator_kernel.BlockThread.syncthreads_or

    def __init__(self):
        self._greenlet = greenlet(self._live)

    def begin(self, manager, block, args, points):
        """Take a block: `points` are its threads that have not been run."""
        self._manager, self.blockIdx, self._args, self._points = manager, block, args, points
        self.error, self.waits = None, False
        self._greenlet.gr_context = copy_context()  # NumPy's errstate is in it

    def goes_on(self):
        """Run up to the next barrier; whether it waits there. Raise what it raised."""
        global _current
        _current = self
        try:
            self._greenlet.switch()
        finally:
            _current = None
        if self.error is not None:
            raise self.error
        if not self.waits:
            self._args = self._points = None
            _idle.runners.append(self)
        return self.waits

    def syncthreads(self):
        self.waits = True
        self._greenlet.parent.switch()
        self.waits = False
        self.barriers += 1

    def _live(self):
        while True:
            try:
                for point in self._points:
                    become(self, self._manager, point)
                    self._manager._f(*self._args)
            except Exception as error:
                self.error = placed(error, self).with_traceback(error.__traceback__)
            self._greenlet.parent.switch()

    def abandon(self):
        self._greenlet.throw()


class _Idle(threading.local):
    """Runners that have no block, of each thread: it alone can switch to them."""

    def __init__(self):
        self.runners = []


_idle = _Idle()
_current = None


def run(manager, grid_point, *args):
    """Run a block: `BlockManager.run`, with its arguments."""
    points, block, waiting = np.ndindex(*manager._block_dim), simulator_api.Dim3(*grid_point), []

    def started():
        runner = _idle.runners.pop() if _idle.runners else Runner()
        runner.begin(manager, block, args, points)
        return runner

    try:
        while (runner := started()).goes_on():
            waiting.append(runner)
        while waiting:
            waiting = [runner for runner in waiting if runner.goes_on()]
    except BaseException:
        for runner in waiting:
            if runner.waits:
                runner.abandon()
        raise


#: The modules in which `cuda` is the launch's: id -> its names, and which of them.
_exchanged = {}
_nothing = nullcontext()


def exchanged(function, module):
    """As `swapped_cuda_module`, up to the end of the launch: Numba's goes through a module's names for each call."""
    names = function.__globals__
    if id(names) in _exchanged:
        return _nothing
    is_launch = not _exchanged
    _exchanged[id(names)] = names, [name for name, value in names.items() if value is cuda]
    for name in _exchanged[id(names)][1]:
        names[name] = module
    return _put_back() if is_launch else _nothing


@contextmanager
def _put_back():
    try:
        yield
    finally:
        for names, own in _exchanged.values():
            names.update(dict.fromkeys(own, cuda))
        _exchanged.clear()


def _shared_array(self, shape, dtype, alignment=None, known=simulator_api.FakeCUDAShared.array):
    """As `cuda.shared.array`, which finds out about all callers, and reads their files, to know one."""
    if shape == 0:
        return known(self, shape, dtype, alignment)
    caller = sys._getframe(1)
    place = caller.f_code.co_filename, caller.f_lineno
    found = self._allocations.get(place)
    if found is None:
        kind = simulator_api.numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
        found = self._allocations[place] = np.empty(shape, kind)
    return found


def install():
    """Let Numba's simulator run blocks so."""
    simulator_kernel.BlockManager.run = run
    simulator_kernel.swapped_cuda_module = exchanged
    simulator_api.FakeCUDAShared.array = _shared_array
    simulator_api.threading = SimpleNamespace(current_thread=lambda: _current or threading.current_thread())
