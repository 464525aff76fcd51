"""The scans that numbacc brings, as scalar formulas: their meaning in NumPy is in `reference.scans`.

The first parts that are merged lie before the second. Sums start with -0, which leaves a zero's sign as it is.

The gradient of y = cumprod(x) is dx[j] = Σ over i >= j of dy[i] times all x up to i but x[j]: what lies before j, times
dy[j] + u[j + 1], where u[j] = x[j] (dy[j] + u[j + 1]) is a recurrence from the last element to the first. Nothing is
divided by x, which may be 0.
"""

from __future__ import annotations

import copyreg
from operator import attrgetter

from ...functions.formula import Scan
from ..reduce.functions import add, multiply, part


def alone(before, x):
    """(what all before make,)."""
    return (before,)


def affine(x, dy, before):
    """(x, x dy): the function u -> x u + x dy."""
    return x, x * dy


def chained(a, b, c, d):
    """u -> c (a u + b) + d."""
    return a * c, b * c + d


def gradient(a, b, x, dy, before):
    """(before (dy + u),), where u is what the functions of all behind make of 0."""
    return (before * (dy + b),)


_ALL = (
    Scan("cumsum", part, start=(-0.0,), merge=add),
    Scan("cumprod", part, start=(1.0,), merge=multiply),
    Scan("cumprod_before", part, start=(1.0,), merge=multiply, finish=alone),
    Scan("cumprod_backward", affine, start=(1.0, 0.0), merge=chained, finish=gradient),
)

#: Scans by name.
SCANS = {scan.name: scan for scan in _ALL}


def named(name: str) -> Scan:
    """The scan of a name, as pickles have it."""
    return SCANS[name]


for _scan in _ALL:
    _scan.origin = (named, (_scan.name,))
copyreg.pickle(Scan, attrgetter("origin"))
