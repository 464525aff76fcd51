"""The derivatives of ln Γ: the digamma function ψ and its slope, the trigamma function."""

from __future__ import annotations

import math

from .arithmetic import fma, rint

PI = 3.141592653589793


#: B_2k / 2k, the last coefficient first.
_PSI = (
    0.08333333333333333, -0.021092796092796094, 0.007575757575757576, -0.004166666666666667, 0.003968253968253968,
    -0.008333333333333333, 0.08333333333333333,
)  # fmt: skip


def digamma(x):
    """Return ψ(x) = d ln Γ(x)/dx, by recurrence up to 10, then by the asymptotic series; by reflection for negative x.

    Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18. It is NaN at the poles -1, -2, ...; for zeros, it is infinite and has
    the other sign, as in SciPy.
    """
    if x == 0.0:
        return math.copysign(math.inf, -x)
    shift = 0.0
    if x < 0.0:
        # The distance to the nearest pole is exact.
        distance = x - rint(x)
        if distance == 0.0:
            return math.nan
        shift = -PI / math.tan(PI * distance)
        x = 1.0 - x
    for _ in range(10):
        if x < 10.0:
            shift -= 1.0 / x
            x += 1.0
    inverse_x = 1.0 / x
    s = inverse_x * inverse_x
    series = 0.0 * inverse_x
    for term in _PSI:
        series = (series + term) * s
    return shift + (math.log(x) - 0.5 * inverse_x - series)


#: Polynomials with the smallest maximal errors in float32, found by iteratively reweighted least squares. The last
#: coefficients come first. _TAN is π tan(πt)/t in t², for |t| up to 1/4, to 2e-8. _COT is (1/t - π cot(πt))/t in t²,
#: for the same t, to 4e-8. _REST is (ln x - 1/(2x) - ψ(x)) x² in 1/x², for x >= 1; the difference is accurate to 7e-9.
_TAN = (
    82704.2734375, 3455.90673828125, 2244.965576171875, 508.3140869140625, 128.2122344970703, 32.46969985961914,
    9.869604110717773,
)  # fmt: skip
_COT = (2.3182687759399414, 2.019730567932129, 2.1649081707000732, 3.2898669242858887)
_REST = (
    0.00021231273422017694, -0.0009716016938909888, 0.0020246708299964666, -0.002810627920553088,
    0.0037412161473184824, -0.008312978781759739, 0.08333268016576767,
)  # fmt: skip


def polynomial(coefficients, s):
    """Return a polynomial of s. The last coefficient comes first."""
    p = 0.0 * s
    for coefficient in coefficients:
        p = fma(p, s, coefficient)
    return p


def digamma_single(x):
    """Return `digamma` in float32: one recurrence step up to 1, and reflection by terms that stay small.

    If the quotient 1/x of the nearest pole is of the result's size, its rounding error is added back.
    """
    if x == 0.0:
        return math.copysign(math.inf, -x)
    pole, shift = 0.0, 0.0
    if x < 0.0:
        t = x - rint(x)
        if t == 0.0:
            return math.nan
        if abs(t) <= 0.25:
            pole = 1.0 / t
            shift = t * polynomial(_COT, t * t) - quotient_error(pole, t)
        else:
            t -= math.copysign(0.5, t)
            shift = t * polynomial(_TAN, t * t)
        x = 1.0 - x
    elif x < 1.0:
        pole = 1.0 / x
        shift = -quotient_error(pole, x)
        x += 1.0
    inverse_x = 1.0 / x
    s = inverse_x * inverse_x
    return (shift + (math.log(x) - fma(s, polynomial(_REST, s), 0.5 * inverse_x))) - pole


def quotient_error(q, x):
    """Return 1/x - q for a rounded quotient q. It is 0 if q is infinite or large compared to the other terms."""
    return q * fma(-q, x, 1.0) if abs(q) < 1048576.0 else 0.0


def trigamma(x):
    """Return ψ'(x), computed as in `digamma`. Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.12."""
    shift, sign_of_rest = 0.0, 1.0
    if x < 0.5:
        s = PI / math.sin(PI * (x - rint(x)))
        shift, sign_of_rest = s * s, -1.0
        x = 1.0 - x
    total = 0.0
    for _ in range(10):
        if x < 10.0:
            total += 1.0 / (x * x)
            x += 1.0
    inverse_x = 1.0 / x
    s = inverse_x * inverse_x
    series = 0.0 * inverse_x
    for term in _PSI_PRIME:
        series = (series + term) * s
    return shift + sign_of_rest * (total + inverse_x * (1.0 + 0.5 * inverse_x + series))


#: The Bernoulli numbers B_2k, the last one first.
_PSI_PRIME = (
    1.1666666666666667, -0.2531135531135531, 0.07575757575757576, -0.03333333333333333, 0.023809523809523808,
    -0.03333333333333333, 0.16666666666666666,
)  # fmt: skip
