"""Cross entropy and rotary embedding in NumPy, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast
from ..errors import IndexRangeError

Array = NDArray[Any]


def rope(a: Array, b: Array, cos: Array, sin: Array, compute: str) -> tuple[Array, Array]:
    """Return (a cos - b sin, b cos + a sin)."""
    a, b, cos, sin = (cast(each, np.dtype(compute)) for each in (a, b, cos, sin))
    return a * cos - b * sin, b * cos + a * sin


def rope_backward(a: Array, b: Array, cos: Array, sin: Array, compute: str) -> tuple[Array, Array]:
    """Return (a cos + b sin, b cos - a sin)."""
    a, b, cos, sin = (cast(each, np.dtype(compute)) for each in (a, b, cos, sin))
    return a * cos + b * sin, b * cos - a * sin


def loss(
    base: Array, total: Array, mean: Array, value: Array, target: Array, ignored: int, smoothing: float, classes: int
) -> tuple[Array]:
    """Return (log Σ e^x - (1 - s) x_t - s mean(x),), with 0 for ignored targets.

    `base` is the largest number of each row, `total` is log Σ e^(x - base), and `mean` is the mean of x - base, divided
    by 2^40.
    """
    check_classes(target, ignored, classes)
    number, value = total.dtype.type, cast(value, total.dtype)
    with np.errstate(all="ignore"):
        if smoothing:
            part = number(2.0**-40)
            own = number(1 - smoothing) * (value * part - base * part) if smoothing < 1 else number(0)
            found = total - (own + number(smoothing) * mean) / part
        else:
            found = total - (value - base)
    return (np.where(target == ignored, number(0), found),)


def loss_slope(
    x: Array,
    base: Array,
    total: Array,
    dy: Array,
    target: Array,
    axis: int,
    ignored: int,
    smoothing: float,
    compute: str,
) -> tuple[Array]:
    """Return (dy (softmax(x) - wanted distribution),), 0 for ignored targets. All arrays broadcast to x's shape."""
    x, base, total, dy = (cast(each, np.dtype(compute)) for each in (x, base, total, dy))
    classes = x.shape[axis]
    check_classes(target, ignored, classes)
    column = np.arange(classes).reshape(-1, *(1,) * (x.ndim - axis - 1))
    smoothed = x.dtype.type(smoothing / max(classes, 1))
    wanted = np.where(target == column, smoothed + x.dtype.type(1 - smoothing), smoothed)
    with np.errstate(all="ignore"):
        slope = dy * (np.exp(x - base - total) - wanted)
    return (np.where(target == ignored, x.dtype.type(0), slope),)


def check_classes(target: Array, ignored: int, classes: int) -> None:
    """Raise IndexRangeError if a target is neither a class nor ignored."""
    wrong = ((target < 0) | (target >= classes)) & (target != ignored)
    if wrong.any():
        first = int(target[wrong][0])
        raise IndexRangeError(
            f"target has the value {first}; classes are numbered from 0 to {classes - 1}, and "
            f"ignore_index={ignored} marks targets that do not count: correct the targets, or pass "
            f"ignore_index={first}"
        )
