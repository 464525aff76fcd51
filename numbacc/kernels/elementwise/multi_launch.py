"""Operations of one kernel, or of several with parts in scratch memory between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...base.dispatch import launcher_class
from ...base.dtypes import TABLE
from ...runtime.launch_order import LaunchOrder
from ...runtime.operation import Operation
from ...runtime.steps import Scratch, Step, Steps
from .geometry import described, for_any_alignment
from .launch import LaunchExecutable


class Passes(Operation):
    """An operation whose launches follow from layouts and alignment."""

    # ------------------------------------------------------------ what a kind of operation brings

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """The launches for arrays aligned so."""
        raise NotImplementedError

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """The arrays' addresses modulo 16 for each pass; those of parts are 0."""
        raise NotImplementedError

    #: Whether each pass takes the operation's scalar arguments.
    _takes_scalars = False

    def _kept_results(self) -> int:
        """How many results a block along the grid's y has parts of."""
        raise NotImplementedError

    def _operands(self, parts: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """The numbers of each pass's arrays, given those of the parts."""
        raise NotImplementedError

    # ------------------------------------------------------------ what follows

    def _make(self, key: tuple[int, ...], trial: Any) -> Any:
        return self._executable(key, self._orders(key))

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
        return Steps(
            [Step(*each, takes_scalars=self._takes_scalars) for each in passes],
            scratch,
            self.close,
            partial(self._fits, key),
            backend=kernels[0].backend,
            algorithm="; ".join(kernel.algorithm for kernel in kernels),
        )

    def choose_captured(self, addresses: Sequence[int]) -> Any:
        """As `choose`; but compiles nothing where there are kernels that can be launched on these arrays."""
        made, key = self.chosen.made, self._key(addresses)
        if not made or key in made:
            return self.choose(addresses)
        is_loaded = launcher_class().is_loaded
        if all(is_loaded(order.kernel, self.device) for order in self._orders(key)):
            return self.choose(addresses)
        # Listed by one call, while which no other thread adds to them.
        found: Any = next(iter(list(made)))
        orders = self._orders(found)
        alignments = self._alignments(key, len(orders))
        # Words that follow a pass's arrays lie in scratch memory too.
        own = [(*known, *order.alignment[len(known) :]) for known, order in zip(alignments, orders, strict=True)]
        return self._executable(key, [for_any_alignment(*each) for each in zip(orders, own, strict=True)])


def kernel_of(order: LaunchOrder) -> LaunchExecutable:
    """The executable of one launch."""
    launcher = launcher_class()(order)
    launcher.algorithm = described(order)
    return LaunchExecutable(launcher)
