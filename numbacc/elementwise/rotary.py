"""Rotary position embedding: pairs of a row's elements turned by angles that grow with the position."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from ..arrays.operands import Array
from ..base import checks
from ..base.dtypes import FLOATS, info
from ..base.layout import Layout, check_rank, check_same_device, dense_like, view
from ..errors import ArgumentsError, DTypeError, OptionError, ShapeError
from ..kernels.elementwise.launch import MapTask
from ..kernels.elementwise.transformer import BLOCKS
from ..plan import calls
from ..reference import blocks as reference
from .calling import found, plans
from .casting import astype
from .operation import run
from .planning import NumberedPlan, broadcast_shapes, broadcast_strides, outputs_of
from .positions import arange
from .table import TABLE


def _rope(op: str, interleaved: bool, out: Layout | None, x: Layout, cos: Layout, sin: Layout) -> NumberedPlan:
    inputs, name = (x, cos, sin), "x" if op == "rope" else "dy"
    check_rank(x.shape, name)
    for array, own in zip(inputs, (name, "cos", "sin"), strict=True):
        check_same_device(array, own, x, name)
        if not info(array.dtype, own).is_float:
            raise DTypeError(f"{own} has dtype {array.dtype}; it must be one of {', '.join(FLOATS)}")
    if x.shape[-1] % 2:
        raise ShapeError(f"{name} has shape {x.shape}: rows of odd length have no pairs")
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
    """The layout of one element of each pair, for messages."""
    return Layout(shape, x.strides, x.dtype, x.device)


def _pairs(x: Layout, half: int, interleaved: bool) -> list[tuple[int, tuple[int, ...]]]:
    """(offset, strides) of the first elements of all pairs, and of the second ones."""
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
    """Rotary position embedding: (a, b) -> (a cos - b sin, b cos + a sin), of pairs (a, b) in each row.

    Source: Su et al. 2021 (arXiv:2104.09864).

    Args:
        x: array of float32, float64, float16 or bfloat16, rank 1 to 8, any strides, rows of even length d: queries or
            keys, of shape (batch, heads, positions, d) or (batch, positions, heads, d), say.
        cos, sin: arrays of floats that broadcast to x's shape with d/2 in the place of d: (positions, d/2), or
            (positions, 1, d/2) where heads come behind positions. `rope_tables` makes them.
        interleaved: which elements are a pair: i and i + d/2 (False, as GPT-NeoX and Llama's implementations have it),
            or 2i and 2i + 1 (as in the paper and GPT-J; half the speed in 16 bits).
        return_saved: whether to return a second object, which carries cos, sin and interleaved to
            `rope_backward(dy, saved)`.
        out: array for the result, like x. It may be x itself: in place.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        an array like x; `out` if given. With return_saved (y, saved). 16-bit floats are computed in float32 and rounded
        once.

    Raises:
        ShapeError: rank, a row of odd length, what does not broadcast. DTypeError: not of floats. LayoutError: out
        overlaps in part, or is read-only. OptionError: interleaved, stream. DeviceError: several devices.

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
    """The gradient with respect to x, given dy, that with respect to rope(x): each pair is turned back.

    Args:
        dy: array as x.
        cos: the saved object of `rope(..., return_saved=True)`, as in `rope_backward(dy, saved)`. It holds cos, sin and
            interleaved. Or cos itself, with
        sin, interleaved: the same as in `rope`. If interleaved is forgotten, the gradient is wrong and nothing reports
            it.
        out, stream: as in `rope`, and so are the errors.

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
    """Cosines and sines of the angles of `rope`: position · base^(-2i/d), i = 0, 1, ..., d/2 - 1.

    Args:
        length: how many positions.
        dim: d, the even length of a row.
        base: what the slowest angle's period grows with; above 0.
        first: the first position.
        dtype: a float's; angles are computed in float64.
        device, stream: as in `numbacc.empty`.

    Returns:
        (cos, sin), each of shape (length, d/2).

    Raises:
        OptionError: what is no such number. DTypeError: dtype is not a float's.

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


def everyday_blocks(queries: Layout, angles: Layout) -> Iterator[NumberedPlan]:
    """Plans of calls forward and backward, by both kinds of pairs."""
    for op in ("rope", "rope_backward"):
        yield from (_rope(op, interleaved, None, queries, angles, angles) for interleaved in (False, True))
