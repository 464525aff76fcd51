"""The object that describes one function of `numbacc.elementwise`.

numbacc makes the public function, its plan, its gradient, their docstrings and the function's form in users' formulas
from this object; also the table in docs/elementwise.md, the parameters of the tests and the calls of the fuzzer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from .formula import Heavy
from .symbolic.vectorized import vectorized


class Meaning(NamedTuple):
    """A function for one kind of dtype: for scalars, as kernels compile it, and for NumPy arrays."""

    scalar: Callable[..., Any]
    numpy: Callable[..., Any]


class FunctionGradient(NamedTuple):
    """The gradients of a function.

    Attributes:
        scalar: (dy, arguments, options) -> a tuple of the gradients with respect to the arguments. If it is None, the
            gradient is derived from the function.
        numpy: the gradient of NumPy arrays. If it is None, it is derived from `scalar`.
        by: the numbers of the arguments that have a gradient, counted from 1; None if all have one.
    """

    scalar: Callable[..., Any] | None = None
    numpy: Callable[..., Any] | None = None
    by: tuple[int, ...] | None = None


#: The gradient of most functions.
DERIVED = FunctionGradient()


class Function(NamedTuple):
    """A function of `numbacc.elementwise`.

    Attributes:
        name: the name of the public function.
        arguments: the names of its arguments, without options.
        rule: the dtype of the result, as a key of `elementwise.type_promotion.RULES`.
        says: the function's result, for the docstring "Return <says>". More sentences may follow the first one.
        example: the arguments of an example, and the output.
        gradient_example: the same for the gradient, with the arguments after dy, which is all ones.
        options: the names of its options and their defaults. Options are the last arguments.
        options_say: the names of its options and their descriptions, for the docstring.
        meanings: kinds of dtypes -> the function for these dtypes. The kinds are f (floats), i and u (signed and
            unsigned integers), b (bool) and c (complex numbers). Single dtypes may have a function too: d (float64),
            h (float16), g (bfloat16), and n if all arguments are float16 arrays or all are bfloat16 arrays. m stands
            for an int64 and a uint64 argument, w for a uint64 and an int64 argument.
        gradient: None if the derivative is unknown, or 0 everywhere.
        is_opaque: whether a trace of a user's formula records the function as one operation and does not look into it.
            This is needed if the function branches, or if `gradient` differs from the derivative of the code.
        is_smooth: whether the result of an opaque function depends on all of its arguments everywhere.
        is_long: whether a kernel of 16-bit arrays spends more time on this function than on memory.
        of_sum: whether `bias_activation` and `residual_activation` offer it.
        meeting, rounded, heavy, truths, wrong: the same as in `elementwise.rows.Row`.
        numbers: how many of the last arguments must be scalars but are not options.
    """

    name: str
    arguments: tuple[str, ...]
    rule: str
    says: str
    example: tuple[str, str]
    gradient_example: tuple[str, str]
    options: Mapping[str, Any]
    options_say: Mapping[str, str]
    meanings: Mapping[str, Meaning]
    gradient: FunctionGradient | None
    is_opaque: bool
    is_smooth: bool
    is_long: bool
    of_sum: bool
    meeting: Sequence[int] | None
    rounded: bool
    heavy: Heavy
    truths: Sequence[int]
    numbers: int
    wrong: Callable[..., str] | None


def function(
    name: str,
    arguments: str,
    rule: str,
    says: str,
    example: str,
    prints: str,
    *,
    options: Mapping[str, tuple[float, str]] = MappingProxyType({}),
    gradient: FunctionGradient | Callable[..., Any] | None = DERIVED,
    is_opaque: bool = False,
    is_smooth: bool = False,
    is_long: bool = False,
    of_sum: bool = False,
    meeting: Sequence[int] | None = None,
    rounded: bool = False,
    heavy: Heavy = (),
    truths: Sequence[int] = (),
    numbers: int = 0,
    wrong: Callable[..., str] | None = None,
    gradient_example: str = "",
    gradient_prints: str = "",
    **meanings: tuple[Callable[..., Any], Callable[..., Any]] | Callable[..., Any],
) -> Function:
    """Describe a function. `Function` explains the arguments that are not listed here.

    Args:
        arguments: the arguments' names, with blanks between them.
        example, prints: the arguments of the example, and the output.
        options: the name of each option, its default and its description: "the slope where x is negative".
        gradient_example, gradient_prints: the same for the gradient; by default with the arguments of `example`.
        gradient: a `FunctionGradient`, or its attribute `scalar` alone. It becomes None for functions that return bool
            or do not support floats.
        meanings: for each kind a pair of functions, one of numbers and one of NumPy arrays; or only the function of
            numbers, and the other one is derived from it.
    """
    found = {kinds: _meaning(name, each) for kinds, each in meanings.items()}
    if gradient is not None and not isinstance(gradient, FunctionGradient):
        gradient = FunctionGradient(gradient)
    if rule == "bool" or not any("f" in kinds for kinds in found):
        gradient = None
    defaults = {option: default for option, (default, _) in options.items()}
    descriptions = {option: text for option, (_, text) in options.items()}
    return Function(
        name, tuple(arguments.split()), rule, says, (example, prints), (gradient_example or example, gradient_prints),
        defaults, descriptions, found, gradient, is_opaque, is_smooth, is_long, of_sum, meeting, rounded, heavy, truths,
        numbers, wrong,
    )  # fmt: skip


def _meaning(name: str, given: tuple[Callable[..., Any], Callable[..., Any]] | Callable[..., Any]) -> Meaning:
    if isinstance(given, tuple):
        return Meaning(*given)

    @cache
    def derived() -> Callable[..., tuple[Any, ...]]:
        return vectorized(given, name, rounds_numbers=True)

    return Meaning(given, lambda *arrays: derived()(*arrays)[0])


def unary(name: str, rule: str, says: str, example: str, prints: str, **more: Any) -> Function:
    """Describe a function of one array, x."""
    return function(name, "x", rule, says, example, prints, **more)


def binary(name: str, rule: str, says: str, example: str, prints: str, **more: Any) -> Function:
    """Describe a function of two arrays, or of an array and a scalar."""
    return function(name, "x1 x2", rule, says, example, prints, **more)


def activation(name: str, says: str, example: str, prints: str, *, is_opaque: bool = True, **more: Any) -> Function:
    """Describe an activation function of one float array. If it is not opaque, `symbolic.derivatives` has its rule."""
    more = {"of_sum": True, **more}
    return function(name, "x", "float", says, example, prints, is_opaque=is_opaque, **more)


def sloped(slope: Callable[..., Any]) -> Callable[..., Any]:
    """Make the gradient of a function of one array from its derivative."""

    def gradient(dy, x):
        return (dy * slope(x),)

    return gradient


def second(pair: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that returns the second result of another one."""

    def slope(x):
        return pair(x)[1]

    return slope
