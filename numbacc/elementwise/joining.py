"""Arrays put together: `concatenate` and `stack`, by copies into parts of one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.creation import empty
from ..arrays.operands import Array
from ..base.dtypes import TABLE, info
from ..base.layout import CPU, Layout, check_same_device, normalize_axis, overlap
from ..device.streams import handle_of
from ..errors import DTypeError, LayoutError, ShapeError
from .casting import copy
from .resolve import promoted


def concatenate(arrays: Sequence[Any], axis: int = 0, *, out: Any = None, stream: Any = None) -> Array:
    """Arrays one behind the other along an axis that they have.

    Args:
        arrays: of one rank, 1 to 8, and of equal lengths along all other axes; of any strides, on one device. They meet
            in a dtype as in `add`.
        axis: where they follow each other.
        out: array for the result, of its shape and device, and its dtype or a wider kind; it must not overlap them.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        a new array, C-contiguous; `out` if given.

    Raises:
        ShapeError: no arrays, unequal ranks or lengths, axis. DTypeError: what does not meet. DeviceError: several
        devices. LayoutError: out overlaps an array, or is read-only.

    Example:
        >>> elementwise.concatenate([np.array([1, 2]), np.array([3.5])])
        array([1. , 2. , 3.5])
    """
    given, layouts, names = _taken(arrays, stream)
    first = layouts[0]
    if not first.ndim:
        raise ShapeError(f"{names[0]} has rank 0; concatenate takes arrays of rank 1 to 8: stack joins numbers")
    number = normalize_axis(axis, first.ndim, names[0])
    for each, name in zip(layouts, names, strict=True):
        rest = [shape[:number] + shape[number + 1 :] for shape in (each.shape, first.shape)]
        if each.ndim != first.ndim or rest[0] != rest[1]:
            told = f"{name} has shape {each.shape} and {names[0]} {first.shape}"
            raise ShapeError(f"{told}: they must be equal but along axis {number}")
    shape = (*first.shape[:number], sum(each.shape[number] for each in layouts), *first.shape[number + 1 :])
    target = _target(given, layouts, shape, out, stream)
    start = 0
    for array, each in zip(given, layouts, strict=True):
        end = start + each.shape[number]
        copy(array, out=target[(slice(None),) * number + (slice(start, end),)], stream=stream)
        start = end
    return target if out is None else out


def stack(arrays: Sequence[Any], axis: int = 0, *, out: Any = None, stream: Any = None) -> Array:
    """Arrays of one shape side by side along a new axis.

    Args:
        arrays: of one shape, of up to 7 dimensions; of any strides, on one device.
        axis: where the new axis is in the result.
        out, stream: as in `concatenate`.

    Returns, raises:
        as `concatenate`.

    Example:
        >>> elementwise.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
        array([[1, 3],
               [2, 4]])
    """
    given, layouts, names = _taken(arrays, stream)
    first = layouts[0]
    for each, name in zip(layouts, names, strict=True):
        if each.shape != first.shape:
            raise ShapeError(f"{name} has shape {each.shape} and {names[0]} {first.shape}; they must be equal")
    number = normalize_axis(axis, first.ndim + 1, "the result")
    shape = (*first.shape[:number], len(given), *first.shape[number:])
    target = _target(given, layouts, shape, out, stream)
    for k, array in enumerate(given):
        # A slice of length 1 without its axis: of rank 0, too, it is a view.
        part = target[(slice(None),) * number + (slice(k, k + 1),)].reshape(first.shape) if first.ndim == 0 else None
        copy(array, out=target[(slice(None),) * number + (k,)] if part is None else part, stream=stream)
    return target if out is None else out


def _taken(arrays: Any, stream: Any) -> tuple[list[Any], list[Layout], list[str]]:
    """Arrays, their layouts and names."""
    if not isinstance(arrays, (tuple, list)):
        raise DTypeError(f"arrays is a {type(arrays).__name__}; pass a list or tuple of arrays")
    if not arrays:
        raise ShapeError("arrays is empty; pass one array or more")
    handle = handle_of(stream)
    names = [f"arrays[{k}]" for k in range(len(arrays))]
    found = [operands.as_array(each, name, handle) for each, name in zip(arrays, names, strict=True)]
    layouts = [operands.layout_of(each) for each in found]
    for each, name in zip(layouts, names, strict=True):
        check_same_device(each, name, layouts[0], names[0])
    return found, layouts, names


def _target(arrays: Sequence[Any], layouts: Sequence[Layout], shape: tuple[int, ...], out: Any, stream: Any) -> Any:
    """Where the result goes: `out`, or a new array."""
    name = promoted(tuple(info(each.dtype).name for each in layouts))
    if out is None:
        device = layouts[0].device
        where: int | str = "cpu" if device == CPU else device
        return empty(shape, TABLE[name].numpy, device=where, stream=stream)
    target = operands.as_array(out, "out", handle_of(stream))
    if operands.layout_of(target).shape != shape:
        raise ShapeError(f"out has shape {operands.layout_of(target).shape}; the result has shape {shape}")
    own = operands.layout_of(target)
    for k, (array, each) in enumerate(zip(arrays, layouts, strict=True)):
        # Part by part it could be overwritten before it is read.
        if own.device == each.device and overlap(_address(target), own, _address(array), each):
            raise LayoutError(f"out overlaps arrays[{k}]: pass memory that shares nothing with it")
    return target


def _address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)
