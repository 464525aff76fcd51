"""Normally distributed numbers from random words (Box and Muller 1958), as in cuRAND's device code.

For u and v uniform in (0, 1], a pair of independent standard normals has the distance √(-2 ln u) from the origin and
the angle 2πv.
"""

from __future__ import annotations

import math

import numpy as np

from ...base._numba import cuda
from ..primitives.instructions import hardware
from .philox import high, join, low

# Numba finds functions by name in a module, not in a namespace.
fma, square_root = hardware.fma, hardware.sqrt_approximate
sine, cosine = hardware.sin_approximate, hardware.cos_approximate
fma_double, double_of_bits, bits_of_double = hardware.fma_double, hardware.double_of_bits, hardware.bits_of_double
reciprocal_of, reciprocal_root_of = hardware.reciprocal_rough, hardware.reciprocal_root_rough

_TWO_TO_MINUS_32 = np.float32(2.0**-32)
_HALF_OF_IT = np.float32(2.0**-33)
_TWO_PI = np.float32(2.3283064e-10 * 6.2831855)  # 2π 2^-32, as cuRAND rounds it
_HALF_OF_THAT = np.float32(2.3283064e-10 * 6.2831855 / 2)


@cuda.jit(device=True)
def box_muller(x, y):
    """Return two float32 standard normals from two words; the square root can be off by a unit in the last place."""
    u = fma(np.float32(x), _TWO_TO_MINUS_32, _HALF_OF_IT)
    angle = fma(np.float32(y), _TWO_PI, _HALF_OF_THAT)
    radius = square_root(np.float32(-2.0) * np.float32(math.log(u)))
    return radius * sine(angle), radius * cosine(angle)


@cuda.jit(device=True)
def box_muller_double(w0, w1, w2, w3):
    """Return two standard normals from four words, in float64, accurate to some units in the last place.

    u and v have 53 bits each and equal cuRAND's to the last bit. The functions below omit the special cases of the
    libraries' functions, which halves the number of instructions; on a GPU these dominate the time.
    """
    radius = root(minus_two_log(unit(w0, w1)))
    s, c = sine_cosine_of_turns(unit(w2, w3))
    return radius * s, radius * c


@cuda.jit(device=True)
def unit(lower, upper):
    """Return z 2^-53 + 2^-54 for the 53 bits z = lower ^ upper 2^21, rounded once.

    The halves of z become doubles through their bit patterns, added to 2^31 and 1/2: only the last sum is rounded.
    """
    middle = np.uint32(upper >> np.uint32(11))
    head = double_of_bits(join(middle, np.uint32(0x41E00000))) - 2147483648.0
    tail = double_of_bits(join(np.uint32(lower ^ upper << np.uint32(21)), np.uint32(0x3FE00000)))
    return head + (tail - (0.5 - 2.0**-54))


#: The high word of √½.
_ROOT_HALF = np.uint32(0x3FE6A09E)
_ONE_LESS = np.uint32(0x3FF00000 - 0x3FE6A09E)


@cuda.jit(device=True)
def minus_two_log(u):
    """Return -2 ln u for u in (0, 1].

    u = 2^k m with m from √½ to √2, and ln m = 2 artanh s = 2 s + s³ P(s²) with s = (m - 1)/(m + 1). The polynomial's
    relative error is 2^-59 of ln m.
    """
    bits = bits_of_double(u)
    shifted = np.uint32(high(bits) + _ONE_LESS)
    # The bits of 2^52 + (k + 1023); subtracting 2^52 + 1023 leaves k.
    k = double_of_bits(join(np.uint32(shifted >> np.uint32(20)), np.uint32(0x43300000))) - 4503599627371519.0
    m = double_of_bits(join(low(bits), np.uint32((shifted & np.uint32(0xFFFFF)) + _ROOT_HALF)))
    s = (m - 1.0) * reciprocal(m + 1.0)
    z = s * s
    p = -0.29592024712071724
    p = fma_double(p, z, -0.30628088573384726)
    p = fma_double(p, z, -0.36367129135961435)
    p = fma_double(p, z, -0.44444397137366826)
    p = fma_double(p, z, -0.571428574848568)
    p = fma_double(p, z, -0.7999999999882904)
    p = fma_double(p, z, -1.3333333333333468)
    return fma_double(s * z, p, fma_double(k, -1.3862943611198906, -4.0 * s))


@cuda.jit(device=True)
def reciprocal(d):
    """Return 1/d for d from 1 to 3; the hardware's result has 20 bits, and one step reduces the error to its cube."""
    r = reciprocal_of(d)
    e = fma_double(-d, r, 1.0)
    return fma_double(r, fma_double(e, e, e), r)


@cuda.jit(device=True)
def root(x):
    """Return √x for x = 0 or x >= 2^-60, from the hardware's 1/√x, which has 20 bits."""
    y = reciprocal_root_of(x + 1e-300)
    r = x * y
    e = fma_double(-r, y, 1.0)
    return fma_double(r * e, fma_double(0.375, e, 0.5), r)


@cuda.jit(device=True)
def sine_cosine_of_turns(v):
    """Return sin 2πv and cos 2πv for v in [0, 1].

    v = q/4 + t with t from -1/8 to 1/8. Polynomials in t² have a relative error of 2^-54; the quadrant q then
    determines which is the sine and which the cosine, and their signs.
    """
    shifted = fma_double(v, 4.0, 6755399441055744.0)  # 1.5 2^52: the lowest bits of the sum are the nearest integer
    q = low(bits_of_double(shifted))
    t = fma_double(shifted - 6755399441055744.0, -0.25, v)
    w = t * t
    s = 3.780803559421952
    s = fma_double(s, w, -15.093800844101132)
    s = fma_double(s, w, 42.05868495412872)
    s = fma_double(s, w, -76.70585970364863)
    s = fma_double(s, w, 81.60524927594503)
    s = fma_double(s, w, -41.34170224039963)
    s = fma_double(s, w, 6.283185307179586)
    s *= t
    c = 7.81147980576365
    c = fma_double(c, w, -26.424317016424908)
    c = fma_double(c, w, 60.24462124748519)
    c = fma_double(c, w, -85.45681710110202)
    c = fma_double(c, w, 64.93939402241354)
    c = fma_double(c, w, -19.739208802178513)
    c = fma_double(c, w, 1.0)
    if q & np.uint32(1):
        s, c = c, s
    return negated(s, q), negated(c, np.uint32(q + np.uint32(1)))


@cuda.jit(device=True)
def negated(x, q):
    """Return x, or -x in quadrants 2 and 3."""
    bits = bits_of_double(x)
    return double_of_bits(join(low(bits), np.uint32(high(bits) ^ (q & np.uint32(2)) << np.uint32(30))))
