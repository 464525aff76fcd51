"""Parse the arguments of a product, which may be arrays or scalars, and return its results in the form that users
expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base.dtypes import Products
from ..base.layout import same_layout
from ..errors import LayoutError, OptionError, shown
from ..plan.base import check_out
from .problem import NUMBER, SCALES, GemmProblem


def array_or_number(value: Any, name: str, handle: int) -> Any:
    """Return an argument as an array, or a scale as a float; None stays None.

    Raises:
        DTypeError: it is not an array or a number. OptionError: a number is too large for a float64.
    """
    if value is None:
        return None
    if name in SCALES and isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return checked_number(value, name)
    return operands.as_array(value, name, handle)


def parsed(given: Mapping[str, Any], handle: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the arrays and scales by name, their layouts), None for those that are missing."""
    found: dict[str, Any] = {}
    layouts: dict[str, Any] = {}
    for name, value in given.items():
        found[name] = array = array_or_number(value, name, handle)
        if value is None and name in "ab":
            found[name] = array = operands.as_array(value, name, handle)  # it raises
        layouts[name] = None if array is None else NUMBER if isinstance(array, float) else operands.layout_of(array)
    return found, layouts


def checked_number(value: Any, name: str, types: Products | None = None) -> float:
    """Return alpha, beta or a scale as a number.

    Raises:
        OptionError: it is not a number, is too large for a float64, or is not a 32-bit integer in an int8 product.
    """
    if type(value) is float and (types is None or types.accumulator != "int32"):
        return value
    if not isinstance(value, (int, float, np.number)) or np.iscomplexobj(value):
        raise OptionError(f"{name}={shown(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise OptionError(f"{name}={shown(value)} is too large for a float64") from None
    if types is not None and types.accumulator == "int32" and not (number.is_integer() and abs(number) < 2**31):
        raise OptionError(f"{name}={shown(value)} must be a 32-bit integer, since the product of int8 matrices is one")
    return number


class WithAux(NamedTuple):
    """Result of an epilogue that also returns `aux`, an array for the backward product."""

    out: Array
    aux: Array


class WithBiasGrad(NamedTuple):
    """Result of an epilogue that also returns `bias_grad`."""

    out: Array
    bias_grad: Array


def as_given(result: Any, out: Any, aux: Any) -> Any:
    """Return a result with the user's own arrays for it, which may be another library's, if they were passed."""
    if isinstance(result, WithAux):
        return WithAux(result.out if out is None else out, result.aux if aux is None else aux)
    if isinstance(result, WithBiasGrad):
        pair = out if is_pair(out) else (out, None)
        return WithBiasGrad(*(made if own is None else own for made, own in zip(result, pair, strict=True)))
    return result if out is None else out


def is_pair(out: Any) -> bool:
    """Return whether `out` is a pair of arrays, for D and bias_grad."""
    return isinstance(out, (tuple, list)) and len(out) == 2


def bias_grad_out(problem: GemmProblem, given: Any, handle: int) -> Any:
    """Return the user's array for bias_grad, which must be as one that the call would make.

    Raises:
        OptionError: the epilogue has no bias_grad. ShapeError, DTypeError, DeviceError, LayoutError: it does not fit.
    """
    made = problem.second
    if made is None or not problem.epilogue.produces_bias_grad:
        raise OptionError(
            f'out is a pair, but the epilogue "{problem.epilogue.value}" has no bias_grad: pass one array'
        )
    if given is None:
        return None
    array = operands.as_array(given, "out[1]", handle)
    own = operands.layout_of(array)
    check_out((own,), (made,), ("out[1]",))
    if not same_layout(own, made):
        raise LayoutError(f"out[1] has the strides {own.strides}; it must be contiguous")
    return array
