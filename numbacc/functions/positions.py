"""Formulas of where an element is: `column`, `row` and the like are indices, the steps of a map's counters say of what.

Their numbers are int64; of the other numbers each has the dtype that is computed in.
"""

from __future__ import annotations

import math

from .arithmetic import multiply_then_add
from .formula import Formula


def stepped(index, start, step):
    """start + index step."""
    return (start + index * step,)


def stepped_real(index, start, step):
    """`stepped` in float64, product and sum rounded as NumPy's are."""
    return (multiply_then_add(index * 1.0, step, start),)


def spaced(index, start, step, last, stop):
    """`stepped_real`, and at the last index stop, whatever the sum is rounded to."""
    return (stop if index == last else multiply_then_add(index * 1.0, step, start),)


def spaced_below(index, start, step, last, stop):
    """`spaced`, rounded down."""
    return (math.floor(stop if index == last else multiply_then_add(index * 1.0, step, start)),)


def on_diagonal(above, number, one, zero):
    """One where the column minus the row is a number."""
    return (one if above == number else zero,)


def up_to_diagonal(x, above, number, zero):
    """x where the column minus the row is at most a number."""
    return (x if above <= number else zero,)


def from_diagonal(x, above, number, zero):
    """x where the column minus the row is at least a number."""
    return (x if above >= number else zero,)


def one_hot(index, column, one, zero):
    """One in the column that an index names."""
    return (one if index == column else zero,)


#: Formulas by name. What they mean in NumPy says who plans them.
POSITIONS = {
    function.__name__: Formula(function.__name__, function)
    for function in (stepped, stepped_real, spaced, spaced_below, on_diagonal, up_to_diagonal, from_diagonal)
}
POSITIONS["one_hot"] = Formula("one_hot", one_hot, heavy={1: 64, 2: 32, 4: 16})


def named(name: str) -> Formula:
    """A formula of this module, as pickles have it."""
    return POSITIONS[name]


for _name, _formula in POSITIONS.items():
    _formula.origin = (named, (_name,))
