"""Reductions of arrays over one axis, several or all: sums and means, extremes and where they are, truth, norms.

    f(x, *, axis=None, keepdims=False, out=None, stream=None)

`axis` is None for all axes, an integer, or a tuple of them; an axis that is reduced goes, or with `keepdims` has length
1. The order in which numbers are merged is fixed by shapes and strides: the same inputs give the same bits on every
run. Sums are merged as a tree, so that their error grows with the logarithm of the length.

The functions with options of their own are written here. The others are made of `kernels.reduce.functions.FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..arrays.operands import Array
from ..base.docstrings import like
from ..kernels.reduce.functions import FUNCTIONS, ReductionFunction
from ..plan.calls import planned
from .calling import compiled, plans
from .reduction_plan import WITH_DTYPE, correction_of, found, made, order_of
from .type_promotion import dtype_of

__all__ = [*FUNCTIONS, "argmax", "argmin", "logsumexp", "norm", "std", "var"]

_reduced = partial(planned, plans, "ReducePlan", "x", make=made, forms={"dtype": dtype_of})

_DTYPES = {"total": "bool and signed integers int64, for unsigned integers uint64", "mean": "bool and integers float64"}
_RETURNED = {"keep": ", with x's dtype", "bool": ", with dtype bool"}


def _function(described: ReductionFunction) -> Any:
    """Return the public function of a description."""
    name, has_dtype = described.name, described.name in WITH_DTYPE
    source = (
        f"def {name}(\n    x: Any, *, axis: int | Sequence[int] | None = None, "
        f"{'dtype: Any = None, ' if has_dtype else ''}keepdims: bool = False, out: Any = None, stream: Any = None\n"
        ") -> Array:\n"
        f"    return found({name!r}, x, axis, keepdims, out, stream{', dtype_of(dtype)' if has_dtype else ''})\n"
    )
    body = compiled(name, source, {"found": found, "dtype_of": dtype_of})[name]
    body.__doc__ = _text(described)
    return _reduced()(body)


def _text(described: ReductionFunction) -> str:
    """Return the docstring of a description."""
    kinds = "integers, complex numbers or bool" if described.takes_complex else "integers or bool"
    arguments, printed = described.example
    lines = [
        described.says,
        "",
        "Args:",
        f"    x: array of floats (16 bits or wider), {kinds}, with rank 0 to 8 and any strides.",
        "    axis: the axes to reduce: an integer, a tuple of integers, or None for all axes.",
        "    keepdims: True to keep the reduced axes, with length 1.",
    ]
    if described.name in WITH_DTYPE:
        lines += [
            "    dtype: the dtype of the result and of the arithmetic; 16-bit floats are computed in float32. By",
            f"        default, it is x's dtype; for {_DTYPES[described.rule]}.",
        ]
    lines += [
        "    out: array that receives the result. It has the result's shape, dtype and device, and must not share",
        "        memory with x.",
        "",
        "Returns:",
        f"    the result{_RETURNED.get(described.rule, '')}: a device array if x is one, a NumPy array if x is one; "
        "`out` if given.",
        "",
        "Raises:",
        "    ShapeError: the rank, the axis or the shape of out is wrong"
        + ("; or there are no elements." if described.needs_elements else "."),
        "    DTypeError: x is not an array, or has a dtype not named above.",
        "    OptionError: keepdims or stream is invalid.",
        "",
        *([described.more, ""] if described.more else []),
        "Example:",
        f"    >>> elementwise.{described.name}({arguments})",
        *(f"    {line}" for line in printed.splitlines()),
    ]
    return "\n".join(lines) + "\n"


globals().update({name: _function(described) for name, described in FUNCTIONS.items()})
sum: Any  # other modules import it


@_reduced(keep="x axis correction keepdims")
def var(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    dtype: Any = None,
    correction: float = 0,
    keepdims: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Σ |x - x̄|² / max(n - correction, 0), with the mean x̄: the variance; NaN of nothing.

    Args:
        x: array of floats of 16 bits and more, complex numbers, integers or bool (both taken for float64), rank 0 to 8,
            any strides.
        axis: the axes that are reduced: None for all, an integer, or a tuple of integers.
        keepdims: True if these axes stay, with length 1.
        dtype: the result's dtype, which is also computed in, but float32 for 16-bit floats. By default x's; of bool and
            integers float64. Not of complex numbers.
        correction: what is subtracted from n: 0 for the variance of these numbers, 1 for an estimate of that of a
            larger set that they were drawn from.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.

    Returns:
        the variance, as `sum` returns it; of complex numbers real. With return_saved, (y, saved).

    Raises:
        ShapeError: rank, axis, shape of out.
        DTypeError: a dtype not named above, not an array.
        OptionError: correction, keepdims, return_saved or stream.

    It is merged from the counts, means and squares of parts, which is stable: Chan, Golub and LeVeque 1983, "Algorithms
    for computing the sample variance".

    Example:
        >>> elementwise.var(np.array([[1.0, 2.0], [3.0, 4.0]]), correction=1, axis=1)
        array([0.5, 0.5])
    """
    return found("var", x, axis, keepdims, out, stream, dtype_of(dtype), correction_of(correction))


@_reduced(keep="x axis correction keepdims")
@like(var)
def std(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    dtype: Any = None,
    correction: float = 0,
    keepdims: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The square root of `var`: the standard deviation.

    Args:
        x: array of floats of 16 bits and more, complex numbers, integers or bool (both taken for float64), rank 0 to 8,
            any strides.
        correction: what is subtracted from n: 0 for the deviation of these numbers, 1 for an estimate of that of a
            larger set that they were drawn from.

    Returns:
        the deviation, as `sum` returns it; of complex numbers real. With return_saved, (y, saved).

    Example:
        >>> elementwise.std(np.array([[1.0, 2.0], [3.0, 6.0]]))
        array(1.87082869)
    """
    return found("std", x, axis, keepdims, out, stream, dtype_of(dtype), correction_of(correction))


@_reduced(keep="x axis ord keepdims")
@like(var)
def norm(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    ord: float = 2,
    keepdims: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """The vector norm (Σ |x|^p)^(1/p) of the order p, as `numpy.linalg.norm` has it of vectors.

    Args:
        x: array of floats of 16 bits and more, complex numbers, integers or bool (both taken for float64), rank 0 to 8,
            any strides.
        ord: p: any number. math.inf is for max |x|, -math.inf for min |x|, 0 for how many are not 0.

    Returns:
        the norm, as `sum` returns it; of complex numbers real. Of nothing 0, infinity of a negative order.
        With return_saved, (y, saved).

    Raises:
        ShapeError: rank, axis, shape of out; -math.inf of nothing.
        OptionError: ord, keepdims, return_saved or stream.

    Powers are not scaled: squares of float32 overflow beyond 1.8e19.

    Example:
        >>> elementwise.norm(np.array([3.0, -4.0]))
        array(5.)
        >>> elementwise.norm(np.array([3.0, -4.0]), ord=1)
        array(7.)
    """
    return found("norm", x, axis, keepdims, out, stream, order_of(ord))


@_reduced(keep="x axis keepdims")
@like(var)
def logsumexp(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """log Σ e^x, without overflow between; -inf of nothing.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides. It is read once.

    Returns:
        an array of x's dtype, float64 of integers and bool; `out` if given. With return_saved, (y, saved).

    Raises:
        OptionError: keepdims, return_saved or stream.

    Example:
        >>> elementwise.logsumexp(np.array([1000.0, 1000.0]))
        array(1000.69314718)
    """
    return found("logsumexp", x, axis, keepdims, out, stream)


@_reduced()
def argmax(x: Any, *, axis: int | None = None, keepdims: bool = False, out: Any = None, stream: Any = None) -> Array:
    """The index of the largest number.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides.
        axis: the axis that is reduced; None for all: the index is then that into the elements in C order.
        keepdims: True if what is reduced stays, with length 1.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.

    Returns:
        the index, int64, as `max` returns it.

    Raises:
        ShapeError: rank, axis, shape of out; nothing is reduced.
        DTypeError: a dtype not named above, not an array.
        OptionError: keepdims or stream.

    NaN counts as largest. Of equal numbers the first counts.

    Example:
        >>> elementwise.argmax(np.array([[1.0, 5.0], [3.0, 4.0]]))
        array(1)
    """
    return found("argmax", x, axis, keepdims, out, stream)


@_reduced()
@like(argmax)
def argmin(x: Any, *, axis: int | None = None, keepdims: bool = False, out: Any = None, stream: Any = None) -> Array:
    """The index of the smallest number.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides.

    Returns:
        the index, int64, as `max` returns it.

    NaN counts as smallest. Of equal numbers the first counts.

    Example:
        >>> elementwise.argmin(np.array([[1.0, 5.0], [3.0, 4.0]]))
        array(0)
    """
    return found("argmin", x, axis, keepdims, out, stream)
