"""What scans are made of, beside what reductions are: prefixes within a thread's lanes, from thread to thread, and what
a block keeps of a column's piece in shared memory.

Lanes are merged along chains: a chain is lanes in the order of the scan. Of what a block keeps each thread reads only
what it has put there itself, so that it waits for none. In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...base.casts import cast
from ...base.dtypes import TABLE
from ..primitives.operands import Operand
from ..reduce.lanes import make_loads
from .spec import ScanSpec

if SIMULATED:
    from ..primitives.simulated import _element
    from ..reduce.simulated import put_numbers
else:
    from ...base._numba import intrinsic, ir
    from ..primitives import formats
    from ..primitives.formats import I32, I64
    from ..primitives.instructions import copies_ahead, copy_ahead, kept_place, tell_copies
    from ..primitives.load_store import address_of, aggregate, lanes_type, pointer_to, resized
    from ..primitives.unaligned_vector import from_thread
    from ..reduce.lanes import numbers_of, put_run

__all__ = ["exchanging", "keeping", "runs_of", "sweeping"]

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


class Cell(NamedTuple):
    """An access of one input.

    Attributes:
        operand: the input's number.
        start, many: its first element, and how many it has.
        before: bytes of a thread's accesses before it.
        nbytes: its own.
    """

    operand: int
    start: int
    many: int
    before: int
    nbytes: int


@lru_cache(maxsize=64)
def keeping(spec: ScanSpec) -> SimpleNamespace:
    """The intrinsics that keep a kernel's inputs.

    Returns:
        a namespace of
        ``bring(addresses, at, tile, slot, thread)``: begin to copy a thread's access of each input, given the offsets
        into all, to its place number `slot`; ``bring_loose``: the same where nothing need be aligned; ``arrived()``:
        until all of a thread's are there;
        ``take(tile, slot, thread)``: `width` numbers of each input from there.
    """
    rows, cells, before = [Operand(TABLE[name], spec.compute, spec.width, False) for name in spec.reads], [], 0
    for k, operand in enumerate(rows):
        for start in range(0, spec.width, operand.access):
            cells.append(Cell(k, start, operand.access, before, operand.access * operand.dtype.itemsize))
            before += cells[-1].nbytes
    return SimpleNamespace(**make_pieces(rows, cells, spec.width, spec.threads))


if SIMULATED:

    def make_stores(rows: Sequence[Any], width: int, runs: int) -> Any:
        """See `runs_of`."""

        def store(addresses: Any, at: Any, values: Any, left: int, step: int) -> None:
            first = len(values) - len(rows)
            for run in range(runs):
                if run * step <= left:
                    for k, operand in enumerate(rows):
                        numbers = values[first + k][run * width : (run + 1) * width]
                        put_numbers(operand, addresses[k], at[run][k], numbers)

        return store

    def make_sweeps(tools: SimpleNamespace, chains: Sequence[Sequence[int]]) -> dict[str, Any]:
        """See `sweeping`."""
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
        """See `exchanging`."""
        tools, put = parts.tools, parts.put

        @cuda.jit(device=True)
        def exchange(cells, slot, thread, source, parts):
            put(cells, slot, thread, parts)
            cuda.syncthreads()
            found = tools.by_part([cells[slot + k, source] for k in range(lanes)])
            cuda.syncthreads()
            return found

        return exchange

    def make_pieces(rows: Sequence[Any], cells: Sequence[Any], width: int, threads: int) -> dict[str, Any]:
        """See `keeping`. What is copied is there at once."""
        whole = sum(cell.nbytes for cell in cells)

        def kept(tile: Any, slot: int, thread: int, cell: Any) -> Any:
            start = threads * (slot * whole + cell.before) + thread * cell.nbytes
            return tile[start : start + cell.nbytes].view(rows[cell.operand].dtype.numpy)

        def bring(addresses: Any, at: Any, tile: Any, slot: int, thread: int, is_loose: bool = False) -> None:
            for cell in cells:
                target, count = kept(tile, slot, thread, cell), 1 if is_loose else cell.many
                for start in range(0, cell.many, count):
                    offset, dtype = at[cell.operand] + cell.start + start, rows[cell.operand].dtype
                    target[start : start + count] = _element(addresses[cell.operand], offset, dtype, count)

        def take(tile: Any, slot: int, thread: int) -> Any:
            found: list[list[Any]] = [[] for _ in rows]
            for cell in cells:
                number = np.dtype(rows[cell.operand].number)
                found[cell.operand] += [cast(value, number)[()] for value in kept(tile, slot, thread, cell)]
            return tuple(map(tuple, found))

        return {"bring": bring, "bring_loose": partial(bring, is_loose=True), "arrived": lambda: None, "take": take}

else:

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

    def make_pieces(rows: Sequence[Any], cells: Sequence[Any], width: int, threads: int) -> dict[str, Any]:
        whole = sum(cell.nbytes for cell in cells)

        def pointer(builder: Any, slot: Any, thread: Any, cell: Cell, kind: Any) -> Any:
            """To an access in shared memory: those of neighbouring threads lie next to each other."""
            slot, thread = (resized(builder, each, I32) for each in (slot, thread))
            before = builder.add(builder.mul(slot, I32(threads * whole)), I32(threads * cell.before))
            start = builder.add(before, builder.mul(thread, I32(cell.nbytes)))
            return builder.bitcast(builder.gep(kept_place(builder), [I32(0), start]), ir.PointerType(kind, addrspace=3))

        def kind_of(cell: Cell) -> Any:
            dtype = rows[cell.operand].dtype
            return formats.access_type(dtype, cell.many) if cell.many > 1 else formats.memory_type(dtype)

        def copied(builder: Any, source: Any, target: Any, kind: Any, align: int, nbytes: int) -> None:
            if copies_ahead(align):
                for start in range(0, nbytes, align):
                    place = builder.add(builder.ptrtoint(target, I64), I64(start))
                    place = builder.inttoptr(place, ir.PointerType(kind, addrspace=3))
                    copy_ahead(builder, builder.add(source, I64(start)), place, align)
            else:
                builder.store(builder.load(pointer_to(builder, source, kind), align=align), target, align=align)

        def bringing(is_loose: bool) -> Any:
            @intrinsic
            def bring(typing: Any, addresses: Any, at: Any, tile: Any, slot: Any, thread: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    for cell in cells:
                        dtype, kind = rows[cell.operand].dtype, kind_of(cell)
                        address = address_of(builder, args[:2], cell.operand, dtype.itemsize)
                        source = builder.add(address, I64(cell.start * dtype.itemsize))
                        target = pointer(builder, args[3], args[4], cell, kind)
                        # A complex number is aligned as its parts are.
                        least = dtype.itemsize // dtype.parts
                        if not is_loose or cell.many == 1:
                            copied(builder, source, target, kind, cell.nbytes if cell.many > 1 else least, cell.nbytes)
                            continue
                        one = formats.memory_type(dtype)
                        first = builder.bitcast(target, ir.PointerType(one, addrspace=3))
                        for k in range(cell.many):
                            place = builder.gep(first, [I32(k)])
                            there = builder.add(source, I64(k * dtype.itemsize))
                            copied(builder, there, place, one, least, dtype.itemsize)
                    return context.get_dummy_value()

                return types.void(addresses, at, tile, slot, thread), generate

            return bring

        @intrinsic
        def arrived(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                tell_copies(builder, "cp.async.wait_all;")
                return context.get_dummy_value()

            return types.void(), generate

        @intrinsic
        def take(typing: Any, tile: Any, slot: Any, thread: Any) -> Any:
            result = lanes_type(rows, len(rows), width)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {}
                for cell in cells:
                    operand = rows[cell.operand]
                    bits = builder.load(pointer(builder, args[1], args[2], cell, kind_of(cell)), align=cell.nbytes)
                    numbers = numbers_of(context, builder, operand, bits, cell.many)
                    items |= {(cell.operand, cell.start + j): number for j, number in enumerate(numbers)}
                return aggregate(context, builder, result, items)

            return result(tile, slot, thread), generate

        return {"bring": bringing(False), "bring_loose": bringing(True), "arrived": arrived, "take": take}
