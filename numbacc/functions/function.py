"""What is known of a function of `numbacc.elementwise`, in one object: all else that must know it reads this.

The public function, its plan, its gradients and their docstrings, its form in formulas of users' own, the table in
docs/elementwise.md, the parameters of tests and the calls of the fuzzer are made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from .formula import Heavy
from .symbolic.vectorized import vectorized


class Meaning(NamedTuple):
    """A function of one kind of dtype: of numbers, as kernels compile it, and of NumPy arrays."""

    scalar: Callable[..., Any]
    numpy: Callable[..., Any]


class Gradient(NamedTuple):
    """The gradients of a function.

    Attributes:
        scalar: (dy, arguments, options) -> the gradients with respect to arguments, as a tuple; None where they are
            derived from the function's scalar form.
        numpy: the same of NumPy arrays; None where it is derived from `scalar`.
        by: the arguments that have one, counted from 1; None for all.
    """

    scalar: Callable[..., Any] | None = None
    numpy: Callable[..., Any] | None = None
    by: tuple[int, ...] | None = None


#: The gradient of most functions.
DERIVED = Gradient()


class Function(NamedTuple):
    """A function of `numbacc.elementwise`.

    Attributes:
        name: as the public function is called.
        arguments: their names, options not among them.
        rule: a key of `elementwise.type_promotion.RULES`: which dtype the result has.
        says: what it computes, in a line.
        example: (arguments, what is printed).
        options: names of its options -> their defaults. They are the last of its arguments.
        meanings: kinds of dtypes -> what it is for these: f floats (d float64, h float16 and g bfloat16 where these
            have forms of their own, n where all arguments are arrays of the same one of these two), i and u integers,
            b truth values, c complex numbers; m signed beside unsigned ones of 64 bits, w the reverse.
        gradient: None where there is none, or where it is 0 everywhere.
        is_opaque: whether formulas of one's own note it as a whole: it branches, or its gradient is not what follows
            from how it is computed. The others are a few operations, or known to `symbolic.derivatives`.
        is_smooth: of an opaque one, whether it depends on all of its arguments everywhere, if often little.
        is_long: whether it takes longer than memory does for 16 bits.
        of_sum: whether `bias_activation` and `residual_activation` have it.
        meeting, rounded, heavy, truths, wrong: as in `elementwise.rows.Row`.
        numbers: how many of its last arguments are numbers, though they are no options.
    """

    name: str
    arguments: tuple[str, ...]
    rule: str
    says: str
    example: tuple[str, str]
    options: Mapping[str, Any]
    meanings: Mapping[str, Meaning]
    gradient: Gradient | None
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
    options: Mapping[str, Any] = MappingProxyType({}),
    gradient: Gradient | Callable[..., Any] | None = DERIVED,
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
    **meanings: tuple[Callable[..., Any], Callable[..., Any]] | Callable[..., Any],
) -> Function:
    """A function, of its arguments' names with blanks between, and the two parts of its example.

    A meaning is (of numbers, of NumPy arrays), or the first alone: then the other is derived from it. A gradient that
    is no `Gradient` is its `scalar`. Of what gives truth values, and of what is not for floats, there is none.
    """
    found = {kinds: _meaning(name, each) for kinds, each in meanings.items()}
    if gradient is not None and not isinstance(gradient, Gradient):
        gradient = Gradient(gradient)
    if rule == "bool" or not any("f" in kinds for kinds in found):
        gradient = None
    return Function(
        name, tuple(arguments.split()), rule, says, (example, prints), options, found, gradient, is_opaque, is_smooth,
        is_long, of_sum, meeting, rounded, heavy, truths, numbers, wrong,
    )  # fmt: skip


def _meaning(name: str, given: tuple[Callable[..., Any], Callable[..., Any]] | Callable[..., Any]) -> Meaning:
    if isinstance(given, tuple):
        return Meaning(*given)

    @cache
    def derived() -> Callable[..., tuple[Any, ...]]:
        return vectorized(given, name, rounds_numbers=True)

    return Meaning(given, lambda *arrays: derived()(*arrays)[0])


def unary(name: str, rule: str, says: str, example: str, prints: str, **more: Any) -> Function:
    """A function of one array, x."""
    return function(name, "x", rule, says, example, prints, **more)


def binary(name: str, rule: str, says: str, example: str, prints: str, **more: Any) -> Function:
    """A function of two arrays, or of an array and a number."""
    return function(name, "x1 x2", rule, says, example, prints, **more)


def activation(name: str, says: str, example: str, prints: str, *, is_opaque: bool = True, **more: Any) -> Function:
    """An activation: of one array of floats, opaque unless `symbolic.derivatives` knows it."""
    more = {"of_sum": True, **more}
    return function(name, "x", "float", says, example, prints, is_opaque=is_opaque, **more)


def sloped(slope: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a function of one array, of its slope."""

    def gradient(dy, x):
        return (dy * slope(x),)

    return gradient


def second(pair: Callable[..., Any]) -> Callable[..., Any]:
    """The second of what a function returns."""

    def slope(x):
        return pair(x)[1]

    return slope
