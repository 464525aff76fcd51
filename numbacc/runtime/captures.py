"""Resources of a CUDA graph, while and after it is captured: everything that its work was queued on.

Capturing records the addresses of arrays, of plans' tables and of host memory into a graph, which uses them at every
launch. So whatever a capture uses is kept by its `Capture`, and that lives as long as the graph: `numbacc.graph` holds
its own; to a graph that others capture it is given as a user object, by which the driver tells when all copies of the
graph are gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from numbacc_bindings.driver import (
    GRAPH_USER_OBJECT_MOVE,
    USER_OBJECT_NO_DESTRUCTOR_SYNC,
    CaptureStatus,
    DriverError,
    Status,
    driver,
)

from ..base.ownership import ARRAY_INSTEAD, NotCopied
from ..errors import UnsupportedError
from . import foreign_owners
from .contexts import call


class _Locks:
    """Several locks as one."""

    def __init__(self, locks: Sequence[Any]):
        self._locks = locks

    def __enter__(self) -> None:
        held: list[Any] = []
        try:
            for lock in self._locks:
                lock.acquire()
                held.append(lock)
        except BaseException:  # an interrupt, while it waits
            self._release(held)
            raise

    def __exit__(self, *error: Any) -> None:
        self._release(self._locks)

    def _release(self, held: Sequence[Any]) -> None:
        for lock in reversed(held):
            lock.release()


class Capture(NotCopied):
    """A capture, and what it uses.

    Attributes:
        device: the GPU.
        home: handle of the ordinary stream on which the graph's own memory is allocated and freed; the first launch
            follows what is queued there.
        before: the point on the captured stream at which the capture began, or None where others began it.
        used: id -> (storage, whether the graph writes to it).
        locks: id -> a lock that launches hold: no other thread may queue work on some of the memory meanwhile.
    """

    def __init__(self, device: int, home: int, stream: int, join: Callable[[int, int, int], Any], before: Any = None):
        self.device, self.home, self.before = device, home, before
        self._stream, self._number, self._join = stream, 0, join
        self._active = True
        #: Threads may capture together, on streams that wait for each other. Reentrant, as finalizers come by.
        self._lock = threading.RLock()
        self.used: dict[int, tuple[Any, bool]] = {}
        self.locks: dict[int, Any] = {}
        self._kept: dict[int, Any] = {}
        #: id -> the captured streams that use the memory, and whether they write to it.
        self._users: dict[int, dict[int, bool]] = {}
        self._spare: list[Any] = []

    @property
    def active(self) -> bool:
        """True until the capture has ended."""
        # Nobody tells the end of a capture that others began.
        if self._active and self._number:
            with contextlib.suppress(UnsupportedError):  # it is broken, and goes on till it is ended
                if capture_on(self._stream)[0] != self._number:
                    self.end()
        return self._active

    def use(self, storage: Any, writes: bool, stream: int) -> None:
        """Keep memory that is read or written at every launch, on a captured stream.

        Where several streams take part, they wait for each other inside the graph as they do outside.
        """
        block = storage.block
        with self._lock:
            _, before = self.used.get(id(block), (block, False))
            self.used[id(block)] = block, before or writes
            users = self._users.setdefault(id(block), {})
            others = [user for user, wrote in users.items() if user != stream and (writes or wrote)]
            if writes:
                users.clear()
            users[stream] = writes or users.get(stream, False)
        for other in others:
            self._join(stream, other, self.device)

    def keep(self, owner: object) -> None:
        """Keep what else a launch needs: a plan of a library, host memory that is copied."""
        with self._lock:
            self._kept[id(owner)] = owner

    def hold(self, *locks: Any) -> None:
        """Let launches hold these locks."""
        with self._lock:
            # All launches acquire them in one order.
            self.locks = dict(sorted({**self.locks, **{id(lock): lock for lock in locks}}.items()))

    def include(self, recording: object, capture: Capture) -> None:
        """Keep another graph, which becomes a part of this one. Launches hold its locks, too."""
        self.keep(recording)
        self.hold(*capture.locks.values())

    def locked(self, own: Any) -> Any:
        """A lock that holds `own` and all of `locks`."""
        return _Locks([own, *self.locks.values()]) if self.locks else own

    def spare(self, nbytes: int) -> Any:
        """Memory that an array of this capture has left, of `nbytes` or up to twice as many; None if there is none."""
        with self._lock:
            fitting = [block for block in self._spare if nbytes <= block.nbytes <= 2 * nbytes]
            if not fitting:
                return None
            found = min(fitting, key=lambda block: block.nbytes)
            self._spare.remove(found)
            return found

    def lend(self, block: Any, stream: int) -> CapturedMemory:
        """Memory of the graph, for an array that is made inside the capture, on a captured stream."""
        self.use(block, True, stream)
        return CapturedMemory(block, self)

    def give_back(self, block: Any) -> None:
        """An array of the capture is gone: while it goes on, later ones may have the memory, in the graph's order."""
        with self._lock:
            if self._active:
                self._spare.append(block)

    def end(self) -> None:
        """The capture has ended: nothing more is used."""
        with self._lock:
            self._active = False
            self._spare.clear()


class CapturedMemory(NotCopied):
    """A block of a graph's memory as an array's storage; the block's history is the memory's.

    `sole` is None, so that every use of the array looks at that history: launches write to it.
    """

    __slots__ = ("__weakref__", "_capture", "block")

    sole = None
    partners = ()
    _instead = ARRAY_INSTEAD

    def __init__(self, block: Any, capture: Capture):
        self.block, self._capture = block, capture

    address = property(lambda self: self.block.address)
    device = property(lambda self: self.block.device)
    nbytes = property(lambda self: self.block.nbytes)
    stream = property(lambda self: self.block.stream)
    #: What the simulator's memory has.
    _memory = property(lambda self: self.block._memory)

    def keep(self, owner: object) -> None:
        """Keep an object as long as the graph."""
        self._capture.keep(owner)

    def before(self, stream: int, writes: bool, passed: Any = None) -> Any:
        """As `History.before`, of work that is not captured."""
        self._check()
        return self.block.before(stream, writes, passed)

    def _check(self) -> None:
        if self._capture.active:
            raise UnsupportedError(
                "this array was made inside a graph's capture that is still going on: it has no values before the "
                "graph is launched. Use it on the captured stream only, or after g.launch()"
            )

    def after(self, stream: int, writes: bool, waited: Any, point: Any) -> None:
        """As `History.after`."""
        self.block.after(stream, writes, waited, point)

    def share(self, stream: int) -> None:
        """As `History.share`."""
        self._check()
        self.block.share(stream)

    def unshare(self, stream: int) -> None:
        """As `History.unshare`."""
        self.block.unshare(stream)

    def __del__(self) -> None:
        try:
            self._capture.give_back(self.block)
        except Exception:
            pass  # interpreter exit, as in Storage


#: The driver's number of a capture -> the capture, while it goes on.
_captures: dict[int, Capture] = {}
_lock = threading.RLock()


@lru_cache(maxsize=1)
def may_capture() -> Callable[[int], int]:
    """Return a function that tells quickly that a stream is not captured, the rule by far: it returns 0 then."""
    from . import native
    from .builtin import bound

    return bound(native.is_capturing, driver.address("cuStreamIsCapturing"))


def capture_on(stream: int) -> tuple[int, int]:
    """(the driver's number of the capture that records a stream's work, its graph), or (0, 0).

    Raises:
        UnsupportedError: the legacy default stream cannot be used beside another stream that is captured; or the
            capture was broken by a call that it does not allow.
    """
    if not may_capture()(stream):
        return 0, 0
    words = (ctypes.c_uint64 * 3)()
    at = ctypes.addressof(words)
    try:
        driver.cuStreamGetCaptureInfo_v2(stream, at, at + 8, at + 16, 0, 0)
    except DriverError as error:
        if error.status == Status.ERROR_INVALID_CONTEXT:
            return 0, 0  # the default stream of a thread that has used no GPU yet
        if error.status != Status.ERROR_STREAM_CAPTURE_IMPLICIT:
            raise
        raise UnsupportedError(
            "CUDA's legacy default stream waits for another stream that is being captured into a graph, so nothing can "
            "be queued on it now: pass stream= the captured one, or one made by numbacc.stream()"
        ) from None
    status = words[0] & 0xFFFFFFFF
    if status == CaptureStatus.INVALIDATED:
        raise UnsupportedError(
            f"the capture on stream {stream:#x} was broken by an earlier call that a capture does not allow: end it, "
            "and leave that call out"
        )
    return (words[1], words[2]) if status == CaptureStatus.ACTIVE else (0, 0)


def begun(number: int, capture: Capture) -> None:
    """Remember a capture of our own."""
    with _lock:
        _captures[number] = capture


def ended(number: int) -> None:
    """Forget a capture, which has ended."""
    with _lock:
        _captures.pop(number, None)


def known(number: int) -> Capture | None:
    """The capture of that number, if numbacc has met it."""
    return _captures.get(number)


def any_active() -> bool:
    """True while a capture that numbacc knows of goes on."""
    with _lock:
        captures = list(_captures.values())
    return any(capture.active for capture in captures)


class _Retained:
    """The user object of another's graph: its node in the list of what was lent, and the capture."""

    def __init__(self, number: int, capture: Capture):
        self.words = (ctypes.c_uint64 * 1)()
        self._number, self._capture = number, capture

    def __del__(self) -> None:
        try:
            self._capture.end()
            ended(self._number)
        except Exception:
            pass  # interpreter exit, at which nothing captures


def attach(number: int, graph: int, capture: Capture) -> None:
    """Let a graph that others capture keep a capture as long as any copy of it exists."""
    retained = _Retained(number, capture)
    node = ctypes.addressof(retained.words)
    function = foreign_owners.lend(node, 0, retained)
    made = call(driver.cuUserObjectCreate, node, function, 1, USER_OBJECT_NO_DESTRUCTOR_SYNC)
    driver.cuGraphRetainUserObject(graph, made, 1, GRAPH_USER_OBJECT_MOVE)
    capture._number = number
    begun(number, capture)
