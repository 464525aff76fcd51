"""Random numbers of numbacc's generator: any thread computes any part of the sequence of Philox4x32-10.

A seed gives a sequence of 32-bit words: those that `numbacc.random.Generator(seed).bits` draws. Group g has the words
4 g to 4 g + 3. A thread computes a group in about 60 instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....base._numba import COMPILES, cuda, types
from ....base.dtypes import TABLE
from ....reference import random as reference
from .emitting import Emitter, generated, tuple_type

__all__ = ["philox_integers", "philox_normal_v4", "philox_random", "philox_random_v4", "philox_words"]

_FLOAT32 = TABLE["float32"]
_BITS = np.uint32(32 - _FLOAT32.significand_bits)
_UNIT = np.float32(2.0**-_FLOAT32.significand_bits)


if COMPILES:
    from ...random import box_muller, philox

    _words, _product, _normals = philox.words, philox.product, box_muller.box_muller


def _inlined(function: Callable[..., Any]) -> Any:
    """Make an inlined device function, which only the compiler calls."""
    return cuda.jit(device=True, forceinline=True)(function) if COMPILES else function


def _compiled(function: Callable[..., Any], result: Any, *operands: Any) -> Any:
    """Return the typing of a device function that Numba compiles."""
    made = _inlined(function)

    def typed(typing: Any, *kinds: Any) -> Any:
        dispatcher = typing.resolve_value_type(made)
        call = dispatcher.get_call_type(typing, operands, {})

        def emit(e: Emitter, *args: Any) -> Any:
            return e.context.cast(e.builder, e.function(dispatcher, call)(args), call.return_type, result)

        return result(*operands), emit

    return typed


def _random_of(word):
    return np.float32(np.uint32(word) >> _BITS) * _UNIT


_random_in_kernels = _inlined(_random_of)


def _one(seed, position):
    w0, w1, w2, w3 = _words(seed, position >> np.uint64(2))
    k = position & np.uint64(3)
    return w0 if k == 0 else w1 if k == 1 else w2 if k == 2 else w3


_one_in_kernels = _inlined(_one)


def _random_code(seed, position):
    return _random_in_kernels(_one_in_kernels(seed, position))


def _random_v4_code(seed, group):
    w0, w1, w2, w3 = _words(seed, group)
    return _random_in_kernels(w0), _random_in_kernels(w1), _random_in_kernels(w2), _random_in_kernels(w3)


def _normal_v4_code(seed, group):
    w0, w1, w2, w3 = _words(seed, group)
    p, q = _normals(w0, w1)
    r, s = _normals(w2, w3)
    return p, q, r, s


def _integers_code(seed, position, n):
    w0, w1, w2, w3 = _words(seed, position >> np.uint64(1))
    lower = w0 if position & np.uint64(1) == 0 else w2
    upper = w1 if position & np.uint64(1) == 0 else w3
    return _product(upper, n) + (_product(lower, n) >> np.uint64(32)) >> np.uint64(32)


_TWO = types.uint64, types.uint64


@generated(
    _compiled(lambda seed, group: _words(seed, group), tuple_type("u32", 4), *_TWO), literals=False, since=(5, 0)
)
def philox_words(seed: int, group: int) -> tuple[int, ...]:
    """Return the words 4 `group` to 4 `group` + 3 of the sequence of a seed: four unsigned 32-bit integers."""
    return tuple(int(x) for x in reference.philox(int(seed), 4 * int(group), 4))


@generated(_compiled(_random_code, types.float32, *_TWO), literals=False, since=(5, 0))
def philox_random(seed: int, position: int) -> float:
    """Return element `position` of `numbacc.random.Generator(seed).random(n, dtype="float32")`, in [0, 1)."""
    found: float = reference.random(reference.philox(int(seed), int(position), 1), 1, _FLOAT32, 0, 0, 0, 1)[0]
    return found


@generated(_compiled(_random_v4_code, tuple_type("f32", 4), *_TWO), literals=False, since=(5, 0))
def philox_random_v4(seed: int, group: int) -> tuple[float, ...]:
    """Return elements 4 `group` to 4 `group` + 3 of `numbacc.random.Generator(seed).random(n, dtype="float32")`."""
    return tuple(reference.random(reference.philox(int(seed), 4 * int(group), 4), 1, _FLOAT32, 0, 0, 0, 1))


@generated(_compiled(_normal_v4_code, tuple_type("f32", 4), *_TWO), literals=False, since=(5, 0))
def philox_normal_v4(seed: int, group: int) -> tuple[float, ...]:
    """Return elements 4 `group` to 4 `group` + 3 of `numbacc.random.Generator(seed).normal(size=n, dtype="float32")`.

    On a GPU the bits are those of the generator on a GPU; on the CPU those of NumPy's functions.
    """
    return tuple(reference.normal(reference.uniforms(int(seed), 4 * int(group), 2), 1, _FLOAT32, 0, 0, 0.0, 1.0))


@generated(_compiled(_integers_code, types.int64, *_TWO, types.uint32), literals=False, since=(5, 0))
def philox_integers(seed: int, position: int, n: int) -> int:
    """Return element `position` of `numbacc.random.Generator(seed).integers(n, size=m)`, for 0 < n < 2^32."""
    lower, upper = (int(x) for x in reference.philox(int(seed), 2 * int(position), 2))
    return (lower | upper << 32) * int(n) >> 64


if COMPILES:  # the same in the compiled simulator

    def _here(function: Any) -> Callable[[Any], Any]:
        """Make the decorated function what the compiled simulator calls."""

        def note(twin: Any) -> Any:
            function.numbacc_twin = cuda.jit(device=True)(twin)
            return twin

        return note

    _random_here, _random_v4_here = _inlined(_random_code), _inlined(_random_v4_code)
    _normal_v4_here, _integers_here = _inlined(_normal_v4_code), _inlined(_integers_code)

    @_here(philox_words)
    def _words_twin(seed, group):
        return _words(np.uint64(seed), np.uint64(group))

    @_here(philox_random)
    def _random_twin(seed, position):
        return _random_here(np.uint64(seed), np.uint64(position))

    @_here(philox_random_v4)
    def _random_v4_twin(seed, group):
        return _random_v4_here(np.uint64(seed), np.uint64(group))

    @_here(philox_normal_v4)
    def _normal_v4_twin(seed, group):
        return _normal_v4_here(np.uint64(seed), np.uint64(group))

    @_here(philox_integers)
    def _integers_twin(seed, position, n):
        return np.int64(_integers_here(np.uint64(seed), np.uint64(position), np.uint32(n)))
