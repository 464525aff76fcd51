"""The kernels of depthwise convolutions: each channel has its own filter.

A thread handles a few adjacent channels and, one after the other, tiles of positions. It loads each element that a tile
needs once, and accumulates in registers. Elements that two tiles both need are still in the multiprocessor's cache when
the second one is computed, since the threads of a block handle adjacent tiles.

If channels are innermost, `across` adjacent threads handle adjacent channels. Otherwise columns are innermost (the
kernel is `planar`): adjacent threads handle adjacent tiles of one channel, and the accesses of a warp are contiguous,
because a tile has few columns, which are loaded and stored at once if possible.

`counts` are the number of tiles in total, in a column, in a row, and of channels. `blocks` are the number of blocks
along the channels, and of tiles for each thread. Strides are in elements. Along rows and columns, a tile starts at the
position number * tile - lead, and first needs the element number * advance + begin.

Read the simulated twin in `primitives/stencil.py` first: it shows in plain Python how a tile is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.operands import operands, scalar_reader, splitter
from ..primitives.specialize import specialize
from ..primitives.stencil import Meetings, Stencil, tiles_of
from ..specs import Kernel
from .depthwise_spec import COMBINE_PARTS, DEPTHWISE_THREADS, DepthwiseSpec, meetings
from .epilogue import linear


def _lanes(spec: DepthwiseSpec) -> Callable[[Any], tuple[Any, Any]]:
    """Return the device function (thread) -> (lane, spot): the numbers of its channels and of its tile in a block."""
    across, places = spec.across, DEPTHWISE_THREADS // spec.across

    def by_channel(thread):
        return thread % across, thread // across

    def by_column(thread):
        return thread // places, thread % places

    found: Callable[[Any], tuple[Any, Any]] = cuda.jit(device=True)(by_column if spec.planar else by_channel)
    return found


def _tiles(spec: DepthwiseSpec) -> SimpleNamespace:
    """Return the intrinsics that process a tile."""

    def met(axis: int) -> Meetings:
        return tuple((element, tuple(pairs)) for element, pairs in meetings(spec, axis).items())

    follows = spec.adds, spec.biased, spec.scaled
    own = spec.width, spec.across, DEPTHWISE_THREADS, spec.keeps_weights
    spans = spec.span, spec.lead
    return tiles_of(Stencil(spec.dtype, spec.compute, spec.taps, spec.tile, met(0), met(1), *own, *follows, *spans))


def convolve(spec: DepthwiseSpec) -> Kernel:
    """Return the kernel of a convolution, or of the gradient of its input.

    Inputs: x, w and, if they exist, the bias and the result's previous elements. `w_steps` are the first tap's offset,
    and the strides from channel to channel, row to row, tap to tap, and of the bias.
    """
    tiles, real, split = _tiles(spec), getattr(np, spec.compute), splitter()
    formula = linear(spec.activation or None, spec.scaled, spec.adds, spec.biased)
    function = specialize(formula, spec.compute, spec.compute != spec.dtype)
    load, factors_of = operands((TABLE[spec.dtype],), 1, 1, spec.compute).load, scalar_reader(("float64", "float64"))
    put, sweep = tiles.put, tiles.sweep
    across, width, taps, columns = spec.across, spec.width, prod(spec.taps), spec.taps[1]
    channels, places, is_biased = across * width, DEPTHWISE_THREADS // across, spec.biased
    size, cell, alignment = tiles.shared((taps + spec.biased) * channels)
    lane_of, is_planar = _lanes(spec), spec.planar
    side = max(DEPTHWISE_THREADS // channels, 1)
    (rows_each, columns_each), others = spec.tile, 2 + spec.biased

    def kernel(ins, outs, x_steps, y_steps, w_steps, x_sizes, y_sizes, advance, begin, lead, counts, blocks, words):
        cells = cuda.shared.array(size, cell, alignment)
        given, thread = factors_of(words), cuda.threadIdx.x
        factors = real(given[0]), real(given[1])
        group, _, block = split(cuda.blockIdx.x, 1, blocks[0])
        first, own = block * channels, thread % channels
        if thread < side * channels and first + own < counts[3]:
            tap = thread // channels
            while tap < taps:
                at = w_steps[0] + (first + own) * w_steps[1]
                at += (tap // columns) * w_steps[2] + (tap % columns) * w_steps[3]
                put(cells, tap, own, load((ins[1],), (at,))[0])
                tap += side
            if is_biased and thread < channels:
                put(cells, taps, own, load((ins[2],), ((first + own) * w_steps[4],))[0])
        cuda.syncthreads()
        lane, spot = lane_of(thread)
        channel = first + lane * width
        tile = group * blocks[1] * places + spot
        x_first, y_first = (channel * x_steps[3], channel * y_steps[3]) if is_planar else (channel, channel)
        for _ in range(blocks[1]):
            if tile < counts[0] and channel < counts[3]:
                image, row, column = split(tile, counts[1], counts[2])
                start = row * advance[0] + begin[0], column * advance[1] + begin[1]
                place = row * rows_each - lead[0], column * columns_each - lead[1]
                there = image * x_steps[0] + start[0] * x_steps[1] + start[1] * x_steps[2] + x_first
                at = image * y_steps[0] + place[0] * y_steps[1] + place[1] * y_steps[2] + y_first
                images = ins[:1] + ins[others:] + outs
                sweep(
                    function, images, (there, at), start, place, x_sizes, y_sizes, x_steps, y_steps, cells, lane,
                    factors,
                )  # fmt: skip
            tile += places

    return kernel


def filter_sums(spec: DepthwiseSpec) -> Kernel:
    """Return the kernel of the gradient of filters, with one result for each block's share of positions.

    Inputs: x and dy. Tiles cover dy exactly: a position outside dy must not be multiplied with an infinite element. The
    result is in the order (share, tap, channel).
    """
    tiles = _tiles(spec)
    split, nothing, collect = splitter(), tiles.nothing, tiles.collect
    put_sums, gain, store_sums = tiles.put_sums, tiles.gain, tiles.store_sums
    across, width, taps, half = spec.across, spec.width, prod(spec.taps), DEPTHWISE_THREADS // 2
    size, cell, alignment = tiles.shared(spec.sums * half)
    channels, places = across * width, DEPTHWISE_THREADS // across
    rows_each, columns_each = spec.tile
    lane_of, is_planar = _lanes(spec), spec.planar

    def kernel(ins, outs, x_steps, y_steps, x_sizes, y_sizes, advance, begin, counts, blocks):
        cells = cuda.shared.array(size, cell, alignment)
        thread = cuda.threadIdx.x
        group, _, block = split(cuda.blockIdx.x, 1, blocks[0])
        lane, spot = lane_of(thread)
        channel = block * channels + lane * width
        tile = group * blocks[1] * places + spot
        x_first, y_first = (channel * x_steps[3], channel * y_steps[3]) if is_planar else (channel, channel)
        sums = nothing()
        for _ in range(blocks[1]):
            if tile < counts[0] and channel < counts[3]:
                image, row, column = split(tile, counts[1], counts[2])
                start = row * advance[0] + begin[0], column * advance[1] + begin[1]
                place = row * rows_each, column * columns_each
                there = image * x_steps[0] + start[0] * x_steps[1] + start[1] * x_steps[2] + x_first
                at = image * y_steps[0] + place[0] * y_steps[1] + place[1] * y_steps[2] + y_first
                sums = collect(sums, ins, (there, at), start, place, x_sizes, y_sizes, x_steps, y_steps)
            tile += places
        # Halves of the block are added, always in the same order, until one thread is left for each channel.
        count = half
        while count >= across:
            if count <= thread and thread < 2 * count:
                put_sums(cells, thread - count, sums)
            cuda.syncthreads()
            if thread < count:
                sums = gain(cells, thread, sums)
            cuda.syncthreads()
            count //= 2
        if thread < across and channel < counts[3]:
            store_sums(outs[0], group * taps * counts[3] + channel, counts[3], sums)

    return kernel


def combine(spec: DepthwiseSpec) -> Kernel:
    """Return the kernel of the gradient of filters, summed over all shares.

    Inputs: the shares' sums and, if it is to be added, the previous gradient. `counts` are the channels, the taps and
    the shares; `w_steps` as in `convolve`.
    """
    sums = operands((TABLE[spec.compute],), 1, 1, spec.compute)
    own = operands((TABLE[spec.dtype],), 1, 1, spec.compute)
    load, load_before, store = sums.load, own.load, own.store
    real, factors_of = getattr(np, spec.compute), scalar_reader(("float64", "float64"))
    is_scaled, adds, columns = spec.scaled, spec.adds, spec.taps[1]
    side, zero = DEPTHWISE_THREADS // COMBINE_PARTS, real(0)

    def kernel(ins, outs, w_steps, counts, words):
        cells = cuda.shared.array(DEPTHWISE_THREADS, real)
        given, thread = factors_of(words), cuda.threadIdx.x
        every = counts[0] * counts[1]
        number = np.int64(cuda.blockIdx.x) * side + thread % side
        total, share = zero, np.int64(thread // side)
        if number < every:
            while share + 3 * COMBINE_PARTS < counts[2]:
                # Four loads in flight at once.
                at = share * every + number
                step = COMBINE_PARTS * every
                first, second = load((ins[0],), (at,))[0], load((ins[0],), (at + step,))[0]
                third, fourth = load((ins[0],), (at + 2 * step,))[0], load((ins[0],), (at + 3 * step,))[0]
                total += (first + second) + (third + fourth)
                share += 4 * COMBINE_PARTS
            while share < counts[2]:
                total += load((ins[0],), (share * every + number,))[0]
                share += COMBINE_PARTS
        cells[thread] = total
        cuda.syncthreads()
        count = DEPTHWISE_THREADS // 2
        while count >= side:
            if thread < count:
                cells[thread] += cells[thread + count]
            cuda.syncthreads()
            count //= 2
        if thread < side and number < every:
            channel, tap = number % counts[0], number // counts[0]
            at = w_steps[0] + channel * w_steps[1] + (tap // columns) * w_steps[2] + (tap % columns) * w_steps[3]
            found = cells[thread]
            if is_scaled:
                found *= real(given[0])
            if adds:
                found += real(given[1]) * load_before((ins[1],), (at,))[0]
            store((outs[0],), (at,), (found,))

    return kernel


_MAKERS = {"convolve": convolve, "filter": filter_sums, "combine": combine}


def make(spec: DepthwiseSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return _MAKERS[spec.algorithm](spec)


def parameters(spec: DepthwiseSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    steps = 3 + spec.planar
    inputs, integers = {
        "convolve": (2 + spec.biased + spec.adds, (steps, steps, 5, 2, 2, 2, 2, 2, 4, 2, 2)),
        "filter": (2, (steps, steps, 2, 2, 2, 2, 4, 2)),
        "combine": (1 + spec.adds, (4, 3, 2)),
    }[spec.algorithm]
    return [("uint64", inputs), ("uint64", 1), *(("int64", count) for count in integers)]
