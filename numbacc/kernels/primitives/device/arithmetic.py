"""Float32 arithmetic: approximate functions of one instruction, and operations that are rounded exactly once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .emitting import ptx

__all__ = [
    "add_rn", "cos_approx", "div_full", "div_rn", "ex2_approx", "fma_rn", "lg2_approx", "max_f32", "min_f32", "mul_rn",
    "rcp_approx", "rcp_rn", "rsqrt_approx", "sin_approx", "sqrt_approx", "sqrt_rn", "tanh_approx",
]  # fmt: skip


def _one(text: str, since: Any = (5, 0)) -> Any:
    return ptx(f"{text} $0, $1;", "f32", result="f32", pure=True, since=since, scalar=True)


def _two(text: str, since: Any = (5, 0)) -> Any:
    return ptx(f"{text} $0, $1, $2;", "f32", "f32", result="f32", pure=True, since=since, scalar=True)


def _f32(function: Callable[..., Any], *given: Any) -> float:
    """Return a float32 computed in float64. Launches ignore NumPy's warnings."""
    found: Any = np.float32(function(*map(np.float64, given)))
    return found  # type: ignore[no-any-return]


_TINY = float(np.finfo(np.float32).tiny)


def _flushed(x: Any) -> float:
    """Return a float32, or a zero of its sign if it is subnormal."""
    return x if abs(x) >= _TINY or x != x else math.copysign(0.0, x)


@_one("ex2.approx.ftz.f32")
def ex2_approx(x: float) -> float:
    """Return 2^x, accurate to 2 units in the last place; subnormal numbers are 0."""
    return np.float32(_flushed(_f32(np.exp2, _flushed(x))))  # type: ignore[return-value]


@_one("lg2.approx.ftz.f32")
def lg2_approx(x: float) -> float:
    """Return the base-2 logarithm of x with an absolute error of 2^-22; subnormal numbers are 0."""
    return _f32(np.log2, _flushed(x))


@_one("rcp.approx.ftz.f32")
def rcp_approx(x: float) -> float:
    """Return 1 / x, accurate to one unit in the last place; subnormal numbers are 0."""
    return np.float32(_flushed(_f32(lambda v: 1 / v, _flushed(x))))  # type: ignore[return-value]


@_one("rsqrt.approx.f32")
def rsqrt_approx(x: float) -> float:
    """Return 1 / sqrt(x) with a relative error of 2^-22.9."""
    return _f32(lambda v: 1 / np.sqrt(v), x)


@_one("sqrt.approx.f32")
def sqrt_approx(x: float) -> float:
    """Return sqrt(x) with a relative error of 2^-23."""
    return _f32(np.sqrt, x)


@_one("sin.approx.f32")
def sin_approx(x: float) -> float:
    """Return sin(x) with an absolute error of 2^-20.5 for x from -pi to pi, and less accurate beyond."""
    return _f32(np.sin, x)


@_one("cos.approx.f32")
def cos_approx(x: float) -> float:
    """Return cos(x) with an absolute error of 2^-20.5 for x from -pi to pi, and less accurate beyond."""
    return _f32(np.cos, x)


@_one("tanh.approx.f32", (7, 5))
def tanh_approx(x: float) -> float:
    """Return tanh(x) with a relative error of 2^-11."""
    return _f32(np.tanh, x)


@_two("div.full.f32")
def div_full(x: float, y: float) -> float:
    """Return x / y, accurate to 2 units in the last place."""
    return _f32(np.divide, x, y)


@_two("max.f32")
def max_f32(x: float, y: float) -> float:
    """Return the larger of two float32; if one is NaN, the other."""
    found: Any = np.fmax(np.float32(x), np.float32(y))
    return found  # type: ignore[no-any-return]


@_two("min.f32")
def min_f32(x: float, y: float) -> float:
    """Return the smaller of two float32; if one is NaN, the other."""
    found: Any = np.fmin(np.float32(x), np.float32(y))
    return found  # type: ignore[no-any-return]


@_two("add.rn.f32")
def add_rn(x: float, y: float) -> float:
    """Return x + y, which the compiler does not fuse with a product."""
    return _f32(np.add, x, y)


@_two("mul.rn.f32")
def mul_rn(x: float, y: float) -> float:
    """Return x y, which the compiler does not fuse with a sum."""
    return _f32(np.multiply, x, y)


@_two("div.rn.f32")
def div_rn(x: float, y: float) -> float:
    """Return x / y, correctly rounded."""
    return _f32(np.divide, x, y)


@_one("rcp.rn.f32")
def rcp_rn(x: float) -> float:
    """Return 1 / x, correctly rounded."""
    return _f32(lambda v: 1 / v, x)


@_one("sqrt.rn.f32")
def sqrt_rn(x: float) -> float:
    """Return sqrt(x), correctly rounded."""
    return _f32(np.sqrt, x)


@ptx("fma.rn.f32 $0, $1, $2, $3;", "f32", "f32", "f32", result="f32", pure=True, since=(5, 0), scalar=True)
def fma_rn(x: float, y: float, z: float) -> float:
    """Return x y + z, rounded once."""
    # The product of two float32 is exact in float64; the sum there is rounded to odd, so that the second rounding
    # gives what a single one would.
    return _rounded_once(np.float64(np.float32(x)) * np.float64(np.float32(y)), np.float64(np.float32(z)))


def _rounded_once(product: Any, z: Any) -> float:
    with np.errstate(all="ignore"):
        total = product + z
        if np.isfinite(total):
            part = total - product
            error = (product - (total - part)) + (z - part)
            if error and not total.view(np.uint64) & np.uint64(1):
                total = np.nextafter(total, np.inf if error > 0 else -np.inf)
        found: Any = np.float32(total)
    return found  # type: ignore[no-any-return]
