"""What is looked for in the PTX of kernels that reduce, scan and normalize."""

from __future__ import annotations

import math
import re

import ptx
from oracle import DTYPES

from numbacc import compiling
from numbacc.base.dispatch import launching_by
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import layout, row_major_strides

H200 = (9, 0)


FLOATS = tuple(dtype.name for dtype in DTYPES)


def dense(shape, dtype, steps=None):
    """The layout of an array that is dense, or whose neighbours are so many elements apart."""
    row = TABLE[dtype]
    strides = row_major_strides(shape, row.itemsize) if steps is None else tuple(n * row.itemsize for n in steps)
    return layout(tuple(shape), strides, row.numpy, 0)


def orders_of(plan, addresses=None):
    """The launches that a plan chooses, without a GPU."""
    found = []

    class Noted(compiling.Noted):
        def __init__(self, order):
            self.order = order
            found.append(order)

    with launching_by(Noted):
        plan.choose(addresses or [0] * (len(plan.inputs) + len(plan.outputs)))
    return found


def check(kernel, capability=H200, spilled=0, calls=False):
    """What holds for every kernel; its PTX, for more. `calls`: CUDA's power of float64 is a function."""
    found = ptx.compiled(kernel, capability)
    assert found.target == "sm_{}{}".format(*capability)
    assert ".local" not in found.text
    assert calls or not re.search(r"\bcall\b", found.text), "a function is not inlined"
    # Another block's shared memory has addresses of its own.
    far = {""} if getattr(kernel, "is_cluster", False) else set()
    assert {access.space for access in found.accesses} <= {"global", "shared", *far}
    if kernel.compute not in ("float64", "complex128"):
        assert ".f64" not in found.text
    if ptx.ptxas() is not None and capability == H200 and not calls:
        registers, bytes_spilled = found.usage(capability)
        assert registers <= 65536 // math.prod(kernel.launch_bounds) and bytes_spilled <= spilled
    return found


def widest(found, operation="ld"):
    return max(access.nbytes for access in found.accesses if access[:2] == (operation, "global"))
