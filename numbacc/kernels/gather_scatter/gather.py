"""The kernel that gathers elements by index: y[i, j] = x[i, index[i, j]], along an axis of x.

Arrays and steps are as in `map`; the strides of x omit that axis. If `whole` is 0, arrays need not be aligned: elements
are then processed one by one.
"""

from __future__ import annotations

from typing import Any

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.operands import operands, scalar_reader
from ..primitives.specialize import specialize
from ..specs import Kernel, KernelSpec, map_parameters


def inside_or(value, is_inside, other):
    """Return value if it is inside, else the other."""
    return value if is_inside else other


def gather(spec: KernelSpec) -> Kernel:
    """Return the kernel with one thread for each access of the first `span` columns, and for later ones `span` apart.

    All loads of a thread are in flight before the first is used. The axis has `length` elements, which are `apart`
    elements apart. Negative indices count from its end. The scalar argument replaces elements whose index is out of
    range.
    """
    dtype, index = TABLE[spec.reads[0]], TABLE[spec.reads[1]]
    io = operands((dtype,), spec.lanes, spec.width, spec.compute)
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    load_index = operands((index,), 1, 1, "int64").load
    load_lanes, store_lanes, map_lanes, apply = io.load_lanes, io.store_lanes, io.map_lanes, io.apply
    choose, scalars, width = specialize(inside_or, spec.compute, spec.narrow), scalar_reader(spec.scalars), spec.width

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, span, length, apart, whole, words):
        (other,) = scalars(words)
        item, row = cuda.grid(2)
        column = item * width
        if column < span:
            while row < rows:
                coordinates = unravel(row, outer) + (column,)
                (number,) = load_index(ins[1:], offsets(coordinates, in_steps[1:]))
                if number < 0:
                    number += length
                is_inside = 0 <= number < length
                moved = (number if is_inside else 0) * apart
                source, target = offsets(coordinates, in_steps[:1])[0] + moved, offsets(coordinates, out_steps)
                if whole:
                    values = load_lanes(ins[:1], (source,), span)
                    store_lanes(outs, target, span, map_lanes(choose, values, (is_inside, other)))
                else:
                    for start in range(0, columns, span):
                        for lane in range(start, start + width):
                            values = load(ins[:1], (source + lane,))
                            store(outs, (target[0] + lane,), apply(choose, values, (is_inside, other)))
                row += cuda.gridsize(2)[1]

    return kernel


def make(spec: KernelSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return gather(spec)


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `runtime.kernel_code`."""
    return map_parameters(spec, 1, 6)
