"""Copies between arrays on one device, contiguous or strided, bit for bit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...base.layout import Layout, View, layout
from ...errors import DTypeError, ShapeError
from ...functions.formula import COPY
from .launch import MapExecutable, mapped


def copy(source: Any, target: Any, stream: int) -> Any:
    """Queue a copy of one device array into another of its shape and dtype, and return the target.

    Raises:
        ShapeError, DTypeError: the two differ. LayoutError: they overlap partially, or the target is read-only.
    """
    one, other = source._numbacc_layout, target._numbacc_layout
    if one.shape != other.shape:
        raise ShapeError(f"cannot copy an array of shape {one.shape} into one of shape {other.shape}")
    if one.dtype != other.dtype:
        raise DTypeError(f"cannot copy an array of {one.dtype} into one of {other.dtype}")
    return executable(one, other).run((source,), (target,), target, stream)


@lru_cache(maxsize=1024)
def executable(source: Layout, target: Layout, read: View | None = None) -> MapExecutable:
    """Return the copy between layouts of one dtype, as an elementwise map of unsigned integers of the element's size.

    Args:
        source, target: layouts of one shape, unless `read` is given.
        read: where the target's elements are in the source, for elements of at most 8 bytes.
    """
    one, other = _as_words(source), _as_words(target)
    return mapped(COPY, (one,), other, ("source", "out"), None if read is None else (read,))


def _as_words(array: Layout) -> Layout:
    """Return the layout with unsigned integer elements; 16-byte elements become pairs of 8-byte ones."""
    size = array.itemsize
    if size <= 8:
        return layout(array.shape, array.strides, np.dtype(f"uint{8 * size}"), array.device)
    return layout((*array.shape, 2), (*array.strides, 8), np.dtype(np.uint64), array.device)
