"""Softmax and normalizations of rows, forward and backward, as scalar formulas: see `formula.RowFormula`.

A stage's function is given the numbers at one place of the row, and behind them the results of the stages before, then
the scalar arguments: eps, where there is one.
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Mapping
from operator import attrgetter

from ...functions.arithmetic import exp, reciprocal
from ...functions.formula import Formula, Reduction, RowFormula
from ..reduce.functions import larger, part, same
from .losses import EXPONENT_ROWS, LOG_SOFTMAX, LOSSES, SOFTMAX, log_softmax, logarithm, softmax
from .norms import NORMS, layer_gradients, layer_sum, layer_sums, rms_gradient, rms_sum, sum_of

# ---------------------------------------------------------------- softmax


def above(x, largest):
    """(e^(x - max),)."""
    return (exp(x - largest),)


def inverse(total, count):
    """(1 / Σ,); the largest of the numbers brings 1 to Σ."""
    return (reciprocal(total),)


def product(dy, y):
    """(dy y,)."""
    return (dy * y,)


def softmax_backward(dy, y, total):
    """(y (dy - Σ dy y),)."""
    return (y * (dy - total),)


def first_of(dy, y):
    """(dy,)."""
    return (dy,)


def log_softmax_backward(dy, y, total):
    """(dy - e^y Σ dy,)."""
    return (dy - exp(y) * total,)


_MAXIMUM = Reduction("max", part, start=(-math.inf,), merge=larger, finish=same)

_ALL = (
    RowFormula("softmax", softmax, (_MAXIMUM, sum_of(above, inverse)), SOFTMAX),
    RowFormula("log_softmax", log_softmax, (_MAXIMUM, sum_of(above, logarithm)), LOG_SOFTMAX),
    *EXPONENT_ROWS,
    RowFormula("softmax_backward", softmax_backward, (sum_of(product),)),
    RowFormula("log_softmax_backward", log_softmax_backward, (sum_of(first_of),)),
    *NORMS,
)

#: Formulas of rows by name.
ROW_FORMULAS = {formula.name: formula for formula in _ALL}


# ---------------------------------------------------------------- gradients of weights


def both(a, b):
    """(a, b)."""
    return a, b


def same_two(a, b, count):
    """(a, b)."""
    return a, b


def first_same(a, b, count):
    """(a,)."""
    return (a,)


#: Reductions over all rows: the gradients of a weight, and of a bias; and of two sums beside each other.
GRADIENTS = {
    "rms_norm": sum_of(rms_gradient),
    "layer_norm": sum_of(layer_gradients, first_same, 2),
    "layer_norm_bias": sum_of(layer_gradients, same_two, 2),
    "two": sum_of(both, same_two, 2),
}


#: What is added up of each row, given the results of all stages: as `GRADIENTS`.
SUMS = {
    "rms_norm": Formula("rms_norm_sum", rms_sum),
    "layer_norm": Formula("layer_norm_sum", layer_sum),
    "layer_norm_bias": Formula("layer_norm_sums", layer_sums),
}


def named(table: str, name: str) -> Formula:
    """A formula of this module, as pickles have it."""
    tables: dict[str, Mapping[str, Formula]] = {
        "rows": ROW_FORMULAS,
        "gradients": GRADIENTS,
        "sums": SUMS,
        "losses": LOSSES,
    }
    return tables[table][name]


for _name, _formula in ROW_FORMULAS.items():
    _formula.origin = (named, ("rows", _name))
for _name, _gradient in GRADIENTS.items():
    _gradient.origin = (named, ("gradients", _name))
for _name, _sums in SUMS.items():
    _sums.origin = (named, ("sums", _name))
for _name, _losses in LOSSES.items():
    _losses.origin = (named, ("losses", _name))
copyreg.pickle(RowFormula, attrgetter("origin"))
