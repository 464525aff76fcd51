"""Floor division and remainders of floats, as NumPy defines them.

`math.fmod` is exact, but computes bit by bit. In float32, a quotient that is rounded once is almost right: its floor is
the floor of the exact quotient, or one more if the quotient was rounded up to a whole number. Then the remainder, from
one fused multiply-add, has the wrong sign. Such a remainder is exact, since it is a whole number of units of b and
smaller than b. If |a| is below |b|, the remainder is a, or a + b rounded as in NumPy.
"""

from __future__ import annotations

import math

from .arithmetic import fma, reciprocal_approximate

#: For quotients up to this, float32 represents the whole numbers on both sides.
_LARGEST = 16777216.0
#: The first factor scales floats so that even the largest has a normal reciprocal. The second factor scales the
#: reciprocal of any b so that its product with a number does not underflow to 0.
_DOWN, _UP = 2.0**-26, 2.0**101


def floor_divide_by_fmod(a, b):
    """Return floor(a / b), computed from the remainder so that the two are consistent. b = 0 gives a / b."""
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
    """Return a - b floor(a / b), which has b's sign, also if it is 0."""
    rest = math.fmod(a, b)
    moved = rest + b if rest != 0.0 and (b < 0.0) != (rest < 0.0) else rest
    return math.copysign(moved, b)


def is_easy(quotient, b):
    """Return whether the floor of a quotient is off by at most one. It is False for infinities and NaN."""
    return abs(quotient) < _LARGEST and abs(b) < math.inf


def is_beyond(rest, b):
    """Return whether the remainder lacks b's sign, so that the quotient was too large."""
    return rest < 0.0 if b > 0.0 else rest > 0.0


def floor_divide_single(a, b):
    """Return `floor_divide_by_fmod` in float32. Large quotients are whole numbers already."""
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
    """Return `floor_divide_by_fmod` for two 16-bit floats and a 16-bit result."""
    return floor_divide_by_fmod(a, b)


def floor_divide_rough(a, b):
    """Return `floor_divide_narrow`, computed in float32 with the hardware's reciprocal.

    The reciprocal is that of a smaller number, so that it is never subnormal. The quotient is almost right: whole
    quotients up to `_LARGEST` are exact, and a quotient below a whole number is not above it.

    Larger quotients may be off by a unit in the last place. In float16 they are infinite. In bfloat16 they are rounded
    like the exact quotient, for this reason: the exact quotient of two numbers of 8 bits either has 9 bits, and is
    found exactly, or differs by at least 2^-17 of itself from any number of 9 bits, where the rounding changes.

    The quotient is NaN, and another function is called, where b is infinite or 0, where |b| is below 2^-100 (remainders
    would not be exact), and where the quotient overflows.
    """
    large = reciprocal_approximate(b * _DOWN)
    inverse = large * _DOWN
    first = a * inverse
    quotient = fma(fma(-first, b, a), inverse, first)
    if not abs(quotient) < math.inf:
        return floor_divide_single(a, b)
    whole = math.floor(quotient) * 1.0
    # The product has the signs of the remainder and of b. It is scaled so that it does not underflow.
    if fma(-whole, b, a) * (large * _UP) < 0.0:
        whole -= 1.0
    return math.copysign(whole, first)


def remainder_single(a, b):
    """Return `remainder_by_fmod` in float32."""
    quotient = a / b
    if not is_easy(quotient, b):
        return remainder_by_fmod(a, b)
    rest = fma(-(math.floor(quotient) * 1.0), b, a)
    return math.copysign(rest + b if is_beyond(rest, b) else rest, b)


def fmod_single(a, b):
    """Return `math.fmod` in float32: the remainder of a quotient that is rounded toward 0. It has a's sign."""
    quotient = a / b
    if not is_easy(quotient, b):
        return math.fmod(a, b)
    size, step = abs(a), abs(b)
    rest = fma(-(math.floor(abs(quotient)) * 1.0), step, size)
    return math.copysign(rest + step if rest < 0.0 else rest, a)


def floor_divide(a, b):
    """Return floor(a / b). b = 0 gives a / b."""
    return floor_divide_by_fmod(a, b)


def remainder(a, b):
    """Return a - b floor(a / b), which has b's sign, also if it is 0."""
    return remainder_by_fmod(a, b)


def fmod_of_floats(a, b):
    """Return a - b trunc(a / b), which has a's sign, also if it is 0."""
    return math.fmod(a, b)
