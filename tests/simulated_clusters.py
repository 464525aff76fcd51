"""Clusters of blocks in Numba's simulator, which runs one block after the other: here those of a cluster run together.

Each thread is a greenlet, and each block has shared memory of its own. Signals count what has come, as a GPU's
`mbarrier` does, in parts instead of bytes.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from contextvars import copy_context

import numpy as np
import pytest
import quick_blocks
from greenlet import greenlet

from numbacc.base._numba import simulator_api, simulator_kernel, types
from numbacc.base.monkeypatch import replaced
from numbacc.kernels.primitives import block_reduce
from numbacc.kernels.rows import launch
from numbacc.runtime.launch_order import Limits
from numbacc.simulator import device, launches
from numbacc.simulator.threads import become

#: Times that all blocks may look for a signal in vain.
_PATIENCE = 100


class _Block:
    def __init__(self, number, dynamic):
        self.number, self.memory = number, {0: np.zeros(dynamic, np.uint8)}
        # Of each signal how many have yet to tell how much comes, how much has yet to come, and the phases behind it.
        self.signals = defaultdict(lambda: [1, 0, 0])


class _Thread(simulator_kernel.BlockThread):
    """What waits for its block, for its cluster, for a signal, or for nothing."""

    def __init__(self, manager, cluster, block, point, args):
        self.abort = self.debug = False
        self.cluster, self.block, self._manager = cluster, block, manager
        self.blockIdx, self.waits_for = simulator_api.Dim3(block.number, 0, 0), None
        become(self, manager, point)
        self._greenlet = greenlet(lambda: manager._f(*args))
        self._greenlet.gr_context = copy_context()

    def go_on(self):
        """Run up to where it waits; whether it waits."""
        self.waits_for, quick_blocks._current = None, self
        try:
            self._greenlet.switch()
        finally:
            quick_blocks._current = None
        return not self._greenlet.dead

    def wait(self, what):
        self.waits_for = what
        self._greenlet.parent.switch()

    def syncthreads(self):
        self.wait("block")

    def abandon(self):
        if not self._greenlet.dead:
            self._greenlet.throw()


def _ready(threads):
    """Those that may go on."""
    if all(thread.waits_for == "cluster" for thread in threads):
        return threads
    own = defaultdict(list)
    for thread in threads:
        own[thread.block].append(thread)
    found = [thread for thread in threads if thread.waits_for in (None, "signal")]
    for each in own.values():
        if all(thread.waits_for == "block" for thread in each):
            found += each
    return found


def _run(threads):
    """Run all threads of a cluster."""
    living, looks = list(threads), 0
    try:
        while living:
            ready = _ready(living)
            looks = looks + 1 if all(thread.waits_for == "signal" for thread in ready) else 0
            assert ready and looks < _PATIENCE, "threads wait for what never comes"
            ended = {thread for thread in ready if not thread.go_on()}
            living = [thread for thread in living if thread not in ended]
    finally:
        for thread in living:
            thread.abandon()


def _current():
    return quick_blocks._current


def _other(number):
    """A block of the running thread's cluster."""
    return _current().cluster[number]


def _there(block, array):
    """What another block has in the place of an array in shared memory."""
    place = next(place for place, own in _current().block.memory.items() if own is array)
    return block.memory[place]


def _told(block, signal, tellers, parts):
    found = block.signals[signal]
    found[0] -= tellers
    found[1] += parts
    if found[:2] == [0, 0]:
        found[0], found[2] = 1, found[2] + 1


def put_in(cells, place, parts, block):
    _there(_other(block), cells)[0, place] = tuple(part[0] for part in parts)


def send(cells, place, parts, block, signals, signal):
    put_in(cells, place, parts, block)
    _told(_other(block), signal, 0, -1)


def expect(signals, signal, parts, blocks):
    _told(_current().block, signal, 1, blocks)


def has_arrived(signals, signal, phase):
    if _current().block.signals[signal][2] & 1 != phase:
        return True
    _current().wait("signal")
    return False


_GROUPS = {
    "put_in": put_in,
    "send": send,
    "expect": expect,
    "has_arrived": has_arrived,
    "start_signal": lambda signals, signal: None,
    "arrive": lambda: None,
    "wait": lambda: _current().wait("cluster"),
    "block_in_cluster": lambda: _current().blockIdx.x % len(_current().cluster),
    "cluster_number": lambda: _current().blockIdx.x // len(_current().cluster),
    "clusters": lambda: _current()._manager._grid_dim[0] // len(_current().cluster),
}


@contextmanager
def clusters(blocks, shared=49152):
    """So many blocks share a row wherever some can. Yields a list of the launches."""
    ran, run, run_block = [], launches.run, simulator_kernel.BlockManager.run
    together, size, dynamic = [], 1, 0

    def run_launch(order, *arguments):
        nonlocal size, dynamic
        size, dynamic = order.cluster, order.shared
        ran.append(order)
        together.clear()
        run(order, *arguments)

    def run_together(manager, point, *args):
        if size == 1:
            run_block(manager, point, *args)
            return
        together.append(_Block(point[0], dynamic))
        if len(together) == size:
            cluster = tuple(together)
            together.clear()
            points = list(np.ndindex(*manager._block_dim))
            with replaced([(simulator_api.FakeCUDAShared, "array", array)]):
                _run([_Thread(manager, cluster, block, each, args) for block in cluster for each in points])

    def array(self, shape, dtype, alignment=None):
        memory = _current().block.memory
        if shape == 0:
            return memory[0]
        caller = simulator_api.sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        if place not in memory:
            kind = simulator_api.numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
            memory[place] = np.empty(shape, kind)
        return memory[place]

    def with_all(launch):
        return lambda given, many, *others: launch(given, many, *others) if many == blocks else None

    with pytest.MonkeyPatch.context() as patch:
        for name, value in _GROUPS.items():
            patch.setattr(block_reduce, name, value, raising=False)
        # A group has as many threads, at least.
        patch.setattr(block_reduce, "ROW_BLOCKS", blocks)
        launches.kernel.cache_clear()
        patch.setattr(launches, "run", run_launch)
        patch.setattr(simulator_kernel.BlockManager, "run", run_together)
        patch.setattr(device.Launcher, "limits", staticmethod(lambda device: Limits(shared, blocks)))
        for name in ("_shared_sums", "_walk"):
            patch.setattr(launch, name, with_all(getattr(launch, name)))
        yield ran
        launches.kernel.cache_clear()
