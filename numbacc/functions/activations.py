"""The activation functions of `numbacc.elementwise`, as torch defines them: what each computes of one number.

The gates of `formulas` are among them: silu is SwiGLU's, gelu GeGLU's.
"""

from __future__ import annotations

import math

from .arithmetic import fma, reciprocal
from .exponentials import QUICK, decay, quick_decay, quick_gelu, share, sigmoid, weighted_ratio
from .gates import geglu, geglu_pair, geglu_tanh, geglu_tanh_pair, relu, shares, sigmoid_pair, swiglu, swiglu_pair

__all__ = ["geglu", "geglu_pair", "geglu_tanh", "geglu_tanh_pair", "relu", "sigmoid", "sigmoid_pair", "swiglu"]
__all__ += ["quick_gelu", "swiglu_pair"]


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


SELU_SCALE = 1.0507009873554805
#: The scale times α, 1.6732632423543772, in two parts, of which float32 holds the first exactly.
SELU_FACTOR, SELU_REST = 1.7580993175506592, 2.3296717676284726e-08


def selu(x):
    """Klambauer et al. 2017 (arXiv:1706.02515)."""
    if x > 0.0:
        return SELU_SCALE * x
    e = math.expm1(x)
    return fma(e, SELU_FACTOR, e * SELU_REST)


def celu(x, alpha):
    """Barron 2017 (arXiv:1704.07483)."""
    # The quotient of two numbers that are the same for all elements is computed once.
    return x if x > 0.0 else alpha * math.expm1(x * (1.0 / alpha))


def quick_gelu_pair(x):
    """x σ(1.702 x), Hendrycks and Gimpel 2016 (arXiv:1606.08415), and σ(u) + u σ'(u) with u = 1.702 x."""
    s, slope = shares(x, quick_decay(x))
    return x * s, s + QUICK * (x * slope)


def mish(x):
    """x tanh(ln(1 + e^x)) = x n/(n + 2), n = e^x (e^x + 2) (Misra 2019, arXiv:1908.08681)."""
    return weighted_ratio(x, *mish_parts(x, decay(abs(x))))


def mish_parts(x, e):
    """Of e = e^-|x|, so that nothing overflows, tanh(ln(1 + e^x)) as a quotient, and what rounding took from both.

    It is (1 + 2e)/(1 + 2e + 2e²) of positive x, (e² + 2e)/(e² + 2e + 2) of negative.
    """
    if x >= 0.0:
        over = fma(2.0, e, 1.0)
        over_rest = fma(2.0, e, 1.0 - over)
        below = fma(2.0 * e, e, over)
        return over, over_rest, below, fma(2.0 * e, e, over - below) + over_rest
    over = fma(e, e, 2.0 * e)
    over_rest = fma(e, e, 2.0 * e - over)
    below = 2.0 + over
    return over, over_rest, below, over - (below - 2.0) + over_rest


def mish_pair(x):
    """The value and its slope: of t = tanh(ln(1 + e^x)) the derivative is (1 - t²) σ(x)."""
    e = decay(abs(x))
    over, _, below, _ = mish_parts(x, e)
    inverse = reciprocal(below)
    t, rest = over * inverse, (2.0 * e * e if x >= 0.0 else 2.0) * inverse
    return x * t, t + x * (rest * (1.0 + t) * share(x, e))


def softplus(x, beta, threshold):
    """ln(1 + e^(βx))/β; x where βx is above the threshold."""
    scaled = beta * x
    if scaled > threshold:
        return x
    high = scaled if scaled > 0.0 else 0.0
    return (high + math.log1p(decay(abs(scaled)))) * (1.0 / beta)


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
    return low - math.log1p(decay(abs(x)))


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
    """x hardsigmoid(x): x (x + 3)/6, what rounding took from the sum put back, and 1/6 in two parts as in `selu`."""
    if x <= -3.0:
        return x * 0.0
    if x >= 3.0:
        return x
    moved = x + 3.0
    product = fma(x, moved, x * (x - (moved - 3.0)))
    # The terms of -0.0 add up to 0.0.
    return math.copysign(fma(product, 0.16666667163372040, product * -4.967053731282552e-09), x)


def hardswish_slope(x):
    if x <= -3.0:
        return 0.0
    return 1.0 if x >= 3.0 else x * 0.3333333333333333 + 0.5


def tanhshrink(x):
    """x - tanh(x). Up to 1 it is (x cosh x - sinh x)/cosh x, since the numerator's series Σ 2k x^(2k+1)/(2k+1)! has no
    terms that cancel."""
    if abs(x) > 1.0:
        return x - math.tanh(x)
    s = x * x
    p = 3.9145882126782523e-19
    p = p * s + 1.4797143443923793e-16
    p = p * s + 4.498331606952833e-14
    p = p * s + 1.0706029224547743e-11
    p = p * s + 1.9270852604185937e-09
    p = p * s + 2.505210838544172e-07
    p = p * s + 2.2045855379188714e-05
    p = p * s + 0.0011904761904761906
    p = p * s + 0.03333333333333333
    p = p * s + 0.3333333333333333
    return x * (s * p / math.cosh(x))


def tanhshrink_single(x):
    """The same of float32: from 1 on |x| - 1 + 2/(e^2|x| + 1), below x³ P(x²).

    P is the polynomial with the least maximal relative error, 5e-9, by iteratively reweighted least squares, its
    coefficients rounded to float32, from the lowest on, the rest fitted anew. The cube is taken with what rounding
    takes from it.
    """
    if abs(x) > 1.0:
        return math.copysign(fma(2.0, share(-1.0, decay(2.0 * abs(x))), abs(x) - 1.0), x)
    s = x * x
    p = -0.00015296082710847259
    p = fma(p, s, 0.0009623129735700786)
    p = fma(p, s, -0.003266235115006566)
    p = fma(p, s, 0.008744362741708755)
    p = fma(p, s, -0.021849138662219048)
    p = fma(p, s, 0.0539676770567894)
    p = fma(p, s, -0.13333351910114288)
    p = fma(p, s, 0.3333333432674408)
    slope = s * p
    return fma(x, slope, x * fma(fma(x, x, -s), p, fma(s, p, -slope)))


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
