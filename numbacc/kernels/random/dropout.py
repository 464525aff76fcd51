"""The kernel of dropout: y[i] = x[i] / (1 - p) or 0, depending on random word i of Philox's sequence.

Words are generated in groups of four: a thread handles the elements of as many groups as one access holds, counted in C
order. If a thread makes several accesses, they are a block's width apart. Arrays and steps are as in `map`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.operands import operands, scalar_reader
from ..primitives.specialize import specialize
from ..specs import Kernel, KernelSpec, group_lanes, map_parameters
from .philox import words as words_of_group


def kept(x, word, least, any_kept, scale):
    """Return x times the scale if `any_kept` and the word is at least `least`, else 0."""
    return x * scale if any_kept and word >= least else 0.0


def _words(groups: int) -> Callable[..., Any]:
    """Return the device function (seed, group) -> the words of this many groups, one after the other."""
    if groups == 1:
        return words_of_group  # type: ignore[no-any-return]
    before, last = _words(groups - 1), np.uint64(groups - 1)

    def words(seed, group):
        return before(seed, group) + words_of_group(seed, group + last)

    jitted: Callable[..., Any] = cuda.jit(device=True)(words)
    return jitted


def _pieces(pieces: int, make: Any) -> Callable[..., Any]:
    """Return the device function (seed, group, apart) -> the words of this many pieces, `apart` groups apart."""
    if pieces == 1:

        def one(seed, group, apart):
            return make(seed, group)

        alone: Callable[..., Any] = cuda.jit(device=True)(one)
        return alone
    others = _pieces(pieces - 1, make)

    def words(seed, group, apart):
        return make(seed, group) + others(seed, group + apart, apart)

    jitted: Callable[..., Any] = cuda.jit(device=True)(words)
    return jitted


def _each(lanes: int, take: Any) -> Callable[..., Any]:
    """Return the device function that processes up to `lanes` adjacent elements one by one, each with its word."""
    last = lanes - 1
    before: Any = _each(last, take) if last else None

    def first(ins, outs, in_steps, out_steps, outer, index, size, drawn, given):
        take(ins, outs, in_steps, out_steps, outer, index, drawn[0], given)

    def others(ins, outs, in_steps, out_steps, outer, index, size, drawn, given):
        before(ins, outs, in_steps, out_steps, outer, index, size, drawn, given)
        if index + last < size:
            take(ins, outs, in_steps, out_steps, outer, index + last, drawn[last], given)

    jitted: Callable[..., Any] = cuda.jit(device=True)(first if before is None else others)
    return jitted


def dropout(spec: KernelSpec) -> Kernel:
    """Return the kernel with one thread for the elements of `lanes` / 4 groups, in pieces of one access.

    If `whole` is 0, arrays have any strides and elements are processed one by one; otherwise arrays are contiguous in C
    order. The scalars are the seed, the first group, the least word that is kept, and 1 / (1 - p). An optional second
    input holds a single integer: how many words (four per group) later the sequence starts.
    """
    lanes = group_lanes(TABLE[spec.reads[0]].itemsize)
    io, pieces = operands((TABLE[spec.reads[0]],), spec.lanes, spec.width, spec.compute), spec.lanes // lanes
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    load_lanes, store_lanes, map_lanes, apply, width = io.load_lanes, io.store_lanes, io.map_lanes, io.apply, io.width
    keep, scalars = specialize(kept, spec.compute, spec.narrow), scalar_reader(spec.scalars)
    words_at, groups = _words(lanes // 4), np.uint64(lanes // 4)
    words_of_all = _pieces(pieces, words_at)
    above = np.uint64(2**32)
    load_count = operands((TABLE["int64"],), 1, 1, "int64").load

    def at_once(ins):
        return np.uint64(0)

    def later(ins):
        return np.uint64(load_count(ins[1:], (0,))[0]) >> np.uint64(2)

    entered = cuda.jit(device=True)(later if len(spec.reads) > 1 else at_once)

    @cuda.jit(device=True)
    def take(ins, outs, in_steps, out_steps, outer, index, word, given):
        coordinates = unravel(index, outer)
        values = load(ins[:1], offsets(coordinates, in_steps[:1]))
        store(outs, offsets(coordinates, out_steps), apply(keep, values + (word,), given))

    take_each = _each(lanes, take)

    def kernel(ins, outs, in_steps, out_steps, outer, size, whole, words):
        seed, first, least, scale = scalars(words)
        # Words are compared in 32 bits, but a bound above all words takes 33 bits.
        given = np.uint32(least), least < above, scale
        threads = cuda.blockDim.x
        thread = np.int64(cuda.blockIdx.x) * (pieces * threads) + cuda.threadIdx.x
        group = first + entered(ins) + np.uint64(thread) * groups
        index, apart = thread * lanes, threads * lanes
        if whole and index + (pieces - 1) * apart + lanes <= size:
            # If there are several pieces, each is one run; a single piece may have several adjacent runs.
            step = apart if pieces > 1 else width
            values = load_lanes(ins[:1], (index,), step)
            drawn = words_of_all(seed, group, np.uint64(threads) * groups)
            store_lanes(outs, (index,), step, map_lanes(keep, values + (drawn,), given))
        else:
            for _ in range(pieces):
                if index < size:
                    drawn = words_at(seed, group)
                    take_each(ins, outs, in_steps, out_steps, outer, index, size, drawn, given)
                index += apart
                group += np.uint64(threads) * groups

    return kernel


def make(spec: KernelSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return dropout(spec)


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `runtime.kernel_code`."""
    return map_parameters(spec, 0, 2)
