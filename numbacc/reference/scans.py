"""Scans in NumPy: cumulative sums and products, along an axis or in C order.

Each row is scanned in pieces, and then the totals of earlier pieces are added to each piece. So errors grow with the
length of a piece and the logarithm of a row's length, not with the row's length. 16-bit floats are computed in float32
and rounded once, when the result is stored.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast

Array = NDArray[Any]

#: Elements of a piece, which are merged one after the other.
_PIECE = 128


def accumulated(rows: Array, function: np.ufunc) -> Array:
    """Merge all elements up to each one, along the last axis, with a function."""
    count = rows.shape[-1] // _PIECE
    if count < 2:
        return np.asarray(function.accumulate(rows, axis=-1, dtype=rows.dtype))
    whole, rest = rows[..., : count * _PIECE], rows[..., count * _PIECE :]
    pieces = function.accumulate(whole.reshape((*rows.shape[:-1], count, _PIECE)), axis=-1, dtype=rows.dtype)
    before = accumulated(pieces[..., -1], function)[..., :, np.newaxis]
    pieces[..., 1:, :] = function(before[..., :-1, :], pieces[..., 1:, :])
    last = function(before[..., -1, :], function.accumulate(rest, axis=-1, dtype=rows.dtype))
    return np.concatenate([pieces.reshape(whole.shape), last], axis=-1)


def _along(function: np.ufunc, x: Array, axes: tuple[int, ...], compute: str, reverse: bool) -> Array:
    """Scan along axes, in C order if there are several, and return an array of x's shape.

    `compute` is the name of the dtype of the computation. With `reverse` the scan goes from the last element to the
    first.
    """
    others = [d for d in range(x.ndim) if d not in axes]
    order = (*others, *axes)
    turned = cast(x.transpose(order), np.dtype(compute))
    rows = turned.reshape((*(x.shape[d] for d in others), -1) if x.size else (0, 1))
    # The definitions include overflow and NaN, so NumPy's warnings are suppressed.
    with np.errstate(all="ignore"):
        found = accumulated(rows[..., ::-1], function)[..., ::-1] if reverse else accumulated(rows, function)
    return found.reshape(turned.shape).transpose(np.argsort(order))


def cumprod_backward(dy: Array, x: Array, axis: int, compute: str, reverse: bool) -> Array:
    """Return the gradient of the product of all elements up to each one; see `kernels.scan.spec`.

    Each element of it is the product of all earlier elements, times the result of dy and all later elements.
    """
    own = np.dtype(compute)
    dy, x = (np.moveaxis(cast(array, own), axis, -1) for array in (dy, x))
    # Go from the last element of the products to the first.
    dy, x = (array if reverse else array[..., ::-1] for array in (dy, x))
    with np.errstate(all="ignore"):
        before = np.ones_like(x)
        before[..., :-1] = accumulated(x[..., :0:-1], np.multiply)[..., ::-1]
        slope, value = x.copy(), x * dy
        reach = 1
        while reach < x.shape[-1]:
            value[..., reach:] += slope[..., reach:] * value[..., :-reach].copy()
            slope[..., reach:] *= slope[..., :-reach].copy()
            reach *= 2
        behind = np.zeros_like(value)
        behind[..., 1:] = value[..., :-1]
        found = before * (dy + behind)
    return np.moveaxis(found if reverse else found[..., ::-1], -1, axis)


#: Function -> its definition.
FUNCTIONS = {"cumsum": partial(_along, np.add), "cumprod": partial(_along, np.multiply)}
