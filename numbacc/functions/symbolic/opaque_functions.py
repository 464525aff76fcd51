"""Opaque functions: formulas call them, and traces record them as one operation with a given gradient.

For example, a formula that calls `elementwise.maximum` has one path through it instead of three. Its derivative is that
of `maximum_backward`, also at ties and at 0, where the derivative of the code may differ or not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Whole:
    """A function that traces record as one operation.

    Attributes:
        count: the number of its arguments.
        numpy: the same function for float64 arrays.
        is_choosing: whether the result may be independent of an argument. Then the argument's gradient is 0 for any dy.
        gradients: for each argument, the function (dy, arguments) -> its gradient, or None if the gradient is 0. None
            if no derivative is known.
    """

    def __init__(self, count: int, numpy: Callable[..., Any], is_choosing: bool):
        self.count, self.numpy, self.is_choosing = count, numpy, is_choosing
        self.gradients: Sequence[Callable[..., Any] | None] | None = None


#: Function -> its description.
WHOLES: dict[Any, Whole] = {}
#: Function -> its replacement in kernels that compute in float64.
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
    """Return a new function that computes the same as `scalar` and that traces record as one operation.

    Args:
        name: the name in the text of formulas.
        count: the number of arguments.
        numpy: the same function for arrays.
        double: the function for float64, if it is a different one.
        is_choosing: the same as in `Whole`.
        is_step: whether its derivatives are 0. If not, `give_gradients` sets them.
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
    """Set the gradients of a function.

    Args:
        function: a function that `whole` returned.
        gradient: (dy, arguments) -> a tuple of the gradients with respect to the arguments `by`.
        numpy: the same function for arrays.
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


# ---------------------------------------------------------------- Python's max and min


def _larger(a, b):
    """Return max(a, b): the first argument if both are equal or one is NaN."""
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
