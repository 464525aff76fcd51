"""Arguments of elementwise functions: any dtypes, layouts and broadcasting, and numbers beside arrays."""

from __future__ import annotations

import math

import elementwise_oracle as oracle
import numpy as np
from elementwise_cases import arrays_of
from mixed_dtypes import met

from numbacc.base import dtypes
from numbacc.elementwise.rows import TABLE

from .operands import anywhere

FLOATS = ("float32", "float64", "float16", "bfloat16")
NAMES = tuple(name for name, row in dtypes.TABLE.items() if not row.is_scaled)


def kind(name):
    return "f" if name in FLOATS else dtypes.dtype(name).kind


def common_of(name, given):
    """The dtype in which arguments (names of dtypes, types of numbers) are computed with; independent of numbacc."""
    found, rule = met(*given), TABLE[name].row.rule
    if kind(found) in "bui" and rule in ("float", "angle"):
        return {1: "float16", 2: "float32"}.get(dtypes.dtype(found).itemsize, "float64")
    return "float64" if rule == "divide" and kind(found) in "bui" else found


def wide(common):
    """What floats of a dtype are computed in."""
    return np.dtype(np.float64 if common == "float64" else np.float32)


def drawn(case, shape, name, function, common):
    """Numbers of a dtype: any, but such as have an answer that all libraries agree on."""
    dtype = dtypes.dtype(name)
    if kind(name) == "b":
        return case.rng.random(shape) < 0.5
    if kind(common) == "c":  # 0 and infinity have several
        found = case.rng.integers(1, 6, shape) if kind(name) in "ui" else case.rng.normal(0, 1, shape)
        return (found + 1j * case.rng.normal(0, 1, shape) if kind(name) == "c" else found).astype(dtype)
    if kind(name) in "ui":
        limits = np.iinfo(dtype)
        if kind(common) in "ui" and case.chance(0.3) and function != "pow":
            return case.rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        low = 0 if function == "pow" or kind(name) == "u" else -9
        return case.rng.integers(low, 10, shape).astype(dtype)
    found = case.rng.normal(0, case.pick([0.5, 2, 2, 4]), shape).astype(dtype)
    if case.chance(0.1) and function in oracle.VECTORS and common != "float64":
        found = case.rng.choice(oracle.SPECIALS[dtype], shape)
    return found


def number(case, function, common):
    """A number of Python's that all dtypes have which the arrays may meet in."""
    if kind(common) == "b":
        return case.chance(0.5)
    if kind(common) == "u" or function == "pow":
        return case.integer(0, 5)
    return case.integer(-5, 5) if kind(common) in "ui" else case.pick([case.integer(-5, 5), 0.75, -2.5, 0.1, 3.0])


def shapes_of(case, count, most=math.inf):
    """Shapes that broadcast, and the shape that they broadcast to, with at most `most` elements."""
    whole = case.shape(case.pick([0, 1, 1, 2, 2, 3, 3, 4, 8]))
    while math.prod(whole) > most:
        whole = tuple(-(-n // 2) for n in whole)
    found = [whole] * count
    if count > 1 and case.chance(0.5):
        for k in range(count):
            own = [1 if case.chance(0.3) else n for n in whole]
            found[k] = tuple(own[case.integer(0, len(own)) if case.chance(0.4) else 0 :])
        found[case.integer(0, count - 1)] = whole
    return found, whole


def dtypes_of(case, name, count):
    kinds = TABLE[name].row.meanings
    known = [each for each in NAMES if kind(each) in kinds] or list(NAMES)
    if case.chance(0.6):
        return [case.pick(known)] * count
    return [case.pick(NAMES if case.chance(0.3) else known) for _ in range(count)]


class Drawn:
    """The arguments of a call.

    Attributes:
        given: operands and numbers.
        kinds: names of dtypes, and types of numbers.
        shape: what they broadcast to.
        common: the dtype that they are computed in.
    """

    def __init__(self, case, name, in_place, floats=False):
        names = arrays_of(name)
        numbers = [k for k in range(len(names)) if names[k] in ("threshold", "value") and name == "threshold"]
        if not floats and len(names) > 1 and name not in ("ldexp", "threshold") and case.chance(0.25):
            numbers = [case.integer(0, len(names) - 1)]
        shapes, self.shape = shapes_of(case, len(names))
        kinds = [case.pick(FLOATS)] * len(names) if floats else dtypes_of(case, name, len(names))
        if name == "ldexp":
            kinds[1] = case.pick(["int8", "int32", "int64", "uint8"])
        if name == "where" and 0 not in numbers:
            kinds[0] = case.pick(["bool", "bool", "float32", "int8"]) if not floats else "bool"
        arrays = [k for k in range(len(names)) if k not in numbers]
        if numbers:
            shapes[arrays[0]] = self.shape
        self.meeting = [k for k in TABLE[name].row.meeting if k < len(names)]
        rough = common_of(name, [kinds[k] for k in self.meeting if k in arrays] or ["bool"])
        self.target = case.pick([k for k in arrays if shapes[k] == self.shape] if in_place else [None])
        self.given = []
        for k in range(len(names)):
            if k in numbers:
                condition = name == "where" and k == 0
                self.given.append(case.chance(0.5) if condition else number(case, name, rough))
            else:
                there = anywhere(case, shapes[k], k == self.target, 0 if in_place else 0.1)
                values = drawn(case, shapes[k], kinds[k], name, rough)
                self.given.append(case.place.operand(values, **there))
        self.kinds = [type(g) if k in numbers else kinds[k] for k, g in enumerate(self.given)]
        # The arrays' own values: what is repeated in memory is what its first element is.
        self.arrays = [self.given[k] for k in arrays]
        self.common = common_of(name, [self.kinds[k] for k in self.meeting])
        if self.target is not None:
            self.target = self.given[self.target]

    @property
    def views(self):
        return [getattr(each, "view", each) for each in self.given]

    @property
    def values(self):
        return [np.array(each.values) if hasattr(each, "view") else each for each in self.given]
