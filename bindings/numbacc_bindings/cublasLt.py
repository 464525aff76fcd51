"""cuBLASLt: matrix products with epilogues.

Use it as `from numbacc_bindings.cublasLt import cublasLt` and call `cublasLt.cublasLtCreate(address)`. Names and
constants come from `cublasLt.h`, `cublas_api.h` and `library_types.h`. `SINCE` lists those that the oldest supported
version lacks.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

from ._library import Library, wheel
from .errors import LibraryError


class CublasLtError(LibraryError):
    """A cuBLASLt function failed, or the library is missing or too old."""


class Status(IntEnum):
    """cublasStatus_t."""

    SUCCESS = 0
    NOT_INITIALIZED = 1
    ALLOC_FAILED = 3
    INVALID_VALUE = 7
    ARCH_MISMATCH = 8
    MAPPING_ERROR = 11
    EXECUTION_FAILED = 13
    INTERNAL_ERROR = 14
    NOT_SUPPORTED = 15
    LICENSE_ERROR = 16


class CublasOperation(IntEnum):
    """cublasOperation_t."""

    N = 0
    T = 1
    C = 2


class ComputeType(IntEnum):
    """cublasComputeType_t."""

    COMPUTE_16F = 64
    COMPUTE_32F = 68
    COMPUTE_32F_PEDANTIC = 69
    COMPUTE_64F = 70
    COMPUTE_32I = 72
    COMPUTE_32F_FAST_TF32 = 77


class CudaDataType(IntEnum):
    """cudaDataType_t, for the dtypes that numbacc supports."""

    R_32F = 0
    R_64F = 1
    R_16F = 2
    R_8I = 3
    R_32I = 10
    R_16BF = 14
    R_8F_E4M3 = 28
    R_8F_E5M2 = 29


class LtEpilogue(IntEnum):
    """cublasLtEpilogue_t."""

    DEFAULT = 1
    RELU = 2
    BIAS = 4
    RELU_BIAS = 6
    GELU = 32
    GELU_BIAS = 36
    RELU_AUX = 130
    RELU_AUX_BIAS = 134
    DRELU = 136
    DRELU_BGRAD = 152
    GELU_AUX = 160
    GELU_AUX_BIAS = 164
    DGELU = 192
    DGELU_BGRAD = 208
    BGRADA = 256
    BGRADB = 512


class MatrixScale(IntEnum):
    """cublasLtMatmulMatrixScale_t: the meaning of a scale factor's pointer."""

    SCALAR_32F = 0
    VEC16_UE4M3 = 1
    VEC32_UE8M0 = 2
    OUTER_VEC_32F = 3
    VEC128_32F = 4
    BLK128x128_32F = 5


class LayoutAttribute(IntEnum):
    """cublasLtMatrixLayoutAttribute_t."""

    TYPE = 0
    ORDER = 1
    ROWS = 2
    COLS = 3
    LD = 4
    BATCH_COUNT = 5
    STRIDED_BATCH_OFFSET = 6


class MatmulAttribute(IntEnum):
    """cublasLtMatmulDescAttributes_t."""

    COMPUTE_TYPE = 0
    SCALE_TYPE = 1
    POINTER_MODE = 2
    TRANSA = 3
    TRANSB = 4
    TRANSC = 5
    EPILOGUE = 7
    BIAS_POINTER = 8
    BIAS_BATCH_STRIDE = 10
    EPILOGUE_AUX_POINTER = 11
    EPILOGUE_AUX_LD = 12
    EPILOGUE_AUX_BATCH_STRIDE = 13
    A_SCALE_POINTER = 17
    B_SCALE_POINTER = 18
    C_SCALE_POINTER = 19
    D_SCALE_POINTER = 20
    AMAX_D_POINTER = 21
    EPILOGUE_AUX_DATA_TYPE = 22
    FAST_ACCUM = 25
    BIAS_DATA_TYPE = 26
    A_SCALE_MODE = 31
    B_SCALE_MODE = 32
    C_SCALE_MODE = 33
    D_SCALE_MODE = 34


class PreferenceAttribute(IntEnum):
    """cublasLtMatmulPreferenceAttributes_t."""

    SEARCH_MODE = 0
    MAX_WORKSPACE_BYTES = 1
    REDUCTION_SCHEME_MASK = 3
    MIN_ALIGNMENT_A_BYTES = 5
    MIN_ALIGNMENT_B_BYTES = 6
    MIN_ALIGNMENT_C_BYTES = 7
    MIN_ALIGNMENT_D_BYTES = 8


class ReductionScheme(IntEnum):
    """cublasLtReductionScheme_t: how partial sums over k are combined; a bit mask."""

    NONE = 0
    INPLACE = 1
    COMPUTE_TYPE = 2
    OUTPUT_TYPE = 4


class AlgoConfig(IntEnum):
    """cublasLtMatmulAlgoConfigAttributes_t."""

    ID = 0
    TILE_ID = 1
    SPLITK_NUM = 2
    REDUCTION_SCHEME = 3
    CTA_SWIZZLING = 4
    CUSTOM_OPTION = 5
    STAGES_ID = 6
    INNER_SHAPE_ID = 7
    CLUSTER_SHAPE_ID = 8


class Algo(ctypes.Structure):
    """cublasLtMatmulAlgo_t. It may be copied, and stored for the same version of the library."""

    _fields_ = (("data", ctypes.c_uint64 * 8),)


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algo", Algo),
        ("workspaceSize", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("wavesCount", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


#: C name -> parameter letters (see `_library.TYPES`).
FUNCTIONS = {
    "cublasLtCreate": "p",
    "cublasLtDestroy": "p",
    "cublasLtGetStatusName": "i>s",
    "cublasLtGetStatusString": "i>s",
    "cublasLtGetVersion": ">z",
    "cublasLtMatmul": "ppppppppppppppzp",
    "cublasLtMatmulDescCreate": "pii",
    "cublasLtMatmulDescDestroy": "p",
    "cublasLtMatmulDescSetAttribute": "pipz",
    "cublasLtMatmulDescGetAttribute": "pipzp",
    "cublasLtMatrixLayoutCreate": "piLLq",
    "cublasLtMatrixLayoutDestroy": "p",
    "cublasLtMatrixLayoutSetAttribute": "pipz",
    "cublasLtMatrixLayoutGetAttribute": "pipzp",
    "cublasLtMatmulPreferenceCreate": "p",
    "cublasLtMatmulPreferenceDestroy": "p",
    "cublasLtMatmulPreferenceSetAttribute": "pipz",
    "cublasLtMatmulPreferenceGetAttribute": "pipzp",
    "cublasLtMatmulAlgoGetHeuristic": "pppppppipp",
    "cublasLtMatmulAlgoCheck": "pppppppp",
    "cublasLtMatmulAlgoConfigGetAttribute": "pipzp",
}

#: Oldest supported version: that of CUDA 12.0.
OLDEST = 120000
#: Enum -> member -> the first version that supports it.
SINCE: dict[type[IntEnum], dict[Any, int]] = {
    MatmulAttribute: {
        MatmulAttribute.A_SCALE_MODE: 120800,
        MatmulAttribute.B_SCALE_MODE: 120800,
        MatmulAttribute.C_SCALE_MODE: 120800,
        MatmulAttribute.D_SCALE_MODE: 120800,
    },
    MatrixScale: {
        MatrixScale.SCALAR_32F: 120800,
        MatrixScale.VEC16_UE4M3: 120800,
        MatrixScale.VEC32_UE8M0: 120800,
        MatrixScale.OUTER_VEC_32F: 120900,
        MatrixScale.VEC128_32F: 120900,
        MatrixScale.BLK128x128_32F: 120900,
    },
}


#: Advice for statuses whose own text does not help.
ADVICE: dict[int, str] = {
    Status.NOT_INITIALIZED: "it may have found no usable GPU: python -m numbacc info shows what is missing",
}


def _describe(library: Library, status: int) -> tuple[str, str]:
    name, text = (ask(status).decode() for ask in (library.cublasLtGetStatusName, library.cublasLtGetStatusString))
    # For an unknown status the library returns "unrecognized status", twice.
    if not name.startswith("CUBLAS_STATUS_"):
        return "", ""
    return name.removeprefix("CUBLAS_STATUS_"), "; ".join(filter(None, [text, ADVICE.get(status)]))


cublasLt = Library(
    "cublasLt",
    CublasLtError,
    FUNCTIONS,
    _describe,
    wheel("nvidia-cublas"),
    lambda library: int(library.cublasLtGetVersion()),
    OLDEST,
    SINCE,
    (Status.NOT_INITIALIZED, Status.ALLOC_FAILED),
)
