"""What the functions of `numbacc.elementwise` must give, special arguments, and how far off a result is.

Independent of numbacc. Beside this file: `elementwise_oracle_exact.py`, each function of single numbers to 50 digits
(`exact`, `exact_array`), and `elementwise_oracle_gradients.py`, the partial derivatives.

* `vector(name, *arrays, **options)` is for many float32 or 16-bit numbers: in float64, within 1e-13 of the value. Where
  float64 is not enough (near a zero of lgamma, where the terms of lerp cancel) single values come from `exact`.
* `integer` and `complex_` are NumPy's own results.
* `ulps(found, wanted, dtype)` counts errors; `wanted` is an array of float64, or one of objects from `exact_array`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from elementwise_oracle_exact import LIMITS, NAN, SELU_ALPHA, SELU_SCALE, VALUES, exact, exact_array, mp
from scipy import special

__all__ = ["BINARY", "DTYPES", "LIMITS", "SPECIALS", "TERNARY", "UNARY", "VALUES", "VECTORS", "all_16_bit", "complex_"]
__all__ += ["exact", "exact_array", "integer", "neighbours", "nextafter", "ulps", "vector"]

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


def _lgamma(x):
    found = special.gammaln(np.abs(x))
    found = _mended(found, np.where((x > 0.5) & (x < 2.5), 1.0, 0.0), "lgamma", x)
    # Γ(x) Γ(1 - x) = π / sin πx
    sine, other = np.abs(np.sin(np.pi * (x - np.rint(x)))), special.gammaln(1 - below(x))
    first = np.log(np.pi / sine)
    reflected = _mended(first - other, np.where(x < 0, np.abs(first) + np.abs(other), 0), "lgamma", x)
    return np.where((x < 0) & np.isfinite(x), reflected, np.where(np.isinf(x), np.inf, found))


def _digamma(x):
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


def _softplus(x, beta=1.0, threshold=20.0):
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)


def _logaddexp(a, b):
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


def _clamp(x, low, high):
    return np.minimum(np.maximum(x, low), high)


def _hardsigmoid(x):
    return _clamp(x + 3, 0, 6) / 6


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
    "lgamma": _lgamma,
    "digamma": _digamma,
    "round": np.rint,
    "frac": lambda x: x - np.trunc(x),
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    "prelu": lambda x, weight: np.where(x > 0, x, x * weight),
    "relu6": lambda x: _clamp(x, 0, 6),
    "elu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(below(x))),
    "selu": lambda x: float(SELU_SCALE) * np.where(x > 0, x, float(SELU_ALPHA) * np.expm1(below(x))),
    "celu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(below(x) / alpha)),
    "gelu": lambda x: x * normal_cdf(x),
    "gelu_tanh": lambda x: x * special.expit(2 * tanh_gelu_angle(x)[0]),
    "quick_gelu": lambda x: x * special.expit(1.702 * x),
    "silu": lambda x: x * special.expit(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softplus": _softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sigmoid": special.expit,
    "log_sigmoid": lambda x: below(x) - np.log1p(np.exp(-np.abs(x))),
    "hardsigmoid": _hardsigmoid,
    "hardswish": lambda x: x * _hardsigmoid(x),
    "hardtanh": lambda x, low=-1.0, high=1.0: _clamp(x, low, high),
    "tanhshrink": _tanhshrink,
    "softshrink": lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x - np.copysign(lambd, x)),
    "hardshrink": lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),
    "threshold": lambda x, threshold, value: np.where(x <= threshold, value, x),
    "squared_relu": lambda x: np.square(np.maximum(x, 0)),
    "logaddexp": _logaddexp,
    "ldexp": lambda x, n: np.ldexp(x, np.clip(n, -9999, 9999).astype(np.int32)),
    "where": lambda condition, a, b: np.where(condition != 0, a, b),
    "clamp": _clamp,
    "fma": lambda a, b, c: a * b + c,
    "lerp": _lerp,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
}


def vector(name, *arrays, **options):
    """A function of arrays of float32 or narrower numbers, in float64; a predicate's in bool."""
    with np.errstate(all="ignore"):
        return VECTORS[name](*(np.asarray(a).astype(np.float64) for a in arrays), **options)


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
    "clamp": _clamp,
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
