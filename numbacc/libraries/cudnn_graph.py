"""Graphs of cuDNN as plain data: tensors and the operations between them, which can be compared, kept and printed.

A `Drawing` is written as one writes the maths, and gives a `CudnnGraph`:

    draw = Drawing("float32")
    x = draw.tensor("float16", (64, 256, 56, 56), channels_last)
    w, bias = draw.tensor("float16", (256, 256, 3, 3), ...), draw.tensor("float32", (1, 256, 1, 1))
    y = draw.tensor("float16", (64, 256, 56, 56), channels_last)
    sums = draw.convolve("forward", x, w, spatial, draw.like(y))
    draw.pointwise("RELU_FWD", draw.pointwise("ADD", sums, bias), out=y)
    graph = draw.graph()

Results between operations have no memory (they are virtual) and the dtype of the arithmetic: cuDNN has few kernels for
others. What cuDNN calls each thing is in `cudnn_nodes`; nothing here needs the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

#: The alignment for which cuDNN has most kernels, in bytes.
ALIGNED = 16

#: A tensor's place among its graph's: what operations have of it, and less one its number in cuDNN's variant packs.
Place = int


class Tensor(NamedTuple):
    """A tensor of a graph.

    Attributes:
        dtype: its name.
        shape: its lengths; images are (batch, channels, *pixels) whatever their layout, which is in the strides.
        strides: in elements.
        alignment: bytes that its address is a multiple of.
        virtual: whether it is a result that only another operation of the graph reads.
        by_value: whether it is one number, read on the host at the call.
        offsets: the place of a tensor with the places where each of the batch starts, in elements; None where they
            follow from the strides.
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
        kind: its name in `cudnn_nodes.KINDS`.
        tensors: pairs of what a tensor is to it ("x", "y") and its place.
        settings: pairs of what else there is to know and its value.
    """

    kind: str
    tensors: tuple[tuple[str, Place], ...]
    settings: tuple[tuple[str, Any], ...] = ()


class CudnnGraph(NamedTuple):
    """Operations on tensors: all that decides what cuDNN computes.

    Attributes:
        tensors: all of them.
        nodes: the operations.
        memory: the places of those that have memory, in the order of a call's addresses.
        numbers: the places of those that are one number on the host; a `Runner` is told which.
    """

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    memory: tuple[Place, ...]
    numbers: tuple[Place, ...] = ()

    def __str__(self) -> str:
        """A line for each operation, `t3 = convolve(x=t0, w=t1, stride=(1, 1))`, behind one for each array."""
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


#: What operations call their results.
OUTPUTS = ("y",)


class Wants(NamedTuple):
    """What a plan must keep to.

    Attributes:
        deterministic: whether the same inputs must give the same bits.
        workspace_limit: bytes of scratch memory that it may use; None for any number.
        inputs: "exact" where the inputs' float32 must not be shortened, not even for products (so no tensor cores), nor
            transformed; "fft" where Fourier transforms of it may be multiplied; "tf32" where it may be shortened for
            products, to 10 bits, but not transformed; "whole" where inputs are integers of 8 bits, whatever their
            dtype, and sums must be those integers' own; "double" where they are float64 and must not be transformed;
            "any" where they are of 16 bits.
    """

    deterministic: bool = False
    workspace_limit: int | None = None
    inputs: str = "any"


class Spatial(NamedTuple):
    """Where a convolution's window goes: a number per dimension of the image.

    Attributes:
        stride, dilation: steps of the window, and between its elements.
        before, after: padding, in elements.
        flip: whether the window is flipped, as a convolution's is; cuDNN's own default, a correlation, does not.
    """

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    flip: bool = False


def packed(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of rows behind rows, in elements."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


class Drawing:
    """A graph being drawn.

    Args:
        math: dtype of the arithmetic, and of results between operations.
    """

    def __init__(self, math: str):
        self._math = math
        self._tensors: list[Tensor] = []
        #: The numbers on the host, in the order of the graph's.
        self.values: list[float] = []
        self._nodes: list[Node] = []

    def number(self, value: float, dtype: str | None = None) -> Place:
        """A number, which each call reads on the host: another needs no other plan."""
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
        """A tensor with memory, packed unless strides are given."""
        steps = packed(shape) if strides is None else tuple(strides)
        return self._add(Tensor(dtype, tuple(shape), steps, alignment, offsets=offsets))

    def between(self, shape: Sequence[int], strides: Sequence[int] | None = None, dtype: str | None = None) -> Place:
        """A tensor without memory."""
        steps = packed(shape) if strides is None else tuple(strides)
        return self._add(Tensor(dtype or self._math, tuple(shape), steps, virtual=True))

    def like(self, place: Place) -> Place:
        """A tensor without memory that is laid out as another."""
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
        """alpha times a convolution, or its gradient, plus beta times what is in the result.

        Args:
            direction: "forward" of a = x and b = w, "backward_data" of dy and w, "backward_filter" of x and dy.
            a, b: its two operands.
            spatial: where the window goes.
            out: the result.
            alpha, beta: numbers that the plan is made for.
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
        """A function of each element: of x, of x and b, or x where t, else b. Lengths of 1 are broadcast.

        Args:
            mode: its name, as cuDNN has it.
            x, b, t: its operands.
            out: the result; by default one without memory, like x.
            more: what else the function needs: `axis`, `slope`, `alpha1`, ...
        """
        reads = [(name, place) for name, place in (("x", x), ("b", b), ("t", t)) if place is not None]
        settings = (("mode", mode), ("math", more.pop("math", self._math)), *more.items())
        return self._apply("pointwise", reads, self.like(x) if out is None else out, settings)

    def reduce(self, mode: str, x: Place, out: Place) -> Place:
        """Reduce x ("ADD", "MAX", "AMAX") to a result with lengths of 1 along what is reduced."""
        return self._apply("reduce", (("x", x),), out, (("mode", mode), ("math", self._math)))

    def matmul(self, a: Place, b: Place, out: Place, **lengths: Place | None) -> Place:
        """a @ b, the leading lengths broadcast.

        Args:
            a, b, out: matrices m times k, k times n, and m times n.
            lengths: `m`, `n` or `k`, tensors that say how many there really are, for each of the batch.
        """
        reads = [("a", a), ("b", b), *((name, place) for name, place in lengths.items() if place is not None)]
        # What lies behind these lengths counts as 0.
        padding = (("padding", 0.0),) if len(reads) > 2 else ()
        return self._apply("matmul", reads, out, (("math", self._math), *padding))

    def reshape(self, x: Place, out: Place) -> Place:
        """x as a tensor of other lengths or strides."""
        return self._apply("reshape", (("x", x),), out, ())

    def bernoulli(self, p: float, seed: Place, offset: Place, out: Place) -> Place:
        """1 with probability p, else 0, of a random sequence that seed and offset, int64, tell."""
        settings = (("distribution", "BERNOULLI"), ("p", p))
        return self._apply("bernoulli", (("seed", seed), ("offset", offset)), out, settings)

    def pages(self, container: Place, table: Place, lengths: Place, out: Place) -> Place:
        """Sequences whose pages, numbered in a table, lie in a container."""
        return self._apply("pages", (("x", container), ("lengths", lengths), ("table", table)), out, ())

    def graph(self) -> CudnnGraph:
        """The graph, whose arrays are the tensors with memory in the order that they were drawn in."""
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

#: The side of the tiles that are transformed, and their Fourier coefficients, half of which follow from the others.
_TILE, _COEFFICIENTS = 32, 32 * 17
#: The side of the tiles of the products of coefficients: with fewer channels or image tiles most of one is empty.
_PRODUCTS = 64


class Plain(NamedTuple):
    """A convolution of images of two dimensions with stride and dilation 1, in one group.

    Attributes:
        kind: "forward", "backward_data" or "backward_filter".
        dtype: of its operands.
        batch, channels, filters: N, C and K.
        places, taps: lengths of what windows go over (outputs, in a gradient of images its inputs), and of kernels.
    """

    kind: str
    dtype: str
    batch: int
    channels: int
    filters: int
    places: tuple[int, ...]
    taps: tuple[int, ...]


def plain(graph: CudnnGraph) -> Plain | None:
    """A graph as a plain convolution; None where it is none, or not alone: engines then have other numbers."""
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
    """Whether Fourier transforms of tiles leave less than half of the products: 0.31 of them took 0.38 of the time."""
    steps = [_TILE + 1 - n for n in what.taps]
    if min(steps) < _TILE // 2:
        return False
    tiles = prod(-(-n // step) for n, step in zip(what.places, steps, strict=True))
    complex_product = 4
    return (
        2 * complex_product * tiles * _COEFFICIENTS <= prod(what.places) * prod(what.taps)
        and min(what.batch * tiles, what.channels, what.filters) >= _PRODUCTS
    )
