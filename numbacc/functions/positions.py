"""Formulas that depend on an element's position. `column`, `row` and so on are indices.

The step of each counter of a map says which index it is. These numbers are int64; all other numbers have the compute
dtype.
"""

from __future__ import annotations

import math

from .arithmetic import multiply_then_add
from .formula import Formula


def stepped(index, start, step):
    """Return start + index step."""
    return (start + index * step,)


def stepped_real(index, start, step):
    """Return the result of `stepped` in float64, with the product and the sum each rounded, as in NumPy."""
    return (multiply_then_add(index * 1.0, step, start),)


def spaced(index, start, step, last, stop):
    """Return the result of `stepped_real`. At the last index it is exactly `stop`, however the sum is rounded."""
    return (stop if index == last else multiply_then_add(index * 1.0, step, start),)


def spaced_below(index, start, step, last, stop):
    """Return the result of `spaced`, rounded down."""
    return (math.floor(stop if index == last else multiply_then_add(index * 1.0, step, start)),)


def on_diagonal(above, number, one, zero):
    """Return one where the column minus the row equals `number`, else zero."""
    return (one if above == number else zero,)


def up_to_diagonal(x, above, number, zero):
    """Return x where the column minus the row is at most `number`, else zero."""
    return (x if above <= number else zero,)


def from_diagonal(x, above, number, zero):
    """Return x where the column minus the row is at least `number`, else zero."""
    return (x if above >= number else zero,)


def one_hot(index, column, one, zero):
    """Return one in the column that the index selects, else zero."""
    return (one if index == column else zero,)


#: Name -> formula. The code that plans a formula also provides its NumPy version.
POSITIONS = {
    function.__name__: Formula(function.__name__, function)
    for function in (stepped, stepped_real, spaced, spaced_below, on_diagonal, up_to_diagonal, from_diagonal)
}
POSITIONS["one_hot"] = Formula("one_hot", one_hot, heavy={1: 64, 2: 32, 4: 16})


def named(name: str) -> Formula:
    """Return a formula of this module. Pickles refer to it by name."""
    return POSITIONS[name]


for _name, _formula in POSITIONS.items():
    _formula.origin = (named, (_name,))
