"""Elementwise functions of NumPy, ufuncs and others, that combine two or three of numbacc's functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import elementwise as ew
from .arrays import creation, operands, values
from .arrays.array_api_info import finfo
from .base.checks import integer as _whole
from .base.dtypes import info
from .elementwise.where_clamp import where as _chosen
from .errors import DTypeError, OptionError, shown
from .runtime.streams import handle_of

#: Types of Python numbers.
_NUMBERS = (bool, int, float, complex)


def is_number(value: Any) -> bool:
    """Return True for Python numbers, NumPy scalars, and NumPy arrays of rank 0, which NumPy passes for its scalars."""
    return isinstance(value, (*_NUMBERS, np.generic)) or (isinstance(value, np.ndarray) and not value.ndim)


def arrays_of(name: str, *given: Any) -> list[Any]:
    """Return the arguments of a NumPy function as arrays; scalars become arrays of rank 0 on the others' device.

    Raises:
        DTypeError: an argument is a list, text or None, as with operators.
    """
    like = next((each for each in given if hasattr(each, "_numbacc_layout")), None)
    return [_array_of(name, each, like) for each in given]


def _array_of(name: str, each: Any, like: Any) -> Any:
    if is_number(each):
        # A scalar has the dtype of NumPy's array of it, as in NumPy.
        device = "cpu" if like is None else operands.device_of(like)
        return creation.full((), each, np.asarray(each).dtype, device=device)
    if isinstance(each, np.ndarray) or hasattr(each, "_numbacc_layout"):
        return each
    if each is None or isinstance(each, (list, tuple, str, bytes)):
        raise DTypeError(
            f"{name} got {shown(each)}, a {type(each).__name__}, next to a device array; nothing is copied to the GPU "
            "implicitly: numbacc.asarray makes an array of it"
        )
    return operands.as_array(each, name, handle_of(None))


def number_or_array(value: Any, name: str) -> Any:
    """Return an option that may be a scalar or an array, unchanged.

    Raises:
        DTypeError: it is neither.
    """
    return value if is_number(value) else _array_of(f"{name}=", value, None)


def _floats(ufunc: np.ufunc, x: Any) -> Any:
    """Return x, with integers converted to the float dtype that NumPy computes the function in."""
    if info(x.dtype).is_float:
        return x
    if x.dtype.kind == "c":
        raise DTypeError(f"x has dtype {x.dtype}; {ufunc.__name__} needs real numbers")
    return ew.astype(x, ufunc.resolve_dtypes((x.dtype, None))[0])


def _scaled(ufunc: np.ufunc, factor: float) -> Callable[..., Any]:
    def function(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
        return ew.multiply(_floats(ufunc, x), factor, out=out, where=where)

    return function


def _of_floats(ufunc: np.ufunc, own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that converts integers to floats first, as NumPy does."""

    def function(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
        return own(_floats(ufunc, x), out=out, where=where)

    return function


def signbit(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """Return whether the sign bit is set, also for -0.0 and NaN."""
    signs = ew.copysign(1.0, x) if info(x.dtype).is_float else x
    return ew.less(signs, 0, out=out, where=where)


def _dtype_of(each: Any) -> np.dtype[Any]:
    return np.asarray(each).dtype if is_number(each) else each.dtype


def heaviside(x1: Any, x2: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """Return 0 for x1 < 0, 1 for x1 > 0, x2 for x1 = 0, and NaN for NaN."""
    x1, x2 = (each if is_number(each) else arrays_of("heaviside", each)[0] for each in (x1, x2))
    kinds = [type(each) if type(each) in (int, float, complex) else _dtype_of(each) for each in (x1, x2)]
    dtype = _dtype_of(x2 if is_number(x1) else x1)
    if all(each.__module__ == "numpy" for each in (_dtype_of(x1).type, _dtype_of(x2).type)):
        try:
            dtype = np.heaviside.resolve_dtypes((*kinds, None))[0]
        except TypeError as error:
            raise DTypeError(f"heaviside needs real numbers: {error}") from None
    if is_number(x1):
        x1 = creation.full((), x1, dtype, device=operands.device_of(x2))
    x1 = ew.astype(x1, dtype, copy=False)
    signs = ew.sign(x1)
    found = _chosen(ew.equal(signs, 0), x2, ew.maximum(signs, 0))
    return found if out is None else ew.copy(found, out=out, where=where)


def float_power(x1: Any, x2: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """Return x1 to the power of x2, in float64 or complex128."""
    kinds = [np.dtype(getattr(each, "dtype", type(each))).kind for each in (x1, x2)]
    wide = np.complex128 if "c" in kinds else np.float64
    one, other = (ew.astype(each, wide, copy=False) if hasattr(each, "_numbacc_layout") else each for each in (x1, x2))
    return ew.pow(one, other, out=out, where=where)


def ldexp(x1: Any, x2: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """Return x1 times 2 to the power of x2, for integers x2."""
    if is_number(x1):
        raise DTypeError(f"x1={shown(x1)} is a scalar; ldexp needs an array of floats as x1, and integers as x2")
    if is_number(x2):
        x2 = _whole(x2, "x2", -(2**31), 2**31 - 1)
    elif getattr(x2, "dtype", np.dtype("i4")).kind not in "iub":
        raise DTypeError(f"x2 has dtype {x2.dtype}; ldexp needs integers there")
    return ew.ldexp(x1, x2, out=out, where=where)


def modf(x: Any, /) -> tuple[Any, Any]:
    """Return (the fractional part, the integer part), both with x's sign."""
    found = _floats(np.exp, x)
    whole = ew.trunc(found)
    # The fractional part of infinity is 0, not NaN.
    rest = _chosen(ew.isinf(found), 0.0, ew.subtract(found, whole))
    return ew.copysign(rest, found), whole


def reciprocal(x: Any, /, *, out: Any = None, where: Any = None) -> Any:
    """Return 1 / x for complex x. (`elementwise.reciprocal` computes floats; NumPy's for integers is not supported.)"""
    if x.dtype.kind != "c":
        raise DTypeError(f"x has dtype {x.dtype}; reciprocal needs floats or complex numbers; 1 / x gives floats")
    return ew.divide(1, x, out=out, where=where)


def round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """Round as NumPy does: multiply by a power of ten, round to whole numbers, and divide."""
    places = _whole(decimals, "decimals")
    if a.dtype == bool:
        if places:
            raise DTypeError(f"a has dtype bool and decimals={places}: convert it by a.astype(dtype)")
        return ew.round(ew.astype(a, np.float16), out=out)  # as in NumPy
    whole = a.dtype.kind in "iub"
    if not places or (whole and places > 0):
        return ew.round(a, out=out)
    if whole:
        raise DTypeError(f"a has dtype {a.dtype} and decimals={places}: only floats can be rounded to tens")
    if not whole and abs(places) > math.log10(finfo(a.dtype).max):
        raise OptionError(f"decimals={places} is out of range: 10**{abs(places)} does not fit {a.dtype}")
    there, back = (ew.multiply, ew.divide) if places > 0 else (ew.divide, ew.multiply)
    factor = 10.0 ** abs(places)
    return back(ew.round(there(a, factor)), factor, out=out)


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN and infinities with these numbers; by default infinities become the dtype's largest and smallest."""
    if x.dtype.kind == "c":
        raise DTypeError(f"x has dtype {x.dtype}; nan_to_num needs real numbers")
    out = x if not copy else ew.copy(x)
    if x.dtype.kind in "iub":
        return out
    limits = finfo(x.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    for value, mask in ((nan, ew.isnan(x)), (high, ew.equal(x, math.inf)), (low, ew.equal(x, -math.inf))):
        ew.fill(out, value, where=mask)
    return out


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Return |a - b| <= atol + rtol |b|, or equal infinities; with equal_nan also NaN. Integers become floats."""
    given = {"a": a, "b": b, "rtol": rtol, "atol": atol}
    a, b, rtol, atol = (number_or_array(value, name) for name, value in given.items())
    if type(b) in _NUMBERS:
        b = b if type(b) is complex else float(b)
    elif b.dtype.kind in "biu":
        # Integers would wrap: their differences, and the absolute value of the smallest.
        wide = np.result_type(b.dtype, 1.0)
        b = wide.type(b) if is_number(b) else ew.astype(b, wide)
    with np.errstate(invalid="ignore", over="ignore"):
        near = ew.less_equal(abs(ew.subtract(a, b)), rtol * abs(b) + atol)
        found = ew.logical_or(ew.logical_and(near, np.isfinite(b)), ew.equal(a, b))
    if not equal_nan:
        return found
    return ew.logical_or(found, ew.logical_and(np.isnan(a), np.isnan(b)))


def isposinf(x: Any, out: Any = None) -> Any:
    return ew.equal(_real(x), math.inf, out=out)


def isneginf(x: Any, out: Any = None) -> Any:
    return ew.equal(_real(x), -math.inf, out=out)


def _real(x: Any) -> Any:
    if x.dtype.kind == "c":
        raise DTypeError(f"x has dtype {x.dtype}; only real numbers have signed infinities: pass x.real or x.imag")
    return x


def angle(z: Any, deg: bool = False) -> Any:
    if deg:
        raise OptionError("deg=True is not supported: np.degrees(np.angle(z))")
    return ew.angle(ew.astype(z, np.float64) if z.dtype == bool else z)


def iscomplex(x: Any) -> Any:
    return ew.not_equal(ew.imag(x), 0) if x.dtype.kind == "c" else _filled(x, False)


def isreal(x: Any) -> Any:
    return ew.equal(ew.imag(x), 0) if x.dtype.kind == "c" else _filled(x, True)


def _filled(x: Any, truth: bool) -> Any:
    found = creation.empty_like(x, dtype=bool)
    found[...] = truth
    return found


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Copy src to dst where `where` is True, with NumPy's casting rules.

    Raises:
        DTypeError: `casting` forbids the conversion. Also the errors of `elementwise.fill`.
    """
    known = ("no", "equiv", "safe", "same_kind", "unsafe")
    if casting not in known:
        raise OptionError(f"casting={shown(casting)} is unknown; it is one of {', '.join(known)}")
    on_device = hasattr(src, "_numbacc_layout")
    if not on_device and not values.is_on_host(src):
        raise DTypeError(f"src={shown(src)} is a {type(src).__name__}; it must be a number or an array")
    # For a Python number only its kind (bool, int, float, complex) matters.
    source = np.asarray(src).dtype if not on_device and type(src) not in _NUMBERS else getattr(src, "dtype", None)
    exact = casting in ("no", "equiv")
    wanted = np.dtype(type(src)) if source is None and exact else source
    if wanted is None:
        wanted = np.result_type(dst.dtype, type(src))
    if not (np.can_cast(wanted, dst.dtype, casting)):
        raise DTypeError(
            f"src is {source or type(src).__name__} and dst {dst.dtype}: casting={shown(casting)} forbids it"
        )
    if where is not True and where is not False and getattr(where, "dtype", None) != np.dtype(bool):
        raise DTypeError(f"where={shown(where)} is not an array of bool")
    if on_device and source != dst.dtype:
        src = ew.astype(src, dst.dtype)
    ew.fill(dst, src, where=None if where is True else where)


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    return bool(ew.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any) -> bool:
    return np.shape(a1) == np.shape(a2) and bool(ew.all(ew.equal(a1, a2)))


def array_equiv(a1: Any, a2: Any) -> bool:
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    return bool(ew.all(ew.equal(a1, a2)))


#: NumPy's ufunc -> the function that computes it.
UFUNCS: dict[Any, Callable[..., Any]] = {
    np.degrees: _scaled(np.degrees, 180 / math.pi), np.rad2deg: _scaled(np.degrees, 180 / math.pi),
    np.radians: _scaled(np.radians, math.pi / 180), np.deg2rad: _scaled(np.radians, math.pi / 180),
    np.fabs: _of_floats(np.fabs, ew.abs), np.rint: _of_floats(np.rint, ew.round),
    np.signbit: signbit, np.heaviside: heaviside, np.float_power: float_power, np.modf: modf,
    np.reciprocal: reciprocal, np.ldexp: ldexp,
}  # fmt: skip
