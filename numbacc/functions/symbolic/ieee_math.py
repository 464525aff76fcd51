"""Python's arithmetic with the results of a GPU where Python raises exceptions.

This module has a `math` without exceptions, numbers that are known when a formula is traced, and copies of functions
that use other meanings for some names.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from ...reference.c_library import of_math


def names_in(code: CodeType) -> set[str]:
    """Return the global names that a function uses, including the functions inside it."""
    inside = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(names_in, inside))


def _nothing(value: Any) -> bool:
    return False


def copied(
    function: Any,
    convert: Callable[[Any], Any],
    seen: dict[int, Any] | None = None,
    keeps: Callable[[Any], bool] = _nothing,
) -> Any:
    """Return a copy of a function that refers to converted objects only; all functions that it calls are copied, too.

    Args:
        function: any value. If it is not a Python function, the result of `convert` is returned.
        convert: value -> its replacement: the value itself to keep it, or to have a Python function copied. Constants
            in the code and built-in functions that it calls are such values, too.
        seen: id of a function -> its copy.
        keeps: whether a called Python function is used as it is.
    """
    seen = {} if seen is None else seen
    value = getattr(function, "py_func", function)
    found = convert(value)
    if found is not value or not isinstance(value, FunctionType) or keeps(value):
        return found
    if id(value) not in seen:
        own: dict[str, Any] = {"__builtins__": builtins}
        cells = tuple(type(cell)() for cell in value.__closure__ or ())
        code = value.__code__
        constants = tuple(convert(each) for each in code.co_consts)
        if any(one is not other for one, other in zip(constants, code.co_consts, strict=True)):
            code = code.replace(co_consts=constants)
        copy = FunctionType(code, own, value.__name__, value.__defaults__, cells)
        copy.__kwdefaults__ = value.__kwdefaults__
        seen[id(value)] = copy
        for cell, given in zip(cells, value.__closure__ or (), strict=True):
            cell.cell_contents = copied(given.cell_contents, convert, seen, keeps)
        names = value.__globals__
        for name in names_in(code):
            if name in names:
                own[name] = copied(names[name], convert, seen, keeps)
            elif hasattr(builtins, name):
                theirs = getattr(builtins, name)
                if convert(theirs) is not theirs:
                    own[name] = convert(theirs)
    return seen[id(value)]


# ---------------------------------------------------------------- math without exceptions


#: Functions that return integers in Python; -0.0 does not exist as an integer.
_WHOLE = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


class _Ieee:
    """`math` as it is on a GPU: it returns infinity or NaN where Python raises an error."""

    def __getattr__(self, name: str) -> Any:
        if name in _WHOLE:
            return _WHOLE[name]
        value = getattr(math, name)
        if isinstance(value, BuiltinFunctionType):
            value = _without_exceptions(value)
        setattr(self, name, value)  # so that this method is called once for each name
        return value


def _without_exceptions(function: Any) -> Callable[..., Any]:
    name = function.__name__

    def call(*numbers: Any) -> Any:
        try:
            # `math.trunc` needs Python floats. Among NumPy's floats, only float64 is one.
            found = function(*[float(each) if isinstance(each, np.floating) else each for each in numbers])
        except (ArithmeticError, ValueError) as error:
            of_arrays = of_math(name)
            if of_arrays is not None:
                return of_arrays(*map(np.float64, numbers))
            return np.float64(math.inf if isinstance(error, OverflowError) else math.nan)
        # As a float64, it does not raise in later operations either.
        return np.float64(found) if type(found) is float else found

    return call


#: Replaces `math`.
IEEE_MATH = _Ieee()
#: Replaces `cmath` by NumPy's functions.
IEEE_CMATH = SimpleNamespace(
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
)


# ---------------------------------------------------------------- numbers that are known

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power,
}  # fmt: skip


class Known(float):
    """A float whose arithmetic with numbers gives a `Known` again and never raises."""

    __slots__ = ()

    def __neg__(self) -> Known:
        return Known(-float(self))

    def __abs__(self) -> Known:
        return Known(abs(float(self)))


def _add_operators() -> None:
    for name, function in _BINARY.items():

        def of_two(one: Any, other: Any, function: Any = function) -> Any:
            if not isinstance(other, (int, float)):
                return NotImplemented  # a symbol records it
            with np.errstate(all="ignore"):
                return Known(function(np.float64(one), np.float64(other)))

        def reflected(one: Any, other: Any, of_two: Any = of_two) -> Any:
            return of_two(Known(other), one) if isinstance(other, (int, float)) else NotImplemented

        setattr(Known, f"__{name}__", of_two)
        setattr(Known, f"__r{name}__", reflected)


_add_operators()


def known_math(function: Any) -> Callable[..., Any]:
    """Return a function of `math` for `Known` numbers. Functions that return integers in Python still do."""
    if function in (math.floor, math.ceil, math.trunc):
        return function  # type: ignore[no-any-return]
    of_numbers = getattr(IEEE_MATH, function.__name__)

    def call(*numbers: Any, **more: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*numbers, **more) if more else of_numbers(*numbers)

    return call
