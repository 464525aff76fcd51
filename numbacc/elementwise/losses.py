"""Cross entropy of logits and target classes, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.creation import full
from ..arrays.operands import Array
from ..base import checks, dtypes
from ..base.casts import cast
from ..base.dtypes import FLOATS, info
from ..base.layout import (
    Layout,
    View,
    argument_of,
    check_same_device,
    check_writable,
    dense_like,
    layout,
    normalize_axis,
    row_major_strides,
    view,
)
from ..errors import ArgumentsError, DTypeError, LayoutError, OptionError, ShapeError, unknown
from ..kernels.elementwise.launch import MapTask
from ..kernels.elementwise.transformer import BLOCKS
from ..kernels.reduce.launch import ReduceTask
from ..kernels.reduce.logsumexp import EXPONENTS
from ..kernels.rows.functions import LOSSES, ROW_FORMULAS
from ..kernels.rows.launch import RowExecutable, RowTask
from ..plan.base import Plan, Result, check_out
from ..plan.calls import planned
from ..plan.rows import RowPlan
from ..plan.saved import Saved
from ..reference import blocks as reference
from ..reference import reductions as numpy_reductions
from ..reference.indexing import take_along_axis
from ..runtime.launch_order import VECTOR_BYTES
from ..runtime.streams import handle_of
from . import indexing, reduction_plan
from .calling import plans
from .planning import NumberedPlan, SeveralPlan, broadcast_strides, check_indices, outputs_of, prepared, run_several
from .reduction_plan import ReducePlan

#: The values of `reduction`.
REDUCTIONS = ("mean", "sum", "none")


def _keep(x: Any, target: Any, return_stats: Any, out: Any, **more: Any) -> tuple[Any, ...]:
    """Return the loss, stats if requested, and the saved object of `cross_entropy` with these arguments."""
    with_stats = checks.boolean(return_stats, "return_stats")
    out = out if out is None or with_stats else (out, None)
    loss, stats = cross_entropy(x, target, return_stats=True, out=out, **more)
    saved = Saved(
        "elementwise.cross_entropy",
        {"x": x, "target": target, "stats": stats},
        {each: more[each] for each in ("axis", "reduction", "ignore_index", "label_smoothing")},
    )
    return (loss, stats, saved) if with_stats else (loss, saved)


def _run_loss(plan: LossPlan, arrays: Sequence[Any], targets: Any, out: Any, handle: int) -> Any:
    """Return the results of a plan, with the user's own arrays where they were given."""
    found = plan.run(arrays, targets, handle)
    if out is None or not plan.with_stats:
        return found if out is None else out
    return _given(found, out)


def _given(found: Sequence[Any], out: Any) -> tuple[Any, ...]:
    """Return a loss and another result, with the user's own arrays where they were given."""
    return tuple(made if own is None else own for made, own in zip(found, out or (None, None), strict=True))


def _targets(out: Any, with_stats: bool, handle: int) -> list[Any] | None:
    """Return the arrays for the loss and for stats; None for each that is not given, or for all."""
    if out is None:
        return None
    given = out if isinstance(out, (tuple, list)) else (out,)
    if len(given) != 1 + with_stats or not (with_stats or out is not given):
        wanted = "a pair of arrays, for the loss and for stats" if with_stats else "one array"
        raise ShapeError(f"out must be {wanted}; got {len(given)}")
    names = ("out[0]", "out[1]") if with_stats else ("out",)
    return [
        None if each is None else operands.as_array(each, name, handle) for each, name in zip(given, names, strict=True)
    ]


@planned(
    plans,
    "LossPlan",
    "x target",
    call="plan(x, target, out=None, stream=None)",
    short=False,
    keep=_keep,
    run=_run_loss,
    prepare=prepared,
)
def cross_entropy(
    x: Any,
    target: Any,
    *,
    axis: int = -1,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    return_stats: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array | tuple[Any, ...]:
    """Return the cross entropy of logits: -log softmax(x) at the target class, which is log Σ e^x - x_t.

    The logits are read once. The largest logit of each row is subtracted first, so that an offset common to a row costs
    no digits.

    With label smoothing s, the loss is (1 - s) (log Σ e^x - x_t) + s (log Σ e^x - mean of x), as in torch. Source:
    Szegedy et al. 2015 (arXiv:1512.00567).

    Args:
        x: the logits, an array of float32, float64, float16 or bfloat16 with rank 1 to 8 and any strides.
        target: array of integers with x's shape without the axis: the index of the target class, counted from 0.
        axis: the axis of the classes.
        reduction: "mean" of all losses that are not ignored, "sum", or "none".
        ignore_index: targets with this value are ignored: their losses and gradients are 0.
        label_smoothing: s, from 0 to 1.
        return_stats: True to return stats, too. They save `cross_entropy_backward` a pass over x. stats is an array
            with target's shape and a last axis of length 2. `stats[..., 0]` is the largest logit of each row (0 if it
            is infinite), `stats[..., 1]` is log Σ e^(x - largest). Their sum is log Σ e^x.
        return_saved: whether to return one more object for `cross_entropy_backward(dy, saved)`. It holds x, target,
            stats and the options. Do not change x and target before that call.
        out: array that receives the loss; with `return_stats` a pair of arrays, for the loss and for stats, of which
            one may be None.

    Returns:
        the loss: an array of rank 0, or of target's shape. Its dtype is float32, or float64 for float64 logits. With
        `return_stats`, (loss, stats); with `return_saved`, (loss, saved); with both, (loss, stats, saved).

        The mean of no losses is NaN. A target that is out of range and not ignored raises an error for NumPy arrays. A
        GPU cannot raise errors without synchronization: the target's loss and its whole row of the gradient are NaN.

    Raises:
        ShapeError: the rank, the axis or target's shape is wrong.
        DTypeError: x does not hold floats, or target does not hold integers.
        IndexRangeError: NumPy arrays only: a target is out of range and not ignored.
        OptionError: an option is invalid.
        DeviceError: the arrays are on different devices.
        LayoutError: out shares memory with an argument, or is read-only.

    Example:
        >>> float(elementwise.cross_entropy(np.zeros((2, 4)), np.array([1, 3])).round(4))
        1.3863
    """
    handle = handle_of(stream)
    arrays = [operands.as_input(x, "x", handle), operands.as_input(target, "target", handle)]
    with_stats = checks.boolean(return_stats, "return_stats")
    options = *_options(axis, reduction, ignore_index, label_smoothing), with_stats
    targets = _targets(out, with_stats, handle)
    own = None
    if targets is not None:
        own = tuple([None if each is None else operands.layout_of(each) for each in targets])
    return plans.find((LossPlan, *map(operands.layout_of, arrays), *options, own)), arrays, targets, out, handle


@planned(
    plans,
    "LossGradientPlan",
    "dy x target",
    call="plan(dy, x, target, stats=None, out=None, stream=None)",
    short=False,
    opens="x target stats axis reduction ignore_index label_smoothing",
    run=run_several,
    prepare=prepared,
)
def cross_entropy_backward(
    dy: Any,
    x: Any,
    target: Any = None,
    *,
    axis: int = -1,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    stats: Any = None,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Return the gradient of the loss with respect to the logits, multiplied by dy: dy (softmax(x) - 1 at the target).

    For the mean, it is divided by the number of losses.

    Args:
        dy: the gradient with respect to the loss: a scalar (also for `reduction="none"`), or an array of floats with
            the loss's shape.
        x: the object saved by `cross_entropy(..., return_saved=True)`. It holds x, target, stats and the options. Or x
            itself.
        target, axis, reduction, ignore_index, label_smoothing: the same values as in `cross_entropy`, if no saved
            object is given. If you forget an option, the gradient can be wrong and no error is raised.
        stats: the stats that `cross_entropy` returned; None to compute them again.
        out: array that receives the result, like x. It may be x itself (in place).

    Returns:
        dx, an array with x's shape and dtype; `out` if given.

    Raises:
        ShapeError: the rank or the axis is wrong, or the shape of target, dy or stats.
        DTypeError: x does not hold floats, target does not hold integers, or the dtype of dy or stats does not fit.
        IndexRangeError: NumPy arrays only: a target is out of range and not ignored.
        OptionError: an option is invalid, or an argument differs from the saved one.
        LayoutError: out overlaps an argument, or is read-only.

    Example:
        >>> loss, saved = elementwise.cross_entropy(np.zeros((1, 4)), np.array([1]), return_saved=True)
        >>> elementwise.cross_entropy_backward(1.0, saved)
        array([[ 0.25, -0.75,  0.25,  0.25]])
    """
    if target is None:
        raise ArgumentsError(
            "target is missing: call cross_entropy_backward(dy, saved), or give x, target and the options of "
            "cross_entropy"
        )
    handle = handle_of(stream)
    logits, places = operands.as_input(x, "x", handle), operands.as_input(target, "target", handle)
    arrays = [operands.as_input(as_slope(dy, operands.layout_of(logits), stream), "dy", handle), logits, places]
    arrays += [] if stats is None else [operands.as_input(stats, "stats", handle)]
    made = None if out is None else operands.as_array(out, "out", handle)
    layouts = [*map(operands.layout_of, arrays), None][:4]
    options = _options(axis, reduction, ignore_index, label_smoothing)
    key = (LossGradientPlan, *layouts, *options, None if made is None else operands.layout_of(made))
    return plans.find(key), arrays, made, out, handle


@planned(
    plans,
    "LossAndGradientPlan",
    "x target dloss",
    call="plan(x, target, dloss, out=None, stream=None)",
    short=False,
    run=lambda plan, arrays, targets, out, handle: _given(plan.run(arrays, targets, handle), out),
    prepare=prepared,
)
def cross_entropy_and_gradient(
    x: Any,
    target: Any,
    dloss: Any = 1.0,
    *,
    axis: int = -1,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, Array]:
    """Return the cross entropy of logits and its gradient with respect to them, in one pass over the logits.

    The results are those of `cross_entropy` and of `cross_entropy_backward(dloss, ...)`. On a GPU, logits whose rows
    are contiguous and start at multiples of 16 bytes are read once and not twice; others take as long as two calls.

    Args:
        x, target, axis, reduction, ignore_index, label_smoothing: the same as in `cross_entropy`.
        dloss: the gradient with respect to the loss: a number, or an array of rank 0; for `reduction="none"` also an
            array of target's shape. In float16, gradients of a mean over many rows are too small without it.
        out: a pair of arrays for the loss and the gradient, of which one may be None. The second may be x itself (in
            place).

    Returns:
        (loss, dx): the loss as `cross_entropy` returns it, and an array with x's shape and dtype.

    Raises:
        ShapeError: the rank or the axis is wrong, or the shape of target or dloss.
        DTypeError: x or dloss does not hold floats, or target does not hold integers.
        IndexRangeError: NumPy arrays only: a target is out of range and not ignored.
        OptionError: an option is invalid.
        DeviceError: the arrays are on different devices.
        LayoutError: an array of out shares memory with an argument (except the second with x), or is read-only.

    Example:
        >>> loss, dx = elementwise.cross_entropy_and_gradient(np.zeros((1, 4)), np.array([1]))
        >>> dx
        array([[ 0.25, -0.75,  0.25,  0.25]])
    """
    handle = handle_of(stream)
    logits, places = operands.as_input(x, "x", handle), operands.as_input(target, "target", handle)
    slope = operands.as_input(as_slope(dloss, operands.layout_of(logits), stream), "dloss", handle)
    arrays, targets = [logits, places, slope], _targets(out, True, handle)
    options = _options(axis, reduction, ignore_index, label_smoothing)
    own = None
    if targets is not None:
        own = tuple([None if each is None else operands.layout_of(each) for each in targets])
    key = (LossAndGradientPlan, *map(operands.layout_of, arrays), *options, own)
    return plans.find(key), arrays, targets, out, handle  # type: ignore[return-value]


def _options(axis: Any, reduction: Any, ignore_index: Any, label_smoothing: Any) -> tuple[int, str, int, float]:
    """Return the options, each in a unique form."""
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise unknown("reduction", reduction, REDUCTIONS, 'it is "mean", "sum" or "none"')
    smoothing = label_smoothing if type(label_smoothing) is float else checks.real(label_smoothing, "label_smoothing")
    if not 0.0 <= smoothing <= 1.0:
        raise OptionError(f"label_smoothing={smoothing} is out of range: it must be from 0 to 1")
    number = axis if type(axis) is int else checks.integer(axis, "axis")
    ignored = ignore_index if type(ignore_index) is int else checks.integer(ignore_index, "ignore_index")
    return number, reduction, ignored, smoothing


# ---------------------------------------------------------------- plans of calls


class LossPlan(SeveralPlan[Result]):
    """A planned `cross_entropy`: the losses of all rows, and their sum or mean.

    If threads share rows and arrays are aligned, one kernel computes everything, or, for many rows, all but the sum or
    mean. Otherwise, separate kernels compute `stats`, the logits of the target classes, the losses, and their sum or
    mean.

    Args:
        x, target: the layouts of the arrays.
        axis, reduction, ignored, smoothing, with_stats: the options, each in a unique form.
        outs: the layouts of the user's arrays for the loss and for stats; None for each that is missing, or for all.
    """

    def __init__(
        self, x: Layout, target: Layout, axis: int, reduction: str, ignored: int, smoothing: float, with_stats: bool,
        outs: tuple[Layout | None, ...] | None = None,
    ):  # fmt: skip
        self._axis = axis = _checked(x, target, axis)
        self._places = places = _expanded(target, axis)
        self._options = ignored, smoothing
        self._reduction, self.with_stats = reduction, with_stats
        self._own = own = self._own_outs(x, target, (*(outs or ()), None, None)[:2])
        each, rest = _in_rows(x, axis, reduction)
        first = own[0] if rest == "none" else None
        self._rows = loss_rows(x, places, axis, each, ignored, smoothing, with_stats, (first, own[1]))
        self._end: tuple[Plan, ...] = ()
        if self._rows is not None:
            self._end = ends((self._rows.outputs[0], places), own[0], rest, ignored)
            plans: tuple[Plan, ...] = (self._rows, *self._end)
            results = (plans[-1].outputs[0], *self._rows.outputs[1:])
        else:
            plans = self._steps(x)
            results = (*plans[-1].outputs, *plans[0].outputs[:with_stats])
        super().__init__("elementwise.cross_entropy", ("x", "target"), (x, target), results, plans, outs is not None)

    @property
    def own_loss(self) -> Layout | None:
        """The layout of the user's array for the loss, with an axis of length 1 for the classes; None without one."""
        return self._own[0]

    def _own_outs(
        self, x: Layout, target: Layout, outs: tuple[Layout | None, ...]
    ) -> tuple[Layout | None, Layout | None]:
        """Check the user's arrays, and return their layouts: the loss with an axis for the classes, and stats."""
        _, result = _of_rows(x, self._axis)
        shape = target.shape if self._reduction == "none" else ()
        wanted = (shape, (*target.shape, STATS))
        names = ("out[0]", "out[1]") if self.with_stats else ("out", "")
        for own, lengths, name in zip(outs, wanted, names, strict=True):
            if own is not None:
                check_out((own,), (layout(lengths, row_major_strides(lengths, 1), result.dtype, x.device),), (name,))
                check_writable(own, name)
        loss, stats = outs
        return _expanded(loss, self._axis) if loss is not None and self._reduction == "none" else loss, stats

    def _steps(self, x: Layout) -> tuple[Plan, ...]:
        """Return the plans of `stats`, of the target classes' logits, of the losses, and of their sum or mean."""
        (ignored, smoothing), places = self._options, self._places
        loss, own = self._own
        stats, value = log_sums((x,), own, self._axis, smoothing > 0), indexing.planned(x, places, self._axis)
        # Without smoothing, the mean is not used: any array with its shape will do.
        mean = (stats if smoothing else value).outputs[-1]
        given = (stats.outputs[0], mean, *value.outputs, places)
        is_last = self._reduction == "none"
        each = losses_of(given, loss if is_last else None, self._axis, ignored, smoothing, x.shape[self._axis])
        return stats, value, each, *ends((each.outputs[0], places), loss, self._reduction, ignored)

    @cached_property
    def _otherwise(self) -> tuple[Plan, ...]:
        """Equal plans, also for arrays that were expected to be aligned but are not."""
        return self._steps(self.inputs[0]) if self._rows else self.plans

    def __call__(self, x: Any, target: Any, *, out: Any = None, stream: Any = None) -> Result:
        """Run on arrays that have the layouts the plan was made for.

        Args:
            x, target: the same as in `cross_entropy`.
            out: required if it was given when the plan was made.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Raises:
            LayoutError: an array has another layout.
        """
        if out is None or not self.out_given:
            return self._call((x, target), out, stream)
        handle = handle_of(stream)
        arrays = [operands.as_input(x, "x", handle), operands.as_input(target, "target", handle)]
        targets = _targets(out, self.with_stats, handle)
        assert targets is not None
        own = [None if each is None else operands.layout_of(each) for each in targets]
        loss = None if own[0] is None else _expanded(own[0], self._axis) if self._reduction == "none" else own[0]
        wanted, given = (*self._own, *self.inputs), (loss, *[*own, None][1:2], *map(operands.layout_of, arrays))
        self._check_layouts(wanted, given)
        result: Result = _run_loss(self, arrays, targets, out, handle)
        return result

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Any:
        """Return the results, as `SeveralPlan.run` does. `out` is a list of arrays and None, or None."""
        x, target = arrays
        places = expanded(target, self._axis)
        own = (None, None) if out is None else self._checked_targets(arrays, [*out, None][:2])
        if self._rows is not None and (self.device < 0 or x._address % VECTOR_BYTES == 0):
            end: Sequence[Plan] = self._end
            outs = None if out is None else (None if end else own[0], own[1])[: 1 + self.with_stats]
            found = self._rows.run((x, places), outs, None, handle)
            result, total = found if self.with_stats else (found, found)
        else:
            stats, value, losses, *end = self._otherwise
            outs = None if own[1] is None else (own[1], None)[: len(stats.outputs)]
            found, logits = stats.run((x,), outs, None, handle), value.run((x, places), None, None, handle)
            total, mean = found if isinstance(found, tuple) else (found, logits)
            result = losses.run((total, mean, logits, places), None if end or own[0] is None else own[:1], None, handle)
        result = _at_the_end(end, result, places, own[0], handle)
        if self._reduction == "none":
            result = result.squeeze(self._axis)
        return (result, total) if self.with_stats else result

    def _checked_targets(self, arrays: Sequence[Any], out: Sequence[Any]) -> tuple[Any, Any]:
        """Return the user's arrays as `_own` describes them.

        Raises:
            LayoutError: they share memory with each other or with what is still to be read.
        """
        loss, stats = out
        for target, others in ((loss, (*arrays, stats)), (stats, arrays)):
            for name, other in zip(("x", "target", "out[1]"), others, strict=False):
                if target is not None and other is not None and operands.overlap(target, other):
                    raise LayoutError(f"out shares memory with {name}: pass other memory")
        return expanded(loss, self._axis) if loss is not None and self._reduction == "none" else loss, stats


def _at_the_end(end: Sequence[Plan], losses: Any, places: Any, loss: Any, handle: int) -> Any:
    """Return what the plan of `ends` makes of the losses, or these if there is none. `loss` is the user's array."""
    for plan in end:
        losses = plan.run((losses, places)[: len(plan.inputs)], None if loss is None else (loss,), None, handle)
    return losses


class LossGradientPlan(SeveralPlan[Result]):
    """A planned `cross_entropy_backward`: `stats` unless given, dy divided by the number of losses, the gradient.

    Attributes:
        share: the plans that divide dy by the number of losses; empty if this is not needed.
        factor: the layout of `divided`.

    Args:
        dy, x, target, stats: the layouts of the arrays; stats may be None.
        axis, reduction, ignored, smoothing: the options, each in a unique form.
        out: the layout of the user's array for the result, or None.
        dy_name: the name of dy in messages.
    """

    def __init__(
        self, dy: Layout, x: Layout, target: Layout, stats: Layout | None, axis: int, reduction: str, ignored: int,
        smoothing: float, out: Layout | None, dy_name: str = "dy",
    ):  # fmt: skip
        self._axis = axis = _checked(x, target, axis)
        known = () if stats is None else (stats,)
        _check_slopes(dy, x, target, stats, reduction, dy_name)
        places = _expanded(target, axis)
        before = [log_sums((x,), None, axis, False)] if stats is None else []
        total = stats if stats is not None else before[0].outputs[0]
        slope = _expanded(dy, axis) if dy.shape else dy
        share: list[Plan] = []
        if reduction == "mean":
            share = [share_of((slope, places), None, ignored, total.dtype)]
            (slope,) = share[0].outputs
        last = slopes((x, total, slope, places), out, axis, ignored, smoothing)
        self._reduction, self._before, self.share, self.factor = reduction, before, share, slope
        names = ("dy", "x", "target", "stats")[: 3 + len(known)]
        if not before and not share:
            self.order = 1, 3, 0, 2
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
    ) -> Result:
        """Run on arrays that have the layouts the plan was made for.

        Args:
            dy, x, target: the same as in `cross_entropy_backward`.
            stats, out: required if they were given when the plan was made.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Raises:
            LayoutError: an array has another layout.
        """
        more = () if stats is None else (stats,)
        return self._call((as_slope(dy, self.inputs[1], stream), x, target, *more), out, stream)

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Array:
        """Return the gradient, as `SeveralPlan.run` does."""
        dy, x, target, *known = arrays
        places = expanded(target, self._axis)
        total = known[0] if known else self._before[0].run((x,), None, None, handle)
        slope = self.divided(dy, target, handle)
        outs = None if out is None else (out,)
        return self.plans[-1].run((x, total, slope, places), outs, out, handle)

    def divided(self, dy: Any, target: Any, handle: int) -> Any:
        """Return the gradient of each loss: dy, divided by the number of losses for the mean."""
        if not self.share:
            return expanded(dy, self._axis) if dy.ndim else dy
        return self.share[0].run((dy, expanded(target, self._axis)), None, None, handle)


class LossAndGradientPlan(SeveralPlan[Result]):
    """A planned `cross_entropy_and_gradient`.

    If threads share rows and arrays are aligned, one kernel computes the losses and the gradient, after the kernels
    that divide dloss by the number of losses. It also computes the sum or mean of few rows. Otherwise, `LossPlan` and
    `LossGradientPlan` run.

    Args:
        x, target, dloss: the layouts of the arrays.
        axis, reduction, ignored, smoothing: the options, each in a unique form.
        outs: the layouts of the user's arrays for the loss and the gradient; None for each that is missing, or for all.
    """

    def __init__(
        self, x: Layout, target: Layout, dloss: Layout, axis: int, reduction: str, ignored: int, smoothing: float,
        outs: tuple[Layout | None, ...] | None = None,
    ):  # fmt: skip
        self._axis = axis = _checked(x, target, axis)
        self._reduction = reduction
        loss, dx = outs or (None, None)
        self._outs = loss, dx
        options = axis, reduction, ignored, smoothing
        self._forward = LossPlan(x, target, *options, True, None if loss is None else (loss, None))
        self._backward = LossGradientPlan(dloss, x, target, self._forward.outputs[1], *options, dx, "dloss")
        places, own, (each, rest) = _expanded(target, axis), self._forward.own_loss, _in_rows(x, axis, reduction)
        self._rows = loss_and_gradient_rows(
            x, places, self._backward.factor, axis, each, ignored, smoothing, own if rest == "none" else None, dx
        )
        self._end = () if self._rows is None else ends((self._rows.outputs[1], places), own, rest, ignored)
        rows = () if self._rows is None else (*self._backward.share, self._rows, *self._end)
        super().__init__(
            "elementwise.cross_entropy_and_gradient",
            ("x", "target", "dloss"),
            (x, target, dloss),
            (self._forward.outputs[0], *self._backward.outputs),
            rows or (*self._forward.plans, *self._backward.plans),
            outs is not None,
        )

    def __call__(self, x: Any, target: Any, dloss: Any, *, out: Any = None, stream: Any = None) -> Result:
        """Run on arrays that have the layouts the plan was made for.

        Args:
            x, target, dloss: the same as in `cross_entropy_and_gradient`.
            out: required if it was given when the plan was made.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Raises:
            LayoutError: an array has another layout.
        """
        slope = as_slope(dloss, self.inputs[0], stream)
        if out is None or not self.out_given:
            return self._call((x, target, slope), out, stream)
        handle = handle_of(stream)
        arrays = [
            operands.as_input(array, name, handle) for array, name in zip((x, target, slope), self.names, strict=True)
        ]
        targets = _targets(out, True, handle)
        assert targets is not None
        own = [None if each is None else operands.layout_of(each) for each in targets]
        self._check_layouts((*self._outs, *self.inputs), (*own, *map(operands.layout_of, arrays)))
        return _given(self.run(arrays, targets, handle), out)  # type: ignore[return-value]

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> tuple[Array, Array]:
        """Return the results, as `SeveralPlan.run` does. `out` is a list of arrays and None, or None."""
        x, target, dloss = arrays
        loss, dx = out or (None, None)
        if loss is not None:
            for name, other in zip((*self.names, "out[1]"), (*arrays, dx), strict=True):
                if other is not None and operands.overlap(loss, other):
                    raise LayoutError(f"out[0] shares memory with {name}: pass other memory")
        if self._rows is not None and (self.device < 0 or self._is_aligned(x, dx)):
            factor = self._backward.divided(dloss, target, handle)
            given = None if loss is None else expanded(loss, self._axis) if self._reduction == "none" else loss
            outs, places = None if out is None else (dx, None if self._end else given), expanded(target, self._axis)
            dx, losses = self._rows.run((x, places, factor), outs, None, handle)
            loss = _at_the_end(self._end, losses, places, loss, handle)
            return loss.squeeze(self._axis) if self._reduction == "none" else loss, dx
        loss, stats = self._forward.run((x, target), None if loss is None else [loss, None], handle)
        return loss, self._backward.run((dloss, x, target, stats), dx, handle)

    def _is_aligned(self, x: Any, dx: Any) -> bool:
        return x._address % VECTOR_BYTES == 0 and (dx is None or dx._address % VECTOR_BYTES == 0)


def as_slope(dy: Any, x: Layout, stream: Any) -> Any:
    """Return dy; a scalar becomes an array of rank 0 on x's device."""
    if not isinstance(dy, (int, float)) or isinstance(dy, bool):
        return dy
    return full((), dy, info(x.dtype, "x").compute, device=argument_of(x.device), stream=stream)


def expanded(array: Any, axis: int) -> Any:
    """Return an array with an axis of length 1 at the position of the classes."""
    return array[(slice(None),) * axis + (None,)]


def _expanded(own: Layout, axis: int) -> Layout:
    """Return the layout of the result of `expanded`."""
    shape, strides = (*own.shape[:axis], 1, *own.shape[axis:]), (*own.strides[:axis], 0, *own.strides[axis:])
    return layout(shape, strides, own.dtype, own.device)


def _checked(x: Layout, target: Layout, axis: Any) -> int:
    """Check that logits and targets fit together, and return the axis."""
    check_same_device(target, "target", x, "x")
    row = info(x.dtype, "x")
    if not row.is_float:
        raise DTypeError(f"x has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    check_indices(target, "target")
    number = normalize_axis(axis, x.ndim, "x")
    wanted = x.shape[:number] + x.shape[number + 1 :]
    if target.shape != wanted:
        raise ShapeError(
            f"target has shape {target.shape}; it must have {wanted}, x's shape {x.shape} without axis {number}"
        )
    if not x.shape[number]:
        raise ShapeError(f"x has shape {x.shape}: it needs at least one class along axis {number}")
    return number


def _check_slopes(dy: Layout, x: Layout, target: Layout, stats: Layout | None, reduction: str, dy_name: str) -> None:
    """Raise an error unless dy, and stats if given, fit the other arrays."""
    for array, name, wanted in ((stats, "stats", (*target.shape, STATS)), (dy, dy_name, target.shape)):
        if array is None:
            continue
        if array is dy and (reduction != "none" or not array.shape):
            if array.shape != ():
                raise ShapeError(
                    f"{name} has shape {array.shape}; the loss has shape (): pass one number, or reduction='none'"
                )
        elif array.shape != wanted:
            needs = "pass what cross_entropy returned as stats" if name == "stats" else "one number for each target"
            raise ShapeError(f"{name} has shape {array.shape}; it must have shape {wanted}: {needs}")
        check_same_device(array, name, x, "x")
        if not info(array.dtype, name).is_float:
            raise DTypeError(f"{name} has dtype {array.dtype}; it must be one of {', '.join(FLOATS)}")


def everyday_blocks(labelled: tuple[Layout, Layout]) -> Iterator[Plan]:
    """Yield plans of losses over the last axis, and of gradients for a scalar dy (mean) and for a dy of each row."""
    x, target = labelled
    axis, compute = x.ndim - 1, dtypes.TABLE[str(info(x.dtype).compute)]
    number = layout((), (), compute.numpy, x.device)
    rows = layout(target.shape, row_major_strides(target.shape, compute.itemsize), compute.numpy, x.device)
    usual = [("mean", 0.0), ("mean", 0.1), ("sum", 0.0), ("none", 0.0), ("none", 0.1)]
    for (reduction, smoothing), with_stats in [*product(usual, [False]), *product(usual[:2], [True])]:
        yield from LossPlan(x, target, axis, reduction, -100, smoothing, with_stats).plans
    yield from LossGradientPlan(number, x, target, None, axis, "mean", -100, 0.0, None).plans
    shape = (*target.shape, STATS)
    stats = layout(shape, row_major_strides(shape, compute.itemsize), compute.numpy, x.device)
    yield from LossGradientPlan(rows, x, target, stats, axis, "none", -100, 0.0, None).plans


# ---------------------------------------------------------------- the plans of the steps, for given layouts

#: The length of the last axis of `stats`: the largest logit, and log Σ e^(x - largest).
STATS = 2
#: With at least this many rows, or with rows of at most this many logits, each row has its own threads.
_ROWS, _SHORT_ROW = 512, 8192


#: The most bytes of rows whose sum or mean the kernel of the rows computes. A row counts as at most 8 KiB, which one
#: block of threads keeps. There, one block adds what all others found. With another kernel, 32,768 rows of 4096 in
#: bfloat16 on an H200 take 0.144 instead of 0.243 ms (sum and gradient), and 0.082 instead of 0.079 ms (mean alone).
_TOTAL_BYTES, _ROW_BYTES = 2**26, 2**13


def _in_rows(x: Layout, axis: int, reduction: str) -> tuple[str, str]:
    """Return the reduction of the kernel of rows, and that of a kernel that follows: one of them is "none"."""
    rows = prod(x.shape) // x.shape[axis]
    are_many = rows * min(x.shape[axis] * x.itemsize, _ROW_BYTES) > _TOTAL_BYTES
    return ("none", reduction) if are_many else (reduction, "none")


class RowReducePlan(ReducePlan[Result]):
    """A planned reduction of many rows, where threads that share a row merge their parts in registers.

    Args:
        task: the reduction.
        rows: the same reduction as a row task. It runs if arrays are aligned so that accesses have the full width.
    """

    def __init__(self, task: ReduceTask, rows: RowTask):
        super().__init__(task)
        self._by_rows = RowExecutable(rows)

    def _make(self, key: Any, trial: Any) -> Any:
        wide = self._by_rows.access_bytes(key) == VECTOR_BYTES
        return self._by_rows.choose(key) if wide else super()._make(key, trial)


def _of_rows(x: Layout, axis: int) -> tuple[str, Layout]:
    """Return the compute dtype, and the layout of one number for each row."""
    compute = str(info(x.dtype).compute)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return compute, dense_like(layout(shape, x.strides, dtypes.TABLE[compute].numpy, x.device), shape)


def _stats_of(result: Layout, axis: int) -> Layout:
    """Return the layout of `stats`: two adjacent numbers for each row."""
    lengths, steps = ([*each[:axis], *each[axis + 1 :]] for each in (result.shape, result.strides))
    return layout((*lengths, STATS), (*(STATS * step for step in steps), result.itemsize), result.dtype, result.device)


def _each_stat(argument: int, stats: Layout, axis: int, shape: tuple[int, ...]) -> list[View]:
    """Return a view of each number in `stats`, repeated along a row of this shape."""
    *steps, apart = stats.strides
    steps.insert(axis, 0)
    return [view(argument, k * apart, steps, shape) for k in range(STATS)]


def _has_rows(x: Layout, axis: int) -> bool:
    """Return whether each row has its own threads, which merge their parts in registers."""
    apart = x.shape[axis] <= _SHORT_ROW or prod(x.shape[:axis]) * prod(x.shape[axis + 1 :]) >= _ROWS
    return x.strides[axis] == x.itemsize and info(x.dtype).compute != "float64" and apart


def _row_task(
    name: str, names: Sequence[str], inputs: tuple[Layout, ...], outputs: tuple[Layout, ...], axis: int,
    reference: Callable[..., Any], scalars: tuple[str, ...] = ()
) -> RowTask:  # fmt: skip
    """Return the task of a row formula. The second input, if any, has an index for each row, and the third a factor.

    Outputs have one number for each row, or are `stats`; the first may be like x.
    """
    x = inputs[0]
    is_row = outputs[0].shape == x.shape and x.shape[axis] > 1
    reads = tuple(view(k, 0, broadcast_strides(each, x.shape), x.shape) for k, each in enumerate(inputs))
    writes: list[View] = []
    for k, each in enumerate(outputs):
        if names[len(inputs) + k] == "stats":
            writes += _each_stat(k, each, axis, x.shape)
        else:
            writes.append(view(k, 0, broadcast_strides(each, x.shape), x.shape))
    return RowTask(
        op="elementwise.cross_entropy",
        formula=ROW_FORMULAS[name + "_narrow" * (x.itemsize == 2)],
        reference=reference,
        names=tuple(names),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        axis=axis,
        reads=reads,
        writes=tuple(writes),
        out_given=False,
        compute=str(info(x.dtype).compute),
        scalars=scalars,
        stats=len(writes) - is_row,
        indexed=len(inputs) - 1,
    )


def loss_rows(
    x: Layout, places: Layout, axis: int, reduction: str, ignored: int, smoothing: float, with_stats: bool,
    outs: tuple[Layout | None, Layout | None] = (None, None),
) -> RowPlan | None:  # fmt: skip
    """Return the plan of one kernel for the losses (or their sum or mean) and `stats`; `outs` are the user's arrays.

    Return None if its accesses would not have the full width.
    """
    if not _has_rows(x, axis):
        return None
    compute, result = _of_rows(x, axis)
    loss = outs[0] or (result if reduction == "none" else layout((), (), result.dtype, x.device))

    def losses(x: Any, places: Any) -> tuple[Any, ...]:
        each, stats = _losses_and_stats(x, places, axis, ignored, smoothing, compute)
        return (_reduced(each, places, reduction, ignored), stats)[: 1 + with_stats]

    task = _row_task(
        "smoothed_row_loss" if smoothing else "row_loss",
        ("x", "target", "losses", "stats")[: 3 + with_stats],
        (x, places),
        (loss, outs[1] or _stats_of(result, axis))[: 1 + with_stats],
        axis,
        losses,
        ("int64", compute),
    ).replace(total=LOSSES.get(reduction))
    return _in_full_accesses(task, ignored, smoothing)


def loss_and_gradient_rows(
    x: Layout, places: Layout, factor: Layout, axis: int, reduction: str, ignored: int, smoothing: float,
    loss: Layout | None, dx: Layout | None,
) -> RowPlan | None:  # fmt: skip
    """Return the plan of one kernel for the losses (or their sum or mean) and the gradient, the first output.

    `factor` is the gradient of each loss; `loss` and `dx` are the user's arrays. Return None if its accesses would not
    have the full width.
    """
    if not _has_rows(x, axis) or x.shape[axis] == 1:
        return None
    compute, result = _of_rows(x, axis)
    made = loss or (result if reduction == "none" else layout((), (), result.dtype, x.device))

    def both(x: Any, places: Any, factor: Any) -> tuple[Any, ...]:
        each, stats = _losses_and_stats(x, places, axis, ignored, smoothing, compute)
        base, total = (np.expand_dims(stats[..., k], axis) for k in range(STATS))
        (slope,) = reference.loss_slope(x, base, total, factor, places, axis, ignored, smoothing, compute)
        return slope, _reduced(each, places, reduction, ignored)

    task = _row_task(
        "smoothed_row_loss_and_slopes" if smoothing else "row_loss_and_slopes",
        ("x", "target", "dloss", "out", "losses"),
        (x, places, factor),
        (*outputs_of(dense_like(x, x.shape), dx), made),
        axis,
        both,
        ("int64", compute),
    ).replace(total=LOSSES.get(reduction), out_given=dx is not None)
    return _in_full_accesses(task, ignored, smoothing)


def _in_full_accesses(task: RowTask, ignored: int, smoothing: float) -> RowPlan | None:
    """Return the plan of a task, or None if its accesses would not have the full width."""
    plan = RowPlan(task, (*dtypes.words(ignored, "int64"), *dtypes.words(smoothing, task.compute)))
    return plan if plan.access_bytes((0,) * (len(task.inputs) + len(task.outputs))) == VECTOR_BYTES else None


def _losses_and_stats(x: Any, places: Any, axis: int, ignored: int, smoothing: float, compute: str) -> tuple[Any, Any]:
    """Return the loss of each row of a NumPy array, and `stats`."""
    found = numpy_reductions.log_sum_and_mean(x, (axis,), compute)
    base, total, mean = (np.expand_dims(each, axis) for each in found)
    (value,) = take_along_axis(x, places, axis)
    (each,) = reference.loss(base, total, mean, value, places, ignored, smoothing, x.shape[axis])
    return each, np.stack(found[:STATS], axis=-1)


def _reduced(losses: Any, places: Any, reduction: str, ignored: int) -> Any:
    """Return the losses, their sum, or the mean of the losses that are not ignored."""
    if reduction == "mean":
        return numpy_reductions.mean_of_counted(losses, places, ignored)
    return losses if reduction == "none" else numpy_reductions.total(losses.reshape(-1))


def log_sums(inputs: tuple[Layout, ...], out: Layout | None, axis: int, with_mean: bool) -> ReducePlan:
    """Return the plan of `stats`, which may have the user's layout, and of the mean that label smoothing needs."""
    (x,) = inputs
    compute, result = _of_rows(x, axis)
    outputs = (out or _stats_of(result, axis), result)[: 1 + with_mean]

    def means(seen: Any) -> tuple[Any, ...]:
        return numpy_reductions.log_sum_and_mean(seen, (axis,), compute)[: STATS + with_mean]

    *steps, apart = outputs[0].strides
    kept = [d for d in range(x.ndim) if d != axis]
    lengths = [x.shape[d] for d in kept]
    writes = [view(0, k * apart, steps, lengths) for k in range(STATS)]
    name = "log_sum" + "_and_mean" * with_mean
    task = ReduceTask(
        op="elementwise.cross_entropy",
        formula=EXPONENTS[name + "_narrow" * (x.itemsize == 2)],
        reference=means,
        names=("x", "stats", "mean")[: 2 + with_mean],
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        axes=(axis,),
        reads=(view(0, 0, x.strides, x.shape),),
        writes=(*writes, *[view(1, 0, [result.strides[d] for d in kept], lengths)] * with_mean),
        out_given=False,
        compute=compute,
    )
    if with_mean or not _has_rows(x, axis):
        return ReducePlan(task)
    return RowReducePlan(task, _row_task(name, task.names, inputs, outputs, axis, means))


def losses_of(
    inputs: tuple[Layout, ...], out: Layout | None, axis: int, ignored: int, smoothing: float, classes: int
) -> NumberedPlan:
    """Return the plan of the losses. Inputs: `stats`, the mean (unused without smoothing), target logits, targets."""
    stats, target = inputs[0], inputs[-1]
    compute = info(stats.dtype).name
    made = out or layout(target.shape, row_major_strides(target.shape, stats.itemsize), stats.dtype, stats.device)
    task = MapTask(
        op="elementwise.cross_entropy",
        formula=BLOCKS["loss"],
        reference=partial(reference.loss, ignored=ignored, smoothing=smoothing, classes=classes),
        names=("stats", "mean", "x", "target", "loss"),
        inputs=inputs,
        outputs=(made,),
        shape=target.shape,
        reads=(
            *_each_stat(0, stats, axis, target.shape),
            *(view(1 + k, 0, each.strides, target.shape) for k, each in enumerate(inputs[1:])),
        ),
        writes=(view(0, 0, made.strides, target.shape),),
        out_given=False,
        compute=compute,
        scalars=("int64", compute),
        indices=(4,),
    )
    return NumberedPlan(task, (ignored, smoothing))


def ends(inputs: tuple[Layout, Layout], out: Layout | None, reduction: str, ignored: int) -> tuple[ReducePlan, ...]:
    """Return the plan of the sum or mean of losses, given also their targets; none for the reduction "none"."""
    if reduction == "sum":
        return (reduction_plan.planned("sum", inputs[0], None, None, out),)
    return () if reduction == "none" else (mean_of(inputs, out, ignored),)


def mean_of(inputs: tuple[Layout, ...], out: Layout | None, ignored: int) -> ReducePlan:
    return _counting("mean_of_counted", inputs, inputs[0].dtype, ignored, numpy_reductions.mean_of_counted, out)


def share_of(inputs: tuple[Layout, Layout], out: Layout | None, ignored: int, dtype: np.dtype[Any]) -> ReducePlan:
    """Return the plan of dy, divided by the number of targets that are not ignored. Inputs: dy, targets."""
    kind = np.dtype(info(dtype).compute)

    def share(dy: Any, targets: Any, ignored: int) -> Any:
        # dy is repeated for each target.
        with np.errstate(all="ignore"):
            return cast(dy.reshape(-1)[:1].sum(), kind) / cast(np.sum(targets != ignored), kind)

    return _counting("share_of_counted", inputs, kind, ignored, share, out)


def _counting(
    name: str, inputs: tuple[Layout, ...], dtype: Any, ignored: int, function: Any, out: Layout | None = None
) -> ReducePlan:
    """Return a plan that reduces all rows to one number."""
    first, compute = inputs[-1], info(dtype).name
    made = out or layout((), (), dtypes.TABLE[compute].numpy, first.device)
    task = ReduceTask(
        op="elementwise.cross_entropy",
        formula=EXPONENTS[name],
        reference=lambda *seen: (function(*seen, ignored),),
        names=("losses", "target", "loss") if name == "mean_of_counted" else ("dy", "target", "share"),
        inputs=inputs,
        outputs=(made,),
        shape=first.shape,
        axes=tuple(range(first.ndim)),
        reads=tuple(view(k, 0, broadcast_strides(each, first.shape), first.shape) for k, each in enumerate(inputs)),
        writes=(view(0, 0, (), ()),),
        out_given=False,
        compute=compute,
        scalars=(compute,),
    )
    return ReducePlan(task, dtypes.words(ignored, compute))


def slopes(inputs: tuple[Layout, ...], out: Layout | None, axis: int, ignored: int, smoothing: float) -> NumberedPlan:
    """Return the plan of the gradient. Its inputs are x, `stats`, dy and the targets."""
    x, stats, *rows = inputs
    result, compute = dense_like(x, x.shape), str(info(x.dtype).compute)
    outputs = outputs_of(result, out)
    task = MapTask(
        op="elementwise.cross_entropy_backward",
        formula=BLOCKS["loss_slope"],
        reference=partial(reference.loss_slope, axis=axis, ignored=ignored, smoothing=smoothing, compute=compute),
        names=("x", "stats", "dy", "target", "out"),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        reads=(
            view(0, 0, x.strides, x.shape),
            *_each_stat(1, stats, axis, x.shape),
            *(view(2 + k, 0, broadcast_strides(each, x.shape), x.shape) for k, each in enumerate(rows)),
        ),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
        out_given=out is not None,
        compute=compute,
        scalars=("int64", "int64", compute, compute),
        counters=(tuple(int(d == axis) for d in range(x.ndim)),),
        indices=(4,),
    )
    classes = x.shape[axis]
    return NumberedPlan(task, (ignored, classes, 1.0 - smoothing, smoothing / classes))
