"""What is known to be wrong in cuDNN: measured against float64, or reported.

An engine's number is one of its kind of graph: engine 20 of a gradient is not that of another graph.
"""

from __future__ import annotations

from functools import partial
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


def _channels_first(what: Any, node: Node, image: str) -> bool:
    return bool(what.tensors[dict(node.tensors)[image]].strides[1] != 1)


def _int8_to_int32(what: Any) -> bool:
    return _int8_to("int32", what)


def _int8_rows_to_float(what: Any) -> bool:
    """int8 to float32 with channels that are not the innermost."""
    return _int8_to("float32", what) and _channels_first(what, what.nodes[0], "x")


def _narrow_rows(kind: str, what: Any) -> bool:
    """A gradient of 16-bit floats with channels that are not the innermost."""
    node = _only(what, kind)
    return node is not None and _dtype(what, node, "dy") in _NARROW and _channels_first(what, node, "dy")


_NARROW = ("float16", "bfloat16")
#: Seen on an H200 with cuDNN 9.19; no version is known that mends them.
WRONG = (
    Wrong(20, _uneven_float64, 91900),
    Wrong(0, _int8_to_int32, 91900),
    Wrong(28, _int8_to_int32, 91900),
    Wrong(71, _int8_rows_to_float, 91900),
    Wrong(72, _int8_rows_to_float, 91900),
    Wrong(78, partial(_narrow_rows, "convolve_backward_data"), 91900),
    Wrong(70, partial(_narrow_rows, "convolve_backward_filter"), 91900),
)


def refusal(graph: Graph, version: int) -> str:
    """Why a graph is left alone by any engine of this version, "" where it is not.

    Three-dimensional convolutions of 16-bit floats are wrong from 9.8 to 9.10 (pytorch issue 163539).
    """
    for node in graph.nodes:
        if node.kind.startswith("convolve") and 90800 <= version < 91100:
            image = graph.tensors[node.tensors[0][1]]
            if len(image.shape) == 5 and image.dtype in ("float16", "bfloat16"):
                return (
                    f"cuDNN {version} computes three-dimensional convolutions of {image.dtype} wrongly; 9.11 and newer "
                    "do not, nor do 9.7 and older"
                )
    return ""
