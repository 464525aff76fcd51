"""What the functions of `numbacc.elementwise` are, one number at a time, to 50 digits. Independent of numbacc.

A float is an exact number here: sums, products and quotients are fractions (`_sum`, `_product`, `_quotient`), which
know IEEE's infinities, NaN and signed zeros but neither round, overflow nor underflow; the rest is mpmath's. Where the
terms of a formula cancel, it is computed with ever more digits until two results agree (`_careful`).

Special values are NumPy's; those of activations are torch's, which evaluates the formula even at infinity: -inf * 0 is
NaN in gelu, silu and others. `LIMITS` has the limits there, for a library that prefers them.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import mpmath
import numpy as np

#: A context of its own, so that its precision is nobody else's.
mp = mpmath.MPContext()
mp.dps = 50

NAN, INF = math.nan, math.inf
SELU_ALPHA, SELU_SCALE = (mp.mpf(c) for c in ("1.6732632423543772848170429916717", "1.0507009873554804934193349852946"))

#: The limits of activations where their formula gives NaN.
LIMITS = {
    **{name: {-INF: -0.0} for name in ("gelu", "gelu_tanh", "quick_gelu", "silu", "mish", "hardswish")},
    "softsign": {INF: 1.0, -INF: -1.0},
}

# ---------------------------------------------------------------- fractions


def _lift(x):
    """A fraction; zeros, infinities and NaN stay floats."""
    return Fraction(x) if x and math.isfinite(x) else float(x)


def _unit(p):
    return p if isinstance(p, float) else math.copysign(1.0, p)


def _sum(p, q):
    if isinstance(p, float) and isinstance(q, float):
        return p + q
    if isinstance(p, float) or isinstance(q, float):
        special, fraction = (p, q) if isinstance(p, float) else (q, p)
        return special or fraction
    return p + q or 0.0


def _product(p, q):
    return _unit(p) * _unit(q) if isinstance(p, float) or isinstance(q, float) else p * q


def _quotient(p, q):
    if not isinstance(p, float) and not isinstance(q, float):
        return p / q
    with np.errstate(all="ignore"):
        return float(np.float64(_unit(p)) / np.float64(_unit(q)))


def _minus(p):
    return -p


def _rational(formula):
    return lambda *numbers: formula(*map(_lift, numbers))


# ---------------------------------------------------------------- mpmath


def _same(x):
    return x


def _pole(x):
    return math.copysign(INF, x)


def _smooth(function, plus=NAN, minus=NAN, zero=None):
    """A function of one number, with its values at inf and -inf, and at 0 and -0 where `zero` tells of the zero."""

    def value(x):
        if math.isnan(x):
            return NAN
        if math.isinf(x):
            return plus if x > 0 else minus
        return zero(x) if x == 0 and zero else function(mp.mpf(x))

    return value


def _careful(function):
    """The function with as many digits as it needs. Its value must not be 0."""

    def value(*numbers):
        digits, last = mp.dps, mp.mpf(0)
        while True:
            with mp.workdps(digits):
                found = function(*map(mp.mpf, numbers))
                if found and abs(found - last) <= abs(found) * mp.mpf(10) ** -42:
                    return found
            digits, last = 2 * digits, found

    return value


def _short(x):
    """Exponentials beyond exp(±1e5) are beyond every dtype, and hard to compute."""
    return min(max(x, mp.mpf(-100_000)), mp.mpf(100_000))


def _exp(x):
    return mp.exp(_short(x))


def _sigmoid(x):
    return 1 / (1 + _exp(-x))


def _tanh_gelu(x):
    return x * _sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))


def _lgamma(x):
    if x in (1, 2) or (x < 0 and x == mp.floor(x)):
        return 0.0 if x > 0 else INF
    if x > 0:
        return _careful(mp.loggamma)(x)
    return _careful(lambda x: mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x))(x)


def _digamma(x):
    return NAN if x < 0 and x == mp.floor(x) else _careful(mp.digamma)(x)


def _erfinv(x):
    return NAN if abs(x) > 1 else mp.erfinv(x) if abs(x) < 1 else _pole(x)


def _exponential_below(x, alpha, divisor, scale=1):
    if math.isnan(x) or x == 0:
        return x
    if x > 0:
        return x * mp.mpf(scale)
    return scale * alpha * mp.expm1(_short(mp.mpf(x) / divisor))


def _softplus(x, beta=1.0, threshold=20.0):
    scaled = _product(_lift(x), _lift(beta))
    if math.isnan(x) or scaled > threshold:
        return x
    if scaled == -INF:
        return 0.0
    return mp.log1p(_exp(_number(scaled))) / beta


def _hardsigmoid(x):
    shifted = _sum(_lift(x), Fraction(3))
    return 0.0 if shifted <= 0 else min(shifted, Fraction(6)) / 6


# ---------------------------------------------------------------- integers near by


def _integer(function):
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


def _fraction_part(x):
    return NAN if not math.isfinite(x) else _sum(_lift(x), _lift(float(-math.trunc(x))))


def _division(ufunc, formula):
    """By NumPy where it is about special values, by fractions elsewhere."""

    def value(a, b):
        if a and b and math.isfinite(a) and math.isfinite(b):
            found = formula(Fraction(a), Fraction(b))
            return found or math.copysign(0.0, {"fmod": a, "remainder": b}.get(ufunc.__name__, 1.0))
        with np.errstate(all="ignore"):
            return float(ufunc(np.float64(a), np.float64(b)))

    return value


# ---------------------------------------------------------------- two numbers


def _pow(x, y):
    if x in (0, 1) or y == 0 or not (math.isfinite(x) and math.isfinite(y)):
        with np.errstate(all="ignore"):
            # NumPy takes square roots if y is 1/2, which differ at -0.0 and -inf.
            return abs(x) if y == 0.5 else float(np.power(np.float64(x), np.float64(y)))
    if x < 0 and y != math.floor(y):
        return NAN
    magnitude = _exp(mp.mpf(y) * mp.log(abs(mp.mpf(x))))
    return -magnitude if x < 0 and y % 2 else magnitude


def _atan2(y, x):
    if math.isnan(x) or math.isnan(y):
        return NAN
    if math.isinf(x) or math.isinf(y):
        y, x = (math.copysign(float(math.isinf(v)), v) for v in (y, x))
    if y == 0:
        return y if math.copysign(1, x) > 0 else math.copysign(1, y) * mp.pi
    return mp.atan2(mp.mpf(y), mp.mpf(x))


def _hypot(x, y):
    if math.isinf(x) or math.isinf(y):
        return INF
    return NAN if math.isnan(x) or math.isnan(y) else mp.sqrt(mp.mpf(x) ** 2 + mp.mpf(y) ** 2)


def _logaddexp(a, b):
    if math.isnan(a) or math.isnan(b):
        return NAN
    if math.isinf(a) or math.isinf(b):
        return max(a, b)
    return _careful(lambda a, b: max(a, b) + mp.log1p(_exp(-abs(a - b))))(a, b)


def _larger(a, b, sign, ignore_nan=False):
    if math.isnan(a) or math.isnan(b):
        return (a if math.isnan(b) else b) if ignore_nan else NAN
    return a if sign * a >= sign * b else b


def _clamp(x, low, high):
    return _larger(_larger(x, low, 1), high, -1)


# ---------------------------------------------------------------- the table

#: Every function: of Python floats, giving a float, a fraction, a number of mpmath or a bool.
VALUES = {
    "negative": lambda x: -x,
    "abs": abs,
    "sign": lambda x: x if math.isnan(x) else float((x > 0) - (x < 0)),
    "square": _rational(lambda x: _product(x, x)),
    "sqrt": _smooth(mp.sqrt, INF, zero=_same),
    "rsqrt": _smooth(lambda x: 1 / mp.sqrt(x), 0.0, zero=_pole),
    "cbrt": _smooth(lambda x: mp.sign(x) * mp.cbrt(abs(x)), INF, -INF, _same),
    "reciprocal": _rational(lambda x: _quotient(Fraction(1), x)),
    "exp": _smooth(_exp, INF, 0.0),
    "exp2": _smooth(lambda x: mp.power(2, _short(x)), INF, 0.0),
    "expm1": _smooth(lambda x: mp.expm1(_short(x)), INF, -1.0, _same),
    "log": _smooth(mp.log, INF, zero=lambda x: -INF),
    "log2": _smooth(lambda x: mp.log(x, 2), INF, zero=lambda x: -INF),
    "log10": _smooth(mp.log10, INF, zero=lambda x: -INF),
    "log1p": _smooth(lambda x: mp.log1p(x) if x != -1 else -INF, INF, zero=_same),
    "sin": _smooth(mp.sin, zero=_same),
    "cos": _smooth(mp.cos),
    "tan": _smooth(mp.tan, zero=_same),
    "asin": _smooth(mp.asin, zero=_same),
    "acos": _smooth(mp.acos),
    "atan": _smooth(mp.atan, mp.pi / 2, -mp.pi / 2, _same),
    "sinh": _smooth(lambda x: mp.sinh(_short(x)), INF, -INF, _same),
    "cosh": _smooth(lambda x: mp.cosh(_short(x)), INF, INF),
    "tanh": _smooth(lambda x: mp.tanh(_short(x)), 1.0, -1.0, _same),
    "asinh": _smooth(mp.asinh, INF, -INF, _same),
    "acosh": _smooth(lambda x: NAN if x < 1 else mp.acosh(x), INF),
    "atanh": _smooth(lambda x: mp.atanh(x) if abs(x) != 1 else _pole(x), zero=_same),
    "erf": _smooth(lambda x: mp.erf(_short(x)), 1.0, -1.0, _same),
    "erfc": _smooth(lambda x: mp.erfc(_short(x)), 0.0, 2.0),
    "erfinv": _smooth(_erfinv, zero=_same),
    "lgamma": _smooth(_lgamma, INF, INF, lambda x: INF),
    "digamma": _smooth(_digamma, INF, zero=lambda x: -_pole(x)),
    "floor": _integer(math.floor),
    "ceil": _integer(math.ceil),
    "round": _integer(round),
    "trunc": _integer(math.trunc),
    "frac": _fraction_part,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "logical_not": operator.not_,
    # Activations.
    "relu": lambda x: _larger(x, 0.0, 1),
    "leaky_relu": lambda x, negative_slope=0.01: x if x > 0 else _product(_lift(x), _lift(negative_slope)),
    "prelu": lambda x, weight: x if x > 0 else _product(_lift(x), _lift(weight)),
    "relu6": lambda x: _clamp(x, 0.0, 6.0),
    "elu": lambda x, alpha=1.0: _exponential_below(x, alpha, 1),
    "selu": lambda x: _exponential_below(x, SELU_ALPHA, 1, SELU_SCALE),
    "celu": lambda x, alpha=1.0: _exponential_below(x, alpha, alpha),
    "gelu": _smooth(lambda x: x * mp.erfc(-_short(x) / mp.sqrt(2)) / 2, INF, zero=_same),
    "gelu_tanh": _smooth(_tanh_gelu, INF, zero=_same),
    "quick_gelu": _smooth(lambda x: x * _sigmoid(x * mp.mpf("1.702")), INF, zero=_same),
    "silu": _smooth(lambda x: x * _sigmoid(x), INF, zero=_same),
    "mish": _smooth(lambda x: x * mp.tanh(mp.log1p(_exp(x))), INF, zero=_same),
    "softplus": _softplus,
    "softsign": _rational(lambda x: _quotient(x, _sum(Fraction(1), abs(x)))),
    "sigmoid": _smooth(_sigmoid, 1.0, 0.0),
    "log_sigmoid": _smooth(lambda x: min(x, 0) - mp.log1p(_exp(-abs(x))), 0.0, -INF),
    "hardsigmoid": _hardsigmoid,
    "hardswish": lambda x: _product(_lift(x), _hardsigmoid(x)),
    "hardtanh": lambda x, low=-1.0, high=1.0: _clamp(x, low, high),
    "tanhshrink": _smooth(_careful(lambda x: x - mp.tanh(_short(x))), INF, -INF, _same),
    "softshrink": lambda x, lambd=0.5: 0.0 if abs(x) <= lambd else _sum(_lift(x), _lift(math.copysign(lambd, -x))),
    "hardshrink": lambda x, lambd=0.5: 0.0 if abs(x) <= lambd else x,
    "threshold": lambda x, threshold, value: value if x <= threshold else x,
    "squared_relu": lambda x: 0.0 if x <= 0 else _product(_lift(x), _lift(x)),
    # Two numbers.
    "add": _rational(_sum),
    "subtract": _rational(lambda a, b: _sum(a, _minus(b))),
    "multiply": _rational(_product),
    "divide": _rational(_quotient),
    "floor_divide": _division(np.floor_divide, lambda a, b: Fraction(a // b)),
    "remainder": _division(np.remainder, operator.mod),
    "fmod": _division(np.fmod, lambda a, b: a - b * math.trunc(a / b)),
    "pow": _pow,
    "maximum": lambda a, b: _larger(a, b, 1),
    "minimum": lambda a, b: _larger(a, b, -1),
    "fmax": lambda a, b: _larger(a, b, 1, ignore_nan=True),
    "fmin": lambda a, b: _larger(a, b, -1, ignore_nan=True),
    "atan2": _atan2,
    "hypot": _hypot,
    "copysign": math.copysign,
    "logaddexp": _logaddexp,
    "ldexp": lambda x, n: mp.ldexp(mp.mpf(x), int(min(max(n, -9999), 9999))) if x and math.isfinite(x) else x,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
    # Three numbers.
    "where": lambda condition, a, b: a if condition else b,
    "clamp": _clamp,
    "fma": _rational(lambda a, b, c: _sum(_product(a, b), c)),
    "lerp": _rational(lambda a, b, weight: _sum(a, _product(weight, _sum(b, _minus(a))))),
    "addcmul": lambda x, a, b, value=1.0: _rational(lambda x, a, b, v: _sum(x, _product(_product(v, a), b)))(
        x, a, b, value
    ),
    "addcdiv": lambda x, a, b, value=1.0: _rational(lambda x, a, b, v: _sum(x, _product(v, _quotient(a, b))))(
        x, a, b, value
    ),
}


def _number(found):
    """mpmath's number; a bool, or a float if it is 0 (of either sign), infinite or NaN."""
    if isinstance(found, bool):
        return found
    if isinstance(found, Fraction):
        return mp.mpf(found.numerator) / found.denominator
    if isinstance(found, mp.mpc):
        return NAN
    if found and mp.isfinite(found):
        return mp.mpf(found)
    return float(found)


def exact(name, *numbers, **options):
    """A function of numbers: a `mpf` of 50 digits; a float if it is ±0, infinite or NaN; a bool of a predicate."""
    return _number(VALUES[name](*map(float, numbers), **options))


def exact_array(name, *arrays, **options):
    """The same at each position of arrays, as an array of objects."""
    with np.errstate(all="ignore"):
        rows = np.broadcast_arrays(*(np.asarray(a).astype(np.float64) for a in arrays))
    found = np.empty(rows[0].shape, object)
    for position in np.ndindex(found.shape):
        found[position] = exact(name, *(row[position] for row in rows), **options)
    return found


#: Inputs that nothing can be differentiated by: integers and conditions.
DISCRETE = {"ldexp": {1}, "where": {0}}


def differences(name, *point, **options):
    """The partial derivatives at a point of float32 numbers, to some 20 digits; None by what is in `DISCRETE`.

    Four values make the error a multiple of step⁴; numbers of 24 bits make the steps exact. A step is a millionth of
    the number: too long where a function oscillates or jumps in it, and too short where it is 1 but for 1e-40.
    """
    point, found = [float(x) for x in point], []
    assert all(x == np.float32(x) for x in point)
    for place, x in enumerate(point):
        if place in DISCRETE.get(name, ()):
            found.append(None)
            continue
        step = math.ldexp(1.0, (math.frexp(x)[1] if x else 0) - 20)
        near, far = (
            [exact(name, *point[:place], x + k * way * step, *point[place + 1 :], **options) for way in (1, -1)]
            for k in (1, 2)
        )
        found.append((8 * (mp.mpf(near[0]) - near[1]) - (mp.mpf(far[0]) - far[1])) / (12 * mp.mpf(step)))
    return tuple(found)
