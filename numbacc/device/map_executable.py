"""What launches an elementwise operation on device arrays: its kernels by alignment, and which memory may be shared.

Plans run it behind their checks of arguments; device arrays, which know no plans, copy by it (`copying`). Other
operations of one kernel are launched alike: they bring a launcher of their own, and views with shapes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.backend import backend
from ..base.codes import CAPTURING, MAY_OVERLAP, capacity_for
from ..base.layout import Layout, View, check_writable, layout, overlap, same_layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import LayoutError
from ..kernels.formula import Formula
from ..kernels.specs import words_of
from .geometry import make_launcher


class MapSpec(NamedTuple):
    """An elementwise operation on given layouts.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        formula: what the kernel computes of one element of each operand; None where the launcher's kernel has none.
        reference: the NumPy meaning: takes the operands, returns a tuple of results.
        names: the names of the inputs and outputs, for messages.
        inputs, outputs: layouts of the arguments.
        shape: the shape that the formula is mapped over.
        reads, writes: how the formula's operands lie in the inputs and outputs.
        out_given: whether the outputs are the user's, or allocated by each call.
        launcher: what makes the launcher, as `geometry.make_launcher` does, which None stands for.
        accumulator: dtype of sums; None where nothing is summed.
        compute: name of the dtype that the formula computes in; "" for what follows from the operands'.
        scalars: names of the dtypes of scalar arguments, which are passed at each launch.
    """

    op: str
    formula: Formula | None
    reference: Callable[..., tuple[np.ndarray[Any, Any], ...]]
    names: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    shape: tuple[int, ...]
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    out_given: bool
    launcher: Callable[..., Any] | None = None
    accumulator: str | None = None
    compute: str = ""
    scalars: tuple[str, ...] = ()

    def shape_of(self, view: View) -> tuple[int, ...]:
        """The shape of an operand."""
        return self.shape if view.shape is None else view.shape


class MapExecutable(NotCopied):
    """An elementwise operation, ready for arrays laid out as its spec says, wherever they start.

    Attributes:
        spec: the operation.
        empty: True where there is nothing to launch.
        last: the launcher used last, None at first.
    """

    _instead = PLAN_INSTEAD

    def __init__(self, spec: MapSpec):
        self.spec = spec
        self.empty = 0 in spec.shape
        for output, name in zip(spec.outputs, spec.names[len(spec.inputs) :], strict=True):
            check_writable(output, name)
        self._device = spec.inputs[0].device
        self._arrays = len(spec.inputs) + len(spec.outputs)
        words = self._arrays + words_of(spec.scalars)
        self._padding = [0] * (capacity_for(words) - words)
        #: The launchers by the addresses modulo 16 that they are for.
        self._launchers: dict[tuple[int, ...], Any] = {}
        self.last: Any = None

    def prepare(self, addresses: Sequence[int]) -> None:
        """Compile and load what a run on arrays at these addresses needs; those not known yet are multiples of 16."""
        if not self.empty:
            unknown = self._arrays - len(addresses)
            self.last = self.launcher([*addresses, *[0] * unknown])

    def launcher(self, addresses: Sequence[int]) -> Any:
        """The launcher for arrays aligned as these."""
        alignment = tuple([address % 16 for address in addresses])
        found = self._launchers.get(alignment)
        if found is None:
            make = self.spec.launcher or make_launcher
            found = make(self.spec, alignment, self._device, self._pairs())
            self._launchers[alignment] = found
        return found

    def _pairs(self) -> list[tuple[int, ...]]:
        """Which arrays must not share bytes, as `specs.LaunchOrder` has it."""
        inputs, outputs = self.spec.inputs, self.spec.outputs
        layouts = (*inputs, *outputs)
        return [
            (i, a.low, a.high, j, o.low, o.high, int(i < len(inputs) and self._shares_in_step(i, j)))
            for j, o in list(enumerate(layouts))[len(inputs) :]
            for i, a in enumerate(layouts[:j])
        ]

    def _shares_in_step(self, i: int, j: int) -> bool:
        """True if array j, an output, may start where input i does: their operands then share element for element."""
        somewhere = 1 << 40
        try:
            self._check_operands(i, somewhere, j - len(self.spec.inputs), somewhere)
        except LayoutError:
            return False
        return True

    # ------------------------------------------------------------ running it

    def run(self, inputs: Sequence[Any], outs: Sequence[Any], stream: int, scalars: Sequence[int] = ()) -> None:
        """Run on device arrays, in the order of their memory.

        Args:
            inputs, outs: the arrays.
            stream: where the work is queued.
            scalars: the words of scalar arguments, as `base.dtypes.words` makes them.

        Raises:
            LayoutError: they share memory otherwise than element for element.
        """
        if self.empty:
            return
        # The path where a tenth of a microsecond counts.
        addresses, storages = [], []
        last = self.last
        for array in (*inputs, *outs):
            addresses.append(array._address)
            storages.append(storage := array._storage)
            if storage.sole != stream:
                last = None
        if last is None or last.launch(stream, *addresses, *scalars, *self._padding):
            with backend().using(stream, self._device, inputs, outs):
                self.launch(stream, addresses, scalars)
        else:
            for storage in storages:
                if storage.sole != stream:
                    backend().note(stream, self._device, inputs, outs)
                    break

    def launch(self, stream: int, addresses: Sequence[int], scalars: Sequence[int] = ()) -> None:
        """Launch on arrays at these addresses, inputs first, whatever their alignment and overlap.

        The caller has put the arrays in order, by `using`.
        """
        launcher = self.last = self.launcher(addresses)
        padded = (*addresses, *scalars, *self._padding)
        status = launcher.launch(stream, *padded)
        if status == MAY_OVERLAP:
            self.check_overlap(addresses)
        if status in (MAY_OVERLAP, CAPTURING):
            status = launcher.launch_unchecked(stream, *padded)
        backend().check_launch(status)

    # ------------------------------------------------------------ overlap

    def check_overlap(self, places: Sequence[int]) -> None:
        """Raise LayoutError where writing would change what is still to be read.

        Memory may be shared only element for element: an output operand is an input operand, or touches none
        of its bytes.
        """
        inputs, outputs = self.spec.inputs, self.spec.outputs
        written = places[len(inputs) :]
        for j, (target, output) in enumerate(zip(written, outputs, strict=True)):
            for i, (source, array) in enumerate(zip(places, inputs, strict=False)):
                if overlap(target, output, source, array):
                    self._check_operands(i, source, j, target)
            for other in range(j):
                if overlap(target, output, written[other], outputs[other]):
                    raise LayoutError("the arrays of out overlap each other; pass separate arrays")

    def _check_operands(self, i: int, source: int, j: int, target: int) -> None:
        spec = self.spec
        for write in spec.writes:
            for read in spec.reads:
                if (write.argument, read.argument) != (j, i):
                    continue
                first, second = target + write.offset, source + read.offset
                one = layout(spec.shape_of(write), write.strides, spec.outputs[j].dtype, self._device)
                other = layout(spec.shape_of(read), read.strides, spec.inputs[i].dtype, self._device)
                if first == second and same_layout(one, other):
                    continue
                if overlap(first, one, second, other):
                    name = spec.names[i]
                    raise LayoutError(
                        f"out overlaps {name} in part: pass {name} itself (in place), its halves, or memory "
                        "that shares nothing with it"
                    )
