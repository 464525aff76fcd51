"""Clusters of blocks in Numba's simulator, which runs one block after the other: here those of a cluster run together.

Each thread is a greenlet, and each block has shared memory of its own. Signals count what has come, as a GPU's
`mbarrier` does, in parts instead of bytes.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from itertools import chain

import numpy as np
import pytest

from numbacc.base._numba import simulator_api, types
from numbacc.kernels.primitives import block_reduce
from numbacc.kernels.rows import launch
from numbacc.runtime.launch_order import Limits
from numbacc.simulator import calls, device, launches
from numbacc.simulator.blocks import Block, Runners, ThreadRunner, indices
from numbacc.simulator.frames import instruction_at

#: Times that all blocks may look for a signal in vain.
_PATIENCE = 100


class _Shared:
    """`cuda.shared` of one block."""

    def __init__(self, dynamic):
        self.memory = {0: np.zeros(dynamic, np.uint8)}

    def array(self, shape, dtype, alignment=None):
        if shape == 0:
            return self.memory[0]
        place = instruction_at(simulator_api.sys._getframe(1))
        if place not in self.memory:
            kind = simulator_api.numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
            self.memory[place] = np.empty(shape, kind)
        return self.memory[place]


class _Thread(ThreadRunner):
    """What waits for its block, for its cluster, for a signal, or for nothing."""

    waits_for = None

    def go_on(self):
        """Run up to where it waits; whether it waits."""
        self.waits_for, module = "block", self.block.module
        module.thread, module.threadIdx, module.blockIdx = self, self.threadIdx, self.block.blockIdx
        module._shared = self.block.shared
        if self.switch():
            return True
        self.rest()
        return False

    def wait_for(self, what):
        self.waits_for = what
        self.wait()


class _Launch(calls.SimulatedLaunch):
    """A launch that runs `size` blocks together, each in shared memory of its own."""

    size = 1

    def __init__(self, kernel):
        super().__init__(kernel)
        self.runners, self._dynamic, self._together = Runners(_Thread), kernel.dynshared_size, []

    def run_block(self, index, args):
        block = self.make_block(index, partial(self.function, *args), ())
        block.shared = _Shared(self._dynamic)
        # Of each signal how many have yet to tell how much comes, how much has yet to come, and the phases behind it.
        block.signals = defaultdict(lambda: [1, 0, 0])
        self._together.append(block)
        if len(self._together) == self.size:
            cluster, self._together = tuple(self._together), []
            for each in cluster:
                each.cluster = cluster
            _run(list(chain(*map(self._threads, cluster))))

    def _threads(self, block: Block):
        for point in indices(self.block):
            thread = self.runners.one()
            thread.begin(block, block._work, iter([point]))
            yield thread


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
    living, looks = threads, 0
    while living:
        ready = _ready(living)
        looks = looks + 1 if all(thread.waits_for == "signal" for thread in ready) else 0
        assert ready and looks < _PATIENCE, "threads wait for what never comes"
        ended = {thread for thread in ready if not thread.go_on()}
        living = [thread for thread in living if thread not in ended]


def _current():
    return calls.running()


def _other(number):
    """A block of the running thread's cluster."""
    return _current().block.cluster[number]


def _there(block, array):
    """What another block has in the place of an array in shared memory."""
    place = next(place for place, own in _current().block.shared.memory.items() if own is array)
    return block.shared.memory[place]


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
    _current().wait_for("signal")
    return False


_GROUPS = {
    "put_in": put_in,
    "send": send,
    "expect": expect,
    "has_arrived": has_arrived,
    "start_signal": lambda signals, signal: None,
    "arrive": lambda: None,
    "wait": lambda: _current().wait_for("cluster"),
    "block_in_cluster": lambda: _current().block.blockIdx.x % len(_current().block.cluster),
    "cluster_number": lambda: _current().block.blockIdx.x // len(_current().block.cluster),
    "clusters": lambda: _current().block.module.gridDim.x // len(_current().block.cluster),
}


@contextmanager
def clusters(blocks, shared=49152):
    """So many blocks share a row wherever some can. Yields a list of the launches."""
    ran, run = [], launches.run

    def run_launch(order, *arguments):
        ran.append(order)
        with calls.launching_as(type("Way", (_Launch,), {"size": order.cluster})):
            run(order, *arguments)

    def with_all(launch):
        return lambda given, many, *others: launch(given, many, *others) if many == blocks else None

    with pytest.MonkeyPatch.context() as patch:
        for name, value in _GROUPS.items():
            patch.setattr(block_reduce, name, value, raising=False)
        # A group has as many threads, at least.
        patch.setattr(block_reduce, "ROW_BLOCKS", blocks)
        launches.kernel.cache_clear()
        patch.setattr(launches, "run", run_launch)
        patch.setattr(device.Launcher, "limits", staticmethod(lambda device: Limits(shared, blocks)))
        for name in ("_shared_sums", "_walk"):
            patch.setattr(launch, name, with_all(getattr(launch, name)))
        yield ran
        launches.kernel.cache_clear()
