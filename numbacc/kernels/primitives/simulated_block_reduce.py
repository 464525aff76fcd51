"""The intrinsics of `block_reduce` in plain Python, for Numba's simulator, which knows neither warps nor clusters."""

from __future__ import annotations

from typing import Any

from ...base._numba import cuda


@cuda.jit(device=True)
def swap(parts: Any, step: int) -> Any:
    """What the other thread of each pair has; they are so many apart."""
    cells = cuda.shared.array(cuda.blockDim.x * cuda.blockDim.y, object)
    thread = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    cells[thread] = parts
    cuda.syncthreads()
    found = cells[thread ^ step]
    cuda.syncthreads()
    return found


@cuda.jit(device=True)
def meet(number: int, threads: int) -> None:
    """A barrier of all threads: each of the block's groups comes here as often."""
    cuda.syncthreads()
