"""Streams: queues of GPU work. Work on one stream runs in order; work on two may overlap."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from .backend import backend, has_gpu
from .devices import named, target_of
from .errors import DeviceError, OptionError, shown
from .layout import CPU
from .ownership import NotCopied


class _Default(threading.local):
    """The stream that operations use when they are given none, one a thread."""

    def __init__(self) -> None:
        self.handle = 0
        self.stack: list[Any] = []


_default = _Default()


class Stream(NotCopied):
    """A stream of one GPU, which operations take as `stream=` and `with` makes the default.

    Make one with `numbacc.stream()`. On a machine without a GPU it does nothing, so that notebooks run
    unchanged.

    Attributes:
        handle: the CUstream as an integer; 0 is CUDA's legacy default stream.
        device: the GPU's number, or None where only the handle is known.
    """

    __slots__ = ("_owned", "_source", "device", "handle")

    _instead = "share it, or make another with numbacc.stream()"

    def __init__(
        self,
        handle: int,
        device: int | None = None,
        *,
        owned: bool = False,
        source: object = None,
    ):
        self.handle = handle
        self.device = device
        self._owned = owned
        self._source = source  # keeps a foreign stream alive

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version, handle): the protocol by which CUDA libraries in Python share streams."""
        return (0, self.handle)

    def synchronize(self) -> None:
        """Wait until everything queued on this stream is done. This blocks."""
        if has_gpu():
            backend().synchronize(self.handle, self._device())

    def wait(self, other: Any) -> None:
        """Let work queued here from now on start only after what is queued on `other` now. Does not block."""
        if has_gpu():
            backend().wait(self.handle, handle_of(other), self._device())

    def _device(self) -> int:
        return backend().current_device() if self.device is None else self.device

    def __enter__(self) -> Stream:
        _default.stack.append((self, _default.handle))
        _default.handle = self.handle
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _, _default.handle = _default.stack.pop()

    def __repr__(self) -> str:
        where = "" if self.device is None else f", device=cuda:{self.device}"
        return f"numbacc.Stream(handle={self.handle:#x}{where})"

    def __del__(self) -> None:
        # Arrays may still be waiting to be freed on this stream, so it is not destroyed but used again.
        if self._owned and self.device is not None:
            _idle.setdefault(self.device, []).append(self.handle)


#: Device -> streams that nobody holds any more.
_idle: dict[int, list[int]] = {}

#: Handle -> the foreign stream that it belongs to, of those seen last. Not by weak references: torch's streams end
#: without clearing those.
foreign: dict[int, Any] = {}
_MAX_FOREIGN = 256


def owner_of(handle: int) -> Any:
    """The foreign stream of a handle, to be kept alive by what will be queued on it; None for other handles."""
    return foreign.get(handle)


def stream(stream: Any = None, *, device: int | str | None = None) -> Stream:
    """A new stream, or an existing one as numbacc's; in a `with`, the default of the operations inside.

    ```
    with numbacc.stream():          # a new stream
        y = gated.forward(x)
    with numbacc.stream(torch_stream):
        ...
    ```

    Args:
        stream: None for a new stream (one that does not wait for the legacy default stream), or a Numba
            stream, anything with `__cuda_stream__`, or a handle as an integer.
        device: the GPU of a new stream; by default the current one.

    Returns:
        Stream.

    Raises:
        OptionError: stream is none. DeviceError: there is no such GPU.
    """
    if stream is not None:
        if isinstance(stream, Stream):
            return stream
        return Stream(handle_of(stream), named(device), source=stream)
    if not has_gpu():
        named(device)
        return Stream(0)
    number = target_of("cuda" if device is None else device)
    if number == CPU:
        raise DeviceError('device="cpu" has no streams: pass the number of a GPU')
    try:
        handle = _idle[number].pop()
    except (KeyError, IndexError):
        handle = backend().create_stream(number)
    return Stream(handle, number, owned=True)


def current_stream() -> Stream:
    """The stream that operations of this thread use when they are given none."""
    return _default.stack[-1][0] if _default.stack else Stream(0)


def handle_of(stream: Any) -> int:
    """The CUstream handle of whatever `stream=` may be.

    Raises:
        OptionError: it is no stream.
    """
    if stream is None:
        return _default.handle
    if type(stream) is Stream:
        return stream.handle
    if isinstance(stream, int) and not isinstance(stream, bool) and 0 <= stream < 2**64:
        return stream
    try:
        handle = int(stream.__cuda_stream__()[1])
    except Exception as error:
        raise OptionError(
            f"stream={shown(stream)} is no stream: pass a numbacc or Numba stream, an object with "
            "__cuda_stream__, or a handle as an integer"
        ) from error
    if handle and foreign.get(handle) is not stream:
        foreign.pop(handle, None)
        foreign[handle] = stream
        while len(foreign) > _MAX_FOREIGN:
            foreign.pop(next(iter(foreign)), None)
    return handle
