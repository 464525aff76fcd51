"""Convolutions as cuDNN graphs: how arrays are described, and which part of an epilogue cuDNN computes.

cuDNN sees images as (N, C, *pixels) for every layout; the strides express the layout. One dimension becomes two, and
one of these has length 1. An epilogue is fused with the convolution where cuDNN has engines for it: all of it if
channels are innermost, only bias and ReLU otherwise (facts of 9.19 and 9.28). One of numbacc's kernels computes the
rest afterwards, and also the parts that cuDNN fuses, but slowly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..base.layout import Layout, layout, row_major_strides
from ..kernels.elementwise.launch import MapExecutable
from ..libraries.cudnn_graph import CudnnGraph, Drawing, Place, Spatial, plain, transforms_pay
from ..runtime.steps import Scratch
from . import space_to_depth as depth
from . import windowed as windows
from .dgrad_as_fprop import Turned, is_faster, may_be_faster, turned
from .interleaved import Interleaved, interleaved
from .operand_copies import PLAIN, Copies
from .problem import ConvProblem

#: Activation -> cuDNN's pointwise operations and their parameters. cuDNN's compiled hyperbolic tangent is NaN if the
#: exponential of its argument is infinite (9.19), so arguments are limited to 16, where it is 1 in float32.
_MODES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "relu": [("RELU_FWD", {})],
    "leaky_relu": [("RELU_FWD", {"slope": 0.01})],
    "gelu": [("GELU_FWD", {})],
    "gelu_tanh": [("GELU_APPROX_TANH_FWD", {})],
    "silu": [("SWISH_FWD", {})],
    "sigmoid": [("SIGMOID_FWD", {})],
    "tanh": [("RELU_FWD", {"lower": -16.0, "upper": 16.0}), ("TANH_FWD", {})],
    "elu": [("ELU_FWD", {})],
}
#: Activations that use the hardware's hyperbolic tangent, MUFU.TANH, in every engine that cuDNN compiles (9.19 and
#: 9.28). PTX guarantees only 11 bits of it: after sums of 9 products, its errors were 30 times as large as with
#: numbacc's kernel. cuDNN computes other activations from exponentials, as exactly as numbacc's kernels do.
_ROUGH = ("tanh", "gelu_tanh")
#: Activations that cuDNN has precompiled after a bias only in its generic engine, which is tens of times slower than
#: others. It would be the first proposal, since precompiled engines come first. Instead, another engine adds the bias
#: and numbacc's kernel applies the activation, which costs one pass over the result.
#:
#: Plans of 9.28 for T4, A100, H200 and B200 were examined (16 bits, float32, tf32; 1, 2 and 3 dimensions; groups,
#: strides, dilation, few channels and many, with and without beta). These epilogues were precompiled with channels
#: innermost:
#: - a bias, alone or with ReLU: several engines, the generic one last. In float32 without tensor cores, with dilated
#:   kernels or uneven padding: only the generic engine.
#: - a bias with one of these two activations: the generic engine, followed by some for tensor cores that are compiled.
#: - a bias with one of the other five activations, or any activation without a bias, even ReLU: nothing.
_GENERIC_ALONE = ("sigmoid", "elu")


class Way(NamedTuple):
    """The part of an epilogue that cuDNN computes; numbacc's kernel computes the rest.

    Attributes:
        bias, activation: whether cuDNN adds the bias, and applies the activation.
    """

    bias: bool
    activation: bool


class LoweredConv(NamedTuple):
    """A problem as a graph.

    Attributes:
        graphs: the graph, followed by others of the same tensors that may be faster.
        operands: the number of the problem's operand for each of the graph's tensors with memory, inputs first.
        copies: pairs (number of an operand that cuDNN cannot use in place, layout of its copy).
        way: the part of the epilogue that the graph computes.
        rearranged: "channels first" or "channels last" if channels move in memory to that position, else "".
        made: how the copies are made.
    """

    graphs: tuple[CudnnGraph, ...]
    operands: tuple[int, ...]
    copies: tuple[tuple[int, Layout], ...]
    way: Way
    rearranged: str = ""
    made: Copies = PLAIN

    @property
    def name(self) -> str:
        """A text for plans: how the computation differs from the call."""
        return ", ".join(part for part in (self.rearranged, self.made.name) if part)

    def describe(self, engine: str, names: Sequence[str]) -> str:
        """Return the text for plans: `name`, the engine, and the copied operands, given all operands' names."""
        copied = told_copies(names, [number for number, _ in self.copies if number not in self.made.numbers])
        return (f"{self.name}: {engine}" if self.name else engine) + copied


def told_copies(names: Sequence[str], numbers: Sequence[int]) -> str:
    """Return the list of copied operands that plans append to the algorithm."""
    return f"; copies {' and '.join(names[number] for number in numbers)}" if numbers else ""


def forms(problem: ConvProblem, aligned: Sequence[bool], measured: bool = False) -> Iterator[LoweredConv]:
    """Yield the forms of a problem for cuDNN, best first. If cuDNN does not support one, the next is tried.

    Args:
        aligned: as in `lower`.
        measured: whether alternatives are measured together with the first.
    """
    rest = [
        (other.is_faster and not measured, [lower_other(other, way, aligned) for way in ways(other.problem)])
        for other in others(problem)
    ]
    for comes_first, found in rest:
        yield from found if comes_first else ()
    first = prefers_rearranged(problem, aligned)
    for rearranged in (first, not first):
        for way in ways(problem, rearranged):
            yield lower(problem, way, aligned, rearranged)
    for comes_first, found in rest:
        yield from () if comes_first else found


class Other(NamedTuple):
    """A convolution of other operands with the same result.

    Attributes:
        problem: the other convolution.
        made: how its operands, and the result, are copied.
        is_faster: whether it is used without a measurement.
        is_measured: whether it is worth measuring.
    """

    problem: ConvProblem
    made: Copies
    is_faster: bool
    is_measured: bool = True


def others(problem: ConvProblem) -> list[Other]:
    """Return the convolutions of other operands with the same result."""
    found = []
    if (other := turned(problem)) is not None:
        found.append(Other(other, Turned(problem), is_faster(problem), may_be_faster(problem)))
    if (other := windows.windowed(problem)) is not None:
        found.append(Other(other, windows.Windowed(problem), windows.is_faster(problem, other)))
    if (other := depth.deepened(problem)) is not None:
        found.append(Other(other, depth.Deepened(problem), depth.is_faster(problem, other)))
    if (other := interleaved(problem)) is not None:
        # `ConvPlan` uses it if it makes a faster engine available.
        found.append(Other(other, Interleaved(problem), False))
    return found


def copies(problem: ConvProblem, other: Other) -> Iterator[MapExecutable]:
    """Yield the copies between a convolution's operands and another's, and of the result, for aligned arrays."""
    pairs = list(zip((*problem.inputs, problem.out), (*other.problem.inputs, other.problem.out), strict=True))
    for number in other.made.numbers:
        own, dense = pairs[number]
        is_read = number < len(problem.inputs)
        parts = other.made.into(number, own, dense) if is_read else other.made.back(number, dense, own)
        yield from (part.executable for part in parts)


def room(problem: ConvProblem, lowered: LoweredConv) -> int:
    """Return the bytes of scratch memory that optional copies leave to cuDNN."""
    limit = problem.wants.workspace_limit
    assert limit is not None
    scratch = Scratch()
    for _, dense in lowered.copies if lowered.name else ():
        scratch.part(dense.nbytes)
    return limit - scratch.nbytes


def ways(problem: ConvProblem, rearranged: bool = False, rough: bool = False) -> list[Way]:
    """Return which parts of an epilogue cuDNN may compute, best first. If one is unsupported, the next is tried.

    The largest part comes first, unless cuDNN is faster with a smaller part followed by numbacc's kernel.

    Args:
        rearranged: whether cuDNN gets copies with the channels moved in memory.
        rough: whether to include functions that are less exact than float32.
    """
    call = problem.call
    is_exact = rough or call.a.dtype.name != "float32" or call.activation not in _ROUGH
    bias, activation = call.bias is not None, call.activation is not None
    nothing = Way(False, False)
    if not (bias or activation) or call.a.dtype.name in ("float64", "int8"):
        return [nothing]
    if problem.compute == "float32_fft":
        # cuDNN has Fourier transforms only for convolutions without an epilogue.
        alone = lower(problem, nothing, (True,) * (len(problem.inputs) + 1)).graphs[0]
        what = plain(alone)
        if what is not None and transforms_pay(what):
            return [nothing]
    found = [Way(True, False)] if bias and activation else []
    channels_last = problem.geometry.window.channels_last is not rearranged
    # In a fused graph, cuDNN's engines support factors of additions, but not of the convolution.
    has_factors = call.alpha == 1 or bias or call.beta
    if has_factors and is_exact and (channels_last or (bias and call.activation in (None, "relu"))):
        found.insert(len(found) if call.activation in _GENERIC_ALONE else 0, Way(bias, activation))
    return [*found, nothing]


def cudnn_layout(array: Layout, named_last: bool, channels_last: bool) -> Layout:
    """Return the layout of an array for cuDNN. cuDNN's engines have only been checked with these layouts.

    The array is packed, with channels innermost or right after N or K; a bias is contiguous. All operands of one
    convolution have their channels at the same position. With other strides cuDNN 9.19 wrote between the elements of a
    result, read kernels in the wrong order, and returned wrong gradients of kernels.

    Args:
        array: an image, kernels or a bias.
        named_last: whether channels are its last axis.
        channels_last: whether channels should be innermost in memory.
    """
    return packed(array) if array.ndim == 1 or named_last is channels_last else _moved(array, channels_last)


def is_proven(array: Layout, is_aligned: bool, wanted: Layout) -> bool:
    """Return whether cuDNN may read an array in place: it has the wanted layout and is aligned to 16 bytes.

    With less alignment, cuDNN 9.19's float32 gradients of kernels ended the CUDA context.
    """
    pairs = zip(array.shape, array.strides, wanted.strides, strict=True)
    return is_aligned and all(n == 1 or own == step for n, own, step in pairs)


def _places(problem: ConvProblem, rearranged: bool) -> list[tuple[Layout, Layout]]:
    """Return each input and the result with their layouts for cuDNN."""
    named_last = problem.geometry.window.channels_last
    every = (*problem.inputs, problem.out)
    return [(array, cudnn_layout(array, named_last, named_last is not rearranged)) for array in every]


def prefers_rearranged(problem: ConvProblem, aligned: Sequence[bool]) -> bool:
    """Return whether moving channels in memory (to innermost, or away from it) copies fewer bytes."""

    def copied(rearranged: bool) -> int:
        places = zip(_places(problem, rearranged), aligned, strict=True)
        return sum(array.nbytes for (array, wanted), starts in places if not is_proven(array, starts, wanted))

    return copied(True) < copied(False)


def lower(problem: ConvProblem, way: Way, aligned: Sequence[bool], rearranged: bool = False) -> LoweredConv:
    """Return a problem as a graph whose epilogue is `way`. Operands that fail `is_proven` are copied.

    Args:
        aligned: whether each operand starts at a multiple of 16 bytes, inputs first.
        rearranged: whether channels move in memory: away from innermost if the layout has them there, else to it.
    """
    channels_last = problem.geometry.window.channels_last is not rearranged
    places = _places(problem, rearranged)
    copies = tuple(
        (number, wanted)
        for number, ((array, wanted), starts) in enumerate(zip(places, aligned, strict=True))
        if not is_proven(array, starts, wanted)
    )
    arrays = [wanted for _, wanted in places]
    axes = (2, 3) if problem.geometry.window.dimensions == 1 else (0,)
    drawn = [_draw(problem, way, arrays, axis, channels_last) for axis in axes]
    where = ("channels last" if channels_last else "channels first") if rearranged else ""
    return LoweredConv(tuple(graph for graph, _ in drawn), drawn[0][1], copies, way, where)


def lower_other(other: Other, way: Way, aligned: Sequence[bool], rearranged: bool = False) -> LoweredConv:
    """Return a convolution as a graph of another convolution, whose epilogue is `way`.

    Args:
        aligned: alignment of the convolution's own operands.
        rearranged: as in `lower`.
    """
    arrays, made = (*other.problem.inputs, other.problem.out), other.made
    starts = [number in made.numbers or is_aligned for number, is_aligned in enumerate(aligned)]
    found = lower(other.problem, way, starts, rearranged)
    # Use the contiguous layouts, except where cuDNN needs another layout.
    every = {**{number: arrays[number] for number in made.numbers}, **dict(found.copies)}
    return found._replace(copies=tuple(sorted(every.items(), key=lambda pair: pair[0])), made=made)


def _moved(array: Layout, channels_last: bool) -> Layout:
    """Return the layout of a copy of an image or kernel with its channels moved in memory: to the end or the start."""
    order = [0, *range(2, array.ndim), 1] if channels_last else [0, array.ndim - 1, *range(1, array.ndim - 1)]
    steps = row_major_strides([array.shape[k] for k in order], array.itemsize)
    strides = dict(zip(order, steps, strict=True))
    return layout(array.shape, tuple(strides[k] for k in range(array.ndim)), array.dtype, array.device)


def packed(array: Layout, dtype: np.dtype[Any] | None = None) -> Layout:
    """Return the contiguous layout of an array, optionally with another dtype."""
    kind = array.dtype if dtype is None else dtype
    return layout(array.shape, row_major_strides(array.shape, int(kind.itemsize)), kind, array.device)


#: The largest magnitude of a product of int8, and the bound below which float32 represents all integers.
_PRODUCT, _EXACT = 2**14, 2**24


def widened(problem: ConvProblem, dtype: str = "") -> ConvProblem:
    """Return a convolution in wider floats, without bias and activation.

    These floats hold every sum of int8 and every product of 16-bit floats exactly, on tensor cores too.

    Args:
        dtype: the dtype of the floats; by default the shortest that suffices.
    """
    call, wants = problem.call, problem.wants
    alpha, beta, _ = problem.factors
    is_whole = call.a.dtype.kind == "i"
    terms = call.b.size // problem.geometry.filters
    name = dtype or ("float64" if is_whole and terms * _PRODUCT > _EXACT else "float32")
    a, b, out = (packed(array, np.dtype(name)) for array in (call.a, call.b, problem.out))
    return replace(
        problem,
        call=call._replace(a=a, b=b, bias=None, out=None, out_dtype=None, alpha=alpha, beta=beta, activation=None),
        out=out,
        compute=name,
        accumulator=name,
        wants=wants if is_whole else wants._replace(inputs="tf32"),
    )


def _image(array: Layout, channels_last: bool, lifted: int, innermost: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and the strides in elements of an array as cuDNN sees it: (N, C, *pixels).

    Args:
        channels_last: whether channels are its last axis.
        lifted: the axis before which an axis of length 1 is inserted; 0 for none.
        innermost: whether to describe channels as innermost in memory if there is only one.
    """
    shape, strides = list(array.shape), [step // array.itemsize for step in array.strides]
    order = list(range(array.ndim))
    if channels_last:
        order.insert(1, order.pop())
    shape, strides = [shape[k] for k in order], [strides[k] for k in order]
    if lifted:
        shape.insert(lifted, 1)
        strides.insert(lifted, 0)
    # The strides of axes of length 1 are arbitrary, but cuDNN's heuristics infer the layout from them.
    inner_first = [1, *range(len(shape) - 1, 1, -1), 0] if innermost else list(range(len(shape) - 1, -1, -1))
    reach = 1
    for k in inner_first:
        if shape[k] == 1:
            strides[k] = reach
        reach = max(reach, shape[k] * strides[k])
    return tuple(shape), tuple(strides)


def _spatial(problem: ConvProblem, lifted: int) -> Spatial:
    window = problem.geometry.window
    before, after = zip(*window.padding, strict=True)
    found = Spatial(window.stride, window.dilation, before, after, window.flip)
    if not lifted:
        return found

    def widened(numbers: tuple[int, ...], neutral: int) -> tuple[int, ...]:
        return (neutral, *numbers) if lifted == 2 else (*numbers, neutral)

    return Spatial(
        widened(found.stride, 1), widened(found.dilation, 1), widened(before, 0), widened(after, 0), window.flip
    )


def _draw(
    problem: ConvProblem, way: Way, arrays: Sequence[Layout], lifted: int, innermost: bool
) -> tuple[CudnnGraph, tuple[int, ...]]:
    """Return the graph, and the number of the operand for each of its tensors with memory."""
    call, last = problem.call, len(arrays) - 1
    draw, operands = Drawing(problem.accumulator), []

    def tensor(number: int) -> Place:
        array = arrays[number]
        if array.ndim == 1:
            rank = len(problem.geometry.y_shape) + bool(lifted)
            shape: tuple[int, ...] = (1, array.shape[0], *(1,) * (rank - 2))
            strides: tuple[int, ...] = (array.shape[0], *(1,) * (rank - 1))
        else:
            shape, strides = _image(array, problem.geometry.window.channels_last, lifted, innermost)
        operands.append(number)
        return draw.tensor(array.dtype.name, shape, strides)

    a, b = tensor(0), tensor(1)
    spatial = _spatial(problem, lifted)
    alpha, beta, _ = problem.factors
    if not (way.bias or way.activation):
        draw.convolve(call.direction, a, b, spatial, tensor(last), alpha=alpha, beta=beta)
        return draw.graph(), tuple(operands)
    bias = tensor(2) if way.bias else None
    before = tensor(last) if beta else None
    out = tensor(last)
    found = draw.convolve(call.direction, a, b, spatial, draw.like(out))
    following = _MODES[call.activation] if way.activation else []
    rest = int(bias is not None) + len(following) + int(before is not None)

    def target() -> Place | None:
        nonlocal rest
        rest -= 1
        return None if rest else out

    if before is not None:
        found = draw.pointwise("ADD", found, before, out=target(), alpha1=alpha, alpha2=beta)
    if bias is not None:
        factors: dict[str, Any] = {} if before is not None or alpha == 1 else {"alpha1": alpha}
        found = draw.pointwise("ADD", found, bias, out=target(), **factors)
    for mode, more in following:
        found = draw.pointwise(mode, found, out=target(), **more)
    return draw.graph(), tuple(operands)
