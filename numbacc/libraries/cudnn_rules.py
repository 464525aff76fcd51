"""Known faults of cuDNN: measured against float64, or reported.

Engines are numbered separately for each kind of graph: engine 20 of a gradient differs from engine 20 of other graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .choices import Wrong
from .cudnn_graph import CudnnGraph, Node

#: A version above all existing ones.
NEWEST = 10**9

#: The 16-bit floats.
_NARROW = ("float16", "bfloat16")
_FLOATS = ("float32", "float64", *_NARROW)


def _convolution(kind: str, graph: CudnnGraph) -> Node | None:
    """Return the graph's only operation if it is a convolution of this kind, else None."""
    node = graph.nodes[0]
    return node if len(graph.nodes) == 1 and node.kind == f"convolve_{kind}" else None


def _dtype(graph: CudnnGraph, node: Node, tensor: str) -> str:
    return graph.tensors[dict(node.tensors)[tensor]].dtype


def _image(kind: str) -> str:
    return "x" if kind == "forward" else "dy"


def _uneven(kind: str, what: Any) -> bool:
    """Return whether a convolution has more padding on one side than on the other."""
    node = _convolution(kind, what)
    settings = dict(node.settings) if node else {}
    return bool(node) and settings["before"] != settings["after"]


def _of(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    node = _convolution(kind, what)
    return node is not None and _dtype(what, node, _image(kind)) in dtypes


def _rows_of(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    """Return whether channels are not innermost."""
    if not _of(kind, dtypes, what):
        return False
    image = what.tensors[dict(what.nodes[0].tensors)[_image(kind)]]
    return bool(image.strides[1] != 1)


def _depthwise_rows(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    """Return whether a convolution is depthwise, on one-dimensional images."""
    if not _of(kind, dtypes, what):
        return False
    names = dict(what.nodes[0].tensors)
    image, kernels = (what.tensors[names[name]] for name in (_image(kind), "w"))
    return bool(kernels.shape[1] == 1 and 1 in image.shape[2:])


def _added(kind: str, dtypes: tuple[str, ...], what: Any) -> bool:
    """Return whether sums are added to the result's old values."""
    return _of(kind, dtypes, what) and bool(dict(what.nodes[0].settings)["beta"])


def _int8_to(dtype: str, what: Any) -> bool:
    return _of("forward", ("int8",), what) and _dtype(what, what.nodes[0], "y") == dtype


def _int8_rows_to_float(what: Any) -> bool:
    return _int8_to("float32", what) and _rows_of("forward", ("int8",), what)


def _fused_narrow(what: Any) -> bool:
    node = what.nodes[0]
    return len(what.nodes) > 1 and node.kind == "convolve_forward" and _dtype(what, node, "x") in _NARROW


def _few_channels(kind: str, what: Any) -> bool:
    """Return whether this is a float16 convolution of images whose channels do not fill a multiple of 16 bytes."""
    node = _convolution(kind, what)
    return node is not None and _of(kind, ("float16",), what) and what.tensors[node.tensors[0][1]].shape[1] % 8 != 0


def _fused_float16(what: Any) -> bool:
    return _fused_narrow(what) and _dtype(what, what.nodes[0], "x") == "float16"


def _each(engines: Iterable[int], case: Callable[[Any], bool]) -> list[Wrong]:
    return [Wrong(engine, case, 91900) for engine in engines]


#: Seen on an H200 with cuDNN 9.19 by `python -m tools.check conv`; no version is known to fix them. Engines that round
#: a sum to 16 bits before something is added to it count as wrong: they are off by many units where terms cancel.
WRONG = (
    *_each((1, 18, 20), partial(_uneven, "backward_filter")),
    *_each((50,), partial(_uneven, "backward_data")),
    *_each((72,), partial(_rows_of, "forward", ("float32", *_NARROW))),
    *_each((78,), partial(_rows_of, "backward_data", _NARROW)),
    *_each((70,), partial(_rows_of, "backward_filter", _NARROW)),
    # These accumulate in 16 bits, although their notes do not say so.
    *_each((2,), partial(_of, "backward_data", ("float16",))),
    *_each((61,), partial(_of, "backward_filter", ("float16",))),
    *_each((47,), partial(_of, "backward_filter", ("bfloat16",))),
    # This uses Winograd's transforms, although its notes do not say so: ten times the errors of others.
    *_each((17,), partial(_of, "backward_filter", ("float32",))),
    # Fourier transforms; errors of hundreds of roundings of the largest sum.
    *_each((4,), partial(_depthwise_rows, "forward", ("float32", "float64"))),
    *_each((5,), partial(_depthwise_rows, "backward_data", ("float32", "float64"))),
    *_each((1, 2, 3, 4, 22, 23, 27, 45, 47, 62), partial(_added, "forward", _NARROW)),
    *_each((1, 2, 4, 5, 22, 23, 24, 40, 43, 46, 49, 50, 57, 59, 64, 67, 73), partial(_added, "backward_data", _NARROW)),
    *_each((10, 15, 17, 24, 33, 37, 39, 45, 47, 49), partial(_added, "backward_filter", _NARROW)),
    # Their plans request no scratch memory, but use some.
    *_each((9, 65, 67, 68), partial(_added, "backward_filter", _FLOATS)),
    *_each((26, 29, 33), _fused_narrow),
    # Results beyond 65504 become 0, or another number, instead of an infinity (`check overflow`).
    *_each((47,), partial(_of, "forward", ("float16",))),
    *_each((32,), _fused_float16),
    *_each((47,), partial(_few_channels, "backward_filter")),
    *_each((0, 28), partial(_int8_to, "int32")),
    *_each((71, 72), _int8_rows_to_float),
)


def _behind(modes: Sequence[str], what: Any) -> bool:
    """Return whether exactly these operations end the graph, the last without clipping and slope."""
    settings = [dict(node.settings) for node in what.nodes[1:]]
    found = [each["mode"] for each in settings]
    return found[-len(modes) :] == [*modes] and not settings[-1].keys() & {"lower", "upper", "slope"}


def _forward_rows(is_fused: bool, what: Any) -> bool:
    """Return whether this is a forward convolution whose channels are not innermost."""
    node = what.nodes[0]
    image = what.tensors[node.tensors[0][1]]
    return is_fused == (len(what.nodes) > 1) and node.kind == "convolve_forward" and image.strides[1] != 1


def _behind_float32(modes: Sequence[str], what: Any) -> bool:
    """Return the result of `_behind` for float32 images; False for others."""
    node = what.nodes[0]
    return node.kind == "convolve_forward" and _dtype(what, node, "x") == "float32" and _behind(modes, what)


#: Engines that lose NaN or infinities: (numbers, whether they do so with a graph, a text for users), seen on an H200 or
#: an H100 with cuDNN 9.19. numbacc still uses them, as torch does: a fused bias and ReLU saves a pass over the result.
#: cuDNN's own attribute for this is deprecated, and with it the same engines accept a graph.
LOSES_NAN: tuple[tuple[tuple[int, ...], Callable[[Any], bool], str], ...] = (
    ((0, 11, 12, 13, 35, 36), partial(_behind, ("ADD", "RELU_FWD")), "its ReLU gives 0 for NaN"),
    ((39,), partial(_behind_float32, ("ADD", "RELU_FWD")), "its ReLU gives 0 for NaN"),
    # For float16 this engine is in WRONG.
    ((47,), partial(_of, "forward", ("float32",)), "it loses some infinities of images"),
    ((32,), partial(_behind_float32, ("ADD",)), "it loses some infinities of images"),
    ((6,), partial(_forward_rows, False), "it loses some NaN of images"),
    ((14,), partial(_forward_rows, True), "it loses some NaN of images"),
    ((7,), partial(_rows_of, "backward_data", ("float32",)), "it loses some NaN of images"),
)


def _groups(kind: str, is_fused: bool, most: int, what: Any) -> bool:
    """Return whether there are several groups with fewer than `most` channels or kernels each."""
    node = what.nodes[0]
    if node.kind != f"convolve_{kind}" or is_fused != (len(what.nodes) > 1):
        return False
    names = dict(node.tensors)
    channels, kernels = (what.tensors[names[name]].shape for name in ("x" if kind == "forward" else "y", "w"))
    groups = channels[1] // kernels[1]
    return bool(groups > 1 and min(kernels[1], kernels[0] // groups) < most)


_CROSSES = "a NaN or infinity may reach other groups"
#: Fewer channels or kernels a group than this do not fill a tile of a tensor-core engine.
_TILE_CHANNELS = 64
#: Engines that compute several groups as one, with zeros between them. A NaN or infinity in one group then turns
#: results of other groups into NaN (0 times infinity). Entries are as in LOSES_NAN. They were seen on an H100 with
#: cuDNN 9.19, with up to 12 channels a group. No gradient of kernels did this. Below 8 channels a group, nearly all
#: tensor-core engines do.
CROSSES_GROUPS: tuple[tuple[tuple[int, ...], Callable[[Any], bool], str], ...] = (
    ((22, 23, 62, 67, 72), partial(_groups, "forward", False, _TILE_CHANNELS), _CROSSES),
    ((4, 10, 23, 51, 53), partial(_groups, "forward", True, _TILE_CHANNELS), _CROSSES),
    (
        (22, 23, 28, 34, 40, 43, 46, 49, 53, 56, 62, 67, 71, 78),
        partial(_groups, "backward_data", False, _TILE_CHANNELS),
        _CROSSES,
    ),
)


def nan_lost(graph: CudnnGraph, engine: int) -> str:
    """Return a text about the known faults of an engine with NaN; "" if none is known."""
    if not graph.nodes[0].kind.startswith("convolve"):
        return ""
    tables = (LOSES_NAN, CROSSES_GROUPS)
    found = (next((what for engines, case, what in each if engine in engines and case(graph)), "") for each in tables)
    return "; ".join(filter(None, found))


def dotted(version: int) -> str:
    """Return a version of cuDNN 9 in dotted form: 91002 is 9.10.2."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


class RefusedVersions(NamedTuple):
    """A feature that numbacc does not use with some versions.

    Attributes:
        mended: the first version after the fault.
        text: the feature; for graphs also the versions that run it.
        case: whether something uses the feature: here a graph, on a GPU of a compute capability.
        since: the first version with the fault.
    """

    mended: int
    text: str
    case: Callable[..., bool]
    since: int = 0


def refused(table: Iterable[RefusedVersions], version: int, *what: Any) -> RefusedVersions | None:
    """Return the first entry of a table that applies to something with a version; None if none applies."""
    return next((each for each in table if each.since <= version < each.mended and each.case(*what)), None)


def _is_attention(graph: CudnnGraph) -> bool:
    return sum(node.kind == "matmul" for node in graph.nodes) > 1


def _is_packed(graph: CudnnGraph) -> bool:
    return any(tensor.offsets is not None for tensor in graph.tensors)


def _is_wide(graph: CudnnGraph) -> bool:
    """Return whether attention has heads of more than 128 elements, in queries (the first product's rows) or values."""
    products = [dict(node.tensors) for node in graph.nodes if node.kind == "matmul"]
    ends = (products[0]["a"], products[-1]["b"]) if len(products) > 1 else ()
    return any(graph.tensors[place].shape[-1] > 128 for place in ends)


def _is_deterministic(graph: CudnnGraph) -> bool:
    """Return whether these are gradients of attention that write dq directly for deterministic results.

    A bias's gradient needs the same form and is excluded: it is the only sum of float32 that a graph returns.
    """
    is_direct = graph.nodes[-1].kind == "matmul" and any(node.kind == "reshape" for node in graph.nodes)
    sums = [dict(node.tensors) for node in graph.nodes if node.kind == "reduce"]
    for_bias = any(not graph.tensors[of["y"]].virtual and graph.tensors[of["x"]].dtype == "float32" for of in sums)
    return is_direct and not for_bias


def _is_volume(graph: CudnnGraph, dtypes: tuple[str, ...]) -> bool:
    images = [graph.tensors[node.tensors[0][1]] for node in graph.nodes if node.kind.startswith("convolve")]
    return any(len(image.shape) == 5 and image.dtype in dtypes for image in images)


_FRONTEND = "is disabled, as in NVIDIA's own cudnn-frontend"
#: The rules for attention are from the checks of NVIDIA's cudnn-frontend, see `attention.versions` for more; the rule
#: for convolutions is from pytorch's issue 163539.
REFUSED = (
    RefusedVersions(
        91002, f"attention {_FRONTEND}; 9.10.2 and newer run it", lambda graph, gpu: _is_attention(graph), since=91000
    ),
    RefusedVersions(
        91801,
        f"attention of packed sequences below compute capability 9.0 {_FRONTEND}; 9.18.1 and newer run it",
        lambda graph, gpu: _is_attention(graph) and _is_packed(graph) and gpu < (9, 0),
    ),
    RefusedVersions(
        91800,
        f"attention with deterministic gradients on compute capability 10 {_FRONTEND}; 9.18 and newer run it",
        lambda graph, gpu: _is_deterministic(graph) and gpu[0] == 10,
    ),
    RefusedVersions(
        90901,
        f"attention with heads of more than 128 elements below compute capability 9.0 {_FRONTEND}; 9.9.1 and newer "
        "run it",
        lambda graph, gpu: _is_wide(graph) and gpu < (9, 0),
    ),
    RefusedVersions(
        90901,
        f"attention with pages and heads of more than 128 elements {_FRONTEND}; 9.9.1 and newer run it",
        lambda graph, gpu: _is_wide(graph) and any(node.kind == "pages" for node in graph.nodes),
    ),
    RefusedVersions(
        91100,
        "three-dimensional convolutions of 16 bits are wrong; 9.11 and newer are right, and so are 9.7 and older",
        lambda graph, gpu: _is_volume(graph, _NARROW),
        since=90800,
    ),
)


def refusal(graph: CudnnGraph, version: int, capability: tuple[int, int]) -> str:
    """Return why numbacc uses no engine of this version for a graph on such a GPU; "" if it uses them."""
    found = refused(REFUSED, version, graph, capability)
    return f"with cuDNN {dotted(version)} {found.text}" if found else ""


def shortens_wrongly(graph: CudnnGraph, version: int) -> bool:
    """Return whether tensor cores may be wrong for the float32 of a graph.

    9.10.2 to 9.15 have a wrong kernel for three-dimensional convolutions, and the affected cases are not documented
    (torch disabled it in its pull request 167024).
    """
    return 91002 <= version < 91600 and _is_volume(graph, ("float32",))
