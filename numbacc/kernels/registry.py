"""Every kernel by its spec: what launchers compile or simulate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base._numba import kernel_signature
from . import (
    attention,
    bits,
    depthwise,
    draws,
    dropout,
    folds,
    gathers,
    list_maps,
    maps,
    reductions,
    repack,
    row_maps,
    row_sums,
    scans,
    scatters,
    sorting,
    tabulated,
)
from .attention_specs import AttentionSpec
from .depthwise_specs import DepthwiseSpec
from .draw_specs import DrawSpec
from .list_specs import ListSpec
from .row_specs import RowSpec, SumsSpec
from .scan_specs import ScanSpec
from .scatter_specs import ScatterSpec, SortSpec
from .specs import FoldSpec, Kernel, KernelSpec, RepackSpec, words_of

_MAPS = {name: module for module in (maps, bits, dropout, gathers, reductions, tabulated) for name in module.INNER}
_OTHERS: dict[type, Any] = {
    AttentionSpec: attention,
    DepthwiseSpec: depthwise,
    DrawSpec: draws,
    FoldSpec: folds,
    ListSpec: list_maps,
    RepackSpec: repack,
    RowSpec: row_maps,
    ScanSpec: scans,
    ScatterSpec: scatters,
    SortSpec: sorting,
    SumsSpec: row_sums,
}
#: Beside arrays and steps: how many dimensions inside `outer`, and how many scalars follow it.
INNER = {name: module.INNER[name] for name, module in _MAPS.items()}
SCALARS = {name: module.SCALARS[name] for name, module in _MAPS.items()}

Spec = (
    KernelSpec
    | AttentionSpec
    | DepthwiseSpec
    | DrawSpec
    | FoldSpec
    | ListSpec
    | RepackSpec
    | RowSpec
    | ScanSpec
    | ScatterSpec
    | SortSpec
    | SumsSpec
)


def make(spec: Spec) -> Kernel:
    """The kernel that `spec` describes, as a Python function ready to be compiled or simulated."""
    module = _MAPS[spec.algorithm] if isinstance(spec, KernelSpec) else _OTHERS[type(spec)]
    kernel: Kernel = module.make(spec)
    return kernel


def parameters(spec: Spec) -> Sequence[tuple[str, Any]]:
    """The types and shapes of `make(spec)`'s parameters, as `_numba.kernel_signature` takes them."""
    if not isinstance(spec, KernelSpec):
        found: Sequence[tuple[str, Any]] = _OTHERS[type(spec)].parameters(spec)
        return found
    integer = "int64" if spec.wide else "int32"
    dimensions = spec.rank + INNER[spec.algorithm]
    counts = (len(spec.reads), len(spec.writes))
    return [
        *(("uint64", n) for n in counts),
        *((integer, (n, dimensions)) for n in counts),
        (integer, spec.rank),
        *[(integer, None)] * SCALARS[spec.algorithm],
        *[("int64", words_of(spec.scalars))] * takes_words(spec),
    ]


def takes_words(spec: Spec) -> bool:
    """True if the last parameter of `make(spec)` is the words of scalar arguments."""
    if isinstance(spec, KernelSpec):
        return spec.algorithm not in bits.INNER
    return not isinstance(spec, (DepthwiseSpec, RepackSpec, ScanSpec, ScatterSpec, SortSpec))


def signature(spec: Spec) -> Any:
    """The Numba signature of `make(spec)`."""
    return kernel_signature(parameters(spec))
