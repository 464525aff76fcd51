"""The kernel that a function of the table has."""

from __future__ import annotations

from numbacc.base import dtypes
from numbacc.base.dispatch import launching_by
from numbacc.base.layout import layout, row_major_strides
from numbacc.compiling import Noted
from numbacc.elementwise import operation


def launched_by(plan):
    """The spec of the kernel that a plan launches."""
    found = []
    with launching_by(Noted.into(found)):
        plan.choose([0] * (len(plan.inputs) + len(plan.outputs)))
    return found[-1]


def spec_of(row, dtype, shape=(256, 4096), steps=None):
    """The kernel of a function of dense arrays, numbers for options."""
    info = dtypes.TABLE[dtype]
    strides = row_major_strides(shape, info.itemsize) if steps is None else tuple(n * info.itemsize for n in steps)
    array = layout(shape, strides, info.numpy, 0)
    numbers = row.names[len(row.names) - row.options :]
    given = [float if name in numbers else array for name in row.names]
    for k in row.truths:
        given[k] = layout(shape, row_major_strides(shape, 1), dtypes.TABLE["bool"].numpy, 0)
    if row.name.startswith("ldexp"):
        given[-1] = layout(shape, row_major_strides(shape, 4), dtypes.TABLE["int32"].numpy, 0)
    plan = operation.planned(row, tuple(given))
    return launched_by(plan)
