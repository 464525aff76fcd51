"""Which device code runs on: the real GPU, Numba's simulator, or neither."""

from __future__ import annotations

import os
from functools import lru_cache
from types import ModuleType
from typing import Any


def simulated() -> bool:
    """True where Numba's CUDA simulator stands in for a GPU (NUMBA_ENABLE_CUDASIM=1)."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


@lru_cache(maxsize=1)
def backend() -> ModuleType:
    """`runtime`, or `simulator` with the same functions."""
    if simulated():
        from . import simulator

        return simulator
    from . import runtime

    return runtime


def launcher_class() -> Any:
    """The class that launches kernels: on the GPU, or in the simulator."""
    if simulated():
        from .simulator import Launcher

        return Launcher
    from . import launch

    return launch.Launcher


def matmul_library() -> ModuleType:
    """What multiplies matrices: `libraries.cublaslt`, or in the simulator its likeness in NumPy."""
    if simulated():
        from .libraries import simulated_cublaslt

        return simulated_cublaslt
    from .libraries import cublaslt

    return cublaslt


def run_kernel(spec: Any, blocks: int, threads: int, arguments: tuple[Any, ...], device: int, stream: int) -> None:
    """Queue a kernel whose arguments differ from call to call: on the GPU, or in the simulator."""
    if simulated():
        from . import simulator as runner
    else:
        from . import launch as runner  # type: ignore[no-redef]
    runner.run(spec, blocks, threads, arguments, device, stream)


def has_gpu() -> bool:
    """True if there is a GPU, real or simulated. The first call initializes the CUDA driver."""
    return bool(backend().device_count())
