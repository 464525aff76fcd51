"""Every kernel by its spec: what launchers compile or simulate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base._numba import kernel_signature
from .attention_specs import AttentionSpec
from .depthwise_specs import DepthwiseSpec
from .draw_specs import AdvanceSpec, DrawSpec
from .list_specs import ListSpec
from .row_specs import RowSpec, SumsSpec
from .scan_specs import ScanSpec
from .scatter_specs import ScatterSpec, SortSpec
from .specs import FoldSpec, Kernel, KernelSpec, RepackSpec, words_of
from .windows_specs import WindowsSpec

Spec = (
    KernelSpec
    | AdvanceSpec
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
    | WindowsSpec
)


def module_of(spec: Spec) -> Any:
    """The module of a kernel, imported when it is asked for: all take as long as a kernel takes to be compiled."""
    match spec:
        case KernelSpec():
            return _map_of(spec.algorithm)
        case AttentionSpec():
            from . import attention

            return attention
        case DepthwiseSpec():
            from . import depthwise

            return depthwise
        case AdvanceSpec():
            from . import draw_positions

            return draw_positions
        case DrawSpec():
            from . import draws

            return draws
        case FoldSpec():
            from . import folds

            return folds
        case ListSpec():
            from . import list_maps

            return list_maps
        case RepackSpec():
            from . import repack

            return repack
        case RowSpec():
            from . import row_maps

            return row_maps
        case ScanSpec():
            from . import scans

            return scans
        case ScatterSpec():
            from . import scatters

            return scatters
        case SortSpec():
            from . import sorting

            return sorting
        case SumsSpec():
            from . import row_sums

            return row_sums
        case WindowsSpec():
            from . import windows

            return windows


def _map_of(algorithm: str) -> Any:
    """The module of a `KernelSpec`.

    Its INNER and SCALARS say, beside arrays and steps, how many dimensions are inside `outer`, and how many scalars
    follow it.
    """
    match algorithm:
        case "pack_bits" | "select_bits":
            from . import bits

            return bits
        case "dropout":
            from . import dropout

            return dropout
        case "gather":
            from . import gathers

            return gathers
        case "reduce_rows":
            from . import reductions

            return reductions
        case "tabulated":
            from . import tabulated

            return tabulated
        case _:
            from . import maps

            return maps


def make(spec: Spec) -> Kernel:
    """The kernel that `spec` describes, as a Python function ready to be compiled or simulated."""
    kernel: Kernel = module_of(spec).make(spec)
    return kernel


def parameters(spec: Spec) -> Sequence[tuple[str, Any]]:
    """The types and shapes of `make(spec)`'s parameters, as `_numba.kernel_signature` takes them."""
    module = module_of(spec)
    if not isinstance(spec, KernelSpec):
        found: Sequence[tuple[str, Any]] = module.parameters(spec)
        return found
    integer = "int64" if spec.wide else "int32"
    dimensions = spec.rank + module.INNER[spec.algorithm]
    counts = (len(spec.reads), len(spec.writes))
    return [
        *(("uint64", n) for n in counts),
        *((integer, (n, dimensions)) for n in counts),
        (integer, spec.rank),
        *[(integer, None)] * module.SCALARS[spec.algorithm],
        *[("int64", words_of(spec.scalars))] * takes_words(spec),
    ]


def takes_words(spec: Spec) -> bool:
    """True if the last parameter of `make(spec)` is the words of scalar arguments."""
    if isinstance(spec, KernelSpec):
        return spec.algorithm not in ("pack_bits", "select_bits")
    return not isinstance(spec, (AdvanceSpec, DepthwiseSpec, RepackSpec, ScanSpec, ScatterSpec, SortSpec, WindowsSpec))


def signature(spec: Spec) -> Any:
    """The Numba signature of `make(spec)`."""
    return kernel_signature(parameters(spec))
