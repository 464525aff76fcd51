"""Several executables that run one after the other as one, with scratch memory for intermediate results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.codes import MAY_OVERLAP, WRONG_ALIGNMENT
from ..base.dispatch import runtime

#: Parts of scratch memory start at multiples of this, as allocations do.
ALIGNMENT = 256
#: The operand number of an array that is absent: its address is 0.
ABSENT = -1


class CompiledStep(NamedTuple):
    """A call of a compiled function(template, stream, scratch, words), as the handler of XLA's calls makes it.

    Attributes:
        function: the function; see `native`.
        template: memory of ctypes, its first argument.
        places: for each word, which is an address, (number of an array, byte offset in it). The number is IN_SCRATCH
            for scratch memory, and ABSENT for an absent array.
        scalars: words that follow the addresses.
        scratch: the offset of the function's own scratch memory, or None.
    """

    function: Any
    template: Any
    places: tuple[tuple[int, int], ...]
    scalars: tuple[int, ...] = ()
    scratch: int | None = None


#: The number of scratch memory among the arrays of a `CompiledStep`.
IN_SCRATCH = -2


def compiled_steps(
    executable: Any, places: Sequence[tuple[int, int]], scratch: int, scalars: Sequence[int]
) -> list[CompiledStep] | None:
    """Return the compiled steps of an executable's launch; None if it needs Python.

    Args:
        executable: the executable.
        places: its arrays, as in `CompiledStep`.
        scratch: the offset of its scratch memory.
        scalars: as in `Executable.launch`.
    """
    method = getattr(executable, "compiled_steps", None)
    return None if method is None else method(tuple(places), scratch, tuple(scalars))


class Step(NamedTuple):
    """One of several executables.

    Attributes:
        executable: the executable to launch.
        operands: the numbers of its arrays. The whole operation's arrays come first, inputs before outputs, then the
            parts of scratch memory. ABSENT stands for an absent array.
        runs: byte offsets to add to the addresses, one row for each of several launches.
        takes_scalars: whether it gets the scalars of the whole operation; otherwise it gets none.
    """

    executable: Any
    operands: tuple[int, ...]
    runs: Sequence[Sequence[int]] = ((),)
    takes_scalars: bool = False


class Scratch:
    """Consecutive parts of scratch memory.

    Attributes:
        starts: byte offset of each part.
        nbytes: bytes of all parts.
    """

    def __init__(self, starts: Sequence[int] = (), nbytes: int = 0):
        self.starts, self.nbytes = list(starts), nbytes

    def part(self, nbytes: int) -> int:
        """Add a part of `nbytes`, and return its number."""
        self.starts.append(self.nbytes)
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return len(self.starts) - 1


class Steps:
    """Executables that run one after the other, as one `Executable`. They share one area for their own scratch memory.

    Args:
        steps: the executables, in order.
        scratch: the parts of scratch memory that they use.
        close: the pairs of arrays that must not share bytes, as in `Operation.close`.
        fits: a function that returns whether the steps fit arrays at given addresses.
        backend, algorithm, library_bytes, deterministic: as in `Executable`; by default the last step's backend, and
            the algorithms of all steps.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        scratch: Scratch,
        close: Sequence[tuple[int, ...]],
        fits: Callable[[Sequence[int]], bool],
        *,
        backend: str = "",
        algorithm: str = "",
        library_bytes: int = 0,
        deterministic: bool = True,
    ):
        self.steps, self._parts, self._area = tuple(steps), tuple(scratch.starts), scratch.nbytes
        self._close, self._fits = close, fits
        own = max((step.executable.workspace_bytes for step in steps), default=0)
        self.workspace_bytes, self._has_area = scratch.nbytes + own, own > 0
        self.backend = backend or steps[-1].executable.backend
        self.algorithm = algorithm or "; ".join([step.executable.algorithm for step in steps])
        self.library_bytes, self.deterministic = library_bytes, deterministic
        self.direct = bool(steps) and steps[0].executable.direct

    def _addresses(self, addresses: Sequence[int], scratch: int) -> list[int]:
        return [*addresses, *[scratch + start for start in self._parts], 0]

    def ready(self, addresses: Sequence[int]) -> None:
        """Do what `Executable.ready` does; scratch memory starts at a multiple of 256."""
        known = self._addresses(addresses, 0)
        for step in self.steps:
            step.executable.ready([known[k] for k in step.operands])

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch` does. The first step checks context and capture for all."""
        for i, j, near, far in self._close:
            if near < addresses[j] - addresses[i] < far:
                return MAY_OVERLAP
        if not self._fits(addresses):
            return WRONG_ALIGNMENT
        return self._launch(stream, scratch, addresses, scalars, False)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch_unchecked` does. A step that fails raises its own error."""
        return self._launch(stream, scratch, addresses, scalars, True)

    def _launch(
        self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int], is_checked: bool
    ) -> int:
        known, area = self._addresses(addresses, scratch), scratch + self._area if self._has_area else 0
        for executable, numbers, runs, takes_scalars in self.steps:
            arrays, own = [known[k] for k in numbers], scalars if takes_scalars else ()
            for offsets in runs:
                moved = [start + offset for start, offset in zip(arrays, offsets, strict=True)] if offsets else arrays
                if not is_checked:
                    status: int = executable.launch(stream, area, moved, own)
                    if status < 0:
                        return status
                    is_checked = True
                else:
                    status = executable.launch_unchecked(stream, area, moved, own)
                if status:
                    executable.check(status)
        return 0

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep] | None:
        """Return the launches, if all of them are compiled. Whoever makes them checks overlap and alignment."""
        known = [*places, *[(IN_SCRATCH, scratch + start) for start in self._parts], (ABSENT, 0)]
        area, made = scratch + self._area, []
        for executable, numbers, runs, takes_scalars in self.steps:
            for offsets in runs:
                moves = offsets or (0,) * len(numbers)
                arrays = [(known[k][0], known[k][1] + move) for k, move in zip(numbers, moves, strict=True)]
                found = compiled_steps(executable, arrays, area, scalars if takes_scalars else ())
                if found is None:
                    return None
                made += found
        return made

    def check(self, status: int) -> None:
        """Do nothing, because the steps check their own status."""


class WithScratch:
    """One executable whose operands are followed by parts of scratch memory: faster than `Steps` with one step.

    Args:
        runner: the executable; it checks overlap and alignment itself.
        scratch: the parts, in the order of its arrays.
        deterministic: as in `Executable`.
    """

    library_bytes = 0

    def __init__(self, runner: Any, scratch: Scratch, deterministic: bool):
        self._runner, self._starts, self._area = runner, tuple(scratch.starts), scratch.nbytes
        self.backend, self.algorithm, self.direct = runner.backend, runner.algorithm, runner.direct
        self._launch: Any = runner.launch if runner.direct else None
        #: The scratch memory of the last call and its parts' addresses: most calls have the same.
        self._known: tuple[int, tuple[int, ...]] = (0, self._starts)
        self.workspace_bytes, self.deterministic = scratch.nbytes + runner.workspace_bytes, deterministic

    def _addresses(self, addresses: Sequence[int], scratch: int) -> list[int]:
        return [*addresses, *[scratch + start for start in self._starts]]

    def ready(self, addresses: Sequence[int]) -> None:
        """Do what `Executable.ready` does."""
        self._runner.ready(self._addresses(addresses, 0))

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Do what `Executable.launch` does."""
        last, parts = self._known
        if last != scratch:
            parts = tuple([scratch + start for start in self._starts])
            self._known = scratch, parts
        # The parts follow the arrays, as scalars do.
        return self._launch(stream, scratch + self._area, addresses, parts)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Do what `Executable.launch_unchecked` does."""
        return self._runner.launch_unchecked(stream, scratch + self._area, self._addresses(addresses, scratch), ())

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep] | None:
        """Return the runner's launch, if it is compiled."""
        parts = [(IN_SCRATCH, scratch + start) for start in self._starts]
        return compiled_steps(self._runner, (*places, *parts), scratch + self._area, ())

    def check(self, status: int) -> None:
        """Do what `Executable.check` does."""
        self._runner.check(status)


class _Bytes:
    """Work on consecutive bytes. It checks nothing, so it is never launched first."""

    workspace_bytes = 0
    direct = False

    def __init__(self, nbytes: int, device: int):
        self._nbytes, self._device = nbytes, device

    def ready(self, addresses: Sequence[int]) -> None:
        """Do nothing, because there is nothing to compile."""

    def check(self, status: int) -> None:
        """Do nothing, because failures have raised their errors."""


class CopyBytes(_Bytes):
    """A copy of `nbytes` bytes from the first array to the second."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch_unchecked` does."""
        source, target = addresses
        runtime().copy_on_device(target, source, self._nbytes, self._device, stream)
        return 0


class ZeroBytes(_Bytes):
    """A fill of `nbytes` bytes with 0."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch_unchecked` does."""
        runtime().fill(addresses[0], b"\0", self._nbytes, self._device, stream)
        return 0


class FillWords(_Bytes):
    """A fill with `count` repetitions of a word of 1, 2, 4, 8 or 16 bytes, the same in every call."""

    def __init__(self, word: bytes, count: int, device: int):
        super().__init__(len(word) * count, device)
        self._word, self._count = word, count

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch_unchecked` does."""
        runtime().fill(addresses[0], self._word, self._count, self._device, stream)
        return 0


class PutWord(_Bytes):
    """A write to the array of one of the call's scalars, a 64-bit word."""

    def __init__(self, number: int, device: int):
        super().__init__(8, device)
        self._number = number

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch_unchecked` does."""
        word = int(scalars[self._number]) % 2**64
        runtime().fill(addresses[0], word.to_bytes(8, "little"), 1, self._device, stream)
        return 0
