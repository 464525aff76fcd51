"""A stand-in for NVIDIA's driver library: enough of libcuda for cuDNN to make plans, but not to run them.

cuDNN can build plans for a GPU that the machine lacks, but it loads libcuda.so.1 to do so, and passes the kernels that
it compiles to that library. The stand-in accepts every kernel and stores none. A process that has loaded it cannot use
a GPU, so only processes that do nothing else load it (`cudnn_elsewhere`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from ..errors import UnsupportedError
from ..runtime import disk_cache

#: Functions that return a handle write an address that is not 0; functions that return a number write 0.
_HANDLES = "cuLibraryLoadData cuLibraryLoadFromFile cuLibraryGetKernel cuKernelGetFunction cuModuleLoadData "
_HANDLES += "cuModuleGetFunction"
_ZEROS = "cuKernelGetAttribute"
_DONE = "cuKernelSetAttribute cuLibraryUnload cuModuleUnload cuLinkDestroy"
#: Functions that only need to exist; they return CUDA_ERROR_NO_DEVICE.
_ABSENT = "cuCtxGetCurrent cuCtxGetLimit cuCtxPopCurrent cuCtxPushCurrent cuDeviceGet cuDeviceGetCount cuGetErrorName "
_ABSENT += "cuGetErrorString cuLaunchCooperativeKernel cuLaunchKernel cuLaunchKernelEx cuLinkAddData cuLinkComplete "
_ABSENT += (
    "cuLinkCreate cuOccupancyMaxPotentialClusterSize cuStreamGetCtx cuTensorMapEncodeIm2col cuTensorMapEncodeTiled"
)


def source() -> str:
    """Return the stand-in's C source. It omits unused parameters, which C's calling conventions allow."""
    lines = ["int cuDriverGetVersion(int *version) { *version = 13000; return 0; }"]
    lines += [f"int {name}(void **made) {{ *made = (void *)4096; return 0; }}" for name in _HANDLES.split()]
    lines += [f"int {name}(int *value) {{ *value = 0; return 0; }}" for name in _ZEROS.split()]
    lines += [f"int {name}(void) {{ return 0; }}" for name in _DONE.split()]
    lines += [f"int {name}(void) {{ return 100; }}" for name in _ABSENT.split()]
    return "\n".join(lines) + "\n"


@cache
def load() -> None:
    """Load the stand-in into this process, once; without a C compiler, load the driver's library.

    The driver rejects kernels for other architectures than its GPU's, and so it would reject plans that have them.

    Raises:
        UnsupportedError: there is neither a C compiler nor a driver.
    """
    try:
        library = str(_built())
    except UnsupportedError as error:
        try:
            ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        except OSError:
            raise error from None
    else:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)


def _built() -> Path:
    """Return the stand-in's file, which is compiled once and kept."""
    text = source()
    name = f"libcuda-{hashlib.sha256((text + os.uname().machine).encode()).hexdigest()[:16]}.so"
    try:
        folder = disk_cache.directory()
        if (folder / name).exists():
            return folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return _compile(text, folder, name)
    except OSError:
        # Nothing can be stored: this process uses a private file.
        return _compile(text, Path(tempfile.mkdtemp(prefix="numbacc-")), name)


def _compile(text: str, folder: Path, name: str) -> Path:
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise UnsupportedError(
            "planning for a GPU that this machine lacks needs a C compiler, to build a stand-in for NVIDIA's driver, "
            "or the driver itself (libcuda.so.1): install gcc or clang"
        )
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        made = Path(aside) / name
        arguments = [
            compiler,
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            "-x",
            "c",
            "-",
            "-Wl,-soname,libcuda.so.1",
            "-o",
            str(made),
        ]
        run = subprocess.run(arguments, input=text, capture_output=True, text=True)
        if run.returncode:
            raise UnsupportedError(f"{compiler} could not build a stand-in for NVIDIA's driver: {run.stderr.strip()}")
        # Compiled in another folder, then renamed: other processes never see an incomplete file.
        return made.replace(folder / name)
