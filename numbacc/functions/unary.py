"""Functions of one argument for `numbacc.elementwise`: their scalar functions, for each kind of dtype, and descriptions.

Most call `math`. Where NumPy and C differ (at zeros, infinities and NaN), these functions follow NumPy.
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
    """Return x."""
    return x


def never(x):
    """Return False: integers are neither infinite nor NaN."""
    return False


def always(x):
    """Return True."""
    return True


def negative(x):
    return -x


def modulus(x):
    return abs(x)


def absolute(x):
    """Return |x| of an integer.

    This does not call abs. If abs.s16 is followed by a conversion to a wider integer, ptxas treats the result as
    unsigned; the smallest int16, whose negative is itself, would become 32768.
    """
    return max(x, -x)


def sign(x):
    """Return -1, 0 or 1, and NaN for NaN."""
    if x > 0:
        return 1
    if x < 0:
        return -1
    return x


def sign_real(x):
    """Return -1, 0 or 1, and NaN for NaN. Zeros give 0.0 without a sign, as in NumPy."""
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
    """Return the fractional part x - trunc(x), with x's sign."""
    return x - math.trunc(x)


def zero(x):
    """Return 0, for the missing part of integers and real numbers."""
    return x * 0


def logical_not(x):
    return not x


def invert(x):
    return ~x


def no_part(x):
    """Return 0 for any x."""
    return 0.0


def is_zero(a):
    return a == 0


def angle_of_real(x):
    """Return 0, or π for negative numbers and -0.0; NaN for NaN."""
    return math.atan2(0.0, x)


def real_part(x):
    return x.real


def imaginary_part(x):
    return x.imag


def conjugate(x):
    return x.conjugate()


def angle(x):
    return math.atan2(x.imag, x.real)


#: The order is that of the documentation's table.
# fmt: off
FUNCTIONS = (
    unary("negative", "keep", "-x.", "np.array([3.0, -2.0])", "array([-3.,  2.])",
        gradient_prints="array([-1., -1.])", fiuc=(negative, np.negative)),
    unary("abs", "real", "|x|. For complex numbers, this is the modulus.", "np.array([3.0, -2.0])", "array([3., 2.])",
        gradient_prints="array([ 1., -1.])", f=(math.fabs, np.abs), i=(absolute, np.abs), ub=(same, ref.same), c=(modulus, np.abs)),
    unary("sign", "keep", "the sign of x: -1, 0 or 1. NaN gives NaN. A complex x gives x/|x|, and 0 for x = 0.", "np.array([3.0, -2.0])", "array([ 1., -1.])",
        is_opaque=True, gradient=None, f=(sign_real, np.sign), iu=(sign, np.sign), c=(complex.sign_complex, complexes.sign)),
    unary("square", "keep", "x².", "np.array([3.0, -2.0])", "array([9., 4.])",
        gradient_prints="array([ 6., -4.])", fiuc=(square, np.square)),
    unary("sqrt", "float", "√x, the square root. It is NaN where x is a negative float.", "np.array([4.0, 9.0])", "array([2., 3.])",
        gradient_prints="array([0.25      , 0.16666667])", f=(root, np.sqrt), c=(complex.sqrt_complex, np.sqrt)),
    unary("rsqrt", "float", "1/√x.", "np.array([4.0, 16.0])", "array([0.5 , 0.25])",
        gradient_prints="array([-0.0625   , -0.0078125])", f=(reciprocal_root, c_library.reciprocal_root)),
    unary("cbrt", "float", "∛x, the cube root, which has the sign of x.", "np.array([8.0, -27.0])", "array([ 2., -3.])",
        gradient_prints="array([0.08333333, 0.03703704])", heavy=(2,), f=(cbrt, np.cbrt)),
    unary("reciprocal", "float", "1/x.", "np.array([4.0, -2.0])", "array([ 0.25, -0.5 ])",
        gradient_prints="array([-0.0625, -0.25  ])", f=(reciprocal, np.reciprocal), c=(complex.reciprocal_complex, complexes.reciprocal)),
    unary("exp", "float", "e^x.", "np.array([0.0, 1.0])", "array([1.        , 2.71828183])",
        gradient_prints="array([1.        , 2.71828183])", f=(math.exp, np.exp), c=(complex.exp_complex, np.exp)),
    unary("exp2", "float", "2^x.", "np.array([3.0, -1.0])", "array([8. , 0.5])",
        gradient_prints="array([5.54517744, 0.34657359])", f=(exp2, np.exp2), c=(complex.exp2_complex, complexes.exp2)),
    unary("expm1", "float", "e^x - 1, accurate also where x is close to 0.", "np.array([0.5, -1.0])", "array([ 0.64872127, -0.63212056])",
        gradient_prints="array([1.64872127, 0.36787944])", heavy=(2,), f=(math.expm1, np.expm1), c=(complex.expm1_complex, complexes.expm1)),
    unary("log", "float", "ln x, the natural logarithm.", "np.array([1.0, 10.0])", "array([0.        , 2.30258509])",
        gradient_prints="array([1. , 0.1])", heavy=(2,), f=(math.log, np.log), c=(complex.log_complex, np.log)),
    unary("log2", "float", "log₂ x, the logarithm to base 2.", "np.array([1.0, 8.0])", "array([0., 3.])",
        gradient_prints="array([1.44269504, 0.18033688])", heavy=(2,), f=(math.log2, np.log2), c=(complex.log2_complex, np.log2)),
    unary("log10", "float", "log₁₀ x, the logarithm to base 10.", "np.array([1.0, 100.0])", "array([0., 2.])",
        gradient_prints="array([0.43429448, 0.00434294])", heavy=(2,), f=(math.log10, np.log10), c=(complex.log10_complex, np.log10)),
    unary("log1p", "float", "ln(1 + x), accurate also where x is close to 0.", "np.array([0.5, -1.0])", "array([0.40546511,       -inf])",
        gradient_example="np.array([0.5, 1.0])", gradient_prints="array([0.66666667, 0.5       ])", heavy=(2,), f=(math.log1p, np.log1p), c=(complex.log1p_complex, complexes.log1p)),
    unary("sin", "float", "the sine of x, with x in radians.", "np.array([0.5, -1.0])", "array([ 0.47942554, -0.84147098])",
        gradient_prints="array([0.87758256, 0.54030231])", heavy=(2,), f=(math.sin, np.sin), c=(complex_trigonometric.sin_complex, np.sin)),
    unary("cos", "float", "the cosine of x, with x in radians.", "np.array([0.5, -1.0])", "array([0.87758256, 0.54030231])",
        gradient_prints="array([-0.47942554,  0.84147098])", heavy=(2,), f=(math.cos, np.cos), c=(complex_trigonometric.cos_complex, np.cos)),
    unary("tan", "float", "the tangent of x, with x in radians.", "np.array([0.5, -1.0])", "array([ 0.54630249, -1.55740772])",
        gradient_prints="array([1.29844641, 3.42551882])", heavy=(2,), f=(math.tan, np.tan), c=(complex_trigonometric.tan_complex, np.tan)),
    unary("asin", "float", "the arcsine of x, the angle in [-π/2, π/2] whose sine is x.", "np.array([0.5, -0.25])", "array([ 0.52359878, -0.25268026])",
        gradient_prints="array([1.15470054, 1.03279556])", heavy=(2,), f=(math.asin, np.arcsin), c=(complex_trigonometric.asin_complex, np.arcsin)),
    unary("acos", "float", "the arccosine of x, the angle in [0, π] whose cosine is x.", "np.array([0.5, -0.25])", "array([1.04719755, 1.82347658])",
        gradient_prints="array([-1.15470054, -1.03279556])", heavy=(2,), f=(math.acos, np.arccos), c=(complex_trigonometric.acos_complex, np.arccos)),
    unary("atan", "float", "the arctangent of x, the angle in [-π/2, π/2] whose tangent is x.", "np.array([0.5, -1.0])", "array([ 0.46364761, -0.78539816])",
        gradient_prints="array([0.8, 0.5])", f=(math.atan, np.arctan), c=(complex_trigonometric.atan_complex, np.arctan)),
    unary("sinh", "float", "the hyperbolic sine of x.", "np.array([0.5, -1.0])", "array([ 0.52109531, -1.17520119])",
        gradient_prints="array([1.12762597, 1.54308063])", heavy=(2,), f=(math.sinh, np.sinh), c=(complex_trigonometric.sinh_complex, np.sinh)),
    unary("cosh", "float", "the hyperbolic cosine of x.", "np.array([0.5, -1.0])", "array([1.12762597, 1.54308063])",
        gradient_prints="array([ 0.52109531, -1.17520119])", heavy=(2,), f=(math.cosh, np.cosh), c=(complex_trigonometric.cosh_complex, np.cosh)),
    unary("tanh", "float", "the hyperbolic tangent of x.", "np.array([0.5, -1.0])", "array([ 0.46211716, -0.76159416])",
        gradient_prints="array([0.78644773, 0.41997434])", heavy=(2,), of_sum=True, f=(math.tanh, np.tanh), c=(complex_trigonometric.tanh_complex, np.tanh)),
    unary("asinh", "float", "the inverse hyperbolic sine of x.", "np.array([0.5, -1.0])", "array([ 0.48121183, -0.88137359])",
        gradient_prints="array([0.89442719, 0.70710678])", heavy=(2, 4), f=(math.asinh, np.arcsinh), c=(complex_trigonometric.asinh_complex, np.arcsinh)),
    unary("acosh", "float", "the inverse hyperbolic cosine of x, which is at least 0.", "np.array([1.0, 2.0])", "array([0.       , 1.3169579])",
        gradient_example="np.array([1.5, 2.0])", gradient_prints="array([0.89442719, 0.57735027])", heavy=(2, 4), f=(math.acosh, np.arccosh), c=(complex_trigonometric.acosh_complex, np.arccosh)),
    unary("atanh", "float", "the inverse hyperbolic tangent of x.", "np.array([0.5, -0.25])", "array([ 0.54930614, -0.25541281])",
        gradient_prints="array([1.33333333, 1.06666667])", heavy=(2,), f=(math.atanh, np.arctanh), c=(complex_trigonometric.atanh_complex, np.arctanh)),
    unary("erf", "float", "the error function 2/√π ∫₀ˣ e^(-t²) dt.", "np.array([0.5, -1.0])", "array([ 0.52049988, -0.84270079])",
        gradient_prints="array([0.87878258, 0.4151075 ])", heavy=(2,), f=(math.erf, c_library.erf)),
    unary("erfc", "float", "1 - erf(x), accurate also where it is close to 0.", "np.array([0.5, -1.0])", "array([0.47950012, 1.84270079])",
        gradient_prints="array([-0.87878258, -0.4151075 ])", heavy=(2, 4), f=(math.erfc, c_library.erfc)),
    unary("erfinv", "float", "the inverse error function of x, the number y with erf(y) = x. It is infinite at -1 and 1, and NaN outside [-1, 1].", "np.array([0.5, -0.25])", "array([ 0.47693628, -0.22531206])",
        gradient_example="np.array([0.0, 0.5])", gradient_prints="array([0.88622693, 1.11258482])", heavy=(2,), f=(erfinv, c_library.inverse_error)),
    unary("lgamma", "float", "ln |Γ(x)|, the logarithm of the gamma function.", "np.array([0.5, 3.0])", "array([0.57236494, 0.69314718])",
        gradient_prints="array([-1.96351003,  0.92278434])", f=(math.lgamma, c_library.lgamma)),
    unary("digamma", "float", "ψ(x), the derivative of ln Γ(x).", "np.array([1.0, 2.0])", "array([-0.57721566,  0.42278434])",
        gradient_prints="array([1.64493407, 0.64493407])", gradient=sloped(trigamma), f=(digamma, c_library.digamma)),
    unary("floor", "keep", "the largest whole number that is not above x. Integers stay as they are.", "np.array([0.5, -1.7])", "array([ 0., -2.])",
        gradient=None, f=(math.floor, np.floor), iub=(same, ref.same)),
    unary("ceil", "keep", "the smallest whole number that is not below x. Integers stay as they are.", "np.array([0.5, -1.7])", "array([ 1., -1.])",
        gradient=None, f=(math.ceil, np.ceil), iub=(same, ref.same)),
    unary("trunc", "keep", "x without its fractional part. Integers stay as they are.", "np.array([0.5, -1.7])", "array([ 0., -1.])",
        gradient=None, f=(math.trunc, np.trunc), iub=(same, ref.same)),
    unary("round", "keep", "the whole number nearest to x, with ties rounded to even. Integers stay as they are.", "np.array([0.5, 1.5, -1.7])", "array([ 0.,  2., -2.])",
        gradient=None, f=(rint, np.rint), c=(complex.rint_complex, np.rint), iub=(same, ref.same)),
    unary("frac", "keep", "the fractional part x - trunc(x), which has the sign of x.", "np.array([0.5, -1.75])", "array([ 0.5 , -0.75])",
        gradient_prints="array([1., 1.])", f=(fraction, ref.fraction), iu=(zero, np.zeros_like)),
    unary("isnan", "bool", "whether x is NaN.", "np.array([1.0, np.nan])", "array([False,  True])",
        f=(math.isnan, np.isnan), iub=(never, np.isnan), c=(complex.is_nan_complex, np.isnan)),
    unary("isinf", "bool", "whether x is infinite.", "np.array([1.0, np.inf])", "array([False,  True])",
        f=(math.isinf, np.isinf), iub=(never, np.isinf), c=(complex.is_inf_complex, np.isinf)),
    unary("isfinite", "bool", "whether x is neither infinite nor NaN.", "np.array([1.0, np.inf])", "array([ True, False])",
        f=(math.isfinite, np.isfinite), iub=(always, np.isfinite), c=(complex.is_finite_complex, np.isfinite)),
    unary("logical_not", "bool", "whether x is 0 or False.", "np.array([0, 3])", "array([ True, False])",
        fiuc=(is_zero, np.logical_not), b=(logical_not, np.logical_not)),
    unary("bitwise_not", "keep", "x with all bits inverted. For bool, it is the same as `logical_not`.", "np.array([0, 3])", "array([-1, -4])",
        iu=(invert, np.invert), b=(logical_not, np.invert)),
    unary("real", "real", "the real part of x. It is a copy if x is real.", "np.array([1 + 2j])", "array([1.])",
        gradient=None, fiub=(same, ref.same), c=(real_part, np.real)),
    unary("imag", "real", "the imaginary part of x, which is 0 for real numbers.", "np.array([1 + 2j])", "array([2.])",
        gradient=None, f=(no_part, np.zeros_like), iu=(zero, np.zeros_like), c=(imaginary_part, np.imag)),
    unary("conj", "keep", "the complex conjugate of x. It is a copy if x is real.", "np.array([1 + 2j])", "array([1.-2.j])",
        gradient=None, fiu=(same, ref.same), c=(conjugate, np.conj)),
    unary("angle", "angle", "the angle of a complex number in radians, in [-π, π].", "np.array([1j, 2.0])", "array([1.57079633, 0.        ])",
        gradient=None, f=(angle_of_real, np.angle), c=(angle, np.angle)),
)
# fmt: on
