"""Devices and streams: the values of `device=` and `stream=` arguments.

A device is a GPU, named by its number, or NumPy. A stream is a queue of a GPU's work: work on one stream runs in order,
work on two streams may overlap. Other libraries report which streams they work on. The stream of a library that shares
memory with numbacc is a partner of that memory.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from types import TracebackType
from typing import Any

from ..base import checks
from ..base.dispatch import has_gpu, runtime
from ..base.layout import CPU, PORTABLE
from ..base.observing import observable
from ..base.ownership import NotCopied
from ..errors import DeviceError, OptionError, UnsupportedError, shown

# ---------------------------------------------------------------- devices


class _DefaultDevice(threading.local):
    """The GPU of the stream that `with` has made this thread's default; None if the stream belongs to no GPU."""

    number: int | None = None


default_device = _DefaultDevice()

#: Whether arrays without a GPU are portable; None if the environment decides.
_portable: ContextVar[bool | None] = ContextVar("_portable", default=None)
#: Not empty once portable arrays may exist; without a GPU, "cuda:0" then means them.
_was_portable: list[bool] = []


def is_portable() -> bool:
    """Return True if new arrays without a GPU are portable: inside `portable()`, or with NUMBACC_PORTABLE=1."""
    found = _portable.get()
    if found is None:
        found = os.environ.get("NUMBACC_PORTABLE", "0") not in ("", "0")
    if found and not _was_portable:
        _was_portable.append(True)
    return found


@contextmanager
def portable() -> Iterator[None]:
    """Make arrays, on a machine without a GPU, that raise the errors of device arrays.

    Inside, `numbacc.asarray` and the other functions that make arrays return portable arrays. NumPy computes on them.
    Masks as indices, NumPy arrays as operands, `np.sort` and other functions without a GPU version raise as they do on
    a GPU, so a script that passes on a laptop runs on a GPU. The environment variable NUMBACC_PORTABLE=1 does the same
    for a whole process. With a GPU this changes nothing.

    Example:
        >>> with numbacc.portable():
        ...     x = numbacc.asarray([1.0, -2.0])
        >>> numbacc.asnumpy(x + 1)
        array([ 2., -1.])
    """
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


def _without_gpu() -> int:
    return PORTABLE if is_portable() else CPU


def target_of(device: int | str | None) -> int:
    """Return the number of the device that a `device=` argument names; CPU means NumPy.

    Raises:
        DeviceError: the device does not exist.
    """
    if device is None:
        number = default_device.number
        return (runtime().current_device() if has_gpu() else _without_gpu()) if number is None else number
    number = named(device)
    if not number and not has_gpu() and (_was_portable or is_portable()):
        return PORTABLE
    if number is None:
        number = runtime().current_device()
    elif number >= 0:
        runtime().require_device(number)
    return number


def named(device: int | str | None) -> int | None:
    """Parse a `device=` argument into a number, whether that GPU exists or not. None means the current GPU.

    Raises:
        DeviceError: the argument does not name a device.
    """
    if device is None:
        return None
    text = shown(device) if isinstance(device, int) else str(device)  # str() of torch's devices is their name
    if text == "cpu":
        return CPU
    if text == "portable":
        return PORTABLE
    if text == "cuda":
        return None
    digits = text.removeprefix("cuda").removeprefix(":")
    if isinstance(device, bool) or not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise DeviceError(f'device={shown(device)} is unknown; pass a number, "cuda:0" or "cpu"')
    return int(digits)


# ---------------------------------------------------------------- streams


class _Default(threading.local):
    """The default stream of operations, one per thread."""

    def __init__(self) -> None:
        self.handle = 0
        self.stack: list[Any] = []


_default = _Default()
#: Has one item per active `with` block of a stream, in any thread. Lists grow and shrink atomically.
_entered: list[None] = []


class Stream(NotCopied):
    """A stream of one GPU, to be passed to operations as `stream=`, or made their default with `with`.

    Make one with `numbacc.stream()`. On a machine without a GPU a stream does nothing, so that notebooks run unchanged.

    Attributes:
        handle: the CUstream as an integer; 0 is CUDA's legacy default stream.
        device: the GPU's number, or None if only the handle is known.

    Example:
        >>> with numbacc.stream() as s:  # or a stream of another library: numbacc.stream(torch_stream)
        ...     y = gated.forward(np.ones(4), "reglu")
        >>> s.synchronize()
        >>> y
        array([1., 1.])
    """

    __slots__ = ("_owned", "_priority", "_source", "device", "handle")

    _instead = "share it, or make another with numbacc.stream()"

    def __init__(
        self,
        handle: int,
        device: int | None = None,
        *,
        owned: bool = False,
        source: object = None,
        priority: int | None = None,
    ):
        self.handle = handle
        self._priority = priority
        self.device = device
        self._owned = owned
        self._source = source  # keeps a foreign stream alive

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (version, handle), as the protocol for sharing streams between CUDA libraries requires."""
        return (0, self.handle)

    @property
    def priority(self) -> int:
        """The stream's priority: 0 is ordinary, and lower numbers are higher priorities. It is 0 without a GPU."""
        if self._priority is None:
            self._priority = runtime().priority_of(self.handle, device_of(self)) if has_gpu() else 0
        return self._priority

    @observable("wait", "Stream.synchronize")
    def synchronize(self) -> None:
        """Block until all work queued on this stream is done.

        Raises:
            UnsupportedError: the stream is being captured into a graph.
        """
        if not has_gpu():
            return
        if runtime().is_capturing(self.handle):
            raise UnsupportedError(
                "synchronize() inside a graph's capture, where nothing runs: call it after g.launch()"
            )
        runtime().synchronize(self.handle, device_of(self))

    def wait(self, other: Any) -> None:
        """Make work queued here from now on start only after the work queued on `other` so far. Does not block.

        The two streams may belong to different GPUs.

        Raises:
            OptionError: other is not a stream.
            UnsupportedError: this stream is being captured into a graph, and `other` is not. In a capture, a stream
                that waits for the captured one becomes part of the capture.
        """
        handle = handle_of(other)
        if not has_gpu():
            return
        if runtime().is_capturing(self.handle) and not runtime().is_capturing(handle):
            raise UnsupportedError(
                "a stream that is being captured into a graph can only wait for work that is captured with it: wait "
                "before the capture; arrays that the graph uses are waited for at each launch"
            )
        runtime().wait(self.handle, handle, device_of(self), device_of(other))

    def __enter__(self) -> Stream:
        _default.stack.append((self, _default.handle, default_device.number))
        _entered.append(None)
        _default.handle, default_device.number = self.handle, self.device
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if all(entered is not self for entered, _, _ in _default.stack):
            raise OptionError("this stream's with block cannot end, because it has not begun in this thread")
        _, _default.handle, default_device.number = _default.stack.pop()
        _entered.pop()

    def __repr__(self) -> str:
        where = "" if self.device is None else f", device=cuda:{self.device}"
        return f"numbacc.Stream(handle={self.handle:#x}{where})"

    def __del__(self) -> None:
        # Arrays may still be waiting to be freed on this stream, so it is not destroyed but reused.
        if self._owned and self.device is not None:
            _idle.setdefault((self.device, self._priority or 0), []).append(self.handle)


#: CUDA's handle of the per-thread default stream.
PER_THREAD = 2

#: (device, priority) -> streams that nobody references any more.
_idle: dict[tuple[int, int], list[int]] = {}

#: Handle -> the foreign stream object, for the handles used last. These are not weak references, because torch's
#: streams do not clear them when they are deleted.
foreign: dict[int, Any] = {}
_MAX_FOREIGN = 256


def owner_of(handle: int) -> Any:
    """Return the foreign stream of a handle, to be kept alive by work queued on it; None for other handles."""
    return foreign.get(handle)


def stream(stream: Any = None, *, device: int | str | None = None, priority: int = 0) -> Stream:
    """Make a new stream, or wrap an existing one. In a `with` block it is the default stream of operations.

    Args:
        stream: None for a new stream (one that does not wait for the legacy default stream), or a Numba stream, an
            object with `__cuda_stream__`, or a handle as an integer.
        device: the GPU of a new stream, by default the current one; or the GPU of an existing stream. CUDA's default
            stream, 0, belongs to every GPU.
        priority: the priority of a new stream. 0 is ordinary, and lower numbers are higher priorities, as in CUDA and
            torch: the GPU starts waiting blocks of such a stream first. A number outside of the GPU's range (on current
            GPUs -5 to 0) becomes the nearest one in it.

    Returns:
        Stream.

    Raises:
        OptionError: stream is not a stream, or priority is not an integer, or both are given.
        DeviceError: the GPU does not exist, or the stream belongs to another one.

    Example:
        >>> with numbacc.stream():  # work of these calls is queued on the new stream
        ...     print(gated.forward(np.ones(4), "reglu"))
        [1. 1.]
    """
    found = None
    priority = checks.integer(priority, "priority")
    if stream is not None:
        if priority:
            raise OptionError("priority= is for new streams: an existing stream keeps its own, leave priority out")
        found = stream if isinstance(stream, Stream) else Stream(handle_of(stream), source=stream)
        if device is None:
            return found
    if not has_gpu():
        named(device)
        return found or Stream(0)
    number = target_of(device)
    if number < 0:
        raise DeviceError('device="cpu": the CPU has no streams; pass the number of a GPU')
    if found is not None:
        return _of_device(found, number)
    nearest = runtime().nearest_priority(number, priority) if priority else 0
    return Stream(_unused(number, nearest), number, owned=True, priority=nearest)


def _of_device(found: Stream, number: int) -> Stream:
    """Return a stream as a stream of one GPU.

    Raises:
        DeviceError: it belongs to another GPU.
    """
    known = device_of(found) if found.handle else found.device
    if known not in (None, number):
        raise DeviceError(f"stream belongs to cuda:{known}, and device= names cuda:{number}: leave device out")
    return found if found.device == number else Stream(found.handle, number, source=found)


def _unused(device: int, priority: int) -> int:
    """Return an unused stream of this priority, or a new one.

    A stream that took part in a capture is in use until the capture ends.
    """
    idle, made = _idle.setdefault((device, priority), []), runtime()
    for _ in range(len(idle)):
        try:
            handle = idle.pop(0)
        except IndexError:
            break  # another thread was faster
        try:
            if not made.is_capturing(handle):
                return handle
        except UnsupportedError:
            pass  # a capture that is broken and has not ended
        idle.append(handle)
    return int(made.create_stream(device, priority))


def device_of(stream: Any) -> int:
    """Return the GPU that a stream belongs to. For the default stream, which every GPU has, this is the current one."""
    if stream is None:
        stream = current_stream()
    found = stream.device if isinstance(stream, Stream) else None
    return runtime().device_of_stream(handle_of(stream)) if found is None else found


def current_stream() -> Stream:
    """Return the default stream of this thread's operations.

    Example:
        >>> with numbacc.stream() as s:
        ...     numbacc.current_stream() is s
        True
    """
    return _default.stack[-1][0] if _default.stack else Stream(0)


def handle_of(stream: Any) -> int:
    """Return the CUstream handle of a `stream=` argument.

    Raises:
        OptionError: the argument is not a stream.
    """
    if stream is None:
        # Reading a thread-local variable takes longer than anything else here.
        return _default.handle if _entered else 0
    if type(stream) is Stream:
        return stream.handle
    if isinstance(stream, int) and not isinstance(stream, bool) and 0 <= stream < 2**64:
        return stream if not 0 < stream < 3 else _special(stream)
    try:
        handle = int(stream.__cuda_stream__()[1])
    except Exception as error:
        raise OptionError(
            f"stream={shown(stream)} is not a stream: pass a numbacc or Numba stream, an object with "
            "__cuda_stream__, or a handle as an integer"
        ) from error
    if 0 < handle < 3:
        return _special(handle)
    if handle and foreign.get(handle) is not stream:
        foreign.pop(handle, None)
        foreign[handle] = stream
        while len(foreign) > _MAX_FOREIGN:
            with suppress(RuntimeError):  # another thread has just changed it
                foreign.pop(next(iter(foreign)), None)
    return handle


def _special(handle: int) -> int:
    """Resolve one of CUDA's special handles: 1 is the legacy default stream, 2 the per-thread default stream."""
    if handle == PER_THREAD:
        raise OptionError(
            "stream is CUDA's per-thread default stream (2). It is a different stream in each thread, so other work "
            "cannot wait for it: pass numbacc.stream(), or 0 for the default stream"
        )
    return 0


def check_producer(producer: int | None, name: str) -> None:
    """Raise UnsupportedError if the library of the argument `name` works on the per-thread default stream."""
    if producer == PER_THREAD:
        raise UnsupportedError(
            f"{name}'s library works on CUDA's per-thread default stream. It is a different stream in each thread, so "
            "other work cannot wait for it: run that library on a stream that you create with it"
        )


def check_consumer(consumer: int) -> None:
    """Raise BufferError if a library that imports memory by DLPack works on the per-thread default stream."""
    if consumer == PER_THREAD:
        raise BufferError("work cannot wait for CUDA's per-thread default stream: use a stream that you create")


# ---------------------------------------------------------------- other libraries' streams


def library_stream_of(obj: Any, device: int) -> int | None:
    """Return the stream that the library of a foreign GPU array works on now; None if the library does not say.

    Args:
        obj: the array.
        device: the GPU that it is on.
    """
    kind: Any = type(obj)
    current: Callable[[int], int] | None = _current(kind)
    return None if current is None else current(device)


@lru_cache(maxsize=256)
def _current(kind: Any) -> Callable[[int], int] | None:
    """Return a function that returns the current stream of the library of a class of arrays, or None."""
    # A subclass of torch.Tensor may come from any module.
    libraries = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return torch_stream if "torch" in libraries else _cupy if "cupy" in libraries else None


def library_streams(device: int) -> set[int]:
    """Return the current streams, on a GPU, of the libraries loaded in this process."""
    found = set()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        found.add(torch_stream(device))
    if "cupy" in sys.modules:
        found.add(_cupy(device))
    return found


def library_owner(stream: int) -> Any:
    """Return the foreign object that owns a stream, to be kept alive while the stream is used, or None.

    torch's streams are never destroyed.
    """
    found = owner_of(stream)
    if found is None and stream and "cupy" in sys.modules:
        theirs = sys.modules["cupy"].cuda.get_current_stream()
        if theirs.ptr == stream:
            return theirs
    return found


def torch_stream(device: int) -> int:
    """Return torch's current stream of a GPU, in this thread."""
    return torch_streams()(device)


@lru_cache(maxsize=1)
def torch_streams() -> Callable[[int], int]:
    """Return a function that returns torch's current stream of a GPU, in this thread."""
    torch = sys.modules["torch"]
    # The function that torch's own generated code calls. The public one makes an object.
    found: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return found or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))


def _cupy(device: int) -> int:
    handle = int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return 0 if handle == 1 else handle
