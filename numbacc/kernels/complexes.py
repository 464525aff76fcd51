"""Scalar functions of complex numbers that `cmath` has not, or has otherwise than NumPy at zeros and infinities."""

from __future__ import annotations

import cmath
import math

from .arithmetic import rint
from .functions import LN_2

LOG2_E, LOG10_E = 1.4426950408889634, 0.4342944819032518


def sign_complex(x):
    """x / |x|, and 0 of 0; the direction of one infinite part, as NumPy has it."""
    size = abs(x)
    if math.isinf(x.real) != math.isinf(x.imag):
        one = math.copysign(1.0, x.real if math.isinf(x.real) else x.imag)
        return complex(one, 0.0) if math.isinf(x.real) else complex(0.0, one)
    return x / size if size != 0.0 else complex(0.0, 0.0)


def reciprocal_complex(x):
    return complex(math.nan, math.nan) if x == 0.0 else 1.0 / x


def is_nan_complex(x):
    return math.isnan(x.real) or math.isnan(x.imag)


def is_inf_complex(x):
    return math.isinf(x.real) or math.isinf(x.imag)


def is_finite_complex(x):
    return math.isfinite(x.real) and math.isfinite(x.imag)


def exp2_complex(x):
    """2^x = e^(x ln 2)."""
    return cmath.exp(complex(x.real * LN_2, x.imag * LN_2))


def expm1_complex(x):
    """e^x - 1 of x = a + bi: expm1(a) cos b - 2 sin²(b/2) + i e^a sin b; at infinities as C's exp less 1."""
    a, b = x.real, x.imag
    if b == 0.0:
        return complex(math.expm1(a) + 0.0, b)
    if math.isinf(a) and not math.isfinite(b):
        return complex(-1.0, 0.0) if a < 0.0 else complex(a, math.nan)
    half = math.sin(0.5 * b)
    return complex(math.expm1(a) * math.cos(b) - 2.0 * (half * half), math.exp(a) * math.sin(b))


def log_in_parts(x):
    """ln |x| and the angle."""
    return math.log(math.hypot(x.real, x.imag)), math.atan2(x.imag, x.real)


def log2_complex(x):
    size, angle = log_in_parts(x)
    return complex(size * LOG2_E, angle * LOG2_E)


def log10_complex(x):
    size, angle = log_in_parts(x)
    return complex(size * LOG10_E, angle * LOG10_E)


def log1p_complex(x):
    """ln(1 + x); near 0 of |1 + x|² - 1, where nothing cancels that is not small."""
    a, b = x.real, x.imag
    angle = math.atan2(b, 1.0 + a)
    if abs(a) < 0.5 and abs(b) < 0.5:
        return complex(0.5 * math.log1p(a * (2.0 + a) + b * b), angle)
    return complex(math.log(math.hypot(1.0 + a, b)), angle)


def rint_complex(x):
    return complex(rint(x.real), rint(x.imag))


def divide_complex(a, b):
    """a / b; of b = 0 as its parts are divided by it."""
    return complex(a.real / b.real, a.imag / b.real) if b == 0.0 else a / b


def power_complex(a, b):
    """a to the power of b; where a is 0 it is 1 of 0, 0 if b's real part is positive, else NaN, as in NumPy 2.4."""
    if a != 0.0:
        return a**b
    if b == 0.0:
        return complex(1.0, 0.0)
    return complex(0.0, 0.0) if b.real > 0.0 else complex(math.nan, math.nan)
