"""Arrays: making them, moving them between host and GPU, and taking those of other libraries.

On a machine without a GPU everything here works on NumPy arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.backend import backend, has_gpu
from ..base.layout import CPU, Layout, layout, lengths_of, row_major_strides
from ..base.layout import layout_of as _numpy_layout
from ..device import workspace
from ..device.devices import named, target_of
from ..device.streams import handle_of
from ..errors import DeviceError, DTypeError, LayoutError, OptionError, shown
from . import values
from .foreign import unreadable

Array = Any  #: a NumPy array or a numbacc device array


# ---------------------------------------------------------------- what operations use


def as_array(obj: Any, name: str, handle: int) -> Array:
    """An argument as a NumPy array or a device array, without a copy.

    A foreign GPU array is taken over in the order of the stream `handle`: what its producer has queued is
    waited for there, on the GPU.

    Raises:
        DTypeError: it is no array.
    """
    kind = type(obj)
    if kind is np.ndarray:
        return obj
    if kind in _imported:
        return _importer()(obj, name, handle)
    try:
        if getattr(obj, "_numbacc_layout", None) is not None:
            return obj
    except Exception as error:
        raise unreadable(obj, name, error) from error
    if isinstance(obj, np.ma.MaskedArray):
        raise values.masked(name)
    if isinstance(obj, np.ndarray):
        return obj.view(np.ndarray)
    if isinstance(obj, _NO_ARRAYS):
        raise DTypeError(f"{name} is a {kind.__name__}; it must be an array: numbacc.asarray makes one")
    array = _importer()(obj, name, handle)
    _imported.add(kind)
    return array


#: What people pass by mistake: refused before Numba is imported to look at it.
_NO_ARRAYS = (int, float, complex, str, bytes, list, tuple, dict, set, type(None), np.generic)
#: Types that have been taken as arrays before.
_imported: set[type] = set()


@lru_cache(maxsize=1)
def _importer() -> Any:
    from .interop import import_array

    return import_array


def layout_of(array: Array) -> Layout:
    """The interned layout of what `as_array` returned."""
    try:
        return array._numbacc_layout  # type: ignore[no-any-return]
    except AttributeError:
        return _numpy_layout(array)


def check_same_device(one: Layout, name: str, other: Layout, other_name: str) -> None:
    """Raise DeviceError unless both are on the same GPU, or both on the CPU."""
    if one.device != other.device:
        raise DeviceError(
            f"{name} is {_place(one.device)} and {other_name} {_place(other.device)}; nothing is copied "
            "silently: move one with numbacc.asarray or numbacc.asnumpy"
        )


def _place(device: int) -> str:
    return "in host memory (NumPy)" if device == CPU else f"on cuda:{device}"


def empty_layout(array: Layout) -> np.ndarray[Any, Any]:
    """An uninitialized NumPy array of a dense layout, in whatever order its strides say."""
    memory = _host_memory((array.nbytes,), np.dtype(np.uint8))
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def empty_device(array: Layout, stream: int) -> Array:
    """An uninitialized device array of a dense layout."""
    if not _makers:
        _find_makers()
    make, allocate = _makers
    storage = allocate(array.nbytes, array.device, stream)
    return make(array, storage.address, storage)


#: DeviceArray and the backend's allocate, once they are needed: they bring Numba.
_makers: list[Any] = []


def _find_makers() -> None:
    from .device_array import DeviceArray

    _makers[:] = [DeviceArray, backend().allocate]


# ---------------------------------------------------------------- the public functions


def asarray(obj: Any, dtype: Any = None, *, device: int | str | None = None, stream: Any = None) -> Array:
    """`obj` on the GPU where there is one, as a NumPy array where there is none.

    Args:
        obj: anything NumPy takes, or a GPU array of any library (which is not copied unless dtype says so).
        dtype: the result's dtype, bfloat16 and float8 included; obj's own if None.
        device: a GPU's number or "cuda:0"; "cpu" for NumPy. None: the current GPU, or NumPy without one; an array
            that is on a GPU stays there.
        stream: the stream that the copy is queued on. From pinned memory (`numba.cuda.pinned_array`) the copy is
            asynchronous: do not change the source before the stream is past it. From ordinary memory this
            blocks until the source is read.

    Returns:
        a device array, or a NumPy array.

    Raises:
        DTypeError: the dtype is unknown, or obj is on a GPU and of another dtype.
        DeviceError: the GPU does not exist, is full, or obj is on another one.
    """
    handle = handle_of(stream)
    wanted = None if dtype is None else dtypes.dtype(dtype)
    target = target_of(device)
    # In this order: torch raises KeyError when a float8 tensor is asked for the array interface.
    if not isinstance(obj, np.ndarray) and (_has(obj, "__dlpack__") or _has(obj, "__cuda_array_interface__")):
        obj = as_array(obj, "obj", handle)
        if not isinstance(obj, np.ndarray):
            return _from_device(obj, wanted, target, device, handle)
    host = values.host_array(obj, wanted, "obj")
    return host if target == CPU else to_device(host, target, handle)


def _has(obj: Any, attribute: str) -> bool:
    try:
        return hasattr(obj, attribute)
    except Exception as error:
        raise unreadable(obj, "obj", error) from error


def asnumpy(obj: Any, *, out: np.ndarray[Any, Any] | None = None, stream: Any = None) -> Any:
    """`obj` as a NumPy array; a NumPy array itself is returned as it is.

    Args:
        obj: array of any library.
        out: C-contiguous NumPy array of obj's shape and dtype to copy into. If it is pinned
            (`numba.cuda.pinned_array`) the copy is only queued: synchronize the stream before reading it.
        stream: the stream that the copy is queued on.

    Returns:
        NumPy array. Without a pinned `out` this blocks until the copy is there.

    Raises:
        ShapeError, DTypeError, LayoutError: out does not fit, or is no NumPy array.
    """
    handle = handle_of(stream)
    array = obj if isinstance(obj, np.ndarray) else as_array(obj, "obj", handle)
    source = layout_of(array)
    if out is not None:
        values.check_target(out, "out", source, "obj")
        if not out.flags.c_contiguous:
            raise LayoutError("out must be C-contiguous")
    if isinstance(array, np.ndarray):
        if out is None:
            return array
        np.copyto(out, array)
        return out
    return array._copy_to_host(out, handle, "asnumpy")


def empty(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    *,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """An array of arbitrary contents.

    Args:
        shape: lengths of the dimensions; an integer for one dimension.
        dtype: any dtype of NumPy's numbers, bfloat16, float8_e4m3fn or float8_e5m2.
        device: a GPU's number or "cuda:0", or "cpu"; by default the current GPU, or NumPy without one.
        stream: the stream in whose order the memory is used and freed.

    Raises:
        ShapeError: a negative length, or more bytes than have addresses. DTypeError: an unknown dtype.
        DeviceError: no such GPU, or no memory left; what could be freed by waiting for queued work has been.
        OptionError: stream is none.
    """
    handle = handle_of(stream)
    found, target = dtypes.dtype(dtype), target_of(device)
    lengths = lengths_of(shape, found.itemsize)
    if target == CPU:
        return _host_memory(lengths, found)
    return empty_device(layout(lengths, row_major_strides(lengths, found.itemsize), found, target), handle)


def _host_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    try:
        return np.empty(shape, dtype)
    except MemoryError as error:
        raise DeviceError(f"out of host memory: {error}") from None


def empty_like(obj: Any, *, dtype: Any = None, device: int | str | None = None, stream: Any = None) -> Array:
    """An array of arbitrary contents with obj's shape, and its dtype and device unless others are given.

    Arguments and errors as in `empty`.
    """
    source = layout_of(as_array(obj, "obj", handle_of(stream)))
    return empty(
        source.shape,
        source.dtype if dtype is None else dtype,
        device=_name(source) if device is None else device,
        stream=stream,
    )


def zeros(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    *,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """An array of zeros. Arguments and errors as in `empty`."""
    array = empty(shape, dtype, device=device, stream=stream)
    if isinstance(array, np.ndarray):
        array[...] = 0
    else:
        array._fill(0, handle_of(stream))
    return array


def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: Any = "float32",
    *,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """An array whose elements are all `fill_value`.

    Args:
        fill_value: a number; or an array, or a list of numbers, that broadcasts to `shape`. Python's numbers must
            fit the dtype, as in NumPy: 300 and NaN are no int8. An array on a GPU must have the dtype.
        shape, dtype, device, stream: as in `empty`.

    Raises:
        OptionError: a number that does not fit. ShapeError: an array that does not broadcast. DTypeError: no
        number, or a complex one where dtype is not. DeviceError: an array on another device. As `empty` besides.
    """
    array = empty(shape, dtype, device=device, stream=stream)
    handle = handle_of(stream)
    if not isinstance(array, np.ndarray):
        array._assign(fill_value, handle, "fill_value")
        return array
    if not values.is_on_host(fill_value):
        fill_value = as_array(fill_value, "fill_value", handle)
        check_same_device(layout_of(fill_value), "fill_value", _numpy_layout(array), "the array")
    host = values.converted(fill_value, array.dtype, "fill_value")
    array[...] = values.broadcast(host, array.shape, "fill_value")
    return array


def from_dlpack(obj: Any, *, stream: Any = None) -> Array:
    """The array behind any object with `__dlpack__`, sharing its memory.

    Args:
        obj: array of another library, on a GPU or the CPU.
        stream: the stream in whose order it will be used: what obj's library has queued on it is waited for
            there, on the GPU.

    Returns:
        a device array, or a NumPy array where obj is in host memory.

    Raises:
        DTypeError: obj has no `__dlpack__`, or a dtype or form that numbacc has not (sparse, quantized, conjugated,
        ...); the message says what to call.
    """
    handle = handle_of(stream)
    if isinstance(obj, np.ndarray):
        return obj
    if not _has(obj, "__dlpack__"):
        raise DTypeError(f"obj is a {type(obj).__name__}, which has no __dlpack__")
    return as_array(obj, "obj", handle)


def release_memory(device: int | str | None = None) -> None:
    """Give memory that numbacc holds but does not use back to the GPU, for other libraries. This blocks.

    Args:
        device: a GPU's number or "cuda:0"; by default all GPUs that numbacc has memory of.

    Raises:
        UnsupportedError: a graph is being captured, which waiting would break.
    """
    number = named(device)
    if has_gpu() and number != CPU:
        backend().release_memory(None if device is None else target_of(device))


def scratch_limit(nbytes: int | None = None) -> int:
    """How many bytes of scratch memory for libraries numbacc keeps between calls, on all GPUs together.

    An operation that needs more gets it, and gives it back when it is done.

    Args:
        nbytes: the new limit, at least 0; None leaves it as it is.

    Returns:
        the limit, as it is now; 1 GiB at first.

    Raises:
        OptionError: nbytes is no such number.
    """
    return workspace.limit(None if nbytes is None else _count(nbytes))


def _count(nbytes: Any) -> int:
    try:
        number = operator.index(nbytes)
    except TypeError:
        number = -1
    if number < 0 or isinstance(nbytes, bool):
        raise OptionError(f"nbytes={shown(nbytes)} is no number of bytes, 0 or more")
    return number


def unpickled(host: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Array:
    """A device array out of a pickle: on the current GPU, in NumPy without one.

    Args:
        host: C-contiguous values.
        axes: the order of its axes that gives the array its shape.
    """
    return asarray(host.transpose(axes))


def _from_device(array: Array, wanted: Any, target: int, device: int | str | None, handle: int) -> Array:
    source = layout_of(array)
    if wanted is not None and wanted != source.dtype:
        raise DTypeError(
            f"obj is on cuda:{source.device} with dtype {source.dtype}; it cannot become {wanted} there. "
            "Convert it with its own library, or on the host: numbacc.asnumpy(obj).astype(...)"
        )
    if device is None or target == source.device:
        return array
    host = array._copy_to_host(None, handle, "asarray from one device to another")
    return host if target == CPU else to_device(host, target, handle)


def to_device(host: np.ndarray[Any, Any], target: int, handle: int) -> Array:
    """A copy of a NumPy array on a GPU."""
    # Order "K" keeps the memory order of a dense array, so that a transposed array stays one.
    dense = host if host.flags.forc else np.array(host, order="K")
    made = layout(dense.shape, dense.strides, dense.dtype, target)
    if any(s < 0 for s in dense.strides) or not (dense.flags.forc or made.high == made.nbytes):
        dense = np.ascontiguousarray(host)
        made = layout(dense.shape, dense.strides, dense.dtype, target)
    array = empty_device(made, handle)
    if dense.size:
        backend().copy_from_host(array._storage, array._address, dense, handle)
    return array


def _name(array: Layout) -> str:
    return "cpu" if array.device == CPU else f"cuda:{array.device}"
