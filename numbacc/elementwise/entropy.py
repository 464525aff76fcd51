"""Cross entropy of logits and the classes that are right, forward and backward; and log Σ e^x."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.creation import full
from ..arrays.operands import Array
from ..base import checks, dtypes
from ..base.dtypes import FLOATS, info
from ..base.layout import CPU, Layout, check_same_device, dense_like, layout, normalize_axis, row_major_strides, view
from ..device.fold_kernels import FoldTask
from ..device.map_executable import MapSpec
from ..device.streams import handle_of
from ..errors import DTypeError, OptionError, ShapeError, shown
from ..kernels.blocks import BLOCKS
from ..kernels.exponents import EXPONENTS
from ..plan.base import Plan
from ..plan.folds import FoldPlan
from ..reference import blocks as reference
from ..reference import reductions as folded
from .calling import NumberedPlan, call, outputs_of
from .indexing import take_along_axis
from .operation import planned, run
from .planning import broadcast_strides, check_indices
from .sums import sum as sum_of
from .table import TABLE


def cross_entropy(
    x: Any,
    target: Any,
    *,
    axis: int = -1,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    return_stats: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, Array]:
    """-log softmax(x) at the class that is right: log Σ e^x - x_t, from the logits, which are read once.

    With label smoothing s: (1 - s) (log Σ e^x - x_t) + s (log Σ e^x - mean of x), as torch has it. Source: Szegedy et
    al. 2015 (arXiv:1512.00567).

    Args:
        x: the logits, array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        target: array of integers, of x's shape without the axis: the number of the right class.
        axis: the axis of the classes.
        reduction: "mean" over all that is not ignored, "sum", or "none".
        ignore_index: the target that does not count: its loss and its gradient are 0.
        label_smoothing: s, from 0 to 1.
        return_stats: True to return log Σ e^x, too, of target's shape, which `cross_entropy_backward` is then spared.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the loss in float32, of float64 in that: an array of rank 0, or of target's shape; with `return_stats` (loss,
        stats). Of a target that names no class NaN. The mean of nothing is NaN.

    Raises:
        ShapeError: rank, axis, target's shape. DTypeError: x is not of floats, target not of integers.
        OptionError: reduction, ignore_index, label_smoothing, stream. DeviceError: several devices.

    Example:
        >>> float(elementwise.cross_entropy(np.zeros((2, 4)), np.array([1, 3])).round(4))
        1.3863
    """
    logits, places, axis = _given(x, target, axis, stream)
    ignored, smoothing = _options(reduction, ignore_index, label_smoothing)
    with_stats = checks.boolean(return_stats, "return_stats")
    total, mean = _totals(logits, axis, smoothing > 0, stream)
    value = take_along_axis(logits, places, axis=axis, stream=stream)
    losses = call(_loss, _LOSS, (total, mean, value, places), (ignored, smoothing), None, stream)
    if reduction == "none":
        found = losses.squeeze(axis)
    elif reduction == "sum":
        found = sum_of(losses, stream=stream)
    else:
        found = call(_mean, ("losses", "target"), (losses, places), (ignored,), None, stream)
    return (found, total.squeeze(axis)) if with_stats else found


def cross_entropy_backward(
    dy: Any,
    x: Any,
    target: Any,
    *,
    axis: int = -1,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    stats: Any = None,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The gradient with respect to the logits: dy (softmax(x) - 1 at the right class), over their number for the mean.

    Args:
        dy: the gradient with respect to the loss: a number, or an array of its shape, of floats.
        x, target, axis, reduction, ignore_index, label_smoothing: those of the call of `cross_entropy`.
        stats: what that returned as stats; it is computed again if None.
        out: array for the result, like x. It may be x itself: in place.
        stream: as everywhere.

    Returns:
        an array of x's shape and dtype; `out` if given.

    Raises:
        as `cross_entropy`; ShapeError, DTypeError: dy or stats. LayoutError: out overlaps, or is read-only.

    Example:
        >>> x, target = np.zeros((1, 4)), np.array([1])
        >>> elementwise.cross_entropy_backward(1.0, x, target)
        array([[ 0.25, -0.75,  0.25,  0.25]])
    """
    logits, places, axis = _given(x, target, axis, stream)
    ignored, smoothing = _options(reduction, ignore_index, label_smoothing)
    if stats is None:
        total, _ = _totals(logits, axis, False, stream)
    else:
        total = _row_array(stats, "stats", places, axis, stream)
    if isinstance(dy, (int, float)) and not isinstance(dy, bool):
        device = operands.layout_of(logits).device
        dy = full((), dy, total.dtype, device="cpu" if device == CPU else device, stream=stream)
    if reduction == "none":
        slope = _row_array(dy, "dy", places, axis, stream)
    else:
        slope = operands.as_array(dy, "dy", handle_of(stream))
        if operands.layout_of(slope).shape != ():
            raise ShapeError(f"dy has shape {slope.shape}; the loss has shape (): pass one number, or reduction='none'")
        if reduction == "mean":
            number = call(_count, ("target",), (places,), (ignored, total.dtype), None, stream)
            slope = run(TABLE["divide"].row, (slope, number), None, None, stream)
    return call(_slope, _SLOPE, (logits, total, slope, places), (axis, ignored, smoothing), out, stream)


_LOSS = ("stats", "mean", "x", "target")
_SLOPE = ("x", "stats", "dy", "target")


# ---------------------------------------------------------------- arguments


def _given(x: Any, target: Any, axis: Any, stream: Any) -> tuple[Any, Any, int]:
    """(the logits, the targets with an axis of length 1 in the classes' place, the axis)."""
    handle = handle_of(stream)
    logits, places = operands.as_array(x, "x", handle), operands.as_array(target, "target", handle)
    own, theirs = operands.layout_of(logits), operands.layout_of(places)
    check_same_device(theirs, "target", own, "x")
    row = info(own.dtype, "x")
    if not row.is_float:
        raise DTypeError(f"x has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    check_indices(theirs, "target")
    number = normalize_axis(axis, own.ndim, "x")
    wanted = own.shape[:number] + own.shape[number + 1 :]
    if theirs.shape != wanted:
        raise ShapeError(f"target has shape {theirs.shape}; x has shape {own.shape}, without axis {number} {wanted}")
    if not own.shape[number]:
        raise ShapeError(f"x has shape {own.shape}: there are no classes along axis {number}")
    return logits, _expanded(places, number), number


def _expanded(array: Any, axis: int) -> Any:
    return array[(slice(None),) * axis + (None,)]


def _row_array(array: Any, name: str, places: Any, axis: int, stream: Any) -> Any:
    """An array that has a number for each target, with an axis of length 1."""
    found = operands.as_array(array, name, handle_of(stream))
    wanted = places.shape[:axis] + places.shape[axis + 1 :]
    if found.shape != wanted:
        raise ShapeError(f"{name} has shape {found.shape}; target has shape {wanted}")
    return _expanded(found, axis)


def _options(reduction: Any, ignore_index: Any, label_smoothing: Any) -> tuple[int, float]:
    if not isinstance(reduction, str) or reduction not in ("mean", "sum", "none"):
        raise OptionError(f'reduction={shown(reduction)} is unknown; it is "mean", "sum" or "none"')
    smoothing = checks.real(label_smoothing, "label_smoothing")
    if not 0.0 <= smoothing <= 1.0:
        raise OptionError(f"label_smoothing={smoothing} is out of range: it must be from 0 to 1")
    return checks.integer(ignore_index, "ignore_index"), smoothing


# ---------------------------------------------------------------- plans


def everyday(x: Layout, places: Layout) -> Iterator[Plan]:
    """Plans of calls over the last axis, and of the gradient; `places` are the targets, with an axis of length 1."""
    axis = x.ndim - 1
    smoothed = _stats((x,), None, axis, True)
    yield from (_stats((x,), None, axis, False), smoothed)
    total, mean = smoothed.outputs
    value = layout(places.shape, row_major_strides(places.shape, x.itemsize), x.dtype, x.device)
    losses = _loss((total, mean, value, places), None, -100, 0.0)
    average, number = _mean((*losses.outputs, places), None, -100), _count((places,), None, -100, total.dtype)
    yield from (losses, average, number)
    slope = planned(TABLE["divide"].row, average.outputs + number.outputs)
    yield slope
    yield from (_slope((x, total, dy, places), None, axis, -100, 0.0) for dy in (*slope.outputs, total))


def _totals(x: Any, axis: int, with_mean: bool, stream: Any) -> tuple[Any, Any]:
    """log Σ e^x and, where it is wanted, the mean along an axis, which stays with length 1."""
    found = call(_stats, ("x",), (x,), (axis, with_mean), None, stream)
    return found if with_mean else (found, found)


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
    task = FoldTask(
        op="elementwise.cross_entropy",
        formula=EXPONENTS["logsumexp" + "_and_mean" * with_mean + "_narrow" * (x.itemsize == 2)],
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
    return FoldPlan(task)


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
    x, total, dy, _ = inputs
    for array, name in ((dy, "dy"), (total, "stats")):
        check_same_device(array, name, x, "x")
        if not info(array.dtype, name).is_float:
            raise DTypeError(f"{name} has dtype {array.dtype}; it must be one of {', '.join(FLOATS)}")
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
