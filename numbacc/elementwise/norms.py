"""Softmax along an axis, RMSNorm and LayerNorm of rows, alone or of a sum with a residual, forward and backward.

| function | result |
|---|---|
| softmax | e^(x - max) / Σ e^(x - max) |
| log_softmax | x - max - log Σ e^(x - max) |
| rms_norm | x w / √(mean of x² + eps) |
| layer_norm | (x - mean) w / √(variance + eps) + b |
| add_rms_norm, add_layer_norm | the norm of x + residual, and x + residual |

Each function reads a row once if a multiprocessor can hold it (99 to 227 KB for all arrays together), or if eight
multiprocessors can hold it together (from compute capability 9.0 on). Longer rows are read once for each maximum, each
sum and the result, and so are rows that are so few and long that all of the GPU shares them. Gradients of weights of up
to 32 KB are computed in the same pass if there are many rows. 16-bit floats are computed in float32 and rounded once.
The order of sums is fixed on one GPU model: the same inputs give the same bits on every run.

layer_norm makes rows of equal numbers exactly 0, for numbers of any size. On a GPU, squares of float32 and bfloat16 do
not overflow up to 1e34 / √n for rows of n numbers with the usual eps; with eps=0, only up to 1e19.

Sources: Zhang and Sennrich 2019 (arXiv:1910.07467), RMSNorm; Ba, Kiros and Hinton 2016 (arXiv:1607.06450), LayerNorm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks, dtypes
from ..base.docstrings import like
from ..base.dtypes import FLOATS, info
from ..base.layout import (
    Layout,
    View,
    check_rank,
    check_same_device,
    dense_like,
    layout,
    normalize_axis,
    row_major_strides,
    same_layout,
    view,
)
from ..errors import DTypeError, OptionError, ShapeError, shown
from ..kernels.reduce.launch import ReduceTask
from ..kernels.rows.functions import GRADIENTS, ROW_FORMULAS, SUMS, unit_of
from ..kernels.rows.launch import RowTask
from ..plan import calls
from ..plan.base import Plan, check_out, outs_of
from ..plan.rows import AddingPlan, GradientPlan, RowPlan
from ..plan.saved import Saved, check_kept
from ..reference import normalization as reference
from ..runtime.streams import handle_of
from .calling import plans

__all__ = [
    "add_layer_norm",
    "add_layer_norm_backward",
    "add_rms_norm",
    "add_rms_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "log_softmax",
    "log_softmax_backward",
    "rms_norm",
    "rms_norm_backward",
    "softmax",
    "softmax_backward",
]


#: Function -> the names of its arrays. Optional ones come last.
_NAMES = {
    "softmax": ("x",),
    "log_softmax": ("x",),
    "softmax_backward": ("dy", "y"),
    "log_softmax_backward": ("dy", "y"),
    "rms_norm": ("x", "weight"),
    "layer_norm": ("x", "weight", "bias"),
    "rms_norm_backward": ("dy", "x", "weight"),
    "layer_norm_backward": ("dy", "x", "weight"),
    "rms_norm_backward_and_forward": ("dy", "x", "weight"),
    "add_rms_norm": ("x", "residual", "weight"),
    "add_layer_norm": ("x", "residual", "weight", "bias"),
    "add_rms_norm_backward": ("dy", "dtotal", "total", "weight"),
    "add_layer_norm_backward": ("dy", "dtotal", "total", "weight"),
}


def _rows_of(name: str) -> int:
    """Return how many of a function's arrays have normalized rows or gradients of rows. The others are weights."""
    return 1 + ("_backward" in name) + name.startswith("add_")


def made(name: str, *given: Any) -> Plan:
    """Return the plan of a key: options, then the layouts of `out` (or None), the weights and the rows."""
    count, rows = len(_NAMES[name]), _rows_of(name)
    *options, outs = given[:-count]
    weights, inputs = given[-count:-rows], given[-rows:]
    axis, eps = (options[0], None) if "softmax" in name else (-1, options[-1])
    bias = len(options) > 1 and bool(options[0])
    outs = (outs,) if isinstance(outs, Layout) else outs
    return _plan(name, (*inputs, *[each for each in weights if each is not None]), axis, eps, bias, outs)


def _made_sums(name: str, adds: tuple[bool, ...], shared: tuple[int, ...], *given: Any) -> Plan:
    """Return the plan of a key of a norm's gradients in the user's arrays.

    Args:
        name: the function.
        adds: for each result, whether it is added to the old values.
        shared: the rows that the weights' gradients are computed from, and that dx is written over.
        given: options, then the layouts of `out` (None for each new array), the weights and the rows.
    """
    count, rows = len(_NAMES[name]), _rows_of(name)
    *options, outs = given[:-count]
    weights, inputs = given[-count:-rows], given[-rows:]
    inputs = (*inputs, *[each for each in weights if each is not None])
    return _plan(name, inputs, -1, options[-1], len(options) > 1 and bool(options[0]), outs, adds, shared)


class _Outs(list[Any]):
    """The arrays for several results, and None for each new one. `given` is the user's `out`."""

    given: Any


def _run(plan: Plan, inputs: Sequence[Any], outs: _Outs | None, handle: int, scalars: Sequence[Any]) -> Any:
    """Return the results of a plan: those in `out` as the user gave them, and new arrays for the others."""
    if outs is None:
        return plan.run(inputs, None, None, handle)
    if not any(each is None for each in outs):
        return plan.run(inputs, outs, outs.given, handle)
    results = plan.run(inputs, outs, None, handle)
    return tuple(made if own is None else own for own, made in zip(outs.given, results, strict=True))


def _prepared(plan: Plan, inputs: Sequence[Any], outs: _Outs | None, handle: int, scalars: Sequence[Any]) -> Plan:
    """Return a plan, ready to run."""
    plan.prepare(inputs, outs)
    return plan


_rows = partial(calls.planned, plans, "Plan", make=made)
#: The decorator of functions with several results, for each of which `out` has an array or None.
_several = partial(_rows, run=_run, prepare=_prepared)


def _keep_add_rms_norm(x: Any, residual: Any, weight: Any, eps: float, out: Any, stream: Any) -> tuple[Any, Saved]:
    """Return the results and the saved object of `add_rms_norm` with these arguments."""
    _check_weight(weight, out, stream)
    results = add_rms_norm(x, residual, weight, eps=eps, out=out, stream=stream)
    return results, Saved("elementwise.add_rms_norm", {"total": results[1], "weight": weight}, {"eps": eps})


def _keep_add_layer_norm(
    x: Any, residual: Any, weight: Any, bias: Any, eps: float, out: Any, stream: Any
) -> tuple[Any, Saved]:
    """Return the results and the saved object of `add_layer_norm` with these arguments."""
    _check_weight(weight, out, stream)
    results = add_layer_norm(x, residual, weight, bias, eps=eps, out=out, stream=stream)
    options = {"bias": bias is not None, "eps": eps}
    return results, Saved("elementwise.add_layer_norm", {"total": results[1], "weight": weight}, options)


def _check_weight(weight: Any, out: Any, stream: Any) -> None:
    """Raise LayoutError if writing to `out` would change the weight."""
    if out is not None and weight is not None:
        for each in out if isinstance(out, (tuple, list)) else (out,):
            check_kept(("weight",), (weight,), each, handle_of(stream))


def _keep_layer_norm(x: Any, weight: Any, bias: Any, eps: float, out: Any, stream: Any) -> tuple[Array, Saved]:
    """Return y and the saved object of `layer_norm` with these arguments."""
    check_kept(("x", "weight"), (x, weight), out, handle_of(stream))
    y = layer_norm(x, weight, bias, eps=eps, out=out, stream=stream)
    return y, Saved("elementwise.layer_norm", {"x": x, "weight": weight}, {"bias": bias is not None, "eps": eps})


@_rows("x", keep="y axis")
def softmax(x: Any, *, axis: int = -1, return_saved: bool = False, out: Any = None, stream: Any = None) -> Array:
    """Return the softmax along an axis: e^(x - max) / Σ e^(x - max).

    Args:
        x: array of float32, float64, float16 or bfloat16, with rank 1 to 8 and any strides.
        axis: the axis to normalize along.
        out: array that receives the result. It has x's shape, dtype and device, and may be x itself (in place).

    Returns:
        the result: a device array if x is one, a NumPy array if x is one; `out` if given.
        With return_saved, (y, saved).

    Raises:
        ShapeError: the rank, the axis or the shape of out is wrong.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: return_saved or stream is invalid.

    Example:
        >>> elementwise.softmax(np.array([0.0, 0.0]))
        array([0.5, 0.5])
    """
    return _found("softmax", {"x": x}, out, stream, axis=axis)


@_rows("x", keep="y axis")
@like(softmax)
def log_softmax(x: Any, *, axis: int = -1, return_saved: bool = False, out: Any = None, stream: Any = None) -> Array:
    """Return the logarithm of the softmax along an axis: x - max - log Σ e^(x - max).

    Args:
        x: array of float32, float64, float16 or bfloat16, with rank 1 to 8 and any strides.

    Returns:
        the result: a device array if x is one, a NumPy array if x is one; `out` if given.
        With return_saved, (y, saved).

    Example:
        >>> elementwise.log_softmax(np.array([0.0, 0.0]))
        array([-0.69314718, -0.69314718])
    """
    return _found("log_softmax", {"x": x}, out, stream, axis=axis)


@_rows("dy y", opens="y axis")
def softmax_backward(dy: Any, y: Any, *, axis: int = -1, out: Any = None, stream: Any = None) -> Array:
    """Return the gradient of y = softmax(x) with respect to x, multiplied by dy: y (dy - Σ dy y).

    Args:
        dy: array with y's shape, dtype and device.
        y: the object saved by `softmax(..., return_saved=True)`. It holds y and axis. Or y itself, an array of float32,
            float64, float16 or bfloat16 with rank 1 to 8 and any strides.
        axis: the same as in `softmax`, if no saved object is given. If you forget it, the gradient is wrong and no
            error is raised.
        out: array that receives the result, like y. It may be y or dy itself (in place).

    Returns:
        dx: a device array if y is one, a NumPy array if y is one; `out` if given.

    Raises:
        ShapeError: the rank, the axis or the shape of out is wrong, or shapes differ.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: stream is invalid, or axis differs from the saved one.

    Example:
        >>> y, saved = elementwise.softmax(np.array([0.0, 0.0]), return_saved=True)
        >>> elementwise.softmax_backward(np.array([1.0, 0.0]), saved)
        array([ 0.25, -0.25])
    """
    return _found("softmax_backward", {"dy": dy, "y": y}, out, stream, axis=axis)


@_rows("dy y", opens="y axis")
@like(softmax_backward)
def log_softmax_backward(dy: Any, y: Any, *, axis: int = -1, out: Any = None, stream: Any = None) -> Array:
    """Return the gradient of y = log_softmax(x) with respect to x, multiplied by dy: dy - e^y Σ dy.

    Args:
        dy: array with y's shape, dtype and device.
        y: the object saved by `log_softmax(..., return_saved=True)`. It holds y and axis. Or y itself, an array of
            float32, float64, float16 or bfloat16 with rank 1 to 8 and any strides.
        axis: the same as in `log_softmax`, if no saved object is given. If you forget it, the gradient is wrong and no
            error is raised.

    Returns:
        dx: a device array if y is one, a NumPy array if y is one; `out` if given.

    Example:
        >>> y, saved = elementwise.log_softmax(np.array([0.0, 0.0]), return_saved=True)
        >>> elementwise.log_softmax_backward(np.array([1.0, 0.0]), saved)
        array([ 0.5, -0.5])
    """
    return _found("log_softmax_backward", {"dy": dy, "y": y}, out, stream, axis=axis)


@_rows("x", optional="weight", keep="x weight eps")
def rms_norm(
    x: Any, weight: Any = None, *, eps: float = 1e-6, return_saved: bool = False, out: Any = None, stream: Any = None
) -> Array:
    """Normalize by the root mean square along the last axis: x w / √(mean of x² + eps), RMSNorm.

    Source: Zhang and Sennrich 2019 (arXiv:1910.07467).

    Args:
        x: array of float32, float64, float16 or bfloat16, with rank 1 to 8 and any strides.
        weight: w, an array of any of these dtypes with the last axis's length; None for 1.
        eps: a number that is added to the mean of squares, so that its root is not 0.
        out: array that receives the result. It has x's shape, dtype and device, and may be x itself (in place).

    Returns:
        the result: a device array if x is one, a NumPy array if x is one; `out` if given.
        With return_saved, (y, saved).

    Raises:
        ShapeError: the rank, the length of a weight or the shape of out is wrong.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: eps, return_saved or stream is invalid.

    Example:
        >>> elementwise.rms_norm(np.array([[2.0, -2.0]]), eps=0)
        array([[ 1., -1.]])
    """
    return _found("rms_norm", {"x": x, "weight": weight}, out, stream, eps=eps)


@_rows("x", optional="weight bias", keep=_keep_layer_norm)
@like(rms_norm)
def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    eps: float = 1e-5,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Normalize by mean and variance along the last axis: (x - mean) w / √(variance + eps) + b, LayerNorm.

    Source: Ba, Kiros and Hinton 2016 (arXiv:1607.06450).

    Args:
        x: array of float32, float64, float16 or bfloat16, with rank 1 to 8 and any strides.
        bias: b, an array like weight; None for 0.
        eps: a number that is added to the variance, so that its root is not 0.
        return_saved: whether to return a second object for `layer_norm_backward(dy, saved)`. It holds x, weight, eps
            and whether there is a bias. Do not change x and weight before that call.

    Returns:
        the result: a device array if x is one, a NumPy array if x is one; `out` if given.
        With return_saved, (y, saved).

    Raises:
        OptionError: eps, return_saved or stream is invalid, or there is a bias without a weight.
        LayoutError: out is read-only, overlaps an input partly, or has elements that share memory; or, with
            return_saved, out shares memory with x or weight.

    Example:
        >>> elementwise.layer_norm(np.array([[2.0, 6.0]]), eps=0)
        array([[-1.,  1.]])
    """
    return _found("layer_norm", {"x": x, "weight": weight, "bias": bias}, out, stream, eps=eps)


@_several("dy x", optional="weight", opens="x weight eps", defaults="accumulate")
def rms_norm_backward(
    dy: Any,
    x: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    accumulate: bool | Sequence[bool] = False,
    out: Any = None,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """Return the gradients of rms_norm(x, weight) with respect to x and weight, multiplied by dy.

    Source: Zhang and Sennrich 2019 (arXiv:1910.07467).

    Args:
        dy: array with x's shape, dtype and device.
        x: the object saved by `rms_norm(..., return_saved=True)`. It holds x, weight and eps. Or x itself.
        weight, eps: the same values as in `rms_norm`, if no saved object is given. If you forget eps, the gradients are
            wrong and no error is raised.
        accumulate: True adds the results to the arrays in `out`; or one bool for each result.
        out: array for dx, like x. With a weight, it is a tuple of arrays for all results; each may be None. dx may be
            written over dy or x (in place). The weights' gradients have the weight's dtype; if that has 16 bits, their
            arrays may also be float32.

    Returns:
        dx, or with a weight the pair (dx, dweight). Those in `out` are returned.

    Raises:
        ShapeError: the rank, the length of a weight or the shape of out is wrong, or shapes differ.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: eps, accumulate or stream is invalid, or an argument differs from the saved one.

    Example:
        >>> y, saved = elementwise.rms_norm(np.array([[2.0, -2.0]]), np.ones(2), eps=0, return_saved=True)
        >>> elementwise.rms_norm_backward(np.array([[1.0, 0.0]]), saved)[1]
        array([1., 0.])
    """
    given = {"dy": dy, "x": x, "weight": weight}
    return _gradients("rms_norm_backward", given, accumulate, out, stream, eps=eps)


def rms_norm_backward_and_forward(
    dy: Any,
    x: Any,
    weight: Any,
    *,
    eps: float = 1e-6,
    accumulate: bool | Sequence[bool] = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, ...]:
    """Return (dx, y, dweight), the results of `rms_norm_backward` and `rms_norm`: y need not be saved until then.

    Args:
        dy, x, weight, eps, out: as in `rms_norm_backward`. y must not be written over another array.
        accumulate: as there. It must be False for y.
    """
    given = {"dy": dy, "x": x, "weight": weight}
    results: tuple[Array, ...] = _run(
        *_gradients("rms_norm_backward_and_forward", given, accumulate, out, stream, eps=eps)
    )
    return results


@_several("dy x", optional="weight", opens="x weight bias eps", defaults="accumulate")
@like(rms_norm_backward)
def layer_norm_backward(
    dy: Any,
    x: Any,
    weight: Any = None,
    *,
    bias: bool = False,
    eps: float = 1e-5,
    accumulate: bool | Sequence[bool] = False,
    out: Any = None,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """Return the gradients of layer_norm(x, weight, bias) with respect to all three, multiplied by dy.

    Source: Ba, Kiros and Hinton 2016 (arXiv:1607.06450).

    Args:
        dy: array with x's shape, dtype and device.
        x: the object saved by `layer_norm(..., return_saved=True)`. It holds x, weight, bias and eps. Or x itself.
        weight, eps: the same values as in `layer_norm`, if no saved object is given. If you forget eps, the gradients
            are wrong and no error is raised.
        bias: True if there was a bias, to return its gradient.

    Returns:
        dx; with a weight (dx, dweight), and with a bias (dx, dweight, dbias). Those in `out` are returned.

    Raises:
        OptionError: eps, accumulate or stream is invalid, an argument differs from the saved one, or there is a bias
            without a weight.

    Example:
        >>> y, saved = elementwise.layer_norm(np.array([[2.0, 6.0]]), np.ones(2), eps=0, return_saved=True)
        >>> elementwise.layer_norm_backward(np.array([[1.0, 0.0]]), saved)[1]
        array([-1.,  0.])
    """
    given = {"dy": dy, "x": x, "weight": weight}
    return _gradients("layer_norm_backward", given, accumulate, out, stream, bias=bias, eps=eps)


# ---------------------------------------------------------------- norms of a sum with a residual


@_several("x residual", optional="weight", keep=_keep_add_rms_norm)
def add_rms_norm(
    x: Any,
    residual: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, Array]:
    """Return `rms_norm` of x + residual, and x + residual, in one kernel.

    The sum is rounded to x's dtype before it is normalized, so that the results equal those of two functions.

    Args:
        x: array of float32, float64, float16 or bfloat16, with rank 1 to 8 and any strides.
        residual: array with x's shape, dtype and device.
        weight: w, an array of any of these dtypes with the last axis's length; None for 1.
        eps: a number that is added to the mean of squares, so that its root is not 0.
        return_saved: whether to return a second object for `add_rms_norm_backward(dy, dtotal, saved)`. It holds the
            sum, weight and eps. Do not change the sum and weight before that call.
        out: a pair of arrays for the norm and the sum, of x's shape, dtype and device. Each may be None. One may be x,
            and one may be residual (in place).

    Returns:
        (the norm, the sum): device arrays if x is one, NumPy arrays if x is one. Those in `out` are returned.
        With return_saved, ((the norm, the sum), saved).

    Raises:
        ShapeError: the rank, the length of a weight or the shape of out is wrong, or shapes differ.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: eps, return_saved or stream is invalid.

    Example:
        >>> y, total = elementwise.add_rms_norm(np.array([[1.0, -2.0]]), np.array([[1.0, 0.0]]), eps=0)
        >>> y, total
        (array([[ 1., -1.]]), array([[ 2., -2.]]))
    """
    found: Any = _found("add_rms_norm", {"x": x, "residual": residual, "weight": weight}, out, stream, eps=eps)
    return found  # type: ignore[no-any-return]


@_several("x residual", optional="weight bias", keep=_keep_add_layer_norm)
@like(add_rms_norm)
def add_layer_norm(
    x: Any,
    residual: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    eps: float = 1e-5,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, Array]:
    """Return `layer_norm` of x + residual, and x + residual, in one kernel.

    Args:
        x: array of float32, float64, float16 or bfloat16, with rank 1 to 8 and any strides.
        bias: b, an array like weight; None for 0.
        eps: a number that is added to the variance, so that its root is not 0.
        return_saved: whether to return a second object for `add_layer_norm_backward(dy, dtotal, saved)`. It holds the
            sum, weight, eps and whether there is a bias. Do not change the sum and weight before that call.

    Returns:
        (the norm, the sum): device arrays if x is one, NumPy arrays if x is one. Those in `out` are returned.
        With return_saved, ((the norm, the sum), saved).

    Raises:
        OptionError: eps, return_saved or stream is invalid, or there is a bias without a weight.

    Example:
        >>> y, total = elementwise.add_layer_norm(np.array([[1.0, 6.0]]), np.array([[1.0, 0.0]]), eps=0)
        >>> y, total
        (array([[-1.,  1.]]), array([[2., 6.]]))
    """
    given = {"x": x, "residual": residual, "weight": weight, "bias": bias}
    found: Any = _found("add_layer_norm", given, out, stream, eps=eps)
    return found  # type: ignore[no-any-return]


@_several("dy dtotal total", optional="weight", opens="total weight eps", defaults="accumulate")
def add_rms_norm_backward(
    dy: Any,
    dtotal: Any,
    total: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    accumulate: bool | Sequence[bool] = False,
    out: Any = None,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """Return the gradients of `add_rms_norm`: dtotal + `rms_norm_backward(dy, total, weight)`, in one kernel.

    Args:
        dy: the gradient with respect to the norm, an array with total's shape, dtype and device.
        dtotal: the gradient that reaches the sum by other ways, such as the residual branch; an array like dy.
        total: the object saved by `add_rms_norm(..., return_saved=True)`. It holds the sum, weight and eps. Or the sum.
        weight, eps: the same values as in `add_rms_norm`, if no saved object is given. If you forget eps, the gradients
            are wrong and no error is raised.
        accumulate: True adds the results to the arrays in `out`; or one bool for each result.
        out: array for dx, like total. With a weight, it is a tuple of arrays for all results; each may be None. dx may
            be written over dy, dtotal or total (in place). The weights' gradients have the weight's dtype; if that has
            16 bits, their arrays may also be float32.

    Returns:
        dx, which is the gradient with respect to x and to residual; or with a weight the pair (dx, dweight). Those in
        `out` are returned.

    Raises:
        ShapeError: the rank, the length of a weight or the shape of out is wrong, or shapes differ.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: eps, accumulate or stream is invalid, or an argument differs from the saved one.

    Example:
        >>> x, residual = np.array([[1.0, -2.0]]), np.array([[1.0, 0.0]])
        >>> (y, total), saved = elementwise.add_rms_norm(x, residual, np.ones(2), eps=0, return_saved=True)
        >>> elementwise.add_rms_norm_backward(np.array([[1.0, 0.0]]), np.ones((1, 2)), saved)[1]
        array([1., 0.])
    """
    given = {"dy": dy, "dtotal": dtotal, "total": total, "weight": weight}
    return _gradients("add_rms_norm_backward", given, accumulate, out, stream, eps=eps)


@_several("dy dtotal total", optional="weight", opens="total weight bias eps", defaults="accumulate")
@like(add_rms_norm_backward)
def add_layer_norm_backward(
    dy: Any,
    dtotal: Any,
    total: Any,
    weight: Any = None,
    *,
    bias: bool = False,
    eps: float = 1e-5,
    accumulate: bool | Sequence[bool] = False,
    out: Any = None,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """Return the gradients of `add_layer_norm`: dtotal + `layer_norm_backward(dy, total, weight)`, in one kernel.

    Args:
        dy: the gradient with respect to the norm, an array with total's shape, dtype and device.
        total: the object saved by `add_layer_norm(..., return_saved=True)`. It holds the sum, weight, bias and eps. Or
            the sum.
        weight, eps: the same values as in `add_layer_norm`, if no saved object is given. If you forget eps, the
            gradients are wrong and no error is raised.
        bias: True if there was a bias, to return its gradient.

    Returns:
        dx; with a weight (dx, dweight), and with a bias (dx, dweight, dbias). Those in `out` are returned.

    Raises:
        OptionError: eps, accumulate or stream is invalid, an argument differs from the saved one, or there is a bias
            without a weight.

    Example:
        >>> x, residual = np.array([[1.0, 6.0]]), np.array([[1.0, 0.0]])
        >>> (y, total), saved = elementwise.add_layer_norm(x, residual, np.ones(2), eps=0, return_saved=True)
        >>> elementwise.add_layer_norm_backward(np.array([[1.0, 0.0]]), np.ones((1, 2)), saved)[1]
        array([-1.,  0.])
    """
    given = {"dy": dy, "dtotal": dtotal, "total": total, "weight": weight}
    return _gradients("add_layer_norm_backward", given, accumulate, out, stream, bias=bias, eps=eps)


# ---------------------------------------------------------------- plans of calls


def eps_of(value: Any) -> float:
    """Return the option `eps` in a unique form."""
    return checks.at_least_0(value, "eps")


def _found(name: str, given: dict[str, Any], out: Any, stream: Any, **options: Any) -> Any:
    """Return the plan of a call and its operands, for `plan.calls.planned`, or for `_run` if it has several results.

    Args:
        name: a key of `_NAMES`.
        given: the arrays by name, with None for missing ones.
        out, stream, options: the same as in the function's docstring, in the order of its signature.
    """
    handle, is_several = handle_of(stream), name.startswith("add_")
    rows, weights = _operands(name, given, handle)
    outs = _outs_of(out, handle) if is_several else outs_of(out, handle)
    plan = plans.find((made, name, *_options(name, options, rows), _target(outs), *_layouts(name, rows, weights)))
    return plan, [*rows, *weights], outs, handle, ()


def _gradients(name: str, given: dict[str, Any], accumulate: Any, out: Any, stream: Any, **options: Any) -> Any:
    """Return the plan of a norm's gradients and its operands, for `_run`. The arguments are those of `_found`."""
    handle = handle_of(stream)
    rows, weights = _operands(name, given, handle)
    values, outs = _options(name, options, rows), _outs_of(out, handle)
    results = 1 + name.endswith("_and_forward") + (1 + bool(options.get("bias"))) * len(weights)
    adds = checks.bools(accumulate, "accumulate", results)
    # One new result has the key that the short path of calls looks for. The plan reports a wrong number of results.
    if outs is None or len(outs) != results or (results == 1 and outs[0] is not None and not adds[0]):
        plan = plans.find((made, name, *values, _target(outs), *_layouts(name, rows, weights)))
        return plan, [*rows, *weights], outs, handle, ()
    adds = tuple([own and each is not None for own, each in zip(adds, outs, strict=True)])
    dx, layouts = outs[0], _layouts(name, rows, weights)
    # The weights' gradients need dy and x after dx is written, if that takes two passes.
    ends = (0, len(rows) - 1) if weights and dx is not None else ()
    shared = tuple([k for k in ends if _is_same(rows[k], dx)])
    if adds[0]:
        if name.startswith("add_"):
            raise OptionError("dx is the sum of dtotal and the norm's gradient: to add to an array, pass it as dtotal")
        rows.insert(1, dx)
    plan = plans.find((_made_sums, name, adds, shared, *values, _target(outs, True), *layouts))
    return plan, [*rows, *weights], outs, handle, ()


def _operands(name: str, given: dict[str, Any], handle: int) -> tuple[list[Any], list[Any]]:
    """Return the arrays of rows, and the weights that are given."""
    count = _rows_of(name)
    arrays = {own: array for k, (own, array) in enumerate(given.items()) if array is not None or k < count}
    if len(arrays) < len(given) and _NAMES[name][-1] in arrays:
        missing = next(own for own in given if own not in arrays)
        raise OptionError(f"{missing} is None, but {_NAMES[name][-1]} is given; pass {missing}, too")
    inputs = [operands.as_input(array, own, handle) for own, array in arrays.items()]
    return inputs[:count], inputs[count:]


def _options(name: str, options: dict[str, Any], rows: list[Any]) -> list[Any]:
    """Return the values of options in a unique form."""
    if "eps" in options:
        options["eps"] = eps_of(options["eps"])
    if not isinstance(options.get("bias", False), (bool, np.bool_)):
        raise OptionError(f"bias={shown(options['bias'])} is not True or False")
    if "axis" in options and type(options["axis"]) is not int:  # 1.0 and True would be found in the cache under 1
        rank = max(operands.layout_of(rows[-1]).ndim, 1)
        options["axis"] = normalize_axis(options["axis"], rank, _NAMES[name][len(rows) - 1])
    return [*options.values()]


def _layouts(name: str, rows: Sequence[Any], weights: Sequence[Any]) -> list[Layout | None]:
    """Return the layouts of weights (None for missing ones), then of rows, as in the keys of plans."""
    missing = len(_NAMES[name]) - len(rows) - len(weights)
    return [*map(operands.layout_of, weights), *[None] * missing, *map(operands.layout_of, rows)]


def _outs_of(out: Any, handle: int) -> _Outs | None:
    """Return `out` as arrays, some of which may be None; None if it is None."""
    if out is None:
        return None
    if isinstance(out, (tuple, list)):
        outs = _Outs([None if a is None else operands.as_array(a, f"out[{k}]", handle) for k, a in enumerate(out)])
    else:
        outs = _Outs(outs_of(out, handle) or ())
    outs.given = out
    return outs


def _target(outs: Sequence[Any] | None, is_tuple: bool = False) -> Any:
    """Return the layouts of `out` as in the keys of plans."""
    if outs is None:
        return None
    own = tuple([None if each is None else operands.layout_of(each) for each in outs])
    return own[0] if len(own) == 1 and not is_tuple else own


def _is_same(array: Any, out: Any) -> bool:
    """Return True if dx is written over an array."""
    if isinstance(array, np.ndarray) != isinstance(out, np.ndarray):
        return False
    if not same_layout(operands.layout_of(array), operands.layout_of(out)):
        return False
    if isinstance(array, np.ndarray):
        return bool(array.ctypes.data == out.ctypes.data)
    return bool(array._address == out._address)


def _check(names: Sequence[str], inputs: Sequence[Layout], rows: int) -> Layout:
    """Check that the arrays fit together. The first `rows` have rows; return the layout of the last of these."""
    x = inputs[rows - 1]
    for array, name in zip(inputs, names, strict=False):
        check_same_device(array, name, x, names[rows - 1])
        row = info(array.dtype, name)
        if not row.is_float:
            raise DTypeError(f"{name} has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    check_rank(x.shape, names[rows - 1])
    for array, name in zip(inputs[: rows - 1], names, strict=False):
        if array.shape != x.shape:
            raise ShapeError(f"{name} has shape {array.shape}; {names[rows - 1]} has shape {x.shape}")
        if array.dtype != x.dtype:
            raise DTypeError(f"{name} has dtype {array.dtype} but {names[rows - 1]} has {x.dtype}; convert one of them")
    for array, name in zip(inputs[rows:], names[rows:], strict=False):
        if array.shape != x.shape[-1:]:
            raise ShapeError(f"{name} has shape {array.shape}; {names[rows - 1]}'s rows have shape {x.shape[-1:]}")
        if array.dtype != inputs[rows].dtype:
            raise DTypeError(f"{name} has dtype {array.dtype} but weight has {inputs[rows].dtype}; convert one of them")
    return x


def _plan(
    name: str,
    inputs: tuple[Layout, ...],
    axis: int,
    eps: float | None,
    bias: bool,
    outs: tuple[Layout | None, ...] | None,
    adds: tuple[bool, ...] = (),
    shared: tuple[int, ...] = (),
) -> Plan:
    """Validate a call and return its plan. Everything here depends only on layouts and options.

    `adds` and `shared` are as in `_made_sums`.
    """
    names, backward, rows = _NAMES[name][: len(inputs)], "_backward" in name, _rows_of(name)
    x, weights = _check(names, inputs, rows), inputs[rows:]
    axis = normalize_axis(axis, x.ndim, names[rows - 1])
    if bias and not weights:
        raise OptionError("bias=True needs a weight: pass an array of ones")
    count = 1 + (name.endswith("_and_forward") if backward else name.startswith("add_"))
    wanted = [dense_like(x, x.shape)] * count
    if backward:
        wanted += [dense_like(weight, weight.shape) for weight in weights] * (1 + bias)
    outputs, out_names = _outputs(wanted, outs, count)
    own = name
    if True in adds[:1]:
        # The formula is that of the gradient with a residual, which is in the same memory as the result.
        own, inputs, names = f"add_{name}", (inputs[0], outputs[0], *inputs[1:]), (names[0], "out[0]", *names[1:])
        rows, shared = rows + 1, tuple([2 * k for k in shared])
    compute, made = str(info(x.dtype).compute), outputs[:count]
    kind = f"_{x.dtype.name}" * (own.startswith("add_") and not backward and x.itemsize == 2)
    task = RowTask(
        op=f"elementwise.{name}",
        formula=ROW_FORMULAS[own + ("", "_w", "_wb")[len(weights)] + kind],
        reference=_reference(own, axis, eps, bias),
        names=(*names, *out_names[: len(made)]),
        inputs=inputs,
        outputs=made,
        shape=x.shape,
        axis=axis,
        reads=(
            *(view(k, 0, inputs[k].strides, x.shape) for k in range(rows)),
            *(_repeated(rows + k, weight, x.shape) for k, weight in enumerate(weights)),
        ),
        writes=tuple(view(k, 0, each.strides, x.shape) for k, each in enumerate(made)),
        out_given=outs is not None,
        compute=compute,
        scalars=() if eps is None else (compute, compute),
        kept=rows,
    )
    scalars: tuple[int, ...] = ()
    if eps is not None:
        unit = unit_of(eps, compute)
        scalars = (*dtypes.words(eps * unit * unit, compute), *dtypes.words(unit, compute))
    if not (backward and weights):
        return (RowPlan if own == name else AddingPlan)(task, scalars)
    return _gradient_plan(
        own.partition("_backward")[0], task, outputs[count:], out_names[count:], scalars, adds, shared
    )


def _outputs(
    wanted: Sequence[Layout], outs: tuple[Layout | None, ...] | None, rows: int
) -> tuple[tuple[Layout, ...], tuple[str, ...]]:
    """Return the layouts of results, those of `out` where it has arrays, and their names.

    The first `rows` results have rows. The others are gradients of weights: if weights have 16 bits, these may be
    float32.
    """
    names = ("out",) if len(wanted) == 1 else tuple([f"out[{k}]" for k in range(len(wanted))])
    if outs is None:
        return tuple(wanted), names
    if len(outs) != len(wanted):
        check_out([each for each in outs if each is not None], wanted, names)
        raise ShapeError(f"out has {len(outs)} entries; there are {len(wanted)} results")
    found = []
    for k, (own, made, name) in enumerate(zip(outs, wanted, names, strict=True)):
        if own is None:
            found.append(made)
            continue
        if k >= rows and made.itemsize == 2 and own.dtype == np.float32:
            made = layout(made.shape, row_major_strides(made.shape, 4), own.dtype, made.device)
        check_out((own,), (made,), (name,))
        found.append(own)
    return tuple(found), names


def _reference(name: str, axis: int, eps: float | None, bias: bool) -> Callable[..., Any]:
    function = getattr(reference, name)
    if eps is None:
        return partial(function, axis=axis)
    return partial(function, eps=eps, bias=bias) if name.endswith("layer_norm_backward") else partial(function, eps=eps)


def _repeated(argument: int, weight: Layout, shape: tuple[int, ...]) -> View:
    """Return a weight as an array of x's shape, the same for all rows."""
    return view(argument, 0, (*(0,) * (len(shape) - 1), weight.strides[0]), shape)


def _gradient_plan(
    name: str,
    task: RowTask,
    outputs: tuple[Layout, ...],
    names: tuple[str, ...],
    scalars: Sequence[int],
    adds: tuple[bool, ...],
    shared: tuple[int, ...],
) -> GradientPlan:
    """Return the plan of the gradients of x and of weights. The latter are sums over all rows."""
    # The rows' statistics: the results that normalize x, from all stages.
    kind, made = name.removeprefix("add_") + "_bias" * (len(outputs) > 1), len(task.outputs)
    shape, count = task.shape, 1 if "rms" in name else 4
    own = info(np.dtype(task.compute)).numpy
    stat = layout(shape[:-1], row_major_strides(shape[:-1], own.itemsize), own, task.inputs[0].device)
    steps, ends = (*stat.strides, 0), (0, task.kept - 1)
    sources = [dense_like(task.inputs[k], shape) if k in shared else task.inputs[k] for k in ends]
    reduction = ReduceTask(
        op=task.op,
        formula=GRADIENTS[kind],
        reference=task.reference,
        names=names,
        inputs=(*sources, *[stat] * count),
        outputs=outputs,
        shape=shape,
        axes=tuple(range(len(shape) - 1)),
        reads=(
            *(view(k, 0, each.strides, shape) for k, each in enumerate(sources)),
            *(view(2 + k, 0, steps, shape) for k in range(count)),
        ),
        writes=tuple(view(k, 0, each.strides, shape[-1:]) for k, each in enumerate(outputs)),
        out_given=task.out_given,
        compute=task.compute,
        adds=adds[made:],
    )
    task = task.replace(
        outputs=(*task.outputs, *[stat] * count),
        writes=(*task.writes, *(view(made + k, 0, steps, shape) for k in range(count))),
        stats=count,
    )
    sums = SUMS[name + "_bias" * (len(outputs) > 1)]
    return GradientPlan(task, reduction, sums, scalars, adds, shared)


def planned(name: str, inputs: tuple[Layout, ...]) -> Plan:
    """Return a plan for arrays that need not exist, without caching it."""
    bias = name.endswith("layer_norm_backward") and len(inputs) > _rows_of(name)
    return _plan(name, inputs, -1, None if "softmax" in name else 1e-5, bias, None)


def everyday(x: Layout, weight: Layout) -> Iterator[tuple[str, tuple[Layout, ...]]]:
    """Yield each function with its most common arrays."""
    for name, names in _NAMES.items():
        yield name, tuple(weight if own in ("weight", "bias") else x for own in names)


def everyday_reductions(matrix: Layout, row: Layout) -> Iterator[Plan]:
    """Yield plans of the calls of `everyday`."""
    yield from (planned(name, arrays) for name, arrays in everyday(matrix, row))
