"""What a simulated block has: shared memory by address, mbarriers, copies on their way, and threads that meet.

The threads of a warp or a warpgroup that execute one instruction together bring their operands to one place. The last
to come executes the instruction for all with NumPy. Shared memory holds NaN until it is written. Each byte of it has a
state, so that mistakes raise errors: which thread has written it since its last fence, whether a copy to it is on its
way, and whether wgmma reads it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..simulated import memory as global_memory

__all__ = [
    "OFFSETS", "SHARED_BASE", "BlockState", "Mbarrier", "block", "global_bytes", "local", "offset_of", "together",
    "wait_until",
]  # fmt: skip

#: The address of the dynamic shared memory, and the most bytes of a block.
SHARED_BASE, SHARED_BYTES = 1024, 232448
#: The most bytes of arrays of `cuda.shared.array` with a fixed length. They lie behind the dynamic memory.
STATIC_BYTES = 49152
#: The bits of a shared address within its block. The higher bits are the block's rank in its cluster, as on a GPU.
RANK_SHIFT = 24
OFFSETS = (1 << RANK_SHIFT) - 1
#: How many rounds of all threads may pass without progress before a waiting thread raises an error.
PATIENCE = 400

#: Modules whose functions are not a user's.
_WITHIN = (__name__.rpartition(".")[0], f"{__name__.partition('.')[0]}.simulator")

#: Returns the thread that runs: an object with `thread_id`, `block` and `meet()`. The simulator sets it.
running: list[Callable[[], Any]] = []
#: The `cuda` modules of the launches that run now; the attribute `thread` of the last is the thread that runs.
modules: list[Any] = []


class SimulatedDeadlock(RuntimeError):
    """A thread waits for something that no other thread will do."""


class Mbarrier:
    """A barrier in shared memory that counts arrivals and bytes.

    Args:
        thread: the thread that initialized it.

    Attributes:
        phase: how many phases are complete.
        is_fenced: whether that thread has called `fence_mbarrier_init`.
        made: `BlockState.barriers()` when it was initialized; None if other threads may use it.
        seen: the releases that arrivals from other blocks have published, as in `BlockState.seen`.
    """

    def __init__(self, count: int, thread: int = -1):
        self.count, self.left, self.nbytes, self.phase = count, count, 0, 0
        self.thread, self.is_fenced = thread, thread < 0
        self.made: int | None = None
        self.seen: list[int] = []
        #: Copies of the current phase, as arrays of addresses: bytes to be delivered when the phase is observed.
        self.copies: list[tuple[BlockState, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self.delivered: list[tuple[BlockState, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []

    def change(self, arrivals: int = 0, expected: int = 0) -> None:
        self.left, self.nbytes = self.left - arrivals, self.nbytes + expected
        if self.left < 0:
            raise RuntimeError(f"more arrivals than the {self.count} that this mbarrier was initialized for")
        if self.left == 0 and self.nbytes < 0:
            raise RuntimeError(f"{-self.nbytes} bytes more arrived in this phase than arrive_expect_tx announced")
        if self.left == 0 and self.nbytes == 0:
            self.left, self.phase = self.count, self.phase + 1
            self.delivered += self.copies
            self.copies = []

    def land(self) -> None:
        """Deliver the bytes of completed phases: a thread has waited for them."""
        for state, places, values in self.delivered:
            state.memory[places] = values
            state.unfenced[places] = -1
            state.on_the_way[places] = 0
        self.delivered = []


class _Meeting:
    def __init__(self) -> None:
        self.values: dict[int, tuple[str, Any]] = {}
        self.results: dict[int, list[Any]] = {}
        self.number = 0


class BlockState:
    """The state of one block.

    Attributes:
        memory: its shared memory.
        unfenced: for each byte the thread that wrote it since its last `fence_proxy_async`, or -1.
        on_the_way: for each byte the mbarrier (its address) of a copy that nobody has waited for yet, or 0; for a copy
            of `cp_async`, -1 - the number of the thread.
        swizzle: for each byte the swizzle of the box that it came with, or -1.
        read_by_wgmma: for each byte how many wgmma operations still read it.
        progress: how many changes threads have made that others may wait for.
        cluster, rank: the states of the blocks of its cluster, and its position.
        seen: for each block of the cluster, how many of its releases with cluster scope this block has acquired; for
            itself, how many releases it has made.
        writer, epoch: for each byte of a block in a cluster, the rank of the block whose thread wrote it, plus 1, and
            how many releases that block had made.
        runner: the block that has this state.
        has_ended: whether all threads of the block have ended.
    """

    def __init__(self) -> None:
        size = SHARED_BASE + SHARED_BYTES + STATIC_BYTES
        self.memory = np.full(size, 0xFF, np.uint8)
        self.unfenced = np.full(size, -1, np.int16)
        self.on_the_way = np.zeros(size, np.int32)
        self.swizzle = np.full(size, -1, np.int16)
        self.read_by_wgmma = np.zeros(size, np.int8)
        self.mbarriers: dict[int, Mbarrier] = {}
        self.named: dict[int, Mbarrier] = {}
        self.copies: defaultdict[int, list[list[Any]]] = defaultdict(lambda: [[]])
        self.products: defaultdict[int, list[Any]] = defaultdict(list)
        self.stores: defaultdict[int, list[list[Any]]] = defaultdict(lambda: [[]])
        self.meetings: dict[tuple[int, int], _Meeting] = {}
        #: Values that the block's threads exchange, by slot.
        self.board: dict[int, Any] = {}
        self.progress = 0
        #: Thread -> what it waits for.
        self.waits: dict[int, Callable[[], str]] = {}
        self.cluster, self.rank = [self], 0
        self.seen = [0]
        self.writer = self.epoch = np.zeros(0, np.int32)
        self.runner: Any = None
        self.has_ended = False
        self.together = Mbarrier(0)
        self.phases: dict[int, int] = {}
        #: Set by a tracer: called with the instruction, "read" or "write", the number of the warp (or -1 for the copy
        #: engine), the lanes, the addresses and the bytes of each access.
        self.watcher: Callable[[str, str, int, Any, Any, int], None] | None = None
        #: The arrays of fixed length by their position in the source, and the first free address.
        self.arrays: dict[Any, Any] = {}
        self._static_end = SHARED_BASE + SHARED_BYTES

    def join(self, cluster: list[BlockState], rank: int, together: Mbarrier) -> None:
        """Make this the state of block number `rank` of a cluster."""
        self.cluster, self.rank, self.together = cluster, rank, together
        self.seen = [0] * len(cluster)
        together.seen = [0] * len(cluster)
        if len(cluster) > 1:
            self.writer, self.epoch = np.zeros((2, self.memory.size), np.int32)

    def other(self, rank: Any) -> BlockState:
        """Return the state of block number `rank` of the cluster, whose shared memory a thread uses."""
        number = int(rank)
        if not 0 <= number < len(self.cluster):
            raise IndexError(f"rank {number}: the cluster has {len(self.cluster)} blocks")
        found = self.cluster[number]
        if found is not self and not self.together.phase:
            raise RuntimeError(
                f"block {self.rank} of the cluster uses shared memory of block {number}, which may not have started "
                "yet: call cluster_sync() before"
            )
        if found.has_ended:
            raise RuntimeError(
                f"block {self.rank} of the cluster uses shared memory of block {number}, which has ended: call "
                "cluster_sync() at the end of the kernel"
            )
        return found

    # ---------------------------------------------------------------- arrays

    def array(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array in shared memory."""
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return self.memory[address : address + nbytes].view(dtype).reshape(shape)

    def static_array(self, shape: Any, dtype: Any, alignment: int) -> Any:
        """Return a new array of fixed length."""
        lengths = tuple(shape) if isinstance(shape, tuple) else (int(shape),)
        start = self._static_end + -self._static_end % alignment
        self._static_end = start + int(np.prod(lengths)) * dtype.itemsize
        if self._static_end > self.memory.size:
            raise RuntimeError(f"arrays of cuda.shared.array need more than {STATIC_BYTES} bytes: use dynamic memory")
        return self.array(start, lengths, dtype)

    def address_of(self, array: Any) -> int:
        """Return the shared address of an array's first element."""
        return int(array.ctypes.data - self.memory.ctypes.data) | self.rank << RANK_SHIFT

    # ---------------------------------------------------------------- bytes

    def write(self, places: Any, values: Any, thread: int, what: str, by: BlockState | None = None) -> None:
        """Write bytes as a thread does, and not the copy engine.

        Args:
            by: the thread's block, if it is another one.
        """
        self.check_writable(places, what)
        self.memory[places] = values
        if self.writer.size:
            writer = by or self
            self.writer[places], self.epoch[places] = writer.rank + 1, writer.seen[writer.rank]
        self.unfenced[places] = thread
        self.on_the_way[places] = 0
        self.swizzle[places] = -1

    def check_writable(self, places: Any, what: str) -> None:
        """Raise unless no product and no copy still uses these bytes."""
        if self.read_by_wgmma[places].any():
            raise RuntimeError(
                f"{what} overwrites shared memory that wgmma still reads: a stage was released too early. Call "
                "wgmma_wait_group before the arrival at the stage's mbarrier"
            )
        pending = self.on_the_way[places]
        if (pending > 0).any():
            raise RuntimeError(
                f"{what} overwrites shared memory before anybody has waited for the last copy to it, at the mbarrier "
                f"at {offset_of(pending.max())}: consumers wait for that, and the producer until they have released "
                "the stage"
            )

    def read(self, places: Any, what: str, by: BlockState | None = None) -> np.ndarray[Any, Any]:
        """Read bytes as a thread does.

        Args:
            by: the thread's block, if it is another one.
        """
        self.check_arrived(places, what)
        if self.writer.size:
            self._check_published(places, what, by or self)
        found: np.ndarray[Any, Any] = self.memory[places]
        return found

    def _check_published(self, places: Any, what: str, reader: BlockState) -> None:
        """Raise if a thread of another block has written these bytes, and the reader's block need not see that yet."""
        writers, seen = self.writer[places] - 1, np.array([*reader.seen, 0])
        hidden = (writers >= 0) & (writers != reader.rank) & (self.epoch[places] >= seen[writers])
        if hidden.any():
            raise RuntimeError(
                f"{what} reads what block {int(writers[hidden][0])} of the cluster has written, before block "
                f"{reader.rank} can see it: the writer arrives with mbarrier_arrive_cluster (not _relaxed) and the "
                "reader waits with mbarrier_wait_parity_cluster, or both call cluster_sync"
            )

    def release(self, seen: list[int]) -> None:
        """Publish the block's writes to whoever acquires from `seen`, which belongs to an mbarrier."""
        self.seen[self.rank] += 1
        seen[:] = map(max, seen or self.seen, self.seen)

    def acquire(self, seen: list[int]) -> None:
        """Make the releases visible to this block that were published at an mbarrier."""
        if seen:
            self.seen[:] = map(max, seen, self.seen)

    def check_arrived(self, places: Any, what: str) -> None:
        """Raise if a copy to these bytes is on its way."""
        pending = self.on_the_way[places]
        if not pending.any():
            return
        found = int(pending[np.argmax(pending != 0)])
        if found > 0:
            remedy = f"the copy completes at the mbarrier at {offset_of(found)}; wait for it with mbarrier_wait_parity"
        else:
            remedy = (
                f"thread {-1 - found} copies it; that thread calls cp_async_wait_group, and then all meet at a barrier"
            )
        raise RuntimeError(f"{what} reads shared memory before it has arrived: {remedy}")

    def check_swizzle(self, places: Any, swizzle: int, what: str) -> None:
        """Raise if a box was brought to these bytes with another swizzle."""
        others = self.swizzle[places]
        if ((others >= 0) & (others != swizzle)).any():
            raise RuntimeError(
                f"{what} reads a matrix with the swizzle of {swizzle} bytes that TMA has written with "
                f"{int(others[(others >= 0) & (others != swizzle)][0])}: give tensor_map and wgmma_descriptor the same"
            )

    def check_fenced(self, places: Any, what: str) -> None:
        """Raise if a thread has written these bytes, and has not made them visible to the async proxy."""
        writers = self.unfenced[places]
        if (writers >= 0).any():
            raise RuntimeError(
                f"{what} reads shared memory that thread {int(writers.max())} has written: call fence_proxy_async() "
                "after the writes, and a barrier, before the async proxy (wgmma, TMA) reads them"
            )

    def arriving(
        self, places: np.ndarray[Any, Any], values: np.ndarray[Any, Any], address: int, what: str, swizzle: int = -1
    ) -> None:
        """Begin a copy by the engine, which completes at an mbarrier of this block."""
        self.check_writable(places, what)
        self.watch_engine(what, "write", places)
        barrier = self.mbarrier(address, from_elsewhere=True)
        self.memory[places] = 0xFF
        self.on_the_way[places] = address & OFFSETS
        if self.writer.size:
            self.writer[places] = 0
        self.swizzle[places] = swizzle
        barrier.copies.append((self, places, values.copy()))
        barrier.change(0, -places.size)
        self.changed()

    def watch(self, what: str, access: str, addresses: Any, nbytes: int) -> None:
        """Report accesses of shared memory to a tracer: of a warp's first threads, or of one thread."""
        if self.watcher is not None:
            number = thread().thread_id
            lanes = range(len(addresses)) if len(addresses) > 1 else (number % 32,)
            self.watcher(what, access, number // 32, lanes, addresses, nbytes)

    def watch_engine(self, what: str, access: str, places: Any) -> None:
        """Report a copy by the engine to a tracer. It moves 128 bytes at a time, 16 bytes to each of 8 groups of banks.

        Args:
            places: the addresses of all bytes, in the order of the box.
        """
        if self.watcher is not None:
            starts = places[::16]
            for first in range(0, len(starts), 8):
                part = starts[first : first + 8]
                self.watcher(what, access, -1, range(len(part)), part, 16)

    # ---------------------------------------------------------------- barriers

    def mbarrier(self, address: Any, from_elsewhere: bool = False) -> Mbarrier:
        """Return the mbarrier at an address of a block.

        Args:
            from_elsewhere: whether the copy engine or another block uses it.
        """
        found = self.mbarriers.get(int(address) & OFFSETS)
        if found is None:
            raise RuntimeError(f"no mbarrier was initialized at {offset_of(address)}")
        if found.made is not None and not from_elsewhere:
            self._check_known(found, address)
        if from_elsewhere and not found.is_fenced:
            raise RuntimeError(
                f"the mbarrier at {offset_of(address)} need not be visible to the copy engine and to other blocks yet: "
                f"thread {found.thread}, which has initialized it, calls fence_mbarrier_init()"
            )
        return found

    def barriers(self) -> int:
        """Return how many barriers of the block, of parts of it, or of its cluster have been passed."""
        own = self.runner.barriers if self.runner is not None else 0
        parts = sum(each.phase for each in self.named.values()) + sum(each.number for each in self.meetings.values())
        return int(own + parts + self.together.phase)

    def _check_known(self, barrier: Mbarrier, address: Any) -> None:
        """Raise if another thread than the one that has initialized an mbarrier uses it without a barrier between."""
        number = thread().thread_id
        if self.barriers() != barrier.made:
            barrier.made = None
        elif number != barrier.thread:
            raise RuntimeError(
                f"thread {number} uses the mbarrier at {offset_of(address)} without a barrier after thread "
                f"{barrier.thread} has initialized it: call cuda.syncthreads() between"
            )

    def changed(self) -> None:
        for each in self.cluster:
            each.progress += 1


def thread() -> Any:
    """Return the thread that runs."""
    found = modules[-1].thread if modules else None
    if found is None and running:
        found = running[0]()
    if found is None:
        raise RuntimeError(
            "functions of numbacc.device work inside a kernel only: call them in a function with @device.jit"
        )
    return found


def block() -> BlockState:
    """Return the state of the running thread's block."""
    of_thread = thread().block
    try:
        found: BlockState = of_thread.device_state
    except AttributeError:
        of_thread.device_state = found = BlockState()
        found.runner = of_thread
    return found


def local(address: Any) -> int:
    """Return where a shared address of the running thread's block is in that block's memory."""
    number, rank = int(address), block().rank
    if number >> RANK_SHIFT != rank:
        raise RuntimeError(
            f"shared address {number:#x} does not belong to this block, which has rank {rank} in its cluster: for "
            "other blocks, pass the rank to ld_shared_cluster_b32, st_shared_cluster_b32 or mbarrier_arrive_cluster"
        )
    return number & OFFSETS


def offset_of(address: Any) -> str:
    """Return a shared address in words."""
    number = (int(address) & OFFSETS) - SHARED_BASE
    return f"dynamic_shared() + {number}" if 0 <= number < SHARED_BYTES else f"shared address {int(address)}"


def wait_until(ready: Callable[[], bool], what: Callable[[], str]) -> None:
    """Let other threads run until something is so.

    Args:
        what: returns what the thread waits for, for a message, such as "at barrier 1".

    Raises:
        SimulatedDeadlock: the other threads wait, too, or have ended.
    """
    if ready():
        return
    here, state, line = thread(), block(), position(sys._getframe(1))
    state.waits[here.thread_id] = lambda: what() + line
    seen, rounds = state.progress, 0
    while True:
        here.meet()
        if ready():
            del state.waits[here.thread_id]
            return
        if state.progress != seen:
            seen, rounds = state.progress, 0
            continue
        rounds += 1
        if rounds > PATIENCE:
            raise SimulatedDeadlock(_deadlock(state))


def position(frame: Any) -> str:
    """Return where a kernel called a device function, such as " (line 12 of product)", or "" if that is not known."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_WITHIN):
        frame = frame.f_back
    return f" (line {frame.f_lineno} of {frame.f_code.co_name})" if frame is not None else ""


def _deadlock(state: BlockState) -> str:
    """Return a message that says what all waiting threads of the cluster wait for."""
    told = []
    for each in state.cluster:
        groups: dict[str, list[int]] = {}
        waits = {number: what() for number, what in each.waits.items()}
        for runner in each.runner.waiting if each.runner is not None else ():
            if runner.thread_id not in waits and not runner.at_warp:
                waits[runner.thread_id] = "at cuda.syncthreads()" + position(runner.gr_frame)
        for number, what in sorted(waits.items()):
            groups.setdefault(what, []).append(number)
        where = f" of block {each.rank} of the cluster" if len(state.cluster) > 1 else ""
        for reason, numbers in groups.items():
            who = f"thread {numbers[0]}" if len(numbers) == 1 else f"threads {_ranges(numbers)}"
            told.append(f"{who}{where} {'waits' if len(numbers) == 1 else 'wait'} {reason}")
    return "deadlock, no thread can go on: " + "; ".join(told)


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text, such as "0 to 31, 64"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in parts)


def give_way() -> None:
    """Let the other threads run once."""
    thread().meet()


def together(size: int, value: Any, work: Callable[[list[Any]], Sequence[Any]], what: str) -> Any:
    """Return this thread's part of work(the values of all threads of a group), which is done once.

    Args:
        size: threads of the group: 32 for a warp, 128 for a warpgroup.
        what: the instruction's name.
    """
    here, state = thread(), block()
    number = here.thread_id
    key = size, number // size
    meeting = state.meetings.get(key)
    if meeting is None:
        meeting = state.meetings[key] = _Meeting()
    group = "warp" if size == 32 else "warpgroup"
    for other, (name, _) in meeting.values.items():
        if name != what:
            raise RuntimeError(
                f"threads of one {group} execute different instructions: thread {number} {what}, thread {other} {name}"
            )
        break
    turn = meeting.number
    meeting.values[number] = what, value
    if len(meeting.values) == size:
        first = number // size * size
        found = work([meeting.values[first + k][1] for k in range(size)])
        meeting.results[turn] = [size, found]
        meeting.number, meeting.values = turn + 1, {}
        state.changed()
    else:
        wait_until(lambda: meeting.number > turn, lambda: f"at {what} for other threads of the {group}")
    kept = meeting.results[turn]
    kept[0] -= 1
    if not kept[0]:
        del meeting.results[turn]
    return kept[1][number % size]


def global_bytes(address: Any, count: int) -> np.ndarray[Any, Any]:
    """Return bytes of global memory, as a view.

    Raises:
        IndexError: they are not inside an array.
    """
    at = int(address)
    start = global_memory.before(at)
    whole = global_memory[start]
    if at + count > start + whole.nbytes:
        raise IndexError(f"{count} bytes at address {at:#x} reach beyond the end of an array")
    return whole[at - start : at - start + count]
