"""Rows of which e^x is added up: softmax of rows that are read once, log Σ e^x alone, and losses; see `row_formulas`.

A loss is also given what a row's index names, and the index: see `spec.RowSpec`.
"""

from __future__ import annotations

import math
from typing import Any

from ...functions.arithmetic import exp, exp2_rough, fma, quotient, reciprocal, shared_out
from ...functions.formula import Reduction, RowFormula
from ..elementwise.transformer import loss
from ..reduce.functions import add, add_two, larger, part
from ..reduce.logsumexp import EXPONENTS, distance, finite_part, lost_power, origin_of, power_from


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


def base_of(largest, count):
    """(the base of exponents, the same, 1), as `base_of_narrow`."""
    base = finite_part(largest)
    return base, base, 1.0


def base_of_narrow(largest, count):
    """(the base of exponents, and `logsumexp.origin_of` it)."""
    base = finite_part(largest)
    origin, scale = origin_of(base)
    return base, origin, scale


def above_base(x, base, origin, scale):
    """(e^(x - base),)."""
    return (exp(x - origin),)


def above_base_narrow(x, base, origin, scale):
    """(e^(x - base),), but for `logsumexp.lost_power`."""
    return (power_from(x, origin, scale),)


def above_base_and_distance(x, base, origin, scale):
    """(e^(x - base), `logsumexp.distance`)."""
    return exp(x - origin), distance(x, base)


def above_base_and_distance_narrow(x, base, origin, scale):
    """(`power_from`, its exponent / 2^40): a `distance` would need more registers."""
    exponent = fma(x, scale, -origin)
    return exp2_rough(exponent), exponent * 9.094947017729282e-13


def logarithm_and_mean(total, below, count):
    """(log Σ, mean)."""
    return math.log(total), shared_out(below, count)


def log_sum_of_row(base, origin, scale, logarithm):
    """(base, log Σ e^(x - base))."""
    return base, logarithm - 0.6931471805599453 * lost_power(base, origin, scale)


def loss_of_row(base, origin, scale, logarithm, value, target, ignored, smoothing):
    """(the loss, `log_sum_of_row`)."""
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return loss(base, total, 0.0, value, target, ignored, smoothing)[0], base, total


def smoothed_loss_of_row(base, origin, scale, logarithm, mean, value, target, ignored, smoothing):
    """(the loss, `log_sum_of_row`)."""
    mean = quotient(mean - 9.094947017729282e-13 * lost_power(base, origin, scale), scale)
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return loss(base, total, mean, value, target, ignored, smoothing)[0], base, total


def loss_at_once(base, total, value, target, ignored, smoothing):
    """(the loss, base, log Σ e^(x - base))."""
    return loss(base, total, 0.0, value, target, ignored, smoothing)[0], base, total


def smoothed_loss_at_once(base, total, mean, value, target, ignored, smoothing):
    """(the loss, base, log Σ e^(x - base))."""
    return loss(base, total, mean, value, target, ignored, smoothing)[0], base, total


def both(base, total):
    """(base, log Σ e^(x - base))."""
    return base, total


def loss_that_counts(loss, target, ignored, smoothing):
    """(loss, 1), (0, 0) of what is ignored."""
    return (0.0, 0.0) if target == ignored else (loss, 1.0)


def mean_of_losses(total, number, count, ignored, smoothing):
    """(Σ / how many count,)."""
    return (total / number,)


def any_loss(loss, target, ignored, smoothing):
    """(loss,), which is 0 of what is ignored."""
    return (loss,)


def sum_of_losses(total, count, ignored, smoothing):
    """(Σ,)."""
    return (total,)


#: What losses of all rows are reduced to.
LOSSES = {
    "mean": Reduction("mean_of_losses", loss_that_counts, start=(0.0, 0.0), merge=add_two, finish=mean_of_losses),
    "sum": Reduction("sum_of_losses", any_loss, start=(0.0,), merge=add, finish=sum_of_losses),
}


def _rows(kind: str, base: Any, above: Any, above_and_distance: Any) -> tuple[RowFormula, ...]:
    """log Σ e^x, and losses, of rows whose exponentials are made so; each with all that long rows have in its place."""
    largest = Reduction("max", part, start=(-math.inf,), merge=larger, finish=base)
    total = Reduction("sum", above, start=(0.0,), merge=add, finish=logarithm)
    sums = Reduction("sums", above_and_distance, start=(0.0, 0.0), merge=add_two, finish=logarithm_and_mean)
    found: list[RowFormula] = []
    for name, function, second, whole, at_once in (
        ("log_sum", log_sum_of_row, total, "log_sum", both),
        ("row_loss", loss_of_row, total, "log_sum", loss_at_once),
        ("smoothed_row_loss", smoothed_loss_of_row, sums, "log_sum_and_mean", smoothed_loss_at_once),
    ):
        long = RowFormula(f"{name}_at_once{kind}", at_once, (EXPONENTS[whole + kind],))
        found += RowFormula(name + kind, function, (largest, second), long), long
    return tuple(found)


#: The same as `row_formulas` has, in one stage.
SOFTMAX = RowFormula("softmax_at_once", softmax, (_exponents(largest_and_inverse),))
LOG_SOFTMAX = RowFormula("log_softmax_at_once", log_softmax, (_exponents(largest_and_logarithm),))

#: Those that only numbers of a row are written of; of 16-bit floats they have another name.
EXPONENT_ROWS = (
    *_rows("", base_of, above_base, above_base_and_distance),
    *_rows("_narrow", base_of_narrow, above_base_narrow, above_base_and_distance_narrow),
    SOFTMAX,
    LOG_SOFTMAX,
)
