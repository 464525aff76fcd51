"""Choice of the module that runs device code: for a real GPU, or for Numba's simulator."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

_PACKAGE = __name__.partition(".")[0]


def simulator_requested() -> bool:
    """Return whether the environment asks for Numba's CUDA simulator now, as Numba reads it."""
    try:
        return bool(int(os.environ.get("NUMBA_ENABLE_CUDASIM", "0")))
    except ValueError:
        return False  # Numba warns, and ignores the value


def compiles_own_kernels() -> bool:
    """Return whether the compiled simulator runs numbacc's kernels, in place of a GPU (NUMBACC_SIMULATE=1)."""
    return os.environ.get("NUMBACC_SIMULATE", "0") == "1"


@lru_cache(maxsize=1)
def simulated() -> bool:
    """Return whether a simulator stands in for a GPU: Numba's (NUMBA_ENABLE_CUDASIM=1), or the compiled one.

    The first call decides. Numba reads the environment when it is imported: once it is, its own choice counts.
    """
    if compiles_own_kernels():
        return True
    requested = simulator_requested()
    found = _numbas_choice()
    if requested and found is False:
        warnings.warn(
            "NUMBA_ENABLE_CUDASIM was set after Numba had been imported, so Numba's CUDA simulator is off. Set it in "
            'the shell, or restart and run `import os; os.environ["NUMBA_ENABLE_CUDASIM"] = "1"` before anything '
            "imports numba",
            RuntimeWarning,
            stacklevel=3,
        )
    return requested if found is None else found


def _numbas_choice() -> bool | None:
    """Return whether Numba simulates, if it has been imported; else None."""
    if "numba.cuda.simulator_init" in sys.modules:
        return True
    if "numba.cuda.device_init" in sys.modules:
        return False
    config = sys.modules.get("numba.core.config")
    found = getattr(config, "ENABLE_CUDASIM", None)
    return None if found is None else bool(found)


@lru_cache(maxsize=8)
def _module(real: str, simulation: str) -> ModuleType:
    """Return a module that needs a GPU, or its counterpart for the simulator's memory.

    It is imported only when needed, because it imports Numba.
    """
    return import_module(f"{_PACKAGE}.{simulation if simulated() else real}")


def runtime() -> ModuleType:
    """Return the module that handles devices, memory and streams: `runtime.device`, or the simulator."""
    return _module("runtime.device", "simulator.device")


def simulate_launches(before: dict[tuple[str, str], Any]) -> None:
    """Let numbacc run kernels that are launched in Numba's simulator. This imports Numba.

    Args:
        before: (class, method) -> the method of Numba's simulator.
    """
    import_module(f"{_PACKAGE}.simulator.launches").install(before)


def compile_launches(module: ModuleType, before: dict[tuple[str, str], Any]) -> None:
    """Let the compiled simulator run kernels, inside `numbacc.simulate()` and without a GPU.

    Args:
        module: the module that defines the kernels' classes.
        before: (class, method) -> the module's own function.
    """
    import_module(f"{_PACKAGE}.simulator.compiled.launches").follow(module, before)


def names_of_cuda() -> ModuleType:
    """Return `numbacc.cuda`, whose functions work without a GPU."""
    return import_module(f"{_PACKAGE}.cuda")


_launchers: ContextVar[Any] = ContextVar("_launchers", default=None)


def launcher_class() -> Any:
    """Return the class that launches kernels with constants that stay the same from call to call."""
    return _launchers.get() or _module("runtime.launch", "simulator.device").Launcher


@contextmanager
def launching_by(launcher: type) -> Iterator[None]:
    """Replace the launcher class by another one for a while; it is created from launches, too."""
    token = _launchers.set(launcher)
    try:
        yield
    finally:
        _launchers.reset(token)


def tensor_launcher_class() -> Any:
    """Return the class that launches kernels with tensor maps and clusters."""
    return _module("runtime.tensor_launch", "simulator.device_kernels").TensorLauncher


def matmul_library() -> ModuleType:
    """Return the module for matrix products: cuBLASLt, or its NumPy counterpart."""
    return _module("libraries.cublaslt", "simulator.cublaslt")


def fourier_library() -> ModuleType:
    """Return the module for Fourier transforms: cuFFT, or its NumPy counterpart."""
    return _module("libraries.cufft", "simulator.cufft")


def graph_library() -> ModuleType:
    """Return the module that runs operation graphs: cuDNN, or its NumPy counterpart."""
    return _module("libraries.cudnn", "simulator.cudnn")


def has_gpu() -> bool:
    """Return True if there is a GPU, real or simulated. The first call initializes the CUDA driver.

    Example:
        >>> where = "cuda:0" if numbacc.has_gpu() else "cpu"
        >>> numbacc.zeros(3, device=where).shape
        (3,)
    """
    return bool(runtime().device_count())
