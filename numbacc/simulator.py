"""Numba's CUDA simulator as the device: the functions of `runtime`, on host memory, one after the other.

A kernel runs thread by thread in Python, so that it can be stepped through; streams are ignored, since
everything is done at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from . import _simulated
from .codes import MAY_OVERLAP, WRONG_ALIGNMENT
from .errors import DeviceError
from .layout import Layout, numpy_view


def device_count() -> int:
    return 1


def require_device(device: int) -> None:
    """Raise DeviceError unless it is the one simulated device."""
    if device != 0:
        raise DeviceError(f"cuda:{device} does not exist: the simulator has one device, 0")


def device_name(device: int) -> str:
    return "Numba CUDA simulator"


def capability(device: int) -> tuple[int, int]:
    return (9, 0)


def check_capability(dtype: str, oldest: tuple[int, int], device: int) -> None:
    """The simulator computes in every dtype."""


def current_device() -> int:
    return 0


@contextmanager
def on_device(device: int) -> Iterator[None]:
    yield


class Storage:
    """One allocation: host memory, known to the simulated kernels while it lives."""

    __slots__ = ("_memory", "address", "device", "nbytes", "stream")

    def __init__(self, nbytes: int, stream: int):
        # 16 bytes more than asked for, to start on a 16-byte boundary as GPU memory does.
        padded = np.empty(nbytes + 16, np.uint8)
        skip = -padded.ctypes.data % 16
        self._memory = padded[skip : skip + nbytes]
        self.address = int(self._memory.ctypes.data)
        self.nbytes, self.device, self.stream = nbytes, 0, stream
        if nbytes:
            _simulated.memory[self.address] = self._memory

    def keep(self, owner: object) -> None:
        """Copies are done at once: nothing need be kept."""

    def before_use(self, stream: int) -> None:
        """All work is done at once: there is nothing to wait for."""

    def after_use(self, stream: int) -> None:
        """As `before_use`."""

    def __del__(self, memory: dict[int, Any] = _simulated.memory) -> None:
        # The default argument outlives this module: scratch memory is freed when the interpreter exits.
        memory.pop(self.address, None)


class Adopted(Storage):
    """The memory of an array that Numba's simulator made, known to the simulated kernels while it is used here."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any, array: Layout):
        whole = numpy_view(owner._ary, array.low, (array.high - array.low,), (1,), np.dtype(np.uint8))
        self._memory, self._owner = whole, owner
        self.address = int(whole.ctypes.data)
        self.nbytes, self.device, self.stream = int(whole.nbytes), 0, 0
        _simulated.memory[self.address] = whole


def allocate(nbytes: int, device: int, stream: int) -> Storage:
    return Storage(nbytes, stream)


def check_launch(status: int) -> None:
    """A simulated launch fails by an exception."""


def release_memory(device: int) -> None:
    """Nothing is held back."""


def memory_at(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    """The bytes behind an address, up to the end of the allocation that it lies in."""
    return _simulated.behind(address)[:nbytes]


def view_at(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """A strided array within one allocation; strides are in bytes, and not negative."""
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return numpy_view(memory_at(address, last + dtype.itemsize), 0, shape, strides, dtype)


def copy_from_host(storage: Storage, address: int, host: np.ndarray[Any, Any], stream: int) -> None:
    memory_at(address, host.nbytes)[:] = host.ravel("K").view(np.uint8)


def copy_to_host(host: np.ndarray[Any, Any], address: int, device: int, stream: int) -> None:
    host.ravel("K").view(np.uint8)[:] = memory_at(address, host.nbytes)


def copy_on_device(target: int, source: int, nbytes: int, device: int, stream: int) -> None:
    memory_at(target, nbytes)[:] = memory_at(source, nbytes)


def fill(address: int, pattern: bytes, count: int, device: int, stream: int) -> None:
    memory_at(address, count * len(pattern))[:] = np.frombuffer(pattern * count, np.uint8)


def create_stream(device: int) -> int:
    return 0


def is_capturing(stream: int) -> bool:
    return False


def synchronize(stream: int, device: int) -> None:
    """Everything is done already."""


def wait(stream: int, producer: int, device: int) -> None:
    """Everything is done already."""


#: Numba's simulator exchanges `cuda` in a kernel's modules while it runs there: one kernel at a time, of all threads.
_alone = threading.RLock()


@lru_cache(maxsize=1024)
def _kernel(spec: Any) -> Any:
    from ._numba import cuda
    from .kernels import registry

    return cuda.jit(registry.make(spec))


def run(spec: Any, blocks: int, threads: int, arguments: Sequence[Any], device: int, stream: int) -> None:
    """As `launch.run`."""
    with _alone:
        _kernel(spec)[(blocks, 1), (threads, 1)](*arguments)


class Launcher:
    """A kernel with its geometry and constants: as `launch.Launcher`, run by the simulator."""

    backend = "simulator"
    algorithm = ""

    def __init__(self, order: Any):
        from .kernels import registry

        self._order = order
        constants = iter(order.constants)

        def take(shape: Any) -> Any:
            if shape is None:
                return next(constants)
            if isinstance(shape, int):
                return tuple(islice(constants, shape))
            return tuple(take(shape[1]) for _ in range(shape[0]))

        (_, self._inputs), _, *parameters = registry.parameters(order.kernel)
        self._constants = [take(shape) for _, shape in parameters]

    def launch(self, stream: int, *arrays: int) -> int:
        """As `native.launch`: 0, or what must be looked at."""
        order = self._order
        if any(a % 16 != wanted for a, wanted in zip(arrays, order.alignment, strict=False)):
            return WRONG_ALIGNMENT
        for i, low, high, j, out_low, out_high, allowed in order.pairs:
            source, target = arrays[i], arrays[j]
            apart = target + out_high <= source + low or source + high <= target + out_low
            if not apart and not (source == target and allowed):
                return MAY_OVERLAP
        return self.launch_unchecked(stream, *arrays)

    def launch_unchecked(self, stream: int, *arrays: int) -> int:
        """`launch` without a look at overlap, for arrays that have been looked at."""
        order = self._order
        pointers = tuple(arrays[k] + offset for k, offset in order.places)
        with _alone:
            kernel = _kernel(order.kernel)[order.grid, order.block]
            kernel(pointers[: self._inputs], pointers[self._inputs :], *self._constants)
        return 0
