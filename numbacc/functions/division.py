"""Divisions that leave a whole number, and what is left: of floats as NumPy has them.

By `math.fmod`, which is exact but goes bit by bit; and in float32, where a quotient rounded once is next to right: its
floor is that of the exact quotient, or one more where that was rounded up to a whole number. Then the remainder of one
fused multiply-add has the wrong sign. As whole numbers of units of b below b such remainders are exact; where |a| is
below |b| they are a, or a + b, rounded as NumPy does it.
"""

from __future__ import annotations

import math

from .arithmetic import fma, reciprocal_approximate

#: Quotients up to here have whole numbers on both sides that float32 holds.
_LARGEST = 16777216.0
#: What moves float32's numbers so far that the reciprocal of the largest is a normal number; and a factor by which that
#: of any b makes no product of a number with it 0.
_DOWN, _UP = 2.0**-26, 2.0**101


def floor_divide_by_fmod(a, b):
    """The largest whole number that is not above a / b, of the remainder, so that the two fit; of b = 0, a / b."""
    if b == 0.0:
        return a / b
    rest = math.fmod(a, b)
    whole = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        whole -= 1.0
    if whole == 0.0:
        return math.copysign(0.0, a / b)
    down = math.floor(whole)
    return down + 1.0 if whole - down > 0.5 else down


def remainder_by_fmod(a, b):
    """a - b floor(a / b), of b's sign, zeros too."""
    rest = math.fmod(a, b)
    moved = rest + b if rest != 0.0 and (b < 0.0) != (rest < 0.0) else rest
    return math.copysign(moved, b)


def is_easy(quotient, b):
    """True where a quotient's floor is known but for one; False of what is infinite, and NaN."""
    return abs(quotient) < _LARGEST and abs(b) < math.inf


def is_beyond(rest, b):
    """True where what is left has not b's sign: the quotient was taken for too large."""
    return rest < 0.0 if b > 0.0 else rest > 0.0


def floor_divide_single(a, b):
    """`floor_divide_by_fmod` of float32. Large quotients are whole, and as they are."""
    quotient = a / b
    if abs(a) < math.inf and abs(b) < math.inf:
        whole = math.floor(quotient) * 1.0 if is_easy(quotient, b) else quotient
        if is_beyond(fma(-whole, b, a), b):
            whole -= 1.0
    elif abs(a) < math.inf:
        whole = -1.0 if quotient == 0.0 and a != 0.0 and (a < 0.0) != (b < 0.0) else quotient
    else:
        whole = quotient if b == 0.0 else math.nan
    return whole if whole != 0.0 else math.copysign(0.0, quotient)


def floor_divide_narrow(a, b):
    """`floor_divide_by_fmod` of two floats of 16 bits, for results of as many."""
    return floor_divide_by_fmod(a, b)


def floor_divide_rough(a, b):
    """The same in float32, by the hardware's reciprocal: that of a smaller number, so that it is never subnormal.

    The quotient is next to right: up to `_LARGEST` whole numbers are, and what lies below one is not above it. A larger
    one may be a unit in the last place off. That is infinite in float16. In bfloat16 it is rounded as the exact one is:
    that of numbers of 8 bits either has 9 bits, and then is found exactly, or lies 2^-17 of itself away from any number
    of 9 bits, where roundings change. It is NaN, and left to others, where b is infinite, 0 or below 2^-100, so that
    remainders would not be exact, and where it overflows.
    """
    large = reciprocal_approximate(b * _DOWN)
    inverse = large * _DOWN
    first = a * inverse
    quotient = fma(fma(-first, b, a), inverse, first)
    if not abs(quotient) < math.inf:
        return floor_divide_single(a, b)
    whole = math.floor(quotient) * 1.0
    # Of the signs of what is left and of b; the product is not too small for one.
    if fma(-whole, b, a) * (large * _UP) < 0.0:
        whole -= 1.0
    return math.copysign(whole, first)


def remainder_single(a, b):
    """`remainder_by_fmod` of float32."""
    quotient = a / b
    if not is_easy(quotient, b):
        return remainder_by_fmod(a, b)
    rest = fma(-(math.floor(quotient) * 1.0), b, a)
    return math.copysign(rest + b if is_beyond(rest, b) else rest, b)


def fmod_single(a, b):
    """`math.fmod` of float32: the same of a quotient that is rounded toward 0, of a's sign."""
    quotient = a / b
    if not is_easy(quotient, b):
        return math.fmod(a, b)
    size, step = abs(a), abs(b)
    rest = fma(-(math.floor(abs(quotient)) * 1.0), step, size)
    return math.copysign(rest + step if rest < 0.0 else rest, a)


def floor_divide(a, b):
    """The largest whole number that is not above a / b; of b = 0, a / b."""
    return floor_divide_by_fmod(a, b)


def remainder(a, b):
    """a - b floor(a / b), of b's sign, zeros too."""
    return remainder_by_fmod(a, b)


def fmod_of_floats(a, b):
    """a - b trunc(a / b), of a's sign, zeros too."""
    return math.fmod(a, b)
