"""`where` and `clamp`: functions with optional arguments, or with arguments that take no part in promotion."""

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
    """Return the result of `operation.run` of `where`, for a condition of any dtype."""
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
    """Return x1 where the condition is True, else x2.

    Args:
        condition: bool array. For other dtypes, nonzero values count as True, including NaN. Or one truth value.
        x1, x2: arrays with any strides, or scalars. They broadcast with the condition and promote as in NumPy.

    Returns:
        an array of the promoted dtype of x1 and x2; `out` if given.

    Example:
        >>> elementwise.where(np.array([True, False]), np.array([1.0, 2.0]), 0.0)
        array([1., 0.])
    """
    return _WHERE, (condition, x1, x2), out, where, stream


def fill(x: Any, value: Any, *, where: Any = None, stream: Any = None) -> Array:
    """Fill x with a value in place, or only the elements where a mask is True.

    Args:
        x: array with up to 8 dimensions and any strides; it is written.
        value: a scalar, or an array that broadcasts to x's shape. Its dtype must be x's or promote with x's to x's.
        where: bool array that broadcasts with x. Elements of x where it is False keep their values.

    Returns:
        x.

    Raises:
        OptionError: a scalar is out of the dtype's range. The other errors are the same as in `where`.

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
    """Return an array converted to the dtype of the array that it is written to, if the two promote to that dtype."""
    own, wanted = info(source.dtype).name, info(dtype).name
    if own == wanted:
        return source
    if promoted((own, wanted)) != wanted:
        raise DTypeError(f"value has dtype {own} and x {wanted}: convert it with elementwise.astype")
    return astype(source, dtype, stream=stream)


def _truth(condition: Any, stream: Any) -> Any:
    """Return a condition as a bool array. Scalars and other objects are returned as they are."""
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
    """Return x limited to the range from min to max. Where min is above max, the result is max.

    NaN in any argument gives NaN.

    Args:
        x: array with up to 8 dimensions and any strides.
        min, max: arrays that broadcast with x, or scalars. One of them may be None for no bound.

    Returns:
        an array of the promoted dtype of the arguments; `out` if given.

    Raises:
        OptionError: both bounds are None, or a Python scalar is out of the dtype's range.

    Example:
        >>> elementwise.clamp(np.array([-1.0, 0.5, 2.0]), 0.0, 1.0)
        array([0. , 0.5, 1. ])
    """
    row, arguments = (_CLAMP, (x, min, max)) if min is not None and max is not None else _bounded(x, min, max)
    return row, arguments, out, where, stream


_INFINITY = math.inf


def of_numbers() -> None:
    """Set the scalar functions, for custom kernels that call `where` and `clamp`."""
    between, chosen = WHOLE_FUNCTIONS["clamp"], WHOLE_FUNCTIONS["where"]

    def clamp_of_numbers(x: Any, min: Any = None, max: Any = None) -> Any:
        if min is None and max is None:
            raise TypeError("it calls clamp without bounds; pass one or both")
        return between(x, -_INFINITY if min is None else min, _INFINITY if max is None else max)

    def where_of_numbers(condition: Any, x1: Any, x2: Any) -> Any:
        # A condition that is known during the trace needs no selection.
        if condition is True or condition is False:
            return x1 if condition else x2
        return chosen(condition, x1, x2)

    NAMESAKES.update(WHOLE_FUNCTIONS, where=where_of_numbers, clip=clamp_of_numbers)
    where.py_func, clamp.py_func = where_of_numbers, clamp_of_numbers


def _bounded(x: Any, low: Any, high: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the row of a clamp with at most one bound, and its arguments."""
    if low is None and high is None:
        raise OptionError("min and max are both None; pass one bound or both")
    return (_UPPER, (x, high)) if low is None else (_LOWER, (x, low))
