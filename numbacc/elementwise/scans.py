"""Scans: sums and products of all elements up to each, along an axis.

    f(x, *, axis=None, dtype=None, reverse=False, out=None, stream=None)

The order in which numbers are merged is fixed by shapes, strides and alignment: the same inputs give the same bits on
every run. A row is taken in tiles of some hundred to some thousand elements, columns in tiles of 16 to some thousand,
each merged as a tree and carried to the next: errors grow with the number of tiles, not of elements. Of columns that
blocks share, a thread merges 16 to some hundred elements in order, a block what its threads make as a tree; 16 blocks
are merged as a tree, 16 times so many again, and carried on. NaN and infinities reach what lies behind them, and
nothing before.

Source: Blelloch 1990, "Prefix sums and their applications", for scans by merges that are associative; Merrill and
Garland 2016, "Single-pass parallel prefix scan with decoupled look-back", for blocks that tell each other their parts.
"""

from __future__ import annotations

from typing import Any

from ..arrays import operands
from ..arrays.operands import Array
from ..base.dtypes import info
from ..plan.saved import Saved, check_kept, saves
from ..plan.scans import ProductGradientPlan, ScanPlan
from ..runtime.streams import handle_of
from .reduction_plan import dtype_of
from .scanning import find, find_gradient, flattened_out, missing, opened, run, run_gradient

__all__ = [
    "cumprod",
    "cumprod_backward",
    "cumprod_backward_plan",
    "cumprod_plan",
    "cumsum",
    "cumsum_backward",
    "cumsum_backward_plan",
    "cumsum_plan",
]


def cumsum(
    x: Any,
    *,
    axis: int | None = None,
    dtype: Any = None,
    reverse: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Cumulative sum: y[i] = Σ x[j] of all j <= i, or with reverse=True of all j >= i.

    Args:
        x: array of floats of 16 bits and more, integers, complex numbers or bool, rank 0 to 8, any strides.
        axis: the axis along which elements are added up; None for all of them, in C order.
        dtype: the result's dtype, which is also computed in, but float32 for 16-bit floats. By default x's; of bool and
            integers int64, of unsigned ones uint64.
        reverse: True to go from the last element to the first.
        return_saved: whether to return a second object, which carries x's shape and dtype and the options to
            `cumsum_backward(dy, saved)`.
        out: array for the result, of its shape, dtype and device. It may be x itself: in place.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the sums, of x's shape, or with axis=None of shape (x.size,); a device array if x is one, a NumPy array if x is;
        `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, not an array.
        OptionError: reverse, return_saved or stream.
        LayoutError: out is read-only, overlaps x in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Integers wrap. 16-bit floats are added in float32 and rounded once. As NumPy's `cumsum`.

    Example:
        >>> elementwise.cumsum(np.array([1.0, 2.0, 3.0]))
        array([1., 3., 6.])
    """
    if not saves(return_saved):
        return run("cumsum", x, axis, dtype_of(dtype), reverse, out, stream)
    # Before x may be overwritten in place, which changes neither; DLPack's arrays have neither until they are imported.
    x = operands.as_input(x, "x", handle_of(stream))
    options = {"axis": axis, "dtype": info(x.dtype, "x").name, "reverse": reverse, "x_shape": tuple(x.shape)}
    return run("cumsum", x, axis, dtype_of(dtype), reverse, out, stream), Saved("elementwise.cumsum", {}, options)


def cumsum_plan(
    x: Any, *, axis: int | None = None, dtype: Any = None, reverse: bool = False, out: Any = None
) -> ScanPlan:
    """The plan that `cumsum` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> elementwise.cumsum_plan(x, axis=0)(x)
        array([[1., 2.],
               [4., 6.]])
    """
    return find("cumsum", x, axis, dtype_of(dtype), reverse, out)


def cumprod(
    x: Any,
    *,
    axis: int | None = None,
    dtype: Any = None,
    reverse: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Cumulative product: y[i] = Π x[j] of all j <= i, or with reverse=True of all j >= i.

    Args:
        x: array of floats of 16 bits and more, integers, complex numbers or bool, rank 0 to 8, any strides.
        axis: the axis along which elements are multiplied; None for all of them, in C order.
        dtype: the result's dtype, which is also computed in, but float32 for 16-bit floats. By default x's; of bool and
            integers int64, of unsigned ones uint64.
        reverse: True to go from the last element to the first.
        return_saved: whether to return a second object, which carries x and the options to
            `cumprod_backward(dy, saved)`. x must not change until then.
        out: array for the result, of its shape, dtype and device. It may be x itself: in place.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the products, of x's shape, or with axis=None of shape (x.size,); a device array if x is one, a NumPy array if x
        is; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, not an array.
        OptionError: reverse, return_saved or stream.
        LayoutError: out is read-only, overlaps x in part, or has elements that share memory; with return_saved, out
            shares memory with x.
        DeviceError: arrays on different devices; not enough memory.

    Integers wrap. 16-bit floats are multiplied in float32 and rounded once. As NumPy's `cumprod`; but where what lies
    behind a 0 overflows by itself, products with it may be NaN.

    Example:
        >>> elementwise.cumprod(np.array([1.0, 2.0, 3.0]))
        array([1., 2., 6.])
    """
    keeps = saves(return_saved)
    if keeps:
        check_kept(("x",), (x,), out, handle_of(stream))
    y: Array = run("cumprod", x, axis, dtype_of(dtype), reverse, out, stream)
    return (y, Saved("elementwise.cumprod", {"x": x}, {"axis": axis, "reverse": reverse})) if keeps else y


def cumprod_plan(
    x: Any, *, axis: int | None = None, dtype: Any = None, reverse: bool = False, out: Any = None
) -> ScanPlan:
    """The plan that `cumprod` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> elementwise.cumprod_plan(x, axis=0)(x)
        array([[1., 2.],
               [3., 8.]])
    """
    return find("cumprod", x, axis, dtype_of(dtype), reverse, out)


def cumsum_backward(
    dy: Any,
    saved: Any = None,
    *,
    axis: int | None = None,
    dtype: Any = None,
    reverse: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = cumsum(x): dx[i] = Σ dy[j] of all j >= i.

    Args:
        dy: array of floats of 16 bits and more, or complex numbers, rank 1 to 8, any strides.
        saved: the object that `cumsum(..., return_saved=True)` returned, as in `cumsum_backward(dy, saved)`. It holds
            axis, reverse, and x's shape and dtype. Or None, with
        axis: that of the forward call. Where that was None, x was flattened: 0, and the result in x's shape is
            `dx.reshape(x.shape)`.
        dtype: x's dtype, where it is not dy's.
        reverse: that of the forward call. If it is forgotten, the gradient is wrong and nothing reports it.
        out: array for the result, of its shape, dtype and device. It may be dy itself: in place. C-contiguous where
            `saved` is from a call with axis=None.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the gradient, of dy's shape, as `cumsum` returns it. With `saved`, of x's shape.

    Raises:
        ArgumentsError: neither saved nor axis.
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, not an array; with `saved`, x was of integers or bool.
        OptionError: an argument that differs from the saved one, reverse or stream.
        LayoutError: out is read-only, overlaps dy in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> y, saved = elementwise.cumsum(np.ones(3), return_saved=True)
        >>> elementwise.cumsum_backward(np.array([1.0, 2.0, 3.0]), saved)
        array([6., 5., 3.])
    """
    dtype = dtype_of(dtype)
    if saved is None:
        if axis is None:
            raise missing("cumsum")
        return run("cumsum_backward", dy, axis, dtype, reverse, out, stream)
    axis, dtype, reverse, shape = opened(saved, axis, dtype, reverse)
    if axis is not None:
        return run("cumsum_backward", dy, axis, dtype, reverse, out, stream)
    flat = None if out is None else flattened_out(out, shape, handle_of(stream))
    dx = run("cumsum_backward", dy, 0, dtype, reverse, flat, stream)
    return dx.reshape(shape) if out is None else out


def cumsum_backward_plan(dy: Any, *, axis: int, dtype: Any = None, reverse: bool = False, out: Any = None) -> ScanPlan:
    """The plan that `cumsum_backward` runs for these arrays: call it as `plan(dy, out=None, stream=None)`.

    Example:
        >>> dy = np.array([1.0, 2.0, 3.0])
        >>> elementwise.cumsum_backward_plan(dy, axis=0)(dy)
        array([6., 5., 3.])
    """
    return find("cumsum_backward", dy, axis, dtype_of(dtype), reverse, out)


def cumprod_backward(
    dy: Any, x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, stream: Any = None
) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = cumprod(x): dx[j] = Σ dy[i] y[i] / x[j] of all
    i >= j, also where x is 0.

    Args:
        dy: array of float32, float64, float16 or bfloat16, of x's shape and dtype, any strides.
        x: the saved object of `cumprod(..., return_saved=True)`, as in `cumprod_backward(dy, saved)`. It holds x, axis
            and reverse. Or x itself: array of dy's dtype, rank 1 to 8, any strides, with
        axis: that of the forward call. Where that was None, pass x.reshape(-1) and 0.
        reverse: that of the forward call. If it is forgotten, the gradient is wrong and nothing reports it.
        out: array for the result, of x's shape, dtype and device. It may be dy or x itself: in place. C-contiguous
            where a saved object is from a call with axis=None; then x is copied unless it is contiguous, too.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the gradient, of x's shape, a device array if x is one, a NumPy array if x is; `out` if given.

    Raises:
        ArgumentsError: neither a saved object nor axis.
        ShapeError: rank, axis, unequal shapes.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: an argument that differs from the saved one, reverse or stream.
        LayoutError: out is read-only, overlaps dy or x in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    What lies before an element is multiplied with dy[j] + x[j+1] (dy[j+1] + x[j+2] (dy[j+2] + ...)): nothing is
    divided. Where a product of some elements overflows by itself, results may be NaN.

    Example:
        >>> y, saved = elementwise.cumprod(np.array([2.0, 0.0, 3.0]), return_saved=True)
        >>> elementwise.cumprod_backward(np.ones(3), saved)
        array([1., 8., 0.])
    """
    if not isinstance(x, Saved):
        if axis is None:
            raise missing("cumprod")
        return run_gradient(dy, x, axis, reverse, out, stream)
    given, defaults = {"axis": axis, "reverse": reverse}, {"axis": None, "reverse": False}
    x, axis, reverse = x.opened("elementwise.cumprod", given, defaults)
    if axis is not None:
        return run_gradient(dy, x, axis, reverse, out, stream)
    handle = handle_of(stream)
    x = operands.as_input(x, "x", handle)
    flat = None if out is None else flattened_out(out, tuple(x.shape), handle)
    dx = run_gradient(dy, x.ravel(), 0, reverse, flat, stream)
    return dx.reshape(x.shape) if out is None else out


def cumprod_backward_plan(dy: Any, x: Any, *, axis: int, reverse: bool = False, out: Any = None) -> ProductGradientPlan:
    """The plan that `cumprod_backward` runs for these arrays: call it as `plan(dy, x, out=None, stream=None)`.

    Example:
        >>> dy, x = np.ones(3), np.array([2.0, 0.0, 3.0])
        >>> elementwise.cumprod_backward_plan(dy, x, axis=0)(dy, x)
        array([1., 8., 0.])
    """
    return find_gradient(dy, x, axis, reverse, out)
