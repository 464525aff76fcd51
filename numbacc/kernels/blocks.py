"""Formulas of the blocks that transformers are made of: cross entropy, and rotary embedding, forward and backward.

Sources: Su et al. 2021 (arXiv:2104.09864), RoPE; Szegedy et al. 2015 (arXiv:1512.00567), label smoothing.
"""

from __future__ import annotations

from .arithmetic import exp
from .formula import Formula


def loss(total, mean, value, target, ignored, smoothing):
    """log Σ e^x - (1 - s) x_t - s mean(x), where x_t is the target's; 0 of what is ignored.

    Where nothing is smoothed the mean has no say: it may be infinite.
    """
    if target == ignored:
        return (0.0,)
    if smoothing == 0.0:
        return (total - value,)
    return (total - (value - smoothing * (value - mean)),)


def loss_slope(x, total, dy, target, column, ignored, classes, kept, smoothed):
    """dy (softmax(x) - what is to be predicted): `kept` at the target, `smoothed` everywhere; 0 of what is ignored.

    `total` is log Σ e^x, so that softmax(x) is e^(x - total). A target below 0 counts from the end of the classes.
    """
    if target == ignored:
        return (0.0,)
    wanted = smoothed + kept if target == column or target + classes == column else smoothed
    return (dy * (exp(x - total) - wanted),)


def rope(a, b, cos, sin):
    """(a, b) turned by an angle: (a cos - b sin, b cos + a sin)."""
    return a * cos - b * sin, b * cos + a * sin


def rope_backward(a, b, cos, sin):
    """(a, b) turned back by an angle."""
    return a * cos + b * sin, b * cos - a * sin


#: Formulas by name. What they mean in NumPy says who plans them.
BLOCKS = {function.__name__: Formula(function.__name__, function) for function in (loss, rope, rope_backward)}
BLOCKS["loss_slope"] = Formula("loss_slope", loss_slope, heavy=(2,))


def named(name: str) -> Formula:
    """A formula of this module, as pickles have it."""
    return BLOCKS[name]


for _name, _formula in BLOCKS.items():
    _formula.origin = (named, (_name,))
