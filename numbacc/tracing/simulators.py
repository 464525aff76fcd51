"""Choose the simulator that a trace uses, and explain how to start Numba's."""

from __future__ import annotations

from importlib.util import find_spec

from ..base.dispatch import simulated, simulator_requested
from ..errors import DeviceError

_HOW = (
    "Start the process with NUMBA_ENABLE_CUDASIM=1 in its environment: in a shell `NUMBA_ENABLE_CUDASIM=1 python "
    "script.py`; in a notebook restart the kernel, and in the first cell, before anything imports numba, run "
    '`import os; os.environ["NUMBA_ENABLE_CUDASIM"] = "1"`'
)


def interprets() -> bool:
    """Return True if traces run kernels in Python, in Numba's simulator; False if they compile them for the CPU.

    A process that was started with NUMBA_ENABLE_CUDASIM=1 can only use Numba's simulator. It also runs kernels that
    cannot be compiled, and numbacc's own.

    Raises:
        DeviceError: Numba is not installed, or its simulator lacks a package.
    """
    if find_spec("numba") is None or simulated():
        require_simulator("numbacc.trace()")
        return True
    return False


def require_simulator(what: str) -> None:
    """Raise DeviceError unless this process runs kernels in Numba's simulator."""
    if find_spec("numba") is None:
        raise DeviceError(f"{what} needs Numba's CUDA simulator: pip install numba (no GPU is needed). {_HOW}")
    try:
        from ..base._numba import SIMULATED
    except ImportError as error:
        reason = f"here Numba's CUDA target cannot even be imported ({error})"
        cause: ImportError | None = error
    else:
        if SIMULATED:
            if find_spec("greenlet") is None:
                raise DeviceError(f"{what} needs greenlet, which runs the threads of a kernel: pip install greenlet")
            return
        reason, cause = "this process compiles kernels for a GPU", None
    if simulator_requested():
        reason = "NUMBA_ENABLE_CUDASIM was set after numba had been imported, too late"
    raise DeviceError(
        f"{what} works in Numba's CUDA simulator, which runs kernels in Python and needs no GPU; {reason}. {_HOW}"
    ) from cause
