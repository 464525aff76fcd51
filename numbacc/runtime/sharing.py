"""Memory shared with other libraries, imported or exported, in one order with their work."""

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
    """Another library's memory, used like `Storage`. numbacc keeps it alive, and the library frees it.

    The library's stream is a partner of this memory, so work of numbacc on other streams is ordered with it.
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
    """Memory from a library that has ordered its earlier work before numbacc's, on an unknown stream.

    The library's object is kept until numbacc's work on it is done.
    """

    __slots__ = ()

    # Only this class has a finalizer, because finalizers take time: each tensor passed to a call makes a `Borrowed`.
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
                    # Another library's capture: no event can be recorded after the work queued before it.
                    capture.keep(self._owner)
                    return
                # A capture keeps the memory that it uses. The work queued before it ends where the capture begins.
                keep_until(point_behind(self.sole, self.device), self._owner)
        for use in self._uses:
            keep_until(use.event, self._owner)
        for partner in self.partners:
            with on_device(self.device):
                if not capture_on(partner)[0]:
                    keep_until(point_behind(partner, self.device), self._owner)


def borrow(owner: object, address: int, device: int, stream: int, producer: int | None, name: str) -> Borrowed:
    """Import another library's memory, to be used on `stream` first.

    Raises:
        UnsupportedError: the library works on CUDA's per-thread default stream; or it is capturing a graph, which would
            not include numbacc's work on another stream.
    """
    if producer == stream == 0:  # the usual case: CUDA's default stream, which is never destroyed
        return Borrowed(owner, address, device, stream, producer)
    check_producer(producer, name)
    if producer is None:
        return Entrusted(owner, address, device, stream, None)
    if producer != stream and capture_on(producer)[0]:
        raise UnsupportedError(
            f"{name}'s library is capturing stream {producer:#x} into a graph, which would not include work on another "
            "stream: pass stream= the captured one, in torch stream=torch.cuda.current_stream()"
        )
    memory = Borrowed(owner, address, device, stream, producer)
    if producer:
        memory.keep(streams.library_owner(producer))
    return memory


def order_outside(stream: int, device: int) -> int:
    """Return the stream that an array's producer must order its work before; in a capture, its memory's stream."""
    capture = capture_of(stream, device)
    return stream if capture is None else capture.home


def share(storage: Any, consumer: int) -> int | None:
    """Make a consumer's stream wait for all work on memory, and make it the memory's partner. Return the stream.

    A consumer that is being captured keeps the memory instead, and this returns None. Whoever launches its graph is
    responsible for the order.

    Raises:
        BufferError: the consumer is CUDA's per-thread default stream.
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
    """Return the stream that consumers by the CUDA array interface must wait for. It waits for the memory's work."""
    home = int(storage.stream)
    with on_device(storage.device):
        for stream in streams.library_streams(storage.device) - {home, *storage.block.partners}:
            storage.keep(streams.library_owner(stream))
            storage.share(stream)
        if storage.sole is None:
            storage.before(home, True)
    return home
