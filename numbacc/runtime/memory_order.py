"""The order of work on memory: later work waits, on the GPU, for the work that was queued on the memory before.

Each storage has a `History`. While all work on the memory is queued on one stream (`sole`), that stream orders it, and
nothing is recorded. `using` orders work on another stream. It makes that stream wait for the work queued on the memory
(readers wait for writers, writers wait for all), and records an event after the new work, for later users. After a
write that has waited for everything, its stream becomes the memory's sole stream. So an array that has moved to another
stream costs nothing there.

If another library shares the memory, exported by numbacc or imported from the library, that library's stream is a
partner of the memory. Work of numbacc on other streams waits for the partner's queued work, and the partner waits for
numbacc's.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from numbacc_bindings.driver import EventFlag, StreamFlag, driver

from ..base.ownership import ARRAY_INSTEAD, NotCopied
from ..errors import LibraryError, UnsupportedError
from .captures import Capture, attach, capture_on, known, may_capture
from .contexts import call, check_stream, is_current, on_device, relaxed, stream_devices
from .streams import owner_of

# ---------------------------------------------------------------- events: points in a stream's queue

#: Device -> unused events for ordering. They can be recorded again at once: a wait that is already queued keeps the
#: point that it was queued for.
_idle: defaultdict[int, deque[int]] = defaultdict(deque)


class DriverEvent(NotCopied):
    """A point in a stream's queue."""

    __slots__ = ("_flags", "device", "handle")

    _instead = "record another"

    def __init__(self, device: int, flags: int = EventFlag.DISABLE_TIMING):
        self.handle = 0
        self.device = device
        self._flags = flags
        if flags == EventFlag.DISABLE_TIMING:
            try:
                self.handle = _idle[device].pop()
                return
            except IndexError:
                pass
        with on_device(device):
            self.handle = call(driver.cuEventCreate, flags)

    def record(self, stream: int) -> None:
        """Set this event to the point that the stream's queue has reached."""
        with on_device(self.device):
            driver.cuEventRecord(self.handle, stream)

    def wait(self, stream: int, device: int | None = None) -> None:
        """Make `stream` wait for this point. `device` is the stream's GPU, if it differs from the event's."""
        with on_device(self.device if device is None else device):
            driver.cuStreamWaitEvent(stream, self.handle, 0)

    def is_done(self) -> bool:
        """Return True if the GPU has passed this point."""
        return bool(driver.cuEventQuery(self.handle) == 0)

    def synchronize(self) -> None:
        driver.cuEventSynchronize(self.handle)

    def elapsed_ms(self, start: DriverEvent) -> float:
        """Return the milliseconds from `start` to this point; both events are timed and have been reached."""
        result = ctypes.c_float()
        driver.cuEventElapsedTime(ctypes.addressof(result), start.handle, self.handle)
        return result.value

    def __del__(self) -> None:
        if not self.handle:
            return
        try:
            if self._flags == EventFlag.DISABLE_TIMING:
                _idle[self.device].append(self.handle)
            else:
                driver.cuEventDestroy_v2(self.handle)
        except Exception:
            pass  # interpreter exit, which ends all events


def create_stream(device: int, priority: int = 0) -> int:
    """Create a stream that does not wait for the legacy default stream."""
    with on_device(device):
        handle = call(driver.cuStreamCreateWithPriority, StreamFlag.NON_BLOCKING, priority)
    stream_devices[handle] = device
    return handle


def nearest_priority(device: int, priority: int) -> int:
    """Return the priority of the GPU's range that is nearest to a given one. Lower numbers are higher priorities."""
    ends = (ctypes.c_int * 2)()
    with on_device(device):
        driver.cuCtxGetStreamPriorityRange(ctypes.addressof(ends), ctypes.addressof(ends) + ctypes.sizeof(ctypes.c_int))
    return min(max(priority, ends[1]), ends[0])


def priority_of(stream: int, device: int) -> int:
    """Return a stream's priority."""
    found = ctypes.c_int()
    with on_device(device):
        driver.cuStreamGetPriority(stream, ctypes.addressof(found))
    return found.value


def synchronize(stream: int, device: int) -> None:
    """Wait on the host for all work queued on the stream."""
    with on_device(device):
        driver.cuStreamSynchronize(stream)


def wait(stream: int, producer: int, device: int, producers_device: int | None = None) -> None:
    """Make `stream` wait for the work queued on `producer` so far. `producer` may be a stream of another GPU."""
    other = device if producers_device is None else producers_device
    if (stream, device) != (producer, other):
        event = DriverEvent(other)
        event.record(producer)
        event.wait(stream, device)


# ---------------------------------------------------------------- the order of work


class Use(NamedTuple):
    """Work queued on memory: its stream, an event after it, and whether it writes."""

    stream: int
    event: DriverEvent
    writes: bool


#: Guards all histories. It is held for a few assignments only.
_lock = threading.RLock()
#: Device -> the ordinary stream that allocates and frees captures' memory.
_homes: dict[int, int] = {}


class History(NotCopied):
    """The work queued on one piece of memory.

    Attributes:
        device: the GPU it is on.
        stream: handle of the stream that the memory is freed on: the stream of its allocation, or of the last
            write.
        sole: the only stream with work on the memory, or None if several streams have work on it.
        partners: streams of other libraries that use the memory; a stream appears once for each such use.
    """

    # `_kept` holds objects that must live as long as the memory. `_stream_owner` is the foreign stream that frees are
    # queued on. Most memory has neither.
    __slots__ = ("__weakref__", "_kept", "_stream_owner", "_uses", "device", "partners", "sole", "stream")

    _instead = ARRAY_INSTEAD

    # Each kind of memory sets these itself, for speed: every result and foreign argument of an operation makes one.
    device: int
    stream: int
    sole: int | None
    #: Work queued on the memory, if not all of it is on `sole`.
    _uses: tuple[Use, ...]
    partners: tuple[int, ...]

    @property
    def block(self) -> History:
        """The memory whose history this is: itself, except for a graph's memory."""
        return self

    def keep(self, owner: object) -> None:
        """Keep an object alive as long as this memory."""
        with _lock:
            self._kept = (getattr(self, "_kept", None), owner)

    def before(self, stream: int, writes: bool, passed: set[DriverEvent] | None = None) -> tuple[Use, ...]:
        """Make a stream wait for the work queued on this memory, and return that work. The device's context is current.

        Args:
            stream: where work will be queued; it is not captured.
            writes: whether that work writes: it then waits for readers, too.
            passed: events that the stream has waited for already; this adds those that it waits for now.
        """
        passed = set() if passed is None else passed
        with _lock:
            self._depart(stream)
            if self._uses and stream == self.stream and not self.partners and self._others_are_done():
                self._uses, self.sole = (), stream
            uses, partners = self._uses, self.partners
        for use in uses:
            if use.stream != stream and (writes or use.writes) and use.event not in passed:
                passed.add(use.event)
                driver.cuStreamWaitEvent(stream, use.event.handle, 0)
        for partner in partners:
            if partner != stream and not capture_on(partner)[0]:
                # Keep the event in a variable: an event without references is reused by any thread.
                point = point_behind(partner, self.device)
                driver.cuStreamWaitEvent(stream, point.handle, 0)
        return uses

    def _depart(self, stream: int) -> None:
        """Record the work queued on the sole stream, because another stream is about to use the memory."""
        if self.sole is not None and self.sole != stream:
            self._uses = (Use(self.sole, point_behind(self.sole, self.device), True),)
            self.sole = None

    def _others_are_done(self) -> bool:
        # Relaxed, so that the query is allowed while other threads capture.
        with relaxed():
            return all(use.stream == self.stream or use.event.is_done() for use in self._uses)

    def after(self, stream: int, writes: bool, waited: tuple[Use, ...], point: Callable[[], DriverEvent]) -> None:
        """Record that work was queued on a stream that has waited for `waited`. `point()` returns an event after it."""
        with _lock:
            partners = [partner for partner in self.partners if partner != stream]
            if self.sole != stream:
                self._depart(stream)  # if another thread has moved it to its own stream meanwhile
                rest = tuple(use for use in self._uses if use not in waited) if writes else self._uses
                if writes and not rest and not partners:
                    # All earlier work on the memory comes before this write: from here on this stream is the sole one.
                    if stream != self.stream:
                        self.stream, self._stream_owner = stream, owner_of(stream)
                    self.sole, self._uses = stream, ()
                else:
                    kept = (use for use in rest if use.stream != stream or use.writes > writes)
                    self._uses = (*kept, Use(stream, point(), writes))
        for partner in partners:
            if not capture_on(partner)[0]:
                driver.cuStreamWaitEvent(partner, point().handle, 0)

    def share(self, stream: int) -> None:
        """Make a stream of another library wait for the work queued here, and a partner of this memory.

        The device's context is current.
        """
        with _lock:
            if stream == self.sole:  # all work is on it, including the partners'
                self.partners = (*self.partners, stream)
                return
        self.before(stream, True)
        with _lock:
            # Another thread that used the memory on its home stream may have found all other work done.
            self._depart(stream)
            self.partners = (*self.partners, stream)

    def unshare(self, stream: int) -> None:
        """End a partnership: the other library no longer uses the memory. Later work waits for its queued work."""
        with _lock:
            if stream == self.sole and len(self.partners) == 1:
                self.partners = ()
                return
            others = list(self.partners)
            others.remove(stream)
            if stream != self.sole:
                with on_device(self.device):
                    if capture_on(stream)[0]:
                        return  # nothing can be recorded there now: it stays a partner
                    last = Use(stream, point_behind(stream, self.device), True)
                    self._uses = (*(use for use in self._uses if use.stream != stream), last)
            self.partners = tuple(others)


def _depart_together(stream: int, histories: Iterable[Any], device: int) -> None:
    """Call `_depart` for several histories that are used together, with one event per stream that they leave."""
    with _lock:
        leaving: dict[int, list[History]] = {}
        for each in histories:
            if each.sole is not None and each.sole != stream:
                leaving.setdefault(each.sole, []).append(each)
        for sole, those in leaving.items():
            # First of all, so that work that another thread queues after the event is recorded separately.
            for each in those:
                each.sole = None
            try:
                last = Use(sole, point_behind(sole, device), True)
            except BaseException:
                for each in those:
                    each.sole = sole
                raise
            for each in those:
                each._uses = (last,)


def point_behind(stream: int, device: int) -> DriverEvent:
    """Return an event after all work queued on a stream, or if it is captured, after that before the capture."""
    number, _ = capture_on(stream)
    if number:
        capture = known(number)
        if capture is None or capture.before is None:
            raise UnsupportedError(
                f"stream {stream:#x}, which used this array last, is being captured into a graph, so nothing "
                "can wait for its earlier work: use the array on another stream before the capture, or numbacc.graph"
            )
        return capture.before  # type: ignore[no-any-return]
    event = DriverEvent(device)
    driver.cuEventRecord(event.handle, stream)
    return event


def home_of_captures(device: int) -> int:
    """Return the ordinary stream that allocates and frees captures' memory. It never has long-running work."""
    with _lock:
        if device not in _homes:
            _homes[device] = create_stream(device)
        return _homes[device]


def capture_of(stream: int, device: int) -> Capture | None:
    """Return the capture that records a stream's work, or None.

    If another library has begun the capture and this is its first use here, its graph now keeps the objects it uses.
    """
    if not may_capture()(stream):
        return None
    number, graph = capture_on(stream)
    if not number:
        return None
    capture = known(number)
    if capture is None:
        with relaxed():
            capture = Capture(device, home_of_captures(device), stream, wait)
            attach(number, graph, capture)
    return capture


class using:
    """A context manager that orders work on memory: `with using(stream, device, reads, writes) as capture`.

    Inside, the device's context is current. If the stream is captured, `capture` keeps the memory that the work uses;
    otherwise `capture` is None.

    Args:
        stream: a handle.
        device: the GPU.
        reads, writes: the device arrays that the work reads and writes; None is skipped.
        storages: further memory, as pairs (storage, whether it is written).
    """

    __slots__ = ("_capture", "_context", "_device", "_relaxed", "_stream", "_used", "_waited")

    def __init__(
        self,
        stream: int,
        device: int,
        reads: Iterable[Any] = (),
        writes: Iterable[Any] = (),
        storages: Iterable[tuple[Any, bool]] = (),
    ):
        self._stream, self._device = stream, device
        #: (storage, whether it is written); a storage that is read and written appears twice.
        self._used = [(a._storage, False) for a in reads if a is not None]
        self._used += [(a._storage, True) for a in writes if a is not None]
        self._used += storages
        self._context: on_device | None = None
        self._capture: Capture | None = None
        #: For each storage: (storage, whether it is written, the work that was waited for, or None if the storage was
        #: on this stream). None if every storage was on this stream.
        self._waited: list[tuple[Any, bool, tuple[Use, ...] | None]] | None = None

    def __enter__(self) -> Capture | None:
        # Most arrays are used on their own stream, in the current context: keep this path short.
        stream = self._stream
        if stream_devices.get(stream, self._device) != self._device:
            check_stream(stream, self._device)  # foreign streams are checked after a call fails, which is faster
        if not is_current(self._device):
            self._context = on_device(self._device)
            self._context.__enter__()
        try:
            if may_capture()(stream):
                self._capture = capture = capture_of(stream, self._device)
                if capture is not None:
                    for storage, written in self._used:
                        capture.use(storage, written, stream)
                    self._relaxed = relaxed()
                    self._relaxed.__enter__()
                    return capture
            for storage, _ in self._used:
                if storage.sole != stream:
                    self._waited = self._wait()
                    break
        except BaseException:
            self._leave()
            raise
        return None

    def _wait(self) -> list[tuple[Any, bool, tuple[Use, ...] | None]]:
        # Writes come last in `_used`, and so override reads.
        used = {id(storage.block): (storage, written) for storage, written in self._used}
        if len(used) > 1:
            _depart_together(self._stream, [storage for storage, _ in used.values()], self._device)
        passed: set[DriverEvent] = set()
        return [
            (storage, written, None if storage.sole == self._stream else storage.before(self._stream, written, passed))
            for storage, written in used.values()
        ]

    def __exit__(self, *error: Any) -> None:
        try:
            if self._capture is not None:
                self._relaxed.__exit__(*error)
            elif not error or error[1] is None:
                self.note()
            else:
                if isinstance(error[1], LibraryError):
                    with contextlib.suppress(LibraryError):  # raised if the context is broken
                        check_stream(self._stream, self._device)
                # Work may have been queued even if a later step failed.
                with contextlib.suppress(LibraryError):  # the exception in progress says more
                    self.note()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._context is not None:
            self._context.__exit__()

    def note(self) -> None:
        """Record that the work is queued."""
        if self._waited is None:
            for storage, _ in self._used:
                if storage.sole != self._stream:
                    # Another thread has used the memory on another stream before this work was queued.
                    self._waited = [(storage, written, None) for storage, written in self._used]
                    break
            else:
                return
        points: list[DriverEvent] = []

        def point() -> DriverEvent:
            """Return an event after the work, the same for all memory that it used."""
            if not points:
                points.append(point_behind(self._stream, self._device))
            return points[0]

        for storage, written, waited in self._waited:
            if waited is not None or storage.sole != self._stream:
                storage.after(self._stream, written, waited or (), point)


def note(stream: int, device: int, reads: Iterable[Any], writes: Iterable[Any]) -> None:
    """Record work queued by the fast path, if another thread has meanwhile used its arrays on another stream."""
    with on_device(device):
        using(stream, device, reads, writes).note()
