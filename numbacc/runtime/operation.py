"""Operations on device arrays: an executable that fits their alignment, queued in the order of their memory.

An `Executable` is what is ready to be queued: a launch of a kernel, a call of a library, or several of these. An
`Operation` has those of one task, by the arrays' alignment, and queues the one that fits. Plans are operations; so are
copies between arrays, which know no plans.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from ..base.codes import MAY_OVERLAP
from ..base.dispatch import runtime
from ..base.layout import Layout, check_writable, overlap, read_only
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import LayoutError
from . import workspace


class Executable(Protocol):
    """Work that is ready to be queued on arrays at given addresses.

    Attributes:
        backend: what does it: "kernel", "cublasLt", ..., for `PlanInfo`.
        algorithm: how, to be read.
        workspace_bytes: scratch memory that it needs.
        library_bytes: what it holds of a library's memory, or makes the library ask for: what caches are limited by.
        deterministic: True if the same inputs give the same bits on every run on one GPU model.
        direct: True if there is a `launch`, for arrays that have not been checked yet.
    """

    backend: str
    algorithm: str
    workspace_bytes: int
    library_bytes: int
    deterministic: bool
    direct: bool

    def ready(self, addresses: Sequence[int]) -> None:
        """Compile and load what a launch on arrays at these addresses needs beyond the executable itself."""

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Queue it, after a quick look at context, alignment, overlap and capture.

        Args:
            stream: a handle.
            scratch: the address of `workspace_bytes` of memory.
            addresses: of the arrays, inputs first.
            scalars: further arguments, as the kind of operation has them: 64-bit words for kernels.

        Returns:
            0, the library's status, or a number of `base.codes` where nothing was done and all must be checked.
        """

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """`launch` for arrays and a stream that have been checked, in a context that is current."""

    def check(self, status: int) -> None:
        """Raise the library's error of a status that is not 0."""


class Trial(NamedTuple):
    """A run before which executables may be measured: its stream, and what it is of."""

    stream: int
    addresses: Sequence[int]
    scalars: Sequence[int]


class Chosen:
    """The executables that an operation has made.

    Attributes:
        made: by what they were made for.
        last: the one used last, None at first.
        direct: the same where the short way may be tried with it, else None.
    """

    def __init__(self) -> None:
        self.made: dict[Hashable, Any] = {}
        self.last: Any = None
        self.direct: Any = None


class _ChosenHere(threading.local, Chosen):
    """Those of the calling thread; they go with it."""


class Operation(NotCopied):
    """Something that is done to device arrays, wherever they start.

    Args:
        op: what it is called in messages.
        names: the names of inputs and outputs.
        inputs, outputs: the arrays' layouts. Only those that a call has.
        device: where; by default where the first array is.

    Attributes:
        chosen: its executables: all threads', or the calling thread's where they are `per_thread`.
        empty: True where there is nothing to do.
        close: pairs of arrays, the second an output, and the distances between which they may share bytes.
        overwritten: the numbers of inputs that are written, too.
        library_bytes: the most that the executables of one thread hold; known once they are made.
    """

    _instead = PLAN_INSTEAD
    #: True where executables have library handles, which belong to the thread that made them.
    per_thread = False
    #: True where the fastest of several executables is to be found by measurement, before it is run.
    tunes = False
    #: True where scratch memory is full of 0, and left so: see `workspace`.
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
        # The object's own, which are read in half the time of the class's.
        self.overwritten: tuple[int, ...] = ()
        #: The scalars of a run that is given none.
        self._scalars: tuple[int, ...] = ()
        self.close = [
            (i, j, other.low - output.high, other.high - output.low)
            for j, output in enumerate(self.outputs, len(self.inputs))
            for i, other in enumerate((*self.inputs, *self.outputs)[:j])
        ]

    # ------------------------------------------------------------ what a kind of operation brings

    def _key(self, addresses: Sequence[int]) -> Any:
        """The part of the arrays' addresses that decides which executable fits."""
        return tuple([address % 16 for address in addresses])

    def _make(self, key: Any, trial: Trial | None) -> Executable:
        """The executable for arrays of that key. `trial` is where it may be found by measurement."""
        raise NotImplementedError

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        """True if arrays number i and j, j an output, may share bytes as they do at these addresses."""
        return False

    def _shares(self, i: int, j: int) -> str:
        """The message where arrays i and j, j an output, share bytes."""
        if i >= len(self.inputs):
            return "the arrays of out overlap each other; pass separate arrays"
        return f"{self.names[j]} overlaps {self.names[i]}: pass memory that shares nothing with it"

    def _refused_overwriting(self, name: str) -> LayoutError:
        """The error for an input that is read-only, and would be written."""
        return read_only(name)

    # ------------------------------------------------------------ what plans bring

    def _grown(self) -> None:
        """Told when `library_bytes` has grown."""

    #: (layout, stream) -> new memory for a result.
    _memory: Any = None

    def _answer(self, outs: Sequence[Any]) -> Any:
        """The return value, made of the results, where the user gave no arrays for them."""
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _run_numpy(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        """The results, of NumPy arrays."""
        raise NotImplementedError

    # ------------------------------------------------------------ choosing

    @property
    def last(self) -> Any:
        """The executable used last, None at first."""
        return self.chosen.last

    def choose(self, addresses: Sequence[int], trial: Trial | None = None) -> Any:
        """The executable for arrays at these addresses, made where there is none yet."""
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
        return found

    def choose_captured(self, addresses: Sequence[int]) -> Any:
        """The executable inside a capture, where nothing is to be compiled that need not be."""
        return self.choose(addresses)

    def ready(self, addresses: Sequence[int]) -> None:
        """Make what a run on arrays at these addresses needs; those not known yet are multiples of 256."""
        if self.device >= 0 and not self.empty:
            unknown = len(self.inputs) + len(self.outputs) - len(addresses)
            given = [*addresses, *[0] * unknown]
            self.choose(given).ready(given)

    # ------------------------------------------------------------ running

    def run(
        self,
        inputs: Sequence[Any],
        outs: Sequence[Any] | None,
        out: Any,
        stream: int,
        scalars: Sequence[Any] = (),
    ) -> Any:
        """Run on arrays of the layouts it was made for, on a GPU in the order of their memory.

        Args:
            inputs: all that it has.
            outs: arrays for the results, None for each that is to be made, or for all.
            out: what the user gave for the results and gets back, None where that is nothing.
            stream, scalars: a handle, and what executables take; on the CPU scalars are what the reference takes.

        Raises:
            LayoutError: what is written is read-only, or shares memory with what is still to be read.
        """
        if self.device < 0:
            outs = self._run_numpy(inputs, (None,) * len(self.outputs) if outs is None else outs, scalars)
            return self._answer(outs) if out is None else out
        # The path where a tenth of a microsecond counts.
        direct = self.chosen.direct
        addresses = []
        for array in inputs:
            addresses.append(array._address)
            if array._storage.sole != stream:
                direct = None
        if outs is None and len(self.outputs) == 1:
            # New memory need not be checked again, and nobody else uses it.
            out = self._memory(self.outputs[0], stream)
            outs = (out,)
            addresses.append(out._address)
            if out._storage.sole is None:  # a capture's
                direct = None
        else:
            if outs is None:
                outs = self._complete((None,) * len(self.outputs), stream)
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
                # The local name keeps the block until the work is queued.
                block = workspace.held(direct.workspace_bytes, self.device, stream, self.clear)
                scratch = -1 if block is None else block.address
            if scratch >= 0 and not direct.launch(stream, scratch, addresses, scalars):
                for arrays in (inputs, outs):
                    for array in arrays:
                        if array._storage.sole != stream:
                            # Another thread has begun to use the memory elsewhere meanwhile.
                            runtime().note(stream, self.device, inputs, self._written(inputs, outs))
                            return self._answer(outs) if out is None else out
                return self._answer(outs) if out is None else out
        if not self.empty:
            with runtime().using(stream, self.device, inputs, self._written(inputs, outs)) as capture:
                self._queue(stream, addresses, scalars, capture)
        return self._answer(outs) if out is None else out

    def _complete(self, outs: Sequence[Any], stream: int) -> list[Any]:
        """Results, those made that were not given."""
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
        """Queue it on arrays that are in order, whatever their alignment and overlap."""
        trial = None
        if self.tunes and capture is None:
            self.check_overlap(addresses)
            trial = Trial(stream, addresses, scalars)
        found = self.choose(addresses, trial) if capture is None else self.choose_captured(addresses)
        if capture is not None:
            capture.keep(found)
        launch = partial(self._launch, found, stream, addresses, scalars)
        workspace.run(launch, found.workspace_bytes, self.device, stream, self.clear)

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
        """Raise LayoutError where elements of an output share memory."""
        for output, name in zip(self.outputs, self.names[len(self.inputs) :], strict=True):
            check_writable(output, name)

    def _pairs(self) -> tuple[tuple[int, ...], ...]:
        """Which arrays must not share bytes, as `specs.LaunchOrder` has it."""
        first, layouts, somewhere = len(self.inputs), (*self.inputs, *self.outputs), 1 << 40
        return tuple(
            (i, a.low, a.high, j, o.low, o.high, int(i < first and self._may_share(i, j, somewhere, somewhere)))
            for j, o in enumerate(layouts[first:], first)
            for i, a in enumerate(layouts[:j])
        )

    def _fits(self, key: Any, addresses: Sequence[int]) -> bool:
        """True if an executable made for a key fits arrays at these addresses."""
        return bool(self._key(addresses) == key)

    def check_overlap(self, addresses: Sequence[int | None]) -> None:
        """Raise LayoutError where writing to arrays at these addresses would change what is still to be read.

        None is the address of results that are yet to be made.
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
