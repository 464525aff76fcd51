"""Formulas of transformer blocks: cross entropy and rotary embedding, forward and backward.

Sources: Su et al. 2021 (arXiv:2104.09864), RoPE; Szegedy et al. 2015 (arXiv:1512.00567), label smoothing.
"""

from __future__ import annotations

import math

from ...functions.arithmetic import exp
from ...functions.formula import Formula
from ..reduce.logsumexp import distance


def loss(base, total, mean, value, target, ignored, smoothing):
    """Return log Σ e^x - (1 - s) x_t - s mean(x), where x_t belongs to the target.

    The result is 0 if the target is ignored, and NaN if it is not a class. All values are relative to `base`, the
    largest: `total` is log Σ e^(x - base), `mean` is the mean of `logsumexp.distance`. Thus large common offsets cost
    no accuracy.
    """
    if target == ignored:
        return (0.0,)
    if target < 0:
        return (math.nan,)
    if smoothing == 0.0:
        return (total - (value - base),)
    # If the target's weight is 0, its element may be infinite.
    own = (1.0 - smoothing) * distance(value, base) if smoothing < 1.0 else (0.0 if value == value else value)
    return (total - (own + smoothing * mean) * 1099511627776.0,)


def loss_slope(x, base, total, dy, target, column, ignored, classes, kept, smoothed):
    """Return dy (softmax(x) - p), where p is `smoothed` everywhere and `kept` is added at the target.

    The result is 0 if the target is ignored, NaN if it is not a class. `total` is log Σ e^(x - base), so that
    softmax(x) is e^(x - base - total).
    """
    wanted = smoothed + kept if target == column else smoothed
    slope = dy * (exp(x - base - total) - wanted)
    # Both choices come last, so that kernels select instead of branching, with 48 registers instead of 64.
    if target == ignored:
        return (0.0,)
    return (math.nan if target < 0 or target >= classes else slope,)


def rope(a, b, cos, sin):
    """Return (a, b) rotated by an angle: (a cos - b sin, b cos + a sin)."""
    return a * cos - b * sin, b * cos + a * sin


def rope_backward(a, b, cos, sin):
    """Return (a, b) rotated back by an angle."""
    return a * cos + b * sin, b * cos - a * sin


#: Formulas by name. The planning modules define their meaning in NumPy.
BLOCKS = {function.__name__: Formula(function.__name__, function) for function in (loss, rope, rope_backward)}
BLOCKS["loss_slope"] = Formula("loss_slope", loss_slope, heavy=(2,))


def named(name: str) -> Formula:
    """Return a formula of this module by name, for unpickling."""
    return BLOCKS[name]


for _name, _formula in BLOCKS.items():
    _formula.origin = (named, (_name,))
