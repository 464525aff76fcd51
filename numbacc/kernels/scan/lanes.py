"""What scans are made of, beside what reductions are: prefixes within a thread's lanes, and from thread to thread.

Lanes are merged along chains: a chain is lanes in the order of the scan. In Numba's simulator the same names are plain
Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from ...base._numba import SIMULATED, cuda, types
from ...base.dtypes import TABLE
from ..primitives.operands import Operand
from ..primitives.runs import make_loads

if SIMULATED:
    from .simulated import make_exchange, make_stores, make_sweeps
else:
    from ...base._numba import intrinsic, ir
    from ..primitives.formats import I32, I64
    from ..primitives.load_store import address_of, resized
    from ..primitives.runs import put_run
    from ..primitives.unaligned_vector import from_thread

__all__ = ["exchanging", "runs_of", "sweeping"]

#: Lanes in the order of the scan.
Chains = Sequence[Sequence[int]]


@lru_cache(maxsize=256)
def runs_of(names: tuple[str, ...], compute: str, width: int, runs: int) -> SimpleNamespace:
    """The intrinsics that move `runs` times `width` numbers of arrays of these dtypes.

    Returns:
        a namespace of
        ``load_runs(addresses, at, 0)``, ``load_loose(addresses, at, 0)``: as in `lanes.loads`;
        ``store_runs(addresses, at, values, left, step)``: the last of these values, as many as there are arrays, given
        for each run the offsets into all; run k only where k step <= left; ``store_loose``: the same where nothing need
        be aligned.
    """
    aligned, loose = (tuple(Operand(TABLE[name], compute, n, False) for name in names) for n in (width, 1))
    return SimpleNamespace(
        **make_loads(aligned, width, runs, ""),
        store_runs=make_stores(aligned, width, runs),
        store_loose=make_stores(loose, width, runs),
    )


def sweeping(parts: SimpleNamespace, chains: Chains) -> SimpleNamespace:
    """The intrinsics that merge lanes along chains.

    Args:
        parts: `lanes.parts_intrinsics`.
        chains: each with as many lanes as every other; together all lanes.

    Returns:
        a namespace of
        ``sweep(merge, parts)``: each lane merged with all before it in its chain;
        ``ends(parts)``: the last lane of each chain;
        ``before(ahead, parts)``: each lane's predecessor in its chain, of the first what lies ahead of it;
        ``raised(merge, ahead, parts)``: each lane merged with what lies ahead of its chain;
        ``present(parts, left, step)``: those of nothing in lane k unless k step <= left;
        ``chained(merge, carry, before, totals)``: for one chain behind the other: (what lies before each chain, given
        what lies before all, and in each chain before the thread's lanes; what lies before the next, given what each
        chain's threads make together);
        ``take_all(cells, lane, thread)``: parts out of shared memory, as many lanes as there are chains.
    """
    return SimpleNamespace(**make_sweeps(parts.tools, chains))


def exchanging(parts: SimpleNamespace, lanes: int) -> Any:
    """The device function (cells, slot, thread, source, parts) -> the parts that thread `source` has, of the same warp.

    All threads of a block call it. The simulator's uses cells of shared memory from `slot` on, which has no other use.
    """
    return make_exchange(parts, lanes)


if not SIMULATED:

    def make_stores(rows: Sequence[Any], width: int, runs: int) -> Any:
        @intrinsic
        def store(typing: Any, addresses: Any, at: Any, values: Any, left: Any, step: Any) -> Any:
            first = len(values) - len(rows)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                left, step = (resized(builder, each, I64) for each in args[3:])
                for run in range(runs):
                    is_there = builder.icmp_signed("<=", builder.mul(step, I64(run)), left)
                    offsets = builder.extract_value(args[1], run)
                    with builder.if_then(is_there):
                        for k, operand in enumerate(rows):
                            address = address_of(builder, (args[0], offsets), k, operand.dtype.itemsize)
                            places = [(first + k, run * width + j) for j in range(width)]
                            numbers = [builder.extract_value(args[2], place) for place in places]
                            put_run(context, builder, operand, values[first + k].dtype, address, numbers)
                return context.get_dummy_value()

            return types.void(addresses, at, values, left, step), generate

        return store

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
        """The number that thread `source` of the warp has, word by word."""
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
        def exchange(cells, slot, thread, source, parts):
            return moved(source, parts)

        return exchange
