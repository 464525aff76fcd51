"""Python functions that users pass: their parameters, copies with fixed globals, and their form for kernels and NumPy.

Positional parameters are numbers, and parameters with defaults are options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..errors import OptionError, UnsupportedError, shown
from ..functions.function import Meaning
from ..functions.symbolic.derive import written
from ..functions.symbolic.ieee_math import copied
from ..functions.symbolic.trace import is_truth, is_whole, traced
from ..functions.symbolic.vectorized import vectorized

_EMPTY = inspect.Parameter.empty
_POSITIONAL = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


def python_function(value: Any, name: str) -> FunctionType:
    """Return an argument with this name as a Python function.

    Raises:
        OptionError: it is not a Python function.
    """
    plain = getattr(value, "py_func", value)
    if not isinstance(plain, FunctionType):
        raise OptionError(f"{name}={shown(value)} is not a Python function")
    return plain


def taken_by(function: FunctionType, called: str) -> tuple[list[str], dict[str, Any]]:
    """Return (the names of the numbers, the defaults of the options by name) of a function's parameters.

    Raises:
        OptionError: the numbers are not positional, or an option is not a number.
    """
    parameters = inspect.signature(function).parameters.values()
    if not all(
        each.kind in _POSITIONAL or (each.kind is _KEYWORD and each.default is not _EMPTY) for each in parameters
    ):
        raise OptionError(
            f"{called} has keyword-only or variadic parameters without a default; parameters must be positional for "
            "numbers, and have defaults for options"
        )
    options = {each.name: each.default for each in parameters if each.default is not _EMPTY}
    for name, default in options.items():
        if not isinstance(default, _NUMBERS):
            raise OptionError(
                f"{called} has the option {name}={shown(default)}, a {type(default).__name__}; options are numbers: "
                f"write a function that takes {name} and returns a kernel"
            )
    return [each.name for each in parameters if each.default is _EMPTY], options


def frozen(function: FunctionType) -> Callable[..., Any]:
    """Return a copy of a function with its current globals and closures. Its options become positional parameters."""
    # Opaque functions are kept, since traces recognize them.
    plain = copied(function, lambda value: value, keeps=lambda each: each is not function and is_whole(each))
    code = plain.__code__
    code = code.replace(co_argcount=code.co_argcount + code.co_kwonlyargcount, co_kwonlyargcount=0)
    found: Callable[..., Any] = FunctionType(code, plain.__globals__, plain.__name__, None, plain.__closure__)
    return found


def meaning_of(function: Callable[..., Any], name: str) -> tuple[Meaning, list[str]]:
    """Return (the formula of a function with this name, "bool" or "" for each of its results).

    Raises:
        UnsupportedError: the function uses something that kernels do not support; the message names the line.
    """
    try:
        scalar = written(function, name, gradient=False)
        _, ways = traced(function)
        meaning = Meaning(scalar, vectorized(scalar, name, rounds_numbers=True))
    except TypeError as error:
        raise UnsupportedError(str(error)) from None
    count = len(ways[0][1])
    return meaning, ["bool" if all(is_truth(found[k]) for _, found in ways) else "" for k in range(count)]


def choosing(function: Callable[..., Any], given: Sequence[str], taken: Sequence[str]) -> Callable[..., Any]:
    """Return a function with the parameters `given` that calls `function` with the parameters `taken`.

    It is generated as source text, since the number of its parameters varies.
    """
    if list(given) == list(taken):
        return function
    space: dict[str, Any] = {"function": function}
    exec(f"def choosing({', '.join(given)}):\n    return function({', '.join(taken)})\n", space)
    chosen: Callable[..., Any] = space["choosing"]
    return chosen


def choosing_results(function: Callable[..., Any], numbers: tuple[int, ...]) -> Callable[..., Any]:
    """Return a function that returns some of the results of another one."""
    count = function.__code__.co_argcount
    if function.__code__.co_flags & inspect.CO_VARARGS:  # the form for arrays
        return lambda *given: tuple([function(*given)[k] for k in numbers])
    given, space = ", ".join(f"x{k}" for k in range(count)), {"function": function}
    chosen = ", ".join(f"found[{k}]" for k in numbers)
    exec(f"def chosen({given}):\n    found = function({given})\n    return ({chosen},)\n", space)
    result: Callable[..., Any] = space["chosen"]
    return result
