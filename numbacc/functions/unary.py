"""Functions of one number, for `numbacc.elementwise`: what each computes, for each kind of dtype, and all that is known
of it. What NumPy and C leave to `math` is `math`'s; what differs between them, at zeros, infinities and NaN, is NumPy's.
"""

# ruff: noqa: E501
from __future__ import annotations

import math

import numpy as np

from ..reference import activations as ref
from ..reference import c_library, complexes
from . import complex, complex_trigonometric
from .arithmetic import cbrt, erfinv, exp2, inverse, reciprocal_root, rint, square_root
from .digamma import digamma, trigamma
from .function import sloped, unary


def same(x):
    """x."""
    return x


def never(x):
    """False: integers are neither infinite nor NaN."""
    return False


def always(x):
    """True."""
    return True


def negative(x):
    return -x


def modulus(x):
    return abs(x)


def absolute(x):
    """|x| of an integer. Not abs: where a wider integer takes it, ptxas leaves the sign of what abs.s16 gives alone, as
    if it had none, and the least of int16, whose negative is itself, becomes 32768."""
    return max(x, -x)


def sign(x):
    """-1, 0, 1; NaN of NaN."""
    if x > 0:
        return 1
    if x < 0:
        return -1
    return x


def sign_real(x):
    """-1, 0, 1; NaN of NaN. Zeros have no sign, as in NumPy."""
    if x > 0.0:
        return 1.0
    if x < 0.0:
        return -1.0
    return x * 0.0 + 0.0


def square(x):
    return x * x


def reciprocal(x):
    return inverse(x)


def root(x):
    return square_root(x)


def fraction(x):
    """What lies behind the point, with x's sign: x - trunc(x)."""
    return x - math.trunc(x)


def zero(x):
    """0, of integers and real numbers that have no such part."""
    return x * 0


def logical_not(x):
    return not x


def invert(x):
    return ~x


def no_part(x):
    """0, whatever x is."""
    return 0.0


def is_zero(a):
    return a == 0


def angle_of_real(x):
    """0, or π of negative numbers, -0.0 too; NaN of NaN."""
    return math.atan2(0.0, x)


def real_part(x):
    return x.real


def imaginary_part(x):
    return x.imag


def conjugate(x):
    return x.conjugate()


def angle(x):
    return math.atan2(x.imag, x.real)


#: As the public functions are listed.
# fmt: off
FUNCTIONS = (
    unary("negative", "keep", "-x.", "np.array([3.0, -2.0])", "array([-3.,  2.])",
        fiuc=(negative, np.negative)),
    unary("abs", "real", "|x|, the modulus of complex numbers.", "np.array([3.0, -2.0])", "array([3., 2.])",
        f=(math.fabs, np.abs), i=(absolute, np.abs), ub=(same, ref.same), c=(modulus, np.abs)),
    unary("sign", "keep", "-1, 0 or 1; NaN of NaN; x/|x| of complex numbers, 0 of 0.", "np.array([3.0, -2.0])", "array([ 1., -1.])",
        is_opaque=True, gradient=None, f=(sign_real, np.sign), iu=(sign, np.sign), c=(complex.sign_complex, complexes.sign)),
    unary("square", "keep", "x².", "np.array([3.0, -2.0])", "array([9., 4.])",
        fiuc=(square, np.square)),
    unary("sqrt", "float", "√x, NaN of what is negative.", "np.array([4.0, 9.0])", "array([2., 3.])",
        f=(root, np.sqrt), c=(complex.sqrt_complex, np.sqrt)),
    unary("rsqrt", "float", "1/√x.", "np.array([4.0, 16.0])", "array([0.5 , 0.25])",
        f=(reciprocal_root, c_library.reciprocal_root)),
    unary("cbrt", "float", "∛x, of x's sign.", "np.array([8.0, -27.0])", "array([ 2., -3.])",
        heavy=(2,), f=(cbrt, np.cbrt)),
    unary("reciprocal", "float", "1/x.", "np.array([4.0, -2.0])", "array([ 0.25, -0.5 ])",
        f=(reciprocal, np.reciprocal), c=(complex.reciprocal_complex, complexes.reciprocal)),
    unary("exp", "float", "e^x.", "np.array([0.0, 1.0])", "array([1.        , 2.71828183])",
        f=(math.exp, np.exp), c=(complex.exp_complex, np.exp)),
    unary("exp2", "float", "2^x.", "np.array([3.0, -1.0])", "array([8. , 0.5])",
        f=(exp2, np.exp2), c=(complex.exp2_complex, complexes.exp2)),
    unary("expm1", "float", "e^x - 1, accurate where that is small, too.", "np.array([0.5, -1.0])", "array([ 0.64872127, -0.63212056])",
        heavy=(2,), f=(math.expm1, np.expm1), c=(complex.expm1_complex, complexes.expm1)),
    unary("log", "float", "ln x.", "np.array([1.0, 10.0])", "array([0.        , 2.30258509])",
        heavy=(2,), f=(math.log, np.log), c=(complex.log_complex, np.log)),
    unary("log2", "float", "log₂ x.", "np.array([1.0, 8.0])", "array([0., 3.])",
        heavy=(2,), f=(math.log2, np.log2), c=(complex.log2_complex, np.log2)),
    unary("log10", "float", "log₁₀ x.", "np.array([1.0, 100.0])", "array([0., 2.])",
        heavy=(2,), f=(math.log10, np.log10), c=(complex.log10_complex, np.log10)),
    unary("log1p", "float", "ln(1 + x), accurate where x is small, too.", "np.array([0.5, -1.0])", "array([0.40546511,       -inf])",
        heavy=(2,), f=(math.log1p, np.log1p), c=(complex.log1p_complex, complexes.log1p)),
    unary("sin", "float", "The sine of x, in radians.", "np.array([0.5, -1.0])", "array([ 0.47942554, -0.84147098])",
        heavy=(2,), f=(math.sin, np.sin), c=(complex_trigonometric.sin_complex, np.sin)),
    unary("cos", "float", "The cosine of x, in radians.", "np.array([0.5, -1.0])", "array([0.87758256, 0.54030231])",
        heavy=(2,), f=(math.cos, np.cos), c=(complex_trigonometric.cos_complex, np.cos)),
    unary("tan", "float", "The tangent of x, in radians.", "np.array([0.5, -1.0])", "array([ 0.54630249, -1.55740772])",
        heavy=(2,), f=(math.tan, np.tan), c=(complex_trigonometric.tan_complex, np.tan)),
    unary("asin", "float", "The angle in [-π/2, π/2] whose sine is x.", "np.array([0.5, -0.25])", "array([ 0.52359878, -0.25268026])",
        heavy=(2,), f=(math.asin, np.arcsin), c=(complex_trigonometric.asin_complex, np.arcsin)),
    unary("acos", "float", "The angle in [0, π] whose cosine is x.", "np.array([0.5, -0.25])", "array([1.04719755, 1.82347658])",
        heavy=(2,), f=(math.acos, np.arccos), c=(complex_trigonometric.acos_complex, np.arccos)),
    unary("atan", "float", "The angle in [-π/2, π/2] whose tangent is x.", "np.array([0.5, -1.0])", "array([ 0.46364761, -0.78539816])",
        f=(math.atan, np.arctan), c=(complex_trigonometric.atan_complex, np.arctan)),
    unary("sinh", "float", "The hyperbolic sine of x.", "np.array([0.5, -1.0])", "array([ 0.52109531, -1.17520119])",
        heavy=(2,), f=(math.sinh, np.sinh), c=(complex_trigonometric.sinh_complex, np.sinh)),
    unary("cosh", "float", "The hyperbolic cosine of x.", "np.array([0.5, -1.0])", "array([1.12762597, 1.54308063])",
        heavy=(2,), f=(math.cosh, np.cosh), c=(complex_trigonometric.cosh_complex, np.cosh)),
    unary("tanh", "float", "The hyperbolic tangent of x.", "np.array([0.5, -1.0])", "array([ 0.46211716, -0.76159416])",
        heavy=(2,), of_sum=True, f=(math.tanh, np.tanh), c=(complex_trigonometric.tanh_complex, np.tanh)),
    unary("asinh", "float", "The number whose hyperbolic sine is x.", "np.array([0.5, -1.0])", "array([ 0.48121183, -0.88137359])",
        heavy=(2, 4), f=(math.asinh, np.arcsinh), c=(complex_trigonometric.asinh_complex, np.arcsinh)),
    unary("acosh", "float", "The number, at least 0, whose hyperbolic cosine is x.", "np.array([1.0, 2.0])", "array([0.       , 1.3169579])",
        heavy=(2, 4), f=(math.acosh, np.arccosh), c=(complex_trigonometric.acosh_complex, np.arccosh)),
    unary("atanh", "float", "The number whose hyperbolic tangent is x.", "np.array([0.5, -0.25])", "array([ 0.54930614, -0.25541281])",
        heavy=(2,), f=(math.atanh, np.arctanh), c=(complex_trigonometric.atanh_complex, np.arctanh)),
    unary("erf", "float", "The error function 2/√π ∫₀ˣ e^(-t²) dt.", "np.array([0.5, -1.0])", "array([ 0.52049988, -0.84270079])",
        heavy=(2,), f=(math.erf, c_library.erf)),
    unary("erfc", "float", "1 - erf(x), accurate where that is small, too.", "np.array([0.5, -1.0])", "array([0.47950012, 1.84270079])",
        heavy=(2, 4), f=(math.erfc, c_library.erfc)),
    unary("erfinv", "float", "The number whose erf is x; infinite at -1 and 1, NaN beyond.", "np.array([0.5, -0.25])", "array([ 0.47693628, -0.22531206])",
        heavy=(2,), f=(erfinv, c_library.inverse_error)),
    unary("lgamma", "float", "ln |Γ(x)|.", "np.array([0.5, 3.0])", "array([0.57236494, 0.69314718])",
        f=(math.lgamma, c_library.lgamma)),
    unary("digamma", "float", "ψ(x), the derivative of ln Γ(x).", "np.array([1.0, 2.0])", "array([-0.57721566,  0.42278434])",
        gradient=sloped(trigamma), f=(digamma, c_library.digamma)),
    unary("floor", "keep", "The largest whole number that is not above x; integers stay.", "np.array([0.5, -1.7])", "array([ 0., -2.])",
        gradient=None, f=(math.floor, np.floor), iub=(same, ref.same)),
    unary("ceil", "keep", "The smallest whole number that is not below x; integers stay.", "np.array([0.5, -1.7])", "array([ 1., -1.])",
        gradient=None, f=(math.ceil, np.ceil), iub=(same, ref.same)),
    unary("trunc", "keep", "x without what lies behind the point; integers stay.", "np.array([0.5, -1.7])", "array([ 0., -1.])",
        gradient=None, f=(math.trunc, np.trunc), iub=(same, ref.same)),
    unary("round", "keep", "The nearest whole number, of two the even one; integers stay.", "np.array([0.5, 1.5, -1.7])", "array([ 0.,  2., -2.])",
        gradient=None, f=(rint, np.rint), c=(complex.rint_complex, np.rint), iub=(same, ref.same)),
    unary("frac", "keep", "x - trunc(x), of x's sign.", "np.array([0.5, -1.75])", "array([ 0.5 , -0.75])",
        f=(fraction, ref.fraction), iu=(zero, np.zeros_like)),
    unary("isnan", "bool", "Whether x is NaN.", "np.array([1.0, np.nan])", "array([False,  True])",
        f=(math.isnan, np.isnan), iub=(never, np.isnan), c=(complex.is_nan_complex, np.isnan)),
    unary("isinf", "bool", "Whether x is infinite.", "np.array([1.0, np.inf])", "array([False,  True])",
        f=(math.isinf, np.isinf), iub=(never, np.isinf), c=(complex.is_inf_complex, np.isinf)),
    unary("isfinite", "bool", "Whether x is neither infinite nor NaN.", "np.array([1.0, np.inf])", "array([ True, False])",
        f=(math.isfinite, np.isfinite), iub=(always, np.isfinite), c=(complex.is_finite_complex, np.isfinite)),
    unary("logical_not", "bool", "Whether x is 0, or False.", "np.array([0, 3])", "array([ True, False])",
        fiuc=(is_zero, np.logical_not), b=(logical_not, np.logical_not)),
    unary("bitwise_not", "keep", "x with all bits turned; of truth values as `logical_not`.", "np.array([0, 3])", "array([-1, -4])",
        iu=(invert, np.invert), b=(logical_not, np.invert)),
    unary("real", "real", "The real part, a copy of real numbers.", "np.array([1 + 2j])", "array([1.])",
        gradient=None, fiub=(same, ref.same), c=(real_part, np.real)),
    unary("imag", "real", "The imaginary part, 0 of real numbers.", "np.array([1 + 2j])", "array([2.])",
        gradient=None, f=(no_part, np.zeros_like), iu=(zero, np.zeros_like), c=(imaginary_part, np.imag)),
    unary("conj", "keep", "The complex conjugate, a copy of real numbers.", "np.array([1 + 2j])", "array([1.-2.j])",
        gradient=None, fiu=(same, ref.same), c=(conjugate, np.conj)),
    unary("angle", "angle", "The angle of a complex number in radians, in [-π, π].", "np.array([1j, 2.0])", "array([1.57079633, 0.        ])",
        gradient=None, f=(angle_of_real, np.angle), c=(angle, np.angle)),
)
# fmt: on
