"""The next number of a dtype, for `numbacc.elementwise`: by the bits of floats, which count those of one sign.

What is computed in float32 steps from number to number of float16 and bfloat16 as well: theirs lie a fixed number of
float32's bits apart.
"""

from __future__ import annotations

import math

from .arithmetic import stepped

#: How many bits of a float32 neighbouring numbers of 16 bits are apart.
_HALF_STEP, _BRAIN_STEP = 8192.0, 65536.0
#: What brings float16's least exponent to that of float32, where its subnormal numbers are; and back.
_DOWN, _UP = 2.0**-112, 2.0**112
#: What would follow float16's largest number.
_HALF_END = 65536.0


def _neighbour(x, toward, step):
    """The number after x towards another, of those whose bits are `step` apart; as C and NumPy have it."""
    # One step, whatever x is, leaves the compiler choices in the place of branches.
    start = math.copysign(0.0, toward) if x == 0.0 else x
    is_outward = x == 0.0 or (toward > x) == (x > 0.0)
    found = stepped(start, step if is_outward else -step)
    if x == toward:
        return toward
    return found if x == x and toward == toward else x + toward


def nextafter(x, toward):
    """Of float32, or float64."""
    return _neighbour(x, toward, 1.0)


def nextafter_half(x, toward):
    """Of float16, in float32."""
    bounded = math.copysign(_HALF_END, x) if math.isinf(x) else x
    found = _neighbour(bounded * _DOWN, toward * _DOWN, _HALF_STEP) * _UP
    return math.copysign(math.inf, found) if abs(found) >= _HALF_END else found


def nextafter_brain(x, toward):
    """Of bfloat16, in float32."""
    return _neighbour(x, toward, _BRAIN_STEP)
