"""Functions of numbers that formulas call and that are noted as a whole: they are neither looked into nor derived, but
have gradients of their own.

So a formula that calls `elementwise.maximum` has one way through it, not three; and its derivative is that of
`maximum_backward`, at ties and at 0 too, where a derivative that is derived from how a function is computed may be
another one, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Whole:
    """A function that is noted as a whole.

    Attributes:
        count: how many numbers it takes.
        numpy: the same of arrays of float64.
        is_choosing: whether it may take nothing of an argument: then its gradient is 0 there, whatever dy is.
        gradients: of each argument the function (dy, arguments) -> its gradient; None where that is 0. None where
            there is no derivative.
    """

    def __init__(self, count: int, numpy: Callable[..., Any], is_choosing: bool):
        self.count, self.numpy, self.is_choosing = count, numpy, is_choosing
        self.gradients: Sequence[Callable[..., Any] | None] | None = None


#: Function -> what is known of it.
WHOLES: dict[Any, Whole] = {}
#: What kernels that compute in float64 have in the place of some of them.
DOUBLES: dict[Any, Callable[..., Any]] = {}


def whole(
    name: str,
    scalar: Callable[..., Any],
    count: int,
    numpy: Callable[..., Any],
    double: Callable[..., Any] | None = None,
    *,
    is_step: bool = False,
    is_choosing: bool = True,
) -> Callable[..., Any]:
    """A new function of so many numbers that computes what `scalar` does, and is noted as a whole.

    Args:
        name: what it is called in the text of formulas.
        numpy: the same of arrays.
        double: what it is of float64, if that is something else.
        is_choosing: as in `Whole`.
        is_step: whether its derivatives are 0; if not, `give_gradients` says what they are.
    """
    takes = ", ".join(f"x{k}" for k in range(count))
    made = _made(name, takes, f"scalar({takes})", {"scalar": scalar})
    WHOLES[made] = Whole(count, numpy, is_choosing)
    if is_step:
        WHOLES[made].gradients = [None] * count
    if double is not None:
        DOUBLES[made] = double
    return made


def give_gradients(
    function: Callable[..., Any], gradient: Callable[..., Any], numpy: Callable[..., Any], by: Sequence[int]
) -> None:
    """Say what the gradients of a function are.

    Args:
        function: what `whole` made.
        gradient: (dy, arguments) -> the gradients with respect to the arguments `by`, as a tuple.
        numpy: the same of arrays.
    """
    of, name = WHOLES[function], function.__name__
    takes = ", ".join(["dy", *(f"x{k}" for k in range(of.count))])
    found: list[Callable[..., Any] | None] = [None] * of.count
    for k, argument in enumerate(by):
        called = f"{name}_backward" if len(by) == 1 else f"{name}_backward_{argument}"
        found[argument] = made = _made(called, takes, f"gradient({takes})[{k}]", {"gradient": gradient})
        WHOLES[made] = Whole(of.count + 1, lambda *arrays, k=k: numpy(*arrays)[k], of.is_choosing)
    of.gradients = found


def _made(name: str, takes: str, returned: str, used: dict[str, Any]) -> Callable[..., Any]:
    space = {"__name__": "numbacc.elementwise", **used}
    exec(compile(f"def {name}({takes}):\n    return {returned}\n", f"<numbacc.{name} of numbers>", "exec"), space)
    made: Callable[..., Any] = space[name]
    return made


# ---------------------------------------------------------------- Python's own


def _larger(a, b):
    """max(a, b): the first of equals, and where one is NaN."""
    return b if b > a else a


def _smaller(a, b):
    return b if b < a else a


def _larger_backward(dy, a, b):
    return (0.0, dy) if b > a else (dy, 0.0)


def _smaller_backward(dy, a, b):
    return (0.0, dy) if b < a else (dy, 0.0)


larger = whole("max", _larger, 2, lambda a, b: np.where(b > a, b, a))
smaller = whole("min", _smaller, 2, lambda a, b: np.where(b < a, b, a))
give_gradients(larger, _larger_backward, lambda dy, a, b: (np.where(b > a, 0.0, dy), np.where(b > a, dy, 0.0)), (0, 1))
give_gradients(
    smaller, _smaller_backward, lambda dy, a, b: (np.where(b < a, 0.0, dy), np.where(b < a, dy, 0.0)), (0, 1)
)
