"""Scratch memory for libraries: one block a stream, from the pool, that all operations on the stream share.

Work on a stream runs in order, so the next operation may write where the last one did. A block grows when more is
asked for; the old one is freed in the order of its stream. Work that is captured into a graph gets memory of the
graph's own, since the graph may run when the block is gone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from .backend import backend

Result = TypeVar("Result")

#: Streams whose blocks are kept; the one used longest ago goes first.
MAX_STREAMS = 32

_held: OrderedDict[tuple[int, int], Any] = OrderedDict()
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
            _held[device, stream] = block
            while len(_held) > MAX_STREAMS:
                _held.popitem(last=False)
    return launch(block.address)


def held(nbytes: int, device: int, stream: int) -> Any:
    """The stream's block, to be kept until the work is queued; None where there is none of at least `nbytes`.

    Nothing is allocated, so that a stream that may be captured can be asked for. Captured work must not use it.
    """
    with _lock:
        found = _held.get((device, stream))
        if found is None or found.nbytes < nbytes:
            return None
        _held.move_to_end((device, stream))
        return found


def held_bytes(device: int) -> int:
    """Bytes of all blocks on a device."""
    with _lock:
        return sum(block.nbytes for (where, _), block in _held.items() if where == device)


def release(device: int) -> None:
    """Free the device's blocks, each in the order of its stream."""
    with _lock:
        for key in [key for key in _held if key[0] == device]:
            del _held[key]
