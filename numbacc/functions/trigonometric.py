"""The angle of a point in float32, for floats of 16 bits: the arc tangent of the smaller coordinate over the larger."""

from __future__ import annotations

import math

from .arithmetic import fma, greatest, least, reciprocal_approximate
from .basic import PI

#: arctan q = q P(q²), the polynomial with the least maximal relative error of it on (0, 1], 2^-25.8.
_OF_SQUARE = (
    1.0, -0.33333152532577515, 0.19993767142295837, -0.14211003482341766, 0.10665786266326904, -0.07551728934049606,
    0.043205972760915756, -0.016364237293601036, 0.002919756341725588,
)  # fmt: skip
#: That of 4q, the last coefficient first.
_OF_QUARTERS = tuple(coefficient * 0.25 * 0.0625**k for k, coefficient in enumerate(_OF_SQUARE))[::-1]


def atan2(y, x):
    """The angle of the point (x, y) in radians, in [-π, π], of two floats of 16 bits, for results of as many."""
    return math.atan2(y, x)


def atan2_rough(y, x):
    """The same in float32. It computes with 4q, as a quarter of the largest number has a normal reciprocal."""
    high, low = greatest(abs(x), abs(y)), least(abs(x), abs(y))
    quarter = 0.25 * high
    inverse = reciprocal_approximate(quarter)
    q = low * inverse
    q = fma(fma(-q, quarter, low), inverse, q)
    if not q <= 5.0:
        if high == 0.0:
            return math.copysign(PI if math.copysign(1.0, x) < 0.0 else 0.0, y)
        q = quotient_of_extremes(low, high)
    square = q * q
    p = _OF_QUARTERS[0]
    for coefficient in _OF_QUARTERS[1:]:
        p = fma(p, square, coefficient)
    angle = q * p
    if abs(y) > abs(x):
        angle = 0.5 * PI - angle
    if x < 0.0:
        angle = PI - angle
    return math.copysign(angle, y)


def quotient_of_extremes(low, high):
    """4 low/high of subnormal numbers and infinities; NaN of NaN."""
    if high == math.inf:
        return 4.0 if low == high else 0.0
    return low * 18446744073709551616.0 * reciprocal_approximate(high * 4611686018427387904.0)
