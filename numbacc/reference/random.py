"""The formulas of numbacc's random numbers in NumPy, from random words to values, and Philox, which makes the words.

Words are 32-bit integers from cuRAND's `curandGenerate`. Its 64-bit kinds give halves, the lower first. A value uses
one, two or four words. All formulas but the normals are exact or rounded as IEEE 754 specifies, so the CPU and the GPU
agree to the last bit.

| formula | value for a word x (or for two, as one 64-bit x) |
|---|---|
| random | the upper bits of x, as many as the dtype's significand has, as a number in [0, 1) |
| uniform | low + (high - low) · (the upper 24 bits, for float64 53, as a number in [0, 1)) |
| bits | x |
| mask | 0 if the upper 32 bits are below p 2^32, else 1/(1 - p) |
| integers | low + ⌊x n / 2^k⌋, with n = high - low and k the bits of x (Lemire 2019, arXiv:1805.10941) |
| normal | a + b z, with z from Box and Muller's formula: two values from two words, in float64 from four |
| lognormal | exp of a normal value |
| stored | x as the bits of a float, or as an integer: a value that cuRAND itself made |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base.casts import cast
from ..base.dtypes import TABLE, DTypeInfo

Array = Any  #: a NumPy array

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def _pairs(words: Array) -> Array:
    return words.view(np.uint64)


def _top(words: Array, each: int) -> Array:
    """Return the upper 32 bits of each value's words."""
    return words if each == 1 else words[each - 1 :: each]


def _real(row: DTypeInfo) -> Any:
    return np.float64 if row.compute == "float64" else np.float32


def _unit(words: Array, each: int, row: DTypeInfo, bits: int) -> Array:
    """Return the upper `bits` bits as numbers in [0, 1). Only float64 values of several words use more than 32 bits."""
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
    """Return x (most + 1) < 2^128 as its lower and upper 64 bits, by multiplying halves."""
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
    elif each == 2 and u < 1 << 32:
        # The sums of products of 32-bit halves do not overflow.
        x, n = _pairs(words), np.uint64(u + 1)
        lower = x & _LOW
        lower *= n
        lower >>= _32
        scaled = x >> _32
        scaled *= n
        scaled += lower
        scaled >>= _32
    elif each == 2:
        scaled = scale(_pairs(words), u)[1]
    else:
        # The bits above 2^128 of the 192 bits of (x1 2^64 + x0) n.
        x = _pairs(words)
        carried = scale(x[0::2], u)[1]
        lower, upper = scale(x[1::2], u)
        scaled = upper + (lower + carried < carried)
    scaled += np.uint64(v)
    return scaled.astype(f"uint{row.bits}").view(row.numpy)


def stored(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    if row.compute in ("float32", "float64"):
        return words.view(np.float32 if each == 1 else np.float64)
    return words


def normal(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    real = _real(row)
    z = _on_circle(words[0], words[1])
    if a or b != 1:
        z *= real(b)
        z += real(a)
    return z


def lognormal(words: Array, each: int, row: DTypeInfo, u: int, v: int, a: float, b: float) -> Array:
    x = normal(words, each, row, u, v, a, b)
    return np.exp(x, out=x)


def _on_circle(u: Array, angle: Array) -> Array:
    """Return two independent standard normals for each u, uniform in (0, 1], and angle (Box and Muller 1958).

    They are the coordinates, sine first, of a point on a circle of radius √(-2 ln u). This overwrites u.
    """
    radius = np.log(u, u)
    radius *= -2.0
    np.sqrt(radius, radius)
    made = np.empty((len(u), 2), u.dtype)
    np.multiply(np.sin(angle), radius, made[:, 0])
    np.multiply(np.cos(angle), radius, made[:, 1])
    return made.reshape(-1)


#: Name -> function (words, each, row, u, v, a, b) -> values, in the result's dtype or in one that is then rounded to
#: it.
#: words: uint32, `each` (1, 2 or 4) per value, in order; for normals the result of `uniforms`, or of
#: `uniforms_for_doubles` for float64.
#: row: the result's dtype. For uniform a = low, b = high - low; for mask u = p 2^32, a = 1/(1 - p); for integers u = n
#: - 1, v = low modulo 2^64; for normals a = mean, b = standard deviation.
FORMULAS: dict[str, Callable[..., Array]] = {
    f.__name__: f for f in (random, uniform, bits, mask, integers, normal, lognormal, stored)
}


# ---------------------------------------------------------------- Philox4x32-10 (Salmon et al. 2011)

_ROUNDS = 10
#: A round's multipliers of the counter's words 0 and 2, and the increments of the key's words after each round.
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
#: cuRAND distributes the sequence over 2^16 threads, 4 words to each in turn.
_THREADS_LOG2, _THREAD = np.uint64(16), np.uint64(2**16 - 1)
#: Groups that are computed at a time, so that the arrays of the ten rounds stay in the cache.
_CHUNK = 1 << 14


def philox(seed: int, position: int, count: int) -> Array:
    """Return words `position` to `position` + `count` of cuRAND's `curandGenerate` for a seed, as uint32."""
    first, skipped = divmod(position, 4)
    number = -(-(skipped + count) // 4)
    turn, thread = first >> 16, first & 0xFFFF
    if number <= _FEW and thread + number <= 1 << 16:
        lanes = _lanes(number)
        c0, c1, c2, c3 = _few(seed, turn * lanes.ones, thread * lanes.ones + lanes.numbers, lanes)
        words = _array(c0 | c1 << 32, c2 | c3 << 32, number).T.reshape(-1).view(np.uint32)
    else:
        words = _words(seed, np.uint64(first) + np.arange(number, dtype=np.uint64))
    return words[skipped : skipped + count]


def uniforms(seed: int, position: int, count: int) -> Array:
    """Return numbers uniform in (0, 1] and angles, in float32, from `count` pairs of words at an even position.

    They are two contiguous rows, because NumPy's functions are fast on these.
    """
    first, skipped = divmod(position >> 1, 2)
    number = skipped + count + 1 >> 1
    turn, thread = first >> 16, first & 0xFFFF
    if number <= _FEW and thread + number <= 1 << 16:
        lanes = _lanes(number)
        c0, c1, c2, c3 = _few(seed, turn * lanes.ones, thread * lanes.ones + lanes.numbers, lanes)
        both = _array(c0 | c2 << 32, c1 | c3 << 32, number).view(np.uint32).astype(np.float32)
        both *= lanes.small
        both += lanes.half
        return both[:, skipped : skipped + count]
    both = philox(seed, position, 2 * count).reshape(-1, 2).T.astype(np.float32, order="C")
    both *= _SMALL
    both += _HALF_OF_IT
    return both


#: 2^-32, and 2π 2^-32 with cuRAND's rounding.
_SMALL = np.array([[2.0**-32], [np.float32(2.3283064e-10) * np.float32(6.2831855)]], np.float32)
_HALF_OF_IT = _SMALL / 2


def uniforms_for_doubles(seed: int, position: int, start: int, count: int) -> Array:
    """Return numbers uniform in (0, 1] and angles, in float64, for `count` pairs of normals from number `start` on.

    Each number has 53 bits, x0 ^ x1 2^21 from two words, plus one half. A thread of cuRAND makes four normals together,
    from the words of two turns. Pair number p of a round uses turn p % 2 of thread p // 2, and a round consists of two
    turns of all threads. `position` is where the first round starts. The results are two contiguous rows.
    """
    if count <= _FEW and not start:
        lanes = _lanes(count)
        c0, c1, c2, c3 = _few(seed, (position >> 18) * lanes.ones + lanes.odd, lanes.halves, lanes)
        # Twice the 53 bits, plus 1: rounding this to a double gives the same as rounding the sum below.
        bits = _array(c0 << 1 ^ c1 << 22 | lanes.ones, c2 << 1 ^ c3 << 22 | lanes.ones, count)
        return bits * lanes.tiny
    pair = np.uint64(start) + np.arange(count, dtype=np.uint64)
    one = np.uint64(1)
    turn = (pair >> _THREADS_LOG2 & ~one) + (pair & one)
    words = _words(seed, np.uint64(position // 4) + (turn << _THREADS_LOG2) + (pair >> one & _THREAD))
    x = words.reshape(-1, 4).astype(np.uint64)
    both = np.stack([x[:, first] ^ x[:, first + 1] << np.uint64(21) for first in (0, 2)]) * 2.0**-53
    both += 2.0**-54
    both[1] *= 2 * np.pi
    return both


#: The factors of `uniforms_for_doubles` for twice its numbers' bits.
_ONE_AND_TWO_PI = np.array([[2.0**-54], [2 * np.pi * 2.0**-54]])
#: Up to this many groups are made with Python's integers, which is faster than NumPy's calls.
_FEW = 128


class _Lanes(NamedTuple):
    """The constants for `total` groups, which must be few.

    Attributes:
        ones, low, numbers, odd, halves: long integers with lanes of 64 bits. Each lane holds 1, 32 set bits, its
            number, its number modulo 2, and half its number.
        small, half, tiny: the factors and summands of `uniforms` and `uniforms_for_doubles`, already broadcast: with
            NumPy's broadcasting the arithmetic takes twice as long.
    """

    total: int
    ones: int
    low: int
    numbers: int
    odd: int
    halves: int
    small: Array
    half: Array
    tiny: Array


@lru_cache(maxsize=_FEW + 1)
def _lanes(count: int) -> _Lanes:
    def long(numbers: Iterable[int]) -> int:
        return sum(number << 64 * lane for lane, number in enumerate(numbers))

    lanes = range(count)
    return _Lanes(
        count,
        long(1 for _ in lanes),
        long(0xFFFFFFFF for _ in lanes),
        long(lanes),
        long(n & 1 for n in lanes),
        long(n >> 1 for n in lanes),
        np.repeat(_SMALL, 2 * count, axis=1),
        np.repeat(_HALF_OF_IT, 2 * count, axis=1),
        np.repeat(_ONE_AND_TWO_PI, count, axis=1),
    )


@lru_cache(maxsize=256)
def _keys(seed: int, count: int) -> list[tuple[int, int]]:
    """Return the key's two words for each round, in every lane."""
    ones = _lanes(count).ones
    v, w = (int(n) for n in _WEYL[:, 0])
    return [
        (((seed & 0xFFFFFFFF) + n * v & 0xFFFFFFFF) * ones, ((seed >> 32) + n * w & 0xFFFFFFFF) * ones)
        for n in range(_ROUNDS)
    ]


def _few(seed: int, turns: int, threads: int, lanes: _Lanes) -> tuple[int, int, int, int]:
    """Return the four words of a few groups, as lanes of long integers: `_rounds` for all lanes at once.

    A lane's product has 64 bits, so none spills into the next lane. Bits that are shifted there are cut off. Words 1
    and 3 are cut off only at the end.
    """
    low = lanes.low
    c0, c1, c2, c3 = turns & low, turns >> 32, threads, 0
    for k0, k1 in _keys(seed, lanes.total):
        p = c0 * 0xD2511F53
        q = c2 * 0xCD9E8D57
        c0 = (q >> 32 ^ c1 ^ k0) & low
        c2 = (p >> 32 ^ c3 ^ k1) & low
        c1 = q
        c3 = p
    return c0, c1 & low, c2, c3 & low


def _array(first: int, second: int, count: int) -> Array:
    """Convert two long integers to an array with their lanes as its rows."""
    return np.frombuffer((first | second << 64 * count).to_bytes(16 * count, "little"), np.uint64).reshape(2, count)


def _words(seed: int, groups: Array) -> Array:
    """Return the four words of each group of the sequence. `numbacc.kernels.random.philox` does it for one group."""
    made = np.empty((len(groups), 4), np.uint32)
    for start in range(0, len(groups), _CHUNK):
        _rounds(seed, groups[start : start + _CHUNK], made[start : start + _CHUNK])
    return made.reshape(-1)


def _rounds(seed: int, groups: Array, made: Array) -> None:
    """Make four 32-bit words from a counter of four words and a key of two, for each group.

    A round multiplies the counter's words 0 and 2 by constants, to 64 bits each. The high halves are combined with the
    other two words and the key, and all four words are permuted. The rows of `even` are words 0 and 2. The low halves
    of `odd` are words 1 and 3; its high halves, also those of products, are never read.
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


def dropout(x: Array, *given: Any, compute: str) -> tuple[Array]:
    """Multiply x by a scale where its word of Philox's sequence reaches a bound, and return 0 for other elements.

    Elements are matched to words in C order.

    Args:
        given: optionally an array of equal numbers, how many words later the sequence starts; then the seed, the number
            of the first group of four words, the bound, and the scale.
        compute: name of the dtype of the computation.
    """
    *later, seed, first, least, scale = given
    position = 4 * first + (int(later[0].flat[0]) // 4 * 4 if later and x.size else 0)
    words = philox(seed, position, x.size).reshape(x.shape)
    real = np.dtype(compute)
    with np.errstate(all="ignore"):
        return (np.where(words.astype(np.uint64) >= np.uint64(least), cast(x, real) * real.type(scale), real.type(0)),)
