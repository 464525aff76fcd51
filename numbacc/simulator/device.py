"""Numba's CUDA simulator as the device: the functions of `runtime`, on host memory, one after the other.

A kernel runs thread by thread in Python, so that it can be stepped through. Everything is done at once, so streams have
nothing to order; what is queued on one that is captured is kept, and done by each launch of the graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from typing import Any

import numpy as np

from ..base.codes import MAY_OVERLAP, WRONG_ALIGNMENT
from ..base.dispatch import compiles_own_kernels
from ..base.layout import layout_of, numpy_view
from ..base.ownership import ARRAY_INSTEAD, NotCopied
from ..errors import DeviceError, UnsupportedError
from ..kernels.primitives import simulated
from ..runtime import launch_order
from ..runtime.captures import Capture
from ..runtime.streams import check_consumer, check_producer


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


def device_of_stream(stream: int) -> int:
    return 0


class Storage(NotCopied):
    """One allocation: host memory, known to the simulated kernels while it lives.

    `sole` is None: every use goes by way of `using`, which sees to graphs.
    """

    __slots__ = ("__weakref__", "_memory", "address", "device", "nbytes", "stream")

    sole = None

    _instead = ARRAY_INSTEAD

    def __init__(self, nbytes: int, stream: int):
        self.address = 0  # for the destructor, where there is no memory
        # 16 bytes more than asked for, to start on a 16-byte boundary as GPU memory does.
        padded = np.empty(nbytes + 16, np.uint8)
        skip = -padded.ctypes.data % 16
        self._memory = padded[skip : skip + nbytes]
        self.address = int(self._memory.ctypes.data)
        self.nbytes, self.device, self.stream = nbytes, 0, stream
        if nbytes:
            simulated.memory[self.address] = self._memory

    def keep(self, owner: object) -> None:
        """Copies are done at once: nothing need be kept."""

    def before(self, stream: int, writes: bool, passed: object = None) -> None:
        """All work is done at once: there is nothing to wait for."""

    def unshare(self, stream: int) -> None:
        """As `before`."""

    @property
    def block(self) -> Storage:
        """The memory that this is: itself, but for a graph's."""
        return self

    def __del__(self, memory: dict[int, Any] = simulated.memory) -> None:
        # The default argument outlives this module: scratch memory is freed when the interpreter exits.
        memory.pop(self.address, None)


#: Address -> how often Numba's memory there is taken at the moment.
_adopted: dict[int, int] = {}


class Adopted(Storage):
    """The memory of an array that Numba's simulator made, known to the simulated kernels while it is used here."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any):
        self.address = 0  # for the destructor, where this fails
        # All of the allocation, so that views of one array, taken together or in turn, are one piece of memory.
        root = owner._ary
        while isinstance(root.base, np.ndarray):
            root = root.base
        made = layout_of(root)
        whole = numpy_view(root, made.low, (made.high - made.low,), (1,), np.dtype(np.uint8))
        self._memory, self._owner = whole, owner
        self.nbytes, self.device, self.stream = int(whole.nbytes), 0, 0
        self.address = int(whole.ctypes.data)
        _adopted[self.address] = _adopted.get(self.address, 0) + 1
        simulated.memory[self.address] = whole

    def __del__(self, memory: dict[int, Any] = simulated.memory, adopted: dict[int, int] = _adopted) -> None:
        left = adopted.pop(self.address, 1) - 1
        if left:
            adopted[self.address] = left
        else:
            memory.pop(self.address, None)


class Borrowed(Storage):
    """Another library's memory, as arrays that pretend to be on a GPU have it."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any, address: int, stream: int):
        self._owner, self.address = owner, address
        self.nbytes, self.device, self.stream = 0, 0, stream

    def __del__(self, memory: dict[int, Any] = simulated.memory) -> None:
        """Its owner frees it."""


def borrow(owner: object, address: int, device: int, stream: int, producer: int | None, name: str) -> Borrowed:
    check_producer(producer, name)
    return Borrowed(owner, address, stream)


def order_outside(stream: int, device: int) -> int:
    return stream


def share(storage: Any, consumer: int) -> int | None:
    check_consumer(consumer)
    storage.before(consumer, True)
    return consumer


def settle(storage: Any) -> int:
    storage.before(storage.stream, True)
    return int(storage.stream)


def allocate(nbytes: int, device: int, stream: int) -> Any:
    capture = _captures.get(stream)
    try:
        if capture is None:
            return Storage(nbytes, stream)
        return capture.lend(capture.spare(nbytes) or Storage(nbytes, capture.home), stream)
    except MemoryError as error:
        raise DeviceError(f"out of memory in the simulator: {error}") from None


# ---------------------------------------------------------------- streams and graphs

_handles = count(0x51A0, 16)
#: Stream -> the capture that records it.
_captures: dict[int, Capture] = {}
#: Capture's id -> what its graph does, in order.
_recorded: dict[int, list[Callable[[], Any]]] = {}


def create_stream(device: int) -> int:
    return next(_handles)


def is_capturing(stream: int) -> bool:
    return stream in _captures


def synchronize(stream: int, device: int) -> None:
    """Everything is done already."""


def wait(stream: int, producer: int, device: int, producers_device: int | None = None) -> None:
    """Everything is done already; but a stream that waits for a captured one is captured, too."""
    if producer in _captures:
        _captures[stream] = _captures[producer]


def queued(stream: int, work: Callable[[], Any]) -> None:
    """Do it, or where the stream is captured, let the graph do it at each launch."""
    capture = _captures.get(stream)
    if capture is None:
        work()
    else:
        _recorded[id(capture)].append(work)


@contextmanager
def using(
    stream: int,
    device: int,
    reads: Iterable[Any] = (),
    writes: Iterable[Any] = (),
    storages: Iterable[tuple[Any, bool]] = (),
) -> Iterator[Capture | None]:
    """As `memory_order.using`."""
    capture = _captures.get(stream)
    used = [(a._storage, False) for a in reads if a is not None]
    used += [(a._storage, True) for a in writes if a is not None]
    for storage, written in (*used, *storages):
        if capture is None:
            storage.before(stream, written)
        else:
            capture.use(storage, written, stream)
    yield capture


def note(stream: int, device: int, reads: Iterable[Any], writes: Iterable[Any]) -> None:
    """As `memory_order.note`: there is nothing to order."""


class Recording:
    """As `graph_capture.Recording`."""

    def __init__(self, stream: int, device: int):
        if stream in _captures:
            raise UnsupportedError(f"stream {stream:#x} is being captured already: end that graph first")
        self._capture = _captures[stream] = Capture(device, 0, stream, lambda *streams: None)
        self._work = _recorded.setdefault(id(self._capture), [])

    def end(self) -> None:
        """End the capture."""
        for stream in [stream for stream, capture in _captures.items() if capture is self._capture]:
            del _captures[stream]
        del _recorded[id(self._capture)]
        self._capture.end()
        self._lock = self._capture.locked(threading.Lock())

    abandon = end

    def launch(self, stream: int) -> None:
        """Do what was captured."""
        with self._lock, using(stream, 0, storages=self._capture.used.values()) as outer:
            if outer is not None:
                outer.include(self, self._capture)
            for work in self._work:
                queued(stream, work)


# ---------------------------------------------------------------- memory and launches


def check_launch(status: int) -> None:
    """A simulated launch fails by an exception: else it was refused, and nothing is computed."""
    assert not status, f"a simulated launch was refused with status {status}"


def release_memory(device: int | None = None) -> None:
    """Nothing is held back."""
    if _captures:
        raise UnsupportedError("release_memory waits for the GPU, which would break the graph capture in progress")


def memory_at(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    """The bytes behind an address, up to the end of the allocation that it lies in."""
    return simulated.behind(address)[:nbytes]


def view_at(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """A strided array within one allocation; strides are in bytes, and not negative."""
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return numpy_view(memory_at(address, last + dtype.itemsize), 0, shape, strides, dtype)


def copy_from_host(storage: Any, address: int, host: np.ndarray[Any, Any], stream: int) -> None:
    def copy() -> None:
        memory_at(address, host.nbytes)[:] = host.ravel("K").view(np.uint8)

    queued(stream, copy)


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
    if capture is not None:
        raise UnsupportedError(
            f"{call} inside a graph's capture, where there are no values yet: do it after g.launch()"
        )
    host.ravel("K").view(np.uint8)[:] = memory_at(address, host.nbytes)


def copy_on_device(target: int, source: int, nbytes: int, device: int, stream: int) -> None:
    def copy() -> None:
        memory_at(target, nbytes)[:] = memory_at(source, nbytes)

    queued(stream, copy)


def fill(address: int, pattern: bytes, count: int, device: int, stream: int) -> None:
    def write() -> None:
        memory_at(address, count * len(pattern))[:] = np.frombuffer(pattern * count, np.uint8)

    queued(stream, write)


def _launch(order: Any, *arguments: Any) -> None:
    if compiles_own_kernels():
        from . import own as launches  # it imports Numba
    else:
        from . import launches  # type: ignore[no-redef]
    launches.run(order, *arguments)


class Launcher:
    """A kernel with its geometry and constants: as `launch.Launcher`, run by the simulator."""

    backend = "simulator"
    algorithm = ""

    @staticmethod
    def is_loaded(kernel: Any, device: int) -> bool:
        """True: nothing is compiled."""
        return True

    #: As `launch.Launcher.limits`, of the least shared memory; blocks run one after the other.
    limits = staticmethod(lambda device: launch_order.Limits(49152, 1))

    def __init__(self, order: Any):
        from ..runtime import kernel_code

        self.order = order
        constants = iter(order.constants)

        def take(shape: Any) -> Any:
            if shape is None:
                return next(constants)
            if isinstance(shape, int):
                return tuple(islice(constants, shape))
            return tuple(take(shape[1]) for _ in range(shape[0]))

        (_, self._inputs), _, *parameters = kernel_code.parameters(order.kernel)
        self._has_words = parameters[-1][0] == launch_order.WORDS
        self._constants = [take(shape) for _, shape in (parameters[:-1] if self._has_words else parameters)]

    def launch(self, stream: int, scratch: int, arrays: Sequence[int], scalars: Sequence[int]) -> int:
        """As `launch.Launcher`'s: 0, or what must be checked."""
        order = self.order
        for i, low, high, j, out_low, out_high, allowed in order.pairs:
            source, target = arrays[i], arrays[j]
            apart = target + out_high <= source + low or source + high <= target + out_low
            if not apart and not (source == target and allowed):
                return MAY_OVERLAP
        return self.launch_unchecked(stream, scratch, arrays, scalars)

    def launch_unchecked(self, stream: int, scratch: int, arrays: Sequence[int], scalars: Sequence[int]) -> int:
        """`launch` without a check of overlap, for arrays that have been checked."""
        order = self.order
        if any(a % 16 != wanted for a, wanted in zip(arrays, order.alignment, strict=False)):
            return WRONG_ALIGNMENT
        pointers = tuple(arrays[k] + offset for k, offset in order.pointers)
        words = [(*scalars, *[0] * order.words)[: order.words]] if self._has_words else []
        parameters = [*self._constants, *words]
        inputs, outputs = pointers[: self._inputs], pointers[self._inputs :]
        queued(stream, lambda: _launch(order, inputs, outputs, *parameters))
        return 0
