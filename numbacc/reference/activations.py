"""Activation functions in NumPy, as torch defines them, and a few functions that NumPy lacks.

All accept arrays of the dtype of the computation, and scalars. `functions.activations` lists the sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .c_library import fused, product_rest
from .gated import geglu_gate, geglu_tanh_gate, in_double, sigmoid, sigmoids_beside, swiglu_gate

# NumPy's annotations return Any for arguments of type Any.
Array = Any

__all__ = ["fused", "geglu_gate", "geglu_tanh_gate", "sigmoid", "swiglu_gate"]

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def leaky_relu(x: Array, slope: float) -> Array:
    return np.where(x > 0, x, x * slope)


def prelu(x: Array, weight: Array) -> Array:
    return np.where(x > 0, x, weight * x)


def hardtanh(x: Array, low: float, high: float) -> Array:
    # Zeros have the same sign as on a GPU: for x = -0.0 and a bound of 0, the result is the bound.
    return np.where(x <= low, low, np.where(x >= high, high, x))


def relu6(x: Array) -> Array:
    return hardtanh(x, 0, 6)


def elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


def selu(x: Array) -> Array:
    return SELU_SCALE * elu(x, SELU_ALPHA)


def celu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


_QUICK, _QUICK_REST = 1.702, 4.2632564145606011e-17


@in_double
def quick_gelu(x: Array, is_double: bool) -> tuple[Array]:
    """Return x σ(1.702 x)."""
    # Beyond ±512 σ is 0 or 1.
    c = np.clip(x, -512, 512)
    scaled = _QUICK * c
    rest = _QUICK_REST * c + product_rest(c, _QUICK, scaled) if is_double else 0
    return (x * sigmoids_beside(scaled, rest)[0],)


def softplus(x: Array, beta: float, threshold: float) -> Array:
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


def mish(x: Array) -> Array:
    """Return x tanh(ln(1 + e^x))."""
    return x * np.tanh(np.logaddexp(0, x))


def softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


def log_sigmoid(x: Array) -> Array:
    # Negating 0 would give -0.0.
    found: Array = 0 - np.logaddexp(0, -x)
    return found


def hardsigmoid(x: Array) -> Array:
    return hardtanh((x + 3) / 6, 0, 1)


def hardswish(x: Array) -> Array:
    return x * hardsigmoid(x)


#: 2k/(2k + 1)!, the coefficients of x cosh x - sinh x from x³ on.
_TANHSHRINK = tuple(2 * k / math.factorial(2 * k + 1) for k in range(1, 11))


@in_double
def tanhshrink(x: Array, is_double: bool) -> tuple[Array]:
    """Return x - tanh(x). For |x| <= 1 this is (x cosh x - sinh x)/cosh x, with a series without cancellation."""
    near = np.clip(x, -1, 1)
    series = near * near * np.polynomial.polynomial.polyval(near * near, _TANHSHRINK)
    return (np.where(np.abs(x) > 1, x - np.tanh(x), x * (series / np.cosh(near))),)


def softshrink(x: Array, lambd: float) -> Array:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0 * x))


def hardshrink(x: Array, lambd: float) -> Array:
    return np.where((-lambd <= x) & (x <= lambd), 0, x)


def threshold(x: Array, limit: float, value: float) -> Array:
    return np.where(x <= limit, value, x)


def squared_relu(x: Array) -> Array:
    return np.square(relu(x))


# ---------------------------------------------------------------- functions that NumPy lacks


def same(x: Array) -> Array:
    return x


def fraction(x: Array) -> Array:
    return x - np.trunc(x)


def power_of_integers(base: Array, exponent: Array) -> Array:
    """Compute powers by squaring, modulo the dtype's range. Negative exponents give the fraction's integer part."""
    found, square, rest = np.ones_like(base), base.copy(), np.maximum(exponent, 0)
    while np.any(rest > 0):
        found = np.where(rest % 2 == 1, found * square, found)
        square, rest = square * square, rest // 2
    odd = np.where(exponent % 2 == 0, 1, base)
    below = np.where(base == 1, 1, np.where(np.abs(base) == 1, odd, 0)) if base.dtype.kind == "i" else found
    return np.where(exponent < 0, below, found).astype(base.dtype)


def power_of_complex(base: Array, exponent: Array) -> Array:
    """Return `np.power`, but 0 for a base of 0, since some versions of NumPy return NaN there for complex exponents."""
    return np.where((base == 0) & (exponent.real > 0), base.dtype.type(0), np.power(base, exponent))


def scaled(a: Array, exponent: Array) -> Array:
    """Return a 2^exponent."""
    return np.ldexp(a, np.nan_to_num(np.clip(exponent, -4096, 4096)).astype(np.int32))


def clamp(x: Array, low: Any, high: Any) -> Array:
    return np.minimum(np.maximum(x, low), high)


def lerp(a: Array, b: Array, weight: Any) -> Array:
    is_near_b = (weight >= 0.5) & (weight <= 2)
    return np.where(is_near_b, b - (b - a) * (1 - weight), a + weight * (b - a))


def addcmul(x: Array, a: Array, b: Array, value: Any) -> Array:
    return x + value * (a * b)


def addcdiv(x: Array, a: Array, b: Array, value: Any) -> Array:
    return x + value * (a / b)


def nextafter_half(x: Array, toward: Array) -> Array:
    """Return the next number of float16, as a float32."""
    return _next_of(np.float16, x, toward)


def nextafter_brain(x: Array, toward: Array) -> Array:
    """Return the next number of bfloat16, as a float32."""
    return _next_of(ml_dtypes.bfloat16, x, toward)


def _next_of(dtype: Any, x: Array, toward: Array) -> Array:
    found = np.nextafter(x.astype(dtype), toward.astype(dtype)).astype(x.dtype)
    # For two equal zeros NumPy returns the first in float16, and the second in other dtypes.
    return np.where(x == toward, toward, found)


def mixed(compare: np.ufunc) -> Callable[[Array, Array], Array]:
    """Return a comparison of int64 with uint64; the uint64 array is passed as the int64 array of its bits."""
    return lambda x, y: compare(x, y.view(np.uint64))


def mixed_reversed(compare: np.ufunc) -> Callable[[Array, Array], Array]:
    """Return a comparison of uint64 with int64; the uint64 array is passed as the int64 array of its bits."""
    return lambda x, y: compare(x.view(np.uint64), y)
