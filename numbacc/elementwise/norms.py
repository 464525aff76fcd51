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


#: Function -> the names of its arrays, those that are not needed last.
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
    """How many of a function's arrays have rows that are normalized, or gradients of them; the others are weights."""
    return 2 if name.endswith("_backward") else 1


def made(name: str, *given: Any) -> Plan:
    """The plan of a key: options, the layouts of `out`, or None, of the weights, and of what has rows."""
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
    """Softmax: e^(x - max) / Σ e^(x - max), along an axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        axis: the axis that is summed over.
        out: array for the result, of x's shape, dtype and device. It may be x itself: in place.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: return_saved, stream.

    Example:
        >>> elementwise.softmax(np.array([0.0, 0.0]))
        array([0.5, 0.5])
    """
    return _found("softmax", {"x": x}, out, stream, axis=axis)


@_rows("x", keep="y axis")
@like(softmax)
def log_softmax(x: Any, *, axis: int = -1, return_saved: bool = False, out: Any = None, stream: Any = None) -> Array:
    """The logarithm of softmax: x - max - log Σ e^(x - max), along an axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Example:
        >>> elementwise.log_softmax(np.array([0.0, 0.0]))
        array([-0.69314718, -0.69314718])
    """
    return _found("log_softmax", {"x": x}, out, stream, axis=axis)


@_rows("dy y", opens="y axis")
def softmax_backward(dy: Any, y: Any, *, axis: int = -1, out: Any = None, stream: Any = None) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = softmax(x): y (dy - Σ dy y).

    Args:
        dy: array of y's shape, dtype and device.
        y: the saved object of `softmax(..., return_saved=True)`, as in `softmax_backward(dy, saved)`. It holds y and
            axis. Or y itself: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        axis: the same as in `softmax`. If it is forgotten, the gradient is wrong and nothing reports it.
        out: array for the result, like y. It may be y or dy itself: in place.

    Returns:
        the gradient, as `softmax` returns its result.

    Raises:
        ShapeError: rank, axis, unequal shapes, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: stream, an axis that differs from the saved one.

    Example:
        >>> y, saved = elementwise.softmax(np.array([0.0, 0.0]), return_saved=True)
        >>> elementwise.softmax_backward(np.array([1.0, 0.0]), saved)
        array([ 0.25, -0.25])
    """
    return _found("softmax_backward", {"dy": dy, "y": y}, out, stream, axis=axis)


@_rows("dy y", opens="y axis")
@like(softmax_backward)
def log_softmax_backward(dy: Any, y: Any, *, axis: int = -1, out: Any = None, stream: Any = None) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = log_softmax(x): dy - e^y Σ dy.

    Args:
        dy: array of y's shape, dtype and device.
        y: the saved object of `log_softmax(..., return_saved=True)`, as in `log_softmax_backward(dy, saved)`. It holds
            y and axis. Or y itself: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        axis: the same as in `log_softmax`. If it is forgotten, the gradient is wrong and nothing reports it.

    Returns:
        the gradient, as `log_softmax` returns its result.

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
    """RMSNorm: x w / √(mean of x² + eps), along the last axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        weight: w, array of the last axis' length, of any of these dtypes; None for 1.
        eps: is added to the mean of squares, so that its root is not 0.
        out: array for the result, of x's shape, dtype and device. It may be x itself: in place.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, length of a weight, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: eps, return_saved, stream.

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
    """LayerNorm: (x - mean) w / √(variance + eps) + b, along the last axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides.
        bias: b, an array like weight; None for 0.
        return_saved: whether to return a second object, which carries x, weight, eps and whether there is a bias to
            `layer_norm_backward(dy, saved)`. x and weight must not change until then.

    Returns:
        the result, a device array if x is one, a NumPy array if x is; `out` if given. With return_saved, (y, saved).

    Raises:
        OptionError: eps, a bias without a weight, return_saved, stream.
        LayoutError: out is read-only, overlaps an input in part, or has elements that share memory; with
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
    """The gradients with respect to x and weights, given dy, that with respect to y = rms_norm(x, ...).

    Args:
        dy: array of x's shape, dtype and device.
        x: the saved object of `rms_norm(..., return_saved=True)`, as in `rms_norm_backward(dy, saved)`. It holds
            x, weight and eps. Or x itself, with
        weight, eps: the same as in `rms_norm`. If eps is forgotten, the gradients are wrong and nothing reports it.
        out: array for dx, like x; with a weight a tuple of arrays for all results.

    Returns:
        dx; with a weight the pair (dx, dweight); `out` if given.

    Raises:
        ShapeError: rank, unequal shapes, length of a weight, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, not an array.
        OptionError: eps, an argument that differs from the saved one, stream.

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
    """The gradients with respect to x and weights, given dy, that with respect to y = layer_norm(x, ...).

    Args:
        dy: array of x's shape, dtype and device.
        x: the saved object of `layer_norm(..., return_saved=True)`, as in `layer_norm_backward(dy, saved)`. It holds
            x, weight, bias and eps. Or x itself, with
        weight, eps: the same as in `layer_norm`. If eps is forgotten, the gradients are wrong and nothing reports it.
        bias: True if there was a bias, whose gradient is wanted.

    Returns:
        dx; with a weight (dx, dweight), and with a bias (dx, dweight, dbias); `out` if given.

    Raises:
        OptionError: eps, an argument that differs from the saved one, a bias without a weight, stream.

    Example:
        >>> y, saved = elementwise.layer_norm(np.array([[2.0, 6.0]]), np.ones(2), eps=0, return_saved=True)
        >>> elementwise.layer_norm_backward(np.array([[1.0, 0.0]]), saved)[1]
        array([-1.,  0.])
    """
    return _found("layer_norm_backward", {"dy": dy, "x": x, "weight": weight}, out, stream, bias=bias, eps=eps)


# ---------------------------------------------------------------- how a call becomes a plan


def eps_of(value: Any) -> float:
    """The option `eps` in one form."""
    return checks.at_least_0(value, "eps")


def _found(name: str, given: dict[str, Any], out: Any, stream: Any, **options: Any) -> Any:
    """The plan of a call, and what it runs on, for `plan.calls.planned`.

    Args:
        name: a key of `_NAMES`.
        given: the arrays by name, None for what there is not.
        out, stream, options: as the function's docstring says, in the order of its signature.
    """
    handle, rows = handle_of(stream), _rows_of(name)
    arrays = {own: array for k, (own, array) in enumerate(given.items()) if array is not None or k < rows}
    if len(arrays) < len(given) and _NAMES[name][-1] in arrays:
        missing = next(own for own in given if own not in arrays)
        raise OptionError(f"{missing} is None; {_NAMES[name][-1]} is given, and needs it")
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
    """An array, copied if it is where dx is written: the gradients of weights are made of it after dx."""
    if isinstance(array, np.ndarray) != isinstance(out, np.ndarray):
        return array
    if not same_layout(operands.layout_of(array), operands.layout_of(out)):
        return array
    if isinstance(array, np.ndarray):
        return array.copy() if array.ctypes.data == out.ctypes.data else array
    return array.copy(stream=handle) if array._address == out._address else array


def _check(names: Sequence[str], inputs: Sequence[Layout], rows: int) -> Layout:
    """Raise the fitting error unless the arrays fit each other; what is normalized. The first `rows` have its shape."""
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
    """Validation, and how the operands lie. Everything here depends on layouts and options alone."""
    names, backward = _NAMES[name][: len(inputs)], name.endswith("_backward")
    rows = _rows_of(name)
    x = _check(names, inputs, rows)
    axis = normalize_axis(axis, x.ndim, names[rows - 1])
    weights = inputs[rows:]
    if bias and not weights:
        raise OptionError("bias=True without a weight: pass one of ones")
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
    """A weight as an array of x's shape: the same for all rows."""
    return view(argument, 0, (*(0,) * (len(shape) - 1), weight.strides[0]), shape)


def _gradient_plan(
    name: str, task: RowTask, outputs: tuple[Layout, ...], names: tuple[str, ...], scalars: Sequence[int]
) -> GradientPlan:
    """The plan of the gradients of x and of weights: sums over all rows, of what is known of each row."""
    # Of the results of all stages, those that say what x is normalized by.
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
    """A plan for arrays that need not exist, in no cache."""
    bias = name == "layer_norm_backward" and len(inputs) > 2
    return _plan(name, inputs, -1, None if "softmax" in name else 1e-5, bias, None)


def everyday(x: Layout, weight: Layout) -> Iterator[tuple[str, tuple[Layout, ...]]]:
    """Each function with the arrays that it is mostly called with."""
    for name, names in _NAMES.items():
        yield name, tuple(weight if own in ("weight", "bias") else x for own in names)


def everyday_reductions(matrix: Layout, row: Layout) -> Iterator[Plan]:
    """Plans of the calls of `everyday`."""
    yield from (planned(name, arrays) for name, arrays in everyday(matrix, row))
