"""The kernels of unfused attention: the steps between the two matrix products, forward and backward.

`softmax`, `weights` and `slopes` use a block of threads for each row of scores. Rows are numbered over (batch, heads,
queries). `shape` describes the rows of one launch, and `first` is the number of its first row among all rows; dropout
derives its random words from it. `start` is that row's position among a sequence's `queries`: it is not 0 only if a
launch handles some queries of one head. Array strides are along (batch, heads, queries, keys), and 0 where elements
repeat.

Read `parts.scoring` first, which computes S of the keys that a query sees, and then `softmax`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import MAX_THREADS, WORDS
from ..primitives.operands import operands, scalar_reader
from ..specs import Kernel, words_of
from .moves import join, mend, pack, sums, unpack, unpage
from .parts import (
    LOWEST,
    Parts,
    dropping,
    first_seen,
    larger,
    largest,
    lengths_of,
    levels_storer,
    scoring,
    share_of,
    total_of,
)
from .spec import AttentionSpec


def _readers(parts: Parts) -> tuple[Any, Any, Any, Any]:
    """Return the functions for a row's lengths, a score, its dropout factor, and the launch's scalars."""
    return lengths_of(parts), scoring(parts), dropping(parts), scalar_reader(parts.spec.scalars)


def softmax(parts: Parts) -> Kernel:
    """Return the kernel of the weights (to be multiplied with the values) and statistics; it reads rows three times.

    Outputs: "weights"; "stats" if requested, and "rest" if they are in two parts.
    """
    real, store, unravel = parts.real, parts.store["weights"], operands((TABLE["int64"],), 1, 1, "int64").unravel
    lengths, score, factor, scalars = _readers(parts)
    zero, lowest, minus_infinity = real(0), real(LOWEST), real(-np.inf)
    put_stats = levels_storer(parts)

    def kernel(ins, outs, in_steps, out_steps, shape, lower, upper, right, first, start, queries, words):
        cells = cuda.shared.array(MAX_THREADS, real)
        given, thread, threads = scalars(words), cuda.threadIdx.x, cuda.blockDim.x
        row, width = cuda.blockIdx.x, shape[3]
        place = unravel(row, shape[:3])
        whole = queries, width
        begin, end = first_seen(start + place[2], lengths(ins, place + (0,), in_steps, whole), (lower, upper, right))
        top = minus_infinity
        column = begin + thread
        while column < end:
            top = larger(score(ins, place + (column,), in_steps, start), top)
            column += threads
        top = largest(cells, top)
        is_empty = top < lowest
        total = zero
        column = begin + thread
        while column < end:
            if not is_empty:
                total += real(math.exp(score(ins, place + (column,), in_steps, start) - top))
            column += threads
        total = total_of(cells, total)
        column = np.int64(thread)
        while column < width:
            at = place + (column,)
            weight = zero
            if begin <= column < end and not is_empty:
                weight = real(math.exp(score(ins, at, in_steps, start) - top)) / total
                weight *= factor(ins, in_steps, at, first + row, width, given)
            store(outs, at, out_steps, weight)
            column += threads
        if thread == 0:
            level, rest = (minus_infinity, zero) if is_empty else (top, real(math.log(total)))
            put_stats(outs, place + (0,), out_steps, level, rest)

    return kernel


def weights(parts: Parts) -> Kernel:
    """Return the kernel that recomputes the weights from the statistics "level", and "rest" if they are two."""
    real, store, unravel = parts.real, parts.store["weights"], operands((TABLE["int64"],), 1, 1, "int64").unravel
    lengths, score, factor, scalars = _readers(parts)
    zero, lowest, load_level, share = real(0), real(LOWEST), parts.load["level"], share_of(parts)

    def kernel(ins, outs, in_steps, out_steps, shape, lower, upper, right, first, start, queries, words):
        given, threads = scalars(words), cuda.blockDim.x
        row, width = cuda.blockIdx.x, shape[3]
        place = unravel(row, shape[:3])
        whole = queries, width
        begin, end = first_seen(start + place[2], lengths(ins, place + (0,), in_steps, whole), (lower, upper, right))
        level = load_level(ins, place + (0,), in_steps)
        if level < lowest:
            end = begin
        column = np.int64(cuda.threadIdx.x)
        while column < width:
            at, weight = place + (column,), zero
            if begin <= column < end:
                weight = share(ins, place + (0,), in_steps, score(ins, at, in_steps, start), level)
                weight *= factor(ins, in_steps, at, first + row, width, given)
            store(outs, at, out_steps, weight)
            column += threads

    return kernel


def kept(parts: Parts) -> Kernel:
    """Return the kernel that writes whether dropout keeps each weight, which is the case if its factor is not 0."""
    store, unravel = parts.store["kept"], operands((TABLE["int64"],), 1, 1, "int64").unravel
    factor, scalars, zero = dropping(parts), scalar_reader(parts.spec.scalars), parts.real(0)

    def kernel(ins, outs, in_steps, out_steps, shape, lower, upper, right, first, start, queries, words):
        given, threads = scalars(words), cuda.blockDim.x
        row, width = cuda.blockIdx.x, shape[3]
        place = unravel(row, shape[:3])
        column = np.int64(cuda.threadIdx.x)
        while column < width:
            at = place + (column,)
            store(outs, at, out_steps, factor(ins, in_steps, at, first + row, width, given) != zero)
            column += threads

    return kernel


def slopes(parts: Parts) -> Kernel:
    """Return the kernel of dS, the gradients of the scores.

    Inputs: the statistics "level", "spread" = do vᵀ, and the rows of do and o. Outputs: "slopes"; if requested, "sums",
    a copy that is to be summed. The strides along (batch, heads, queries, elements) address the elements of do and o;
    `values` is their number.
    """
    real, store, unravel = parts.real, parts.store["slopes"], operands((TABLE["int64"],), 1, 1, "int64").unravel
    lengths, score, factor, scalars = _readers(parts)
    zero, lowest, load_level, spread = real(0), real(LOWEST), parts.load["level"], parts.load["spread"]
    do, o, again, share = parts.load["do"], parts.load["o"], parts.store.get("sums"), share_of(parts)

    def nothing(outs, coordinates, steps, value):
        pass

    keep = cuda.jit(device=True)(nothing) if again is None else again

    def kernel(ins, outs, in_steps, out_steps, shape, lower, upper, right, first, start, queries, values, words):
        cells = cuda.shared.array(MAX_THREADS, real)
        given, thread, threads = scalars(words), cuda.threadIdx.x, cuda.blockDim.x
        row, width = cuda.blockIdx.x, shape[3]
        place = unravel(row, shape[:3])
        whole = queries, width
        begin, end = first_seen(start + place[2], lengths(ins, place + (0,), in_steps, whole), (lower, upper, right))
        level, total = load_level(ins, place + (0,), in_steps), zero
        column = np.int64(thread)
        while column < values:
            at = place + (column,)
            total += do(ins, at, in_steps) * o(ins, at, in_steps)
            column += threads
        total = total_of(cells, total)
        if level < lowest:
            end = begin
        column = np.int64(thread)
        while column < width:
            at, slope = place + (column,), zero
            if begin <= column < end:
                kept = factor(ins, in_steps, at, first + row, width, given)
                # Dropped weights get a gradient of 0, even if `spread` is infinite or NaN there.
                own = spread(ins, at, in_steps) * kept if kept != zero else zero
                weight = share(ins, place + (0,), in_steps, score(ins, at, in_steps, start), level)
                slope = weight * (own - total)
            store(outs, at, out_steps, slope)
            keep(outs, at, out_steps, slope)
            column += threads

    return kernel


_MAKERS = {f.__name__: f for f in (softmax, weights, kept, slopes, sums, mend, join, pack, unpack, unpage)}
#: In addition to the arrays and their strides: the number of 4-tuples, and of integers after them.
_MORE = {"softmax": (1, 6), "weights": (1, 6), "kept": (1, 6), "slopes": (1, 7), "sums": (2, 1), "mend": (1, 5)}
_MORE |= {"join": (1, 5), "pack": (1, 1), "unpack": (1, 1), "unpage": (1, 2)}


def make(spec: AttentionSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return _MAKERS[spec.algorithm](Parts(spec))


def parameters(spec: AttentionSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    counts, (tuples, integers) = (len(spec.inputs), len(spec.outputs)), _MORE[spec.algorithm]
    return [
        *(("uint64", n) for n in counts),
        *(("int64", (n, 4)) for n in counts),
        *[("int64", 4)] * tuples,
        *[("int64", None)] * integers,
        (WORDS, words_of(spec.scalars)),
    ]
