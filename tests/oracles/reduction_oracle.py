"""What reductions shall return, in more precision than they have, and how far they may be off."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from oracle import spacing

from numbacc.base.dtypes import TABLE, info

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = tuple(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64))
COMPLEX = ("complex64", "complex128")
REAL = (*FLOATS, *INTEGERS, "bool")


class Oracle(NamedTuple):
    """A reduction in more precision than numbacc's.

    Attributes:
        result: (x, axis and keepdims) -> the result. Of magnitudes it is what errors are proportional to.
        gradient: (dy, x) -> the gradient, where dy has the axes that were reduced; None if there is none.
        dtypes: the dtypes that it takes.
        like: a function whose results have the same dtypes.
    """

    result: Callable
    gradient: Callable | None = None
    dtypes: tuple[str, ...] = (*REAL, *COMPLEX)
    like: str = "sum"


#: Function -> its oracle; the other functions have theirs below.
ORACLES = {
    "sum": Oracle(lambda x, **axes: x.sum(**axes), lambda dy, x: dy + 0 * x),
}
#: Function -> the dtypes that it takes.
DTYPES = {
    **{name: oracle.dtypes for name, oracle in ORACLES.items()},
    **dict.fromkeys(("prod", "mean", "any", "all", "var", "std", "norm"), (*REAL, *COMPLEX)),
    **dict.fromkeys(("max", "min", "argmax", "argmin"), REAL),
}
INDICES = ("argmax", "argmin")
EXTREMES = ("max", "min", *INDICES)


def values(rng, shape, name, function):
    """Numbers of a dtype, some of them equal; such as have a product."""
    dtype = TABLE[name].numpy
    if name == "bool":
        return rng.random(shape) < 0.5
    if name in INTEGERS:
        low = 0 if dtype.kind == "u" else -3
        return rng.integers(low, 4, shape).astype(dtype)
    if function in ("any", "all"):
        return rng.integers(0, 2, shape).astype(dtype)
    numbers = rng.integers(-24, 25, shape) / 8 if function in EXTREMES else rng.standard_normal(shape)
    if function == "prod":
        numbers = np.exp2(numbers / 2)
    if name in COMPLEX:
        numbers = numbers + 1j * rng.standard_normal(shape)
        numbers = numbers / abs(numbers) if function == "prod" else numbers
    return numbers.astype(dtype)


def result_dtype(function, dtype):
    """The result's dtype."""
    row, kind = info(dtype), dtype.kind
    function = ORACLES[function].like if function in ORACLES else function
    if function in ("any", "all"):
        return np.dtype(bool)
    if function in INDICES:
        return np.dtype(np.int64)
    if row.parts == 2 and function in ("var", "std", "norm"):
        return np.dtype(f"float{4 * dtype.itemsize}")
    if function in ("max", "min") or row.is_float or row.parts == 2:
        return dtype
    if function in ("sum", "prod"):
        return np.dtype(np.uint64 if kind == "u" else np.int64)
    return np.dtype(np.float64)


def wide(x):
    """x in more precision."""
    if x.dtype.kind in "biu":
        return x
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def exact(function, x, axis, keepdims=False, *, correction=0, order=2):
    """The result in more precision than it is computed in."""
    if function in ("any", "all"):
        return getattr(np, function)(x != np.zeros((), x.dtype), axis=axis, keepdims=keepdims)
    if function in INDICES and axis is not None:
        (axis,) = axis if isinstance(axis, tuple) else (axis,)
    more = {"axis": axis, "keepdims": keepdims}
    x = wide(x)
    with np.errstate(all="ignore"):
        if function in ORACLES:
            return ORACLES[function].result(x, **more)
        if function in ("var", "std"):
            x = x if x.dtype.kind == "c" else x.astype(np.longdouble)
            apart = np.abs(x - x.mean(axis=axis, keepdims=True))
            count = x.size // max(np.size(apart.sum(axis=axis)), 1)
            variance = (apart**2).sum(**more) / np.longdouble(max(count - correction, 0))
            return variance if function == "var" else np.sqrt(variance)
        if function == "norm":
            magnitude = np.abs(x).astype(np.longdouble)
            if np.isinf(order):
                return magnitude.max(**more) if order > 0 else magnitude.min(**more)
            if order == 0:
                return (magnitude != 0).sum(**more).astype(np.longdouble)
            power = np.longdouble(order)
            return magnitude.sum(**more) if order == 1 else (magnitude**power).sum(**more) ** (1 / power)
        return getattr(np, function)(x, **more)


def assert_accurate(function, got, x, axis, keepdims=False, **options):
    """The result is as near as its dtype, and the one that is computed in, allow."""
    dtype = result_dtype(function, x.dtype)
    wanted = exact(function, x, axis, keepdims, **options)
    assert got.dtype == dtype and got.shape == np.shape(wanted)
    if dtype.kind in "biu" or function in EXTREMES:
        np.testing.assert_array_equal(got.astype(wanted.dtype), wanted)
        return
    compute = np.dtype(info(dtype).compute)
    count = x.size // max(np.size(wanted), 1)
    # A tree is as deep as the logarithm; numbers may be added to each other's a few times more.
    bound = (np.log2(max(count, 2)) + 8) * np.finfo(compute).eps * scale(function, x, axis, keepdims, **options)
    parts = [(got.real, wanted.real), (got.imag, wanted.imag)] if dtype.kind == "c" else [(got, wanted)]
    for one, other in parts:
        own = np.dtype(f"float{4 * dtype.itemsize}") if dtype.kind == "c" else dtype
        with np.errstate(all="ignore"):
            error = np.abs(one.astype(np.longdouble) - other)
            allowed = bound + spacing(np.asarray(other, np.longdouble), own) / 2
            is_right = (error <= allowed) | (np.isnan(other) & np.isnan(one.astype(np.longdouble)))
            is_right |= one.astype(np.longdouble) == other
            with np.errstate(all="ignore"):
                # What is beyond the dtype is infinite there.
                is_right |= np.isinf(one.astype(np.longdouble)) & (one == other.astype(np.float64).astype(one.dtype))
        assert is_right.all(), (error.max(), allowed.min(), np.asarray(one)[~is_right], np.asarray(other)[~is_right])


def scale(function, x, axis, keepdims, *, correction=0, order=2):
    """What errors are proportional to: the sum of magnitudes, where these are added."""
    magnitude = np.abs(wide(x)).astype(np.longdouble)
    more = {"axis": axis, "keepdims": keepdims}
    with np.errstate(all="ignore"):
        if function in ORACLES:
            return ORACLES[function].result(magnitude, **more)
        if function == "mean":
            return magnitude.mean(**more)
        if function == "prod":
            count = magnitude.size // max(magnitude.prod(**more).size, 1)
            return magnitude.prod(**more) * max(count, 1)
        if function == "norm":
            # A root of less than one multiplies what its sum is off by.
            return exact("norm", x, axis, keepdims, order=order) * max(1, 1 / abs(order or 1))
        spread = exact(function, x, axis, keepdims, correction=correction)
        # Means are rounded, too: of equal numbers there is left what is lost there.
        largest = magnitude.max(**more, initial=0.0)
        eps = np.finfo(info(result_dtype(function, x.dtype)).compute).eps
        return spread + (largest**2 * eps if function == "var" else largest)
