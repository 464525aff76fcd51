"""Launch the users' and numbacc's own kernels in Numba's simulator."""

from __future__ import annotations

import threading
import warnings
from contextlib import nullcontext
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from ..base._numba import cuda, simulator_kernel
from ..base.casts import quiet
from ..runtime import kernel_code
from .compiled.launches import follow_interpreter

__all__ = ["install", "kernel", "run"]

HAS_GREENLETS = find_spec("greenlet") is not None
#: Numba's own launches do not exclude each other.
_alone = nullcontext() if HAS_GREENLETS else threading.RLock()


def install(before: dict[tuple[str, str], Any]) -> None:
    """Let numbacc run the simulator's kernels. Without greenlet, Numba's scheduler runs them.

    Args:
        before: (class, method) -> Numba's own.
    """
    if HAS_GREENLETS:
        from . import calls

        calls.install()
    else:
        kernels = simulator_kernel.FakeCUDAKernel
        kernels.__call__ = follow_interpreter(before["FakeCUDAKernel", "__call__"], lambda: False)
        warnings.warn(
            "greenlet is not installed, so simulated kernels run on Numba's own scheduler, which is 6 to 200 times "
            "slower and has no shuffles and votes; numbacc.trace and numbacc.debug do not work: pip install greenlet",
            RuntimeWarning,
            stacklevel=4,
        )


@lru_cache(maxsize=1024)
def kernel(spec: Any) -> Any:
    """Return the kernel of a specification for the simulator."""
    return cuda.jit(kernel_code.make(spec))


def run(order: Any, *arguments: Any) -> None:
    """Run a kernel with its grid and block."""
    made = kernel(order.kernel)
    with _alone, quiet():
        made[order.grid, order.block, 0, order.shared](*arguments)
