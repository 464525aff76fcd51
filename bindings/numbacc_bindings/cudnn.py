"""cuDNN's backend: graphs of operations, and the plans that run them.

Use as `from numbacc_bindings.cudnn import cudnn` and call `cudnn.cudnnCreate(address)`. Descriptors, handles and
pointers are addresses; `create`, `set_...` and `get_...` do what otherwise takes an array for every attribute. Names
and numbers are those of `cudnn_graph.h`; `SINCE` tells which of them are younger than the oldest version supported.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from ._cudnn_attributes import AttributeName
from ._cudnn_numbers import YOUNG as _YOUNG
from ._cudnn_numbers import (
    AttributeType,
    BehaviorNote,
    ConvolutionMode,
    CudaGraphRetention,
    DataType,
    DescriptorType,
    HeurMode,
    KnobType,
    NumericalNote,
    PointwiseMode,
    ReduceTensorOp,
    RngDistribution,
    Severity,
    Status,
    TensorReordering,
)
from ._library import Library, wheel
from .errors import LibraryError

__all__ = [
    "SINCE",
    "AttributeName",
    "AttributeType",
    "BehaviorNote",
    "ConvolutionMode",
    "CudaGraphRetention",
    "CudnnError",
    "DataType",
    "DescriptorType",
    "HeurMode",
    "KnobType",
    "NumericalNote",
    "PointwiseMode",
    "ReduceTensorOp",
    "RngDistribution",
    "Severity",
    "Status",
    "TensorReordering",
    "create",
    "cudnn",
    "finalize",
    "get_count",
    "get_descriptors",
    "get_int64",
    "get_int64s",
    "get_numbers",
    "get_text",
    "reasons",
    "set_bool",
    "set_descriptors",
    "set_double",
    "set_float",
    "set_handle",
    "set_int64s",
    "set_number",
    "set_pointers",
    "set_text",
]


class CudnnError(LibraryError):
    """A cuDNN function failed, or the library is missing or too old."""


#: C name -> parameter letters (see `_library.TYPES`).
FUNCTIONS = {
    "cudnnGetVersion": ">z",
    "cudnnGetErrorString": "i>s",
    "cudnnGetLastErrorString": "pz>",
    "cudnnGetCallback": "ppp",
    "cudnnSetCallback": "upp",
    "cudnnCreate": "p",
    "cudnnDestroy": "p",
    "cudnnSetStream": "pp",
    "cudnnBackendCreateDescriptor": "ip",
    "cudnnBackendDestroyDescriptor": "p",
    "cudnnBackendSetAttribute": "piiqp",
    "cudnnBackendGetAttribute": "piiqpp",
    "cudnnBackendFinalize": "p",
    "cudnnBackendExecute": "ppp",
}

#: Oldest version supported.
OLDEST = 90000
#: Enum -> member -> the first version that knows it.
SINCE: dict[type[IntEnum], dict[Any, int]] = {
    enum: {enum[name]: version for version, names in young.items() for name in names.split()}
    for enum, young in _YOUNG.items()
}

#: What to do about a status whose own text leaves one helpless.
ADVICE: dict[int, str] = {
    Status.NOT_INITIALIZED: (
        "a descriptor was not finalized, or there is no GPU that it can use: "
        "python -m numbacc info tells what is missing"
    ),
    Status.SUBLIBRARY_LOADING_FAILED: "a part of cuDNN, NVRTC or the driver may be missing: python -m numbacc info",
}

_TEXT_BYTES = 4096


def _last_error(library: Library) -> str:
    """What went wrong last in this thread; asking clears it."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    library.cudnnGetLastErrorString(text, _TEXT_BYTES)
    return text.value.decode(errors="replace")


def _describe(library: Library, status: int) -> tuple[str, str]:
    name, text = library.cudnnGetErrorString(status).decode(), _last_error(library)
    # Of a number that it does not know the library says "CUDNN_UNKNOWN_STATUS".
    known = name.startswith("CUDNN_STATUS_")
    return name.removeprefix("CUDNN_STATUS_") if known else "", "; ".join(filter(None, [text, ADVICE.get(status)]))


cudnn = Library(
    "cudnn",
    CudnnError,
    FUNCTIONS,
    _describe,
    wheel("nvidia-cudnn"),
    lambda library: int(library.cudnnGetVersion()),
    OLDEST,
    SINCE,
    (Status.NOT_INITIALIZED, Status.INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED),
)


# ---------------------------------------------------------------- descriptors and their attributes


def create(kind: int) -> int:
    """A new descriptor of a `DescriptorType`. It is the caller's to destroy."""
    made = ctypes.c_void_p()
    cudnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(made))
    return made.value or 0


def finalize(descriptor: int) -> None:
    """Check a descriptor, and build what it stands for. Its attributes cannot be set any more."""
    # A text that nobody has asked for would be taken for this call's.
    _last_error(cudnn)
    cudnn.cudnnBackendFinalize(descriptor)


def set_int64s(descriptor: int, name: int, values: Sequence[int]) -> None:
    """Set an attribute of one or more int64."""
    count = len(values)
    cudnn.cudnnBackendSetAttribute(descriptor, name, AttributeType.INT64, count, (ctypes.c_int64 * count)(*values))


def set_number(descriptor: int, name: int, kind: int, value: int) -> None:
    """Set an attribute of 32 bits: a member of an enum, or an int32. The kind is an `AttributeType`."""
    cudnn.cudnnBackendSetAttribute(descriptor, name, kind, 1, ctypes.byref(ctypes.c_int(value)))


def set_bool(descriptor: int, name: int, value: bool) -> None:
    """Set an attribute that is true or false."""
    cudnn.cudnnBackendSetAttribute(descriptor, name, AttributeType.BOOLEAN, 1, ctypes.byref(ctypes.c_bool(value)))


def set_float(descriptor: int, name: int, value: float) -> None:
    """Set an attribute of one float32."""
    cudnn.cudnnBackendSetAttribute(descriptor, name, AttributeType.FLOAT, 1, ctypes.byref(ctypes.c_float(value)))


def set_double(descriptor: int, name: int, value: float) -> None:
    """Set an attribute of one float64."""
    cudnn.cudnnBackendSetAttribute(descriptor, name, AttributeType.DOUBLE, 1, ctypes.byref(ctypes.c_double(value)))


def _set_addresses(descriptor: int, name: int, kind: int, addresses: Sequence[int]) -> None:
    count = len(addresses)
    cudnn.cudnnBackendSetAttribute(descriptor, name, kind, count, (ctypes.c_void_p * count)(*addresses))


def set_descriptors(descriptor: int, name: int, descriptors: Sequence[int]) -> None:
    """Set an attribute of one or more descriptors."""
    _set_addresses(descriptor, name, AttributeType.BACKEND_DESCRIPTOR, descriptors)


def set_pointers(descriptor: int, name: int, addresses: Sequence[int]) -> None:
    """Set an attribute of one or more addresses."""
    _set_addresses(descriptor, name, AttributeType.VOID_PTR, addresses)


def set_handle(descriptor: int, name: int, handle: int) -> None:
    """Set an attribute that is a handle."""
    _set_addresses(descriptor, name, AttributeType.HANDLE, (handle,))


def set_text(descriptor: int, name: int, text: bytes) -> None:
    """Set an attribute of characters."""
    cudnn.cudnnBackendSetAttribute(descriptor, name, AttributeType.CHAR, len(text), text)


def _get(descriptor: int, name: int, kind: int, array: Any) -> int:
    """Fill an array with an attribute's elements, and tell how many they are."""
    count = ctypes.c_int64()
    cudnn.cudnnBackendGetAttribute(descriptor, name, kind, len(array), ctypes.byref(count), array)
    return count.value


def get_int64s(descriptor: int, name: int, limit: int = 1) -> list[int]:
    """An attribute of int64: at most `limit` of them."""
    found = (ctypes.c_int64 * limit)()
    return found[: _get(descriptor, name, AttributeType.INT64, found)]


def get_int64(descriptor: int, name: int) -> int:
    """An attribute of one int64."""
    return get_int64s(descriptor, name)[0]


def get_numbers(descriptor: int, name: int, kind: int, limit: int = 1) -> list[int]:
    """An attribute of members of an enum, or of int32: at most `limit` of them."""
    found = (ctypes.c_int * limit)()
    return found[: _get(descriptor, name, kind, found)]


def get_count(descriptor: int, name: int, kind: int) -> int:
    """How many elements an attribute has. Of knob choices cuDNN says 0."""
    count = ctypes.c_int64()
    cudnn.cudnnBackendGetAttribute(descriptor, name, kind, 0, ctypes.byref(count), None)
    return count.value


def get_text(descriptor: int, name: int) -> bytes:
    """An attribute of characters."""
    text = ctypes.create_string_buffer(get_count(descriptor, name, AttributeType.CHAR))
    length = _get(descriptor, name, AttributeType.CHAR, text)
    return text.raw[:length]


def get_descriptors(descriptor: int, name: int, kind: int, limit: int = 1) -> list[int]:
    """An attribute of descriptors of one `DescriptorType`: at most `limit` of them, the caller's to destroy."""
    made: list[int] = []
    used = 0
    try:
        made.extend(create(kind) for _ in range(limit))
        # cuDNN writes to descriptors that are there already.
        used = _get(descriptor, name, AttributeType.BACKEND_DESCRIPTOR, (ctypes.c_void_p * limit)(*made))
    finally:
        for spare in made[used:]:
            cudnn.cudnnBackendDestroyDescriptor(spare)
    return made[:used]


# ---------------------------------------------------------------- why an engine was rejected

_WARNINGS = 1 << Severity.WARNING
_said = threading.local()


def _listen(severity: int, data: int, facts: int, message: int) -> None:
    """Called by cuDNN at the end of a call that failed, in the thread of that call."""
    found: list[str] | None = getattr(_said, "reasons", None)
    # Lines, each of which ends in a zero, and a zero behind the last.
    while found is not None and (line := ctypes.string_at(message)):
        message += len(line) + 1
        status, about, reason = " ".join(line.decode(errors="replace").split()).partition("; Reason: ")
        # The calls that handed a status on are told as well, and news that go with success.
        passed_on = reason.endswith("()") or reason == "status" or status.endswith("_SUCCESS")
        if about and not passed_on and reason not in found:
            found.append(reason)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _Listener:
    """Has cuDNN call `_listen` while a thread wants to know.

    A callback of somebody else's, or a log that cuDNN writes to a file, is left alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        # Without a callback cuDNN from then on prints errors. A function that ignores its arguments takes its place,
        # not one of cuDNN's, which would call back.
        self._nothing = _address(ctypes.pythonapi.Py_IsInitialized)

    @functools.cached_property
    def _callback(self) -> Any:
        # Kept for good: cuDNN may call it as long as the process lives.
        return ctypes.CFUNCTYPE(None, ctypes.c_int, *[ctypes.c_void_p] * 3)(_listen)

    def __enter__(self) -> None:
        with self._lock:
            self._set(self._users + 1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._set(self._users - 1)

    def _set(self, users: int) -> None:
        ours = _address(self._callback)
        mask, data, present = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_void_p()
        cudnn.cudnnGetCallback(*map(ctypes.byref, (mask, data, present)))
        if present.value in (ours, self._nothing) or not (present.value or mask.value):
            cudnn.cudnnSetCallback(*((_WARNINGS, 0, ours) if users else (0, 0, self._nothing)))
        self._users = users


_listener = _Listener()


@contextmanager
def reasons() -> Iterator[list[str]]:
    """Collect what cuDNN says, within the block and in this thread, about graphs and engines that it rejects.

    The list grows during the block. It stays empty where others have set a callback, or made cuDNN keep a log.
    """
    found: list[str] = []
    outer, _said.reasons = getattr(_said, "reasons", None), found
    try:
        with _listener:
            yield found
    finally:
        _said.reasons = outer
