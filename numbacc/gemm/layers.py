"""Layers built from products: `linear` and `mlp`, forward and backward.

With x rows of features, w of shape (in, out), and an activation act,

    linear:  z = x w + b,  y = act(z) + residual
             dz = dy act'(z),  dx = dz wᵀ,  dw = xᵀ dz,  db = the sum of dz over rows
    mlp:     y = act(x w1 + b1) w2 + b2

The product's epilogue fuses the operations after it, and also a bias gradient: the sum of dz over rows is the sum over
k of the second matrix of xᵀ dz, which is "bgradb".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.layout import Layout, check_same_device, layout, row_major_strides
from ..errors import DTypeError, Error, LayoutError, OptionError, ShapeError, unknown
from ..functions.formula import COPY
from ..runtime.streams import handle_of
from .epilogue_plans import map_plan, select_plan
from .product import matmul

#: The values of `activation`.
ACTIVATIONS = (None, "relu", "gelu")


class SavedLinear(NamedTuple):
    """The values that `linear` saves for `linear_backward`: x, w, the activation's aux; and its options.

    x and aux are matrices, if rows of x (and of the result) are evenly spaced.
    """

    x: Array
    w: Array
    aux: Array | None
    activation: str | None
    has_bias: bool
    shape: tuple[int, ...]


class SavedMlp(NamedTuple):
    """The values that `mlp` saves for `mlp_backward`: x, weights, the hidden layer, its activation's aux."""

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
    residual: Any = None,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, SavedLinear]:
    """Compute y = act(x w + bias) + residual, as one product with its epilogue.

    Args:
        x: (..., in) of float32, float64, float16 or bfloat16. Its matrices (..., rows, in) are read without a copy, as
            `matmul` reads them.
        w: (in, out), of x's dtype. Pass a weight (out, in), as in torch's Linear, as w.T.
        bias: (out,), of x's dtype, or None.
        activation: None, "relu" or "gelu" (the tanh form).
        residual: array that is added to the result, (..., out), of x's dtype; None for 0. It may be `out` itself. With
            an activation, another kernel adds it. Its gradient is dy.
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
    rows, shape = _rows_of(x, "x", handle)
    w = _matrix(w, "w", handle)
    made = (*shape[:-1], operands.layout_of(w).shape[1])
    given = None if out is None else _rows_of(out, "out", handle, made)[0]
    other = None if residual is None else _like_rows(residual, "residual", rows, made, handle)
    if len(shape) != 2:
        rows, given, other = _flattened(rows, given, other)
    words = [activation, "aux" if activation else None, None if bias is None else "bias"]
    kind = "_".join(word for word in words if word) or "none"
    options: dict[str, Any] = {"epilogue": kind, "out": given, "tune": tune, "stream": stream}
    if other is not None:
        # cuBLASLt adds C before the activation. And the product must not overwrite a residual that is added after it.
        options |= {"out": None} if activation else {"c": other, "beta": 1.0}
    result = _product((rows, w, bias), ("x", "w", "bias"), handle, options)
    y, aux = result if activation else (result, None)
    if activation and other is not None:
        y = _sum(y, other, y if given is None else given, handle)
    saved = SavedLinear(rows, w, aux, activation, bias is not None, shape)
    return y.reshape(made) if out is None else out, saved


def linear_backward(
    dy: Any,
    saved: SavedLinear,
    *,
    accumulate: bool | Sequence[bool] = False,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, Array, Array | None]:
    """Return the gradients of a loss with respect to x, w and bias, given dy, the gradient with respect to y.

    One kernel computes the activation's derivative, and two products the gradients; the bias gradient is part of the
    second product. ReLU's derivative at 0 is 1, see `Epilogue`.

    Args:
        dy: array of y's shape and dtype.
        saved: the saved object that `linear` returned.
        accumulate: True adds the gradients to the arrays in `out`, as for several batches before a step. Or one bool
            for each result.
        tune: whether to measure the library's algorithms for each new kind of product, and keep the fastest, also on
            disk; see `matmul`.
        out: arrays for (dx, dw, dbias). None, also for one of them, means a new array. They have y's dtype. If y has 16
            bits, they may also be float32, so that sums of many gradients are not rounded. dw and dbias have one dtype.
            dbias must be contiguous.

    Returns:
        dx, dw, dbias, with the shapes of x, w and bias; dbias is None without a bias. Those in `out` are returned.

    Raises:
        ShapeError, DTypeError: dy does not match y; `saved` is not the saved object of `linear`; an array in `out` does
            not fit.
        OptionError: `out` does not have three entries, its third entry has no bias, or `accumulate` is neither a bool
            nor one for each result.
        LayoutError: an array in `out` is read-only, or shares memory with dy, a saved array or another result.

    Example:
        >>> y, saved = gemm.linear(np.array([[1.0, -2.0]]), np.eye(2), activation="relu")
        >>> dx, dw, dbias = gemm.linear_backward(np.ones((1, 2)), saved)
        >>> dw
        array([[ 1.,  0.],
               [-2.,  0.]])
        >>> gemm.linear_backward(np.ones((1, 2)), saved, out=(None, dw, None), accumulate=True)[1]
        array([[ 2.,  0.],
               [-4.,  0.]])
    """
    return linear_gradients(dy, saved, accumulate, tune, out, stream)


def linear_gradients(
    dy: Any,
    saved: SavedLinear,
    accumulate: Any,
    tune: bool,
    out: Any,
    stream: Any = None,
    *,
    of_rows: bool = True,
    again: Callable[[Any], Any] | None = None,
) -> tuple[Any, Array, Array | None]:
    """Return the gradients of `linear_backward`.

    Args:
        of_rows: if False, dx is not computed, and is None.
        again: a function that is called with dx and returns x. Instead of x, `saved` then holds any array of x's dtype
            and device.
    """
    handle = handle_of(stream)
    x, w, aux, activation, has_bias, shape = _saved_by(linear, SavedLinear, saved)
    dz = _like_rows(dy, "dy", x, (*shape[:-1], w.shape[1]), handle)
    names = ("dx", "dw", "dbias") if has_bias else ("dx", "dw")
    wanted = (shape, w.shape, w.shape[1:])[: len(names)]
    gradients = _Gradients(names, wanted, out, accumulate, 3, x, {"dy": dz, "x": x, "w": w}, tune, handle)
    if activation:
        dz = _derivative(dz, aux, activation, handle)
    dx = gradients.of_rows("dx", dz, w.T, {"a": "dy"}) if of_rows else None
    x = x if again is None else again(dx)
    dw, dbias = gradients.of_weights("dw", "dbias" if has_bias else "", x, dz)
    return dx, dw, dbias


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
        x: (..., in) of float32, float64, float16 or bfloat16. Its matrices (..., rows, in) are read without a copy, as
            `matmul` reads them.
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
    rows, shape = _rows_of(x, "x", handle)
    w1, w2 = _matrix(w1, "w1", handle), _matrix(w2, "w2", handle)
    made = (*shape[:-1], operands.layout_of(w2).shape[1])
    given = None
    if out is not None:
        given, _ = _rows_of(out, "out", handle, made)
        _check_apart({"out": given}, {"x": rows, "w1": w1, "w2": w2}, ", which mlp_backward needs")
    rows, given = _flattened(rows, given)
    options = {"epilogue": f"{activation}_aux_bias", "tune": tune, "stream": stream}
    hidden, aux = _product((rows, w1, b1), ("x", "w1", "b1"), handle, options)
    options |= {"epilogue": "bias", "out": given}
    y = _product((hidden, w2, b2), ("the hidden layer", "w2", "b2"), handle, options)
    saved = SavedMlp(rows, w1, w2, hidden, aux, activation, shape)
    return y.reshape(made) if out is None else out, saved


def mlp_backward(
    dy: Any,
    saved: SavedMlp,
    *,
    accumulate: bool | Sequence[bool] = False,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the gradients of a loss with respect to x, w1, b1, w2 and b2, given dy: four products, no other kernel.

    db1, a sum over rows, is part of the next product, as "bgradb": on an H200 that takes 0.03 of a large product's
    time, but 0.3 as part of the product before it ("dgelu_bgrad").

    Args:
        dy: array of y's shape and dtype.
        saved: the saved object that `mlp` returned.
        accumulate: True adds the gradients to the arrays in `out`, as for several batches before a step. Or one bool
            for each result. Small kernels add the gradients of biases.
        tune: whether to measure the library's algorithms for each new kind of product, and keep the fastest, also on
            disk; see `matmul`.
        out: arrays for (dx, dw1, db1, dw2, db2), as in `linear_backward`.

    Returns:
        dx, dw1, db1, dw2, db2, each with the shape of its argument. Those in `out` are returned.

    Raises:
        ShapeError, DTypeError, OptionError, LayoutError: the same as in `linear_backward`.

    Example:
        >>> x, w, b = np.array([[1.0, -2.0]]), np.eye(2), np.ones(2)
        >>> y, saved = gemm.mlp(x, w, b, w, b, activation="relu")
        >>> dx, dw1, db1, dw2, db2 = gemm.mlp_backward(np.ones((1, 2)), saved)
        >>> dx
        array([[1., 0.]])
    """
    handle = handle_of(stream)
    x, w1, w2, hidden, aux, activation, shape = _saved_by(mlp, SavedMlp, saved)
    rows = _like_rows(dy, "dy", x, (*shape[:-1], w2.shape[1]), handle)
    wanted = (shape, w1.shape, w1.shape[1:], w2.shape, w2.shape[1:])
    kept = {"dy": rows, "x": x, "w1": w1, "w2": w2, "the hidden layer": hidden, "its aux": aux}
    gradients = _Gradients(("dx", "dw1", "db1", "dw2", "db2"), wanted, out, accumulate, 5, x, kept, tune, handle)
    rows = dense_rows(rows, handle)
    dw2, db2 = gradients.of_weights("dw2", "db2", hidden, rows)
    dhidden = matmul(rows, w2.T, aux=as_matrix(aux), epilogue=f"d{activation}", tune=tune, stream=stream)
    dw1, db1 = gradients.of_weights("dw1", "db1", x, dhidden)
    dx = gradients.of_rows("dx", dhidden, w1.T, {})
    return dx, dw1, db1, dw2, db2


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


def _rows_of(array: Any, name: str, handle: int, shape: tuple[int, ...] | None = None) -> tuple[Any, tuple[int, ...]]:
    """Return an array (..., features), of `shape` if given, and its shape."""
    found = operands.as_array(array, name, handle)
    own = operands.layout_of(found).shape
    if not own:
        raise ShapeError(f"{name} has rank 0; its last axis must be its features")
    if shape is not None and own != shape:
        raise ShapeError(f"{name} has shape {own}; it must have {shape}")
    return found, own


def _like_rows(array: Any, name: str, x: Any, shape: tuple[int, ...], handle: int) -> Any:
    """Return an array (..., features), after a check of its shape, and of its dtype and device against x's."""
    rows, _ = _rows_of(array, name, handle, shape)
    given, wanted = operands.layout_of(rows), operands.layout_of(x)
    check_same_device(given, name, wanted, "x")
    if given.dtype != wanted.dtype:
        raise DTypeError(f"{name} has dtype {given.dtype}; it must have y's dtype, {wanted.dtype}")
    return rows


def as_matrix(array: Any) -> Any:
    """Return an array (..., features) as a matrix without a copy; None if its rows are not evenly spaced."""
    if array.ndim == 2:
        return array
    own = operands.layout_of(array).shape
    matrix = (prod(own[:-1]), own[-1])
    try:
        # A device array's reshape never copies.
        return array.reshape(matrix, copy=False) if isinstance(array, np.ndarray) else array.reshape(matrix)
    except ValueError:
        return None


def _flattened(*arrays: Any) -> list[Any]:
    """Return arrays (..., features) as matrices, or all as they are if the rows of one are not evenly spaced.

    None stays None.
    """
    found = [None if each is None else as_matrix(each) for each in arrays]
    fit = all(one is not None or each is None for one, each in zip(found, arrays, strict=True))
    return found if fit else list(arrays)


def dense_rows(array: Any, handle: int) -> Any:
    """Return an array (..., features) as a matrix: a copy, if its rows are not evenly spaced."""
    seen = as_matrix(array)
    if seen is not None:
        return seen
    given = operands.layout_of(array)
    made = _row_major(given)
    return as_matrix(map_plan(COPY.name, (given,), (made,)).run([array], None, None, handle))


def _row_major(given: Layout) -> Layout:
    return layout(given.shape, row_major_strides(given.shape, given.itemsize), given.dtype, given.device)


def _sum(one: Any, other: Any, out: Any, handle: int) -> Any:
    """Write one + other to `out`, which may be one of them."""
    inputs, made = (operands.layout_of(one), operands.layout_of(other)), operands.layout_of(out)
    return map_plan("epilogue.bias", inputs, (made,)).run([one, other], [out], None, handle)


def _check_apart(written: Mapping[str, Any], kept: Mapping[str, Any], why: str = "") -> None:
    """Raise LayoutError if an array that is written shares memory with one that is still needed."""
    for name, out in written.items():
        for own, array in kept.items():
            if operands.overlap(array, out):
                raise LayoutError(f"{name} shares memory with {own}{why}: pass a separate array")


def given_gradients(
    shapes: Mapping[str, tuple[int, ...]], out: Any, count: int, x: Any, kept: Mapping[str, Any], handle: int
) -> dict[str, tuple[Any, Any]]:
    """Return by name the results that the user has given, each as his object and as an array.

    Args:
        shapes: the results' shapes by name.
        out: None, or `count` objects. Each may be None.
        x: the array whose dtype and device the gradients have.
        kept: the arrays that are read, by name.
    """
    if out is None:
        return {}
    if not isinstance(out, (tuple, list)) or len(out) != count:
        raise OptionError(f"out must have {count} entries, each an array or None")
    if any(each is not None for each in out[len(shapes) :]):
        raise OptionError("out has an array for dbias, but there was no bias")
    found: dict[str, tuple[Any, Any]] = {}
    like = operands.layout_of(x)
    for (name, shape), each in zip(shapes.items(), out, strict=False):
        if each is None:
            continue
        array = operands.as_array(each, name, handle)
        own = operands.layout_of(array)
        if own.shape != shape:
            raise ShapeError(f"{name} has shape {own.shape}; it must have {shape}")
        check_same_device(own, name, like, "x")
        if own.dtype != like.dtype and not (like.itemsize == 2 and own.dtype.name == "float32"):
            wide = " or float32" * (like.itemsize == 2)
            raise DTypeError(f"{name} has dtype {own.dtype}; it must have {like.dtype}{wide}")
        _check_apart({name: array}, {**{one: other for one, (_, other) in found.items()}, **kept})
        found[name] = each, array
    return found


class _Gradients:
    """The results of a backward pass: new arrays, or the user's, which are overwritten or added to.

    Args:
        names, shapes: of the results.
        out: the argument of that name, with `count` entries or None.
        accumulate: the argument of that name.
        x: the array whose dtype and device the gradients have.
        kept: the arrays that are read, by name.
        tune, handle: as in the layers.
    """

    def __init__(
        self,
        names: Sequence[str],
        shapes: Sequence[tuple[int, ...]],
        out: Any,
        accumulate: Any,
        count: int,
        x: Any,
        kept: Mapping[str, Any],
        tune: bool,
        handle: int,
    ):
        self._shape, self._tune, self._handle = shapes[0], tune, handle
        self._given: dict[str, tuple[Any, Any]] = {}
        self._adds: set[str] = set()
        if out is None and accumulate is False:
            return
        self._adds = {
            name for name, each in zip(names, checks.bools(accumulate, "accumulate", count), strict=False) if each
        }
        self._given = given_gradients(dict(zip(names, shapes, strict=True)), out, count, x, kept, handle)

    def of_rows(self, name: str, dz: Any, w: Any, renamed: dict[str, str]) -> Any:
        """Return dz w, the gradient of rows with this name. In errors, matmul's arguments are renamed."""
        shape = self._shape
        each, array = self._given.get(name, (None, None))
        given: Any = None
        if array is None:
            dz = dense_rows(dz, self._handle)
        else:
            given = as_matrix(array)
            if given is not None:
                dz = dense_rows(dz, self._handle)
            else:
                given, dz = array, dz.reshape((*shape[:-1], dz.shape[-1]))
        try:
            made = self._product(name, dz, w, given)
        except LayoutError as error:
            raise _named(error, out=name, c=name, **renamed) from None
        return made.reshape(shape) if each is None else each

    def of_weights(self, name: str, bias: str, x: Any, dz: Any) -> tuple[Any, Any]:
        """Return xᵀ dz, and the sum of dz over rows, if the gradient of a bias has a name: else None."""
        x, dz = dense_rows(x, self._handle), dense_rows(dz, self._handle)
        each, array = self._given.get(name, (None, None))
        own, sums = self._given.get(bias, (None, None))
        try:
            if not bias:
                dw, dbias = self._product(name, x.T, dz, array), None
            elif not self._given:
                dw, dbias = self._product(name, x.T, dz, None, epilogue="bgradb")
            else:
                adds = sums is not None and bias in self._adds
                pair = (array, None if adds else sums)
                dw, dbias = self._product(name, x.T, dz, pair, epilogue="bgradb", out_dtype=self._dtype(name, bias))
                if adds:
                    _sum(sums, dbias, sums, self._handle)
        except LayoutError as error:
            raise _named(error, **{"out": name, "c": name, "out[1]": bias, "b": "dy"}) from None
        return dw if each is None else each, dbias if own is None else own

    def _product(self, name: str, a: Any, b: Any, out: Any, **options: Any) -> Any:
        if name in self._adds:
            array = out[0] if isinstance(out, tuple) else out
            if array is not None:
                options |= {"c": array, "beta": 1.0}
        return matmul(a, b, out=out, tune=self._tune, stream=self._handle, **options)

    def _dtype(self, name: str, bias: str) -> Any:
        """Return the dtype of the gradients of weights and bias, which one product computes; None for its default."""
        found = [operands.layout_of(self._given[each][1]).dtype for each in (name, bias) if each in self._given]
        if len({*found}) > 1:
            raise DTypeError(f"{name} has dtype {found[0]} and {bias} {found[1]}; they must have one dtype")
        return found[0] if found else None


def _derivative(dy: Any, aux: Any, activation: str, handle: int) -> Any:
    """Return dy act'(z), computed by one kernel, as a matrix."""
    dy, aux = dense_rows(dy, handle), as_matrix(aux)
    given, kept = operands.layout_of(dy), operands.layout_of(aux)
    made = _row_major(given)
    plan = (
        select_plan(given, kept, made) if activation == "relu" else map_plan("epilogue.dgelu", (given, kept), (made,))
    )
    return plan.run([dy, aux], None, None, handle)
