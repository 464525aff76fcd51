"""Trace kernels that are compiled for the CPU: turn their counts into rows and records."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..simulator.compiled.accesses import Accesses
from ..simulator.compiled.arguments import allocation
from ..simulator.compiled.launches import Simulation, SimulationOptions
from ..simulator.compiled.meter import Memory, Meter
from .compile_errors import sample
from .recording import ACCESSES, FIELDS, GLOBAL, SHARED, RecordedLaunch, Recorder, SourceLine
from .tables import Counts


class CompiledLaunch:
    """One launch of a compiled kernel that counts its accesses.

    Args:
        recorder: the trace's.
        function: the kernel's Python function.
        given, args: the arguments as the user passed them, and the same arguments in host memory.
    """

    def __init__(
        self,
        recorder: Recorder,
        function: Callable[..., Any],
        given: Sequence[Any],
        args: Sequence[Any],
        grid: tuple[int, ...],
        block: tuple[int, ...],
        dynamic_bytes: int,
    ):
        self.recorder, self.function = recorder, function
        self.meter: Meter | None = None
        self.name, self.grid, self.block, self.dynamic_bytes = function.__name__, grid, block, dynamic_bytes
        self.number = len(recorder.launches)
        recorder.launches.append(RecordedLaunch(self.name, grid, block))
        recorder.kernels.append((function, tuple(map(_sample, args))))
        names = list(inspect.signature(function).parameters)
        self.memory = [
            each
            for name, own, arg in zip(names, given, args, strict=False)
            for each in _memory(recorder, name, own, arg)
        ]

    def __call__(self, accesses: Accesses) -> Meter:
        """Return the counters for the launch."""
        keep = max(0, self.recorder.limit - len(self.recorder))
        self.accesses = accesses
        self.meter = accesses.meter(self.memory, self.block, math.prod(self.grid), self.dynamic_bytes, keep)
        return self.meter

    def finish(self) -> None:
        """Add the counts to the trace, also if an error ended the launch."""
        meter, recorder = self.meter, self.recorder
        if meter is None:  # the kernel was not compiled
            return
        if meter.full:
            raise UnsupportedError(
                f"{self.name} accesses arrays too often between two barriers of a block to be traced: launch it on a "
                "smaller array, or with smaller blocks, which shows the same pattern"
            )
        first = len(recorder.arrays)
        for each in meter.arrays:
            space = SHARED if each.shared else GLOBAL
            recorder.add_array(self.number, each.name, space, each.start, each.shape, each.strides, each.itemsize)
        instructions = np.array([self._instruction(place) for place in meter.places], np.int64)
        records = meter.records()
        place = records[:, 2]
        of_place = np.array([(p.array, p.nbytes, p.kind) for p in meter.places], np.int64).reshape(-1, 3)
        array, nbytes, kind = of_place[place].T
        columns = {
            "launch": np.full(len(records), self.number), "block": records[:, 0], "thread": records[:, 1],
            "array": array + first, "address": records[:, 3], "nbytes": nbytes, "access": kind,
            "instruction": instructions[place], "step": records[:, 4], "phase": records[:, 5],
            "warp_phase": records[:, 6], "grid_phase": records[:, 7],
        }  # fmt: skip
        recorder.extend(np.stack([columns[name] for name in FIELDS], axis=1))
        recorder.unwritten += self.accesses.unwritten(meter, self.block, self.grid)
        for by_line in (False, True):
            recorder.counted[by_line] += self._rows(by_line)

    def _instruction(self, place: Any) -> int:
        file, line = self.accesses.lines[place.line]
        self.recorder.places.append(SourceLine(file, line, self.name))
        return len(self.recorder.places) - 1

    def _rows(self, by_line: bool) -> list[Counts]:
        """Return the counts for each array and kind of access, and for each line."""
        meter = self.meter
        assert meter is not None
        sums: dict[tuple[int, int, int], Any] = {}
        for place, counts in zip(meter.places, meter.counts, strict=False):
            if counts[0]:
                key = place.array, place.kind, place.source_line * by_line
                sums[key] = sums.get(key, 0) + counts
        rows = []
        for (array, kind, line), counts in sums.items():
            own = meter.arrays[array]
            space = SHARED if own.shared else GLOBAL
            numbers = [int(n) for n in counts]
            row = Counts(self.name, own.name, space, ACCESSES[kind], line, *numbers)
            rows.append(row._replace(races=meter.races(array, kind, line)))
        return rows


def _memory(recorder: Recorder, name: str, own: Any, arg: Any) -> list[Memory]:
    """Return the arrays inside an argument, in the order of their numbers in compiled kernels."""
    if isinstance(arg, tuple):
        return [each for k, inner in enumerate(arg) for each in _memory(recorder, f"{name}[{k}]", _part(own, k), inner)]
    if not isinstance(arg, np.ndarray):
        return []
    address = int(arg.__array_interface__["data"][0])
    reach = [(n - 1) * step for n, step in zip(arg.shape, arg.strides, strict=True)]
    low, high = address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + arg.itemsize
    if not arg.size:
        low = high = address
    start, nbytes, owner = allocation(own, arg)
    unit = math.gcd(arg.itemsize, *(step for step, n in zip(arg.strides, arg.shape, strict=True) if n > 1))
    on_gpu = recorder.allocation(start, nbytes, owner) + address - start
    return [Memory(name, low, high, on_gpu, address, False, arg.shape, arg.strides, arg.itemsize, unit)]


def _part(own: Any, k: int) -> Any:
    return own[k] if isinstance(own, tuple) else own


def _sample(arg: Any) -> Any:
    """Return a small argument of the same type for the compiler."""
    if isinstance(arg, tuple):
        return type(arg)(*map(_sample, arg)) if hasattr(arg, "_fields") else tuple(map(_sample, arg))
    return sample(arg) if isinstance(arg, np.ndarray) and arg.ndim else arg


@contextmanager
def counting_launches(recorder: Recorder, max_threads: int | None) -> Iterator[None]:
    """Compile users' kernels for the CPU inside this context, and count their accesses."""

    def observe(function: Callable[..., Any], *rest: Any) -> CompiledLaunch:
        grid, block = rest[2:4]
        threads = math.prod(grid) * math.prod(block)
        if max_threads is not None and threads > max_threads:
            raise UnsupportedError(
                f"a launch of {math.prod(grid):,} blocks of {math.prod(block):,} threads has {threads:,} threads; this "
                f"trace allows {max_threads:,}: launch the kernel on a smaller array, or give numbacc.trace a larger "
                "max_threads"
            )
        return CompiledLaunch(recorder, function, *rest)

    with Simulation(SimulationOptions(checked=True, workers=1, tracer=observe)):
        yield
