"""Make arrays, move them between host and GPU, and import other libraries' arrays.

On a machine without a GPU all functions here work on NumPy arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base import checks, dtypes
from ..base.dispatch import has_gpu, runtime
from ..base.docstrings import like
from ..base.layout import CPU, Layout, argument_of, check_same_device, layout, lengths_of, name_of, row_major_strides
from ..errors import DTypeError, LayoutError, OptionError, shown
from ..runtime import workspace
from ..runtime.streams import handle_of, named, target_of
from . import lookup, operands, values
from .foreign import check_is_no_tracer, unreadable
from .operands import Array


def asarray(
    obj: Any, dtype: Any = None, *, device: int | str | None = None, copy: bool | None = None, stream: Any = None
) -> Array:
    """Return `obj` as a device array if the machine has a GPU, else as a NumPy array.

    With a GPU, the result for a NumPy array is a copy; without a GPU, it is the NumPy array itself. If you write to the
    result and still need obj, use `numbacc.array` or copy=True.

    Args:
        obj: anything that NumPy accepts, or a GPU array of any library.
        dtype: the result's dtype, including bfloat16 and float8; obj's dtype if None. Values on the host are converted
            as by `elementwise.astype`: a value that float8 or an integer dtype cannot hold becomes the nearest one that
            it can.
        device: a GPU's number or "cuda:0", or "cpu" for NumPy. None means the current GPU, or NumPy without one; an
            array that is on a GPU stays there.
        copy: True always copies. False never copies: the result shares obj's memory. None copies only if obj is on
            another device or has another dtype.
        stream: the stream that the copy is queued on. From pinned memory (`numba.cuda.pinned_array`) the copy is
            asynchronous: do not change the source before the copy is done. From ordinary memory, this blocks until the
            source has been read.

    Returns:
        a device array, or a NumPy array.

    Raises:
        DTypeError: the dtype is unknown; or obj is on a GPU and has another dtype, and copy is not True.
        DeviceError: the GPU does not exist or has too little memory, or obj is on another GPU.
        LayoutError: copy=False, and obj's memory cannot be shared.

    Example:
        >>> numbacc.asarray([[1, 2], [3, 4]], "float32", device="cpu")
        array([[1., 2.],
               [3., 4.]], dtype=float32)
        >>> x = np.zeros(2)
        >>> numbacc.asarray(x, device="cpu", copy=False) is x
        True
    """
    handle = handle_of(stream)
    wanted = None if dtype is None else dtypes.dtype(dtype)
    target = target_of(device)
    if copy is not None:
        copy = checks.boolean(copy, "copy")
    given = obj
    if not values.is_on_host(obj):
        check_is_no_tracer(obj, "obj")
    # In this order: torch raises KeyError when a float8 tensor is asked for the array interface.
    if not isinstance(obj, np.ndarray) and (_has(obj, "__dlpack__") or _has(obj, "__cuda_array_interface__")):
        obj = operands.as_array(obj, "obj", handle)
        if not isinstance(obj, np.ndarray):
            return _from_device(obj, wanted, target, device, copy, handle)
    host = values.host_array(obj, wanted, "obj")
    if copy is False:
        _check_shared(host, obj, target, given)
    if target != CPU:
        return operands.to_device(host, target, handle)
    # Lists and numbers have been copied already.
    return host.copy("K") if copy and not isinstance(obj, (list, tuple)) else host


def array(obj: Any, dtype: Any = None, *, device: int | str | None = None, stream: Any = None) -> Array:
    """Return a copy of `obj`: a device array if the machine has a GPU, else a NumPy array.

    The result never shares obj's memory, so you can write to it.

    Args:
        obj: anything that NumPy accepts, or a GPU array of any library.
        dtype: the result's dtype; obj's dtype if None. An array on a GPU is converted there.
        device: a GPU's number or "cuda:0", or "cpu" for NumPy. None means the current GPU, or NumPy without one; an
            array that is on a GPU stays there.
        stream: the stream that the copy is queued on; the default stream if None.

    Raises:
        DTypeError: the dtype is unknown, or numbacc cannot make an array of obj.
        DeviceError: the GPU does not exist or has too little memory, or obj is on another GPU.

    Example:
        >>> first = np.zeros(2)
        >>> x = numbacc.array(first)
        >>> x[...] = 1
        >>> first
        array([0., 0.])
    """
    return asarray(obj, dtype, device=device, copy=True, stream=stream)


def _check_shared(host: np.ndarray[Any, Any], obj: Any, target: int, given: Any) -> None:
    """Raise LayoutError unless a host array made of `obj` shares its memory and stays on the host."""
    if target != CPU:
        raise LayoutError(f"copy=False: obj is in host memory, and moving it to cuda:{target} needs a copy")
    try:
        memory = np.asarray(obj, copy=False)
    except ValueError:
        raise LayoutError(f"copy=False: obj is a {type(given).__name__}: making an array of it needs a copy") from None
    if host.dtype != memory.dtype:
        raise LayoutError(f"copy=False: obj has dtype {memory.dtype}, and converting it to {host.dtype} needs a copy")


def _has(obj: Any, attribute: str) -> bool:
    try:
        return hasattr(obj, attribute)
    except Exception as error:
        raise unreadable(obj, "obj", error) from error


def asnumpy(obj: Any, *, out: np.ndarray[Any, Any] | None = None, stream: Any = None) -> np.ndarray[Any, Any]:
    """Return `obj` as a NumPy array. A NumPy array is returned itself.

    Args:
        obj: an array of any library; a NumPy scalar becomes an array of rank 0.
        out: C-contiguous NumPy array of obj's shape and dtype to copy into. If it is pinned
            (`numba.cuda.pinned_array`), the copy is only queued: synchronize the stream before you read it.
        stream: the stream that the copy is queued on.

    Returns:
        NumPy array. Without a pinned `out`, this blocks until the copy is done.

    Raises:
        ShapeError, DTypeError, LayoutError: out does not match, or is not a NumPy array.

    Example:
        >>> numbacc.asnumpy(numbacc.asarray([1.5, 2.5]))
        array([1.5, 2.5])
    """
    handle = handle_of(stream)
    is_numpys = isinstance(obj, (np.ndarray, np.generic))
    array = np.asanyarray(obj) if is_numpys else operands.as_array(obj, "obj", handle)
    source = operands.layout_of(array)
    if out is not None:
        values.check_target(out, "out", source, "obj")
        if not out.flags.c_contiguous:
            raise LayoutError("out is not C-contiguous: pass numpy.empty(obj.shape, obj.dtype), or leave it out")
    if isinstance(array, np.ndarray):
        if out is None:
            return array
        np.copyto(out, array)
        return out
    return array._copy_to_host(out, handle, "asnumpy")  # type: ignore[no-any-return]


def empty(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    *,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """Return an uninitialized array: its values are arbitrary.

    Args:
        shape: lengths of the dimensions; an integer for one dimension.
        dtype: any numeric dtype of NumPy, bfloat16, float8_e4m3fn or float8_e5m2.
        stream: the stream that first uses the memory, and in order with which it is freed.

    Raises:
        ShapeError: a length is negative, or the array has more bytes than can be addressed.
        DTypeError: the dtype is unknown.
        DeviceError: the GPU does not exist, or has too little memory, even after waiting for queued work and freeing
            its memory.
        OptionError: stream is not a stream.

    Example:
        >>> numbacc.empty((2, 3), "bfloat16").shape
        (2, 3)
    """
    handle, target = handle_of(stream), target_of(device)
    made = (_row_major if _is_plain(shape, dtype) else _row_major.__wrapped__)(shape, dtype, target)
    if target >= 0:
        return operands.empty_device(made, handle)
    return operands.host_memory(made.shape, made.dtype) if target == CPU else operands.empty_host(made)


def _is_plain(shape: Any, dtype: Any) -> bool:
    """Return True for Python integers and a dtype's name or type. (In a cache, True and 2.0 equal 1 and 2.)"""
    for n in shape if type(shape) is tuple else (shape,):
        if type(n) is not int:
            return False
    return isinstance(dtype, (str, type, np.dtype))


@lru_cache(maxsize=4096)
def _row_major(shape: Any, dtype: Any, device: int) -> Layout:
    """Return the layout of a new array, or raise the error for an invalid shape or dtype."""
    if isinstance(dtype, (int, np.integer)) and isinstance(shape, (int, np.integer)):
        raise DTypeError(
            f"dtype={dtype} is not a dtype; pass the shape as one argument, a tuple: ({shape}, {dtype}) instead of "
            f"{shape}, {dtype}"
        )
    found = dtypes.dtype(dtype)
    lengths = lengths_of(shape, found.itemsize)
    return layout(lengths, row_major_strides(lengths, found.itemsize), found, device)


@like(empty)
def empty_like(obj: Any, *, dtype: Any = None, device: int | str | None = None, stream: Any = None) -> Array:
    """Return an uninitialized array with obj's shape, and with its dtype and device unless others are given.

    Args:
        obj: array of any library.
        dtype: the result's dtype; by default obj's.
        device: a GPU's number or "cuda:0", or "cpu"; by default obj's.

    Example:
        >>> x = numbacc.empty_like(np.ones((2, 3)), dtype="float16")
        >>> x.shape, str(x.dtype)
        ((2, 3), 'float16')
    """
    source = operands.layout_of(operands.as_input(obj, "obj", handle_of(stream)))
    return empty(
        source.shape,
        source.dtype if dtype is None else dtype,
        device=argument_of(source.device) if device is None else device,
        stream=stream,
    )


@like(empty)
def zeros(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    *,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """Return an array of zeros.

    Example:
        >>> numbacc.asnumpy(numbacc.zeros(3))
        array([0., 0., 0.], dtype=float32)
    """
    array = empty(shape, dtype, device=device, stream=stream)
    if isinstance(array, np.ndarray):
        array[...] = 0
    else:
        array._clear(handle_of(stream))
    return array


@like(empty)
def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: Any = "float32",
    *,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """Return an array whose elements are all `fill_value`.

    Args:
        fill_value: a scalar; or an array or list that broadcasts to `shape`. Python scalars must fit the dtype, as in
            NumPy: 300 and NaN do not fit int8. An array on a GPU must have the same dtype.

    Raises:
        OptionError: a scalar does not fit the dtype, or stream is not a stream.
        ShapeError: fill_value does not broadcast to `shape`, a length is negative, or the array has more bytes than can
            be addressed.
        DTypeError: fill_value is not a number, or is complex while dtype is real; or the dtype is unknown.
        DeviceError: fill_value is on another device; or the GPU does not exist, or has too little memory, even after
            waiting for queued work and freeing its memory.

    Example:
        >>> numbacc.asnumpy(numbacc.full((2, 2), [1, 2], "int8"))
        array([[1, 2],
               [1, 2]], dtype=int8)
    """
    array = empty(shape, dtype, device=device, stream=stream)
    handle = handle_of(stream)
    if not isinstance(array, np.ndarray):
        array._assign(fill_value, handle, "fill_value")
        return array
    if not values.is_on_host(fill_value):
        fill_value = operands.as_array(fill_value, "fill_value", handle)
        check_same_device(operands.layout_of(fill_value), "fill_value", operands.layout_of(array), "the array")
    host = values.converted(fill_value, array.dtype, "fill_value")
    array[...] = values.broadcast(host, array.shape, "fill_value")
    return array


def from_dlpack(obj: Any, *, stream: Any = None) -> Array:
    """Return an array that shares the memory of any object with `__dlpack__`.

    Args:
        obj: array of another library, on a GPU or the CPU.
        stream: the stream that will use the array first. On the GPU, it waits for work that obj's library has queued.

    Returns:
        a device array, or a NumPy array if obj is in host memory.

    Raises:
        DTypeError: obj has no `__dlpack__`, or an unsupported dtype or form (sparse, quantized, conjugated, ...). The
            message names the conversion to call.

    Example:
        >>> x = np.arange(3)
        >>> np.shares_memory(numbacc.from_dlpack(x), x)
        True
    """
    handle = handle_of(stream)
    if isinstance(obj, np.ndarray):
        return obj
    if not _has(obj, "__dlpack__"):
        raise DTypeError(f"obj is a {type(obj).__name__}, which has no __dlpack__: use numbacc.asarray(obj)")
    return operands.as_array(obj, "obj", handle)


def release_memory(device: int | str | None = None) -> None:
    """Give memory that numbacc holds but does not use back to the GPU, for other libraries. This blocks.

    Args:
        device: a GPU's number or "cuda:0"; by default all GPUs on which numbacc holds memory.

    Raises:
        UnsupportedError: a graph is being captured, and waiting for the GPU would break the capture.

    Example:
        >>> numbacc.release_memory()
        >>> numbacc.release_memory("gpu")
        Traceback (most recent call last):
        numbacc.errors.DeviceError: device='gpu' is unknown; pass a number, "cuda:0" or "cpu"
    """
    number = named(device)
    if has_gpu() and (number is None or number >= 0):
        runtime().release_memory(None if device is None else target_of(device))


def peak_memory(device: int | str | None = None, *, reset: bool = False) -> int:
    """Return the most bytes of a GPU's memory that numbacc's arrays and scratch memory had at once.

    The driver counts them, from the start or the last reset on. Freed memory counts until the GPU reaches the work
    after which it was freed. A few freed blocks of up to 256 KiB each are kept for later arrays, and count, too. Other
    libraries' memory does not count, nor does NumPy's: without a GPU, the result is 0.

    Args:
        device: a GPU's number or "cuda:0"; the current GPU by default.
        reset: True to start anew, with the memory that is in use now.

    Raises:
        DeviceError: there is no such GPU.
        OptionError: reset is neither True nor False.

    Example:
        >>> numbacc.peak_memory(reset=True) >= 0
        True
    """
    number, again = named(device), checks.boolean(reset, "reset")
    if not has_gpu() or (number is not None and number < 0):
        return 0
    return int(runtime().peak_bytes(target_of(device), again))


def scratch_limit(nbytes: int | None = None) -> int:
    """Set or return how many bytes of scratch memory for libraries are kept between calls, over all GPUs.

    An operation that needs more gets it, and frees it when it is done.

    Args:
        nbytes: the new limit, at least 0; None leaves the limit unchanged.

    Returns:
        the current limit; initially 1 GiB.

    Raises:
        OptionError: nbytes is not an integer of at least 0.

    Example:
        >>> limit = numbacc.scratch_limit()
        >>> numbacc.scratch_limit(limit) == limit
        True
    """
    return workspace.limit(None if nbytes is None else _count(nbytes))


def _count(nbytes: Any) -> int:
    try:
        number = operator.index(nbytes)
    except TypeError:
        number = -1
    if number < 0 or isinstance(nbytes, bool):
        raise OptionError(f"nbytes={shown(nbytes)} must be an integer number of bytes, 0 or more")
    return number


def _from_device(
    array: Array, wanted: Any, target: int, device: int | str | None, copy: bool | None, handle: int
) -> Array:
    source = operands.layout_of(array)
    converts = wanted is not None and wanted != source.dtype
    if converts and not copy:
        raise DTypeError(
            f"obj is on {name_of(source.device)} with dtype {source.dtype}; converting it to {wanted} needs a copy: "
            f"numbacc.array(obj, {wanted.name!r}) and numbacc.elementwise.astype make one"
        )
    if device is not None and target != source.device:
        if copy is False:
            where = name_of(source.device)
            raise LayoutError(f"copy=False: obj is on {where}, and moving it to device={device!r} needs a copy")
        host = array._copy_to_host(None, handle, "asarray from one device to another")
        host = values.converted(host, wanted, "obj") if converts else host
        return host if target == CPU else operands.to_device(host, target, handle)
    if converts:
        return lookup.function("astype")(array, wanted, stream=handle)
    return array._compact(handle, row_major=False) if copy else array
