"""What numbacc's random numbers are made of, in NumPy: random words in, values out.

Words are 32-bit integers as cuRAND's `curandGenerate` gives them (its 64-bit kinds: in halves, the lower first). A
value takes one, two or four of them. Everything here is exact or rounded as IEEE 754 says, so the CPU and the GPU
agree to the last bit.

| formula | value of a word x (or of two, as one 64-bit x) |
|---|---|
| random | the top bits of x, as many as the dtype's significand has, as a number in [0, 1) |
| uniform | low + (high - low) · (the top 24 bits, for float64 53, as a number in [0, 1)) |
| bits | x |
| mask | 0 where the top 32 bits are below p 2^32, else 1/(1 - p) |
| integers | low + ⌊x n / 2^k⌋, with n = high - low and k the bits of x (Lemire 2019, arXiv:1805.10941) |
| stored | x as the bits of a float, or as an integer: what cuRAND made itself |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import TABLE, DTypeInfo

Array = Any  #: a NumPy array

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def values(formula: str, words: Array, each: int, row: DTypeInfo, parameters: tuple[Any, ...]) -> Array:
    """The values of an array of words.

    Args:
        formula: a name of the table above.
        words: uint32, `each` of them a value, in order.
        each: 1, 2 or 4.
        row: the result's dtype.
        parameters: (u, v, a, b): for uniform a = low, b = high - low; for mask u = p 2^32, a = 1/(1 - p); for
            integers u = n - 1, v = low modulo 2^64.

    Returns:
        the values, in the dtype or one that it is rounded from.
    """
    return _FORMULAS[formula](words, each, row, *parameters)


def _pairs(words: Array) -> Array:
    return words.view(np.uint64)


def _top(words: Array, each: int) -> Array:
    """The 32 highest bits of each value's words."""
    return words if each == 1 else words[each - 1 :: each]


def _real(row: DTypeInfo) -> Any:
    return np.dtype(row.compute).type


def _unit(words: Array, each: int, row: DTypeInfo, bits: int) -> Array:
    """The top `bits` bits as a number in [0, 1), of 32-bit words unless more bits are there and wanted."""
    real = _real(row)
    if row.compute == "float64" and each > 1:
        return (_pairs(words) >> np.uint64(64 - bits)).astype(real) * real(2.0**-bits)
    bits = min(bits, 32)
    return (_top(words, each) >> np.uint32(32 - bits)).astype(real) * real(2.0**-bits)


def random(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    return _unit(words, each, row, row.significand_bits)


def uniform(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    real = _real(row)
    return _unit(words, each, row, TABLE[str(row.compute)].significand_bits) * real(b) + real(a)


def bits(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    return _pairs(words) if row.itemsize == 8 else _top(words, each)


def mask(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    kept = _top(words, each) >= np.uint64(u)
    return kept if row.compute is None else kept * _real(row)(a)


def scale(x: Array, most: int) -> tuple[Array, Array]:
    """x (most + 1) < 2^128, as its low and high 64 bits, by the multiplication of halves."""
    n = np.uint64(most)
    low, high = x & _LOW, x >> _32
    n_low, n_high = n & _LOW, n >> _32
    middle = high * n_low + (low * n_low >> _32)
    other = low * n_high + (middle & _LOW)
    lower = x * n
    upper = high * n_high + (middle >> _32) + (other >> _32)
    total = lower + x
    return total, upper + (total < x)


def integers(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    if each == 1:
        x = words.astype(np.uint64)
        scaled = x * np.uint64(u) + x >> _32
    elif each == 2:
        scaled = scale(_pairs(words), u)[1]
    else:
        # Of the 192 bits of (x1 2^64 + x0) n those above 2^128.
        x = _pairs(words)
        carried = scale(x[0::2], u)[1]
        lower, upper = scale(x[1::2], u)
        scaled = upper + (lower + carried < carried)
    total = scaled + np.uint64(v)
    return total.astype(f"uint{row.bits}").view(row.numpy)


def stored(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    if row.compute in ("float32", "float64"):
        return words.view(np.float32 if each == 1 else np.float64)
    return words


_FORMULAS: dict[str, Callable[..., Array]] = {f.__name__: f for f in (random, uniform, bits, mask, integers, stored)}
