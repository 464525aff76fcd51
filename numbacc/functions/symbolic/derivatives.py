"""The derivatives of the operators and functions that formulas consist of. `derive` applies the chain rule to them.

A rule has the result and the arguments as parameters. It returns the derivative with respect to each argument: numbers,
or symbols that are computed from the result and the arguments. No rule branches; steps have slope 0. A trace records a
call of a function that has a rule as one operation, and does not look into the function.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from .. import arithmetic, digamma, division, exponentials
from .ieee_math import Known
from .opaque_functions import WHOLES

_LN_2, _LN_10, _TWO_BY_ROOT_PI = 0.6931471805599453, 2.302585092994046, 1.1283791670955126
_INV_SQRT_2PI, _RADIAN = 0.3989422804014327, 0.017453292519943295


def sign(x):
    """Return 1 or -1, or x · 0 for zeros and NaN."""
    if x > 0.0:
        return 1.0
    if x < 0.0:
        return -1.0
    return x * 0.0


def one_if(condition):
    """Return 1 where the condition is true, else 0."""
    return 1.0 if condition else 0.0


def if_any(dy, term):
    """Return the term that dy adds to a gradient. Where dy is 0, return 0, even if a slope is infinite or NaN."""
    return term if dy != 0.0 else 0.0


def is_less(x, y):
    """Return 1 where x < y, else 0."""
    return 1.0 if x < y else 0.0


def _of_quotient(y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    b = Known(b) if isinstance(b, (int, float)) else b
    return 1.0 / b, -y / b


def _of_power(y: Any, base: Any, exponent: Any) -> tuple[Any, Any]:
    if isinstance(exponent, (int, float)):
        # x ** 0 is 1 everywhere. The derivative is 0 even where 0 · x ** -1 is NaN.
        return (exponent * base ** (exponent - 1) if exponent else 0.0), 0.0
    if isinstance(base, (int, float)):
        return 0.0, y * math.log(base) if base > 0 else 0.0 if base == 0 else math.nan
    return call(power_by_base, y, base, exponent), call(power_by_exponent, y, base, exponent)


def power_by_base(base, exponent):
    """Return y x^(y - 1), and 0 for y = 0, where the power is always 1."""
    return 0.0 if exponent == 0.0 else exponent * math.pow(base, exponent - 1.0)


def power_by_exponent(base, exponent):
    """Return x^y ln x, and 0 for x = 0 and y >= 0, where the power is constant."""
    return 0.0 if base == 0.0 and exponent >= 0.0 else math.pow(base, exponent) * math.log(base)


def hypot_of_three(x, y, z):
    """Return √(x² + y² + z²)."""
    return math.hypot(math.hypot(x, y), z)


def call(function: Any, like: Any, *parts: Any) -> Any:
    """Return a function of parts, recorded in the trace of `like`."""
    return like.trace.note(function, *parts)


def _by(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Make the rule of a function of one argument: (result, argument) -> a tuple of the derivative."""
    return lambda y, x: (function(y, x),)


def _inverse_square(x: Any) -> Any:
    inverse = 1.0 / x
    return inverse * inverse


def _of_silu(y: Any, x: Any) -> tuple[Any, ...]:
    return (call(exponentials.sigmoid, y, x) * (1.0 + x * call(exponentials.sigmoid, y, -x)),)


def _of_tanh_gelu(y: Any, x: Any) -> tuple[Any, ...]:
    # The square is bounded as in `gates.geglu_tanh_pair`.
    square = exponentials.TANH_CUBIC * call(arithmetic.minimum, y, x * x, 2200.0)
    u = x * (exponentials.TANH_LINEAR + square)
    slope = call(exponentials.sigmoid, y, -u) * x * (exponentials.TANH_LINEAR + 3.0 * square)
    return (call(exponentials.sigmoid, y, u) * (1.0 + slope),)


def _of_quick_gelu(y: Any, x: Any) -> tuple[Any, ...]:
    u = exponentials.QUICK * x
    return (call(exponentials.sigmoid, y, u) * (1.0 + u * call(exponentials.sigmoid, y, -u)),)


def _of_weighted_ratio(y: Any, b: Any, x: Any, x_rest: Any, below: Any, y_rest: Any) -> tuple[Any, ...]:
    # The rests are rounding errors; they are treated as constants.
    inverse = call(arithmetic.reciprocal, y, below)
    t = x * inverse
    return t, b * inverse, 0.0, -(b * inverse) * t, 0.0


#: Operator or function -> its rule.
RULES: dict[Any, Callable[..., tuple[Any, ...]]] = {
    "+": lambda y, a, b: (1.0, 1.0),
    "-": lambda y, a, b: (1.0, -1.0),
    "*": lambda y, a, b: (b, a),
    "/": _of_quotient,
    "**": _of_power,
    "%": lambda y, a, b: (1.0, -(a // b) if not isinstance(b, (int, float)) else 0.0),
    "//": lambda y, a, b: (0.0, 0.0),
    "neg": lambda y, a: (-1.0,),
    division.remainder: lambda y, a, b: (1.0, (y - a) / b),
    division.floor_divide: lambda y, a, b: (0.0, 0.0),
    math.fabs: _by(lambda y, x: call(sign, y, x)),
    math.exp: _by(lambda y, x: y),
    # y + 1 would cancel where x is far below 0, and (1 - y)(1 + y) would cancel where |y| is near 1.
    math.expm1: _by(lambda y, x: call(math.exp, y, x)),
    math.log: _by(lambda y, x: 1.0 / x),
    math.log1p: _by(lambda y, x: 1.0 / (1.0 + x)),
    math.log2: _by(lambda y, x: 1.0 / (_LN_2 * x)),
    math.log10: _by(lambda y, x: 1.0 / (_LN_10 * x)),
    math.sqrt: _by(lambda y, x: 0.5 / y),
    math.pow: _of_power,
    math.sin: _by(lambda y, x: call(math.cos, y, x)),
    math.cos: _by(lambda y, x: -call(math.sin, y, x)),
    math.tan: _by(lambda y, x: 1.0 + y * y),
    math.asin: _by(lambda y, x: 1.0 / call(math.sqrt, y, (1.0 - x) * (1.0 + x))),
    math.acos: _by(lambda y, x: -1.0 / call(math.sqrt, y, (1.0 - x) * (1.0 + x))),
    math.atan: _by(lambda y, x: 1.0 / (1.0 + x * x)),
    math.sinh: _by(lambda y, x: call(math.cosh, y, x)),
    math.cosh: _by(lambda y, x: call(math.sinh, y, x)),
    math.tanh: _by(lambda y, x: _inverse_square(call(math.cosh, y, x))),
    math.asinh: _by(lambda y, x: 1.0 / call(math.sqrt, y, x * x + 1.0)),
    math.acosh: _by(lambda y, x: 1.0 / call(math.sqrt, y, (x - 1.0) * (x + 1.0))),
    math.atanh: _by(lambda y, x: 1.0 / ((1.0 - x) * (1.0 + x))),
    math.erf: _by(lambda y, x: _TWO_BY_ROOT_PI * call(math.exp, y, -(x * x))),
    math.erfc: _by(lambda y, x: -_TWO_BY_ROOT_PI * call(math.exp, y, -(x * x))),
    math.atan2: lambda y, a, b: (b / (a * a + b * b), -a / (a * a + b * b)),
    math.hypot: lambda y, a, b: (a / y, b / y),
    hypot_of_three: lambda y, a, b, c: (a / y, b / y, c / y),
    math.copysign: lambda y, a, b: (call(sign, y, a) * call(math.copysign, y, 1.0, b), 0.0),
    math.fmod: lambda y, a, b: (1.0, (y - a) / b),
    math.remainder: lambda y, a, b: (1.0, (y - a) / b),
    math.radians: _by(lambda y, x: _RADIAN),
    math.degrees: _by(lambda y, x: 1.0 / _RADIAN),
    math.floor: _by(lambda y, x: 0.0),
    math.ceil: _by(lambda y, x: 0.0),
    math.trunc: _by(lambda y, x: 0.0),
    math.isnan: _by(lambda y, x: 0.0),
    math.isinf: _by(lambda y, x: 0.0),
    math.isfinite: _by(lambda y, x: 0.0),
    # Functions that the formulas of numbacc call, so that each precision can have its own version.
    sign: _by(lambda y, x: 0.0),
    is_less: lambda y, a, b: (0.0, 0.0),
    if_any: lambda y, dy, term: (0.0, dy != 0.0),
    arithmetic.exp: _by(lambda y, x: y),
    arithmetic.exp2: _by(lambda y, x: _LN_2 * y),
    arithmetic.cbrt: _by(lambda y, x: 1.0 / (3.0 * (y * y))),
    arithmetic.reciprocal: _by(lambda y, x: -y * y),
    arithmetic.inverse: _by(lambda y, x: -y * y),
    arithmetic.square_root: _by(lambda y, x: 0.5 / y),
    arithmetic.reciprocal_root: _by(lambda y, x: -0.5 * y / x),
    arithmetic.rint: _by(lambda y, x: 0.0),
    arithmetic.erfinv: _by(lambda y, x: 0.886226925452758 * call(math.exp, y, y * y)),
    math.lgamma: _by(lambda y, x: call(digamma.digamma, y, x)),
    math.gamma: _by(lambda y, x: y * call(digamma.digamma, y, x)),
    digamma.digamma: _by(lambda y, x: call(digamma.trigamma, y, x)),
    arithmetic.minimum: lambda y, a, b: (call(is_less, y, a, b), 1.0 - call(is_less, y, a, b)),
    arithmetic.fma: lambda y, a, b, c: (b, a, 1.0),
    exponentials.decay: _by(lambda y, x: -y),
    exponentials.sigmoid: _by(lambda y, x: y * call(exponentials.sigmoid, y, -x)),
    exponentials.silu: _of_silu,
    exponentials.tanh_gelu: _of_tanh_gelu,
    exponentials.quick_gelu: _of_quick_gelu,
    exponentials.weighted_ratio: _of_weighted_ratio,
    arithmetic.magnitude: _by(lambda y, x: call(sign, y, x)),
    arithmetic.gaussian: _by(lambda y, x: -x * y),
    # The second argument is a function of the first. The derivative by the first argument accounts for both.
    arithmetic.normal_tail: lambda y, x, e: (-_INV_SQRT_2PI * e, 0.0),
}

#: Functions that kernels support, but without a rule -> the number of their arguments.
_UNDERIVED = {digamma.trigamma: 1, power_by_base: 2, power_by_exponent: 2}

#: Functions of `math` that only newer versions of Python or Numba have -> the functions that replace them.
OURS: dict[Any, Any] = {
    getattr(math, name): function
    for name, function in {"cbrt": arithmetic.cbrt, "exp2": arithmetic.exp2}.items()
    if hasattr(math, name)
}


def has_derivative(function: Any) -> bool:
    """Return whether the derivative is known of a function that traces record as one operation."""
    return function in RULES or (function in WHOLES and WHOLES[function].gradients is not None)


def numbers_of(function: Any) -> int | None:
    """Return how many arguments a function has that traces record as one operation; None if it is unsupported."""
    if function in WHOLES:
        return WHOLES[function].count
    rule = RULES.get(function)
    return _UNDERIVED.get(function) if rule is None else len(inspect.signature(rule).parameters) - 1
