"""Timing and reporting. Times are medians of many repeats, measured with events on the GPU."""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from numbacc_bindings.driver import EventFlag, driver

from .. import runtime

#: Work of this length before each measurement brings the clocks up.
_WARM_UP_S = 0.02


def gpu_ms(work: Callable[[int], None], *, repeats: int = 30, sets: int = 1) -> float:
    """Median GPU time of `work(k)` in milliseconds, over `repeats` runs on the legacy default stream.

    `k` counts 0 .. sets-1 round and round: give each its own arrays where one set would fit the L2 cache.
    """
    device = runtime.current_device()
    start = time.perf_counter()
    k = 0
    while time.perf_counter() - start < _WARM_UP_S or k < 3:
        work(k % sets)
        runtime.synchronize(0, device)
        k += 1
    marks = [runtime.Event(device, EventFlag.DEFAULT) for _ in range(repeats + 1)]
    marks[0].record(0)
    for k in range(repeats):
        work(k % sets)
        marks[k + 1].record(0)
    runtime.synchronize(0, device)
    return statistics.median(b.elapsed_ms(a) for a, b in pairwise(marks))


def host_us(work: Callable[[], Any], *, batches: int = 51, calls: int = 100) -> float:
    """Median host time of one call in microseconds: batches of calls, the GPU idle before each batch."""
    device = runtime.current_device()
    for _ in range(2 * calls):
        work()
    times = []
    for _ in range(batches):
        runtime.synchronize(0, device)
        start = time.perf_counter()
        for _ in range(calls):
            work()
        times.append((time.perf_counter() - start) / calls * 1e6)
    runtime.synchronize(0, device)
    return statistics.median(times)


def copy_ms(nbytes: int, *, repeats: int = 30) -> float:
    """Median GPU time of a device-to-device copy that reads and writes `nbytes` altogether."""
    device = runtime.current_device()
    half = max(nbytes // 2, 1)
    source, target = (runtime.allocate(half, device, 0) for _ in range(2))
    # Memory never written can read faster than real data.
    runtime.fill(source.address, b"\x5a\xa5\x3c\xc3", half // 4, device, 0)

    def work(_: int) -> None:
        runtime.copy_on_device(target.address, source.address, half, device, 0)

    return gpu_ms(work, repeats=repeats)


def versions() -> dict[str, str]:
    """Versions of everything that a figure may depend on."""
    found = {}
    for name in ("numbacc", "numba", "numba-cuda", "numpy", "torch", "triton", "liger-kernel"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


class Report:
    """Figures as they come in, each with the bound that it was promised to keep."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        device = runtime.current_device()
        self.environment: dict[str, Any] = {
            "gpu": runtime.device_name(device),
            "compute_capability": "{}.{}".format(*runtime.capability(device)),
            "driver_cuda": runtime.call(driver.cuDriverGetVersion),
            "versions": versions(),
            "date": time.strftime("%Y-%m-%d"),
        }
        self.figures: list[dict[str, Any]] = []

    def add(self, **figure: Any) -> None:
        """A figure: `name`, what was measured, and where one was promised `ratio`, `bound` and `holds`."""
        self.figures.append(figure)
        if not self._quiet:
            print(_line(figure), flush=True)

    @property
    def all_right(self) -> bool:
        """True if every result that was checked is right."""
        return all(figure.get("right", True) for figure in self.figures)

    def summary(self) -> str:
        promised = [figure for figure in self.figures if "holds" in figure]
        broken = [figure for figure in promised if not figure["holds"]]
        lines = [f"{len(promised) - len(broken)} of {len(promised)} bounds hold"]
        return "\n".join([*lines, *("  not: " + _line(figure) for figure in broken)])

    def write(self, path: str) -> None:
        with open(path, "w") as file:
            json.dump({**self.environment, "figures": self.figures}, file, indent=1)
            file.write("\n")


def _line(figure: dict[str, Any]) -> str:
    parts = []
    for key, value in figure.items():
        if key == "name":
            parts.append(f"{value:58s}")
        elif key == "peers":
            parts += [f"{peer} {number:.4g}" for peer, number in value.items()]
        elif key == "holds":
            parts.append("ok" if value else "MISSED")
        elif isinstance(value, float):
            parts.append(f"{key} {value:.4g}")
        elif key not in ("right", "direction", "kind", "dtype", "layout"):
            parts.append(f"{key} {value}")
    return "  ".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A plain table, columns as wide as they must be."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
