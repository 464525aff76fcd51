"""The derivatives of ln Γ: ψ, and its slope."""

from __future__ import annotations

import math

from .arithmetic import rint

PI = 3.141592653589793


def digamma_from(far, terms):
    """ψ(x) = d ln Γ(x)/dx: recurrence up to `far`, then the asymptotic series; of negative x by reflection.

    Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18. NaN at the poles -1, -2, ...; at zeros infinity of the other sign, as
    SciPy has it.

    Args:
        far: a whole number.
        terms: B_2k / 2k, the last first.
    """

    def digamma(x):
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
        for _ in range(far):
            if x < far:
                shift -= 1.0 / x
                x += 1.0
        inverse_x = 1.0 / x
        s = inverse_x * inverse_x
        series = 0.0 * inverse_x
        for term in terms:
            series = (series + term) * s
        return shift + (math.log(x) - 0.5 * inverse_x - series)

    return digamma


_PSI = (
    0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667, 0.007575757575757576,
    -0.021092796092796094, 0.08333333333333333,
)  # fmt: skip
digamma = digamma_from(10, _PSI[::-1])
#: To float32's precision.
digamma_single = digamma_from(6, _PSI[3::-1])


def trigamma(x):
    """ψ'(x), as `digamma`: Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.12."""
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


#: The Bernoulli numbers B_2k, the last first.
_PSI_PRIME = (
    1.1666666666666667, -0.2531135531135531, 0.07575757575757576, -0.03333333333333333, 0.023809523809523808,
    -0.03333333333333333, 0.16666666666666666,
)  # fmt: skip
