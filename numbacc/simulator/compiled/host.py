"""Provide numba.cuda's functions for memory, streams, events and devices on a machine without a GPU.

The device is the CPU. Arrays "on the device" are portable arrays: they hold host memory, and have the methods and
errors of device arrays. A call returns when its work is done, so streams and events have nothing to order.
"""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from ...arrays.portable import PortableArray, of_host
from ...errors import DeviceError, UnsupportedError, shown

__all__ = ["FUNCTIONS"]

#: The names of `from numbacc import cuda` without a GPU, which replace numba.cuda's: name -> function, class or object.
FUNCTIONS: dict[str, Any] = {}

_Thing = TypeVar("_Thing")


def _public(thing: _Thing) -> _Thing:
    FUNCTIONS[thing.__name__] = thing  # type: ignore[attr-defined]
    return thing


@functools.cache
def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


# ---------------------------------------------------------------- arrays


@_public
def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> Any:
    """Copy an array to the device, which is the CPU. Return an array on the device unchanged."""
    if to is not None:
        to.copy_to_device(obj)
        return to
    if isinstance(obj, PortableArray):
        return obj
    host = np.asarray(obj)
    return of_host(host.copy("K") if copy else np.empty_like(host))


@_public
def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> PortableArray:
    """Return an uninitialized array on the device."""
    if strides is None:
        return of_host(np.empty(shape, dtype, order))  # type: ignore[call-overload]
    lengths = tuple(np.atleast_1d(shape))
    reach = sum((n - 1) * step for n, step in zip(lengths, strides, strict=True))
    memory = np.empty(int(reach) + np.dtype(dtype).itemsize, np.uint8)
    return of_host(np.ndarray(lengths, dtype, memory, 0, strides))


@_public
def device_array_like(ary: Any, stream: Any = 0) -> PortableArray:
    """Return an uninitialized array on the device with the shape, dtype and order of another array."""
    return of_host(np.empty_like(ary.host if isinstance(ary, PortableArray) else ary))


@_public
def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> np.ndarray[Any, Any]:
    """Return an uninitialized NumPy array."""
    return device_array(shape, dtype, strides, order).host


@_public
def pinned_array_like(ary: Any) -> np.ndarray[Any, Any]:
    """Return an uninitialized NumPy array with the shape, dtype and order of another array."""
    return device_array_like(ary).host


@_public
def mapped_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0,
    portable: bool = False, wc: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """Return an uninitialized NumPy array. Host and device share it."""
    return device_array(shape, dtype, strides, order).host


@_public
def mapped_array_like(ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False) -> np.ndarray[Any, Any]:
    """Return an uninitialized NumPy array with another array's shape, dtype and order. Host and device share it."""
    return device_array_like(ary).host


@_public
def managed_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0,
    attach_global: bool = True,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """Return an uninitialized NumPy array. Host and device share it."""
    return device_array(shape, dtype, strides, order).host


@_public
@contextmanager
def pinned(*arrays: Any) -> Iterator[None]:
    """Do nothing, because only a GPU's copies need pinned memory."""
    yield


@_public
@contextmanager
def mapped(*arrays: Any, **options: Any) -> Iterator[Any]:
    """Yield the arrays unchanged: host and device share all memory."""
    yield arrays[0] if len(arrays) == 1 else arrays


@_public
def is_cuda_array(obj: Any) -> bool:
    """Return whether an array is on the device."""
    return isinstance(obj, PortableArray) or hasattr(obj, "__cuda_array_interface__")


@_public
def as_cuda_array(obj: Any, sync: bool = True) -> PortableArray:
    """Return an array on the device unchanged."""
    if not isinstance(obj, PortableArray):
        raise TypeError(f"{shown(obj)} is not an array on the device: cuda.to_device(...) makes one")
    return obj


class _Hint:
    """An argument of a kernel, with the directions that its array is copied."""

    def __init__(self, value: Any):
        self.value = value


@_public
class In(_Hint):
    """An array that a kernel only reads. Changes that the kernel makes are discarded."""


@_public
class Out(_Hint):
    """An array that a kernel only writes. The kernel does not see its old values."""


@_public
class InOut(_Hint):
    """An array that a kernel reads and writes, as all arrays are by default."""


# ---------------------------------------------------------------- streams and events


class HostStream:
    """A queue of work. On the CPU, each call returns when its work is done."""

    handle = 0

    def synchronize(self) -> None:
        """Return at once."""

    def add_callback(self, callback: Callable[..., Any], arg: Any = None) -> None:
        callback(self, 0, arg)

    async def async_done(self) -> None:
        """Return at once."""

    @contextmanager
    def auto_synchronize(self) -> Iterator[HostStream]:
        yield self

    def __int__(self) -> int:
        return 0

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0

    def __repr__(self) -> str:
        return "a stream of the CPU"


for _name in ("stream", "default_stream", "legacy_default_stream", "per_thread_default_stream"):
    FUNCTIONS[_name] = HostStream


@_public
def external_stream(ptr: int) -> HostStream:
    """Raise an error, because other libraries' streams exist only on a GPU.

    Raises:
        DeviceError: always.
    """
    raise DeviceError(f"external_stream({shown(ptr)}): there is no GPU, so no other streams: use cuda.stream()")


class HostEvent:
    """A time on a stream."""

    def __init__(self, timing: bool = True):
        self._seconds = 0.0

    def record(self, stream: Any = 0) -> None:
        self._seconds = time.perf_counter()

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = 0) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""

    def elapsed_time(self, evtend: HostEvent) -> float:
        """Return the milliseconds from this event to another one, measured on the CPU."""
        return (evtend._seconds - self._seconds) * 1000


FUNCTIONS["event"] = HostEvent


@_public
def event_elapsed_time(evtstart: HostEvent, evtend: HostEvent) -> float:
    """Return the milliseconds between two events, measured on the CPU."""
    return evtstart.elapsed_time(evtend)


@_public
def synchronize() -> None:
    """Return at once, because all work is done when a call returns."""


# ---------------------------------------------------------------- devices


class Device:
    """The CPU as a device, with the launch limits that all GPUs share."""

    id = 0
    compute_capability = (8, 0)
    WARP_SIZE = 32
    MAX_THREADS_PER_BLOCK = 1024
    MAX_BLOCK_DIM_X, MAX_BLOCK_DIM_Y, MAX_BLOCK_DIM_Z = 1024, 1024, 64
    MAX_GRID_DIM_X, MAX_GRID_DIM_Y, MAX_GRID_DIM_Z = 2**31 - 1, 65_535, 65_535
    MAX_SHARED_MEMORY_PER_BLOCK = 49_152
    MAX_THREADS_PER_MULTI_PROCESSOR = 2048
    MULTIPROCESSOR_COUNT = cores()
    supports_float16 = supports_bfloat16 = True
    supports_fp8 = False

    @property
    def name(self) -> bytes:
        """The processor's name, which another program tells on some systems."""
        return (platform.processor() or platform.machine() or "CPU").encode()

    def reset(self) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return f"<CUDA device 0 '{self.name.decode()}', simulated>"


class Context:
    """The only context."""

    device = Device()
    id = 0

    def get_memory_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of memory.

        Raises:
            UnsupportedError: the system does not report its memory.
        """
        try:
            page = os.sysconf("SC_PAGE_SIZE")
            return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            raise UnsupportedError("this system does not report how much memory it has") from None

    def synchronize(self) -> None:
        """Return at once."""

    def reset(self) -> None:
        """Do nothing."""

    def push(self) -> None:
        """Do nothing."""

    def pop(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


_context = Context()


class _Devices(list[Device]):
    """All devices: the CPU."""

    lst = property(lambda self: list(self))
    current = property(lambda self: _context)


FUNCTIONS["gpus"] = gpus = _Devices([_context.device])


@_public
def list_devices() -> _Devices:
    """Return the list of devices. It has one device, the CPU."""
    return gpus


@_public
def get_current_device() -> Device:
    """Return the current device, the CPU."""
    return _context.device


@_public
def current_context(devnum: int | None = None) -> Context:
    """Return the only context."""
    return _context


@_public
def select_device(device_id: int) -> Context:
    """Select the only device, 0.

    Raises:
        DeviceError: `device_id` is not 0.
    """
    if device_id != 0:
        raise DeviceError(f"select_device({shown(device_id)}): this machine has no GPU: use device 0, the CPU")
    return _context


@_public
def require_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as it is."""
    return function


@_public
@contextmanager
def defer_cleanup() -> Iterator[None]:
    """Do nothing."""
    yield


@_public
@contextmanager
def profiling() -> Iterator[None]:
    """Do nothing."""
    yield


@_public
def profile_start() -> None:
    """Do nothing."""


@_public
def profile_stop() -> None:
    """Do nothing."""


@_public
def close() -> None:
    """Do nothing."""


@_public
def detect() -> bool:
    """Print the available devices."""
    print(f"Found 1 CUDA device, which numbacc simulates on the CPU:\nid 0    {gpus[0].name.decode()}")
    return True


@_public
def is_available() -> bool:
    """Return True, as Numba's simulator does: kernels can be launched. `numbacc.has_gpu()` reports real GPUs."""
    return True


@_public
def is_supported_version() -> bool:
    """Return True."""
    return True


@_public
def cuda_error() -> None:
    """Return None, because there is no driver that could fail."""


@_public
def is_float16_supported() -> bool:
    """Return True."""
    return True


@_public
def is_bfloat16_supported() -> bool:
    """Return True."""
    return True


@_public
def is_fp8_supported() -> bool:
    """Return False."""
    return False


@_public
class Reduce:
    """A reduction of a 1-D array by a function of two numbers.

    Args:
        functor: the function, plain or decorated with `cuda.jit(device=True)`.
    """

    def __init__(self, functor: Any):
        self._functor = getattr(functor, "py_func", functor)

    def __call__(self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: Any = 0) -> Any:
        host = arr.host if isinstance(arr, PortableArray) else np.asarray(arr)
        if host.ndim != 1:
            raise TypeError(f"arr has {host.ndim} axes; it must have 1")
        found = functools.reduce(self._functor, host[: len(host) if size is None else size], host.dtype.type(init))
        if res is None:
            return found
        res[:1] = found
        return None


FUNCTIONS["reduce"] = Reduce


def names(*more: Sequence[str]) -> list[str]:
    """Return all names of this module and others, sorted."""
    return sorted({*FUNCTIONS, *(name for each in more for name in each)})
