"""Choosing among a library's ways to compute one thing, by heuristics or by measurement, and keeping the choice.

A library brings a key (what is computed, and on what), what it proposes, and the rule by which it takes one unmeasured.
This part keeps choices in memory and, of those that were measured, on disk; and it obeys the table of algorithms that
are known to be wrong, however they were chosen.
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
        data: the library's own description, of meaning to the same version of it only.
        workspace_bytes: scratch memory it needs.
        text: the description to be read.
        kind: the library's numbers of it: first the algorithm's, then what tells its variants apart (a tile).
        deterministic: False where the same inputs may give other bits.
        told: what else the library tells of it, for its rule; not kept on disk.
    """

    data: bytes
    workspace_bytes: int
    text: str
    kind: tuple[int, int] = (0, 0)
    deterministic: bool = True
    told: Any = None


class Wrong(NamedTuple):
    """An algorithm known to give wrong numbers.

    Attributes:
        kind: its number.
        case: whether it does so for what is computed.
        seen: the library's version that does.
        mended: the first version that no longer does, None while none is known.
    """

    kind: int
    case: Callable[[Any], bool]
    seen: int
    mended: int | None = None


class Proposals(NamedTuple):
    """A library's proposals.

    Attributes:
        first: what it takes unmeasured; None where it has nothing.
        others: what may be measured against it; `first` may be among them.
    """

    first: Algorithm | None
    others: Sequence[Algorithm] = ()


class GpuModel(NamedTuple):
    """A model of GPU, as keys of choices name it."""

    device: str
    capability: tuple[int, int]
    multiprocessors: int


def gpu_model(device: int) -> GpuModel:
    """The model of a GPU, which decides which algorithm is best there."""
    count = runtime().device_attribute(DeviceAttribute.MULTIPROCESSOR_COUNT, device)
    return GpuModel(runtime().device_name(device), runtime().capability(device), count)


#: The head of an entry on disk, before the library's own description.
_HEAD = struct.Struct("<Qii?")
_FORMAT = 4


class Choices:
    """A library's choices: the one used longest ago is the first, and the first to go.

    Args:
        library: its name.
        wrong: algorithms not to be taken.
        size: how many choices are kept.

    Keys are tuples whose `repr` names all that a choice depends on, the library's version among it: they are the keys
    on disk, too.
    """

    def __init__(self, library: str, wrong: Iterable[Wrong] = (), size: int = 4096):
        self._library, self._wrong, self._size = library, tuple(wrong), size
        self._kept: OrderedDict[Hashable, Algorithm | None] = OrderedDict()
        self._lock = threading.Lock()

    def items(self) -> list[tuple[Any, Algorithm | None]]:
        """Pairs of what for, and which; None where the library has no algorithm."""
        with self._lock:
            return list(self._kept.items())

    def clear(self) -> None:
        """Forget the choices. What was measured stays on disk."""
        with self._lock:
            self._kept.clear()

    def right(self, proposed: Iterable[Algorithm], what: Any, version: int) -> list[Algorithm]:
        """The proposals that are not known to be wrong for `what` in this version of the library."""
        bad = self.wrong(what, version)
        return [each for each in proposed if each.kind[0] not in bad]

    def wrong(self, what: Any, version: int) -> set[int]:
        """The numbers of algorithms that are known to be wrong for `what` in this version of the library."""
        return {each.kind for each in self._wrong if each.case(what) and (each.mended is None or version < each.mended)}

    def choose(self, key: Hashable, find: Callable[[], Algorithm | None]) -> Algorithm | None:
        """The choice kept for a key, else that of `find`."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        # Another thread may look for the same: the last to find it is kept.
        found = find()
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return found

    def put(self, key: Hashable, algorithm: Algorithm) -> None:
        """Take an algorithm for a key from now on, whatever is known of it: of those who try each one."""
        with self._lock:
            self._kept[key] = algorithm
            self._kept.move_to_end(key)

    def keep(
        self, key: Hashable, find: Callable[[], Algorithm | None], usable: Callable[[Algorithm], bool]
    ) -> Algorithm | None:
        """`choose`, with what `find` gives kept on disk, too, and taken from there where it is `usable`."""
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
        """The fastest proposal, measured once and kept, also on disk; None where there is none.

        Args:
            key: what for.
            propose: gives the proposals. Where the first is deterministic, only deterministic ones are measured.
            usable: whether an algorithm from disk may be taken: one measured before may be known to be wrong now.
            trial: gives a function that queues the work by an algorithm.
            device, stream: where it is queued. The first time this waits for the GPU.
        """

        def measure() -> Algorithm | None:
            first, others = propose()
            if first is None:
                return None
            alike = [each for each in others if each.deterministic or not first.deterministic]
            # One may be proposed twice, in other company; the same data may be of several graphs.
            distinct = {(each.kind, each.data): each for each in (first, *alike)}
            works = {each: trial(each) for each in distinct.values()}
            return measuring.fastest(works, first, device, stream)

        return self.keep(key, measure, usable)


def load(entry: str) -> Algorithm | None:
    """An algorithm measured before, by this process or another."""
    found = disk_cache.load(entry)
    if found is None:
        return None
    text, data = found
    nbytes, number, variant, deterministic = _HEAD.unpack_from(data)
    return Algorithm(data[_HEAD.size :], nbytes, text, (number, variant), deterministic)


def save(entry: str, algorithm: Algorithm) -> None:
    """Keep an algorithm for other processes."""
    head = _HEAD.pack(algorithm.workspace_bytes, *algorithm.kind, algorithm.deterministic)
    disk_cache.save(entry, algorithm.text, head + algorithm.data)
