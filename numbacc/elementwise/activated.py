"""An activation of a sum, in one pass: of x and a bias, or of x and what is added back to it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from types import FunctionType
from typing import Any

from ..arrays import operands
from ..arrays.operands import Array
from ..base.layout import Layout, normalize_axis
from ..errors import ArgumentsError, ShapeError, unknown
from ..plan import calls
from ..plan.saved import Saved
from ..runtime.streams import handle_of
from .calling import plans
from .gradients import gradient_row, run_backward
from .operation import ElementwisePlan, find, planned, run
from .reductions import sum as sum_of
from .rows import Meaning, Row
from .table import TABLE

#: The activations, with their options as they are by default.
ACTIVATIONS = tuple(name for name, entry in TABLE.items() if entry.function.of_sum)

_EXAMPLE = """
>>> elementwise.NAME.plan(np.ones((1, 2)), np.ones(SHAPE)).info.op
'elementwise.relu_of_sum'
"""


@calls.planned(
    plans,
    "ElementwisePlan",
    "x bias",
    note="Lengths of 1 come after the axis of bias.",
    short=False,
    keep="x bias activation axis",
    run=run,
    prepare=find,
    example=_EXAMPLE.replace("SHAPE", "2"),
)
def bias_activation(
    x: Any,
    bias: Any,
    *,
    activation: str = "relu",
    axis: int = -1,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """An activation of x + bias, in one pass: nothing is rounded between.

    Args:
        x: array of floats of rank 1 to 8, any strides.
        bias: array of rank 1, of x's length along the axis.
        activation: a name in `elementwise.ACTIVATIONS`: "relu", "gelu", "silu", ...; with its options as they are by
            default.
        axis: the axis that the bias belongs to.
        return_saved: whether to return a second object, which carries operands and options to
            `bias_activation_backward(dy, saved)`. x and bias must not change until then.
        out, stream: as in `add`.

    Raises:
        OptionError: an unknown activation. LayoutError: with return_saved, out shares memory with x or the bias.
        ShapeError: axis, the bias's shape. As `add` besides.

    Example:
        >>> elementwise.bias_activation(np.array([[1.0, -3.0]]), np.array([0.5, 1.0]))
        array([[1.5, 0. ]])
    """
    return _row(activation), _with_bias(x, bias, axis, stream), out, None, stream


def bias_activation_backward(
    dy: Any, x: Any, bias: Any = None, *, activation: str = "relu", axis: int = -1, out: Any = None, stream: Any = None
) -> tuple[Array, Array]:
    """The gradients with respect to x and to the bias, given dy, that with respect to the result.

    Args:
        dy: array of floats, of x's shape.
        x: the saved object of `bias_activation(..., return_saved=True)`, as in `bias_activation_backward(dy, saved)`.
            It holds x, bias, activation and axis. Or x itself, with
        bias, activation, axis: the same as in `bias_activation`. If activation is forgotten, the gradients are wrong
            and nothing reports it.
        out: (array for dx, array for dbias).
        stream: as everywhere.

    Returns:
        (dx, dbias), like x and the bias. dbias is the sum of dx along all other axes, as it was rounded.

    Raises:
        as `bias_activation`; ShapeError: dy's shape; `out` is no pair.

    Example:
        >>> x, bias = np.array([[1.0, -3.0], [2.0, 4.0]]), np.array([0.5, 1.0])
        >>> y, saved = elementwise.bias_activation(x, bias, return_saved=True)
        >>> elementwise.bias_activation_backward(np.ones((2, 2)), saved)[1]
        array([2., 1.])
    """
    if isinstance(x, Saved):
        given = {"bias": bias, "activation": activation, "axis": axis}
        defaults = {"bias": None, "activation": "relu", "axis": -1}
        x, bias, activation, axis = x.opened("elementwise.bias_activation", given, defaults)
    if bias is None:
        raise ArgumentsError(
            "bias is missing: call bias_activation_backward(dy, saved), or give x, bias, activation and axis"
        )
    array, spread = _with_bias(x, bias, axis, stream)
    if out is not None and not (isinstance(out, (tuple, list)) and len(out) == 2):
        raise ShapeError(f"out is a {type(out).__name__}; pass a pair of arrays, for the gradients of x and bias")
    own, theirs = (None, None) if out is None else out
    dx = run_backward(_gradient(activation), (dy, array, spread), own, stream)
    number = normalize_axis(axis, array.ndim, "x")
    axes = tuple(d for d in range(array.ndim) if d != number)
    total = sum_of(dx, axis=axes, dtype=spread.dtype, out=theirs, stream=stream)
    return (dx, total) if out is None else tuple(out)


@calls.planned(
    plans,
    "ElementwisePlan",
    "x residual",
    short=False,
    keep="x residual activation",
    run=run,
    prepare=find,
    example=_EXAMPLE.replace("SHAPE", "(1, 2)"),
)
def residual_activation(
    x: Any,
    residual: Any,
    *,
    activation: str = "relu",
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """An activation of x + residual, in one pass: nothing is rounded between.

    Args:
        x, residual: arrays of floats of one shape, any strides.
        activation: as in `bias_activation`.
        return_saved: whether to return a second object, which carries operands and activation to
            `residual_activation_backward(dy, saved)`. x and residual must not change until then.
        out, stream: as in `add`.

    Raises:
        OptionError: an unknown activation. LayoutError: with return_saved, out shares memory with x or the residual.
        ShapeError: unequal shapes. As `add` besides.

    Example:
        >>> elementwise.residual_activation(np.array([1.0, -3.0]), np.array([0.5, 1.0]), activation="relu")
        array([1.5, 0. ])
    """
    return _row(activation), _alike(x, residual, stream), out, None, stream


def residual_activation_backward(
    dy: Any, x: Any, residual: Any = None, *, activation: str = "relu", out: Any = None, stream: Any = None
) -> Array:
    """The gradient with respect to x, which is also that with respect to the residual, given dy.

    Args:
        dy: array of floats, of x's shape.
        x: the saved object of `residual_activation(..., return_saved=True)`, as in
            `residual_activation_backward(dy, saved)`. It holds x, residual and activation. Or x itself, with
        residual, activation: the same as in `residual_activation`. If activation is forgotten, the gradient is wrong
            and nothing reports it.
        out: array for the result, like x. It may be dy itself: in place.
        stream: as everywhere.

    Raises:
        as `residual_activation`.

    Example:
        >>> y, saved = elementwise.residual_activation(np.array([1.0, -3.0]), np.array([0.5, 1.0]), return_saved=True)
        >>> elementwise.residual_activation_backward(np.ones(2), saved)
        array([1., 0.])
    """
    if isinstance(x, Saved):
        given, defaults = {"residual": residual, "activation": activation}, {"residual": None, "activation": "relu"}
        x, residual, activation = x.opened("elementwise.residual_activation", given, defaults)
    if residual is None:
        raise ArgumentsError(
            "residual is missing: call residual_activation_backward(dy, saved), or give x, residual and activation"
        )
    return run_backward(_gradient(activation), (dy, *_alike(x, residual, stream)), out, stream)


# ---------------------------------------------------------------- arguments


def _with_bias(x: Any, bias: Any, axis: Any, stream: Any) -> tuple[Any, Any]:
    handle = handle_of(stream)
    array, row = operands.as_input(x, "x", handle), operands.as_input(bias, "bias", handle)
    number = normalize_axis(axis, array.ndim, "x")
    if row.shape != (array.shape[number],):
        raise ShapeError(f"bias has shape {row.shape}; x has shape {array.shape}: it must be ({array.shape[number]},)")
    return array, row[(slice(None),) + (None,) * (array.ndim - number - 1)]


def _alike(x: Any, residual: Any, stream: Any) -> tuple[Any, Any]:
    handle = handle_of(stream)
    array, other = operands.as_input(x, "x", handle), operands.as_input(residual, "residual", handle)
    if other.shape != array.shape:
        raise ShapeError(f"residual has shape {other.shape}; x has shape {array.shape}: they must be equal")
    return array, other


# ---------------------------------------------------------------- rows


def everyday_blocks(matrix: Layout, row: Layout) -> Iterator[ElementwisePlan]:
    """Plans of calls forward and backward, of the activations that models have most."""
    for activation in ("relu", "gelu", "gelu_tanh", "silu"):
        for other in (row, matrix):
            yield planned(_row(activation), (matrix, other))
            yield planned(_gradient(activation), (matrix, matrix, other))


@lru_cache(maxsize=64)
def _row(activation: str) -> Row:
    """The row of an activation of a sum."""
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise unknown("activation", activation, ACTIVATIONS, f"it is one of {', '.join(ACTIVATIONS)}")
    entry = TABLE[activation]
    meaning, options = entry.row.meanings["f"], tuple(entry.options.values())
    scalar = _of_sum(meaning.scalar, "x, other", options)
    return Row(
        f"{activation}_of_sum",
        ("x", "other"),
        "float",
        {"f": Meaning(scalar, lambda x, other: meaning.numpy(x + other, *map(x.dtype.type, options)))},
        heavy=entry.row.heavy,
        origin=(_row, (activation,)),
    )


@lru_cache(maxsize=64)
def _gradient(activation: str) -> Row:
    """The row of its gradient, with respect to x."""
    row = _row(activation)
    entry = TABLE[activation]
    meaning, options = gradient_row(entry.row).meanings["f"], tuple(entry.options.values())
    return Row(
        f"{row.name}_backward",
        ("dy", "x", "other"),
        "keep",
        {
            "f": Meaning(
                _of_sum(meaning.scalar, "dy, x, other", options),
                lambda dy, x, other: meaning.numpy(dy, x + other, *map(x.dtype.type, options)),
            )
        },
        results=(1,),
        origin=(_gradient, (activation,)),
    )


def _of_sum(function: Any, parameters: str, options: tuple[float, ...]) -> FunctionType:
    """A function of numbers with the sum of the last two parameters in the place of one: written as text, as kernels
    take no functions with as many parameters as they are given."""
    module = getattr(function, "__module__", "")
    called = f"math.{function.__name__}" if module == "math" else "function"
    before = "dy, " if parameters.startswith("dy") else ""
    given = "".join(f", {option!r}" for option in options)
    space: dict[str, Any] = {"function": function, "math": math}
    exec(f"def of_sum({parameters}):\n    return {called}({before}x + other{given})\n", space)
    found: FunctionType = space["of_sum"]
    return found
