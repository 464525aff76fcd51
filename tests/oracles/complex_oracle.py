"""Expected results of functions of complex numbers. This module does not depend on numbacc.

`specials` lists the special cases of the array API standard (2024.12), which agree with C (Annex G). The standard's
rows for sqrt at (±inf, b) contradict its own definition, so C's rows replace them. `exact` computes values at finite
numbers.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np

#: A separate context keeps its precision from changing elsewhere.
mp = mpmath.MPContext()
mp.dps = 40

INF, NAN, PI = math.inf, math.nan, math.pi
ZEROS = (0.0, -0.0)


class Unsigned(float):
    """A float whose sign the standard leaves open."""


SOME_INF, SOME_ZERO, SOME_RIGHT = Unsigned(INF), Unsigned(0.0), Unsigned(PI / 2)


def _cis(size, less=0.0, factor=1):
    """The parts of size e^(ib) - less, functions of b; of b times a factor."""

    def part(function, b, less):
        with mp.workdps(400):
            found = function(b * factor) if b else (mp.mpf(1) if function == mp.cos else b)
            return size * math.copysign(1.0 if size == INF else float(abs(found)), found) - less

    return lambda b: part(mp.cos, b, less), lambda b: part(mp.sin, b, 0.0)


def rows(name, positive):
    """The standard's table of a function: (real parts, imaginary parts, the result's real part, its imaginary part).

    Results are numbers or functions of the imaginary part. `specials` adds the rows of conjugates and, as
    `PARITY` says, of negatives.

    Args:
        name: of the function.
        positive: finite numbers above 0.
    """
    signed = (0.0, *positive)
    nonzero = (*positive, *(-x for x in positive))
    finite = (*ZEROS, *nonzero)
    nan = ([NAN], [NAN], NAN, NAN)

    def log(factor=1.0):
        return [
            ([-0.0], [0.0], -INF, PI * factor), ([0.0], [0.0], -INF, 0.0), (finite, [INF], INF, PI / 2 * factor),
            (finite, [NAN], NAN, NAN), ([-INF], signed, INF, PI * factor), ([INF], signed, INF, 0.0),
            ([-INF], [INF], INF, 0.75 * PI * factor), ([INF], [INF], INF, 0.25 * PI * factor),
            ([INF, -INF], [NAN], INF, NAN), ([NAN], finite, NAN, NAN), ([NAN], [INF], INF, NAN), nan,
        ]  # fmt: skip

    def exp(zero, low, less=0.0, factor=1):
        return [
            (ZEROS, [0.0], zero, 0.0), (finite, [INF, NAN], NAN, NAN), ([INF], [0.0], INF, 0.0),
            ([-INF], finite, *_cis(0.0, less, factor)), ([INF], nonzero, *_cis(INF, less, factor)),
            ([-INF], [INF, NAN], low, SOME_ZERO), ([INF], [INF, NAN], SOME_INF, NAN), ([NAN], [0.0], NAN, 0.0),
            ([NAN], (*nonzero, INF), NAN, NAN), nan,
        ]  # fmt: skip

    return {
        "acos": lambda: [
            (ZEROS, [0.0], PI / 2, -0.0), (ZEROS, [NAN], PI / 2, NAN), (finite, [INF], PI / 2, -INF),
            (nonzero, [NAN], NAN, NAN), ([-INF], signed, PI, -INF), ([INF], signed, 0.0, -INF),
            ([-INF], [INF], 0.75 * PI, -INF), ([INF], [INF], PI / 4, -INF), ([INF, -INF], [NAN], NAN, SOME_INF),
            ([NAN], finite, NAN, NAN), ([NAN], [INF], NAN, -INF), nan,
        ],
        "acosh": lambda: [
            (ZEROS, [0.0], 0.0, PI / 2), (finite, [INF], INF, PI / 2), (nonzero, [NAN], NAN, NAN),
            (ZEROS, [NAN], NAN, SOME_RIGHT), ([-INF], signed, INF, PI), ([INF], signed, INF, 0.0),
            ([-INF], [INF], INF, 0.75 * PI), ([INF], [INF], INF, PI / 4), ([INF, -INF], [NAN], INF, NAN),
            ([NAN], finite, NAN, NAN), ([NAN], [INF], INF, NAN), nan,
        ],
        "asinh": lambda: [
            ([0.0], [0.0], 0.0, 0.0), (signed, [INF], INF, PI / 2), (finite, [NAN], NAN, NAN),
            ([INF], signed, INF, 0.0), ([INF], [INF], INF, PI / 4), ([INF], [NAN], INF, NAN), ([NAN], [0.0], NAN, 0.0),
            ([NAN], nonzero, NAN, NAN), ([NAN], [INF], SOME_INF, NAN), nan,
        ],
        "atanh": lambda: [
            ([0.0], [0.0], 0.0, 0.0), ([0.0], [NAN], 0.0, NAN), ([1.0], [0.0], INF, 0.0),
            (signed, [INF], 0.0, PI / 2), (nonzero, [NAN], NAN, NAN), ([INF], (*signed, INF), 0.0, PI / 2),
            ([INF], [NAN], 0.0, NAN), ([NAN], finite, NAN, NAN), ([NAN], [INF], SOME_ZERO, PI / 2), nan,
        ],
        "cosh": lambda: [
            ([0.0], [0.0], 1.0, 0.0), ([0.0], [INF, NAN], NAN, SOME_ZERO), (nonzero, [INF, NAN], NAN, NAN),
            ([INF], [0.0], INF, 0.0), ([INF], nonzero, *_cis(INF)), ([INF], [INF, NAN], SOME_INF, NAN),
            ([NAN], [0.0], NAN, SOME_ZERO), ([NAN], (*nonzero, INF), NAN, NAN), nan,
        ],
        "sinh": lambda: [
            ([0.0], [0.0], 0.0, 0.0), ([0.0], [INF, NAN], SOME_ZERO, NAN), (nonzero, [INF, NAN], NAN, NAN),
            ([INF], [0.0], INF, 0.0), ([INF], nonzero, *_cis(INF)), ([INF], [INF, NAN], SOME_INF, NAN),
            ([NAN], [0.0], NAN, 0.0), ([NAN], (*nonzero, INF), NAN, NAN), nan,
        ],
        "tanh": lambda: [
            ([0.0], [0.0], 0.0, 0.0), (nonzero, [INF, NAN], NAN, NAN), ([0.0], [INF, NAN], 0.0, NAN),
            ([INF], (*signed, INF, NAN), 1.0, SOME_ZERO), ([NAN], [0.0], NAN, 0.0), ([NAN], (*nonzero, INF), NAN, NAN),
            nan,
        ],
        "exp": lambda: exp(1.0, SOME_ZERO),
        "exp2": lambda: exp(1.0, SOME_ZERO, factor=mp.ln(2)),
        "expm1": lambda: exp(SOME_ZERO, -1.0, 1.0),
        "log": log,
        "log2": lambda: log(1 / math.log(2)),
        "log10": lambda: log(1 / math.log(10)),
        "log1p": lambda: [([-1.0], [0.0], -INF, 0.0), *log()[2:]],
        "sqrt": lambda: [
            (ZEROS, [0.0], 0.0, 0.0), ((*finite, INF, -INF, NAN), [INF], INF, INF), (finite, [NAN], NAN, NAN),
            ([-INF], signed, 0.0, INF), ([INF], signed, INF, 0.0), ([-INF], [NAN], NAN, SOME_INF),
            ([INF], [NAN], INF, NAN), ([NAN], finite, NAN, NAN), nan,
        ],
    }[name]()  # fmt: skip


#: f(-z) is f(z) times this.
PARITY = {"asinh": -1, "atanh": -1, "sinh": -1, "tanh": -1, "cosh": 1}
#: f(z) = -i g(iz), and cos z = cosh iz.
TURNED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh", "cos": "cosh"}
NAMES = (
    "acos", "acosh", "asinh", "atanh", "cosh", "sinh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sqrt", "asin", "atan", "sin", "tan", "cos",
)  # fmt: skip


def _turned_back(name, x, y):
    """(z, f(z)) of (iz, g(iz))."""
    (a, b), (c, d) = x, y
    return (b, -a), (y if name == "cos" else (d, _times(c, -1)))


def _times(value, sign):
    return value if isinstance(value, Unsigned) else sign * value


def specials(name, positive):
    """[(number's parts, result's parts)] of a function: all rows of its table, their conjugates and negatives."""
    inner = TURNED.get(name, name)
    found = []
    for reals, imaginaries, real, imaginary in rows(inner, positive):
        for a, b in ((a, b) for a in reals for b in imaginaries):
            c, d = (part(b) if callable(part) else part for part in (real, imaginary))
            for sign in (1, -1):
                pairs = [((a, sign * b), (c, _times(d, sign)))]
                if inner in PARITY:
                    way = PARITY[inner]
                    pairs.append(((-a, -sign * b), (_times(c, way), _times(d, sign * way))))
                found += [_turned_back(name, *pair) if name in TURNED else pair for pair in pairs]
    return found


def is_special(found, wanted, tolerance):
    """Return whether a part of a result agrees with the standard."""
    if math.isnan(wanted) or math.isnan(found):
        return math.isnan(wanted) and math.isnan(found)
    if isinstance(wanted, Unsigned):
        found = abs(found)
    if wanted == 0 or math.isinf(wanted):
        return found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
    return abs(found - wanted) <= tolerance * abs(wanted)


# ---------------------------------------------------------------- values

_EXPONENTIALS = ("exp", "exp2", "expm1", "cosh", "sinh", "tanh")


def _near(name, a):
    """Clip the real part to ±10^5 if the function takes its exponential. Beyond, no dtype holds the result."""
    return min(max(a, mp.mpf(-100_000)), mp.mpf(100_000)) if name in _EXPONENTIALS else a


def _log_size(a, b):
    return mp.log(a * a + b * b) / 2


def _formula(name, a, b):
    """The parts of a function at a + bi, a >= 0 where it is odd or even, b >= 0, and not both 0."""
    if name in ("log", "log2", "log10"):
        base = {"log": 1, "log2": mp.ln(2), "log10": mp.ln(10)}[name]
        return _log_size(a, b) / base, mp.atan2(b, a) / base
    if name == "log1p":
        return _log_size(1 + a, b), mp.atan2(b, 1 + a)
    if name in ("exp", "exp2", "expm1"):
        if name == "exp2":
            a, b = a * mp.ln(2), b * mp.ln(2)
        size = mp.exp(a)
        return size * mp.cos(b) - (name == "expm1"), size * mp.sin(b)
    if name == "cosh":
        return mp.cosh(a) * mp.cos(b), mp.sinh(a) * mp.sin(b)
    if name == "sinh":
        return mp.sinh(a) * mp.cos(b), mp.cosh(a) * mp.sin(b)
    if name == "tanh":
        below = mp.cosh(2 * a) + mp.cos(2 * b)
        return mp.sinh(2 * a) / below, mp.sin(2 * b) / below
    if name == "atanh":
        real = (mp.log((1 + a) ** 2 + b * b) - mp.log((1 - a) ** 2 + b * b)) / 4
        return real, mp.atan2(2 * b, (1 - a) * (1 + a) - b * b) / 2
    if name == "sqrt":
        size = mp.sqrt(a * a + b * b)
        return mp.sqrt((size + a) / 2), mp.sqrt((size - a) / 2)
    # asinh, acos, acosh: of the foci of the ellipse through iz, or z.
    x, y = (b, a) if name == "asinh" else (a, b)
    r, s = mp.sqrt((x + 1) ** 2 + y * y), mp.sqrt((x - 1) ** 2 + y * y)
    long, height = (r + s) / 2, mp.acosh((r + s) / 2)
    # Near the foci's line cos = x / long, else the sine.
    angle = mp.acos(x / long)
    if name == "asinh":
        return height, mp.asin(x / long)
    return (angle, -height) if name == "acos" else (height, angle)


def exact(name, a, b):
    """The parts of a function at a finite number a + bi, as numbers of mpmath, to 30 digits each."""
    if name in TURNED:
        # At iz; the result's parts are exchanged.
        c, d = exact(TURNED[name], -b, a)
        return (c, d) if name == "cos" else (d, -c)
    if a == 0 and b == 0:
        wanted = [y for x, y in specials(name, (1.0,)) if str(x) == str((float(a), float(b)))]
        return tuple(mp.mpf(part) for part in wanted[0]) if wanted else (mp.mpf(0), mp.mpf(0))
    # f is computed at |a| + |b|i where it is odd or even, else at a + |b|i; f(conj z) = conj f(z).
    sign = math.copysign(1, b)
    way = math.copysign(1, a) if name in PARITY else 1
    parity = PARITY[name] if way < 0 else 1
    # A 0 means that more digits are needed, except on the axes, where parts may be 0.
    digits, last = (60, None) if a and b else (1400, ())
    while True:
        with mp.workdps(digits):
            found = _formula(name, _near(name, mp.mpf(float(a)) * way), mp.mpf(abs(float(b))))
            same = last and all(
                p and abs(p - q) <= abs(p) * mp.mpf(10) ** -30 for p, q in zip(found, last, strict=True)
            )
            if same or last == ():
                return found[0] * parity, found[1] * (sign * parity * way)
        digits, last = 2 * digits, found


def ulps(found, wanted, dtype):
    """Return the error of a part of a result in units in the last place of float32 or float64."""
    limits = np.finfo(dtype)
    if math.isnan(found):
        return INF
    # The smallest number that rounds to infinity.
    top = mp.mpf(2) ** int(limits.maxexp) * (1 - mp.mpf(2) ** -(int(limits.nmant) + 2))
    if math.isinf(found):
        if abs(wanted) >= top:
            return 0.0 if (found > 0) == (wanted > 0) else INF
        found = math.copysign(float(limits.max), found)
        wanted = wanted if abs(wanted) > float(limits.max) / 8 else mp.mpf(0)
        if wanted == 0:
            return INF
    unit = max(int(mp.frexp(wanted)[1]) - 1 if wanted else -9999, int(limits.minexp)) - int(limits.nmant)
    unit = min(unit, int(limits.maxexp) - 1 - int(limits.nmant))
    if abs(wanted) >= top:
        wanted = mp.sign(wanted) * mp.mpf(2) ** int(limits.maxexp)
    return float(abs(mp.mpf(float(found)) - wanted) * mp.mpf(2) ** -unit)
