"""NumPy's ufuncs of device arrays that are made of others here: each is two or three functions one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import elementwise as ew
from .base.dtypes import info
from .elementwise.choosing import where as _chosen
from .errors import DTypeError


def _floats(ufunc: np.ufunc, x: Any) -> Any:
    """x in the dtype of floats that NumPy computes a function of integers in, itself where it is of floats."""
    if info(x.dtype).is_float:
        return x
    if x.dtype.kind == "c":
        raise DTypeError(f"x has dtype {x.dtype}; {ufunc.__name__} takes real numbers")
    return ew.astype(x, ufunc.resolve_dtypes((x.dtype, None))[0])


def _scaled(ufunc: np.ufunc, factor: float) -> Callable[..., Any]:
    def function(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
        return ew.multiply(_floats(ufunc, x), factor, out=out, where=where)

    return function


def _of_floats(ufunc: np.ufunc, own: Callable[..., Any]) -> Callable[..., Any]:
    """A function that NumPy computes of integers as of floats."""

    def function(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
        return own(_floats(ufunc, x), out=out, where=where)

    return function


def signbit(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """Whether the sign is set, of -0.0 and NaN, too."""
    signs = ew.copysign(1.0, x) if info(x.dtype).is_float else x
    return ew.less(signs, 0, out=out, where=where)


def heaviside(x1: Any, x2: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """0 below 0, 1 above, x2 at 0; NaN of NaN."""
    signs = ew.sign(_floats(np.exp, x1))
    found = _chosen(ew.equal(signs, 0), x2, ew.maximum(signs, 0))
    return found if out is None else ew.copy(found, out=out, where=where)


def float_power(x1: Any, x2: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """In float64, or complex128."""
    kinds = [np.dtype(getattr(each, "dtype", type(each))).kind for each in (x1, x2)]
    wide = np.complex128 if "c" in kinds else np.float64
    one, other = (ew.astype(each, wide, copy=False) if hasattr(each, "_numbacc_layout") else each for each in (x1, x2))
    return ew.pow(one, other, out=out, where=where)


def modf(x: Any, /) -> tuple[Any, Any]:
    """(what is behind the point, what is before it), both with x's sign."""
    found = _floats(np.exp, x)
    whole = ew.trunc(found)
    # An infinity has nothing behind it, not NaN.
    rest = _chosen(ew.isinf(found), 0.0, ew.subtract(found, whole))
    return ew.copysign(rest, found), whole


def reciprocal(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """Of complex numbers: of floats there is `elementwise.reciprocal`, and of integers NumPy's are others."""
    if x.dtype.kind != "c":
        raise DTypeError(f"x has dtype {x.dtype}; reciprocal takes floats and complex numbers; 1 / x is of floats")
    return ew.divide(1, x, out=out, where=where)


#: NumPy's ufunc -> what computes it.
UFUNCS: dict[Any, Callable[..., Any]] = {
    np.degrees: _scaled(np.degrees, 180 / math.pi), np.rad2deg: _scaled(np.degrees, 180 / math.pi),
    np.radians: _scaled(np.radians, math.pi / 180), np.deg2rad: _scaled(np.radians, math.pi / 180),
    np.fabs: _of_floats(np.fabs, ew.abs), np.rint: _of_floats(np.rint, ew.round),
    np.signbit: signbit, np.heaviside: heaviside, np.float_power: float_power, np.modf: modf,
    np.reciprocal: reciprocal,
}  # fmt: skip
