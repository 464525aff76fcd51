"""Tasks of kernels, and the operations of elementwise tasks, which choose the kernel and check for overlap.

Each kind of kernel has a task class, and an operation that builds its kernels. Plans run operations after they have
checked the arguments. Device arrays do not use plans; they use operations for copies (`copy`). Other single-kernel
tasks are launched in the same way: they supply a launch, and views with shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

from ...base.codes import MAY_OVERLAP
from ...base.dispatch import launcher_class, runtime
from ...base.dtypes import info
from ...base.layout import Layout, View, layout, overlap, same_layout, view
from ...functions.formula import Formula
from ...runtime.launch_order import LaunchOrder
from ...runtime.operation import Operation
from ...runtime.steps import CompiledStep
from .geometry import for_any_alignment, make_order

T = TypeVar("T", bound="Task")


@dataclass(kw_only=True, unsafe_hash=True)
class Task:
    """A task for kernels, on arrays of given layouts. Each kind of kernel has a subclass, which adds attributes.

    Do not change a task; `replace` returns a changed copy. The class is not frozen because that would triple the time
    to create one.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        names: the names of the inputs and outputs, for messages.
        inputs, outputs: layouts of the arguments.
        reference: the NumPy implementation: it accepts the operands, and scalars if calls have their own; it returns
            the result, or a tuple of several.
        formula: the formula of the kernels, or None.
        shape: the shape that operands are read in.
        reads, writes: the operands' views into the inputs and outputs.
        out_given: True if the user passes the outputs, False if each call allocates them.
        compute: name of the dtype of the arithmetic; "" if it follows from the operands' dtypes.
        scalars: names of the dtypes of scalar arguments, which are passed at each launch.
        is_whole: True if the reference accepts the inputs and returns the outputs, instead of the operands.
        as_bits: True if kernels and reference treat 8-bit and 16-bit floats as integers with the same bits.
    """

    op: str
    names: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    reference: Callable[..., Any]
    formula: Any = None
    shape: tuple[int, ...] = ()
    reads: tuple[View, ...] = ()
    writes: tuple[View, ...] = ()
    out_given: bool = False
    compute: str = ""
    scalars: tuple[str, ...] = ()
    is_whole: bool = False
    as_bits: bool = False

    def replace(self: T, **changes: Any) -> T:
        """Return a copy of the task with other values of these attributes."""
        own = self.__dict__
        return type(self)(**({name: own[name] for name in self.__dataclass_fields__} | changes))

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do."""
        return 0 in self.shape

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape that operands are written in."""
        return self.shape

    @property
    def accumulator(self) -> str | None:
        """Name of the dtype of sums; None if nothing is summed."""
        return self.compute

    def shape_of(self, view: View) -> tuple[int, ...]:
        """Return the shape of an operand that is read."""
        return self.shape if view.shape is None else view.shape

    @property
    def operands(self) -> tuple[Layout, ...]:
        """The layouts of the arguments that contain each operand, inputs first."""
        read = [self.inputs[view.argument] for view in self.reads]
        return (*read, *[self.outputs[view.argument] for view in self.writes])

    @property
    def operand_dtypes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the operands' dtypes: (those that are read, those that are written)."""
        names = tuple([info(array.dtype).name for array in self.operands])
        return names[: len(self.reads)], names[len(self.reads) :]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an element of each operand, inputs first."""
        return tuple([array.itemsize for array in self.operands])

    @property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """The strides of each operand in elements, inputs first."""
        pairs = zip((*self.reads, *self.writes), self.sizes, strict=True)
        return tuple([tuple([step // size for step in view.strides]) for view, size in pairs])

    @property
    def pointers(self) -> tuple[tuple[int, int], ...]:
        """(array number, byte offset into it) of each operand, inputs first."""
        first = len(self.inputs)
        read = [(view.argument, view.offset) for view in self.reads]
        return (*read, *[(first + view.argument, view.offset) for view in self.writes])

    def alignments(self, key: Sequence[int]) -> list[int]:
        """Return the operands' addresses modulo 16, inputs first, given the arguments' addresses modulo 16."""
        return [(key[array] + offset) % 16 for array, offset in self.pointers]

    def is_wide(self, *counts: int, beyond: int = 2**20) -> bool:
        """Return True if an offset, index or count could exceed 2^31, even in `beyond` threads after the end."""
        reach = [(array.high - array.low) // array.itemsize for array in (*self.inputs, *self.outputs)]
        return max(prod(self.shape), *reach, *counts) >= 2**31 - beyond


@dataclass(kw_only=True, unsafe_hash=True)
class MapTask(Task):
    """An elementwise operation on given layouts.

    Attributes:
        order: the function that creates the launch, by default `geometry.make_order`.
        accumulator: dtype of sums; None if nothing is summed.
        counters: extra operands, after the reads, without memory. Their value follows from the element's position in
            `shape`; each is given by its steps along the dimensions, such as (0, 1) for the column. References compute
            them on their own.
        indices: the reads that are int64 in the formula, not of its compute dtype.
    """

    order: Callable[..., LaunchOrder] | None = None
    accumulator: str | None = None
    counters: tuple[tuple[int, ...], ...] = ()
    indices: tuple[int, ...] = ()


class LaunchExecutable:
    """An executable that runs a launcher.

    Attributes:
        launcher: the launcher that it runs.
    """

    library_bytes = 0
    deterministic = direct = True

    def __init__(self, launcher: Any):
        self.launcher = launcher
        self.backend, self.algorithm = launcher.backend, launcher.algorithm
        self.workspace_bytes = 0
        #: `Executable.launch`. It is an attribute, not a method, because it is compiled code.
        self.launch = launcher.launch
        #: `launch` with (stream, scratch, *addresses, *scalars), if the launcher has compiled code; otherwise `None`.
        self.launch_words = getattr(launcher, "launch_words", None)

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep] | None:
        """Return the launch, if it is compiled code."""
        compiled = getattr(self.launcher, "compiled", None)
        return None if compiled is None else [CompiledStep(compiled[0], compiled[1], places, scalars)]

    def ready(self, addresses: Sequence[int]) -> None:
        """Do nothing: the kernel is already loaded."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch without checks, as `Executable.launch_unchecked` describes."""
        return self.launcher.launch_unchecked(stream, scratch, addresses, scalars)

    def check(self, status: int) -> None:
        """Raise DriverError unless a launch's status is 0."""
        runtime().check_launch(status)


def kernel_of(order: LaunchOrder) -> LaunchExecutable:
    """Return the executable of one launch."""
    launcher = launcher_class()(order)
    launcher.algorithm = order.described
    return LaunchExecutable(launcher)


class TaskOperation(Operation):
    """An operation that kernels run, ready for arrays with the layouts of its task and any alignment."""

    def __init__(self, task: Any):
        super().__init__(task.op, task.names, task.inputs, task.outputs)
        self.task, self.empty = task, task.is_empty
        self._check_writable()

    def _in_place(self, i: int, j: int, source: int, target: int) -> bool:
        """Return `_may_share` for an output that may be an input: True if both have the same address and layout."""
        return source == target and same_layout(self.inputs[i], self.outputs[j - len(self.inputs)])


class Launches(TaskOperation):
    """An operation whose launches follow from layouts and alignment; by default a single launch."""

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """Return the launches for arrays with this alignment."""
        raise NotImplementedError

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """Return the arrays' addresses modulo 16 for each launch."""
        return [key]

    def _make(self, key: tuple[int, ...], trial: Any) -> Any:
        return self._executable(key, self._orders(key))

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """Return the executable of these launches."""
        (order,) = orders
        return kernel_of(order)

    def choose_captured(self, addresses: Sequence[int]) -> Any:
        """Choose an executable, as `choose` does, but do not compile if an existing kernel fits these arrays."""
        made, key = self.chosen.made, self._key(addresses)
        if not made or key in made:
            return self.choose(addresses)
        is_loaded = launcher_class().is_loaded
        if all(is_loaded(order.kernel, self.device) for order in self._orders(key)):
            return self.choose(addresses)
        # `list` copies the dict in one call, during which no other thread can add to it.
        found: Any = next(iter(list(made)))
        orders = self._orders(found)
        alignments = self._alignments(key, len(orders))
        # Words after a launch's arrays are in scratch memory.
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
    """Return the executable that maps a formula over one element of each input, into a given output.

    Args:
        names: names of the inputs and the output.
        reads: the views of the formula's operands into the inputs; by default each input is one operand.
        compute: as in `MapTask`.
    """
    reads = _as_they_lie(inputs, out.shape) if reads is None else tuple(reads)
    given = {"formula": formula, "reads": reads, "compute": compute, "reference": formula.reference}
    return MapExecutable(_task(formula.name, tuple(inputs), out, names, **given))


def moved(op: str, source: Layout, target: Layout, order: Callable[..., LaunchOrder]) -> MapExecutable:
    """Return the executable that moves elements between two arrays; `order` creates the launch, see `MapTask`."""
    given = {"order": order, "reads": _as_they_lie([source], source.shape), "reference": lambda x: (x,)}
    return MapExecutable(_task(op, (source,), target, ("source", "target"), **given))


def _as_they_lie(arrays: Sequence[Layout], shape: tuple[int, ...]) -> tuple[View, ...]:
    return tuple([view(k, 0, array.strides, shape) for k, array in enumerate(arrays)])


def _task(op: str, inputs: tuple[Layout, ...], out: Layout, names: tuple[str, ...], **given: Any) -> MapTask:
    given |= {"shape": out.shape, "writes": _as_they_lie([out], out.shape), "out_given": True}
    return MapTask(op=op, names=names, inputs=inputs, outputs=(out,), **given)


class MapExecutable(Launches):
    """An elementwise operation, ready for arrays with the layouts of its task and any alignment."""

    #: As a step of another operation it has a `launch` for unchecked arrays, as its kernels have.
    workspace_bytes, direct = 0, True
    task: MapTask

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        return [(self.task.order or make_order)(self.task, key, self._pairs())]

    # ------------------------------------------------------------ as a step of others

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the kernel, as `Executable.launch` describes."""
        return MAY_OVERLAP if self.empty else self._at(stream, addresses).launch(stream, scratch, addresses, scalars)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch without checks, as `Executable.launch_unchecked` describes."""
        return 0 if self.empty else self._at(stream, addresses).launch_unchecked(stream, scratch, addresses, scalars)

    def _at(self, stream: int, addresses: Sequence[int]) -> Any:
        found = self.chosen.made.get(self._key(addresses))
        if found is None:
            found = self.choose_captured(addresses) if runtime().is_capturing(stream) else self.choose(addresses)
        return found

    def check(self, status: int) -> None:
        """Raise DriverError unless a launch's status is 0."""
        runtime().check_launch(status)

    # ------------------------------------------------------------ overlap

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        """Return True if each output operand is identical to, or disjoint from, each input operand."""
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
            f"out overlaps {name} in part: pass {name} itself (in place), its halves, or memory that does not "
            "overlap it"
        )
