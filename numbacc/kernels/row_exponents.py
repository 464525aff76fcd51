"""Rows of which e^x is added up: softmax of rows that are read once, and log Σ e^x alone; see `row_formulas`."""

from __future__ import annotations

import math
from typing import Any

from .arithmetic import exp, reciprocal, shared_out
from .exponents import EXPONENTS, larger_and_sum, largest_of_some, twice
from .fold_formulas import add, larger, part
from .formula import Reduction, RowFormula


def logarithm(total, count):
    """(log Σ,)."""
    return (math.log(total),)


def softmax(x, largest, factor):
    """(e^(x - max) / Σ e^(x - max),)."""
    return (exp(x - largest) * factor,)


def log_softmax(x, largest, total):
    """(x - max - log Σ e^(x - max),)."""
    return (x - largest - total,)


def largest_and_inverse(largest, total, count):
    """(max, 1 / Σ): NaN of an infinite max, which has no difference to itself."""
    return largest, reciprocal(total) + (largest - largest)


def largest_and_logarithm(largest, total, count):
    """(max, log Σ), as `largest_and_inverse`."""
    return largest, math.log(total) + (largest - largest)


def _exponents(finish):
    """max and Σ e^(x - max) at once."""
    whole = EXPONENTS["logsumexp"]
    return Reduction(
        "exponents", whole.function, start=whole.start, merge=whole.merge, finish=finish, chunk=whole.chunk
    )


def largest_base_and_mean(largest, total, count):
    """`largest_of_some`, and the mean."""
    return largest, largest if abs(largest) < math.inf else 0.0, shared_out(total, count)


def above_base(x, largest, base):
    """(e^(x - base),)."""
    return (exp(x - base),)


def above_base_with_mean(x, largest, base, mean):
    """(e^(x - base),)."""
    return (exp(x - base),)


def logsumexp_of_row(largest, base, logarithm):
    """(log Σ e^x,)."""
    return (base + logarithm,)


def logsumexp_and_mean_of_row(largest, base, mean, logarithm):
    """(log Σ e^x, mean)."""
    return base + logarithm, mean


def alone(result):
    """(result,)."""
    return (result,)


def both(one, other):
    """(one, other)."""
    return one, other


def _sum(function: Any) -> Reduction:
    return Reduction("sum", function, start=(0.0,), merge=add, finish=logarithm)


_LOGSUMEXP, _LOGSUMEXP_AND_MEAN = (
    RowFormula(f"{name}_at_once", function, (EXPONENTS[name],))
    for name, function in (("logsumexp", alone), ("logsumexp_and_mean", both))
)
_BASE = Reduction("max", part, start=(-math.inf,), merge=larger, finish=largest_of_some)
_BASE_AND_MEAN = Reduction(
    "max_and_mean", twice, start=(-math.inf, 0.0), merge=larger_and_sum, finish=largest_base_and_mean
)

#: The same as `row_formulas` has, in one stage.
SOFTMAX = RowFormula("softmax_at_once", softmax, (_exponents(largest_and_inverse),))
LOG_SOFTMAX = RowFormula("log_softmax_at_once", log_softmax, (_exponents(largest_and_logarithm),))

#: Those that only a number of a row is written of, and all that others have in their place.
EXPONENT_ROWS = (
    RowFormula("logsumexp", logsumexp_of_row, (_BASE, _sum(above_base)), _LOGSUMEXP),
    RowFormula(
        "logsumexp_and_mean",
        logsumexp_and_mean_of_row,
        (_BASE_AND_MEAN, _sum(above_base_with_mean)),
        _LOGSUMEXP_AND_MEAN,
    ),
    _LOGSUMEXP,
    _LOGSUMEXP_AND_MEAN,
    SOFTMAX,
    LOG_SOFTMAX,
)
