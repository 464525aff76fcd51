"""Softmax along an axis, RMSNorm and LayerNorm of rows, forward and backward.

| function | result |
|---|---|
| softmax | e^(x - max) / Σ e^(x - max) |
| log_softmax | x - max - log Σ e^(x - max) |
| rms_norm | x w / √(mean of x² + eps) |
| layer_norm | (x - mean) w / √(variance + eps) + b |

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
from ..plan.rows import GradientPlan, RowPlan
from ..plan.saved import Saved, check_kept
from ..reference import normalization as reference
from ..runtime.streams import handle_of
from .calling import plans

__all__ = [
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
}


def _rows_of(name: str) -> int:
    """Return how many of a function's arrays have normalized rows or gradients of rows. The others are weights."""
    return 2 if name.endswith("_backward") else 1


def made(name: str, *given: Any) -> Plan:
    """Return the plan of a key: options, then the layouts of `out` (or None), the weights and the rows."""
    count, rows = len(_NAMES[name]), _rows_of(name)
    *options, outs = given[:-count]
    weights, inputs = given[-count:-rows], given[-rows:]
    axis, eps = (options[0], None) if "softmax" in name else (-1, options[-1])
    bias = len(options) > 1 and bool(options[0])
    outs = (outs,) if isinstance(outs, Layout) else outs
    return _plan(name, (*inputs, *[each for each in weights if each is not None]), axis, eps, bias, outs)


_rows = partial(calls.planned, plans, "Plan", make=made)


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


@_rows("dy x", optional="weight", opens="x weight eps")
def rms_norm_backward(
    dy: Any, x: Any, weight: Any = None, *, eps: float = 1e-6, out: Any = None, stream: Any = None
) -> Array | tuple[Array, ...]:
    """Return the gradients of rms_norm(x, weight) with respect to x and weight, multiplied by dy.

    Source: Zhang and Sennrich 2019 (arXiv:1910.07467).

    Args:
        dy: array with x's shape, dtype and device.
        x: the object saved by `rms_norm(..., return_saved=True)`. It holds x, weight and eps. Or x itself.
        weight, eps: the same values as in `rms_norm`, if no saved object is given. If you forget eps, the gradients are
            wrong and no error is raised.
        out: array for dx, like x. With a weight, it is a tuple of arrays for all results.

    Returns:
        dx, or with a weight the pair (dx, dweight); `out` if given.

    Raises:
        ShapeError: the rank, the length of a weight or the shape of out is wrong, or shapes differ.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: eps or stream is invalid, or an argument differs from the saved one.

    Example:
        >>> y, saved = elementwise.rms_norm(np.array([[2.0, -2.0]]), np.ones(2), eps=0, return_saved=True)
        >>> elementwise.rms_norm_backward(np.array([[1.0, 0.0]]), saved)[1]
        array([1., 0.])
    """
    return _found("rms_norm_backward", {"dy": dy, "x": x, "weight": weight}, out, stream, eps=eps)


@_rows("dy x", optional="weight", opens="x weight bias eps")
@like(rms_norm_backward)
def layer_norm_backward(
    dy: Any, x: Any, weight: Any = None, *, bias: bool = False, eps: float = 1e-5, out: Any = None, stream: Any = None
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
        dx; with a weight (dx, dweight), and with a bias (dx, dweight, dbias); `out` if given.

    Raises:
        OptionError: eps or stream is invalid, an argument differs from the saved one, or there is a bias without a
            weight.

    Example:
        >>> y, saved = elementwise.layer_norm(np.array([[2.0, 6.0]]), np.ones(2), eps=0, return_saved=True)
        >>> elementwise.layer_norm_backward(np.array([[1.0, 0.0]]), saved)[1]
        array([-1.,  0.])
    """
    return _found("layer_norm_backward", {"dy": dy, "x": x, "weight": weight}, out, stream, bias=bias, eps=eps)


# ---------------------------------------------------------------- plans of calls


def eps_of(value: Any) -> float:
    """Return the option `eps` in a unique form."""
    return checks.at_least_0(value, "eps")


def _found(name: str, given: dict[str, Any], out: Any, stream: Any, **options: Any) -> Any:
    """Return the plan of a call and its operands, for `plan.calls.planned`.

    Args:
        name: a key of `_NAMES`.
        given: the arrays by name, with None for missing ones.
        out, stream, options: the same as in the function's docstring, in the order of its signature.
    """
    handle, rows = handle_of(stream), _rows_of(name)
    arrays = {own: array for k, (own, array) in enumerate(given.items()) if array is not None or k < rows}
    if len(arrays) < len(given) and _NAMES[name][-1] in arrays:
        missing = next(own for own in given if own not in arrays)
        raise OptionError(f"{missing} is None, but {_NAMES[name][-1]} is given; pass {missing}, too")
    if "eps" in options:
        options["eps"] = eps_of(options["eps"])
    inputs = [operands.as_input(array, own, handle) for own, array in arrays.items()]
    outs = outs_of(out, handle)
    if outs is not None and len(outs) > 1:
        inputs[:2] = [_apart(array, outs[0], handle) for array in inputs[:2]]
    layouts = [operands.layout_of(array) for array in inputs]
    own = None if outs is None else tuple([operands.layout_of(array) for array in outs])
    if not isinstance(options.get("bias", False), (bool, np.bool_)):
        raise OptionError(f"bias={shown(options['bias'])} is not True or False")
    if "axis" in options and type(options["axis"]) is not int:  # 1.0 and True would be found in the cache under 1
        options["axis"] = normalize_axis(options["axis"], max(layouts[-1].ndim, 1), _NAMES[name][-1])
    weights = (*layouts[rows:], *[None] * (len(given) - len(arrays)))
    target = own[0] if own is not None and len(own) == 1 else own
    return plans.find((made, name, *options.values(), target, *weights, *layouts[:rows])), inputs, outs, handle, ()


def _apart(array: Any, out: Any, handle: int) -> Any:
    """Return an array, or a copy of it if dx is written there: the weights' gradients need it after dx is written."""
    if isinstance(array, np.ndarray) != isinstance(out, np.ndarray):
        return array
    if not same_layout(operands.layout_of(array), operands.layout_of(out)):
        return array
    if isinstance(array, np.ndarray):
        return array.copy() if array.ctypes.data == out.ctypes.data else array
    return array.copy(stream=handle) if array._address == out._address else array


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
    name: str, inputs: tuple[Layout, ...], axis: int, eps: float | None, bias: bool, outs: tuple[Layout, ...] | None
) -> Plan:
    """Validate a call and return its plan. Everything here depends only on layouts and options."""
    names, backward = _NAMES[name][: len(inputs)], name.endswith("_backward")
    rows = _rows_of(name)
    x = _check(names, inputs, rows)
    axis = normalize_axis(axis, x.ndim, names[rows - 1])
    weights = inputs[rows:]
    if bias and not weights:
        raise OptionError("bias=True needs a weight: pass an array of ones")
    wanted = [dense_like(x, x.shape)]
    if backward:
        wanted += [dense_like(weight, weight.shape) for weight in weights] * (1 + bias)
    outputs = tuple(wanted) if outs is None else outs
    out_names = ("out",) if len(wanted) == 1 else tuple(f"out[{k}]" for k in range(len(wanted)))
    check_out(outputs, wanted, out_names)
    compute = str(info(x.dtype).compute)
    task = RowTask(
        op=f"elementwise.{name}",
        formula=ROW_FORMULAS[name + ("", "_w", "_wb")[len(weights)]],
        reference=_reference(name, axis, eps, bias),
        names=(*names, out_names[0]),
        inputs=inputs,
        outputs=outputs[:1],
        shape=x.shape,
        axis=axis,
        reads=(
            *(view(k, 0, inputs[k].strides, x.shape) for k in range(rows)),
            *(_repeated(rows + k, weight, x.shape) for k, weight in enumerate(weights)),
        ),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
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
        return RowPlan(task, scalars)
    return _gradient_plan(name.removesuffix("_backward"), task, outputs[1:], out_names[1:], scalars)


def _reference(name: str, axis: int, eps: float | None, bias: bool) -> Callable[..., Any]:
    function = getattr(reference, name)
    if eps is None:
        return partial(function, axis=axis)
    return partial(function, eps=eps, bias=bias) if name == "layer_norm_backward" else partial(function, eps=eps)


def _repeated(argument: int, weight: Layout, shape: tuple[int, ...]) -> View:
    """Return a weight as an array of x's shape, the same for all rows."""
    return view(argument, 0, (*(0,) * (len(shape) - 1), weight.strides[0]), shape)


def _gradient_plan(
    name: str, task: RowTask, outputs: tuple[Layout, ...], names: tuple[str, ...], scalars: Sequence[int]
) -> GradientPlan:
    """Return the plan of the gradients of x and of weights. The latter are sums over all rows."""
    # The rows' statistics: the results that normalize x, from all stages.
    shape, count = task.shape, 1 if name == "rms_norm" else 4
    own = info(np.dtype(task.compute)).numpy
    stat = layout(shape[:-1], row_major_strides(shape[:-1], own.itemsize), own, task.inputs[0].device)
    steps = (*stat.strides, 0)
    reduction = ReduceTask(
        op=task.op,
        formula=GRADIENTS[name + "_bias" * (len(outputs) > 1)],
        reference=task.reference,
        names=names,
        inputs=(*task.inputs[:2], *[stat] * count),
        outputs=outputs,
        shape=shape,
        axes=tuple(range(len(shape) - 1)),
        reads=(*task.reads[:2], *(view(2 + k, 0, steps, shape) for k in range(count))),
        writes=tuple(view(k, 0, each.strides, shape[-1:]) for k, each in enumerate(outputs)),
        out_given=task.out_given,
        compute=task.compute,
    )
    task = task.replace(
        outputs=(*task.outputs, *[stat] * count),
        writes=(*task.writes, *(view(1 + k, 0, steps, shape) for k in range(count))),
        stats=count,
    )
    return GradientPlan(task, reduction, SUMS[name + "_bias" * (len(outputs) > 1)], scalars)


def planned(name: str, inputs: tuple[Layout, ...]) -> Plan:
    """Return a plan for arrays that need not exist, without caching it."""
    bias = name == "layer_norm_backward" and len(inputs) > 2
    return _plan(name, inputs, -1, None if "softmax" in name else 1e-5, bias, None)


def everyday(x: Layout, weight: Layout) -> Iterator[tuple[str, tuple[Layout, ...]]]:
    """Yield each function with its most common arrays."""
    for name, names in _NAMES.items():
        yield name, tuple(weight if own in ("weight", "bias") else x for own in names)


def everyday_reductions(matrix: Layout, row: Layout) -> Iterator[Plan]:
    """Yield plans of the calls of `everyday`."""
    yield from (planned(name, arrays) for name, arrays in everyday(matrix, row))
