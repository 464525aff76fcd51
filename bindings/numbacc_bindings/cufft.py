"""cuFFT: Fourier transforms of one to three dimensions, batched and strided.

Use it as `from numbacc_bindings.cufft import cufft` and call `cufft.cufftCreate(address)`. Names and constants come
from `cufft.h`. `SINCE` lists those that the oldest supported version lacks. Nothing of `cufftXt.h` is needed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ._library import Library, by_table, wheel, written_by
from .errors import LibraryError


class CufftError(LibraryError):
    """A cuFFT function failed, or the library is missing or too old."""


class Result(IntEnum):
    """cufftResult, for all supported versions: CUDA 13 has removed a few members and added others."""

    SUCCESS = 0
    INVALID_PLAN = 1
    ALLOC_FAILED = 2
    INVALID_TYPE = 3
    INVALID_VALUE = 4
    INTERNAL_ERROR = 5
    EXEC_FAILED = 6
    SETUP_FAILED = 7
    INVALID_SIZE = 8
    UNALIGNED_DATA = 9
    INVALID_DEVICE = 11
    NO_WORKSPACE = 13
    NOT_IMPLEMENTED = 14
    NOT_SUPPORTED = 16
    MISSING_DEPENDENCY = 17
    NVRTC_FAILURE = 18
    NVJITLINK_FAILURE = 19
    NVSHMEM_FAILURE = 20


class Type(IntEnum):
    """cufftType: R and C are single precision, D and Z double."""

    C2C = 0x29
    R2C = 0x2A
    C2R = 0x2C
    Z2Z = 0x69
    D2Z = 0x6A
    Z2D = 0x6C


#: CUFFT_FORWARD and CUFFT_INVERSE: the sign of the exponent.
FORWARD, INVERSE = -1, 1

#: C name -> parameter letters (see `_library.TYPES`). A cufftHandle is an int.
FUNCTIONS = {
    "cufftCreate": "p",
    "cufftDestroy": "i",
    "cufftGetVersion": "p",
    "cufftSetAutoAllocation": "ii",
    "cufftMakePlanMany64": "iippqqpqqiqp",
    "cufftSetStream": "ip",
    "cufftSetWorkArea": "ip",
    "cufftExecC2C": "ippi",
    "cufftExecR2C": "ipp",
    "cufftExecC2R": "ipp",
    "cufftExecZ2Z": "ippi",
    "cufftExecD2Z": "ipp",
    "cufftExecZ2D": "ipp",
}

#: Oldest supported version: that of CUDA 12.0.
OLDEST = 11000
#: Enum -> member -> the first version that supports it.
SINCE: dict[type[IntEnum], dict[Any, int]] = {
    Result: {
        Result.MISSING_DEPENDENCY: 12000,
        Result.NVRTC_FAILURE: 12000,
        Result.NVJITLINK_FAILURE: 12000,
        Result.NVSHMEM_FAILURE: 12000,
    },
}

#: Explanations of statuses with unclear names; cuFFT itself does not explain them.
TEXTS = {
    Result.ALLOC_FAILED: "not enough GPU memory for the plan's tables",
    Result.INTERNAL_ERROR: "the driver failed, or no GPU was found",
    Result.SETUP_FAILED: "the library could not be initialized",
    Result.INVALID_SIZE: "a length, or their product, is not supported",
}

cufft = Library(
    "cufft",
    CufftError,
    FUNCTIONS,
    by_table(Result, TEXTS),
    wheel("nvidia-cufft"),
    written_by("cufftGetVersion"),
    OLDEST,
    SINCE,
    (Result.ALLOC_FAILED, Result.INTERNAL_ERROR, Result.SETUP_FAILED),
)
