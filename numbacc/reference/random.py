"""What numbacc's random numbers are made of, in NumPy: random words in, values out; and Philox, which makes the words.

Words are 32-bit integers as cuRAND's `curandGenerate` gives them (its 64-bit kinds: in halves, the lower first). A
value takes one, two or four of them. All but the normals is exact or rounded as IEEE 754 says, so the CPU and the GPU
agree to the last bit.

| formula | value of a word x (or of two, as one 64-bit x) |
|---|---|
| random | the top bits of x, as many as the dtype's significand has, as a number in [0, 1) |
| uniform | low + (high - low) · (the top 24 bits, for float64 53, as a number in [0, 1)) |
| bits | x |
| mask | 0 where the top 32 bits are below p 2^32, else 1/(1 - p) |
| integers | low + ⌊x n / 2^k⌋, with n = high - low and k the bits of x (Lemire 2019, arXiv:1805.10941) |
| normal | a + b z, with z of Box and Muller's formula: two of two words, in float64 two of four |
| lognormal | exp of that |
| stored | x as the bits of a float, or as an integer: what cuRAND made itself |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import TABLE, DTypeInfo

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
            integers u = n - 1, v = low modulo 2^64; for normals a = mean, b = standard deviation.

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
    return kept if not row.is_float else kept * _real(row)(a)


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


def normal(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    real = _real(row)
    z = _box_muller(words) if each == 1 else _box_muller_double(words)
    z *= real(b)
    z += real(a)
    return z


def lognormal(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    x = normal(words, each, row, u, v, a, b)
    return np.exp(x, out=x)


#: 2^-32, and 2π 2^-32 as cuRAND rounds it.
_SMALL = np.float32(2.0**-32)
_SMALL_ANGLE = np.float32(2.3283064e-10) * np.float32(6.2831855)


def _box_muller(words: Array) -> Array:
    """Two independent standard normals of each two words (Box and Muller 1958), in float32.

    With u and v uniform in (0, 1], √(-2 ln u) is the distance from the origin of a pair of normals, 2πv its angle.
    """
    u, angle = (words[first::2].astype(np.float32) for first in (0, 1))
    u *= _SMALL
    u += _SMALL / 2
    angle *= _SMALL_ANGLE
    angle += _SMALL_ANGLE / 2
    return _on_circle(u, angle)


def _box_muller_double(words: Array) -> Array:
    """The same in float64, of each four words: u and v of 53 bits."""
    x = words.reshape(-1, 4).astype(np.uint64)
    u, half_turns = (x[:, first] ^ x[:, first + 1] << np.uint64(21) for first in (0, 2))
    return _on_circle(u * 2.0**-53 + 2.0**-54, (half_turns * 2.0**-52 + 2.0**-53) * np.pi)


def _on_circle(u: Array, angle: Array) -> Array:
    """The points of a circle with radius √(-2 ln u) at these angles: sine, cosine, sine, ... u is overwritten."""
    radius = np.log(u, out=u)
    radius *= radius.dtype.type(-2)
    np.sqrt(radius, out=radius)
    made = np.empty(2 * len(u), u.dtype)
    np.multiply(np.sin(angle), radius, out=made[0::2])
    np.multiply(np.cos(angle), radius, out=made[1::2])
    return made


_FORMULAS: dict[str, Callable[..., Array]] = {
    f.__name__: f for f in (random, uniform, bits, mask, integers, normal, lognormal, stored)
}


# ---------------------------------------------------------------- Philox4x32-10 (Salmon et al. 2011)

_ROUNDS = 10
#: A round's multipliers of the counter's words 0 and 2, and what is added to the key's words after each round.
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
#: cuRAND deals the sequence to 2^16 threads, 4 words each in turn.
_THREADS_LOG2, _THREAD = np.uint64(16), np.uint64(2**16 - 1)
#: Groups at a time, so that what ten rounds work on stays in the cache.
_CHUNK = 1 << 14


def philox(seed: int, position: int, count: int) -> Array:
    """The words `position` to `position` + `count` of what cuRAND's `curandGenerate` returns for a seed, as uint32."""
    first, skipped = divmod(position, 4)
    groups = np.uint64(first) + np.arange(-(-(skipped + count) // 4), dtype=np.uint64)
    return _words(seed, groups)[skipped : skipped + count]


def philox_for_doubles(seed: int, position: int, start: int, count: int) -> Array:
    """The words, four each, of the pairs number `start` to `start` + `count` of float64 normals.

    A thread of cuRAND's makes four normals together, of two turns' words: the pair number p of a round takes turn p % 2
    of thread p // 2, and a round is two turns of all threads. `position` is where the first round starts.
    """
    pair = np.uint64(start) + np.arange(count, dtype=np.uint64)
    one = np.uint64(1)
    turn = (pair >> _THREADS_LOG2 & ~one) + (pair & one)
    return _words(seed, np.uint64(position // 4) + (turn << _THREADS_LOG2) + (pair >> one & _THREAD))


def _words(seed: int, groups: Array) -> Array:
    """The four words of each group of the sequence. `numbacc.kernels.philox` has the same for one group."""
    made = np.empty((len(groups), 4), np.uint32)
    for start in range(0, len(groups), _CHUNK):
        _rounds(seed, groups[start : start + _CHUNK], made[start : start + _CHUNK])
    return made.reshape(-1)


def _rounds(seed: int, groups: Array, made: Array) -> None:
    """Four 32-bit words from a counter of four and a key of two, for each group.

    A round multiplies the counter's words 0 and 2 by constants, to 64 bits each; the high halves are mixed with the
    other two words and the key, and all four change places. `even` has the words 0 and 2 as its rows; the low halves
    of `odd` are the words 1 and 3, its high halves, products' too, are never looked at.
    """
    turn = groups >> _THREADS_LOG2
    even = np.stack((turn & _LOW, groups & _THREAD))
    odd = np.stack((turn >> _32, np.zeros_like(turn)))
    key = np.array([[seed & 0xFFFFFFFF], [seed >> 32]], np.uint64)
    product = np.empty_like(even)
    for _ in range(_ROUNDS):
        np.multiply(even, _MULTIPLIERS, out=product)
        swapped = product[::-1]
        np.right_shift(swapped, _32, out=even)
        even ^= odd
        even ^= key
        even &= _LOW
        odd, product = swapped, odd
        key = key + _WEYL & _LOW
    made[:, 0], made[:, 2] = even
    made[:, 1], made[:, 3] = odd
