"""Arrays: making them, moving them between host and GPU, and taking those of other libraries.

On a machine without a GPU everything here works on NumPy arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from . import dtypes
from .backend import backend, has_gpu
from .errors import DeviceError, DTypeError, LayoutError, ShapeError
from .layout import CPU, Layout, layout, row_major_strides
from .layout import layout_of as _numpy_layout
from .streams import handle_of

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
    if kind is np.ndarray or getattr(obj, "_numbacc_layout", None) is not None:
        return obj
    if kind in _imported:
        return _importer()(obj, name, handle)
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
    memory = np.empty(array.nbytes, np.uint8)
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def empty_device(array: Layout, stream: int) -> Array:
    """An uninitialized device array of a dense layout."""
    if not _makers:
        _find_makers()
    make, allocate = _makers
    storage = allocate(array.nbytes, array.device, stream)
    return make(array, storage.address, storage)


@contextmanager
def in_order(used: Iterable[Any], stream: int) -> Iterator[None]:
    """What is queued inside, on `stream`, follows what other streams have queued on the memory of these device arrays,
    and precedes what they queue there later. None is passed over."""
    away = {id(a._storage): a._storage for a in used if a is not None and a._storage.stream != stream}.values()
    for storage in away:
        storage.before_use(stream)
    yield
    for storage in away:
        storage.after_use(stream)


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
    wanted = None if dtype is None else dtypes.dtype(dtype)
    target = target_of(device)
    if not isinstance(obj, np.ndarray) and (hasattr(obj, "__cuda_array_interface__") or hasattr(obj, "__dlpack__")):
        obj = as_array(obj, "obj", handle_of(stream))
    if hasattr(obj, "_numbacc_layout"):
        return _from_device(obj, wanted, target, device, stream)
    host = np.asarray(obj, wanted)
    dtypes.info(host.dtype)
    return host if target == CPU else _to_device(host, target, stream)


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
        ShapeError, DTypeError, LayoutError: out does not fit.
    """
    handle = handle_of(stream)
    array = obj if isinstance(obj, np.ndarray) else as_array(obj, "obj", handle)
    source = layout_of(array)
    if out is not None:
        if out.shape != source.shape:
            raise ShapeError(f"out has shape {out.shape}; obj has shape {source.shape}")
        if out.dtype != source.dtype:
            raise DTypeError(f"out has dtype {out.dtype}; obj has dtype {source.dtype}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise LayoutError("out must be C-contiguous and writable")
    if isinstance(array, np.ndarray):
        if out is None:
            return array
        np.copyto(out, array)
        return out
    return array._copy_to_host(out, handle)


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
        ShapeError: a negative length. DTypeError: an unknown dtype. DeviceError: no such GPU, or no memory
        left; what could be freed by waiting for queued work has been.
    """
    lengths = lengths_of(shape)
    found, target = dtypes.dtype(dtype), target_of(device)
    if target == CPU:
        return np.empty(lengths, found)
    made = layout(lengths, row_major_strides(lengths, found.itemsize), found, target)
    return empty_device(made, handle_of(stream))


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
    return full(shape, 0, dtype, device=device, stream=stream)


def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: Any = "float32",
    *,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """An array whose elements are all `fill_value`. Arguments and errors as in `empty`."""
    array = empty(shape, dtype, device=device, stream=stream)
    if isinstance(array, np.ndarray):
        array[...] = fill_value
    else:
        array._fill(fill_value, handle_of(stream))
    return array


def from_dlpack(obj: Any, *, stream: Any = None) -> Array:
    """The array behind any object with `__dlpack__`, sharing its memory.

    Args:
        obj: array of another library, on a GPU or the CPU.
        stream: the stream in whose order it will be used: what obj's library has queued on it is waited for
            there, on the GPU.

    Returns:
        a device array, or a NumPy array where obj is in host memory.
    """
    if not hasattr(obj, "__dlpack__"):
        raise DTypeError(f"obj is a {type(obj).__name__}, which has no __dlpack__")
    if isinstance(obj, np.ndarray):
        return obj
    return as_array(obj, "obj", handle_of(stream))


def release_memory(device: int = 0) -> None:
    """Give memory that numbacc holds but does not use back to the GPU, for other libraries. This blocks."""
    if has_gpu():
        backend().release_memory(device)


def unpickled(host: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Array:
    """A device array out of a pickle: on the current GPU, in NumPy without one.

    Args:
        host: C-contiguous values.
        axes: the order of its axes that gives the array its shape.
    """
    return asarray(host.transpose(axes))


def _from_device(array: Array, wanted: Any, target: int, device: int | str | None, stream: Any) -> Array:
    source = layout_of(array)
    if wanted is not None and wanted != source.dtype:
        raise DTypeError(
            f"obj is on cuda:{source.device} with dtype {source.dtype}; it cannot become {wanted} there. "
            "Convert it with its own library, or on the host: numbacc.asnumpy(obj).astype(...)"
        )
    if device is None or target == source.device:
        return array
    host = asnumpy(array, stream=stream)
    return host if target == CPU else _to_device(host, target, stream)


def _to_device(host: np.ndarray[Any, Any], target: int, stream: Any) -> Array:
    # Order "K" keeps the memory order of a dense array, so that a transposed array stays one.
    dense = host if host.flags.forc else np.array(host, order="K")
    made = layout(dense.shape, dense.strides, dense.dtype, target)
    if any(s < 0 for s in dense.strides) or not (dense.flags.forc or made.high == made.nbytes):
        dense = np.ascontiguousarray(host)
        made = layout(dense.shape, dense.strides, dense.dtype, target)
    handle = handle_of(stream)
    array = empty_device(made, handle)
    if dense.size:
        backend().copy_from_host(array._storage, array._address, dense, handle)
    return array


def lengths_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape argument as a tuple.

    Raises:
        ShapeError: it is no shape.
    """
    try:
        lengths = tuple(operator.index(n) for n in (shape if isinstance(shape, Iterable) else (shape,)))
    except TypeError:
        raise ShapeError(f"shape={shape!r} is no integer or sequence of integers") from None
    if any(n < 0 for n in lengths):
        raise ShapeError(f"shape={lengths} has a negative length")
    return lengths


def _name(array: Layout) -> str:
    return "cpu" if array.device == CPU else f"cuda:{array.device}"


def target_of(device: int | str | None) -> int:
    """The number of the device that a `device=` argument names, CPU for NumPy.

    Raises:
        DeviceError: it names none that exists.
    """
    if device is None:
        return backend().current_device() if has_gpu() else CPU
    if device == "cpu":
        return CPU
    text = str(device).removeprefix("cuda").removeprefix(":")
    if isinstance(device, bool) or not (text.isdigit() or device == "cuda"):
        raise DeviceError(f'device={device!r} is unknown; pass a number, "cuda:0" or "cpu"')
    if device == "cuda":
        return backend().current_device()  # type: ignore[no-any-return]
    number = int(text)
    backend().require_device(number)
    return number
