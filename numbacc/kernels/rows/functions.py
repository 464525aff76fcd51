"""Softmax, losses and normalizations of rows, forward and backward, as scalar functions, each a `RowFormula`.

The function of a stage receives the elements at one index of the row, then the results of the earlier stages, then the
scalar arguments (eps, if there is one). A loss also receives the element that the row's index selects, and the index:
see `spec.RowSpec`.

Two techniques make norms exact. First, they sum the squares of x · unit. `unit_of` is a power of 2, small enough that
squares of large elements do not overflow and large enough that eps stays exact. Second, they keep the mean in two
parts: the mean as first rounded, and its `rest`, the mean of all differences from it. Without the rest, a row of equal
elements would not give 0: the rounding error of the mean would be divided by a standard deviation of the same size.

The scalar arguments of norms are eps · unit², and unit. The suffix of a function's name lists its arguments after x: ""
for none, "w" for a weight, "wb" for a weight and a bias.
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from ...functions.arithmetic import (
    exp,
    exp2_rough,
    fma,
    quotient,
    reciprocal,
    reciprocal_approximate,
    reciprocal_root,
    shared_out,
    to_bfloat16,
    to_float16,
)
from ...functions.formula import Formula
from ...functions.reduction_formula import ReductionFormula, RowFormula
from ..elementwise.transformer import loss, loss_slope
from ..reduce.functions import add, add_two, larger, part, same
from ..reduce.logsumexp import EXPONENTS, distance, finite_part, lost_power, origin_of, power_from


def add_four(a, b, c, d, e, f, g, h):
    """Return (a + e, b + f, c + g, d + h)."""
    return a + e, b + f, c + g, d + h


def sum_of(function: Callable[..., Any], finish: Callable[..., Any] = same, parts: int = 1) -> ReductionFormula:
    """Return the reduction that sums a function's results."""
    merges: dict[int, Callable[..., Any]] = {1: add, 2: add_two, 4: add_four}
    return ReductionFormula("sum", function, start=(0.0,) * parts, merge=merges[parts], finish=finish)


# ---------------------------------------------------------------- softmax


def logarithm(total, count):
    """Return (log Σ,)."""
    return (math.log(total),)


def softmax(x, largest, factor):
    """Return (e^(x - max) / Σ e^(x - max),)."""
    return (exp(x - largest) * factor,)


def log_softmax(x, largest, total):
    """Return (x - max - log Σ e^(x - max),)."""
    return (x - largest - total,)


def largest_and_inverse(largest, total, count):
    """Return (max, 1 / Σ): NaN if max is infinite, because inf - inf is NaN."""
    return largest, reciprocal(total) + (largest - largest)


def largest_and_logarithm(largest, total, count):
    """Return (max, log Σ), with NaN as in `largest_and_inverse`."""
    return largest, math.log(total) + (largest - largest)


def _exponents(finish):
    """Return the reduction that finds max and Σ e^(x - max) in one pass."""
    whole = EXPONENTS["logsumexp"]
    return ReductionFormula(
        "exponents", whole.function, start=whole.start, merge=whole.merge, finish=finish, chunk=whole.chunk
    )


def above(x, largest):
    """Return (e^(x - max),)."""
    return (exp(x - largest),)


def inverse(total, count):
    """Return (1 / Σ,). Σ is at least 1, as the largest element adds 1."""
    return (reciprocal(total),)


def product(dy, y):
    """Return (dy y,)."""
    return (dy * y,)


def softmax_backward(dy, y, total):
    """Return (y (dy - Σ dy y),)."""
    return (y * (dy - total),)


def first_of(dy, y):
    """Return (dy,)."""
    return (dy,)


def log_softmax_backward(dy, y, total):
    """Return (dy - e^y Σ dy,)."""
    return (dy - exp(y) * total,)


_MAXIMUM = ReductionFormula("max", part, start=(-math.inf,), merge=larger, finish=same)

#: Softmax in one stage, of rows that are read once.
SOFTMAX = RowFormula("softmax_at_once", softmax, (_exponents(largest_and_inverse),))
LOG_SOFTMAX = RowFormula("log_softmax_at_once", log_softmax, (_exponents(largest_and_logarithm),))


# ---------------------------------------------------------------- losses, and log Σ e^x alone


def base_of(largest, count):
    """Return (the base of exponents, the same, 1), the format of `base_of_narrow`."""
    base = finite_part(largest)
    return base, base, 1.0


def base_of_narrow(largest, count):
    """Return (the base of exponents, its `logsumexp.origin_of`)."""
    base = finite_part(largest)
    origin, scale = origin_of(base)
    return base, origin, scale


def above_base(x, base, origin, scale):
    """Return (e^(x - base),)."""
    return (exp(x - origin),)


def above_base_narrow(x, base, origin, scale):
    """Return (e^(x - base),), without the factor of `logsumexp.lost_power`."""
    return (power_from(x, origin, scale),)


def above_base_and_distance(x, base, origin, scale):
    """Return (e^(x - base), `logsumexp.distance`)."""
    return exp(x - origin), distance(x, base)


def above_base_and_distance_narrow(x, base, origin, scale):
    """Return (`power_from`, its exponent / 2^40), because a `distance` would need more registers."""
    exponent = fma(x, scale, -origin)
    return exp2_rough(exponent), exponent * 9.094947017729282e-13


def logarithm_and_mean(total, below, count):
    """Return (log Σ, mean)."""
    return math.log(total), shared_out(below, count)


def log_sum_of_row(base, origin, scale, logarithm):
    """Return (base, log Σ e^(x - base))."""
    return base, logarithm - 0.6931471805599453 * lost_power(base, origin, scale)


def mean_of_row(mean, base, origin, scale):
    """Return the mean distance, given that of exponents."""
    return quotient(mean - 9.094947017729282e-13 * lost_power(base, origin, scale), scale)


def loss_of_row(base, origin, scale, logarithm, value, target, ignored, smoothing):
    """Return (the loss, base, log Σ e^(x - base))."""
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return loss(base, total, 0.0, value, target, ignored, smoothing)[0], base, total


def smoothed_loss_of_row(base, origin, scale, logarithm, mean, value, target, ignored, smoothing):
    """Return (the loss, base, log Σ e^(x - base)), with label smoothing."""
    mean = mean_of_row(mean, base, origin, scale)
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return loss(base, total, mean, value, target, ignored, smoothing)[0], base, total


def loss_at_once(base, total, value, target, ignored, smoothing):
    """Return (the loss, base, log Σ e^(x - base))."""
    return loss(base, total, 0.0, value, target, ignored, smoothing)[0], base, total


def smoothed_loss_at_once(base, total, mean, value, target, ignored, smoothing):
    """Return (the loss, base, log Σ e^(x - base))."""
    return loss(base, total, mean, value, target, ignored, smoothing)[0], base, total


def row_slope(x, base, factor, offset, is_ignored):
    """Return (factor e^(x - base) - offset,), or (0,) if the target is ignored: `loss_slope` at any other class."""
    slope = fma(exp(x - base), factor, -offset)
    return (0.0 if is_ignored == 1.0 else slope,)


def row_slope_narrow(x, origin, scale, factor, offset, is_ignored):
    """Return `row_slope`, computed by `power_from`."""
    slope = fma(power_from(x, origin, scale), factor, -offset)
    return (0.0 if is_ignored == 1.0 else slope,)


def constants_of_row(base, total, dy, target, classes, share, ignored, smoothing):
    """Return the arguments of `row_slope` after x: dy / Σ e^(x - base), dy s / classes. `share` is 1 / classes."""
    factor = math.nan if target < 0 or target >= classes else dy * exp(-total)
    return base, factor, dy * smoothing * share, 1.0 if target == ignored else 0.0


def constants_of_row_narrow(base, total, dy, target, classes, share, ignored, smoothing):
    """Return the arguments of `row_slope_narrow` after x."""
    origin, scale = origin_of(base)
    _, factor, offset, is_ignored = constants_of_row(base, total, dy, target, classes, share, ignored, smoothing)
    return origin, scale, factor * exp2_rough(-lost_power(base, origin, scale)), offset, is_ignored


def constants_of_smoothed_row(base, total, mean, dy, target, classes, share, ignored, smoothing):
    """Return `constants_of_row`."""
    return constants_of_row(base, total, dy, target, classes, share, ignored, smoothing)


def constants_of_smoothed_row_narrow(base, total, mean, dy, target, classes, share, ignored, smoothing):
    """Return `constants_of_row_narrow`."""
    return constants_of_row_narrow(base, total, dy, target, classes, share, ignored, smoothing)


def loss_and_slope(value, base, total, dy, target, classes, share, ignored, smoothing):
    """Return (the loss, `loss_slope` at the target)."""
    return smoothed_loss_and_slope(value, base, total, 0.0, dy, target, classes, share, ignored, smoothing)


def smoothed_loss_and_slope(value, base, total, mean, dy, target, classes, share, ignored, smoothing):
    """Return (the loss, `loss_slope` at the target), with label smoothing."""
    (slope,) = loss_slope(value, base, total, dy, target, target, ignored, classes, 1.0 - smoothing, smoothing * share)
    return loss(base, total, mean, value, target, ignored, smoothing)[0], slope


def constants_of_stages(base, origin, scale, logarithm, dy, target, classes, share, ignored, smoothing):
    """Return `constants_of_row`."""
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return constants_of_row(base, total, dy, target, classes, share, ignored, smoothing)


def constants_of_stages_narrow(base, origin, scale, logarithm, dy, target, classes, share, ignored, smoothing):
    """Return `constants_of_row_narrow`."""
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return constants_of_row_narrow(base, total, dy, target, classes, share, ignored, smoothing)


def constants_of_smoothed_stages(base, origin, scale, logarithm, mean, dy, target, classes, share, ignored, smoothing):
    """Return `constants_of_row`."""
    return constants_of_stages(base, origin, scale, logarithm, dy, target, classes, share, ignored, smoothing)


def constants_of_smoothed_stages_narrow(
    base, origin, scale, logarithm, mean, dy, target, classes, share, ignored, smoothing
):
    """Return `constants_of_row_narrow`."""
    return constants_of_stages_narrow(base, origin, scale, logarithm, dy, target, classes, share, ignored, smoothing)


def loss_and_slope_of_stages(value, base, origin, scale, logarithm, dy, target, classes, share, ignored, smoothing):
    """Return `loss_and_slope`."""
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return loss_and_slope(value, base, total, dy, target, classes, share, ignored, smoothing)


def smoothed_loss_and_slope_of_stages(
    value, base, origin, scale, logarithm, mean, dy, target, classes, share, ignored, smoothing
):
    """Return `smoothed_loss_and_slope`."""
    mean = mean_of_row(mean, base, origin, scale)
    base, total = log_sum_of_row(base, origin, scale, logarithm)
    return smoothed_loss_and_slope(value, base, total, mean, dy, target, classes, share, ignored, smoothing)


def base_and_logarithm(base, total):
    """Return (base, log Σ e^(x - base))."""
    return base, total


def loss_that_counts(loss, target, ignored, smoothing):
    """Return (loss, 1), or (0, 0) if the target is ignored."""
    return (0.0, 0.0) if target == ignored else (loss, 1.0)


def mean_of_losses(total, number, count, ignored, smoothing):
    """Return (Σ / number of targets that are not ignored,)."""
    return (total / number,)


def any_loss(loss, target, ignored, smoothing):
    """Return (loss,), which is 0 for ignored targets."""
    return (loss,)


def sum_of_losses(total, count, ignored, smoothing):
    """Return (Σ,)."""
    return (total,)


#: The reductions of losses over all rows.
LOSSES = {
    "mean": ReductionFormula(
        "mean_of_losses", loss_that_counts, start=(0.0, 0.0), merge=add_two, finish=mean_of_losses
    ),
    "sum": ReductionFormula("sum_of_losses", any_loss, start=(0.0,), merge=add, finish=sum_of_losses),
}


class _Slope(NamedTuple):
    """The functions of the gradient of losses.

    Attributes:
        function: of an element.
        rows: of a row whose stages find the largest element and the sums, without and with label smoothing.
        long_rows: of a row with one stage, in the same order.
    """

    function: Callable[..., Any]
    rows: tuple[Callable[..., Any], Callable[..., Any]]
    long_rows: tuple[Callable[..., Any], Callable[..., Any]]


def _rows(kind: str, base: Any, above: Any, above_and_distance: Any, slope: _Slope) -> tuple[RowFormula, ...]:
    """Return the formulas of log Σ e^x and of losses, each with its one-stage variant for long rows."""
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
    of_stages = loss_and_slope_of_stages, smoothed_loss_and_slope_of_stages
    at_once_too = loss_and_slope, smoothed_loss_and_slope
    for k, (name, second, whole) in enumerate(
        (("row_loss_and_slopes", total, "log_sum"), ("smoothed_row_loss_and_slopes", sums, "log_sum_and_mean"))
    ):
        stages = (EXPONENTS[whole + kind],)
        row, long_row = slope.rows[k], slope.long_rows[k]
        long = RowFormula(f"{name}_at_once{kind}", slope.function, stages, row=long_row, chosen=at_once_too[k])
        found += RowFormula(name + kind, slope.function, (largest, second), long, row=row, chosen=of_stages[k]), long
    return tuple(found)


_SLOPE = _Slope(
    row_slope,
    (constants_of_stages, constants_of_smoothed_stages),
    (constants_of_row, constants_of_smoothed_row),
)
_NARROW_SLOPE = _Slope(
    row_slope_narrow,
    (constants_of_stages_narrow, constants_of_smoothed_stages_narrow),
    (constants_of_row_narrow, constants_of_smoothed_row_narrow),
)

#: Formulas of log Σ e^x, losses, and losses with their gradients. Those for 16-bit floats have names with a suffix.
EXPONENT_ROWS = (
    *_rows("", base_of, above_base, above_base_and_distance, _SLOPE),
    *_rows("_narrow", base_of_narrow, above_base_narrow, above_base_and_distance_narrow, _NARROW_SLOPE),
    SOFTMAX,
    LOG_SOFTMAX,
)


# ---------------------------------------------------------------- norms


def unit_of(eps: float, compute: str) -> float:
    """Return the unit for an eps: eps · unit² is far above the smallest float and far below any relevant value."""
    exponent = -60 if compute == "float32" else -500
    return 1.0 if eps < 4.0**exponent else 2.0 ** math.floor(exponent - math.log2(eps) / 2)


# ---------------------------------------------------------------- RMSNorm


def rms_square(x, eps, unit):
    """Return ((x unit)²,)."""
    part = x * unit
    return (part * part,)


def rms_square_w(x, w, eps, unit):
    """Return ((x unit)²,), ignoring the weight."""
    return rms_square(x, eps, unit)


def rms_factor(squares, count, eps, unit):
    """Return (r,), r = 1 / √(Σ x² / n + eps)."""
    return (unit * reciprocal_root(shared_out(squares, count) + eps),)


def rms_norm(x, factor, eps, unit):
    """Return (x r,)."""
    return (x * factor,)


def rms_norm_w(x, w, factor, eps, unit):
    """Return (x r w,)."""
    return (x * factor * w,)


def rms_products(dy, x, eps, unit):
    """Return ((x unit)², dy x unit)."""
    part = x * unit
    return part * part, dy * part


def rms_products_w(dy, x, w, eps, unit):
    """Return ((x unit)², dy w x unit)."""
    return rms_products(dy * w, x, eps, unit)


def rms_factors(squares, products, count, eps, unit):
    """Return (r, r² Σ g x / n), g = dy w."""
    # Kernels divide once for all rows.
    share = 1.0 / count
    factor = reciprocal_root(squares * share + eps)
    return unit * factor, unit * factor * (factor * (products * share))


def rms_backward(dy, x, factor, slope, eps, unit):
    """Return (r (dy - x r² Σ g x / n),)."""
    return ((dy - x * slope) * factor,)


def rms_backward_w(dy, x, w, factor, slope, eps, unit):
    """Return (r (dy w - x r² Σ g x / n),)."""
    return ((dy * w - x * slope) * factor,)


def rms_backward_and_forward_w(dy, x, w, factor, slope, eps, unit):
    """Return (r (dy w - x r² Σ g x / n), x r w)."""
    return (dy * w - x * slope) * factor, x * factor * w


# ---------------------------------------------------------------- LayerNorm


def mean_of(total, count, eps, unit):
    """Return (Σ / n,), given the sum of x unit."""
    return (shared_out(total, count) * reciprocal_approximate(unit),)


def value(x, eps, unit):
    """Return (x unit,)."""
    return (x * unit,)


def value_w(x, w, eps, unit):
    """Return (x unit,)."""
    return (x * unit,)


def value_wb(x, w, b, eps, unit):
    """Return (x unit,)."""
    return (x * unit,)


def apart(x, mean, eps, unit):
    """Return ((d unit)², d unit), d = x - mean."""
    part = (x - mean) * unit
    return part * part, part


def apart_w(x, w, mean, eps, unit):
    """Return ((d unit)², d unit), d = x - mean."""
    return apart(x, mean, eps, unit)


def apart_wb(x, w, b, mean, eps, unit):
    """Return ((d unit)², d unit), d = x - mean."""
    return apart(x, mean, eps, unit)


def spread(squares, lost, eps):
    """Return (0 if all elements are equal, else 1; 1 / √(variance + eps)), from means of squares and differences."""
    square = lost * lost
    variance = squares - square
    # Equal elements leave only rounding errors, of at most 1/2^15. A NaN counts as different.
    is_even = variance <= square * 3.0517578125e-05
    return 0.0 if is_even else 1.0, reciprocal_root((0.0 if is_even else variance) + eps)


def layer_factor(squares, lost, count, eps, unit):
    """Return (the mean's rest, 0 if all elements are equal, else 1, and r = 1 / √(variance + eps))."""
    rest = shared_out(lost, count)
    varies, factor = spread(shared_out(squares, count), rest, eps)
    return rest * reciprocal_approximate(unit), varies, unit * factor


def lacking(mean, rest, varies):
    """Return (mean + rest rounded, and the rounding error of that sum, which is 0 if all elements are equal)."""
    middle = mean + rest
    return middle, varies * ((mean - middle) + rest)


def layer_norm(x, mean, rest, varies, factor, eps, unit):
    """Return (d r,), d = x - mean."""
    middle, lost = lacking(mean, rest, varies)
    return ((x - middle) * factor - lost * factor,)


def layer_norm_w(x, w, mean, rest, varies, factor, eps, unit):
    """Return (d r w,)."""
    return (layer_norm(x, mean, rest, varies, factor, eps, unit)[0] * w,)


def layer_norm_wb(x, w, b, mean, rest, varies, factor, eps, unit):
    """Return (d r w + b,)."""
    return (layer_norm(x, mean, rest, varies, factor, eps, unit)[0] * w + b,)


def middle_of(total, count, eps, unit):
    """Return (Σ / n,), given the sum of x unit."""
    return (total * (1.0 / count) / unit,)


def second(dy, x, eps, unit):
    """Return (x unit,)."""
    return (x * unit,)


def second_w(dy, x, w, eps, unit):
    """Return (x unit,)."""
    return (x * unit,)


def layer_products(dy, x, mean, eps, unit):
    """Return ((d unit)², d unit, dy, dy d unit), d = x - mean."""
    part = (x - mean) * unit
    return part * part, part, dy, dy * part


def layer_products_w(dy, x, w, mean, eps, unit):
    """Return ((d unit)², d unit, g, g d unit), g = dy w."""
    return layer_products(dy * w, x, mean, eps, unit)


def layer_factors(squares, lost, gradients, products, count, eps, unit):
    """Return (`layer_factor`, Σ g / n, r² Σ g d / n)."""
    share = 1.0 / count
    rest, middle = lost * share, gradients * share
    varies, factor = spread(squares * share, rest, eps)
    slope = unit * factor * (factor * (products * share - rest * middle))
    return rest / unit, varies, unit * factor, middle, slope


def layer_backward(dy, x, mean, rest, varies, factor, middle, slope, eps, unit):
    """Return (r (dy - Σ g / n - d r² Σ g d / n),)."""
    center, lost = lacking(mean, rest, varies)
    return ((dy - ((x - center) * slope + (middle - lost * slope))) * factor,)


def layer_backward_w(dy, x, w, mean, rest, varies, factor, middle, slope, eps, unit):
    """Return (r (dy w - Σ g / n - d r² Σ g d / n),)."""
    return layer_backward(dy * w, x, mean, rest, varies, factor, middle, slope, eps, unit)


# ---------------------------------------------------------------- blocks that share a row


def layer_parts(n, mean, squares, lost, gradients, products, eps, unit):
    """Return the partial results of a set of elements, with the mean multiplied by unit."""
    return n, mean * unit, squares, lost, gradients, products


def merged_layer_parts(
    n, mean, squares, lost, gradients, products, m, other, others, more_lost, more_gradients, more_products
):
    """Return the combined count, a center near the mean, and the sums of `layer_products` around it, of two sets.

    The center need not be the exact mean, because the sums of differences are kept, too: the sums around c follow from
    those around b and from b - c. The set with the lower mean comes first, so that the result does not depend on the
    order.
    """
    is_first = mean < other
    low, high, more = (mean, other, m) if is_first else (other, mean, n)
    count = n + m
    # If both sets are empty, the weight is 0, not 0/0.
    middle = low + (high - low) * shared_out(more, count if count > 0.0 else 1.0)
    one, two = mean - middle, other - middle
    squares = moved(squares, lost, n, one) + moved(others, more_lost, m, two)
    products = products + more_products + (one * gradients + two * more_gradients)
    lost = lost + more_lost + (n * one + m * two)
    return count, middle, squares, lost, gradients + more_gradients, products


def moved(squares, lost, n, by):
    """Return Σ (d + by)² of n values d, given Σ d² and Σ d."""
    return squares + (2.0 * lost + n * by) * by


def layer_of_parts(n, mean, squares, lost, gradients, products, count, eps, unit):
    """Return (the mean, and the results of `layer_factors`)."""
    rest, varies, factor, middle, slope = layer_factors(squares, lost, gradients, products, count, eps, unit)
    return mean / unit, rest, varies, factor, middle, slope


_LAYER_PARTS = ReductionFormula(
    "layer_parts", layer_parts, start=(0.0,) * 6, merge=merged_layer_parts, finish=layer_of_parts
)


# ---------------------------------------------------------------- sums of two arrays, and gradients that are added


def plain_total(x, r):
    """Return x + r."""
    return x + r


def float16_total(x, r):
    """Return x + r, rounded to float16."""
    return to_float16(x + r)


def bfloat16_total(x, r):
    """Return x + r, rounded to bfloat16."""
    return to_bfloat16(x + r)


#: Dtype -> the function of a sum in it.
_TOTALS = {"": plain_total, "_float16": float16_total, "_bfloat16": bfloat16_total}


def _norms_of_totals(suffix: str, total: Any) -> tuple[RowFormula, ...]:
    """Return the formulas of norms of x + r. Their second result is x + r, in the dtype that it is stored in."""

    def square(x, r, eps, unit):
        return rms_square(total(x, r), eps, unit)

    def square_w(x, r, w, eps, unit):
        return rms_square(total(x, r), eps, unit)

    def rms(x, r, factor, eps, unit):
        both = total(x, r)
        return rms_norm(both, factor, eps, unit)[0], both

    def rms_w(x, r, w, factor, eps, unit):
        both = total(x, r)
        return rms_norm_w(both, w, factor, eps, unit)[0], both

    def first(x, r, eps, unit):
        return value(total(x, r), eps, unit)

    def first_w(x, r, w, eps, unit):
        return value(total(x, r), eps, unit)

    def first_wb(x, r, w, b, eps, unit):
        return value(total(x, r), eps, unit)

    def distances(x, r, mean, eps, unit):
        return apart(total(x, r), mean, eps, unit)

    def distances_w(x, r, w, mean, eps, unit):
        return apart(total(x, r), mean, eps, unit)

    def distances_wb(x, r, w, b, mean, eps, unit):
        return apart(total(x, r), mean, eps, unit)

    def layer(x, r, mean, rest, varies, factor, eps, unit):
        both = total(x, r)
        return layer_norm(both, mean, rest, varies, factor, eps, unit)[0], both

    def layer_w(x, r, w, mean, rest, varies, factor, eps, unit):
        both = total(x, r)
        return layer_norm_w(both, w, mean, rest, varies, factor, eps, unit)[0], both

    def layer_wb(x, r, w, b, mean, rest, varies, factor, eps, unit):
        both = total(x, r)
        return layer_norm_wb(both, w, b, mean, rest, varies, factor, eps, unit)[0], both

    return (
        RowFormula(f"add_rms_norm{suffix}", rms, (sum_of(square, rms_factor),)),
        RowFormula(f"add_rms_norm_w{suffix}", rms_w, (sum_of(square_w, rms_factor),)),
        *(
            RowFormula(f"add_{name}{suffix}", function, (sum_of(one, mean_of), sum_of(other, layer_factor, 2)))
            for name, function, one, other in (
                ("layer_norm", layer, first, distances),
                ("layer_norm_w", layer_w, first_w, distances_w),
                ("layer_norm_wb", layer_wb, first_wb, distances_wb),
            )
        ),
    )


def rms_products_a(dy, a, x, eps, unit):
    """Return `rms_products`."""
    return rms_products(dy, x, eps, unit)


def rms_products_aw(dy, a, x, w, eps, unit):
    """Return `rms_products_w`."""
    return rms_products_w(dy, x, w, eps, unit)


def rms_backward_a(dy, a, x, factor, slope, eps, unit):
    """Return (`rms_backward` + a,)."""
    return (fma(dy - x * slope, factor, a),)


def rms_backward_aw(dy, a, x, w, factor, slope, eps, unit):
    """Return (`rms_backward_w` + a,)."""
    return (fma(dy * w - x * slope, factor, a),)


def rms_backward_and_forward_aw(dy, a, x, w, factor, slope, eps, unit):
    """Return (`rms_backward_w` + a, x r w)."""
    return fma(dy * w - x * slope, factor, a), x * factor * w


def second_a(dy, a, x, eps, unit):
    """Return (x unit,)."""
    return (x * unit,)


def second_aw(dy, a, x, w, eps, unit):
    """Return (x unit,)."""
    return (x * unit,)


def layer_products_a(dy, a, x, mean, eps, unit):
    """Return `layer_products`."""
    return layer_products(dy, x, mean, eps, unit)


def layer_products_aw(dy, a, x, w, mean, eps, unit):
    """Return `layer_products_w`."""
    return layer_products_w(dy, x, w, mean, eps, unit)


def layer_backward_a(dy, a, x, mean, rest, varies, factor, middle, slope, eps, unit):
    """Return (`layer_backward` + a,)."""
    return (layer_backward(dy, x, mean, rest, varies, factor, middle, slope, eps, unit)[0] + a,)


def layer_backward_aw(dy, a, x, w, mean, rest, varies, factor, middle, slope, eps, unit):
    """Return (`layer_backward_w` + a,)."""
    return (layer_backward(dy * w, x, mean, rest, varies, factor, middle, slope, eps, unit)[0] + a,)


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
    RowFormula(
        "rms_norm_backward_and_forward_w", rms_backward_and_forward_w, (sum_of(rms_products_w, rms_factors, 2),)
    ),
    *(
        RowFormula(name, function, (sum_of(first, middle_of), sum_of(products, layer_factors, 4)), shared=_LAYER_PARTS)
        for name, function, first, products in (
            ("layer_norm_backward", layer_backward, second, layer_products),
            ("layer_norm_backward_w", layer_backward_w, second_w, layer_products_w),
            ("add_layer_norm_backward", layer_backward_a, second_a, layer_products_a),
            ("add_layer_norm_backward_w", layer_backward_aw, second_aw, layer_products_aw),
        )
    ),
    RowFormula("add_rms_norm_backward", rms_backward_a, (sum_of(rms_products_a, rms_factors, 2),)),
    RowFormula("add_rms_norm_backward_w", rms_backward_aw, (sum_of(rms_products_aw, rms_factors, 2),)),
    RowFormula(
        "add_rms_norm_backward_and_forward_w", rms_backward_and_forward_aw, (sum_of(rms_products_aw, rms_factors, 2),)
    ),
    *(each for suffix, total in _TOTALS.items() for each in _norms_of_totals(suffix, total)),
)


# ---------------------------------------------------------------- gradients of weights


def rms_gradient(dy, x, factor):
    """Return (dy x r,)."""
    return (dy * (x * factor),)


def layer_gradients(dy, x, mean, rest, varies, factor):
    """Return (dy d r, dy)."""
    middle, lost = lacking(mean, rest, varies)
    return dy * ((x - middle) * factor - lost * factor), dy


def rms_sum(dy, x, w, factor, slope):
    """Return (dy x r,)."""
    return (dy * (factor * x),)


def layer_sum(dy, x, w, mean, rest, varies, factor, middle, slope):
    """Return (dy d r,)."""
    return (layer_gradients(dy, x, mean, rest, varies, factor)[0],)


def layer_sums(dy, x, w, mean, rest, varies, factor, middle, slope):
    """Return (dy d r, dy)."""
    return layer_gradients(dy, x, mean, rest, varies, factor)


def rms_sum_a(dy, a, x, w, factor, slope):
    """Return `rms_sum`."""
    return rms_sum(dy, x, w, factor, slope)


def layer_sum_a(dy, a, x, w, mean, rest, varies, factor, middle, slope):
    """Return `layer_sum`."""
    return layer_sum(dy, x, w, mean, rest, varies, factor, middle, slope)


def layer_sums_a(dy, a, x, w, mean, rest, varies, factor, middle, slope):
    """Return `layer_sums`."""
    return layer_gradients(dy, x, mean, rest, varies, factor)


def both(a, b):
    """Return (a, b)."""
    return a, b


def same_two(a, b, count):
    """Return (a, b)."""
    return a, b


def first_same(a, b, count):
    """Return (a,)."""
    return (a,)


#: Reductions over all rows: the gradients of a weight and of a bias, and two sums at once.
GRADIENTS = {
    "rms_norm": sum_of(rms_gradient),
    "layer_norm": sum_of(layer_gradients, first_same, 2),
    "layer_norm_bias": sum_of(layer_gradients, same_two, 2),
    "two": sum_of(both, same_two, 2),
}

#: The terms of each row that `GRADIENTS` sums, given the results of all stages.
SUMS = {
    "rms_norm": Formula("rms_norm_sum", rms_sum),
    "layer_norm": Formula("layer_norm_sum", layer_sum),
    "layer_norm_bias": Formula("layer_norm_sums", layer_sums),
    "add_rms_norm": Formula("add_rms_norm_sum", rms_sum_a),
    "add_layer_norm": Formula("add_layer_norm_sum", layer_sum_a),
    "add_layer_norm_bias": Formula("add_layer_norm_sums", layer_sums_a),
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
    """Return a formula of this module by name, for unpickling."""
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
