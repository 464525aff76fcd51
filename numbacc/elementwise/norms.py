"""Softmax along an axis, RMSNorm and LayerNorm of rows, forward and backward.

| function | result |
|---|---|
| softmax | e^(x - max) / Σ e^(x - max) |
| log_softmax | x - max - log Σ e^(x - max) |
| rms_norm | x w / √(mean of x² + eps) |
| layer_norm | (x - mean) w / √(variance + eps) + b |

Each reads a row once, as long as a multiprocessor can keep it (99 to 227 KB, for all arrays together), or eight of them
from compute capability 9.0 on; what is beyond is read once for each maximum, sum and result. So are rows that are so
few and long that all of the GPU shares them. Gradients of weights come of the same pass where rows are many, and of up
to 32 KB. 16-bit floats are computed in float32 and rounded once. Sums have an order that is fixed on one GPU model: the
same inputs give the same bits on every run.

Rows of equal numbers are exactly 0 after layer_norm, whatever their size. On a GPU squares of float32 and bfloat16 do
not overflow up to 1e34 / √n for rows of n numbers with the usual eps; with eps=0 only up to 1e19.

Sources: Zhang and Sennrich 2019 (arXiv:1910.07467), RMSNorm; Ba, Kiros and Hinton 2016 (arXiv:1607.06450), LayerNorm.
"""

from __future__ import annotations

from typing import Any

from ..arrays.operands import Array
from ..plan.base import Plan
from ..plan.saved import Saved, check_kept, saves
from ..runtime.streams import handle_of
from .normalizing import eps_of, find, run

__all__ = [
    "layer_norm",
    "layer_norm_backward",
    "layer_norm_backward_plan",
    "layer_norm_plan",
    "log_softmax",
    "log_softmax_backward",
    "log_softmax_backward_plan",
    "log_softmax_plan",
    "rms_norm",
    "rms_norm_backward",
    "rms_norm_backward_plan",
    "rms_norm_plan",
    "softmax",
    "softmax_backward",
    "softmax_backward_plan",
    "softmax_plan",
]


def softmax(x: Any, *, axis: int = -1, return_saved: bool = False, out: Any = None, stream: Any = None) -> Array:
    """Softmax: e^(x - max) / Σ e^(x - max), along an axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        axis: the axis that is summed over.
        return_saved: whether to return a second object, which carries the result and the axis to
            `softmax_backward(dy, saved)`. The result must not change until then.
        out: array for the result, of x's shape, dtype and device. It may be x itself: in place.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: return_saved, stream.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> elementwise.softmax(np.array([0.0, 0.0]))
        array([0.5, 0.5])
    """
    keeps = saves(return_saved)
    y: Array = run("softmax", (x,), out, stream, axis)
    return (y, Saved("elementwise.softmax", {"y": y}, {"axis": axis})) if keeps else y


def softmax_plan(x: Any, *, axis: int = -1, out: Any = None) -> Plan:
    """The plan that `softmax` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([0.0, 0.0])
        >>> elementwise.softmax_plan(x)(x)
        array([0.5, 0.5])
    """
    return find("softmax", (x,), out, axis)


def log_softmax(x: Any, *, axis: int = -1, return_saved: bool = False, out: Any = None, stream: Any = None) -> Array:
    """The logarithm of softmax: x - max - log Σ e^(x - max), along an axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        axis: the axis that is summed over.
        return_saved: whether to return a second object, which carries the result and the axis to
            `log_softmax_backward(dy, saved)`. The result must not change until then.
        out: array for the result, of x's shape, dtype and device. It may be x itself: in place.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: return_saved, stream.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> elementwise.log_softmax(np.array([0.0, 0.0]))
        array([-0.69314718, -0.69314718])
    """
    keeps = saves(return_saved)
    y: Array = run("log_softmax", (x,), out, stream, axis)
    return (y, Saved("elementwise.log_softmax", {"y": y}, {"axis": axis})) if keeps else y


def log_softmax_plan(x: Any, *, axis: int = -1, out: Any = None) -> Plan:
    """The plan that `log_softmax` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([0.0, 0.0])
        >>> elementwise.log_softmax_plan(x)(x)
        array([-0.69314718, -0.69314718])
    """
    return find("log_softmax", (x,), out, axis)


def softmax_backward(dy: Any, y: Any, *, axis: int = -1, out: Any = None, stream: Any = None) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = softmax(x): y (dy - Σ dy y).

    Args:
        dy: array of y's shape, dtype and device.
        y: the saved object of `softmax(..., return_saved=True)`, as in `softmax_backward(dy, saved)`. It holds y and
            axis. Or y itself: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        axis: the same as in `softmax`. If it is forgotten, the gradient is wrong and nothing reports it.
        out: array for the result, like y. It may be y or dy itself: in place.
        stream: as everywhere.

    Returns:
        the gradient, as `softmax` returns its result.

    Raises:
        ShapeError: rank, axis, unequal shapes, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: stream, an axis that differs from the saved one.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> y, saved = elementwise.softmax(np.array([0.0, 0.0]), return_saved=True)
        >>> elementwise.softmax_backward(np.array([1.0, 0.0]), saved)
        array([ 0.25, -0.25])
    """
    if isinstance(y, Saved):
        y, axis = y.opened("elementwise.softmax", {"axis": axis}, {"axis": -1})
    return run("softmax_backward", (dy, y), out, stream, axis)


def softmax_backward_plan(dy: Any, y: Any, *, axis: int = -1, out: Any = None) -> Plan:
    """The plan that `softmax_backward` runs for these arrays: call it as `plan(dy, y, out=None, stream=None)`.

    Example:
        >>> dy, y = np.array([1.0, 0.0]), np.array([0.5, 0.5])
        >>> elementwise.softmax_backward_plan(dy, y)(dy, y)
        array([ 0.25, -0.25])
    """
    return find("softmax_backward", (dy, y), out, axis)


def log_softmax_backward(dy: Any, y: Any, *, axis: int = -1, out: Any = None, stream: Any = None) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = log_softmax(x): dy - e^y Σ dy.

    Args:
        dy: array of y's shape, dtype and device.
        y: the saved object of `log_softmax(..., return_saved=True)`, as in `log_softmax_backward(dy, saved)`. It holds
            y and axis. Or y itself: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        axis: the same as in `log_softmax`. If it is forgotten, the gradient is wrong and nothing reports it.
        out: array for the result, like y. It may be y or dy itself: in place.
        stream: as everywhere.

    Returns:
        the gradient, as `log_softmax` returns its result.

    Raises:
        ShapeError: rank, axis, unequal shapes, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: stream, an axis that differs from the saved one.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> y, saved = elementwise.log_softmax(np.array([0.0, 0.0]), return_saved=True)
        >>> elementwise.log_softmax_backward(np.array([1.0, 0.0]), saved)
        array([ 0.5, -0.5])
    """
    if isinstance(y, Saved):
        y, axis = y.opened("elementwise.log_softmax", {"axis": axis}, {"axis": -1})
    return run("log_softmax_backward", (dy, y), out, stream, axis)


def log_softmax_backward_plan(dy: Any, y: Any, *, axis: int = -1, out: Any = None) -> Plan:
    """The plan that `log_softmax_backward` runs for these arrays: call it as `plan(dy, y, out=None, stream=None)`.

    Example:
        >>> dy, y = np.array([1.0, 0.0]), np.log([0.5, 0.5])
        >>> elementwise.log_softmax_backward_plan(dy, y)(dy, y)
        array([ 0.5, -0.5])
    """
    return find("log_softmax_backward", (dy, y), out, axis)


def rms_norm(
    x: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """RMSNorm: x w / √(mean of x² + eps), along the last axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        weight: w, array of the last axis' length, of any of these dtypes; None for 1.
        eps: is added to the mean of squares, so that its root is not 0.
        return_saved: whether to return a second object, which carries x, weight and eps to
            `rms_norm_backward(dy, saved)`. x and weight must not change until then.
        out: array for the result, of x's shape, dtype and device. It may be x itself: in place.
        stream: as everywhere.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, length of a weight, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: eps, return_saved, stream.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory; with
            return_saved, out shares memory with x or weight.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> elementwise.rms_norm(np.array([[2.0, -2.0]]), eps=0)
        array([[ 1., -1.]])
    """
    keeps = saves(return_saved)
    if keeps:
        check_kept(("x", "weight"), (x, weight), out, handle_of(stream))
    y: Array = run("rms_norm", (x, weight), out, stream, eps=eps_of(eps))
    return (y, Saved("elementwise.rms_norm", {"x": x, "weight": weight}, {"eps": eps})) if keeps else y


def rms_norm_plan(x: Any, weight: Any = None, *, eps: float = 1e-6, out: Any = None) -> Plan:
    """The plan that `rms_norm` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[2.0, -2.0]])
        >>> elementwise.rms_norm_plan(x, eps=0)(x)
        array([[ 1., -1.]])
    """
    return find("rms_norm", (x, weight), out, eps=eps_of(eps))


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
    """LayerNorm: (x - mean) w / √(variance + eps) + b, along the last axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        weight: w, array of the last axis' length, of any of these dtypes; None for 1.
        bias: b, an array like weight; None for 0.
        eps: is added to the mean of squares, so that its root is not 0.
        return_saved: whether to return a second object, which carries x, weight, eps and whether there is a bias to
            `layer_norm_backward(dy, saved)`. x and weight must not change until then.
        out: array for the result, of x's shape, dtype and device. It may be x itself: in place.
        stream: as everywhere.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, length of a weight, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: eps, a bias without a weight, return_saved, stream.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory; with
            return_saved, out shares memory with x or weight.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> elementwise.layer_norm(np.array([[2.0, 6.0]]), eps=0)
        array([[-1.,  1.]])
    """
    keeps = saves(return_saved)
    if keeps:
        check_kept(("x", "weight"), (x, weight), out, handle_of(stream))
    y: Array = run("layer_norm", (x, weight, bias), out, stream, eps=eps_of(eps))
    if not keeps:
        return y
    return y, Saved("elementwise.layer_norm", {"x": x, "weight": weight}, {"bias": bias is not None, "eps": eps})


def layer_norm_plan(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5, out: Any = None) -> Plan:
    """The plan that `layer_norm` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> x = np.array([[2.0, 6.0]])
        >>> elementwise.layer_norm_plan(x, eps=0)(x)
        array([[-1.,  1.]])
    """
    return find("layer_norm", (x, weight, bias), out, eps=eps_of(eps))


def rms_norm_backward(
    dy: Any, x: Any, weight: Any = None, *, eps: float = 1e-6, out: Any = None, stream: Any = None
) -> Array | tuple[Array, ...]:
    """The gradients with respect to x and weights, given dy, that with respect to y = rms_norm(x, ...).

    Args:
        dy: array of x's shape, dtype and device.
        x: the saved object of `rms_norm(..., return_saved=True)`, as in `rms_norm_backward(dy, saved)`. It holds
            x, weight and eps. Or x itself, with
        weight, eps: the same as in `rms_norm`. If eps is forgotten, the gradients are wrong and nothing reports it.
        out: array for dx, like x; with a weight a tuple of arrays for all results.
        stream: as everywhere.

    Returns:
        dx; with a weight the pair (dx, dweight); `out` if given.

    Raises:
        ShapeError: rank, unequal shapes, length of a weight, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: eps, an argument that differs from the saved one, stream.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> y, saved = elementwise.rms_norm(np.array([[2.0, -2.0]]), np.ones(2), eps=0, return_saved=True)
        >>> elementwise.rms_norm_backward(np.array([[1.0, 0.0]]), saved)[1]
        array([1., 0.])
    """
    if isinstance(x, Saved):
        given, defaults = {"weight": weight, "eps": eps}, {"weight": None, "eps": 1e-6}
        x, weight, eps = x.opened("elementwise.rms_norm", given, defaults)
    return run("rms_norm_backward", (dy, x, weight), out, stream, eps=eps_of(eps))


def rms_norm_backward_plan(dy: Any, x: Any, weight: Any = None, *, eps: float = 1e-6, out: Any = None) -> Plan:
    """The plan that `rms_norm_backward` runs for these arrays: call it as `plan(dy, x, weight, out=None, stream=None)`.

    Example:
        >>> dy, x, weight = np.array([[1.0, 0.0]]), np.array([[2.0, -2.0]]), np.ones(2)
        >>> elementwise.rms_norm_backward_plan(dy, x, weight, eps=0)(dy, x, weight)[1]
        array([1., 0.])
    """
    return find("rms_norm_backward", (dy, x, weight), out, eps=eps_of(eps))


def layer_norm_backward(
    dy: Any, x: Any, weight: Any = None, *, bias: bool = False, eps: float = 1e-5, out: Any = None, stream: Any = None
) -> Array | tuple[Array, ...]:
    """The gradients with respect to x and weights, given dy, that with respect to y = layer_norm(x, ...).

    Args:
        dy: array of x's shape, dtype and device.
        x: the saved object of `layer_norm(..., return_saved=True)`, as in `layer_norm_backward(dy, saved)`. It holds
            x, weight, bias and eps. Or x itself, with
        weight, eps: the same as in `layer_norm`. If eps is forgotten, the gradients are wrong and nothing reports it.
        bias: True if there was a bias, whose gradient is wanted.
        out: array for dx, like x; with a weight a tuple of arrays for all results.
        stream: as everywhere.

    Returns:
        dx; with a weight (dx, dweight), and with a bias (dx, dweight, dbias); `out` if given.

    Raises:
        ShapeError: rank, unequal shapes, length of a weight, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: eps, an argument that differs from the saved one, a bias without a weight, stream.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory.
        DeviceError: arrays on different devices; not enough memory.

    Example:
        >>> y, saved = elementwise.layer_norm(np.array([[2.0, 6.0]]), np.ones(2), eps=0, return_saved=True)
        >>> elementwise.layer_norm_backward(np.array([[1.0, 0.0]]), saved)[1]
        array([-1.,  0.])
    """
    if isinstance(x, Saved):
        given, defaults = {"weight": weight, "bias": bias, "eps": eps}, {"weight": None, "bias": False, "eps": 1e-5}
        x, weight, bias, eps = x.opened("elementwise.layer_norm", given, defaults)
    return run("layer_norm_backward", (dy, x, weight), out, stream, eps=eps_of(eps), bias=bias)


def layer_norm_backward_plan(
    dy: Any, x: Any, weight: Any = None, *, bias: bool = False, eps: float = 1e-5, out: Any = None
) -> Plan:
    """The plan that `layer_norm_backward` runs for these arrays: call it as `plan(dy, x, weight)`, out and stream too.

    Example:
        >>> dy, x, weight = np.array([[1.0, 0.0]]), np.array([[2.0, 6.0]]), np.ones(2)
        >>> elementwise.layer_norm_backward_plan(dy, x, weight, eps=0)(dy, x, weight)[1]
        array([-1.,  0.])
    """
    return find("layer_norm_backward", (dy, x, weight), out, eps=eps_of(eps), bias=bias)
