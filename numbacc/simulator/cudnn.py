"""Replace cuDNN in Numba's simulator: run graphs operation by operation in NumPy, on the simulated memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..base.dtypes import dtype
from ..base.ownership import NotCopied
from ..base.windows import Window
from ..libraries.choices import Algorithm, Choices
from ..libraries.cudnn_graph import OUTPUTS, CudnnGraph, Node, Tensor, Wants
from ..libraries.cudnn_rules import NEWEST
from ..reference import conv as reference
from ..reference.attention import gathered
from ..reference.random import philox
from .device import queued, view_at

algorithms = Choices("cudnn", size=512)
_ONLY = Algorithm(b"", 0, "NumPy", (0, 0))


def version() -> int:
    """Return a version like `libraries.cudnn.version`, one without known faults."""
    return NEWEST


def choose(graph: CudnnGraph, wants: Wants, device: int) -> Algorithm:
    """Choose an algorithm, like `libraries.cudnn.choose`."""
    found = algorithms.choose((graph, wants), lambda: _ONLY)
    assert found is not None
    return found


def tune(
    graphs: Sequence[CudnnGraph],
    wants: Sequence[Wants],
    device: int,
    stream: int,
    trial: Callable[[Algorithm], Callable[[], None]],
    others: Sequence[Algorithm] = (),
) -> Algorithm:
    """Choose an algorithm, like `libraries.cudnn.tune`, but without measuring: prefer one that is not NumPy's."""
    return others[0] if others else choose(graphs[0], wants[0], device)


def number_of(algorithm: Algorithm) -> int:
    """Return an algorithm's number, like `libraries.cudnn.number_of`."""
    return 0


class Runner(NotCopied):
    """Run a graph, like `libraries.cudnn.Runner`."""

    backend = "simulator"
    library_bytes = workspace_bytes = 0
    deterministic = True
    #: Another module checks for shared memory.
    direct = False

    def __init__(
        self,
        graph: CudnnGraph,
        algorithm: Algorithm,
        device: int,
        operands: Sequence[int] | None = None,
        pairs: Sequence[tuple[int, ...]] = (),
        values: Sequence[float] | None = None,
    ):
        self.algorithm = algorithm.text
        self._graph = graph
        self._numbers = dict(zip(graph.numbers, values or (), strict=True))
        self._pick = tuple(range(len(graph.memory)) if operands is None else operands)

    def ready(self, addresses: Sequence[int]) -> None:
        """Do nothing: there is nothing to compile."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Run the graph, like `Executable.launch_unchecked`."""
        given = {place: addresses[k] for place, k in zip(self._graph.memory, self._pick, strict=True)}
        for place, address in given.items():
            # On a GPU, a misaligned array gives wrong results or an error, where a library reads 16 bytes at once.
            assert address % self._graph.tensors[place].alignment == 0
        queued(stream, lambda: _run(self._graph, given, self._numbers))
        return 0

    def check(self, status: int) -> None:
        """Do nothing: a simulated call fails by raising."""


def _run(graph: CudnnGraph, given: Mapping[int, int], numbers: Mapping[int, float]) -> None:
    values: dict[int, Any] = {}
    for place, number in numbers.items():
        tensor = graph.tensors[place]
        values[place] = np.full(tensor.shape, number, dtype(tensor.dtype))

    def sequences(place: int) -> list[Any]:
        """Return the parts of a ragged tensor that the offsets select, one for each sequence of the batch."""
        tensor = graph.tensors[place]
        assert tensor.offsets is not None
        starts = value(tensor.offsets).ravel()
        # Keys may be transposed: the longer stride is the step from token to token.
        axis = 2 if tensor.strides[3] == 1 else 3
        # Offsets that do not grow belong to empty sequences.
        rows = np.maximum(np.diff(starts), 0) // tensor.strides[axis]
        size, found = dtype(tensor.dtype).itemsize, []
        for start, count in zip(starts[:-1], rows, strict=True):
            lengths = list(tensor.shape)
            lengths[0], lengths[axis] = 1, int(count)
            part = tensor._replace(shape=tuple(lengths))
            found.append(_view(part, given[place] + size * int(start)))
        return found

    def value(place: int) -> Any:
        if place in values:
            return values[place]
        tensor = graph.tensors[place]
        if tensor.offsets is None:
            return _view(tensor, given[place])
        whole = np.zeros(tensor.shape, dtype(tensor.dtype))
        for b, part in enumerate(sequences(place)):
            whole[b, :, : part.shape[2], : part.shape[3]] = part[0]
        return whole

    for node in graph.nodes:
        ((_, target),) = [pair for pair in node.tensors if pair[0] in OUTPUTS]
        tensor = graph.tensors[target]
        reads = {name: value(place) for name, place in node.tensors if name not in OUTPUTS}
        before = None if tensor.virtual or tensor.offsets is not None else _view(tensor, given[target])
        with np.errstate(all="ignore"):
            found = cast(_APPLY[node.kind](node, reads, tensor, before), dtype(tensor.dtype))
        if tensor.virtual:
            values[target] = found
        elif tensor.offsets is not None:
            for b, part in enumerate(sequences(target)):
                part[0] = found[b, :, : part.shape[2], : part.shape[3]]
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
    # The caller rounds once.
    blend["out_dtype"] = dtype(settings["math"])
    if "dy" not in reads:
        return reference.forward(reads["x"], reads["w"], window, **blend)
    if "w" in reads:
        return reference.backward_data(reads["dy"], reads["w"], tensor.shape, window, **blend)
    return reference.backward_filter(reads["x"], reads["dy"], tensor.shape, window, **blend)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "IDENTITY": lambda x: x,
    "EXP": np.exp,
    "LOG": np.log,
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
    if settings["mode"] == "GEN_INDEX":
        return np.indices(tensor.shape, sparse=True)[settings["axis"]] + np.zeros(tensor.shape, np.int64)
    if settings["mode"] == "BINARY_SELECT":
        return np.where(reads["t"], reads["x"], reads["b"])
    if settings["mode"] in ("CMP_LT", "CMP_GE", "CMP_GT"):
        return _COMBINED[settings["mode"]](reads["x"], reads["b"])
    x = reads["x"].astype(math_dtype)
    if settings["mode"] in _COMBINED:
        return _COMBINED[settings["mode"]](x, reads["b"].astype(math_dtype))
    if settings["mode"] == "ADD":
        real = math_dtype.type
        b = reads["b"].astype(math_dtype)
        return real(settings.get("alpha1", 1.0)) * x + real(settings.get("alpha2", 1.0)) * b
    if settings["mode"] == "RELU_FWD" and "slope" in settings:
        return np.where(x < 0, math_dtype.type(settings["slope"]) * x, x)
    if "upper" in settings:
        return x.clip(math_dtype.type(settings["lower"]), math_dtype.type(settings["upper"]))
    return _FUNCTIONS[settings["mode"]](x)


def _difference(x: Any, b: Any) -> Any:
    """Subtract. -inf minus -inf is -inf, because cuDNN's softmax gives a row of -inf weights of 0."""
    return np.where(np.isneginf(x) & np.isneginf(b), x, x - b)


def _quotient(x: Any, b: Any) -> Any:
    """Divide. 0 divided by 0 is 0, because cuDNN's softmax gives a row of -inf weights of 0."""
    return np.where((x == 0) & (b == 0), x, x / b)


_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "MUL": np.multiply,
    "DIV": _quotient,
    "SUB": _difference,
    "MAX": np.maximum,
    "CMP_LT": np.less,
    "CMP_GE": np.greater_equal,
    "CMP_GT": np.greater,
    "LOGICAL_AND": np.logical_and,
}


def _reduce(node: Node, reads: Mapping[str, Any], tensor: Tensor, before: Any) -> Any:
    settings, x = dict(node.settings), reads["x"]
    x = x.astype(dtype(settings["math"]))
    if x.ndim == 4 and tensor.shape[1] > 1 and x.shape[1] != tensor.shape[1]:
        # Neighbouring heads are summed.
        x = x.reshape(x.shape[0], tensor.shape[1], -1, *x.shape[2:]).sum(axis=2)
    axes = tuple(d for d, (n, m) in enumerate(zip(x.shape, tensor.shape, strict=True)) if n != m)
    if settings["mode"] == "AMAX":
        # The maximum starts from the memory's old value and skips NaN, as measured with cuDNN 9.19.
        return np.fmax(np.fmax.reduce(np.abs(x), axis=axes, keepdims=True), before)
    return x.sum(axis=axes, keepdims=True) if settings["mode"] == "ADD" else x.max(axis=axes, keepdims=True)


def _matmul(node: Node, reads: Mapping[str, Any], tensor: Tensor, before: Any) -> Any:
    math = dtype(dict(node.settings)["math"])
    a, b = (reads[name].astype(math) for name in ("a", "b"))

    def within(lengths: Any, count: int) -> Any:
        return np.arange(count) < lengths

    if "m" in reads:
        a = np.where(within(reads["m"], a.shape[2])[..., None][:, :, 0], a, 0)
    if "k" in reads:
        a = np.where(within(reads["k"], a.shape[3]), a, 0)
        b = np.where(within(reads["k"], b.shape[2])[..., None][:, :, 0], b, 0)
    if "n" in reads:
        b = np.where(within(reads["n"], b.shape[3]), b, 0)
    if a.ndim == 4 and b.shape[1] not in (1, a.shape[1]):
        b = np.repeat(b, a.shape[1] // b.shape[1], axis=1)
    return a @ b


def _reshape(node: Node, reads: Mapping[str, Any], tensor: Tensor, before: Any) -> Any:
    """Return the last two axes exchanged, the only case that attention uses."""
    found = reads["x"].swapaxes(-1, -2)
    assert found.shape == tensor.shape
    return found


def _bernoulli(node: Node, reads: Mapping[str, Any], tensor: Tensor, before: Any) -> Any:
    seed, offset = (int(reads[name].ravel()[0]) for name in ("seed", "offset"))
    words = philox(seed % 2**64, offset, int(np.prod(tensor.shape))).reshape(tensor.shape)
    return words < dict(node.settings)["p"] * 2.0**32


def _pages(node: Node, reads: Mapping[str, Any], tensor: Tensor, before: Any) -> Any:
    container, table, lengths = reads["x"], reads["table"][:, 0, :, 0], reads["lengths"].ravel()
    found = gathered(container, table, lengths)
    return found if tensor.strides[3] == 1 else found.swapaxes(-1, -2)


_APPLY: dict[str, Callable[[Node, Mapping[str, Any], Tensor, Any], Any]] = {
    "convolve_forward": _convolve,
    "convolve_backward_data": _convolve,
    "convolve_backward_filter": _convolve,
    "pointwise": _pointwise,
    "reduce": _reduce,
    "matmul": _matmul,
    "reshape": _reshape,
    "bernoulli": _bernoulli,
    "pages": _pages,
}
