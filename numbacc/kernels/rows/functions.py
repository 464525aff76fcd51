"""Softmax, losses and normalizations of rows, forward and backward, as scalar formulas, each a `RowFormula`.

A stage's function is given the numbers at one place of the row, and behind them the results of the stages before, then
the scalar arguments: eps, where there is one. A loss is also given what a row's index names, and the index: see
`spec.RowSpec`.

Two things make norms exact. Squares are added up of x · unit: `unit_of` is a power of 2 so small that squares of large
numbers do not overflow, yet so large that eps is exact. And a mean is kept in two parts: the mean as it was rounded
first, and the mean of all distances to that, its `rest`. Without the rest, a row of equal numbers would not be 0, as
the rounding error of the mean would be divided by a variance of the same size.

The scalar arguments of norms are eps · unit², and unit. Names of their functions end in what a variant is given after
x: "" nothing, "w" a weight, "wb" a bias, too.
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from ...functions.arithmetic import (
    exp,
    exp2_rough,
    fma,
    quotient,
    reciprocal,
    reciprocal_approximate,
    reciprocal_root,
    shared_out,
)
from ...functions.formula import Formula
from ...functions.reduction_formula import ReductionFormula, RowFormula
from ..elementwise.transformer import loss
from ..reduce.functions import add, add_two, larger, part, same
from ..reduce.logsumexp import EXPONENTS, distance, finite_part, lost_power, origin_of, power_from


def add_four(a, b, c, d, e, f, g, h):
    """(a + e, b + f, c + g, d + h)."""
    return a + e, b + f, c + g, d + h


def sum_of(function: Callable[..., Any], finish: Callable[..., Any] = same, parts: int = 1) -> ReductionFormula:
    """The reduction that adds up a function's results."""
    merges: dict[int, Callable[..., Any]] = {1: add, 2: add_two, 4: add_four}
    return ReductionFormula("sum", function, start=(0.0,) * parts, merge=merges[parts], finish=finish)


# ---------------------------------------------------------------- softmax


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
    return ReductionFormula(
        "exponents", whole.function, start=whole.start, merge=whole.merge, finish=finish, chunk=whole.chunk
    )


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


_MAXIMUM = ReductionFormula("max", part, start=(-math.inf,), merge=larger, finish=same)

#: Softmax in one stage, of rows that are read once.
SOFTMAX = RowFormula("softmax_at_once", softmax, (_exponents(largest_and_inverse),))
LOG_SOFTMAX = RowFormula("log_softmax_at_once", log_softmax, (_exponents(largest_and_logarithm),))


# ---------------------------------------------------------------- losses, and log Σ e^x alone


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


def base_and_logarithm(base, total):
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
    "mean": ReductionFormula(
        "mean_of_losses", loss_that_counts, start=(0.0, 0.0), merge=add_two, finish=mean_of_losses
    ),
    "sum": ReductionFormula("sum_of_losses", any_loss, start=(0.0,), merge=add, finish=sum_of_losses),
}


def _rows(kind: str, base: Any, above: Any, above_and_distance: Any) -> tuple[RowFormula, ...]:
    """log Σ e^x, and losses, of rows whose exponentials are made so; each with all that long rows have in its place."""
    largest = ReductionFormula("max", part, start=(-math.inf,), merge=larger, finish=base)
    total = ReductionFormula("sum", above, start=(0.0,), merge=add, finish=logarithm)
    sums = ReductionFormula("sums", above_and_distance, start=(0.0, 0.0), merge=add_two, finish=logarithm_and_mean)
    found: list[RowFormula] = []
    for name, function, second, whole, at_once in (
        ("log_sum", log_sum_of_row, total, "log_sum", base_and_logarithm),
        ("row_loss", loss_of_row, total, "log_sum", loss_at_once),
        ("smoothed_row_loss", smoothed_loss_of_row, sums, "log_sum_and_mean", smoothed_loss_at_once),
    ):
        long = RowFormula(f"{name}_at_once{kind}", at_once, (EXPONENTS[whole + kind],))
        found += RowFormula(name + kind, function, (largest, second), long), long
    return tuple(found)


#: Those that only numbers of a row are written of; of 16-bit floats they have another name.
EXPONENT_ROWS = (
    *_rows("", base_of, above_base, above_base_and_distance),
    *_rows("_narrow", base_of_narrow, above_base_narrow, above_base_and_distance_narrow),
    SOFTMAX,
    LOG_SOFTMAX,
)


# ---------------------------------------------------------------- norms


def unit_of(eps: float, compute: str) -> float:
    """The unit for an eps: eps · unit² is far above the smallest float, and far below any number that matters."""
    exponent = -60 if compute == "float32" else -500
    return 1.0 if eps < 4.0**exponent else 2.0 ** math.floor(exponent - math.log2(eps) / 2)


# ---------------------------------------------------------------- RMSNorm


def rms_square(x, eps, unit):
    """((x unit)²,)."""
    part = x * unit
    return (part * part,)


def rms_square_w(x, w, eps, unit):
    """`rms_square`."""
    return rms_square(x, eps, unit)


def rms_factor(squares, count, eps, unit):
    """(r,), r = 1 / √(Σ x² / n + eps)."""
    return (unit * reciprocal_root(shared_out(squares, count) + eps),)


def rms_norm(x, factor, eps, unit):
    """(x r,)."""
    return (x * factor,)


def rms_norm_w(x, w, factor, eps, unit):
    """(x r w,)."""
    return (x * factor * w,)


def rms_products(dy, x, eps, unit):
    """((x unit)², dy x unit)."""
    part = x * unit
    return part * part, dy * part


def rms_products_w(dy, x, w, eps, unit):
    """((x unit)², dy w x unit)."""
    return rms_products(dy * w, x, eps, unit)


def rms_factors(squares, products, count, eps, unit):
    """(r, r² Σ g x / n), g = dy w."""
    # Kernels divide once for all rows.
    share = 1.0 / count
    factor = reciprocal_root(squares * share + eps)
    return unit * factor, unit * factor * (factor * (products * share))


def rms_backward(dy, x, factor, slope, eps, unit):
    """(r (dy - x r² Σ g x / n),)."""
    return ((dy - x * slope) * factor,)


def rms_backward_w(dy, x, w, factor, slope, eps, unit):
    """(r (dy w - x r² Σ g x / n),)."""
    return ((dy * w - x * slope) * factor,)


# ---------------------------------------------------------------- LayerNorm


def mean_of(total, count, eps, unit):
    """(Σ / n,), given the sum of x unit."""
    return (shared_out(total, count) * reciprocal_approximate(unit),)


def value(x, eps, unit):
    """(x unit,)."""
    return (x * unit,)


def value_w(x, w, eps, unit):
    """(x unit,)."""
    return (x * unit,)


def value_wb(x, w, b, eps, unit):
    """(x unit,)."""
    return (x * unit,)


def apart(x, mean, eps, unit):
    """((d unit)², d unit), d = x - mean."""
    part = (x - mean) * unit
    return part * part, part


def apart_w(x, w, mean, eps, unit):
    """`apart`."""
    return apart(x, mean, eps, unit)


def apart_wb(x, w, b, mean, eps, unit):
    """`apart`."""
    return apart(x, mean, eps, unit)


def spread(squares, lost, eps):
    """(1 or 0 if all numbers are equal, 1 / √(variance + eps)), of the means of squares and of distances."""
    square = lost * lost
    variance = squares - square
    # Equal numbers leave only rounding errors, of at most 1/2^15. NaN varies.
    is_even = variance <= square * 3.0517578125e-05
    return 0.0 if is_even else 1.0, reciprocal_root((0.0 if is_even else variance) + eps)


def layer_factor(squares, lost, count, eps, unit):
    """(the mean's rest, 1 or 0 if all numbers are equal, r), r = 1 / √(variance + eps), given the sums of `apart`."""
    rest = shared_out(lost, count)
    varies, factor = spread(shared_out(squares, count), rest, eps)
    return rest * reciprocal_approximate(unit), varies, unit * factor


def lacking(mean, rest, varies):
    """(mean + rest, rounded, and what that lacks). If all numbers are equal they are equal to the former."""
    middle = mean + rest
    return middle, varies * ((mean - middle) + rest)


def layer_norm(x, mean, rest, varies, factor, eps, unit):
    """(d r,), d = x - mean."""
    middle, lost = lacking(mean, rest, varies)
    return ((x - middle) * factor - lost * factor,)


def layer_norm_w(x, w, mean, rest, varies, factor, eps, unit):
    """(d r w,)."""
    return (layer_norm(x, mean, rest, varies, factor, eps, unit)[0] * w,)


def layer_norm_wb(x, w, b, mean, rest, varies, factor, eps, unit):
    """(d r w + b,)."""
    return (layer_norm(x, mean, rest, varies, factor, eps, unit)[0] * w + b,)


def middle_of(total, count, eps, unit):
    """`mean_of`."""
    return (total * (1.0 / count) / unit,)


def second(dy, x, eps, unit):
    """(x unit,)."""
    return (x * unit,)


def second_w(dy, x, w, eps, unit):
    """(x unit,)."""
    return (x * unit,)


def layer_products(dy, x, mean, eps, unit):
    """((d unit)², d unit, dy, dy d unit), d = x - mean."""
    part = (x - mean) * unit
    return part * part, part, dy, dy * part


def layer_products_w(dy, x, w, mean, eps, unit):
    """((d unit)², d unit, g, g d unit), g = dy w."""
    return layer_products(dy * w, x, mean, eps, unit)


def layer_factors(squares, lost, gradients, products, count, eps, unit):
    """(`layer_factor`, Σ g / n, r² Σ g d / n)."""
    share = 1.0 / count
    rest, middle = lost * share, gradients * share
    varies, factor = spread(squares * share, rest, eps)
    slope = unit * factor * (factor * (products * share - rest * middle))
    return rest / unit, varies, unit * factor, middle, slope


def layer_backward(dy, x, mean, rest, varies, factor, middle, slope, eps, unit):
    """(r (dy - Σ g / n - d r² Σ g d / n),)."""
    center, lost = lacking(mean, rest, varies)
    return ((dy - ((x - center) * slope + (middle - lost * slope))) * factor,)


def layer_backward_w(dy, x, w, mean, rest, varies, factor, middle, slope, eps, unit):
    """(r (dy w - Σ g / n - d r² Σ g d / n),)."""
    return layer_backward(dy * w, x, mean, rest, varies, factor, middle, slope, eps, unit)


# ---------------------------------------------------------------- of blocks that share a row


def layer_parts(n, mean, squares, lost, gradients, products, eps, unit):
    """The same, with the mean times unit."""
    return n, mean * unit, squares, lost, gradients, products


def merged_layer_parts(
    n, mean, squares, lost, gradients, products, m, other, others, more_lost, more_gradients, more_products
):
    """How many elements two sets have, a number near their mean, and the sums of `layer_products` from there.

    Any number will do in the place of the mean, as sums of distances are kept, too: those of x - c follow from those of
    x - b and from b - c. The set of the lower mean comes first, so that either order gives the same.
    """
    is_first = mean < other
    low, high, more = (mean, other, m) if is_first else (other, mean, n)
    count = n + m
    # Of two sets without elements the weight is 0, not 0/0.
    middle = low + (high - low) * shared_out(more, count if count > 0.0 else 1.0)
    one, two = mean - middle, other - middle
    squares = moved(squares, lost, n, one) + moved(others, more_lost, m, two)
    products = products + more_products + (one * gradients + two * more_gradients)
    lost = lost + more_lost + (n * one + m * two)
    return count, middle, squares, lost, gradients + more_gradients, products


def moved(squares, lost, n, by):
    """Σ (d + by)² of n numbers d, of Σ d² and Σ d."""
    return squares + (2.0 * lost + n * by) * by


def layer_of_parts(n, mean, squares, lost, gradients, products, count, eps, unit):
    """(mean, and `layer_factors`)."""
    rest, varies, factor, middle, slope = layer_factors(squares, lost, gradients, products, count, eps, unit)
    return mean / unit, rest, varies, factor, middle, slope


_LAYER_PARTS = ReductionFormula(
    "layer_parts", layer_parts, start=(0.0,) * 6, merge=merged_layer_parts, finish=layer_of_parts
)


#: The formulas of rows.
NORMS = (
    RowFormula("rms_norm", rms_norm, (sum_of(rms_square, rms_factor),)),
    RowFormula("rms_norm_w", rms_norm_w, (sum_of(rms_square_w, rms_factor),)),
    *(
        RowFormula(name, function, (sum_of(first, mean_of), sum_of(distances, layer_factor, 2)))
        for name, function, first, distances in (
            ("layer_norm", layer_norm, value, apart),
            ("layer_norm_w", layer_norm_w, value_w, apart_w),
            ("layer_norm_wb", layer_norm_wb, value_wb, apart_wb),
        )
    ),
    RowFormula("rms_norm_backward", rms_backward, (sum_of(rms_products, rms_factors, 2),)),
    RowFormula("rms_norm_backward_w", rms_backward_w, (sum_of(rms_products_w, rms_factors, 2),)),
    *(
        RowFormula(name, function, (sum_of(first, middle_of), sum_of(products, layer_factors, 4)), shared=_LAYER_PARTS)
        for name, function, first, products in (
            ("layer_norm_backward", layer_backward, second, layer_products),
            ("layer_norm_backward_w", layer_backward_w, second_w, layer_products_w),
        )
    ),
)


# ---------------------------------------------------------------- gradients of weights


def rms_gradient(dy, x, factor):
    """(dy x r,)."""
    return (dy * (x * factor),)


def layer_gradients(dy, x, mean, rest, varies, factor):
    """(dy d r, dy)."""
    middle, lost = lacking(mean, rest, varies)
    return dy * ((x - middle) * factor - lost * factor), dy


def rms_sum(dy, x, w, factor, slope):
    """(dy x r,)."""
    return (dy * (factor * x),)


def layer_sum(dy, x, w, mean, rest, varies, factor, middle, slope):
    """(dy d r,)."""
    return (layer_gradients(dy, x, mean, rest, varies, factor)[0],)


def layer_sums(dy, x, w, mean, rest, varies, factor, middle, slope):
    """(dy d r, dy)."""
    return layer_gradients(dy, x, mean, rest, varies, factor)


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


# ---------------------------------------------------------------- all of them by name

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
