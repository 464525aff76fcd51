"""How calls of cross entropy become plans: what it is put together of, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..arrays.creation import full
from ..arrays.operands import Array
from ..base import dtypes
from ..base.dtypes import FLOATS, info
from ..base.layout import CPU, Layout, check_same_device, dense_like, layout, normalize_axis, row_major_strides, view
from ..device.fold_kernels import FoldTask
from ..device.map_executable import MapSpec
from ..device.row_executable import RowTask
from ..errors import DTypeError, ShapeError
from ..kernels.blocks import BLOCKS
from ..kernels.exponents import EXPONENTS
from ..kernels.row_formulas import ROW_FORMULAS
from ..plan.base import Plan
from ..plan.folds import FoldPlan, RowFoldPlan
from ..reference import blocks as reference
from ..reference import reductions as folded
from . import indexing, operation, reducing
from .calling import NumberedPlan, outputs_of
from .planning import broadcast_strides, check_indices
from .several import SeveralPlan
from .table import TABLE

_LOSS = ("stats", "mean", "x", "target")
_SLOPE = ("x", "stats", "dy", "target")
#: Rows from which on each has threads of its own, and no others'.
_ROWS = 512


class LossPlan(SeveralPlan):
    """A planned `cross_entropy`: log Σ e^x, the logits that count, the losses, and their sum or mean.

    Args:
        x, target: the layouts of what it is of.
        axis, reduction, ignored, smoothing, with_stats: the options, in one form.
    """

    def __init__(
        self, x: Layout, target: Layout, axis: int, reduction: str, ignored: int, smoothing: float, with_stats: bool
    ):
        self._axis = axis = _checked(x, target, axis)
        places = _expanded(target, axis)
        stats, value = _stats((x,), None, axis, smoothing > 0), indexing.planned(x, places, axis)
        losses = _loss((stats.outputs[0], stats.outputs[-1], *value.outputs, places), None, ignored, smoothing)
        ends: dict[str, tuple[Plan, ...]] = {
            "none": (),
            "sum": (reducing.planned("sum", losses.outputs[0], None, None),),
            "mean": (_mean((*losses.outputs, places), None, ignored),),
        }
        self._reduction, self._with_stats = reduction, with_stats
        plans = (stats, value, losses, *ends[reduction])
        outputs = (*plans[-1].outputs, *stats.outputs[:with_stats])
        super().__init__("elementwise.cross_entropy", ("x", "target"), (x, target), outputs, plans)

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
        stats, value, losses, *end = self.plans
        found = stats.run((x,), None, None, handle)
        total, mean = found if isinstance(found, tuple) else (found, found)
        each = losses.run((total, mean, value.run((x, places), None, None, handle), places), None, None, handle)
        if self._reduction == "none":
            result = each.squeeze(self._axis)
        else:
            result = end[0].run((each, places)[: len(end[0].inputs)], None, None, handle)
        return (result, total.squeeze(self._axis)) if self._with_stats else result


class LossGradientPlan(SeveralPlan):
    """A planned `cross_entropy_backward`: log Σ e^x unless it is given, dy over the number of losses, the gradient.

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
        before = [_stats((x,), None, axis, False)] if stats is None else []
        total = _expanded(stats, axis) if stats is not None else before[0].outputs[0]
        slope = _expanded(dy, axis) if reduction == "none" else dy
        share: list[Plan] = []
        if reduction == "mean":
            count = _count((places,), None, ignored, total.dtype)
            share = [count, operation.planned(TABLE["divide"].row, (slope, *count.outputs))]
            (slope,) = share[-1].outputs
        last = _slope((x, total, slope, places), None if out is None else (out,), axis, ignored, smoothing)
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
        total = expanded(known[0], self._axis) if known else self._before[0].run((x,), None, None, handle)
        if self._share:
            count, divide = self._share
            slope = divide.run((slope, count.run((places,), None, None, handle)), None, None, handle)
        outs = None if out is None else (out,)
        return self.plans[-1].run((x, total, slope, places), outs, out, handle)


def as_slope(dy: Any, x: Layout, stream: Any) -> Any:
    """dy, of a number an array of rank 0 beside x."""
    if not isinstance(dy, (int, float)) or isinstance(dy, bool):
        return dy
    return full((), dy, info(x.dtype, "x").compute, device="cpu" if x.device == CPU else x.device, stream=stream)


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
    for array, name, wanted in ((stats, "stats", target.shape), (dy, "dy", target.shape)):
        if array is None:
            continue
        if name == "dy" and reduction != "none":
            if array.shape != ():
                raise ShapeError(
                    f"dy has shape {array.shape}; the loss has shape (): pass one number, or reduction='none'"
                )
        elif array.shape != wanted:
            raise ShapeError(f"{name} has shape {array.shape}; target has shape {wanted}")
        check_same_device(array, name, x, "x")
        if not info(array.dtype, name).is_float:
            raise DTypeError(f"{name} has dtype {array.dtype}; it must be one of {', '.join(FLOATS)}")


def everyday(x: Layout, target: Layout) -> Iterator[Plan]:
    """Plans of calls over the last axis, and of gradients, of a number for the mean and of one for each row."""
    axis, compute = x.ndim - 1, dtypes.TABLE[str(info(x.dtype).compute)]
    number = layout((), (), compute.numpy, x.device)
    rows = layout(target.shape, row_major_strides(target.shape, compute.itemsize), compute.numpy, x.device)
    for reduction, smoothing in (("mean", 0.0), ("mean", 0.1), ("sum", 0.0)):
        yield from LossPlan(x, target, axis, reduction, -100, smoothing, False).plans
    yield from LossGradientPlan(number, x, target, None, axis, "mean", -100, 0.0, None).plans
    yield from LossGradientPlan(rows, x, target, rows, axis, "none", -100, 0.0, None).plans


# ---------------------------------------------------------------- what they are put together of


def _stats(inputs: tuple[Layout, ...], outs: None, axis: int, with_mean: bool) -> FoldPlan:
    (x,) = inputs
    compute = str(info(x.dtype).compute)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    own = dtypes.TABLE[compute].numpy
    result = dense_like(layout(shape, x.strides, own, x.device), shape)

    def means(seen: Any) -> tuple[Any, ...]:
        functions = ("logsumexp", "mean") if with_mean else ("logsumexp",)
        return tuple(folded.FUNCTIONS[name](seen, (axis,), compute) for name in functions)

    outputs = (result,) * (1 + with_mean)
    kept = [d for d in range(x.ndim) if d != axis]
    steps, lengths = [result.strides[d] for d in kept], [x.shape[d] for d in kept]
    name = "logsumexp" + "_and_mean" * with_mean
    task = FoldTask(
        op="elementwise.cross_entropy",
        formula=EXPONENTS[name + "_narrow" * (x.itemsize == 2)],
        reference=means,
        names=("x", "stats", "mean")[: 2 + with_mean],
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        axes=(axis,),
        reads=(view(0, 0, x.strides, x.shape),),
        writes=tuple(view(k, 0, steps, lengths) for k in range(len(outputs))),
        out_given=False,
        compute=compute,
    )
    if x.strides[axis] != x.itemsize or compute == "float64" or prod(lengths) < _ROWS:
        return FoldPlan(task)
    spread = (*result.strides[:axis], 0, *result.strides[axis + 1 :])
    rows = RowTask(
        op=task.op,
        formula=ROW_FORMULAS[name],
        reference=means,
        names=task.names,
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        axis=axis,
        reads=task.reads,
        writes=tuple(view(k, 0, spread, x.shape) for k in range(len(outputs))),
        out_given=False,
        compute=compute,
        stats=len(outputs),
    )
    return RowFoldPlan(task, rows)


def _loss(inputs: tuple[Layout, ...], outs: None, ignored: int, smoothing: float) -> NumberedPlan:
    total, target = inputs[0], inputs[3]
    compute = info(total.dtype).name
    made = layout(target.shape, row_major_strides(target.shape, total.itemsize), total.dtype, total.device)
    spec = MapSpec(
        op="elementwise.cross_entropy",
        formula=BLOCKS["loss"],
        reference=partial(reference.loss, ignored=ignored, smoothing=smoothing),
        names=(*_LOSS, "loss"),
        inputs=inputs,
        outputs=(made,),
        shape=target.shape,
        reads=tuple(view(k, 0, each.strides, target.shape) for k, each in enumerate(inputs)),
        writes=(view(0, 0, made.strides, target.shape),),
        out_given=False,
        compute=compute,
        scalars=("int64", compute),
        indices=(3,),
    )
    return NumberedPlan(spec, (ignored, smoothing))


def _mean(inputs: tuple[Layout, ...], outs: None, ignored: int) -> FoldPlan:
    return _counting("mean_of_counted", inputs, inputs[0].dtype, ignored, folded.mean_of_counted)


def _count(inputs: tuple[Layout, ...], outs: None, ignored: int, dtype: np.dtype[Any]) -> FoldPlan:
    return _counting("number_of_counted", inputs, dtype, ignored, lambda targets, ignored: np.sum(targets != ignored))


def _counting(name: str, inputs: tuple[Layout, ...], dtype: Any, ignored: int, function: Any) -> FoldPlan:
    """A reduction over all rows, to one number."""
    first, compute = inputs[0], info(dtype).name
    made = layout((), (), dtypes.TABLE[compute].numpy, first.device)
    task = FoldTask(
        op="elementwise.cross_entropy",
        formula=EXPONENTS[name],
        reference=lambda *seen: (function(*seen, ignored),),
        names=("losses", "target", "loss")[-1 - len(inputs) :],
        inputs=inputs,
        outputs=(made,),
        shape=first.shape,
        axes=tuple(range(first.ndim)),
        reads=tuple(view(k, 0, each.strides, first.shape) for k, each in enumerate(inputs)),
        writes=(view(0, 0, (), ()),),
        out_given=False,
        compute=compute,
        scalars=(compute,),
    )
    return FoldPlan(task, dtypes.words(ignored, compute))


def _slope(
    inputs: tuple[Layout, ...], outs: tuple[Layout, ...] | None, axis: int, ignored: int, smoothing: float
) -> NumberedPlan:
    x = inputs[0]
    result, compute = dense_like(x, x.shape), str(info(x.dtype).compute)
    outputs = outputs_of(result, outs)
    spec = MapSpec(
        op="elementwise.cross_entropy_backward",
        formula=BLOCKS["loss_slope"],
        reference=partial(reference.loss_slope, axis=axis, ignored=ignored, smoothing=smoothing, compute=compute),
        names=(*_SLOPE, "out"),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        reads=tuple(view(k, 0, broadcast_strides(each, x.shape), x.shape) for k, each in enumerate(inputs)),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
        out_given=outs is not None,
        compute=compute,
        scalars=("int64", compute, compute),
        counters=(tuple(int(d == axis) for d in range(x.ndim)),),
        indices=(3,),
    )
    return NumberedPlan(spec, (ignored, 1.0 - smoothing, smoothing / x.shape[axis]))
