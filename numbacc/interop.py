"""Arrays of other libraries, taken without a copy: by DLPack and the CUDA array interface.

Most go through cuda.core's `StridedMemoryView`, which knows both protocols; what it cannot name goes through DLPack's
structures (`dlpack`).
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from . import _numba, dlpack, dtypes, partners
from .backend import backend
from .device_array import DeviceArray
from .dlpack import CPU_DEVICE, CUDA_DEVICE, MANAGED_DEVICE
from .errors import DeviceError, DTypeError, LayoutError
from .layout import Layout, layout, row_major_strides


class _Capsule:
    """A DLPack tensor that numbacc has taken over from a capsule, and gives back in the end."""

    def __init__(self, capsule: Any):
        self.name = dlpack.NEW if dlpack.is_valid(capsule, dlpack.NEW) else dlpack.OLD
        self.address = dlpack.pointer(capsule, self.name)
        self.structure = dlpack.STRUCTURES[self.name].from_address(self.address)
        dlpack.set_name(capsule, dlpack.USED[self.name])

    @property
    def readonly(self) -> bool:
        return self.name == dlpack.NEW and bool(self.structure.flags & dlpack.READ_ONLY)

    def __del__(self) -> None:
        if self.structure.deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.structure.deleter)(self.address)


def import_array(obj: Any, name: str, handle: int) -> Any:
    """The memory of another library's array, without a copy, in the order of the stream `handle`.

    Raises:
        DTypeError: it is no array, or of a dtype that numbacc has not.
        DeviceError: it is neither on an NVIDIA GPU nor in host memory.
        LayoutError: its strides or address are no multiples of its element size.
    """
    if isinstance(obj, _numba.DeviceNDArray):
        return _from_numba(obj, name, handle)
    return _from_view(obj, name, handle)


def _from_view(obj: Any, name: str, handle: int) -> Any:
    """Through cuda.core; what it does not take goes through DLPack."""
    try:
        # Nothing is waited for here: that is done for the work that uses the array.
        view = _memory_view()(obj, stream_ptr=-1)
        dtype, device = view.dtype, view.device_id
    except (BufferError, NotImplementedError, RuntimeError, TypeError):
        dtype, device = None, -1
    if dtype is None or device < 0:
        return _from_dlpack(obj, name, handle)
    producer = _producer(obj, device)
    if producer is None:
        return _from_dlpack(obj, name, handle)
    made = _layout(view.shape, view.strides, dtype, device)
    return _wrap(view, view.ptr, made, name, handle, producer, view.readonly)


def _producer(obj: Any, device: int) -> int | None:
    """The stream that an array's library works on; None where only a DLPack export puts us behind it."""
    found = partners.stream_of(obj, device)
    if found is None and not hasattr(obj, "__dlpack__"):
        # The interface says 1 for the legacy default stream, and nothing or None where there is nothing to wait for.
        stream = obj.__cuda_array_interface__.get("stream")
        return 0 if stream in (None, 1) else int(stream)
    return found


@lru_cache(maxsize=1)
def _memory_view() -> Any:
    from cuda.core.utils import StridedMemoryView

    return StridedMemoryView.from_any_interface


@lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: np.dtype[Any], device: int) -> Layout:
    """The layout of strides that are counted in elements; None stands for C order."""
    size = dtypes.info(dtype).itemsize
    strides = row_major_strides(shape, size) if steps is None else [n * size for n in steps]
    return layout(tuple(shape), tuple(strides), dtype, device)


def _wrap(
    owner: object, address: int, made: Layout, name: str, handle: int, producer: int | None, readonly: bool
) -> DeviceArray:
    """An array over foreign memory, whose library works on the stream `producer`; None: it was put before `handle`."""
    if address % made.itemsize:
        raise LayoutError(f"{name} starts at {address:#x}, which is no multiple of its element size {made.itemsize}")
    return DeviceArray(made, address, backend().borrow(owner, address, made.device, handle, producer, name), readonly)


def _from_numba(obj: Any, name: str, handle: int) -> DeviceArray:
    """An array that Numba allocated: its own attributes say all, and its stream may be another."""
    strides = tuple(obj.strides)
    if any(step % obj.dtype.itemsize for step in strides):
        raise LayoutError(f"{name} has strides {strides}, no multiples of its element size")
    device, address = _numba.place_of(obj)
    made = layout(tuple(obj.shape), strides, obj.dtype, device)
    if _numba.SIMULATED:
        from .simulator import Adopted

        return DeviceArray(made, address, Adopted(obj, made))
    producer = int(obj.stream) if obj.stream else 0
    return _wrap(obj, address, made, name, handle, producer, False)


def _from_dlpack(obj: Any, name: str, handle: int) -> Any:
    """What cuda.core does not take: host arrays, and dtypes that it cannot name, such as torch's float8."""
    if not hasattr(obj, "__dlpack_device__"):
        raise DTypeError(
            f"{name} is a {type(obj).__name__}; it must be a NumPy array, or a GPU array (numbacc, Numba, or any "
            "with __dlpack__ or __cuda_array_interface__). numbacc.asarray makes one"
        )
    kind = int(obj.__dlpack_device__()[0])
    if kind == CPU_DEVICE:
        return _from_host(obj, name)
    if kind not in (CUDA_DEVICE, MANAGED_DEVICE):
        raise DeviceError(f"{name} is on a device of DLPack's kind {kind}; numbacc works on NVIDIA GPUs and in NumPy")
    with backend().on_device(int(obj.__dlpack_device__()[1])):
        # A graph uses the array when it is launched: then the stream of its memory is waited for.
        order = backend().order_outside(handle, int(obj.__dlpack_device__()[1]))
        capsule = _Capsule(_dlpack(obj, order or 1))
    tensor = capsule.structure.tensor
    dtype = dtypes.from_dlpack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    shape = tuple(tensor.shape[: tensor.ndim])
    steps = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    made = _layout(shape, steps, dtype, tensor.device.device_id)
    address = (tensor.data or 0) + tensor.byte_offset
    return _wrap(capsule, address, made, name, order, None, capsule.readonly)


def _dlpack(obj: Any, consumer: int) -> Any:
    try:
        return obj.__dlpack__(stream=consumer, max_version=(1, 0))
    except TypeError:  # a producer older than DLPack 1.0
        return obj.__dlpack__(stream=consumer)


def _from_host(obj: Any, name: str) -> np.ndarray[Any, Any]:
    """A host array of another library as NumPy's."""
    try:
        return np.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DTypeError(
            f"{name} is a host array that NumPy cannot take by DLPack ({error}); pass a NumPy array"
        ) from None
