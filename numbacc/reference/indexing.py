"""Elements that indices name, and gradients with respect to them, in NumPy.

Negative indices count from the end; beyond it are NaN, or 0, and no gradient.
"""

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


def take_backward(dy: Array, indices: Array, shape: tuple[int, ...], axis: int | None, compute: str) -> Array:
    """The gradient with respect to an array of that shape, given that with respect to `take` of it."""
    total = np.zeros(shape, compute)
    along, at = (total.reshape(-1), 0) if axis is None else (total, axis)
    places, are_inside = _places(indices, along.shape[at])
    rows = dy.reshape(*dy.shape[:at], indices.size, *dy.shape[at + indices.ndim :])
    # Element by element in their order, however often a place is named.
    np.add.at(
        np.moveaxis(along, at, 0), places[are_inside], np.moveaxis(rows, at, 0)[are_inside.reshape(-1)].astype(compute)
    )
    return total


def take_along_axis_backward(dy: Array, indices: Array, shape: tuple[int, ...], axis: int, compute: str) -> Array:
    """The same of `take_along_axis`."""
    total = np.zeros(shape, compute)
    places, are_inside = (np.broadcast_to(each, dy.shape) for each in _places(indices, shape[axis]))
    own: tuple[Array, ...] = np.indices(dy.shape, sparse=True)
    there = [np.minimum(at, n - 1) for at, n in zip(own, shape, strict=True)]
    there[axis] = places
    chosen = tuple([np.broadcast_to(at, dy.shape)[are_inside] for at in there])
    np.add.at(total, chosen, dy[are_inside].astype(compute))
    return total


def _places(indices: Array, length: int) -> tuple[Array, Array]:
    """(indices from the start, 0 for those beyond the end; which are not)."""
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + length, places)
    are_inside = (places >= 0) & (places < length)
    return np.where(are_inside, places, 0), are_inside


def _nothing(x: Array) -> Any:
    return x.dtype.type(0 if x.dtype.kind in "biu" else math.nan)
