"""The kernels around attention, with a thread for each element or row.

They convert packed or paged sequences to rows and back, compute a bias's gradient, fix rows without a key, and join
attention to parts of the keys. `shape` is the shape of the rows, (batch, heads, sequence, elements); `size` is the
number of their elements.
"""

from __future__ import annotations

import math

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.instructions import wait_for_previous
from ..primitives.operands import operands
from ..specs import Kernel
from .parts import LOWEST, Parts, first_seen, larger, lengths_of, stats_storer
from .spec import JOINED

_ZERO = np.int64(0)


@cuda.jit(device=True)
def _in_rows(ins, place, steps):
    return 0


def unpack(parts: Parts) -> Kernel:
    """Return the kernel that copies packed or padded sequences to rows, with zeros after their ends."""
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
    """Return the kernel that packs sequences one after the other; elements that belong to no sequence are unchanged."""
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
    """Return the kernel that copies sequences in pages of `page` keys to rows, with zeros after their ends."""
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
    """Return the kernel of a bias's gradient: each thread adds elements of "slopes" to one element of it.

    `shape` is the bias's shape; `counts` is the number of adjacent elements, in each dimension, that one element sums.
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
    """Return the kernel that fixes rows without a key in cuDNN's result: output 0, statistics -inf; a thread per row.

    `values` is the length of a row of the output. If `packed` is not 0, rows after a sequence's end are unchanged,
    because they belong to another sequence.
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
            wait_for_previous()
            known = lengths(ins, place + (0,), in_steps, shape[2:])
            begin, end = first_seen(place[2], known, (lower, upper, right))
            if begin == end or load(ins, place + (0,), in_steps) < lowest:
                put_stats(outs, place + (0,), out_steps, minus_infinity)
                if not is_packed or place[2] < known[0]:
                    start = start_of(ins, place + (0,), in_steps)
                    for column in range(values):
                        put(outs, (place[0], place[1], place[2] + start, np.int64(column)), out_steps, zero)

    return kernel


#: Parts that a thread of `join` requests at once.
_AHEAD = 4


@cuda.jit(device=True)
def _blend(total, first, second, third, fourth, scale, one, two, three, four):
    return (total * scale + (one * first + two * second) + (three * third + four * fourth),)


@cuda.jit(device=True)
def _shared(value, share, is_empty):
    # The parts of a row without a key are averages of all values, which may be infinite.
    return (share if is_empty else value * share,)


def join(parts: Parts) -> Kernel:
    """Return the kernel that joins attention to parts of the keys, with a thread for JOINED elements of the output.

    Inputs: "parts", the outputs of `count` parts, and "levels", their statistics, which are `step` and `level_step`
    elements apart. A part's strides are along (batch, heads, queries), then 1, and its rows are aligned to 16 bytes and
    at least as long as whole runs of JOINED elements. The last axis of `shape` counts these runs; `size` is the number
    of all. Outputs: "out", or "vectors" if its runs are contiguous, aligned and whole, with rows of `columns` elements;
    and "stats" if requested.

    A thread requests _AHEAD parts at once, because it waits as long for one. It scales its sums whenever it finds a
    larger level.
    """
    real, level, put_stats = parts.real, parts.load["levels"], stats_storer(parts)
    own = operands((TABLE[dict(parts.spec.inputs)["parts"]],), JOINED, JOINED, parts.spec.compute)
    name = "vectors" if "vectors" in parts.store else "out"
    target = operands((TABLE[dict(parts.spec.outputs)[name]],), JOINED, JOINED, parts.spec.compute)
    load, offsets, map_lanes, unravel = own.load_lanes, own.offsets, own.map_lanes, target.unravel
    store_all, store_some = target.store_lanes, target.store_some
    zero, lowest, least, minus_infinity = real(0), real(LOWEST), real(np.finfo(real).min), real(-np.inf)
    zeros = (zero,) * JOINED

    def asked(ins, in_steps, row, column, part, count, step, level_step):
        """Return a part's level, -inf after the last part, and its elements."""
        there = min(part, count - 1)
        found = level(ins, row + (there * level_step,), in_steps)
        values = load(ins[:1], offsets(row + (column + there * step,), in_steps[:1]), 0)[0]
        return found if part < count else minus_infinity, values

    def put_vectors(outs, place, out_steps, values, columns):
        store_all(outs[:1], offsets(place, out_steps[:1]), 0, (values,))

    def put_some(outs, place, out_steps, values, columns):
        count = min(JOINED, columns - place[3])
        store_some(outs[:1], offsets(place, out_steps[:1]), out_steps[0][3], (values,), count)

    ask = cuda.jit(device=True)(asked)
    put = cuda.jit(device=True)(put_vectors if name == "vectors" else put_some)

    def kernel(ins, outs, in_steps, out_steps, shape, count, step, level_step, columns, size, words):
        index = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            place = unravel(index, shape)
            row, column = place[:3], place[3] * JOINED
            wait_for_previous()
            # A finite start: the difference to a level of -inf is not NaN.
            top, total, values = least, zero, zeros
            for part in range(0, count, _AHEAD):
                one, first = ask(ins, in_steps, row, column, part, count, step, level_step)
                two, second = ask(ins, in_steps, row, column, part + 1, count, step, level_step)
                three, third = ask(ins, in_steps, row, column, part + 2, count, step, level_step)
                four, fourth = ask(ins, in_steps, row, column, part + 3, count, step, level_step)
                before, top = top, larger(larger(larger(one, two), larger(three, four)), top)
                scale = real(math.exp(before - top))
                one, two = real(math.exp(one - top)), real(math.exp(two - top))
                three, four = real(math.exp(three - top)), real(math.exp(four - top))
                total = total * scale + (one + two) + (three + four)
                given = (scale, one, two, three, four)
                values = map_lanes(_blend, (values, first, second, third, fourth), given)[0]
            is_empty = top < lowest
            share = zero if is_empty else real(1) / total
            values = map_lanes(_shared, (values,), (share, is_empty))[0]
            put(outs, row + (column,), out_steps, values, columns)
            if column == 0:
                put_stats(outs, row + (0,), out_steps, minus_infinity if is_empty else top + real(math.log(total)))

    return kernel
