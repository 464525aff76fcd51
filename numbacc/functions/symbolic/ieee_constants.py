"""Numbers that are known when a formula is noted: where Python's floats raise they make infinity and NaN, as a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .ieee_math import IEEE_MATH

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power,
}  # fmt: skip


class Known(float):
    """A float whose arithmetic with numbers gives such."""

    __slots__ = ()

    def __neg__(self) -> Known:
        return Known(-float(self))

    def __abs__(self) -> Known:
        return Known(abs(float(self)))


def _add_operators() -> None:
    for name, function in _BINARY.items():

        def of_two(one: Any, other: Any, function: Any = function) -> Any:
            if not isinstance(other, (int, float)):
                return NotImplemented  # a symbol notes it
            with np.errstate(all="ignore"):
                return Known(function(np.float64(one), np.float64(other)))

        def reflected(one: Any, other: Any, of_two: Any = of_two) -> Any:
            return of_two(Known(other), one) if isinstance(other, (int, float)) else NotImplemented

        setattr(Known, f"__{name}__", of_two)
        setattr(Known, f"__r{name}__", reflected)


_add_operators()


def known_math(function: Any) -> Callable[..., Any]:
    """A function of `math` of such numbers; what gives integers in Python still does."""
    if function in (math.floor, math.ceil, math.trunc):
        return function  # type: ignore[no-any-return]
    of_numbers = getattr(IEEE_MATH, function.__name__)

    def call(*numbers: Any, **more: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*numbers, **more) if more else of_numbers(*numbers)

    return call
