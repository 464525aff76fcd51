"""Checks of numeric arguments: they return the number, or raise an error that says which values are valid."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np

from ..errors import Error, OptionError, ShapeError, shown


def integer(
    value: Any, name: str, lowest: int | None = None, highest: int | None = None, error: type[Error] = OptionError
) -> int:
    """Return an integer from `lowest` to `highest`.

    Raises:
        `error`: it is not one.
    """
    try:
        number = operator.index(value)
    except (TypeError, ShapeError):  # ShapeError: a GPU array with more than one element
        raise error(f"{name}={shown(value)} is not an integer") from None
    if lowest is not None and number < lowest:
        raise error(f"{name}={shown(number)} is out of range: it must be at least {lowest}")
    if highest is not None and number > highest:
        raise error(f"{name}={shown(number)} is out of range: it must be {lowest} to {highest}")
    return number


def real(value: Any, name: str) -> float:
    """Return a finite number.

    Raises:
        OptionError: it is not a number, or not finite.
    """
    # A GPU array with one element does not count as a number, because reading it would wait for the GPU.
    scalar = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if not isinstance(scalar, (numbers.Real, np.number, np.bool_)) or isinstance(scalar, np.complexfloating):
        raise OptionError(f"{name}={shown(value)} is not a number; pass one number for all values")
    try:
        number = float(scalar)
    except OverflowError:
        raise OptionError(f"{name}={shown(value)} is too large for a float") from None
    if not math.isfinite(number):
        raise OptionError(f"{name}={number} must be finite")
    return number


def bools(value: Any, name: str, count: int) -> tuple[bool, ...]:
    """Return `count` bools, which are given as one for all, or as a tuple or list of them.

    Raises:
        OptionError: it is neither.
    """
    found = (value,) * count if type(value) is bool else value
    if not isinstance(found, (tuple, list)) or len(found) != count or any(type(each) is not bool for each in found):
        raise OptionError(f"{name} is {value!r}; it must be True, False, or {count} of these")
    return tuple(found)


def boolean(value: Any, name: str) -> bool:
    """Return True or False.

    Raises:
        OptionError: it is neither.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"{name}={shown(value)} is neither True nor False")
    return bool(value)


def workspace_limit(value: Any) -> int | None:
    """Return the bytes of scratch memory that may be used; None for the family's own limit.

    Raises:
        OptionError: it is neither.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**63:
        raise OptionError(f"workspace_limit={shown(value)}; it must be a number of bytes, 0 or more, or None")
    return int(value)


def at_least_0(value: Any, name: str) -> float:
    """Return a finite number that is not negative.

    Raises:
        OptionError: it is not one.
    """
    number = real(value, name)
    if number < 0:
        raise OptionError(f"{name}={number} is negative: it must be at least 0")
    return number
