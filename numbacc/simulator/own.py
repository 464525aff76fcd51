"""numbacc's own kernels in the compiled simulator, in a process with NUMBACC_SIMULATE=1.

Their Python code is that of a GPU, and so is their intrinsics' LLVM code (see `compiled.intrinsics`): unlike Numba's
simulator, this runs what a GPU runs, but for single instructions.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from ..base._numba import SIMULATED, compiling_for
from ..errors import DeviceError
from ..kernels.primitives import simulated
from ..runtime import disk_cache, kernel_code
from .compiled.kernel import Kernel
from .compiled.launches import entered

__all__ = ["kernel", "run"]


#: The compute capability that code is made for. From 8.0 on threads copy to shared memory by asynchronous instructions,
#: which a CPU does not have.
_CAPABILITY = (7, 5)


@lru_cache(maxsize=64)
def _sources(module: str) -> str:
    """Return a digest of the sources of a module's kernels."""
    found = hashlib.sha256()
    for name, text in disk_cache.sources(module).items():
        found.update(name.encode() + text)
    return found.hexdigest()


@lru_cache(maxsize=1024)
def kernel(spec: Any, contract: bool = True, checked: bool = False) -> Kernel:
    """Return the kernel of a specification, for the CPU.

    Args:
        spec: the kernel, as plans describe it.
        contract, checked: as in `numbacc.simulate`.
    """
    identity = f"{spec.identity} {_sources(spec.module)}"
    kinds = tuple(kernel_code.signature(spec).args)
    return Kernel(
        kernel_code.make(spec),
        checked=checked,
        contract=contract,
        kinds=kinds,
        identity=identity,
        memory=lambda: simulated.memory,
    )


def run(order: Any, *arguments: Any) -> None:
    """Launch a kernel with its grid and its blocks. Its arguments hold addresses of host memory.

    `numbacc.simulate` says how many blocks run at the same time, and whether products and sums become one operation.
    """
    if SIMULATED:
        raise DeviceError("NUMBACC_SIMULATE=1 needs numba-cuda's compiler: start Python without NUMBA_ENABLE_CUDASIM=1")
    options = entered()
    made = kernel(order.kernel, options is None or options.contract, options is not None and options.checks())
    workers = None if options is None else options.workers
    with compiling_for(_CAPABILITY):
        made.launch((*order.grid, 1), (*order.block, 1), order.shared, arguments, workers)
