"""GPU time of kernels for small arrays against torch's: maps, and scans of one row, each as a CUDA graph of many calls.

A launch takes the host longer than such a kernel takes the GPU, so that single calls cannot be compared. The arrays are
in the L2 cache. A time includes the start of a kernel, about 1 µs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from numbacc import elementwise

from . import peers
from .harness import RESOLUTION, Report

_DEVICE = "cuda"

#: Numbers of elements of maps and scans.
_MAPS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("float32", (1_000, 100_000, 1_000_000, 4_000_000)), ("bfloat16", (1_000, 1_000_000)),
)  # fmt: skip
_SCANS = (2_048, 4_096, 8_192, 10_001, 16_384, 65_536, 100_003, 1_000_003, 4_194_304)
#: Calls of a graph, and graphs that are timed.
_CALLS, _REPEATS = 20, 25


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of small kernels; they need torch, whose kernels are the measure."""
    torch = peers.import_torch()
    if torch is None:
        report.add(name="kernels for small arrays", skipped="needs torch")
        return
    aten = torch.ops.aten
    theirs = {
        "exp": lambda x, y, out: torch.exp(x, out=out), "gelu": lambda x, y, out: aten.gelu.out(x, out=out),
        "add": lambda x, y, out: torch.add(x, y, out=out), "cumsum": lambda x, y, out: torch.cumsum(x, 0, out=out),
    }  # fmt: skip
    ours: dict[str, Callable[..., Any]] = {
        "exp": lambda x, y, **how: elementwise.exp(x, **how), "gelu": lambda x, y, **how: elementwise.gelu(x, **how),
        "add": elementwise.add, "cumsum": lambda x, y, **how: elementwise.cumsum(x, axis=0, **how),
    }  # fmt: skip
    cases = [(name, dtype, n) for name in ("exp", "gelu", "add") for dtype, sizes in _MAPS for n in sizes]
    for name, dtype, size in [*cases, *[("cumsum", "float32", n) for n in _SCANS]]:
        label = f"{name} {dtype}, {size} elements, in a graph"
        if report.wants(label):
            _figure(report, torch, label, ours[name], theirs[name], dtype, size, 9 if quick else _REPEATS)


def _figure(
    report: Report,
    torch: Any,
    label: str,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    dtype: str,
    size: int,
    repeats: int,
) -> None:
    x, y = (torch.randn(size, device=_DEVICE, dtype=getattr(torch, dtype)) for _ in range(2))
    out, other = torch.empty_like(x), torch.empty_like(x)
    ours(x, y, out=out)
    found, *given = (each.double().cpu().numpy() for each in (out, x, y))
    wanted, eps = ours(*given), {"float32": 2.0**-20, "bfloat16": 2.0**-7}[dtype]
    if not np.isclose(found, wanted, rtol=eps, atol=eps * size**0.5).all():
        report.add(name=label, right=False)
        return
    works: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(x, y, out=out, stream=torch.cuda.current_stream()),
        "torch": partial(theirs, x, y, other),
    }
    times = _times(torch, works, repeats)
    ratio = times["ours"] / times["torch"]
    report.add(
        name=label, right=True, us=times["ours"], ratio=ratio, peers={"torch us": times["torch"]}, bound=1.0,
        holds=ratio <= 1.0 + RESOLUTION,
    )  # fmt: skip


def _times(torch: Any, works: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median time of one call of each work in microseconds, in graphs that take turns."""
    graphs = {name: _graph_of(torch, work) for name, work in works.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 3):
        for name, graph in graphs.items():
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            graph.replay()
            last.record()
            last.synchronize()
            if turn >= 3:  # the first raise the clocks
                times[name].append(first.elapsed_time(last) * 1e3 / _CALLS)
    return {name: statistics.median(found) for name, found in times.items()}


def _graph_of(torch: Any, work: Callable[[], Any]) -> Any:
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        work()
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(_CALLS):
                work()
    return graph
