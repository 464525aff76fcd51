"""Convert values to be written into an array, as NumPy's assignment does, on GPUs and on the CPU.

Scalars must fit the dtype (300 and NaN do not fit int8, 2.5 becomes 2). Arrays are cast as in `base.casts`. All values
broadcast. Unlike in NumPy, complex values never become real ones.
"""

from __future__ import annotations

import dis
import numbers
import sys
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.casts import cast
from ..base.layout import Layout, layout_of, read_only
from ..errors import DTypeError, Error, LayoutError, OptionError, ShapeError, shown

_ON_HOST = (int, float, complex, np.ndarray, np.generic, list, tuple, numbers.Number)
_NO_VALUES = (str, bytes, np.str_, np.bytes_)
#: NumPy's kinds of dtypes that are not numeric: text, dates and durations. NumPy would convert "5" to a number, and
#: None to NaN.
_NO_NUMBERS = "SUMm"


def is_on_host(value: Any) -> bool:
    """Return True for values that are converted here; other values must be arrays of another library."""
    return isinstance(value, _ON_HOST)


def converted(value: Any, dtype: np.dtype[Any], name: str) -> np.ndarray[Any, Any]:
    """Convert a scalar, NumPy array or nested list of numbers to a NumPy array of `dtype`, without a copy if possible.

    Raises:
        DTypeError: it is not a scalar, array or list of numbers, or it is complex and dtype is not.
        OptionError: dtype cannot hold a scalar.
        ShapeError: lists have unequal lengths.
    """
    if isinstance(value, _NO_VALUES):
        raise DTypeError(
            f"{name}={shown(value)} is a {type(value).__name__}; it must be a number or an array of numbers"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise masked(name)
    try:
        if isinstance(value, np.ndarray):
            _check_numbers(value, dtype, name)
            return cast(value, dtype)
        # For dtypes of ml_dtypes, NumPy would call ml_dtypes, which accepts no integer of more than 64 bits.
        extended = dtype.type.__module__ != "numpy"
        if extended or isinstance(value, (list, tuple, np.generic)):
            _check_numbers(np.asarray(value), dtype, name)
        if extended:
            return cast(value, dtype)
        if isinstance(value, (list, tuple)):
            return np.asarray(value, dtype)
        cell = np.empty((), dtype)
        cell[()] = value
        return cell
    except Error:
        raise
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _refusal(value, dtype, name, error) from error


def host_array(obj: Any, wanted: np.dtype[Any] | None, name: str) -> np.ndarray[Any, Any]:
    """Make a NumPy array of an object, in the dtype `wanted`, or in any dtype that numbacc supports.

    Raises:
        DTypeError, ShapeError, OptionError: NumPy cannot convert it.
    """
    if wanted is not None and is_on_host(obj):
        return converted(obj, wanted, name)
    if isinstance(obj, np.ma.MaskedArray):
        raise masked(name)
    try:
        host = np.asarray(obj)
        if wanted is not None:
            _check_numbers(host, wanted, name)
            host = cast(host, wanted)
    except Error:
        raise
    except (ArithmeticError, ValueError, TypeError) as error:
        found = ShapeError if isinstance(obj, (list, tuple)) and isinstance(error, ValueError) else DTypeError
        raise found(f"{name} is a {type(obj).__name__} that NumPy cannot convert to an array: {error}") from error
    dtypes.info(host.dtype, name)
    return host


def _check_numbers(found: np.ndarray[Any, Any], dtype: np.dtype[Any], name: str) -> None:
    """Raise DTypeError unless the elements are numbers, which may be complex only if `dtype` is."""
    if found.dtype.kind == "c" and dtype.kind not in "cb":
        raise DTypeError(f"{name} is complex, and cannot become {dtype}; pass its real part, or use a complex dtype")
    if found.dtype.kind in _NO_NUMBERS:
        raise DTypeError(f"{name} has elements of dtype {found.dtype}; they must be numbers")
    if found.dtype.kind == "O":
        for element in found.flat:
            if not isinstance(element, (numbers.Number, np.generic)) or np.asarray(element).dtype.kind in _NO_NUMBERS:
                raise DTypeError(
                    f"{name} has the element {shown(element)}, a {type(element).__name__}; it must be a number"
                )


def _refusal(value: Any, dtype: np.dtype[Any], name: str, error: Exception) -> Error:
    if isinstance(value, (list, tuple)):
        try:
            np.asarray(value)
        except ValueError:
            return ShapeError(f"{name} has lists of unequal lengths: {error}")
    if isinstance(error, TypeError):
        return DTypeError(f"{name}={shown(value)} cannot be converted to {dtype}: {error}")
    return OptionError(f"{name}={shown(value)} does not fit into {dtype}: {error}")


def check_same_dtype(given: np.dtype[Any], name: str, own: np.dtype[Any]) -> None:
    """Raise DTypeError if a device array is written to one of another dtype."""
    if given != own:
        raise DTypeError(
            f"{name} has dtype {given} and the array {own}; convert it: "
            f"numbacc.elementwise.astype({name}, {own.name!r})"
        )


def broadcast(value: Any, shape: tuple[int, ...], name: str) -> Any:
    """Remove leading axes of length 1 that `shape` lacks from an array, which broadcasts to `shape` as in NumPy.

    Raises:
        ShapeError: the array does not broadcast.
    """
    given = value.shape
    if given in (shape, ()):
        return value
    extra = max(len(given) - len(shape), 0)
    aligned = given[extra:]
    fits = all(n == m or n == 1 for n, m in zip(reversed(aligned), reversed(shape), strict=False))
    if not fits or any(n != 1 for n in given[:extra]):
        raise ShapeError(f"{name} has shape {given}, which does not broadcast to {shape}")
    return value.reshape(aligned) if extra else value


def gapless(host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a NumPy array that can be copied in one piece, in its own memory order if possible."""
    if host.flags.c_contiguous:
        return host
    # Order "K" keeps the memory order of a dense array, so that a transposed array stays one.
    dense = host if host.flags.forc else np.array(host, order="K")
    strides = dense.strides
    if any(s < 0 for s in strides) or not (dense.flags.forc or layout_of(dense).high == dense.nbytes):
        return np.ascontiguousarray(host)
    return dense


def check_target(target: Any, name: str, source: Layout, source_name: str) -> None:
    """Raise an error unless `target` is a NumPy array that another array's values can be copied into unchanged.

    Raises:
        DTypeError: it is not a NumPy array, or has another dtype.
        ShapeError: it has another shape.
        LayoutError: it is read-only.
    """
    if not isinstance(target, np.ndarray):
        raise DTypeError(f"{name} is a {type(target).__name__}; it must be a NumPy array")
    if target.shape != source.shape:
        raise ShapeError(f"{name} has shape {target.shape}; {source_name} has shape {source.shape}")
    if target.dtype != source.dtype:
        raise DTypeError(f"{name} has dtype {target.dtype}; {source_name} has dtype {source.dtype}")
    if not target.flags.writeable:
        raise read_only(name)


#: The bytecodes of Python's own assignments to parts of an array.
_ASSIGNMENTS = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}


def check_is_no_exchange() -> None:
    """Raise LayoutError if compiled code two frames up assigns a part of an array to another: `x[i] = view`.

    `numpy.random.shuffle` exchanges rows by `x[i], x[j] = x[j], x[i]`. If rows are views, one row appears twice
    afterwards. An array does not know who calls it, but the bytecode of the calling frame shows whether this is one of
    Python's own assignments.
    """
    caller = sys._getframe(2)
    if caller.f_code.co_code[caller.f_lasti] not in _ASSIGNMENTS:
        raise LayoutError(
            "compiled code such as numpy.random.shuffle exchanges rows of a device array. Rows are views, so one row "
            "would appear twice. Take the rows in a random order: "
            "numbacc.elementwise.take(x, numbacc.asarray(rng.permutation(len(x))), axis=0)"
        )


def masked(name: str) -> DTypeError:
    """Return the error for a masked array, whose mask would be lost."""
    return DTypeError(f"{name} is a masked array; pass {name}.filled(...), or {name}.data without the mask")
