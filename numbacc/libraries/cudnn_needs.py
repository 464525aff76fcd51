"""Known requirements of graphs on cuDNN, NVRTC and the GPU, which error messages list first if no engine fits.

cuDNN's own reasons quote conditions from its source (`is_bf16 && !hardware_bfloat16_supported`); these say what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..runtime import installed
from .cudnn_graph import OUTPUTS, CudnnGraph, Node, Tensor


class Need(NamedTuple):
    """A requirement of some graphs.

    Attributes:
        case: whether a graph has this requirement.
        text: the feature that needs something; or what to change, if no GPU supports it.
        capability: the lowest compute capability that supports it; None if none does.
    """

    case: Callable[[CudnnGraph], bool]
    text: str
    capability: tuple[int, int] | None = None


def _has(*dtypes: str) -> Callable[[CudnnGraph], bool]:
    return lambda graph: any(tensor.dtype in dtypes for tensor in graph.tensors)


def _of(graph: CudnnGraph, kind: str) -> list[Node]:
    return [node for node in graph.nodes if node.kind.startswith(kind)]


def _tensors(graph: CudnnGraph, node: Node, inputs: bool = True) -> list[Tensor]:
    """Return the tensors that an operation reads, or those that it writes."""
    return [graph.tensors[place] for name, place in node.tensors if (name in OUTPUTS) != inputs]


def _is_attention(graph: CudnnGraph) -> bool:
    return len(_of(graph, "matmul")) > 1


def _fused(graph: CudnnGraph) -> list[Node]:
    """Return the convolutions of a graph that also has other operations."""
    return _of(graph, "convolve") if len(graph.nodes) > 1 else []


def _is_scaled(graph: CudnnGraph) -> bool:
    settings = [dict(node.settings) for node in _fused(graph)]
    return any(each["alpha"] != 1 or each["beta"] != 0 for each in settings)


def _is_channels_first(graph: CudnnGraph) -> bool:
    """Return whether more than a bias and a ReLU follow a convolution whose channels are not innermost."""
    settings = [dict(node.settings) for node in _of(graph, "pointwise")]
    modes = [each["mode"] for each in settings if "slope" not in each]
    usual = len(modes) == len(settings) and modes in (["ADD"], ["ADD", "RELU_FWD"], ["ADD", "ADD", "RELU_FWD"])
    return not usual and any(_tensors(graph, node, inputs=False)[0].strides[1] != 1 for node in _fused(graph))


def _is_unaligned(graph: CudnnGraph) -> bool:
    """Return whether an int8 input is aligned to less than 4 bytes, with sums in 32 bits."""
    for node in _of(graph, "convolve"):
        reads, (result, *_) = _tensors(graph, node), _tensors(graph, node, inputs=False)
        if result.dtype in ("int32", "float32") and any(x.dtype == "int8" and x.alignment % 4 for x in reads):
            return True
    return False


def _has_odd_heads(graph: CudnnGraph) -> bool:
    """Return whether attention has rows, in q @ k or p @ v, whose lengths are not multiples of 8 elements."""
    if not _is_attention(graph):
        return False
    first, last = _of(graph, "matmul")[0], _of(graph, "matmul")[-1]
    return bool(_tensors(graph, first)[0].shape[-1] % 8 or _tensors(graph, last)[1].shape[-1] % 8)


def _has_one_narrow_query(graph: CudnnGraph) -> bool:
    """Return whether this is float8 attention with one query per sequence, as in decoding."""
    if not (_is_attention(graph) and _has("float8_e4m3fn", "float8_e5m2")(graph)):
        return False
    return _tensors(graph, _of(graph, "matmul")[0])[0].shape[2] == 1


#: Measured on cuDNN 9.28, 9.19 and older; float8 is from NVIDIA's table of cuDNN's data types.
NEEDS = (
    Need(_has("bfloat16"), "bfloat16", (8, 0)),
    Need(_is_attention, "fused attention", (8, 0)),
    Need(_has("float8_e4m3fn", "float8_e5m2"), "float8", (8, 9)),
    Need(
        lambda graph: _is_attention(graph) and _has("float8_e4m3fn", "float8_e5m2")(graph),
        "attention in float8",
        (9, 0),
    ),
    Need(_has_one_narrow_query, "attention in float8 with one query", (10, 0)),
    Need(
        _is_channels_first,
        "after a convolution with channels first cuDNN fuses only a bias and relu: put the channels last",
    ),
    Need(
        _is_scaled,
        "a convolution with fused operations must have alpha 1 and beta 0: scale by the addition's alpha1 and alpha2",
    ),
    Need(_is_unaligned, "int8 with 32-bit results needs addresses that are multiples of 4"),
    Need(_has_odd_heads, "attention needs head lengths that are multiples of 8 elements"),
)


def unmet(graph: CudnnGraph, gpu: str, capability: tuple[int, int]) -> list[str]:
    """Return the needs of a graph that a GPU of this name and compute capability does not meet."""
    found = []
    for need in NEEDS:
        if (need.capability is None or capability < need.capability) and need.case(graph):
            wanted, had = need.capability, capability
            least = f" needs compute capability {wanted[0]}.{wanted[1]}; {gpu} has {had[0]}.{had[1]}" if wanted else ""
            found.append(need.text + least)
    try:
        installed.find("nvrtc")
    except (ImportError, RuntimeError):
        found.append(
            'engines that compile their kernel need NVRTC, which was not found: pip install "numbacc[cu12]" or '
            '"numbacc[cu13]" installs it'
        )
    return found
