"""Host memory in which kernels report why they end with an error: a wait for an mbarrier that took too long.

After an error in a kernel the GPU's memory is lost, and host memory is not. The driver's error messages then include
the report.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import lru_cache

from numbacc_bindings import driver as bindings
from numbacc_bindings.driver import driver

from .contexts import call

__all__ = ["connect"]


class Report(ctypes.Structure):
    """What a kernel writes, in the order of its memory."""

    _fields_ = (
        ("is_written", ctypes.c_uint),
        ("unused", ctypes.c_uint),
        ("mbarrier", ctypes.c_uint),
        ("parity", ctypes.c_uint),
        ("thread", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
    )

    def __str__(self) -> str:
        if not self.is_written:
            return ""
        return (
            f"thread {tuple(self.thread)} of block {tuple(self.block)} waited 4 seconds in mbarrier_wait_parity for "
            f"parity {self.parity} of the mbarrier at shared address {self.mbarrier}: its phase lacks arrivals or bytes"
        )


@lru_cache(maxsize=1)
def _memory() -> tuple[mmap.mmap, Report, int]:
    """Make the memory: (pages, the report in them, their address for GPUs). A context is current."""
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    report = Report.from_buffer(pages)
    flags = bindings.MEMHOSTREGISTER_PORTABLE | bindings.MEMHOSTREGISTER_DEVICEMAP
    driver.cuMemHostRegister_v2(ctypes.addressof(report), mmap.PAGESIZE, flags)
    bindings.reports.append(lambda: str(report))
    return pages, report, call(driver.cuMemHostGetDevicePointer_v2, ctypes.addressof(report), 0)


def connect(module: int, name: str) -> None:
    """Store the memory's address in a variable of a kernel's module."""
    place, size = ctypes.c_uint64(), ctypes.c_size_t()
    driver.cuModuleGetGlobal_v2(ctypes.addressof(place), ctypes.addressof(size), module, name.encode())
    word = ctypes.c_uint64(_memory()[2])
    driver.cuMemcpyHtoD_v2(place.value, ctypes.addressof(word), 8)
