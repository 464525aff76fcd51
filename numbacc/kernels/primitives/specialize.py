"""The copies of formulas that kernels run: every number in the kernel's compute dtype, functions in its precision."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ...base.dtypes import DTypeInfo
from ...base.literal_typing import with_numbers
from ...functions.symbolic.ieee_math import IEEE_CMATH, IEEE_MATH, copied
from ...functions.symbolic.precision_variants import replacements
from .instructions import hardware

#: Compute dtype -> the type that a Python float has in a formula. In integers it stays a float64, as in NumPy.
_REALS = {"float32": np.float32, "float64": np.float64, "complex64": np.float32, "complex128": np.float64}


@lru_cache(maxsize=4096)
def specialize(formula: Callable[..., Any], compute: str, narrow: bool) -> Callable[..., Any]:
    """`formula` as a device function.

    A number written in it, `2` or `2.0`, has the compute dtype: Numba would take it for 64 bits, and drag float32
    arithmetic up to that. What counts stays an integer: indices, shifts, powers, arguments of `range`; counters until
    they meet a number. What a function makes of integers alone is one: of `x * inner(k)` Numba makes a float64.

    Args:
        formula: a Python function of scalars; the functions it calls are specialized with it.
        compute: name of the dtype that is computed in.
        narrow: True if what is stored is narrower than what is computed.
    """
    replaced = replacements(compute, narrow)
    found = replaced.get(formula, formula)
    if isinstance(found, str):
        return getattr(hardware, found)  # type: ignore[no-any-return]

    def convert(value: Any) -> Any:
        if isinstance(value, FunctionType) and value is not found:
            return specialize(value, compute, narrow)
        if not SIMULATED:
            return value
        # Python's raise where a GPU gives infinity or NaN.
        if value is cmath:
            return IEEE_CMATH
        return IEEE_MATH if value is math else _number(compute, value) if type(value) is float else value

    jitted: Callable[..., Any] = cuda.jit(device=True)(with_numbers(copied(found, convert), partial(_number, compute)))
    return jitted


def _number(compute: str, value: Any) -> Any:
    """A Python number, or a tuple of them, as kernels of a compute dtype have it."""
    if isinstance(value, tuple):
        return tuple(_number(compute, item) for item in value)
    if type(value) not in (int, float):
        return value
    real = _REALS.get(compute)
    if real is not None:
        return real(value)
    if type(value) is float or compute == "bool":
        return value
    bounds = np.iinfo(compute)
    return np.dtype(compute).type(value) if bounds.min <= value <= bounds.max else value


def specialize_for(formula: Callable[..., Any], dtype: DTypeInfo) -> Callable[..., Any]:
    """`formula` for arrays of `dtype`."""
    assert dtype.compute is not None
    return specialize(formula, dtype.compute, dtype.compute != dtype.name)
