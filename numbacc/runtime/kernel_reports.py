"""Reports of kernels that end with an error, in host memory: of waits for an mbarrier that took too long.

After an error in a kernel the GPU's memory is lost, and host memory is not. The driver's error messages then include
the report. Each loaded module has its own report, which tells the kernel that has written it.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from contextlib import suppress
from typing import Any

from numbacc_bindings import driver as bindings
from numbacc_bindings.driver import driver

from ..errors import Error
from .contexts import call

__all__ = ["connect", "try_to_connect"]

#: The alignment of dynamic shared memory, and the first address that a block may use.
_SHARED_ALIGNMENT = 1024
#: Kernels write this number if the line is not known: see `kernels.primitives.device.barriers`.
_UNKNOWN_LINE = 2**31


class Report(ctypes.Structure):
    """The memory that a kernel writes. `line` is 0 before, and written last."""

    _fields_ = (
        ("line", ctypes.c_uint),
        ("unused", ctypes.c_uint),
        ("mbarrier", ctypes.c_uint),
        ("parity", ctypes.c_uint),
        ("thread", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("room", ctypes.c_uint * 6),
    )

    def text(self, kernel: str, static_bytes: int | None) -> str:
        """Return the report in words, or "" if no kernel has written it.

        Args:
            kernel: the kernel's name.
            static_bytes: of the kernel's shared memory, if they are known. The dynamic memory follows them.
        """
        if not self.line:
            return ""
        place = f"shared address {self.mbarrier}"
        if static_bytes is not None:
            # In a cluster the higher bits of an address are the block's rank.
            dynamic = _SHARED_ALIGNMENT + static_bytes + -static_bytes % _SHARED_ALIGNMENT
            if (self.mbarrier & 0xFFFFFF) >= dynamic:
                place = f"dynamic_shared() + {(self.mbarrier & 0xFFFFFF) - dynamic}"
        line = f" in line {self.line}" if self.line != _UNKNOWN_LINE else ""
        return (
            f"kernel {kernel}: thread {tuple(self.thread)} of block {tuple(self.block)} waited 4 seconds{line} for "
            f"parity {self.parity} of the mbarrier at {place}: its phase lacks arrivals or bytes"
        )


class _Reports:
    """The reports of all modules, in pages of host memory that GPUs can write."""

    def __init__(self) -> None:
        self._only_one = threading.Lock()
        #: (pages, their address for GPUs, how many reports are in use) of the newest memory.
        self._newest: tuple[mmap.mmap, int, int] | None = None
        self._all: list[tuple[Report, str, int | None]] = []

    def add(self, kernel: str, static_bytes: int | None) -> int:
        """Make a report. Return its address for GPUs. A context is current."""
        size = ctypes.sizeof(Report)
        with self._only_one:
            if self._newest is None or size * (self._newest[2] + 1) > mmap.PAGESIZE:
                self._newest = self._new_page()
            pages, address, count = self._newest
            self._newest = pages, address, count + 1
            self._all.append((Report.from_buffer(pages, size * count), kernel, static_bytes))
        return address + size * count

    def _new_page(self) -> tuple[mmap.mmap, int, int]:
        pages = mmap.mmap(-1, mmap.PAGESIZE)
        host = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        flags = bindings.MEMHOSTREGISTER_PORTABLE | bindings.MEMHOSTREGISTER_DEVICEMAP
        driver.cuMemHostRegister_v2(host, mmap.PAGESIZE, flags)
        if self._newest is None:
            bindings.reports.append(self.text)
        return pages, int(call(driver.cuMemHostGetDevicePointer_v2, host, 0)), 0

    def text(self) -> str:
        """Return what kernels have reported, or ""."""
        return "; ".join(filter(None, [report.text(kernel, nbytes) for report, kernel, nbytes in self._all]))


_reports = _Reports()


def connect(module: int, name: str, kernel: str, static_bytes: int | None, *, is_library: bool = False) -> None:
    """Store the address of a new report in a variable of a kernel's module. A context is current.

    Args:
        module: the driver's handle of a module, or of a library.
        kernel, static_bytes: the kernel's name, and the bytes of its static shared memory if they are known.
    """
    find: Any = driver.cuLibraryGetGlobal if is_library else driver.cuModuleGetGlobal_v2
    place, size = ctypes.c_uint64(), ctypes.c_size_t()
    find(ctypes.addressof(place), ctypes.addressof(size), module, name.encode())
    word = ctypes.c_uint64(_reports.add(kernel, static_bytes))
    driver.cuMemcpyHtoD_v2(place.value, ctypes.addressof(word), 8)


def try_to_connect(module: int, name: str, kernel: str, is_library: bool) -> None:
    """Do as `connect` for a kernel that Numba has loaded. If that fails, the kernel ends without a report."""
    with suppress(Error):
        connect(module, name, kernel, None, is_library=is_library)
