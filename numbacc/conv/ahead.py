"""The convolutions that `python -m numbacc compile` compiles kernels for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from ..base.dtypes import FLOATS
from ..base.layout import Layout, layout
from ..kernels.elementwise import copy
from ..kernels.elementwise.launch import MapExecutable
from ..reference.conv import ACTIVATIONS
from ..runtime.operation import Operation
from .convolving import backward_data, backward_filter, forward
from .depthwise import is_ours
from .lowering import copies, others, ways, widened
from .operand_copies import copied
from .plans import ConvPlan, converted
from .problem import ConvCall, ConvProblem, activations_of, resolve

#: Sides of an image: with the first, the size of a channel is a multiple of 16 bytes; with the second, it is not.
_SIDES = (56, 7)
#: Shapes of x and w, with their layout.
_IMAGES = [
    given
    for side in _SIDES
    for given in (
        ((8, 64, side, side), (64, 64, 1, 1), "NCHW"),
        ((8, side, side, 64), (64, 1, 1, 64), "NHWC"),
    )
]

#: Taps along each side, and strides, of typical first layers of image networks.
_FIRST_LAYERS = ((7, 2), (3, 2), (3, 1), (14, 14), (16, 16))


def everyday_conv(dense: Callable[..., Layout]) -> Iterator[Operation]:
    """Yield the operations that numbacc's kernels run around everyday convolutions.

    They are the epilogues that cuDNN leaves to numbacc; conversions around int8 convolutions; depthwise convolutions;
    and copies: of misaligned operands, of 16-bit images to channels last and back, of kernels for gradients that run as
    convolutions, and of images with few channels.
    """
    for dtype, (shape, kernels, order) in product(FLOATS, _IMAGES):
        yield from _around(forward.request(shape, kernels, dtype=dtype, bias=True, layout=order).problem.call)
    for (shape, kernels, order), result in product(_IMAGES, ("int32", "float32")):
        asked = forward.request(shape, kernels, dtype="int8", bias=True, layout=order, out_dtype=result)
        yield from _around(asked.problem.call)
    yield from map(ConvPlan, _depthwise())
    for layout_of_images, taps in product(("NCHW", "NHWC"), (3, 5)):
        shape, kernels = ((8, 64, 56, 56), (64, 64, taps, taps))
        if layout_of_images == "NHWC":
            shape, kernels = ((8, 56, 56, 64), (64, taps, taps, 64))
        yield from _moved(backward_data.request(shape, kernels, layout=layout_of_images).problem)
    for channels, (taps, stride) in product((1, 3, 4), _FIRST_LAYERS):
        shape, kernels = (8, 224, 224, channels), (64, taps, taps, channels)
        for each in (forward, backward_filter, backward_data)[: 2 + (stride > 1)]:
            asked = each.request(shape, kernels, dtype="float16", layout="NHWC", stride=stride)
            yield from _moved(asked.problem)
    first, (count, pixel, channel) = dense((8, 64, 49), "float16"), dense((8, 49, 64), "float16").strides
    last = layout(first.shape, (count, channel, pixel), first.dtype, first.device)
    yield copied(first, last, "gather")
    yield copied(last, first, "scatter")
    for size in (1, 2, 4, 8):
        for lengths in ((8, 64, _SIDES[0], _SIDES[0]), (64,)):
            array = dense(lengths, f"uint{8 * size}")
            copy.executable(array, array).choose((size, 0))


def _moved(problem: ConvProblem) -> Iterator[Operation]:
    """Yield the copies of operands for a convolution that is computed as another one."""
    for other in others(problem):
        yield from copies(problem, other)


def _depthwise() -> Iterator[ConvCall]:
    """Yield convolutions of 3 x 3 taps in all directions, with few outputs and with many.

    With channels last, they have all epilogues.
    """
    for dtype, batch, stride in product(FLOATS, (1, 256), (1, 2)):
        options = {"dtype": dtype, "groups": 64, "padding": 1, "stride": stride}
        shapes = (batch, 64, 56, 56), (64, 1, 3, 3)
        for each in (forward, backward_data, backward_filter):
            yield each.request(*shapes, **options).problem.call
        shapes = (batch, 56, 56, 64), (64, 3, 3, 1)
        options |= {"layout": "NHWC"}
        found = [each.request(*shapes, **options) for each in (forward, backward_data, backward_filter)]
        if stride == 1:
            asked = partial(forward.request, *shapes, **options)
            found += [asked(bias=bias, activation=name) for bias in (False, True) for name in (None, *ACTIVATIONS)]
        yield from (each.problem.call for each in found if is_ours(each.problem))


def _around(call: ConvCall) -> Iterator[MapExecutable]:
    """Yield numbacc's kernels after a convolution, and around one of int8.

    They cover each activation, with and without a bias, and every part of the epilogue that cuDNN may fuse.
    """
    problem = resolve(call)
    for activation, bias in product((None, *activations_of(problem.out)), (None, call.bias)):
        plan = ConvPlan(call._replace(activation=activation, bias=bias))
        for way in ways(plan.problem):
            yield from (step.executable for step in plan._behind(way))
    if call.a.dtype.name == "int8":
        for name in ("float32", "float64"):
            other = widened(problem, name)
            yield from map(converted, (*problem.inputs[:2], other.out), (*other.inputs, problem.out))
