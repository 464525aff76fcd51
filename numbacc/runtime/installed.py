"""NVIDIA's libraries as installed by wheels, by conda or with a system-wide toolkit."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

from numbacc_bindings.driver import driver


class Part(NamedTuple):
    """One of NVIDIA's libraries.

    Attributes:
        name: its name in cuda-pathfinder.
        cu12, cu13: the wheels that contain it, for CUDA 12 and 13.
        function: the C function that returns its version.
        results: the number of ints that this function writes the version to; 0 if it returns the version.
    """

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
#: Number of results of a version function -> the units of all parts of a version but the last, which has 1.
UNITS = {0: (10000, 100), 1: (1000, 100), 2: ()}


def find(name: str) -> str:
    """Load a library, and return its path."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return str(load_nvidia_dynamic_lib(name).abs_path)


def library_version(part: Part, path: str) -> str:
    """Return the version that a library reports."""
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
    """Identify the libraries that compile kernels; the text differs if any of them differs.

    This loads the libraries. A missing one is identified by its name alone.
    """
    nvvm, nvrtc, linker = COMPILER
    found = [_identity(nvvm), _identity(linker), *_libdevices()]
    if found[0] == nvvm.name:
        # numba-cuda then looks for NVVM in the toolkit that contains NVRTC.
        found.append(_identity(nvrtc))
    if found[1] == linker.name:
        # cuda.core then lets the driver compile PTX.
        found.append(_driver())
    return found


def _identity(part: Part) -> str:
    """Return a library's name, version and file; only the name if it is missing."""
    try:
        path = find(part.name)
        version = library_version(part, path) if part.function else ""
        file = os.stat(path)
    except Exception:  # a library that cannot be loaded cannot compile kernels
        return part.name
    # NVVM's own version is 2.0 in every release of CUDA 12 and 13.
    return f"{part.name} {version} {path} {file.st_size} {file.st_mtime_ns}"


def _libdevices() -> list[str]:
    """Return the digest of every libdevice that numba-cuda may use."""
    roots = [Path(root) for root in (sys.prefix, os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if root]
    paths = [root / "nvvm" / "libdevice" / "libdevice.10.bc" for root in (*roots, Path("/usr/local/cuda"))]
    try:
        from cuda.pathfinder import find_bitcode_lib

        paths.append(Path(find_bitcode_lib("device")))
    except (ImportError, RuntimeError):
        pass  # no pathfinder, or libdevice is missing
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in dict.fromkeys(paths) if path.is_file()]


def _driver() -> str:
    version = ctypes.c_int()
    try:
        driver.cuDriverGetVersion(ctypes.addressof(version))
    except RuntimeError:
        pass  # no driver
    return f"driver {version.value}"
