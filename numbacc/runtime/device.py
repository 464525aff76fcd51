"""The runtime on a real GPU, through the CUDA driver. `simulator` offers the same functions for Numba's simulator.

`runtime()` returns the one that is active. Addresses, streams and devices are plain integers here.
"""

from __future__ import annotations

from numbacc_bindings.driver import driver

from . import captures
from .contexts import (
    call,
    capability,
    check_capability,
    current_device,
    device_attribute,
    device_count,
    device_name,
    device_of_stream,
    on_device,
    pci_address,
    relaxed,
    require_device,
    select_device,
)
from .graph_capture import Recording
from .memory import Storage, allocate, gpu, keep_until, memory_info, peak_bytes, pool_bytes, release_memory, with_room
from .memory_order import DriverEvent, create_stream, nearest_priority, note, priority_of, synchronize, using, wait
from .sharing import borrow, order_outside, settle, share
from .transfers import clear, copy_from_host, copy_on_device, copy_to_host, fill, pointer_attribute

__all__ = [
    "DriverEvent",
    "Recording",
    "Storage",
    "allocate",
    "borrow",
    "call",
    "capability",
    "capture_number",
    "check_capability",
    "check_launch",
    "clear",
    "copy_from_host",
    "copy_on_device",
    "copy_to_host",
    "create_stream",
    "current_device",
    "device_attribute",
    "device_count",
    "device_name",
    "device_of_stream",
    "fill",
    "gpu",
    "is_capturing",
    "keep_until",
    "memory_info",
    "nearest_priority",
    "note",
    "on_device",
    "order_outside",
    "pci_address",
    "peak_bytes",
    "pointer_attribute",
    "pool_bytes",
    "priority_of",
    "relaxed",
    "release_memory",
    "require_device",
    "select_device",
    "settle",
    "share",
    "synchronize",
    "using",
    "wait",
    "with_room",
]


def check_launch(status: int) -> None:
    """Raise DriverError unless a launch's status is 0."""
    driver.check("cuLaunchKernelEx", status)


def is_capturing(stream: int) -> bool:
    """Return True while the stream's work is recorded into a graph.

    Raises:
        UnsupportedError: see `captures.capture_on`.
    """
    return captures.capture_on(stream)[0] != 0


def capture_number(stream: int) -> int:
    """Return a number that identifies the capture that records the stream's work, or 0 without a capture.

    Raises:
        UnsupportedError: see `captures.capture_on`.
    """
    return captures.capture_on(stream)[0]
