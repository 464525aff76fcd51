"""NVIDIA's libraries as they are installed: by wheels, by conda, by a toolkit of the system."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

from numbacc_bindings.driver import driver


class Part(NamedTuple):
    """A library of NVIDIA's: its name to cuda-pathfinder, the wheels that hold it for CUDA 12 and 13, the C
    function that tells its version, and to how many ints that writes it (0: it returns it)."""

    name: str
    cu12: str
    cu13: str
    function: str = ""
    results: int = 0


COMPILER = (
    Part("nvvm", "nvidia-cuda-nvcc-cu12", "nvidia-nvvm"),
    Part("nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc", "nvrtcVersion", 2),
    Part("nvJitLink", "nvidia-nvjitlink-cu12", "nvidia-nvjitlink", "nvJitLinkVersion", 2),
)
LIBRARIES = (
    Part("cublasLt", "nvidia-cublas-cu12", "nvidia-cublas", "cublasLtGetVersion"),
    Part("cudnn", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "cudnnGetVersion"),
    Part("cufft", "nvidia-cufft-cu12", "nvidia-cufft", "cufftGetVersion", 1),
    Part("curand", "nvidia-curand-cu12", "nvidia-curand", "curandGetVersion", 1),
)
#: Results of a version function -> the units of a version that comes as one number, except the last's, 1.
UNITS = {0: (10000, 100), 1: (1000, 100), 2: ()}


def find(name: str) -> str:
    """The path of a library, which this loads."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return str(load_nvidia_dynamic_lib(name).abs_path)


def library_version(part: Part, path: str) -> str:
    """The version that a library tells."""
    function = getattr(ctypes.CDLL(path), part.function)
    results = [ctypes.c_int() for _ in range(part.results)]
    function.restype = ctypes.c_int if results else ctypes.c_size_t
    answer = function(*map(ctypes.byref, results))
    if results and answer:
        raise RuntimeError(f"{part.function} failed with status {answer}")
    found = [result.value for result in results] or [answer]
    for unit in UNITS[part.results]:
        found[-1:] = divmod(found[-1], unit)
    return ".".join(map(str, found))


def compilers() -> list[str]:
    """Identify the libraries that make machine code of kernels: the text differs where one of them does.

    This loads them. Those that are missing say so.
    """
    nvvm, nvrtc, linker = COMPILER
    found = [_identity(nvvm), _identity(linker), *_libdevices()]
    if found[0] == nvvm.name:
        # numba-cuda then looks for it in the toolkit that NVRTC comes from.
        found.append(_identity(nvrtc))
    if found[1] == linker.name:
        # cuda.core then has the driver translate PTX.
        found.append(_driver())
    return found


def _identity(part: Part) -> str:
    """A library's name, its version and the file it is; the name alone where it is missing."""
    try:
        path = find(part.name)
        version = library_version(part, path) if part.function else ""
        file = os.stat(path)
    except Exception:  # whatever ails it, it is not what makes the kernels
        return part.name
    # NVVM's own version is 2.0 in all of CUDA 12 and 13.
    return f"{part.name} {version} {path} {file.st_size} {file.st_mtime_ns}"


def _libdevices() -> list[str]:
    """The digest of every libdevice that numba-cuda may take."""
    roots = [Path(root) for root in (sys.prefix, os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if root]
    paths = [root / "nvvm" / "libdevice" / "libdevice.10.bc" for root in (*roots, Path("/usr/local/cuda"))]
    try:
        from cuda.pathfinder import find_bitcode_lib

        paths.append(Path(find_bitcode_lib("device")))
    except (ImportError, RuntimeError):
        pass  # no pathfinder, or no libdevice
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in dict.fromkeys(paths) if path.is_file()]


def _driver() -> str:
    version = ctypes.c_int()
    try:
        driver.cuDriverGetVersion(ctypes.addressof(version))
    except RuntimeError:
        pass  # there is none
    return f"driver {version.value}"
