"""Where the simulator is, or what to do to get it."""

from __future__ import annotations

from ..base.dispatch import simulated
from ..errors import DeviceError

_HOW = (
    "Start the process with NUMBA_ENABLE_CUDASIM=1 in its environment: in a shell `NUMBA_ENABLE_CUDASIM=1 python "
    "script.py`; in a notebook restart the kernel, and in the first cell, before anything imports numba, run "
    '`import os; os.environ["NUMBA_ENABLE_CUDASIM"] = "1"`'
)


def require_simulator(what: str) -> None:
    """Raise DeviceError unless kernels of this process run in Numba's simulator."""
    try:
        from ..base._numba import SIMULATED
    except ImportError as error:
        # Without NVIDIA's package Numba still has its simulator.
        if simulated():
            raise DeviceError(f"{what} needs Numba, which cannot be imported ({error}): pip install numba") from error
        raise DeviceError(
            f"{what} needs Numba's CUDA simulator, and Numba's CUDA target cannot be imported ({error}). Its simulator "
            f"comes with `pip install numba`, and needs no GPU. {_HOW}"
        ) from error
    if SIMULATED:
        return
    if simulated():
        raise DeviceError(f"{what}: NUMBA_ENABLE_CUDASIM was set after numba had been imported, too late. {_HOW}")
    raise DeviceError(
        f"{what} works in Numba's CUDA simulator, which runs kernels in Python; in this process they are compiled for "
        f"a GPU. {_HOW}"
    )
