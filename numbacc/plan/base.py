"""Plans: what follows from shapes, strides, dtypes and options, decided once and kept.

`MapPlan` is the plan of every elementwise operation: a formula applied to arrays position by position. An
operation's module says how its arguments are seen (two halves of one array, say) and which formula and NumPy
reference it means; everything else happens here. Other operations of one kernel are planned alike: they bring a
launcher of their own, and views with shapes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import creation as arrays
from ..base.backend import backend
from ..base.codes import ARRAYS, CAPTURING, MAY_OVERLAP
from ..base.dtypes import info
from ..base.layout import CPU, Layout, View, check_writable, layout, numpy_view, overlap, read_only, same_layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..device.streams import handle_of
from ..errors import DTypeError, LayoutError, ShapeError


@dataclass(frozen=True)
class PlanInfo:
    """What a plan decided.

    Attributes:
        op: the operation.
        dtypes: dtype name of each argument, inputs first.
        backend: "numpy", "kernel" or "simulator".
        algorithm: which kernel, and how it is launched.
        workspace_bytes: memory used beside arguments and results.
        math_dtype: dtype of the arithmetic.
        accumulator_dtype: dtype of sums; None where nothing is summed.
        deterministic: True if the same inputs give the same bits on every run on one GPU model.
    """

    op: str
    dtypes: tuple[str, ...]
    backend: str
    algorithm: str
    workspace_bytes: int
    math_dtype: str
    accumulator_dtype: str | None
    deterministic: bool


class MapSpec(NamedTuple):
    """An elementwise operation on given layouts.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        formula: key of the kernel formula.
        reference: the NumPy meaning: takes the operands, returns a tuple of results.
        names: the names of the inputs and outputs, for messages.
        inputs, outputs: layouts of the arguments.
        shape: the shape that the formula is mapped over.
        reads, writes: how the formula's operands lie in the inputs and outputs.
        out_given: whether the outputs are the user's, or allocated by each call.
        launcher: what makes the launcher, as `geometry.make_launcher` does, which None stands for.
        accumulator: dtype of sums; None where nothing is summed.
    """

    op: str
    formula: str
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


class MapPlan(NotCopied):
    """A planned elementwise operation. Call it with arrays laid out as those it was made for."""

    _instead = PLAN_INSTEAD

    def __init__(self, spec: MapSpec):
        self.spec = spec
        self._device = spec.inputs[0].device
        self._empty = 0 in spec.shape
        for output, name in zip(spec.outputs, spec.names[len(spec.inputs) :], strict=True):
            check_writable(output, name)
        self._padding = [0] * (ARRAYS - len(spec.inputs) - len(spec.outputs))
        #: The launchers by the addresses modulo 16 that they are for, and the one used last.
        self._launchers: dict[tuple[int, ...], Any] = {}
        self._last: Any = None

    def prepare(self, inputs: Sequence[Any], outs: Sequence[Any] | None) -> None:
        """Compile and load what a run on these arrays needs, so that the run only launches."""
        if self._device != CPU and not self._empty:
            places = [a._address for a in (*inputs, *(outs or ()))]
            places += [0] * (ARRAYS - len(self._padding) - len(places))
            self._last = self.launcher(places)

    def launcher(self, addresses: Sequence[int]) -> Any:
        """The launcher for arrays aligned as these."""
        alignment = tuple([address % 16 for address in addresses])
        found = self._launchers.get(alignment)
        if found is None:
            # Imported here: it brings Numba, which nothing on the CPU needs.
            from .geometry import make_launcher

            make = self.spec.launcher or make_launcher
            found = make(self.spec, alignment, self._device, self._pairs())
            self._launchers[alignment] = found
        return found

    def _pairs(self) -> list[tuple[int, ...]]:
        """Which arrays must not share bytes, as `geometry.LaunchOrder` has it."""
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

    @property
    def info(self) -> PlanInfo:
        """What the plan decided."""
        row = info(self.spec.inputs[0].dtype)
        if self._device == CPU:
            backend, algorithm = "numpy", "reference"
        elif self._empty:
            backend, algorithm = "kernel", "no launch: the result is empty"
        else:
            if self._last is None:
                self.prepare((), ())
            backend, algorithm = self._last.backend, self._last.algorithm
        return PlanInfo(
            op=self.spec.op,
            dtypes=tuple(a.dtype.name for a in (*self.spec.inputs, *self.spec.outputs)),
            backend=backend,
            algorithm=algorithm,
            workspace_bytes=0,
            math_dtype=row.compute or row.name,
            accumulator_dtype=self.spec.accumulator,
            deterministic=True,
        )

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays laid out as those that the plan was made for.

        Args:
            arguments: as the function that made the plan takes them.
            out: where to write, if the plan was made with `out`.
            stream: as everywhere; the default stream if None.

        Returns:
            the result, `out` if given; a tuple where there are several.

        Raises:
            LayoutError: an array is laid out otherwise.
        """
        handle = handle_of(stream)
        if (out is not None) != self.spec.out_given:
            raise LayoutError(
                f"this plan of {self.spec.op} was made {'with' if self.spec.out_given else 'without'} out, and must "
                "be called so"
            )
        inputs, outs = self._inputs(arguments, handle), outs_of(out, handle)
        found = [arrays.layout_of(a) for a in (*inputs, *(outs or ()))]
        wanted = [*self.spec.inputs, *(self.spec.outputs if outs else ())]
        if len(found) != len(wanted) or not all(map(same_layout, found, wanted)):
            raise LayoutError(
                f"this plan of {self.spec.op} was made for {wanted}; it was called with {found}. "
                "Make a plan for these arrays, or call the function, which does"
            )
        return self.run(inputs, outs, out, handle)

    def _inputs(self, arguments: Sequence[Any], handle: int) -> list[Any]:
        """Arguments as arrays, pairs opened where the plan has their arrays' names: (dy, (a, b)) is dy, x[0], x[1]."""
        names = self.spec.names[: len(self.spec.inputs)]
        flat: list[Any] = []
        for argument in arguments:
            pair = len(flat) < len(names) and names[len(flat)].endswith("[0]") and isinstance(argument, (tuple, list))
            flat += argument if pair else (argument,)
        if len(flat) != len(names):
            raise LayoutError(
                f"this plan of {self.spec.op} was made for {', '.join(names)}; it was called with {len(flat)} arrays"
            )
        return [arrays.as_array(a, name, handle) for a, name in zip(flat, names, strict=True)]

    def run(self, inputs: Sequence[Any], outs: Sequence[Any] | None, out: Any, handle: int) -> Any:
        """Run without checking layouts: `inputs` and `outs` are those that the plan was found by."""
        if self._device == CPU:
            return self._run_numpy(inputs, outs, out)
        return self._run_device(inputs, outs, out, handle)

    # ------------------------------------------------------------ NumPy

    def _run_numpy(self, inputs: Sequence[Any], outs: Sequence[Any] | None, out: Any) -> Any:
        spec = self.spec
        if outs is None:
            outs = [arrays.empty_layout(a) for a in spec.outputs]
        else:
            for array in outs:
                if not array.flags.writeable:
                    raise read_only("out")
            self._check_overlap([a.ctypes.data for a in (*inputs, *outs)])
        operands = [self._numpy_view(inputs[v.argument], v) for v in spec.reads]
        results = spec.reference(*operands)
        for view, result in zip(spec.writes, results, strict=True):
            np.copyto(self._numpy_view(outs[view.argument], view), result)
        return self._answer(outs, out)

    def _numpy_view(self, array: Any, view: View) -> Any:
        """The part of a NumPy array that an operand is."""
        return numpy_view(array, view.offset, self._shape(view), view.strides)

    def _shape(self, view: View) -> tuple[int, ...]:
        """The shape of an operand."""
        return self.spec.shape if view.shape is None else view.shape

    def _answer(self, outs: Sequence[Any], out: Any) -> Any:
        if out is not None:
            return out
        return outs[0] if len(outs) == 1 else tuple(outs)

    # ------------------------------------------------------------ GPU

    def _run_device(self, inputs: Sequence[Any], outs: Sequence[Any] | None, out: Any, stream: int) -> Any:
        if outs is None:
            outs = [arrays.empty_device(a, stream) for a in self.spec.outputs]
        else:
            for array in outs:
                if array._readonly:
                    raise read_only("out")
        if self._empty:
            return self._answer(outs, out)
        addresses, storages = [], []
        last = self._last
        for array in (*inputs, *outs):
            addresses.append(array._address)
            storages.append(storage := array._storage)
            if storage.sole != stream:
                last = None
        if last is None or last.launch(stream, *addresses, *self._padding):
            with backend().using(stream, self._device, inputs, outs):
                self.launch(stream, addresses)
        else:
            for storage in storages:
                if storage.sole != stream:
                    backend().note(stream, self._device, inputs, outs)
                    break
        # `_answer`, spelled out: this is the path where a tenth of a microsecond counts.
        return out if out is not None else outs[0] if len(outs) == 1 else tuple(outs)

    def launch(self, stream: int, addresses: Sequence[int]) -> None:
        """Launch on arrays at these addresses, inputs first, whatever their alignment and overlap.

        The caller has put the arrays in order, by `using`.
        """
        launcher = self._last = self.launcher(addresses)
        padded = (*addresses, *self._padding)
        status = launcher.launch(stream, *padded)
        if status == MAY_OVERLAP:
            self._check_overlap(addresses)
        if status in (MAY_OVERLAP, CAPTURING):
            status = launcher.launch_unchecked(stream, *padded)
        backend().check_launch(status)

    # ------------------------------------------------------------ overlap

    def _check_overlap(self, places: Sequence[int]) -> None:
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
                one = layout(self._shape(write), write.strides, spec.outputs[j].dtype, self._device)
                other = layout(self._shape(read), read.strides, spec.inputs[i].dtype, self._device)
                if first == second and same_layout(one, other):
                    continue
                if overlap(first, one, second, other):
                    name = spec.names[i]
                    raise LayoutError(
                        f"out overlaps {name} in part: pass {name} itself (in place), its halves, or memory "
                        "that shares nothing with it"
                    )


def outs_of(out: Any, handle: int) -> list[Any] | None:
    """What `out` gives, as arrays: of a pair out[0] and out[1]; None where it is None."""
    if isinstance(out, (tuple, list)):
        return [arrays.as_array(a, f"out[{k}]", handle) for k, a in enumerate(out)]
    return None if out is None else [arrays.as_array(out, "out", handle)]


def check_out(outs: Sequence[Layout], wanted: Sequence[Layout], names: Sequence[str]) -> None:
    """Raise the fitting error unless each given output has the shape, dtype and device of the result."""
    if len(outs) != len(wanted):
        raise ShapeError(
            f"out must be {'one array' if len(wanted) == 1 else f'a pair of {len(wanted)} arrays'}; got {len(outs)}"
        )
    for given, result, name in zip(outs, wanted, names, strict=True):
        arrays.check_same_device(given, "out", result, "the inputs")
        if given.shape != result.shape:
            raise ShapeError(f"{name} has shape {given.shape}; the result has shape {result.shape}")
        if given.dtype != result.dtype:
            raise DTypeError(f"{name} has dtype {given.dtype}; the result has dtype {result.dtype}")
