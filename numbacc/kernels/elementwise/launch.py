"""The executable of an elementwise operation on device arrays: kernels by alignment, and which memory may be shared.

Plans run it behind their checks of arguments; device arrays, which know no plans, copy by it (`copying`). Other
operations of one kernel are launched alike: they bring a launcher of their own, and views with shapes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.codes import MAY_OVERLAP
from ...base.dispatch import runtime
from ...base.layout import Layout, View, layout, overlap, same_layout, view
from ...functions.formula import Formula
from ...runtime.launch_order import LaunchOrder
from ...runtime.operation import Operation
from .geometry import Given, make_launcher


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
        counters: numbers behind the reads that are no memory but follow from where an element is in `shape`: for each
            the steps along the dimensions, (0, 1) for the column. References know them by themselves.
        indices: which of the reads are int64 in the formula, whatever it computes in.
        as_bits: True where floats of 8 bits are taken for the integers that have their bits, by kernels and reference.
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
    counters: tuple[tuple[int, ...], ...] = ()
    indices: tuple[int, ...] = ()
    as_bits: bool = False

    def shape_of(self, view: View) -> tuple[int, ...]:
        """The shape of an operand."""
        return self.shape if view.shape is None else view.shape


class LaunchExecutable:
    """A launcher as an executable.

    Attributes:
        launcher: what launches it.
    """

    library_bytes = 0
    deterministic = direct = True

    def __init__(self, launcher: Any):
        self.launcher = launcher
        self.backend, self.algorithm = launcher.backend, launcher.algorithm
        self.workspace_bytes = 0
        #: As `Executable.launch`. No method: it is compiled code that is called.
        self.launch = launcher.launch

    def ready(self, addresses: Sequence[int]) -> None:
        """It is loaded."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """As `Executable.launch_unchecked`."""
        return self.launcher.launch_unchecked(stream, scratch, addresses, scalars)

    def check(self, status: int) -> None:
        """Raise DriverError unless a launch's status is 0."""
        runtime().check_launch(status)


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


def mapped(
    formula: Formula,
    inputs: Sequence[Layout],
    out: Layout,
    names: tuple[str, ...],
    reads: Sequence[View] | None = None,
    compute: str = "",
) -> MapExecutable:
    """A formula of one element of each input, mapped over an output that is given.

    Args:
        names: of the inputs and the output.
        reads: how the formula's operands lie in the inputs; by default one in each, as it lies.
        compute: as in `MapSpec`.
    """
    if reads is None:
        reads = [view(k, 0, array.strides, out.shape) for k, array in enumerate(inputs)]
    return MapExecutable(
        MapSpec(
            op=formula.name,
            formula=formula,
            reference=formula.reference,
            names=names,
            inputs=tuple(inputs),
            outputs=(out,),
            shape=out.shape,
            reads=tuple(reads),
            writes=(view(0, 0, out.strides, out.shape),),
            out_given=True,
            compute=compute,
        )
    )


def moved(op: str, source: Layout, target: Layout, launcher: Callable[..., Any]) -> MapExecutable:
    """What moves elements of one array to another that is given, by a launcher of its own: see `MapSpec`."""
    return MapExecutable(
        MapSpec(
            op=op,
            formula=None,
            reference=lambda x: (x,),
            names=("source", "target"),
            inputs=(source,),
            outputs=(target,),
            shape=target.shape,
            reads=(view(0, 0, source.strides, source.shape),),
            writes=(view(0, 0, target.strides, target.shape),),
            out_given=True,
            launcher=launcher,
        )
    )


class MapExecutable(Operation):
    """An elementwise operation, ready for arrays laid out as its spec says, wherever they start."""

    #: As a step of others it is direct as its kernels are.
    workspace_bytes, direct = 0, True

    def __init__(self, spec: MapSpec):
        super().__init__(spec.op, spec.names, spec.inputs, spec.outputs)
        self.spec = spec
        self.empty = 0 in spec.shape
        self._check_writable()

    def _make(self, key: tuple[int, ...], trial: Any) -> LaunchExecutable:
        return self._kernel(key)

    def _kernel(self, key: tuple[int, ...], instead: LaunchOrder | None = None) -> LaunchExecutable:
        make = self.spec.launcher or make_launcher
        return LaunchExecutable(make(self.spec, Given(key, self.device, self._pairs(), instead)))

    def choose_captured(self, addresses: Sequence[int]) -> Any:
        """As `choose`; but compiles nothing where there is a kernel that can be launched on these arrays."""
        made, key = self.chosen.made, self._key(addresses)
        if not made or key in made:
            return self.choose(addresses)
        # Listed by one call, while which no other thread adds to them.
        kernels = list(made.values())
        return self._kernel(key, kernels[0].launcher.order)

    # ------------------------------------------------------------ as a step of others

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """As `Executable.launch`."""
        return MAY_OVERLAP if self.empty else self._at(stream, addresses).launch(stream, scratch, addresses, scalars)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """As `Executable.launch_unchecked`."""
        return 0 if self.empty else self._at(stream, addresses).launch_unchecked(stream, scratch, addresses, scalars)

    def _at(self, stream: int, addresses: Sequence[int]) -> Any:
        found = self.chosen.made.get(self._key(addresses))
        if found is None:
            found = self.choose_captured(addresses) if runtime().is_capturing(stream) else self.choose(addresses)
        return found

    def check(self, status: int) -> None:
        """Raise DriverError of a launch's status."""
        runtime().check_launch(status)

    # ------------------------------------------------------------ overlap

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        """True if memory is shared element for element: an output operand is an input operand, or apart from it."""
        spec, output = self.spec, j - len(self.inputs)
        if i >= len(self.inputs):
            return False
        for write in spec.writes:
            for read in spec.reads:
                if (write.argument, read.argument) != (output, i):
                    continue
                first, second = target + write.offset, source + read.offset
                one = layout(spec.shape_of(write), write.strides, spec.outputs[output].dtype, self.device)
                other = layout(spec.shape_of(read), read.strides, spec.inputs[i].dtype, self.device)
                if not (first == second and same_layout(one, other)) and overlap(first, one, second, other):
                    return False
        return True

    def _shares(self, i: int, j: int) -> str:
        if i >= len(self.inputs):
            return super()._shares(i, j)
        name = self.names[i]
        return (
            f"out overlaps {name} in part: pass {name} itself (in place), its halves, or memory that shares nothing "
            "with it"
        )
