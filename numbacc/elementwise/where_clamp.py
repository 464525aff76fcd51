"""`where` and `clamp`: functions whose arguments may be left out, or be of a dtype that has no say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import operands, values
from ..arrays.operands import Array
from ..base.docstrings import like
from ..base.dtypes import info
from ..errors import DTypeError, OptionError
from ..functions.symbolic.trace import NAMESAKES
from ..plan.calls import planned
from ..runtime.streams import handle_of
from .calling import SHARED, plans
from .casting import astype
from .operation import find, run
from .public import WHOLE_FUNCTIONS
from .rows import TABLE, Row
from .type_promotion import WEAK, promoted

_WHERE, _CLAMP, _NOT_EQUAL = (TABLE[name].row for name in ("where", "clamp", "not_equal"))
_LOWER, _UPPER = (TABLE[name].row.called(("x", bound)) for name, bound in (("maximum", "min"), ("minimum", "max")))
_FILL = _WHERE.called(("where", "value", "x"))


def _run(row: Row, arguments: tuple[Any, ...], out: Any, where: Any, stream: Any) -> Any:
    """As `operation.run` of `where`, of any condition."""
    condition, *others = arguments
    return run(row, (_truth(condition, stream), *others), out, where, stream)


@planned(
    plans,
    "ElementwisePlan",
    "condition x1 x2",
    call="plan(condition, x1, x2)",
    note="The condition is of bool.",
    short=False,
    run=_run,
    prepare=find,
)
@like(SHARED)
def where(condition: Any, x1: Any, x2: Any, *, out: Any = None, where: Any = None, stream: Any = None) -> Array:
    """x1 where the condition holds, else x2.

    Args:
        condition: array of bool; of another dtype, what is not 0 holds, NaN too. Or one truth value.
        x1, x2: arrays, any strides, that broadcast as in NumPy with it; or numbers. They meet in a dtype as in NumPy.

    Returns:
        an array of the dtype in which x1 and x2 meet; `out` if given.

    Example:
        >>> elementwise.where(np.array([True, False]), np.array([1.0, 2.0]), 0.0)
        array([1., 0.])
    """
    return _WHERE, (condition, x1, x2), out, where, stream


def fill(x: Any, value: Any, *, where: Any = None, stream: Any = None) -> Array:
    """Make all elements of x one number, in place; with `where` those at which it holds.

    Args:
        x: array of up to 8 dimensions, any strides; it is written.
        value: a number, or an array that broadcasts to x's shape, of x's dtype or one that meets it in x's.
        where: array of bool that broadcasts with x: the others stay.

    Returns:
        x.

    Raises:
        OptionError: a number that the dtype has not. As `where` besides.

    Example:
        >>> elementwise.fill(np.array([1.0, 2.0]), 0.0, where=np.array([True, False]))
        array([0., 2.])
    """
    handle = handle_of(stream)
    array = operands.as_array(x, "x", handle)
    if not values.is_on_host(value):
        value = operands.as_input(value, "value", handle)
    if hasattr(value, "shape") and not isinstance(value, np.generic):
        value = _met(value, array.dtype, stream)
    if where is not None:
        if isinstance(value, WEAK):
            value = values.converted(value, array.dtype, "value")[()]
        return run(_FILL, (_truth(where, stream), value, x), x, None, stream)
    if isinstance(array, np.ndarray):
        array[...] = values.broadcast(values.converted(value, array.dtype, "value"), array.shape, "value")
    else:
        array._assign(value, handle, "value")
    return x


def _met(source: Any, dtype: np.dtype[Any], stream: Any) -> Any:
    """An array in the dtype of the one that it is written to, where they meet in that."""
    own, wanted = info(source.dtype).name, info(dtype).name
    if own == wanted:
        return source
    if promoted((own, wanted)) != wanted:
        raise DTypeError(f"value has dtype {own} and x {wanted}: elementwise.astype converts")
    return astype(source, dtype, stream=stream)


def _truth(condition: Any, stream: Any) -> Any:
    """A condition as an array of bool; numbers, and what is none of both, as they are."""
    known = getattr(condition, "_numbacc_layout", None)
    if known is not None and known.dtype == np.bool_:
        return condition
    found = getattr(condition, "dtype", None)
    if isinstance(condition, (*WEAK, np.generic)) or (found is not None and str(found) in ("bool", "torch.bool")):
        return condition
    array = operands.as_input(condition, "condition", handle_of(stream))
    return array if array.dtype == np.bool_ else run(_NOT_EQUAL, (array, 0), None, None, stream)


@planned(
    plans,
    "ElementwisePlan",
    "x min max",
    call="plan(x, min, max)",
    note="Leave out a bound that is None.",
    short=False,
    run=run,
    prepare=find,
)
@like(SHARED)
def clamp(x: Any, min: Any = None, max: Any = None, *, out: Any = None, where: Any = None, stream: Any = None) -> Array:
    """x, but at least min and at most max; max where min is above it, NaN where one of them is.

    Args:
        x: array of up to 8 dimensions, any strides.
        min, max: arrays that broadcast with it, or numbers; None for no bound, not both.

    Returns:
        an array of the dtype in which the arguments meet; `out` if given.

    Raises:
        OptionError: both bounds are None, or a number that the dtype does not hold.

    Example:
        >>> elementwise.clamp(np.array([-1.0, 0.5, 2.0]), 0.0, 1.0)
        array([0. , 0.5, 1. ])
    """
    row, arguments = (_CLAMP, (x, min, max)) if min is not None and max is not None else _bounded(x, min, max)
    return row, arguments, out, where, stream


_INFINITY = math.inf


def of_numbers() -> None:
    """Give them what they are of numbers, for kernels of one's own that call them."""
    between, chosen = WHOLE_FUNCTIONS["clamp"], WHOLE_FUNCTIONS["where"]

    def clamp_of_numbers(x: Any, min: Any = None, max: Any = None) -> Any:
        if min is None and max is None:
            raise TypeError("it calls clamp without bounds; pass one or both")
        return between(x, -_INFINITY if min is None else min, _INFINITY if max is None else max)

    def where_of_numbers(condition: Any, x1: Any, x2: Any) -> Any:
        # What is known when the formula is noted needs no choice.
        if condition is True or condition is False:
            return x1 if condition else x2
        return chosen(condition, x1, x2)

    NAMESAKES.update(WHOLE_FUNCTIONS, where=where_of_numbers, clip=clamp_of_numbers)
    where.py_func, clamp.py_func = where_of_numbers, clamp_of_numbers


def _bounded(x: Any, low: Any, high: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function that keeps these bounds, of which at least one is None, and its arguments."""
    if low is None and high is None:
        raise OptionError("min and max are both None; pass one bound or both")
    return (_UPPER, (x, high)) if low is None else (_LOWER, (x, low))
