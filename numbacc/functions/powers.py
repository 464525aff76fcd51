"""Powers of 16-bit floats in float32, by the hardware's logarithm: x^y = 2^(y log₂ x).

The hardware's log₂ x is good enough to tell the whole numbers n beside log₂ x and k beside y log₂ x, but not for the
power: an error of log₂ x is multiplied by y. So with m = x 2^-n, from √½ to √2, log₂ m is computed anew, as the series
of the inverse hyperbolic tangent 2/ln 2 (s + s³/3 + ...) of s = (m - 1)/(m + 1), and nothing large is rounded before
k is taken away: where x and y have 11 bits or fewer, y n - k is exact, and so is the product of y and a constant of 12
bits, which is multiplied with s and what rounding took from it inside of fused multiply-adds. What is left for the
hardware's power of 2 is off by 2^-20.7 at most, for the largest results; its own error is 2^-22.5.
"""

from __future__ import annotations

import math
import struct

from .arithmetic import exp2_rough, fma, reciprocal_approximate, rint
from .symbolic.precision_variants import NARROW

#: Numbers added to this lose what is behind the point; its lowest bits then are the whole number.
_WHOLE = 12582912.0
#: 2/ln 2 in two parts, the first of 12 bits; of 4s, as y times them is infinite of no y.
_SCALE, _SCALE_REST = 2.884765625 / 4, 0.000624456777926774 / 4
#: What follows it in the series, as a polynomial of s² with the least maximal error, 2^-30 of the logarithm.
_THIRD, _FIFTH, _SEVENTH = 0.9617982506752014 / 4**3, 0.5767564177513123 / 4**5, 0.43090564012527466 / 4**7
#: Powers of 2 up to here are normal numbers, also next to the nearest whole exponent.
_NEAR = 125.0
#: Beyond this they are 0 or infinite.
_FAR = 160.0
_SMALLEST_NORMAL = 2.0**-126


def log2_rough(x):
    """log₂ x, to 22 bits or 2^-22; of float32's subnormal numbers that of 0."""
    return math.log2(x) if x >= _SMALLEST_NORMAL else -math.inf if x >= 0.0 else math.nan


def times_power_of_bits(x, whole):
    """x 2^n of float32, n what stands in the lowest bits of another number, both x and the result normal."""
    first, second = struct.unpack("<2I", struct.pack("<2f", x, whole))
    return struct.unpack("<f", struct.pack("<I", (first + (second << 23)) % 2**32))[0]


def power(x, y):
    """x^y of two floats of 16 bits, for results of as many."""
    return math.pow(x, y)


def power_rough(x, y):
    """The same in float32, as above; |x|^y first, of what is finite and not 0."""
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
    """x^y where x is not above 0, or |k| is above `_NEAR`; where it is not, |x|^y was found."""
    if not abs(k) <= _NEAR:
        product = y * log
        # Or NaN: of 1 and infinity, infinity and 0, NaN itself. The hardware's logarithm of 1 may not be 0.
        if not abs(product) >= _FAR or 0.0 < abs(x) < _SMALLEST_NORMAL or abs(x) == 1.0:
            return math.pow(x, y)
        found = 0.0 if product < 0.0 else math.inf
    if x <= 0.0:
        half = 0.5 * y
        # 1/2 of odd numbers, 0 of even ones, NaN of infinite ones, which count as even.
        off = abs(half - rint(half))
        if off == 0.5:
            # Of 0 its own sign.
            found = math.copysign(found, x)
        elif 0.0 < off < 0.5 and -math.inf < x < 0.0:
            found = math.nan
    return found


NARROW.update({power: power_rough, log2_rough: "log2_approximate", times_power_of_bits: "times_power_of_bits"})
