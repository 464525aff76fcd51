"""Convert numbers to another dtype on the host with the same bits as kernels do (`kernels.primitives.casts`).

Where NumPy and ml_dtypes say the same, they do it. But ml_dtypes rounds twice, by way of float32, and makes infinities
and NaN of what is beyond the range of 8 bits; and what NumPy makes of a float that fits no integer differs from machine
to machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

#: Bits of float64's precision, and those that a 64-bit integer has more.
_PRECISION, _SPARE = 53, 11

#: Whether NumPy's warnings are off already.
_quiet: ContextVar[bool] = ContextVar("_quiet", default=False)
_nothing = nullcontext()


def quietly() -> AbstractContextManager[None]:
    """A context without NumPy's warnings, and at next to no cost inside `quiet`: else it takes as long as a cast."""
    return _nothing if _quiet.get() else np.errstate(all="ignore")


@contextmanager
def quiet() -> Iterator[None]:
    """A context without NumPy's warnings, for much that asks for that again."""
    token = _quiet.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _quiet.reset(token)


def cast(values: Any, dtype: np.dtype[Any]) -> Array:
    """An array in another dtype; itself where it has that.

    Floats are rounded once, to the nearest, ties to even. What is beyond the range of floats of 8 bits, infinities too,
    becomes the largest finite one; NaN stays NaN. Of a float an integer takes what lies before the point: the
    nearest that it holds of what is out of range, infinities too, and 0 of NaN. Integers wrap. All but 0 is true, so is
    NaN.
    """
    array = np.asarray(values)
    source = array.dtype
    if source == dtype:
        return array
    with quietly():
        if dtype.kind in "iu" and (source.kind == "f" or _is_extended(source)):
            return _saturated(array.astype(np.float64), dtype)
        if _is_extended(dtype) and (source.kind == "O" or (source.kind in "iuf" and source.itemsize > 2)):
            array = _rounded_to_odd(array)
        if _is_extended(dtype) and dtype.itemsize == 1:
            largest = np.float32(ml_dtypes.finfo(dtype).max)
            array = np.asarray(np.clip(array.astype(np.float32), -largest, largest))  # rank 0 too
        return array.astype(dtype)


def _is_extended(dtype: np.dtype[Any]) -> bool:
    """True for the floats of ml_dtypes."""
    return dtype.type.__module__ != "numpy"


def _saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    bounds = np.iinfo(dtype)
    # 2^63 and 2^64, unlike the integers before them, are float64s.
    low, above = float(bounds.min), float(bounds.max + 1)
    found = np.where((x > low) & (x < above), x, 0.0).astype(dtype)
    return np.where(x <= low, dtype.type(bounds.min), np.where(x >= above, dtype.type(bounds.max), found))


def _rounded_to_odd(array: Array) -> Array:
    """Numbers as the float32 that round to fewer bits as the numbers themselves do: see `kernels.primitives.casts`."""
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
    """Integers of 64 bits as float64 can hold them: its last bit says whether one behind it is set."""
    kind = integers.dtype.type
    spare = kind(_SPARE)
    some = (integers & kind((1 << _SPARE) - 1)) != 0
    above = integers >> kind(_PRECISION)
    is_small = (above == kind(0)) | (above == ~kind(0))
    return np.where(is_small, integers, (integers >> spare | some) << spare)
