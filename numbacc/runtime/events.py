"""Events: points in a stream's queue, for other streams and the host to wait for, and to measure times between."""

from __future__ import annotations

import time
from typing import Any

from numbacc_bindings.driver import EventFlag

from ..base import checks
from ..base.dispatch import has_gpu, runtime
from ..base.ownership import NotCopied
from ..errors import DeviceError, OptionError, UnsupportedError
from .streams import device_of, handle_of, named, target_of


class Event(NotCopied):
    """A point in a stream's queue. Streams and the host wait for it, and two events measure the time between them.

    `numbacc.event()` makes one, and `record` sets it to a point. Without a GPU it holds the host's time.

    Attributes:
        device: the GPU's number, or None before the first `record`.

    Example:
        >>> start = numbacc.event().record()
        >>> y = gated.forward(np.ones(4), "reglu")
        >>> end = numbacc.event().record()
        >>> start.elapsed_time(end) >= 0
        True
    """

    __slots__ = ("_capture", "_event", "_is_fixed", "_seconds", "_stream", "_timing", "device")

    _instead = "record another, numbacc.event()"

    def __init__(self, device: int | None, timing: bool):
        self.device = device
        self._is_fixed, self._timing = device is not None, timing
        #: The driver's event, the stream that it was last recorded on, and the number of that stream's capture.
        self._event: Any = None
        self._stream = self._capture = 0
        #: The host's time of the last record, without a GPU.
        self._seconds: float | None = None

    def record(self, stream: Any = None) -> Event:
        """Set this event to the point that a stream's queue has reached.

        Earlier waits keep the point that they were queued for. Recorded inside a graph's capture, the event orders the
        streams of that graph; it has no time, and only streams can wait for it.

        Args:
            stream: the stream; the default stream if None.

        Returns:
            this event.

        Raises:
            OptionError: stream is not a stream.
            DeviceError: the event was made for another GPU than the stream's.
        """
        handle = handle_of(stream)
        if not has_gpu():
            self._seconds = time.perf_counter()
            return self
        device = device_of(stream)
        if self._event is None or device != self.device:
            if self._is_fixed and device != self.device:
                raise DeviceError(
                    f"this event was made for cuda:{self.device}, and the stream is on cuda:{device}: record another "
                    f"event, numbacc.event(device={device})"
                )
            self._event = runtime().DriverEvent(device, EventFlag.DEFAULT if self._timing else EventFlag.DISABLE_TIMING)
            self.device = device
        self._stream, self._capture = handle, runtime().capture_number(handle)
        self._event.record(handle)
        return self

    def wait(self, stream: Any = None) -> None:
        """Make work queued on a stream from now on start only after this point. Does not block the host.

        The stream may belong to another GPU. An event that was never recorded is not waited for. If the event was
        recorded inside a graph's capture, the stream becomes part of that capture.

        Args:
            stream: the stream that waits; the default stream if None.

        Raises:
            OptionError: stream is not a stream.
            UnsupportedError: the stream is being captured into a graph, and the event was not recorded in that
                capture; or the event's capture has ended.
        """
        handle = handle_of(stream)
        if not has_gpu() or self._event is None:
            return
        self._check_capture()
        if runtime().capture_number(handle) not in (0, self._capture):
            raise UnsupportedError(
                "a stream that is being captured into a graph can only wait for events recorded in that capture: wait "
                "before the capture; arrays that the graph uses are waited for at each launch"
            )
        self._event.wait(handle, device_of(stream))

    def query(self) -> bool:
        """Return True if all work before this point is done, or if the event was never recorded. Does not block.

        Raises:
            UnsupportedError: the event was recorded inside a graph's capture.
        """
        if self._event is None:
            return True
        self._check_outside()
        with runtime().relaxed():  # allowed while another thread captures
            return bool(self._event.is_done())

    def synchronize(self) -> None:
        """Block the host until all work before this point is done.

        Raises:
            UnsupportedError: the event was recorded inside a graph's capture.
        """
        if self._event is not None:
            self._check_outside()
            with runtime().relaxed():
                self._event.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this point to that of `end`. This blocks until the GPU has passed both.

        CUDA's resolution is half a microsecond. Without a GPU this is the host's time.

        Args:
            end: the later event, on the same GPU.

        Raises:
            OptionError: end is not an event; or one of the events was not recorded, or was made with timing=False.
            DeviceError: the events are on two GPUs.
            UnsupportedError: an event was recorded inside a graph's capture.
        """
        if not isinstance(end, Event):
            raise OptionError(f"end is a {type(end).__name__}; it must be a numbacc event, numbacc.event()")
        for each, name in ((self, "this event"), (end, "end")):
            if not each._timing:
                raise OptionError(f"{name} was made with timing=False and has no time: leave timing out")
            if each._event is None and each._seconds is None:
                raise OptionError(f"{name} was not recorded: call record() first")
        if self._event is None or end._event is None:
            return (end._seconds - self._seconds) * 1000  # type: ignore[operator]
        if self.device != end.device:
            raise DeviceError(f"the events are on cuda:{self.device} and cuda:{end.device}: their clocks differ")
        self.synchronize()
        end.synchronize()
        return float(end._event.elapsed_ms(self._event))

    def _check_capture(self) -> None:
        """Raise UnsupportedError if the event was recorded in a capture that has ended."""
        if self._capture and runtime().capture_number(self._stream) != self._capture:
            raise UnsupportedError(
                "this event was recorded inside a graph's capture that has ended: it orders streams of that graph "
                "only. Record it again after g.launch()"
            )

    def _check_outside(self) -> None:
        """Raise UnsupportedError if the event was recorded in a capture."""
        if self._capture:
            raise UnsupportedError(
                "this event was recorded inside a graph's capture, where nothing runs: record events before and after "
                "g.launch()"
            )

    def __repr__(self) -> str:
        state = "recorded" if self._event is not None or self._seconds is not None else "not recorded"
        return f"numbacc.Event({state}{'' if self.device is None else f', device=cuda:{self.device}'})"


def event(*, device: int | str | None = None, timing: bool = True) -> Event:
    """Make an event: a point in a stream's queue, to wait for, and to measure the GPU's time between two of them.

    Args:
        device: a GPU's number or "cuda:0"; by default the GPU of the stream on which it is recorded.
        timing: False for an event that only orders work, which is a little cheaper.

    Returns:
        Event, which is not recorded yet.

    Raises:
        DeviceError: the GPU does not exist.
        OptionError: timing is neither True nor False.

    Calls of numbacc do not need events for their order: work on an array waits for earlier work on it. Events order
    other work, such as your own kernels, and measure times.

    Example:
        >>> start = numbacc.event().record()
        >>> y = gated.forward(np.ones(4), "reglu")
        >>> start.elapsed_time(numbacc.event().record()) > 0
        True
    """
    is_timed = checks.boolean(timing, "timing")
    number = named(device)
    if not has_gpu() or device is None:
        return Event(None, is_timed)
    if number is not None and number < 0:
        raise DeviceError('device="cpu": the CPU has no streams; pass the number of a GPU')
    return Event(target_of(device), is_timed)
