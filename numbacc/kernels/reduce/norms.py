"""Norms of any order, as scalar formulas; `fold_formulas` has the others."""

from __future__ import annotations

import math

from ...functions.formula import Reduction
from .functions import add, larger, magnitude, same, smaller


def is_something(x):
    """(1,) of what is not 0."""
    return (0.0 if x == 0.0 else 1.0,)


def magnitude_to(x, order):
    """(|x|^order,)."""
    return (math.pow(abs(x), order),)


def root_of(total, count, order):
    """(total^(1/order),)."""
    return (math.pow(total, 1.0 / order),)


def square(x):
    """(x²,)."""
    return (x * x,)


def square_magnitude(z):
    """(|z|²,)."""
    return (z.real * z.real + z.imag * z.imag,)


def root(total, count):
    """(√total,)."""
    return (math.sqrt(total),)


#: By name; "_complex" of complex numbers, whose norms are real.
NORMS = {
    f"norm_{name}{which}": Reduction(
        f"norm_{name}{which}", first, start=(start,), merge=merge, finish=finish, parts=parts
    )
    for which, parts, second_power in (("", ("",), square), ("_complex", ("real",), square_magnitude))
    for name, first, start, merge, finish in (
        ("0", is_something, 0.0, add, same),
        ("1", magnitude, 0.0, add, same),
        ("2", second_power, 0.0, add, root),
        ("p", magnitude_to, 0.0, add, root_of),
        ("inf", magnitude, 0.0, larger, same),
        ("least", magnitude, math.inf, smaller, same),
    )
}


def named(name: str) -> Reduction:
    """The norm of a name, as pickles have it."""
    return NORMS[name]


for _norm in NORMS.values():
    _norm.origin = (named, (_norm.name,))
