"""The real GPU: memory pool, copies, events and streams, over the CUDA driver; devices are in `contexts`.

`simulator` offers the same functions for Numba's simulator; `backend()` says which of the two is in force.
Addresses, streams and devices are plain integers here.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from numbacc_bindings import driver as cuda
from numbacc_bindings.driver import DriverError, driver

from . import workspace
from .contexts import (
    call,
    capability,
    check_capability,
    current_device,
    device_attribute,
    device_count,
    device_name,
    on_device,
    primary_context,
    require_device,
)
from .errors import DeviceError
from .events import Event
from .ownership import ARRAY_INSTEAD, NotCopied
from .streams import foreign, owner_of

__all__ = [
    "Event",
    "Storage",
    "allocate",
    "call",
    "capability",
    "check_capability",
    "check_launch",
    "copy_from_host",
    "copy_on_device",
    "copy_to_host",
    "create_stream",
    "current_device",
    "device_attribute",
    "device_count",
    "device_name",
    "fill",
    "gpu",
    "is_capturing",
    "memory_info",
    "on_device",
    "pool_bytes",
    "release_memory",
    "require_device",
    "run_with_captured_memory",
    "synchronize",
    "wait",
]


# ---------------------------------------------------------------- memory


def _create_pool(device: int) -> int:
    """The device's one pool. It keeps what is freed, for the next allocation, until `release_memory`."""
    with on_device(device):
        if not device_attribute(cuda.DeviceAttribute.MEMORY_POOLS_SUPPORTED, device):
            raise DeviceError(
                f"cuda:{device} ({device_name(device)}) has no stream-ordered memory pools, "
                "which numbacc allocates from"
            )
        properties = cuda.MemoryPoolProperties(
            allocType=cuda.ALLOCATION_TYPE_PINNED,
            location=cuda.MemoryLocation(cuda.LOCATION_TYPE_DEVICE, device),
        )
        pool = call(driver.cuMemPoolCreate, ctypes.addressof(properties))
        threshold = ctypes.c_uint64(2**64 - 1)
        driver.cuMemPoolSetAttribute(pool, cuda.MemoryPoolAttribute.RELEASE_THRESHOLD, ctypes.addressof(threshold))
        return pool


def pool_bytes(device: int) -> tuple[int, int]:
    """(bytes that the pool holds of the GPU's memory, bytes of them in use)."""
    with on_device(device):
        return (
            _read_pool(device, cuda.MemoryPoolAttribute.RESERVED_MEM_CURRENT),
            _read_pool(device, cuda.MemoryPoolAttribute.USED_MEM_CURRENT),
        )


def _read_pool(device: int, attribute: cuda.MemoryPoolAttribute) -> int:
    value = ctypes.c_uint64()
    driver.cuMemPoolGetAttribute(_gpus[device].pool, attribute, ctypes.addressof(value))
    return int(value.value)


def check_launch(status: int) -> None:
    """Raise DriverError unless a launch's status is 0."""
    driver.check("cuLaunchKernelEx", status)


def release_memory(device: int) -> None:
    """Give the pool's unused memory back to the GPU, for other libraries."""
    workspace.release(device)
    with on_device(device):
        driver.cuCtxSynchronize()
        driver.cuMemPoolTrimTo(_gpus[device].pool, 0)


def memory_info(device: int) -> tuple[int, int]:
    """(free, total) bytes of the GPU's memory."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with on_device(device):
        driver.cuMemGetInfo_v2(ctypes.addressof(free), ctypes.addressof(total))
    return free.value, total.value


class Storage(NotCopied):
    """One allocation, freed in the order of its stream when nothing refers to it any more.

    Attributes:
        address: where it starts; 0 where nbytes is 0.
        device: the GPU it is on.
        stream: handle of the stream it was allocated on, and is freed on.
    """

    __slots__ = ("_keep", "_uses", "address", "device", "nbytes", "stream")

    _instead = ARRAY_INSTEAD

    def __init__(self, address: int, nbytes: int, device: int, stream: int):
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self.stream = stream
        #: What must live as long: a foreign stream that the memory will be freed on, a pinned array that is copied.
        self._keep: Any = owner_of(stream) if foreign else None
        #: Stream -> event recorded there after the last use, for streams other than the home one.
        self._uses: dict[int, Event] | None = None

    def keep(self, owner: object) -> None:
        """Keep an object alive as long as this memory."""
        self._keep = (self._keep, owner)

    def before_use(self, stream: int) -> None:
        """Make a stream other than the home one wait for what is queued on this memory."""
        if is_capturing(stream) or is_capturing(self.stream):
            return  # a graph's order is its own; work outside it cannot be waited for
        wait(stream, self.stream, self.device)
        for user, event in (self._uses or {}).items():
            if user != stream:
                event.wait(stream)

    def after_use(self, stream: int) -> None:
        """Note that work on a stream other than the home one now uses this memory."""
        if is_capturing(stream):
            return
        if self._uses is None:
            self._uses = {}
        if stream not in self._uses:
            self._uses[stream] = Event(self.device)
        self._uses[stream].record(stream)

    def __del__(self) -> None:
        if self.address:
            try:
                if self._uses or _gpus[self.device].free(self.address, self.stream):
                    _free_slowly(self)
            except Exception:
                pass  # the driver may be shutting down, which frees all


# The compiled code that frees memory may be gone before the last array is; the end of the process frees all.
atexit.register(lambda: delattr(Storage, "__del__"))


class _Gpu:
    """A device's context and pool, with the native functions bound to them."""

    def __init__(self, device: int):
        from . import native

        self.context = primary_context(device)
        self.pool = _create_pool(device)
        self.get_current = driver.address("cuCtxGetCurrent")
        #: (nbytes, stream) -> address, or a negative code
        self.allocate = partial(
            native.allocate,
            self.get_current,
            self.context,
            driver.address("cuMemAllocFromPoolAsync"),
            self.pool,
        )
        #: (address, stream) -> 0, or a code
        self.free = partial(
            native.free,
            self.get_current,
            self.context,
            driver.address("cuStreamIsCapturing"),
            driver.address("cuMemFreeAsync"),
        )


class _Gpus(dict[int, _Gpu]):
    """Device -> its context and pool, opened when first asked for."""

    def __missing__(self, device: int) -> _Gpu:
        with _opening:
            if device not in self:
                self[device] = _Gpu(device)
        return self[device]


_opening = threading.Lock()
_gpus = _Gpus()


def gpu(device: int) -> Any:
    """The device's context and pool."""
    return _gpus[device]


#: (address, device, stream) of memory that could not be freed while its stream was captured into a graph.
_deferred: list[tuple[int, int, int]] = []


def _free_slowly(storage: Storage) -> None:
    """Free what was used on other streams, belongs to a context not current, or is in a capture."""
    stream = storage.stream
    with on_device(storage.device):
        if is_capturing(stream):
            # Freeing inside a capture would become part of the graph; the next allocation outside does it.
            _deferred.append((storage.address, storage.device, stream))
            return
        for event in (storage._uses or {}).values():
            event.wait(stream)
        driver.cuMemFreeAsync(storage.address, stream)


def allocate(nbytes: int, device: int, stream: int) -> Storage:
    """Memory from the device's pool, usable in the order of `stream`.

    Raises:
        DeviceError: the GPU has not enough memory, also after garbage was collected and queued work awaited.
    """
    if _deferred:
        _free_deferred()
    address = _gpus[device].allocate(nbytes, stream) if nbytes else 0
    if address < 0:
        with on_device(device):
            address = _allocate_slowly(nbytes, device, stream)
    return Storage(address, nbytes, device, stream)


def _free_deferred() -> None:
    for item in list(_deferred):
        address, device, stream = item
        with on_device(device):
            if not is_capturing(stream):
                _deferred.remove(item)
                driver.cuMemFreeAsync(address, stream)


def _allocate_slowly(nbytes: int, device: int, stream: int) -> int:
    try:
        return call(driver.cuMemAllocFromPoolAsync, nbytes, _gpus[device].pool, stream)
    except DriverError as error:
        if error.status != cuda.Status.ERROR_OUT_OF_MEMORY:
            raise
    if not is_capturing(stream):
        gc.collect()
        driver.cuCtxSynchronize()
        driver.cuMemPoolTrimTo(_gpus[device].pool, 0)
    try:
        return call(driver.cuMemAllocFromPoolAsync, nbytes, _gpus[device].pool, stream)
    except DriverError as error:
        if error.status != cuda.Status.ERROR_OUT_OF_MEMORY:
            raise
        free, total = memory_info(device)
        held, used = pool_bytes(device)
        raise DeviceError(
            f"out of memory on cuda:{device}: asked for {nbytes:,} bytes; of {total:,} bytes {free:,} are "
            f"free, numbacc's pool holds {held:,} and uses {used:,} of them. Delete arrays you no longer need, "
            "or work in smaller pieces"
        ) from None


def run_with_captured_memory(launch: Callable[[int], Any], nbytes: int, device: int, stream: int) -> Any:
    """`launch(address)` with memory that is allocated and freed by the graph being captured."""
    with on_device(device):
        address = call(driver.cuMemAllocFromPoolAsync, nbytes, _gpus[device].pool, stream)
        try:
            return launch(address)
        finally:
            driver.cuMemFreeAsync(address, stream)


def _is_pinned(address: int) -> bool:
    try:
        kind = call(driver.cuPointerGetAttribute, cuda.PointerAttribute.MEMORY_TYPE, address)
    except DriverError:
        return False  # ordinary memory, of which CUDA knows nothing
    return kind == cuda.MemoryType.HOST


def copy_from_host(storage: Storage, address: int, host: np.ndarray[Any, Any], stream: int) -> None:
    """Queue a copy of a contiguous host array. From pinned memory it returns at once, else when copied out."""
    with on_device(storage.device):
        source = host.ctypes.data
        driver.cuMemcpyHtoDAsync_v2(address, source, host.nbytes, stream)
        if _is_pinned(source):
            storage.keep(host)


def copy_to_host(host: np.ndarray[Any, Any], address: int, device: int, stream: int) -> None:
    """Queue a copy into a contiguous host array. Into pinned memory it returns at once, else when it is done."""
    with on_device(device):
        target = host.ctypes.data
        driver.cuMemcpyDtoHAsync_v2(target, address, host.nbytes, stream)
        if not _is_pinned(target):
            driver.cuStreamSynchronize(stream)


def copy_on_device(target: int, source: int, nbytes: int, device: int, stream: int) -> None:
    with on_device(device):
        driver.cuMemcpyDtoDAsync_v2(target, source, nbytes, stream)


def fill(address: int, pattern: bytes, count: int, device: int, stream: int) -> None:
    """Queue `count` repetitions of a pattern of 1, 2, 4, 8 or 16 bytes."""
    value = int.from_bytes(pattern[:4], "little")
    with on_device(device):
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


# ---------------------------------------------------------------- streams


def create_stream(device: int) -> int:
    """A new stream that does not wait for the legacy default stream."""
    with on_device(device):
        return call(driver.cuStreamCreate, cuda.StreamFlag.NON_BLOCKING)


def synchronize(stream: int, device: int) -> None:
    """Wait on the host for everything queued on the stream."""
    with on_device(device):
        driver.cuStreamSynchronize(stream)


def wait(stream: int, producer: int, device: int) -> None:
    """Make `stream` wait for what is queued on `producer` now."""
    if stream != producer:
        event = Event(device)
        event.record(producer)
        event.wait(stream)


def is_capturing(stream: int) -> bool:
    """True while the stream's work is being recorded into a graph."""
    state = ctypes.c_int()
    try:
        driver.cuStreamIsCapturing(stream, ctypes.addressof(state))
        return state.value == 1
    except DriverError as error:
        # The legacy default stream may not even be asked while another stream captures.
        return error.status == cuda.Status.ERROR_STREAM_CAPTURE_IMPLICIT
