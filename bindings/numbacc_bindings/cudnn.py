"""cuDNN's backend: graphs of operations, and the plans that run them.

Use it as `from numbacc_bindings.cudnn import cudnn` and call `cudnn.cudnnCreate(address)`. Descriptors, handles and
pointers are addresses. `create`, `set_...` and `get_...` replace calls that need an array for every attribute. Names
and constants come from `cudnn_graph.h`. `SINCE` lists those that the oldest supported version lacks.
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

#: Oldest supported version.
OLDEST = 90000
#: Enum -> member -> the first version that supports it.
SINCE: dict[type[IntEnum], dict[Any, int]] = {
    enum: {enum[name]: version for version, names in young.items() for name in names.split()}
    for enum, young in _YOUNG.items()
}

#: Advice for statuses whose own text does not help.
ADVICE: dict[int, str] = {
    Status.NOT_INITIALIZED: (
        "a descriptor was not finalized, or cuDNN found no usable GPU: python -m numbacc info shows what is missing"
    ),
    Status.SUBLIBRARY_LOADING_FAILED: "a part of cuDNN, NVRTC or the driver may be missing: python -m numbacc info",
}

_TEXT_BYTES = 4096


def _last_error(library: Library) -> str:
    """Return the text of this thread's last error, and clear it."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    library.cudnnGetLastErrorString(text, _TEXT_BYTES)
    return text.value.decode(errors="replace")


def _describe(library: Library, status: int) -> tuple[str, str]:
    name, text = library.cudnnGetErrorString(status).decode(), _last_error(library)
    # For an unknown status the library returns "CUDNN_UNKNOWN_STATUS".
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
    """Create a descriptor of a `DescriptorType`. The caller must destroy it."""
    made = ctypes.c_void_p()
    cudnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(made))
    return made.value or 0


def finalize(descriptor: int) -> None:
    """Check a descriptor, and build its object. Its attributes cannot be changed any more."""
    # An old, unread error text would be mistaken for this call's.
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
    """Set an attribute that is a text."""
    cudnn.cudnnBackendSetAttribute(descriptor, name, AttributeType.CHAR, len(text), text)


def _get(descriptor: int, name: int, kind: int, array: Any) -> int:
    """Fill an array with an attribute's elements, and return their number."""
    count = ctypes.c_int64()
    cudnn.cudnnBackendGetAttribute(descriptor, name, kind, len(array), ctypes.byref(count), array)
    return count.value


def get_int64s(descriptor: int, name: int, limit: int = 1) -> list[int]:
    """Return an attribute of int64: at most `limit` elements."""
    found = (ctypes.c_int64 * limit)()
    return found[: _get(descriptor, name, AttributeType.INT64, found)]


def get_int64(descriptor: int, name: int) -> int:
    """Return an attribute of one int64."""
    return get_int64s(descriptor, name)[0]


def get_numbers(descriptor: int, name: int, kind: int, limit: int = 1) -> list[int]:
    """Return an attribute of enum members, or of int32: at most `limit` elements."""
    found = (ctypes.c_int * limit)()
    return found[: _get(descriptor, name, kind, found)]


def get_count(descriptor: int, name: int, kind: int) -> int:
    """Return how many elements an attribute has. For knob choices cuDNN returns 0."""
    count = ctypes.c_int64()
    cudnn.cudnnBackendGetAttribute(descriptor, name, kind, 0, ctypes.byref(count), None)
    return count.value


def get_text(descriptor: int, name: int) -> bytes:
    """Return an attribute that is a text."""
    text = ctypes.create_string_buffer(get_count(descriptor, name, AttributeType.CHAR))
    length = _get(descriptor, name, AttributeType.CHAR, text)
    return text.raw[:length]


def get_descriptors(descriptor: int, name: int, kind: int, limit: int = 1) -> list[int]:
    """Return an attribute of descriptors of a `DescriptorType`: at most `limit`, which the caller must destroy."""
    made: list[int] = []
    used = 0
    try:
        made.extend(create(kind) for _ in range(limit))
        # cuDNN writes to existing descriptors.
        used = _get(descriptor, name, AttributeType.BACKEND_DESCRIPTOR, (ctypes.c_void_p * limit)(*made))
    finally:
        for spare in made[used:]:
            cudnn.cudnnBackendDestroyDescriptor(spare)
    return made[:used]


# ---------------------------------------------------------------- reasons for rejected engines

_WARNINGS = 1 << Severity.WARNING
_said = threading.local()


def _listen(severity: int, data: int, facts: int, message: int) -> None:
    """Collect the messages of a failed call. cuDNN calls this at the call's end, in the same thread."""
    found: list[str] | None = getattr(_said, "reasons", None)
    # The message consists of lines that end in a zero byte, with another zero byte after the last line.
    while found is not None and (line := ctypes.string_at(message)):
        message += len(line) + 1
        status, about, reason = " ".join(line.decode(errors="replace").split()).partition("; Reason: ")
        # Skip messages of calls that only passed a status on, and messages of success.
        passed_on = reason.endswith("()") or reason == "status" or status.endswith("_SUCCESS")
        if about and not passed_on and reason not in found:
            found.append(reason)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _Listener:
    """A context manager that makes cuDNN call `_listen`, for any number of threads.

    If another library has set a callback, or cuDNN writes a log to a file, it changes nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        # Without a callback cuDNN would print errors from then on. So this sets a function that ignores its arguments,
        # and that is not one of cuDNN's, which would call back.
        self._nothing = _address(ctypes.pythonapi.Py_IsInitialized)

    @functools.cached_property
    def _callback(self) -> Any:
        # Never freed: cuDNN may call it as long as the process lives.
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
    """Collect cuDNN's messages about rejected graphs and engines, inside the block and in this thread.

    The list grows during the block. It stays empty if other code has set a callback, or made cuDNN write a log.
    """
    found: list[str] = []
    outer, _said.reasons = getattr(_said, "reasons", None), found
    try:
        with _listener:
            yield found
    finally:
        _said.reasons = outer
