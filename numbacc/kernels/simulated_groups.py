"""The intrinsics of `groups` in plain Python, for Numba's simulator, which knows neither warps nor clusters."""

from __future__ import annotations

from typing import Any

from ..base._numba import cuda
from .simulated_folds import allocating


@cuda.jit(device=True)
def _exchange(parts: Any, other: int) -> Any:
    """What another thread of the block has."""
    allocating.acquire()
    cells = cuda.shared.array(cuda.blockDim.x * cuda.blockDim.y, object)
    allocating.release()
    thread = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    cells[thread] = parts
    cuda.syncthreads()
    found = cells[thread + other] if thread + other < len(cells) else parts
    cuda.syncthreads()
    return found


def shift(parts: Any, step: int) -> Any:
    """The parts of the thread `step` behind."""
    return _exchange(parts, step)


def share(parts: Any, rank: int) -> Any:
    """The parts of the thread `rank` before."""
    return _exchange(parts, -rank)
