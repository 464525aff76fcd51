"""Operations of one kernel, or of several with parts in scratch memory between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...base.dtypes import TABLE
from ...runtime.launch_order import LaunchOrder
from ...runtime.steps import Scratch, Step, Steps
from .launch import Launches, LaunchExecutable, kernel_of


class Passes(Launches):
    """An operation of one launch, or of several with parts in scratch memory between them, whose addresses modulo 16
    are 0."""

    # ------------------------------------------------------------ what a kind of operation brings

    #: Whether each pass takes the operation's scalar arguments.
    _takes_scalars = False

    def _kept_results(self) -> int:
        """How many results a block along the grid's y has parts of."""
        raise NotImplementedError

    def _operands(self, parts: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """The numbers of each pass's arrays, given those of the parts."""
        raise NotImplementedError

    # ------------------------------------------------------------ what follows

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """One launch, or several with parts in scratch memory between them."""
        kernels = [kernel_of(order) for order in orders]
        if len(kernels) == 1:
            return kernels[0]
        scratch, arrays = Scratch(), len(self.inputs) + len(self.outputs)
        spec: Any = orders[0].kernel
        count = self._kept_results() * orders[0].grid[1]
        parts = [arrays + scratch.part(TABLE[part].itemsize * count) for part in spec.parts]
        passes = zip(kernels, self._operands(parts), strict=True)
        steps = [Step(*each, takes_scalars=self._takes_scalars) for each in passes]
        return Steps(steps, scratch, self.close, partial(self._fits, key))


class KernelWithScratch(LaunchExecutable):
    """A launcher as an executable, whose last array is so many bytes of scratch memory."""

    def __init__(self, launcher: Any, nbytes: int):
        super().__init__(launcher)
        self.workspace_bytes, self._launch = nbytes, launcher.launch
        self.launch = self._launch_behind

    def _launch_behind(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        return self._launch(stream, 0, [*addresses, scratch], scalars)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """As `Executable.launch_unchecked`."""
        return self.launcher.launch_unchecked(stream, 0, [*addresses, scratch], scalars)
