"""GPU memory: each device's pool, allocations, and when they are freed.

Small blocks that were freed on the default stream are kept for the next allocation of their size on it. The driver's
pool also reuses blocks, but with two calls of a microsecond or more each, which is a large part of a small operation's
host time. Only the default stream keeps blocks: it is never destroyed, and all work queued on it before a block was
freed runs before any later use of the block, by any thread.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from numbacc_bindings import driver as cuda
from numbacc_bindings.driver import DriverError, driver

from ..base.codes import CAPTURING
from ..errors import DeviceError, LibraryError, UnsupportedError
from . import captures, contexts, foreign_owners, workspace
from .contexts import call, device_attribute, device_name, on_device, on_stream, primary_context, relaxed
from .memory_order import DriverEvent, History, capture_of, wait
from .streams import foreign, owner_of

# ---------------------------------------------------------------- small blocks

#: The largest block that is kept, in bytes; the most blocks of one size; the most sizes per GPU.
KEPT_BYTES, KEPT_BLOCKS, KEPT_SIZES = 1 << 18, 4, 64
FULL = -1

#: Device -> bytes of a block -> addresses. Each change of a list is one atomic call, since several threads may change
#: it.
_kept_blocks: dict[int, dict[int, list[int]]] = {}


def keep_block(device: int, nbytes: int, address: int) -> bool:
    """Keep a block whose work is all queued on the default stream. If this returns False, the caller must free it."""
    blocks = _kept_blocks.get(device, _NO_BLOCKS).get(nbytes)
    if blocks is None or len(blocks) >= KEPT_BLOCKS:
        return False
    blocks.append(address)
    if _kept_blocks.get(device, _NO_BLOCKS).get(nbytes) is not blocks:
        # Another thread has dropped all sizes meanwhile, so nobody looks into this list again.
        try:
            blocks.remove(address)
        except ValueError:
            return True  # it was dropped with the others
        return False
    return True


_NO_BLOCKS: dict[int, list[int]] = {}


def take_block(device: int, nbytes: int) -> int:
    """Take a kept block and return its address; 0 if no block is kept, FULL if the caller must first drop all sizes.

    From now on, freed blocks of this size are kept.
    """
    sizes = _kept_blocks.get(device)
    if sizes is None:
        sizes = _kept_blocks.setdefault(device, {})
    blocks = sizes.get(nbytes)
    if blocks:
        try:
            return blocks.pop()
        except IndexError:
            return 0  # another thread was faster
    if blocks is None:
        if len(sizes) >= KEPT_SIZES:
            return FULL
        sizes.setdefault(nbytes, [])
    return 0


def kept_given_up(device: int) -> Iterator[tuple[int, int]]:
    """Yield (bytes, address) of each kept block, for the caller to free, and forget all sizes."""
    for nbytes, blocks in list(_kept_blocks.pop(device, {}).items()):
        while blocks:
            try:
                yield nbytes, blocks.pop()
            except IndexError:
                break


def kept_bytes(device: int) -> int:
    """Return how many bytes are kept."""
    return sum(nbytes * len(blocks) for nbytes, blocks in list(_kept_blocks.get(device, _NO_BLOCKS).items()))


# ---------------------------------------------------------------- pools and allocations

Made = TypeVar("Made")


def _in_words(nbytes: int) -> int:
    """Round bytes up to whole 4-byte words: kernels load whole words (`kernels.primitives.unaligned_vector`)."""
    return nbytes + -nbytes % 4


def _create_pool(device: int) -> int:
    """Create the device's only pool. It keeps freed memory for later allocations, until `release_memory`."""
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
    """Return (bytes of the GPU's memory that the pool holds, bytes of these that are in use)."""
    with on_device(device):
        return (
            _read_pool(device, cuda.MemoryPoolAttribute.RESERVED_MEM_CURRENT),
            _read_pool(device, cuda.MemoryPoolAttribute.USED_MEM_CURRENT) - kept_bytes(device),
        )


def peak_bytes(device: int, reset: bool) -> int:
    """Return the most bytes of the pool that were in use at once since the last reset, and start anew if `reset`.

    Blocks that are kept for later allocations count as in use; a reset frees them.
    """
    gpu(device)
    with on_device(device):
        found = _read_pool(device, cuda.MemoryPoolAttribute.USED_MEM_HIGH)
        found = max(found, _read_pool(device, cuda.MemoryPoolAttribute.USED_MEM_CURRENT))
        if reset:
            _give_up_blocks(device)
            start = ctypes.c_uint64(0)
            attribute = cuda.MemoryPoolAttribute.USED_MEM_HIGH
            driver.cuMemPoolSetAttribute(_gpus[device].pool, attribute, ctypes.addressof(start))
        return found


def _read_pool(device: int, attribute: cuda.MemoryPoolAttribute) -> int:
    value = ctypes.c_uint64()
    driver.cuMemPoolGetAttribute(_gpus[device].pool, attribute, ctypes.addressof(value))
    return int(value.value)


def release_memory(device: int | None = None) -> None:
    """Give the pools' unused memory back to the GPU, for other libraries: of one device, or of all used devices.

    Raises:
        UnsupportedError: a graph is being captured, and waiting for the GPU would break the capture.
    """
    if captures.any_active():
        raise UnsupportedError("release_memory waits for the GPU, which would break the graph capture in progress")
    for each in list(_gpus) if device is None else [device]:
        with on_device(each):
            _make_way(each)


def _make_way(device: int) -> None:
    """Free all unused memory, including scratch memory, and give it to the GPU. The device's context is current."""
    foreign_owners.collect()
    workspace.release(device)
    _give_up_blocks(device)
    # Waiting for all work would break a capture. Another library may have a capture that is unknown here. So this runs
    # only if the user asks for it, or if the allocation would fail otherwise.
    if not captures.any_active():
        driver.cuCtxSynchronize()
    driver.cuMemPoolTrimTo(_gpus[device].pool, 0)


def memory_info(device: int) -> tuple[int, int]:
    """Return (free, total) bytes of the GPU's memory."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with on_device(device):
        driver.cuMemGetInfo_v2(ctypes.addressof(free), ctypes.addressof(total))
    return free.value, total.value


class Storage(History):
    """One allocation. When nothing refers to it any more, it is freed after all work that uses it.

    Attributes:
        address: the start address; 0 if nbytes is 0.
        device, stream, sole: see `History`.
    """

    __slots__ = ("address", "nbytes")

    def __init__(self, address: int, nbytes: int, device: int, stream: int):
        self.address, self.nbytes = address, nbytes
        self.device = device
        self.stream = self.sole = stream
        self._uses = self.partners = ()
        if foreign:
            self._stream_owner = owner_of(stream)

    def __del__(self) -> None:
        if self.address:
            try:
                if self.sole == 0 and keep_block(self.device, self.nbytes, self.address):
                    return
                if self.sole is None or _gpus[self.device].free(self.address, self.stream):
                    _Freed(self).free()
            except Exception:
                pass  # the driver may be shutting down, which frees all memory


@atexit.register
def _let_all_be() -> None:
    """Stop freeing memory at exit: the compiled code may be gone before the last array, and the process frees all."""
    del Storage.__del__
    contexts._is_current.clear()


class _Gpu:
    """A device's context and pool, and the native functions bound to them."""

    def __init__(self, device: int):
        from . import native
        from .builtin import bound

        self.context = primary_context(device)
        self.pool = _create_pool(device)
        self.get_current = driver.address("cuCtxGetCurrent")
        contexts._is_current[:] = [bound(native.is_current, self.get_current)]
        words = (self.get_current, self.context, *map(driver.address, _POOL_FUNCTIONS), self.pool)
        self._words = (ctypes.c_uint64 * len(words))(*words)
        #: (nbytes, stream) -> address, or a negative code.
        self.allocate = bound(native.allocate, ctypes.addressof(self._words))
        #: `native.execute` with its first parameter bound.
        self.execute = bound(native.execute, self.get_current)
        #: (address, stream) -> 0, or a code.
        self.free = bound(native.free, ctypes.addressof(self._words))


#: The driver's functions that the native functions call, in the order of their words.
_POOL_FUNCTIONS = ("cuStreamIsCapturing", "cuMemAllocFromPoolAsync", "cuMemFreeAsync")


class _Gpus(dict[int, _Gpu]):
    """A table: device -> its context and pool, opened at the first use."""

    def __missing__(self, device: int) -> _Gpu:
        with _opening:
            if device not in self:
                self[device] = _Gpu(device)
        return self[device]


_opening = threading.Lock()
_gpus = _Gpus()


def gpu(device: int) -> Any:
    """Return the device's context and pool."""
    return _gpus[device]


#: Memory and owners that cannot be freed yet: one of their streams is being captured, or the GPU still uses them.
_deferred: deque[Any] = deque()


class _Freed:
    """Unreferenced memory, to be freed after work on several streams, or in another context."""

    __slots__ = ("_address", "_device", "_stream", "_stream_owner", "_uses", "partners")

    def __init__(self, storage: Storage):
        self._address, self._device, self._stream = storage.address, storage.device, storage.stream
        self._uses, self.partners = storage._uses, storage.partners
        self._stream_owner = getattr(storage, "_stream_owner", None)

    def free(self) -> None:
        """Free the memory now, or later if a capture forbids it."""
        with on_device(self._device):
            if any(_is_captured(stream) for stream in (self._stream, *self.partners)):
                # Freeing inside a capture would become part of the graph. An allocation after the capture frees it.
                _deferred.append(self)
                return
            for use in self._uses:
                if use.stream != self._stream:
                    driver.cuStreamWaitEvent(self._stream, use.event.handle, 0)
            for partner in self.partners:
                wait(self._stream, partner, self._device)
            driver.cuMemFreeAsync(self._address, self._stream)


class _Kept:
    """The owner of host memory or of another library's memory, which must live until the GPU has passed a point."""

    __slots__ = ("_event", "_owner")

    def __init__(self, event: DriverEvent, owner: object):
        self._event, self._owner = event, owner

    def free(self) -> None:
        """Release the owner now, or later."""
        if not self._event.is_done():
            _deferred.append(self)


def keep_until(event: DriverEvent, owner: object) -> None:
    """Keep an object alive until the GPU has passed a point."""
    _deferred.append(_Kept(event, owner))
    # Release here, too, since an allocation may never come. Releasing two at a time keeps the list from growing.
    _free_deferred(2)


def _free_deferred(most: int | None = None) -> None:
    # Releasing an object may free more memory: a library's plan does.
    with relaxed():
        for _ in range(len(_deferred) if most is None else most):
            try:
                freed = _deferred.popleft()
            except IndexError:
                return  # another thread was faster
            with contextlib.suppress(LibraryError):  # as in `Storage.__del__`: the current allocation did not fail
                freed.free()
            del freed


def allocate(nbytes: int, device: int, stream: int) -> Any:
    """Allocate memory from the device's pool, ordered on `stream`; for a captured stream, memory of its graph.

    Raises:
        DeviceError: not enough GPU memory, even after collecting garbage and waiting for queued work.
    """
    if _deferred:
        _free_deferred()
    if foreign_owners.head.value:
        foreign_owners.collect()
    if not stream and 0 < nbytes <= KEPT_BYTES and not captures.may_capture()(0):
        kept = take_block(device, nbytes)
        if kept > 0:
            return Storage(kept, nbytes, device, 0)
        if kept:
            _give_up_blocks(device)
    address = _gpus[device].allocate(_in_words(nbytes), stream) if nbytes else 0
    if address >= 0:
        return Storage(address, nbytes, device, stream)
    with on_stream(stream, device):
        capture = capture_of(stream, device) if address == CAPTURING else None
        if capture is None:
            return Storage(_allocate_slowly(nbytes, device, stream), nbytes, device, stream)
        block = capture.spare(nbytes)
        if block is None:
            with relaxed():
                address = _allocate_slowly(nbytes, device, capture.home)
            block = Storage(address, nbytes, device, capture.home)
        return capture.lend(block, stream)


def _give_up_blocks(device: int) -> None:
    """Free the blocks that are kept for later allocations."""
    for nbytes, address in kept_given_up(device):
        Storage(address, nbytes, device, 0)  # freed at once, like an array that is deleted


def _allocate_slowly(nbytes: int, device: int, stream: int) -> int:
    try:
        whole = _in_words(nbytes)
        return with_room(lambda: call(driver.cuMemAllocFromPoolAsync, whole, _gpus[device].pool, stream), device)
    except DriverError as error:
        if not error.out_of_memory:
            raise
    free, total = memory_info(device)
    held, used = pool_bytes(device)
    raise DeviceError(
        f"out of memory on cuda:{device}: {nbytes:,} bytes were requested; of {total:,} bytes {free:,} are "
        f"free, numbacc's pool holds {held:,} and uses {used:,} of them. Delete arrays you no longer need, "
        "or work in smaller pieces"
    )


def with_room(make: Callable[[], Made], device: int) -> Made:
    """Return `make()`, which allocates GPU memory. If memory is short, free unused memory and try again.

    The device's context is current.

    Raises:
        LibraryError: `make` failed for another reason, or memory is still short.
    """
    for make_way in (gc.collect, partial(_make_way, device)):
        try:
            return make()
        except LibraryError as error:
            if not error.out_of_memory:
                raise
        make_way()
    return make()


def _is_captured(stream: int) -> bool:
    """Return True while the stream's work is captured, or while it would have to wait for a captured stream."""
    try:
        return captures.capture_on(stream)[0] != 0
    except UnsupportedError:
        return True
