"""The kernels that store the signs of elements as a bit mask, and select by such bits: ReLU forward and backward.

Bit c % 8, counted from the least significant, of byte c // 8 of a row belongs to column c, as in
`np.packbits(bitorder="little")`. Arrays and steps are as in `map`; a mask's last dimension counts bytes. If `whole` is
0, arrays need not be aligned: elements are then processed one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.operands import accessors
from ..primitives.specialize import specialize_for
from ..specs import Kernel, KernelSpec, map_parameters


def not_below_0(value):
    """Return False if value < 0, else True, also for NaN."""
    return not value < 0.0


def select(value, bit):
    """Return value if the bit is set, else 0; unlike a product, this gives 0, not NaN, for an infinite value."""
    if bit:
        return value
    return 0.0


def select_lanes(choose: Any, width: int) -> Callable[..., Any]:
    """Return the device function (values, bits) -> values, chosen lane by lane by the lowest `width` bits."""
    if width == 1:

        def lanes(values, bits):
            return (choose(values[0], bits & 1),)

    else:
        last = width - 1
        before = select_lanes(choose, last)

        def lanes(values, bits):
            return before(values, bits) + (choose(values[last], bits >> last & 1),)

    jitted: Callable[..., Any] = cuda.jit(device=True)(lanes)
    return jitted


def pack_bits(spec: KernelSpec) -> Kernel:
    """Return the kernel with one thread per byte: it reads eight columns, in accesses as wide as alignment allows."""
    dtype = TABLE[spec.reads[0]]
    io, mask = accessors(dtype, 8, spec.width * dtype.itemsize), accessors(TABLE["uint8"], 1, 1)
    load, load_lanes, offsets, unravel = io.load, io.load_lanes, io.offsets, io.unravel
    store_byte, kept, width = mask.store, specialize_for(not_below_0, dtype), io.width

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, whole):
        item, row = cuda.grid(2)
        column = item * 8
        if column < columns:
            while row < rows:
                first = unravel(row, outer)
                byte = 0
                if whole and column + 8 <= columns:
                    values = load_lanes(ins, offsets(first + (column,), in_steps), width * in_steps[0][-1])
                    for lane in range(8):
                        if kept(values[0][lane]):
                            byte |= 1 << lane
                else:
                    for lane in range(min(8, columns - column)):
                        (value,) = load(ins, offsets(first + (column + lane,), in_steps))
                        if kept(value):
                            byte |= 1 << lane
                store_byte(outs, offsets(first + (item,), out_steps), (np.uint8(byte),))
                row += cuda.gridsize(2)[1]

    return kernel


def select_bits(spec: KernelSpec) -> Kernel:
    """Return the kernel with one thread per access of up to 16 bytes, for 1, 2, 4 or 8 columns.

    The bits of an access are in one byte. The number of columns is a multiple of the access width; otherwise an access
    is one element.
    """
    dtype = TABLE[spec.reads[0]]
    width = spec.width
    io, mask = accessors(dtype, width, width * dtype.itemsize), accessors(TABLE["uint8"], 1, 1)
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    load_lanes, store_lanes, load_byte = io.load_lanes, io.store_lanes, mask.load
    choose = specialize_for(select, dtype)
    chosen = select_lanes(choose, width)

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, whole):
        item, row = cuda.grid(2)
        column = item * width
        if column < columns:
            while row < rows:
                first = unravel(row, outer)
                coordinates = first + (column,)
                (byte,) = load_byte(ins[1:], offsets(first + (column // 8,), in_steps[1:]))
                if whole:
                    (values,) = load_lanes(ins[:1], offsets(coordinates, in_steps[:1]), 0)
                    store_lanes(outs, offsets(coordinates, out_steps), 0, (chosen(values, byte >> column % 8),))
                else:
                    for lane in range(width):
                        coordinates = first + (column + lane,)
                        (value,) = load(ins[:1], offsets(coordinates, in_steps[:1]))
                        store(outs, offsets(coordinates, out_steps), (choose(value, byte >> (column % 8 + lane) & 1),))
                row += cuda.gridsize(2)[1]

    return kernel


_MAKERS = {f.__name__: f for f in (pack_bits, select_bits)}


def make(spec: KernelSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return _MAKERS[spec.algorithm](spec)


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `runtime.kernel_code`."""
    return map_parameters(spec, 1, 3, has_words=False)
