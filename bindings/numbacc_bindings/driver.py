"""The CUDA driver (libcuda): contexts, memory pools, streams, events, modules, launches.

Use it as `from numbacc_bindings.driver import driver` and call `driver.cuInit(0)`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum

from ._library import Library
from .errors import LibraryError


class DriverError(LibraryError):
    """A CUDA driver function failed, or the driver is missing."""


class Status(IntEnum):
    """The CUresult values that numbacc acts on."""

    SUCCESS = 0
    ERROR_INVALID_VALUE = 1
    ERROR_OUT_OF_MEMORY = 2
    ERROR_NOT_INITIALIZED = 3
    ERROR_NO_DEVICE = 100
    ERROR_INVALID_CONTEXT = 201
    ERROR_INVALID_HANDLE = 400
    ERROR_NOT_READY = 600
    ERROR_STREAM_CAPTURE_IMPLICIT = 906


class DeviceAttribute(IntEnum):
    """CUdevice_attribute."""

    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    CLOCK_RATE = 13
    MULTIPROCESSOR_COUNT = 16
    PCI_BUS_ID = 33
    PCI_DEVICE_ID = 34
    MEMORY_CLOCK_RATE = 36
    GLOBAL_MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    PCI_DOMAIN_ID = 50
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    MEMORY_POOLS_SUPPORTED = 115


class FunctionAttribute(IntEnum):
    """CUfunction_attribute."""

    SHARED_SIZE_BYTES = 1
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    PREFERRED_SHARED_MEMORY_CARVEOUT = 9
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14


class LaunchAttributeId(IntEnum):
    """CUlaunchAttributeID."""

    CLUSTER_DIMENSION = 4
    PROGRAMMATIC_STREAM_SERIALIZATION = 6


class PointerAttribute(IntEnum):
    """CUpointer_attribute."""

    CONTEXT = 1
    MEMORY_TYPE = 2
    DEVICE_ORDINAL = 9


class MemoryType(IntEnum):
    """CUmemorytype."""

    HOST = 1
    DEVICE = 2


class MemoryPoolAttribute(IntEnum):
    """CUmemPool_attribute."""

    RELEASE_THRESHOLD = 4
    RESERVED_MEM_CURRENT = 5
    USED_MEM_CURRENT = 7
    USED_MEM_HIGH = 8


class StreamFlag(IntEnum):
    """CUstream_flags."""

    DEFAULT = 0
    NON_BLOCKING = 1


class EventFlag(IntEnum):
    """CUevent_flags."""

    DEFAULT = 0
    DISABLE_TIMING = 2


class CaptureMode(IntEnum):
    """CUstreamCaptureMode: which calls a capture forbids, and in which threads."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class CaptureStatus(IntEnum):
    """CUstreamCaptureStatus."""

    NONE = 0
    ACTIVE = 1
    INVALIDATED = 2


class MemoryLocation(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class MemoryPoolProperties(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = (
        ("allocType", ctypes.c_int),
        ("handleTypes", ctypes.c_int),
        ("location", MemoryLocation),
        ("win32SecurityAttributes", ctypes.c_void_p),
        ("maxSize", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    )


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("gridDimX", ctypes.c_uint),
        ("gridDimY", ctypes.c_uint),
        ("gridDimZ", ctypes.c_uint),
        ("blockDimX", ctypes.c_uint),
        ("blockDimY", ctypes.c_uint),
        ("blockDimZ", ctypes.c_uint),
        ("sharedMemBytes", ctypes.c_uint),
        ("hStream", ctypes.c_void_p),
        ("attrs", ctypes.c_void_p),
        ("numAttrs", ctypes.c_uint),
    )


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute. The value of a cluster's dimensions is three lengths, that of others one integer."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


ALLOCATION_TYPE_PINNED = 1
LOCATION_TYPE_DEVICE = 1
MEMHOSTREGISTER_PORTABLE, MEMHOSTREGISTER_DEVICEMAP = 1, 2
USER_OBJECT_NO_DESTRUCTOR_SYNC = 1
GRAPH_USER_OBJECT_MOVE = 1
STREAM_SET_CAPTURE_DEPENDENCIES = 1

#: C name -> parameter letters (see `_library.TYPES`).
FUNCTIONS = {
    "cuInit": "u",
    # Unchecked: for an unknown number they return INVALID_VALUE, which is not an error here.
    "cuGetErrorName": "ip>i",
    "cuGetErrorString": "ip>i",
    "cuDriverGetVersion": "p",
    "cuDeviceGetCount": "p",
    "cuDeviceGet": "pi",
    "cuDeviceGetName": "pii",
    "cuDeviceGetAttribute": "pii",
    "cuDevicePrimaryCtxRetain": "pi",
    "cuCtxGetCurrent": "p",
    "cuCtxGetDevice": "p",
    "cuCtxSetCurrent": "p",
    "cuCtxPushCurrent_v2": "p",
    "cuCtxPopCurrent_v2": "p",
    "cuCtxSynchronize": "",
    "cuMemGetInfo_v2": "pp",
    "cuMemPoolCreate": "pp",
    "cuMemPoolSetAttribute": "pip",
    "cuMemPoolGetAttribute": "pip",
    "cuMemPoolTrimTo": "pz",
    "cuMemAllocFromPoolAsync": "pzpp",
    "cuMemFreeAsync": "Lp",
    "cuMemcpyHtoDAsync_v2": "Lpzp",
    "cuMemcpyDtoHAsync_v2": "pLzp",
    "cuMemcpyDtoDAsync_v2": "LLzp",
    "cuMemsetD8Async": "Lbzp",
    "cuMemsetD16Async": "Lhzp",
    "cuMemsetD32Async": "Luzp",
    "cuMemsetD2D32Async": "Lzuzzp",
    "cuPointerGetAttribute": "piL",
    "cuStreamCreateWithPriority": "pui",
    "cuStreamGetPriority": "pp",
    "cuCtxGetStreamPriorityRange": "pp",
    "cuStreamSynchronize": "p",
    "cuStreamWaitEvent": "ppu",
    "cuStreamGetCtx": "pp",
    "cuStreamIsCapturing": "pp",
    "cuStreamBeginCapture_v2": "pi",
    "cuStreamEndCapture": "pp",
    "cuStreamGetCaptureInfo_v2": "pppppp",
    "cuThreadExchangeStreamCaptureMode": "p",
    "cuStreamUpdateCaptureDependencies": "ppzu",
    "cuGraphAddChildGraphNode": "pppzp",
    "cuGraphInstantiateWithFlags": "ppL",
    "cuGraphLaunch": "pp",
    "cuGraphExecDestroy": "p",
    "cuGraphDestroy": "p",
    "cuGraphGetNodes": "ppp",
    "cuGraphRetainUserObject": "ppuu",
    "cuUserObjectCreate": "pppuu",
    "cuEventCreate": "pu",
    "cuEventRecord": "pp",
    # Unchecked: unfinished work is not an error.
    "cuEventQuery": "p>i",
    "cuEventSynchronize": "p",
    "cuEventElapsedTime": "ppp",
    "cuEventDestroy_v2": "p",
    "cuModuleLoadData": "pp",
    "cuModuleGetFunction": "pps",
    "cuModuleGetGlobal_v2": "ppps",
    "cuLibraryGetGlobal": "ppps",
    "cuMemHostRegister_v2": "pzu",
    "cuMemHostGetDevicePointer_v2": "ppu",
    "cuMemcpyHtoD_v2": "Lpz",
    "cuTensorMapEncodeTiled": "piupppppiiii",
    "cuFuncGetAttribute": "pip",
    "cuFuncSetAttribute": "pii",
    "cuLaunchKernel": "puuuuuuuppp",
    "cuLaunchKernelEx": "pppp",
    "cuOccupancyMaxPotentialClusterSize": "ppp",
}


#: Functions that return what a kernel has reported before it ended with an error, or "".
reports: list[Callable[[], str]] = []
#: The first and the last status of a kernel's errors: ERROR_ILLEGAL_ADDRESS to ERROR_LAUNCH_FAILED.
_OF_KERNELS = range(700, 720)


def _describe(library: Library, status: int) -> tuple[str, str]:
    texts = []
    for ask in (library.cuGetErrorName, library.cuGetErrorString):
        text = ctypes.c_char_p()
        # For an unknown number the pointer stays null, and the caller then shows "unknown status".
        ask(status, ctypes.addressof(text))
        texts.append((text.value or b"").decode())
    if status in _OF_KERNELS:
        texts[1] = "; ".join(filter(None, [texts[1], *(report() for report in reports)]))
    return texts[0].removeprefix("CUDA_"), texts[1]


driver = Library(
    "cuda",
    DriverError,
    FUNCTIONS,
    _describe,
    "install NVIDIA's driver for this machine's GPU",
    out_of_memory=(Status.ERROR_OUT_OF_MEMORY,),
)
