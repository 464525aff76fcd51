"""DLPack: its structures and capsules (dlpack.h, version 1.1), and the export of numbacc's arrays.

`interop` imports other libraries' arrays through cuda.core, which does not support every dtype, and cannot export
bfloat16 and float8.
"""

from __future__ import annotations

import ctypes
from array import array
from functools import lru_cache
from typing import Any

from ..base import checks, dtypes
from ..base.dispatch import runtime
from ..base.layout import Layout, is_sequence
from ..errors import OptionError, shown
from ..runtime import foreign_owners, streams

CPU_DEVICE = (1, 0)
CUDA_DEVICE, MANAGED_DEVICE = 2, 13
#: Host memory: ordinary, and pinned (kDLCUDAHost, 3).
HOST_DEVICES = (1, 3)
READ_ONLY = 1


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
    """DLManagedTensor, for consumers older than DLPack 1.0."""

    _fields_ = (
        ("tensor", _Tensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Version(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


class _ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned, for consumers of DLPack 1.0 or newer."""

    _fields_ = (
        ("version", _Version),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


OLD, NEW = b"dltensor", b"dltensor_versioned"
STRUCTURES: dict[bytes, Any] = {OLD: _Managed, NEW: _ManagedVersioned}

# A consumer renames a capsule when it consumes the tensor. The names must outlive every capsule.
USED = {OLD: b"used_dltensor", NEW: b"used_dltensor_versioned"}


def _capsule_function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
pointer = _capsule_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
set_name = _capsule_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


class _Export:
    """The structure of an exported tensor and its memory, kept alive until the consumer releases it."""

    __slots__ = ("_owner", "_storage", "_stream", "words")

    def __init__(self, words: array[int], storage: Any, stream: int | None):
        self.words, self._storage, self._stream = words, storage, stream
        self._owner = streams.library_owner(stream) if stream else None

    def __del__(self) -> None:
        if self._stream is not None:
            try:
                self._storage.unshare(self._stream)
            except Exception:
                pass  # interpreter exit, as in Storage


#: Indices of 64-bit words in a structure: the tensor's first word, its deleter and its flags; the lengths follow it.
_TENSOR = {OLD: 0, NEW: 4}
_DELETER = {OLD: 7, NEW: 2}
_FLAGS = 3
_LENGTHS = {OLD: 8, NEW: 10}


@lru_cache(maxsize=4096)
def _words_of(made: Layout, name: bytes) -> array[int]:
    """Return the words of a tensor's structure for a layout, followed by lengths and strides. All addresses are 0."""
    row = dtypes.info(made.dtype)
    first, lengths = _TENSOR[name], _LENGTHS[name]
    words = [0] * lengths
    if name == NEW:
        words[0] = 1  # version 1.0
    words[first + 1] = CUDA_DEVICE | made.device << 32
    words[first + 2] = made.ndim | row.dlpack_code << 32 | row.bits << 40 | 1 << 48
    steps = [step // made.itemsize % 2**64 for step in made.strides]
    return array("Q", [*words, *made.shape, *steps])


def _consumer(stream: Any) -> int | None:
    """Return the handle of the stream that a consumer passes; None if it passes -1, which asks for no ordering.

    Raises:
        OptionError: it is not a handle.
    """
    if isinstance(stream, bool):
        raise OptionError(f"stream={stream} is not a stream's handle: pass an integer")
    # DLPack: None and 1 are the legacy default stream, which the driver calls 0.
    handle = 1 if stream is None else checks.integer(stream, "stream", -1, 2**64 - 1)
    return None if handle == -1 else 0 if handle == 1 else handle


def _pair(value: Any, name: str) -> tuple[int, ...] | None:
    """Return a pair of integers, the form of DLPack's versions and devices; None stays None.

    Raises:
        OptionError: it is not a pair.
    """
    if value is None:
        return None
    if type(value) is tuple and len(value) == 2 and type(value[0]) is type(value[1]) is int:
        return value
    if not is_sequence(value) or len(value) != 2:
        raise OptionError(f"{name}={shown(value)} is not a pair of integers")
    return tuple(checks.integer(number, name) for number in value)


def export(
    self: Any,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return a DLPack capsule of this memory. The consumer's `stream` waits for the work queued on the memory.

    For the CPU, `dl_device` (1, 0), the capsule holds a copy on the host, and this waits for the copy.

    Raises:
        BufferError: the consumer asks for a copy on a GPU, for another GPU, or for the CPU without a copy; the stream
            is CUDA's per-thread default stream; or the array is read-only, and the consumer's DLPack cannot express
            that.
        OptionError: an argument does not have the type that the protocol defines.
    """
    consumer = 0 if type(stream) is int and stream == 1 else _consumer(stream)
    newest, made = _pair(max_version, "max_version"), self._numbacc_layout
    if dl_device is not None or copy is not None:
        where = _pair(dl_device, "dl_device")
        if where == CPU_DEVICE and (copy is None or checks.boolean(copy, "copy")):
            host = self._copy_to_host(None, self._usual_stream(), "an export to the CPU")
            return host.__dlpack__(max_version=newest, dl_device=where)
        elsewhere = where not in (None, (CUDA_DEVICE, made.device))
        if (copy is not None and checks.boolean(copy, "copy")) or elsewhere:
            raise BufferError(
                "numbacc exports its own memory only, without a copy: copy the array first, numbacc.array(x)"
            )
    name = NEW if newest is not None and newest[0] >= 1 else OLD
    if self._readonly and name == OLD:
        raise BufferError(
            "this array is read-only, which DLPack before 1.0 cannot express: export a copy, numbacc.array(x)"
        )
    foreign_owners.collect()
    storage = self._storage
    shared = None if consumer is None else runtime().share(storage, consumer)
    words = _words_of(made, name)[:]
    address = words.buffer_info()[0]
    first, lengths = _TENSOR[name], address + 8 * _LENGTHS[name]
    words[first] = self._address if made.size else 0
    words[first + 3], words[first + 4] = lengths, lengths + 8 * made.ndim
    if self._readonly:
        words[_FLAGS] = READ_ONLY
    return foreign_owners.capsule(address, name, _Export(words, storage, shared), _DELETER[name])
