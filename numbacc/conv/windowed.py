"""Convolutions of images with few channels, computed as convolutions of many: the pixels of a window become channels.

Tensor cores are efficient with many channels. Let a count the rows from one window to the next, t the taps in a row,
and c the channels. Then

    x'[n, i, j, (a, t, c)] = x[n, i s + a - lead, j s' + t d' - lead', c]
    w'[k, u, 0, (a, t, c)] = w[k, u s + a, t, c]
    y[n, i, j, k] = Σ_u Σ_(a, t, c) x'[n, i + u, j, (a, t, c)] w'[k, u, 0, (a, t, c)]

where s, s' are the strides and d' the dilation along a row. This is a convolution without stride and padding. Its
kernels are one column of taps, with one tap for every s rows of w. Elements outside of x or w are 0, and so are the
channels that round their number up. The gradient of w is part of that of w'.

If the number of rows of w is not a multiple of s, the last tap multiplies rows of x by the zeros after w: an infinity
or NaN in these rows makes the result NaN, although its window ends before them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

from ..base.layout import Layout, element_steps, layout, round_up, row_major_strides
from ..base.windows import Window
from ..kernels.conv.im2col_spec import WINDOW_LANES, WINDOW_THREADS, WindowsSpec
from ..kernels.elementwise import copy
from ..kernels.elementwise.geometry import Pairs
from ..kernels.elementwise.launch import MapExecutable, MapTask, moved
from ..runtime.launch_order import LaunchOrder
from .geometry import ConvGeometry
from .operand_copies import Copies, PartCopy
from .problem import ConvProblem

#: With this many channels or more, engines for 16 bits read 16 bytes of each element.
FEW = 8
#: Above this number, channels are rounded up to a multiple of it, so that tensor core engines work in whole steps.
#: Engines for fewer channels are slow.
_CHANNELS = 32
#: Rows that a thread writes: more rows amortize the computation of their addresses.
_ROWS = 8
#: A bound on rows, columns, threads and steps within an image: 32 bits count them, with a margin for positions around
#: an image.
_LENGTH = 2**30
#: Channels -> products that an engine computes per tap and result in the forward pass, about. For fewer than 8 kernels
#: of one channel, cuDNN's best engine is the one for two channels.
_SPENT = {1: 4, 2: 8, 3: 8, 4: 8, 5: 16, 6: 16, 7: 16}
#: Without a measurement, this form is used if an engine computes at least _TIMES as many products on the original
#: channels and if _SPARED products are saved, about 4 µs of work. A gradient of kernels needs GRADIENT products of 8
#: channels. Below these bounds launches dominate; the cost of the copies hardly matters. This was measured with cuDNN
#: 9.19 on an H200, with 1 to 7 channels, 1 to 1024 kernels of 3 x 3 to 16 x 16 taps, and 1 to 1024 images. ResNet's
#: first layer (64 images of 3 channels, 64 kernels of 7 x 7, stride 2) took 0.37 of its original time, and its gradient
#: of kernels 0.46.
_TIMES, _SPARED, GRADIENT = 1.25, 2**27, 2**29


class WindowWalk(NamedTuple):
    """Which elements of an image become channels. Kernels are treated as images with one column of windows.

    Attributes:
        spec: the kernel's spec.
        window: rows and columns from one window to the next, and columns from tap to tap.
        lead: rows and columns of zeros before the first.
        is_flipped: whether rows and columns are counted from the last.
    """

    spec: WindowsSpec
    window: tuple[int, int, int]
    lead: tuple[int, int] = (0, 0)
    is_flipped: bool = False


def windowed(problem: ConvProblem) -> ConvProblem | None:
    """Return a convolution, or a gradient of kernels, with windows as channels; None if that is impossible.

    Its image and its kernels are packed, and take the operand numbers of x and w.
    """
    call, found = problem.call, problem.geometry
    window, size = found.window, call.a.itemsize
    if call.direction == "backward_data" or not has_few_channels(problem):
        return None
    spec, (height, _), (high, wide) = _spec(found), found.taps, found.places
    if height > 1 and window.dilation[0] > 1:
        return None
    taps = -(-height // spec.rows)
    geometry = ConvGeometry(
        layout=found.layout,
        window=Window((1, 1), ((0, 0), (0, 0)), (1, 1), 1, False, True),
        x_shape=(found.batch, high + taps - 1, wide, spec.pitch),
        w_shape=(found.filters, taps, 1, spec.pitch),
        y_shape=found.y_shape,
    )
    image, kernels = (
        layout(shape, row_major_strides(shape, size), call.a.dtype, call.a.device)
        for shape in (geometry.x_shape, geometry.w_shape)
    )
    is_gradient = call.direction == "backward_filter"
    lengths = window.padded(found.lengths)
    if max(lengths) >= _LENGTH or not (is_counted(image) and is_counted(kernels)):
        return None
    if not (is_near(call.a, spec, lengths) and is_near(problem.out if is_gradient else call.b, spec, found.taps)):
        return None
    if is_gradient:
        return replace(problem, call=call._replace(a=image), geometry=geometry, out=kernels)
    return replace(problem, call=call._replace(a=image, b=kernels), geometry=geometry)


def has_few_channels(problem: ConvProblem) -> bool:
    """Return whether a 16-bit image has so few channels that its pixels should become channels."""
    found, dtype = problem.geometry, problem.call.a.dtype
    window = found.window
    is_flat = window.dimensions == 2 and window.channels_last and window.groups == 1
    return dtype.name in ("float16", "bfloat16") and found.channels < FEW and is_flat


def is_faster(problem: ConvProblem, other: ConvProblem) -> bool:
    """Return whether a convolution is computed in the form of `windowed` without a measurement."""
    own, its = problem.geometry, other.geometry
    taps, depth = prod(own.taps), prod(its.w_shape[1:])
    results = prod(own.y_shape)
    if problem.call.direction == "backward_filter":
        return depth < FEW * taps and results * FEW * taps >= GRADIENT
    each = FEW if own.channels == 1 and own.filters < FEW else _SPENT[own.channels]
    spent, needed = taps * each, its.taps[0] * round_up(its.channels, _CHANNELS)
    return spent >= _TIMES * needed and results * (spent - needed) >= _SPARED


def _spec(found: ConvGeometry) -> WindowsSpec:
    rows, columns = min(found.taps[0], found.window.stride[0]), found.taps[1]
    count = rows * columns * found.channels
    pitch = round_up(count, WINDOW_LANES if count <= _CHANNELS else _CHANNELS)
    return WindowsSpec(rows, columns, found.channels, pitch)


def _threads(target: Layout) -> int:
    """Return the number of threads that write the array."""
    images, rows, columns, pitch = target.shape
    return images * -(-rows // _ROWS) * columns * (pitch // WINDOW_LANES)


def is_counted(target: Layout) -> bool:
    """Return whether 32 bits count the threads that write windows as channels."""
    return _threads(target) < _LENGTH


def is_near(array: Layout, spec: WindowsSpec, lengths: tuple[int, ...]) -> bool:
    """Return whether 32 bits hold all offsets in an image of these lengths, including its padding."""
    if any(step % array.itemsize for step in array.strides):
        return False
    _, row, column, channel = map(abs, element_steps(array))
    return max(lengths[0], spec.rows) * row + lengths[1] * column + spec.channels * channel < _LENGTH


class Windowed(Copies):
    """The copies for a convolution, or a gradient of kernels, that is computed with windows as channels."""

    name, title = "windows as channels", "of windows"

    def __init__(self, problem: ConvProblem):
        found, window = problem.geometry, problem.geometry.window
        self._spec, self._taps = _spec(found), found.taps
        (down, across), (_, apart), (top, left) = window.stride, window.dilation, (side[0] for side in window.padding)
        image = WindowWalk(self._spec, (down, across, apart), (top, left))
        kernels = WindowWalk(self._spec, (self._spec.rows, 1, 1), is_flipped=window.flip)
        self._walks = {0: image, problem.kernels: kernels}
        self.numbers = (0, problem.kernels)
        self._is_flipped = window.flip

    def into(self, number: int, own: Layout, dense: Layout) -> list[PartCopy]:
        """Return the copies of an operand; see `Copies.into`."""
        walk = self._walks.get(number)
        return super().into(number, own, dense) if walk is None else [PartCopy(executable(own, dense, walk))]

    def back(self, number: int, dense: Layout, own: Layout) -> list[PartCopy]:
        """Return the copies of the result: kernels in two parts if the last taps do not fill a window's rows."""
        if number not in self._walks:
            return super().back(number, dense, own)
        (height, width), each = self._taps, self._spec.rows
        steps, start = _counted(own, self._is_flipped)
        filters, down, aside, along = (own.itemsize * step for step in steps)
        size, (row, _) = own.itemsize, dense.strides[1:3]
        inner = (self._spec.channels * width * size, self._spec.channels * size, size)
        parts = []
        for first, count, rows in ((0, height // each, each), (height // each, 1, height % each)):
            if rows:
                shape = (own.shape[0], count, rows, width, self._spec.channels)
                source = layout(shape, (dense.strides[0], row, *inner), own.dtype, own.device)
                target = layout(shape, (filters, each * down, down, aside, along), own.dtype, own.device)
                offsets = first * row, start * size + first * each * down
                parts.append(PartCopy(copy.executable(source, target), offsets))
        return parts


def _counted(array: Layout, is_flipped: bool) -> tuple[list[int], int]:
    """Return an array's strides in elements, and the offset of its first element, counted from the last if flipped."""
    first, row, column, channel = element_steps(array)
    if not is_flipped:
        return [first, row, column, channel], 0
    return [first, -row, -column, channel], (array.shape[1] - 1) * row + (array.shape[2] - 1) * column


def executable(source: Layout, target: Layout, walk: WindowWalk) -> MapExecutable:
    """Return the executable that writes windows as packed channels."""
    return moved("conv", source, target, partial(_make_order, walk))


def _make_order(walk: WindowWalk, task: MapTask, key: tuple[int, ...], pairs: Pairs) -> LaunchOrder:
    """Make the launch order, as `geometry.make_order` does. The target is scratch memory, so `pairs` are unused."""
    (source,), (target,) = task.inputs, task.outputs
    steps, start = _counted(source, walk.is_flipped)
    images, rows, columns, _ = target.shape
    return LaunchOrder(
        kernel=walk.spec,
        device=target.device,
        grid=(-(-_threads(target) // WINDOW_THREADS), 1),
        block=(WINDOW_THREADS, 1),
        alignment=key,
        pointers=((0, 0), (1, 0)),
        constants=(
            *(*steps, start),
            *source.shape[1:3],
            *(*walk.window, *walk.lead),
            *(images, rows, columns, -(-rows // _ROWS), _ROWS),
        ),
        pairs=(),
    )
