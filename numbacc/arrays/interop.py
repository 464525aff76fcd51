"""Import arrays of other libraries without a copy, by DLPack and the CUDA array interface.

Most arrays go through cuda.core's `StridedMemoryView`, which supports both protocols. Arrays that it does not support
go through DLPack's structures (`dlpack`). torch's tensors have a faster path (`tensors`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from numbacc_bindings.driver import PointerAttribute

from ..base import _numba, dtypes
from ..base.dispatch import runtime
from ..base.layout import CPU, Layout, layout, row_major_strides
from ..errors import DeviceError, DTypeError, Error, LayoutError
from ..runtime import streams
from . import dlpack, foreign, tensors
from .dlpack import CUDA_DEVICE, HOST_DEVICES, MANAGED_DEVICE

#: void(*)(void *): the type of the function that releases a DLPack tensor.
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Capsule:
    """A DLPack tensor that numbacc owns since it consumed the capsule, and releases when it is deleted."""

    def __init__(self, capsule: Any):
        self.name = dlpack.NEW if dlpack.is_valid(capsule, dlpack.NEW) else dlpack.OLD
        self.address = dlpack.pointer(capsule, self.name)
        self.structure = dlpack.STRUCTURES[self.name].from_address(self.address)
        dlpack.set_name(capsule, dlpack.USED[self.name])

    @property
    def readonly(self) -> bool:
        return self.name == dlpack.NEW and bool(self.structure.flags & dlpack.READ_ONLY)

    def describe(self, name: str, device: int) -> tuple[int, Layout]:
        """Return (address, layout) of the tensor; `name` is the argument's name in messages."""
        tensor = self.structure.tensor
        dtype = dtypes.from_dlpack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes, name)
        shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
        steps = tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None
        address = (tensor.data or 0) + tensor.byte_offset
        foreign.check_memory(name, address, shape, dtype.itemsize)
        return address, _layout(shape, steps, dtype, device)

    def __del__(self, function: Any = _FUNCTION) -> None:
        # The default argument outlives this module, as a tensor of another library may.
        if self.structure.deleter:
            function(self.structure.deleter)(self.address)


#: The parts of a device array over another library's memory: layout, address, storage, whether it is read-only.
Taken = tuple[Layout, int, Any, bool]


def import_array(obj: Any, name: str, handle: int) -> Taken | np.ndarray[Any, Any]:
    """Import another library's array without a copy, ordered on the stream `handle`.

    If the array is in host memory, this returns a NumPy array.

    Raises:
        DTypeError: it is not an array, has an unsupported dtype, or is a torch tensor whose memory holds other values.
        DeviceError: it is neither on an NVIDIA GPU nor in host memory.
        LayoutError: its strides or its address are not multiples of its element size, or it has no memory.
        ShapeError: a length is negative.
    """
    try:
        kind = tensors.kind_of(obj.__class__)
        if kind is not None:
            return _from_torch(obj, kind, name, handle)
        if isinstance(obj, _numba.DeviceNDArray):
            return _from_numba(obj, name, handle)
        if hasattr(obj, "__dlpack__"):
            return _kept(obj, _from_view(obj, name, handle))
        if hasattr(obj, "__cuda_array_interface__"):
            return _kept(obj, _from_interface(obj, name, handle))
    except Error:
        raise
    except Exception as error:
        tensors.check(obj, name)
        raise foreign.unreadable(obj, name, error) from error
    raise DTypeError(
        f"{name} is a {type(obj).__name__}; it must be a NumPy array, or a GPU array (numbacc, Numba, or any "
        "with __dlpack__ or __cuda_array_interface__). numbacc.asarray makes one"
    )


def _kept(obj: Any, found: Taken | np.ndarray[Any, Any]) -> Taken | np.ndarray[Any, Any]:
    """Return an imported array, read-only if its class is immutable: its export may not be marked so."""
    if foreign.is_immutable(obj.__class__):
        if isinstance(found, np.ndarray):
            found.flags.writeable = False
        else:
            found = (*found[:3], True)
    return found


def tensor_taker(kind: tensors.TensorClass, make: Callable[[Layout, int, Any], Any]) -> Callable[[Any, str, int], Any]:
    """Return a function that imports tensors of torch's own class in one step, since their attributes are complete.

    The function returns `make(layout, address, storage)`, or None for tensors that need more checks: tensors whose
    gradients torch records, tensors whose memory holds other values, and tensors that are not on a GPU. If torch cannot
    answer, such as for the strides of a sparse tensor, it raises torch's error.
    """
    layout_of, current_stream, grad_enabled = tensors.layout_of, kind.current_stream, kind.grad_enabled
    borrow = runtime().borrow

    def take(tensor: Any, name: str, handle: int) -> Any:
        if (tensor.requires_grad and grad_enabled()) or tensor.is_neg() or tensor.is_conj():
            return None
        made = layout_of(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if made is None:
            return None
        device, address = made.device, tensor.data_ptr()
        if not address or address % made.itemsize:
            foreign.check_memory(name, address, made.shape, made.itemsize)
        # Keep the storage and not the tensor, whose storage can be replaced: `t.data = ...`.
        storage = borrow(tensor.untyped_storage(), address, device, handle, current_stream(device), name)
        return make(made, address, storage)

    return take


@lru_cache(maxsize=16)
def _taker(kind: tensors.TensorClass) -> Callable[[Any, str, int], Taken | None]:
    return tensor_taker(kind, lambda made, address, storage: (made, address, storage, False))


def _from_torch(tensor: Any, kind: tensors.TensorClass, name: str, handle: int) -> Taken | np.ndarray[Any, Any]:
    """Import a torch tensor. One that requires gradients is detached if torch currently records none."""
    checked = tensors.checked(tensor, name, kind)
    found = _taker(kind)(checked, name, handle) if kind.plain else None
    return _from_view(checked, name, handle) if found is None else found


def _from_view(obj: Any, name: str, handle: int) -> Taken | np.ndarray[Any, Any]:
    """Import an array through cuda.core, or through DLPack if cuda.core does not support it."""
    try:
        # This does not wait; work that uses the array does.
        view = _memory_view()(obj, stream_ptr=-1)
        dtype, device, shape, steps = view.dtype, view.device_id, view.shape, view.strides
    except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError):
        dtype, device = None, -1
    producer = None if dtype is None or device < 0 else streams.library_stream_of(obj, device)
    if producer is None:
        try:
            return _from_dlpack(obj, name, handle)
        except BufferError:
            # CuPy exports bfloat16 only by the CUDA array interface.
            if not hasattr(obj, "__cuda_array_interface__"):
                raise
            return _from_interface(obj, name, handle)
    made = _layout(shape, steps, dtype, device)
    return _wrap(view, view.ptr, made, name, handle, producer, view.readonly)


@lru_cache(maxsize=1)
def _memory_view() -> Any:
    from cuda.core.utils import StridedMemoryView

    return StridedMemoryView.from_any_interface


@lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: np.dtype[Any], device: int) -> Layout:
    """Return the layout for strides in elements; None stands for C order."""
    size = dtypes.info(dtype).itemsize
    strides = row_major_strides(shape, size) if steps is None else foreign.signed_strides(tuple(steps), size)
    return layout(tuple(shape), strides, dtype, device)


def _wrap(
    owner: object, address: int, made: Layout, name: str, handle: int, producer: int | None, readonly: bool
) -> Taken:
    """Import foreign memory. Its library works on the stream `producer`; None means that its work is in order."""
    if not address or address % made.itemsize:
        foreign.check_memory(name, address, made.shape, made.itemsize)
    return made, address, runtime().borrow(owner, address, made.device, handle, producer, name), readonly


def _from_numba(obj: Any, name: str, handle: int) -> Taken:
    """Import an array that Numba allocated. Its own attributes are complete; its stream may be another one."""
    dtypes.info(obj.dtype)
    strides = tuple(obj.strides)
    if any(step % obj.dtype.itemsize for step in strides):
        raise LayoutError(f"{name} has strides {strides}, not multiples of its element size")
    device, address = _numba.device_and_address(obj)
    made = layout(tuple(obj.shape), strides, obj.dtype, device)
    if _numba.SIMULATED:
        return made, address, runtime().Adopted(obj), False
    producer = int(obj.stream) if obj.stream else 0
    return _wrap(obj, address, made, name, handle, producer, False)


def _from_dlpack(obj: Any, name: str, handle: int) -> Taken | np.ndarray[Any, Any]:
    """Import arrays that cuda.core does not support: host arrays, and dtypes such as torch's float8."""
    kind = int(obj.__dlpack_device__()[0])
    if kind in HOST_DEVICES:
        return _from_host(obj, name)
    if kind not in (CUDA_DEVICE, MANAGED_DEVICE):
        raise DeviceError(f"{name} is on a device of DLPack's kind {kind}; numbacc works on NVIDIA GPUs and in NumPy")
    device = int(obj.__dlpack_device__()[1])
    with runtime().on_device(device):
        # A graph uses the array when it is launched. The launch waits for the stream of the graph's memory.
        order = runtime().order_outside(handle, device)
        capsule = _Capsule(_dlpack(obj, order or 1))
    address, made = capsule.describe(name, capsule.structure.tensor.device.device_id)
    return _wrap(capsule, address, made, name, order, streams.library_stream_of(obj, device), capsule.readonly)


def _from_interface(obj: Any, name: str, handle: int) -> Taken:
    """Import an array by the CUDA array interface."""
    found = foreign.interface_of(obj, name)
    device = device_of_address(found.address, name)
    made = layout(found.shape, found.strides, found.dtype, device)
    producer = streams.library_stream_of(obj, device) if found.stream is None else found.stream
    return _wrap(obj, found.address, made, name, handle, producer or 0, found.readonly)


def device_of_address(address: int, name: str) -> int:
    """Return the GPU that an address belongs to."""
    current: int = runtime().current_device()
    if not address or _numba.SIMULATED:
        return current
    with runtime().on_device(current):
        found: int | None = runtime().pointer_attribute(PointerAttribute.DEVICE_ORDINAL, address, current)
    if found is None:
        raise LayoutError(f"{name} starts at {address:#x}, where no GPU has memory")
    return found


def _dlpack(obj: Any, consumer: int | None) -> Any:
    try:
        return obj.__dlpack__(stream=consumer, max_version=(1, 0))
    except TypeError:  # a producer older than DLPack 1.0
        return obj.__dlpack__(stream=consumer)


def _from_host(obj: Any, name: str) -> np.ndarray[Any, Any]:
    """Return another library's host array as a NumPy array, with any dtype of numbacc. (NumPy rejects bfloat16.)"""
    capsule = _Capsule(_dlpack(obj, None))
    address, made = capsule.describe(name, CPU)
    return foreign.host_array(capsule, address, made.shape, made.strides, made.dtype, capsule.readonly)
