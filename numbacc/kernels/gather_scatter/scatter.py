"""The kernels that sum, for each element of dx, the rows of dy that belong to it.

`scatter_few` is for few indices: a thread searches all indices that could select its element, and adds those that do.

The others need the list of all rows sorted (see `sort`): the rows of one element are a segment of it, in their original
order. A segment may be the whole list, if one token makes up most of a text. So that no thread adds a million rows, the
list is also cut into chunks of 16 rows, of 16 chunks, and so on, independent of segments:

    level 2   [                    chunk                    ]
    level 1   [  chunk  ][  chunk  ][  chunk  ][  chunk  ]...
    rows      ..........aaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbcc

`scatter_chunks` writes the sum of each chunk that belongs to one element alone, level by level; chunks of several
elements are not needed. In `scatter_rows` a thread steps through the segment of its element: at each position it adds
the widest chunk that begins there and ends in the segment, and single rows at both ends. For n rows of one element it
takes about 30 steps per level.

The list's length determines the chunks, and the segment's bounds determine which of them are added. Thus the order of
addition is that of the list, independent of timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.block_scan import sweeping
from ..primitives.operands import operands
from ..primitives.partials import parts_intrinsics
from ..primitives.runs import runs_of
from ..primitives.specialize import specialize
from ..reduce.functions import add
from ..specs import Kernel
from .spec import ScatterSpec


def _tools(spec: ScatterSpec) -> SimpleNamespace:
    """Return the intrinsics that the kernels use."""
    words = operands((TABLE[spec.word],), 1, 1)
    parts = parts_intrinsics((spec.compute,), (np.dtype(spec.compute).type(0),), spec.compute)
    return SimpleNamespace(
        load_words=words.load,
        offsets=words.offsets,
        unravel=words.unravel,
        nothing=parts.start(spec.width),
        reduce_lanes=parts.reduce_lanes(spec.width),
        join=parts.join,
        present=sweeping(parts, ((0,),)).present,
        merge=specialize(add, spec.compute, False),
        store=_storing(spec, parts.join, specialize(add, spec.compute, False)),
    )


def _storing(spec: ScatterSpec, join: Any, merge: Any) -> Any:
    """Return the device function that stores a sum, or adds it to the old value.

    Its arguments are (outs, target, total, whole): see `scatter_few`.
    """
    stores, width = runs_of(spec.writes, "", spec.width, 1), spec.width
    store_runs, store_loose = stores.store_runs, stores.store_loose

    def store(outs, target, total, whole):
        if width == 1 or whole:
            store_runs(outs, target, total, 0, 1)
        else:
            store_loose(outs, target, total, 0, 1)

    alone = cuda.jit(device=True)(store)
    if not spec.adds:
        return alone
    loads = runs_of(spec.writes, spec.compute, width, 1)
    load_runs, load_loose = loads.load_runs, loads.load_loose

    def store_both(outs, target, total, whole):
        before = load_runs(outs, target, 0) if width == 1 or whole else load_loose(outs, target, 0)
        alone(outs, target, join(merge, before, total), whole)

    return cuda.jit(device=True)(store_both)


def scatter_few(spec: ScatterSpec) -> Kernel:
    """Return the kernel with a thread for `width` elements of dx, for at most a few indices per element.

    The elements have position `number` along the axis, whose length is `length`; `count` indices could select each. If
    `whole` is 0, arrays need not be aligned: elements are then moved one by one.
    """
    io, width = _tools(spec), spec.width
    offsets, unravel, nothing, join, merge = io.offsets, io.unravel, io.nothing, io.join, io.merge
    load_index = operands((TABLE[spec.indices],), 1, 1, "int64").load
    rows = runs_of((spec.dtype,), spec.compute, width, 1)
    load_runs, load_loose, store, adds = rows.load_runs, rows.load_loose, io.store, spec.adds

    def kernel(ins, outs, in_steps, listed_steps, out_steps, outer, listed, rows, columns, count, length, whole):
        item, row = cuda.grid(2)
        column = item * width
        if column < columns:
            while row < rows:
                here = unravel(row, outer) + (column,)
                start, first, number = offsets(here, in_steps)
                total, n, is_wanted = nothing(), 0, not adds
                while n < count:
                    there, index = offsets(unravel(n, listed), listed_steps)
                    (named,) = load_index(ins[1:], (first + index,))
                    if named < 0:
                        named += length
                    if named == number:
                        at = ((start + there,),)
                        values = load_runs(ins[:1], at, 0) if width == 1 or whole else load_loose(ins[:1], at, 0)
                        total, is_wanted = join(merge, total, values), True
                    n += 1
                if is_wanted:
                    store(outs, (offsets(here, out_steps),), total, whole)
                row += cuda.gridsize(2)[1]

    return kernel


@cuda.jit(device=True)
def four(first, step, last):
    """Return four numbers starting at `first`, `step` apart; those after number `last` are replaced by it."""
    return first, first + step * min(1, last), first + step * min(2, last), first + step * last


def _walking(spec: ScatterSpec, io: SimpleNamespace) -> Any:
    """Return the device function that sums the list's rows from `here` to `end`.

    Its arguments are (ins, start, part, here, end, count, apart, top, whole). It reads a row's elements `start`
    elements after the row's offset, and a chunk's sum `part` elements after the chunk's start. Chunks' sums are `apart`
    elements apart, level 1 first. The widest chunks have 2^top rows.
    """
    width, bits, load_words, reduce_lanes, join = spec.width, spec.bits, io.load_words, io.reduce_lanes, io.join
    nothing, present, merge = io.nothing, io.present, io.merge
    rows, sums = (runs_of((name,), spec.compute, width, 4) for name in (spec.dtype, spec.compute))
    load_runs, load_loose, load_sums = rows.load_runs, rows.load_loose, sums.load_runs
    each = 1 << bits

    def walk(ins, start, part, here, end, count, apart, top, whole):
        total = nothing()
        while here < end:
            # Find the widest chunk that begins here and fits, and the number of sums before its level's first sum.
            shift, before = 0, 0
            while shift < top and here & ((each << shift) - 1) == 0 and here + (each << shift) <= end:
                if shift > 0:
                    before += count >> shift
                shift += bits
            # Add four of these at once, or as many as remain before the next chunk one level up.
            last = min((end - here) >> shift, each - ((here >> shift) & (each - 1)), 4) - 1
            if shift == 0:
                a, b, c, d = load_words((ins[1], ins[1], ins[1], ins[1]), four(here, 1, last))
                at = ((start + a,), (start + b,), (start + c,), (start + d,))
                values = load_runs(ins[:1], at, 0) if width == 1 or whole else load_loose(ins[:1], at, 0)
            else:
                a, b, c, d = four((before + (here >> shift)) * apart + part, apart, last)
                values = load_sums(ins[3:], ((a,), (b,), (c,), (d,)), 0)
            total = join(merge, total, reduce_lanes(merge, present(values, (last + 1) * width - 1, 1)))
            here += (last + 1) << shift
        return total

    return cuda.jit(device=True)(walk)


def scatter_rows(spec: ScatterSpec) -> Kernel:
    """Return the kernel with a thread for `width` elements of dx, or of a chunk's sum.

    `number` selects the segment, or the chunk. For `scatter_chunks`, chunks have 2^bits times as many rows as the
    widest existing ones, and only those are written that belong to one element, with a key below `beyond`. If `whole`
    is 0, arrays need not be aligned: elements are then moved one by one.
    """
    io, width, bits, chunks = _tools(spec), spec.width, spec.bits, spec.algorithm == "scatter_chunks"
    offsets, unravel, load_words, walk = io.offsets, io.unravel, io.load_words, _walking(spec, io)
    store, adds = io.store, spec.adds

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, count, apart, top, beyond, whole):
        item, row = cuda.grid(2)
        column = item * width
        if column < columns:
            while row < rows:
                at = unravel(row, outer) + (column,)
                start, part, number = offsets(at, in_steps)
                if chunks:
                    here = number << (top + bits)
                    end = (number + 1) << (top + bits)
                    one, other = load_words((ins[2], ins[2]), (here, end - 1))
                    is_wanted = one == other and one < beyond
                else:
                    here, end = load_words((ins[2], ins[2]), (number, number + 1))
                    is_wanted = here < end or not adds
                if is_wanted:
                    total = walk(ins, start, part, here, end, count, apart, top, whole)
                    store(outs, (offsets(at, out_steps),), total, 1 if chunks else whole)
                row += cuda.gridsize(2)[1]

    return kernel


def make(spec: ScatterSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return scatter_few(spec) if spec.algorithm == "scatter_few" else scatter_rows(spec)


def parameters(spec: ScatterSpec) -> Sequence[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    integer, addresses = spec.word, [("uint64", len(spec.reads)), ("uint64", len(spec.writes))]
    if spec.algorithm == "scatter_few":
        walked = [(integer, (3, spec.rank + 1)), (integer, (2, spec.listed)), (integer, (1, spec.rank + 1))]
        return [*addresses, *walked, (integer, spec.rank), (integer, spec.listed), *[(integer, None)] * 5]
    walked = [(integer, (3, spec.rank + 1)), (integer, (1, spec.rank + 1))]
    return [*addresses, *walked, (integer, spec.rank), *[(integer, None)] * 7]
