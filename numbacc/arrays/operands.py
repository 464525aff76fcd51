"""Operands: arguments as arrays, their layouts, and new arrays for results.

What operations and plans use. Nothing here brings Numba as long as all arrays are NumPy's.
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
    """An argument as a NumPy array or a device array, without a copy.

    A foreign GPU array is taken over in the order of the stream `handle`: what its producer has queued is
    waited for there, on the GPU.

    Raises:
        DTypeError: it is not an array.
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
    """`as_array` of what is only read: one of NumPy's numbers is an array of rank 0.

    NumPy makes such numbers of its arrays of rank 0: so `exp(x.sum())` is of its arrays what it is of those on a GPU.
    """
    if not isinstance(obj, np.generic):
        return as_array(obj, name, handle)
    array = np.asarray(obj)
    # Whoever writes to it would lose what is written.
    array.flags.writeable = False
    return array


#: Types of other libraries' arrays that have been taken before -> what takes them.
importers: dict[type, Callable[[Any, str, int], Array]] = {}


_load: list[Callable[[], ModuleType]] = []


def device_arrays_by(load: Callable[[], ModuleType]) -> None:
    """Set what loads the module of device arrays. Operands need only its `DeviceArray`, `imported`, `importer_of` and
    `to_device`."""
    _load[:] = [load]


@lru_cache(maxsize=1)
def _device_arrays() -> ModuleType:
    """The module of device arrays, once it is needed: it brings Numba."""
    module = _load[0]()
    # Here, since what loads a pickle decides whether there are device arrays, which know nothing of that.
    copyreg.pickle(module.DeviceArray, _pickled)
    return module


def layout_of(array: Array) -> Layout:
    """The interned layout of what `as_array` returned."""
    if type(array) is np.ndarray:
        return _numpy_layout(array)
    try:
        return array._numbacc_layout  # type: ignore[no-any-return]
    except AttributeError:
        return _numpy_layout(array)


def overlap(one: Array, other: Array) -> bool:
    """Whether two arrays share memory."""
    first, second = layout_of(one), layout_of(other)
    return first.device == second.device and _overlap(_address(one), first, _address(other), second)


def _address(array: Array) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)


def device_of(array: Array) -> str:
    """Where an array is, as functions that make arrays take it."""
    return argument_of(layout_of(array).device)


# ---------------------------------------------------------------- new arrays


def host_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialized NumPy array.

    Raises:
        DeviceError: there is not enough memory.
    """
    try:
        return np.empty(shape, dtype)
    except MemoryError as error:
        raise DeviceError(f"out of host memory: {error}") from None


def empty_layout(array: Layout) -> np.ndarray[Any, Any]:
    """An uninitialized NumPy array of a dense layout, in whatever order its strides say."""
    memory = host_memory((array.nbytes,), np.dtype(np.uint8))
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def empty_host(array: Layout) -> Array:
    """An uninitialized array of a dense layout in host memory: NumPy's, or a portable one."""
    return empty_layout(array) if array.device == CPU else portable.empty(array)


def on_hosts(run: Callable[..., Any], inputs: Any, outs: Any, scalars: Any) -> list[Array]:
    """The results of `run`, a plan's work in NumPy, of portable arrays."""
    hosts = [[None if each is None else each.host for each in arrays] for arrays in (inputs, outs)]
    found = run(*hosts, scalars)
    return [portable.of_host(each) if out is None else out for each, out in zip(found, outs, strict=True)]


def empty_device(array: Layout, stream: int) -> Array:
    """An uninitialized device array of a dense layout."""
    if not _makers:
        _makers[:] = [_device_arrays().DeviceArray, runtime().allocate]
    make, allocate = _makers
    storage = allocate(array.nbytes, array.device, stream)
    return make(array, storage.address, storage)


#: DeviceArray and the runtime's `allocate`, once they are needed.
_makers: list[Any] = []


def to_device(host: np.ndarray[Any, Any], target: int, handle: int) -> Array:
    """A copy of a NumPy array on a GPU, or a portable one."""
    if target == PORTABLE:
        return portable.of_host(values.gapless(host).copy(order="K"))
    return _device_arrays().to_device(host, target, handle)


# ---------------------------------------------------------------- pickles


def _pickled(array: Any) -> tuple[Any, ...]:
    """A device array as its values, by way of the host, which blocks."""
    host = array._copy_to_host(None, array._usual_stream(), "pickling an array")
    # NumPy keeps C and Fortran order only: any other travels as an order of the axes.
    axes = sorted(range(array.ndim), key=lambda d: -host.strides[d])
    return unpickled, (host.transpose(axes), tuple(sorted(range(array.ndim), key=axes.__getitem__)))


def unpickled(host: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Array:
    """A device array out of a pickle: on the current GPU, in NumPy without one.

    Args:
        host: C-contiguous values.
        axes: the order of its axes that gives the array its shape.
    """
    array, target = values.host_array(host.transpose(axes), None, "obj"), target_of(None)
    return array if target == CPU else to_device(array, target, handle_of(None))
