"""The partial derivatives of the functions of `numbacc.elementwise`, in float64. Independent of numbacc.

`GRADIENTS[name](*inputs, **options)` has one for each input; None for integers and conditions. They are closed forms,
accurate to about 1e-13 except where their terms cancel (where gelu' crosses zero): there relative to the terms.

At kinks they are torch's. One side's slope at the ends of what is flat: relu'(0) = 0, relu6, hardtanh, hardsigmoid and
the shrinks 1 only strictly beyond or between their ends; hardswish'(-3) = 0 and hardswish'(3) = 1 as in torch 2.8.
clamp passes all inside and on its bounds, maximum and minimum half to each of equals, fmax and fmin all to the first.
"""

from __future__ import annotations

from functools import wraps

import numpy as np
from elementwise_oracle import below, normal_cdf, tanh_gelu_angle, vector
from elementwise_oracle_exact import SELU_ALPHA, SELU_SCALE
from scipy.special import expit, zeta

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


def _pow(x, y):
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


def _clamp(x, low, high):
    return (x >= low) & (x <= high), (x < low) & (low < high), (x > high) | (high < low)


def _hypot(x, y):
    length = np.hypot(x, y)
    return x / length, y / length


def _atan2(y, x):
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
    "pow": _pow,
    "maximum": _extreme(1),
    "minimum": _extreme(-1),
    "fmax": _extreme_number(1),
    "fmin": _extreme_number(-1),
    "atan2": _atan2,
    "hypot": _hypot,
    "copysign": lambda x, y: (np.sign(x) * np.copysign(1.0, y), 0.0),
    "logaddexp": lambda a, b: (expit(a - b), expit(b - a)),
    "ldexp": lambda x, n: (vector("ldexp", np.ones_like(x), n), None),
    # Three numbers.
    "where": lambda condition, a, b: (None, condition != 0, condition == 0),
    "clamp": _clamp,
    "fma": lambda a, b, c: (b, a, 1.0),
    "lerp": lambda a, b, weight: (1 - weight, weight, b - a),
    "addcmul": lambda x, a, b, value=1.0: (1.0, value * b, value * a),
    "addcdiv": lambda x, a, b, value=1.0: (1.0, value / b, -value * a / b / b),
}

GRADIENTS = {name: _in_float64(formula) for name, formula in FORMULAS.items()}
