"""Scans in NumPy: sums and products of all elements up to each, along an axis or in C order.

They are made of pieces, and these of what lies before them: errors grow with the length of a piece and the logarithm of
a row's, not with its length. 16-bit floats are computed in float32 and rounded once, when the result is stored.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast

Array = NDArray[Any]

#: Elements that are merged one after the other.
_PIECE = 128


def accumulated(rows: Array, function: np.ufunc) -> Array:
    """All elements up to each along the last axis, merged by a function."""
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
    """A scan along axes, in C order where they are several: (x, axes, name of the dtype that is computed in, whether it
    goes from the last element to the first) -> an array of x's shape."""
    others = [d for d in range(x.ndim) if d not in axes]
    order = (*others, *axes)
    turned = cast(x.transpose(order), np.dtype(compute))
    rows = turned.reshape((*(x.shape[d] for d in others), -1) if x.size else (0, 1))
    # The functions define overflow and NaN; NumPy's warnings about them would be noise.
    with np.errstate(all="ignore"):
        found = accumulated(rows[..., ::-1], function)[..., ::-1] if reverse else accumulated(rows, function)
    return found.reshape(turned.shape).transpose(np.argsort(order))


def cumprod_backward(dy: Array, x: Array, axis: int, compute: str, reverse: bool) -> Array:
    """The gradient of a product of all up to each element: what lies before an element, times what dy and all behind it
    make of 1: see `kernels.scan.spec`."""
    own = np.dtype(compute)
    dy, x = (np.moveaxis(cast(array, own), axis, -1) for array in (dy, x))
    # From the last element of the products to the first.
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


#: What each function means.
FUNCTIONS = {"cumsum": partial(_along, np.add), "cumprod": partial(_along, np.multiply)}
