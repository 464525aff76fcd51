"""The resources that a CUDA graph uses, kept alive during its capture and as long as the graph exists.

A capture records the addresses of arrays, plans' tables and host memory into a graph, which uses them at every launch.
So a `Capture` keeps everything that its work uses, and lives as long as the graph. `numbacc.graph` holds its own
`Capture`. A graph that another library captures holds it as a user object, and the driver reports when all copies of
the graph are gone.
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
        except BaseException:  # a KeyboardInterrupt while it waits
            self._release(held)
            raise

    def __exit__(self, *error: Any) -> None:
        self._release(self._locks)

    def _release(self, held: Sequence[Any]) -> None:
        for lock in reversed(held):
            lock.release()


class Capture(NotCopied):
    """A capture, and the resources that it uses.

    Attributes:
        device: the GPU.
        home: handle of the ordinary stream that allocates and frees the graph's own memory. The first launch follows
            the work queued there.
        before: the point on the captured stream where the capture began, or None if another library began it.
        used: id -> (storage, whether the graph writes to it).
        locks: id -> a lock that each launch holds, so that no other thread queues work on some of the memory
            meanwhile.
    """

    def __init__(self, device: int, home: int, stream: int, join: Callable[[int, int, int], Any], before: Any = None):
        self.device, self.home, self.before = device, home, before
        self._stream, self._number, self._join = stream, 0, join
        self._active = True
        #: Threads may capture together, on streams that wait for each other. The lock is reentrant, because finalizers
        #: may need it.
        self._lock = threading.RLock()
        self.used: dict[int, tuple[Any, bool]] = {}
        self.locks: dict[int, Any] = {}
        self._kept: dict[int, Any] = {}
        #: id -> an object that counts what launches do, and the number that each launch adds.
        self._counts: dict[int, tuple[Any, int]] = {}
        #: id -> the captured streams that use the memory, and whether they write to it.
        self._users: dict[int, dict[int, bool]] = {}
        self._spare: list[Any] = []

    @property
    def active(self) -> bool:
        """True until the capture has ended."""
        # If another library began the capture, nobody reports its end.
        if self._active and self._number:
            with contextlib.suppress(UnsupportedError):  # a broken capture counts as active until it is ended
                if capture_on(self._stream)[0] != self._number:
                    self.end()
        return self._active

    def use(self, storage: Any, writes: bool, stream: int) -> None:
        """Keep memory that every launch reads or writes on a captured stream.

        If several streams take part, they wait for each other inside the graph as they do outside of one.
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

    def writes(self, storage: Any) -> bool:
        """Return whether the graph writes to memory."""
        return self.used.get(id(storage.block), (None, False))[1]

    def keep(self, owner: object) -> None:
        """Keep another object that launches need: a library's plan, or host memory that is copied."""
        with self._lock:
            self._kept[id(owner)] = owner

    def count(self, counter: Any, number: int = 1) -> None:
        """Make each launch add a number to a counter, by `counter.add`. Several numbers are added together."""
        with self._lock:
            _, before = self._counts.get(id(counter), (counter, 0))
            self._counts[id(counter)] = counter, before + number

    def launched(self) -> None:
        """Count a launch."""
        for counter, number in self._counts.values():
            counter.add(number)

    def hold(self, *locks: Any) -> None:
        """Make launches hold these locks."""
        with self._lock:
            # Sorted, so that all launches acquire them in one order.
            self.locks = dict(sorted({**self.locks, **{id(lock): lock for lock in locks}}.items()))

    def include(self, recording: object, capture: Capture) -> None:
        """Keep another graph that becomes part of this one. Launches hold its locks, too."""
        self.keep(recording)
        self.hold(*capture.locks.values())
        for counter, number in capture._counts.values():
            self.count(counter, number)

    def locked(self, own: Any) -> Any:
        """Return a lock that holds `own` and all of `locks`."""
        return _Locks([own, *self.locks.values()]) if self.locks else own

    def spare(self, nbytes: int) -> Any:
        """Return unused memory of this capture, of `nbytes` to twice as many bytes, or None."""
        with self._lock:
            fitting = [block for block in self._spare if nbytes <= block.nbytes <= 2 * nbytes]
            if not fitting:
                return None
            found = min(fitting, key=lambda block: block.nbytes)
            self._spare.remove(found)
            return found

    def lend(self, block: Any, stream: int) -> CapturedMemory:
        """Return memory of the graph for an array that is made inside the capture, on a captured stream."""
        self.use(block, True, stream)
        return CapturedMemory(block, self)

    def give_back(self, block: Any) -> None:
        """Let later arrays of the capture use a block, in the graph's order, because its array is gone."""
        with self._lock:
            if self._active:
                self._spare.append(block)

    def end(self) -> None:
        """End the capture: no further memory is used."""
        with self._lock:
            self._active = False
            self._spare.clear()


class CapturedMemory(NotCopied):
    """A block of a graph's memory, as the storage of an array. It shares the block's history.

    `sole` is None, so that every use of the array checks that history, because launches write to the memory.
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
    #: An attribute of the simulator's memory.
    _memory = property(lambda self: self.block._memory)

    def keep(self, owner: object) -> None:
        """Keep an object alive as long as the graph."""
        self._capture.keep(owner)

    def before(self, stream: int, writes: bool, passed: Any = None) -> Any:
        """Do what `History.before` does, for work that is not captured."""
        self._check()
        return self.block.before(stream, writes, passed)

    def _check(self) -> None:
        if self._capture.active:
            raise UnsupportedError(
                "this array was made inside a graph's capture that is still going on: it gets its values when the "
                "graph is launched. Use it on the captured stream only, or after g.launch()"
            )

    def after(self, stream: int, writes: bool, waited: Any, point: Any) -> None:
        """Do what `History.after` does."""
        self.block.after(stream, writes, waited, point)

    def share(self, stream: int) -> None:
        """Do what `History.share` does."""
        self._check()
        self.block.share(stream)

    def unshare(self, stream: int) -> None:
        """Do what `History.unshare` does."""
        self.block.unshare(stream)

    def __del__(self) -> None:
        try:
            self._capture.give_back(self.block)
        except Exception:
            pass  # interpreter exit, as in Storage


#: The driver's number of a capture -> the capture, until it ends.
_captures: dict[int, Capture] = {}
_lock = threading.RLock()


@lru_cache(maxsize=1)
def may_capture() -> Callable[[int], int]:
    """Return a fast function that returns 0 for a stream that is not captured, which is the usual case."""
    from . import native
    from .builtin import bound

    return bound(native.is_capturing, driver.address("cuStreamIsCapturing"))


def capture_on(stream: int) -> tuple[int, int]:
    """Return (the driver's number of the capture that records a stream's work, its graph), or (0, 0).

    Raises:
        UnsupportedError: the legacy default stream cannot be used while another stream is captured; or a call that
            captures do not allow has broken the capture.
    """
    if not may_capture()(stream):
        return 0, 0
    words = (ctypes.c_uint64 * 3)()
    at = ctypes.addressof(words)
    try:
        driver.cuStreamGetCaptureInfo_v2(stream, at, at + 8, at + 16, 0, 0)
    except DriverError as error:
        if error.status == Status.ERROR_INVALID_CONTEXT:
            return 0, 0  # the default stream of a thread that has not used a GPU yet
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
    """Remember a capture that numbacc has begun."""
    with _lock:
        _captures[number] = capture


def ended(number: int) -> None:
    """Forget a capture that has ended."""
    with _lock:
        _captures.pop(number, None)


def known(number: int) -> Capture | None:
    """Return the capture of that number, or None if numbacc does not know it."""
    return _captures.get(number)


def any_active() -> bool:
    """Return True while a capture that numbacc knows is active."""
    with _lock:
        captures = list(_captures.values())
    return any(capture.active for capture in captures)


class _Retained:
    """The user object of a graph that another library captures: its node in `foreign_owners`' list, and the capture."""

    def __init__(self, number: int, capture: Capture):
        self.words = (ctypes.c_uint64 * 1)()
        self._number, self._capture = number, capture

    def __del__(self) -> None:
        try:
            self._capture.end()
            ended(self._number)
        except Exception:
            pass  # interpreter exit, when nothing captures


def attach(number: int, graph: int, capture: Capture) -> None:
    """Make a graph that another library captures keep `capture` alive as long as any copy of the graph exists."""
    retained = _Retained(number, capture)
    node = ctypes.addressof(retained.words)
    function = foreign_owners.lend(node, 0, retained)
    made = call(driver.cuUserObjectCreate, node, function, 1, USER_OBJECT_NO_DESTRUCTOR_SYNC)
    driver.cuGraphRetainUserObject(graph, made, 1, GRAPH_USER_OBJECT_MOVE)
    capture._number = number
    begun(number, capture)
