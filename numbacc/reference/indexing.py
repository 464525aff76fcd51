"""Elements that indices name, in NumPy. Negative indices count from the end; beyond it are NaN, or 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def take(x: Array, indices: Array, axis: int) -> tuple[Array]:
    """x's elements along an axis by a list of indices."""
    places, are_inside = _places(indices, x.shape[axis])
    beside = are_inside.reshape(are_inside.shape + (1,) * (x.ndim - axis - 1))
    return (np.where(beside, np.take(x, places, axis), _nothing(x)),)


def take_along_axis(x: Array, indices: Array, axis: int) -> tuple[Array]:
    """x's elements along an axis by an array of indices; along all others the two broadcast."""
    places, are_inside = _places(indices, x.shape[axis])
    beside = [(*shape[:axis], *shape[axis + 1 :]) for shape in (x.shape, indices.shape)]
    shape = list(np.broadcast_shapes(*beside))
    whole, places = (np.broadcast_to(each, (*shape[:axis], each.shape[axis], *shape[axis:])) for each in (x, places))
    return (np.where(are_inside, np.take_along_axis(whole, places, axis), _nothing(x)),)


def _places(indices: Array, length: int) -> tuple[Array, Array]:
    """(indices from the start, 0 for those beyond the end; which are not)."""
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + length, places)
    are_inside = (places >= 0) & (places < length)
    return np.where(are_inside, places, 0), are_inside


def _nothing(x: Array) -> Any:
    return x.dtype.type(0 if x.dtype.kind in "biu" else math.nan)
