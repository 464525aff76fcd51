"""Powers of 16-bit floats in float32, computed with the hardware's logarithm: x^y = 2^(y log₂ x).

The hardware's log₂ x is accurate enough to find the whole numbers n near log₂ x and k near y log₂ x. It is not accurate
enough for the power, since an error of log₂ x is multiplied by y. Therefore, log₂ m of m = x 2^-n, which lies between
√½ and √2, is computed again, by the series of the inverse hyperbolic tangent: 2/ln 2 (s + s³/3 + ...), where
s = (m - 1)/(m + 1).

Nothing large is rounded before k is subtracted. If x and y have 11 bits or fewer, y n - k is exact. So is the product
of y and a constant of 12 bits; fused multiply-adds multiply it by s and by the rounding error of s. The argument of the
hardware's power of 2 is then off by at most 2^-20.7, for the largest results. The error of the hardware's power of 2
itself is 2^-22.5.
"""

from __future__ import annotations

import math

from .arithmetic import exp2_rough, fma, reciprocal_approximate, rint, times_power_of_bits
from .symbolic.precision_variants import NARROW

#: Adding this to a number removes its fractional part; the lowest bits of the sum are the whole number.
_WHOLE = 12582912.0
#: 2/ln 2 in two parts, the first with 12 bits. They are for 4s, so that their product with y is never infinite.
_SCALE, _SCALE_REST = 2.884765625 / 4, 0.000624456777926774 / 4
#: The next terms of the series, as a polynomial of s² with the smallest maximal error, 2^-30 of the logarithm.
_THIRD, _FIFTH, _SEVENTH = 0.9617982506752014 / 4**3, 0.5767564177513123 / 4**5, 0.43090564012527466 / 4**7
#: Powers of 2 with exponents up to this are normal numbers, also if the exponent is rounded to the next whole number.
_NEAR = 125.0
#: Powers of 2 with exponents beyond this are 0 or infinite.
_FAR = 160.0
_SMALLEST_NORMAL = 2.0**-126


def log2_rough(x):
    """Return log₂ x to 22 bits or 2^-22. float32's subnormal numbers give the logarithm of 0."""
    return math.log2(x) if x >= _SMALLEST_NORMAL else -math.inf if x >= 0.0 else math.nan


def power(x, y):
    """Return x^y for two 16-bit floats and a 16-bit result."""
    return math.pow(x, y)


def power_rough(x, y):
    """Return x^y, computed in float32 as described above. |x|^y is computed first, for a finite x that is not 0."""
    log = log2_rough(abs(x))
    against = _WHOLE - log
    n = _WHOLE - against
    m = abs(times_power_of_bits(x, against))
    above, below = m + 1.0, fma(4.0, m, -4.0)
    inverse = reciprocal_approximate(above)
    s = below * inverse
    rest = fma(-s, above, below) * inverse
    square = s * s
    series = fma(fma(fma(_SEVENTH, square, _FIFTH), square, _THIRD), square, _SCALE_REST)
    whole = fma(y, log, _WHOLE)
    k = whole - _WHOLE
    scaled = y * _SCALE
    found = exp2_rough(fma(y * s, series, fma(scaled, rest, fma(scaled, s, fma(y, n, -k)))))
    found = times_power_of_bits(found, whole)
    is_plain = (abs(k) <= _NEAR) & (x > 0.0)
    return found if is_plain else power_beyond(x, y, log, k, found)


def power_beyond(x, y, log, k, found):
    """Return x^y where x is not above 0 or |k| is above `_NEAR`. `found` is |x|^y if |k| is not above `_NEAR`."""
    if not abs(k) <= _NEAR:
        product = y * log
        # The product may also be NaN: for 1 and infinity, infinity and 0, or NaN. The hardware's log₂ 1 may not be 0.
        if not abs(product) >= _FAR or 0.0 < abs(x) < _SMALLEST_NORMAL or abs(x) == 1.0:
            return math.pow(x, y)
        found = 0.0 if product < 0.0 else math.inf
    if x <= 0.0:
        half = 0.5 * y
        # It is 1/2 for odd numbers, 0 for even ones, and NaN for infinite ones, which count as even.
        off = abs(half - rint(half))
        if off == 0.5:
            # A zero keeps its sign.
            found = math.copysign(found, x)
        elif 0.0 < off < 0.5 and -math.inf < x < 0.0:
            found = math.nan
    return found


NARROW.update({power: power_rough, log2_rough: "log2_approximate"})
