"""The kernel that a function of the table has."""

from __future__ import annotations

from row_ptx import dense

from numbacc.base.dispatch import launching_by
from numbacc.compiling import Noted
from numbacc.elementwise import operation


def launched_by(plan):
    """The spec of the kernel that a plan launches."""
    found = []
    with launching_by(Noted.into(found)):
        plan.choose([0] * (len(plan.inputs) + len(plan.outputs)))
    return found[-1]


def spec_of(row, dtype, shape=(4096, 4096), steps=None):
    """The kernel of a function of dense arrays, numbers for options."""
    array = dense(shape, dtype, steps)
    numbers = row.names[len(row.names) - row.options :]
    given = [float if name in numbers else array for name in row.names]
    for k in row.truths:
        given[k] = dense(shape, "bool")
    if row.name.startswith("ldexp"):
        given[-1] = dense(shape, "int32")
    plan = operation.planned(row, tuple(given))
    return launched_by(plan)
