"""What is known to be wrong in cuDNN: measured against float64, or reported.

An engine's number is one of its kind of graph: engine 20 of a gradient is not that of another graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

from .choices import Wrong
from .cudnn_graph import Graph, Node

#: Floats of 16 bits.
_NARROW = ("float16", "bfloat16")
_FLOATS = ("float32", "float64", *_NARROW)


def _convolution(kind: str, graph: Graph) -> Node | None:
    """The graph's only operation, if it is a convolution of a kind."""
    node = graph.nodes[0]
    return node if len(graph.nodes) == 1 and node.kind == f"convolve_{kind}" else None


def _dtype(graph: Graph, node: Node, tensor: str) -> str:
    return graph.tensors[dict(node.tensors)[tensor]].dtype


def _image(kind: str) -> str:
    return "x" if kind == "forward" else "dy"


def _uneven(kind: str, what: Any) -> bool:
    """More padding on one side than on the other."""
    node = _convolution(kind, what)
    settings = dict(node.settings) if node else {}
    return bool(node) and settings["before"] != settings["after"]


def _of(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    node = _convolution(kind, what)
    return node is not None and _dtype(what, node, _image(kind)) in dtypes


def _rows_of(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    """With channels that are not the innermost."""
    if not _of(kind, dtypes, what):
        return False
    image = what.tensors[dict(what.nodes[0].tensors)[_image(kind)]]
    return bool(image.strides[1] != 1)


def _depthwise_rows(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    """Of one channel each, and of images of one dimension."""
    if not _of(kind, dtypes, what):
        return False
    names = dict(what.nodes[0].tensors)
    image, kernels = (what.tensors[names[name]] for name in (_image(kind), "w"))
    return bool(kernels.shape[1] == 1 and 1 in image.shape[2:])


def _added(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    """Sums that are added to the result's memory."""
    return _of(kind, dtypes, what) and bool(dict(what.nodes[0].settings)["beta"])


def _int8_to(dtype: str, what: Any) -> bool:
    return _of("forward", ("int8",), what) and _dtype(what, what.nodes[0], "y") == dtype


def _int8_rows_to_float(what: Any) -> bool:
    return _int8_to("float32", what) and _rows_of("forward", ("int8",), what)


def _fused_narrow(what: Any) -> bool:
    node = what.nodes[0]
    return len(what.nodes) > 1 and node.kind == "convolve_forward" and _dtype(what, node, "x") in _NARROW


def _with_gaps(kind: str, is_fused: bool, what: Any) -> bool:
    """Of tensors that do not lie without gaps; with an activation or a bias behind it, or alone."""
    if what.nodes[0].kind != f"convolve_{kind}" or is_fused != (len(what.nodes) > 1):
        return False
    tensors = [what.tensors[place] for place in what.memory if len(what.tensors[place].shape) > 2]
    return any(_has_gaps(each.shape, each.strides) for each in tensors)


def _has_gaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether there is memory between the elements of a tensor that are not its own."""
    return prod(shape) != 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def _each(engines: Iterable[int], case: Callable[[Any], bool]) -> list[Wrong]:
    return [Wrong(engine, case, 91900) for engine in engines]


#: Seen on an H200 with cuDNN 9.19 by `python -m numbacc check conv`; no version is known that mends them. Engines that
#: round a sum to 16 bits before something is added to it count: they are off by many units where terms cancel.
WRONG = (
    *_each((1, 18, 20), partial(_uneven, "backward_filter")),
    *_each((50,), partial(_uneven, "backward_data")),
    *_each((72,), partial(_rows_of, "forward", ("float32", *_NARROW))),
    *_each((78,), partial(_rows_of, "backward_data", _NARROW)),
    *_each((70,), partial(_rows_of, "backward_filter", _NARROW)),
    # They add up in 16 bits, unsaid by their notes.
    *_each((2,), partial(_of, "backward_data", ("float16",))),
    *_each((61,), partial(_of, "backward_filter", ("float16",))),
    *_each((47,), partial(_of, "backward_filter", ("bfloat16",))),
    # Winograd's transforms, unsaid by its notes: ten times the errors of others.
    *_each((17,), partial(_of, "backward_filter", ("float32",))),
    # Fourier transforms, off by hundreds of roundings of the largest sum.
    *_each((4,), partial(_depthwise_rows, "forward", ("float32", "float64"))),
    *_each((5,), partial(_depthwise_rows, "backward_data", ("float32", "float64"))),
    *_each((1, 2, 3, 4, 22, 23, 27, 45, 47, 62), partial(_added, "forward", _NARROW)),
    *_each((1, 2, 4, 5, 22, 23, 24, 40, 43, 46, 49, 50, 57, 59, 64, 67, 73), partial(_added, "backward_data", _NARROW)),
    *_each((10, 15, 17, 24, 33, 37, 39, 45, 47, 49), partial(_added, "backward_filter", _NARROW)),
    # Their plans ask for no scratch memory, and then want some.
    *_each((9, 65, 67, 68), partial(_added, "backward_filter", _FLOATS)),
    *_each((26, 29, 33), _fused_narrow),
    # Compiled at run time: they write into gaps. 1 and 2 are of the same kind, for other GPUs, and were not seen.
    *_each((1, 2, 4, 7, 52, 53), partial(_with_gaps, "forward", True)),
    *_each((71, 72), partial(_with_gaps, "forward", False)),
    *_each((78,), partial(_with_gaps, "backward_data", False)),
    *_each((70,), partial(_with_gaps, "backward_filter", False)),
    *_each((0, 28), partial(_int8_to, "int32")),
    *_each((71, 72), _int8_rows_to_float),
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
            if len(image.shape) == 5 and image.dtype in _NARROW:
                return (
                    f"cuDNN {version} computes three-dimensional convolutions of {image.dtype} wrongly; 9.11 and newer "
                    "do not, nor do 9.7 and older"
                )
    return ""
