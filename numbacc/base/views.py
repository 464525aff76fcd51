"""Views: how a part of an array, or its elements in another shape, lie in the array's memory.

Indices and shapes mean what they mean in NumPy. The everyday indices are worked out here, in a third of the time that a
NumPy array instead of the array (`shadow`) takes; all others, and invalid ones, are left to NumPy.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import IndexRangeError, LayoutError, ShapeError, shown
from .layout import Layout, layout, normalize_axis, row_major_strides, shadow

#: Where shadows lie here: an address that leaves room on both sides.
_BASE = 1 << 62


def index_parts(index: Any) -> tuple[Any, ...]:
    """An index as the tuple of its parts."""
    return index if isinstance(index, tuple) else (index,)


def part(array: Layout, index: Any) -> tuple[Layout, int]:
    """(layout, bytes behind the array's address) of the view that a basic index gives.

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
                steps.append(step * stride if count else stride)  # as NumPy has it
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
        return _by_numpy(array, index)  # which says what is wrong
    made = layout((*lengths, *shape[axis:]), (*steps, *strides[axis:]), array.dtype, array.device)
    return made, offset


def of_element(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index of one element: numbers, a tuple of them, or of more axes one number that counts in C order.

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
    """(layout, bytes behind the array's address) of the view of the diagonals of two axes, which comes last.

    Raises:
        ShapeError: there are no such two axes.
    """
    one, other = (normalize_axis(axis, array.ndim, "the array") for axis in (axis1, axis2))
    if one == other:
        raise ShapeError(f"axis1={axis1} and axis2={axis2} are the same axis")
    view = np.diagonal(shadow(_BASE, array), operator.index(offset), one, other)
    return _seen(array, view), view.__array_interface__["data"][0] - _BASE if view.size else 0


def component(array: Layout, imaginary: bool) -> tuple[Layout, int]:
    """(layout, bytes behind the array's address) of the view of the real or imaginary parts of a complex array."""
    size = array.itemsize // 2
    return layout(array.shape, array.strides, np.dtype(f"f{size}"), array.device), size if imaginary else 0


def _by_numpy(array: Layout, index: Any) -> tuple[Layout, int]:
    """`part`, of any index."""
    view = _part_of(shadow(_BASE, array), index)
    offset = view.__array_interface__["data"][0] - _BASE if array.size else 0
    return _seen(array, view), offset


def _seen(array: Layout, view: np.ndarray[Any, Any]) -> Layout:
    """The layout of a view of the array's shadow."""
    return layout(view.shape, view.strides, array.dtype, array.device)


def _basic_index(index: Any) -> tuple[Any, ...]:
    """The index as a tuple with an Ellipsis, which makes NumPy return a view and never a scalar.

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
                hint = "; of a mask, use numbacc.elementwise.where(mask, x, other), or where= of the functions there"
            known = part is None or isinstance(part, (bool, float, complex, str, list, tuple, np.generic))
            raise LayoutError(
                f"index {shown(part) if known else f'of a {type(part).__name__}'} is not supported: device arrays take "
                f"integers, slices, None and Ellipsis, which give views{hint}"
            )
    return parts if any(part is Ellipsis for part in parts) else (*parts, ...)


def _part_of(array: np.ndarray[Any, Any], index: Any) -> np.ndarray[Any, Any]:
    """The view of a NumPy array that a basic index gives.

    Raises:
        LayoutError: the index would need a copy, or is invalid. IndexRangeError: it is out of range.
    """
    try:
        view: np.ndarray[Any, Any] = array[_basic_index(index)]
    except IndexError as error:
        raise IndexRangeError(f"index {shown(index)} does not fit shape {array.shape}: {error}") from None
    except LayoutError:
        raise
    except (TypeError, ValueError) as error:  # slices of what is not an integer, or in steps of 0
        raise LayoutError(f"index {shown(index)} is not supported: {error}") from None
    return view


@lru_cache(maxsize=4096)
def transposed(array: Layout, order: tuple[int, ...] | None = None) -> Layout:
    """The layout with the axes reversed, or with these axes in this order; those left out are of length 1."""
    axes = range(array.ndim - 1, -1, -1) if order is None else order
    shape, strides = (tuple(numbers[d] for d in axes) for numbers in (array.shape, array.strides))
    return layout(shape, strides, array.dtype, array.device)


@lru_cache(maxsize=4096)
def reshaped(array: Layout, wanted: tuple[int, ...]) -> Layout:
    """The layout of the same elements, from the same address on, in another shape; one length may be -1.

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
    """The layout repeated along new or length-1 axes, by strides of 0.

    Raises:
        ShapeError: it does not broadcast to these lengths.
    """
    try:
        return _seen(array, np.broadcast_to(shadow(_BASE, array), lengths))
    except ValueError:
        raise ShapeError(f"the array has shape {array.shape}, which does not broadcast to {lengths}") from None


def squeezed(array: Layout, axes: tuple[int, ...] | None) -> Layout:
    """The layout without these axes, which are of length 1; without all such axes if None."""
    kept = [d for d, n in enumerate(array.shape) if (n != 1 if axes is None else d not in axes)]
    return transposed(array, tuple(kept))


def is_contiguous(array: Layout) -> bool:
    """True if the elements lie one behind the other in C order; so do none, and axes of length 1 have no stride."""
    step = array.itemsize
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if n != 1 and stride != step:
            return not array.size
        step *= n
    return True
