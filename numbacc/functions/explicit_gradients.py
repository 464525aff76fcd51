"""Gradients that are written down, where what is derived from the function is longer or less accurate.

Each takes dy, the function's arguments and its options, and returns a tuple of the gradients with respect to arguments.
"""

from __future__ import annotations

import math

from .activations import (
    geglu_pair,
    geglu_tanh_pair,
    hardswish_slope,
    log_sigmoid_slope,
    mish_pair,
    quick_gelu_pair,
    sigmoid_pair,
    softplus_slope,
    softsign_slope,
    swiglu_pair,
    tanhshrink_slope,
)
from .basic import ldexp, remainder
from .digamma import trigamma


def sloped(slope):
    """The gradient of a function of one array, of its slope."""

    def gradient(dy, x):
        return (dy * slope(x),)

    return gradient


def second(pair):
    """The second of what a function returns."""

    def slope(x):
        return pair(x)[1]

    return slope


def larger_backward(dy, a, b):
    """All to the larger one, half to each of equals; to both where one is NaN, as torch has it."""
    if a == b:
        return dy * 0.5, dy * 0.5
    return (0.0 if a < b else dy), (0.0 if a > b else dy)


def smaller_backward(dy, a, b):
    if a == b:
        return dy * 0.5, dy * 0.5
    return (0.0 if a > b else dy), (0.0 if a < b else dy)


def fmax_backward(dy, a, b):
    """To the first of equals, and to the one that is not NaN."""
    return (dy, 0.0) if b != b or a >= b else (0.0, dy)


def fmin_backward(dy, a, b):
    return (dy, 0.0) if b != b or a <= b else (0.0, dy)


def ldexp_backward(dy, x, exponent):
    return (ldexp(dy, exponent),)


def where_backward(dy, condition, a, b):
    return (dy, 0.0) if condition else (0.0, dy)


def softplus_backward(dy, x, beta, threshold):
    return (dy * softplus_slope(x, beta, threshold),)


def remainder_backward(dy, a, b):
    # floor(a / b), which a quotient that was rounded may miss.
    return dy, dy * ((remainder(a, b) - a) / b)


def power_backward(dy, a, b):
    """0 with respect to the base of what is 1 everywhere, and to the power of what is 0 everywhere."""
    value = math.pow(a, b)
    by_base = 0.0 if b == 0.0 else dy * (b * math.pow(a, b - 1.0))
    return by_base, (0.0 if a == 0.0 and b >= 0.0 else dy * (value * math.log(a)))


def clamp_backward(dy, x, low, high):
    """To x within the bounds, on them too; to the bound that stands for it."""
    inside = low <= x <= high
    return (
        dy if inside else 0.0,
        dy if x < low and low < high else 0.0,
        dy if (x > high and not inside) or high < low else 0.0,
    )


def lerp_backward(dy, a, b, weight):
    return dy * (1.0 - weight), dy * weight, dy * (b - a)


def logaddexp_backward(dy, a, b):
    s, _ = sigmoid_pair(a - b)
    t, _ = sigmoid_pair(b - a)
    return (dy * 0.5, dy * 0.5) if a == b else (dy * s, dy * t)


#: Name -> (dy, arguments, options) -> gradients, where the derived one is longer or less accurate.
WRITTEN = {
    "sigmoid": sloped(second(sigmoid_pair)),
    "silu": sloped(second(swiglu_pair)),
    "gelu": sloped(second(geglu_pair)),
    "gelu_tanh": sloped(second(geglu_tanh_pair)),
    "quick_gelu": sloped(second(quick_gelu_pair)),
    "mish": sloped(second(mish_pair)),
    "softsign": sloped(softsign_slope),
    "hardswish": sloped(hardswish_slope),
    "log_sigmoid": sloped(log_sigmoid_slope),
    "tanhshrink": sloped(tanhshrink_slope),
    "softplus": softplus_backward,
    "digamma": sloped(trigamma),
    "remainder": remainder_backward,
    "pow": power_backward,
    "maximum": larger_backward,
    "minimum": smaller_backward,
    "fmax": fmax_backward,
    "fmin": fmin_backward,
    "logaddexp": logaddexp_backward,
    "clamp": clamp_backward,
    "lerp": lerp_backward,
}
