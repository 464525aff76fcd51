"""Compute functions of complex numbers where NumPy's versions overflow, or lose digits, although the result is in
range.

All functions compute in complex128.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from .c_library import product_rest

# NumPy's annotations return Any for arguments of type Any.
Array = Any

_LN_2, _LN_2_REST = 0.6931471805599453, 2.3190468138462996e-17
#: 2^1022 is nearly the largest power of 2.
_BITS = 1022


def _in_double(function: Callable[[Array, Array], tuple[Array, Array]]) -> Callable[[Array], Array]:
    """Make a function of real and imaginary parts in float64 accept complex numbers."""

    @wraps(function)
    def call(z: Array) -> Array:
        real, imaginary = function(z.real.astype(np.float64), z.imag.astype(np.float64))
        found = np.empty(np.shape(real), np.complex128)
        found.real, found.imag = real, imaginary
        return found.astype(z.dtype)

    return call


def _complex(a: Array, b: Array) -> Array:
    found = np.empty(np.shape(a), np.complex128)
    found.real, found.imag = a, b
    return found


@_in_double
def sign(a: Array, b: Array) -> tuple[Array, Array]:
    """Return z / |z|. Huge and tiny numbers are scaled first: float64 cannot hold their |z|, or all its digits."""
    largest = np.maximum(np.abs(a), np.abs(b))
    scale = np.where(largest > 1e300, 0.25, np.where(largest < 1e-290, 2.0**100, 1.0))
    found = np.sign(_complex(a * scale, b * scale))
    return found.real, found.imag


@_in_double
def reciprocal(a: Array, b: Array) -> tuple[Array, Array]:
    """Return 1 / z. NumPy's reciprocal overflows if z is half the largest number."""
    scale = np.where(np.maximum(np.abs(a), np.abs(b)) > 1e300, 0.25, 1.0)
    found = np.reciprocal(_complex(a * scale, b * scale))
    return found.real * scale, found.imag * scale


@_in_double
def exp2(a: Array, b: Array) -> tuple[Array, Array]:
    """Return 2^a (cos(b ln 2) + i sin(b ln 2)). The angle includes the rounding error of its product."""
    angle = b * _LN_2
    rest = product_rest(b, _LN_2, angle) + b * _LN_2_REST
    rest = np.where(np.abs(rest) < 0.02, rest, 0)
    cosine, sine = np.cos(angle), np.sin(angle)
    cosine, sine = cosine * np.cos(rest) - sine * np.sin(rest), sine * np.cos(rest) + cosine * np.sin(rest)
    # For small angles, multiply by ln 2 last: a subnormal b would be rounded before 2^a makes it a normal number.
    small = np.abs(b) < 1e-15
    sine, last = np.where(small, b, sine), np.where(small, _LN_2, 1)
    steps = np.where(a > 2 * _BITS, 2, np.where(a > _BITS, 1, 0))
    size = np.exp2(np.minimum(a, 3 * _BITS) - steps * _BITS)
    scale = np.exp2(steps * (_BITS / 2))
    known, low = np.isfinite(b), a == -np.inf
    real = np.where(known, cosine * scale * size * scale, np.where(low, 0, np.where(a == np.inf, a, np.nan)))
    imaginary = np.where(known, sine * scale * size * scale * last, np.where(low, 0, np.nan))
    return real, np.where(b == 0, b, imaginary)


@_in_double
def expm1(a: Array, b: Array) -> tuple[Array, Array]:
    """Return expm1(a) cos b - 2 sin²(b/2) + i e^a sin b."""
    size = np.exp(_complex(a, b))
    near = np.expm1(a) * np.cos(b) - 2 * np.square(np.sin(0.5 * b))
    real = np.where(b == 0, np.expm1(a) + 0.0, np.where(np.isfinite(b) & (a < 40), near, size.real - 1))
    return real, np.where(b == 0, b, size.imag)


def _with_rest(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum a + b and its rounding error (Knuth's two-sum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@_in_double
def log1p(a: Array, b: Array) -> tuple[Array, Array]:
    """Return ln(1 + z). For small z, ln |1 + z| = ½ ln(1 + 2a + a² + b²), summed with twice the precision."""
    far = np.log(_complex(1 + a, b))
    near = (a > -0.5) & (a < 1) & (np.abs(b) < 2)
    x, y = np.where(near, a, 0), np.where(near, b, 0)
    first, rest = _with_rest(2 * x, y * y)
    second, other = _with_rest(first, x * x)
    lost = product_rest(x, x, x * x) + product_rest(y, y, y * y)
    return np.where(near, 0.5 * np.log1p(second + (rest + other + lost)), far.real), far.imag
