"""What threads that scan together need beside their lanes: where their elements lie, and what lies before them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ...base._numba import SIMULATED, cuda
from ...runtime.launch_order import WARP
from ..primitives.specialize import specialize
from .lanes import exchanging
from .spec import ScanSpec

#: Buffers of what threads exchange in shared memory: two in turn, so that one barrier a tile is enough; the simulator's
#: warps have one more.
BUFFERS = 3 if SIMULATED else 2


def placing(io: SimpleNamespace, sign: int, runs: int, is_full: bool) -> Callable[..., Any]:
    """The device function (here, item, step, last, start, inner, number, steps) -> the operands' offsets at items item,
    item + step, ..., counted from `start`: at the last one instead of those behind it, unless all are there."""
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


def _sweeping_warp(io: SimpleNamespace, chains: int, spare: int, stride: int, reach: int, many: int) -> Any:
    """The device function (cells, thread, place, own) -> own parts behind those of `many` threads of a warp at most.

    These are `stride` apart, and `place` is a thread's number among them. Each step has twice the reach.
    """
    join, merge = io.join, io.merge
    exchange = exchanging(io, chains)

    def nothing(cells, thread, place, own):
        return own

    if reach >= many:
        return cuda.jit(device=True)(nothing)
    further = _sweeping_warp(io, chains, spare, stride, 2 * reach, many)

    def steps(cells, thread, place, own):
        other = exchange(cells, spare, thread, thread - reach * stride, own)
        if place >= reach:
            own = join(merge, other, own)
        return further(cells, thread, place, own)

    return cuda.jit(device=True)(steps)


def _joining_warps(io: SimpleNamespace, step: int, other: int, warps: int) -> Any:
    """The device function (cells, slot, source, warp, past, total) -> (what the warps before `warp` have made, what all
    have), given the same of those before `other`; `source` is the thread that has what the first one made."""
    join, merge, take_all = io.join, io.merge, io.take_all

    def nothing(cells, slot, source, warp, past, total):
        return past, total

    if other == warps:
        return cuda.jit(device=True)(nothing)
    further = _joining_warps(io, step, other + 1, warps)

    def steps(cells, slot, source, warp, past, total):
        if other == warp:
            past = total
        total = join(merge, total, take_all(cells, slot, source + other * step))
        return further(cells, slot, source, warp, past, total)

    return cuda.jit(device=True)(steps)


def _sharing_warps(io: SimpleNamespace, chains: int, spare: int, stride: int, many: int, warps: int) -> Any:
    """The device function (cells, slot, source, warp, thread, place) -> (what the warps before `warp` have made, what
    all have): as `_joining_warps`, but the `many` threads of a row in each warp join a share of the warps each, and
    exchange what they have."""
    start, join, merge = io.start(chains), io.join, io.merge
    exchange, share = exchanging(io, chains), warps // many
    sweep_warp = _sweeping_warp(io, chains, spare, stride, 1, many)
    join_share = _joining_warps(io, many * stride, 0, share)

    def steps(cells, slot, source, warp, thread, place):
        first = place * share
        past, own = join_share(cells, slot, source + first * many * stride, warp - first, start(), start())
        own = sweep_warp(cells, thread, place, own)
        other = exchange(cells, spare, thread, thread - stride, own)
        if place > 0:
            past = join(merge, other, past)
        # Of the threads of the row in this warp the one whose share has the warp itself knows what lies before.
        row = thread - place * stride
        past = exchange(cells, spare, thread, row + warp // share * stride, past)
        return past, exchange(cells, spare, thread, row + (many - 1) * stride, own)

    return cuda.jit(device=True)(steps)


def _joining_all(io: SimpleNamespace, chains: int, spare: int, stride: int, many: int, warps: int) -> Any:
    """As `_sharing_warps`, but each thread joins all warps."""
    start, join_warps = io.start(chains), _joining_warps(io, many * stride, 0, warps)

    def steps(cells, slot, source, warp, thread, place):
        return join_warps(cells, slot, source, warp, start(), start())

    return cuda.jit(device=True)(steps)


def settling(io: SimpleNamespace, chains: int, spare: int, group: int, stride: int) -> Any:
    """The device function (cells, slot, thread, rank, own) -> (what the threads of lower rank have made, what all did).

    There are `group` threads, `stride` apart, and `rank` is a thread's number among them; both are powers of two. From
    the slot `spare` on there are cells that no tile puts its parts into.
    """
    start, put, join, merge = io.start(chains), io.put, io.join, io.merge
    exchange = exchanging(io, chains)
    # Ranks of one warp.
    many = min(group, max(WARP // stride, 1))
    warps = group // many
    sweep_warp = _sweeping_warp(io, chains, spare, stride, 1, many)
    joining = _sharing_warps if 1 < many < warps else _joining_all
    join_warps = joining(io, chains, spare, stride, many, warps)

    def settle(cells, slot, thread, rank, own):
        place = rank % many
        own = sweep_warp(cells, thread, place, own)
        before = start()
        if many > 1:
            other = exchange(cells, spare, thread, thread - stride, own)
            if place > 0:
                before = other
        if many == group:
            total = own
            if many > 1:
                total = exchange(cells, spare, thread, thread + (many - 1 - place) * stride, own)
        else:
            if place == many - 1:
                put(cells, slot, thread, own)
            cuda.syncthreads()
            source = thread - (rank - many + 1) * stride
            past, total = join_warps(cells, slot, source, rank // many, thread, place)
            before = join(merge, past, before)
        return before, total

    return cuda.jit(device=True)(settle)
