"""The intrinsics of `groups` in plain Python, for Numba's simulator, which knows neither warps nor clusters."""

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


@cuda.jit(device=True)
def alike(number: Any) -> int:
    """Which threads of the warp, which is the block, have the same number, one bit each; all of them ask."""
    cells = cuda.shared.array(cuda.blockDim.x, object)
    cells[cuda.threadIdx.x] = number
    cuda.syncthreads()
    found = sum(1 << thread for thread in range(cuda.blockDim.x) if cells[thread] == number)
    cuda.syncthreads()
    return found
