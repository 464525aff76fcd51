"""Events: points in a stream's queue, to wait for and to measure between."""

from __future__ import annotations

import ctypes

from numbacc_bindings.driver import EventFlag, driver

from .contexts import call, on_device
from .ownership import NotCopied


class Event(NotCopied):
    """A point in a stream's queue."""

    __slots__ = ("device", "handle")

    _instead = "record another"

    def __init__(self, device: int, flags: int = EventFlag.DISABLE_TIMING):
        self.handle = 0
        self.device = device
        with on_device(device):
            self.handle = call(driver.cuEventCreate, flags)

    def record(self, stream: int) -> None:
        with on_device(self.device):
            driver.cuEventRecord(self.handle, stream)

    def wait(self, stream: int) -> None:
        """Make `stream` wait for this point."""
        driver.cuStreamWaitEvent(stream, self.handle, 0)

    def synchronize(self) -> None:
        driver.cuEventSynchronize(self.handle)

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from `start` to this point, both timed and reached."""
        result = ctypes.c_float()
        driver.cuEventElapsedTime(ctypes.addressof(result), start.handle, self.handle)
        return result.value

    def __del__(self) -> None:
        if self.handle:
            try:
                driver.cuEventDestroy_v2(self.handle)
            except Exception:
                pass  # interpreter exit, as in Storage
