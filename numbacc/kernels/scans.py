"""The kernels that scan along an axis: y[i] = x[0] + ... + x[i], for any associative merge of parts.

`scan_rows` is for arrays that are contiguous along the axis: neighbouring threads take neighbouring elements of a row.
`scan_columns` is for all others: neighbouring threads take neighbouring columns.

A block takes a row tile by tile. Each thread merges its own elements in order, the threads of a row exchange what they
have made, in log2(32) steps within a warp and by shared memory beyond, and what a tile has made is carried to the next.
Of few long rows blocks along the grid's y take a piece each, in three passes: what each piece makes, the scan of these,
the scan of each piece behind those before it. The order is always the same, and with it the results' bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base._numba import SIMULATED, cuda
from ..base.casts import cast
from ..base.dtypes import TABLE
from .fold_lanes import parts_intrinsics
from .intrinsics import operands
from .scan_lanes import exchanging, runs_of, sweeping
from .scan_specs import ScanSpec
from .specialize import specialize
from .specs import MAX_THREADS, WARP, Kernel

#: Buffers of what threads exchange in shared memory: two in turn, so that one barrier a tile is enough; the simulator's
#: warps have one more.
_BUFFERS = 3 if SIMULATED else 2


def _placing(io: SimpleNamespace, sign: int, runs: int) -> Callable[..., Any]:
    """The device function (here, item, step, last, start, inner, number, steps) -> the operands' offsets at items item,
    item + step, ..., counted from `start`: at the last one instead of those behind it."""
    offsets, unravel = io.offsets, io.unravel

    def place(here, item, step, last, start, inner, number, steps):
        return (offsets(here + unravel(start + sign * min(item, last), inner) + (number,), steps),)

    one = cuda.jit(device=True)(place)
    if runs == 1:
        return one  # type: ignore[no-any-return]
    others = _placing(io, sign, runs - 1)

    def place_all(here, item, step, last, start, inner, number, steps):
        first = one(here, item, step, last, start, inner, number, steps)
        return first + others(here, item + step, step, last, start, inner, number, steps)

    jitted: Callable[..., Any] = cuda.jit(device=True)(place_all)
    return jitted


def _settling(io: SimpleNamespace, chains: int) -> Any:
    """The device function (cells, slot, thread, rank, group, stride, own) -> (what the threads of lower rank have made,
    what all have).

    The threads of a group are `stride` apart, `rank` is a thread's number in it; both are powers of two.
    """
    start, put, join, merge, take_all = io.start(chains), io.put, io.join, io.merge, io.take_all
    exchange, spare = exchanging(io, chains), 2 * chains

    def settle(cells, slot, thread, rank, group, stride, own):
        # Ranks of one warp, and the place among them.
        many = min(group, max(WARP // stride, 1))
        place = rank % many
        reach = 1
        while reach < many:
            is_behind = place >= reach
            other = exchange(cells, spare, thread, thread - reach * stride if is_behind else thread, own)
            if is_behind:
                own = join(merge, other, own)
            reach *= 2
        before = exchange(cells, spare, thread, thread - stride if place > 0 else thread, own)
        if place == 0:
            before = start()
        if many == group:
            total = exchange(cells, spare, thread, thread + (many - 1 - place) * stride, own)
        else:
            if place == many - 1:
                put(cells, slot, thread, own)
            cuda.syncthreads()
            first, past, total, other = thread - rank * stride, start(), start(), many - 1
            while other < group:
                found = take_all(cells, slot, first + other * stride)
                if other < rank:
                    past = join(merge, past, found)
                total = join(merge, total, found)
                other += many
            before = join(merge, past, before)
        return before, total

    return cuda.jit(device=True)(settle)


def _edging(io: SimpleNamespace, spec: ScanSpec) -> Any:
    """The device function (carry, ins, here, first, count, inner, number, steps) -> (the results of the `count`
    elements from `first` on, fewer than an access has; what they and all before make)."""
    offsets, unravel, width, inputs = io.offsets, io.unravel, spec.width, spec.inputs
    lanes = sweeping(io, (tuple(range(width)),))
    load = operands(tuple(TABLE[name] for name in spec.reads[:inputs]), width, width, spec.compute).load_some
    first_parts, function, merge, sign = io.first, io.function, io.merge, io.sign
    sweep, present, raised, ends = lanes.sweep, lanes.present, lanes.raised, lanes.ends
    finish = _finishing(io, lanes, spec)

    def edge(carry, ins, here, first, count, inner, number, steps):
        at = offsets(here + unravel(first, inner) + (number,), steps)
        values = load(ins[:inputs], at[:inputs], sign, count)
        parts = sweep(merge, present(first_parts(function, values, ()), count - 1, 1))
        parts = raised(merge, carry, parts)
        return finish(carry, parts, values), ends(parts)

    return cuda.jit(device=True)(edge)


def _finishing(io: SimpleNamespace, lanes: SimpleNamespace, spec: ScanSpec) -> Any:
    """The device function (what lies ahead of each chain, the parts of all up to each lane, its numbers) -> results, or
    the parts where they hold them."""
    map_lanes, before = io.map_lanes, lanes.before

    def as_they_are(ahead, parts, values):
        return parts

    if spec.formula.finish is None or spec.stage in ("first", "second"):
        return cuda.jit(device=True)(as_they_are)
    done = specialize(spec.formula.finish, spec.compute, False)

    def finish(ahead, parts, values):
        return map_lanes(done, before(ahead, parts) + values, ())

    return cuda.jit(device=True)(finish)


def scan_rows(spec: ScanSpec, io: SimpleNamespace) -> Kernel:
    """A row, or a piece of `piece` elements of one, for x threads; blockDim.y rows for a block.

    Accesses are of `width` elements, wherever a row starts; what lies before the first of them, and behind the last, is
    taken element by element. Where `whole` is 0 the arrays are not aligned alike, and all is. Rows that share a block
    have an access at least.
    """
    width, runs, inputs, sign, reverse = spec.width, spec.runs, spec.inputs, io.sign, spec.reverse
    order = range(width)[::sign]
    chains = tuple(tuple(run * width + j for j in order) for run in range(runs))
    lanes, slots = sweeping(io, chains), _BUFFERS * runs * len(spec.parts)
    io = SimpleNamespace(**{**vars(io), "take_all": lanes.take_all})
    place, settle, edge = _placing(io, sign, runs), _settling(io, runs), _edging(io, spec)
    finish = _finishing(io, lanes, spec)
    sweep, ends, raised, present, chained = lanes.sweep, lanes.ends, lanes.raised, lanes.present, lanes.chained
    offsets, unravel, first, function, merge, start = io.offsets, io.unravel, io.first, io.function, io.merge, io.start
    load_runs, load_loose, store_runs, store_loose = io.load_runs, io.load_loose, io.store_runs, io.store_loose
    store_some = operands(tuple(TABLE[name] for name in spec.writes), width, width).store_some
    load_carry, store_carry, nothing = io.load_carry, io.store_carry, start(1)
    enter, leave, cell = io.enter, io.leave, io.cell
    itemsize = TABLE[spec.reads[0]].itemsize
    # Of several parts the last is the result, unless a formula makes it of them.
    results = len(spec.parts) - 1 if spec.formula.finish is None and spec.stage in ("whole", "last") else 0
    carries, stores = spec.stage == "last", spec.stage != "first"

    def kernel(ins, outs, in_steps, out_steps, outer, inner, positions, columns, piece, whole):
        enter()
        cells = cuda.shared.array((slots, MAX_THREADS), cell)
        leave()
        rank, group, number = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.y
        thread = cuda.threadIdx.y * group + rank
        position = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        inside = position < positions
        here = unravel(position if inside else 0, outer)
        if reverse:
            right = columns - number * piece
            left = max(right - piece, 0)
        else:
            left = number * piece
            right = min(left + piece, columns)
        carry = nothing()
        if carries and number > 0:
            at = offsets(here + unravel(0, inner) + (number - 1,), in_steps)
            carry = load_carry(ins[inputs:], (at[inputs:],), 0)
        # Where accesses begin, and what lies behind them.
        body = left
        if width > 1 and whole:
            # The address in elements says how many are missing to the next access.
            at = offsets(here + unravel(left, inner) + (number,), in_steps)
            body = min(left + -(np.int64(ins[0]) // itemsize + at[0]) % width, right)
        behind = body + (right - body) // width * width
        if width > 1:
            ahead = right - 1 if reverse else left
            count = right - behind if reverse else body - left
            if count > 0:
                found, carry = edge(carry, ins, here, ahead, count, inner, number, in_steps)
            if stores:
                # All have read what is written: in place it would be read again.
                cuda.syncthreads()
                if rank == 0 and inside and count > 0:
                    at = offsets(here + unravel(ahead, inner) + (number,), out_steps)
                    store_some(outs, at, sign, found[results:], count)
        begin, last = behind - width if reverse else body, behind - body - width
        # Rows that share a block take as many tiles as the longest could.
        base, end, step, slot = 0, behind - body if cuda.blockDim.y == 1 else columns, group * width, 0
        while base < end:
            item = base + rank * width
            at = place(here, item, step, last, begin, inner, number, in_steps)
            values = load_runs(ins, at, 0) if width == 1 or whole else load_loose(ins, at, 0)
            parts = sweep(merge, first(function, values, ()))
            before, totals = settle(cells, slot, thread, rank, group, 1, present(ends(parts), last - item, step))
            before, carry = chained(merge, carry, before, totals)
            if stores:
                made = finish(before, raised(merge, before, parts), values)
                left_over = last - item if inside else -1
                at = place(here, item, step, last, begin, inner, number, out_steps)
                if width == 1 or whole:
                    store_runs(outs, at, made, left_over, step)
                else:
                    store_loose(outs, at, made, left_over, step)
            base += runs * step
            slot = runs - slot
        if width > 1 and rank == 0:
            ahead = body - 1 if reverse else behind
            count = body - left if reverse else right - behind
            if count > 0:
                found, carry = edge(carry, ins, here, ahead, count, inner, number, in_steps)
                if stores and inside:
                    at = offsets(here + unravel(ahead, inner) + (number,), out_steps)
                    store_some(outs, at, sign, found[results:], count)
        if not stores and rank == 0:
            at = offsets(here + unravel(0, inner) + (number,), out_steps)
            store_carry(outs, (at,), carry, 0 if inside else -1, 1)

    return kernel


def scan_columns(spec: ScanSpec, io: SimpleNamespace) -> Kernel:
    """x accesses of neighbouring columns for a block of x times y threads; each takes `runs` elements of a column.

    The last of the `outer` dimensions counts accesses; there are `positions` of them in all. A block has `piece` of all
    `items` of its columns. Where `whole` is 0, arrays need not be aligned: elements are then moved one by one.
    """
    width, runs, inputs = spec.width, spec.runs, spec.inputs
    chains = tuple(tuple(run * width + j for run in range(runs)) for j in range(width))
    lanes, slots = sweeping(io, chains), _BUFFERS * width * len(spec.parts)
    io = SimpleNamespace(**{**vars(io), "take_all": lanes.take_all})
    place, settle, finish = _placing(io, 1, runs), _settling(io, width), _finishing(io, lanes, spec)
    sweep, ends, raised, join = lanes.sweep, lanes.ends, lanes.raised, io.join
    offsets, unravel, first, function, merge, nothing = (
        io.offsets, io.unravel, io.first, io.function, io.merge, io.start(width),
    )  # fmt: skip
    load_runs, load_loose, store_runs, store_loose = io.load_runs, io.load_loose, io.store_runs, io.store_loose
    load_carry, store_carry = io.load_carry, io.store_carry
    enter, leave, cell = io.enter, io.leave, io.cell
    carries, stores = spec.stage == "last", spec.stage != "first"

    def kernel(ins, outs, in_steps, out_steps, outer, inner, positions, items, piece, whole):
        enter()
        cells = cuda.shared.array((slots, MAX_THREADS), cell)
        leave()
        rank, group, stride, number = cuda.threadIdx.y, cuda.blockDim.y, cuda.blockDim.x, cuda.blockIdx.y
        thread = rank * stride + cuda.threadIdx.x
        position = cuda.blockIdx.x * stride + cuda.threadIdx.x
        inside = position < positions
        target = unravel(position if inside else 0, outer)
        here = target[:-1] + (target[-1] * width,)
        base, slot = number * piece, 0
        last = min(base + piece, items) - 1
        carry = nothing()
        if carries and number > 0:
            at = offsets(here + unravel(0, inner) + (number - 1,), in_steps)
            carry = load_carry(ins[inputs:], (at[inputs:],), 0)
        while base <= last:
            item = base + rank * runs
            at = place(here, item, 1, last, 0, inner, number, in_steps)
            values = load_runs(ins, at, 0) if width == 1 or whole else load_loose(ins, at, 0)
            parts = sweep(merge, first(function, values, ()))
            before, totals = settle(cells, slot, thread, rank, group, stride, ends(parts))
            if stores:
                before = join(merge, carry, before)
                made = finish(before, raised(merge, before, parts), values)
                left = last - item if inside else -1
                at = place(here, item, 1, last, 0, inner, number, out_steps)
                if width == 1 or whole:
                    store_runs(outs, at, made, left, 1)
                else:
                    store_loose(outs, at, made, left, 1)
            carry = join(merge, carry, totals)
            base += runs * group
            slot = width - slot
        if not stores and rank == 0:
            at = offsets(here + unravel(0, inner) + (number,), out_steps)
            store_carry(outs, (at,), carry, 0 if inside else -1, 1)

    return kernel


_MAKERS = {f.__name__: f for f in (scan_rows, scan_columns)}
#: Integers behind `outer` and `inner`.
_SCALARS = 4


def make(spec: ScanSpec) -> Kernel:
    """See `registry.make`."""
    formula = spec.formula
    starts = tuple(cast(start, np.dtype(name))[()] for start, name in zip(formula.start, spec.parts, strict=True))
    # What passes exchange is one number a row, or one of each of the columns next to each other.
    carried = runs_of(spec.parts, "", 1 if spec.algorithm == "scan_rows" else spec.width, 1)
    # What the first pass has made is scanned as it is.
    compute = "" if spec.stage == "second" else spec.compute
    loads, stores = runs_of(spec.reads[: spec.inputs], compute, spec.width, spec.runs), carried
    if spec.stage != "first":
        stores = runs_of(spec.writes, "", spec.width, spec.runs)
    own = operands(tuple(TABLE[name] for name in spec.reads), 1, 1)
    function, merge = (specialize(each, spec.compute, False) for each in (formula.function, formula.merge))
    io = SimpleNamespace(
        **vars(parts_intrinsics(spec.parts, starts, spec.parts[0])),
        offsets=own.offsets,
        unravel=own.unravel,
        map_lanes=own.map_lanes,
        function=None if spec.stage == "second" else function,
        merge=merge,
        sign=-1 if spec.reverse else 1,
        load_runs=loads.load_runs,
        load_loose=loads.load_loose,
        store_runs=stores.store_runs,
        store_loose=stores.store_loose,
        load_carry=carried.load_loose,
        store_carry=carried.store_loose,
    )
    return _MAKERS[spec.algorithm](spec, io)


def parameters(spec: ScanSpec) -> Sequence[tuple[str, Any]]:
    """See `registry.parameters`."""
    integer, counts = "int64" if spec.wide else "int32", (len(spec.reads), len(spec.writes))
    return [
        *(("uint64", n) for n in counts),
        *((integer, (n, spec.outer + spec.inner + 1)) for n in counts),
        (integer, spec.outer),
        (integer, spec.inner),
        *[(integer, None)] * _SCALARS,
    ]
