"""The supported part of the array API standard (2024.12), with its names, for `x.__array_namespace__()`.

The functions come from `numbacc.elementwise`, `gemm` and `numbacc` itself. docs/elementwise.md lists what is
missing.
"""

from __future__ import annotations

import math
from builtins import all as _all
from builtins import bool as _truth
from builtins import min as _least
from builtins import sum as _total
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import elementwise as _own
from .arrays import creation as _made
from .arrays import operands as _operands
from .arrays import protocols as _views
from .arrays.array_api_info import DEFAULTS as _DEFAULTS
from .arrays.array_api_info import NamespaceInfo as _NamespaceInfo
from .arrays.array_api_info import can_cast as can_cast
from .arrays.array_api_info import finfo as finfo
from .arrays.array_api_info import iinfo as iinfo
from .arrays.array_api_info import isdtype as isdtype
from .arrays.array_api_info import result_type as result_type
from .base import dtypes as _dtypes
from .base.checks import integer as _whole
from .base.layout import axes_of, normalize_axis
from .elementwise.where_clamp import clamp as _clamp
from .errors import AxisError, DTypeError, LayoutError, ShapeError, UnsupportedError, unknown
from .gemm import matmul as _matmul
from .numpy_ufuncs import signbit as signbit

__array_api_version__ = "2024.12"

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float32, float64, complex64, complex128 = map(np.dtype, ("float32", "float64", "complex64", "complex128"))

#: Functions whose names and arguments are the same.
_SAME = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_or bitwise_xor ceil conj copysign cos cosh divide
    equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log10
    log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter
    not_equal pow real reciprocal remainder round sign sin sinh sqrt square subtract tan tanh trunc where
    all any argmax argmin max mean min prod std sum var stack
    arange linspace eye tril triu take take_along_axis
"""
#: The standard's name -> numbacc's.
_RENAMED = {
    "bitwise_invert": "bitwise_not", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "concat": "concatenate", "positive": "copy",
}  # fmt: skip
globals().update({name: getattr(_own, _RENAMED.get(name, name)) for name in (*_SAME.split(), *_RENAMED)})


# ---------------------------------------------------------------- making arrays


def __array_namespace_info__() -> _NamespaceInfo:
    """Return the namespace's dtypes, devices and defaults."""
    return _NamespaceInfo()


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """Return obj as an array, as `numbacc.asarray` does; an array on a GPU is converted there.

    copy=True always copies, copy=False never does. Python's floats become float32, and its complex numbers complex64.
    """
    if hasattr(obj, "_numbacc_layout"):
        wanted = obj.dtype if dtype is None else _dtypes.dtype(dtype)
        if copy is False and wanted != obj.dtype:
            raise DTypeError(f"copy=False: obj has dtype {obj.dtype}, and converting it to {wanted} needs a copy")
        found = _placed(obj, device)
        if copy is False and found is not obj:
            raise LayoutError(f"copy=False: moving obj from GPU {obj.device} to device={device!r} needs a copy")
        return astype(found, wanted, copy=copy is True and found is obj)
    if dtype is None and _is_python(obj):
        found = np.asarray(obj)
        dtype = {"f": float32, "c": complex64}.get(found.dtype.kind, found.dtype)
        if copy is not False:
            return _made.asarray(found, dtype, device=device)
    return _made.asarray(obj, dtype, device=device, copy=copy)


def _placed(x: Any, device: Any) -> Any:
    """Return an array on a device; the array itself if it is on it already, or if no device is named."""
    if device is None:
        return x
    return x.to_device(device) if hasattr(x, "_numbacc_layout") else _made.asarray(x, device=device)


def _is_python(obj: Any) -> Any:
    """Return whether obj is a Python number, or a list of such."""
    if type(obj) in (list, tuple):
        return _all(map(_is_python, obj))
    return type(obj) in (int, float, complex, _truth)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an uninitialized array; see `numbacc.empty`. The default dtype is float32, as everywhere in numbacc."""
    return _made.empty(shape, _or_float32(dtype), device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of zeros; see `numbacc.zeros`."""
    return _made.zeros(shape, _or_float32(dtype), device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of ones."""
    return _made.full(shape, 1, _or_float32(dtype), device=device)


def _or_float32(dtype: Any) -> Any:
    return _DEFAULTS["real floating"] if dtype is None else dtype


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of equal elements; see `numbacc.full`. The default dtype is bool, int64, float32 or complex64."""
    kinds = {int: int64, float: float32, complex: complex64}
    found = kinds.get(type(fill_value), bool) if dtype is None else dtype
    return _made.full(shape, fill_value, found, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an uninitialized array like x; see `numbacc.empty_like`."""
    return _made.empty_like(x, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of x's shape whose elements all have one value."""
    found = _made.empty_like(x, dtype=dtype, device=device)
    found[...] = fill_value
    return found


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of zeros of x's shape."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of ones of x's shape."""
    return full_like(x, 1, dtype=dtype, device=device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """Return an array that shares x's memory; see `numbacc.from_dlpack`. For another device, x is copied."""
    taken = _made.from_dlpack(x)
    found = _placed(taken, device)
    if copy is False and found is not taken:
        raise LayoutError(f"copy=False: moving x to device={device!r} needs a copy")
    return _own.copy(found) if copy and found is taken else found


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Return the coordinates of a grid: each array of rank 1 repeated along the others' axes, as views."""
    if indexing not in ("xy", "ij"):
        raise unknown("indexing", indexing, ("xy", "ij"), 'it is "xy" or "ij"')
    rank = len(arrays)
    order = [*range(rank)]
    if indexing == "xy" and rank > 1:
        order[:2] = 1, 0
    shape = tuple(arrays[k].shape[0] for k in order)
    spread = (each[tuple(slice(None) if d == order[k] else None for d in range(rank))] for k, each in enumerate(arrays))
    return [_views.repeated(each, shape) for each in spread]


# ---------------------------------------------------------------- scans


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: Any = False) -> Any:
    """Return cumulative sums; see `elementwise.cumsum`. With include_initial=True, the first element is 0."""
    return _scanned(_own.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: Any = False) -> Any:
    """Return cumulative products; see `elementwise.cumprod`. With include_initial=True, the first element is 1."""
    return _scanned(_own.cumprod, 1, x, axis, dtype, include_initial)


def _scanned(function: Any, first: int, x: Any, axis: Any, dtype: Any, include_initial: Any) -> Any:
    if x.ndim == 0 or (axis is None and x.ndim > 1):
        raise ShapeError(f"x has rank {x.ndim}, axis={axis}: rank 0 is not supported, and rank 2 or more needs axis=")
    where = normalize_axis(0 if axis is None else axis, x.ndim, "x")
    if not include_initial:
        return function(x, axis=where, dtype=dtype)
    before = (slice(None),) * where
    kept = function(x[(*before, slice(0))], axis=where, dtype=dtype).dtype
    shape = tuple(n + (d == where) for d, n in enumerate(x.shape))
    found = _made.empty(shape, kept, device=_device_of(x))
    found[(*before, slice(1))] = first
    function(x, axis=where, dtype=kept, out=found[(*before, slice(1, None))])
    return found


def _device_of(x: Any) -> str:
    """Return an array's device, in the form of a `device=` argument."""
    return _operands.device_of(x)


# ---------------------------------------------------------------- dtypes


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    """Convert x to a dtype, as `elementwise.astype`, and move it to a device if one is named."""
    return _placed(_own.astype(x, dtype, copy=copy is not False), device)


# ---------------------------------------------------------------- shapes


def permute_dims(x: Any, /, axes: Sequence[int]) -> Any:
    """Return a view with the axes in another order."""
    return x.transpose(tuple(axes))


def matrix_transpose(x: Any, /) -> Any:
    """Return a view with the last two axes exchanged."""
    if x.ndim < 2:
        raise ShapeError(f"x has rank {x.ndim}; it must have 2 axes or more")
    return x.mT


def reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    """Return x with another shape: a view if the strides allow it; else, and with copy=True, a C-contiguous copy."""
    if isinstance(x, np.ndarray):
        try:
            return x.reshape(shape, copy=copy)
        except ValueError as error:
            kind = LayoutError if "copy" in str(error) else ShapeError
            raise kind(f"x cannot have shape={shape}: {error}") from None
    if copy is not True:
        try:
            return x.reshape(shape)
        except LayoutError:
            if copy is False:
                raise
    whole = _made.empty(x.shape, x.dtype, device=_device_of(x))
    return _own.copy(x, out=whole).reshape(shape)


def roll(x: Any, /, shift: int | tuple[int, ...], *, axis: Any = None) -> Any:
    """Shift elements along axes. Elements that leave at one end enter at the other. Without axis, x is flattened."""
    if axis is None:
        return roll(reshape(x, (-1,)), (_total(shift) if isinstance(shift, tuple) else shift), axis=0).reshape(x.shape)
    axes = axes_of(axis, x.ndim, "x", "axis")
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"shift={shift} is {len(shifts)} numbers for {len(axes)} axes; pass one shift for each axis")
    found = x if axes else _own.copy(x)
    for by, where in zip(shifts, axes, strict=True):
        start = -by % found.shape[where] if found.shape[where] else 0
        before = (slice(None),) * where
        found = _own.concatenate([found[(*before, slice(start, None))], found[(*before, slice(start))]], where)
    return found


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """Repeat x along each axis, `repetitions` times."""
    counts = (1,) * (x.ndim - len(repetitions)) + tuple(repetitions)
    shape = (1,) * (len(counts) - x.ndim) + tuple(x.shape)
    apart = reshape(x, tuple(n for length in shape for n in (1, length)))
    spread = _views.repeated(apart, tuple(n for pair in zip(counts, shape, strict=True) for n in pair))
    return reshape(spread, tuple(n * length for n, length in zip(counts, shape, strict=True)), copy=True)


def repeat(x: Any, repeats: int, /, *, axis: Any = None) -> Any:
    """Repeat each element `repeats` times, one after the other. Without axis, x is flattened."""
    if getattr(repeats, "shape", ()):
        raise UnsupportedError(
            "repeats is an array, so that only the GPU would know the result's shape: pass an integer"
        )
    if axis is None:
        return repeat(reshape(x, (-1,)), repeats, axis=0)
    where, times = normalize_axis(axis, x.ndim, "x"), _whole(repeats, "repeats", 0)
    apart = _views.expanded(x, where + 1)
    spread = _views.repeated(apart, (*x.shape[: where + 1], times, *x.shape[where + 1 :]))
    return reshape(spread, (*x.shape[:where], x.shape[where] * times, *x.shape[where + 1 :]), copy=True)


def squeeze(x: Any, /, axis: Any) -> Any:
    """Return a view without axes of length 1."""
    return x.squeeze(axis)


def expand_dims(x: Any, /, axis: int | Sequence[int] = 0) -> Any:
    """Return a view with one or more new axes."""
    return _views.expanded(x, axis)


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int], /) -> Any:
    """Return a view with one or more axes moved."""
    return _views.moved(x, source, destination)


def broadcast_to(x: Any, /, shape: Any) -> Any:
    """Return a view repeated along new axes and axes of length 1."""
    return _views.repeated(x, shape)


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """Return views repeated to one shape."""
    shapes = [tuple(x.shape) for x in arrays]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"arrays of the shapes {shapes} do not broadcast to one") from None
    return [_views.repeated(x, shape) for x in arrays]


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """Return a view with axes reversed, by default all."""
    found = range(x.ndim) if axis is None else axes_of(axis, x.ndim, "x", "axis")
    return x[(*(slice(None, None, -1) if d in found else slice(None) for d in range(x.ndim)), ...)]


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return views along an axis: one for each index, without that axis."""
    first = moveaxis(x, axis, 0)
    return tuple(first[k, ...] for k in range(first.shape[0]))


# ---------------------------------------------------------------- numbers


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Limit values to a range; see `elementwise.clamp`. Without bounds, return a copy."""
    return _own.copy(x) if min is None and max is None else _clamp(x, min, max)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """Return the number of elements that are not 0."""
    return _own.sum(_own.not_equal(x, 0), axis=axis, keepdims=keepdims)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences of adjacent elements along an axis, computed `n` times."""
    count = _whole(n, "n", 0)
    parts = [each for each in (prepend, x, append) if each is not None]
    found = _own.concatenate(parts, axis) if len(parts) > 1 else x
    for _ in range(count):
        last, first = (moveaxis(found, axis, 0)[part] for part in (slice(1, None), slice(None, -1)))
        found = moveaxis((_own.not_equal if found.dtype == bool else _own.subtract)(last, first), 0, axis)
    return found


def matmul(x1: Any, x2: Any, /) -> Any:
    """Return a matrix product; see `gemm.matmul`."""
    return _matmul(x1, x2)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of products of x1, conjugated, and x2, along an axis counted from the end."""
    least = _least(x1.ndim, x2.ndim)
    if not -least <= axis <= -1:
        raise AxisError(f"axis={axis} is out of range: use {-least} to -1")
    if x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(f"x1 and x2 have {x1.shape[axis]} and {x2.shape[axis]} elements along axis {axis}")
    products = _own.multiply(_own.conj(x1), x2)
    return _own.sum(products, axis=axis, dtype=products.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum of products over axes: the last `axes` of x1 and the first of x2, or the axes named for each."""
    if isinstance(axes, int):
        axes = range(x1.ndim - axes, x1.ndim), range(axes)
    ones, others = (
        axes_of(tuple(each), x.ndim, name, "axes") for each, x, name in zip(axes, (x1, x2), ("x1", "x2"), strict=True)
    )
    if [x1.shape[d] for d in ones] != [x2.shape[d] for d in others]:
        raise ShapeError(f"axes={axes}: x1 has shape {tuple(x1.shape)} and x2 {tuple(x2.shape)}; these lengths differ")
    rows, columns = ([d for d in range(x.ndim) if d not in summed] for x, summed in ((x1, ones), (x2, others)))
    shape = (*(x1.shape[d] for d in rows), *(x2.shape[d] for d in columns))
    inner, height, width = (math.prod(x.shape[d] for d in some) for x, some in ((x1, ones), (x1, rows), (x2, columns)))
    left = reshape(permute_dims(x1, (*rows, *ones)), (height, inner))
    right = reshape(permute_dims(x2, (*others, *columns)), (inner, width))
    return matmul(left, right).reshape(shape)
