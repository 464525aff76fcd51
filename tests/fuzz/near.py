"""Python's numbers with what may be wrong with them: how far off a computation in few bits may be, and slopes.

A drawn formula is run on them in the place of floats. Bounds are of first order: a sum of what each operation's
rounding makes of the result, in units of the last place of 1. Slopes go forward, each beside the sum of its terms'
sizes. Nothing of numbacc is used.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special


class Unclear(Exception):
    """The formula decides by numbers that are nearer to each other than they are known."""


class Near:
    """A number.

    Attributes:
        value: as float64 has it.
        off: by how many units it may be off.
        slopes: with respect to each argument (the slope, the sum of its terms' sizes).
        is_rough: whether slopes are not known.
    """

    #: One unit, and how many arguments there are: of all numbers of a computation.
    eps, count = 2.0**-52, 0
    __slots__ = ("is_rough", "off", "slopes", "value")
    __hash__ = None

    def __init__(self, value, off, slopes, is_rough=False):
        self.value, self.off, self.slopes = float(value), float(off), slopes
        self.is_rough = is_rough or not math.isfinite(self.value)
        if not math.isfinite(self.value):
            self.off = 0.0
        elif not self.off * Near.eps < 1e-3 * max(abs(self.value), 1.0):
            self.is_rough = True
        # float32 may be infinite or 0 here.
        if math.isfinite(self.value) and self.value and Near.eps > 2.0**-50 and not 1e-37 < abs(self.value) < 1e30:
            raise Unclear
        if not math.isfinite(self.off):
            raise Unclear

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other):
        return made(lambda a, b: a + b, (1.0, 1.0), self, other)

    def __sub__(self, other):
        return made(lambda a, b: a - b, (1.0, -1.0), self, other)

    def __mul__(self, other):
        return made(lambda a, b: a * b, lambda a, b: (b, a), self, other)

    def __truediv__(self, other):
        other = near(other)
        return made(np.divide, lambda a, b: (1 / b, -a / b / b), self, other)

    def __pow__(self, other):
        return Math.pow(self, other)

    def __mod__(self, other):
        other = near(other)
        whole = stepped(np.floor, self / other)
        return made(np.mod, (1.0, -whole.value), self, other)

    def __floordiv__(self, other):
        found = stepped(np.floor, self / other)
        return found if math.isfinite(found.value) else found * math.nan

    def __neg__(self):
        return made(lambda a: -a, (-1.0,), self)

    def __abs__(self):
        return made(abs, (sign(self),), bent(self, 0.0))

    def __radd__(self, other):
        return near(other) + self

    def __rsub__(self, other):
        return near(other) - self

    def __rmul__(self, other):
        return near(other) * self

    def __rtruediv__(self, other):
        return near(other) / self

    def __rpow__(self, other):
        return near(other) ** self

    # ------------------------------------------------------------ decisions

    def __gt__(self, other):
        other = near(other)
        apart(self, other)
        return self.value > other.value

    def __lt__(self, other):
        return near(other) > self

    def __ge__(self, other):
        other = near(other)
        apart(self, other)
        return self.value >= other.value

    def __le__(self, other):
        return near(other) >= self

    def __bool__(self):
        raise AssertionError("drawn formulas decide by comparisons")


def near(number):
    """A number as a `Near` one; a constant is rounded where it is used."""
    return number if isinstance(number, Near) else Near(number, abs(number), ((0.0, 0.0),) * Near.count)


def apart(one, other):
    """Raise Unclear unless it is known which is larger."""
    gap = abs(one.value - other.value)
    off = one.off + other.off
    if gap <= 16 * off * Near.eps and off:
        raise Unclear
    if gap == 0 and (any(s for s, _ in one.slopes) or any(s for s, _ in other.slopes)):
        one.is_rough = other.is_rough = Near.tied = True


def bent(number, *places):
    """The number, of which slopes are not known at these places; Unclear where it is not known on which side it is."""
    for place in places:
        apart(number, Near(place, 0.0, ((0.0, 0.0),) * Near.count))
    return number


def stepped(function, number):
    """What is constant between integers."""
    found = function(number.value)
    nearest = np.rint(2 * number.value) / 2
    if number.off and abs(number.value - nearest) <= 16 * number.off * Near.eps:
        raise Unclear
    return Near(found, 0.0, ((0.0, 0.0),) * Near.count, number.is_rough or number.value == nearest)


def sign(number):
    return math.copysign(1.0, number.value)


def made(function, partials, *parts):
    """A function of numbers, given what it is of float64s, and its slopes or what makes them of these."""
    parts = [near(part) for part in parts]
    values = [np.float64(part.value) for part in parts]
    with np.errstate(all="ignore"):
        value = function(*values)
        slopes = [float(s) for s in (partials(*values) if callable(partials) else partials)]
        off = float(abs(value))
        rows = [(0.0, 0.0)] * Near.count
        is_rough = any(part.is_rough for part in parts)
        for slope, part in zip(slopes, parts, strict=True):
            if part.off:
                off += abs(slope) * part.off
            for k, (of, size) in enumerate(part.slopes):
                if size:
                    rows[k] = rows[k][0] + slope * of, rows[k][1] + abs(slope) * size + abs(slope * of)
            is_rough |= not math.isfinite(slope)
    return Near(value, off, tuple(rows), is_rough)


# ---------------------------------------------------------------- functions


def _one(function, slope):
    """A function of one number, and its slope; of plain numbers too."""

    def call(number):
        return made(function, lambda a: (slope(a),), number)

    return staticmethod(call)


def _logistic(a):
    return 1 / (1 + np.exp(-a))


def pow_(base, exponent):
    def slopes(a, b):
        of_base = 0.0 if b == 0 else b * np.power(a, b - 1)
        # Of numbers below 0 there is none; where nothing depends on the exponent it is not asked for.
        return of_base, np.power(a, b) * np.log(a) if a > 0 else 0.0

    return made(np.power, slopes, base, exponent)


def larger(one, other):
    one, other = near(one), near(other)
    return one if math.isnan(one.value) or (one > other and other.value == other.value) else other


def smaller(one, other):
    return -larger(-near(one), -near(other))


class Math:
    """The module, for such numbers: infinities and NaN where Python raises."""

    pi = math.pi
    sin = _one(np.sin, np.cos)
    cos = _one(np.cos, lambda a: -np.sin(a))
    tanh = _one(np.tanh, lambda a: 1 / np.cosh(a) ** 2)
    atan = _one(np.arctan, lambda a: 1 / (1 + a * a))
    erf = _one(special.erf, lambda a: 2 / math.sqrt(math.pi) * np.exp(-a * a))
    exp = _one(np.exp, np.exp)
    expm1 = _one(np.expm1, np.exp)
    log1p = _one(np.log1p, lambda a: 1 / (1 + a))
    log = _one(np.log, lambda a: 1 / a)
    sqrt = _one(np.sqrt, lambda a: 0.5 / np.sqrt(a))
    asinh = _one(np.arcsinh, lambda a: 1 / np.sqrt(1 + a * a))
    sinh = _one(np.sinh, np.cosh)
    pow = staticmethod(pow_)

    @staticmethod
    def fabs(number):
        return abs(near(number))

    @staticmethod
    def floor(number):
        return stepped(np.floor, number) if isinstance(number, Near) else math.floor(number)

    @staticmethod
    def hypot(one, other):
        return made(np.hypot, lambda a, b: (a / np.hypot(a, b), b / np.hypot(a, b)), one, other)

    @staticmethod
    def atan2(one, other):
        return made(np.arctan2, lambda a, b: (b / (a * a + b * b), -a / (a * a + b * b)), one, other)

    @staticmethod
    def copysign(one, other):
        one, other = near(one), bent(near(other), 0.0)
        if math.isnan(other.value):  # nobody says what sign it has
            raise Unclear
        # A slope of 0 at 0 in the first, where it bends.
        return made(np.copysign, (sign(one) * sign(other), 0.0), bent(one, 0.0), other)


class Ew:
    """Those of `numbacc.elementwise` that formulas call."""

    sigmoid = _one(_logistic, lambda a: _logistic(a) * _logistic(-a))
    silu = _one(lambda a: a * _logistic(a), lambda a: _logistic(a) * (1 + a * _logistic(-a)))
    rsqrt = _one(lambda a: 1 / np.sqrt(a), lambda a: -0.5 / np.sqrt(a) / a)
    exp2 = _one(np.exp2, lambda a: math.log(2) * np.exp2(a))
    maximum, minimum = staticmethod(larger), staticmethod(smaller)
    atan2 = Math.atan2

    @staticmethod
    def softplus(number):
        # As torch has it, from 20 on the number itself.
        number = bent(near(number), 20.0)
        return number if number.value > 20 else made(lambda a: np.logaddexp(0, a), lambda a: (_logistic(a),), number)

    @staticmethod
    def relu(number):
        number = bent(near(number), 0.0)
        return made(lambda a: np.float64(0.0) if a <= 0 else a, lambda a: (float(a > 0),), number)

    @staticmethod
    def leaky_relu(number, negative_slope):
        number = bent(near(number), 0.0)
        return number if number.value > 0 else number * negative_slope

    @staticmethod
    def clamp(number, low, high):
        number = bent(near(number), low, high)
        # Of NaN it is NaN.
        return near(low) if number.value < low else near(high) if number.value > high else number

    @staticmethod
    def hardtanh(number, max_val):
        return Ew.clamp(number, -1.0, max_val)

    @staticmethod
    def add(one, other):
        return near(one) + other

    @staticmethod
    def multiply(one, other):
        return near(one) * other

    @staticmethod
    def where(condition, yes, no):
        return yes if condition else no

    @staticmethod
    def round(number):
        return stepped(np.rint, near(number))

    @staticmethod
    def ceil(number):
        return stepped(np.ceil, near(number))

    @staticmethod
    def sign(number):
        number = bent(near(number), 0.0)
        return Near(np.sign(number.value), 0.0, ((0.0, 0.0),) * Near.count, number.is_rough)


def computed(function, elements, eps, count, **options):
    """Of each element the results, or None where they are unclear; None of all where integers are divided by 0."""
    Near.eps, Near.count = eps, count
    found = []
    for numbers in elements:
        given = [
            Near(number, 0.0, tuple((float(j == k), float(j == k)) for j in range(count)))
            for k, number in enumerate(numbers)
        ]
        Near.tied = False
        try:
            results = function(*given, **options)
        except Unclear:
            found.append(None)
            continue
        except ZeroDivisionError:
            return None
        results = results if isinstance(results, tuple) else (results,)
        results = [near(each) for each in results]
        for each in results:
            each.is_rough |= Near.tied
        found.append(results)
    return found
