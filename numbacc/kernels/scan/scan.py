"""The kernels that scan along an axis: y[i] = x[0] + ... + x[i], for any associative merge of partial results.

`scan_rows` is for arrays that are contiguous along the axis: adjacent threads process adjacent elements of a row.
`scan_cluster` is for such rows, too, if they are few and a cluster of blocks can hold one: a block keeps its piece in
registers, and the blocks tell each other their totals by shared memory.
`scan_columns` is for all other arrays: adjacent threads process adjacent columns. `scan_chained` is used if many blocks
share each column.

A block processes a row tile by tile. Full tiles, almost all of them, have separate code without bounds checks. Each
thread merges its own elements in order. The threads of a row then exchange their results, in log2(32) steps within a
warp and through shared memory between warps, and the tile's total is carried to the next tile. If there are few long
rows, or few columns that are not adjacent, blocks along the grid's y process a piece each. The first pass computes the
total of each piece, the last pass scans each piece from the total of earlier pieces. For rows, each block of the last
pass merges the totals of earlier pieces itself; for columns, a pass in between scans them. The order is always the
same, so results are bitwise reproducible.

Blocks that share columns read them once: a block loads a piece of some columns into shared memory, computes its total,
and publishes it. The total of everything before a piece is always made of the same values in the same order,
independent of the blocks' timing, so results are bitwise reproducible. It consists of the totals of:

* all earlier units of `fan` times `fan` pieces: the last piece of a unit publishes the total of this and all earlier
  units;
* the earlier groups of `fan` pieces in the same unit: the last piece of a group publishes the group's total;
* the earlier pieces in the same group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda, types
from ...base.casts import cast
from ...base.dtypes import TABLE
from ...runtime.launch_order import ROW_BLOCKS
from ..primitives import block_reduce
from ..primitives.block_load_store import keeping
from ..primitives.block_scan import BUFFERS, settling, sweeping
from ..primitives.decoupled_look_back import take_ticket, telling
from ..primitives.instructions import kept_memory, let_next_start, wait_for_previous
from ..primitives.operands import operands
from ..primitives.partials import parts_intrinsics
from ..primitives.runs import runs_of
from ..primitives.specialize import specialize
from ..specs import Kernel
from .spec import ScanSpec

#: Accesses of up to this many elements leave enough registers to load the elements after a row's last access early.
_EARLY_WIDTH = 4


def placing(io: SimpleNamespace, sign: int, runs: int, is_full: bool) -> Callable[..., Any]:
    """Return the device function that computes the operands' offsets at items item, item + step, ...

    Its arguments are (here, item, step, last, start, inner, number, steps). Items are counted from `start`. Unless all
    exist (`is_full`), items after `last` are replaced by `last`.
    """
    offsets, unravel = io.offsets, io.unravel

    def place(here, item, step, last, start, inner, number, steps):
        there = item if is_full else min(item, last)
        return (offsets(here + unravel(start + sign * there, inner) + (number,), steps),)

    one = cuda.jit(device=True)(place)
    if runs == 1:
        return one  # type: ignore[no-any-return]
    others = placing(io, sign, runs - 1, is_full)

    def place_all(here, item, step, last, start, inner, number, steps):
        first = one(here, item, step, last, start, inner, number, steps)
        return first + others(here, item + step, step, last, start, inner, number, steps)

    jitted: Callable[..., Any] = cuda.jit(device=True)(place_all)
    return jitted


def finishing(io: SimpleNamespace, lanes: SimpleNamespace, spec: ScanSpec) -> Any:
    """Return the device function (ahead, parts, values) -> results, or the partial results if those are the results.

    `ahead` is the total before each chain, `parts` are the totals up to each lane, `values` the lanes' elements.
    """
    map_lanes, before = io.map_lanes, lanes.before

    def as_they_are(ahead, parts, values):
        return parts

    if spec.formula.finish is None or spec.stage in ("first", "second"):
        return cuda.jit(device=True)(as_they_are)
    done = specialize(spec.formula.finish, spec.compute, False)

    def finish(ahead, parts, values):
        return map_lanes(done, before(ahead, parts) + values, ())

    return cuda.jit(device=True)(finish)


# ---------------------------------------------------------------- rows and columns


def _edging(io: SimpleNamespace, spec: ScanSpec) -> tuple[Any, Any]:
    """Return the device functions that load and scan the `count` elements from `first` on, fewer than an access has.

    (ins, here, first, count, inner, number, steps) -> the elements;
    (carry, elements, count) -> (their results; the total of these and all earlier ones).
    """
    offsets, unravel, width, inputs = io.offsets, io.unravel, spec.width, spec.inputs
    lanes = sweeping(io, (tuple(range(width)),))
    load = operands(tuple(TABLE[name] for name in spec.reads[:inputs]), width, width, spec.compute).load_some
    first_parts, function, merge, sign = io.first, io.function, io.merge, io.sign
    sweep, present, raised, ends = lanes.sweep, lanes.present, lanes.raised, lanes.ends
    finish = finishing(io, lanes, spec)

    def load_edge(ins, here, first, count, inner, number, steps):
        at = offsets(here + unravel(first, inner) + (number,), steps)
        return load(ins[:inputs], at[:inputs], sign, count)

    def scan_edge(carry, values, count):
        parts = sweep(merge, present(first_parts(function, values, ()), count - 1, 1))
        parts = raised(merge, carry, parts)
        return finish(carry, parts, values), ends(parts)

    return cuda.jit(device=True)(load_edge), cuda.jit(device=True)(scan_edge)


def _bounding(reverse: bool) -> Any:
    """Return the device function (number, columns, piece) -> (a piece's first column, the one after its last).

    Pieces are numbered in scan order: from the right, if `reverse`.
    """

    def bounds(number, columns, piece):
        if reverse:
            right = columns - number * piece
            left = max(right - piece, 0)
        else:
            left = number * piece
            right = min(left + piece, columns)
        return left, right

    return cuda.jit(device=True)(bounds)


def _row_tile(spec: ScanSpec, io: SimpleNamespace, is_full: bool) -> Any:
    """Return the device function (cells, slot, thread, carry, ...) -> the total before the next tile.

    `carry` is the total before this tile, and the function stores this tile's results. The other arguments have the
    kernel's names. If `is_full`, all accesses exist and are aligned. Otherwise only those up to `last` exist, and each
    thread handles `spec.runs_left`.
    """
    width, runs, sign = spec.width, spec.runs if is_full else spec.runs_left, io.sign
    order = range(width)[::sign]
    chains = tuple(tuple(run * width + j for j in order) for run in range(runs))
    lanes = sweeping(io, chains)
    io = SimpleNamespace(**{**vars(io), "take_all": lanes.take_all})
    place, settle = placing(io, sign, runs, is_full), settling(io, runs, 2 * spec.runs, spec.near, 1)
    finish, step = finishing(io, lanes, spec), spec.near * width
    sweep, ends, raised, present, chained = lanes.sweep, lanes.ends, lanes.raised, lanes.present, lanes.chained
    first, function, merge = io.first, io.function, io.merge
    load_runs, store_runs, load_loose, store_loose = (
        (io.load_runs, io.store_runs, io.load_all_loose, io.store_all_loose)
        if is_full
        else (io.load_left, io.store_left, io.load_left_loose, io.store_left_loose)
    )
    stores, is_aligned = spec.stage != "first", is_full or width == 1

    def tile(
        cells,
        slot,
        thread,
        carry,
        ins,
        outs,
        here,
        base,
        last,
        begin,
        inner,
        number,
        in_steps,
        out_steps,
        inside,
        whole,
    ):
        rank = cuda.threadIdx.x
        item = base + rank * width
        at = place(here, item, step, last, begin, inner, number, in_steps)
        values = load_runs(ins, at, 0) if is_aligned or whole else load_loose(ins, at, 0)
        parts = sweep(merge, first(function, values, ()))
        own = ends(parts) if is_full else present(ends(parts), last - item, step)
        before, totals = settle(cells, slot, thread, rank, own)
        before, carry = chained(merge, carry, before, totals)
        if stores:
            made = finish(before, raised(merge, before, parts), values)
            at = place(here, item, step, last, begin, inner, number, out_steps)
            left_over = -1
            if inside:
                left_over = 0 if is_full else last - item
            if is_aligned or whole:
                store_runs(outs, at, made, left_over, 0 if is_full else step)
            else:
                store_loose(outs, at, made, left_over, step)
        return carry

    return cuda.jit(device=True)(tile)


def scan_rows(spec: ScanSpec, io: SimpleNamespace) -> Kernel:
    """Return the kernel for contiguous rows: x threads scan a row, or a `piece` of it, and a block blockDim.y rows.

    Accesses have `width` elements, wherever a row starts; elements before the first and after the last access are
    processed one by one. If `whole` is 0, the arrays have different alignments and all elements are processed one by
    one. Rows that share a block have at least one access; `sure` elements of each are in complete accesses.
    """
    width, runs, inputs, sign, reverse = spec.width, spec.runs, spec.inputs, io.sign, spec.reverse
    is_early, runs_left = spec.is_alone and width <= _EARLY_WIDTH, spec.runs_left
    slots, group, rows = BUFFERS * runs * len(spec.parts), spec.near, spec.threads // spec.near
    step, threads = group * width, spec.threads
    (load_edge, scan_edge), tile, full_tile = _edging(io, spec), _row_tile(spec, io, False), _row_tile(spec, io, True)
    offsets, unravel, start, bounds = io.offsets, io.unravel, io.start, _bounding(reverse)
    store_some = operands(tuple(TABLE[name] for name in spec.writes), width, width).store_some
    load_carry, store_carry, nothing = io.load_carry, io.store_carry, start(1)
    cell, join, merge = io.cell, io.join, io.merge
    alone = SimpleNamespace(**{**vars(io), "take_all": sweeping(io, ((0,),)).take_all})
    settle = settling(alone, 1, 2 * runs, group, 1)
    itemsize = TABLE[spec.reads[0]].itemsize
    results = _first_result(spec)
    carries, stores = spec.stage == "last", spec.stage != "first"

    def kernel(ins, outs, in_steps, out_steps, outer, inner, positions, columns, piece, sure, whole):
        cells = cuda.shared.array((slots, threads), cell)
        if not stores:
            let_next_start()
        rank, number = cuda.threadIdx.x, cuda.blockIdx.y
        thread = cuda.threadIdx.y * group + rank
        position = cuda.blockIdx.x * rows + cuda.threadIdx.y
        inside = position < positions
        here = unravel(position if inside else 0, outer)
        left, right = bounds(number, columns, piece)
        carry, slot = nothing(), 0
        if carries:
            wait_for_previous()
            # Rows that are cut into pieces have a block each: all its threads are here.
            for first in range(0, number, group):
                own = nothing()
                if first + rank < number:
                    at = offsets(here + unravel(0, inner) + (first + rank,), in_steps)
                    own = load_carry(ins[inputs:], (at[inputs:],), 0)
                _, total = settle(cells, slot, thread, rank, own)
                carry = join(merge, carry, total)
                slot = runs - slot
        # Start and end of the aligned accesses.
        body = left
        if width > 1 and whole:
            # The address in elements tells how many elements precede the next access boundary.
            at = offsets(here + unravel(left, inner) + (number,), in_steps)
            body = min(left + -(np.int64(ins[0]) // itemsize + at[0]) % width, right)
        behind = body + (right - body) // width * width
        if width > 1:
            ahead = right - 1 if reverse else left
            count = right - behind if reverse else body - left
            if count > 0:
                values = load_edge(ins, here, ahead, count, inner, number, in_steps)
                found, carry = scan_edge(carry, values, count)
            if stores:
                # Wait until all threads have read: in place, these elements are about to be overwritten.
                cuda.syncthreads()
                if rank == 0 and inside and count > 0:
                    at = offsets(here + unravel(ahead, inner) + (number,), out_steps)
                    store_some(outs, at, sign, found[results:], count)
            ahead = body - 1 if reverse else behind
            count = body - left if reverse else right - behind
            if is_early and rank == 0 and count > 0:
                # Early, so that no thread waits for them at the end.
                values = load_edge(ins, here, ahead, count, inner, number, in_steps)
        begin, last = behind - width if reverse else body, behind - body - width
        # Rows that share a block run as many tiles as the longest could have, and as many full ones as all of them
        # have.
        base, end, full = 0, behind - body, behind - body
        if rows > 1:
            end, full = columns, sure
        if width > 1 and not whole:
            full = 0
        while base + runs * step <= full:
            carry = full_tile(
                cells, slot, thread, carry, ins, outs, here, base, last, begin, inner, number, in_steps, out_steps,
                inside, 1,
            )  # fmt: skip
            base += runs * step
            slot = runs - slot
        while base < end:
            carry = tile(
                cells, slot, thread, carry, ins, outs, here, base, last, begin, inner, number, in_steps, out_steps,
                inside, whole,
            )  # fmt: skip
            base += runs_left * step
            slot = runs - slot
        if width > 1 and rank == 0 and count > 0:
            if not is_early:
                values = load_edge(ins, here, ahead, count, inner, number, in_steps)
            found, carry = scan_edge(carry, values, count)
            if stores and inside:
                at = offsets(here + unravel(ahead, inner) + (number,), out_steps)
                store_some(outs, at, sign, found[results:], count)
        if not stores and rank == 0:
            at = offsets(here + unravel(0, inner) + (number,), out_steps)
            store_carry(outs, (at,), carry, 0 if inside else -1, 1)

    return kernel


def _first_result(spec: ScanSpec) -> int:
    """Return which of the values that `finishing` returns is the first result.

    With several partial results, the last is the result, unless `finish` computes it from them.
    """
    return len(spec.parts) - 1 if spec.formula.finish is None and spec.stage in ("whole", "last", "cluster") else 0


def scan_cluster(spec: ScanSpec, io: SimpleNamespace) -> Kernel:
    """Return the kernel for contiguous rows that the blocks of a cluster share, with one tile each.

    It merges in the same order as the two passes of `scan_rows` with the same pieces.
    """
    width, runs, sign, reverse, group = spec.width, spec.runs, io.sign, spec.reverse, spec.near
    step, order = group * width, range(width)[::sign]
    lanes = sweeping(io, tuple(tuple(run * width + j for j in order) for run in range(runs)))
    io = SimpleNamespace(**{**vars(io), "take_all": lanes.take_all})
    alone = SimpleNamespace(**{**vars(io), "take_all": sweeping(io, ((0,),)).take_all})
    slots, parts_of_all = BUFFERS * runs * len(spec.parts), len(spec.parts)
    settle, settle_blocks = settling(io, runs, 2 * runs, group, 1), settling(alone, 1, 2 * runs, group, 1)
    place, finish, (load_edge, scan_edge) = (
        placing(io, sign, runs, False),
        finishing(io, lanes, spec),
        _edging(io, spec),
    )
    sweep, ends, raised, present, chained = lanes.sweep, lanes.ends, lanes.raised, lanes.present, lanes.chained
    first, function, merge, join, nothing, take = io.first, io.function, io.merge, io.join, io.start(1), io.take
    load_runs, store_runs, load_loose, store_loose = io.load_runs, io.store_runs, io.load_all_loose, io.store_all_loose
    store_some = operands(tuple(TABLE[name] for name in spec.writes), width, width).store_some
    offsets, unravel, cell, itemsize = io.offsets, io.unravel, io.cell, TABLE[spec.reads[0]].itemsize
    results, is_aligned, bounds = _first_result(spec), width == 1, _bounding(reverse)
    arrive, wait, own_number, put_in = (
        block_reduce.arrive, block_reduce.wait, block_reduce.block_in_cluster, block_reduce.put_in,
    )  # fmt: skip

    def kernel(ins, outs, in_steps, out_steps, outer, inner, positions, columns, piece, sure, whole):
        cells = cuda.shared.array((slots, group), cell)
        totals = cuda.shared.array((parts_of_all, ROW_BLOCKS), cell)
        arrive()
        rank, number = cuda.threadIdx.x, own_number()
        blocks = (columns + piece - 1) // piece
        here = unravel(cuda.blockIdx.x // blocks, outer)
        left, right = bounds(number, columns, piece)
        aligned = left
        if width > 1 and whole:
            at = offsets(here + unravel(left, inner) + (0,), in_steps)
            aligned = left + -(np.int64(ins[0]) // itemsize + at[0]) % width
        body = min(aligned, right)
        behind = body + (right - body) // width * width
        # The threads of a piece without complete accesses load an aligned access of the row, and ignore it.
        begin = max(behind, aligned) - width if reverse else aligned
        last, item = behind - body - width, rank * width
        # In scan order: the elements before the first access, the accesses, and the elements after the last.
        near = right - 1 if reverse else left
        far = body - 1 if reverse else behind
        before_count = right - behind if reverse else body - left
        after_count = body - left if reverse else right - behind
        if width > 1 and before_count > 0:
            earliest = load_edge(ins, here, near, before_count, inner, 0, in_steps)
        if width > 1 and after_count > 0:
            latest = load_edge(ins, here, far, after_count, inner, 0, in_steps)
        source = place(here, item, step, last, begin, inner, 0, in_steps)
        values = load_runs(ins, source, 0) if is_aligned or whole else load_loose(ins, source, 0)
        parts = sweep(merge, first(function, values, ()))
        before, each = settle(cells, 0, rank, rank, present(ends(parts), last - item, step))
        total = nothing()
        if width > 1 and before_count > 0:
            found, total = scan_edge(total, earliest, before_count)
        _, total = chained(merge, total, before, each)
        if width > 1 and after_count > 0:
            found, total = scan_edge(total, latest, after_count)
        # No block writes to another before that one has started.
        wait()
        if number < rank < blocks:
            put_in(totals, number, total, rank)
        arrive()
        wait()
        own = nothing()
        if rank < number:
            own = take(totals, 0, rank)
        _, total = settle_blocks(cells, runs, rank, rank, own)
        carry = join(merge, nothing(), total)
        if width > 1 and before_count > 0:
            found, carry = scan_edge(carry, earliest, before_count)
            if rank == 0:
                at = offsets(here + unravel(near, inner) + (0,), out_steps)
                store_some(outs, at, sign, found[results:], before_count)
        before, carry = chained(merge, carry, before, each)
        made = finish(before, raised(merge, before, parts), values)
        target = place(here, item, step, last, begin, inner, 0, out_steps)
        if is_aligned or whole:
            store_runs(outs, target, made, last - item, step)
        else:
            store_loose(outs, target, made, last - item, step)
        if width > 1 and after_count > 0:
            found, carry = scan_edge(carry, latest, after_count)
            if rank == 0:
                at = offsets(here + unravel(far, inner) + (0,), out_steps)
                store_some(outs, at, sign, found[results:], after_count)

    return kernel


def _column_tile(spec: ScanSpec, io: SimpleNamespace, is_full: bool) -> Any:
    """Return the device function (cells, slot, carry, ...) -> the total before the next tile, for columns.

    It is the counterpart of `_row_tile`.
    """
    width, runs = spec.width, spec.runs if is_full else 1
    chains = tuple(tuple(run * width + j for run in range(runs)) for j in range(width))
    lanes = sweeping(io, chains)
    io = SimpleNamespace(**{**vars(io), "take_all": lanes.take_all})
    stride = spec.near
    place, settle = placing(io, 1, runs, is_full), settling(io, width, 2 * width, spec.threads // stride, stride)
    finish = finishing(io, lanes, spec)
    sweep, ends, raised, join = lanes.sweep, lanes.ends, lanes.raised, io.join
    first, function, merge = io.first, io.function, io.merge
    load_runs, store_runs = (io.load_runs, io.store_runs) if is_full else (io.load_one, io.store_one)
    load_loose, store_loose = io.load_loose, io.store_loose
    stores, is_aligned = spec.stage != "first", is_full or width == 1

    def tile(cells, slot, carry, ins, outs, here, base, last, inner, number, in_steps, out_steps, inside, whole):
        rank = cuda.threadIdx.y
        thread, item = rank * stride + cuda.threadIdx.x, base + rank * runs
        at = place(here, item, 1, last, 0, inner, number, in_steps)
        values = load_runs(ins, at, 0) if is_aligned or whole else load_loose(ins, at, 0)
        parts = sweep(merge, first(function, values, ()))
        before, totals = settle(cells, slot, thread, rank, ends(parts))
        if stores:
            before = join(merge, carry, before)
            made = finish(before, raised(merge, before, parts), values)
            at = place(here, item, 1, last, 0, inner, number, out_steps)
            left = -1
            if inside:
                left = 0 if is_full else last - item
            if is_aligned or whole:
                store_runs(outs, at, made, left, 0)
            else:
                store_loose(outs, at, made, left, 0)
        return join(merge, carry, totals)

    return cuda.jit(device=True)(tile)


def scan_columns(spec: ScanSpec, io: SimpleNamespace) -> Kernel:
    """Return the kernel for columns: a block of x times y threads scans x accesses of adjacent columns.

    Each thread processes `runs` elements of a column at a time. The last of the `outer` dimensions counts accesses,
    `positions` in total. A block processes `piece` of all `items` of its columns. If `whole` is 0, arrays need not be
    aligned: elements are then moved one by one.
    """
    width, runs, inputs, stride = spec.width, spec.runs, spec.inputs, spec.near
    slots, threads = BUFFERS * width * len(spec.parts), spec.threads
    ranks = threads // stride
    tile, full_tile = _column_tile(spec, io, False), _column_tile(spec, io, True)
    offsets, unravel, nothing = io.offsets, io.unravel, io.start(width)
    load_carry, store_carry = io.load_carry, io.store_carry
    cell = io.cell
    carries, stores = spec.stage == "last", spec.stage != "first"

    def kernel(ins, outs, in_steps, out_steps, outer, inner, positions, items, piece, sure, whole):
        cells = cuda.shared.array((slots, threads), cell)
        rank, number = cuda.threadIdx.y, cuda.blockIdx.y
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
        full = last + 1
        if width > 1 and not whole:
            full = 0
        while base + runs * ranks <= full:
            carry = full_tile(
                cells, slot, carry, ins, outs, here, base, last, inner, number, in_steps, out_steps, inside, 1
            )
            base += runs * ranks
            slot = width - slot
        while base <= last:
            carry = tile(
                cells, slot, carry, ins, outs, here, base, last, inner, number, in_steps, out_steps, inside, whole
            )
            base += ranks
            slot = width - slot
        if not stores and rank == 0:
            at = offsets(here + unravel(0, inner) + (number,), out_steps)
            store_carry(outs, (at,), carry, 0 if inside else -1, 1)

    return kernel


# ---------------------------------------------------------------- columns that blocks share


def _kept(spec: ScanSpec) -> SimpleNamespace:
    """Return the intrinsics that keep the kernel's inputs in shared memory."""
    return keeping(spec.reads, spec.compute, spec.width, spec.threads)


def _bringing(spec: ScanSpec, io: SimpleNamespace) -> Any:
    """Return the device function that copies `count` accesses, starting at `item`, to shared memory and waits for them.

    Its arguments are (tile, count, thread, ins, here, item, inner, steps, whole).
    """
    kept, offsets, unravel, is_aligned = _kept(spec), io.offsets, io.unravel, spec.width == 1
    bring, bring_loose, arrived = kept.bring, kept.bring_loose, kept.arrived

    def bring_all(tile, count, thread, ins, here, item, inner, steps, whole):
        if is_aligned or whole:
            for k in range(count):
                bring(ins, offsets(here + unravel(item + k, inner) + (0,), steps), tile, k, thread)
        else:
            for k in range(count):
                bring_loose(ins, offsets(here + unravel(item + k, inner) + (0,), steps), tile, k, thread)
        arrived()

    return cuda.jit(device=True)(bring_all)


def _adding(spec: ScanSpec, io: SimpleNamespace) -> Any:
    """Return the device function (tile, count, thread) -> the total of the `count` accesses that a thread keeps."""
    take, nothing, join = _kept(spec).take, io.start(spec.width), io.join
    first, function, merge = io.first, io.function, io.merge

    def add(tile, count, thread):
        own = nothing()
        for k in range(count):
            own = join(merge, own, first(function, take(tile, k, thread), ()))
        return own

    return cuda.jit(device=True)(add)


def _storing(spec: ScanSpec, io: SimpleNamespace, lanes: SimpleNamespace, put: Any) -> Any:
    """Return the device function that stores (with `put`) the results of the `count` accesses that a thread keeps.

    Its arguments are (tile, count, thread, ahead, outs, here, item, inner, steps). The accesses start at `item`, and
    `ahead` is the total before them.
    """
    take, nothing, join, finish = _kept(spec).take, io.start(spec.width), io.join, finishing(io, lanes, spec)
    first, function, merge, offsets, unravel = io.first, io.function, io.merge, io.offsets, io.unravel

    def store(tile, count, thread, ahead, outs, here, item, inner, steps):
        # A thread's own elements are summed separately, because the total before them may be much larger.
        own, before = nothing(), ahead
        for k in range(count):
            values = take(tile, k, thread)
            own = join(merge, own, first(function, values, ()))
            up = join(merge, ahead, own)
            made = finish(before, up, values)
            put(outs, (offsets(here + unravel(item + k, inner) + (0,), steps),), made, 0, 0)
            before = up

    return cuda.jit(device=True)(store)


def scan_chained(spec: ScanSpec, io: SimpleNamespace) -> Kernel:
    """Return the kernel for columns that several blocks share; x times y threads scan x accesses of adjacent columns.

    Each thread processes `runs` elements of a column. The last of the `outer` dimensions counts accesses, `positions`
    in total. A block processes `piece` of all `items` of its columns; `fan` is 2 to the `bits`. If `whole` is 0, arrays
    need not be aligned: elements are then moved one by one. The last of `outs` are words of `decoupled_look_back`: for
    each access, rows of partial results of each piece, then of each group, then of each unit.
    """
    width, runs, stride, threads = spec.width, spec.runs, spec.near, spec.threads
    ranks = threads // stride
    # One buffer is enough (plus one in the simulator), as there is a barrier between all uses.
    slots = (BUFFERS - 1) * width * len(spec.parts)
    lanes = sweeping(io, tuple((lane,) for lane in range(width)))
    io = SimpleNamespace(**{**vars(io), "take_all": lanes.take_all})
    settle = settling(io, width, width, ranks, stride)
    told, nothing, join, merge, unravel = telling(io, width), io.start(width), io.join, io.merge, io.unravel
    bring, add, tell, look = _bringing(spec, io), _adding(spec, io), told.tell, told.look
    store, store_loose = (_storing(spec, io, lanes, put) for put in (io.store_one, io.store_loose))
    cell, is_aligned, length = io.cell, width == 1, ranks * runs

    def kernel(ins, outs, in_steps, out_steps, outer, inner, positions, items, piece, bits, whole):
        tile = kept_memory()
        cells = cuda.shared.array((slots, threads), cell)
        begun = cuda.shared.array(1, types.int32)
        rank, words = cuda.threadIdx.y, outs[-1]
        thread = rank * stride + cuda.threadIdx.x
        if thread == 0:
            begun[0] = take_ticket(words)
        cuda.syncthreads()
        # All strips of columns start their pieces of one number before any starts the next.
        strips = -(-positions // stride)
        number = begun[0] // strips
        position = (begun[0] - number * strips) * stride + cuda.threadIdx.x
        inside = position < positions
        target = unravel(position if inside else 0, outer)
        here = target[:-1] + (target[-1] * width,)
        item = number * length + rank * runs
        count = min(items - item, runs) if inside else 0
        bring(tile, count, thread, ins, here, item, inner, in_steps, whole)
        before, own = settle(cells, 0, thread, rank, add(tile, count, thread))
        tells = inside and rank == 0
        if tells:
            tell(words, number, positions, position, own)
        last = (1 << bits) - 1
        pieces = (items + length - 1) // length
        groups = (pieces + last) >> bits
        group = number >> bits
        unit = group >> bits
        place, rest = number & last, group & last
        # Number of published results that each thread of a column reads.
        share = (last + ranks) // ranks
        # The earlier pieces in its group.
        near, most = nothing(), place if inside else 0
        for k in range(rank * share, min(rank * share + share, most)):
            near = join(merge, near, look(words, number - place + k, positions, position))
        cuda.syncthreads()
        _, near = settle(cells, 0, thread, rank, near)
        if tells and place == last:
            tell(words, pieces + group, positions, position, join(merge, near, own))
        # All earlier units, and the earlier groups in its unit.
        far, most = nothing(), rest + 1 if inside else 0
        for k in range(rank * share, min(rank * share + share, most)):
            row = pieces + group - rest + k - 1
            if k == 0:
                row = pieces + groups + unit - 1
            if k > 0 or unit > 0:
                far = join(merge, far, look(words, row, positions, position))
        cuda.syncthreads()
        _, far = settle(cells, 0, thread, rank, far)
        ahead = join(merge, far, near)
        if tells and place == last and rest == last:
            tell(words, pieces + groups + unit, positions, position, join(merge, ahead, own))
        ahead = join(merge, ahead, before)
        if is_aligned or whole:
            store(tile, count, thread, ahead, outs, here, item, inner, out_steps)
        else:
            store_loose(tile, count, thread, ahead, outs, here, item, inner, out_steps)

    return kernel


# ---------------------------------------------------------------- all

_MAKERS = {f.__name__: f for f in (scan_rows, scan_cluster, scan_columns, scan_chained)}
#: Number of integers after `outer` and `inner`.
_SCALARS = 5


def make(spec: ScanSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    formula = spec.formula
    starts = tuple(cast(start, np.dtype(name))[()] for start, name in zip(formula.start, spec.parts, strict=True))
    # Passes exchange one value per row, or one for each of several adjacent columns.
    carried = runs_of(spec.parts, "", 1 if spec.algorithm in ("scan_rows", "scan_cluster") else spec.width, 1)
    # The second pass scans the results of the first unchanged.
    compute = "" if spec.stage == "second" else spec.compute
    loads, one_load = (runs_of(spec.reads[: spec.inputs], compute, spec.width, runs) for runs in (spec.runs, 1))
    left_load = runs_of(spec.reads[: spec.inputs], compute, spec.width, spec.runs_left)
    stores = one_store = left_store = carried
    if spec.stage != "first":
        results = spec.writes[: spec.outputs]
        stores, one_store, left_store = (
            runs_of(results, "", spec.width, runs) for runs in (spec.runs, 1, spec.runs_left)
        )
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
        store_runs=stores.store_runs,
        load_one=one_load.load_runs,
        load_loose=one_load.load_loose,
        load_all_loose=loads.load_loose,
        load_left=left_load.load_runs,
        load_left_loose=left_load.load_loose,
        store_one=one_store.store_runs,
        store_loose=one_store.store_loose,
        store_all_loose=stores.store_loose,
        store_left=left_store.store_runs,
        store_left_loose=left_store.store_loose,
        load_carry=carried.load_loose,
        store_carry=carried.store_loose,
    )
    return _MAKERS[spec.algorithm](spec, io)


def parameters(spec: ScanSpec) -> Sequence[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    integer, counts = "int64" if spec.wide else "int32", (len(spec.reads), len(spec.writes))
    return [
        *(("uint64", n) for n in counts),
        *((integer, (n, spec.outer + spec.inner + 1)) for n in counts),
        (integer, spec.outer),
        (integer, spec.inner),
        *[(integer, None)] * _SCALARS,
    ]
