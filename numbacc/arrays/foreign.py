"""Descriptions of other libraries' arrays, and checks for unsupported ones: without values, without memory, masked."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base import dtypes
from ..base.layout import host_view, integers_of, is_sequence, row_major_strides, too_large
from ..errors import DTypeError, LayoutError, ShapeError, shown


def unreadable(obj: Any, name: str, error: Exception) -> DTypeError:
    """Return the error for an object whose library fails to describe it; `error` is the cause."""
    return DTypeError(
        f"{name} is a {type(obj).__name__} of {type(obj).__module__}, which numbacc cannot use as an array: "
        f"{type(error).__name__}: {error}"
    )


#: Immutable classes, whose exports may not be marked read-only: (the first part of the module's name, name).
_IMMUTABLE = {("jax", "Array"), ("jaxlib", "ArrayImpl"), ("tensorflow", "Tensor"), ("pyarrow", "Array")}
_TRACERS = {("jax", "Tracer")}


@lru_cache(maxsize=256)
def _bases(kind: Any) -> frozenset[tuple[str, str]]:
    """Return (the first part of the module's name, name) for a class and its bases."""
    return frozenset((base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__)


def is_immutable(kind: type) -> bool:
    """Return whether arrays of this class must not be written, such as JAX's. This does not import JAX."""
    return not _IMMUTABLE.isdisjoint(_bases(kind))


def check_is_no_tracer(obj: Any, name: str) -> None:
    """Raise DTypeError if JAX is tracing a function: it passes objects without values."""
    kind: Any = type(obj)
    if not _TRACERS.isdisjoint(_bases(kind)):
        raise DTypeError(
            f"{name} is a {type(obj).__name__} without values: jax.jit, grad or vmap traces a function, and numbacc's "
            "functions cannot be traced. Call numbacc outside of the transformed function; inside of jax.jit call it "
            "through jax.pure_callback, with jax.custom_vjp for its gradients"
        )


#: Types that users pass by mistake. They raise an error before Numba is imported.
_NO_ARRAYS = (int, float, complex, str, bytes, list, tuple, dict, set, type(None), np.generic)


def check_is_no_value(obj: Any, name: str) -> None:
    """Raise DTypeError if a Python or NumPy object was passed instead of an array."""
    check_is_no_tracer(obj, name)
    if isinstance(obj, _NO_ARRAYS):
        raise DTypeError(f"{name} is a {type(obj).__name__}; it must be an array: numbacc.asarray makes one")


def signed_strides(steps: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Convert strides in elements to strides in bytes.

    Strides wrap around modulo 2^64, as addresses do: CuPy (14.2) divides strides of -s bytes as unsigned integers, and
    so exports (2^64 - s) / itemsize elements.
    """
    return tuple((n * itemsize + 2**63) % 2**64 - 2**63 for n in steps)


def check_memory(name: str, address: int, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise an error if no array of that shape can lie at the address."""
    if any(n < 0 for n in shape):
        raise ShapeError(f"{name} has shape {shape}, with a negative length")
    if not address and 0 not in shape:
        raise LayoutError(f"{name} has shape {shape} but no memory: its address is null")
    if too_large(shape, itemsize):
        raise ShapeError(f"{name} has shape {shape}, which is too large for any memory")
    if address % itemsize:
        raise LayoutError(f"{name} starts at {address:#x}, which is not a multiple of its element size {itemsize}")


class Interface(NamedTuple):
    """The content of `__cuda_array_interface__`. Strides are in bytes; the stream is None if no wait is needed."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int
    readonly: bool
    stream: int | None


def interface_of(obj: Any, name: str) -> Interface:
    """Return the content of an object's `__cuda_array_interface__`, version 2 or 3.

    Raises:
        DTypeError: the dtype is unsupported, the array has a mask, or the stream is invalid.
        LayoutError, ShapeError: no array can have this memory.
    """

    def integers(field: str) -> tuple[int, ...]:
        if not is_sequence(found[field]):
            raise ShapeError(f"{name}.__cuda_array_interface__[{field!r}]={shown(found[field])} is not a tuple")
        return integers_of(found[field], f"{name}.__cuda_array_interface__[{field!r}]")

    found = obj.__cuda_array_interface__
    if found.get("mask") is not None:
        raise DTypeError(f"{name} has a mask, which would be lost; pass an array without one")
    dtype = np.dtype(found["typestr"])
    if dtype.kind == "V":  # the interface's name for CuPy's bfloat16 arrays
        dtype = np.dtype(getattr(obj, "dtype", dtype))
    itemsize = dtypes.info(dtype).itemsize
    shape = integers("shape")
    address, readonly = found["data"]
    address = int(address or 0)
    check_memory(name, address, shape, itemsize)
    dense = found.get("strides") is None
    strides = row_major_strides(shape, itemsize) if dense else signed_strides(integers("strides"), 1)
    if len(strides) != len(shape) or any(step % itemsize for step in strides):
        raise LayoutError(f"{name} has strides {strides}, not multiples of its element size {itemsize} for each axis")
    stream = found.get("stream")
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool) or not 0 <= stream < 2**64):
        raise DTypeError(
            f"{name}.__cuda_array_interface__['stream']={shown(stream)} is not a stream's handle, an integer"
        )
    # The interface's number of the legacy default stream is 1.
    return Interface(shape, strides, dtype, address, bool(readonly), 0 if stream == 1 else stream)


def host_array(
    owner: object, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], readonly: bool
) -> np.ndarray[Any, Any]:
    """Return a NumPy array over host memory that `owner` keeps alive."""
    if 0 in shape:
        return np.empty(shape, dtype)

    return host_view(owner, address, shape, strides, f"|V{dtype.itemsize}", readonly).view(dtype)
