"""Convert arguments of operations and plans to arrays, find their layouts, and make arrays for results.

This module does not load Numba as long as all arrays are NumPy arrays.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from ..base.dispatch import runtime
from ..base.layout import CPU, PORTABLE, Layout, argument_of
from ..base.layout import layout_of as _numpy_layout
from ..base.layout import overlap as _overlap
from ..errors import DeviceError
from ..runtime.streams import handle_of, target_of
from . import portable, values
from .foreign import check_is_no_value, unreadable

Array = Any  #: a NumPy array or a numbacc device array


def as_array(obj: Any, name: str, handle: int) -> Array:
    """Return an argument as a NumPy array or a device array, without a copy.

    A foreign GPU array is imported in the order of the stream `handle`: on the GPU, this stream waits for work that the
    array's library has queued.

    Raises:
        DTypeError: the argument is not an array.
    """
    kind = type(obj)
    if kind is np.ndarray:
        return obj
    imported = importers.get(kind)
    if imported is not None:
        return imported(obj, name, handle)
    try:
        if getattr(obj, "_numbacc_layout", None) is not None:
            return obj
    except Exception as error:
        raise unreadable(obj, name, error) from error
    if isinstance(obj, np.ma.MaskedArray):
        raise values.masked(name)
    if isinstance(obj, np.ndarray):
        return obj.view(np.ndarray)
    check_is_no_value(obj, name)
    arrays = _device_arrays()
    array = arrays.imported(obj, name, handle)
    importers[kind] = arrays.importer_of(kind)
    return array


def as_input(obj: Any, name: str, handle: int) -> Array:
    """Return `as_array` of an argument that is only read; a NumPy scalar becomes an array of rank 0.

    NumPy returns scalars instead of arrays of rank 0. So `exp(x.sum())` works for NumPy arrays as it does for GPU
    arrays.
    """
    if not isinstance(obj, np.generic):
        return as_array(obj, name, handle)
    array = np.asarray(obj)
    # A write to it would be lost.
    array.flags.writeable = False
    return array


#: Types of other libraries' arrays that were imported before -> the function that imports them.
importers: dict[type, Callable[[Any, str, int], Array]] = {}


_load: list[Callable[[], ModuleType]] = []


def device_arrays_by(load: Callable[[], ModuleType]) -> None:
    """Register a function that loads the module of device arrays.

    Operands need only the module's `DeviceArray`, `imported`, `importer_of` and `to_device`.
    """
    _load[:] = [load]


@lru_cache(maxsize=1)
def _device_arrays() -> ModuleType:
    """Load the module of device arrays, which imports Numba."""
    module = _load[0]()
    # Registered here and not in the module, because `unpickled` chooses between device arrays and NumPy arrays.
    copyreg.pickle(module.DeviceArray, _pickled)
    return module


def layout_of(array: Array) -> Layout:
    """Return the interned layout of a result of `as_array`."""
    if type(array) is np.ndarray:
        return _numpy_layout(array)
    try:
        return array._numbacc_layout  # type: ignore[no-any-return]
    except AttributeError:
        return _numpy_layout(array)


def overlap(one: Array, other: Array) -> bool:
    """Return whether two arrays share memory."""
    first, second = layout_of(one), layout_of(other)
    return first.device == second.device and _overlap(_address(one), first, _address(other), second)


def _address(array: Array) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)


def device_of(array: Array) -> str:
    """Return an array's device, in the form of a `device=` argument."""
    return argument_of(layout_of(array).device)


# ---------------------------------------------------------------- new arrays


def host_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an uninitialized NumPy array.

    Raises:
        DeviceError: out of memory.
    """
    try:
        return np.empty(shape, dtype)
    except MemoryError as error:
        raise DeviceError(f"out of host memory: {error}") from None


def empty_layout(array: Layout) -> np.ndarray[Any, Any]:
    """Return an uninitialized NumPy array of a dense layout, with that layout's strides."""
    memory = host_memory((array.nbytes,), np.dtype(np.uint8))
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def empty_host(array: Layout) -> Array:
    """Return an uninitialized array of a dense layout in host memory: a NumPy array, or a portable array."""
    return empty_layout(array) if array.device == CPU else portable.empty(array)


def on_hosts(run: Callable[..., Any], inputs: Any, outs: Any, scalars: Any) -> list[Array]:
    """Call `run`, a plan's NumPy computation, on portable arrays, and return the results."""
    hosts = [[None if each is None else each.host for each in arrays] for arrays in (inputs, outs)]
    found = run(*hosts, scalars)
    return [portable.of_host(each) if out is None else out for each, out in zip(found, outs, strict=True)]


def empty_device(array: Layout, stream: int) -> Array:
    """Return an uninitialized device array of a dense layout."""
    if not _makers:
        _makers[:] = [_device_arrays().DeviceArray, runtime().allocate]
    make, allocate = _makers
    storage = allocate(array.nbytes, array.device, stream)
    return make(array, storage.address, storage)


def device_array() -> Callable[[Layout, int, Any], Array]:
    """Return the function that makes a device array, given its layout, its address and the storage of its memory."""
    made: Callable[[Layout, int, Any], Array] = _device_arrays().DeviceArray
    return made


#: DeviceArray and the runtime's `allocate`, once they are needed.
_makers: list[Any] = []


def to_device(host: np.ndarray[Any, Any], target: int, handle: int) -> Array:
    """Copy a NumPy array to a GPU, or into a portable array."""
    if target == PORTABLE:
        return portable.of_host(values.gapless(host).copy(order="K"))
    return _device_arrays().to_device(host, target, handle)


# ---------------------------------------------------------------- pickles


def _pickled(array: Any) -> tuple[Any, ...]:
    """Reduce a device array to its values, copied to the host. This blocks."""
    host = array._copy_to_host(None, array._usual_stream(), "pickling an array")
    # Pickled NumPy arrays keep only C and Fortran order. For other orders, the pickle holds the order of the axes.
    axes = sorted(range(array.ndim), key=lambda d: -host.strides[d])
    return unpickled, (host.transpose(axes), tuple(sorted(range(array.ndim), key=axes.__getitem__)))


def unpickled(host: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Array:
    """Restore a device array from a pickle: on the current GPU, or in NumPy without a GPU.

    Args:
        host: C-contiguous values.
        axes: the order of its axes that restores the array's shape.
    """
    array, target = values.host_array(host.transpose(axes), None, "obj"), target_of(None)
    return array if target == CPU else to_device(array, target, handle_of(None))
