"""Gradients of `take` in float64."""

from __future__ import annotations

import numpy as np


def codes(indices, length):
    """One-hot codes of a list of indices; of those beyond the end zeros."""
    i = np.asarray(indices).astype(np.int64).reshape(-1, 1)
    return (np.where(i < 0, i + length, i) == np.arange(length)).astype(np.float64)


def taken_back(dy, shape, indices, axis):
    """The gradient of `take`, and the sum of what it is the sum of without signs."""
    seen, at = ((int(np.prod(shape)),), 0) if axis is None else (tuple(shape), axis % len(shape))
    behind = seen[at + 1 :]
    rows = np.asarray(dy, np.float64).reshape(int(np.prod(seen[:at])), indices.size, int(np.prod(behind)))
    hot = codes(indices, seen[at])
    return [np.einsum("iv,bic->bvc", hot, each).reshape(shape) for each in (rows, np.abs(rows))]


def taken_back_along(dy, shape, indices, axis):
    """The same of `take_along_axis`, line by line."""
    axis %= len(shape)
    whole = np.broadcast_to(indices, dy.shape)
    lines = [np.moveaxis(each, axis, -1) for each in (np.asarray(dy, np.float64), whole)]
    hot = codes(lines[1], shape[axis]).reshape(*lines[1].shape, shape[axis])
    found = []
    for own in (lines[0], np.abs(lines[0])):
        spread = np.moveaxis(np.einsum("...i,...iv->...v", own, hot), -1, axis)
        repeated = tuple(d for d, n in enumerate(shape) if n == 1 and d != axis)
        found.append(spread.sum(axis=repeated, keepdims=True))
    return found
