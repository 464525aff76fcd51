"""Arrays of other libraries in, numbacc's arrays out: DLPack and the CUDA array interface.

Taking an array goes through cuda.core's `StridedMemoryView`, which knows both protocols and orders our stream
after the producer's. It cannot name every dtype, and cannot give out bfloat16 or float8, so DLPack's two
structures are declared here too (dlpack.h, version 1.1).
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from numbacc_bindings.driver import DriverError, PointerAttribute, driver

from . import _numba, dtypes, foreign
from .backend import backend
from .contexts import call
from .device_array import DeviceArray
from .errors import DeviceError, DTypeError, Error, LayoutError
from .layout import CPU, Layout, layout, row_major_strides
from .ownership import ARRAY_INSTEAD, NotCopied
from .streams import foreign as foreign_streams
from .streams import owner_of

CUDA_DEVICE, MANAGED_DEVICE = 2, 13
#: Pinned memory is CUDA's host memory, 3.
_HOST_DEVICES = (1, 3)
_READ_ONLY = 1


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor, which a consumer older than DLPack 1.0 gets."""

    _fields_ = (
        ("tensor", _Tensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Version(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


class _ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("version", _Version),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_OLD, _NEW = b"dltensor", b"dltensor_versioned"
_STRUCTURES: dict[bytes, Any] = {_OLD: _Managed, _NEW: _ManagedVersioned}

# A consumer renames the capsule that it has taken; the names must outlive every capsule.
_USED = {_OLD: b"used_dltensor", _NEW: b"used_dltensor_versioned"}


def _capsule_function(name: str, result: Any, *arguments: Any) -> Any:
    # Capsules are passed by address: the destructor below gets one whose count is already zero, which must not
    # become a Python reference again.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _capsule_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _capsule_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_set_name = _capsule_function("PyCapsule_SetName", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)

# ---------------------------------------------------------------- out

#: Address of an exported structure -> what must live until its deleter is called.
_exported: dict[int, Any] = {}


# The bound argument outlives this module: consumers may let go while the interpreter exits.
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address: int, exported: dict[int, Any] = _exported) -> None:
    exported.pop(address, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete_unused(capsule: int) -> None:
    """The capsule's own destructor: does nothing where a consumer took the tensor and renamed the capsule."""
    for name in _STRUCTURES:
        if _is_valid(capsule, name):
            _exported.pop(_pointer(capsule, name), None)


def export_capsule(
    array: DeviceArray,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """The implementation of `DeviceArray.__dlpack__`."""
    if copy or dl_device not in (None, array.__dlpack_device__()):
        raise BufferError("numbacc exports its own memory only, without a copy")
    name = _NEW if max_version is not None and max_version[0] >= 1 else _OLD
    if array._readonly and name == _OLD:
        raise BufferError("this array is read-only, which DLPack before 1.0 cannot say")
    if stream != -1:
        # DLPack: None and 1 are the legacy default stream, which the driver calls 0.
        consumer = 0 if stream in (None, 1) else int(stream or 0)
        if consumer != array._storage.stream:
            array._storage.before_use(consumer)
    made = array._numbacc_layout
    row = dtypes.info(made.dtype)
    lengths = (ctypes.c_int64 * made.ndim)(*made.shape)
    steps = (ctypes.c_int64 * made.ndim)(*(s // made.itemsize for s in made.strides))
    tensor = _Tensor(
        array._address if made.size else None,
        _Device(*array.__dlpack_device__()),
        made.ndim,
        _DType(row.dlpack_code, row.bits, 1),
        lengths,
        steps,
        0,
    )
    deleter = ctypes.cast(_delete, ctypes.c_void_p)
    structure: Any
    if name == _NEW:
        flags = _READ_ONLY if array._readonly else 0
        structure = _ManagedVersioned(_Version(1, 0), None, deleter, flags, tensor)
    else:
        structure = _Managed(tensor, None, deleter)
    address = ctypes.addressof(structure)
    _exported[address] = (structure, lengths, steps, array._storage)
    return _new_capsule(address, name, ctypes.cast(_delete_unused, ctypes.c_void_p))


# ---------------------------------------------------------------- in


class Borrowed(NotCopied):
    """Another library's memory: kept alive here, freed there. Takes the place of `runtime.Storage`."""

    __slots__ = ("_keep", "_owner", "address", "device", "stream")

    _instead = ARRAY_INSTEAD

    def __init__(self, owner: object, address: int, device: int, stream: int):
        self._owner = owner
        self.address, self.device, self.stream = address, device, stream
        self._keep = owner_of(stream) if foreign_streams else None

    def before_use(self, stream: int) -> None:
        """Make `stream` wait for what is queued on the stream that this memory was taken over on."""
        if not backend().is_capturing(stream):
            backend().wait(stream, self.stream, self.device)

    def after_use(self, stream: int) -> None:
        """Its owner is not told: DLPack leaves that order to the user."""


class _Capsule:
    """A DLPack tensor that numbacc has taken over from a capsule, and gives back in the end."""

    def __init__(self, capsule: Any):
        self.name = _NEW if _is_valid(id(capsule), _NEW) else _OLD
        self.address = _pointer(id(capsule), self.name)
        self.structure = _STRUCTURES[self.name].from_address(self.address)
        _set_name(id(capsule), _USED[self.name])

    @property
    def readonly(self) -> bool:
        return self.name == _NEW and bool(self.structure.flags & _READ_ONLY)

    def describe(self, name: str, device: int) -> tuple[int, Layout]:
        """(address, layout) of the tensor; `name` is the argument's, for messages."""
        tensor = self.structure.tensor
        dtype = dtypes.from_dlpack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes, name)
        shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
        steps = tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None
        address = (tensor.data or 0) + tensor.byte_offset
        foreign.check_memory(name, address, shape, dtype.itemsize)
        return address, _layout(shape, steps, dtype, device)

    def __del__(self) -> None:
        if self.structure.deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.structure.deleter)(self.address)


def import_array(obj: Any, name: str, handle: int) -> Any:
    """The memory of another library's array, without a copy, in the order of the stream `handle`.

    Raises:
        DTypeError: it is no array, of a dtype that numbacc has not, or a torch tensor whose memory holds other values.
        DeviceError: it is neither on an NVIDIA GPU nor in host memory.
        LayoutError: its strides or address are no multiples of its element size, or it has no memory.
        ShapeError: a length is negative.
    """
    try:
        if isinstance(obj, _numba.DeviceNDArray):
            return _from_numba(obj, name, handle)
        source = foreign.checked(obj, name)
        if hasattr(source, "__dlpack__"):
            return _from_view(source, name, handle)
        if hasattr(source, "__cuda_array_interface__"):
            return _from_interface(source, name, handle)
    except Error:
        raise
    except Exception as error:
        foreign.check_tensor(obj, name)
        raise foreign.unreadable(obj, name, error) from error
    raise DTypeError(
        f"{name} is a {type(obj).__name__}; it must be a NumPy array, or a GPU array (numbacc, Numba, or any "
        "with __dlpack__ or __cuda_array_interface__). numbacc.asarray makes one"
    )


def _from_view(obj: Any, name: str, handle: int) -> Any:
    """Through cuda.core; what it does not take goes through DLPack."""
    # The protocols' name for the legacy default stream is 1; torch is read without them, and there it is 0.
    consumer = handle or (0 if type(obj).__module__ == "torch" else 1)
    try:
        view = _memory_view()(obj, stream_ptr=consumer)
        dtype, device, shape, steps = view.dtype, view.device_id, view.shape, view.strides
    except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError):
        dtype, device = None, -1
    if dtype is None or device < 0:
        try:
            return _from_dlpack(obj, name, handle)
        except BufferError:
            # CuPy gives bfloat16 by its array interface only.
            if not hasattr(obj, "__cuda_array_interface__"):
                raise
            return _from_interface(obj, name, handle)
    made = _layout(shape, steps, dtype, device)
    return _wrap(view, view.ptr, made, name, handle, view.readonly)


@lru_cache(maxsize=1)
def _memory_view() -> Any:
    from cuda.core.utils import StridedMemoryView

    return StridedMemoryView.from_any_interface


@lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: np.dtype[Any], device: int) -> Layout:
    """The layout of strides that are counted in elements; None stands for C order."""
    size = dtypes.info(dtype).itemsize
    strides = row_major_strides(shape, size) if steps is None else foreign.signed_strides(tuple(steps), size)
    return layout(tuple(shape), strides, dtype, device)


def _wrap(owner: object, address: int, made: Layout, name: str, handle: int, readonly: bool) -> DeviceArray:
    if not address or address % made.itemsize:
        foreign.check_memory(name, address, made.shape, made.itemsize)
    return DeviceArray(made, address, Borrowed(owner, address, made.device, handle), readonly)


def _from_numba(obj: Any, name: str, handle: int) -> DeviceArray:
    """An array that Numba allocated: its own attributes say all, and its stream may be another."""
    dtypes.info(obj.dtype)
    strides = tuple(obj.strides)
    if any(step % obj.dtype.itemsize for step in strides):
        raise LayoutError(f"{name} has strides {strides}, no multiples of its element size")
    device, address = _numba.place_of(obj)
    made = layout(tuple(obj.shape), strides, obj.dtype, device)
    if _numba.SIMULATED:
        from .simulator import Adopted

        return DeviceArray(made, address, Adopted(obj, made))
    producer = int(obj.stream) if obj.stream else 0
    if producer and producer != handle:
        backend().wait(handle, producer, device)
    return _wrap(obj, address, made, name, handle, False)


def _from_dlpack(obj: Any, name: str, handle: int) -> Any:
    """What cuda.core does not take: host arrays, and dtypes that it cannot name, such as torch's float8."""
    kind = int(obj.__dlpack_device__()[0])
    if kind in _HOST_DEVICES:
        return _from_host(obj, name)
    if kind not in (CUDA_DEVICE, MANAGED_DEVICE):
        raise DeviceError(f"{name} is on a device of DLPack's kind {kind}; numbacc works on NVIDIA GPUs and in NumPy")
    capsule = _Capsule(_dlpack(obj, handle or 1))
    address, made = capsule.describe(name, capsule.structure.tensor.device.device_id)
    return _wrap(capsule, address, made, name, handle, capsule.readonly)


def _from_interface(obj: Any, name: str, handle: int) -> DeviceArray:
    """By the CUDA array interface."""
    found = foreign.interface_of(obj, name)
    device = _device_of(found.address, name)
    made = layout(found.shape, found.strides, found.dtype, device)
    if found.stream is not None:
        backend().wait(handle, found.stream, device)
    return _wrap(obj, found.address, made, name, handle, found.readonly)


def _device_of(address: int, name: str) -> int:
    """The GPU that has an address."""
    current: int = backend().current_device()
    if not address or _numba.SIMULATED:
        return current
    with backend().on_device(current):
        try:
            return call(driver.cuPointerGetAttribute, PointerAttribute.DEVICE_ORDINAL, address)
        except DriverError as error:
            raise LayoutError(f"{name} starts at {address:#x}, where no GPU has memory") from error


def _dlpack(obj: Any, consumer: int | None) -> Any:
    try:
        return obj.__dlpack__(stream=consumer, max_version=(1, 0))
    except TypeError:  # a producer older than DLPack 1.0
        return obj.__dlpack__(stream=consumer)


def _from_host(obj: Any, name: str) -> np.ndarray[Any, Any]:
    """A host array of another library as NumPy's, in any dtype that numbacc has: NumPy itself takes no bfloat16."""
    capsule = _Capsule(_dlpack(obj, None))
    address, made = capsule.describe(name, CPU)
    return foreign.host_array(capsule, address, made.shape, made.strides, made.dtype, capsule.readonly)
