"""Streams and events of the driver: queues, and points in them, to wait for and to measure between."""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque

from numbacc_bindings.driver import EventFlag, StreamFlag, driver

from ..base.ownership import NotCopied
from .contexts import call, on_device, stream_devices

#: Device -> events for ordering that nobody holds any more. The driver is done with what they stood for as soon as they
#: are recorded again: a wait that was queued keeps the point that it was queued for.
_idle: defaultdict[int, deque[int]] = defaultdict(deque)


class Event(NotCopied):
    """A point in a stream's queue."""

    __slots__ = ("_flags", "device", "handle")

    _instead = "record another"

    def __init__(self, device: int, flags: int = EventFlag.DISABLE_TIMING):
        self.handle = 0
        self.device = device
        self._flags = flags
        if flags == EventFlag.DISABLE_TIMING:
            try:
                self.handle = _idle[device].pop()
                return
            except IndexError:
                pass
        with on_device(device):
            self.handle = call(driver.cuEventCreate, flags)

    def record(self, stream: int) -> None:
        """Let this be the point that the stream's queue has reached."""
        with on_device(self.device):
            driver.cuEventRecord(self.handle, stream)

    def wait(self, stream: int, device: int | None = None) -> None:
        """Make `stream` wait for this point. `device` is the stream's GPU where that is not the event's."""
        with on_device(self.device if device is None else device):
            driver.cuStreamWaitEvent(stream, self.handle, 0)

    def is_done(self) -> bool:
        """True if the GPU is past this point."""
        return bool(driver.cuEventQuery(self.handle) == 0)

    def synchronize(self) -> None:
        driver.cuEventSynchronize(self.handle)

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from `start` to this point, both timed and reached."""
        result = ctypes.c_float()
        driver.cuEventElapsedTime(ctypes.addressof(result), start.handle, self.handle)
        return result.value

    def __del__(self) -> None:
        if not self.handle:
            return
        try:
            if self._flags == EventFlag.DISABLE_TIMING:
                _idle[self.device].append(self.handle)
            else:
                driver.cuEventDestroy_v2(self.handle)
        except Exception:
            pass  # interpreter exit, which ends all events


def create_stream(device: int) -> int:
    """A new stream that does not wait for the legacy default stream."""
    with on_device(device):
        handle = call(driver.cuStreamCreate, StreamFlag.NON_BLOCKING)
    stream_devices[handle] = device
    return handle


def synchronize(stream: int, device: int) -> None:
    """Wait on the host for everything queued on the stream."""
    with on_device(device):
        driver.cuStreamSynchronize(stream)


def wait(stream: int, producer: int, device: int, producers_device: int | None = None) -> None:
    """Make `stream` wait for what is queued on `producer` now, which may be a stream of another GPU."""
    other = device if producers_device is None else producers_device
    if (stream, device) != (producer, other):
        event = Event(other)
        event.record(producer)
        event.wait(stream, device)
