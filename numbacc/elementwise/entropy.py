"""Cross entropy of logits and the classes that are right, forward and backward."""

from __future__ import annotations

from typing import Any

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..errors import ArgumentsError, OptionError, unknown
from ..plan.saved import Saved, saves
from ..runtime.streams import handle_of
from .caching import plans
from .losses import LossGradientPlan, LossPlan, as_slope

#: The options that must be the same in `cross_entropy` and in its gradient, with their defaults.
_SHARED = {"axis": -1, "reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0}


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
    stream: Any = None,
) -> Array | tuple[Any, ...]:
    """Return -log softmax(x) at the right class: log Σ e^x - x_t, from the logits, which are read once.

    Numbers are measured from the largest of their row, so that no offset that they have in common costs digits.

    With label smoothing s: (1 - s) (log Σ e^x - x_t) + s (log Σ e^x - mean of x), as torch has it. Source: Szegedy et
    al. 2015 (arXiv:1512.00567).

    Args:
        x: the logits, array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        target: array of integers, of x's shape without the axis: the right class's number, from 0 on.
        axis: the axis of the classes.
        reduction: "mean" over all that is not ignored, "sum", or "none".
        ignore_index: the target that does not count: its loss and its gradient are 0.
        label_smoothing: s, from 0 to 1.
        return_stats: True to return stats, too, which spare `cross_entropy_backward` one pass over x: an array of
            target's shape and a last axis of 2. `stats[..., 0]` is the largest logit of each row (0 if that is
            infinite), `stats[..., 1]` is log Σ e^(x - largest); together they are log Σ e^x.
        return_saved: whether to return one more object, which carries x, target, stats and the options to
            `cross_entropy_backward(dy, saved)`. x and target must not change until then.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the loss in float32, of float64 in that: an array of rank 0, or of target's shape. With `return_stats` (loss,
        stats), with `return_saved` (loss, saved), with both (loss, stats, saved). The mean of nothing is NaN. On a GPU,
        which cannot raise without being waited for, a target that names no class and is not ignored, below 0 or beyond
        the classes, gives NaN: as its loss, and all along its row of the gradient. NumPy arrays raise there.

    Raises:
        ShapeError: rank, axis, target's shape. DTypeError: x is not of floats, target not of integers.
        IndexRangeError: NumPy arrays only: a target names no class and is not ignored.
        OptionError: reduction, ignore_index, label_smoothing, return_stats, return_saved, stream.
        DeviceError: several devices.

    Example:
        >>> float(elementwise.cross_entropy(np.zeros((2, 4)), np.array([1, 3])).round(4))
        1.3863
    """
    handle = handle_of(stream)
    given = (axis, reduction, ignore_index, label_smoothing)
    keeps = saves(return_saved)
    with_stats = checks.boolean(return_stats, "return_stats")
    plan, arrays = _forward(x, target, given, with_stats or keeps, handle)
    found: Array | tuple[Array, Array] = plan.run(arrays, None, handle)
    if not keeps:
        return found
    loss, stats = found
    kept = {"x": x, "target": target, "stats": stats}
    saved = Saved("elementwise.cross_entropy", kept, dict(zip(_SHARED, given, strict=True)))
    return (loss, stats, saved) if with_stats else (loss, saved)


def cross_entropy_plan(
    x: Any,
    target: Any,
    *,
    axis: int = -1,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    return_stats: bool = False,
) -> LossPlan:
    """The plan that `cross_entropy` runs for these arrays: call it as `plan(x, target, stream=None)`.

    Arguments and errors are those of `cross_entropy`.

    Example:
        >>> x, target = np.zeros((2, 4)), np.array([1, 3])
        >>> float(elementwise.cross_entropy_plan(x, target)(x, target).round(4))
        1.3863
    """
    given = (axis, reduction, ignore_index, label_smoothing)
    plan, _ = _forward(x, target, given, return_stats, handle_of(None))
    plan.prepare()
    return plan


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
    """The gradient with respect to the logits: dy (softmax(x) - 1 at the right class), over their number for the mean.

    Args:
        dy: the gradient with respect to the loss: a number, or an array of its shape, of floats.
        x: the saved object of `cross_entropy(..., return_saved=True)`, as in `cross_entropy_backward(dy, saved)`. It
            holds x, target, stats and the options. Or x itself, with
        target, axis, reduction, ignore_index, label_smoothing: the same as in `cross_entropy`. If an option is
            forgotten, the gradient can be wrong and nothing reports it.
        stats: what that returned as stats; they are computed again if None.
        out: array for the result, like x. It may be x itself: in place.
        stream: as everywhere.

    Returns:
        an array of x's shape and dtype; `out` if given.

    Raises:
        as `cross_entropy`; ShapeError, DTypeError: dy or stats. OptionError: an argument differs from the
        saved one. LayoutError: out overlaps, or is read-only.

    Example:
        >>> loss, saved = elementwise.cross_entropy(np.zeros((1, 4)), np.array([1]), return_saved=True)
        >>> elementwise.cross_entropy_backward(1.0, saved)
        array([[ 0.25, -0.75,  0.25,  0.25]])
    """
    handle = handle_of(stream)
    given: tuple[Any, ...] = (axis, reduction, ignore_index, label_smoothing)
    if isinstance(x, Saved):
        more = {"target": target, "stats": stats, **dict(zip(_SHARED, given, strict=True))}
        defaults = {"target": None, "stats": None, **_SHARED}
        x, target, stats, *options = x.opened("elementwise.cross_entropy", more, defaults)
        given = tuple(options)
    if target is None:
        raise ArgumentsError(
            "target is missing: call cross_entropy_backward(dy, saved), or give x, target and the options of "
            "cross_entropy"
        )
    plan, arrays, target_of_result = _backward(dy, x, target, stats, given, out, stream)
    found = plan.run(arrays, target_of_result, handle)
    return found if out is None else out


def cross_entropy_backward_plan(
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
) -> LossGradientPlan:
    """The plan that `cross_entropy_backward` runs: call it as `plan(dy, x, target, stats=None, out=None, stream=None)`.

    Arguments and errors are those of `cross_entropy_backward`.

    Example:
        >>> x, target = np.zeros((1, 4)), np.array([1])
        >>> elementwise.cross_entropy_backward_plan(1.0, x, target)(2.0, x, target)
        array([[ 0.5, -1.5,  0.5,  0.5]])
    """
    given = (axis, reduction, ignore_index, label_smoothing)
    plan, _, _ = _backward(dy, x, target, stats, given, out, None)
    plan.prepare()
    return plan


def _forward(x: Any, target: Any, given: tuple[Any, ...], return_stats: Any, handle: int) -> tuple[LossPlan, list[Any]]:
    arrays = [operands.as_input(x, "x", handle), operands.as_input(target, "target", handle)]
    layouts, more = map(operands.layout_of, arrays), checks.boolean(return_stats, "return_stats")
    return plans.find((LossPlan, *layouts, *_options(*given), more)), arrays


def _backward(
    dy: Any, x: Any, target: Any, stats: Any, given: tuple[Any, ...], out: Any, stream: Any
) -> tuple[LossGradientPlan, list[Any], Any]:
    """(the plan, the arrays, out as an array or None)."""
    handle = handle_of(stream)
    logits, places = operands.as_input(x, "x", handle), operands.as_input(target, "target", handle)
    own = operands.layout_of(logits)
    arrays = [operands.as_input(as_slope(dy, own, stream), "dy", handle), logits, places]
    arrays += [] if stats is None else [operands.as_input(stats, "stats", handle)]
    made = None if out is None else operands.as_array(out, "out", handle)
    layouts = [*map(operands.layout_of, arrays), None][:4]
    into = None if made is None else operands.layout_of(made)
    return plans.find((LossGradientPlan, *layouts, *_options(*given), into)), arrays, made


def _options(axis: Any, reduction: Any, ignore_index: Any, label_smoothing: Any) -> tuple[int, str, int, float]:
    """The options, each in one form."""
    if not isinstance(reduction, str) or reduction not in ("mean", "sum", "none"):
        raise unknown("reduction", reduction, ("mean", "sum", "none"), 'it is "mean", "sum" or "none"')
    smoothing = checks.real(label_smoothing, "label_smoothing")
    if not 0.0 <= smoothing <= 1.0:
        raise OptionError(f"label_smoothing={smoothing} is out of range: it must be from 0 to 1")
    number = axis if type(axis) is int else checks.integer(axis, "axis")
    return number, reduction, checks.integer(ignore_index, "ignore_index"), smoothing
