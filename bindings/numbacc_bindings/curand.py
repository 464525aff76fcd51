"""cuRAND: random numbers, on the GPU and on the CPU.

Use it as `from numbacc_bindings.curand import curand` and call `curand.curandCreateGeneratorHost(address, type)`. A
host generator needs no GPU and writes to host memory. Names and constants come from `curand.h`.
"""

from __future__ import annotations

from enum import IntEnum

from ._library import Library, by_table, wheel, written_by
from .errors import LibraryError


class CurandError(LibraryError):
    """A cuRAND function failed, or the library is missing or too old."""


class Status(IntEnum):
    """curandStatus_t."""

    SUCCESS = 0
    VERSION_MISMATCH = 100
    NOT_INITIALIZED = 101
    ALLOCATION_FAILED = 102
    TYPE_ERROR = 103
    OUT_OF_RANGE = 104
    LENGTH_NOT_MULTIPLE = 105
    DOUBLE_PRECISION_REQUIRED = 106
    LAUNCH_FAILURE = 201
    PREEXISTING_FAILURE = 202
    INITIALIZATION_FAILED = 203
    ARCH_MISMATCH = 204
    INTERNAL_ERROR = 999


class RngType(IntEnum):
    """curandRngType_t."""

    PSEUDO_XORWOW = 101
    PSEUDO_MRG32K3A = 121
    PSEUDO_MTGP32 = 141
    PSEUDO_MT19937 = 142
    PSEUDO_PHILOX4_32_10 = 161
    QUASI_SOBOL32 = 201
    QUASI_SCRAMBLED_SOBOL32 = 202
    QUASI_SOBOL64 = 203
    QUASI_SCRAMBLED_SOBOL64 = 204


class Ordering(IntEnum):
    """curandOrdering_t."""

    PSEUDO_BEST = 100
    PSEUDO_DEFAULT = 101
    PSEUDO_SEEDED = 102
    PSEUDO_LEGACY = 103
    PSEUDO_DYNAMIC = 104
    QUASI_DEFAULT = 201


#: The descriptions of statuses in `curand.h`; cuRAND does not provide a function for them.
TEXTS = {
    Status.VERSION_MISMATCH: "the header file and the loaded library do not match",
    Status.NOT_INITIALIZED: "the generator was not initialized",
    Status.ALLOCATION_FAILED: "memory allocation failed",
    Status.TYPE_ERROR: "the generator is of the wrong type",
    Status.OUT_OF_RANGE: "an argument is out of range",
    Status.LENGTH_NOT_MULTIPLE: "the length is not a multiple of the dimensions, or is odd where pairs are made",
    Status.DOUBLE_PRECISION_REQUIRED: "the GPU has no double precision",
    Status.LAUNCH_FAILURE: "a kernel failed to launch",
    Status.PREEXISTING_FAILURE: "the GPU had already failed when cuRAND was called",
    Status.INITIALIZATION_FAILED: "CUDA could not be initialized",
    Status.ARCH_MISMATCH: "the GPU lacks a requested feature",
    Status.INTERNAL_ERROR: "internal error of the library",
}

#: C name -> parameter letters (see `_library.TYPES`).
FUNCTIONS = {
    "curandGetVersion": "p",
    "curandCreateGenerator": "pi",
    "curandCreateGeneratorHost": "pi",
    "curandDestroyGenerator": "p",
    "curandSetStream": "pp",
    "curandSetPseudoRandomGeneratorSeed": "pL",
    "curandSetGeneratorOffset": "pL",
    "curandSetGeneratorOrdering": "pi",
    "curandSetQuasiRandomGeneratorDimensions": "pu",
    "curandGenerate": "ppz",
    "curandGenerateLongLong": "ppz",
    "curandGenerateUniform": "ppz",
    "curandGenerateUniformDouble": "ppz",
    "curandGenerateNormal": "ppzff",
    "curandGenerateNormalDouble": "ppzdd",
    "curandGenerateLogNormal": "ppzff",
    "curandGenerateLogNormalDouble": "ppzdd",
    "curandGeneratePoisson": "ppzd",
}

#: Oldest supported version: that of CUDA 12.0.
OLDEST = 10301

curand = Library(
    "curand",
    CurandError,
    FUNCTIONS,
    by_table(Status, TEXTS),
    wheel("nvidia-curand"),
    written_by("curandGetVersion"),
    OLDEST,
    out_of_memory=(Status.ALLOCATION_FAILED, Status.INITIALIZATION_FAILED),
)
