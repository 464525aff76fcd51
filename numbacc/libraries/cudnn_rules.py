"""What is known to be wrong in cuDNN: measured against float64, or reported.

An engine's number is one of its kind of graph: engine 20 of a gradient is not that of another graph.
"""

from __future__ import annotations

from typing import Any

from .choices import Wrong
from .cudnn_graph import Graph, Node


def _only(graph: Graph, kind: str) -> Node | None:
    """The graph's only operation, if it is of a kind."""
    node = graph.nodes[0]
    return node if len(graph.nodes) == 1 and node.kind == kind else None


def _dtype(graph: Graph, node: Node, tensor: str) -> str:
    return graph.tensors[dict(node.tensors)[tensor]].dtype


def _uneven_float64(what: Any) -> bool:
    """A filter's gradient in float64 with more padding on one side than on the other."""
    node = _only(what, "convolve_backward_filter")
    if node is None or _dtype(what, node, "x") != "float64":
        return False
    settings = dict(node.settings)
    return bool(settings["before"] != settings["after"])


def _int8_to(dtype: str, what: Any) -> bool:
    node = _only(what, "convolve_forward")
    return node is not None and _dtype(what, node, "x") == "int8" and _dtype(what, node, "y") == dtype


def _int8_rows_to_float(what: Any) -> bool:
    """int8 to float32 with channels that are not the innermost."""
    if not _int8_to("float32", what):
        return False
    image = what.tensors[dict(what.nodes[0].tensors)["x"]]
    return bool(image.strides[1] != 1)


#: Seen on an H200 with cuDNN 9.19; no version is known that mends them.
WRONG = (
    Wrong(20, _uneven_float64, 91900),
    Wrong(71, _int8_rows_to_float, 91900),
)


def refusal(graph: Graph, version: int) -> str:
    """Why a graph is left alone by any engine of this version, "" where it is not.

    Three-dimensional convolutions of 16-bit floats are wrong from 9.8 to 9.10 (pytorch issue 163539). NVIDIA's
    cudnn-frontend refuses all attention on 9.10.0 and 9.10.1.
    """
    if version in (91000, 91001) and sum(node.kind == "matmul" for node in graph.nodes) > 1:
        return f"attention is left alone with cuDNN {version}, as NVIDIA's own cudnn-frontend does; 9.10.2 is newer"
    for node in graph.nodes:
        if node.kind.startswith("convolve") and 90800 <= version < 91100:
            image = graph.tensors[node.tensors[0][1]]
            if len(image.shape) == 5 and image.dtype in ("float16", "bfloat16"):
                return (
                    f"cuDNN {version} computes three-dimensional convolutions of {image.dtype} wrongly; 9.11 and newer "
                    "do not, nor do 9.7 and older"
                )
    return ""
