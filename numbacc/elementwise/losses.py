"""How calls of cross entropy become plans: what it is put together of, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from ..arrays.creation import full
from ..arrays.operands import Array
from ..base import dtypes
from ..base.dtypes import FLOATS, info
from ..base.layout import Layout, argument_of, check_same_device, layout, normalize_axis, row_major_strides
from ..errors import DTypeError, ShapeError
from ..plan.base import Plan
from ..runtime.launch_order import VECTOR_BYTES
from . import indexing, operation, reduction_plan
from . import loss_steps as steps
from .composite_plan import SeveralPlan
from .planning import check_indices
from .table import TABLE


class LossPlan(SeveralPlan):
    """A planned `cross_entropy`: the losses of all rows, and their sum or mean.

    One kernel makes all where threads share a row and arrays are aligned; else `stats`, the logits that count, the
    losses, and what they are reduced to have one each.

    Args:
        x, target: the layouts of what it is of.
        axis, reduction, ignored, smoothing, with_stats: the options, in one form.
    """

    def __init__(
        self, x: Layout, target: Layout, axis: int, reduction: str, ignored: int, smoothing: float, with_stats: bool
    ):
        self._axis = axis = _checked(x, target, axis)
        self._places = places = _expanded(target, axis)
        self._options = ignored, smoothing
        self._reduction, self._with_stats = reduction, with_stats
        self._rows = steps.loss_rows(x, places, axis, reduction, ignored, smoothing, with_stats)
        if self._rows is not None:
            plans: tuple[Plan, ...] = (self._rows,)
            results = self._rows.outputs
        else:
            plans = self._steps(x)
            results = (*plans[-1].outputs, *plans[0].outputs[:with_stats])
        super().__init__("elementwise.cross_entropy", ("x", "target"), (x, target), results, plans)

    def _steps(self, x: Layout) -> tuple[Plan, ...]:
        """The plans of `stats`, of the logits that count, of the losses, and of what they are reduced to."""
        (ignored, smoothing), places = self._options, self._places
        stats, value = steps.log_sums((x,), None, self._axis, smoothing > 0), indexing.planned(x, places, self._axis)
        # Without smoothing the mean is not used: any array of the same shape will do.
        mean = (stats if smoothing else value).outputs[-1]
        given = (stats.outputs[0], mean, *value.outputs, places)
        each = steps.losses_of(given, None, self._axis, ignored, smoothing, x.shape[self._axis])
        (losses,) = each.outputs
        if self._reduction == "none":
            return stats, value, each
        if self._reduction == "sum":
            return stats, value, each, reduction_plan.planned("sum", losses, None, None)
        return stats, value, each, steps.mean_of((losses, places), None, ignored)

    @cached_property
    def _otherwise(self) -> tuple[Plan, ...]:
        """Those plans, also where arrays were expected to be aligned, and are not."""
        return self._steps(self.inputs[0]) if self._rows else self.plans

    def __call__(self, x: Any, target: Any, *, stream: Any = None) -> Any:
        """Run on arrays laid out as those that the plan was made for.

        Raises:
            LayoutError: an array is laid out otherwise.
        """
        return self._call((x, target), None, stream)

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Any:
        """As `SeveralPlan.run`."""
        x, target = arrays
        places = expanded(target, self._axis)
        if self._rows is not None and (self.device < 0 or x._address % VECTOR_BYTES == 0):
            found = self._rows.run((x, places), None, None, handle)
            result, total = found if self._with_stats else (found, found)
        else:
            stats, value, losses, *end = self._otherwise
            found, logits = stats.run((x,), None, None, handle), value.run((x, places), None, None, handle)
            total, mean = found if isinstance(found, tuple) else (found, logits)
            result = losses.run((total, mean, logits, places), None, None, handle)
            if end:
                result = end[0].run((result, places)[: len(end[0].inputs)], None, None, handle)
        if self._reduction == "none":
            result = result.squeeze(self._axis)
        return (result, total) if self._with_stats else result


class LossGradientPlan(SeveralPlan):
    """A planned `cross_entropy_backward`: `stats` unless they are given, dy over the number of losses, the gradient.

    Args:
        dy, x, target, stats: the layouts of what it is of; stats may be None.
        axis, reduction, ignored, smoothing: the options, in one form.
        out: the layout of the user's array for the result, or None.
    """

    def __init__(
        self, dy: Layout, x: Layout, target: Layout, stats: Layout | None, axis: int, reduction: str, ignored: int,
        smoothing: float, out: Layout | None,
    ):  # fmt: skip
        self._axis = axis = _checked(x, target, axis)
        known = () if stats is None else (stats,)
        _check_slopes(dy, x, target, stats, reduction)
        places = _expanded(target, axis)
        before = [steps.log_sums((x,), None, axis, False)] if stats is None else []
        total = stats if stats is not None else before[0].outputs[0]
        slope = _expanded(dy, axis) if reduction == "none" else dy
        share: list[Plan] = []
        if reduction == "mean":
            count = steps.count_of((places,), None, ignored, total.dtype)
            share = [count, operation.planned(TABLE["divide"].row, (slope, *count.outputs))]
            (slope,) = share[-1].outputs
        last = steps.slopes((x, total, slope, places), None if out is None else (out,), axis, ignored, smoothing)
        self._reduction, self._before, self._share = reduction, before, share
        names = ("dy", "x", "target", "stats")[: 3 + len(known)]
        super().__init__(
            "elementwise.cross_entropy_backward",
            names,
            (dy, x, target, *known),
            last.outputs,
            (*before, *share, last),
            out is not None,
        )

    def __call__(
        self, dy: Any, x: Any, target: Any, *, stats: Any = None, out: Any = None, stream: Any = None
    ) -> Array:
        """Run on arrays laid out as those that the plan was made for.

        Args:
            dy, x, target: as `cross_entropy_backward` takes them.
            stats, out: given if they were given when it was made.
            stream: as everywhere.

        Raises:
            LayoutError: an array is laid out otherwise.
        """
        more = () if stats is None else (stats,)
        return self._call((as_slope(dy, self.inputs[1], stream), x, target, *more), out, stream)

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Array:
        """As `SeveralPlan.run`."""
        dy, x, target, *known = arrays
        places = expanded(target, self._axis)
        slope = expanded(dy, self._axis) if self._reduction == "none" else dy
        total = known[0] if known else self._before[0].run((x,), None, None, handle)
        if self._share:
            count, divide = self._share
            slope = divide.run((slope, count.run((places,), None, None, handle)), None, None, handle)
        outs = None if out is None else (out,)
        return self.plans[-1].run((x, total, slope, places), outs, out, handle)


def as_slope(dy: Any, x: Layout, stream: Any) -> Any:
    """dy, of a number an array of rank 0 beside x."""
    if not isinstance(dy, (int, float)) or isinstance(dy, bool):
        return dy
    return full((), dy, info(x.dtype, "x").compute, device=argument_of(x.device), stream=stream)


def expanded(array: Any, axis: int) -> Any:
    """An array with an axis of length 1 in the classes' place."""
    return array[(slice(None),) * axis + (None,)]


def _expanded(own: Layout, axis: int) -> Layout:
    """The layout of that."""
    shape, strides = (*own.shape[:axis], 1, *own.shape[axis:]), (*own.strides[:axis], 0, *own.strides[axis:])
    return layout(shape, strides, own.dtype, own.device)


def _checked(x: Layout, target: Layout, axis: Any) -> int:
    """The axis, once logits and targets fit each other."""
    check_same_device(target, "target", x, "x")
    row = info(x.dtype, "x")
    if not row.is_float:
        raise DTypeError(f"x has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    check_indices(target, "target")
    number = normalize_axis(axis, x.ndim, "x")
    wanted = x.shape[:number] + x.shape[number + 1 :]
    if target.shape != wanted:
        raise ShapeError(f"target has shape {target.shape}; x has shape {x.shape}, without axis {number} {wanted}")
    if not x.shape[number]:
        raise ShapeError(f"x has shape {x.shape}: there are no classes along axis {number}")
    return number


def _check_slopes(dy: Layout, x: Layout, target: Layout, stats: Layout | None, reduction: str) -> None:
    """Raise the fitting error unless dy, and stats where it is given, fit the others."""
    for array, name, wanted in ((stats, "stats", (*target.shape, steps.STATS)), (dy, "dy", target.shape)):
        if array is None:
            continue
        if name == "dy" and reduction != "none":
            if array.shape != ():
                raise ShapeError(
                    f"dy has shape {array.shape}; the loss has shape (): pass one number, or reduction='none'"
                )
        elif array.shape != wanted:
            needs = "pass what cross_entropy returned as stats" if name == "stats" else "one number for each target"
            raise ShapeError(f"{name} has shape {array.shape}; it must have shape {wanted}: {needs}")
        check_same_device(array, name, x, "x")
        if not info(array.dtype, name).is_float:
            raise DTypeError(f"{name} has dtype {array.dtype}; it must be one of {', '.join(FLOATS)}")


def everyday(x: Layout, target: Layout) -> Iterator[Plan]:
    """Plans of calls over the last axis, and of gradients, of a number for the mean and of one for each row."""
    axis, compute = x.ndim - 1, dtypes.TABLE[str(info(x.dtype).compute)]
    number = layout((), (), compute.numpy, x.device)
    rows = layout(target.shape, row_major_strides(target.shape, compute.itemsize), compute.numpy, x.device)
    for reduction, smoothing in (("mean", 0.0), ("mean", 0.1), ("sum", 0.0), ("none", 0.0), ("none", 0.1)):
        yield from LossPlan(x, target, axis, reduction, -100, smoothing, False).plans
    yield from LossGradientPlan(number, x, target, None, axis, "mean", -100, 0.0, None).plans
    shape = (*target.shape, steps.STATS)
    stats = layout(shape, row_major_strides(shape, compute.itemsize), compute.numpy, x.device)
    yield from LossGradientPlan(rows, x, target, stats, axis, "none", -100, 0.0, None).plans
