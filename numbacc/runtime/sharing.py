"""Memory that other libraries use, too: theirs taken over, ours given out, in one order with their work."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError
from . import streams
from .captures import capture_on, may_capture
from .contexts import on_device
from .memory import keep_until
from .memory_order import History, capture_of, point_behind
from .streams import check_consumer, check_producer, foreign, owner_of


class Borrowed(History):
    """Another library's memory: kept alive here, freed there. Stands in for `Storage`.

    The stream that the library works on is this memory's partner, and our work on other streams is in its order.
    """

    __slots__ = ("_owner", "address", "nbytes")

    def __init__(self, owner: object, address: int, device: int, stream: int, producer: int | None):
        self._owner, self.address = owner, address
        self.device, self.stream = device, stream
        self._uses = ()
        self.partners = () if producer is None else (producer,)
        self.sole = stream if producer is None or producer == stream else None
        if foreign:
            self._stream_owner = owner_of(stream)


class Entrusted(Borrowed):
    """Memory whose library has put its own work before ours, on a stream that is not known.

    The library's object is kept until ours is done.
    """

    __slots__ = ()

    # Only here: every tensor that is passed to a call makes one of the others, and finalizers take time.
    def __del__(self) -> None:
        try:
            self._keep_owner()
        except Exception:
            pass  # interpreter exit, as in Storage

    def _keep_owner(self) -> None:
        if self.sole is not None:
            with on_device(self.device):
                capture = capture_of(self.sole, self.device)
                if capture is not None and capture.before is None:
                    # What others capture: nothing can be noted behind what was queued before.
                    capture.keep(self._owner)
                    return
                # What a capture uses, it keeps; what was queued before it ends at its begin.
                keep_until(point_behind(self.sole, self.device), self._owner)
        for use in self._uses:
            keep_until(use.event, self._owner)
        for partner in self.partners:
            with on_device(self.device):
                if not capture_on(partner)[0]:
                    keep_until(point_behind(partner, self.device), self._owner)


def borrow(owner: object, address: int, device: int, stream: int, producer: int | None, name: str) -> Borrowed:
    """Another library's memory, to be used on `stream` first.

    Raises:
        UnsupportedError: the library works on CUDA's per-thread default stream; or it captures a graph, which our
        work on another stream would not be part of.
    """
    if producer == stream == 0:  # the rule: CUDA's default stream, which nobody ends
        return Borrowed(owner, address, device, stream, producer)
    check_producer(producer, name)
    if producer is None:
        return Entrusted(owner, address, device, stream, None)
    if producer != stream and capture_on(producer)[0]:
        raise UnsupportedError(
            f"{name}'s library is capturing stream {producer:#x} into a graph, of which work on another stream would "
            "not be part: pass stream= the captured one, in torch stream=torch.cuda.current_stream()"
        )
    memory = Borrowed(owner, address, device, stream, producer)
    if producer:
        memory.keep(streams.library_owner(producer))
    return memory


def order_outside(stream: int, device: int) -> int:
    """The stream whose order an array's producer is to be put in: of a capture, that of its memory."""
    capture = capture_of(stream, device)
    return stream if capture is None else capture.home


def share(storage: Any, consumer: int) -> int | None:
    """Put a consumer's stream behind all work on memory, and let it be the memory's partner: returns it then.

    A consumer that is being captured keeps the memory instead; its graph's order is its launcher's.

    Raises:
        BufferError: it is CUDA's per-thread default stream.
    """
    if storage.sole == consumer and not may_capture()(consumer):
        storage.share(consumer)
        return consumer
    check_consumer(consumer)
    with on_device(storage.device):
        capture = capture_of(consumer, storage.device)
        if capture is not None:
            capture.use(storage, True, consumer)
            return None
        storage.share(consumer)
        return consumer


def settle(storage: Any) -> int:
    """The stream that memory's consumers by the CUDA array interface are to wait for: it waits for all work on it."""
    home = int(storage.stream)
    with on_device(storage.device):
        for stream in streams.library_streams(storage.device) - {home, *storage.block.partners}:
            storage.keep(streams.library_owner(stream))
            storage.share(stream)
        if storage.sole is None:
            storage.before(home, True)
    return home
