"""Reductions of arrays over one axis, several or all: sums and means, extremes and where they are, truth, norms.

    f(x, *, axis=None, keepdims=False, out=None, stream=None)

`axis` is None for all axes, an integer, or a tuple of them; an axis that is reduced goes, or with `keepdims` has length
1. The order in which numbers are merged is fixed by shapes and strides: the same inputs give the same bits on every
run. Sums are merged as a tree, so that their error grows with the logarithm of the length.
"""

from __future__ import annotations

from .extremes import (
    all,
    all_plan,
    any,
    any_plan,
    argmax,
    argmax_plan,
    argmin,
    argmin_plan,
    max,
    max_plan,
    min,
    min_plan,
)
from .logsum import logsumexp, logsumexp_plan
from .sums import (
    mean,
    mean_plan,
    norm,
    norm_plan,
    prod,
    prod_plan,
    std,
    std_plan,
    sum,
    sum_plan,
    var,
    var_plan,
)

__all__ = [
    "all",
    "all_plan",
    "any",
    "any_plan",
    "argmax",
    "argmax_plan",
    "argmin",
    "argmin_plan",
    "logsumexp",
    "logsumexp_plan",
    "max",
    "max_plan",
    "mean",
    "mean_plan",
    "min",
    "min_plan",
    "norm",
    "norm_plan",
    "prod",
    "prod_plan",
    "std",
    "std_plan",
    "sum",
    "sum_plan",
    "var",
    "var_plan",
]
