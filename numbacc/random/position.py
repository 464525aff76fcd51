"""The position of a generator on a GPU, where launches of graphs move it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dispatch import runtime
from ..base.ownership import NotCopied
from ..errors import UnsupportedError
from ..kernels.random.spec import NEXT, POSITION_WORDS, SEED

#: Graphs draw from positions up to this one. From there, a program would draw for months before the end.
FARTHEST = 2**63


class Position(NotCopied):
    """A generator's seed and position on a GPU. Captured draws and later calls read and move it, in order.

    Args:
        seed, position: the initial values.
        device: the GPU.
        lock: a lock that each draw holds. Launches of graphs hold it, too: if two threads draw, one must wait for the
            other's draw on the GPU.
        capture: the capture that records the first draw.

    Attributes:
        storage: the memory.
    """

    _instead = "copy its generator"

    def __init__(self, seed: int, position: int, device: int, lock: Any, capture: Any):
        check(position)
        self._device, self._lock = device, lock
        #: A stream that no capture records, for reads and writes by the host.
        self._home = capture.home
        self.storage = runtime().allocate(8 * POSITION_WORDS, device, self._home)
        self.write(seed, position)
        if capture.before is None:
            # Other libraries launch their graphs without waiting for this stream.
            runtime().synchronize(self._home, device)

    def use(self, stream: int, capture: Any) -> None:
        """Make a capture keep the position, for the draws that it records on a stream."""
        capture.use(self.storage, True, stream)
        capture.hold(self._lock)

    def read(self) -> int:
        """Return the position after all queued draws. This waits for them."""
        words = np.empty(POSITION_WORDS, np.uint64)
        address, home = self.storage.address, self._home
        with runtime().using(home, self._device, storages=((self.storage, False),)):
            runtime().copy_to_host(words, address, self._device, home, ordinary=True)
        return int(words[NEXT])

    def write(self, seed: int, position: int) -> None:
        """Make all later draws begin at a position of a seed's sequence."""
        check(position)
        words = np.zeros(POSITION_WORDS, np.uint64)
        words[SEED], words[NEXT] = seed, position
        with runtime().using(self._home, self._device, storages=((self.storage, True),)):
            runtime().copy_from_host(self.storage, self.storage.address, words, self._home)


def check(position: int) -> None:
    """Raise UnsupportedError if a position is too close to the end of the sequence for draws of graphs."""
    if position > FARTHEST:
        raise UnsupportedError(
            f"position={position}: draws in a graph must begin at most at {FARTHEST}, since launches do not look for "
            "the end of the sequence. Use another seed"
        )
