"""Plans: what follows from shapes, strides, dtypes and options, decided once and kept.

`MapPlan` is the plan of every elementwise operation: a formula applied to arrays position by position. An
operation's module says how its arguments are seen (two halves of one array, say) and which formula and NumPy
reference it means; everything else happens here. Other operations of one kernel are planned alike: they bring a
launcher of their own, and views with shapes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import operands
from ..base.dtypes import info
from ..base.layout import CPU, Layout, View, check_same_device, numpy_view, read_only, same_layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..device.map_executable import MapExecutable, MapSpec
from ..device.streams import handle_of
from ..errors import DTypeError, LayoutError, ShapeError


@dataclass(frozen=True)
class PlanInfo:
    """The decisions of a plan.

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


class MapPlan(NotCopied):
    """A planned elementwise operation. Call it with arrays laid out as those it was made for."""

    _instead = PLAN_INSTEAD

    def __init__(self, spec: MapSpec):
        self.spec = spec
        self.executable = MapExecutable(spec)
        self._device = spec.inputs[0].device

    def prepare(self, inputs: Sequence[Any], outs: Sequence[Any] | None) -> None:
        """Compile and load what a run on these arrays needs, so that the run only launches."""
        if self._device != CPU:
            self.executable.prepare([a._address for a in (*inputs, *(outs or ()))])

    @property
    def info(self) -> PlanInfo:
        """The plan's decisions."""
        row = info(self.spec.inputs[0].dtype)
        if self._device == CPU:
            backend, algorithm = "numpy", "reference"
        elif self.executable.empty:
            backend, algorithm = "kernel", "no launch: the result is empty"
        else:
            if self.executable.last is None:
                self.executable.prepare(())
            last = self.executable.last
            backend, algorithm = last.backend, last.algorithm
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
        found = [operands.layout_of(a) for a in (*inputs, *(outs or ()))]
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
        return [operands.as_array(a, name, handle) for a, name in zip(flat, names, strict=True)]

    def run(self, inputs: Sequence[Any], outs: Sequence[Any] | None, out: Any, handle: int) -> Any:
        """Run without checking layouts: `inputs` and `outs` are those that the plan was found by."""
        if self._device == CPU:
            return self._run_numpy(inputs, outs, out)
        if outs is None:
            outs = [operands.empty_device(a, handle) for a in self.spec.outputs]
        else:
            for array in outs:
                if array._readonly:
                    raise read_only("out")
        self.executable.run(inputs, outs, handle)
        return out if out is not None else outs[0] if len(outs) == 1 else tuple(outs)

    def _run_numpy(self, inputs: Sequence[Any], outs: Sequence[Any] | None, out: Any) -> Any:
        spec = self.spec
        if outs is None:
            outs = [operands.empty_layout(a) for a in spec.outputs]
        else:
            for array in outs:
                if not array.flags.writeable:
                    raise read_only("out")
            self.executable.check_overlap([a.ctypes.data for a in (*inputs, *outs)])
        results = spec.reference(*(self._numpy_view(inputs[v.argument], v) for v in spec.reads))
        for view, result in zip(spec.writes, results, strict=True):
            np.copyto(self._numpy_view(outs[view.argument], view), result)
        return out if out is not None else outs[0] if len(outs) == 1 else tuple(outs)

    def _numpy_view(self, array: Any, view: View) -> Any:
        """The part of a NumPy array that an operand is."""
        return numpy_view(array, view.offset, self.spec.shape_of(view), view.strides)


def outs_of(out: Any, handle: int) -> list[Any] | None:
    """What `out` gives, as arrays: of a pair out[0] and out[1]; None where it is None."""
    if isinstance(out, (tuple, list)):
        return [operands.as_array(a, f"out[{k}]", handle) for k, a in enumerate(out)]
    return None if out is None else [operands.as_array(out, "out", handle)]


def check_out(outs: Sequence[Layout], wanted: Sequence[Layout], names: Sequence[str]) -> None:
    """Raise the fitting error unless each given output has the shape, dtype and device of the result."""
    if len(outs) != len(wanted):
        raise ShapeError(
            f"out must be {'one array' if len(wanted) == 1 else f'a pair of {len(wanted)} arrays'}; got {len(outs)}"
        )
    for given, result, name in zip(outs, wanted, names, strict=True):
        check_same_device(given, "out", result, "the inputs")
        if given.shape != result.shape:
            raise ShapeError(f"{name} has shape {given.shape}; the result has shape {result.shape}")
        if given.dtype != result.dtype:
            raise DTypeError(f"{name} has dtype {given.dtype}; the result has dtype {result.dtype}")
