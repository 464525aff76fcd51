"""Depthwise convolutions with numbacc's own kernels: which convolutions they support, and how they are launched.

The kernels move each element once. With few taps, they take no longer than this transfer. cuDNN's first plans for the
same convolutions take up to forty times as long.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import gcd, prod
from typing import Any, NamedTuple

from ..base.dispatch import launcher_class
from ..base.dtypes import TABLE
from ..base.layout import Layout, element_steps
from ..kernels.conv.depthwise_spec import COMBINE_PARTS, DEPTHWISE_THREADS, DepthwiseSpec
from ..kernels.elementwise.geometry import power_of_two
from ..kernels.elementwise.launch import LaunchExecutable
from ..runtime.launch_order import VECTOR_BYTES, LaunchOrder
from ..runtime.steps import Scratch, Step
from .problem import ConvProblem

#: The most taps of a kernel: the work for each tap is unrolled.
_TAPS = 49
#: The longest stride of a gradient of the input: a tile has the same length.
_STRIDE = 4
#: A bound on outputs, rows and columns: 32 bits count them, with a margin for positions around an image.
_LENGTH = 2**30
#: Bytes of channels that neighbouring threads read together: a cache line of a GPU.
_LINE = 128
#: The fewest bytes of an access to images: with narrower ones numbacc's kernels are slow.
_NARROWEST = 8
#: The most bytes of an access in gradients of kernels, where a thread keeps the sums of all taps for each channel; and
#: the most 32-bit registers for these sums, while accesses are at least a word wide.
_SUMS_BYTES, _SUMS = 8, 64
#: Rows and columns of a tile: the most; with few threads; in gradients of kernels; and in images of one row.
_TILE, _SMALL, _SHARED, _ROW = (8, 4), (2, 4), (4, 4), (1, 8)
#: Rows of a tile of planar kernels: the most, with few threads or wide accesses, and in gradients of kernels whose
#: columns are accessed one by one. Columns: of one access at most, of two, and where columns are accessed one by one.
_PLANAR_ROWS, _PLANAR_SMALL, _PLANAR_LONG, _PLANAR_COLUMNS, _PLANAR_FLAT, _PLANAR_SINGLE = 4, 2, 8, 4, 8, 2
#: A tile has many rows only if kernels have at most this many rows of taps.
_OVERLAP = 3
#: Threads that keep an H200 busy, and the channels of each.
_BUSY, _THREAD_CHANNELS = 100_000, 4
#: Blocks that keep an H200 busy, and the tiles that a thread processes if there are more.
_BLOCKS, _ROUNDS = 2112, 4
#: The approximate number of partial gradients of kernels that blocks compute before they are added.
_SHARES = 1056


class Axis(NamedTuple):
    """How tiles cover rows or columns: see `kernels.conv.depthwise`.

    Attributes:
        tile: outputs in a tile.
        tiles: number of tiles.
        advance, begin, lead: as in `kernels.conv.depthwise`.
    """

    tile: int
    tiles: int
    advance: int
    begin: int
    lead: int


class ElementSteps(NamedTuple):
    """The strides of an array in elements; 0 along axes of length 1, and along missing rows.

    Attributes:
        first: along N, or along K for kernels.
        row, column, channel: along the axis of this name.
    """

    first: int
    row: int
    column: int
    channel: int


def launches(
    problem: ConvProblem, pairs: Sequence[tuple[int, ...]], scratch: Scratch, alignment: tuple[int, ...]
) -> list[Step]:
    """Return the launches of a depthwise convolution.

    Args:
        problem: any convolution.
        pairs: as in `LaunchOrder`, of all operands; used if there is only one launch.
        scratch: receives the scratch memory that they need.
        alignment: the addresses of all operands modulo 16: 0 unless the convolution `is_planar`.

    Returns:
        One launch on the problem's operands, or several steps. An empty list leaves the convolution to cuDNN.
    """
    if not is_ours(problem):
        return []
    if problem.call.direction == "backward_filter":
        return _filter(problem, scratch, alignment)
    return _convolve(problem, pairs, alignment)


def is_planar(problem: ConvProblem) -> bool:
    """Return whether columns are contiguous in both images, and channels are not. Then any alignment is supported."""
    return not _width(problem) and _has_columns(problem)


def is_ours(problem: ConvProblem) -> bool:
    """Return whether numbacc's depthwise kernels compute a problem, given aligned operands."""
    found, call = problem.geometry, problem.call
    window = found.window
    if call.a.dtype.kind == "i" or not window.groups == found.channels == found.filters or window.dimensions > 2:
        return False
    if _has_kernel_of_cudnn(problem):
        return False
    numbers = (*window.padded(found.lengths), *(found.batch * prod(n) for n in (found.lengths, found.places)))
    strides = window.stride if call.direction == "backward_data" else ()
    return (
        max(numbers) < _LENGTH
        and prod(found.taps) <= _TAPS
        and max(strides, default=1) <= _STRIDE
        and (_width(problem) > 0 or _has_columns(problem))
    )


def _has_kernel_of_cudnn(problem: ConvProblem) -> bool:
    """Return whether cuDNN has a dedicated kernel for this case. It took 0.94 of numbacc's time on an H200 (9.19)."""
    found, call = problem.geometry, problem.call
    window = found.window
    return (
        call.direction != "backward_filter"
        and call.a.itemsize == 2
        and found.taps == (3, 3)
        and {*window.stride, *window.dilation} == {1}
        and call.bias is call.activation is None
        and (call.alpha, call.beta) == (1, 0)
        and not is_planar(problem)
    )


def _steps(problem: ConvProblem, array: Layout) -> ElementSteps:
    first, channel, spatial = problem.geometry.window.parted(element_steps(array))
    row, column = (0, *spatial)[-2:]
    return ElementSteps(first, row, column, channel)


def _width(problem: ConvProblem) -> int:
    """Return how many neighbouring channels a thread may process, at most; 0 if they are too few."""
    size = problem.out.itemsize
    # The accumulators of all channels of a thread fill 16 bytes.
    width = gcd(VECTOR_BYTES // TABLE[problem.accumulator].itemsize, problem.geometry.channels)
    for array in problem.images:
        found = _steps(problem, array)
        if found.channel != 1 or any(step % size for step in array.strides):
            return 0
        width = gcd(width, found.first, found.row, found.column)
    return width if width * size >= _NARROWEST else 0


def _has_columns(problem: ConvProblem) -> bool:
    """Return whether columns are contiguous in both images."""
    size = problem.out.itemsize
    images = problem.images
    is_whole = all(step % size == 0 for array in images for step in array.strides)
    return is_whole and all(_steps(problem, array).column in (0, 1) for array in images)


def _pairs(numbers: Sequence[int], neutral: int) -> tuple[int, int]:
    """Return the numbers of rows and columns, with a neutral number for missing rows."""
    rows, columns = (neutral, *numbers)[-2:]
    return rows, columns


class DepthwiseWalk:
    """The parameters of the depthwise kernels for a problem.

    Attributes:
        planar: as in `DepthwiseSpec`.
        is_flipped: whether taps are counted from the last.
        upward: as in `DepthwiseSpec`.
        axes: rows and columns.
        width, across, blocks: channels of a thread, neighbouring threads, and neighbouring blocks.
        tiles: number of all tiles.
        groups: number of groups of tiles; a block processes one group at once.
    """

    def __init__(self, problem: ConvProblem, width: int, alignment: tuple[int, ...]):
        found, direction = problem.geometry, problem.call.direction
        window = found.window
        self.problem, self.planar = problem, not width
        self.taps, self.stride = _pairs(found.taps, 1), _pairs(window.stride, 1)
        self.dilation = _pairs(window.dilation, 1)
        lead = _pairs([before for before, _ in window.padding], 0)
        lengths = found.lengths if direction == "backward_data" else found.places
        places = _pairs(lengths, 1)
        self.upward = direction == "backward_data" and max(self.stride) > 1
        self.is_flipped = window.flip
        if direction == "backward_data" and not self.upward:
            # Without a stride, this gradient is a convolution with the taps in the opposite order.
            self.is_flipped = not window.flip
            lead = _pairs([(r - 1) * d - n for r, d, n in zip(self.taps, self.dilation, lead, strict=True)], 0)
        self.span = self._span(alignment) if self.planar else 1
        self.lead = lead[1] % self.span
        self.tile = self._tile(places)
        self.axes = tuple(self._axis(*each) for each in zip(self.tile, places, self.stride, lead, strict=True))
        self.tiles = found.batch * self.axes[0].tiles * self.axes[1].tiles
        self.width, channels = width or 1, -(-found.channels // (width or 1))
        self.across = min(power_of_two(channels), self._most_across())
        self.blocks = -(-channels // self.across)
        self.groups = -(-self.tiles // (DEPTHWISE_THREADS // self.across))

    def _most_across(self) -> int:
        """Return an upper bound for `across`."""
        if not self.planar:
            return max(_LINE // (self.width * self.problem.out.itemsize), 1)
        if self.problem.call.direction == "backward_filter":
            return 1  # the threads of a block add up the sums of one channel
        # If a channel has few tiles, a block handles several channels.
        return max(power_of_two(DEPTHWISE_THREADS // self.tiles + 1) // 2, 1) if self.tiles else 1

    def _tile(self, places: tuple[int, int]) -> tuple[int, int]:
        """Return rows and columns of a tile. Larger tiles load fewer elements, but need more registers and threads."""
        if self.planar:
            return self._planar_tile(places)
        if self.problem.call.direction == "backward_filter":
            most = _ROW if places[0] == 1 else _SHARED
            rows, columns = (max(k for k in range(1, n + 1) if not p % k) for n, p in zip(most, places, strict=True))
            return rows, columns
        if self.upward:
            rows, columns = (s * max(n // s, 1) for n, s in zip(_SMALL, self.stride, strict=True))
            return rows, columns
        if places[0] == 1:
            return _ROW
        # With large kernels, a thread would have too many rows in flight at once.
        is_small = self.taps[0] <= _OVERLAP and max(*self.stride, self.dilation[0]) == 1
        threads = prod(self.problem.out.shape) // (prod(_TILE) * _THREAD_CHANNELS)
        if not is_small or threads < _BUSY:
            return _SMALL
        rows = min(range(_TILE[0], _TILE[0] // 2, -1), key=lambda n: -(-places[0] // n) * n)
        return rows, _TILE[1]

    def _span(self, alignment: tuple[int, ...]) -> int:
        """Return how many adjacent columns of both images one access may load or store."""
        call = self.problem.call
        images = self.problem.images
        numbers = (0, 1) if call.direction == "backward_filter" else (0, len(self.problem.inputs))
        span = min(VECTOR_BYTES // self.problem.out.itemsize, _PLANAR_COLUMNS)
        for image, number in zip(images, numbers, strict=True):
            steps = _steps(self.problem, image)
            start = alignment[number] // image.itemsize
            span = gcd(span, self.sizes(image)[1], steps.first, steps.row, steps.channel, start)
        if self.upward:
            return 1  # tiles begin before the image
        # With a stride, a thread needs twice the elements. In gradients of kernels it also sums more taps with each.
        return min(span, 2) if max(self.stride) > 1 and call.direction == "forward" else span

    def _planar_tile(self, places: tuple[int, int]) -> tuple[int, int]:
        """Return the tile of a planar kernel: few columns, so that adjacent threads access adjacent memory."""
        is_flat, size = places[0] == 1 or self.taps[0] == 1, self.problem.out.itemsize
        rows, columns = _PLANAR_ROWS, self.span
        if is_flat:
            rows, columns = 1, _PLANAR_FLAT if self.span == _PLANAR_COLUMNS else _PLANAR_COLUMNS
        elif self.span == 1:
            columns = _PLANAR_SINGLE
        if self.problem.call.direction == "backward_filter":
            if not is_flat and self.span == 1:
                rows = _PLANAR_LONG
            # A tile is completely inside dy.
            rows = max(k for k in range(1, rows + 1) if not places[0] % k)
            return rows, max(k for k in range(self.span, columns + 1, self.span) if not places[1] % k)
        if prod(self.problem.out.shape) // (rows * columns) < _BUSY:
            rows, columns = min(rows, _PLANAR_SMALL), self.span
        if self.upward:
            rows, columns = (s * max(n // s, 1) for n, s in zip((rows, columns), self.stride, strict=True))
            return rows, columns
        is_wide = self.span * size == VECTOR_BYTES and self.span == _PLANAR_COLUMNS
        if not is_flat and self.taps[0] <= _OVERLAP and (is_wide or max(self.stride) > 1):
            rows = min(rows, _PLANAR_SMALL)
        return min(range(rows, rows // 2, -1), key=lambda k: -(-places[0] // k) * k), columns

    def _axis(self, tile: int, places: int, stride: int, lead: int) -> Axis:
        if not self.upward:
            return Axis(tile, -(-places // tile), tile * stride, -lead, 0)
        before = lead % stride
        return Axis(tile, -(-(places + before) // tile), tile // stride, lead // stride, before)

    def each(self, name: str) -> tuple[int, int]:
        """Return an attribute of both axes."""
        rows, columns = (getattr(axis, name) for axis in self.axes)
        return rows, columns

    def spec(self, algorithm: str, **more: Any) -> DepthwiseSpec:
        call = self.problem.call
        return DepthwiseSpec(
            algorithm,
            call.a.dtype.name,
            self.problem.accumulator,
            self.taps,
            scaled=call.alpha != 1 or bool(call.beta),
            adds=bool(call.beta),
            planar=self.planar and algorithm != "combine",
            span=1 if algorithm == "combine" else self.span,
            lead=0 if algorithm == "combine" else self.lead,
            **more,
        )

    def weights(self, array: Layout) -> tuple[int, int, int, int]:
        """Return the offset of a kernel's first tap, and the steps between channels, rows and taps."""
        steps = _steps(self.problem, array)
        if not self.is_flipped:
            return 0, steps.first, steps.row, steps.column
        last = (self.taps[0] - 1) * steps.row + (self.taps[1] - 1) * steps.column
        return last, steps.first, -steps.row, -steps.column

    def sizes(self, array: Layout) -> tuple[int, int]:
        """Return the rows and columns of an image."""
        return _pairs(self.problem.geometry.window.parted(array.shape)[2], 1)

    def steps(self) -> tuple[int, ...]:
        """Return the strides of both images: along N, rows and columns, and in planar kernels along channels."""
        return tuple(n for image in self.problem.images for n in _steps(self.problem, image)[: 3 + self.planar])

    @property
    def counts(self) -> tuple[int, ...]:
        return self.tiles, *self.each("tiles"), self.problem.geometry.channels


def _convolve(problem: ConvProblem, pairs: Sequence[tuple[int, ...]], alignment: tuple[int, ...]) -> list[Step]:
    call, last = problem.call, len(problem.inputs)
    walk = DepthwiseWalk(problem, _width(problem), alignment)
    spec = walk.spec(
        "convolve",
        stride=walk.stride,
        dilation=walk.dilation,
        upward=walk.upward,
        tile=walk.tile,
        width=walk.width,
        across=walk.across,
        activation=call.activation or "",
        biased=call.bias is not None,
    )
    rounds = min(max(walk.groups * walk.blocks // _BLOCKS, 1), _ROUNDS)
    bias = 0 if call.bias is None else call.bias.strides[0] // call.bias.itemsize
    numbers = (*range(last), *[last] * spec.adds, last)
    images = problem.images
    constants = (
        *walk.steps(),
        *walk.weights(call.b),
        bias,
        *(n for image in images for n in walk.sizes(image)),
        *(n for name in ("advance", "begin", "lead") for n in walk.each(name)),
        *walk.counts,
        *(walk.blocks, rounds),
        *_factors(problem),
    )
    blocks = -(-walk.groups // rounds) * walk.blocks
    launch = _launch(spec, problem.out.device, blocks, alignment, numbers, constants, pairs)
    return [Step(launch, tuple(range(last + 1)))]


def _filter(problem: ConvProblem, scratch: Scratch, alignment: tuple[int, ...]) -> list[Step]:
    found, out = problem.geometry, problem.out
    size, taps = TABLE[problem.accumulator].itemsize, prod(found.taps)
    width = min(_width(problem), max(_SUMS_BYTES // out.itemsize, 1))
    while taps * width * size > 4 * _SUMS and width * out.itemsize > 4 and width > 1:
        width //= 2
    walk = DepthwiseWalk(problem, width, alignment)
    each, limit = taps * found.channels * size, problem.wants.workspace_limit or 0
    shares = min(-(-_SHARES // walk.blocks), walk.groups, limit // each)
    if not shares:
        return []
    rounds = -(-walk.groups // shares)
    shares = -(-walk.groups // rounds)
    spec = walk.spec(
        "filter", stride=walk.stride, dilation=walk.dilation, tile=walk.tile, width=walk.width, across=walk.across
    )._replace(scaled=False, adds=False)
    images = problem.images
    part = 3 + scratch.part(shares * each)
    constants = (
        *walk.steps(),
        *(n for image in images for n in walk.sizes(image)),
        *(n for name in ("advance", "begin") for n in walk.each(name)),
        *walk.counts,
        *(walk.blocks, rounds),
    )
    first = _launch(spec, out.device, shares * walk.blocks, (*alignment[:2], 0), (0, 1, 2), constants)
    whole = walk.spec("combine")
    constants = (*walk.weights(out), found.channels, taps, shares, *_factors(problem))
    numbers = (0, *[1] * whole.adds, 1)
    blocks = -(-taps * found.channels * COMBINE_PARTS // DEPTHWISE_THREADS)
    return [
        Step(first, (0, 1, part)),
        Step(_launch(whole, out.device, blocks, (0, alignment[2]), numbers, constants), (part, 2)),
    ]


def _factors(problem: ConvProblem) -> tuple[int, ...]:
    """Return alpha and beta as the bits of float64."""
    return tuple(
        int.from_bytes(struct.pack("<d", number), "little", signed=True)
        for number in (problem.call.alpha, problem.call.beta)
    )


def _launch(
    spec: DepthwiseSpec,
    device: int,
    blocks: int,
    alignment: tuple[int, ...],
    pointers: Sequence[int],
    constants: Sequence[int],
    pairs: Sequence[tuple[int, ...]] = (),
) -> LaunchExecutable:
    order = LaunchOrder(
        kernel=spec,
        device=device,
        grid=(blocks, 1),
        block=(DEPTHWISE_THREADS, 1),
        alignment=alignment,
        pointers=tuple((number, 0) for number in pointers),
        constants=tuple(constants),
        pairs=tuple(pairs),
    )
    launcher = launcher_class()(order)
    rows, columns = spec.tile
    launcher.algorithm = (
        f"depthwise {spec.taps[0]}x{spec.taps[1]}: a thread handles {rows}x{columns} positions of {spec.width} channels"
    )
    return LaunchExecutable(launcher)
