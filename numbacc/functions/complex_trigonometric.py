"""Trigonometric and hyperbolic functions of complex numbers, and their inverses.

f(z) = -i g(iz) holds for f = sin, tan, asin, atan and g = sinh, tanh, asinh, atanh. These functions are odd, and g of
the conjugate is the conjugate of g. Therefore, f is g with the parts of z exchanged and the parts of the result
exchanged.
"""

from __future__ import annotations

import math

from .arithmetic import square_root
from .complex import LN_2, large_exp, larger_part, log_size, overflows, times_large

#: Above this, x² + 1 rounds to x² in both dtypes. Products of two such numbers are finite in float32 up to 1e19.
FAR = 1e17
#: Above this, tanh is 1 in both dtypes.
TANH_IS_1 = 22.0


def hyperbolic(x):
    """Return sinh x and cosh x, both computed from e^x - 1, for x >= 0 where e^x does not overflow."""
    t = math.expm1(x)
    u = t / (t + 1.0)
    return 0.5 * (t + u), 1.0 + 0.5 * (t * u)


def sinh_parts(a, b):
    """Return sinh a cos b and cosh a sin b."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return sinh_beyond(a, b)
    cosine, sine, x = math.cos(b), math.sin(b), abs(a)
    if overflows(x):
        e, s = large_exp(x)
        return math.copysign(1.0, a) * times_large(cosine, 0.5 * e, s), times_large(sine, 0.5 * e, s)
    sinh, cosh = hyperbolic(x)
    return math.copysign(sinh, a) * cosine, cosh * sine if b != 0.0 else b


def sinh_beyond(a, b):
    """Return the result of `sinh_parts` where a or b is infinite or NaN."""
    if math.isinf(a) and math.isfinite(b):
        return a * math.cos(b), abs(a) * math.sin(b) if b != 0.0 else b
    if b == 0.0:
        return a, b
    return a if math.isinf(a) or a == 0.0 else math.nan, math.nan


def cosh_parts(a, b):
    """Return cosh a cos b and sinh a sin b."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return cosh_beyond(a, b)
    cosine, sine, x = math.cos(b), math.sin(b), abs(a)
    if overflows(x):
        e, s = large_exp(x)
        return times_large(cosine, 0.5 * e, s), math.copysign(1.0, a) * times_large(sine, 0.5 * e, s)
    sinh, cosh = hyperbolic(x)
    return cosh * cosine, math.copysign(sinh, a) * sine


def cosh_beyond(a, b):
    """Return the result of `cosh_parts` where a or b is infinite or NaN."""
    if math.isinf(a) and math.isfinite(b):
        return abs(a) * math.cos(b), a * math.sin(b) if b != 0.0 else math.copysign(1.0, a) * b
    if a == 0.0 or b == 0.0:
        return math.nan, 0.0
    return math.inf if math.isinf(a) else math.nan, math.nan


def tanh_parts(a, b):
    """Return the parts of tanh(a + bi), (p s cosh a + i t) / (1 + p s²), where t = tan b, s = sinh a, p = 1 + t².

    Source: Kahan 1987.
    """
    x = abs(a)
    if not math.isfinite(b):
        if math.isinf(a):
            return math.copysign(1.0, a), 0.0
        return a if a == 0.0 else math.nan, math.nan
    t = math.tan(b)
    p = 1.0 + t * t
    if x > TANH_IS_1:
        # 4 sin b cos b e^(-2x)
        e = math.exp(-x)
        return math.copysign(1.0, a), (4.0 * (t / p) * e) * e
    s, c = hyperbolic(x)
    below = 1.0 + p * (s * s)
    return math.copysign(p * s * c / below, a), t / below if b != 0.0 else b


def sinh_complex(z):
    real, imaginary = sinh_parts(z.real, z.imag)
    return complex(real, imaginary)


def cosh_complex(z):
    real, imaginary = cosh_parts(z.real, z.imag)
    return complex(real, imaginary)


def tanh_complex(z):
    real, imaginary = tanh_parts(z.real, z.imag)
    return complex(real, imaginary)


def sin_complex(z):
    imaginary, real = sinh_parts(z.imag, z.real)
    return complex(real, imaginary)


def cos_complex(z):
    """Return cos z = cosh iz."""
    real, imaginary = cosh_parts(z.imag, z.real)
    return complex(real, -imaginary)


def tan_complex(z):
    imaginary, real = tanh_parts(z.imag, z.real)
    return complex(real, imaginary)


# ---------------------------------------------------------------- inverses


def ellipse(x, y):
    """Return (c, h) for x + yi, where both parts are at least 0.

    The angle of acos is atan2(c, x), the angle of asin is atan2(x, c), and h is the other part of both.

    r and s are the distances from -1 and 1, and A = (r + s)/2. The point lies on the ellipse cosh h = A, and
    c = √(A² - x²). Hull, Fairgrieve and Tang (1997) show how to compute A - x and A - 1 without cancellation: as sums
    of y²/(r + x + 1) and either y²/(s + |x - 1|) or s + |x - 1|.
    """
    if x > FAR or y > FAR:
        return y, log_size(x, y) + LN_2
    r, s = math.hypot(x + 1.0, y), math.hypot(x - 1.0, y)
    middle = 0.5 * (r + s)
    first, second = 1.0 / (r + (x + 1.0)), s + abs(x - 1.0)
    if x < 1.0:
        both = 0.5 * (first + 1.0 / second)
        c = square_root((0.5 * (middle + x)) * (y * y * first + second))
        h = math.log1p(y * y * both + y * square_root((middle + 1.0) * both))
        # For 0 + NaN i, the angle is known.
        return c if x > 0.0 else 1.0, h
    less = y * y * first + second
    # √y is a factor twice: for x = 1, y/second is 1, and y² may underflow.
    c = square_root(y) * square_root((0.5 * (middle + x)) * (y * first + y / second)) if y != 0.0 else 0.0
    return c, math.log1p(0.5 * less + square_root((0.5 * (middle + 1.0)) * less))


def asin_parts(a, b):
    x = abs(a)
    c, h = ellipse(x, abs(b))
    return math.copysign(math.atan2(x, c), a), math.copysign(h, b)


def acos_parts(a, b):
    """Return the angle and the absolute value of the other part."""
    c, h = ellipse(abs(a), abs(b))
    return math.atan2(c, a), h


def asin_complex(z):
    real, imaginary = asin_parts(z.real, z.imag)
    return complex(real, imaginary)


def asinh_complex(z):
    imaginary, real = asin_parts(z.imag, z.real)
    return complex(real, imaginary)


def acos_complex(z):
    angle, h = acos_parts(z.real, z.imag)
    return complex(angle, math.copysign(h, -z.imag))


def acosh_complex(z):
    angle, h = acos_parts(z.real, z.imag)
    return complex(h, math.copysign(angle, z.imag))


def atanh_parts(a, b):
    """Return ¼ ln(1 + 4x/((1 - x)² + y²)) and ½ atan2(2y, (1 - x)(1 + x) - y²), where x = |a| and y = |b|."""
    x, y = abs(a), abs(b)
    if x > FAR or y > FAR:
        right = math.copysign(0.5 * math.pi, b)
        # The angle is NaN if a part is NaN, unless b is infinite.
        return math.copysign(reciprocal_part(x, y), a), right if math.isinf(y) or x + y == x + y else math.nan
    below = 1.0 - x
    if x == 1.0 and y < 1e-15:
        real = 0.5 * (LN_2 - math.log(y))
    else:
        real = 0.25 * math.log1p(4.0 * x / (below * below + y * y)) if x != 0.0 else 0.0
    return math.copysign(real, a), math.copysign(0.5 * math.atan2(2.0 * y, below * (1.0 + x) - y * y), b)


def reciprocal_part(x, y):
    """Return x / (x² + y²) for large numbers."""
    if math.isinf(x) or math.isinf(y):
        return 0.0
    largest = larger_part(x, y)
    ratio = (y if x == largest else x) / largest
    return (x / largest) / largest / (1.0 + ratio * ratio)


def atanh_complex(z):
    real, imaginary = atanh_parts(z.real, z.imag)
    return complex(real, imaginary)


def atan_complex(z):
    imaginary, real = atanh_parts(z.imag, z.real)
    return complex(real, imaginary)
