"""The table of elementwise functions: a row each.

A row has a name, the rule of its dtypes, what it computes in a line, and for each kind of dtype the scalar function of
kernels beside its meaning in NumPy. Kinds are f floats (d float64, h float16 and g bfloat16 where these have forms of
their own, n where all arguments are arrays of the same one of these two), i and u integers, b truth values, c complex
numbers; m signed beside unsigned ones of 64 bits, w the reverse.
"""

# ruff: noqa: E501
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..functions import activations as act
from ..functions import arithmetic as basic
from ..functions import basic as fun
from ..functions import comparisons as mixed
from ..functions import complex as com
from ..functions import complex_trigonometric as turned
from ..functions import digamma, division, powers, trigonometric
from ..functions import nextafter as near
from ..functions.formula import Heavy
from ..reference import activations as ref
from ..reference import c_library, complexes
from .rows import NAMED, Meaning, Row


class Entry(NamedTuple):
    """A row, with what is said of it.

    Attributes:
        row: the function.
        says: what it computes, in a line.
        options: names of its options -> their defaults. They are the last of its arguments.
    """

    row: Row
    says: str
    options: dict[str, Any]


#: Name -> row.
TABLE: dict[str, Entry] = {}


def _row(
    name: str,
    arguments: str,
    rule: str,
    says: str,
    options: dict[str, Any] | None = None,
    meeting: Sequence[int] | None = None,
    rounded: bool = False,
    heavy: Heavy = (),
    truths: Sequence[int] = (),
    numbers: int = 0,
    wrong: Callable[..., str] | None = None,
    **meanings: tuple[Any, Any],
) -> None:
    options = options or {}
    names = (*arguments.split(), *options)
    found = range(len(names) - len(options)) if meeting is None else meeting
    pairs = {kinds: Meaning(*pair) for kinds, pair in meanings.items()}
    NAMED[name] = row = Row(
        name,
        names,
        rule,
        pairs,
        meeting=found,
        rounded=rounded,
        heavy=heavy,
        options=len(options) + numbers,
        truths=truths,
        wrong=wrong,
    )
    TABLE[name] = Entry(row, says, options)


def _unary(name: str, rule: str, says: str, **more: Any) -> None:
    _row(name, "x", rule, says, **more)


def _binary(name: str, rule: str, says: str, **more: Any) -> None:
    _row(name, "x1 x2", rule, says, **more)


# What torch refuses, too: formulas have no one answer there.


def _celu_wrong(alpha: float) -> str:
    return "" if alpha else "alpha of celu is 0; x is divided by it"


def _hardtanh_wrong(low: float, high: float) -> str:
    return f"min_val={low} of hardtanh is above max_val={high}" if low > high else ""


def _softshrink_wrong(lambd: float) -> str:
    return f"lambd={lambd} of softshrink is negative" if lambd < 0 else ""


# fmt: off

# ---------------------------------------------------------------- of one array

_unary("negative", "keep", "-x.", fiuc=(fun.negative, np.negative))
_unary("abs", "real", "|x|, the modulus of complex numbers.", f=(math.fabs, np.abs), i=(fun.absolute, np.abs), ub=(fun.same, ref.same), c=(fun.modulus, np.abs))
_unary("sign", "keep", "-1, 0 or 1; NaN of NaN; x/|x| of complex numbers, 0 of 0.", f=(fun.sign_real, np.sign), iu=(fun.sign, np.sign), c=(com.sign_complex, complexes.sign))
_unary("square", "keep", "x².", fiuc=(fun.square, np.square))
_unary("sqrt", "float", "√x, NaN of what is negative.", f=(fun.root, np.sqrt), c=(com.sqrt_complex, np.sqrt))
_unary("rsqrt", "float", "1/√x.", f=(basic.reciprocal_root, ref.reciprocal_root))
_unary("cbrt", "float", "∛x, of x's sign.", heavy=(2,), f=(basic.cbrt, np.cbrt))
_unary("reciprocal", "float", "1/x.", f=(fun.reciprocal, np.reciprocal), c=(com.reciprocal_complex, complexes.reciprocal))
_unary("exp", "float", "e^x.", f=(math.exp, np.exp), c=(com.exp_complex, np.exp))
_unary("exp2", "float", "2^x.", f=(basic.exp2, np.exp2), c=(com.exp2_complex, complexes.exp2))
_unary("expm1", "float", "e^x - 1, accurate where that is small, too.", heavy=(2,), f=(math.expm1, np.expm1), c=(com.expm1_complex, complexes.expm1))
_unary("log", "float", "ln x.", heavy=(2,), f=(math.log, np.log), c=(com.log_complex, np.log))
_unary("log2", "float", "log₂ x.", heavy=(2,), f=(math.log2, np.log2), c=(com.log2_complex, np.log2))
_unary("log10", "float", "log₁₀ x.", heavy=(2,), f=(math.log10, np.log10), c=(com.log10_complex, np.log10))
_unary("log1p", "float", "ln(1 + x), accurate where x is small, too.", heavy=(2,), f=(math.log1p, np.log1p), c=(com.log1p_complex, complexes.log1p))
_unary("sin", "float", "The sine of x, in radians.", heavy=(2,), f=(math.sin, np.sin), c=(turned.sin_complex, np.sin))
_unary("cos", "float", "The cosine of x, in radians.", heavy=(2,), f=(math.cos, np.cos), c=(turned.cos_complex, np.cos))
_unary("tan", "float", "The tangent of x, in radians.", heavy=(2,), f=(math.tan, np.tan), c=(turned.tan_complex, np.tan))
_unary("asin", "float", "The angle in [-π/2, π/2] whose sine is x.", heavy=(2,), f=(math.asin, np.arcsin), c=(turned.asin_complex, np.arcsin))
_unary("acos", "float", "The angle in [0, π] whose cosine is x.", heavy=(2,), f=(math.acos, np.arccos), c=(turned.acos_complex, np.arccos))
_unary("atan", "float", "The angle in [-π/2, π/2] whose tangent is x.", f=(math.atan, np.arctan), c=(turned.atan_complex, np.arctan))
_unary("sinh", "float", "The hyperbolic sine of x.", heavy=(2,), f=(math.sinh, np.sinh), c=(turned.sinh_complex, np.sinh))
_unary("cosh", "float", "The hyperbolic cosine of x.", heavy=(2,), f=(math.cosh, np.cosh), c=(turned.cosh_complex, np.cosh))
_unary("tanh", "float", "The hyperbolic tangent of x.", heavy=(2,), f=(math.tanh, np.tanh), c=(turned.tanh_complex, np.tanh))
_unary("asinh", "float", "The number whose hyperbolic sine is x.", heavy=(2, 4), f=(math.asinh, np.arcsinh), c=(turned.asinh_complex, np.arcsinh))
_unary("acosh", "float", "The number, at least 0, whose hyperbolic cosine is x.", heavy=(2, 4), f=(math.acosh, np.arccosh), c=(turned.acosh_complex, np.arccosh))
_unary("atanh", "float", "The number whose hyperbolic tangent is x.", heavy=(2,), f=(math.atanh, np.arctanh), c=(turned.atanh_complex, np.arctanh))
_unary("erf", "float", "The error function 2/√π ∫₀ˣ e^(-t²) dt.", heavy=(2,), f=(math.erf, c_library.erf))
_unary("erfc", "float", "1 - erf(x), accurate where that is small, too.", heavy=(2, 4), f=(math.erfc, c_library.erfc))
_unary("erfinv", "float", "The number whose erf is x; infinite at -1 and 1, NaN beyond.", heavy=(2,), f=(basic.erfinv, ref.inverse_error))
_unary("lgamma", "float", "ln |Γ(x)|.", f=(math.lgamma, c_library.lgamma))
_unary("digamma", "float", "ψ(x), the derivative of ln Γ(x).", f=(digamma.digamma, ref.digamma))
_unary("floor", "keep", "The largest whole number that is not above x; integers stay.", f=(math.floor, np.floor), iub=(fun.same, ref.same))
_unary("ceil", "keep", "The smallest whole number that is not below x; integers stay.", f=(math.ceil, np.ceil), iub=(fun.same, ref.same))
_unary("trunc", "keep", "x without what lies behind the point; integers stay.", f=(math.trunc, np.trunc), iub=(fun.same, ref.same))
_unary("round", "keep", "The nearest whole number, of two the even one; integers stay.", f=(basic.rint, np.rint), c=(com.rint_complex, np.rint), iub=(fun.same, ref.same))
_unary("frac", "keep", "x - trunc(x), of x's sign.", f=(fun.fraction, ref.fraction), iu=(fun.zero, np.zeros_like))
_unary("isnan", "bool", "Whether x is NaN.", f=(math.isnan, np.isnan), iub=(fun.never, np.isnan), c=(com.is_nan_complex, np.isnan))
_unary("isinf", "bool", "Whether x is infinite.", f=(math.isinf, np.isinf), iub=(fun.never, np.isinf), c=(com.is_inf_complex, np.isinf))
_unary("isfinite", "bool", "Whether x is neither infinite nor NaN.", f=(math.isfinite, np.isfinite), iub=(fun.always, np.isfinite), c=(com.is_finite_complex, np.isfinite))
_unary("logical_not", "bool", "Whether x is 0, or False.", fiuc=(fun.is_zero, np.logical_not), b=(fun.logical_not, np.logical_not))
_unary("bitwise_not", "keep", "x with all bits turned; of truth values as `logical_not`.", iu=(fun.invert, np.invert), b=(fun.logical_not, np.invert))
_unary("real", "real", "The real part, a copy of real numbers.", fiub=(fun.same, ref.same), c=(fun.real_part, np.real))
_unary("imag", "real", "The imaginary part, 0 of real numbers.", f=(fun.no_part, np.zeros_like), iu=(fun.zero, np.zeros_like), c=(fun.imaginary_part, np.imag))
_unary("conj", "keep", "The complex conjugate, a copy of real numbers.", fiu=(fun.same, ref.same), c=(fun.conjugate, np.conj))
_unary("angle", "angle", "The angle of a complex number in radians, in [-π, π].", f=(fun.angle_of_real, np.angle), c=(fun.angle, np.angle))

# ---------------------------------------------------------------- of two arrays, or an array and a number

_binary("add", "keep", "x1 + x2; of truth values either.", fiuc=(fun.add, np.add), b=(fun.either, np.add))
_binary("subtract", "keep", "x1 - x2.", fiuc=(fun.subtract, np.subtract))
_binary("multiply", "keep", "x1 x2; of truth values both.", fiuc=(fun.multiply, np.multiply), b=(fun.both, np.multiply))
_binary("divide", "divide", "x1 / x2; of integers in float64.", f=(fun.divide, np.divide), c=(com.divide_complex, np.divide))
_binary("floor_divide", "keep", "The largest whole number that is not above x1 / x2; of integers 0 where x2 is 0.", f=(fun.floor_divide, np.floor_divide), n=(division.floor_divide_narrow, np.floor_divide), i=(fun.floor_divide_integers, np.floor_divide), u=(fun.floor_divide_unsigned, np.floor_divide))
_binary("remainder", "keep", "x1 - x2 floor(x1 / x2), of x2's sign; of integers 0 where x2 is 0.", f=(fun.remainder, np.remainder), i=(fun.remainder_integers, np.remainder), u=(fun.remainder_unsigned, np.remainder))
_binary("fmod", "keep", "x1 - x2 trunc(x1 / x2), of x1's sign; of integers 0 where x2 is 0.", f=(fun.fmod, np.fmod), i=(fun.fmod_integers, np.fmod), u=(fun.remainder_unsigned, np.fmod))
_binary("pow", "keep", "x1 to the power of x2; of integers what a negative power leaves, 0 but of 1 and -1.", heavy=(4,), f=(math.pow, c_library.power), n=(powers.power, c_library.power), iu=(fun.power_integers, ref.power_of_integers), c=(com.power_complex, ref.power_of_complex))
_binary("maximum", "keep", "The larger one; NaN where either is.", f=(fun.maximum, np.maximum), iu=(fun.larger, np.maximum), b=(fun.either, np.maximum))
_binary("minimum", "keep", "The smaller one; NaN where either is.", f=(fun.minimum, np.minimum), iu=(fun.smaller, np.minimum), b=(fun.both, np.minimum))
_binary("fmax", "keep", "The larger one; the other where one is NaN.", f=(fun.fmax, np.fmax), iu=(fun.larger, np.fmax), b=(fun.either, np.fmax))
_binary("fmin", "keep", "The smaller one; the other where one is NaN.", f=(fun.fmin, np.fmin), iu=(fun.smaller, np.fmin), b=(fun.both, np.fmin))
_binary("atan2", "float", "The angle of the point (x2, x1) in radians, in [-π, π].", f=(math.atan2, np.arctan2), n=(trigonometric.atan2, np.arctan2))
_binary("hypot", "float", "√(x1² + x2²), without overflow between.", f=(math.hypot, np.hypot))
_binary("copysign", "float", "|x1| with x2's sign.", f=(math.copysign, np.copysign))
_binary("logaddexp", "float", "ln(e^x1 + e^x2), without overflow between.", f=(fun.logaddexp, np.logaddexp))
_binary("nextafter", "float", "The next number of the dtype after x1 towards x2, x2 where they are equal.", rounded=True, f=(near.nextafter, np.nextafter), h=(near.nextafter_half, ref.nextafter_half), g=(near.nextafter_brain, ref.nextafter_brain))
_row("ldexp", "x1 x2", "float", "x1 2^x2, x2 whole numbers.", meeting=(0,), f=(fun.ldexp, ref.scaled))
_binary("equal", "bool", "x1 == x2.", rounded=True, fiubc=(fun.equal, np.equal), m=(mixed.equal, ref.mixed(np.equal)), w=(mixed.equal_reversed, ref.mixed_reversed(np.equal)))
_binary("not_equal", "bool", "x1 != x2.", rounded=True, fiubc=(fun.not_equal, np.not_equal), m=(mixed.not_equal, ref.mixed(np.not_equal)), w=(mixed.not_equal_reversed, ref.mixed_reversed(np.not_equal)))
_binary("less", "bool", "x1 < x2.", rounded=True, fiub=(fun.less, np.less), m=(mixed.less, ref.mixed(np.less)), w=(mixed.less_reversed, ref.mixed_reversed(np.less)))
_binary("less_equal", "bool", "x1 <= x2.", rounded=True, fiub=(fun.less_equal, np.less_equal), m=(mixed.less_equal, ref.mixed(np.less_equal)), w=(mixed.less_equal_reversed, ref.mixed_reversed(np.less_equal)))
_binary("greater", "bool", "x1 > x2.", rounded=True, fiub=(fun.greater, np.greater), m=(mixed.greater, ref.mixed(np.greater)), w=(mixed.greater_reversed, ref.mixed_reversed(np.greater)))
_binary("greater_equal", "bool", "x1 >= x2.", rounded=True, fiub=(fun.greater_equal, np.greater_equal), m=(mixed.greater_equal, ref.mixed(np.greater_equal)), w=(mixed.greater_equal_reversed, ref.mixed_reversed(np.greater_equal)))
_binary("logical_and", "bool", "Whether both are not 0.", fiuc=(fun.logical_and, np.logical_and), b=(fun.both, np.logical_and))
_binary("logical_or", "bool", "Whether either is not 0.", fiuc=(fun.logical_or, np.logical_or), b=(fun.either, np.logical_or))
_binary("logical_xor", "bool", "Whether one of the two is not 0.", fiuc=(fun.logical_xor, np.logical_xor), b=(fun.one_of, np.logical_xor))
_binary("bitwise_and", "keep", "The bits that both have.", iu=(fun.bitwise_and, np.bitwise_and), b=(fun.both, np.bitwise_and))
_binary("bitwise_or", "keep", "The bits that either has.", iu=(fun.bitwise_or, np.bitwise_or), b=(fun.either, np.bitwise_or))
_binary("bitwise_xor", "keep", "The bits that one of the two has.", iu=(fun.bitwise_xor, np.bitwise_xor), b=(fun.one_of, np.bitwise_xor))
_binary("left_shift", "keep", "x1 with its bits moved up by x2, 0 from its number of bits on.", iu=(fun.left_shift, np.left_shift))
_binary("right_shift", "keep", "x1 with its bits moved down by x2, the sign kept.", i=(fun.right_shift, np.right_shift), u=(fun.right_shift_unsigned, np.right_shift))

# ---------------------------------------------------------------- of three

_row("where", "condition x1 x2", "keep", "x1 where the condition, an array of bool, holds, else x2.", meeting=(1, 2), truths=(0,), rounded=True, fiubc=(fun.where, np.where))
_row("clamp", "x min max", "keep", "x, but at least min and at most max; max where min is above it; NaN stays.", f=(fun.clamp, ref.clamp), iu=(fun.clamp_integers, ref.clamp))
_row("fma", "x1 x2 x3", "keep", "x1 x2 + x3, rounded once.", f=(basic.fma, ref.fused))
_row("lerp", "x1 x2 weight", "keep", "x1 + weight (x2 - x1), as torch has it.", f=(fun.lerp, ref.lerp))
_row("addcmul", "x x1 x2", "keep", "x + value x1 x2.", {"value": 1.0}, fc=(fun.addcmul, ref.addcmul), iu=(fun.addcmul, ref.addcmul))
_row("addcdiv", "x x1 x2", "divide", "x + value x1 / x2.", {"value": 1.0}, fc=(fun.addcdiv, ref.addcdiv))

# ---------------------------------------------------------------- activations

_unary("relu", "keep", "max(x, 0).", f=(act.relu, ref.relu), iu=(fun.relu_of_integers, ref.relu))
_unary("leaky_relu", "float", "x, or negative_slope x where it is not above 0.", options={"negative_slope": 0.01}, f=(act.leaky_relu, ref.leaky_relu))
_row("prelu", "x weight", "float", "x, or weight x where it is not above 0; the weight broadcasts.", f=(act.prelu, ref.prelu))
_unary("relu6", "float", "min(max(x, 0), 6).", f=(act.relu6, ref.relu6))
_unary("elu", "float", "x, or alpha (e^x - 1) where it is not above 0. Clevert et al. 2015 (arXiv:1511.07289).", heavy=(2,), options={"alpha": 1.0}, f=(act.elu, ref.elu))
_unary("selu", "float", "1.0507 elu(x, 1.6733). Klambauer et al. 2017 (arXiv:1706.02515).", heavy=(2,), f=(act.selu, ref.selu))
_unary("celu", "float", "x, or alpha (e^(x/alpha) - 1) where it is not above 0; alpha is not 0. Barron 2017 (arXiv:1704.07483).", heavy=(2,), options={"alpha": 1.0}, wrong=_celu_wrong, f=(act.celu, ref.celu))
_unary("gelu", "float", "x Φ(x), Φ the normal distribution. Hendrycks and Gimpel 2016 (arXiv:1606.08415).", heavy={2: None, 4: 32}, f=(act.geglu, ref.geglu_gate))
_unary("gelu_tanh", "float", "x ½(1 + tanh(√(2/π)(x + 0.044715 x³))). Hendrycks and Gimpel 2016 (arXiv:1606.08415).", heavy={4: 32}, f=(act.geglu_tanh, ref.geglu_tanh_gate))
_unary("quick_gelu", "float", "x σ(1.702 x). Hendrycks and Gimpel 2016 (arXiv:1606.08415).", heavy={4: 32}, f=(act.quick_gelu, ref.quick_gelu))
_unary("silu", "float", "x σ(x). Elfwing et al. 2017 (arXiv:1702.03118).", f=(act.swiglu, ref.swiglu_gate))
_unary("mish", "float", "x tanh(ln(1 + e^x)). Misra 2019 (arXiv:1908.08681).", heavy=(4,), f=(act.mish, ref.mish))
_unary("softplus", "float", "ln(1 + e^(beta x))/beta; x where beta x is above the threshold.", heavy=(4,), options={"beta": 1.0, "threshold": 20.0}, f=(act.softplus, ref.softplus))
_unary("softsign", "float", "x/(1 + |x|).", f=(act.softsign, ref.softsign))
_unary("sigmoid", "float", "σ(x) = 1/(1 + e^(-x)).", f=(act.sigmoid, ref.sigmoid))
_unary("log_sigmoid", "float", "ln σ(x).", heavy=(4,), f=(act.log_sigmoid, ref.log_sigmoid))
_unary("hardsigmoid", "float", "x/6 + ½, but at least 0 and at most 1.", f=(act.hardsigmoid, ref.hardsigmoid))
_unary("hardswish", "float", "x hardsigmoid(x). Howard et al. 2019 (arXiv:1905.02244).", f=(act.hardswish, ref.hardswish))
_unary("hardtanh", "float", "x, but at least min_val and at most max_val, which is no less.", options={"min_val": -1.0, "max_val": 1.0}, wrong=_hardtanh_wrong, f=(act.hardtanh, ref.hardtanh))
_unary("tanhshrink", "float", "x - tanh(x).", heavy=(4,), f=(act.tanhshrink_single, ref.tanhshrink), d=(act.tanhshrink, ref.tanhshrink))
_unary("softshrink", "float", "x moved by lambd toward 0, and 0 within lambd of it; lambd is not negative.", options={"lambd": 0.5}, wrong=_softshrink_wrong, f=(act.softshrink, ref.softshrink))
_unary("hardshrink", "float", "x, and 0 within lambd of 0.", options={"lambd": 0.5}, f=(act.hardshrink, ref.hardshrink))
_row("threshold", "x threshold value", "float", "x where it is above the threshold, else the value.", meeting=(0,), numbers=2, f=(act.threshold, ref.threshold))
_unary("squared_relu", "float", "max(x, 0)². So et al. 2021 (arXiv:2109.08668).", f=(act.squared_relu, ref.squared_relu))
