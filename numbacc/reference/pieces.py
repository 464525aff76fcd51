"""Elementwise functions of large arrays, computed piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: Elements that are computed at a time: the temporary arrays of that many stay in the processor's cache.
_PIECE = 1 << 15


def in_pieces(function: Callable[..., tuple[Array, ...]], *operands: Array) -> tuple[Array, ...]:
    """`function(*operands)` of an elementwise function, of some elements at a time."""
    first = operands[0]
    if first.size <= _PIECE:
        return function(*operands)
    # Along the outermost dimension that can be cut.
    axis = max((d for d in range(first.ndim) if first.shape[d] > 1), key=lambda d: abs(first.strides[d]))
    step = max(_PIECE * first.shape[axis] // first.size, 1)
    results: tuple[Array, ...] = ()
    for start in range(0, first.shape[axis], step):
        part = (*[slice(None)] * axis, slice(start, start + step))
        made = in_pieces(function, *(x[part] for x in operands))
        results = results or tuple(np.empty(first.shape, y.dtype) for y in made)
        for whole, piece in zip(results, made, strict=True):
            whole[part] = piece
    return results
