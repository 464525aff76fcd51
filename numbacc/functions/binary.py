"""Functions of two or three arguments for `numbacc.elementwise`: their scalar functions, gradients and descriptions.

Scalar functions are given for each kind of dtype. A gradient is given where the derived one is longer or less accurate.
"""

# ruff: noqa: E501
from __future__ import annotations

import math

import numpy as np

from ..reference import activations as ref
from ..reference import c_library
from . import complex
from .arithmetic import exp, fma, greatest, least, log1p_of_share, quotient, reciprocal_approximate, scaled, stepped
from .division import floor_divide, floor_divide_narrow, fmod_of_floats, remainder
from .function import FunctionGradient, binary, function
from .gates import sigmoid_pair
from .powers import power
from .symbolic.precision_variants import NARROW

PI, LN_2 = 3.141592653589793, 0.6931471805599453


PI, LN_2 = 3.141592653589793, 0.6931471805599453


def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def multiply(a, b):
    return a * b


def divide(a, b):
    return a / b


def either(a, b):
    return a or b


def both(a, b):
    return a and b


def one_of(a, b):
    """Return the exclusive or of two truth values."""
    return a != b


def floor_divide_integers(a, b):
    """Return a // b, and 0 for b = 0."""
    if b == 0:
        return b
    if b == -1:
        return -a
    return a // b


def floor_divide_unsigned(a, b):
    return a // b if b != 0 else b


def remainder_integers(a, b):
    if b == 0 or b == -1:
        return b * 0
    return a % b


def remainder_unsigned(a, b):
    return a % b if b != 0 else b


def fmod_integers(a, b):
    """Return the remainder of a division that rounds toward 0. It has a's sign."""
    if b == 0 or b == -1:
        return b * 0
    rest = a % b
    return rest - b if rest != 0 and (rest < 0) != (a < 0) else rest


def power_integers(base, exponent):
    """Return the power by squaring, modulo the dtype's range. Negative exponents give the fraction rounded toward 0."""
    found = base * 0 + 1
    if exponent < 0:
        if base == 1:
            return found
        if base == -1:
            return found if exponent % 2 == 0 else -found
        return base * 0
    while exponent > 0:
        if exponent % 2 == 1:
            found = found * base
        base = base * base
        exponent = exponent // 2
    return found


def maximum(a, b):
    """Return the larger number, and NaN if either is NaN."""
    if a != a or a > b:
        return a
    return b


def minimum(a, b):
    """Return the smaller number, and NaN if either is NaN."""
    if a != a or a < b:
        return a
    return b


def fmax(a, b):
    """Return the larger number. If one is NaN, return the other one."""
    if b != b or a > b:
        return a
    return b


def fmin(a, b):
    """Return the smaller number. If one is NaN, return the other one."""
    if b != b or a < b:
        return a
    return b


def larger(a, b):
    return a if a > b else b


def smaller(a, b):
    return a if a < b else b


def logaddexp(a, b):
    """Return ln(e^a + e^b), computed from the larger number and the difference."""
    if a == b:
        return a + LN_2
    high = maximum(a, b)
    return high + log1p_of_share(exp(-abs(a - b)))


def ldexp(a, exponent):
    """Return a 2^exponent. 4096 doublings suffice to get from one end of float64's range to the other."""
    return scaled(a, maximum(minimum(exponent, 4096.0), -4096.0))


def equal(a, b):
    return a == b


def not_equal(a, b):
    return a != b


def less(a, b):
    return a < b


def less_equal(a, b):
    return a <= b


def greater(a, b):
    return a > b


def greater_equal(a, b):
    return a >= b


def logical_and(a, b):
    return a != 0 and b != 0


def logical_or(a, b):
    return a != 0 or b != 0


def logical_xor(a, b):
    return (a != 0) != (b != 0)


def bitwise_and(a, b):
    return a & b


def bitwise_or(a, b):
    return a | b


def bitwise_xor(a, b):
    return a ^ b


def left_shift(a, count):
    """Return a << count, and 0 where the count is outside of a's bits, as in NumPy."""
    return a << count if 0 <= count < 64 else a * 0


def right_shift(a, count):
    """Return a >> count, and 0 or -1 where the count is outside of a's bits."""
    return a >> count if 0 <= count < 64 else (-1 if a < 0 else 0)


def right_shift_unsigned(a, count):
    return a >> count if count < 64 else a * 0


def where(condition, x, y):
    return x if condition else y


def clamp(x, low, high):
    """Return min(max(x, low), high), and NaN if one of them is NaN. If low is above high, this is `high`."""
    return minimum(maximum(x, low), high)


def clamp_integers(x, low, high):
    return smaller(larger(x, low), high)


def lerp(a, b, weight):
    """Return a + weight (b - a). Near b it starts from b, so that the result is exact at both ends.

    It starts from b where 1 - weight is exact and not larger than the weight.
    """
    if 0.5 <= weight <= 2.0:
        return b - (b - a) * (1.0 - weight)
    return a + weight * (b - a)


def addcmul(x, a, b, value):
    return x + value * (a * b)


def addcdiv(x, a, b, value):
    return x + value * quotient(a, b)


# ---------------------------------------------------------------- angles of points in 16 bits

#: arctan q = q P(q²). P is the polynomial with the smallest maximal relative error on (0, 1], 2^-25.8.
_OF_SQUARE = (
    1.0, -0.33333152532577515, 0.19993767142295837, -0.14211003482341766, 0.10665786266326904, -0.07551728934049606,
    0.043205972760915756, -0.016364237293601036, 0.002919756341725588,
)  # fmt: skip
#: The coefficients for 4q instead of q, the last coefficient first.
_OF_QUARTERS = tuple(coefficient * 0.25 * 0.0625**k for k, coefficient in enumerate(_OF_SQUARE))[::-1]


def atan2(y, x):
    """Return the angle of the point (x, y) in radians, in [-π, π], for 16-bit floats and a 16-bit result."""
    return math.atan2(y, x)


def atan2_rough(y, x):
    """Return `atan2`, computed in float32. It uses 4q, since a quarter of the largest float has a normal reciprocal."""
    high, low = greatest(abs(x), abs(y)), least(abs(x), abs(y))
    quarter = 0.25 * high
    inverse = reciprocal_approximate(quarter)
    q = low * inverse
    q = fma(fma(-q, quarter, low), inverse, q)
    if not q <= 5.0:
        if high == 0.0:
            return math.copysign(PI if math.copysign(1.0, x) < 0.0 else 0.0, y)
        q = quotient_of_extremes(low, high)
    square = q * q
    p = _OF_QUARTERS[0]
    for coefficient in _OF_QUARTERS[1:]:
        p = fma(p, square, coefficient)
    angle = q * p
    if abs(y) > abs(x):
        angle = 0.5 * PI - angle
    if x < 0.0:
        angle = PI - angle
    return math.copysign(angle, y)


def quotient_of_extremes(low, high):
    """Return 4 low/high for subnormal numbers and infinities, and NaN for NaN."""
    if high == math.inf:
        return 4.0 if low == high else 0.0
    return low * 18446744073709551616.0 * reciprocal_approximate(high * 4611686018427387904.0)


NARROW[atan2] = atan2_rough

# ---------------------------------------------------------------- the next value of a dtype

# Functions that compute in float32 can step through the values of float16 and bfloat16, too: neighbouring values of these
# dtypes differ by a fixed amount in the bits of a float32.

#: The distance of neighbouring 16-bit values, in units of a float32's last bit.
_HALF_STEP, _BRAIN_STEP = 8192.0, 65536.0
#: Factors that move float16's smallest exponent to float32's, where float32's subnormal numbers are, and back.
_DOWN, _UP = 2.0**-112, 2.0**112
#: The value that would follow float16's largest one.
_HALF_END = 65536.0


def _neighbour(x, toward, step):
    """Return the value after x towards another one, as C and NumPy define it. Neighbours' bits differ by `step`."""
    # A single step for any x allows the compiler to use selections instead of branches.
    start = math.copysign(0.0, toward) if x == 0.0 else x
    is_outward = x == 0.0 or (toward > x) == (x > 0.0)
    found = stepped(start, step if is_outward else -step)
    if x == toward:
        return toward
    return found if x == x and toward == toward else x + toward


def nextafter(x, toward):
    """Return the next value in float32 or float64."""
    return _neighbour(x, toward, 1.0)


def nextafter_half(x, toward):
    """Return the next value in float16, computed in float32."""
    bounded = math.copysign(_HALF_END, x) if math.isinf(x) else x
    found = _neighbour(bounded * _DOWN, toward * _DOWN, _HALF_STEP) * _UP
    return math.copysign(math.inf, found) if abs(found) >= _HALF_END else found


def nextafter_brain(x, toward):
    """Return the next value in bfloat16, computed in float32."""
    return _neighbour(x, toward, _BRAIN_STEP)


# ---------------------------------------------------------------- comparisons of int64 with uint64

# No dtype holds the values of both. Both arguments come as int64; the unsigned one keeps its bits, so that values from
# 2^63 on appear negative. They are larger than any signed number. In functions with `_reversed`, the unsigned argument
# comes first.


def equal_mixed(signed, unsigned):
    return unsigned >= 0 and signed == unsigned


def not_equal_mixed(signed, unsigned):
    return unsigned < 0 or signed != unsigned


def less_mixed(signed, unsigned):
    return unsigned < 0 or signed < unsigned


def less_equal_mixed(signed, unsigned):
    return unsigned < 0 or signed <= unsigned


def greater_mixed(signed, unsigned):
    return unsigned >= 0 and signed > unsigned


def greater_equal_mixed(signed, unsigned):
    return unsigned >= 0 and signed >= unsigned


def equal_mixed_reversed(unsigned, signed):
    return equal_mixed(signed, unsigned)


def not_equal_mixed_reversed(unsigned, signed):
    return not_equal_mixed(signed, unsigned)


def less_mixed_reversed(unsigned, signed):
    return greater_mixed(signed, unsigned)


def less_equal_mixed_reversed(unsigned, signed):
    return greater_equal_mixed(signed, unsigned)


def greater_mixed_reversed(unsigned, signed):
    return less_mixed(signed, unsigned)


def greater_equal_mixed_reversed(unsigned, signed):
    return less_equal_mixed(signed, unsigned)


# ---------------------------------------------------------------- gradients


def larger_backward(dy, a, b):
    """Give dy to the larger argument, and half of it to each if they are equal; to both if one is NaN, as torch does."""
    if a == b:
        return dy * 0.5, dy * 0.5
    return (0.0 if a < b else dy), (0.0 if a > b else dy)


def smaller_backward(dy, a, b):
    if a == b:
        return dy * 0.5, dy * 0.5
    return (0.0 if a > b else dy), (0.0 if a < b else dy)


def fmax_backward(dy, a, b):
    """Give dy to the first argument if both are equal, else to the larger one, or to the one that is not NaN."""
    return (dy, 0.0) if b != b or a >= b else (0.0, dy)


def fmin_backward(dy, a, b):
    return (dy, 0.0) if b != b or a <= b else (0.0, dy)


def ldexp_backward(dy, x, exponent):
    return (ldexp(dy, exponent),)


def where_backward(dy, condition, a, b):
    return (dy, 0.0) if condition else (0.0, dy)


def remainder_backward(dy, a, b):
    # This is floor(a / b). A rounded quotient may give another whole number.
    return dy, dy * ((remainder(a, b) - a) / b)


def power_backward(dy, a, b):
    """Return the gradients of a^b. They are 0 by the base for b = 0, and by the exponent for a = 0 and b >= 0."""
    value = math.pow(a, b)
    by_base = 0.0 if b == 0.0 else dy * (b * math.pow(a, b - 1.0))
    return by_base, (0.0 if a == 0.0 and b >= 0.0 else dy * (value * math.log(a)))


def clamp_backward(dy, x, low, high):
    """Give dy to x where it is within the bounds or on them, else to the bound that replaces x."""
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


# ---------------------------------------------------------------- the functions

#: The order is that of the documentation's table.
# fmt: off
FUNCTIONS = (
    binary("add", "keep", "x1 + x2. For bool, it is the logical or.", "np.array([7.0, -7.0]), 2.0", "array([ 9., -5.])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([1., 1.]), array([1., 1.]))", fiuc=(add, np.add), b=(either, np.add)),
    binary("subtract", "keep", "x1 - x2.", "np.array([7.0, -7.0]), 2.0", "array([ 5., -9.])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([1., 1.]), array([-1., -1.]))", fiuc=(subtract, np.subtract)),
    binary("multiply", "keep", "the product of x1 and x2. For bool, it is the logical and.", "np.array([7.0, -7.0]), 2.0", "array([ 14., -14.])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([2., 4.]), array([ 7., -7.]))", fiuc=(multiply, np.multiply), b=(both, np.multiply)),
    binary("divide", "divide", "x1 / x2. Integers are divided in float64.", "np.array([7.0, -7.0]), 2.0", "array([ 3.5, -3.5])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([0.5 , 0.25]), array([-1.75  ,  0.4375]))", f=(divide, np.divide), c=(complex.divide_complex, np.divide)),
    binary("floor_divide", "keep", "floor(x1 / x2), the largest whole number that is not above the quotient. An integer divided by 0 gives 0.", "np.array([7.0, -7.0]), 2.0", "array([ 3., -4.])",
        gradient=None, f=(floor_divide, np.floor_divide), n=(floor_divide_narrow, np.floor_divide), i=(floor_divide_integers, np.floor_divide), u=(floor_divide_unsigned, np.floor_divide)),
    binary("remainder", "keep", "x1 - x2 floor(x1 / x2), which has the sign of x2. For integers, x2 = 0 gives 0.", "np.array([7.0, -7.0]), 2.0", "array([1., 1.])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([1., 1.]), array([-3.,  2.]))", gradient=remainder_backward, f=(remainder, np.remainder), i=(remainder_integers, np.remainder), u=(remainder_unsigned, np.remainder)),
    binary("fmod", "keep", "x1 - x2 trunc(x1 / x2), which has the sign of x1. For integers, x2 = 0 gives 0.", "np.array([7.0, -7.0]), 2.0", "array([ 1., -1.])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([1., 1.]), array([-3.,  1.]))", f=(fmod_of_floats, np.fmod), i=(fmod_integers, np.fmod), u=(remainder_unsigned, np.fmod)),
    binary("pow", "keep", "x1 to the power of x2. An integer to a negative power is rounded toward 0: it gives 0 unless x1 is 1 or -1.", "np.array([7.0, -7.0]), 2.0", "array([49., 49.])",
        gradient_example="np.array([2.0, 4.0]), np.array([3.0, 0.5])", gradient_prints="(array([12.  ,  0.25]), array([5.54517744, 2.77258872]))", heavy=(4,), gradient=power_backward, f=(math.pow, c_library.power), n=(power, c_library.power), iu=(power_integers, ref.power_of_integers), c=(complex.power_complex, ref.power_of_complex)),
    binary("maximum", "keep", "the larger of x1 and x2, and NaN where either is NaN.", "np.array([1.0, np.nan]), 2.0", "array([ 2., nan])",
        gradient_example="np.array([1.0, 3.0]), np.array([2.0, 3.0])", gradient_prints="(array([0. , 0.5]), array([1. , 0.5]))", is_opaque=True, gradient=larger_backward, f=(maximum, np.maximum), iu=(larger, np.maximum), b=(either, np.maximum)),
    binary("minimum", "keep", "the smaller of x1 and x2, and NaN where either is NaN.", "np.array([1.0, np.nan]), 2.0", "array([ 1., nan])",
        gradient_example="np.array([1.0, 3.0]), np.array([2.0, 3.0])", gradient_prints="(array([1. , 0.5]), array([0. , 0.5]))", is_opaque=True, gradient=smaller_backward, f=(minimum, np.minimum), iu=(smaller, np.minimum), b=(both, np.minimum)),
    binary("fmax", "keep", "the larger of x1 and x2. Where one of them is NaN, the result is the other one.", "np.array([1.0, np.nan]), 2.0", "array([2., 2.])",
        gradient_example="np.array([1.0, 3.0]), np.array([2.0, 2.0])", gradient_prints="(array([0., 1.]), array([1., 0.]))", is_opaque=True, gradient=fmax_backward, f=(fmax, np.fmax), iu=(larger, np.fmax), b=(either, np.fmax)),
    binary("fmin", "keep", "the smaller of x1 and x2. Where one of them is NaN, the result is the other one.", "np.array([1.0, np.nan]), 2.0", "array([1., 2.])",
        gradient_example="np.array([1.0, 3.0]), np.array([2.0, 2.0])", gradient_prints="(array([1., 0.]), array([0., 1.]))", is_opaque=True, gradient=fmin_backward, f=(fmin, np.fmin), iu=(smaller, np.fmin), b=(both, np.fmin)),
    binary("atan2", "float", "the angle of the point (x2, x1) in radians, in [-π, π].", "np.array([7.0, -7.0]), 2.0", "array([ 1.29249667, -1.29249667])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([0.03773585, 0.06153846]), array([-0.13207547,  0.10769231]))", f=(math.atan2, np.arctan2), n=(atan2, np.arctan2)),
    binary("hypot", "float", "√(x1² + x2²). The squares do not overflow.", "np.array([7.0, -7.0]), 2.0", "array([7.28010989, 7.28010989])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([ 0.96152395, -0.86824314]), array([0.27472113, 0.49613894]))", f=(math.hypot, np.hypot)),
    binary("copysign", "float", "|x1| with the sign of x2.", "np.array([3.0]), -1.0", "array([-3.])",
        gradient_example="np.array([3.0]), np.array([-1.0])", gradient_prints="(array([-1.]), array([0.]))", f=(math.copysign, np.copysign)),
    binary("logaddexp", "float", "ln(e^x1 + e^x2). The exponentials do not overflow.", "np.array([7.0, -7.0]), 2.0", "array([7.00671535, 2.0001234 ])",
        gradient_example="np.array([7.0, -7.0]), np.array([2.0, 4.0])", gradient_prints="(array([9.93307149e-01, 1.67014218e-05]), array([0.00669285, 0.9999833 ]))", is_opaque=True, is_smooth=True, gradient=logaddexp_backward, f=(logaddexp, np.logaddexp)),
    binary("nextafter", "float", "the next value of the dtype after x1 towards x2. It is x2 where the two are equal.", "np.array([1.0, 2.0], np.float32), 4.0", "array([1.0000001, 2.0000002], dtype=float32)",
        rounded=True, gradient=None, f=(nextafter, np.nextafter), h=(nextafter_half, ref.nextafter_half), g=(nextafter_brain, ref.nextafter_brain)),
    function("ldexp", "x1 x2", "float", "x1 2^x2, where x2 holds whole numbers.", "np.array([3.0]), np.array([2])", "array([12.])",
        gradient_prints="array([4.])", meeting=(0,), gradient=FunctionGradient(ldexp_backward, lambda dy, x, exponent: (ref.scaled(dy, exponent),), (1,)), f=(ldexp, ref.scaled)),
    binary("equal", "bool", "whether x1 == x2.", "np.array([7.0, -7.0]), 2.0", "array([False, False])",
        rounded=True, fiubc=(equal, np.equal), m=(equal_mixed, ref.mixed(np.equal)), w=(equal_mixed_reversed, ref.mixed_reversed(np.equal))),
    binary("not_equal", "bool", "whether x1 != x2.", "np.array([7.0, -7.0]), 2.0", "array([ True,  True])",
        rounded=True, fiubc=(not_equal, np.not_equal), m=(not_equal_mixed, ref.mixed(np.not_equal)), w=(not_equal_mixed_reversed, ref.mixed_reversed(np.not_equal))),
    binary("less", "bool", "whether x1 < x2.", "np.array([7.0, -7.0]), 2.0", "array([False,  True])",
        rounded=True, fiub=(less, np.less), m=(less_mixed, ref.mixed(np.less)), w=(less_mixed_reversed, ref.mixed_reversed(np.less))),
    binary("less_equal", "bool", "whether x1 <= x2.", "np.array([7.0, -7.0]), 2.0", "array([False,  True])",
        rounded=True, fiub=(less_equal, np.less_equal), m=(less_equal_mixed, ref.mixed(np.less_equal)), w=(less_equal_mixed_reversed, ref.mixed_reversed(np.less_equal))),
    binary("greater", "bool", "whether x1 > x2.", "np.array([7.0, -7.0]), 2.0", "array([ True, False])",
        rounded=True, fiub=(greater, np.greater), m=(greater_mixed, ref.mixed(np.greater)), w=(greater_mixed_reversed, ref.mixed_reversed(np.greater))),
    binary("greater_equal", "bool", "whether x1 >= x2.", "np.array([7.0, -7.0]), 2.0", "array([ True, False])",
        rounded=True, fiub=(greater_equal, np.greater_equal), m=(greater_equal_mixed, ref.mixed(np.greater_equal)), w=(greater_equal_mixed_reversed, ref.mixed_reversed(np.greater_equal))),
    binary("logical_and", "bool", "whether x1 and x2 are both nonzero.", "np.array([0, 1]), np.array([1, 1])", "array([False,  True])",
        fiuc=(logical_and, np.logical_and), b=(both, np.logical_and)),
    binary("logical_or", "bool", "whether x1 or x2 is nonzero.", "np.array([0, 1]), np.array([0, 1])", "array([False,  True])",
        fiuc=(logical_or, np.logical_or), b=(either, np.logical_or)),
    binary("logical_xor", "bool", "whether exactly one of x1 and x2 is nonzero.", "np.array([0, 1]), np.array([1, 1])", "array([ True, False])",
        fiuc=(logical_xor, np.logical_xor), b=(one_of, np.logical_xor)),
    binary("bitwise_and", "keep", "the bitwise and of x1 and x2.", "np.array([12]), 10", "array([8])",
        iu=(bitwise_and, np.bitwise_and), b=(both, np.bitwise_and)),
    binary("bitwise_or", "keep", "the bitwise or of x1 and x2.", "np.array([12]), 10", "array([14])",
        iu=(bitwise_or, np.bitwise_or), b=(either, np.bitwise_or)),
    binary("bitwise_xor", "keep", "the bitwise exclusive or of x1 and x2.", "np.array([12]), 10", "array([6])",
        iu=(bitwise_xor, np.bitwise_xor), b=(one_of, np.bitwise_xor)),
    binary("left_shift", "keep", "x1 with its bits shifted left by x2. It is 0 if x2 is at least the number of bits.", "np.array([1, 3]), 2", "array([ 4, 12])",
        iu=(left_shift, np.left_shift)),
    binary("right_shift", "keep", "x1 with its bits shifted right by x2. The sign is kept.", "np.array([-8, 12]), 2", "array([-2,  3])",
        i=(right_shift, np.right_shift), u=(right_shift_unsigned, np.right_shift)),
    function("where", "condition x1 x2", "keep", "x1 where the condition is True, else x2.", "np.array([True, False]), np.array([1.0, 2.0]), 0.0", "array([1., 0.])",
        gradient_example="np.array([True, False]), np.array([1.0, 2.0]), np.array([3.0, 4.0])", gradient_prints="(array([1., 0.]), array([0., 1.]))", meeting=(1, 2), truths=(0,), rounded=True, is_opaque=True, gradient=FunctionGradient(where_backward, lambda dy, c, a, b: (np.where(c, dy, 0), np.where(c, 0, dy)), (2, 3)), fiubc=(where, np.where)),
    function("clamp", "x min max", "keep", "x limited to the range from min to max. Where min is above max, the result is max. NaN stays NaN.", "np.array([-1.0, 0.5, 2.0]), 0.0, 1.0", "array([0. , 0.5, 1. ])",
        gradient_prints="(array([0., 1., 0.]),)", is_opaque=True, gradient=clamp_backward, f=(clamp, ref.clamp), iu=(clamp_integers, ref.clamp)),
    function("fma", "x1 x2 x3", "keep", "x1 x2 + x3, rounded once.", "np.array([2.0]), 3.0, 1.0", "array([7.])",
        gradient_example="np.array([2.0]), np.array([3.0]), np.array([1.0])", gradient_prints="(array([3.]), array([2.]), array([1.]))", f=(fma, ref.fused)),
    function("lerp", "x1 x2 weight", "keep", "x1 + weight (x2 - x1), the linear interpolation. The definition is torch's.", "np.array([2.0]), np.array([4.0]), 0.25", "array([2.5])",
        gradient_prints="(array([0.75]), array([0.25]))", gradient=lerp_backward, f=(lerp, ref.lerp)),
    function("addcmul", "x x1 x2", "keep", "x + value x1 x2.", "np.array([1.0]), np.array([2.0]), np.array([3.0]), value=0.5", "array([4.])",
        gradient_prints="(array([1.]), array([1.5]), array([1.]))", options={"value": (1.0, "the factor of the product x1 x2")}, fc=(addcmul, ref.addcmul), iu=(addcmul, ref.addcmul)),
    function("addcdiv", "x x1 x2", "divide", "x + value x1 / x2.", "np.array([1.0]), np.array([6.0]), np.array([3.0]), value=0.5", "array([2.])",
        gradient_prints="(array([1.]), array([0.16666667]), array([-0.33333333]))", options={"value": (1.0, "the factor of the quotient x1 / x2")}, fc=(addcdiv, ref.addcdiv)),
)
# fmt: on
