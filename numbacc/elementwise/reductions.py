"""Reductions of arrays over one or several axes: sums and means, extremes and their indices, any and all, norms.

    f(x, *, axis=None, keepdims=False, out=None, stream=None)

`axis` is an integer, a tuple of integers, or None for all axes. A reduced axis is removed, or kept with length 1 if
`keepdims` is True. The order of merging depends only on shapes and strides: the same inputs give the same bits on every
run. Sums are merged as a tree, so that their error grows with the logarithm of the length.

Functions with additional options are written here. The others are made from `kernels.reduce.functions.FUNCTIONS`.
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
    """Return the variance Σ |x - x̄|² / max(n - correction, 0), where x̄ is the mean, and NaN for no elements.

    Args:
        x: array of floats (16 bits or wider), complex numbers, integers or bool, with rank 0 to 8 and any strides.
            Integers and bool are converted to float64.
        axis: the axes to reduce: an integer, a tuple of integers, or None for all axes.
        keepdims: True to keep the reduced axes, with length 1.
        dtype: the dtype of the result and of the arithmetic; 16-bit floats are computed in float32. By default, it is
            x's dtype; for bool and integers float64. It must be None for complex numbers.
        correction: the number to subtract from n: 0 for the variance of these numbers, 1 to estimate the variance of a
            larger population from a sample.
        out: array that receives the result. It has the result's shape, dtype and device, and must not share memory with
            x.

    Returns:
        the variance: a device array if x is one, a NumPy array if x is one; `out` if given. It is real for complex
        numbers. With return_saved, (y, saved).

    Raises:
        ShapeError: the rank, the axis or the shape of out is wrong.
        DTypeError: x is not an array, or has a dtype not named above.
        OptionError: correction, keepdims, return_saved or stream is invalid.

    The variance is merged from the counts, means and squares of parts, which is numerically stable. Source: Chan, Golub
    and LeVeque 1983, "Algorithms for computing the sample variance".

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
    """Return the standard deviation, the square root of `var`.

    Args:
        x: array of floats (16 bits or wider), complex numbers, integers or bool, with rank 0 to 8 and any strides.
            Integers and bool are converted to float64.
        correction: the number to subtract from n: 0 for the deviation of these numbers, 1 to estimate the deviation of
            a larger population from a sample.

    Returns:
        the deviation: a device array if x is one, a NumPy array if x is one; `out` if given. It is real for complex
        numbers. With return_saved, (y, saved).

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
    """Return the vector norm (Σ |x|^p)^(1/p) of order p, as `numpy.linalg.norm` does for vectors.

    Args:
        x: array of floats (16 bits or wider), complex numbers, integers or bool, with rank 0 to 8 and any strides.
            Integers and bool are converted to float64.
        ord: p, any number. math.inf gives max |x|, -math.inf gives min |x|, and 0 gives the number of nonzero elements.

    Returns:
        the norm: a device array if x is one, a NumPy array if x is one; `out` if given. It is real for complex numbers.
        For no elements, it is 0, or infinite for a negative order. With return_saved, (y, saved).

    Raises:
        ShapeError: the rank, the axis or the shape of out is wrong; or ord is -math.inf and there are no elements.
        OptionError: ord, keepdims, return_saved or stream is invalid.

    Powers are not scaled: in float32, squares overflow for |x| above 1.8e19.

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
    """Return log Σ e^x, and -inf for no elements. The exponentials do not overflow.

    Args:
        x: array of floats (16 bits or wider), integers or bool, with rank 0 to 8 and any strides. It is read once.

    Returns:
        an array of x's dtype, or of float64 for integers and bool; `out` if given. With return_saved, (y, saved).

    Raises:
        OptionError: keepdims, return_saved or stream is invalid.

    Example:
        >>> elementwise.logsumexp(np.array([1000.0, 1000.0]))
        array(1000.69314718)
    """
    return found("logsumexp", x, axis, keepdims, out, stream)


@_reduced()
def argmax(x: Any, *, axis: int | None = None, keepdims: bool = False, out: Any = None, stream: Any = None) -> Array:
    """Return the index of the largest element along an axis.

    Args:
        x: array of floats (16 bits or wider), integers or bool, with rank 0 to 8 and any strides.
        axis: the axis to reduce. With None, all axes are reduced, and the index counts elements in C order.
        keepdims: True to keep the reduced axes, with length 1.
        out: array that receives the result. It has the result's shape, dtype and device, and must not share memory with
            x.

    Returns:
        the index, with dtype int64: a device array if x is one, a NumPy array if x is one; `out` if given.

    Raises:
        ShapeError: the rank, the axis or the shape of out is wrong; or there are no elements.
        DTypeError: x is not an array, or has a dtype not named above.
        OptionError: keepdims or stream is invalid.

    NaN counts as the largest value. If several elements are equal, the first one is chosen.

    Example:
        >>> elementwise.argmax(np.array([[1.0, 5.0], [3.0, 4.0]]))
        array(1)
    """
    return found("argmax", x, axis, keepdims, out, stream)


@_reduced()
@like(argmax)
def argmin(x: Any, *, axis: int | None = None, keepdims: bool = False, out: Any = None, stream: Any = None) -> Array:
    """Return the index of the smallest element along an axis.

    Args:
        x: array of floats (16 bits or wider), integers or bool, with rank 0 to 8 and any strides.

    Returns:
        the index, with dtype int64: a device array if x is one, a NumPy array if x is one; `out` if given.

    NaN counts as the smallest value. If several elements are equal, the first one is chosen.

    Example:
        >>> elementwise.argmin(np.array([[1.0, 5.0], [3.0, 4.0]]))
        array(0)
    """
    return found("argmin", x, axis, keepdims, out, stream)
