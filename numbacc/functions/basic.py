"""The scalar functions of `numbacc.elementwise`: what each computes of one number, or of a few, for each kind of dtype.

They are formulas as those of `formulas`. What NumPy and C leave to `math` is `math`'s; what differs between them, at
zeros, infinities and NaN, is NumPy's here.
"""

from __future__ import annotations

import math

from .arithmetic import exp, inverse, log1p_of_share, quotient, scaled, square_root
from .division import floor_divide_by_fmod, remainder_by_fmod

PI, LN_2 = 3.141592653589793, 0.6931471805599453

# ---------------------------------------------------------------- of one number


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


# ---------------------------------------------------------------- of two numbers


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
    """Exclusive or of truth values."""
    return a != b


def floor_divide(a, b):
    """The largest whole number that is not above a / b; of b = 0, a / b."""
    return floor_divide_by_fmod(a, b)


def remainder(a, b):
    """a - b floor(a / b), of b's sign, zeros too."""
    return remainder_by_fmod(a, b)


def fmod(a, b):
    """a - b trunc(a / b), of a's sign, zeros too."""
    return math.fmod(a, b)


def floor_divide_integers(a, b):
    """Of b = 0, 0."""
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
    """The remainder of a division that rounds toward 0: of a's sign."""
    if b == 0 or b == -1:
        return b * 0
    rest = a % b
    return rest - b if rest != 0 and (rest < 0) != (a < 0) else rest


def power_integers(base, exponent):
    """By squaring, modulo the dtype's range; of negative exponents what is left of the fraction."""
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
    """The larger one; NaN where either is."""
    if a != a or a > b:
        return a
    return b


def minimum(a, b):
    """The smaller one; NaN where either is."""
    if a != a or a < b:
        return a
    return b


def fmax(a, b):
    """The larger one; the other where one is NaN."""
    if b != b or a > b:
        return a
    return b


def fmin(a, b):
    """The smaller one; the other where one is NaN."""
    if b != b or a < b:
        return a
    return b


def larger(a, b):
    return a if a > b else b


def smaller(a, b):
    return a if a < b else b


def logaddexp(a, b):
    """ln(e^a + e^b), of the larger one and their distance."""
    if a == b:
        return a + LN_2
    high = maximum(a, b)
    return high + log1p_of_share(exp(-abs(a - b)))


def ldexp(a, exponent):
    """a 2^exponent: no more than 4096 doublings take a number from one end of float64 to the other."""
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


def is_zero(a):
    return a == 0


def bitwise_and(a, b):
    return a & b


def bitwise_or(a, b):
    return a | b


def bitwise_xor(a, b):
    return a ^ b


def left_shift(a, count):
    """0 where the count is not one of a's bits, as in NumPy."""
    return a << count if 0 <= count < 64 else a * 0


def right_shift(a, count):
    """Where the count is not one of a's bits, 0 or -1."""
    return a >> count if 0 <= count < 64 else (-1 if a < 0 else 0)


def right_shift_unsigned(a, count):
    return a >> count if count < 64 else a * 0


def relu_of_integers(x):
    return x if x > 0 else x * 0


# ---------------------------------------------------------------- of three numbers


def where(condition, x, y):
    return x if condition else y


def clamp(x, low, high):
    """min(max(x, low), high), NaN where one of them is: `high` where the bounds cross."""
    return minimum(maximum(x, low), high)


def clamp_integers(x, low, high):
    return smaller(larger(x, low), high)


def lerp(a, b, weight):
    """a + weight (b - a), from b where 1 - weight is exact and no larger than the weight, so that both ends are met."""
    if 0.5 <= weight <= 2.0:
        return b - (b - a) * (1.0 - weight)
    return a + weight * (b - a)


def addcmul(x, a, b, value):
    return x + value * (a * b)


def addcdiv(x, a, b, value):
    return x + value * quotient(a, b)
