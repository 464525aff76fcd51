"""Scratch memory for libraries: one block from the pool per stream and thread, shared by all operations there.

Work that one thread queues on a stream runs in order, so the next operation may reuse the block of the last one. (Work
of two threads on one stream may be interleaved kernel by kernel, and an operation may consist of several kernels.) A
block grows when an operation needs more. The old block is freed in the order of its stream, which must still exist
then. numbacc keeps stream objects alive; for a stream given as an integer, the caller must do so. Work that is captured
into a graph uses memory of the graph, since the graph may run after the block is freed.

Each stream and thread can have a second block that is clear: it is all 0 before every operation, and each operation
leaves it so. It is filled with 0 only when it is new. In a graph, where other work may have used the memory, it is
filled before each use.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from ..base.dispatch import runtime

Result = TypeVar("Result")

#: The most blocks that are kept, and the most bytes. The block unused for longest is freed first.
MAX_BLOCKS = 32
_limit = 1 << 30

#: (device, stream, thread) -> block; (device, stream, thread, True) -> the clear block.
_held: OrderedDict[tuple[int, ...], Any] = OrderedDict()
#: The end of a block's key, indexed by whether the block is clear.
_KIND: tuple[tuple[int, ...], tuple[int, ...]] = ((), (True,))
#: The `id` of the block that was moved to the end last: most calls use the block of the previous call.
_recent = 0
#: Reentrant: finalizers of objects freed under the lock may need it, too.
_lock = threading.RLock()


class _Thread(threading.local):
    """The thread's token in the keys of blocks. The blocks are freed when the thread ends."""

    def __init__(self) -> None:
        self.token = _Token()


class _Token:
    """An object that is deleted when its thread ends.

    A later thread may get the same number, and may even reuse the blocks, after all work that the thread queued.
    """

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def __del__(self, held: Any = _held, lock: Any = _lock) -> None:
        # The default arguments outlive this module: the last thread ends at interpreter exit.
        with lock:
            for key in [key for key in held if key[2] == self.thread]:
                del held[key]


_thread = _Thread()


def run(launch: Callable[[int], Result], nbytes: int, device: int, stream: int, clear: bool = False) -> Result:
    """Call `launch(address)` with `nbytes` of scratch memory, which its work may use in the order of the stream.

    If `clear`, the memory is all 0, and `launch` leaves it so.

    Raises:
        DeviceError: not enough GPU memory.
    """
    global _recent
    if not nbytes:
        return launch(0)
    # The variable `block` keeps the block alive until the work is queued, even if another thread changes `_held`.
    block = None if runtime().is_capturing(stream) else held(nbytes, device, stream, clear)
    if block is None:
        # In a capture this is the graph's memory, which later work in the capture may reuse.
        block = runtime().allocate(nbytes, device, stream)
        if clear:
            runtime().fill(block.address, b"\0", nbytes, device, stream)
        if nbytes <= _limit and not runtime().is_capturing(stream):
            with _lock:
                key = (device, stream, _thread.token.thread, *_KIND[clear])
                _held[key] = block
                _held.move_to_end(key)  # a block that has grown replaces an old one
                _recent = id(block)
                _shrink(_limit)
    return launch(block.address)


def held(nbytes: int, device: int, stream: int, clear: bool = False) -> Any:
    """Return the block of the stream and thread, to be kept until the work is queued; None if none has `nbytes`.

    This allocates nothing, so it may be called for a stream that may be captured. Captured work must not use the block.
    """
    global _recent
    key = (device, stream, threading.get_ident(), *_KIND[clear])
    found = _held.get(key)
    if found is None or found.nbytes < nbytes:
        return None
    if _recent != id(found):
        with _lock:
            if _held.get(key) is found:
                _held.move_to_end(key)
                _recent = id(found)
    return found


def _shrink(limit: int) -> None:
    while len(_held) > MAX_BLOCKS or sum(block.nbytes for block in _held.values()) > limit:
        _held.popitem(last=False)


def limit(nbytes: int | None = None) -> int:
    """Set, if given, and return the limit of scratch memory kept between calls, in bytes, over all devices.

    An operation that needs more gets it, and frees it when it is done.
    """
    global _limit
    with _lock:
        if nbytes is not None:
            _limit = nbytes
            _shrink(nbytes)
        return _limit


def release(device: int) -> None:
    """Free the device's blocks, each in the order of its stream."""
    with _lock:
        for key in [key for key in _held if key[0] == device]:
            del _held[key]
