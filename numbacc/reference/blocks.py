"""Cross entropy and rotary embedding in NumPy, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast

Array = NDArray[Any]


def rope(a: Array, b: Array, cos: Array, sin: Array, compute: str) -> tuple[Array, Array]:
    """(a cos - b sin, b cos + a sin)."""
    a, b, cos, sin = (cast(each, np.dtype(compute)) for each in (a, b, cos, sin))
    return a * cos - b * sin, b * cos + a * sin


def rope_backward(a: Array, b: Array, cos: Array, sin: Array, compute: str) -> tuple[Array, Array]:
    """(a cos + b sin, b cos - a sin)."""
    a, b, cos, sin = (cast(each, np.dtype(compute)) for each in (a, b, cos, sin))
    return a * cos + b * sin, b * cos - a * sin


def loss(total: Array, mean: Array, value: Array, target: Array, ignored: int, smoothing: float) -> tuple[Array]:
    """log Σ e^x - (1 - s) x_t - s mean(x); 0 of what is ignored."""
    value = cast(value, total.dtype)
    with np.errstate(all="ignore"):
        found = total - (value - smoothing * (value - mean) if smoothing else value)
    return (np.where(target == ignored, total.dtype.type(0), found),)


def loss_slope(
    x: Array, total: Array, dy: Array, target: Array, axis: int, ignored: int, smoothing: float, compute: str
) -> tuple[Array]:
    """dy (softmax(x) - what is to be predicted); 0 of what is ignored. All are seen in x's shape."""
    x, total, dy = (cast(each, np.dtype(compute)) for each in (x, total, dy))
    classes = x.shape[axis]
    column = np.arange(classes).reshape(-1, *(1,) * (x.ndim - axis - 1))
    smoothed = x.dtype.type(smoothing / max(classes, 1))
    # Those below 0 count from the end.
    is_right = (target == column) | (target.astype(np.int64) + classes == column)
    wanted = np.where(is_right, smoothed + x.dtype.type(1 - smoothing), smoothed)
    with np.errstate(all="ignore"):
        slope = dy * (np.exp(x - total) - wanted)
    return (np.where(target == ignored, x.dtype.type(0), slope),)
