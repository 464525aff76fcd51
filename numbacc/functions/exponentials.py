"""Exponentials e^-x of nonnegative numbers, and the sigmoids that are computed from them.

Here they are plain Python with double precision; `symbolic.precision_variants` lists the versions that kernels use.

The relative error of an exponential contains the absolute error of its argument. Where the argument is computed, its
rounding error is therefore computed, too, and passed on to the exponential.
"""

from __future__ import annotations

import math

from .arithmetic import (
    exp,
    exp2,
    exp2_rough,
    fma,
    gaussian,
    magnitude,
    maximum,
    minimum,
    normal_tail,
    power_of_bits,
    reciprocal,
    reciprocal_approximate,
    times_power_of_bits,
)

TANH_LINEAR = 1.5957691216057308  # 2√(2/π), since ½(1 + tanh u) = σ(2u)
TANH_CUBIC = 0.07135481627260025  # 2√(2/π) · 0.044715
QUICK = 1.702

# ---------------------------------------------------------------- the functions that formulas call


def decay(x):
    """Return e^-x, for x that is not negative."""
    return exp(-x)


def tanh_decay(b):
    """Return e^-|2u|, where 2u = 2√(2/π)(b + 0.044715 b³)."""
    return exp(-abs(b * (TANH_LINEAR + TANH_CUBIC * b * b)))


def quick_decay(b):
    """Return e^-|1.702 b|."""
    return exp(-QUICK * abs(b))


def share(b, e):
    """Return σ(b), given e = exp(-|b|): 1/(1 + e) for b >= 0, else e/(1 + e)."""
    return (1.0 if b >= 0.0 else e) / (1.0 + e)


def sigmoid(b):
    """Return σ(b) = 1/(1 + exp(-b)), without overflow."""
    return share(b, decay(abs(b)))


def silu(b):
    """Return b σ(b)."""
    return b * sigmoid(b)


def tanh_gelu(b):
    """Return b σ(2u) = b ½(1 + tanh u), with u from `tanh_decay`."""
    return b * share(b, tanh_decay(b))


def normal_gelu(b):
    """Return b Φ(b), where Φ is the normal distribution.

    Φ(-|b|) = ½ erfc(|b|/√2) keeps its relative precision for large |b|, where ½(1 + erf) would cancel.
    """
    x = magnitude(b)
    tail = normal_tail(x, gaussian(x))
    return b * (1.0 - tail if b >= 0.0 else tail)


def quick_gelu(b):
    """Return b σ(1.702 b)."""
    return b * share(b, quick_decay(b))


def weighted_ratio(b, x, x_rest, y, y_rest):
    """Return b (x + x_rest)/(y + y_rest), for y from 1 to 8. The rests are the rounding errors of x and y."""
    return b * (x / y)


# ---------------------------------------------------------------- the versions of float64


def decay_beside(x, rest):
    """Return e^-(x + rest), where rest is small."""
    e = exp(-x)
    return fma(-rest, e, e)


def of_square(beside):
    """Make `gaussian` from a function of x and its rest. Without the rest of x², it is ten units off at x = 5."""

    def gaussian(x):
        square = x * x
        return beside(0.5 * square, 0.5 * fma(x, x, -square))

    return gaussian


def of_cubic(beside, linear, linear_rest, cubic, cubic_rest):
    """Make `tanh_decay` from a function of x and its rest.

    Args:
        linear, cubic: the constants, rounded to the precision. The first has four bits less, so that subtracting it
            from its sum with the cubic term is exact.
        linear_rest, cubic_rest: the rounding errors of the constants.
    """

    def tanh_decay(b):
        # Beyond 40, the result is 0 in both precisions. The limit keeps squares finite. A NaN becomes 0 here, too, but
        # the caller multiplies the result by b.
        x = minimum(abs(b), 40.0)
        square = x * x
        p = fma(cubic, square, linear)
        u = x * p
        lost = fma(cubic, square, linear - p) + fma(cubic_rest, square, fma(cubic, fma(x, x, -square), linear_rest))
        return beside(u, fma(x, lost, fma(x, p, -u)))

    return tanh_decay


def of_product(beside, factor, factor_rest):
    """Make `quick_decay` from a function of x and its rest, with the factor in two parts."""

    def quick_decay(b):
        # Beyond 512, the result is 0 in both precisions. NaN is treated as above.
        x = minimum(abs(b), 512.0)
        u = factor * x
        return beside(u, fma(factor_rest, x, fma(factor, x, -u)))

    return quick_decay


gaussian_double = of_square(decay_beside)
tanh_decay_double = of_cubic(
    decay_beside, 1.5957691216057306, 1.223515168339221e-16, 0.07135481627260025, -6.1751499181553155e-19
)
quick_decay_double = of_product(decay_beside, 1.702, 4.2632564145606011e-17)

# ---------------------------------------------------------------- the versions of float32


def decay_beside_single(x, rest):
    """Return e^-(x + rest) to one unit in the last place. CUDA's own e^x is two units off.

    The result is 2^n e^r, with a whole n and |r| <= ln 2/2. ln 2 has two parts (Cody and Waite 1980), so that
    0.693145752 n is exact. e^r is 1 + r + r² Q(r), where the polynomial Q gives e^r the smallest maximal relative
    error, 3e-9. Q was found by iteratively reweighted least squares; its coefficients were rounded to float32 one after
    the other, starting with the lowest, and the others were fitted again.

    The lowest bits of `whole` are n + 64 + 127, the exponent bits of the float 2^(n + 64). A subnormal result is
    rounded once, when it is divided by 2^64.
    """
    x = 120.0 if x > 120.0 else x
    whole = fma(x, -1.44269504, 12583103.0)
    n = whole - 12583103.0
    r = fma(n, -1.42860677e-6, fma(n, -0.693145752, -x)) - rest
    q = 0.0013819814193993807
    q = fma(q, r, 0.008368687704205513)
    q = fma(q, r, 0.041668277233839035)
    q = fma(q, r, 0.1666652113199234)
    q = fma(q, r, 0.4999999403953552)
    power = power_of_bits(whole)
    return fma(fma(r * r, q, r), power, power) * 5.421010862427522e-20


def decay_single(x):
    return decay_beside_single(x, 0.0)


gaussian_single = of_square(decay_beside_single)
tanh_decay_single = of_cubic(
    decay_beside_single, 1.5957698822021484, -7.605964177257402e-07, 0.07135481387376785, 2.3988323959931356e-09
)
quick_decay_single = of_product(decay_beside_single, 1.7020000219345093, -2.193450927734375e-08)


def share_single(b, e):
    """Return `share` to half a unit in the last place, apart from the error of e. It corrects the rounding of 1 + e."""
    x, y = 1.0 if b >= 0.0 else e, 1.0 + e
    r = reciprocal_approximate(y)
    found = x * r
    return fma(fma(-found, e - (y - 1.0), fma(-found, y, x)), r, found)


def weighted_ratio_single(b, x, x_rest, y, y_rest):
    product = b * x
    return mended(product, fma(b, x_rest, fma(b, x, -product)), y, y_rest)


def mended(x, x_rest, y, y_rest):
    """Return (x + x_rest)/(y + y_rest), mostly rounded once: a first quotient plus a correction from its remainder.

    For x = -0.0 the sum is 0.0, so that the sign must be restored.
    """
    r = reciprocal_approximate(y)
    found = x * r
    left = fma(-found, y, x) + fma(-found, y_rest, x_rest)
    # For infinities, the remainder is NaN; it is replaced.
    return math.copysign(fma(maximum(left, -1e36), r, found), x)


def weighted_by(decay):
    """Make the function b σ(u) of b, from a function of b that returns e^-|u|."""

    def weighted(b):
        e = decay(b)
        x, y = 1.0 if b >= 0.0 else e, 1.0 + e
        product = b * x
        return mended(product, fma(b, x, -product), y, e - (y - 1.0))

    return weighted


def decay_of_magnitude(b):
    return decay_single(abs(b))


silu_single = weighted_by(decay_of_magnitude)
tanh_gelu_single = weighted_by(tanh_decay_single)
quick_gelu_single = weighted_by(quick_decay_single)


def normal_gelu_single(b):
    """Return `normal_gelu` with an error of at most 5.5 units in the last place, in 28 instructions.

    b Φ(b) is max(b, 0) - x Φ(-x), where x = |b|. The tail Φ(-x) is e^(-x²/2) times a quotient of two polynomials, whose
    coefficients are positive, so that no terms cancel. They fit ½ erfcx(x/√2) up to x = 14.7 with a relative error of
    1.1e-8, by iteratively reweighted least squares; the coefficients were rounded to float32, and then improved by a
    search of their neighbors. Beyond 14.7, x Φ(-x) is 0 in float32.

    e^(-x²/2) is 2^f 2^n with a whole n, where `whole` has n + 64 in its lowest bits. The fit makes up for the rounding
    of log2(e)/2, which is 0.72...
    """
    x = minimum(abs(b), 14.7)
    square = x * x
    whole = fma(square, -0.7213475108146667, 12582976.0)
    n = whole - 12582976.0
    f = fma(fma(x, x, -square), -0.7213475108146667, fma(square, -0.7213475108146667, -n))
    e = times_power_of_bits(exp2_rough(f), whole) * 5.421010862427522e-20
    p = fma(
        fma(0.008731285110116005, square, 0.3771277070045471), x, fma(0.08477095514535904, square, 0.8914705514907837)
    )
    p = fma(p, square, x)
    even = fma(fma(0.21249324083328247, square, 2.450066328048706), square, 2.0)
    q = fma(fma(fma(0.021886171773076057, square, 0.967028796672821), square, 3.378710985183716), x, even)
    r = reciprocal_approximate(q)
    tail = p * r
    tail = fma(r, fma(-q, tail, p), tail)
    # The product is NaN for -inf, as b Φ(b) is.
    return fma(-e, tail, b * (1.0 if b > 0.0 else 0.0))


# ---------------------------------------------------------------- the versions of 16 bits


def share_rough(b, e):
    return (1.0 if b >= 0.0 else e) * reciprocal(1.0 + e)


def sigmoid_rough(b):
    """Return σ(b). Where exp overflows, it is 0."""
    return reciprocal(1.0 + exp(-b))


def silu_rough(b):
    return b * sigmoid_rough(b)


def tanh_gelu_rough(b):
    """Return `tanh_gelu`. The constants are multiplied by -log₂ e, since the hardware computes powers of 2."""
    return b * reciprocal(1.0 + exp2(b * (-2.302208198144325 - 0.1029432395800235 * b * b)))


def quick_gelu_rough(b):
    return b * reciprocal(1.0 + exp2(-2.4554669595930156 * b))


def weighted_ratio_rough(b, x, x_rest, y, y_rest):
    return b * (x * reciprocal(y))
