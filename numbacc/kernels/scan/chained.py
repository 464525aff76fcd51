"""The kernel that scans columns which many blocks share, and reads them once.

A block takes a piece of some columns into shared memory, adds it up, and tells the others. What lies before it is made
of the same parts in the same order, whoever is first, and with it the results' bits: of all units of `fan` times `fan`
pieces before, of which the last piece of each tells what it and all before make; of the groups of `fan` pieces in its
own unit, of which the last piece of each tells what the group makes; and of the pieces in its own group.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ...base._numba import cuda, types
from ..primitives.instructions import kept_memory
from ..specs import Kernel
from .decoupled_look_back import take_ticket, telling
from .groups import BUFFERS, finishing, settling
from .lanes import sweeping
from .pieces import keeping
from .spec import ScanSpec


def _bringing(spec: ScanSpec, io: SimpleNamespace) -> Any:
    """The device function (tile, count, thread, ins, here, item, inner, steps, whole): the `count` accesses from `item`
    on are in shared memory."""
    kept, offsets, unravel, is_aligned = keeping(spec), io.offsets, io.unravel, spec.width == 1
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
    """The device function (tile, count, thread) -> the parts of the `count` accesses that a thread has kept."""
    take, nothing, join = keeping(spec).take, io.start(spec.width), io.join
    first, function, merge = io.first, io.function, io.merge

    def add(tile, count, thread):
        own = nothing()
        for k in range(count):
            own = join(merge, own, first(function, take(tile, k, thread), ()))
        return own

    return cuda.jit(device=True)(add)


def _storing(spec: ScanSpec, io: SimpleNamespace, lanes: SimpleNamespace, put: Any) -> Any:
    """The device function (tile, count, thread, ahead, outs, here, item, inner, steps): the results of the `count`
    accesses from `item` on that a thread has kept, given what lies ahead of them, are `put` where they belong."""
    take, nothing, join, finish = keeping(spec).take, io.start(spec.width), io.join, finishing(io, lanes, spec)
    first, function, merge, offsets, unravel = io.first, io.function, io.merge, io.offsets, io.unravel

    def store(tile, count, thread, ahead, outs, here, item, inner, steps):
        # A thread's own are added up by themselves: what lies ahead may be far larger than they are.
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
    """x accesses of neighbouring columns for a block of x times y threads; each takes `runs` elements of a column.

    The last of the `outer` dimensions counts accesses; there are `positions` of them in all. A block has `piece` of all
    `items` of its columns; `fan` is 2 to the `bits`. Where `whole` is 0, arrays need not be aligned: elements are then
    moved one by one. The last of `outs` are words of `look_back`: for each access a row of parts of each piece, then of
    each group, then of each unit.
    """
    width, runs, stride, threads = spec.width, spec.runs, spec.near, spec.threads
    ranks = threads // stride
    # One buffer, and in the simulator another one: a barrier lies between all uses.
    slots = (BUFFERS - 1) * width * len(spec.parts)
    lanes = sweeping(io, tuple((lane,) for lane in range(width)))
    io = SimpleNamespace(**{**vars(io), "take_all": lanes.take_all})
    settle = settling(io, width, width, ranks, stride)
    told, nothing, join, merge, unravel = telling(io, width), io.start(width), io.join, io.merge, io.unravel
    bring, add, tell, look = _bringing(spec, io), _adding(spec, io), told.tell, told.look
    store, store_loose = (_storing(spec, io, lanes, put) for put in (io.store_one, io.store_loose))
    enter, leave, cell, is_aligned, length = io.enter, io.leave, io.cell, width == 1, ranks * runs

    def kernel(ins, outs, in_steps, out_steps, outer, inner, positions, items, piece, bits, whole):
        tile = kept_memory()
        enter()
        cells = cuda.shared.array((slots, threads), cell)
        begun = cuda.shared.array(1, types.int32)
        leave()
        rank, words = cuda.threadIdx.y, outs[-1]
        thread = rank * stride + cuda.threadIdx.x
        if thread == 0:
            begun[0] = take_ticket(words)
        cuda.syncthreads()
        # Strips of columns begin their pieces of one number one after the other.
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
        # What each thread of a column looks at.
        share = (last + ranks) // ranks
        # The pieces before it in its group.
        near, most = nothing(), place if inside else 0
        for k in range(rank * share, min(rank * share + share, most)):
            near = join(merge, near, look(words, number - place + k, positions, position))
        cuda.syncthreads()
        _, near = settle(cells, 0, thread, rank, near)
        if tells and place == last:
            tell(words, pieces + group, positions, position, join(merge, near, own))
        # All units before, and the groups before it in its unit.
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
