"""What the simulator cannot do, said where a kernel asks for it."""

from __future__ import annotations

from typing import Any

from ..base._numba import simulator_api


class ExplainingModule(simulator_api.FakeCUDAModule):  # type: ignore[misc]
    """What `cuda` is inside of a kernel: the simulator's, which says what to do about what it lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"Numba's simulator has no cuda.{name}: it runs one thread after the other in Python, and knows neither "
            "warps that exchange values nor intrinsics. Trace or debug a scalar form of the kernel, with x[i], shared "
            f"memory and cuda.syncthreads() in place of cuda.{name}; it shows the same indices"
        )
