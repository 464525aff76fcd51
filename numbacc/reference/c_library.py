"""The functions of `math` on NumPy arrays: NumPy's own, and those of the C library that NumPy has no name for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

__all__ = ["erf", "erfc", "fused", "gamma", "lgamma", "numpys", "of_math", "power", "product_rest", "remainder"]

#: What NumPy calls functions of `math` where it has another name for them.
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
    """`math.pow`. NumPy takes square roots if all exponents are 1/2; these differ at -0.0 and -infinity."""
    found: Array = np.power(base, exponent)
    is_half = np.equal(exponent, 0.5)
    if not is_half.any():
        return found
    return np.where(is_half & ((base == 0.0) | np.isinf(base)), np.abs(base), found)


def fused(x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once: in float64, or by way of the rounding errors of product and sum (Dekker 1971)."""
    if x.dtype == np.float32:
        return (x.astype(np.float64) * y + z).astype(np.float32)
    product = x * y
    error = product_rest(x, y, product)
    total = product + z
    other = total - product
    error = error + ((product - (total - other)) + (z - other))
    # Zeros have the sign of the sum.
    found = np.where(np.isfinite(error) & (error != 0), total + error, total)
    large = np.isinf(product) & np.isfinite(x) & np.isfinite(y)
    if not large.any():
        return found
    # z may be as large as the product, or infinite.
    scale = 2.0**-300
    return np.where(large, fused(x * scale, y * scale, z * scale * scale) / scale / scale, found)


def product_rest(x: Any, y: Any, product: Any) -> Any:
    """What rounding took from a product of float64 (Dekker 1971); NaN above 2^996."""
    a, b = _halves(x)
    c, d = (a, b) if y is x else _halves(y)
    return ((a * c - product) + a * d + b * c) + b * d


def _halves(x: Any) -> tuple[Any, Any]:
    """Two numbers of 26 bits each that add up to a float64."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def numpys(name: str) -> str | None:
    """What NumPy calls a function of `math`; None where it has none."""
    name = _NUMPYS.get(name, name)
    # NumPy's remainder is what Python writes as %.
    return name if name != "remainder" and isinstance(getattr(np, name, None), np.ufunc) else None


def of_math(name: str) -> Callable[..., Any] | None:
    """A function of `math` on arrays, without exceptions; None where there is none."""
    found = numpys(name)
    function: Callable[..., Any] | None = getattr(np, found) if found else _OWN.get(name)
    return function


@lru_cache(maxsize=8)
def _compiled(name: str) -> Callable[[Array], Array]:
    """A function of one number of the C library's as a ufunc, which Numba compiles in a fraction of a second."""
    # Compiled when it is called, imported here: numba takes longer to import than all the rest of numbacc.
    try:
        from numba import vectorize
    except ImportError:
        # Not on every machine; one element at a time takes a hundred times as long.
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
        except (ArithmeticError, ValueError) as error:  # it is too large, or there is a pole
            if name == "lgamma":
                return math.inf
            return math.nan if isinstance(error, ValueError) and x != 0 else math.copysign(math.inf, x)

    return call


def remainder(x: Array, y: Array) -> Array:
    """IEEE 754's: x less the multiple of y that is nearest, the even one of two."""
    size, step = np.abs(x), np.abs(y)
    above = np.fmod(size, step)
    below = step - above
    # Half way between two multiples the even one is found from twice the step.
    tied = above - 2.0 * np.fmod(0.5 * (size - above), step)
    found: Array = np.copysign(1.0, x) * np.where(above < below, above, np.where(above > below, -below, tied))
    return found


#: What NumPy has not.
_OWN: dict[str, Callable[..., Array]] = {
    "erf": erf,
    "erfc": erfc,
    "gamma": gamma,
    "lgamma": lgamma,
    "remainder": remainder,
}
