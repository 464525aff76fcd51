"""A choice among a library's algorithms, by heuristics or by measurement, and a store for the choices.

A library provides a key (the problem and the GPU), its proposals, and the rule that chooses one without a measurement.
This module keeps choices in memory, and measured ones also on disk. It excludes the algorithms that are known to be
wrong, however they were chosen.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from numbacc_bindings.driver import DeviceAttribute

from ..base.dispatch import runtime
from ..runtime import disk_cache
from . import measuring
from .measuring import Launch


class Algorithm(NamedTuple):
    """A way to compute something.

    Attributes:
        data: the library's own description, which only the same version of it can read.
        workspace_bytes: scratch memory it needs.
        text: a description for users.
        kind: the library's numbers: first the algorithm's, then one that distinguishes its variants (a tile).
        deterministic: False if the same inputs may give different bits.
        told: further properties from the library, for its rule; not stored on disk.
    """

    data: bytes
    workspace_bytes: int
    text: str
    kind: tuple[int, int] = (0, 0)
    deterministic: bool = True
    told: Any = None


class Wrong(NamedTuple):
    """An algorithm known to give wrong results.

    Attributes:
        kind: its number.
        case: whether it is wrong for a given problem.
        seen: the library's version with the fault.
        mended: the first version without the fault, None if none is known.
    """

    kind: int
    case: Callable[[Any], bool]
    seen: int
    mended: int | None = None


class Proposals(NamedTuple):
    """A library's proposals.

    Attributes:
        first: the one to use without a measurement; None if the library proposes nothing.
        others: alternatives to measure against it; they may include `first`.
    """

    first: Algorithm | None
    others: Sequence[Algorithm] = ()


class GpuModel(NamedTuple):
    """A GPU model, as it appears in keys of choices."""

    device: str
    capability: tuple[int, int]
    multiprocessors: int


def gpu_model(device: int) -> GpuModel:
    """Return the model of a GPU, which determines the best algorithm."""
    count = runtime().device_attribute(DeviceAttribute.MULTIPROCESSOR_COUNT, device)
    return GpuModel(runtime().device_name(device), runtime().capability(device), count)


#: The header of an entry on disk, before the library's own description.
_HEAD = struct.Struct("<Qii?")
_FORMAT = 4


class Choices:
    """A library's choices, the least recently used first; these are dropped first.

    Args:
        library: its name.
        wrong: algorithms that must not be used.
        size: how many choices are kept.

    Keys are tuples whose `repr` names everything that a choice depends on, including the library's version, because
    they are also the keys on disk.
    """

    def __init__(self, library: str, wrong: Iterable[Wrong] = (), size: int = 4096):
        self._library, self._wrong, self._size = library, tuple(wrong), size
        self._kept: OrderedDict[Hashable, Algorithm | None] = OrderedDict()
        self._lock = threading.Lock()

    def items(self) -> list[tuple[Any, Algorithm | None]]:
        """Return pairs of a key and its algorithm; the algorithm is None if the library proposed nothing."""
        with self._lock:
            return list(self._kept.items())

    def clear(self) -> None:
        """Forget the choices. Measured ones stay on disk."""
        with self._lock:
            self._kept.clear()

    def right(self, proposed: Iterable[Algorithm], what: Any, version: int) -> list[Algorithm]:
        """Return the proposals that are not known to be wrong for a problem in this version of the library."""
        bad = self.wrong(what, version)
        return [each for each in proposed if each.kind[0] not in bad]

    def wrong(self, what: Any, version: int) -> set[int]:
        """Return the numbers of algorithms known to be wrong for a problem in this version of the library."""
        return {each.kind for each in self._wrong if each.case(what) and (each.mended is None or version < each.mended)}

    def choose(self, key: Hashable, find: Callable[[], Algorithm | None]) -> Algorithm | None:
        """Return the choice stored for a key, else the result of `find`."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        # Another thread may search for the same key: the last result is kept.
        found = find()
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return found

    def put(self, key: Hashable, algorithm: Algorithm) -> None:
        """Use an algorithm for a key from now on without checks, for callers that try each algorithm."""
        with self._lock:
            self._kept[key] = algorithm
            self._kept.move_to_end(key)

    def keep(
        self, key: Hashable, find: Callable[[], Algorithm | None], usable: Callable[[Algorithm], bool]
    ) -> Algorithm | None:
        """Return the result of `choose`, and store it on disk; read it from there if it is `usable`."""
        entry = hashlib.sha256(f"{self._library} {_FORMAT} {key!r}".encode()).hexdigest()

        def from_disk() -> Algorithm | None:
            found = load(entry)
            if found is not None and usable(found):
                return found
            found = find()
            if found is not None:
                save(entry, found)
            return found

        return self.choose(key, from_disk)

    def tune(
        self,
        key: Hashable,
        propose: Callable[[], Proposals],
        usable: Callable[[Algorithm], bool],
        trial: Callable[[Algorithm], Launch],
        device: int,
        stream: int,
    ) -> Algorithm | None:
        """Return the fastest proposal, measured once and stored, also on disk; None without proposals.

        Args:
            key: the key of the choice.
            propose: returns the proposals. If the first is deterministic, only deterministic ones are measured.
            usable: whether an algorithm from disk may be used: it may be known to be wrong since its measurement.
            trial: returns a function that queues the work with an algorithm.
            device, stream: where the work is queued. The first call waits for the GPU.
        """

        def measure() -> Algorithm | None:
            first, others = propose()
            if first is None:
                return None
            alike = [each for each in others if each.deterministic or not first.deterministic]
            # An algorithm may be proposed twice in different lists; graphs may share the same data.
            distinct = {(each.kind, each.data): each for each in (first, *alike)}
            works = {each: trial(each) for each in distinct.values()}
            return measuring.fastest(works, first, device, stream)

        return self.keep(key, measure, usable)


def load(entry: str) -> Algorithm | None:
    """Return an algorithm that this or another process measured before."""
    found = disk_cache.load(entry)
    if found is None:
        return None
    text, data = found
    nbytes, number, variant, deterministic = _HEAD.unpack_from(data)
    return Algorithm(data[_HEAD.size :], nbytes, text, (number, variant), deterministic)


def save(entry: str, algorithm: Algorithm) -> None:
    """Store an algorithm for other processes."""
    head = _HEAD.pack(algorithm.workspace_bytes, *algorithm.kind, algorithm.deterministic)
    disk_cache.save(entry, algorithm.text, head + algorithm.data)
