"""Layers built from products: `linear` and `mlp`, forward and backward.

With x rows of features, w of shape (in, out), and an activation act,

    linear:  z = x w + b,  y = act(z)
             dz = dy act'(z),  dx = dz wᵀ,  dw = xᵀ dz,  db = the sum of dz over rows
    mlp:     y = act(x w1 + b1) w2 + b2

The product's epilogue fuses the operations after it, and also a bias gradient: the sum of dz over rows is the sum over
k of the second matrix of xᵀ dz, which is "bgradb".
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base.layout import check_same_device, layout, row_major_strides
from ..errors import DTypeError, Error, LayoutError, OptionError, ShapeError, unknown
from ..runtime.streams import handle_of
from .epilogue_plans import map_plan, select_plan
from .product import matmul

#: The values of `activation`.
ACTIVATIONS = (None, "relu", "gelu")


class SavedLinear(NamedTuple):
    """The values that `linear` saves for `linear_backward`: rows of x, w, the activation's aux; and its options."""

    x: Array
    w: Array
    aux: Array | None
    activation: str | None
    has_bias: bool
    shape: tuple[int, ...]


class SavedMlp(NamedTuple):
    """The values that `mlp` saves for `mlp_backward`: rows of x, weights, the hidden layer, its activation's aux."""

    x: Array
    w1: Array
    w2: Array
    hidden: Array
    aux: Array
    activation: str
    shape: tuple[int, ...]


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    activation: str | None = None,
    *,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, SavedLinear]:
    """Compute y = act(x w + bias), as one product with its epilogue.

    Args:
        x: (..., in) of float32, float64, float16 or bfloat16; its rows contiguous or evenly spaced.
        w: (in, out), of x's dtype. Pass a weight (out, in), as in torch's Linear, as w.T.
        bias: (out,), of x's dtype, or None.
        activation: None, "relu" or "gelu" (the tanh form).
        tune: whether to measure the library's algorithms for each new kind of product, and keep the fastest, also on
            disk; see `matmul`.
        out: array for y, (..., out), of x's dtype.

    Returns:
        y of shape (..., out), and a saved object for `linear_backward`. It holds arrays that must not change until
        then.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: a dtype is not supported, or the dtypes differ.
        OptionError: activation or stream is unknown, or tune is neither True nor False.
        LayoutError, DeviceError, UnsupportedError: a product raises it; see `matmul`.

    Example:
        >>> y, saved = gemm.linear(np.array([[1.0, -2.0]]), np.eye(2), activation="relu")
        >>> y
        array([[1., 0.]])
    """
    _check_activation(activation, ACTIVATIONS)
    handle = handle_of(stream)
    rows, shape = _rows(x, "x", handle)
    w = _matrix(w, "w", handle)
    given = None if out is None else _rows(out, "out", handle, (*shape[:-1], w.shape[1]))[0]
    words = [activation, "aux" if activation else None, None if bias is None else "bias"]
    kind = "_".join(word for word in words if word) or "none"
    options = {"epilogue": kind, "out": given, "tune": tune, "stream": stream}
    result = _product((rows, w, bias), ("x", "w", "bias"), handle, options)
    y, aux = result if activation else (result, None)
    saved = SavedLinear(rows, w, aux, activation, bias is not None, shape)
    return y.reshape((*shape[:-1], y.shape[-1])) if out is None else out, saved


def linear_backward(
    dy: Any, saved: SavedLinear, *, tune: bool = False, stream: Any = None
) -> tuple[Array, Array, Array | None]:
    """Return the gradients of a loss with respect to x, w and bias, given dy, the gradient with respect to y.

    One kernel computes the activation's derivative, and two products the gradients; the bias gradient is part of the
    second product. ReLU's derivative at 0 is 1, see `Epilogue`.

    Args:
        dy: array of y's shape and dtype.
        saved: the saved object that `linear` returned.
        tune: whether to measure the library's algorithms for each new kind of product, and keep the fastest, also on
            disk; see `matmul`.

    Returns:
        dx, dw, dbias, with the shapes of x, w and bias; dbias is None without a bias.

    Raises:
        ShapeError, DTypeError: dy does not match y; `saved` is not the saved object of `linear`.

    Example:
        >>> y, saved = gemm.linear(np.array([[1.0, -2.0]]), np.eye(2), activation="relu")
        >>> dx, dw, dbias = gemm.linear_backward(np.ones((1, 2)), saved)
        >>> dw
        array([[ 1.,  0.],
               [-2.,  0.]])
    """
    handle = handle_of(stream)
    x, w, aux, activation, has_bias, shape = _saved_by(linear, SavedLinear, saved)
    dz = _gradient(dy, x, handle, (*shape[:-1], w.shape[1]))
    if activation:
        dz = _derivative(dz, aux, activation, handle)
    try:
        dx = matmul(dz, w.T, tune=tune, stream=stream)
    except LayoutError as error:
        raise _named(error, a="dy") from None
    if has_bias:
        dw, dbias = matmul(x.T, dz, epilogue="bgradb", tune=tune, stream=stream)
    else:
        dw, dbias = matmul(x.T, dz, tune=tune, stream=stream), None
    return dx.reshape(shape), dw, dbias


def mlp(
    x: Any,
    w1: Any,
    b1: Any,
    w2: Any,
    b2: Any,
    activation: str = "gelu",
    *,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, SavedMlp]:
    """Compute y = act(x w1 + b1) w2 + b2 with two products and no other kernel.

    Args:
        x: (..., in) of float32, float64, float16 or bfloat16; its rows contiguous or evenly spaced.
        w1, b1: (in, hidden) and (hidden,), of x's dtype.
        w2, b2: (hidden, out) and (out,), of x's dtype.
        activation: "gelu" (the tanh form) or "relu".
        tune: whether to measure the library's algorithms for each new kind of product, and keep the fastest, also on
            disk; see `matmul`.
        out: array for y, (..., out), of x's dtype.

    Returns:
        y of shape (..., out), and a saved object for `mlp_backward`. It holds arrays that must not change until then.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: a dtype is not supported, or the dtypes differ.
        OptionError: activation or stream is unknown, or tune is neither True nor False.
        LayoutError, DeviceError, UnsupportedError: a product raises it; see `matmul`.

    Example:
        >>> x, w, b = np.array([[1.0, -2.0]]), np.eye(2), np.ones(2)
        >>> y, saved = gemm.mlp(x, w, b, w, b, activation="relu")
        >>> y
        array([[3., 1.]])
    """
    _check_activation(activation, ACTIVATIONS[1:])
    handle = handle_of(stream)
    rows, shape = _rows(x, "x", handle)
    w1, w2 = _matrix(w1, "w1", handle), _matrix(w2, "w2", handle)
    given = None
    if out is not None:
        given, _ = _rows(out, "out", handle, (*shape[:-1], w2.shape[1]))
        _check_kept((rows, w1, w2), ("x", "w1", "w2"), given)
    options = {"epilogue": f"{activation}_aux_bias", "tune": tune, "stream": stream}
    hidden, aux = _product((rows, w1, b1), ("x", "w1", "b1"), handle, options)
    options |= {"epilogue": "bias", "out": given}
    y = _product((hidden, w2, b2), ("the hidden layer", "w2", "b2"), handle, options)
    saved = SavedMlp(rows, w1, w2, hidden, aux, activation, shape)
    return y.reshape((*shape[:-1], y.shape[-1])) if out is None else out, saved


def mlp_backward(
    dy: Any, saved: SavedMlp, *, tune: bool = False, stream: Any = None
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the gradients of a loss with respect to x, w1, b1, w2 and b2, given dy: four products, no other kernel.

    db1, a sum over rows, is part of the next product, as "bgradb": on an H200 that takes 0.03 of a large product's
    time, but 0.3 as part of the product before it ("dgelu_bgrad").

    Args:
        dy: array of y's shape and dtype.
        saved: the saved object that `mlp` returned.
        tune: whether to measure the library's algorithms for each new kind of product, and keep the fastest, also on
            disk; see `matmul`.

    Returns:
        dx, dw1, db1, dw2, db2, each with the shape of its argument.

    Raises:
        ShapeError, DTypeError: dy does not match y; `saved` is not the saved object of `mlp`.

    Example:
        >>> x, w, b = np.array([[1.0, -2.0]]), np.eye(2), np.ones(2)
        >>> y, saved = gemm.mlp(x, w, b, w, b, activation="relu")
        >>> dx, dw1, db1, dw2, db2 = gemm.mlp_backward(np.ones((1, 2)), saved)
        >>> dx
        array([[1., 0.]])
    """
    handle = handle_of(stream)
    x, w1, w2, hidden, aux, activation, shape = _saved_by(mlp, SavedMlp, saved)
    rows = _gradient(dy, x, handle, (*shape[:-1], w2.shape[1]))
    try:
        dw2, db2 = matmul(hidden.T, rows, epilogue="bgradb", tune=tune, stream=stream)
    except LayoutError as error:
        raise _named(error, b="dy") from None
    dhidden = matmul(rows, w2.T, aux=aux, epilogue=f"d{activation}", tune=tune, stream=stream)
    dw1, db1 = matmul(x.T, dhidden, epilogue="bgradb", tune=tune, stream=stream)
    dx = matmul(dhidden, w1.T, tune=tune, stream=stream)
    return dx.reshape(shape), dw1, db1, dw2, db2


def _check_activation(activation: Any, known: tuple[Any, ...]) -> None:
    # An array of one name would compare equal to the name.
    if not (activation is None or isinstance(activation, str)) or activation not in known:
        raise unknown("activation", activation, known, f"it is {' or '.join(map(repr, known))}")


def _saved_by(function: Any, kind: type, saved: Any) -> Any:
    if not isinstance(saved, kind):
        raise DTypeError(f"saved is a {type(saved).__name__}; it must be the second result of gemm.{function.__name__}")
    return saved


def _product(arrays: tuple[Any, Any, Any], names: tuple[str, str, str], handle: int, options: dict[str, Any]) -> Any:
    """Return x w with its bias, which may be None. Errors name the arguments as the layer does, not `matmul`."""
    x, w, bias = arrays
    try:
        return matmul(x, w, bias=bias, **options)
    except Error as error:
        found = _misfit(arrays, names, handle, options) or _named(error, a=names[0], b=names[1])
    raise found


def _named(error: Error, **names: str) -> Error:
    """Return an error of a product about the storage of an argument, with the layer's name for that argument."""
    first, _, rest = str(error).partition(" ")
    return LayoutError(f"{names[first]} {rest}") if isinstance(error, LayoutError) and first in names else error


def _misfit(
    arrays: tuple[Any, Any, Any], names: tuple[str, str, str], handle: int, options: dict[str, Any]
) -> Error | None:
    """Return the error if x, w and bias do not fit together as a layer, else None."""
    (x, w, bias), (x_name, w_name, bias_name) = arrays, names
    one, other = operands.layout_of(x), operands.layout_of(w)
    try:
        check_same_device(other, w_name, one, x_name)
        if one.dtype != other.dtype:
            return DTypeError(f"{w_name} has dtype {other.dtype} but {x_name} has {one.dtype}; convert one of them")
        if one.shape[-1] != other.shape[0]:
            turned = f"; a weight (out, in), as torch's Linear has it, is passed as {w_name}.T"
            return ShapeError(
                f"{x_name} is rows of shape {one.shape} and {w_name} has shape {other.shape}: the length of a row of "
                f"{x_name} must equal {w_name}'s first dimension{turned * (one.shape[-1] == other.shape[1])}"
            )
        if "bias" not in options["epilogue"]:
            return None
        if bias is None:
            return OptionError(f"{bias_name} is missing: every layer of an mlp has a bias")
        given = operands.layout_of(operands.as_array(bias, bias_name, handle))
        check_same_device(given, bias_name, one, x_name)
        if given.shape != other.shape[1:]:
            return ShapeError(f"{bias_name} has shape {given.shape}; with this {w_name} it must have {other.shape[1:]}")
        if given.dtype != one.dtype:
            return DTypeError(f"{bias_name} has dtype {given.dtype}; it must have the dtype of {x_name}, {one.dtype}")
    except Error as error:
        return error
    return None


def _matrix(array: Any, name: str, handle: int) -> Any:
    found = operands.as_array(array, name, handle)
    shape = operands.layout_of(found).shape
    if len(shape) != 2:
        raise ShapeError(f"{name} has shape {shape}; it must be a matrix (in, out)")
    return found


def _rows(array: Any, name: str, handle: int, shape: tuple[int, ...] | None = None) -> tuple[Any, tuple[int, ...]]:
    """Return an array (..., features), of `shape` if given, as a matrix without a copy; and the array's shape."""
    found = operands.as_array(array, name, handle)
    own = operands.layout_of(found).shape
    if not own:
        raise ShapeError(f"{name} has rank 0; its last axis must be its features")
    if shape is not None and own != shape:
        raise ShapeError(f"{name} has shape {own}; it must have {shape}")
    matrix = (prod(own[:-1]), own[-1])
    if len(own) == 2:
        return found, own
    try:
        # A device array's reshape never copies.
        seen = found.reshape(matrix, copy=False) if isinstance(found, np.ndarray) else found.reshape(matrix)
        return seen, own
    except ValueError:
        raise LayoutError(
            f"{name} has strides {found.strides}: its rows are not evenly spaced, so it is not a matrix. Copy it first"
        ) from None


def _check_kept(kept: tuple[Any, ...], names: tuple[str, ...], out: Any) -> None:
    """Raise LayoutError if `out` would overwrite an array that the backward pass needs."""
    for array, name in zip(kept, names, strict=True):
        if operands.overlap(array, out):
            raise LayoutError(f"out shares memory with {name}, which mlp_backward needs: pass a separate array")


def _gradient(dy: Any, x: Any, handle: int, shape: tuple[int, ...]) -> Any:
    """Return dy as a matrix, after a check of its shape against y's, and of its dtype and device against x's."""
    rows, _ = _rows(dy, "dy", handle, shape)
    given, wanted = operands.layout_of(rows), operands.layout_of(x)
    check_same_device(given, "dy", wanted, "x")
    if given.dtype != wanted.dtype:
        raise DTypeError(f"dy has dtype {given.dtype}; it must have y's dtype, {wanted.dtype}")
    return rows


def _derivative(dy: Any, aux: Any, activation: str, handle: int) -> Any:
    """Return dy act'(z), computed by one kernel."""
    given, kept = operands.layout_of(dy), operands.layout_of(aux)
    made = layout(given.shape, row_major_strides(given.shape, given.itemsize), given.dtype, given.device)
    plan = (
        select_plan(given, kept, made) if activation == "relu" else map_plan("epilogue.dgelu", (given, kept), (made,))
    )
    return plan.run([dy, aux], None, None, handle)
