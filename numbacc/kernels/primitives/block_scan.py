"""Exchange of partial results between threads of a scan: in a thread's lanes, in a warp, in shared memory.

`parts` are the partial results of several lanes, as in `partials`. Lanes are merged along chains: a chain lists lanes
in scan order. In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ...runtime.launch_order import WARP

if not SIMULATED:
    from ...base._numba import intrinsic, ir, types
    from .formats import I32, I64
    from .instructions import ALL_THREADS, assembly
    from .load_store import resized
    from .unaligned_vector import from_thread

__all__ = ["BUFFERS", "alike", "settling", "sweeping"]

#: Chains of lanes, each in scan order.
Chains = Sequence[Sequence[int]]
#: Buffers in shared memory for the exchange between threads: two used alternately, so that one barrier per tile is
#: enough, and one more for the simulator's warps.
BUFFERS = 3 if SIMULATED else 2


def sweeping(parts: SimpleNamespace, chains: Chains) -> SimpleNamespace:
    """Return the intrinsics that merge lanes along chains.

    Args:
        parts: `partials.parts_intrinsics`.
        chains: chains of equal length, which together contain all lanes.

    Returns:
        a namespace of
        ``sweep(merge, parts)``: each lane merged with all earlier lanes of its chain;
        ``ends(parts)``: the last lane of each chain;
        ``before(ahead, parts)``: each lane's predecessor in its chain; for the first lane, `ahead`;
        ``raised(merge, ahead, parts)``: each lane merged with `ahead`, the total before its chain;
        ``present(parts, left, step)``: lane k unchanged if k step <= left, otherwise the start values;
        ``chained(merge, carry, before, totals)``: for consecutive chains, (the total before each chain's own lanes, the
        total after the last chain). `carry` is the total before all chains, `before` has the totals of earlier threads
        in each chain, and `totals` those of all its threads;
        ``take_all(cells, lane, thread)``: partial results from shared memory, as many lanes as chains.
    """
    return SimpleNamespace(**make_sweeps(parts.tools, chains))


def exchanging(parts: SimpleNamespace, lanes: int) -> Any:
    """Return the device function (cells, slot, thread, source, parts) -> the `parts` of thread `source` of the warp.

    All threads of a block call it. The simulator uses cells of shared memory from `slot` on, which nothing else may
    use.
    """
    return make_exchange(parts, lanes)


def _sweeping_warp(io: SimpleNamespace, chains: int, spare: int, stride: int, reach: int, many: int) -> Any:
    """Return the device function (cells, thread, place, own) -> `own` merged with all earlier threads of a warp.

    It merges at most `many` threads that are `stride` apart; `place` is a thread's number among them. Each step doubles
    the reach.
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
    """Return the device function (cells, slot, source, warp, past, total) -> (total before `warp`, total of all warps).

    `past` and `total` hold the same for the warps before `other`; thread `source` holds the first warp's result.
    """
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
    """Return the device function (cells, slot, source, warp, thread, place) -> (total before `warp`, total of all).

    Unlike in `_joining_warps`, each of the `many` threads of a row in a warp merges only a share of the warps. The
    threads then exchange their results.
    """
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
        # In each row of threads, the thread that merged this warp's share knows the total before it.
        row = thread - place * stride
        past = exchange(cells, spare, thread, row + warp // share * stride, past)
        return past, exchange(cells, spare, thread, row + (many - 1) * stride, own)

    return cuda.jit(device=True)(steps)


def _joining_all(io: SimpleNamespace, chains: int, spare: int, stride: int, many: int, warps: int) -> Any:
    """Return a variant of `_sharing_warps`; each thread merges all warps."""
    start, join_warps = io.start(chains), _joining_warps(io, many * stride, 0, warps)

    def steps(cells, slot, source, warp, thread, place):
        return join_warps(cells, slot, source, warp, start(), start())

    return cuda.jit(device=True)(steps)


def settling(io: SimpleNamespace, chains: int, spare: int, group: int, stride: int) -> Any:
    """Return the device function (cells, slot, thread, rank, own) -> (total of all lower ranks, total of all threads).

    There are `group` threads, `stride` apart, and `rank` is a thread's number among them; `group` and `stride` are
    powers of two. Tiles use no cells from slot `spare` on.
    """
    start, put, join, merge = io.start(chains), io.put, io.join, io.merge
    exchange = exchanging(io, chains)
    # Number of ranks in one warp.
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


if SIMULATED:

    def make_sweeps(tools: SimpleNamespace, chains: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return the intrinsics of `sweeping`."""
        by_lane, by_part = tools.by_lane, tools.by_part

        def sweep(merge: Any, parts: Any) -> Any:
            found = by_lane(parts)
            for chain in chains:
                for one, other in pairwise(chain):
                    found[other] = tools.called(merge, found[one] + found[other])
            return by_part(found)

        def ends(parts: Any) -> Any:
            found = by_lane(parts)
            return by_part([found[chain[-1]] for chain in chains])

        def before(ahead: Any, parts: Any) -> Any:
            found = by_lane(parts)
            made = list(found)
            for chain, numbers in zip(chains, by_lane(ahead), strict=True):
                made[chain[0]] = numbers
                for one, other in pairwise(chain):
                    made[other] = found[one]
            return by_part(made)

        def raised(merge: Any, ahead: Any, parts: Any) -> Any:
            found = by_lane(parts)
            for chain, numbers in zip(chains, by_lane(ahead), strict=True):
                for lane in chain:
                    found[lane] = tools.called(merge, numbers + found[lane])
            return by_part(found)

        def present(parts: Any, left: int, step: int) -> Any:
            nothing = tuple(tools.starts)
            return by_part([numbers if k * step <= left else nothing for k, numbers in enumerate(by_lane(parts))])

        def chained(merge: Any, carry: Any, before: Any, totals: Any) -> Any:
            (past,), found = by_lane(carry), []
            for own, total in zip(by_lane(before), by_lane(totals), strict=True):
                found.append(tools.called(merge, past + own))
                past = tools.called(merge, past + total)
            return by_part(found), by_part([past])

        def take_all(cells: Any, lane: int, thread: int) -> Any:
            return by_part([cells[lane + k, thread] for k in range(len(chains))])

        return {
            "sweep": sweep,
            "ends": ends,
            "before": before,
            "raised": raised,
            "present": present,
            "chained": chained,
            "take_all": take_all,
        }

    def make_exchange(parts: SimpleNamespace, lanes: int) -> Any:
        """Return the device function of `exchanging`."""
        tools, put = parts.tools, parts.put

        @cuda.jit(device=True)
        def exchange(cells, slot, thread, source, parts):
            put(cells, slot, thread, parts)
            cuda.syncthreads()
            found = tools.by_part([cells[slot + k, source] for k in range(lanes)])
            cuda.syncthreads()
            return found

        return exchange

    @cuda.jit(device=True)
    def alike(number: Any) -> int:
        """Return a bit mask of the threads of the warp (here the block) with the same number; all threads call it."""
        cells = cuda.shared.array(cuda.blockDim.x, object)
        cells[cuda.threadIdx.x] = number
        cuda.syncthreads()
        found = sum(1 << thread for thread in range(cuda.blockDim.x) if cells[thread] == number)
        cuda.syncthreads()
        return found

else:

    def make_sweeps(tools: SimpleNamespace, chains: Chains) -> dict[str, Any]:
        many, unpacked, packed = len(chains), tools.unpacked, tools.packed
        lanes = sum(map(len, chains))

        @intrinsic
        def sweep(typing: Any, merge: Any, parts: Any) -> Any:
            call = tools.merging(typing, merge)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = unpacked(builder, args[1], lanes)
                for chain in chains:
                    for one, other in pairwise(chain):
                        found[other] = tools.called(context, builder, merge, call, [*found[one], *found[other]])
                return packed(context, builder, found)

            return parts(merge, parts), generate

        @intrinsic
        def ends(typing: Any, parts: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = unpacked(builder, args[0], lanes)
                return packed(context, builder, [found[chain[-1]] for chain in chains])

            return tools.parts_type(many)(parts), generate

        @intrinsic
        def before(typing: Any, ahead: Any, parts: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found, each = unpacked(builder, args[1], lanes), unpacked(builder, args[0], many)
                made = list(found)
                for chain, numbers in zip(chains, each, strict=True):
                    made[chain[0]] = numbers
                    for one, other in pairwise(chain):
                        made[other] = found[one]
                return packed(context, builder, made)

            return parts(ahead, parts), generate

        @intrinsic
        def raised(typing: Any, merge: Any, ahead: Any, parts: Any) -> Any:
            call = tools.merging(typing, merge)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = unpacked(builder, args[2], lanes)
                for chain, numbers in zip(chains, unpacked(builder, args[1], many), strict=True):
                    for lane in chain:
                        found[lane] = tools.called(context, builder, merge, call, [*numbers, *found[lane]])
                return packed(context, builder, found)

            return parts(merge, ahead, parts), generate

        @intrinsic
        def present(typing: Any, parts: Any, left: Any, step: Any) -> Any:
            count = len(parts[0])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                left, step = (resized(builder, each, I64) for each in args[1:])
                nothing, found = tools.constants(context, builder), []
                for lane, numbers in enumerate(unpacked(builder, args[0], count)):
                    is_there = builder.icmp_signed("<=", builder.mul(step, I64(lane)), left)
                    pairs = zip(numbers, nothing, strict=True)
                    found.append([builder.select(is_there, number, start) for number, start in pairs])
                return packed(context, builder, found)

            return parts(parts, left, step), generate

        @intrinsic
        def chained(typing: Any, merge: Any, carry: Any, before: Any, totals: Any) -> Any:
            call = tools.merging(typing, merge)
            result = types.Tuple([before, carry])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                def together(one: list[Any], other: list[Any]) -> list[Any]:
                    return list(tools.called(context, builder, merge, call, [*one, *other]))

                (past,), found = unpacked(builder, args[1], 1), []
                each = zip(unpacked(builder, args[2], many), unpacked(builder, args[3], many), strict=True)
                for own, total in each:
                    found.append(together(past, own))
                    past = together(past, total)
                both = ir.Constant(context.get_value_type(result), ir.Undefined)
                both = builder.insert_value(both, packed(context, builder, found), 0)
                return builder.insert_value(both, packed(context, builder, [past]), 1)

            return result(merge, carry, before, totals), generate

        @intrinsic
        def take_all(typing: Any, cells: Any, lane: Any, thread: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                first = resized(builder, args[1], I64)
                places = [(args[0], builder.add(first, I64(k)), args[2]) for k in range(many)]
                return packed(context, builder, [tools.taken(context, builder, cells, place) for place in places])

            return tools.parts_type(many)(cells, lane, thread), generate

        return {
            "sweep": sweep,
            "ends": ends,
            "before": before,
            "raised": raised,
            "present": present,
            "chained": chained,
            "take_all": take_all,
        }

    def _moved(builder: Any, number: Any, source: Any) -> Any:
        """Return the number of thread `source` of the warp, transferred word by word."""
        kind = number.type
        if isinstance(kind, ir.LiteralStructType):
            for k in range(len(kind.elements)):
                part = _moved(builder, builder.extract_value(number, k), source)
                number = builder.insert_value(number, part, k)
            return number
        if not isinstance(kind, ir.IntType):
            word = I64 if isinstance(kind, ir.DoubleType) else I32
            return builder.bitcast(_moved(builder, builder.bitcast(number, word), source), kind)
        if kind.width <= 32:
            word = builder.zext(number, I32) if kind.width < 32 else number
            word = from_thread(builder, word, source)
            return builder.trunc(word, kind) if kind.width < 32 else word
        low, high = builder.trunc(number, I32), builder.trunc(builder.lshr(number, I64(32)), I32)
        low, high = (builder.zext(from_thread(builder, half, source), I64) for half in (low, high))
        return builder.or_(low, builder.shl(high, I64(32)))

    def make_exchange(parts: SimpleNamespace, lanes: int) -> Any:
        tools = parts.tools

        @intrinsic
        def moved(typing: Any, source: Any, parts: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                thread = resized(builder, args[0], I32)
                found = tools.unpacked(builder, args[1], lanes)
                there = [[_moved(builder, number, thread) for number in numbers] for numbers in found]
                return tools.packed(context, builder, there)

            return parts(source, parts), generate

        @cuda.jit(device=True)
        def value_of(source, parts):
            return cuda.shfl_sync(ALL_THREADS, parts, source)

        moved.numbacc_twin = value_of

        @cuda.jit(device=True)
        def exchange(cells, slot, thread, source, parts):
            return moved(source, parts)

        return exchange

    @intrinsic
    def alike(typing: Any, number: Any) -> Any:
        """Return a bit mask of the threads of the warp with the same number; all threads must call it."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = builder.trunc(args[0], I32) if args[0].type.width > 32 else args[0]
            return assembly(builder, I32, "match.any.sync.b32 $0, $1, -1;", "=r,r", [word], "convergent")

        return types.uint32(number), generate

    @cuda.jit(device=True)
    def _alike(number):
        return np.uint32(cuda.match_any_sync(ALL_THREADS, number))

    alike.numbacc_twin = _alike
