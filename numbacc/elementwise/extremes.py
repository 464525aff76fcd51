"""Extremes, where they are, and truth: see `reductions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arrays.operands import Array
from ..plan.folds import FoldPlan
from .reducing import find, run


def max(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The largest number.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides.
        axis: the axes that are reduced: None for all, an integer, or a tuple of integers.
        keepdims: True if these axes stay, with length 1.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the maximum, of x's dtype, a device array if x is one, a NumPy array if x is; `out` if given.

    Raises:
        ShapeError: rank, axis, shape of out; nothing is reduced, which has no maximum.
        DTypeError: a dtype not named above, not an array.
        OptionError: keepdims or stream.
        LayoutError: out is read-only, overlaps x, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    NaN is the result where there is one.

    Example:
        >>> elementwise.max(np.array([[1.0, 5.0], [3.0, 4.0]]), axis=1)
        array([5., 4.])
    """
    return run("max", x, axis, keepdims, None, out, stream)


def max_plan(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> FoldPlan:
    """The plan that `max` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[1.0, 5.0], [3.0, 4.0]])
        >>> elementwise.max_plan(x, axis=0)(x)
        array([3., 5.])
    """
    return find("max", x, axis, keepdims, None, out)


def min(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The smallest number.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides.
        axis: the axes that are reduced: None for all, an integer, or a tuple of integers.
        keepdims: True if these axes stay, with length 1.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the minimum, as `max` returns it.

    Raises:
        ShapeError: rank, axis, shape of out; nothing is reduced, which has no minimum.
        DTypeError: a dtype not named above, not an array.
        OptionError: keepdims or stream.
        LayoutError: out is read-only, overlaps x, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    NaN is the result where there is one.

    Example:
        >>> elementwise.min(np.array([[1.0, 5.0], [3.0, 4.0]]), axis=1)
        array([1., 3.])
    """
    return run("min", x, axis, keepdims, None, out, stream)


def min_plan(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> FoldPlan:
    """The plan that `min` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[1.0, 5.0], [3.0, 4.0]])
        >>> elementwise.min_plan(x, axis=0)(x)
        array([1., 4.])
    """
    return find("min", x, axis, keepdims, None, out)


def argmax(
    x: Any,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The index of the largest number.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides.
        axis: the axis that is reduced; None for all: the index is then that into the elements in C order.
        keepdims: True if what is reduced stays, with length 1.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the index, int64, as `max` returns it.

    Raises:
        ShapeError: rank, axis, shape of out; nothing is reduced.
        DTypeError: a dtype not named above, not an array.
        OptionError: keepdims or stream.
        LayoutError: out is read-only, overlaps x, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    NaN counts as largest. Of equal numbers the first counts.

    Example:
        >>> elementwise.argmax(np.array([[1.0, 5.0], [3.0, 4.0]]))
        array(1)
    """
    return run("argmax", x, axis, keepdims, None, out, stream)


def argmax_plan(
    x: Any,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> FoldPlan:
    """The plan that `argmax` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[1.0, 5.0], [3.0, 4.0]])
        >>> elementwise.argmax_plan(x, axis=0)(x)
        array([1, 0])
    """
    return find("argmax", x, axis, keepdims, None, out)


def argmin(
    x: Any,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The index of the smallest number.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides.
        axis: the axis that is reduced; None for all: the index is then that into the elements in C order.
        keepdims: True if what is reduced stays, with length 1.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the index, int64, as `max` returns it.

    Raises:
        ShapeError: rank, axis, shape of out; nothing is reduced.
        DTypeError: a dtype not named above, not an array.
        OptionError: keepdims or stream.
        LayoutError: out is read-only, overlaps x, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    NaN counts as smallest. Of equal numbers the first counts.

    Example:
        >>> elementwise.argmin(np.array([[1.0, 5.0], [3.0, 4.0]]))
        array(0)
    """
    return run("argmin", x, axis, keepdims, None, out, stream)


def argmin_plan(
    x: Any,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> FoldPlan:
    """The plan that `argmin` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[1.0, 5.0], [3.0, 4.0]])
        >>> elementwise.argmin_plan(x, axis=0)(x)
        array([0, 1])
    """
    return find("argmin", x, axis, keepdims, None, out)


def any(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Whether some number is not 0; False of nothing.

    Args:
        x: array of floats of 16 bits and more, integers, complex numbers or bool, rank 0 to 8, any strides.
        axis: the axes that are reduced: None for all, an integer, or a tuple of integers.
        keepdims: True if these axes stay, with length 1.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the truth, bool, as `max` returns it.

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, not an array.
        OptionError: keepdims or stream.
        LayoutError: out is read-only, overlaps x, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    NaN is not 0.

    Example:
        >>> elementwise.any(np.array([0.0, 2.0]))
        array(True)
    """
    return run("any", x, axis, keepdims, None, out, stream)


def any_plan(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> FoldPlan:
    """The plan that `any` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[0, 1], [0, 2]])
        >>> elementwise.any_plan(x, axis=0)(x)
        array([False,  True])
    """
    return find("any", x, axis, keepdims, None, out)


def all(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Whether no number is 0; True of nothing.

    Args:
        x: array of floats of 16 bits and more, integers, complex numbers or bool, rank 0 to 8, any strides.
        axis: the axes that are reduced: None for all, an integer, or a tuple of integers.
        keepdims: True if these axes stay, with length 1.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the truth, bool, as `max` returns it.

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, not an array.
        OptionError: keepdims or stream.
        LayoutError: out is read-only, overlaps x, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    NaN is not 0.

    Example:
        >>> elementwise.all(np.array([0.0, 2.0]))
        array(False)
    """
    return run("all", x, axis, keepdims, None, out, stream)


def all_plan(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    out: Any = None,
) -> FoldPlan:
    """The plan that `all` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[0, 1], [3, 2]])
        >>> elementwise.all_plan(x, axis=0)(x)
        array([False,  True])
    """
    return find("all", x, axis, keepdims, None, out)
