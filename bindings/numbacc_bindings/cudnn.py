"""cuDNN's backend: graphs of operations, and the plans that run them.

Use as `from numbacc_bindings.cudnn import cudnn` and call `cudnn.cudnnCreate(address)`. Descriptors, handles and
pointers are addresses; `create`, `set_...` and `get_...` do what otherwise takes an array for every attribute. Names
and numbers are those of `cudnn_graph.h`; `SINCE` tells which of them are younger than the oldest version supported.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from ._cudnn_attributes import YOUNG as _YOUNG_ATTRIBUTES
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
    "VariantPacks",
    "create",
    "cudnn",
    "finalize",
    "get_descriptors",
    "get_int64",
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
    for enum, young in {**_YOUNG, AttributeName: _YOUNG_ATTRIBUTES}.items()
}

#: What to do about a status whose own text leaves one helpless.
ADVICE: dict[int, str] = {
    Status.NOT_INITIALIZED: "there may be no GPU that it can use: python -m numbacc info tells what is missing",
    Status.SUBLIBRARY_LOADING_FAILED: "a part of cuDNN, NVRTC or the driver's libcuda is missing",
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
    (
        Status.NOT_INITIALIZED,
        Status.INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
        Status.INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
    ),
)


# ---------------------------------------------------------------- descriptors and their attributes


def create(kind: int) -> int:
    """A new descriptor of a `DescriptorType`. It is the caller's to destroy."""
    made = ctypes.c_void_p()
    cudnn.cudnnBackendCreateDescriptor(kind, ctypes.addressof(made))
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
    """Fill an array with an attribute's elements. Returns how many there are, which may be more than there is room."""
    count = ctypes.c_int64()
    cudnn.cudnnBackendGetAttribute(descriptor, name, kind, len(array), ctypes.byref(count), array)
    return count.value


def get_int64(descriptor: int, name: int) -> int:
    """An attribute of one int64."""
    found = (ctypes.c_int64 * 1)()
    _get(descriptor, name, AttributeType.INT64, found)
    return found[0]


def get_numbers(descriptor: int, name: int, kind: int, limit: int = 1) -> list[int]:
    """An attribute of members of an enum, or of int32: at most `limit` of them."""
    found = (ctypes.c_int * limit)()
    return found[: _get(descriptor, name, kind, found)]


def get_text(descriptor: int, name: int) -> bytes:
    """An attribute of characters."""
    raise NotImplementedError


def get_descriptors(descriptor: int, name: int, kind: int, limit: int = 1) -> list[int]:
    """An attribute of descriptors of one `DescriptorType`: at most `limit` of them, the caller's to destroy."""
    raise NotImplementedError


class VariantPacks:
    """Maker of a plan's variant packs, which tell it where its tensors lie.

    Args:
        uids: the tensors' numbers, in the order in which their addresses are given.
    """

    def __init__(self, uids: Sequence[int]):
        raise NotImplementedError

    def make(self, addresses: Sequence[int], workspace: int) -> int:
        """A finalized variant pack, the caller's to destroy. It cannot be changed."""
        raise NotImplementedError


# ---------------------------------------------------------------- why an engine was rejected


@contextmanager
def reasons() -> Iterator[list[str]]:
    """Collect what cuDNN says, within the block and in this thread, about graphs and engines that it rejects.

    The list grows during the block. Callbacks that others have set get nothing meanwhile, and are back afterwards.
    """
    yield []
