"""Copies between host and GPU, copies on the GPU, and fills. They are queued on a stream; the caller orders them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from numbacc_bindings import driver as cuda
from numbacc_bindings.driver import driver

from ..base.observing import observable
from ..errors import UnsupportedError
from .captures import Capture
from .contexts import check_stream, on_stream
from .memory import gpu, keep_until
from .memory_order import DriverEvent, capture_of


@lru_cache(maxsize=64)
def _compiled(function: str, device: int) -> Callable[[int, int, int, int, int], int]:
    """Return a compiled call of a driver function with up to four integers; the second argument is ignored.

    The call returns the function's status, or a negative code if nothing was done.
    """
    made = gpu(device)
    return partial(made.execute, made.context, 0, driver.address(function))


def _copy(function: str, device: int, target: int, source: int, nbytes: int, stream: int) -> None:
    """Queue a copy with one of the driver's functions. The device's context is current."""
    status = _compiled(function, device)(target, 0, source, nbytes, stream)
    if status < 0:
        getattr(driver, function)(target, source, nbytes, stream)
    elif status:
        driver.check(function, status)


def _synchronize(device: int, stream: int) -> None:
    """Wait for a stream. The device's context is current."""
    if _compiled("cuStreamSynchronize", device)(stream, 0, 0, 0, 0):
        driver.cuStreamSynchronize(stream)  # raises an error with the reason


def pointer_attribute(attribute: cuda.PointerAttribute, address: int, device: int) -> int | None:
    """Return CUDA's attribute of an address; None for ordinary memory. The device's context is current."""
    value = ctypes.c_int()
    status = _compiled("cuPointerGetAttribute", device)(ctypes.addressof(value), 0, attribute, address, 0)
    return None if status else value.value


def _address(host: Any) -> int:
    """Return the address of a host array's first byte."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(host))  # takes a third of the time of NumPy's attribute
    except (BufferError, TypeError, ValueError):  # read-only, dtypes of ml_dtypes, Fortran order
        return int(host.ctypes.data)


def _is_pinned(address: int, device: int) -> bool:
    return pointer_attribute(cuda.PointerAttribute.MEMORY_TYPE, address, device) == cuda.MemoryType.HOST


@observable("copy_from_host")
def copy_from_host(storage: Any, address: int, host: np.ndarray[Any, Any], stream: int) -> None:
    """Queue a copy of a contiguous host array. From pinned memory this returns at once, else after reading the array.

    A graph keeps the host array, and reads it at every launch.
    """
    with on_stream(stream, storage.device):
        capture = capture_of(stream, storage.device)
        source = _address(host)
        _copy("cuMemcpyHtoDAsync_v2", storage.device, address, source, host.nbytes, stream)
        if capture is not None:
            capture.keep(host)
        elif _is_pinned(source, storage.device):
            # Keep the array as long as the GPU reads it, but no longer.
            behind = DriverEvent(storage.device)
            behind.record(stream)
            keep_until(behind, host)


@observable("copy_to_host")
def copy_to_host(
    host: np.ndarray[Any, Any],
    address: int,
    device: int,
    stream: int,
    capture: Capture | None = None,
    *,
    call: str = "a copy",
    ordinary: bool = False,
) -> None:
    """Queue a copy into a contiguous host array. Into pinned memory this returns at once, else when the copy is done.

    A graph keeps the host array, and writes to it at every launch. The device's context is current, as inside `using`.

    Args:
        capture: the capture that records the stream's work, or None.
        call: the function that the user called, for messages.
        ordinary: whether the host array is known not to be pinned, so that CUDA need not be asked.

    Raises:
        UnsupportedError: the stream is being captured, and the host array is not pinned.
    """
    check_stream(stream, device)
    target = _address(host)
    pinned = not ordinary and _is_pinned(target, device)
    if capture is not None:
        if not pinned:
            raise UnsupportedError(
                f"{call} inside a graph's capture, where nothing has been computed yet: call it after g.launch(), or "
                "copy into pinned memory: numbacc.asnumpy(x, out=cuda.pinned_array(...))"
            )
        capture.keep(host)
    _copy("cuMemcpyDtoHAsync_v2", device, target, address, host.nbytes, stream)
    if not pinned:
        _synchronize(device, stream)
    elif capture is None:
        behind = DriverEvent(device)
        behind.record(stream)
        keep_until(behind, host)


@observable("copy_on_device")
def copy_on_device(target: int, source: int, nbytes: int, device: int, stream: int) -> None:
    with on_stream(stream, device):
        _copy("cuMemcpyDtoDAsync_v2", device, target, source, nbytes, stream)


@lru_cache(maxsize=64)
def _clearing(device: int) -> Callable[[int, int, int, int, int], int]:
    """Return a compiled call of cuMemsetD8Async, which does nothing if the stream is being captured."""
    made = gpu(device)
    return partial(made.execute, made.context, driver.address("cuStreamIsCapturing"), driver.address("cuMemsetD8Async"))


@observable("clear")
def clear(address: int, nbytes: int, device: int, stream: int) -> int:
    """Queue a fill with 0 of memory that only this stream uses, and return 0.

    Any other status means that nothing was done: the stream is being captured, or the call failed. `fill` finds why.
    """
    return _clearing(device)(address, stream, 0, nbytes, stream)


@observable("fill")
def fill(address: int, pattern: bytes, count: int, device: int, stream: int) -> None:
    """Queue a fill with `count` repetitions of a pattern of 1, 2, 4, 8 or 16 bytes."""
    value = int.from_bytes(pattern[:4], "little")
    with on_stream(stream, device):
        if len(set(pattern)) == 1:
            driver.cuMemsetD8Async(address, pattern[0], count * len(pattern), stream)
        elif len(pattern) == 2:
            driver.cuMemsetD16Async(address, value, count, stream)
        elif len(pattern) == 4:
            driver.cuMemsetD32Async(address, value, count, stream)
        else:
            # Each 32-bit column of the pattern is a strided column of words.
            for start in range(0, len(pattern), 4):
                word = int.from_bytes(pattern[start : start + 4], "little")
                driver.cuMemsetD2D32Async(address + start, len(pattern), word, 1, count, stream)
