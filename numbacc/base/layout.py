"""Shapes and strides without memory: interned layouts, views of them, overlap, and merging of dimensions.

Nothing here accesses a GPU or an array's contents, so everything works for NumPy and device arrays alike.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from ..errors import AxisError, DeviceError, LayoutError, ShapeError, shown

#: The device of a NumPy array. GPUs are 0, 1, ...
CPU = -1
#: The device of arrays in host memory that follow the rules of GPU arrays: see `numbacc.portable`.
PORTABLE = -2

MAX_RANK = 8

#: The most axes that NumPy arrays may have, which also limits numbacc's arrays.
_MOST_AXES = 64


class Layout:
    """Everything about an array except its address: shape, strides in bytes, dtype and device.

    `layout()` interns layouts: two arrays with equal layouts hold the same object, so a plan is found by comparing
    identities.
    """

    __slots__ = (
        "__weakref__",
        "device",
        "dtype",
        "high",
        "itemsize",
        "low",
        "nbytes",
        "ndim",
        "shape",
        "size",
        "strides",
    )

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], device: int):
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device
        self.ndim = len(shape)
        self.itemsize = int(dtype.itemsize)
        self.size = math.prod(shape)
        self.nbytes = self.size * self.itemsize
        # The bytes touched lie in [address + low, address + high).
        spans = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
        self.low = sum(span for span in spans if span < 0) if self.size else 0
        self.high = sum(span for span in spans if span > 0) + self.itemsize if self.size else 0

    def __repr__(self) -> str:
        where = name_of(self.device)
        return f"Layout(shape={self.shape}, strides={self.strides}, dtype={self.dtype}, device={where})"


def name_of(device: int) -> str:
    """Return a device's name, as in `device=` arguments; a portable device has the name of the first GPU."""
    return "cpu" if device == CPU else f"cuda:{max(device, 0)}"


def argument_of(device: int) -> str:
    """Return a device as the `device=` argument of a new array."""
    return "portable" if device == PORTABLE else name_of(device)


#: Interning. If an evicted layout is created again, it is a new object; only its plan must be made again.
layout = lru_cache(maxsize=16384)(Layout)


def layout_of(array: np.ndarray[Any, Any]) -> Layout:
    """Return the layout of a NumPy array."""
    return layout(array.shape, array.strides, array.dtype, CPU)


def element_steps(array: Layout) -> list[int]:
    """Return the strides of an array in elements, with 0 along axes of length 1."""
    return [0 if n == 1 else step // array.itemsize for n, step in zip(array.shape, array.strides, strict=True)]


def round_up(number: int, multiple: int) -> int:
    """Return the least multiple of `multiple` that is at least `number`."""
    return -(-number // multiple) * multiple


def row_major_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides, in bytes, of a C-contiguous array."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def dense_like(source: Layout, shape: tuple[int, ...]) -> Layout:
    """Return the dense layout of `shape` with its dimensions in the memory order of `source`.

    This is NumPy's order "K": a result has the memory order of its input, so that a transposed input gives a transposed
    result and both are accessed in memory order. Broadcast dimensions (stride 0) count as outermost.
    """
    order = sorted(range(len(shape)), key=lambda d: -abs(source.strides[d]) if source.strides[d] else -(2**63))
    strides, step = [0] * len(shape), source.itemsize
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return layout(tuple(shape), tuple(strides), source.dtype, source.device)


def is_dense(array: Layout) -> bool:
    """Return True if the elements fill one contiguous range of memory, each byte once, in any order of dimensions."""
    return array.size == 0 or (array.low == 0 and array.high == array.nbytes and not repeats_elements(array))


@lru_cache(maxsize=4096)
def repeats_elements(array: Layout) -> bool:
    """Return True if two indices refer to the same memory, so that the array must not be written."""
    if array.size <= 1:
        return False
    reach = 0
    for n, step in sorted(zip(array.shape, array.strides, strict=True), key=lambda p: abs(p[1])):
        if n == 1:
            continue
        if abs(step) < reach + array.itemsize:
            return True
        reach += (n - 1) * abs(step)
    return False


class _Exporter:
    """An array interface that NumPy can turn into an array, and the object that it keeps alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: dict[str, Any], owner: object):
        self.__array_interface__ = interface
        self.owner = owner


def host_view(
    owner: object, address: int, shape: tuple[int, ...], strides: tuple[int, ...], typestr: str, readonly: bool
) -> np.ndarray[Any, Any]:
    """Return a NumPy array over memory that `owner` keeps alive; `typestr` as in NumPy's array interface."""
    interface = {
        "shape": shape,
        "strides": strides,
        "typestr": typestr,
        "data": (address, readonly),
        "version": 3,
    }
    return np.asarray(_Exporter(interface, owner))


_UNSIGNED = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}


def shadow(address: int, array: Layout) -> np.ndarray[Any, Any]:
    """Return a NumPy array with this address and layout, which must never be read, to use NumPy's view arithmetic.

    Its dtype is unsigned integers of the same size, since not every dtype has a type string.
    """
    size = array.itemsize
    # NumPy rejects the null address of an empty array.
    return host_view(None, address or size, array.shape, array.strides, _UNSIGNED[size], False)


def numpy_view(
    array: np.ndarray[Any, Any],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Return a view of a NumPy array's memory that starts `offset` bytes after its first element."""
    found = array.dtype if dtype is None else dtype
    address, readonly = array.ctypes.data + offset, not array.flags.writeable
    return host_view(array, address, shape, strides, f"|V{found.itemsize}", readonly).view(found)


def check_same_device(one: Layout, name: str, other: Layout, other_name: str) -> None:
    """Raise DeviceError unless both are on the same GPU, or both on the CPU."""
    if one.device != other.device:
        raise DeviceError(
            f"{name} is {_where(one.device)} and {other_name} {_where(other.device)}; numbacc never copies "
            "between devices implicitly: copy one with numbacc.asarray or numbacc.asnumpy"
        )


def _where(device: int) -> str:
    return "in host memory (NumPy)" if device == CPU else f"on {name_of(device)}"


def read_only(name: str) -> LayoutError:
    """Return the error for an output array that is read-only."""
    return LayoutError(
        f"{name} is read-only (JAX's arrays always are); pass an array that can be written: numbacc.array(...) copies"
    )


def overlap(first: int, one: Layout, second: int, other: Layout) -> bool:
    """Return True if some byte belongs to both arrays, given their addresses."""
    apart = first + one.high <= second + other.low or second + other.high <= first + one.low
    if apart or not one.size or not other.size:
        return False
    if is_dense(one) and is_dense(other):
        return True
    try:
        work = cast(Any, 100_000)  # NumPy's type annotations admit only 0 and -1
        return bool(np.shares_memory(shadow(first, one), shadow(second, other), max_work=work))
    except np.exceptions.TooHardError:
        return True  # undecided after this much work: assuming overlap is the safe choice


def normalize_axis(axis: Any, ndim: int, argument: str, name: str = "axis") -> int:
    """Return `axis`, which the caller calls `name`, as a number in [0, ndim).

    Raises:
        ShapeError: `axis` is not an integer. AxisError, a ShapeError: it is out of range.
    """
    try:
        number = operator.index(axis)
    except (TypeError, ShapeError):  # ShapeError: an array on a GPU
        raise ShapeError(f"{name}={shown(axis)} is not an integer") from None
    if not -ndim <= number < ndim:
        known = f"use {-ndim} to {ndim - 1}" if ndim else "it has no axes"
        raise AxisError(f"{name}={shown(number)} is out of range for {argument} of rank {ndim}: {known}")
    return int(number % ndim)


def is_sequence(value: Any) -> bool:
    """Return True for lists, tuples and similar, and for NumPy arrays of rank 1.

    Strings and sets (which have no order) do not count, nor do iterators (which can be read only once).
    """
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, (tuple, list)) or (
        isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview))
    )


def integers_of(value: Any, name: str) -> tuple[int, ...]:
    """Return an integer or a sequence of integers as a tuple. True and False are not integers.

    Raises:
        ShapeError: it is neither.
    """
    if type(value) is tuple:  # the usual case
        for n in value:
            if type(n) is not int:
                break
        else:
            return value
    parts = value if is_sequence(value) else (value,)
    try:
        if bool not in map(type, parts):
            return tuple([operator.index(n) for n in parts])
    except (TypeError, ShapeError):
        pass  # some part is not an integer, or is a GPU array with more than one element
    raise ShapeError(f"{name}={shown(value)} is not an integer or a sequence of integers")


def axes_of(axes: Any, ndim: int, argument: str, name: str) -> tuple[int, ...]:
    """Return an axis or several different axes as numbers in [0, ndim).

    Raises:
        ShapeError: an axis is out of range, not an integer, or named twice.
    """
    found = tuple(normalize_axis(axis, ndim, argument, name) for axis in integers_of(axes, name))
    if len(set(found)) < len(found):
        raise ShapeError(f"{name}={shown(axes)} names an axis twice")
    return found


def lengths_of(shape: int | Sequence[int], itemsize: int = 1, name: str = "shape") -> tuple[int, ...]:
    """Return a shape argument, of this name, as a tuple.

    Raises:
        ShapeError: it is not a shape, or elements of `itemsize` bytes would need more bytes than can be addressed.
    """
    lengths = integers_of(shape, name)
    if any(n < 0 for n in lengths):
        raise ShapeError(f"{name}={shown(lengths)} has a negative length")
    if too_large(lengths, itemsize):
        raise ShapeError(f"{name}={shown(lengths)} is too large: at most {_MOST_AXES} axes and 2^63 - 1 bytes")
    return lengths


def too_large(lengths: Sequence[int], itemsize: int) -> bool:
    """Return True if NumPy's limits exclude that shape. Lengths of 0 count as 1, because strides ignore them."""
    return len(lengths) > _MOST_AXES or math.prod(max(n, 1) for n in lengths) * itemsize >= 2**63


def check_rank(shape: Sequence[int], argument: str) -> None:
    """Raise ShapeError unless the rank is 1 to MAX_RANK."""
    if not 1 <= len(shape) <= MAX_RANK:
        raise ShapeError(
            f"{argument} has rank {len(shape)} (shape {tuple(shape)}); ranks 1 to {MAX_RANK} are supported"
        )


def check_writable(array: Layout, argument: str) -> None:
    """Raise LayoutError if elements of the array share memory with each other."""
    if repeats_elements(array):
        raise LayoutError(
            f"{argument} has elements that share memory (shape {array.shape}, strides {array.strides}), "
            "so it cannot be written: pass an array without overlap, or leave it out"
        )


class View(NamedTuple):
    """A part of an argument: the argument's number, the offset in bytes, and its strides in bytes.

    Its shape is that of the operation, unless it has its own.
    """

    argument: int
    offset: int
    strides: tuple[int, ...]
    shape: tuple[int, ...] | None = None


def view(argument: int, offset: int, strides: Sequence[int], shape: Sequence[int]) -> View:
    """Return a `View` with strides of 0 along axes of length 1, so that equal parts compare equal."""
    steps = tuple(0 if n == 1 else step for step, n in zip(strides, shape, strict=True))
    return View(argument, offset, steps)


def same_layout(one: Layout, other: Layout) -> bool:
    """Return True if two layouts are equal, even if one of them was evicted and interned again."""
    return one is other or (
        (one.shape, one.strides, one.dtype, one.device) == (other.shape, other.strides, other.dtype, other.device)
    )


class Merged(NamedTuple):
    """A shape with the fewest dimensions that describe it, and each operand's strides (in elements)."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def merge_dimensions(shape: Sequence[int], strides: Sequence[Sequence[int]], itemsize: int, leader: int) -> Merged:
    """Reorder and merge dimensions that all operands step through alike.

    Dimensions are sorted by the memory order of operand number `leader` (a map may visit its elements in any order).
    Dimensions of length 1 are dropped. Adjacent dimensions are merged if every operand steps from the end of the inner
    one directly to the next index of the outer one. All strides are multiples of the element size, because the callers'
    arrays are aligned to their elements.
    """
    order = sorted((d for d in range(len(shape)) if shape[d] != 1), key=lambda d: -abs(strides[leader][d]))
    out_shape: list[int] = []
    out_strides: list[tuple[int, ...]] = []
    for d in order:
        steps = tuple(operand[d] // itemsize for operand in strides)
        inner_span = tuple(step * shape[d] for step in steps)
        if out_shape and inner_span == out_strides[-1]:
            out_shape[-1] *= shape[d]
            out_strides[-1] = steps
        else:
            out_shape.append(shape[d])
            out_strides.append(steps)
    if not out_shape:
        out_shape, out_strides = [1], [(1,) * len(strides)]
    return Merged(tuple(out_shape), tuple(zip(*out_strides, strict=True)))
