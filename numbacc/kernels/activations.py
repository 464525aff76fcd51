"""The activation functions of `numbacc.elementwise`, as torch defines them: what each computes of one number.

The gates of `formulas` are among them: silu is SwiGLU's, gelu GeGLU's.
"""

from __future__ import annotations

import math

from .arithmetic import exp
from .formulas import geglu, geglu_pair, geglu_tanh, geglu_tanh_pair, relu, sigmoid, sigmoid_pair, swiglu, swiglu_pair

__all__ = ["geglu", "geglu_pair", "geglu_tanh", "geglu_tanh_pair", "relu", "sigmoid", "sigmoid_pair", "swiglu"]
__all__ += ["swiglu_pair"]


def leaky_relu(x, slope):
    return x if x > 0.0 else x * slope


def prelu(x, weight):
    """x, or weight x where it is not above 0."""
    return x if x > 0.0 else weight * x


def hardtanh(x, low, high):
    """x, but not below `low` nor above `high`; NaN stays."""
    if x <= low:
        return low
    return high if x >= high else x


def relu6(x):
    return hardtanh(x, 0.0, 6.0)


def elu(x, alpha):
    """x, or α(e^x - 1) where it is not above 0 (Clevert et al. 2015, arXiv:1511.07289)."""
    return x if x > 0.0 else alpha * math.expm1(x)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def selu(x):
    """Klambauer et al. 2017 (arXiv:1706.02515)."""
    return SELU_SCALE * x if x > 0.0 else SELU_SCALE * SELU_ALPHA * math.expm1(x)


def celu(x, alpha):
    """Barron 2017 (arXiv:1704.07483)."""
    # The quotient of two numbers that are the same for all elements is computed once.
    return x if x > 0.0 else alpha * math.expm1(x * (1.0 / alpha))


def quick_gelu(x):
    """x σ(1.702 x), Hendrycks and Gimpel 2016 (arXiv:1606.08415)."""
    return x * sigmoid(1.702 * x)


def quick_gelu_pair(x):
    """The value, and σ(u) + u σ'(u) with u = 1.702 x."""
    s, slope = sigmoid_pair(1.702 * x)
    return x * s, s + 1.702 * (x * slope)


def mish(x):
    """x tanh(ln(1 + e^x)) = x n/(n + 2), n = e^x (e^x + 2) (Misra 2019, arXiv:1908.08681)."""
    value, _ = mish_pair(x)
    return value


def mish_pair(x):
    """The value and its slope, of e = e^-|x| alone, so that nothing overflows.

    tanh(ln(1 + e^x)) = t is (1 + 2e)/(1 + 2e + 2e²) of positive x, (e² + 2e)/(e² + 2e + 2) of negative; its derivative
    is (1 - t²) σ(x).
    """
    e = exp(-abs(x))
    if x >= 0.0:
        below = 1.0 + 2.0 * e + 2.0 * e * e
        t = (1.0 + 2.0 * e) / below
        rest = 2.0 * e * e / below
        s = 1.0 / (1.0 + e)
    else:
        below = e * e + 2.0 * e + 2.0
        t = (e * e + 2.0 * e) / below
        rest = 2.0 / below
        s = e / (1.0 + e)
    return x * t, t + x * (rest * (1.0 + t) * s)


def softplus(x, beta, threshold):
    """ln(1 + e^(βx))/β; x where βx is above the threshold."""
    scaled = beta * x
    if scaled > threshold:
        return x
    high = scaled if scaled > 0.0 else 0.0
    return (high + math.log1p(exp(-abs(scaled)))) * (1.0 / beta)


def softplus_slope(x, beta, threshold):
    """σ(βx); 1 above the threshold."""
    s, _ = sigmoid_pair(beta * x)
    return 1.0 if beta * x > threshold else s


def softsign(x):
    return x / (1.0 + abs(x))


def softsign_slope(x):
    below = 1.0 + abs(x)
    return 1.0 / (below * below)


def log_sigmoid(x):
    """ln σ(x) = min(x, 0) - ln(1 + e^-|x|)."""
    low = x if x < 0.0 else 0.0
    return low - math.log1p(exp(-abs(x)))


def log_sigmoid_slope(x):
    """σ(-x)."""
    s, _ = sigmoid_pair(-x)
    return s


def hardsigmoid(x):
    """0 up to -3, 1 from 3 on, x/6 + 1/2 between (Howard et al. 2019, arXiv:1905.02244)."""
    if x <= -3.0:
        return 0.0
    return 1.0 if x >= 3.0 else (x + 3.0) * 0.16666666666666666


def hardswish(x):
    """x hardsigmoid(x)."""
    return x * (hardtanh(x + 3.0, 0.0, 6.0) * 0.16666666666666666)


def tanhshrink_from(limit):
    """x - tanh(x), by its series where the two cancel: up to a limit."""

    def tanhshrink(x):
        if abs(x) > limit:
            return x - math.tanh(x)
        s = x * x
        p = 0.0014558343870513183
        p = p * s - 0.003592128036572481
        p = p * s + 0.008863235529902197
        p = p * s - 0.021869488536155203
        p = p * s + 0.05396825396825397
        p = p * s - 0.13333333333333333
        p = p * s + 0.3333333333333333
        return x * (s * p)

    return tanhshrink


tanhshrink, tanhshrink_single = tanhshrink_from(0.12), tanhshrink_from(0.4)


def tanhshrink_slope(x):
    t = math.tanh(x)
    return t * t


def softshrink(x, lambd):
    """x moved by λ toward 0, and 0 within λ of it."""
    if x > lambd:
        return x - lambd
    return x + lambd if x < -lambd else 0.0 * x


def hardshrink(x, lambd):
    """x, and 0 within λ of 0."""
    return 0.0 if -lambd <= x <= lambd else x


def threshold(x, limit, value):
    """x where it is above the limit, else the value."""
    return value if x <= limit else x


def squared_relu(x):
    """max(x, 0)², So et al. 2021 (arXiv:2109.08668)."""
    positive = relu(x)
    return positive * positive
