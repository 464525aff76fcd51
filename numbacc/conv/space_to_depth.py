"""Gradients of images with few channels, computed from images with many: the pixels within a stride become channels.

Tensor cores are efficient with many channels. With strides s and s', a < s and b < s', and lead = q s - z, 0 <= z < s,
let

    x'[n, i, j, (a, b, c)] = x[n, i s + a, j s' + b, c]
    w'[k, u, v, (a, b, c)] = w[k, u s + a - z, v s' + b - z', c]

and 0 outside of w. Then the convolution of x and w equals that of x' and w' without a stride, with padding q and q'
before:

    y[n, p, p', k] = Σ_(u, v) Σ_(a, b, c) x'[n, p + u - q, p' + v - q', (a, b, c)] w'[k, u, v, (a, b, c)]

Each element of x is an element of x', so the gradient of x is that of x', rearranged. ("Space to depth", Shi et al.
2016, arXiv:1609.07009, the inverse of their periodic shuffling.)
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from ..base.layout import Layout, layout, round_up, row_major_strides
from ..base.windows import Window
from ..kernels.conv.im2col_spec import WINDOW_LANES, WindowsSpec
from ..kernels.elementwise import copy
from .geometry import ConvGeometry
from .operand_copies import Copies, PartCopy, divided
from .problem import ConvProblem
from .windowed import FEW, GRADIENT, WindowWalk, executable, has_few_channels, is_counted, is_near

#: Products that an engine computes per tap and result, about: with at most _FOUR channels, and with more.
_FOUR, _ON_FOUR, _ON_MORE = 4, 8, 16
#: Without a measurement, this form is used if it needs fewer products than the engine, and as many products in total as
#: gradients of kernels by windows need: below that, launches dominate. With fewer kernels than _KERNELS, cuDNN's first
#: engine is its generic one, tens of times slower than others, so an eighth of these products is enough. Measured with
#: cuDNN 9.19 on an H200, for 64 images of 3 channels, without the copies of w and the result: 7 x 7 taps with stride 2
#: took 0.22 ms instead of 0.92, 3 x 3 with stride 2 0.08 instead of 0.24, 16 x 16 with stride 16 0.03 instead of 0.12.
#: Other numbers of channels were not measured.
_KERNELS = 16


def deepened(problem: ConvProblem) -> ConvProblem | None:
    """Return a gradient of images as one of deeper images, whose channels hold a whole stride; None if impossible.

    Its kernels and its result are packed, and take the operand numbers of w and of the gradient.
    """
    call, found = problem.call, problem.geometry
    window, size = found.window, call.b.itemsize
    if call.direction != "backward_data" or call.beta or not has_few_channels(problem):
        return None
    if max(window.stride) == 1 or max(window.dilation) > 1:
        return None
    spec, spare = _spec(found), _spare(window)
    taps = tuple(-(-(t + z) // s) for t, z, s in zip(found.taps, spare, window.stride, strict=True))
    lengths = tuple(-(-n // s) for n, s in zip(found.lengths, window.stride, strict=True))
    before = tuple((lead + z) // s for (lead, _), z, s in zip(window.padding, spare, window.stride, strict=True))
    after = tuple(p - 1 + t - n - q for p, t, n, q in zip(found.places, taps, lengths, before, strict=True))
    if min(after) < 0 or prod(taps) * spec.pitch > 2 * _spent(found):
        # No window reaches the last stride, or this form needs more than twice the products of an engine.
        return None
    geometry = ConvGeometry(
        layout=found.layout,
        window=Window((1, 1), tuple(zip(before, after, strict=True)), (1, 1), 1, False, True),
        x_shape=(found.batch, *lengths, spec.pitch),
        w_shape=(found.filters, *taps, spec.pitch),
        y_shape=found.y_shape,
    )
    kernels, result = (
        layout(shape, row_major_strides(shape, size), call.b.dtype, call.b.device)
        for shape in (geometry.w_shape, geometry.x_shape)
    )
    reach = tuple(t + z for t, z in zip(found.taps, spare, strict=True))
    if not (is_counted(kernels) and is_near(call.b, spec, reach)):
        return None
    changed = call._replace(b=kernels, shape=geometry.x_shape, out=None)
    return replace(problem, call=changed, geometry=geometry, out=result)


def is_faster(problem: ConvProblem, other: ConvProblem) -> bool:
    """Return whether a gradient is computed in the form of `deepened` without a measurement."""
    found = problem.geometry
    depth, products = prod(other.geometry.w_shape[1:]), prod(found.y_shape) * FEW * prod(found.taps)
    return depth < _spent(found) and products >= (GRADIENT if found.filters >= _KERNELS else GRADIENT // 8)


def _spec(found: ConvGeometry) -> WindowsSpec:
    down, across = found.window.stride
    count = down * across * found.channels
    return WindowsSpec(down, across, found.channels, round_up(count, WINDOW_LANES))


def _spent(found: ConvGeometry) -> int:
    return (_ON_FOUR if found.channels <= _FOUR else _ON_MORE) * prod(found.taps)


def _spare(window: Window) -> tuple[int, ...]:
    """Return the zeros before kernels that extend the padding before an image to whole strides."""
    return tuple(-lead % s for (lead, _), s in zip(window.padding, window.stride, strict=True))


class Deepened(Copies):
    """The copies for a gradient of images that is computed as one of deeper images."""

    name, title, numbers = "space to depth", "of deeper images", (1, 2)

    def __init__(self, problem: ConvProblem):
        window = problem.geometry.window
        self._strides, self._channels = window.stride, problem.geometry.channels
        (down, across), (above, beside) = window.stride, _spare(window)
        steps, lead = (down, across, 1), (above, beside)
        self._kernels = WindowWalk(_spec(problem.geometry), steps, lead, is_flipped=window.flip)

    def into(self, number: int, own: Layout, dense: Layout) -> list[PartCopy]:
        """Return the copies of an operand; see `Copies.into`."""
        return [PartCopy(executable(own, dense, self._kernels))] if number == 1 else super().into(number, own, dense)

    def back(self, number: int, dense: Layout, own: Layout) -> list[PartCopy]:
        """Return the copies of the result: whole strides, and remaining rows and columns; see `Copies.back`."""
        (down, across), channels = self._strides, self._channels
        (images, height, width, _), (first, row, column, channel) = own.shape, own.strides
        size, (image, up, left, _) = own.itemsize, dense.strides
        parts = []
        for (i, rows, tall), (j, columns, wide) in product(divided(height, down), divided(width, across)):
            shape = (images, rows, tall, columns, wide, channels)
            inner = (across * channels * size, left, channels * size, size)
            source = layout(shape, (image, up, *inner), own.dtype, own.device)
            steps = (first, down * row, row, across * column, column, channel)
            target = layout(shape, steps, own.dtype, own.device)
            offsets = i * up + j * left, i * down * row + j * across * column
            parts.append(PartCopy(copy.executable(source, target), offsets))
        return parts
