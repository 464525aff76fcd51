"""The kernels around attention: packed or paged sequences to rows of their own, and back; a bias's gradient; rows
without a key; parts of the keys joined. A thread for each element.

`shape` is that of the rows: (batch, heads, sequence, elements); `size` is how many elements that are.
"""

from __future__ import annotations

import math

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.operands import operands
from ..specs import Kernel
from .parts import LOWEST, Parts, first_seen, larger, lengths_of, stats_storer

_ZERO = np.int64(0)


@cuda.jit(device=True)
def _in_rows(ins, place, steps):
    return 0


def unpack(parts: Parts) -> Kernel:
    """Rows of sequences that lie one behind the other, or have rows already, with zeros behind their ends."""
    load, lengths, starts = parts.load["source"], parts.load["lengths"], parts.load.get("starts", _in_rows)
    store, zero = parts.store["target"], parts.real(0)
    unravel = operands((TABLE["int64"],), 1, 1, "int64").unravel

    def kernel(ins, outs, in_steps, out_steps, shape, size, words):
        index = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            place = unravel(index, shape)
            value = zero
            if place[2] < lengths(ins, place, in_steps):
                start = starts(ins, place, in_steps)
                value = load(ins, (place[0], place[1], place[2] + start, place[3]), in_steps)
            store(outs, place, out_steps, value)

    return kernel


def pack(parts: Parts) -> Kernel:
    """Sequences one behind the other, of rows; what belongs to none stays as it is."""
    load, starts, lengths = (parts.load[name] for name in ("source", "starts", "lengths"))
    store = parts.store["target"]
    unravel = operands((TABLE["int64"],), 1, 1, "int64").unravel

    def kernel(ins, outs, in_steps, out_steps, shape, size, words):
        index = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            place = unravel(index, shape)
            if place[2] < lengths(ins, place, in_steps):
                start = starts(ins, place, in_steps)
                target = (place[0], place[1], place[2] + start, place[3])
                store(outs, target, out_steps, load(ins, place, in_steps))

    return kernel


def unpage(parts: Parts) -> Kernel:
    """Rows of sequences that lie in pages of `page` keys, zeros behind their ends."""
    load, table, lengths = (parts.load[name] for name in ("source", "table", "lengths"))
    store, zero = parts.store["target"], parts.real(0)
    unravel = operands((TABLE["int64"],), 1, 1, "int64").unravel

    def kernel(ins, outs, in_steps, out_steps, shape, size, page, words):
        index = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            place = unravel(index, shape)
            value = zero
            if place[2] < lengths(ins, place, in_steps):
                sheet = table(ins, (place[0], _ZERO, place[2] // page, _ZERO), in_steps)
                value = load(ins, (sheet, place[1], place[2] % page, place[3]), in_steps)
            store(outs, place, out_steps, value)

    return kernel


def sums(parts: Parts) -> Kernel:
    """A bias's gradient: a thread for each of its elements, which adds up those of "slopes" to what is there.

    `shape` is the bias's; `counts` of neighbours in each dimension belong to one element.
    """
    real, load, before, store = parts.real, parts.load["slopes"], parts.load["before"], parts.store["after"]
    unravel, zero = operands((TABLE["int64"],), 1, 1, "int64").unravel, real(0)

    def kernel(ins, outs, in_steps, out_steps, shape, counts, size, words):
        index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            place = unravel(np.int64(index), shape)
            total = zero
            for b in range(counts[0]):
                for h in range(counts[1]):
                    for i in range(counts[2]):
                        for j in range(counts[3]):
                            at = (place[0] + b, place[1] + h, place[2] + i, place[3] + j)
                            total += load(ins, at, in_steps)
            store(outs, place, out_steps, before(ins, place, in_steps) + total)

    return kernel


def mend(parts: Parts) -> Kernel:
    """Rows without a key, of what cuDNN has computed: the output 0 and the statistics -inf. A thread for each row.

    `values` is the length of a row of the output. Rows beyond a sequence's end are left alone where `packed` is not
    0: they belong to another.
    """
    real, load, put, put_stats = parts.real, parts.load["level"], parts.store["out"], parts.store["stats"]
    lengths, zero, lowest, minus_infinity = lengths_of(parts), parts.real(0), real(LOWEST), real(-np.inf)
    unravel, starts = operands((TABLE["int64"],), 1, 1, "int64").unravel, parts.load.get("starts")

    def at_their_place(ins, c, steps):
        return 0

    start_of = cuda.jit(device=True)(at_their_place) if starts is None else starts
    is_packed = starts is not None

    def kernel(ins, outs, in_steps, out_steps, shape, lower, upper, right, size, values, words):
        index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            place = unravel(np.int64(index), shape[:3])
            known = lengths(ins, place + (0,), in_steps, shape[2:])
            begin, end = first_seen(place[2], known, (lower, upper, right))
            if begin == end or load(ins, place + (0,), in_steps) < lowest:
                put_stats(outs, place + (0,), out_steps, minus_infinity)
                if not is_packed or place[2] < known[0]:
                    start = start_of(ins, place + (0,), in_steps)
                    for column in range(values):
                        put(outs, (place[0], place[1], place[2] + start, np.int64(column)), out_steps, zero)

    return kernel


def join(parts: Parts) -> Kernel:
    """Attention to all keys, of attention to parts of them: a thread for each element of the output.

    Inputs: "parts", outputs of `count` parts, "levels", their statistics: `step` and `level_step` elements apart, those
    of a part as steps say along (batch, heads, queries), then 1. Outputs: "out", and "stats" where it is asked for.
    """
    real, load, level = parts.real, parts.load["parts"], parts.load["levels"]
    store, put_stats = parts.store["out"], stats_storer(parts)
    zero, lowest, minus_infinity = real(0), real(LOWEST), real(-np.inf)
    unravel = operands((TABLE["int64"],), 1, 1, "int64").unravel

    def kernel(ins, outs, in_steps, out_steps, shape, count, step, level_step, size, words):
        index = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            place = unravel(index, shape)
            row, top = place[:3], minus_infinity
            for part in range(count):
                top = larger(level(ins, row + (part * level_step,), in_steps), top)
            is_empty = top < lowest
            total = value = zero
            if not is_empty:
                for part in range(count):
                    weight = real(math.exp(level(ins, row + (part * level_step,), in_steps) - top))
                    total += weight
                    value += weight * load(ins, row + (place[3] + part * step,), in_steps)
                value /= total
            store(outs, place, out_steps, value)
            if place[3] == 0:
                put_stats(outs, row + (0,), out_steps, minus_infinity if is_empty else top + real(math.log(total)))

    return kernel
