"""NumPy's functions in formulas: what they are of numbers, by their names, which SciPy's ufuncs have, too."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arithmetic, digamma, division, exponentials


def rounded(x: Any, decimals: int = 0) -> Any:
    """round(x): the nearest whole number, of two the even one."""
    if decimals:
        raise TypeError("it rounds to decimals: write round(x * 100) / 100")
    return arithmetic.rint(x)


def _both(a: Any, b: Any) -> Any:
    return (b != 0) if a != 0 else False


def _either(a: Any, b: Any) -> Any:
    return True if a != 0 else (b != 0)


#: What has one name in NumPy and in `math`.
_SAME = (
    "ceil", "copysign", "cos", "cosh", "degrees", "exp", "expm1", "floor", "fmod", "hypot", "isfinite", "isinf",
    "isnan", "log", "log10", "log1p", "log2", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
#: Name of NumPy's -> the function of numbers. Those that formulas note as a whole are added with these.
NAMESAKES: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _SAME},
    **{f"arc{name}": getattr(math, f"a{name}") for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2"]},
    "absolute": math.fabs, "fabs": math.fabs, "rint": rounded, "round": rounded, "around": rounded,
    "cbrt": arithmetic.cbrt, "exp2": arithmetic.exp2, "square": lambda x: x * x, "reciprocal": lambda x: 1.0 / x,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "floor_divide": division.floor_divide, "remainder": division.remainder,
    "mod": division.remainder, "power": operator.pow, "negative": operator.neg, "positive": operator.pos,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne, "deg2rad": math.radians, "rad2deg": math.degrees,
    "logical_and": _both, "logical_or": _either, "logical_not": lambda x: x == 0,
    "logical_xor": lambda a, b: (a != 0) != (b != 0),
    "erf": math.erf, "erfc": math.erfc, "gammaln": math.lgamma, "gamma": math.gamma, "psi": digamma.digamma,
    "expit": exponentials.sigmoid,
}  # fmt: skip
#: The types of NumPy's functions.
KINDS = (np.ufunc, type(np.where))
#: Names that are only there with `elementwise`, which a gate may be made without -> what to do.
LATER = dict.fromkeys(("maximum", "minimum", "where", "clip", "sign"), ": import numbacc.elementwise, which has it")
