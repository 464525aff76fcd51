"""Operations on device arrays: each queues an executable that fits the arrays' alignment, in the order of their memory.

An `Executable` is ready to be queued: a kernel launch, a library call, or several of these. An `Operation` holds the
executables of one task, one for each alignment of the arrays, and queues the one that fits. Plans are operations. So
are copies between arrays, which do not depend on plans.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from ..base.codes import MAY_OVERLAP
from ..base.dispatch import runtime
from ..base.layout import Layout, check_writable, overlap, read_only
from ..base.observing import observable
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import LayoutError
from . import workspace


class Executable(Protocol):
    """Work that is ready to be queued on arrays at given addresses.

    Attributes:
        backend: the software that does it, for `PlanInfo`: "kernel", "cublasLt", ...
        algorithm: a readable description of the method.
        workspace_bytes: scratch memory that it needs.
        library_bytes: memory of a library that it holds, or makes the library allocate. Caches limit it.
        deterministic: True if the same inputs give the same bits on every run on one GPU model.
        direct: True if `launch` exists, for arrays that have not been checked yet.
    """

    backend: str
    algorithm: str
    workspace_bytes: int
    library_bytes: int
    deterministic: bool
    direct: bool

    def ready(self, addresses: Sequence[int]) -> None:
        """Compile and load everything else that a launch on arrays at these addresses needs."""

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Queue the work, after quick checks of context, alignment, overlap and capture.

        Args:
            stream: a handle.
            scratch: the address of `workspace_bytes` of memory.
            addresses: of the arrays, inputs first.
            scalars: further arguments, which depend on the kind of operation: 64-bit words for kernels.

        Returns:
            0, the library's status, or one of `base.codes` if nothing was done and everything must be checked.
        """

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Queue the work on arrays and a stream that were checked before, in the current context."""

    def check(self, status: int) -> None:
        """Raise the library's error for a status that is not 0."""


class Trial(NamedTuple):
    """The arguments of a run, for measuring executables before it: its stream, addresses and scalars."""

    stream: int
    addresses: Sequence[int]
    scalars: Sequence[int]


class Chosen:
    """The executables that an operation has made.

    Attributes:
        made: key -> executable.
        last: the executable used last, None at first.
        direct: `last`, if its `launch` may be tried without further checks, else None.
        launch_words: that of `direct`, if it has one, else None. Such launches need no scratch memory.
    """

    def __init__(self) -> None:
        self.made: dict[Hashable, Any] = {}
        self.last: Any = None
        self.direct: Any = None
        self.launch_words: Any = None


class _ChosenHere(threading.local, Chosen):
    """The executables of the calling thread; they are deleted when the thread ends."""


class Operation(NotCopied):
    """A computation on device arrays at any addresses.

    Args:
        op: its name in messages.
        names: the names of inputs and outputs.
        inputs, outputs: the layouts of the arrays that are present.
        device: the device; by default that of the first array.

    Attributes:
        chosen: its executables, shared by all threads, or for each thread if `per_thread`.
        empty: True if there is nothing to do.
        close: (i, j, near, far): arrays i and j (j is an output) may share bytes if j's address minus i's lies
            between near and far.
        overwritten: the numbers of inputs that are also written.
        library_bytes: the most library memory that the executables of one thread hold; known once they are made.
    """

    _instead = PLAN_INSTEAD
    #: True if executables have library handles, which belong to the thread that made them.
    per_thread = False
    #: True if the fastest of several executables is found by measurement before the first run.
    tunes = False
    #: True if scratch memory is all 0 before and after each run; see `workspace`.
    clear = False
    empty = False
    library_bytes = 0

    def __init__(
        self,
        op: str,
        names: Sequence[str],
        inputs: Sequence[Layout],
        outputs: Sequence[Layout],
        device: int | None = None,
    ):
        self.op, self.names = op, tuple(names)
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.device = (*inputs, *outputs)[0].device if device is None else device
        self.chosen = _ChosenHere() if self.per_thread else Chosen()
        # Attributes of the object are read in half the time of class attributes.
        self.overwritten: tuple[int, ...] = ()
        #: The scalars of a run without scalars.
        self._scalars: tuple[int, ...] = ()
        self.close = [
            (i, j, other.low - output.high, other.high - output.low)
            for j, output in enumerate(self.outputs, len(self.inputs))
            for i, other in enumerate((*self.inputs, *self.outputs)[:j])
        ]

    # ------------------------------------------------------------ methods that a kind of operation overrides

    def _key(self, addresses: Sequence[int]) -> Any:
        """Return the part of the arrays' addresses that determines which executable fits."""
        return tuple([address % 16 for address in addresses])

    def _make(self, key: Any, trial: Trial | None) -> Executable:
        """Make the executable for arrays of that key. `trial`, if given, may be used to choose it by measurement."""
        raise NotImplementedError

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        """Return True if arrays number i and j (j is an output) may share bytes as they do at these addresses."""
        return False

    def _shares(self, i: int, j: int) -> str:
        """Return the message for arrays i and j (j is an output) that share bytes."""
        if i >= len(self.inputs):
            return "the arrays of out overlap each other; pass separate arrays"
        return f"{self.names[j]} overlaps {self.names[i]}: pass memory that does not overlap it"

    def _refused_overwriting(self, name: str) -> LayoutError:
        """Return the error for an input that would be written but is read-only."""
        return read_only(name)

    # ------------------------------------------------------------ methods that plans override

    def _grown(self) -> None:
        """Handle an increase of `library_bytes`."""

    #: (layout, stream) -> new memory for a result.
    _memory: Any = None

    def _answer(self, outs: Sequence[Any]) -> Any:
        """Make the return value of the results, if the user passed no arrays for them."""
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _run_numpy(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        """Compute the results of NumPy arrays."""
        raise NotImplementedError

    # ------------------------------------------------------------ choosing

    @property
    def last(self) -> Any:
        """The executable used last; None at first."""
        return self.chosen.last

    @observable("setup")
    def choose(self, addresses: Sequence[int], trial: Trial | None = None) -> Any:
        """Return the executable for arrays at these addresses, and make it at the first call."""
        chosen, key = self.chosen, self._key(addresses)
        found = chosen.made.get(key)
        if found is None:
            found = self._make(key, trial)
            if self.tunes and trial is None:
                return found  # not measured yet
            chosen.made[key] = found
            if found.library_bytes > self.library_bytes:
                self.library_bytes = found.library_bytes
                self._grown()
        chosen.last, chosen.direct = found, found if found.direct else None
        chosen.launch_words = getattr(chosen.direct, "launch_words", None)
        return found

    def choose_captured(self, addresses: Sequence[int]) -> Any:
        """Return the executable to use inside a capture, where unnecessary compilation is avoided."""
        return self.choose(addresses)

    def ready(self, addresses: Sequence[int]) -> None:
        """Compile and load what a run on arrays at these addresses needs. Unknown addresses are multiples of 256."""
        if self.device >= 0 and not self.empty:
            unknown = len(self.inputs) + len(self.outputs) - len(addresses)
            given = [*addresses, *[0] * unknown]
            self.choose(given).ready(given)

    # ------------------------------------------------------------ running

    @observable("run")
    def run(
        self,
        inputs: Sequence[Any],
        outs: Sequence[Any] | None,
        out: Any,
        stream: int,
        scalars: Sequence[Any] = (),
    ) -> Any:
        """Run on arrays of this operation's layouts, on a GPU in the order of their memory.

        Args:
            inputs: all inputs.
            outs: arrays for the results; None for each that is to be made, or for all.
            out: the user's argument for the results, which is returned; None if there was none.
            stream, scalars: a handle, and the executables' scalars; on the CPU, the scalars of the reference.

        Raises:
            LayoutError: an array that is written is read-only, or shares memory with one that is still to be read.
        """
        if self.device < 0:
            outs = self._run_numpy(inputs, (None,) * len(self.outputs) if outs is None else outs, scalars)
            return self._answer(outs) if out is None else out
        # The fast path, where a tenth of a microsecond matters.
        direct = self.chosen.direct
        addresses = []
        for array in inputs:
            addresses.append(array._address)
            if array._storage.sole != stream:
                direct = None
        if outs is None and len(self.outputs) == 1:
            # New memory need not be checked again, and no other thread uses it.
            out = self._memory(self.outputs[0], stream)
            outs = (out,)
            addresses.append(out._address)
            if out._storage.sole is None:  # memory of a capture
                direct = None
        else:
            if outs is None:
                outs = [self._memory(made, stream) for made in self.outputs]
            for array in outs:
                if array is None or array._readonly:
                    return self.run(inputs, self._complete(outs, stream), out, stream, scalars)
                addresses.append(array._address)
                if array._storage.sole != stream:
                    direct = None
        if self.overwritten:
            self._check_overwritten(inputs)
        scalars = scalars or self._scalars
        if direct is not None:
            scratch = block = 0
            if direct.workspace_bytes:
                # The variable `block` keeps the block alive until the work is queued.
                block = workspace.held(direct.workspace_bytes, self.device, stream, self.clear)
                scratch = -1 if block is None else block.address
            if scratch >= 0 and not direct.launch(stream, scratch, addresses, scalars):
                for arrays in (inputs, outs):
                    for array in arrays:
                        if array._storage.sole != stream:
                            # Another thread has used the memory on another stream meanwhile.
                            runtime().note(stream, self.device, inputs, self._written(inputs, outs))
                            return self._answer(outs) if out is None else out
                return self._answer(outs) if out is None else out
        if not self.empty:
            with runtime().using(stream, self.device, inputs, self._written(inputs, outs)) as capture:
                self._queue(stream, addresses, scalars, capture)
        return self._answer(outs) if out is None else out

    def queued(self, addresses: Sequence[int], stream: int, scalars: Sequence[int]) -> bool:
        """Queue the work for arrays at these addresses, and return True; or do nothing, and return False.

        This is the fast path of `run`, for memory that another library allocates and orders on this stream. `run`
        repeats its lines, because one more call would take a tenth of a microsecond.
        """
        direct = self.chosen.direct
        if direct is None:
            return False
        scratch = block = 0
        if direct.workspace_bytes:
            # The variable `block` keeps the block alive until the work is queued.
            block = workspace.held(direct.workspace_bytes, self.device, stream, self.clear)
            if block is None:
                return False
            scratch = block.address
        return not direct.launch(stream, scratch, addresses, scalars or self._scalars)

    def _complete(self, outs: Sequence[Any], stream: int) -> list[Any]:
        """Return the results' arrays, with new ones for those not given."""
        for number, array in enumerate(outs):
            if array is not None and array._readonly:
                raise read_only(self.names[len(self.inputs) + number])
        pairs = zip(outs, self.outputs, strict=True)
        return [self._memory(made, stream) if array is None else array for array, made in pairs]

    def _check_overwritten(self, inputs: Sequence[Any]) -> None:
        for number in self.overwritten:
            array = inputs[number]
            if array._readonly if self.device >= 0 else not array.flags.writeable:
                raise self._refused_overwriting(self.names[number])

    def _written(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Sequence[Any]:
        return (*outs, *[inputs[k] for k in self.overwritten]) if self.overwritten else outs

    def _queue(self, stream: int, addresses: Sequence[int], scalars: Sequence[int], capture: Any) -> None:
        """Queue the work on arrays of any alignment and overlap, once other streams' work is ordered."""
        trial = None
        if self.tunes and capture is None:
            self.check_overlap(addresses)
            trial = Trial(stream, addresses, scalars)
        found = self.choose(addresses, trial) if capture is None else self.choose_captured(addresses)
        if capture is not None:
            capture.keep(found)
        launch = partial(self._launch, found, stream, addresses, scalars)
        workspace.run(launch, found.workspace_bytes, self.device, stream, self.clear)

    @observable("launch")
    def _launch(
        self, found: Executable, stream: int, addresses: Sequence[int], scalars: Sequence[int], scratch: int
    ) -> None:
        status = found.launch(stream, scratch, addresses, scalars) if found.direct else MAY_OVERLAP
        if status < 0:
            self.check_overlap(addresses)
            status = found.launch_unchecked(stream, scratch, addresses, scalars)
        if status:
            found.check(status)

    # ------------------------------------------------------------ overlap

    def _check_writable(self) -> None:
        """Raise LayoutError if elements of an output share memory."""
        for output, name in zip(self.outputs, self.names[len(self.inputs) :], strict=True):
            check_writable(output, name)

    def _pairs(self) -> tuple[tuple[int, ...], ...]:
        """Return the pairs of arrays that must not share bytes, in the form of `LaunchOrder.pairs`."""
        first, layouts, somewhere = len(self.inputs), (*self.inputs, *self.outputs), 1 << 40
        return tuple(
            (i, a.low, a.high, j, o.low, o.high, int(i < first and self._may_share(i, j, somewhere, somewhere)))
            for j, o in enumerate(layouts[first:], first)
            for i, a in enumerate(layouts[:j])
        )

    def _fits(self, key: Any, addresses: Sequence[int]) -> bool:
        """Return True if an executable made for a key fits arrays at these addresses."""
        return bool(self._key(addresses) == key)

    def check_overlap(self, addresses: Sequence[int | None]) -> None:
        """Raise LayoutError if writing to arrays at these addresses would change data that is still to be read.

        The address of a result that is not allocated yet is None.
        """
        layouts = (*self.inputs, *self.outputs)
        for i, j, near, far in self.close:
            source, target = addresses[i], addresses[j]
            if (
                source is not None
                and target is not None
                and near < target - source < far
                and overlap(target, layouts[j], source, layouts[i])
                and not self._may_share(i, j, source, target)
            ):
                raise LayoutError(self._shares(i, j))
