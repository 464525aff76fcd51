"""Reductions in NumPy: sums, means, products, extremes, any and all, variances and norms over any axes.

The reduced axes are moved to the end, where NumPy's sums are pairwise: their error grows with the logarithm of the
length. 16-bit floats are computed in float32 and rounded once, when the result is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast

Array = NDArray[Any]
Reduced = Callable[..., Array]


def rows_of(x: Array, axes: tuple[int, ...], compute: str) -> Array:
    """Convert x to a dtype, and merge its axes `axes` (in order) into one contiguous last axis."""
    kept = tuple(d for d in range(x.ndim) if d not in axes)
    lengths = tuple(x.shape[d] for d in kept)
    count = math.prod(x.shape[d] for d in axes)
    return np.ascontiguousarray(cast(x.transpose((*kept, *axes)).reshape((*lengths, count)), np.dtype(compute)))


def of_rows(function: Reduced) -> Reduced:
    """Make a function of rows accept (x, axes, compute, ...)."""

    @wraps(function)
    def reduced(x: Array, axes: tuple[int, ...], compute: str, *options: Any) -> Array:
        # The definitions include overflow and NaN, so NumPy's warnings are suppressed.
        with np.errstate(all="ignore"):
            return np.asarray(function(rows_of(x, axes, compute), *options))

    return reduced


def total(rows: Array) -> Array:
    """Return Σ x; 0 for an empty row."""
    return np.asarray(rows.sum(axis=-1, dtype=rows.dtype))


def mean(rows: Array) -> Array:
    """Return Σ x / n; NaN for an empty row."""
    return np.asarray(total(rows) / rows.real.dtype.type(rows.shape[-1]))


def product(rows: Array) -> Array:
    """Return Π x, computed pairwise; 1 for an empty row."""
    if not rows.shape[-1]:
        return np.ones(rows.shape[:-1], rows.dtype)
    while (count := rows.shape[-1]) > 1:
        pairs = rows[..., 0 : count - 1 : 2] * rows[..., 1::2]
        rows = np.concatenate([pairs, rows[..., -1:]], axis=-1) if count % 2 else pairs
    return rows[..., 0]


def _middle(rows: Array) -> Array:
    """Return the mean; for equal numbers the number itself, so that rounding of the mean causes no variance."""
    found = mean(rows)
    if not rows.shape[-1]:
        return found
    first = rows[..., 0]
    return np.where(np.isfinite(first) & (rows == first[..., np.newaxis]).all(axis=-1), first, found)


def variance(rows: Array, correction: float) -> Array:
    """Return Σ |x - mean|² / max(n - correction, 0), in two passes; NaN for an empty row."""
    squares = _squares(rows - _middle(rows)[..., np.newaxis])
    return np.asarray(total(squares) / squares.dtype.type(max(rows.shape[-1] - correction, 0.0)))


def _squares(rows: Array) -> Array:
    """Return x², or |x|² for complex numbers."""
    return np.square(rows.real) + np.square(rows.imag) if rows.dtype.kind == "c" else rows * rows


def norm(rows: Array, order: float) -> Array:
    """Return (Σ |x|^order)^(1/order); max |x| for infinity, min |x| for -infinity, the number of nonzeros for 0."""
    if order == 2:
        return np.asarray(np.sqrt(total(_squares(rows))))
    sizes = np.abs(rows)
    if order == 1:
        return total(sizes)
    if math.isinf(order):
        return np.asarray(sizes.max(axis=-1, initial=0.0) if order > 0 else sizes.min(axis=-1, initial=math.inf))
    if order == 0:
        return total((sizes != 0).astype(sizes.dtype))
    exponent = sizes.dtype.type(order)
    return np.asarray(total(sizes**exponent) ** (1 / exponent))


def _base(rows: Array) -> Array:
    """Return the largest number of each row as the base of exponents."""
    largest = rows.max(axis=-1, initial=-math.inf)
    # Infinity minus infinity would be NaN.
    return np.asarray(np.where(np.isfinite(largest), largest, rows.dtype.type(0)))


def log_sum(rows: Array) -> tuple[Array, Array]:
    """Return (base, log Σ e^(x - base)) separately: in their sum, large numbers would round away the logarithm."""
    base = _base(rows)
    return base, np.log(total(np.exp(rows - base[..., np.newaxis])))


def logsumexp(rows: Array) -> Array:
    """Return log Σ e^x, relative to the largest x; -inf for an empty row."""
    base, logarithm = log_sum(rows)
    return np.asarray(logarithm + base)


def log_sum_and_mean(x: Array, axes: tuple[int, ...], compute: str) -> tuple[Array, Array, Array]:
    """Return (base, log Σ e^(x - base), the mean of x - base divided by 2^40, so that it is finite)."""
    with np.errstate(all="ignore"):
        rows, part = rows_of(x, axes, compute), np.dtype(compute).type(2.0**-40)
        base, logarithm = log_sum(rows)
        return base, logarithm, mean(rows * part - (base * part)[..., np.newaxis])


def mean_of_counted(values: Array, targets: Array, ignored: int) -> Array:
    """Return the mean of the values whose target is not ignored."""
    counts = targets != ignored
    with np.errstate(all="ignore"):
        return np.asarray(total(np.where(counts, values, 0).reshape(-1)) / values.dtype.type(counts.sum()))


def ties(rows: Array, best: Array) -> tuple[Array, Array]:
    """Return (the best of each row, how many elements equal it); all NaN count as equal."""
    wanted = best[..., np.newaxis]
    equal = (rows == wanted) | (np.isnan(rows) & np.isnan(wanted))
    return best, equal.sum(axis=-1, dtype=rows.dtype)


def of_pairs(function: Callable[..., tuple[Array, Array]]) -> Callable[..., tuple[Array, ...]]:
    """Do what `of_rows` does, for a function with two results."""

    @wraps(function)
    def reduced(x: Array, axes: tuple[int, ...], compute: str, *options: Any) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return tuple(map(np.asarray, function(rows_of(x, axes, compute), *options)))

    return reduced


#: The pairs of totals that gradients use, in the form of `FUNCTIONS`.
PAIRS: dict[str, Callable[..., tuple[Array, ...]]] = {
    "mean_std": of_pairs(lambda rows, correction: (_middle(rows), np.sqrt(variance(rows, correction)))),
    "log_sum": of_pairs(log_sum),
    "max_ties": of_pairs(lambda rows: ties(rows, rows.max(axis=-1))),
    "min_ties": of_pairs(lambda rows: ties(rows, rows.min(axis=-1))),
    "norm_ties": of_pairs(lambda rows: ties(np.abs(rows), norm(rows, math.inf))),
    "norm_least_ties": of_pairs(lambda rows: ties(np.abs(rows), norm(rows, -math.inf))),
}
#: Function -> its definition: (x, axes, name of the dtype of the computation, ...) -> the result.
FUNCTIONS: dict[str, Reduced] = {
    "sum": of_rows(total),
    "mean": of_rows(mean),
    "prod": of_rows(product),
    "max": of_rows(lambda rows: rows.max(axis=-1)),
    "min": of_rows(lambda rows: rows.min(axis=-1)),
    "argmax": of_rows(lambda rows: rows.argmax(axis=-1)),
    "argmin": of_rows(lambda rows: rows.argmin(axis=-1)),
    "any": of_rows(lambda rows: (rows != 0).any(axis=-1)),
    "all": of_rows(lambda rows: (rows != 0).all(axis=-1)),
    "var": of_rows(variance),
    "std": of_rows(lambda rows, correction: np.sqrt(variance(rows, correction))),
    "norm": of_rows(norm),
    "logsumexp": of_rows(logsumexp),
}
