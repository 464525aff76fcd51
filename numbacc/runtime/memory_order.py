"""The order of work on memory: whoever uses it next waits, on the GPU, for what was queued on it before.

Each storage has a `History`. While all work on it is queued on one stream (`sole`), that stream's order is its history,
and nothing is recorded. Work on another stream is put in order by `using`: it first makes that stream wait for what is
queued on the memory (readers for what wrote it, writers for all), and behind the work notes an event for whoever comes
next. A write that has waited for everything makes its stream the memory's own, so that an array that has moved to
another stream costs nothing there.

Memory that another library shares, ours exported or theirs imported, has that library's stream as a partner: our work
on other streams waits for what is queued there now, and the partner waits for ours.
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

#: Device -> events for ordering that nobody holds any more. The driver is done with what they stood for as soon as they
#: are recorded again: a wait that was queued keeps the point that it was queued for.
_idle: defaultdict[int, deque[int]] = defaultdict(deque)


class Event(NotCopied):
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
        """Let this be the point that the stream's queue has reached."""
        with on_device(self.device):
            driver.cuEventRecord(self.handle, stream)

    def wait(self, stream: int, device: int | None = None) -> None:
        """Make `stream` wait for this point. `device` is the stream's GPU where that is not the event's."""
        with on_device(self.device if device is None else device):
            driver.cuStreamWaitEvent(stream, self.handle, 0)

    def is_done(self) -> bool:
        """True if the GPU is past this point."""
        return bool(driver.cuEventQuery(self.handle) == 0)

    def synchronize(self) -> None:
        driver.cuEventSynchronize(self.handle)

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from `start` to this point, both timed and reached."""
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


def create_stream(device: int) -> int:
    """A new stream that does not wait for the legacy default stream."""
    with on_device(device):
        handle = call(driver.cuStreamCreate, StreamFlag.NON_BLOCKING)
    stream_devices[handle] = device
    return handle


def synchronize(stream: int, device: int) -> None:
    """Wait on the host for everything queued on the stream."""
    with on_device(device):
        driver.cuStreamSynchronize(stream)


def wait(stream: int, producer: int, device: int, producers_device: int | None = None) -> None:
    """Make `stream` wait for what is queued on `producer` now, which may be a stream of another GPU."""
    other = device if producers_device is None else producers_device
    if (stream, device) != (producer, other):
        event = Event(other)
        event.record(producer)
        event.wait(stream, device)


# ---------------------------------------------------------------- the order of work


class Use(NamedTuple):
    """Work that is queued on memory: its stream, a point behind it, whether it writes."""

    stream: int
    event: Event
    writes: bool


#: Guards all histories: what it guards are a few assignments.
_lock = threading.RLock()
#: Device -> the ordinary stream on which memory of captures is allocated and freed.
_homes: dict[int, int] = {}


class History(NotCopied):
    """The work queued on one piece of memory.

    Attributes:
        device: the GPU it is on.
        stream: handle of the stream that it is freed on: the one it was allocated on, or that wrote it last.
        sole: that stream where all work on the memory is queued on it, else None.
        partners: streams on which other libraries use the memory; one that does so twice is there twice.
    """

    # `_kept` is what must live as long as the memory, `_stream_owner` the foreign stream that frees are queued on; most
    # memory has neither.
    __slots__ = ("__weakref__", "_kept", "_stream_owner", "_uses", "device", "partners", "sole", "stream")

    _instead = ARRAY_INSTEAD

    # Set by each kind of memory, spelled out: every result and foreign argument of an operation comes by there.
    device: int
    stream: int
    sole: int | None
    #: What is queued on the memory, where that is not all on `sole`.
    _uses: tuple[Use, ...]
    partners: tuple[int, ...]

    @property
    def block(self) -> History:
        """The memory that this is: itself, but for a graph's."""
        return self

    def keep(self, owner: object) -> None:
        """Keep an object alive as long as this memory."""
        with _lock:
            self._kept = (getattr(self, "_kept", None), owner)

    def before(self, stream: int, writes: bool, passed: set[Event] | None = None) -> tuple[Use, ...]:
        """Make a stream wait for what is queued on this memory; returns that. The device's context is current.

        Args:
            stream: where work is to be queued, and is not captured.
            writes: whether it will write: then it waits for readers, too.
            passed: the events that it waits for already; those that it does from now on are added.
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
                # By a name: an event that nobody holds is recorded anew by whoever takes it, in any thread.
                point = point_behind(partner, self.device)
                driver.cuStreamWaitEvent(stream, point.handle, 0)
        return uses

    def _depart(self, stream: int) -> None:
        """Note what is queued on the sole stream, where another is about to use the memory."""
        if self.sole is not None and self.sole != stream:
            self._uses = (Use(self.sole, point_behind(self.sole, self.device), True),)
            self.sole = None

    def _others_are_done(self) -> bool:
        # What asks is allowed to do so while other threads capture.
        with relaxed():
            return all(use.stream == self.stream or use.event.is_done() for use in self._uses)

    def after(self, stream: int, writes: bool, waited: tuple[Use, ...], point: Callable[[], Event]) -> None:
        """Note that work was queued on a stream that waited for these uses. `point()` is behind that work."""
        with _lock:
            partners = [partner for partner in self.partners if partner != stream]
            if self.sole != stream:
                self._depart(stream)  # where another thread has made it its own stream's meanwhile
                rest = tuple(use for use in self._uses if use not in waited) if writes else self._uses
                if writes and not rest and not partners:
                    # All that was queued on the memory comes before: from here on it is this stream's.
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
        """Let a stream of another library wait for what is queued here, and be this memory's partner.

        The device's context is current.
        """
        with _lock:
            if stream == self.sole:  # on which all is, partners' work, too
                self.partners = (*self.partners, stream)
                return
        self.before(stream, True)
        with _lock:
            # A thread that used it on its home stream meanwhile may have found all others done.
            self._depart(stream)
            self.partners = (*self.partners, stream)

    def unshare(self, stream: int) -> None:
        """The other library has let go; what it has queued so far is waited for by whoever is next."""
        with _lock:
            if stream == self.sole and len(self.partners) == 1:
                self.partners = ()
                return
            others = list(self.partners)
            others.remove(stream)
            if stream != self.sole:
                with on_device(self.device):
                    if capture_on(stream)[0]:
                        return  # nothing can be noted there now: it stays a partner
                    last = Use(stream, point_behind(stream, self.device), True)
                    self._uses = (*(use for use in self._uses if use.stream != stream), last)
            self.partners = tuple(others)


def _depart_together(stream: int, histories: Iterable[Any], device: int) -> None:
    """`_depart` of several that are used at once: one event for all that leave a stream."""
    with _lock:
        leaving: dict[int, list[History]] = {}
        for each in histories:
            if each.sole is not None and each.sole != stream:
                leaving.setdefault(each.sole, []).append(each)
        for sole, those in leaving.items():
            # First, so that work which another thread queues behind the event is noted by itself.
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


def point_behind(stream: int, device: int) -> Event:
    """A point behind all that is queued on a stream that is not captured, or was queued before it was."""
    number, _ = capture_on(stream)
    if number:
        capture = known(number)
        if capture is None or capture.before is None:
            raise UnsupportedError(
                f"stream {stream:#x}, on which this array was used last, is being captured into a graph, and what it "
                "did before can be waited for no more: use the array elsewhere before the capture, or use numbacc.graph"
            )
        return capture.before  # type: ignore[no-any-return]
    event = Event(device)
    driver.cuEventRecord(event.handle, stream)
    return event


def home_of_captures(device: int) -> int:
    """The ordinary stream on which captures' memory is allocated and freed. It never works for long."""
    with _lock:
        if device not in _homes:
            _homes[device] = create_stream(device)
        return _homes[device]


def capture_of(stream: int, device: int) -> Capture | None:
    """The capture that records a stream's work, None where there is none.

    One that others have begun is met here for the first time: its graph then keeps what it uses.
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
    """`with using(stream, device, reads, writes) as capture`: work queued inside, on `stream`, is in memory's order.

    Inside, the device's context is current, and of a stream that is captured, what it uses is kept by `capture`, which
    is None for others.

    Args:
        stream: a handle.
        device: the GPU.
        reads, writes: the device arrays that the work reads and writes; None is passed over.
        storages: or pairs of a storage, and whether it is written.
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
        #: Each storage, and whether it is written; one that is read and written is there twice.
        self._used = [(a._storage, False) for a in reads if a is not None]
        self._used += [(a._storage, True) for a in writes if a is not None]
        self._used += storages
        self._context: on_device | None = None
        self._capture: Capture | None = None
        #: Where something was away from the stream: with what was waited for; None where nothing was to be.
        self._waited: list[tuple[Any, bool, tuple[Use, ...] | None]] | None = None

    def __enter__(self) -> Capture | None:
        # Most arrays are at home, in a context that is the current one: this path is short.
        stream = self._stream
        if stream_devices.get(stream, self._device) != self._device:
            check_stream(stream, self._device)  # others' streams are checked where a call fails, which is shorter
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
        # What is written comes last, and counts.
        used = {id(storage.block): (storage, written) for storage, written in self._used}
        if len(used) > 1:
            _depart_together(self._stream, [storage for storage, _ in used.values()], self._device)
        passed: set[Event] = set()
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
                    with contextlib.suppress(LibraryError):  # of a context that is broken
                        check_stream(self._stream, self._device)
                # Work may have been queued even where something failed in the end.
                with contextlib.suppress(LibraryError):  # the one on its way says more
                    self.note()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._context is not None:
            self._context.__exit__()

    def note(self) -> None:
        """Note that the work is queued."""
        if self._waited is None:
            for storage, _ in self._used:
                if storage.sole != self._stream:
                    # Another thread has begun to use the memory on another stream, before this work was queued.
                    self._waited = [(storage, written, None) for storage, written in self._used]
                    break
            else:
                return
        points: list[Event] = []

        def point() -> Event:
            """Behind the work: one event for all memory it used."""
            if not points:
                points.append(point_behind(self._stream, self._device))
            return points[0]

        for storage, written, waited in self._waited:
            if waited is not None or storage.sole != self._stream:
                storage.after(self._stream, written, waited or (), point)


def note(stream: int, device: int, reads: Iterable[Any], writes: Iterable[Any]) -> None:
    """Note work queued by a short way, where another thread has meanwhile begun to use its arrays elsewhere."""
    with on_device(device):
        using(stream, device, reads, writes).note()
