"""The intrinsics of `scan_lanes` in plain Python, for Numba's simulator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from ..base._numba import cuda
from .simulated_folds import put_numbers


def make_stores(rows: Sequence[Any], width: int, runs: int) -> Any:
    """See `scan_lanes.runs_of`."""

    def store(addresses: Any, at: Any, values: Any, left: int, step: int) -> None:
        first = len(values) - len(rows)
        for run in range(runs):
            if run * step <= left:
                for k, operand in enumerate(rows):
                    numbers = values[first + k][run * width : (run + 1) * width]
                    put_numbers(operand, addresses[k], at[run][k], numbers)

    return store


def make_sweeps(tools: SimpleNamespace, chains: Sequence[Sequence[int]]) -> dict[str, Any]:
    """See `scan_lanes.sweeping`."""
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
    """See `scan_lanes.exchanging`."""
    tools, put = parts.tools, parts.put

    @cuda.jit(device=True)
    def exchange(cells, slot, thread, source, parts):
        put(cells, slot, thread, parts)
        cuda.syncthreads()
        found = tools.by_part([cells[slot + k, source] for k in range(lanes)])
        cuda.syncthreads()
        return found

    return exchange
