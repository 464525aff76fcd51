"""What cases of drawn formulas have in common: their functions, their arguments, and how results are judged."""

from __future__ import annotations

import linecache
import math

import ml_dtypes
import numpy as np
from mixed_dtypes import met

from numbacc import elementwise as ew
from numbacc.base import dtypes

from .arguments import FLOATS, kind, shapes_of, wide
from .near import Ew, Math
from .operands import anywhere

#: How many roundings more than the first-order bound: what is of second order, and functions that are off by some ulps.
SLACK = 16
SLOPE_SLACK = 4096
#: Elements of a call, at most: Python takes some 100 µs for each, and a process may not take a minute for a case.
MOST = 10_000


def defined(case, drawing):
    """The drawn function: for kernels, and for Python's numbers."""
    text, file = drawing.source, f"<formula {case.seed}>"
    case.note(text.rstrip())
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    code, spaces = compile(text, file, "exec"), ({"math": math, "ew": ew}, {"math": Math, "ew": Ew})
    for space in spaces:
        exec(code, space)
        if "inner" in space and space["ew"] is ew and case.chance(0.5):
            space["inner"] = ew.kernel(space["inner"])  # of its own, or a plain function
    return [space["formula"] for space in spaces]


def meeting(names):
    """The dtype of the results of arguments of these; that of the arrays where numbers stand beside."""
    found = met(*names)
    if kind(found) == "f":
        return found
    # As NumPy's functions of floats do: int8 and uint8 both fit into float16, their common int16 does not.
    arrays = {each for each in names if isinstance(each, str)}
    if int in names and arrays == {"bool"}:
        return "float64"  # a number beside truths is an int64
    widest = max(dtypes.dtype(each).itemsize for each in arrays)
    return {1: "float16", 2: "float32"}.get(widest, "float64")


class Given:
    """Arguments of a call.

    Attributes:
        given: operands and numbers.
        shape: what they broadcast to.
        common: the dtype of results.
        eps: of what is computed in.
    """

    def __init__(self, case, count, floats):
        shapes, self.shape = shapes_of(case, count, MOST)
        names = [case.pick(FLOATS)] * count
        if not floats and case.chance(0.3):
            names = [case.pick([*FLOATS, "int8", "int16", "int32", "int64", "uint8", "bool"]) for _ in range(count)]
        number = case.integer(0, count - 1) if count > 1 and case.chance(0.2) else None
        if number is not None:
            shapes[number - 1] = self.shape
        self.given = [
            case.pick([2, -1, 0.5, 1.75]) if k == number else operand(case, shapes[k], names[k]) for k in range(count)
        ]
        kinds = [type(each) if k == number else names[k] for k, each in enumerate(self.given)]
        self.common = meeting(kinds)
        self.arrays = [each for each in self.given if hasattr(each, "view")]
        self.views = [getattr(each, "view", each) for each in self.given]
        # Kernels of 16 bits have the hardware's exponential.
        self.eps = 2.0**-52 if self.common == "float64" else 2.0**-23 if self.common == "float32" else 2.0**-19

    def elements(self):
        """The arguments of each element, as they are computed with."""
        values = [np.array(each.values) if hasattr(each, "view") else np.asarray(each) for each in self.given]
        rounded = [each.astype(wide(self.common)).astype(np.float64) for each in values]
        return zip(*(each.ravel().tolist() for each in np.broadcast_arrays(*rounded)), strict=True)


def operand(case, shape, name):
    dtype = dtypes.dtype(name)
    if kind(name) == "b":
        values = case.rng.random(shape) < 0.5
    elif kind(name) in "ui":
        values = case.rng.integers(0 if kind(name) == "u" else -4, 5, shape).astype(dtype)
    else:
        values = case.rng.normal(0, 1.5, shape).astype(dtype)
        if case.chance(0.15):
            values = case.rng.choice(np.array([0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan]), shape).astype(
                dtype
            )
    return case.place.operand(values, **anywhere(case, shape, False))


def call_options(case, drawing):
    """Arguments behind the arrays, and options, as the formula's parameter with a default takes them; and its value."""
    if not drawing.has_option or case.chance(0.4):
        return [], {}, {}
    value = case.pick([0.25, 2.0, -1])
    return ([value], {}, {"s": value}) if case.chance(0.5) else ([], {"s": value}, {"s": value})


def compare(mine, wanted, eps):
    """Results, given (what they are, how many roundings they may be off) or None where it is not known."""
    flat, info = mine.ravel(), None if mine.dtype == bool else ml_dtypes.finfo(mine.dtype)
    for k, each in enumerate(wanted):
        if each is None:
            continue
        value, off = each
        got = float(flat[k])
        if info is None:
            assert got == bool(value), f"element {k} is {got}, not {value}"
            continue
        if math.isnan(value) or math.isinf(value):
            right = got == value or (math.isnan(got) and math.isnan(value))
        else:
            allowed = eps * off + float(info.eps) * abs(value) + float(info.smallest_subnormal) + _tiny(eps)
            right = abs(got - value) <= allowed or abs(value) + allowed >= float(info.max)
        assert right, f"element {k} is {got!r}, not {value!r}; {eps * off:.3g} allowed"


def _tiny(eps):
    """What is lost where float32 loses its smallest numbers."""
    return 0.0 if eps < 2.0**-50 else 1e-36
