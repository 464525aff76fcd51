"""The basic scalar functions that formulas call.

Here they are plain Python with double precision. Kernels replace some of them by other functions or by single GPU
instructions; `symbolic.precision_variants` lists the replacements.
"""

from __future__ import annotations

import math
import struct

#: For larger x, e^x overflows in float64.
LOG_LARGEST = 709.782712893384


def exp(x):
    """Return e^x, and infinity where it overflows."""
    return math.exp(x) if not x > LOG_LARGEST else math.inf


def reciprocal(x):
    """Return 1/x for x >= 1."""
    return 1.0 / x


def minimum(x, y):
    """Return the smaller number, and y where x is NaN."""
    return x if x < y else y


def maximum(x, y):
    """Return the larger number, and y where x is NaN."""
    return x if x > y else y


def greatest(x, y):
    """Return the larger number, and NaN if one is NaN."""
    return x if x > y or x != x else y


def least(x, y):
    """Return the smaller number, and NaN if one is NaN."""
    return x if x < y or x != x else y


def magnitude(x):
    """Return |x|, at most 40. Beyond 40, exp(-x²/2) is 0 even in float64, and the limit keeps squares finite."""
    return minimum(abs(x), 40.0)


def magnitude_unbounded(x):
    """Return |x|, where an infinite square is allowed: it makes exp(-x²/2) 0."""
    return abs(x)


def gaussian(x):
    """Return exp(-x²/2), for x from `magnitude`."""
    return exp(-0.5 * x * x)


def normal_tail(x, e):
    """Return Φ(-x) = ½ erfc(x/√2), for x from `magnitude` and e = exp(-x²/2). Not every version uses e."""
    return 0.5 * math.erfc(x * 0.7071067811865476)


def gaussian_approximate(x):
    """Return `gaussian`, computed with the hardware's power of 2. The constant 0.72... is log2(e)/2."""
    return exp2(-0.7213475204444817 * x * x)


def exp2(x):
    """Return 2^x."""
    return 2.0**x


def exp2_rough(x):
    """Return 2^x to 22 bits, regardless of the dtype that is stored."""
    return 2.0**x


def inverse(x):
    """Return 1/x for any x."""
    return 1.0 / x


def quotient(x, y):
    """Return x / y."""
    return x / y


def shared_out(x, n):
    """Return x / n for a whole number n >= 1."""
    return x / n


def shared_out_by_products(x, n):
    """Return x / n in float32, almost always rounded once.

    It is ptxas's expansion of the division, without its branch for very small numbers.
    """
    inverse = reciprocal_approximate(n)
    share = x * inverse
    exact = fma(fma(-share, n, x), inverse, share)
    # An infinite share gives NaN in the correction.
    return exact if exact == exact else share


def square_root(x):
    """Return √x, rounded once."""
    return math.sqrt(x)


def hyperbolic_tangent(x):
    """Return tanh x."""
    return math.tanh(x)


def hyperbolic_tangent_rough(x):
    """Return tanh x with a relative error below 2e-6, without a branch: its series near 0, else 1 - 2/(e^2x + 1)."""
    s = x * x
    near = x + x * s * (s * (0.13333333333333333 - 0.05396825396825397 * s) - 0.3333333333333333)
    far = 1.0 - 2.0 * reciprocal_approximate(exp2_rough(2.8853900817779268 * x) + 1.0)
    return near if math.fabs(x) < 0.25 else far


def hyperbolic_cosine(x):
    """Return cosh x."""
    return math.cosh(x)


def hyperbolic_cosine_rough(x):
    """Return cosh x, without a branch."""
    return 0.5 * exp2_rough(1.4426950408889634 * x) + 0.5 * exp2_rough(-1.4426950408889634 * x)


def square_root_by_products(x):
    """Return √x in float32. It is ptxas's expansion, without its branch for very small numbers and infinity.

    With r ≈ 1/√x, to one unit in the last place, s = x r approximates √x. The remainder x - s² is exact, and r/2 times
    the remainder corrects s (Markstein 1990). Below 2^-100, x is scaled, so that the remainder is not subnormal.
    """
    small = x < 7.888609052210118e-31
    y = x * 1.2676506002282294e30 if small else x
    r = reciprocal_root_approximate(y)
    s = y * r
    s = fma(0.5 * r, fma(-s, s, y), s)
    s = s * 8.881784197001252e-16 if small else s
    return s if 0.0 < x < math.inf else (x if x >= 0.0 else math.nan)


def reciprocal_root_approximate(x):
    """Return 1/√x to one unit in the last place."""
    return 1.0 / math.sqrt(x)


def reciprocal_approximate(x):
    """Return 1/x to one unit in the last place, for x >= 1."""
    return 1.0 / x


def reciprocal_root(x):
    """Return 1/√x, and infinity for x = 0."""
    return 1.0 / math.sqrt(x)


def cbrt(x):
    """Return ∛x, which has x's sign."""
    y = math.copysign(abs(x) ** (1.0 / 3.0), x)
    # Newton's step corrects the error that rounding 1/3 causes in the power.
    return y - (y * y * y - x) / (3.0 * y * y) if x != 0.0 and math.isfinite(x) else y


def rint(x):
    """Return the nearest whole number, with ties rounded to even."""
    return math.copysign(float(round(x)), x) if math.isfinite(x) else x


def scaled(x, exponent):
    """Return x 2^exponent, for a whole exponent in the range of 32-bit integers."""
    return math.ldexp(x, int(exponent)) if exponent == exponent else x


def stepped(x, steps):
    """Return x with a whole number of steps added to its bits."""
    (bits,) = struct.unpack("<q", struct.pack("<d", x))
    return struct.unpack("<d", struct.pack("<q", bits + int(steps)))[0]


def power_of_bits(x):
    """Return the float32 with x's bits shifted left by 23. It is 2^(n - 127), where n is in x's lowest bits."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return struct.unpack("<f", struct.pack("<I", (bits << 23) % 2**32))[0]


def times_power_of_bits(x, whole):
    """Return x 2^n in float32, where n is in the lowest bits of `whole`. x and the result must be normal numbers."""
    first, second = struct.unpack("<2I", struct.pack("<2f", x, whole))
    return struct.unpack("<f", struct.pack("<I", (first + (second << 23)) % 2**32))[0]


def to_float16(x):
    """Return x rounded to float16."""
    return struct.unpack("<e", struct.pack("<e", x))[0]


def to_bfloat16(x):
    """Return x rounded to bfloat16: to the upper half of a float32."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    half = bits + 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", half & 0xFFFF0000))[0] if math.isfinite(x) else x


def erfinv(x):
    """Return y with erf(y) = x, by Newton's method on erfc, starting from Winitzki's approximation (2008, 2e-3)."""
    if not -1.0 < x < 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    log = math.log1p(-x * x)
    first = 4.3307 + 0.5 * log
    y = math.copysign(math.sqrt(math.sqrt(first * first - log / 0.147) - first), x)
    for _ in range(4):
        # Near ±1 the distance from ±1 is exact, while the difference of erf's values would cancel.
        wrong = math.erf(y) - x
        if abs(x) >= 0.5:
            wrong = (1.0 - abs(x) - math.erfc(abs(y))) * math.copysign(1.0, x)
        y -= wrong * 0.886226925452758 * math.exp(y * y)
    return y


def log1p_of_share(x):
    """Return ln(1 + x) for x from 0 to 1."""
    return math.log1p(x)


#: A polynomial that was fitted as in `normal_tail_degree_9`, the last coefficient first. The lowest is 1.
_LOG1P = (
    0.02016826532781124, -0.05759408697485924, 0.10673169046640396, -0.1535084992647171, 0.1969374567270279,
    -0.2495824694633484, 0.333304762840271, -0.4999993145465851, 1.0,
)  # fmt: skip


def log1p_of_share_degree_10(x):
    """Return `log1p_of_share` as x P(x), with a relative error of 1.2e-7."""
    p = -0.0033106280025094748
    for term in _LOG1P:
        p = fma(p, x, term)
    return x * p


def put_back(tail, lost, t, slope):
    """Return `tail`, a function of t, without the effect of the rounding error of t.

    `lost` is the relative error of t. Near x = 0, the relative change of the tail is 1 + slope times that of t: an
    error of half a unit in t would be two units in the tail.
    """
    return fma(tail, fma(slope, t, 1.0) * lost, tail)


def normal_tail_degree_9(x, e):
    """Return Φ(-x) = e · t · P(t), where t = 1/(1 + 0.32 x), with a relative error of 5e-8.

    The form is Abramowitz and Stegun 26.2.17, with newly fitted coefficients. P fits ½ erfcx(x/√2)/t for t in (0, 1]
    with the smallest maximal relative error. It was found by iteratively reweighted least squares; the coefficients
    are rounded to float32.
    """
    d = fma(0.32, x, 1.0)
    t = reciprocal_approximate(d)
    p = -0.0210782718
    p = fma(p, t, 0.0954077169)
    p = fma(p, t, -0.146708325)
    p = fma(p, t, 0.0653288886)
    p = fma(p, t, -0.00937806629)
    p = fma(p, t, 0.0586541295)
    p = fma(p, t, 0.0878290683)
    p = fma(p, t, 0.114622362)
    p = fma(p, t, 0.127660945)
    p = fma(p, t, 0.127661526)
    lost = fma(-d, t, 1.0) - fma(0.32, x, 1.0 - d) * t
    return put_back(e * (t * p), lost, t, 1.5)


def normal_tail_degree_7(x, e):
    """Return Φ(-x) as `normal_tail_degree_9` does, with relative errors of 5e-8 up to x = 6 and 1e-5 beyond.

    float16 ends at x = 6.
    """
    t = reciprocal(1.0 + 0.3 * x)
    p = 0.0368252993
    p = fma(p, t, -0.161641613)
    p = fma(p, t, 0.213218898)
    p = fma(p, t, -0.0590574443)
    p = fma(p, t, 0.130730495)
    p = fma(p, t, 0.0995391458)
    p = fma(p, t, 0.120749556)
    p = fma(p, t, 0.119635686)
    return e * (t * p)


def normal_tail_degree_22(x, e):
    """Return Φ(-x) with a relative error of 6e-16, as a Chebyshev interpolation in s = 2t - 1, where t = 1/(1 + x/4).

    It costs 22 fused multiply-adds. erfc costs 65 operations, exp among them, which e has already paid for.
    """
    d = fma(0.25, x, 1.0)
    t = reciprocal(d)
    s = fma(2.0, t, -1.0)
    p = -4.434351260987277e-10
    p = fma(p, s, 3.211454717481317e-10)
    p = fma(p, s, 4.1340111938766006e-09)
    p = fma(p, s, -4.9020847852348786e-09)
    p = fma(p, s, -1.997462688140565e-08)
    p = fma(p, s, 4.0579794201183914e-08)
    p = fma(p, s, 6.655819747208905e-08)
    p = fma(p, s, -2.5677372017785853e-07)
    p = fma(p, s, -1.5655171917399e-07)
    p = fma(p, s, 1.4807449569186901e-06)
    p = fma(p, s, 1.7881843773272038e-07)
    p = fma(p, s, -8.786411146455962e-06)
    p = fma(p, s, -4.769768720984189e-07)
    p = fma(p, s, 5.777378769692185e-05)
    p = fma(p, s, 3.3336064725932094e-05)
    p = fma(p, s, -0.0004077046219705911)
    p = fma(p, s, -0.0008699230907225889)
    p = fma(p, s, 0.0018850472422843282)
    p = fma(p, s, 0.0150991437226906)
    p = fma(p, s, 0.0466304644898918)
    p = fma(p, s, 0.09678435018555413)
    p = fma(p, s, 0.15197416049297327)
    p = fma(p, s, 0.18882128260393788)
    lost = fma(-d, t, 1.0) - fma(0.25, x, 1.0 - d) * t
    return put_back(e * (t * p), lost, t, 2.2)


def multiply_then_add(x, y, z):
    """Return x y + z in float64, with the product and the sum each rounded, as in NumPy.

    A compiler would fuse them and round once. This gives other bits, and other integers where results are rounded down.
    """
    return x * y + z


def fma(x, y, z):
    """Return x y + z, which a GPU rounds once."""
    return x * y + z
