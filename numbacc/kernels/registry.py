"""Every kernel by its spec: what launchers compile or simulate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._numba import kernel_signature
from . import bits, draws, maps, sums
from .specs import DrawSpec, Kernel, KernelSpec

_MODULES = (maps, bits, sums)
_MAKERS = {name: module.make for module in _MODULES for name in module.INNER}
#: Beside arrays and steps: how many dimensions inside `outer`, and how many scalars follow it.
INNER = {name: count for module in _MODULES for name, count in module.INNER.items()}
SCALARS = {name: count for module in _MODULES for name, count in module.SCALARS.items()}

Spec = KernelSpec | DrawSpec
#: A parameter's type and shape, as `_numba.kernel_signature` takes them.
Parameter = tuple[str, Any]


def make(spec: Spec) -> Kernel:
    """The kernel that `spec` describes, as a Python function ready to be compiled or simulated."""
    if isinstance(spec, DrawSpec):
        return draws.make(spec)
    kernel: Kernel = _MAKERS[spec.algorithm](spec)
    return kernel


def parameters(spec: Spec) -> Sequence[Parameter]:
    """The parameters of `make(spec)`."""
    if isinstance(spec, DrawSpec):
        return draws.parameters(spec)
    integer = "int64" if spec.wide else "int32"
    dimensions = spec.rank + INNER[spec.algorithm]
    counts = (spec.inputs, spec.outputs)
    return [
        *(("uint64", n) for n in counts),
        *((integer, (n, dimensions)) for n in counts),
        (integer, spec.rank),
        *[(integer, None)] * SCALARS[spec.algorithm],
    ]


def signature(spec: Spec) -> Any:
    """The Numba signature of `make(spec)`."""
    return kernel_signature(parameters(spec))
