"""Measure how long work takes on a GPU: medians of many repeats, timed by events; and copies to compare with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from numbacc_bindings.driver import DeviceAttribute, EventFlag

from . import device as runtime

#: Seconds of work before each measurement, to raise the GPU's clocks.
_WARM_UP_S = 0.02
#: How often the L2 cache is flushed before each work. Once is enough for the cache. Meanwhile, for about half a
#: millisecond, the CPU launches the work, so that the measured time contains no waits for the CPU.
_FLUSHES = 12


def gpu_ms(
    works: Mapping[str, Callable[[], Any]], *, repeats: int = 30, seconds: float | None = None
) -> dict[str, float]:
    """Measure the median GPU time of each work in milliseconds, alternating between them for `repeats` rounds.

    `seconds` limits the time of all rounds, and so their number, but at least three are run.

    Each round runs all works, in another order each time, which keeps a drift of the clocks out of the ratios. The L2
    cache is flushed before each work, so that all start alike: otherwise one could find the previous one's data in the
    cache, or wait for its write-back. The flushes also keep the GPU busy while the CPU launches the work. Everything
    runs on the legacy default stream.
    """
    device = runtime.current_device()
    flush = runtime.allocate(2 * runtime.device_attribute(DeviceAttribute.L2_CACHE_SIZE, device), device, 0)
    start = time.perf_counter()
    rounds = 0
    while time.perf_counter() - start < _WARM_UP_S or rounds < 3:
        for work in works.values():
            work()
        runtime.synchronize(0, device)
        rounds += 1
    if seconds is not None:
        round_s = (time.perf_counter() - start) / rounds
        repeats = min(repeats, max(3, int(seconds / round_s)))
    order = list(works)
    spans: dict[str, list[tuple[runtime.DriverEvent, runtime.DriverEvent]]] = {name: [] for name in works}
    for _ in range(repeats):
        order.append(order.pop(0))
        for name in order:
            first, last = (runtime.DriverEvent(device, EventFlag.DEFAULT) for _ in range(2))
            for _ in range(_FLUSHES):
                runtime.fill(flush.address, b"\0", flush.nbytes, device, 0)
            first.record(0)
            works[name]()
            last.record(0)
            spans[name].append((first, last))
    runtime.synchronize(0, device)
    return {name: statistics.median(b.elapsed_ms(a) for a, b in pairs) for name, pairs in spans.items()}


def copy_of(nbytes: int) -> Callable[[], None]:
    """Return a device-to-device copy that reads and writes `nbytes` altogether."""
    device = runtime.current_device()
    half = max(nbytes // 2, 1)
    source, target = (runtime.allocate(half, device, 0) for _ in range(2))
    # Memory that was never written can read faster than real data.
    runtime.fill(source.address, b"\x5a\xa5\x3c\xc3", half // 4, device, 0)
    return lambda: runtime.copy_on_device(target.address, source.address, half, device, 0)
