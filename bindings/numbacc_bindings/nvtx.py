"""NVTX: a process names ranges of its time, and Nsight Systems and Nsight Compute show the names.

The library differs from the others here. It has no version to check, its functions cannot fail, and cuda-pathfinder
cannot find it. CUDA's toolkit and the wheels nvidia-nvtx contain it. It does nothing unless a profiler is attached.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

#: The libraries that export NVTX's functions: since CUDA 13, and before.
NAMES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")


class Nvtx(NamedTuple):
    """NVTX's functions.

    Attributes:
        push: starts a range with a name, in bytes, inside the ranges that this thread has started.
        pop: ends the range that this thread started last.
    """

    push: Callable[[bytes], object]
    pop: Callable[[], object]


def is_profiled(environment: Mapping[str, str]) -> bool:
    """Return True if a profiler started the process, and collects NVTX's ranges.

    NVTX loads the profiler's library that this variable names; so nsys and ncu set it for the processes they start.
    NUMBACC_NVTX=1 says that ranges are wanted in any case, and 0 that they are not.
    """
    asked = environment.get("NUMBACC_NVTX", "")
    return asked != "0" if asked else bool(environment.get("NVTX_INJECTION64_PATH"))


def _paths() -> Iterator[str]:
    """Yield the names and paths where the library may be, the usual places first."""
    import glob  # `import numbacc` needs no glob

    yield from NAMES
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    patterns = [os.path.join(home, folder) for home in homes if home for folder in ("lib64", "lib")]
    patterns += [os.path.join(path, "nvidia", "*", "lib") for path in sys.path if path]
    for pattern in patterns:
        for name in NAMES:
            yield from sorted(glob.glob(os.path.join(pattern, name)))


def load() -> Nvtx | None:
    """Return NVTX's functions; None if the library is not installed."""
    for path in _paths():
        try:
            library = ctypes.CDLL(path)
            push, pop = library.nvtxRangePushA, library.nvtxRangePop
        except (OSError, AttributeError):
            continue
        push.argtypes, pop.argtypes = [ctypes.c_char_p], []
        return Nvtx(push, pop)
    return None
