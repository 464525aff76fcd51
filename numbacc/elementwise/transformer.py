"""Parts of transformers, each in one pass: activations of sums, rotary position embedding, dropout.

An activation is applied to the sum of x and a bias, or of x and a residual. `rope` rotates pairs of a row's elements by
angles that grow with the position. The mask of `dropout` is computed from a seed and an offset, and is not stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.docstrings import like
from ..base.dtypes import FLOATS, info, words
from ..base.layout import Layout, check_rank, check_same_device, dense_like, layout, normalize_axis, view
from ..errors import ArgumentsError, DTypeError, OptionError, ShapeError, unknown
from ..kernels.elementwise.launch import MapTask
from ..kernels.elementwise.other_launches import dropout_order
from ..kernels.elementwise.transformer import BLOCKS
from ..plan import calls
from ..plan.base import Result, outs_of
from ..plan.saved import Saved
from ..plan.tasks import MapPlan
from ..reference import blocks as reference
from ..reference import random
from ..runtime.streams import handle_of
from .calling import SHARED, found, plans
from .casting import astype
from .gradients import gradient_row, run_backward
from .operation import ElementwisePlan, find, planned, run
from .planning import NumberedPlan, broadcast_shapes, broadcast_strides, outputs_of
from .positions import arange
from .reductions import sum as sum_of
from .rows import TABLE, Meaning, Row

# ---------------------------------------------------------------- activations of sums

#: The names of the activations. They are used with the defaults of their options.
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
@like(SHARED)
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
    """Return an activation of x + bias, computed in one pass without rounding the sum.

    Args:
        x: array of floats with rank 1 to 8 and any strides.
        bias: array of rank 1 with x's length along the axis.
        activation: a name in `elementwise.ACTIVATIONS`: "relu", "gelu", "silu", ... Its options have their defaults.
        axis: the axis of x along which the bias is added.

    Raises:
        OptionError: the activation is unknown.
        ShapeError: the axis or the bias's shape is wrong.

    Example:
        >>> elementwise.bias_activation(np.array([[1.0, -3.0]]), np.array([0.5, 1.0]))
        array([[1.5, 0. ]])
    """
    return _row(activation), _with_bias(x, bias, axis, stream), out, None, stream


def bias_activation_backward(
    dy: Any, x: Any, bias: Any = None, *, activation: str = "relu", axis: int = -1, out: Any = None, stream: Any = None
) -> tuple[Array, Array]:
    """Return the gradients of bias_activation(x, bias) with respect to x and the bias, multiplied by dy.

    Args:
        dy: array of floats with x's shape.
        x: the object saved by `bias_activation(..., return_saved=True)`. It holds x, bias, activation and axis. Or x
            itself.
        bias, activation, axis: the same values as in `bias_activation`, if no saved object is given. If you forget
            activation, the gradients are wrong and no error is raised.
        out: (array for dx, array for dbias).

    Returns:
        (dx, dbias), like x and the bias. dbias is the sum of the rounded dx along all other axes.

    Raises:
        OptionError: the activation is unknown, or an argument differs from the saved one.
        ShapeError: the axis, or the shape of dy or the bias is wrong, or `out` is not a pair.
        DTypeError: a dtype is not supported, or an argument is not an array.
        LayoutError: out overlaps an argument partly, or is read-only.
        DeviceError: the arrays are on different devices.

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
@like(SHARED)
def residual_activation(
    x: Any, residual: Any, *, activation: str = "relu", return_saved: bool = False, out: Any = None, stream: Any = None
) -> Array:
    """Return an activation of x + residual, computed in one pass without rounding the sum.

    Args:
        x, residual: arrays of floats with the same shape and any strides.
        activation: the same as in `bias_activation`.

    Raises:
        OptionError: the activation is unknown.
        ShapeError: the shapes differ.

    Example:
        >>> elementwise.residual_activation(np.array([1.0, -3.0]), np.array([0.5, 1.0]), activation="relu")
        array([1.5, 0. ])
    """
    return _row(activation), _alike(x, residual, stream), out, None, stream


def residual_activation_backward(
    dy: Any, x: Any, residual: Any = None, *, activation: str = "relu", out: Any = None, stream: Any = None
) -> Array:
    """Return the gradient of residual_activation(x, residual) with respect to x, multiplied by dy.

    The gradient with respect to the residual is the same.

    Args:
        dy: array of floats with x's shape.
        x: the object saved by `residual_activation(..., return_saved=True)`. It holds x, residual and activation. Or x
            itself.
        residual, activation: the same values as in `residual_activation`, if no saved object is given. If you forget
            activation, the gradient is wrong and no error is raised.
        out: array that receives the result, like x. It may be dy itself (in place).

    Raises:
        OptionError: the activation is unknown, or an argument differs from the saved one.
        ShapeError: the shapes do not fit.
        DTypeError: a dtype is not supported, or an argument is not an array.
        LayoutError: out overlaps an argument partly, or is read-only.
        DeviceError: the arrays are on different devices.

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


def everyday_blocks_activations(matrix: Layout, row: Layout) -> Iterator[ElementwisePlan]:
    """Yield plans of calls, forward and backward, of the most common activations."""
    for activation in ("relu", "gelu", "gelu_tanh", "silu"):
        for other in (row, matrix):
            yield planned(_row(activation), (matrix, other))
            yield planned(_gradient(activation), (matrix, matrix, other))


@lru_cache(maxsize=64)
def _row(activation: str) -> Row:
    """Return the row of an activation of a sum."""
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
    """Return the row of the gradient of `_row` with respect to x."""
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
    """Return a scalar function that takes two more parameters instead of the last one, and uses their sum.

    It is generated as source text, since kernels do not support functions with a variable number of parameters.
    """
    module = getattr(function, "__module__", "")
    called = f"math.{function.__name__}" if module == "math" else "function"
    before = "dy, " if parameters.startswith("dy") else ""
    given = "".join(f", {option!r}" for option in options)
    space: dict[str, Any] = {"function": function, "math": math}
    exec(f"def of_sum({parameters}):\n    return {called}({before}x + other{given})\n", space)
    found: FunctionType = space["of_sum"]
    return found


# ---------------------------------------------------------------- rotary position embedding


def _rope(op: str, interleaved: bool, out: Layout | None, x: Layout, cos: Layout, sin: Layout) -> NumberedPlan:
    inputs, name = (x, cos, sin), "x" if op == "rope" else "dy"
    check_rank(x.shape, name)
    for array, own in zip(inputs, (name, "cos", "sin"), strict=True):
        check_same_device(array, own, x, name)
        if not info(array.dtype, own).is_float:
            raise DTypeError(f"{own} has dtype {array.dtype}; it must be one of {', '.join(FLOATS)}")
    if x.shape[-1] % 2:
        raise ShapeError(f"{name} has shape {x.shape}: rows of odd length cannot be split into pairs")
    half = x.shape[-1] // 2
    shape = (*x.shape[:-1], half)
    for array, own in ((cos, "cos"), (sin, "sin")):
        if broadcast_shapes([(own, array), (name, _half(x, shape))]) != shape:
            raise ShapeError(f"{own} has shape {array.shape}; it must broadcast to {shape}, the pairs of {name}")
    result = dense_like(x, x.shape)
    outputs = outputs_of(result, out)
    compute = str(info(x.dtype).compute)
    halves, targets = _pairs(x, half, interleaved), _pairs(outputs[0], half, interleaved)
    task = MapTask(
        op=f"elementwise.{op}",
        formula=BLOCKS[op],
        reference=partial(getattr(reference, op), compute=compute),
        names=(name, "cos", "sin", "out"),
        inputs=inputs,
        outputs=outputs,
        shape=shape,
        reads=(
            *(view(0, offset, strides, shape) for offset, strides in halves),
            *(view(k, 0, broadcast_strides(inputs[k], shape), shape) for k in (1, 2)),
        ),
        writes=tuple(view(0, offset, strides, shape) for offset, strides in targets),
        out_given=out is not None,
        compute=compute,
    )
    return NumberedPlan(task, ())


def _half(x: Layout, shape: tuple[int, ...]) -> Layout:
    """Return the layout of one element of each pair, for messages."""
    return Layout(shape, x.strides, x.dtype, x.device)


def _pairs(x: Layout, half: int, interleaved: bool) -> list[tuple[int, tuple[int, ...]]]:
    """Return (offset, strides) of the first elements of all pairs, and of the second ones."""
    step = x.strides[-1]
    if interleaved:
        return [(offset, (*x.strides[:-1], 2 * step)) for offset in (0, step)]
    return [(offset, x.strides) for offset in (0, half * step)]


@calls.planned(plans, "NumberedPlan", "x cos sin", make=_rope, keep="cos sin interleaved")
def rope(
    x: Any,
    cos: Any,
    sin: Any,
    *,
    interleaved: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Apply the rotary position embedding: each pair (a, b) in a row becomes (a cos - b sin, b cos + a sin).

    Source: Su et al. 2021 (arXiv:2104.09864).

    Args:
        x: array of float32, float64, float16 or bfloat16, with rank 1 to 8, any strides and rows of even length d. For
            example, queries or keys with shape (batch, heads, positions, d) or (batch, positions, heads, d).
        cos, sin: arrays of floats that broadcast to x's shape with d/2 instead of d: (positions, d/2), or
            (positions, 1, d/2) if heads come after positions. `rope_tables` returns them.
        interleaved: which elements form a pair. False for i and i + d/2, as in the implementations of GPT-NeoX and
            Llama. True for 2i and 2i + 1, as in the paper and GPT-J; this has half the speed in 16 bits.
        out: array that receives the result, like x. It may be x itself (in place).

    Returns:
        an array like x; `out` if given. With return_saved, (y, saved). 16-bit floats are computed in float32 and
        rounded once.

    Raises:
        ShapeError: the rank is wrong, rows have odd length, or shapes do not broadcast.
        DTypeError: an array does not hold floats.
        LayoutError: out overlaps an input partly, or is read-only.
        OptionError: interleaved or stream is invalid.
        DeviceError: the arrays are on different devices.

    Example:
        >>> elementwise.rope(np.array([1.0, 0.0]), np.array([0.0]), np.array([1.0]))
        array([0., 1.])
    """
    options = (checks.boolean(interleaved, "interleaved"),)
    return found(_rope, "rope", {"x": x, "cos": cos, "sin": sin}, options, out, stream)


@calls.planned(plans, "NumberedPlan", "dy cos sin", make=_rope, opens="cos sin interleaved")
def rope_backward(
    dy: Any, cos: Any, sin: Any = None, *, interleaved: bool = False, out: Any = None, stream: Any = None
) -> Array:
    """Return the gradient of rope(x, cos, sin) with respect to x, multiplied by dy: each pair is rotated back.

    Args:
        dy: array like x.
        cos: the object saved by `rope(..., return_saved=True)`. It holds cos, sin and interleaved. Or cos itself.
        sin, interleaved: the same values as in `rope`, if no saved object is given. If you forget interleaved, the
            gradient is wrong and no error is raised.
        out: array that receives the result, like dy. It may be dy itself (in place).

    Returns:
        dx, an array like dy; `out` if given.

    Raises:
        ShapeError: the rank is wrong, rows have odd length, or shapes do not broadcast.
        DTypeError: an array does not hold floats.
        LayoutError: out overlaps an input partly, or is read-only.
        OptionError: interleaved or stream is invalid, or an argument differs from the saved one.
        DeviceError: the arrays are on different devices.

    Example:
        >>> y, saved = elementwise.rope(np.ones(2), np.array([0.0]), np.array([1.0]), return_saved=True)
        >>> elementwise.rope_backward(np.array([0.0, 1.0]), saved)
        array([1., 0.])
    """
    if sin is None:
        raise ArgumentsError("sin is missing: call rope_backward(dy, saved), or give cos, sin and interleaved")
    options = (checks.boolean(interleaved, "interleaved"),)
    return found(_rope, "rope_backward", {"dy": dy, "cos": cos, "sin": sin}, options, out, stream)


def rope_tables(
    length: int,
    dim: int,
    *,
    base: float = 10000.0,
    first: int = 0,
    dtype: Any = "float32",
    device: int | str | None = None,
    stream: Any = None,
) -> tuple[Array, Array]:
    """Return the cosines and sines for `rope`: of the angles position · base^(-2i/d), for i = 0, 1, ..., d/2 - 1.

    Args:
        length: the number of positions.
        dim: d, the even length of a row.
        base: the base of the angles. A larger base gives longer periods. It must be above 0.
        first: the first position.
        dtype: a float dtype. The angles are computed in float64.

    Returns:
        (cos, sin), each with shape (length, d/2).

    Raises:
        OptionError: a number is not valid. DTypeError: dtype is not a float dtype.

    Example:
        >>> cos, sin = elementwise.rope_tables(16, 64)
        >>> cos.shape
        (16, 32)
    """
    rows, d = checks.integer(length, "length", 0), checks.integer(dim, "dim", 2)
    start, slow = checks.integer(first, "first"), checks.real(base, "base")
    if d % 2 or slow <= 0:
        raise OptionError(f"dim={d} must be even, and base={slow} above 0")
    position = arange(start, start + rows, dtype="float64", device=device, stream=stream)
    number = arange(d // 2, dtype="float64", device=device, stream=stream)
    rate = run(TABLE["multiply"].row, (number, -2.0 * math.log(slow) / d), None, None, stream)
    rate = run(TABLE["exp"].row, (rate,), None, None, stream)
    angle = run(TABLE["multiply"].row, (position[:, None], rate), None, None, stream)
    cos, sin = (run(TABLE[name].row, (angle,), None, None, stream) for name in ("cos", "sin"))
    return astype(cos, dtype, copy=False, stream=stream), astype(sin, dtype, copy=False, stream=stream)


def everyday_blocks_rope(queries: Layout, angles: Layout) -> Iterator[NumberedPlan]:
    """Yield plans of calls, forward and backward, with both kinds of pairs."""
    for op in ("rope", "rope_backward"):
        yield from (_rope(op, interleaved, None, queries, angles, angles) for interleaved in (False, True))


# ---------------------------------------------------------------- dropout


class DropoutPlan(MapPlan[Result]):
    """A planned dropout. Each run takes the probability, the seed and the offset."""

    def __call__(  # type: ignore[override]
        self, x: Any, p: float = 0.5, *, seed: int, offset: Any = 0, out: Any = None, stream: Any = None
    ) -> Result:
        """Run on arrays that have the layouts the plan was made for, with any scalars.

        Raises:
            LayoutError: an array has another layout. The other errors are the same as in `dropout`.
        """
        handle = handle_of(stream)
        inputs, numbers = _arrays(x, offset, handle), _numbers(p, seed, offset)
        outs = outs_of(out, handle)
        self._check_fit(inputs, outs)
        result: Result = self.run(inputs, outs, out, handle, self.passed(numbers))
        return result

    def passed(self, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the scalars in the form that executables, or the reference, expect."""
        if self.device < 0:
            return numbers
        return tuple(word for n, name in zip(numbers, self.task.scalars, strict=True) for word in words(n, name))


def _arrays(x: Any, offset: Any, handle: int) -> list[Any]:
    found = [operands.as_input(x, "x", handle)]
    return found if isinstance(offset, (int, np.integer)) else [*found, operands.as_input(offset, "offset", handle)]


def _numbers(p: Any, seed: Any, offset: Any) -> tuple[int, int, int, float]:
    """Return (seed, first group of words, the smallest word that is kept, 1 / (1 - p))."""
    dropped = checks.real(p, "p")
    if not 0.0 <= dropped <= 1.0:
        raise OptionError(f"p={p} is not a probability: it must be from 0 to 1")
    start = checks.integer(offset, "offset", 0, 2**62) if isinstance(offset, (int, np.integer)) else 0
    if start % 4:
        raise OptionError(f"offset={start} is not a multiple of 4: random words are generated in groups of four")
    key = checks.integer(seed, "seed", 0, 2**64 - 1)
    return key, start // 4, round(dropped * 2**32), 1.0 / (1.0 - dropped) if dropped < 1.0 else 0.0


def _plan(name: str, out: Layout | None, *inputs: Layout) -> DropoutPlan:
    x = inputs[0]
    check_rank(x.shape or (1,), "x")
    row = info(x.dtype, "x")
    if not row.is_float:
        raise DTypeError(f"x has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    for each in inputs[1:]:
        check_same_device(each, "offset", x, "x")
        if each.dtype != np.int64:
            raise DTypeError(f"offset has dtype {each.dtype}; an array must be int64")
        if each.size != 1:
            raise ShapeError(f"offset has shape {each.shape}; it must have one element")
    outputs = outputs_of(dense_like(x, x.shape), out)
    compute = str(row.compute)
    nowhere = (0,) * x.ndim
    task = MapTask(
        op=f"elementwise.{name}",
        formula=None,
        reference=partial(random.dropout, compute=compute),
        names=("x", *("offset",) * (len(inputs) - 1), "out"),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        reads=(view(0, 0, x.strides, x.shape), *(view(1, 0, nowhere, x.shape) for _ in inputs[1:])),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
        out_given=out is not None,
        order=dropout_order,
        compute=compute,
        scalars=("uint64", "uint64", "uint64", compute),
    )
    return DropoutPlan(task)


@calls.planned(plans, "DropoutPlan", "x", short=False, keep="p seed offset", call="plan(x, p, seed=..., offset=...)")
def dropout(
    x: Any,
    p: float = 0.5,
    *,
    seed: int,
    offset: Any = 0,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Set elements of x to 0 with probability p, and divide the others by 1 - p.

    Source: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".

    Element i, in C order, is dropped depending on word offset + i of the philox generator with this seed. The mask is
    the same as that of `numbacc.random.Generator("philox", seed).dropout_mask(p, x.shape)`, started at `offset`. The
    mask is not stored: `dropout_backward` computes it again. A dropped NaN becomes 0, too.

    Args:
        x: array of float32, float64, float16 or bfloat16, with up to 8 dimensions and any strides.
        p: the probability to drop an element, from 0 to 1, rounded to a multiple of 2^-32. With p = 1, the result is 0.
        seed: the seed of the sequence, from 0 to 2^64 - 1.
        offset: the start in the sequence, a multiple of 4 from 0 to 2^62. The next draw starts at offset + x.size,
            rounded up. Or an array of one int64 on x's device, which is rounded down. The GPU reads it when the kernel
            runs: if the array changes, a replayed graph drops other elements.
        out: array that receives the result, like x. It may be x itself (in place).

    Raises:
        OptionError: p, seed or offset is invalid.
        DTypeError: x does not hold floats, or offset is an array that is not int64.
        ShapeError: the rank is wrong, or offset does not have one element.
        LayoutError: out overlaps x partly, or is read-only.
        DeviceError: the arrays are on different devices.

    Example:
        >>> elementwise.dropout(np.ones(8), 0.5, seed=3)
        array([2., 0., 2., 2., 0., 2., 2., 0.])
    """
    arrays = {"x": x} if isinstance(offset, (int, np.integer)) else {"x": x, "offset": offset}
    plan, inputs, outs, handle, _ = found(_plan, "dropout", arrays, (), out, stream)
    return plan, inputs, outs, handle, plan.passed(_numbers(p, seed, offset))


def dropout_backward(
    dy: Any, p: Any = 0.5, *, seed: int | None = None, offset: Any = 0, out: Any = None, stream: Any = None
) -> Array:
    """Return the gradient of dropout(x) with respect to x: dy with the same elements dropped, divided by 1 - p.

    Args:
        dy: array of floats with x's shape.
        p: the object saved by `dropout(..., return_saved=True)`. It holds p, seed and offset. Or p itself.
        seed, offset: the same values as in `dropout`, if no saved object is given. If you forget p or offset, the
            gradient is wrong and no error is raised.
        out: array that receives the result, like dy. It may be dy itself (in place).

    Returns:
        dx, an array like dy; `out` if given.

    Raises:
        OptionError: p, seed or offset is invalid, or differs from the saved one.
        DTypeError: dy does not hold floats, or offset is an array that is not int64.
        ShapeError: the rank is wrong, or offset does not have one element.
        LayoutError: out overlaps dy partly, or is read-only.
        DeviceError: the arrays are on different devices.

    Example:
        >>> y, saved = elementwise.dropout(np.ones(8), 0.5, seed=3, return_saved=True)
        >>> elementwise.dropout_backward(np.ones(8), saved)
        array([2., 0., 2., 2., 0., 2., 2., 0.])
    """
    if isinstance(p, Saved):
        given = {"seed": seed, "offset": offset}
        p, seed, offset = p.opened("elementwise.dropout", given, {"seed": None, "offset": 0})
    if seed is None:
        raise ArgumentsError(
            "seed is missing: call dropout_backward(dy, saved), or give p, seed and offset as to dropout"
        )
    dx: Array = dropout(dy, p, seed=seed, offset=offset, out=out, stream=stream)
    return dx


def everyday_blocks_dropout(matrix: Layout) -> Iterator[DropoutPlan]:
    """Yield plans of calls whose offset is a scalar or on the GPU."""
    offset = layout((1,), (8,), np.dtype(np.int64), matrix.device)
    yield from (_plan("dropout", None, matrix), _plan("dropout", None, matrix, offset))
