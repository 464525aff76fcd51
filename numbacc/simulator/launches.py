"""Launches of numbacc's kernels in Numba's simulator."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from ..base._numba import cuda, simulator_kernel
from ..base.casts import quiet
from ..base.monkeypatch import replaced
from ..runtime import kernel_code
from . import interrupts, threads

#: Numba's simulator exchanges `cuda` in a kernel's modules while it runs there: one kernel at a time, of all threads.
_alone = threading.RLock()


@lru_cache(maxsize=1024)
def kernel(spec: Any) -> Any:
    """Return the kernel of a specification, as the simulator runs it."""
    return cuda.jit(kernel_code.make(spec))


def run(order: Any, *arguments: Any) -> None:
    """Run a kernel with its grid and its blocks. An interrupt is raised when all is as it was before."""
    made = kernel(order.kernel)
    blocks = simulator_kernel.BlockManager
    # Numba's own blocks poll their threads, and leave them behind where the launch fails.
    quicker = [(blocks, "run", threads.run)] if blocks.run.__module__ == simulator_kernel.__name__ else []
    # Where a thread of the kernel runs in the caller's, a debugger wants interrupts at once.
    guard = nullcontext() if getattr(blocks, "in_caller", False) else interrupts.deferred()
    with _alone, guard, quiet(), replaced(quicker):
        made[order.grid, order.block, 0, order.shared](*arguments)
