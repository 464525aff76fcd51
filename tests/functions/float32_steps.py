"""Formulas in float32, operation by operation, and their errors in ulp."""

from __future__ import annotations

import math
from types import FunctionType

import numpy as np

from numbacc.functions.symbolic.ieee_math import IEEE_MATH, copied
from numbacc.functions.symbolic.precision_variants import replacements
from numbacc.kernels.primitives import simulated

F32 = np.float32


def in_float32(function, units=0, narrow=False):
    """A formula as specialized for float32, of NumPy's numbers; approximate reciprocals are `units` off.

    Where what is stored is narrow, all that is the hardware's is that of the simulator.
    """
    replaced = replacements("float32", narrow)

    def approximate(x):
        return ((F32(1) / F32(x)).view(np.int32) + np.int32(units)).view(F32)

    def convert(value):
        if value is math:
            return IEEE_MATH
        found = replaced.get(value, value) if isinstance(value, FunctionType) else value
        if found == "reciprocal_approximate" and not narrow:
            return approximate
        if isinstance(found, str) and found is not value:
            return getattr(simulated.hardware, found)
        return found if found is value else copied(found, convert)

    def computed(*xs):
        with np.errstate(all="ignore"):
            return np.array([inner(*numbers) for numbers in zip(*xs, strict=True)], F32)

    inner = copied(function, convert)
    return computed
