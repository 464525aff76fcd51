"""The activation functions of `numbacc.elementwise`: their scalar functions and descriptions. The definitions are torch's.

Two of them are the gates of gated units: silu in SwiGLU, gelu in GeGLU.
"""

# ruff: noqa: E501
from __future__ import annotations

import math

from ..reference import activations as ref
from .arithmetic import fma, reciprocal
from .exponentials import QUICK, decay, quick_decay, quick_gelu, share, sigmoid, weighted_ratio
from .function import activation, function, second, sloped, unary
from .gates import geglu, geglu_pair, geglu_tanh, geglu_tanh_pair, relu, shares, sigmoid_pair, swiglu, swiglu_pair


def leaky_relu(x, slope):
    return x if x > 0.0 else x * slope


def prelu(x, weight):
    """Return x where it is above 0, else weight x."""
    return x if x > 0.0 else weight * x


def hardtanh(x, low, high):
    """Return x, limited to the range from `low` to `high`. NaN stays NaN."""
    if x <= low:
        return low
    return high if x >= high else x


def relu6(x):
    return hardtanh(x, 0.0, 6.0)


def elu(x, alpha):
    """Return x where it is above 0, else α(e^x - 1) (Clevert et al. 2015, arXiv:1511.07289)."""
    return x if x > 0.0 else alpha * math.expm1(x)


SELU_SCALE = 1.0507009873554805
#: The scale times α, 1.6732632423543772, in two parts. float32 represents the first part exactly.
SELU_FACTOR, SELU_REST = 1.7580993175506592, 2.3296717676284726e-08


def selu(x):
    """Return the scaled exponential linear unit of Klambauer et al. 2017 (arXiv:1706.02515)."""
    if x > 0.0:
        return SELU_SCALE * x
    e = math.expm1(x)
    return fma(e, SELU_FACTOR, e * SELU_REST)


def celu(x, alpha):
    """Return the continuously differentiable exponential linear unit of Barron 2017 (arXiv:1704.07483)."""
    # 1.0 / alpha is the same for all elements; the compiler computes it once.
    return x if x > 0.0 else alpha * math.expm1(x * (1.0 / alpha))


def quick_gelu_pair(x):
    """Return x σ(u) (Hendrycks and Gimpel 2016, arXiv:1606.08415) and its slope σ(u) + u σ'(u), where u = 1.702 x."""
    s, slope = shares(x, quick_decay(x))
    return x * s, s + QUICK * (x * slope)


def mish(x):
    """Return x tanh(ln(1 + e^x)) = x n/(n + 2), where n = e^x (e^x + 2) (Misra 2019, arXiv:1908.08681)."""
    return weighted_ratio(x, *mish_parts(x, decay(abs(x))))


def mish_parts(x, e):
    """Return tanh(ln(1 + e^x)) as numerator and denominator, each with its rounding error, given e = e^-|x|.

    The quotient is (1 + 2e)/(1 + 2e + 2e²) for positive x and (e² + 2e)/(e² + 2e + 2) for negative x. Neither overflows.
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
    """Return the value and its slope. The derivative of t = tanh(ln(1 + e^x)) is (1 - t²) σ(x)."""
    e = decay(abs(x))
    over, _, below, _ = mish_parts(x, e)
    inverse = reciprocal(below)
    t, rest = over * inverse, (2.0 * e * e if x >= 0.0 else 2.0) * inverse
    return x * t, t + x * (rest * (1.0 + t) * share(x, e))


def softplus(x, beta, threshold):
    """Return ln(1 + e^(βx))/β, or x where βx is above the threshold."""
    scaled = beta * x
    if scaled > threshold:
        return x
    high = scaled if scaled > 0.0 else 0.0
    return (high + math.log1p(decay(abs(scaled)))) * (1.0 / beta)


def softplus_slope(x, beta, threshold):
    """Return σ(βx), or 1 where βx is above the threshold."""
    s, _ = sigmoid_pair(beta * x)
    return 1.0 if beta * x > threshold else s


def softsign(x):
    return x / (1.0 + abs(x))


def softsign_slope(x):
    below = 1.0 + abs(x)
    return 1.0 / (below * below)


def log_sigmoid(x):
    """Return ln σ(x) = min(x, 0) - ln(1 + e^-|x|)."""
    low = x if x < 0.0 else 0.0
    return low - math.log1p(decay(abs(x)))


def log_sigmoid_slope(x):
    """Return σ(-x)."""
    s, _ = sigmoid_pair(-x)
    return s


def hardsigmoid(x):
    """Return 0 up to -3, 1 from 3 on, and x/6 + 1/2 in between (Howard et al. 2019, arXiv:1905.02244)."""
    if x <= -3.0:
        return 0.0
    return 1.0 if x >= 3.0 else (x + 3.0) * 0.16666666666666666


def hardswish(x):
    """Return x hardsigmoid(x) = x (x + 3)/6. The sum's rounding error is added back; 1/6 has two parts, as in `selu`."""
    if x <= -3.0:
        return x * 0.0
    if x >= 3.0:
        return x
    moved = x + 3.0
    product = fma(x, moved, x * (x - (moved - 3.0)))
    # For x = -0.0, the terms add up to 0.0; the sign must be restored.
    return math.copysign(fma(product, 0.16666667163372040, product * -4.967053731282552e-09), x)


def hardswish_slope(x):
    if x <= -3.0:
        return 0.0
    return 1.0 if x >= 3.0 else x * 0.3333333333333333 + 0.5


def tanhshrink(x):
    """Return x - tanh(x).

    For |x| <= 1, it is computed as (x cosh x - sinh x)/cosh x, since the terms of the numerator's series
    Σ 2k x^(2k+1)/(2k+1)! do not cancel.
    """
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
    """Return x - tanh(x) in float32: |x| - 1 + 2/(e^2|x| + 1) for |x| > 1, else x³ P(x²).

    P is the polynomial with the smallest maximal relative error, 5e-9, found by iteratively reweighted least squares.
    Its coefficients were rounded to float32 one after the other, starting with the lowest, and the others were fitted
    again. The rounding error of the cube is added back.
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
    """Return x moved by λ toward 0, or 0 where |x| <= λ."""
    if x > lambd:
        return x - lambd
    return x + lambd if x < -lambd else 0.0 * x


def hardshrink(x, lambd):
    """Return x, or 0 where |x| <= λ."""
    return 0.0 if -lambd <= x <= lambd else x


def threshold(x, limit, value):
    """Return x where it is above the limit, else the value."""
    return value if x <= limit else x


def squared_relu(x):
    """Return max(x, 0)² (So et al. 2021, arXiv:2109.08668)."""
    positive = relu(x)
    return positive * positive


def relu_of_integers(x):
    return x if x > 0 else x * 0


def softplus_backward(dy, x, beta, threshold):
    return (dy * softplus_slope(x, beta, threshold),)


# torch raises an error for these options, too: with them, the formulas do not define a unique result.


def _celu_wrong(alpha: float) -> str:
    return "" if alpha else "alpha of celu is 0; x is divided by it"


def _hardtanh_wrong(low: float, high: float) -> str:
    return f"min_val={low} of hardtanh is above max_val={high}" if low > high else ""


def _softshrink_wrong(lambd: float) -> str:
    return f"lambd={lambd} of softshrink is negative" if lambd < 0 else ""


#: The order is that of the documentation's table.
# fmt: off
FUNCTIONS = (
    unary("relu", "keep", "max(x, 0).", "np.array([0.5, -1.0])", "array([0.5, 0. ])",
        gradient_prints="array([1., 0.])", is_opaque=True, of_sum=True, f=(relu, ref.relu), iu=(relu_of_integers, ref.relu)),
    activation("leaky_relu", "x where it is above 0, else negative_slope x.", "np.array([0.5, -1.0])", "array([ 0.5 , -0.01])",
        gradient_prints="array([1.  , 0.01])", options={"negative_slope": (0.01, "the slope where x is negative")}, f=(leaky_relu, ref.leaky_relu)),
    function("prelu", "x weight", "float", "x where it is above 0, else weight x. The weight broadcasts.", "np.array([2.0, -2.0]), 0.25", "array([ 2. , -0.5])",
        gradient_example="np.array([2.0, -2.0]), np.array([0.25, 0.25])", gradient_prints="(array([1.  , 0.25]), array([ 0., -2.]))", is_opaque=True, f=(prelu, ref.prelu)),
    activation("relu6", "min(max(x, 0), 6).", "np.array([0.5, -1.0])", "array([0.5, 0. ])",
        gradient_prints="array([1., 0.])", f=(relu6, ref.relu6)),
    activation("elu", "x where it is above 0, else alpha (e^x - 1). Source: Clevert et al. 2015 (arXiv:1511.07289).", "np.array([0.5, -1.0])", "array([ 0.5       , -0.63212056])",
        gradient_prints="array([1.        , 0.36787944])", heavy=(2,), options={"alpha": (1.0, "the scale of the negative part. The result approaches -alpha for very negative x")}, is_smooth=True, f=(elu, ref.elu)),
    activation("selu", "1.0507 elu(x, 1.6733). Source: Klambauer et al. 2017 (arXiv:1706.02515).", "np.array([0.5, -1.0])", "array([ 0.52535049, -1.11133074])",
        gradient_prints="array([1.05070099, 0.6467686 ])", heavy=(2,), is_smooth=True, f=(selu, ref.selu)),
    activation("celu", "x where it is above 0, else alpha (e^(x/alpha) - 1). alpha must not be 0. Source: Barron 2017 (arXiv:1704.07483).", "np.array([0.5, -1.0])", "array([ 0.5       , -0.63212056])",
        gradient_prints="array([1.        , 0.36787944])", heavy=(2,), options={"alpha": (1.0, "the scale of the negative part, for x in the exponential and for the result, which approaches -alpha")}, wrong=_celu_wrong, is_smooth=True, f=(celu, ref.celu)),
    activation("gelu", "x Φ(x), where Φ is the normal distribution. Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415).", "np.array([0.5, -1.0])", "array([ 0.34573123, -0.15865525])",
        gradient_prints="array([ 0.86749512, -0.08331547])", heavy={2: None, 4: 32}, is_smooth=True, gradient=sloped(second(geglu_pair)), f=(geglu, ref.geglu_gate)),
    activation("gelu_tanh", "x ½(1 + tanh(√(2/π)(x + 0.044715 x³))). Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415).", "np.array([0.5, -1.0])", "array([ 0.34571401, -0.15880801])",
        gradient_prints="array([ 0.8673699 , -0.08296408])", heavy={4: 32}, is_opaque=False, gradient=sloped(second(geglu_tanh_pair)), f=(geglu_tanh, ref.geglu_tanh_gate)),
    activation("quick_gelu", "x σ(1.702 x). Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415).", "np.array([0.5, -1.0])", "array([ 0.35038844, -0.15420423])",
        gradient_prints="array([ 0.87922191, -0.06777961])", heavy={4: 32}, is_opaque=False, gradient=sloped(second(quick_gelu_pair)), f=(quick_gelu, ref.quick_gelu)),
    activation("silu", "x σ(x). Source: Elfwing et al. 2017 (arXiv:1702.03118).", "np.array([0.5, -1.0])", "array([ 0.31122967, -0.26894142])",
        gradient_prints="array([0.73996119, 0.07232949])", is_opaque=False, gradient=sloped(second(swiglu_pair)), f=(swiglu, ref.swiglu_gate)),
    activation("mish", "x tanh(ln(1 + e^x)). Source: Misra 2019 (arXiv:1908.08681).", "np.array([0.5, -1.0])", "array([ 0.37524521, -0.30340146])",
        gradient_prints="array([0.88642438, 0.05921676])", heavy=(4,), is_smooth=True, gradient=sloped(second(mish_pair)), f=(mish, ref.mish)),
    activation("softplus", "ln(1 + e^(beta x))/beta, or x where beta x is above the threshold.", "np.array([0.5, -1.0])", "array([0.97407698, 0.31326169])",
        gradient_prints="array([0.62245933, 0.26894142])", heavy=(4,), options={"beta": (1.0, "the sharpness. The larger it is, the closer the result is to max(x, 0)"), "threshold": (20.0, "the value of beta x above which the result is x itself")}, is_smooth=True, gradient=softplus_backward, f=(softplus, ref.softplus)),
    activation("softsign", "x/(1 + |x|).", "np.array([0.5, -1.0])", "array([ 0.33333333, -0.5       ])",
        gradient_prints="array([0.44444444, 0.25      ])", is_smooth=True, gradient=sloped(softsign_slope), is_long=True, f=(softsign, ref.softsign)),
    activation("sigmoid", "σ(x) = 1/(1 + e^(-x)).", "np.array([0.5, -1.0])", "array([0.62245933, 0.26894142])",
        gradient_prints="array([0.23500371, 0.19661193])", is_opaque=False, gradient=sloped(second(sigmoid_pair)), f=(sigmoid, ref.sigmoid)),
    activation("log_sigmoid", "ln σ(x).", "np.array([0.5, -1.0])", "array([-0.47407698, -1.31326169])",
        gradient_prints="array([0.37754067, 0.73105858])", heavy=(4,), is_smooth=True, gradient=sloped(log_sigmoid_slope), f=(log_sigmoid, ref.log_sigmoid)),
    activation("hardsigmoid", "x/6 + ½, limited to the range from 0 to 1.", "np.array([0.5, -1.0])", "array([0.58333333, 0.33333333])",
        gradient_prints="array([0.16666667, 0.16666667])", f=(hardsigmoid, ref.hardsigmoid)),
    activation("hardswish", "x hardsigmoid(x). Source: Howard et al. 2019 (arXiv:1905.02244).", "np.array([0.5, -1.0])", "array([ 0.29166667, -0.33333333])",
        gradient_prints="array([0.66666667, 0.16666667])", gradient=sloped(hardswish_slope), f=(hardswish, ref.hardswish)),
    activation("hardtanh", "x limited to the range from min_val to max_val. min_val must not be above max_val.", "np.array([0.5, -1.0])", "array([ 0.5, -1. ])",
        gradient_prints="array([1., 0.])", options={"min_val": (-1.0, "the smallest result"), "max_val": (1.0, "the largest result")}, wrong=_hardtanh_wrong, f=(hardtanh, ref.hardtanh)),
    activation("tanhshrink", "x - tanh(x).", "np.array([0.5, -1.0])", "array([ 0.03788284, -0.23840584])",
        gradient_prints="array([0.21355227, 0.58002566])", heavy=(4,), of_sum=False, is_smooth=True, gradient=sloped(tanhshrink_slope), is_long=True, f=(tanhshrink_single, ref.tanhshrink), d=(tanhshrink, ref.tanhshrink)),
    activation("softshrink", "x moved by lambd toward 0, or 0 where |x| <= lambd. lambd must not be negative.", "np.array([0.5, -1.0])", "array([ 0. , -0.5])",
        gradient_prints="array([0., 1.])", options={"lambd": (0.5, "the distance that x is moved by. Nothing moves beyond 0")}, wrong=_softshrink_wrong, of_sum=False, f=(softshrink, ref.softshrink)),
    activation("hardshrink", "x, or 0 where |x| <= lambd.", "np.array([0.5, -1.0])", "array([ 0., -1.])",
        gradient_prints="array([0., 1.])", options={"lambd": (0.5, "the largest |x| that gives 0")}, of_sum=False, f=(hardshrink, ref.hardshrink)),
    function("threshold", "x threshold value", "float", "x where it is above the threshold, else the value.", "np.array([2.0, -2.0]), 0.0, -1.0", "array([ 2., -1.])",
        gradient_prints="array([1., 0.])", meeting=(0,), numbers=2, is_opaque=True, f=(threshold, ref.threshold)),
    activation("squared_relu", "max(x, 0)². Source: So et al. 2021 (arXiv:2109.08668).", "np.array([0.5, -1.0])", "array([0.25, 0.  ])",
        gradient_prints="array([1., 0.])", f=(squared_relu, ref.squared_relu)),
)
# fmt: on
