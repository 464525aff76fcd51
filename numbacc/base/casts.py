"""Convert numbers on the host, with the same bits as in kernels (`kernels.primitives.casts`).

NumPy and ml_dtypes do it where they agree with the kernels. But ml_dtypes rounds twice, through float32, and turns
values beyond the range of 8-bit floats into infinity or NaN. And NumPy's result for a float that is out of an integer
dtype's range depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

#: Bits of float64's precision, and by how many bits a 64-bit integer exceeds it.
_PRECISION, _SPARE = 53, 11

#: Whether NumPy's warnings are already off.
_quiet: ContextVar[bool] = ContextVar("_quiet", default=False)
_nothing = nullcontext()


def quietly() -> AbstractContextManager[None]:
    """Return a context without NumPy's warnings; it is almost free inside `quiet`, else as slow as a cast."""
    return _nothing if _quiet.get() else np.errstate(all="ignore")


#: Return whether NumPy's warnings are already off, so that `quietly` would do nothing.
is_quiet = _quiet.get


@contextmanager
def quiet() -> Iterator[None]:
    """Turn off NumPy's warnings for many nested uses of `quietly`."""
    token = _quiet.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _quiet.reset(token)


def cast(values: Any, dtype: np.dtype[Any]) -> Array:
    """Return an array in another dtype, or the array itself if it already has that dtype.

    Floats are rounded once, to nearest, ties to even. Values beyond the range of 8-bit floats, including infinities,
    become the largest finite number; NaN stays NaN. A float becomes an integer by truncation, with saturation for
    values out of range, including infinities, and NaN becomes 0. Integers wrap. As bools, all values but 0 are true,
    including NaN.
    """
    array = np.asarray(values)
    source = array.dtype
    if source is dtype or source == dtype:
        return array
    if is_quiet():
        return _converted(array, source, dtype)
    with quietly():
        return _converted(array, source, dtype)


def _converted(array: Array, source: np.dtype[Any], dtype: np.dtype[Any]) -> Array:
    kind = source.kind
    if dtype.kind in "iu":
        if kind == "f" or _is_extended(source):
            return _saturated(array.astype(np.float64), dtype)
    elif _is_extended(dtype):
        if kind == "O" or (kind in "iuf" and source.itemsize > 2):
            array = _rounded_to_odd(array)
        if dtype.itemsize == 1:
            largest = np.float32(ml_dtypes.finfo(dtype).max)
            array = np.asarray(np.clip(array.astype(np.float32), -largest, largest))  # rank 0 too
    return array.astype(dtype)


def _is_extended(dtype: np.dtype[Any]) -> bool:
    """Return True for the floats of ml_dtypes."""
    return dtype.type.__module__ != "numpy"


def _saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    bounds = np.iinfo(dtype)
    # float64 represents 2^63 and 2^64, but not the integers just below them.
    low, above = float(bounds.min), float(bounds.max + 1)
    found = np.where((x > low) & (x < above), x, 0.0).astype(dtype)
    return np.where(x <= low, dtype.type(bounds.min), np.where(x >= above, dtype.type(bounds.max), found))


def _rounded_to_odd(array: Array) -> Array:
    """Return float32 values that round to fewer bits as the given numbers do: see `kernels.primitives.casts`."""
    if array.dtype == np.float32:
        return array
    if array.dtype in (np.int64, np.uint64):
        array = _sticky(array)
    x = array.astype(np.float64)
    near = np.asarray(x.astype(np.float32))
    back, bits = near.astype(np.float64), near.view(np.uint32)
    truncated = bits - (np.abs(back) > np.abs(x))
    return np.asarray(truncated | ((back != x) & (x == x)), np.uint32).view(np.float32)


def _sticky(integers: Array) -> Array:
    """Return 64-bit integers that float64 can hold: their last bit is also set if a lower bit was lost."""
    kind = integers.dtype.type
    spare = kind(_SPARE)
    some = (integers & kind((1 << _SPARE) - 1)) != 0
    above = integers >> kind(_PRECISION)
    is_small = (above == kind(0)) | (above == ~kind(0))
    return np.where(is_small, integers, (integers >> spare | some) << spare)
