"""Find formulas whose arithmetic takes longer than memory, by the functions that they call after specialization."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any

from .ieee_math import names_in
from .precision_variants import replacements

#: Functions of `math` that take a few instructions. The others take 20 to 200.
_SHORT = frozenset(
    (
        "ceil", "copysign", "degrees", "exp", "fabs", "floor", "fma", "isfinite", "isinf", "isnan", "radians", "sqrt",
        "tanh", "trunc",
    )
)  # fmt: skip
#: Other functions that take long. `elementwise.rows` adds the functions whose description has `is_long=True`.
LONG: set[Any] = {"cbrt", "erfinv"}


@lru_cache(maxsize=4096)
def is_long(function: Callable[..., Any], compute: str, narrow: bool) -> bool:
    """Return whether a formula takes longer than an H200 needs to read and write 16 bits per element.

    Args:
        function, compute, narrow: the same as for `specialize`.
    """
    return any(
        each in LONG or (callable(getattr(math, str(each), None)) and each not in _SHORT)
        for each in _called(function, replacements(compute, narrow), set())
    )


def calls_math(function: Callable[..., Any]) -> bool:
    """Return whether a formula in 16 bits calls a function of `math`, directly or through other functions."""
    return any(
        isinstance(each, str) and callable(getattr(math, each, None))
        for each in _called(function, replacements("float32", True), set())
    )


def _called(value: Any, replaced: Mapping[Any, Any], seen: set[int]) -> Iterator[Any]:
    """Yield everything that a function calls, directly or indirectly: functions, and the names of CUDA's functions."""
    value = getattr(value, "py_func", value)
    if not callable(value) or id(value) in seen:
        return
    seen.add(id(value))
    value = replaced.get(value, value)
    yield value
    if not isinstance(value, FunctionType):
        return
    names = names_in(value.__code__)
    known = [value.__globals__[name] for name in names if name in value.__globals__]
    if math in known:
        yield from (name for name in names if hasattr(math, name))
    for each in (*known, *(cell.cell_contents for cell in value.__closure__ or ())):
        yield from _called(each, replaced, seen)
