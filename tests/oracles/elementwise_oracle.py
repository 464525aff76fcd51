"""What the functions of `numbacc.elementwise` must give, special arguments, and how far off a result is.

Independent of numbacc. A function has an entry in three tables, one below the other:

* `VALUES`: the function of one number, to 50 digits, which `exact` and `exact_array` give. A float is an exact number
  there: sums, products and quotients are fractions (`_sum`, `_product`, `_quotient`), which know IEEE's infinities, NaN
  and signed zeros but neither round, overflow nor underflow; the rest is mpmath's. Where the terms of a formula cancel,
  it is computed with ever more digits until two results agree (`_careful`). Special values are NumPy's; those of
  activations are torch's, which evaluates the formula even at infinity: -inf * 0 is NaN in gelu, silu and others.
  `LIMITS` has the limits there, for a library that prefers them.
* `VECTORS`: the function of many float32 or 16-bit numbers, in float64, within 1e-13 of the value (`vector`). Where
  float64 is not enough (near a zero of lgamma, where the terms of lerp cancel) single values come from `exact`.
* `FORMULAS`: the partial derivatives in float64; `GRADIENTS[name](*inputs, **options)` has one for each input, None for
  integers and conditions. They are closed forms, accurate to about 1e-13 except where their terms cancel (where gelu'
  crosses zero): there relative to the terms. At kinks they are torch's: relu'(0) = 0; relu6, hardtanh, hardsigmoid and
  the shrinks 1 only strictly beyond or between their ends; hardswish'(-3) = 0 and hardswish'(3) = 1 as in torch 2.8;
  clamp passes all inside and on its bounds, maximum and minimum half to each of equals, fmax and fmin all to the first.

`integer` and `complex_` are NumPy's own results. `ulps(found, wanted, dtype)` counts errors; `wanted` is an array of
float64, or one of objects from `exact_array`.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from functools import wraps

import ml_dtypes
import mpmath
import numpy as np
from scipy import special
from scipy.special import expit, zeta

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


DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16))

#: The functions by the number of arrays they take.
TERNARY = ("where", "clamp", "fma", "lerp", "addcmul", "addcdiv")
BINARY = (
    "prelu add subtract multiply divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot copysign "
    "logaddexp ldexp equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor"
)
BINARY = tuple(BINARY.split())
UNARY = tuple(name for name in VALUES if name not in BINARY + TERNARY)

# ---------------------------------------------------------------- in float64


def _mended(found, terms, name, *arrays, **options):
    """Where a value is small beside its terms, that of `exact`."""
    found, terms, *arrays = (np.array(a) for a in np.broadcast_arrays(found, terms, *arrays))
    for place in np.argwhere(np.isfinite(terms) & (np.abs(found) < 0.02 * terms)):
        place = tuple(place)
        found[place] = float(exact(name, *(a[place] for a in arrays), **options))
    return found


def below(x):
    """The part of numbers below 0, with the sign of zeros: no exponential of it overflows."""
    return np.where(x > 0, 0, x)


def normal_cdf(x):
    """Φ. The scaled erfc leaves exp(-x²/2) to itself, where x² of a float32 is exact."""
    tail = special.erfcx(np.maximum(-x, 0) / np.sqrt(2)) * np.exp(-x * x / 2) / 2
    return np.where(x < -1, tail, special.erfc(-x / np.sqrt(2)) / 2)


def _erfc(x):
    return np.where(x > 1, special.erfcx(np.maximum(x, 0)) * np.exp(-x * x), special.erfc(x))


def _lgamma_vector(x):
    found = special.gammaln(np.abs(x))
    found = _mended(found, np.where((x > 0.5) & (x < 2.5), 1.0, 0.0), "lgamma", x)
    # Γ(x) Γ(1 - x) = π / sin πx
    sine, other = np.abs(np.sin(np.pi * (x - np.rint(x)))), special.gammaln(1 - below(x))
    first = np.log(np.pi / sine)
    reflected = _mended(first - other, np.where(x < 0, np.abs(first) + np.abs(other), 0), "lgamma", x)
    return np.where((x < 0) & np.isfinite(x), reflected, np.where(np.isinf(x), np.inf, found))


def _digamma_vector(x):
    found = _mended(special.digamma(np.abs(x)), np.where(x > 0, 1.0, 0.0), "digamma", x)
    rest, other = x - np.rint(x), special.digamma(1 - below(x))
    first = np.where(rest == 0, NAN, -np.pi / np.tan(np.pi * rest))
    reflected = _mended(first + other, np.where(x < 0, np.abs(first) + np.abs(other), 0), "digamma", x)
    return np.where(x < 0, reflected, np.where(x == 0, -np.copysign(np.inf, x), found))


def tanh_gelu_angle(x):
    """u and u' of gelu_tanh = x σ(2u)."""
    root = np.sqrt(2 / np.pi)
    return root * (x + 0.044715 * x**3), root * (1 + 3 * 0.044715 * x * x)


def _tanhshrink(x):
    """x - tanh x = (x cosh x - sinh x) / cosh x; the numerator's series is a sum of positive terms."""
    series = term = 0 * x
    term = np.clip(x, -2, 2)
    for k in range(1, 18):
        term = term * np.clip(x, -2, 2) ** 2 / ((2 * k) * (2 * k + 1))
        series = series + 2 * k * term
    return np.where(np.abs(x) < 2, series / np.cosh(np.clip(x, -2, 2)), x - np.tanh(x))


def _softplus_vector(x, beta=1.0, threshold=20.0):
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)


def _logaddexp_vector(a, b):
    return _mended(np.logaddexp(a, b), np.abs(np.maximum(a, b)), "logaddexp", a, b)


def _lerp(a, b, weight):
    part = weight * (b - a)
    return _mended(a + part, np.abs(a) + np.abs(part), "lerp", a, b, weight)


def _addcmul(x, a, b, value=1.0):
    part = value * a * b
    return _mended(x + part, np.abs(x), "addcmul", x, a, b, value=value)


def _addcdiv(x, a, b, value=1.0):
    part = value * (a / b)
    return _mended(x + part, np.abs(x), "addcdiv", x, a, b, value=value)


def _clamp_vector(x, low, high):
    return np.minimum(np.maximum(x, low), high)


def _hardsigmoid_vector(x):
    return _clamp_vector(x + 3, 0, 6) / 6


#: Those that NumPy has under the same name.
_NUMPYS = (
    "negative abs sign square sqrt cbrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan "
    "sinh cosh tanh asinh acosh atanh floor ceil trunc isnan isinf isfinite logical_not add subtract multiply divide "
    "floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot copysign equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor"
)

#: Every function, of arrays of float64.
VECTORS = {
    **{name: getattr(np, name) for name in _NUMPYS.split()},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": special.erf,
    "erfc": _erfc,
    # SciPy's loses the sign of zeros.
    "erfinv": lambda x: np.copysign(special.erfinv(x), x),
    "lgamma": _lgamma_vector,
    "digamma": _digamma_vector,
    "round": np.rint,
    "frac": lambda x: x - np.trunc(x),
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    "prelu": lambda x, weight: np.where(x > 0, x, x * weight),
    "relu6": lambda x: _clamp_vector(x, 0, 6),
    "elu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(below(x))),
    "selu": lambda x: float(SELU_SCALE) * np.where(x > 0, x, float(SELU_ALPHA) * np.expm1(below(x))),
    "celu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(below(x) / alpha)),
    "gelu": lambda x: x * normal_cdf(x),
    "gelu_tanh": lambda x: x * special.expit(2 * tanh_gelu_angle(x)[0]),
    "quick_gelu": lambda x: x * special.expit(1.702 * x),
    "silu": lambda x: x * special.expit(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softplus": _softplus_vector,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sigmoid": special.expit,
    "log_sigmoid": lambda x: below(x) - np.log1p(np.exp(-np.abs(x))),
    "hardsigmoid": _hardsigmoid_vector,
    "hardswish": lambda x: x * _hardsigmoid_vector(x),
    "hardtanh": lambda x, low=-1.0, high=1.0: _clamp_vector(x, low, high),
    "tanhshrink": _tanhshrink,
    "softshrink": lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x - np.copysign(lambd, x)),
    "hardshrink": lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),
    "threshold": lambda x, threshold, value: np.where(x <= threshold, value, x),
    "squared_relu": lambda x: np.square(np.maximum(x, 0)),
    "logaddexp": _logaddexp_vector,
    "ldexp": lambda x, n: np.ldexp(x, np.clip(n, -9999, 9999).astype(np.int32)),
    "where": lambda condition, a, b: np.where(condition != 0, a, b),
    "clamp": _clamp_vector,
    "fma": lambda a, b, c: a * b + c,
    "lerp": _lerp,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
}


def vector(name, *arrays, **options):
    """A function of arrays of float32 or narrower numbers, in float64; a predicate's in bool."""
    with np.errstate(all="ignore"):
        return VECTORS[name](*(np.asarray(a).astype(np.float64) for a in arrays), **options)


# ---------------------------------------------------------------- gradients

LN2, LN10 = np.log(2), np.log(10)


def _in_float64(formula):
    """Inputs of any dtype; partial derivatives each of their common shape."""

    @wraps(formula)
    def gradient(*inputs, **options):
        inputs = np.broadcast_arrays(*(np.asarray(a).astype(np.float64) for a in inputs))
        with np.errstate(all="ignore"):
            found = formula(*inputs, **options)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(
            None if part is None else np.broadcast_to(np.asarray(part, np.float64), inputs[0].shape).copy()
            for part in found
        )

    return gradient


def _zero(x):
    return 0.0


def _trigamma(x):
    sine = np.sin(np.pi * (x - np.rint(x)))
    reflected = (np.pi / sine) ** 2 - zeta(2, 1 - below(x))
    return np.where(x > 0, zeta(2, np.abs(x)), reflected)


def _sigmoid_slope(x):
    return expit(x) * expit(-x)


def _gelu(x):
    return normal_cdf(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _gelu_tanh(x):
    u, slope = tanh_gelu_angle(x)
    return expit(2 * u) + x * 2 * slope * _sigmoid_slope(2 * u)


def _mish(x):
    """tanh(softplus) by e = exp(-|x|), and 1 - tanh² with nothing that cancels."""
    e = np.exp(-np.abs(x))
    over = np.where(x > 0, 1 + 2 * e, e * e + 2 * e)
    bottom = np.where(x > 0, 1 + 2 * e + 2 * e * e, e * e + 2 * e + 2)
    # 1 - t = 2 / (s² + 1) with s = 1 + exp(x).
    rest = np.where(x > 0, 2 * e * e, 2) / bottom
    tanh = over / bottom
    return tanh + x * rest * (1 + tanh) * expit(x)


def _fmod_like(whole):
    return lambda a, b: (1.0, -whole(a / b))


def _pow_slopes(x, y):
    by_base = np.where(y == 0, 0.0, y * np.power(x, y - 1))
    by_exponent = np.where((x == 0) & (y >= 0), 0.0, np.power(x, y) * np.log(x))
    return by_base, by_exponent


def _extreme(sign):
    def shares(a, b):
        half = np.where(a == b, 0.5, 1.0)
        return half * ~(sign * a < sign * b), half * ~(sign * a > sign * b)

    return shares


def _extreme_number(sign):
    def shares(a, b):
        first = (sign * a >= sign * b) | np.isnan(b)
        return first, ~first

    return shares


def _clamp_slopes(x, low, high):
    return (x >= low) & (x <= high), (x < low) & (low < high), (x > high) | (high < low)


def _hypot_slopes(x, y):
    length = np.hypot(x, y)
    return x / length, y / length


def _atan2_slopes(y, x):
    """As the products of two quotients: squares would overflow in float64."""
    length = np.hypot(x, y)
    return x / length / length, -y / length / length


FORMULAS = {
    "negative": lambda x: -1.0,
    "abs": np.sign,
    "square": lambda x: 2 * x,
    "sqrt": lambda x: 0.5 / np.sqrt(x),
    "rsqrt": lambda x: -0.5 / (x * np.sqrt(x)),
    "cbrt": lambda x: 1 / (3 * np.cbrt(x) ** 2),
    "reciprocal": lambda x: -1 / x / x,
    "exp": np.exp,
    "exp2": lambda x: LN2 * np.exp2(x),
    "expm1": np.exp,
    "log": lambda x: 1 / x,
    "log2": lambda x: 1 / (LN2 * x),
    "log10": lambda x: 1 / (LN10 * x),
    "log1p": lambda x: 1 / (1 + x),
    "sin": np.cos,
    "cos": lambda x: -np.sin(x),
    "tan": lambda x: 1 + np.tan(x) ** 2,
    "asin": lambda x: 1 / np.sqrt((1 - x) * (1 + x)),
    "acos": lambda x: -1 / np.sqrt((1 - x) * (1 + x)),
    "atan": lambda x: 1 / (1 + x * x),
    "sinh": np.cosh,
    "cosh": np.sinh,
    "tanh": lambda x: 1 / np.cosh(x) ** 2,
    "asinh": lambda x: 1 / np.hypot(x, 1),
    "acosh": lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    "atanh": lambda x: 1 / ((1 - x) * (1 + x)),
    "erf": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "erfc": lambda x: -2 / np.sqrt(np.pi) * np.exp(-x * x),
    "erfinv": lambda x: np.sqrt(np.pi) / 2 * np.exp(vector("erfinv", x) ** 2),
    "lgamma": lambda x: vector("digamma", x),
    "digamma": _trigamma,
    "sign": _zero,
    "floor": _zero,
    "ceil": _zero,
    "round": _zero,
    "trunc": _zero,
    "frac": lambda x: 1.0,
    # Activations.
    "relu": lambda x: x > 0,
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, 1.0, negative_slope),
    "prelu": lambda x, weight: (np.where(x > 0, 1.0, weight), below(x)),
    "relu6": lambda x: (x > 0) & (x < 6),
    "elu": lambda x, alpha=1.0: np.where(x > 0, 1.0, alpha * np.exp(below(x))),
    "selu": lambda x: float(SELU_SCALE) * np.where(x > 0, 1.0, float(SELU_ALPHA) * np.exp(below(x))),
    "celu": lambda x, alpha=1.0: np.where(x > 0, 1.0, np.exp(below(x) / alpha)),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "quick_gelu": lambda x: expit(1.702 * x) + 1.702 * x * _sigmoid_slope(1.702 * x),
    "silu": lambda x: expit(x) + x * _sigmoid_slope(x),
    "mish": _mish,
    "softplus": lambda x, beta=1.0, threshold=20.0: np.where(x * beta > threshold, 1.0, expit(x * beta)),
    "softsign": lambda x: 1 / (1 + np.abs(x)) ** 2,
    "sigmoid": _sigmoid_slope,
    "log_sigmoid": lambda x: expit(-x),
    "hardsigmoid": lambda x: ((x > -3) & (x < 3)) / 6,
    "hardswish": lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3 + 0.5)),
    "hardtanh": lambda x, low=-1.0, high=1.0: (x > low) & (x < high),
    "tanhshrink": lambda x: np.tanh(x) ** 2,
    "softshrink": lambda x, lambd=0.5: np.abs(x) > lambd,
    "hardshrink": lambda x, lambd=0.5: np.abs(x) > lambd,
    "threshold": lambda x, threshold, value: x > threshold,
    "squared_relu": lambda x: 2 * np.maximum(x, 0),
    # Two numbers.
    "add": lambda a, b: (1.0, 1.0),
    "subtract": lambda a, b: (1.0, -1.0),
    "multiply": lambda a, b: (b, a),
    "divide": lambda a, b: (1 / b, -a / b / b),
    "floor_divide": lambda a, b: (0.0, 0.0),
    "remainder": _fmod_like(np.floor),
    "fmod": _fmod_like(np.trunc),
    "pow": _pow_slopes,
    "maximum": _extreme(1),
    "minimum": _extreme(-1),
    "fmax": _extreme_number(1),
    "fmin": _extreme_number(-1),
    "atan2": _atan2_slopes,
    "hypot": _hypot_slopes,
    "copysign": lambda x, y: (np.sign(x) * np.copysign(1.0, y), 0.0),
    "logaddexp": lambda a, b: (expit(a - b), expit(b - a)),
    "ldexp": lambda x, n: (vector("ldexp", np.ones_like(x), n), None),
    # Three numbers.
    "where": lambda condition, a, b: (None, condition != 0, condition == 0),
    "clamp": _clamp_slopes,
    "fma": lambda a, b, c: (b, a, 1.0),
    "lerp": lambda a, b, weight: (1 - weight, weight, b - a),
    "addcmul": lambda x, a, b, value=1.0: (1.0, value * b, value * a),
    "addcdiv": lambda x, a, b, value=1.0: (1.0, value / b, -value * a / b / b),
}

GRADIENTS = {name: _in_float64(formula) for name, formula in FORMULAS.items()}

# ---------------------------------------------------------------- other dtypes

_PLAIN = {
    "where": lambda condition, a, b: np.where(condition, a, b),
    "fma": lambda a, b, c: a * b + c,
    "lerp": lambda a, b, weight: a + weight * (b - a),
    "addcmul": lambda x, a, b, value=1: x + x.dtype.type(value) * a * b,
}
_INTEGERS = {
    **_PLAIN,
    "frac": np.zeros_like,
    "clamp": _clamp_vector,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "squared_relu": lambda x: np.square(np.maximum(x, x.dtype.type(0))),
    "threshold": lambda x, threshold, value: np.where(x <= threshold, x.dtype.type(value), x),
}
_COMPLEX = {
    **_PLAIN,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "tanhshrink": lambda z: z - np.tanh(z),
    # Some versions of NumPy have NaN of 0 and complex exponents.
    "pow": lambda a, b: np.where((a == 0) & (b.real > 0), 0, np.power(a, b)),
    "addcdiv": lambda x, a, b, value=1: x + x.dtype.type(value) * (a / b),
}


def _numpys(table, name, dtype, arrays, options):
    """Conditions of `where` keep their dtype."""
    first = 1 if name == "where" else 0
    arrays = [np.asarray(a) if k < first else np.asarray(a).astype(dtype) for k, a in enumerate(arrays)]
    with np.errstate(all="ignore"):
        return np.asarray((table.get(name) or getattr(np, name))(*arrays, **options))


def integer(name, dtype, *arrays, **options):
    """NumPy's result for integers or bools; the dtype of the result is NumPy's too."""
    return _numpys(_INTEGERS, name, np.dtype(dtype), arrays, options)


def complex_(name, *arrays, **options):
    """NumPy's result for complex numbers, in complex128, and float64 or bool where it is real."""
    return _numpys(_COMPLEX, name, np.dtype(np.complex128), arrays, options)


# ---------------------------------------------------------------- special arguments


def all_16_bit(dtype):
    """Every value of float16, bfloat16 or a 16-bit integer, each bit pattern once."""
    return np.arange(2**16, dtype=np.uint16).view(dtype)


def nextafter(dtype, x, y):
    """The number of a dtype behind x on the way to y, by its bits; as in C, y where they are equal, NaN if one is."""
    dtype = np.dtype(dtype)
    x, y = (np.array(a) for a in np.broadcast_arrays(np.asarray(x, dtype), np.asarray(y, dtype)))
    signed, kind = np.dtype(f"i{dtype.itemsize}"), np.dtype(f"u{dtype.itemsize}")
    bits, sign = x.view(kind), kind.type(1) << kind.type(8 * dtype.itemsize - 1)
    with np.errstate(all="ignore"):
        outwards, equal, nan = (y > x) == (x.view(signed) >= 0), x == y, np.isnan(x) | np.isnan(y)
        found = np.where(outwards, bits + kind.type(1), bits - kind.type(1))
        found = np.where(x == 0, (y.view(kind) & sign) | kind.type(1), found)
    found = np.where(equal, y.view(kind), found).astype(kind).view(dtype)
    return np.where(nan, dtype.type(NAN), found)


def neighbours(dtype, values):
    """The values rounded to a dtype, and the numbers on both sides of each."""
    with np.errstate(all="ignore"):
        values = np.asarray(values, np.float64).astype(dtype)
        sides = (nextafter(dtype, values, np.full_like(values, way)) for way in (-np.inf, np.inf))
        return np.concatenate([values, *sides])


def _specials(dtype):
    limits = ml_dtypes.finfo(dtype)
    largest, normal, smallest = (float(v) for v in (limits.max, limits.smallest_normal, limits.smallest_subnormal))
    digits, high = int(limits.nmant) + 1, int(limits.maxexp)
    low = int(limits.minexp) - digits
    plain = [0, np.inf, 0.5, 1.5, 2.5, 3.5, 0.1, 0.25, 1 / 3, 2 / 3, 6, 20, 27, 34.5, 127, 128, 171, 255, 256, 1000]
    plain += [2.0**k + d for k in (digits - 1, digits) for d in (-1, -0.5, 0, 0.5, 1)] + [*range(1, 11)]
    plain += [smallest, 2 * smallest, 3 * smallest, normal - smallest, normal, 1.5 * normal, 2 * normal, largest / 2]
    plain += [np.sqrt(largest), np.sqrt(normal), np.cbrt(largest), 105_615, 2.0**31, 2.0**32, 2.0**63, 1e22, 1e38]
    overflows = np.log(2) * np.array([high, low, low + digits, high / 2, high + 1])
    edges = [*overflows, -low, high, low + digits, 1, 2, 3, 0.5, largest, np.arctanh(0.5), 1.4616321449683622]
    edges += [k * np.pi / 4 for k in (*range(1, 9), 400, 40_000)] + [17, 88, 103, 709, 745]
    found = np.concatenate([np.array(plain).astype(dtype), neighbours(dtype, edges)])
    found = np.concatenate([found, np.negative(found), np.array([NAN], dtype)])
    return np.unique(found.view(f"u{np.dtype(dtype).itemsize}")).view(dtype)


with np.errstate(all="ignore"):
    #: For each dtype, the numbers where functions have their ends, poles, zeros and branches; each bit pattern once.
    SPECIALS = {dtype: _specials(dtype) for dtype in DTYPES}


# ---------------------------------------------------------------- errors


def _exponents(magnitude, limits):
    """The exponent of the unit in the last place of a dtype at these exponents of numbers."""
    return np.clip(magnitude, int(limits.minexp), int(limits.maxexp) - 1) - int(limits.nmant)


def _scaled(found, wanted, limits):
    """Found and wanted in units at the wanted, where they are floats."""
    unit = _exponents(np.where(wanted == 0, -9999, np.frexp(wanted)[1] - 1), limits)
    unit = np.where(np.isinf(wanted), _exponents(9999, limits), unit)
    top = np.ldexp(1.0, int(limits.maxexp) - unit)
    mine = np.where(np.isinf(found), np.copysign(top, found), np.ldexp(found, -unit))
    theirs = np.ldexp(wanted, -unit)
    return np.abs(mine - theirs), top, np.abs(theirs)


def _scaled_exactly(found, wanted, limits):
    """The same where the wanted is a number of mpmath."""
    unit = int(_exponents(min(max(int(mp.frexp(wanted)[1]) - 1, -9999), 9999), limits))
    top = mp.mpf(2) ** (int(limits.maxexp) - unit)
    mine = top * (1 if found > 0 else -1) if np.isinf(found) else mp.ldexp(mp.mpf(float(found)), -unit)
    theirs = mp.ldexp(wanted, -unit)
    return float(abs(mine - theirs)), float(top), float(min(abs(theirs), 2 * top))


def ulps(found, wanted, dtype, zeros=False):
    """How far off each value is, in units in the last place of the dtype at what is wanted.

    Below the smallest normal number, and at 0, the unit is the smallest subnormal. NaN for NaN, and an infinity for
    itself or for what rounds to it, are right; NaN for a number, a finite number for an infinity, or the reverse of
    the first are off by inf. An infinity for a smaller number counts as the power of two behind the largest number.
    With `zeros`, so is a zero of the wrong sign off by inf.
    """
    limits = ml_dtypes.finfo(np.dtype(dtype))
    found, wanted = np.broadcast_arrays(np.asarray(found).astype(np.float64), np.asarray(wanted))
    with np.errstate(all="ignore"):
        rough = wanted.astype(np.float64)
        if wanted.dtype == object:
            as_float = np.array([isinstance(w, float) for w in wanted.ravel()], bool).reshape(wanted.shape)
            error, top, size = (np.array(a) for a in _scaled(found, np.where(as_float, rough, 1.0), limits))
            for place in map(tuple, np.argwhere(~as_float & ~np.isnan(found))):
                error[place], top[place], size[place] = _scaled_exactly(found[place], wanted[place], limits)
        else:
            error, top, size = _scaled(found, rough, limits)
        same_side = np.isinf(found) & (np.sign(found) == np.sign(rough))
        error = np.where(same_side & (size >= top - 0.5), 0.0, error)
        error = np.where(np.isnan(found) | np.isnan(rough), np.inf, error)
        error = np.where(np.isnan(found) & np.isnan(rough), 0.0, error)
        if zeros:
            wrong = (found == 0) & (rough == 0) & (np.signbit(found) != np.signbit(rough))
            error = np.where(wrong, np.inf, error)
    return error
