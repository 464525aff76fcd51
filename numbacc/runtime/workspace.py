"""Scratch memory for libraries: one block per stream and thread, from the pool, that all operations there share.

What one thread queues on a stream runs in order, so its next operation may write where the last one did. (What two
threads queue there may be interleaved, kernel by kernel, and one operation may be several kernels.) A block grows when
more is asked for; the old one is freed in the order of its stream, which must still exist then: numbacc keeps stream
objects alive, of a stream given as an integer the caller must. Work that is captured into a graph gets memory of the
graph's own, since the graph may run when the block is gone.

A second block of a stream and thread is clear: full of 0 before every operation, each of which leaves it so. Nothing is
queued to clear it but when it is new; in a graph, whose memory others have had, before each use.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from ..base.dispatch import runtime

Result = TypeVar("Result")

#: Blocks that are kept, and their bytes, at most; the one used longest ago goes first.
MAX_BLOCKS = 32
_limit = 1 << 30

#: (device, stream, thread) -> block; (device, stream, thread, True) -> the clear one.
_held: OrderedDict[tuple[int, ...], Any] = OrderedDict()
#: The end of its key, of a block that is clear or not.
_KIND: tuple[tuple[int, ...], tuple[int, ...]] = ((), (True,))
#: The `id` of the block that was moved to the end of these last: most calls use the one that the last call used.
_recent = 0
#: Reentrant: what is freed under it is finalized there, and may come back here.
_lock = threading.RLock()


class _Thread(threading.local):
    """The token of a thread in the keys of blocks; its blocks are freed when the thread ends."""

    def __init__(self) -> None:
        self.token = _Token()


class _Token:
    """What ends with its thread.

    A later thread may have its number, and then even its blocks, behind all that it queued.
    """

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def __del__(self, held: Any = _held, lock: Any = _lock) -> None:
        # The default arguments outlive this module: the last thread ends with the interpreter.
        with lock:
            for key in [key for key in held if key[2] == self.thread]:
                del held[key]


_thread = _Thread()


def run(launch: Callable[[int], Result], nbytes: int, device: int, stream: int, clear: bool = False) -> Result:
    """`launch(address)` with `nbytes` of scratch memory, which it may use in the order of the stream.

    Where it is `clear` it is full of 0, and `launch` leaves it so.

    Raises:
        DeviceError: not enough GPU memory.
    """
    global _recent
    if not nbytes:
        return launch(0)
    # The local name keeps the block alive until the work is queued, whatever another thread makes of `_held`.
    block = None if runtime().is_capturing(stream) else held(nbytes, device, stream, clear)
    if block is None:
        # For a capture this is the graph's memory, which later work in it may have again.
        block = runtime().allocate(nbytes, device, stream)
        if clear:
            runtime().fill(block.address, b"\0", nbytes, device, stream)
        if nbytes <= _limit and not runtime().is_capturing(stream):
            with _lock:
                key = (device, stream, _thread.token.thread, *_KIND[clear])
                _held[key] = block
                _held.move_to_end(key)  # one that has grown was there already
                _recent = id(block)
                _shrink(_limit)
    return launch(block.address)


def held(nbytes: int, device: int, stream: int, clear: bool = False) -> Any:
    """The block of the stream and thread, to be kept until the work is queued; None if there is none of `nbytes`.

    Nothing is allocated, so that a stream that may be captured can be asked for. Captured work must not use it.
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
    """How many bytes of scratch memory are kept between calls, on all devices together; set, if given.

    An operation that needs more gets it, and gives it back when it is done.
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
