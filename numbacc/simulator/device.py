"""Use Numba's CUDA simulator as the device: the functions of `runtime`, on host memory, one after the other.

A kernel runs thread by thread in Python, so that a debugger can step through it. A call returns when its work is done,
so streams have nothing to order. Work queued on a captured stream is recorded, and each launch of the graph runs it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count, islice
from typing import Any

import numpy as np

from ..base.codes import MAY_OVERLAP, WRONG_ALIGNMENT
from ..base.dispatch import compiles_own_kernels
from ..base.layout import layout_of, numpy_view
from ..base.observing import observable
from ..base.ownership import ARRAY_INSTEAD, NotCopied
from ..errors import DeviceError, UnsupportedError
from ..kernels.primitives import simulated
from ..runtime import launch_order
from ..runtime.captures import Capture
from ..runtime.streams import check_consumer, check_producer


def device_count() -> int:
    return 1


def require_device(device: int) -> None:
    """Raise DeviceError unless `device` is 0, the only simulated device."""
    if device != 0:
        raise DeviceError(f"cuda:{device} does not exist: the simulator has one device, 0")


def device_name(device: int) -> str:
    return "Numba CUDA simulator"


def capability(device: int) -> tuple[int, int]:
    return (9, 0)


def check_capability(dtype: str, oldest: tuple[int, int], device: int) -> None:
    """Do nothing: the simulator supports every dtype."""


def current_device() -> int:
    return 0


@contextmanager
def on_device(device: int) -> Iterator[None]:
    yield


#: A context manager that does nothing: no call is forbidden while a stream is captured.
relaxed = nullcontext


def device_of_stream(stream: int) -> int:
    return 0


class Storage(NotCopied):
    """One allocation of host memory. Simulated kernels can access it while it lives.

    `sole` is None: every use goes through `using`, which handles graphs.
    """

    __slots__ = ("__weakref__", "_memory", "address", "device", "nbytes", "stream")

    sole = None

    _instead = ARRAY_INSTEAD

    def __init__(self, nbytes: int, stream: int):
        self.address = 0  # the destructor reads it, also if the allocation failed
        # Allocate 16 bytes more, to start on a 16-byte boundary as GPU memory does.
        padded = np.empty(nbytes + 16, np.uint8)
        skip = -padded.ctypes.data % 16
        self._memory = padded[skip : skip + nbytes]
        self.address = int(self._memory.ctypes.data)
        self.nbytes, self.device, self.stream = nbytes, 0, stream
        if nbytes:
            simulated.memory[self.address] = self._memory

    def keep(self, owner: object) -> None:
        """Do nothing: copies are already done, so nothing must be kept alive."""

    def before(self, stream: int, writes: bool, passed: object = None) -> None:
        """Do nothing: all work is already done."""

    def unshare(self, stream: int) -> None:
        """Do nothing, like `before`."""

    @property
    def block(self) -> Storage:
        """The memory itself; a graph's memory returns its owner here."""
        return self

    def __del__(self, memory: dict[int, Any] = simulated.memory) -> None:
        # The default argument outlives this module: scratch memory is freed when the interpreter exits.
        memory.pop(self.address, None)


#: Address -> how many current uses of Numba's memory there are.
_adopted: dict[int, int] = {}


class Adopted(Storage):
    """The memory of an array made by Numba's simulator. Simulated kernels can access it while numbacc uses it."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any):
        self.address = 0  # the destructor reads it, also if this fails
        # The whole allocation, so that views of one array share one piece of memory, used together or in turn.
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
    """Another library's memory: arrays that pretend to be on a GPU."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any, address: int, stream: int):
        self._owner, self.address = owner, address
        self.nbytes, self.device, self.stream = 0, 0, stream

    def __del__(self, memory: dict[int, Any] = simulated.memory) -> None:
        """Do nothing: the owner frees the memory."""


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
#: Capture id -> the recorded work of its graph, in order.
_recorded: dict[int, list[Callable[[], Any]]] = {}


def create_stream(device: int, priority: int = 0) -> int:
    return next(_handles)


def nearest_priority(device: int, priority: int) -> int:
    """Return 0, the simulator's only priority."""
    return 0


def priority_of(stream: int, device: int) -> int:
    """Return 0, like `nearest_priority`."""
    return 0


def is_capturing(stream: int) -> bool:
    return stream in _captures


def capture_number(stream: int) -> int:
    """Return a number that identifies the capture of a stream, like `runtime.device.capture_number`."""
    return id(_captures[stream]) if stream in _captures else 0


class SimulatedEvent(NotCopied):
    """A point in a stream's queue, like `memory_order.DriverEvent`. All work before it is done when it is recorded."""

    _instead = "record another"

    def __init__(self, device: int, flags: int = 0):
        self._stream, self._seconds = 0, 0.0

    def record(self, stream: int) -> None:
        self._stream, self._seconds = stream, time.perf_counter()

    def wait(self, stream: int, device: int | None = None) -> None:
        """Do nothing, unless the recorded stream is captured: then the waiting stream is captured, too."""
        wait(stream, self._stream, 0)

    def is_done(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Do nothing, like `synchronize` of a stream."""

    def elapsed_ms(self, start: SimulatedEvent) -> float:
        """Return the milliseconds of the host from `start` to this point."""
        return (self._seconds - start._seconds) * 1000


DriverEvent = SimulatedEvent


def synchronize(stream: int, device: int) -> None:
    """Do nothing: all work is already done."""


def wait(stream: int, producer: int, device: int, producers_device: int | None = None) -> None:
    """Do nothing, unless the awaited stream is captured: then this stream is captured, too."""
    if producer in _captures:
        _captures[stream] = _captures[producer]


def queued(stream: int, work: Callable[[], Any]) -> None:
    """Run the work now. If the stream is captured, record it, so that each launch of the graph runs it."""
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
    """Use arrays, like `memory_order.using`."""
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
    """Do nothing: there is nothing to order."""


class Recording:
    """A graph capture, like `graph_capture.Recording`."""

    def __init__(self, stream: int, device: int):
        if stream in _captures:
            raise UnsupportedError(f"stream {stream:#x} is already being captured: end that capture first")
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

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded."""
        return not self._work

    def writes(self, storage: Any) -> bool:
        """Return whether the graph writes to memory."""
        return self._capture.writes(storage)

    @observable("graph")
    def launch(self, stream: int) -> None:
        """Run the recorded work."""
        with self._lock, using(stream, 0, storages=self._capture.used.values()) as outer:
            if outer is not None:
                outer.include(self, self._capture)
            for work in self._work:
                queued(stream, work)


# ---------------------------------------------------------------- memory and launches


def check_launch(status: int) -> None:
    """Do nothing: a simulated launch fails by raising."""
    assert not status, f"a simulated launch was refused with status {status}"


def peak_bytes(device: int, reset: bool) -> int:
    """Return 0: there is no pool."""
    return 0


def release_memory(device: int | None = None) -> None:
    """Do nothing: the simulator keeps no free memory."""
    if _captures:
        raise UnsupportedError("release_memory waits for the GPU, which would break the graph capture in progress")


def memory_at(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    """Return the bytes from an address to the end of its allocation."""
    return simulated.behind(address)[:nbytes]


def view_at(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Return a strided array within one allocation. Strides are in bytes, and not negative."""
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return numpy_view(memory_at(address, last + dtype.itemsize), 0, shape, strides, dtype)


@observable("copy_from_host")
def copy_from_host(storage: Any, address: int, host: np.ndarray[Any, Any], stream: int) -> None:
    def copy() -> None:
        memory_at(address, host.nbytes)[:] = host.ravel("K").view(np.uint8)

    queued(stream, copy)


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
    if capture is not None:
        raise UnsupportedError(
            f"{call} inside a graph's capture, before its values are computed: call it after g.launch()"
        )
    host.ravel("K").view(np.uint8)[:] = memory_at(address, host.nbytes)


@observable("copy_on_device")
def copy_on_device(target: int, source: int, nbytes: int, device: int, stream: int) -> None:
    def copy() -> None:
        memory_at(target, nbytes)[:] = memory_at(source, nbytes)

    queued(stream, copy)


def clear(address: int, nbytes: int, device: int, stream: int) -> int:
    """Return 1, because `fill` does the work."""
    return 1


@observable("fill")
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
    """A kernel with its geometry and constants, like `launch.Launcher`; the simulator runs it."""

    backend = "simulator"
    algorithm = ""

    @staticmethod
    def is_loaded(kernel: Any, device: int) -> bool:
        """Return True: there is nothing to compile."""
        return True

    #: Like `launch.Launcher.limits`, for the least shared memory; blocks run one after the other.
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
        """Launch the kernel, like `launch.Launcher.launch`. Return 0, or the status to check."""
        order = self.order
        for i, low, high, j, out_low, out_high, allowed in order.pairs:
            source, target = arrays[i], arrays[j]
            apart = target + out_high <= source + low or source + high <= target + out_low
            if not apart and not (source == target and allowed):
                return MAY_OVERLAP
        return self.launch_unchecked(stream, scratch, arrays, scalars)

    def launch_unchecked(self, stream: int, scratch: int, arrays: Sequence[int], scalars: Sequence[int]) -> int:
        """Launch the kernel without checking arrays for overlap."""
        order = self.order
        if any(a % 16 != wanted for a, wanted in zip(arrays, order.alignment, strict=False)):
            return WRONG_ALIGNMENT
        pointers = tuple(arrays[k] + offset for k, offset in order.pointers)
        words = [(*scalars, *[0] * order.words)[: order.words]] if self._has_words else []
        parameters = [*self._constants, *words]
        inputs, outputs = pointers[: self._inputs], pointers[self._inputs :]
        queued(stream, lambda: _launch(order, inputs, outputs, *parameters))
        return 0
