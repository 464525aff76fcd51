"""GPUs and their contexts, over the CUDA driver."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from numbacc_bindings import driver as cuda
from numbacc_bindings.driver import DriverError, driver

from .errors import DeviceError


class _Cell(threading.local):
    """A word of memory for drivers' results, one a thread."""

    def __init__(self) -> None:
        self.word = ctypes.c_uint64()
        self.address = ctypes.addressof(self.word)


_cell = _Cell()


def call(function: Any, *arguments: Any) -> int:
    """Call a function whose first parameter receives a result of up to 64 bits."""
    cell = _cell
    cell.word.value = 0
    function(cell.address, *arguments)
    return int(cell.word.value)


@lru_cache(maxsize=1)
def device_count() -> int:
    """How many GPUs there are; 0 without a driver."""
    try:
        driver.cuInit(0)
        return call(driver.cuDeviceGetCount)
    except DriverError:
        return 0


def require_device(device: int) -> None:
    """Raise DeviceError unless the GPU exists."""
    count = device_count()
    if not 0 <= device < count:
        found = f"there are {count}, numbered from 0" if count else "no GPU was found"
        raise DeviceError(f"cuda:{device} does not exist: {found}; `python -m numbacc info` tells more")


def device_name(device: int) -> str:
    text = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(ctypes.addressof(text), 256, device)
    return text.value.decode()


@lru_cache(maxsize=64)
def device_attribute(attribute: cuda.DeviceAttribute, device: int) -> int:
    return call(driver.cuDeviceGetAttribute, attribute, device)


@lru_cache(maxsize=64)
def capability(device: int) -> tuple[int, int]:
    """The GPU's compute capability, (major, minor)."""
    return (
        device_attribute(cuda.DeviceAttribute.COMPUTE_CAPABILITY_MAJOR, device),
        device_attribute(cuda.DeviceAttribute.COMPUTE_CAPABILITY_MINOR, device),
    )


def check_capability(dtype: str, oldest: tuple[int, int], device: int) -> None:
    """Raise DeviceError where the GPU's hardware does not know the dtype."""
    found = capability(device)
    if found < oldest:
        raise DeviceError(
            f"{dtype} needs a GPU of compute capability {oldest[0]}.{oldest[1]} or newer; "
            f"cuda:{device} ({device_name(device)}) has {found[0]}.{found[1]}. "
            "Use float16 or float32 there"
        )


@lru_cache(maxsize=64)
def primary_context(device: int) -> int:
    """The device's primary context, which every library in the process shares."""
    require_device(device)
    return call(driver.cuDevicePrimaryCtxRetain, device)


@lru_cache(maxsize=64)
def _device_of_context(context: int) -> int:
    for device in range(device_count()):
        if primary_context(device) == context:
            return device
    return 0


def current_device() -> int:
    """The GPU whose context is current in this thread, else 0."""
    require_device(0)
    context = call(driver.cuCtxGetCurrent)
    return _device_of_context(context) if context else 0


@contextmanager
def on_device(device: int) -> Iterator[None]:
    """The device's context made current for a while; a thread that has none keeps it."""
    context = primary_context(device)
    current = call(driver.cuCtxGetCurrent)
    if current == context:
        yield
    elif not current:
        driver.cuCtxSetCurrent(context)
        yield
    else:
        driver.cuCtxPushCurrent_v2(context)
        try:
            yield
        finally:
            call(driver.cuCtxPopCurrent_v2)
