"""Scalar functions of complex numbers: signs, roots, exponentials and logarithms.

The functions compute with real and imaginary parts, in the parts' own precision. Each part of a result is within a few
units in the last place if the dtype can represent it. Special cases follow the array API standard and C (Annex G).
`complex_trigonometric` has the trigonometric and hyperbolic functions and their inverses.
"""

from __future__ import annotations

import math

from .arithmetic import exp2, fma, reciprocal_approximate, rint, square_root
from .symbolic.precision_variants import SINGLE

LN_2, LOG2_E, LOG10_E, LOG10_2 = 0.6931471805599453, 1.4426950408889634, 0.4342944819032518, 0.3010299956639812
#: Parts above LARGE or below SMALL are scaled before they are squared or added. Both dtypes have a margin beyond these.
LARGE, SMALL = 1e37, 1e-36
#: 2^54 and the square root of its inverse. UP turns the smallest numbers of both dtypes into normal ones.
UP, ROOT_DOWN = 18014398509481984.0, 7.450580596923828e-09


def larger_part(a, b):
    """Return the larger of |a| and |b|."""
    return abs(a) if abs(a) > abs(b) else abs(b)


def scale_of(largest):
    """Return a power of 2. Numbers of this size that are scaled by it have finite sums and normal products."""
    return 0.25 if largest > LARGE else (UP if largest < SMALL else 1.0)


def sign_complex(x):
    """Return x / |x|, and 0 for 0. If one part is infinite, return its direction, as NumPy does."""
    a, b = x.real, x.imag
    if math.isinf(a) != math.isinf(b):
        one = math.copysign(1.0, a if math.isinf(a) else b)
        return complex(one, 0.0) if math.isinf(a) else complex(0.0, one)
    scale = scale_of(larger_part(a, b))
    a, b = a * scale, b * scale
    size = math.hypot(a, b)
    return complex(a / size, b / size) if size != 0.0 else complex(0.0, 0.0)


def reciprocal_complex(x):
    if x == 0.0:
        return complex(math.nan, math.nan)
    if larger_part(x.real, x.imag) > LARGE:
        found = 1.0 / complex(x.real * 0.25, x.imag * 0.25)
        return complex(found.real * 0.25, found.imag * 0.25)
    return 1.0 / x


def is_nan_complex(x):
    return math.isnan(x.real) or math.isnan(x.imag)


def is_inf_complex(x):
    return math.isinf(x.real) or math.isinf(x.imag)


def is_finite_complex(x):
    return math.isfinite(x.real) and math.isfinite(x.imag)


def rint_complex(x):
    return complex(rint(x.real), rint(x.imag))


def divide_complex(a, b):
    """Return a / b. For b = 0, both parts are divided by 0."""
    return complex(a.real / b.real, a.imag / b.real) if b == 0.0 else a / b


def power_complex(a, b):
    """Return a to the power of b.

    For a = 0, it is 1 if b is 0, 0 if b's real part is positive, else NaN, as in NumPy 2.4.
    """
    if a != 0.0:
        return a**b
    if b == 0.0:
        return complex(1.0, 0.0)
    return complex(0.0, 0.0) if b.real > 0.0 else complex(math.nan, math.nan)


def sqrt_complex(x):
    """Return the root t + ui with t >= 0.

    For a >= 0, t = √((a + |x|)/2) and u = b/(2t). For a < 0 the two are exchanged.
    """
    a, b = x.real, x.imag
    if math.isinf(b):
        return complex(math.inf, b)
    largest = larger_part(a, b)
    scale = 0.0625 if largest > LARGE else (UP if largest < SMALL else 1.0)
    back = 4.0 if largest > LARGE else (ROOT_DOWN if largest < SMALL else 1.0)
    a, size_b = a * scale, abs(b) * scale
    root = square_root(0.5 * (abs(a) + math.hypot(a, size_b)))
    other = 0.5 * (size_b / root) if root != 0.0 else 0.0
    root, other = root * back, other * back
    return complex(root, math.copysign(other, b)) if a >= 0.0 else complex(other, math.copysign(root, b))


# ---------------------------------------------------------------- exponentials


def overflows(a):
    """Return whether e^a overflows or nearly does, for real a."""
    return a > 709.0


def overflows_single(a):
    """Return the result of `overflows` in float32."""
    return a > 88.0


def large_exp(a):
    """Return (e, s), both finite, with e^a = e s s, where `overflows(a)` holds.

    s is 2^511 or 2^1022. 1022 ln 2 is subtracted from a once or twice, which is exact; a factor corrects the rounding
    of this constant. a is capped at 2000, where the product with the smallest sine overflows already.
    """
    if a < 1417.0:
        return math.exp(a - 708.3964185322641) * 0.9999999999999725246, 6.703903964971299e153
    near = a if a < 2000.0 else 2000.0
    return math.exp(near - 1416.7928370645282) * 0.9999999999999450492, 4.49423283715579e307


def large_exp_single(a):
    """Return the result of `large_exp` in float32. s is 2^63 or 2^126."""
    if a < 175.0:
        return math.exp(a - 87.3365478515625) * 1.000003101014199148, 9.223372036854775808e18
    near = a if a < 250.0 else 250.0
    return math.exp(near - 174.673095703125) * 1.0000062020380145851, 8.507059173023462e37


def large_exp2(a):
    """Return the result of `large_exp` for a power of 2."""
    if a < 2040.0:
        return exp2(a - 1022.0), 6.703903964971299e153
    return exp2((a if a < 3000.0 else 3000.0) - 2044.0), 4.49423283715579e307


def large_exp2_single(a):
    """Return the result of `large_exp2` in float32."""
    if a < 250.0:
        return exp2(a - 126.0), 9.223372036854775808e18
    return exp2((a if a < 360.0 else 360.0) - 252.0), 8.507059173023462e37


def overflows_exp2(a):
    return a > 1023.0


def overflows_exp2_single(a):
    return a > 127.0


def times_ln_2(b):
    """Return the rounded product b ln 2 and its rounding error."""
    product = b * 0.6931471805599453
    return product, fma(b, 0.6931471805599453, -product) + b * 2.3190468138462996e-17


def times_ln_2_single(b):
    """Return the result of `times_ln_2` in float32."""
    product = b * 0.693147182464599609375
    return product, fma(b, 0.693147182464599609375, -product) + b * -1.904654299957768e-09


def times_large(part, e, s):
    """Return part e s s. If the product fits into the dtype, no factor overflows or underflows on the way."""
    return ((part * s) * e) * s


def exp_beyond(a):
    """Return e^(a + bi) where b is infinite or NaN."""
    if a == -math.inf:
        return complex(0.0, 0.0)
    return complex(a if a == math.inf else math.nan, math.nan)


def exp_complex(x):
    """Return e^a (cos b + i sin b)."""
    a, b = x.real, x.imag
    if not math.isfinite(b):
        return exp_beyond(a)
    cosine, sine = math.cos(b), math.sin(b)
    if overflows(a):
        e, s = large_exp(a)
        return complex(times_large(cosine, e, s), times_large(sine, e, s))
    size = math.exp(a)
    return complex(size * cosine, size * sine if b != 0.0 else b)


def exp2_complex(x):
    """Return 2^a (cos(b ln 2) + i sin(b ln 2))."""
    a, b = x.real, x.imag
    if not math.isfinite(b):
        return exp_beyond(a)
    angle, rest = times_ln_2(b)
    c, s = math.cos(angle), math.sin(angle)
    # The approximation below needs a small rest; only huge angles have a larger one.
    rest = rest if abs(rest) < 0.02 else 0.0
    turn = 0.5 * (rest * rest)
    # For small angles, multiply by ln 2 last: a subnormal b would be rounded before 2^a makes it a normal number.
    small = abs(b) < 1e-15
    cosine, sine = c - (rest * s + turn * c), b if small else s + (rest * c - turn * s)
    last = LN_2 if small else 1.0
    if overflows_exp2(a):
        e, s = large_exp2(a)
        return complex(times_large(cosine, e, s), times_large(sine, e, s) * last)
    size = exp2(a)
    return complex(size * cosine, size * sine * last if b != 0.0 else b)


def expm1_complex(x):
    """Return e^x - 1 for x = a + bi: expm1(a) cos b - 2 sin²(b/2) + i e^a sin b."""
    a, b = x.real, x.imag
    if not math.isfinite(b):
        return complex(-1.0, 0.0) if a == -math.inf else exp_beyond(a)
    if b == 0.0:
        return complex(math.expm1(a) + 0.0, b)
    cosine, sine = math.cos(b), math.sin(b)
    if overflows(a):
        e, s = large_exp(a)
        return complex(times_large(cosine, e, s), times_large(sine, e, s))
    half = math.sin(0.5 * b)
    return complex(math.expm1(a) * cosine - 2.0 * (half * half), math.exp(a) * sine)


# ---------------------------------------------------------------- logarithms


def sum_and_rest(a, b):
    """Return the rounded sum a + b and its rounding error (Knuth's two-sum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def square_scale(x):
    """Return (s, n) with s = 2^-n such that the square of x s is normal and the sum of two squares is finite."""
    if x > 3.273390607896142e150:  # 2^500
        return 2.409919865102884e-181, 600.0
    return (5.260135901548374e210, -700.0) if x < 3.054936363499605e-151 else (1.0, 0.0)


def square_scale_single(x):
    """Return the result of `square_scale` in float32."""
    if x > 1.152921504606846976e18:  # 2^60
        return 8.271806125530277e-25, 80.0
    return (1.2676506002282294e30, -100.0) if x < 8.673617379884035e-19 else (1.0, 0.0)


def square_in_parts(x, y, d, is_near):
    """Return (v, rest, n), where |x + yi|² = v (1 + rest) 4^n, for x, y >= 0. The logarithm is computed from these.

    Near 1, the sum of squares is 1 + 2d + d² + y² with d = x - 1. Its terms may cancel, so that it is computed with
    twice the precision. The squares are written as multiply-adds, so that the compiler does not fuse them with the
    sums.
    """
    if is_near:
        square_d, square_y = fma(d, d, 0.0), fma(y, y, 0.0)
        lost = fma(d, d, -square_d) + fma(y, y, -square_y)
        first, rest = sum_and_rest(d + d, square_y)
        second, other = sum_and_rest(first, square_d)
        total, last = sum_and_rest(1.0, second)
        return total, (last + (rest + other + lost)) * reciprocal_approximate(total), 0.0
    scale, n = square_scale(x if x > y else y)
    x, y = x * scale, y * scale
    found = x * x + y * y
    return math.inf if math.isinf(x) or math.isinf(y) else found, 0.0, n


def size_in_parts(a, b):
    """Return |a + bi|² as `square_in_parts` does."""
    x, y = abs(a), abs(b)
    if x < y:
        x, y = y, x
    return square_in_parts(x, y, x - 1.0, 0.5 < x < 2.0)


def log_size(a, b):
    """Return ln |a + bi|."""
    square, rest, n = size_in_parts(a, b)
    return 0.5 * (math.log(square) + rest) + n * LN_2


def log_complex(x):
    return complex(log_size(x.real, x.imag), math.atan2(x.imag, x.real))


def log2_complex(x):
    square, rest, n = size_in_parts(x.real, x.imag)
    return complex(0.5 * (math.log2(square) + rest * LOG2_E) + n, math.atan2(x.imag, x.real) * LOG2_E)


def log10_complex(x):
    square, rest, n = size_in_parts(x.real, x.imag)
    size = 0.5 * (math.log10(square) + rest * LOG10_E) + n * LOG10_2
    return complex(size, math.atan2(x.imag, x.real) * LOG10_E)


def log1p_complex(z):
    """Return ln(1 + x). Near 0, it is computed from x, since rounding 1 + a would lose digits."""
    a, b = z.real, z.imag
    moved, y = 1.0 + a, abs(b)
    x, d = abs(moved), a
    is_near = -0.5 < a < 1.0 and y < 2.0
    if not is_near:
        if x < y:
            x, y = y, x
        d, is_near = x - 1.0, 0.5 < x < 2.0
    square, rest, n = square_in_parts(x, y, d, is_near)
    return complex(0.5 * (math.log(square) + rest) + n * LN_2, math.atan2(b, moved))


SINGLE.update(
    {
        overflows: overflows_single,
        overflows_exp2: overflows_exp2_single,
        large_exp: large_exp_single,
        large_exp2: large_exp2_single,
        square_scale: square_scale_single,
        times_ln_2: times_ln_2_single,
    }
)
