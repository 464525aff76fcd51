"""The copies of formulas that kernels run: constants have the kernel's compute dtype, functions its precision."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ...base.dtypes import DTypeInfo
from ...base.literal_typing import with_numbers
from ...functions.symbolic.ieee_math import IEEE_CMATH, IEEE_MATH, copied
from ...functions.symbolic.precision_variants import replacements
from .instructions import hardware

#: Compute dtype -> the type of a Python float in a formula. With integer dtypes it stays float64, as in NumPy.
_REALS = {"float32": np.float32, "float64": np.float64, "complex64": np.float32, "complex128": np.float64}


@lru_cache(maxsize=4096)
def specialize(formula: Callable[..., Any], compute: str, narrow: bool, inline: bool = False) -> Callable[..., Any]:
    """Return `formula` as a device function.

    Numeric constants in it, such as `2` or `2.0`, get the compute dtype: Numba would treat them as 64-bit and promote
    float32 arithmetic. Counting stays integer: indices, shifts, powers and arguments of `range`, and counters until
    they are combined with an element. A function of integers only returns an integer, so Numba computes `x * inner(k)`
    in float64.

    Args:
        formula: a Python function of scalars; the functions that it calls are specialized with it.
        compute: name of the dtype that the formula computes in.
        narrow: True if outputs are narrower than the compute dtype.
        inline: True if all calls must be inlined.
    """
    replaced = replacements(compute, narrow)
    found = replaced.get(formula, formula)
    if isinstance(found, str):
        return getattr(hardware, found)  # type: ignore[no-any-return]

    def convert(value: Any) -> Any:
        if isinstance(value, FunctionType) and value is not found:
            return specialize(value, compute, narrow, inline)
        if not SIMULATED:
            return _rough_math() if value is math and inline and narrow and compute == "float32" else value
        # Python's functions raise an error in cases that give infinity or NaN on a GPU.
        if value is cmath:
            return IEEE_CMATH
        return IEEE_MATH if value is math else _number(compute, value) if type(value) is float else value

    options = {"forceinline": True} if inline and not SIMULATED else {}
    jitted: Callable[..., Any] = cuda.jit(device=True, **options)(
        with_numbers(copied(found, convert), partial(_number, compute))
    )
    return jitted


@lru_cache(maxsize=1)
def _rough_math() -> Any:
    """Return the module `math` with the hardware's approximations of functions that are accurate to 20 bits.

    The library's `exp` takes four more instructions, which products' epilogues cannot hide.
    """
    found = ModuleType("math")
    found.__dict__.update({name: value for name, value in vars(math).items() if not name.startswith("_")})
    found.exp = hardware.exp_approximate  # type: ignore[attr-defined]
    return found


def _number(compute: str, value: Any) -> Any:
    """Return a Python number, or a tuple of numbers, in the format of a kernel's compute dtype."""
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
    """Return `formula` as a device function for arrays of `dtype`."""
    assert dtype.compute is not None
    return specialize(formula, dtype.compute, dtype.compute != dtype.name)
