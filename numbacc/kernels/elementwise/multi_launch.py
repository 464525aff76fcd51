"""Operations of one kernel, or of several that pass partial results in scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...base.dtypes import TABLE
from ...runtime.launch_order import LaunchOrder
from ...runtime.steps import IN_SCRATCH, CompiledStep, Scratch, Step, Steps
from .launch import Launches, LaunchExecutable, kernel_of


class Passes(Launches):
    """An operation of one launch, or of several that pass partial results in scratch memory.

    The scratch memory is aligned to 16 bytes.
    """

    # ------------------------------------------------------------ what each kind of operation defines

    #: True if each pass receives the operation's scalar arguments.
    _takes_scalars = False

    def _kept_results(self) -> int:
        """Return how many results each block along the grid's y has partial results of."""
        raise NotImplementedError

    def _operands(self, parts: Sequence[int], passes: int) -> Sequence[tuple[int, ...]]:
        """Return the numbers of the arrays of each of `passes` passes, given the numbers of the partial results."""
        raise NotImplementedError

    # ------------------------------------------------------------ the executable

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """Return one launch, or several that pass partial results in scratch memory."""
        kernels = [kernel_of(order) for order in orders]
        if len(kernels) == 1:
            return kernels[0]
        scratch, arrays = Scratch(), len(self.inputs) + len(self.outputs)
        spec: Any = orders[0].kernel
        count = self._kept_results() * orders[0].grid[1]
        parts = [arrays + scratch.part(TABLE[part].itemsize * count) for part in spec.parts]
        passes = zip(kernels, self._operands(parts, len(kernels)), strict=True)
        steps = [Step(*each, takes_scalars=self._takes_scalars) for each in passes]
        return Steps(steps, scratch, self.close, partial(self._fits, key))


class KernelWithScratch(LaunchExecutable):
    """An executable whose last array is scratch memory of a given size."""

    def __init__(self, launcher: Any, nbytes: int):
        super().__init__(launcher)
        self.workspace_bytes, self._launch = nbytes, launcher.launch
        self.launch, self.launch_words = self._launch_behind, None

    def _launch_behind(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        return self._launch(stream, 0, [*addresses, scratch], scalars)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch without checks, as `Executable.launch_unchecked` describes."""
        return self.launcher.launch_unchecked(stream, 0, [*addresses, scratch], scalars)

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep] | None:
        """Return the launch, if it is compiled code."""
        return super().compiled_steps((*places, (IN_SCRATCH, scratch)), scratch, scalars)
