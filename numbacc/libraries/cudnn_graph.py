"""cuDNN graphs as plain data: tensors and the operations between them, which can be compared, stored and printed.

A `Drawing` is written like a formula, and returns a `CudnnGraph`:

    draw = Drawing("float32")
    x = draw.tensor("float16", (64, 256, 56, 56), channels_last)
    w, bias = draw.tensor("float16", (256, 256, 3, 3), ...), draw.tensor("float32", (1, 256, 1, 1))
    y = draw.tensor("float16", (64, 256, 56, 56), channels_last)
    sums = draw.convolve("forward", x, w, spatial, draw.like(y))
    draw.pointwise("RELU_FWD", draw.pointwise("ADD", sums, bias), out=y)
    graph = draw.graph()

Results between operations have no memory (they are virtual), and they have the dtype of the arithmetic: cuDNN has few
kernels for others. `cudnn_nodes` maps these names to cuDNN's. Nothing here needs the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

#: The alignment in bytes that most of cuDNN's kernels support.
ALIGNED = 16

#: The index of a tensor in its graph. Operations refer to it; cuDNN's variant packs use the index plus one.
Place = int


class Tensor(NamedTuple):
    """A tensor of a graph.

    Attributes:
        dtype: name of the dtype.
        shape: lengths; images are (batch, channels, *pixels) for every layout, which the strides express.
        strides: in elements.
        alignment: its address is a multiple of this many bytes.
        virtual: whether it is a result that only another operation of the graph reads.
        by_value: whether it is a scalar that is read from host memory at the call.
        offsets: the index of a tensor with the start of each batch element, in elements; None if the strides determine
            the starts.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int = ALIGNED
    virtual: bool = False
    by_value: bool = False
    offsets: Place | None = None


class Node(NamedTuple):
    """An operation of a graph.

    Attributes:
        kind: name in `cudnn_nodes.KINDS`.
        tensors: pairs of a tensor's role ("x", "y") and its index.
        settings: pairs of a setting's name and its value.
    """

    kind: str
    tensors: tuple[tuple[str, Place], ...]
    settings: tuple[tuple[str, Any], ...] = ()


class CudnnGraph(NamedTuple):
    """Operations on tensors: everything that determines what cuDNN computes.

    Attributes:
        tensors: all tensors.
        nodes: the operations.
        memory: the indices of tensors with memory, in the order of a call's addresses.
        numbers: the indices of scalars in host memory; a `Runner` gets their values.
    """

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    memory: tuple[Place, ...]
    numbers: tuple[Place, ...] = ()

    def __str__(self) -> str:
        """Return a line for each array, then one for each operation, `t3 = convolve(x=t0, w=t1, stride=(1, 1))`."""
        lines = [
            f"t{place}: {self.tensors[place].dtype} {self.tensors[place].shape} strides {self.tensors[place].strides}"
            for place in self.memory
        ]
        for node in self.nodes:
            reads = [f"{name}=t{place}" for name, place in node.tensors if name not in OUTPUTS]
            writes = [f"t{place}" for name, place in node.tensors if name in OUTPUTS]
            settings = [f"{name}={value}" for name, value in node.settings if value is not None]
            lines.append(f"{', '.join(writes)} = {node.kind}({', '.join((*reads, *settings))})")
        return "\n".join(lines)


#: The role names of operations' results.
OUTPUTS = ("y",)


class Wants(NamedTuple):
    """Requirements on a plan.

    Attributes:
        deterministic: whether the same inputs must give the same bits.
        workspace_limit: bytes of scratch memory that it may use; None for no limit.
        inputs: how a plan may treat the inputs.
            "exact": float32 that must not be rounded, not even for products (so no tensor cores), nor transformed;
            "fft": like "exact", but Fourier transforms are allowed;
            "tf32": float32 that may be rounded to 10 bits for products, but not transformed;
            "whole": 8-bit integers, in any dtype, whose sums must be exact;
            "double": float64 that must not be transformed;
            "any": 16 bits.
    """

    deterministic: bool = False
    workspace_limit: int | None = None
    inputs: str = "any"


class Spatial(NamedTuple):
    """The window of a convolution: one number for each dimension of the image.

    Attributes:
        stride, dilation: steps of the window, and between its elements.
        before, after: padding, in elements.
        flip: whether the window is flipped, as in a mathematical convolution; cuDNN's default, a correlation, does not
            flip it.
    """

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    flip: bool = False


def packed(shape: Sequence[int]) -> tuple[int, ...]:
    """Return contiguous row-major strides, in elements."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


class Drawing:
    """A builder of a graph.

    Args:
        math: dtype of the arithmetic, and of results between operations.
    """

    def __init__(self, math: str):
        self._math = math
        self._tensors: list[Tensor] = []
        #: The values of the scalars, in the order of the graph's.
        self.values: list[float] = []
        self._nodes: list[Node] = []

    def number(self, value: float, dtype: str | None = None) -> Place:
        """Add a scalar that each call reads from host memory: another value needs no other plan."""
        self.values.append(value)
        return self._add(Tensor(dtype or self._math, (1, 1, 1, 1), (1, 1, 1, 1), by_value=True))

    def tensor(
        self,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        alignment: int = ALIGNED,
        offsets: Place | None = None,
    ) -> Place:
        """Add a tensor with memory, contiguous unless strides are given."""
        steps = packed(shape) if strides is None else tuple(strides)
        return self._add(Tensor(dtype, tuple(shape), steps, alignment, offsets=offsets))

    def between(self, shape: Sequence[int], strides: Sequence[int] | None = None, dtype: str | None = None) -> Place:
        """Add a tensor without memory."""
        steps = packed(shape) if strides is None else tuple(strides)
        return self._add(Tensor(dtype or self._math, tuple(shape), steps, virtual=True))

    def like(self, place: Place) -> Place:
        """Add a tensor without memory that has the layout of another."""
        other = self._tensors[place]
        return self.between(other.shape, other.strides)

    def convolve(
        self,
        direction: str,
        a: Place,
        b: Place,
        spatial: Spatial,
        out: Place,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Place:
        """Add alpha times a convolution, or its gradient, plus beta times the old values of the result.

        Args:
            direction: "forward" of a = x and b = w, "backward_data" of dy and w, "backward_filter" of x and dy.
            a, b: its two operands.
            spatial: the window.
            out: the result.
            alpha, beta: factors that the plan fixes.
        """
        first, second = {"forward": ("x", "w"), "backward_data": ("dy", "w"), "backward_filter": ("x", "dy")}[direction]
        settings = (*spatial._asdict().items(), ("math", self._math), ("alpha", alpha), ("beta", beta))
        return self._apply(f"convolve_{direction}", ((first, a), (second, b)), out, settings)

    def pointwise(
        self,
        mode: str,
        x: Place,
        b: Place | None = None,
        t: Place | None = None,
        out: Place | None = None,
        **more: Any,
    ) -> Place:
        """Add an elementwise function of x, of x and b, or "x if t else b". Lengths of 1 are broadcast.

        Args:
            mode: cuDNN's name of the function.
            x, b, t: its operands.
            out: the result; by default one without memory, like x.
            more: further parameters of the function: `axis`, `slope`, `alpha1`, ...
        """
        reads = [(name, place) for name, place in (("x", x), ("b", b), ("t", t)) if place is not None]
        settings = (("mode", mode), ("math", more.pop("math", self._math)), *more.items())
        return self._apply("pointwise", reads, self.like(x) if out is None else out, settings)

    def reduce(self, mode: str, x: Place, out: Place) -> Place:
        """Reduce x ("ADD", "MAX", "AMAX") to a result with lengths of 1 along the reduced axes."""
        return self._apply("reduce", (("x", x),), out, (("mode", mode), ("math", self._math)))

    def matmul(self, a: Place, b: Place, out: Place, **lengths: Place | None) -> Place:
        """Add a @ b, with leading lengths broadcast.

        Args:
            a, b, out: matrices m times k, k times n, and m times n.
            lengths: `m`, `n` or `k`: tensors with the actual length for each batch element.
        """
        reads = [("a", a), ("b", b), *((name, place) for name, place in lengths.items() if place is not None)]
        # Elements after these lengths count as 0.
        padding = (("padding", 0.0),) if len(reads) > 2 else ()
        return self._apply("matmul", reads, out, (("math", self._math), *padding))

    def reshape(self, x: Place, out: Place) -> Place:
        """Add a view of x with other lengths or strides."""
        return self._apply("reshape", (("x", x),), out, ())

    def bernoulli(self, p: float, seed: Place, offset: Place, out: Place) -> Place:
        """Add 1 with probability p, else 0, from a random sequence given by seed and offset, both int64."""
        settings = (("distribution", "BERNOULLI"), ("p", p))
        return self._apply("bernoulli", (("seed", seed), ("offset", offset)), out, settings)

    def pages(self, container: Place, table: Place, lengths: Place, out: Place) -> Place:
        """Add sequences that are gathered from pages in a container, by the page numbers in a table."""
        return self._apply("pages", (("x", container), ("lengths", lengths), ("table", table)), out, ())

    def graph(self) -> CudnnGraph:
        """Return the graph, whose arrays are the tensors with memory in the order of their creation."""
        tensors = self._tensors
        memory = tuple(place for place, tensor in enumerate(tensors) if not (tensor.virtual or tensor.by_value))
        numbers = tuple(place for place, tensor in enumerate(tensors) if tensor.by_value)
        return CudnnGraph(tuple(tensors), tuple(self._nodes), memory, numbers)

    def _add(self, tensor: Tensor) -> Place:
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def _apply(
        self, kind: str, reads: Sequence[tuple[str, Place]], out: Place, settings: Sequence[tuple[str, Any]]
    ) -> Place:
        self._nodes.append(Node(kind, (*reads, ("y", out)), tuple(settings)))
        return out


# ---------------------------------------------------------------- plain convolutions

#: The side of a tile in Fourier transforms, and the number of its coefficients; symmetry gives the other half.
_TILE, _COEFFICIENTS = 32, 32 * 17
#: The side of a tile in products of coefficients: with fewer channels or image tiles most of it is empty.
_PRODUCTS = 64


class Plain(NamedTuple):
    """A convolution of two-dimensional images with stride and dilation 1, in one group.

    Attributes:
        kind: "forward", "backward_data" or "backward_filter".
        dtype: dtype of its operands.
        batch, channels, filters: N, C and K.
        places, taps: spatial lengths that windows move over (outputs; inputs in a gradient of images), and of kernels.
    """

    kind: str
    dtype: str
    batch: int
    channels: int
    filters: int
    places: tuple[int, ...]
    taps: tuple[int, ...]


def plain(graph: CudnnGraph) -> Plain | None:
    """Return a graph as a plain convolution; None if it is anything else, since engines then have other numbers."""
    node = graph.nodes[0]
    if len(graph.nodes) > 1 or not node.kind.startswith("convolve_"):
        return None
    settings, kind = dict(node.settings), node.kind.removeprefix("convolve_")
    shapes = {name: graph.tensors[place].shape for name, place in node.tensors}
    kernels, image, gone_over = {
        "forward": ("w", "x", "y"),
        "backward_data": ("w", "y", "y"),
        "backward_filter": ("y", "x", "dy"),
    }[kind]
    filters, channels, *taps = shapes[kernels]
    if len(taps) != 2 or {*settings["stride"], *settings["dilation"]} != {1} or shapes[image][1] != channels:
        return None
    places = shapes[gone_over][2:]
    return Plain(kind, graph.tensors[node.tensors[0][1]].dtype, shapes[image][0], channels, filters, places, (*taps,))


def transforms_pay(what: Plain) -> bool:
    """Return whether tiled Fourier transforms save over half of the products: 0.31 of them took 0.38 of the time."""
    steps = [_TILE + 1 - n for n in what.taps]
    if min(steps) < _TILE // 2:
        return False
    tiles = prod(-(-n // step) for n, step in zip(what.places, steps, strict=True))
    complex_product = 4
    return (
        2 * complex_product * tiles * _COEFFICIENTS <= prod(what.places) * prod(what.taps)
        and min(what.batch * tiles, what.channels, what.filters) >= _PRODUCTS
    )
