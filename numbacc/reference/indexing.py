"""Selection of elements by indices, and its gradients, in NumPy.

Negative indices count from the end. An index out of range selects NaN, or 0 in integer arrays, and adds no gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def take(x: Array, indices: Array, axis: int) -> tuple[Array]:
    """Return (x's elements along an axis at an array of indices,)."""
    places, are_inside = _places(indices, x.shape[axis])
    beside = are_inside.reshape(are_inside.shape + (1,) * (x.ndim - axis - 1))
    return (np.where(beside, np.take(x, places, axis), _nothing(x)),)


def take_along_axis(x: Array, indices: Array, axis: int) -> tuple[Array]:
    """Return (x's elements along an axis at an array of indices,). Along all other axes the two arrays broadcast."""
    places, are_inside = _places(indices, x.shape[axis])
    beside = [(*shape[:axis], *shape[axis + 1 :]) for shape in (x.shape, indices.shape)]
    shape = list(np.broadcast_shapes(*beside))
    whole, places = (np.broadcast_to(each, (*shape[:axis], each.shape[axis], *shape[axis:])) for each in (x, places))
    return (np.where(are_inside, np.take_along_axis(whole, places, axis), _nothing(x)),)


def take_backward(dy: Array, indices: Array, shape: tuple[int, ...], axis: int | None, compute: str) -> Array:
    """Return the gradient with respect to x of shape `shape`, given the gradient dy with respect to `take` of x."""
    total = np.zeros(shape, compute)
    along, at = (total.reshape(-1), 0) if axis is None else (total, axis)
    places, are_inside = _places(indices, along.shape[at])
    rows = dy.reshape(*dy.shape[:at], indices.size, *dy.shape[at + indices.ndim :])
    # Element by element and in order, even if an index occurs several times.
    np.add.at(
        np.moveaxis(along, at, 0), places[are_inside], np.moveaxis(rows, at, 0)[are_inside.reshape(-1)].astype(compute)
    )
    return total


def take_along_axis_backward(dy: Array, indices: Array, shape: tuple[int, ...], axis: int, compute: str) -> Array:
    """Return the gradient with respect to x of shape `shape`, given the gradient dy of `take_along_axis`."""
    total = np.zeros(shape, compute)
    places, are_inside = (np.broadcast_to(each, dy.shape) for each in _places(indices, shape[axis]))
    own: tuple[Array, ...] = np.indices(dy.shape, sparse=True)
    there = [np.minimum(at, n - 1) for at, n in zip(own, shape, strict=True)]
    there[axis] = places
    chosen = tuple([np.broadcast_to(at, dy.shape)[are_inside] for at in there])
    np.add.at(total, chosen, dy[are_inside].astype(compute))
    return total


def _places(indices: Array, length: int) -> tuple[Array, Array]:
    """Return (indices counted from the start, with 0 for those out of range; which indices are in range)."""
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + length, places)
    are_inside = (places >= 0) & (places < length)
    return np.where(are_inside, places, 0), are_inside


def _nothing(x: Array) -> Any:
    return x.dtype.type(0 if x.dtype.kind in "biu" else math.nan)
