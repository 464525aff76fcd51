"""The intrinsics of `row_lanes` in plain Python, for Numba's simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base._numba import cuda
from ..base.casts import cast
from ..base.dtypes import TABLE
from .simulated import _element
from .simulated_folds import _numbers


@cuda.jit(device=True)
def kept_memory() -> Any:
    """The shared memory that a launch asks for."""
    return cuda.shared.array(0, np.dtype(np.uint8))


#: What a row in registers has of shared memory.
_NOTHING = np.empty(0, np.uint8)


def make_keeping(spec: Any, reads: Sequence[Any], writes: Sequence[Any], runs: int) -> dict[str, Any]:
    """See `row_lanes.keeping`."""
    width, results, kept = spec.width, len(spec.writes) - spec.stats, spec.kept

    def kept_at(tile: Any, slot: int, step: int, k: int, run: int, operand: Any) -> Any:
        """What the tile has of a run of input k."""
        start = (slot + (run * kept + k) * step) * spec.access_bytes
        return tile[start : start + spec.access_bytes].view(operand.dtype.numpy)

    def bring(addresses: Any, at: Any, tile: Any, slot: int, step: int) -> None:
        for run, offsets in enumerate(at):
            for k, operand in enumerate(reads[:kept]):
                source = _element(addresses[k], offsets[k], operand.dtype, width, False)
                kept_at(tile, slot, step, k, run, operand)[:] = source

    def loading(which: range, takes: bool = False) -> Any:
        def load(addresses: Any, at: Any, tile: Any = _NOTHING, slot: int = 0, step: int = 0) -> Any:
            found: list[list[Any]] = [[] for _ in which]
            for run, offsets in enumerate(at):
                for k, operand in enumerate(reads):
                    if k not in which:
                        continue
                    if takes and k < kept:
                        cell = kept_at(tile, slot, step, k, run, operand)
                        values = [cast(value, np.dtype(operand.number))[()] for value in cell]
                    else:
                        values = _numbers(operand, addresses[k], offsets[k], width, False)
                    found[k - which.start] += values
            return tuple(map(tuple, found))

        return load

    def put(address: int, offset: int, dtype: Any, values: Sequence[Any]) -> None:
        target = _element(address, offset, dtype, len(values), True)
        with np.errstate(all="ignore"):
            target[...] = cast(np.asarray(values), target.dtype)

    def store(addresses: Any, at: Any, values: Any, inside: Any) -> None:
        for run, offsets in enumerate(at):
            for k, operand in enumerate(writes[:results]):
                for start in range(0, width, operand.access):
                    first = run * width + start
                    if inside[run if len(inside) > 1 else 0]:
                        own = values[k][first : first + operand.access]
                        put(addresses[k], offsets[k] + start, operand.dtype, own)

    def note(addresses: Any, at: Any, values: Any) -> None:
        for k in range(results, len(writes)):
            put(addresses[k], at[k], writes[k].dtype, values[k - results : k - results + 1])

    every = range(len(reads))
    return {
        "load": loading(every),
        "again": loading(every, takes=True),
        "bring": bring,
        "arrived": lambda: None,
        "first": loading(range(kept)),
        "rest": loading(range(kept, len(reads))),
        "store": store,
        "note": note,
    }


def make_summing(spec: Any, parts: int, unit: int) -> dict[str, Any]:
    """See `row_lanes.summing`."""
    width, runs = spec.width, spec.runs

    def own(tile: Any, thread: int, threads: int) -> np.ndarray[Any, Any]:
        """A thread's sums: units of part after part, run after run, `threads` apart."""
        units: np.ndarray[Any, Any] = tile.view(np.float32)[: parts * runs * width * threads].reshape(-1, threads, unit)
        return units[:, thread]

    def clear(tile: Any, thread: int, threads: int) -> None:
        own(tile, thread, threads)[...] = 0

    def gain(tile: Any, thread: int, threads: int, values: Any, inside: Any) -> None:
        found = own(tile, thread, threads)
        numbers = np.array(values, np.float32).reshape(parts, runs, -1, unit)
        for run in range(runs):
            if inside[run]:
                pieces = width // unit
                for p in range(parts):
                    start = (p * runs + run) * pieces
                    found[start : start + pieces] += numbers[p, run]

    def flush(addresses: Any, tile: Any, thread: int, threads: int, at: Any, inside: Any) -> None:
        sums = own(tile, thread, threads).reshape(parts, runs, -1, unit)
        for p, address in enumerate(addresses[-parts:]):
            for run in range(runs):
                for piece in range(width // unit * inside[run]):
                    target = _element(address, at[run] + piece * unit, TABLE["float32"], unit, True)
                    target[...] = sums[p, run, piece]

    return {"clear": clear, "gain": gain, "flush": flush}
