"""The kernel that turns windows into channels: for images with few channels, adjacent pixels become channels, too.

    y[n, i, j, (a, t, c)] = x[n, i * down + a - top, j * across + t * apart - left, c]

y is 0 where that is outside the image, and in channels after the last. 16-bit elements are copied unchanged.

A thread writes 8 channels of one column in one access, for several rows one below the other. The positions of its
elements in a window are computed only once. Adjacent threads write adjacent accesses, so stores are coalesced.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.instructions import hidden_successor
from ..primitives.masked_gather import gathering
from ..primitives.operands import operands, splitter
from ..specs import Kernel
from .im2col_spec import WINDOW_LANES, WINDOW_THREADS, WindowsSpec

__all__ = ["NOWHERE", "make", "parameters"]

#: A row number outside every image: images have fewer than 2^30 rows, and strides are smaller, too.
NOWHERE = 2**30
#: The numbers of a thread's elements.
_LANES = tuple(np.int32(lane) for lane in range(WINDOW_LANES))


def _looking(spec: WindowsSpec, map_lanes: Any) -> Any:
    """Return the device function (cell, width, steps, across, apart, left) -> (rows, offsets) of a thread's elements.

    A row is relative to that of the window, and is NOWHERE if the element is 0 in all rows. An offset is relative to
    the window's first row.
    """
    pieces, row = np.uint32(spec.pitch // WINDOW_LANES), np.uint32(spec.columns * spec.channels)
    rows, channels = np.uint32(spec.rows), np.uint32(spec.channels)
    nowhere, every, lanes = np.int32(NOWHERE), np.uint32(WINDOW_LANES), _LANES

    def place(lane, first, start, between, length, down, aside, along):
        channel = np.uint32(first + np.uint32(lane))
        a = np.uint32(channel // row)
        rest = np.uint32(channel - np.uint32(a * row))
        t = np.uint32(rest // channels)
        c = np.uint32(rest - np.uint32(t * channels))
        there = np.int32(start + np.int32(np.int32(t) * between))
        is_there = (np.uint32(there) < np.uint32(length)) & (a < rows)
        offset = np.int32(np.int32(a) * down) + np.int32(there * aside) + np.int32(np.int32(c) * along)
        return np.int32(a) if is_there else nowhere, np.int32(offset)

    of_lane = cuda.jit(device=True)(place)

    def look(cell, width, steps, across, apart, left):
        number = np.uint32(cell)
        column = np.uint32(number // pieces)
        first = np.uint32(np.uint32(number - np.uint32(column * pieces)) * every)
        start = np.int32(np.int32(np.int32(column) * np.int32(across)) - np.int32(left))
        down, aside, along = np.int32(steps[0]), np.int32(steps[1]), np.int32(steps[2])
        return map_lanes(of_lane, (lanes,), (first, start, np.int32(apart), np.int32(width), down, aside, along))

    return cuda.jit(device=True)(look)


def make(spec: WindowsSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes.

    Its arguments: `steps` are the strides from image to image, row to row, column to column and channel to channel, in
    elements, then the offset of the first element. `sizes` are the image's rows and columns. `window` is (down, across,
    apart), `lead` is (top, left). `counts` are the images, and of the result the rows, columns, strips of rows and rows
    of a strip.
    """
    io, moves = operands((TABLE["uint16"],), 1, 1), gathering(WINDOW_LANES)
    split, look = splitter(), _looking(spec, io.map_lanes)
    gather, put, successor = moves.gather, moves.put, hidden_successor
    pieces, pitch, nbytes = spec.pitch // WINDOW_LANES, spec.pitch, 2 * WINDOW_LANES

    def kernel(ins, outs, steps, sizes, window, lead, counts):
        thread = cuda.blockIdx.x * WINDOW_THREADS + cuda.threadIdx.x
        image, strip, cell = split(thread, counts[3], counts[2] * pieces)
        if image < counts[0]:
            rows, offsets = look(cell, sizes[1], steps[1:4], window[1], window[2], lead[1])
            begin = strip * counts[4]
            end = min(begin + counts[4], counts[1])
            row = begin * window[0] - lead[0]
            source = ins[0] + 2 * (steps[4] + image * steps[0] + row * steps[1])
            target = outs[0] + 2 * (image * counts[1] + begin) * counts[2] * pitch + cell * nbytes
            while begin < end:
                put(target, gather(source, offsets, rows, row, sizes[0]))
                row += window[0]
                source += 2 * window[0] * steps[1]
                target += 2 * counts[2] * pitch
                begin = successor(begin)

    return kernel


def parameters(spec: WindowsSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    return [("uint64", 1), ("uint64", 1), *(("int64", count) for count in (5, 2, 3, 2, 5))]
