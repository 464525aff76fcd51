"""Dropout in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast
from .random import philox

Array = NDArray[Any]


def dropout(x: Array, *given: Any, compute: str) -> tuple[Array]:
    """x times a scale where its word of Philox's sequence, by its number in C order, is not below a bound, else 0.

    Args:
        given: how many words later the sequence is entered, an array of equal numbers, or nothing; then the seed, the
            number of the first group of four words, the bound, and the scale.
        compute: name of the dtype that is computed in.
    """
    *later, seed, first, least, scale = given
    position = 4 * first + (int(later[0].flat[0]) // 4 * 4 if later and x.size else 0)
    words = philox(seed, position, x.size).reshape(x.shape)
    real = np.dtype(compute)
    with np.errstate(all="ignore"):
        return (np.where(words.astype(np.uint64) >= np.uint64(least), cast(x, real) * real.type(scale), real.type(0)),)
