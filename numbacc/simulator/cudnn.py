"""cuDNN in NumPy, on the memory of Numba's simulator: graphs are followed operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..base.dtypes import dtype
from ..base.ownership import NotCopied
from ..base.windows import Window
from ..libraries.choices import Algorithm, Choices
from ..libraries.cudnn_graph import OUTPUTS, Graph, Node, Tensor
from ..libraries.cudnn_plans import Wants
from ..reference import conv as reference
from .device import queued, view_at

algorithms = Choices("cudnn", size=512)
_ONLY = Algorithm(b"", 0, "NumPy", (0, 0))


def choose(graph: Graph, wants: Wants, device: int) -> Algorithm:
    """As `libraries.cudnn.choose`."""
    found = algorithms.choose((graph, wants), lambda: _ONLY)
    assert found is not None
    return found


def tune(
    graphs: Sequence[Graph], wants: Wants, device: int, stream: int, trial: Callable[[Any], Callable[[], None]]
) -> Algorithm:
    """As `libraries.cudnn.tune`; there is nothing to measure."""
    return choose(graphs[0], wants, device)


class Runner(NotCopied):
    """As `libraries.cudnn.Runner`."""

    backend = "simulator"
    library_bytes = workspace_bytes = 0
    deterministic = True
    #: What shares memory is looked at elsewhere.
    direct = False

    def __init__(
        self,
        graph: Graph,
        algorithm: Algorithm,
        device: int,
        operands: Sequence[int] | None = None,
        pairs: Sequence[tuple[int, ...]] = (),
    ):
        self.algorithm = algorithm.text
        self._graph = graph
        self._pick = tuple(range(len(graph.memory)) if operands is None else operands)

    def ready(self, addresses: Sequence[int]) -> None:
        """Nothing is compiled."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """As `Executable.launch_unchecked`."""
        given = {place: addresses[k] for place, k in zip(self._graph.memory, self._pick, strict=True)}
        for place, address in given.items():
            # Where a library reads words of 16 bytes, an array that starts elsewhere gives other numbers, or an error.
            assert address % self._graph.tensors[place].alignment == 0
        queued(stream, lambda: _run(self._graph, given))
        return 0

    def check(self, status: int) -> None:
        """Nothing fails but by an exception."""


def _run(graph: Graph, given: Mapping[int, int]) -> None:
    values: dict[int, Any] = {}

    def value(place: int) -> Any:
        return values[place] if place in values else _view(graph.tensors[place], given[place])

    for node in graph.nodes:
        ((_, target),) = [pair for pair in node.tensors if pair[0] in OUTPUTS]
        tensor = graph.tensors[target]
        reads = {name: value(place) for name, place in node.tensors if name not in OUTPUTS}
        before = None if tensor.virtual else _view(tensor, given[target])
        found = cast(_APPLY[node.kind](node, reads, tensor, before), dtype(tensor.dtype))
        if tensor.virtual:
            values[target] = found
        else:
            _view(tensor, given[target])[...] = found


def _view(tensor: Tensor, address: int) -> Any:
    kind = dtype(tensor.dtype)
    return view_at(address, tensor.shape, tuple(kind.itemsize * step for step in tensor.strides), kind)


def _convolve(node: Node, reads: Mapping[str, Any], tensor: Tensor, before: Any) -> Any:
    settings = dict(node.settings)
    shapes = {name: array.shape for name, array in reads.items()} | {"y": tensor.shape}
    image, kernel = (shapes.get(name, tensor.shape) for name in ("x", "w"))
    padding = tuple(zip(settings["before"], settings["after"], strict=True))
    groups = image[1] // kernel[1]
    window = Window(settings["stride"], padding, settings["dilation"], groups, settings["flip"], False)
    blend = {"alpha": settings["alpha"], "beta": settings["beta"], "before": before}
    # Rounded by the caller, once.
    blend["out_dtype"] = dtype(settings["math"])
    if "dy" not in reads:
        return reference.forward(reads["x"], reads["w"], window, **blend)
    if "w" in reads:
        return reference.backward_data(reads["dy"], reads["w"], tensor.shape, window, **blend)
    return reference.backward_filter(reads["x"], reads["dy"], tensor.shape, window, **blend)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "IDENTITY": lambda x: x,
    "RELU_FWD": reference.ACTIVATIONS["relu"],
    "TANH_FWD": reference.ACTIVATIONS["tanh"],
    "SIGMOID_FWD": reference.ACTIVATIONS["sigmoid"],
    "ELU_FWD": reference.ACTIVATIONS["elu"],
    "GELU_FWD": reference.ACTIVATIONS["gelu"],
    "GELU_APPROX_TANH_FWD": reference.ACTIVATIONS["gelu_tanh"],
    "SWISH_FWD": reference.ACTIVATIONS["silu"],
}


def _pointwise(node: Node, reads: Mapping[str, Any], tensor: Tensor, before: Any) -> Any:
    settings = dict(node.settings)
    math_dtype = dtype(settings["math"])
    x = reads["x"].astype(math_dtype)
    if settings["mode"] == "ADD":
        real = math_dtype.type
        b = reads["b"].astype(math_dtype)
        return real(settings.get("alpha1", 1.0)) * x + real(settings.get("alpha2", 1.0)) * b
    if settings["mode"] == "RELU_FWD" and "slope" in settings:
        return np.where(x < 0, math_dtype.type(settings["slope"]) * x, x)
    if "upper" in settings:
        return x.clip(math_dtype.type(settings["lower"]), math_dtype.type(settings["upper"]))
    return _FUNCTIONS[settings["mode"]](x)


_APPLY: dict[str, Callable[[Node, Mapping[str, Any], Tensor, Any], Any]] = {
    "convolve_forward": _convolve,
    "convolve_backward_data": _convolve,
    "convolve_backward_filter": _convolve,
    "pointwise": _pointwise,
}
