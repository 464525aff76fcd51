"""The executable of an elementwise operation on device arrays: kernels by alignment, and which memory may be shared.

Plans run it behind their checks of arguments; device arrays, which know no plans, copy by it (`copying`). Other
operations of one kernel are launched alike: they bring a launch of their own, and views with shapes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.codes import MAY_OVERLAP
from ...base.dispatch import launcher_class, runtime
from ...base.layout import Layout, View, layout, overlap, same_layout, view
from ...functions.formula import Formula
from ...runtime.launch_order import LaunchOrder
from ...runtime.operation import Operation, Task
from .geometry import for_any_alignment, make_order


@dataclass(kw_only=True, unsafe_hash=True)
class MapTask(Task):
    """An elementwise operation on given layouts.

    Attributes:
        order: what makes the launch, as `geometry.make_order` does, which None stands for.
        accumulator: dtype of sums; None where nothing is summed.
        counters: numbers behind the reads that are no memory but follow from where an element is in `shape`: for each
            the steps along the dimensions, (0, 1) for the column. References know them by themselves.
        indices: which of the reads are int64 in the formula, whatever it computes in.
    """

    order: Callable[..., LaunchOrder] | None = None
    accumulator: str | None = None
    counters: tuple[tuple[int, ...], ...] = ()
    indices: tuple[int, ...] = ()


class Kernel:
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


def kernel_of(order: LaunchOrder) -> Kernel:
    """The executable of one launch."""
    launcher = launcher_class()(order)
    launcher.algorithm = order.described
    return Kernel(launcher)


class TaskOperation(Operation):
    """An operation that kernels do, ready for arrays laid out as its task says, wherever they start."""

    def __init__(self, task: Any):
        super().__init__(task.op, task.names, task.inputs, task.outputs)
        self.task, self.empty = task, task.is_empty
        self._check_writable()

    def _in_place(self, i: int, j: int, source: int, target: int) -> bool:
        """`_may_share` of what is written element by element where it is read."""
        return source == target and same_layout(self.inputs[i], self.outputs[j - len(self.inputs)])


class Launches(TaskOperation):
    """An operation whose launches follow from layouts and alignment; here one."""

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """The launches for arrays aligned so."""
        raise NotImplementedError

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """The arrays' addresses modulo 16 for each launch."""
        return [key]

    def _make(self, key: tuple[int, ...], trial: Any) -> Any:
        return self._executable(key, self._orders(key))

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """What runs these launches."""
        (order,) = orders
        return kernel_of(order)

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
        # Words that follow a launch's arrays lie in scratch memory.
        own = [(*known, *order.alignment[len(known) :]) for known, order in zip(alignments, orders, strict=True)]
        return self._executable(key, [for_any_alignment(*each) for each in zip(orders, own, strict=True)])


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
        compute: as in `MapTask`.
    """
    reads = _as_they_lie(inputs, out.shape) if reads is None else tuple(reads)
    given = {"formula": formula, "reads": reads, "compute": compute, "reference": formula.reference}
    return MapExecutable(_task(formula.name, tuple(inputs), out, names, **given))


def moved(op: str, source: Layout, target: Layout, order: Callable[..., LaunchOrder]) -> MapExecutable:
    """What moves elements of one array to another that is given, by a launch of its own: see `MapTask`."""
    given = {"order": order, "reads": _as_they_lie([source], source.shape), "reference": lambda x: (x,)}
    return MapExecutable(_task(op, (source,), target, ("source", "target"), **given))


def _as_they_lie(arrays: Sequence[Layout], shape: tuple[int, ...]) -> tuple[View, ...]:
    return tuple([view(k, 0, array.strides, shape) for k, array in enumerate(arrays)])


def _task(op: str, inputs: tuple[Layout, ...], out: Layout, names: tuple[str, ...], **given: Any) -> MapTask:
    given |= {"shape": out.shape, "writes": _as_they_lie([out], out.shape), "out_given": True}
    return MapTask(op=op, names=names, inputs=inputs, outputs=(out,), **given)


class MapExecutable(Launches):
    """An elementwise operation, ready for arrays laid out as its task says, wherever they start."""

    #: As a step of others it is direct as its kernels are.
    workspace_bytes, direct = 0, True
    task: MapTask

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        return [(self.task.order or make_order)(self.task, key, self._pairs())]

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
        task, output = self.task, j - len(self.inputs)
        if i >= len(self.inputs):
            return False
        for write in task.writes:
            for read in task.reads:
                if (write.argument, read.argument) != (output, i):
                    continue
                first, second = target + write.offset, source + read.offset
                one = layout(task.shape_of(write), write.strides, task.outputs[output].dtype, self.device)
                other = layout(task.shape_of(read), read.strides, task.inputs[i].dtype, self.device)
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
