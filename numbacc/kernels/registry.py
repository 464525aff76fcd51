"""Every kernel by its spec: what launchers compile or simulate."""

from __future__ import annotations

from typing import Any

from .._numba import kernel_signature
from . import bits, maps, sums
from .specs import Kernel, KernelSpec

_MODULES = (maps, bits, sums)
_MAKERS = {name: module.make for module in _MODULES for name in module.INNER}
#: Beside arrays and steps: how many dimensions inside `outer`, and how many scalars follow it.
INNER = {name: count for module in _MODULES for name, count in module.INNER.items()}
SCALARS = {name: count for module in _MODULES for name, count in module.SCALARS.items()}


def make(spec: KernelSpec) -> Kernel:
    """The kernel that `spec` describes, as a Python function ready to be compiled or simulated."""
    kernel: Kernel = _MAKERS[spec.algorithm](spec)
    return kernel


def signature(spec: KernelSpec) -> Any:
    """The Numba signature of `make(spec)`."""
    integer = "int64" if spec.wide else "int32"
    dimensions = spec.rank + INNER[spec.algorithm]
    counts = (spec.inputs, spec.outputs)
    return kernel_signature(
        [
            *(("uint64", n) for n in counts),
            *((integer, (n, dimensions)) for n in counts),
            (integer, spec.rank),
            *[(integer, None)] * SCALARS[spec.algorithm],
        ]
    )
