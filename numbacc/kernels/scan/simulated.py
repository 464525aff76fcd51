"""The intrinsics of `scan_lanes`, `scan_pieces` and `look_back` in plain Python, for Numba's simulator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.casts import cast
from ...base.dtypes import TABLE
from ..primitives.runs import put_numbers
from ..primitives.simulated import _element


def make_stores(rows: Sequence[Any], width: int, runs: int) -> Any:
    """See `lanes.runs_of`."""

    def store(addresses: Any, at: Any, values: Any, left: int, step: int) -> None:
        first = len(values) - len(rows)
        for run in range(runs):
            if run * step <= left:
                for k, operand in enumerate(rows):
                    numbers = values[first + k][run * width : (run + 1) * width]
                    put_numbers(operand, addresses[k], at[run][k], numbers)

    return store


def make_sweeps(tools: SimpleNamespace, chains: Sequence[Sequence[int]]) -> dict[str, Any]:
    """See `lanes.sweeping`."""
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
    """See `lanes.exchanging`."""
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
    """See `pieces.keeping`. What is copied is there at once."""
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


def take_ticket(address: Any) -> int:
    """See `look_back`."""
    cell = _element(address, 0, TABLE["int32"], 1, True)
    cell[0] += 1
    return int(cell[0]) - 1


def make_telling(parts: SimpleNamespace, lanes: int) -> tuple[Any, Any, Any]:
    """See `decoupled_look_back.telling`."""
    tools, dtypes = parts.tools, [np.dtype(name) for name in parts.names]
    counts, there = [-(-dtype.itemsize // 4) for dtype in dtypes], np.uint64(1 << 32)
    each = lanes * sum(counts)

    def words_at(address: int, row: int, count: int, place: int, is_written: bool) -> Any:
        # Behind two words of the head.
        first = 2 + (row * count + place) * each
        return iter([_element(address, first + k, TABLE["uint64"], 1, is_written) for k in range(each)])

    def read(address: int, row: int, count: int, place: int) -> Any:
        words, numbers = words_at(address, row, count, place, False), []
        for _ in range(lanes):
            lane = []
            for dtype, many in zip(dtypes, counts, strict=True):
                found = np.array([next(words)[0] for _ in range(many)])
                # Blocks run one after the other: what is not there yet never will be.
                if not (found & there).all():
                    raise RuntimeError("a block waits for one that has not begun")
                lane.append(found.astype(np.uint32).view(np.uint8)[: dtype.itemsize].view(dtype)[0])
            numbers.append(tuple(lane))
        return tools.by_part(numbers), True

    def tell(address: int, row: int, count: int, place: int, given: Any) -> None:
        words = words_at(address, row, count, place, True)
        for numbers in tools.by_lane(given):
            for number, dtype, many in zip(numbers, dtypes, counts, strict=True):
                bits = np.zeros(4 * many, np.uint8)
                bits[: dtype.itemsize] = np.asarray(number, dtype).reshape(1).view(np.uint8)
                for half in bits.view(np.uint32):
                    next(words)[0] = np.uint64(half) | there

    def clear(address: int, row: int, count: int, place: int) -> None:
        for word in words_at(address, row, count, place, True):
            word[0] = 0

    return read, tell, clear
