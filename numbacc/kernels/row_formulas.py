"""Softmax and normalizations of rows, forward and backward, as scalar formulas: see `formula.RowFormula`.

A stage's function is given the numbers at one place of the row, and behind them the results of the stages before, then
the scalar arguments: eps, where there is one.
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from .arithmetic import exp, reciprocal, reciprocal_root, shared_out
from .fold_formulas import add, add_two, larger, part, same
from .formula import Formula, Reduction, RowFormula
from .row_exponents import EXPONENT_ROWS, LOG_SOFTMAX, LOSSES, SOFTMAX, log_softmax, logarithm, softmax


def _sum(function, finish=same, parts=1):
    merges: dict[int, Callable[..., Any]] = {1: add, 2: add_two, 3: add_three}
    return Reduction("sum", function, start=(0.0,) * parts, merge=merges[parts], finish=finish)


def add_three(a, b, c, d, e, f):
    """(a + d, b + e, c + f)."""
    return a + d, b + e, c + f


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

# ---------------------------------------------------------------- normalization

# x, weight and bias are followed by what the variant has of them: "" none, "w" a weight, "wb" a bias, too.


def rms_factor(total, count, eps):
    """(1 / √(Σ x² / n + eps),)."""
    return (reciprocal_root(shared_out(total, count) + eps),)


def rms_square(x, eps):
    """(x²,)."""
    return (x * x,)


def rms_square_w(x, w, eps):
    """(x²,)."""
    return (x * x,)


def rms_norm(x, factor, eps):
    """(x r,)."""
    return (x * factor,)


def rms_norm_w(x, w, factor, eps):
    """(x r w,)."""
    return (x * factor * w,)


def mean_of(total, count, eps):
    """(Σ / n,)."""
    return (shared_out(total, count),)


def value(x, eps):
    """(x,)."""
    return (x,)


def value_w(x, w, eps):
    """(x,)."""
    return (x,)


def value_wb(x, w, b, eps):
    """(x,)."""
    return (x,)


def apart(x, mean, eps):
    """((x - mean)²,)."""
    return ((x - mean) * (x - mean),)


def apart_w(x, w, mean, eps):
    """((x - mean)²,)."""
    return ((x - mean) * (x - mean),)


def apart_wb(x, w, b, mean, eps):
    """((x - mean)²,)."""
    return ((x - mean) * (x - mean),)


def layer_norm(x, mean, factor, eps):
    """((x - mean) r,)."""
    return ((x - mean) * factor,)


def layer_norm_w(x, w, mean, factor, eps):
    """((x - mean) r w,)."""
    return ((x - mean) * factor * w,)


def layer_norm_wb(x, w, b, mean, factor, eps):
    """((x - mean) r w + b,)."""
    return ((x - mean) * factor * w + b,)


# ---------------------------------------------------------------- and backward


def rms_products(dy, x, eps):
    """(x², dy x)."""
    return x * x, dy * x


def rms_products_w(dy, x, w, eps):
    """(x², dy w x)."""
    return x * x, dy * w * x


def rms_factors(squares, products, count, eps):
    """(r, r³ Σ g x / n), g = dy w."""
    # Kernels divide once for all rows.
    share = 1.0 / count
    factor = reciprocal_root(squares * share + eps)
    return factor, factor * (factor * (factor * (products * share)))


def rms_backward(dy, x, factor, slope, eps):
    """(dy r - x r³ Σ g x / n,)."""
    return (dy * factor - x * slope,)


def rms_backward_w(dy, x, w, factor, slope, eps):
    """(dy w r - x r³ Σ g x / n,)."""
    return (dy * factor * w - x * slope,)


def middle_of(total, count, eps):
    """(Σ / n,)."""
    return (total * (1.0 / count),)


def second(dy, x, eps):
    """(x,)."""
    return (x,)


def second_w(dy, x, w, eps):
    """(x,)."""
    return (x,)


def layer_products(dy, x, mean, eps):
    """(d², dy, dy d), d = x - mean."""
    d = x - mean
    return d * d, dy, dy * d


def layer_products_w(dy, x, w, mean, eps):
    """(d², g, g d), d = x - mean, g = dy w."""
    d, g = x - mean, dy * w
    return d * d, g, g * d


def layer_factors(squares, gradients, products, count, eps):
    """(r, r Σ g / n, r³ Σ g d / n)."""
    share = 1.0 / count
    factor = reciprocal_root(squares * share + eps)
    return factor, factor * (gradients * share), factor * (factor * (factor * (products * share)))


def layer_backward(dy, x, mean, factor, middle, slope, eps):
    """(dy r - r Σ g / n - d r³ Σ g d / n,)."""
    return (dy * factor - ((x - mean) * slope + middle),)


def layer_backward_w(dy, x, w, mean, factor, middle, slope, eps):
    """(dy w r - r Σ g / n - d r³ Σ g d / n,)."""
    return (dy * factor * w - ((x - mean) * slope + middle),)


def layer_parts(n, mean, squares, gradients, products):
    """The same."""
    return n, mean, squares, gradients, products


def merged_layer_parts(n, mean, squares, gradients, products, m, other, others, more_gradients, more_products):
    """How many elements two sets have, their mean, Σ d², Σ g and Σ g d, d their distances to it.

    As in `fold_formulas.merged_moments`, without what is lost by rounding: Σ g (x - c) is that of another c and the
    distance between the two times Σ g. The set of the lower mean comes first, so that either order gives the same.
    """
    is_first = mean < other
    fewer, more = (n, m) if is_first else (m, n)
    low, high = (mean, other) if is_first else (other, mean)
    upper = more_gradients if is_first else gradients
    count, total, apart = n + m, gradients + more_gradients, high - low
    # Of two sets without elements the weight is 0, not 0/0.
    weight = shared_out(more, count if count > 0.0 else 1.0)
    squares = squares + others + apart * (fewer * weight) * apart
    return count, low + apart * weight, squares, total, products + more_products + apart * (upper - total * weight)


def layer_of_parts(n, mean, squares, gradients, products, count, eps):
    """(mean, and `layer_factors`)."""
    factor, middle, slope = layer_factors(squares, gradients, products, count, eps)
    return mean, factor, middle, slope


_LAYER_PARTS = Reduction("layer_parts", layer_parts, start=(0.0,) * 5, merge=merged_layer_parts, finish=layer_of_parts)

_ALL = (
    RowFormula("softmax", softmax, (_MAXIMUM, _sum(above, inverse)), SOFTMAX),
    RowFormula("log_softmax", log_softmax, (_MAXIMUM, _sum(above, logarithm)), LOG_SOFTMAX),
    *EXPONENT_ROWS,
    RowFormula("softmax_backward", softmax_backward, (_sum(product),)),
    RowFormula("log_softmax_backward", log_softmax_backward, (_sum(first_of),)),
    RowFormula("rms_norm", rms_norm, (_sum(rms_square, rms_factor),)),
    RowFormula("rms_norm_w", rms_norm_w, (_sum(rms_square_w, rms_factor),)),
    RowFormula("layer_norm", layer_norm, (_sum(value, mean_of), _sum(apart, rms_factor))),
    RowFormula("layer_norm_w", layer_norm_w, (_sum(value_w, mean_of), _sum(apart_w, rms_factor))),
    RowFormula("layer_norm_wb", layer_norm_wb, (_sum(value_wb, mean_of), _sum(apart_wb, rms_factor))),
    RowFormula("rms_norm_backward", rms_backward, (_sum(rms_products, rms_factors, 2),)),
    RowFormula("rms_norm_backward_w", rms_backward_w, (_sum(rms_products_w, rms_factors, 2),)),
    *(
        RowFormula(name, function, (_sum(first, middle_of), _sum(products, layer_factors, 3)), shared=_LAYER_PARTS)
        for name, function, first, products in (
            ("layer_norm_backward", layer_backward, second, layer_products),
            ("layer_norm_backward_w", layer_backward_w, second_w, layer_products_w),
        )
    ),
)

#: Formulas of rows by name.
ROW_FORMULAS = {formula.name: formula for formula in _ALL}


# ---------------------------------------------------------------- gradients of weights


def rms_gradient(dy, x, factor):
    """(dy x r,)."""
    return (dy * (x * factor),)


def layer_gradients(dy, x, mean, factor):
    """(dy (x - mean) r, dy)."""
    return dy * ((x - mean) * factor), dy


def rms_sum(dy, x, w, factor, slope):
    """(dy x r,)."""
    return (dy * factor * x,)


def layer_sum(dy, x, w, mean, factor, middle, slope):
    """(dy (x - mean) r,)."""
    return (dy * factor * (x - mean),)


def layer_sums(dy, x, w, mean, factor, middle, slope):
    """(dy (x - mean) r, dy)."""
    return dy * factor * (x - mean), dy


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
    "rms_norm": _sum(rms_gradient),
    "layer_norm": _sum(layer_gradients, first_same, 2),
    "layer_norm_bias": _sum(layer_gradients, same_two, 2),
    "two": _sum(both, same_two, 2),
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
