"""Provide functions that NumPy lacks, of the C library (`math`) and others; and compute large arrays piece by piece."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: Functions of `math` -> NumPy's names, if they differ.
_NUMPYS = {
    "acos": "arccos", "asin": "arcsin", "atan": "arctan", "acosh": "arccosh", "asinh": "arcsinh", "atanh": "arctanh",
    "atan2": "arctan2", "pow": "power",
}  # fmt: skip


def erf(x: Array) -> Array:
    return _compiled("erf")(x)


def erfc(x: Array) -> Array:
    return _compiled("erfc")(x)


def gamma(x: Array) -> Array:
    return _compiled("gamma")(x)


def lgamma(x: Array) -> Array:
    return _compiled("lgamma")(x)


def power(base: Array, exponent: Array) -> Array:
    """Return `math.pow`. NumPy takes square roots if all exponents are 1/2; these differ at -0.0 and -infinity."""
    found: Array = np.power(base, exponent)
    is_half = np.equal(exponent, 0.5)
    if not is_half.any():
        return found
    return np.where(is_half & ((base == 0.0) | np.isinf(base)), np.abs(base), found)


def fused(x: Any, y: Any, z: Any) -> Any:
    """Return x y + z, rounded once: through float64, or with the rounding errors of product and sum (Dekker 1971)."""
    if x.dtype == np.float32:
        return (x.astype(np.float64) * y + z).astype(np.float32)
    product = x * y
    error = product_rest(x, y, product)
    total = product + z
    other = total - product
    error = error + ((product - (total - other)) + (z - other))
    # A zero gets the sign of the sum.
    found = np.where(np.isfinite(error) & (error != 0), total + error, total)
    large = np.isinf(product) & np.isfinite(x) & np.isfinite(y)
    if not large.any():
        return found
    # z may be as large as the product, or infinite.
    scale = 2.0**-300
    return np.where(large, fused(x * scale, y * scale, z * scale * scale) / scale / scale, found)


def product_rest(x: Any, y: Any, product: Any) -> Any:
    """Return the rounding error of a float64 product (Dekker 1971); NaN above 2^996."""
    a, b = _halves(x)
    c, d = (a, b) if y is x else _halves(y)
    return ((a * c - product) + a * d + b * c) + b * d


def _halves(x: Any) -> tuple[Any, Any]:
    """Split a float64 into two numbers of 26 bits each, whose sum it is."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def reciprocal_root(x: Array) -> Array:
    return 1 / np.sqrt(x)


_PSI = (0, 1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_BERNOULLI = (1, 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def digamma(x: Array) -> Array:
    """Compute ψ(x); see `functions.digamma.digamma`."""
    reflected = x < 0
    # The distance to the nearest pole is exact.
    distance = x - np.rint(x)
    shift = np.where(reflected, -math.pi / np.tan(math.pi * distance), 0)
    y = np.where(reflected, 1 - x, x)
    for _ in range(10):
        low = y < 10
        shift = shift - np.where(low, 1 / y, 0)
        y = np.where(low, y + 1, y)
    found = shift + (np.log(y) - 0.5 / y - np.polynomial.polynomial.polyval(1 / (y * y), _PSI))
    found = np.where(reflected & (distance == 0), math.nan, found)
    return np.where(x == 0, np.copysign(math.inf, -x), found)


def trigamma(x: Array) -> Array:
    """Compute ψ'(x); see `functions.digamma.trigamma`."""
    reflected = x < 0.5
    root = math.pi / np.sin(math.pi * (x - np.rint(x)))
    y, total = np.where(reflected, 1 - x, x), np.zeros_like(x)
    for _ in range(10):
        low = y < 10
        total = total + np.where(low, 1 / (y * y), 0)
        y = np.where(low, y + 1, y)
    total = total + (np.polynomial.polynomial.polyval(1 / (y * y), _BERNOULLI) + 0.5 / y) / y
    return np.where(reflected, root * root - total, total)


def inverse_error(x: Array) -> Array:
    """Return y with erf(y) = x, by Winitzki's approximation (2008) and then Newton's method in float64.

    Near 1, the exact distance to 1 is used, because erf would cancel.
    """
    z = np.asarray(x, np.float64)
    size = np.abs(z)
    inside = np.where(size < 1, size, 0)
    log = np.log1p(-inside * inside)
    first = 4.3307 + 0.5 * log
    y = np.sqrt(np.sqrt(first * first - log / 0.147) - first)
    for _ in range(4):
        wrong = np.where(inside < 0.5, erf(y) - inside, 1 - inside - erfc(y))
        y = y - wrong * 0.886226925452758 * np.exp(y * y)
    y = np.where(size < 1, y, np.where(size == 1, math.inf, math.nan))
    found: Array = np.copysign(y, z).astype(x.dtype)
    return found


def numpys(name: str) -> str | None:
    """Return NumPy's name for a function of `math`; None if NumPy lacks it."""
    name = _NUMPYS.get(name, name)
    # NumPy's remainder is Python's %.
    return name if name != "remainder" and isinstance(getattr(np, name, None), np.ufunc) else None


def of_math(name: str) -> Callable[..., Any] | None:
    """Return a function of `math` for arrays that raises no exceptions; None if `math` lacks it."""
    found = numpys(name)
    function: Callable[..., Any] | None = getattr(np, found) if found else _OWN.get(name)
    return function


@lru_cache(maxsize=8)
def _compiled(name: str) -> Callable[[Array], Array]:
    """Return a function of the C library as a ufunc. Numba compiles it in a fraction of a second."""
    # Imported and compiled only here: Numba takes longer to import than all the rest of numbacc.
    try:
        from numba import vectorize
    except ImportError:
        # Not every machine has Numba. One element at a time takes a hundred times as long.
        elementwise = np.vectorize(_without_exceptions(name), otypes=[np.float64])
        return lambda x: elementwise(x).astype(np.asarray(x).dtype)
    function = getattr(math, name)
    ufunc: Callable[[Array], Array] = vectorize(["float32(float32)", "float64(float64)"])(lambda x: function(x))
    return ufunc


def _without_exceptions(name: str) -> Callable[[float], float]:
    function = getattr(math, name)

    def call(x: float) -> float:
        try:
            return function(x)  # type: ignore[no-any-return]
        except (ArithmeticError, ValueError) as error:  # the result is too large, or x is a pole
            if name == "lgamma":
                return math.inf
            return math.nan if isinstance(error, ValueError) and x != 0 else math.copysign(math.inf, x)

    return call


def remainder(x: Array, y: Array) -> Array:
    """Return IEEE 754's remainder: x minus the nearest multiple of y; of two, the even multiple."""
    size, step = np.abs(x), np.abs(y)
    above = np.fmod(size, step)
    below = step - above
    # Half way between two multiples, twice the step shows which one is even.
    tied = above - 2.0 * np.fmod(0.5 * (size - above), step)
    found: Array = np.copysign(1.0, x) * np.where(above < below, above, np.where(above > below, -below, tied))
    return found


#: Functions that NumPy lacks.
_OWN: dict[str, Callable[..., Array]] = {
    "erf": erf,
    "erfc": erfc,
    "gamma": gamma,
    "lgamma": lgamma,
    "remainder": remainder,
}


# ---------------------------------------------------------------- large arrays

#: Elements that are computed at a time, so that the temporary arrays stay in the processor's cache.
_PIECE = 1 << 15


def in_pieces(function: Callable[..., tuple[Array, ...]], *operands: Array) -> tuple[Array, ...]:
    """Return `function(*operands)` of an elementwise function, computed for some elements at a time."""
    first = operands[0]
    if first.size <= _PIECE:
        return function(*operands)
    # Cut along the outermost dimension that is longer than 1.
    axis = max((d for d in range(first.ndim) if first.shape[d] > 1), key=lambda d: abs(first.strides[d]))
    step = max(_PIECE * first.shape[axis] // first.size, 1)
    results: tuple[Array, ...] = ()
    for start in range(0, first.shape[axis], step):
        part = (*[slice(None)] * axis, slice(start, start + step))
        made = in_pieces(function, *(x[part] for x in operands))
        results = results or tuple(np.empty(first.shape, y.dtype) for y in made)
        for whole, piece in zip(results, made, strict=True):
            whole[part] = piece
    return results
