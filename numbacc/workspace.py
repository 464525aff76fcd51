"""Scratch memory for libraries: one block a stream and thread, from the pool, that all operations there share.

What one thread queues on a stream runs in order, so its next operation may write where the last one did. (What two
threads queue there may be interleaved, kernel by kernel, and one operation may be several kernels.) A block grows when
more is asked for; the old one is freed in the order of its stream, which must still exist then: numbacc keeps stream
objects alive, of a stream given as an integer the caller must. Work that is captured into a graph gets memory of the
graph's own, since the graph may run when the block is gone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from .backend import backend

Result = TypeVar("Result")

#: Blocks that are kept; the one used longest ago goes first.
MAX_BLOCKS = 32

_held: OrderedDict[tuple[int, int, int], Any] = OrderedDict()
_lock = threading.Lock()


def run(launch: Callable[[int], Result], nbytes: int, device: int, stream: int) -> Result:
    """`launch(address)` with `nbytes` of scratch memory, which it may use in the order of the stream.

    Raises:
        DeviceError: the GPU has not enough memory.
    """
    if not nbytes:
        return launch(0)
    if backend().is_capturing(stream):
        return backend().run_with_captured_memory(launch, nbytes, device, stream)  # type: ignore[no-any-return]
    # The local name keeps the block alive until the work is queued, whatever another thread makes of `_held`.
    block = held(nbytes, device, stream)
    if block is None:
        block = backend().allocate(nbytes, device, stream)
        with _lock:
            _held[device, stream, threading.get_ident()] = block
            while len(_held) > MAX_BLOCKS:
                _held.popitem(last=False)
    return launch(block.address)


def held(nbytes: int, device: int, stream: int) -> Any:
    """The block of the stream and thread, to be kept until the work is queued; None if there is none of `nbytes`.

    Nothing is allocated, so that a stream that may be captured can be asked for. Captured work must not use it.
    """
    key = (device, stream, threading.get_ident())
    with _lock:
        found = _held.get(key)
        if found is None or found.nbytes < nbytes:
            return None
        _held.move_to_end(key)
        return found


def release(device: int) -> None:
    """Free the device's blocks, each in the order of its stream."""
    with _lock:
        for key in [key for key in _held if key[0] == device]:
            del _held[key]
