"""The derivatives of operators and functions that formulas are made of: what `derive` applies the chain rule to.

A rule takes the result and the arguments, and returns the derivative with respect to each argument: numbers, or what is
computed of these. No rule branches; steps have slope 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import arithmetic

_LN_2, _LN_10, _TWO_BY_ROOT_PI = 0.6931471805599453, 2.302585092994046, 1.1283791670955126
_INV_SQRT_2PI = 0.3989422804014327


def sign(x):
    """1, -1, or x · 0 for zeros and NaN."""
    if x > 0.0:
        return 1.0
    if x < 0.0:
        return -1.0
    return x * 0.0


def is_less(x, y):
    """1 where x < y, else 0."""
    return 1.0 if x < y else 0.0


def _of_power(y: Any, base: Any, exponent: Any) -> tuple[Any, Any]:
    if isinstance(exponent, (int, float)):
        # x ** 0 is 1 everywhere, also where 0 · x ** -1 is not a number.
        return (exponent * base ** (exponent - 1) if exponent else 0.0), 0.0
    if isinstance(base, (int, float)):
        return 0.0, y * math.log(base) if base > 0 else 0.0 if base == 0 else math.nan
    return exponent * base ** (exponent - 1), y * call(math.log, y, base)


def call(function: Any, like: Any, *parts: Any) -> Any:
    """A function of parts, noted where `like` is."""
    return like.trace.note(function, *parts)


def _by(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The rule of a function of one argument: (result, argument) -> the derivative."""
    return lambda y, x: (function(y, x),)


#: Operator or function -> its rule.
RULES: dict[Any, Callable[..., tuple[Any, ...]]] = {
    "+": lambda y, a, b: (1.0, 1.0),
    "-": lambda y, a, b: (1.0, -1.0),
    "*": lambda y, a, b: (b, a),
    "/": lambda y, a, b: (1.0 / b, -y / b),
    "**": _of_power,
    "%": lambda y, a, b: (1.0, -(a // b) if not isinstance(b, (int, float)) else 0.0),
    "//": lambda y, a, b: (0.0, 0.0),
    "neg": lambda y, a: (-1.0,),
    math.fabs: _by(lambda y, x: call(sign, y, x)),
    math.exp: _by(lambda y, x: y),
    math.expm1: _by(lambda y, x: y + 1.0),
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
    math.tanh: _by(lambda y, x: (1.0 - y) * (1.0 + y)),
    math.asinh: _by(lambda y, x: 1.0 / call(math.sqrt, y, x * x + 1.0)),
    math.acosh: _by(lambda y, x: 1.0 / call(math.sqrt, y, (x - 1.0) * (x + 1.0))),
    math.atanh: _by(lambda y, x: 1.0 / ((1.0 - x) * (1.0 + x))),
    math.erf: _by(lambda y, x: _TWO_BY_ROOT_PI * call(math.exp, y, -(x * x))),
    math.erfc: _by(lambda y, x: -_TWO_BY_ROOT_PI * call(math.exp, y, -(x * x))),
    math.atan2: lambda y, a, b: (b / (a * a + b * b), -a / (a * a + b * b)),
    math.hypot: lambda y, a, b: (a / y, b / y),
    math.floor: _by(lambda y, x: 0.0),
    math.ceil: _by(lambda y, x: 0.0),
    math.trunc: _by(lambda y, x: 0.0),
    math.isnan: _by(lambda y, x: 0.0),
    math.isinf: _by(lambda y, x: 0.0),
    math.isfinite: _by(lambda y, x: 0.0),
    # What the formulas here are written with, so that each precision has its own.
    arithmetic.exp: _by(lambda y, x: y),
    arithmetic.reciprocal: _by(lambda y, x: -y * y),
    arithmetic.minimum: lambda y, a, b: (call(is_less, y, a, b), 1.0 - call(is_less, y, a, b)),
    arithmetic.fma: lambda y, a, b, c: (b, a, 1.0),
    arithmetic.magnitude: _by(lambda y, x: call(sign, y, x)),
    arithmetic.gaussian: _by(lambda y, x: -x * y),
    # The second argument is a function of the first, which the first one's derivative stands for.
    arithmetic.normal_tail: lambda y, x, e: (-_INV_SQRT_2PI * e, 0.0),
}
