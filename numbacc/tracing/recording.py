"""Record accesses while kernels run: thread, address, instruction, and the barriers passed before."""

from __future__ import annotations

import dis
from array import array
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from ..errors import KernelError, UnsupportedError
from ..simulator.frames import instruction_at

READ, WRITE, ATOMIC = range(3)
ACCESSES = ("read", "write", "atomic")
GLOBAL, SHARED = "global", "shared"

#: The columns of a record. `phase` counts the block's barriers that the thread has passed, `warp_phase` its warp's, and
#: `grid_phase` the grid's; it is 0 in Numba's simulator, where such a grid has one block. `step` counts how often the
#: thread has reached the instruction since the last barrier of any kind. Addresses in global memory count
#: from the first allocation recorded, those in shared memory from the start of the block's memory.
FIELDS = (
    "launch", "block", "thread", "array", "address", "nbytes", "access", "instruction", "step", "phase", "warp_phase",
    "grid_phase",
)  # fmt: skip

#: Alignment of allocations: cuMemAlloc returns multiples of 256 bytes.
ALIGNMENT = 256


class SourceLine(NamedTuple):
    """A line of a kernel, or of a function that it calls."""

    file: str
    line: int
    function: str


class Named(NamedTuple):
    """An array of a launch: a kernel's argument, or shared memory.

    Attributes:
        address: the address of element 0.
        shape, strides, itemsize: as in NumPy; strides are in bytes.
    """

    launch: int
    name: str
    space: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def index_of(self, address: int) -> tuple[int, ...]:
        """The index of the element that holds an address."""
        return tuple(int(k) for k in self.indices_of(np.array(address))[0])

    def indices_of(self, addresses: np.ndarray[Any, Any]) -> tuple[list[Any], np.ndarray[Any, Any]]:
        """Return the indices of the elements at addresses, an array for each axis, and each address within its element.

        Addresses that no element holds have indices outside of the shape, or lie beyond their element's bytes.
        """
        axes = [*zip(self.shape, self.strides, strict=True)]
        # Along a negative stride, indices are counted from the last element, which has the lowest address.
        rest = addresses - self.address - sum((n - 1) * step for n, step in axes if step < 0)
        index = [np.zeros_like(rest) for _ in axes]
        for k in sorted(range(len(axes)), key=lambda k: -abs(axes[k][1])):
            length, step = axes[k]
            if step and length > 1:
                index[k], rest = np.divmod(rest, abs(step))
                if step < 0:
                    index[k] = length - 1 - index[k]
        return index, rest


class RecordedLaunch(NamedTuple):
    """A kernel's launch: its name and file, the number of its blocks and of their threads."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]


class Recorder:
    """The records of a trace.

    Args:
        max_accesses: how many records to keep.
    """

    def __init__(self, max_accesses: int):
        self.limit = max_accesses
        #: The rows that compiled kernels count while they run: by array (False), and by line (True).
        self.counted: dict[bool, list[Any]] = {False: [], True: []}
        #: Reads of shared memory that no thread had written. Only compiled kernels find them.
        self.unwritten: list[KernelError] = []
        self._columns = array("q")
        self._instructions: dict[Any, int] = {}
        self._allocations: dict[int, int] = {}
        self._kept: list[Any] = []
        self._end = 0
        self.places: list[SourceLine] = []
        self.arrays: list[Named] = []
        self.launches: list[RecordedLaunch] = []
        #: (launch, block, phase, source line) -> how many threads reached the barrier there.
        self.barriers: dict[tuple[int, int, int, SourceLine], int] = {}
        self.code: CodeType | None = None
        #: The `cuda` module of the running kernel.
        self.module: Any = None
        #: The kernel of each launch, with small arguments of the same types.
        self.kernels: list[tuple[Any, tuple[Any, ...]]] = []

    def __len__(self) -> int:
        """Return how many records there are."""
        return len(self._columns) // len(FIELDS)

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the records as int64 arrays, keyed by the names in `FIELDS`."""
        table = np.frombuffer(self._columns.tobytes(), np.int64).reshape(-1, len(FIELDS))
        return dict(zip(FIELDS, np.ascontiguousarray(table.T), strict=True))

    def thread(self) -> Any:
        """The running thread of the kernel."""
        return self.module.thread

    def begin_thread(self) -> None:
        """Record that a thread of the kernel begins."""
        thread = self.thread()
        thread.barriers = thread.warp_barriers = 0  # barriers passed: the block's, and its warp's alone
        thread.phase, thread.steps = None, {}

    def allocation(self, start: int, nbytes: int, owner: Any) -> int:
        """Return the address that stands for a host allocation, which is kept alive so that no other reuses it."""
        found = self._allocations.get(start)
        if found is None:
            found = self._allocations[start] = self._end
            self._kept.append(owner)
            self._end += -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return found

    def named(self, name: str, space: str, address: int, view: np.ndarray[Any, Any]) -> int:
        """Add an array to the running launch and return its number."""
        return self.add_array(len(self.launches) - 1, name, space, address, view.shape, view.strides, view.itemsize)

    def add_array(self, *fields: Any) -> int:
        """Add an array, given the fields of `Named`, and return its number."""
        self.arrays.append(Named(*fields))
        return len(self.arrays) - 1

    def extend(self, records: np.ndarray[Any, Any]) -> None:
        """Add records; their columns are `FIELDS`."""
        self._columns.frombytes(np.ascontiguousarray(records, np.int64).tobytes())

    def operand(self, address: int, written: bool) -> int:
        """Return the number of the argument at an address; if an input and an output share it, of the fitting one."""
        launch = len(self.launches) - 1
        same = [k for k, each in enumerate(self.arrays) if each.launch == launch and each.address == address]
        return same[-1 if written else 0]

    def seen(self, array_: int, address: int, nbytes: int, access: int, frame: FrameType) -> None:
        """Record an access by the running thread at a frame's instruction."""
        thread = self.thread()
        phase = thread.barriers, thread.warp_barriers
        if thread.phase != phase:
            thread.phase, thread.steps = phase, {}
        instruction = self.instruction(frame)
        step = thread.steps[instruction] = thread.steps.get(instruction, -1) + 1
        if len(self) >= self.limit:
            raise UnsupportedError(
                f"the kernel accesses arrays more than {self.limit:,} times, more than this "
                "trace keeps: launch it on a smaller array, which shows the same pattern, or give "
                "numbacc.trace a larger max_accesses"
            )
        self._columns.extend(
            (len(self.launches) - 1, thread.block.number, thread.thread_id, array_, address, nbytes, access,
             instruction, step, *phase, 0)
        )  # fmt: skip

    def instruction(self, frame: FrameType) -> int:
        """Return the number of a frame's instruction. Another chain of calls gives another number."""
        key: Any = instruction_at(frame)
        caller: FrameType | None = frame
        if frame.f_code is not self.code:
            chain = []
            while caller is not None and caller.f_code is not self.code:
                chain.append(instruction_at(caller))
                caller = caller.f_back
            key = (*chain, caller and instruction_at(caller))
        found = self._instructions.get(key)
        if found is None:
            found = self._instructions[key] = len(self._instructions)
            self.places.append(place_of(frame))
        return found

    def barrier(self, frame: FrameType) -> None:
        """Record that the running thread reaches a barrier."""
        thread = self.thread()
        key = (len(self.launches) - 1, thread.block.number, thread.barriers, place_of(frame))
        self.barriers[key] = self.barriers.get(key, 0) + 1


def place_of(frame: FrameType) -> SourceLine:
    """Return the line of a frame; for a replacement of an intrinsic, the line of the kernel that calls it."""
    own: FrameType | None = frame
    while own is not None and own.f_globals.get("__name__", "").startswith("numbacc.kernels.primitives.simulated"):
        own = own.f_back
    frame = own or frame
    return SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def assigned_name(frame: FrameType) -> str:
    """Return the variable that gets the result of a frame's current call, to name an array without another name."""
    after = (each for each in dis.get_instructions(frame.f_code) if each.offset > frame.f_lasti)
    following = next(after, None)
    if following is None or not following.opname.startswith("STORE_"):
        return f"shared (line {frame.f_lineno})"
    name = following.argval
    return str(name[0] if isinstance(name, tuple) else name)  # Python 3.13 merges two instructions into one
