"""The arguments of a product as they are given, arrays or numbers that stand for them, and its results as asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base.dtypes import Products
from ..errors import OptionError, shown
from .problem import SCALES


def array_or_number(value: Any, name: str, handle: int) -> Any:
    """An argument as an array, a scale also as a float; None stays None.

    Raises:
        DTypeError: it is neither. OptionError: a number too large for a float64.
    """
    if value is None:
        return None
    if name in SCALES and isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return checked_number(value, name)
    return operands.as_array(value, name, handle)


def checked_number(value: Any, name: str, types: Products | None = None) -> float:
    """alpha, beta or a scale as a number.

    Raises:
        OptionError: it is not a number, too large for a float64, or not a 32-bit integer where products are of int8.
    """
    if type(value) is float and (types is None or types.accumulator != "int32"):
        return value
    if not isinstance(value, (int, float, np.number)) or np.iscomplexobj(value):
        raise OptionError(f"{name}={shown(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise OptionError(f"{name}={shown(value)} is beyond what a float64 can hold") from None
    if types is not None and types.accumulator == "int32" and not (number.is_integer() and abs(number) < 2**31):
        raise OptionError(f"{name}={shown(value)} must be an integer of 32 bits, as the product of int8 matrices is")
    return number


class WithAux(NamedTuple):
    """Result of an epilogue that also gives `aux`, what the backward product needs."""

    out: Array
    aux: Array


class WithBiasGrad(NamedTuple):
    """Result of an epilogue that also gives `bias_grad`."""

    out: Array
    bias_grad: Array


def as_given(result: Any, out: Any, aux: Any) -> Any:
    """A result with the arrays that the user gave for it, which may be another library's, instead of those returned."""
    if isinstance(result, WithAux):
        return WithAux(result.out if out is None else out, result.aux if aux is None else aux)
    if isinstance(result, WithBiasGrad):
        return result if out is None else result._replace(out=out)
    return result if out is None else out
