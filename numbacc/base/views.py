"""Views: the layout of a part of an array, or of its elements in another shape.

Indices and shapes have the same meaning as in NumPy. Common indices are computed here, which takes a third of the time
of NumPy on a stand-in array (`shadow`). NumPy handles all others, and invalid ones.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import IndexRangeError, LayoutError, ShapeError, shown
from .layout import Layout, is_dense, layout, normalize_axis, row_major_strides, shadow

#: The address of shadows here: it leaves room on both sides.
_BASE = 1 << 62


def index_parts(index: Any) -> tuple[Any, ...]:
    """Return an index as the tuple of its parts."""
    return index if isinstance(index, tuple) else (index,)


def part(array: Layout, index: Any) -> tuple[Layout, int]:
    """Return (layout, bytes after the array's address) of the view that a basic index selects.

    Raises:
        LayoutError: the index would need a copy, or is invalid. IndexRangeError: it is out of range.
    """
    parts = index if type(index) is tuple else (index,)
    if not array.size or not parts:
        return _by_numpy(array, index)
    shape, strides = array.shape, array.strides
    axis = offset = 0
    dots = parts[0] is Ellipsis
    if dots:
        parts = parts[1:]
        axis = len(shape) - len(parts)
        if axis < 0:
            return _by_numpy(array, index)
    lengths, steps = list(shape[:axis]), list(strides[:axis])
    try:
        for one in parts:
            kind = type(one)
            if kind is slice:
                stride = strides[axis]
                start, stop, step = one.indices(shape[axis])
                count = len(range(start, stop, step))
                lengths.append(count)
                steps.append(step * stride if count else stride)  # as in NumPy
                offset += start * stride if count else 0
            elif kind is int and -shape[axis] <= one < shape[axis]:
                offset += (one if one >= 0 else one + shape[axis]) * strides[axis]
            elif one is None and not dots:
                lengths.append(1)
                steps.append(0)
                continue
            else:
                return _by_numpy(array, index)
            axis += 1
    except (IndexError, TypeError, ValueError):
        return _by_numpy(array, index)  # which raises the right error
    made = layout((*lengths, *shape[axis:]), (*steps, *strides[axis:]), array.dtype, array.device)
    return made, offset


def of_element(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index of one element: numbers, a tuple of them, or (for several axes) one number in C order.

    Raises:
        IndexRangeError: that number is out of range.
    """
    parts = index_parts(index[0]) if len(index) == 1 else index
    if len(parts) != 1 or len(shape) == 1:
        return parts
    number, size = operator.index(parts[0]), math.prod(shape)
    if not -size <= number < size:
        raise IndexRangeError(f"index {number} is out of range for an array of {size} elements")
    return tuple(int(n) for n in np.unravel_index(number % size, shape))


def diagonal(array: Layout, offset: int, axis1: int, axis2: int) -> tuple[Layout, int]:
    """Return (layout, bytes after the array's address) of the view of the diagonals of two axes, as the last axis.

    Raises:
        ShapeError: an axis does not exist, or both are the same.
    """
    one, other = (normalize_axis(axis, array.ndim, "the array") for axis in (axis1, axis2))
    if one == other:
        raise ShapeError(f"axis1={axis1} and axis2={axis2} are the same axis")
    view = np.diagonal(shadow(_BASE, array), operator.index(offset), one, other)
    return _seen(array, view), view.__array_interface__["data"][0] - _BASE if view.size else 0


def component(array: Layout, imaginary: bool) -> tuple[Layout, int]:
    """Return (layout, bytes after the array's address) of the view of a complex array's real or imaginary parts."""
    size = array.itemsize // 2
    return layout(array.shape, array.strides, np.dtype(f"f{size}"), array.device), size if imaginary else 0


def _by_numpy(array: Layout, index: Any) -> tuple[Layout, int]:
    """Return the result of `part` for any index, computed by NumPy."""
    view = _part_of(shadow(_BASE, array), index)
    offset = view.__array_interface__["data"][0] - _BASE if array.size else 0
    return _seen(array, view), offset


def _seen(array: Layout, view: np.ndarray[Any, Any]) -> Layout:
    """Return the layout of a view of the array's shadow."""
    return layout(view.shape, view.strides, array.dtype, array.device)


def _basic_index(index: Any) -> tuple[Any, ...]:
    """Return the index as a tuple with an Ellipsis, which makes NumPy return a view and never a scalar.

    Raises:
        LayoutError: the index would need a copy.
    """
    parts = index_parts(index)
    for part in parts:
        if not (part is None or part is Ellipsis or isinstance(part, (slice, int, np.integer))) or isinstance(
            part, (bool, np.bool_)
        ):
            hint = ""
            if getattr(part, "dtype", None) == np.bool_:
                hint = "; for a mask, use numbacc.elementwise.where(mask, x, other), or where= of the functions there"
            known = part is None or isinstance(part, (bool, float, complex, str, list, tuple, np.generic))
            raise LayoutError(
                f"index {shown(part) if known else f'of a {type(part).__name__}'} is not supported: device arrays use "
                f"integers, slices, None and Ellipsis, which give views{hint}"
            )
    return parts if any(part is Ellipsis for part in parts) else (*parts, ...)


def _part_of(array: np.ndarray[Any, Any], index: Any) -> np.ndarray[Any, Any]:
    """Return the view of a NumPy array that a basic index selects.

    Raises:
        LayoutError: the index would need a copy, or is invalid. IndexRangeError: it is out of range.
    """
    try:
        view: np.ndarray[Any, Any] = array[_basic_index(index)]
    except IndexError as error:
        raise IndexRangeError(f"index {shown(index)} does not fit shape {array.shape}: {error}") from None
    except LayoutError:
        raise
    except (TypeError, ValueError) as error:  # slices with non-integers or a step of 0
        raise LayoutError(f"index {shown(index)} is not supported: {error}") from None
    return view


@lru_cache(maxsize=4096)
def transposed(array: Layout, order: tuple[int, ...] | None = None) -> Layout:
    """Return the layout with reversed axes, or with these axes in this order; omitted axes must have length 1."""
    axes = range(array.ndim - 1, -1, -1) if order is None else order
    shape, strides = (tuple(numbers[d] for d in axes) for numbers in (array.shape, array.strides))
    return layout(shape, strides, array.dtype, array.device)


@lru_cache(maxsize=4096)
def reshaped(array: Layout, wanted: tuple[int, ...]) -> Layout:
    """Return the layout of the same elements, starting at the same address, in another shape; one length may be -1.

    Raises:
        LayoutError: the strides allow no such view. ShapeError: it is not a shape, or the sizes differ.
    """
    try:
        # NumPy decides what -1 means and whether the strides allow the view.
        lengths = np.broadcast_to(np.uint8(0), array.shape).reshape(wanted).shape
    except (ValueError, OverflowError) as error:
        raise ShapeError(f"cannot reshape {array.shape} to shape={shown(wanted)}: {error}") from None
    if array.size == 0:
        return layout(lengths, row_major_strides(lengths, array.itemsize), array.dtype, array.device)
    try:
        return _seen(array, shadow(_BASE, array).reshape(lengths, copy=False))
    except ValueError:
        raise LayoutError(
            f"an array of shape {array.shape} and strides {array.strides} cannot be seen as {lengths} without "
            "a copy: numbacc.array_api.reshape(x, shape) copies where it must, x.flatten() always"
        ) from None


@lru_cache(maxsize=4096)
def broadcast(array: Layout, lengths: tuple[int, ...]) -> Layout:
    """Return the layout repeated along new or length-1 axes, by strides of 0.

    Raises:
        ShapeError: it does not broadcast to these lengths.
    """
    try:
        return _seen(array, np.broadcast_to(shadow(_BASE, array), lengths))
    except ValueError:
        raise ShapeError(f"the array has shape {array.shape}, which does not broadcast to {lengths}") from None


def squeezed(array: Layout, axes: tuple[int, ...] | None) -> Layout:
    """Return the layout without these axes, which have length 1; without all axes of length 1 if None."""
    kept = [d for d, n in enumerate(array.shape) if (n != 1 if axes is None else d not in axes)]
    return transposed(array, tuple(kept))


def memory_order(array: Layout) -> str:
    """Return the memory order of an array in words, or its strides."""
    if is_contiguous(array):
        return "C-contiguous"
    if is_contiguous(transposed(array)):
        return "F-contiguous"
    return f"{'dense, ' * is_dense(array)}strides {array.strides} bytes"


def is_contiguous(array: Layout) -> bool:
    """Return True if the elements are contiguous in C order; empty arrays are, and axes of length 1 do not matter."""
    step = array.itemsize
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if n != 1 and stride != step:
            return not array.size
        step *= n
    return True
