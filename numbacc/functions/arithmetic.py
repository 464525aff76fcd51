"""The few scalar functions that formulas are written with.

As written here they are plain Python, exact to double precision. In a kernel some become others, or single instructions
of the GPU: `precisions` says which, for each.
"""

from __future__ import annotations

import math
import struct

#: Beyond this, e^x is not a float64 any more.
LOG_LARGEST = 709.782712893384


def exp(x):
    """e^x; infinity where it overflows."""
    return math.exp(x) if not x > LOG_LARGEST else math.inf


def reciprocal(x):
    """1/x for x >= 1."""
    return 1.0 / x


def minimum(x, y):
    """The smaller one; y where x is NaN."""
    return x if x < y else y


def maximum(x, y):
    """The larger one; y where x is NaN."""
    return x if x > y else y


def greatest(x, y):
    """The larger one, NaN if one is."""
    return x if x > y or x != x else y


def least(x, y):
    """The smaller one, NaN if one is."""
    return x if x < y or x != x else y


def magnitude(x):
    """|x|, at most 40: beyond, exp(-x²/2) is 0 even in float64, and squares stay finite."""
    return minimum(abs(x), 40.0)


def magnitude_unbounded(x):
    """|x|, where an infinite square makes 0 of exp(-x²/2)."""
    return abs(x)


def gaussian(x):
    """exp(-x²/2), x from `magnitude`."""
    return exp(-0.5 * x * x)


def normal_tail(x, e):
    """Φ(-x) = ½ erfc(x/√2), x from `magnitude`, given e = exp(-x²/2), which not every version needs."""
    return 0.5 * math.erfc(x * 0.7071067811865476)


def gaussian_approximate(x):
    """As `gaussian`, by the hardware's power of 2: 0.72... is log2(e)/2."""
    return exp2(-0.7213475204444817 * x * x)


def exp2(x):
    """2^x."""
    return 2.0**x


def exp2_rough(x):
    """2^x to 22 bits, whatever is stored."""
    return 2.0**x


def inverse(x):
    """1/x of any number."""
    return 1.0 / x


def quotient(x, y):
    """x / y."""
    return x / y


def shared_out(x, n):
    """x / n of a whole number n >= 1."""
    return x / n


def shared_out_by_products(x, n):
    """x / n of float32, rounded once but for a few: as ptxas expands it, without its branch for what is very small."""
    inverse = reciprocal_approximate(n)
    share = x * inverse
    exact = fma(fma(-share, n, x), inverse, share)
    # An infinite one has no difference to itself.
    return exact if exact == exact else share


def square_root(x):
    """√x, rounded once."""
    return math.sqrt(x)


def square_root_by_products(x):
    """√x of float32, as ptxas expands it, without its branch for what is very small or infinite.

    From r ≈ 1/√x (to one unit in the last place) s = x r; the remainder x - s² is exact, and half of it times r is what
    s lacks (Markstein 1990). Below 2^-100 x is scaled, so that the remainder is no subnormal number.
    """
    small = x < 7.888609052210118e-31
    y = x * 1.2676506002282294e30 if small else x
    r = reciprocal_root_approximate(y)
    s = y * r
    s = fma(0.5 * r, fma(-s, s, y), s)
    s = s * 8.881784197001252e-16 if small else s
    return s if 0.0 < x < math.inf else (x if x >= 0.0 else math.nan)


def reciprocal_root_approximate(x):
    """1/√x to one unit in the last place."""
    return 1.0 / math.sqrt(x)


def reciprocal_approximate(x):
    """1/x to one unit in the last place, of x >= 1."""
    return 1.0 / x


def reciprocal_root(x):
    """1/√x; infinity of 0."""
    return 1.0 / math.sqrt(x)


def cbrt(x):
    """∛x, of x's sign."""
    y = math.copysign(abs(x) ** (1.0 / 3.0), x)
    # Newton's step: the power is off by the rounding of 1/3.
    return y - (y * y * y - x) / (3.0 * y * y) if x != 0.0 and math.isfinite(x) else y


def rint(x):
    """The nearest whole number; of two the even one."""
    return math.copysign(float(round(x)), x) if math.isfinite(x) else x


def scaled(x, exponent):
    """x 2^exponent, the exponent a whole number, and in the range of 32-bit integers."""
    return math.ldexp(x, int(exponent)) if exponent == exponent else x


def stepped(x, steps):
    """x with so many, a whole number, added to its bits."""
    (bits,) = struct.unpack("<q", struct.pack("<d", x))
    return struct.unpack("<d", struct.pack("<q", bits + int(steps)))[0]


def power_of_bits(x):
    """The float32 whose bits are x's, moved up by 23: 2^(n - 127), where n is what stands in the lowest ones."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return struct.unpack("<f", struct.pack("<I", (bits << 23) % 2**32))[0]


def erfinv(x):
    """The y of which x is erf(y): Newton's method on erfc, from Winitzki's approximation (2008, 2e-3)."""
    if not -1.0 < x < 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    log = math.log1p(-x * x)
    first = 4.3307 + 0.5 * log
    y = math.copysign(math.sqrt(math.sqrt(first * first - log / 0.147) - first), x)
    for _ in range(4):
        # Beside ±1 the distance to it is exact, where erf's own would cancel.
        wrong = math.erf(y) - x
        if abs(x) >= 0.5:
            wrong = (1.0 - abs(x) - math.erfc(abs(y))) * math.copysign(1.0, x)
        y -= wrong * 0.886226925452758 * math.exp(y * y)
    return y


def log1p_of_share(x):
    """ln(1 + x) of x from 0 to 1."""
    return math.log1p(x)


#: A polynomial fitted as in `normal_tail_degree_9`, from the lowest coefficient on, which is 1; the last ones first.
_LOG1P = (
    0.02016826532781124, -0.05759408697485924, 0.10673169046640396, -0.1535084992647171, 0.1969374567270279,
    -0.2495824694633484, 0.333304762840271, -0.4999993145465851, 1.0,
)  # fmt: skip


def log1p_of_share_degree_10(x):
    """As `log1p_of_share`, x P(x) to 1.2e-7 relative."""
    p = -0.0033106280025094748
    for term in _LOG1P:
        p = fma(p, x, term)
    return x * p


def put_back(tail, lost, t, slope):
    """`tail`, a function of t, as it would be without the rounding errors of t.

    `lost` is t's relative error. Near x = 0 the tail changes by 1 + slope times as much, so that what is half a unit
    in t would be two in the tail.
    """
    return fma(tail, fma(slope, t, 1.0) * lost, tail)


def normal_tail_degree_9(x, e):
    """Φ(-x) = e · t · P(t), t = 1/(1 + 0.32 x): as Abramowitz and Stegun 26.2.17, fitted anew to 5e-8 relative.

    P is the polynomial that fits ½ erfcx(x/√2)/t on t in (0, 1] with the least maximal relative error, by
    iteratively reweighted least squares, its coefficients rounded to float32.
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
    """As `normal_tail_degree_9`, to 5e-8 relative up to x = 6, where float16 ends, to 1e-5 beyond."""
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
    """As `normal_tail_degree_9`, to 6e-16 relative, in s = 2t - 1, t = 1/(1 + x/4): Chebyshev interpolation.

    It costs 22 fused multiply-adds where erfc costs 65 operations, exp among them, which e already paid.
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
    """x y + z of float64, product and sum each rounded, as NumPy's are.

    A compiler's own would be rounded once: other bits, and where they are rounded down other integers.
    """
    return x * y + z


def fma(x, y, z):
    """x y + z, rounded once on a GPU."""
    return x * y + z
