"""GPUs and their contexts, through the CUDA driver."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from numbacc_bindings import driver as cuda
from numbacc_bindings.driver import CaptureMode, DriverError, driver

from ..errors import DeviceError


def call(function: Any, *arguments: Any) -> int:
    """Call a function that writes its result, of up to 64 bits, to its first parameter. Return the result."""
    # Each call has its own word: garbage collection may run between the call and the read of its result, and finalizers
    # make calls, too.
    word = ctypes.c_uint64()
    function(ctypes.addressof(word), *arguments)
    return word.value


@lru_cache(maxsize=1)
def device_count() -> int:
    """Return the number of GPUs; 0 without a driver."""
    try:
        driver.cuInit(0)
        count = call(driver.cuDeviceGetCount)
    except DriverError as error:
        if error.status == cuda.Status.ERROR_NOT_INITIALIZED:
            # CUDA reports this in a forked child if another library had used CUDA in the parent.
            _refuse_after_fork()
            raise _forked() from error
        return 0
    if count:
        os.register_at_fork(after_in_child=_refuse_after_fork)
    return count


def _refuse_after_fork() -> None:
    """Make all calls of the driver raise an error: CUDA does not survive a fork, and they would fail or hang."""
    driver.refuse(_forked)


def _forked() -> DeviceError:
    return DeviceError(
        "this process was forked from one that had used CUDA, and a forked child cannot use CUDA. Spawn processes: "
        'multiprocessing.get_context("spawn"), or fork before the first use of a GPU; NumPy arrays work here'
    )


def require_device(device: int) -> None:
    """Raise DeviceError unless the GPU exists."""
    count = device_count()
    if not 0 <= device < count:
        found = f"this machine has {count}, numbered from 0" if count else "no GPU was found"
        raise DeviceError(f"cuda:{device} does not exist: {found}; `python -m numbacc info` shows details")


def device_name(device: int) -> str:
    text = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(ctypes.addressof(text), 256, device)
    return text.value.decode()


@lru_cache(maxsize=64)
def device_attribute(attribute: cuda.DeviceAttribute, device: int) -> int:
    return call(driver.cuDeviceGetAttribute, attribute, device)


@lru_cache(maxsize=64)
def capability(device: int) -> tuple[int, int]:
    """Return the GPU's compute capability, (major, minor)."""
    return (
        device_attribute(cuda.DeviceAttribute.COMPUTE_CAPABILITY_MAJOR, device),
        device_attribute(cuda.DeviceAttribute.COMPUTE_CAPABILITY_MINOR, device),
    )


def check_capability(dtype: str, oldest: tuple[int, int], device: int) -> None:
    """Raise DeviceError if the GPU's hardware does not support the dtype."""
    found = capability(device)
    if found < oldest:
        raise DeviceError(
            f"{dtype} needs a GPU of compute capability {oldest[0]}.{oldest[1]} or newer; "
            f"cuda:{device} ({device_name(device)}) has {found[0]}.{found[1]}. "
            "Use float16 or float32 there"
        )


@lru_cache(maxsize=64)
def primary_context(device: int) -> int:
    """Return the device's primary context, which every library in the process shares."""
    require_device(device)
    return call(driver.cuDevicePrimaryCtxRetain, device)


#: Holds, once native code is loaded, a function that tests quickly whether a context is the current one.
_is_current: list[Callable[[int], int]] = []


def is_current(device: int) -> bool:
    """Return True if the device's context is current in this thread; False also if only the driver could find out."""
    return bool(_is_current and _is_current[0](primary_context(device)))


#: The result of the last call of `current_device`: the device, and its context.
_recent: tuple[int, int] | None = None


def current_device() -> int:
    """Return the GPU of this thread's current context, or 0 without a context."""
    global _recent
    recent = _recent
    if recent is not None and _is_current and _is_current[0](recent[1]):
        return recent[0]
    require_device(0)
    context = call(driver.cuCtxGetCurrent)
    if not context:
        return 0
    device = call(driver.cuCtxGetDevice)
    if context == primary_context(device):
        _recent = device, context
    return device


def select_device(device: int) -> None:
    """Make the GPU the current one of this thread, until another one is made current."""
    require_device(device)
    driver.cuCtxSetCurrent(primary_context(device))


def pci_address(device: int) -> str:
    """Return the address of the GPU in its host, which is the same in all processes."""
    names = (cuda.DeviceAttribute.PCI_DOMAIN_ID, cuda.DeviceAttribute.PCI_BUS_ID, cuda.DeviceAttribute.PCI_DEVICE_ID)
    return ":".join(f"{device_attribute(name, device):x}" for name in names)


class on_device:
    """A context manager that makes the device's context current.

    In a thread without a context, the context of GPU 0 stays current afterwards. It is the thread's default anyway, and
    the next call is shorter. The context of another GPU does not stay, since new arrays would go to that GPU.
    """

    __slots__ = ("_context", "_pushed", "device")

    def __init__(self, device: int):
        self.device = device
        self._context = primary_context(device)
        self._pushed = False

    def __enter__(self) -> None:
        if is_current(self.device):
            return
        current = call(driver.cuCtxGetCurrent)
        if current == self._context:
            return
        if not current and not self.device:
            driver.cuCtxSetCurrent(self._context)
        else:
            driver.cuCtxPushCurrent_v2(self._context)
            self._pushed = True

    def __exit__(self, *error: object) -> None:
        if self._pushed:
            call(driver.cuCtxPopCurrent_v2)


def device_of_stream(stream: int) -> int:
    """Return the GPU that a stream belongs to. For the default stream, which every GPU has, this is the current one."""
    if not stream:
        return current_device()
    driver.cuCtxPushCurrent_v2(call(lambda context: driver.cuStreamGetCtx(stream, context)))
    try:
        return call(driver.cuCtxGetDevice)
    finally:
        call(driver.cuCtxPopCurrent_v2)


#: The GPUs of the streams that numbacc has made. These streams are never destroyed, so their handles stay valid.
stream_devices: dict[int, int] = {}


def check_stream(stream: int, device: int) -> None:
    """Raise DeviceError if a stream belongs to another GPU.

    For kernels on such a stream CUDA returns a status that has many meanings. Copies to and from the host succeed.
    """
    other = stream_devices.get(stream)
    if other is None:
        other = device_of_stream(stream) if stream and device_count() > 1 else device
    if other != device:
        raise DeviceError(
            f"the stream {stream:#x} belongs to cuda:{other} and the arrays are on cuda:{device}: pass a stream of "
            f"that GPU, numbacc.stream(device={device})"
        )


class on_stream(on_device):
    """The context manager `on_device`, which also checks that a stream belongs to the device.

    Raises:
        DeviceError: the stream belongs to another GPU.
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: int, device: int):
        super().__init__(device)
        self._stream = stream

    def __enter__(self) -> None:
        check_stream(self._stream, self.device)
        super().__enter__()


@contextmanager
def relaxed() -> Iterator[None]:
    """Allow this thread, inside `with`, calls that a capture forbids, such as allocating or loading a module."""
    mode = ctypes.c_int(CaptureMode.RELAXED)
    driver.cuThreadExchangeStreamCaptureMode(ctypes.addressof(mode))
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(ctypes.addressof(mode))
