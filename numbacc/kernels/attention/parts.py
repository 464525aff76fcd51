"""Device functions for the kernels of attention: array elements, visible keys, S, and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.operands import operands
from ..random.philox import words as words_of_group
from .spec import AttentionSpec

Function = Callable[..., Any]

#: Scores at or below this belong to a row without a key: cuDNN uses it, up to rounding, instead of -inf.
LOWEST = -3.4e38


class Parts:
    """The device functions that the kernels use.

    Attributes:
        real: the type of numbers.
        load: by an array's name: (addresses, coordinates, strides) -> its element there.
        store: by an array's name: (addresses, coordinates, strides, number) stores an element.
    """

    def __init__(self, spec: AttentionSpec):
        self.spec = spec
        self.real: Any = getattr(np, spec.compute)
        self.load = {name: self._loader(k, name, dtype) for k, (name, dtype) in enumerate(spec.inputs)}
        self.store = {name: self._storer(k, dtype) for k, (name, dtype) in enumerate(spec.outputs)}

    def _loader(self, number: int, name: str, dtype: str) -> Function:
        whole = not TABLE[dtype].is_float
        io = operands((TABLE[dtype],), 1, 1, "int64" if whole else self.spec.compute)
        get, offsets, end = io.load, io.offsets, number + 1

        def load(ins, coordinates, steps):
            return get(ins[number:end], offsets(coordinates, steps[number:end]))[0]

        on_device: Function = cuda.jit(device=True)(load)
        return on_device

    def _storer(self, number: int, dtype: str) -> Function:
        io = operands((TABLE[dtype],), 1, 1, self.spec.compute)
        put, offsets, end = io.store, io.offsets, number + 1

        def store(outs, coordinates, steps, value):
            put(outs[number:end], offsets(coordinates, steps[number:end]), (value,))

        on_device: Function = cuda.jit(device=True)(store)
        return on_device


def lengths_of(parts: Parts) -> Function:
    """Return (addresses, coordinates, strides, most) -> the row's numbers of queries and keys, at most `most`."""
    if "lengths_q" not in parts.load:

        def all_of_them(ins, coordinates, steps, most):
            return most

        return cuda.jit(device=True)(all_of_them)  # type: ignore[no-any-return]
    queries, keys = parts.load["lengths_q"], parts.load["lengths_kv"]

    def lengths(ins, coordinates, steps, most):
        return queries(ins, coordinates, steps), keys(ins, coordinates, steps)

    return cuda.jit(device=True)(lengths)  # type: ignore[no-any-return]


@cuda.jit(device=True)
def first_seen(row, known, band):
    """Return the first key that a row sees, and the end of its keys; if they are equal, it sees no key."""
    queries, keys = known
    lower, upper, right = band
    shift = row + (keys - queries) * right
    begin, end = max(shift + lower, 0), min(shift + upper + 1, keys)
    if row >= queries or end < begin:
        end = begin
    return begin, end


def scoring(parts: Parts) -> Function:
    """Return (addresses, coordinates, strides, start) -> S there; `start` is query 0's position in its sequence."""
    scores, bias, alibi = parts.load["scores"], parts.load.get("bias"), parts.load.get("alibi")
    real = parts.real

    def plain(ins, c, steps, start):
        return scores(ins, c, steps)

    found = cuda.jit(device=True)(plain)
    if bias is not None:
        before_bias = found

        def biased(ins, c, steps, start):
            return before_bias(ins, c, steps, start) + bias(ins, c, steps)

        found = cuda.jit(device=True)(biased)
    if alibi is not None:
        before_slopes = found

        def sloped(ins, c, steps, start):
            return before_slopes(ins, c, steps, start) + alibi(ins, c, steps) * real(c[3] - (start + c[2]))

        found = cuda.jit(device=True)(sloped)
    return found  # type: ignore[no-any-return]


def dropping(parts: Parts) -> Function:
    """Return (addresses, strides, coordinates, row, width, scalars) -> a weight's factor: 0 or 1 / (1 - p), or 1."""
    real = parts.real
    one, zero, three, two = real(1), real(0), np.uint64(3), np.uint64(2)
    if not parts.spec.scalars:

        def all_kept(ins, steps, c, row, width, given):
            return one

        return cuda.jit(device=True)(all_kept)  # type: ignore[no-any-return]
    later = parts.load.get("offset")

    def at_once(ins, c, steps):
        return 0

    entered = later if later is not None else cuda.jit(device=True)(at_once)

    def factor(ins, steps, c, row, width, given):
        seed, offset, least, scale = given
        number = offset + ((np.uint64(entered(ins, c, steps)) >> two) << two) + np.uint64(row * width + c[3])
        drawn = words_of_group(seed, number >> two)
        lane = number & three
        word = drawn[0]
        if lane == 1:
            word = drawn[1]
        elif lane == 2:
            word = drawn[2]
        elif lane == 3:
            word = drawn[3]
        return scale if np.uint64(word) >= least else zero

    return cuda.jit(device=True)(factor)  # type: ignore[no-any-return]


@cuda.jit(device=True)
def larger(a, b):
    return a if a > b or a != a else b


@cuda.jit(device=True)
def _sum(a, b):
    return a + b


def _together(merge: Function) -> Function:
    """Return (cells, x) -> the merged x of all threads of a block, always merged in the same order."""

    def together(cells, x):
        thread, count = cuda.threadIdx.x, cuda.blockDim.x // 2
        cells[thread] = x
        cuda.syncthreads()
        while count > 0:
            if thread < count:
                cells[thread] = merge(cells[thread], cells[thread + count])
            cuda.syncthreads()
            count //= 2
        found = cells[0]
        cuda.syncthreads()
        return found

    return cuda.jit(device=True)(together)  # type: ignore[no-any-return]


largest, total_of = _together(larger), _together(_sum)


def stats_storer(parts: Parts) -> Any:
    """Return `Parts.store` for the statistics, or a function that does nothing if they are not requested."""
    if "stats" in parts.store:
        return parts.store["stats"]

    def nothing(outs, coordinates, steps, value):
        pass

    return cuda.jit(device=True)(nothing)


def levels_storer(parts: Parts) -> Any:
    """Return (addresses, coordinates, strides, largest, log sum), which stores the statistics if they are requested.

    An output "rest" receives the log sum, and "stats" then the largest score; else "stats" receives their sum.
    """
    put, put_rest = stats_storer(parts), parts.store.get("rest")
    if put_rest is None:

        def joined(outs, coordinates, steps, top, rest):
            put(outs, coordinates, steps, top + rest)

        return cuda.jit(device=True)(joined)

    def apart(outs, coordinates, steps, top, rest):
        put(outs, coordinates, steps, top)
        put_rest(outs, coordinates, steps, rest)

    return cuda.jit(device=True)(apart)


def share_of(parts: Parts) -> Function:
    """Return (addresses, coordinates of a row, strides, score, level) -> the weight exp(score - level).

    With an input "rest", "level" is only the largest score, and the log sum is subtracted after it.
    """
    real, rest = parts.real, parts.load.get("rest")
    if rest is None:

        def share(ins, at, steps, score, level):
            return real(math.exp(score - level))

        return cuda.jit(device=True)(share)  # type: ignore[no-any-return]

    def share_of_two(ins, at, steps, score, level):
        return real(math.exp((score - level) - rest(ins, at, steps)))

    return cuda.jit(device=True)(share_of_two)  # type: ignore[no-any-return]
