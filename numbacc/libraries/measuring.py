"""Find the fastest of several works by a benchmark: they alternate on the GPU, with a flushed L2 cache."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from numbacc_bindings.driver import DeviceAttribute, EventFlag
from numbacc_bindings.errors import LibraryError

from ..base.dispatch import runtime
from ..errors import DeviceError

#: Rounds over all works, rounds over the best works, and the number of the latter.
_FIRST_ROUNDS, _LAST_ROUNDS, _FINALISTS = 5, 41, 6
#: Milliseconds for each set of rounds, which has fewer rounds if works take long; and the fewest useful rounds.
_BUDGET_MS, _LEAST_ROUNDS = 1000.0, 3
#: A work is dropped if it takes this many times the fastest's time, plus milliseconds for the first use of a kernel.
_HOPELESS, _FIRST_USE_MS = 3.0, 20.0
#: A work must be this much faster than the first to replace it, as a fraction and in milliseconds. This exceeds the
#: difference between two measurements of the same work.
_GAIN, _GAIN_MS = 0.015, 0.0004

Launch = Callable[[], None]
Work = TypeVar("Work", bound=Hashable)


def fastest(works: Mapping[Work, Launch], first: Work, device: int, stream: int) -> Work:
    """Return the fastest work; `first` if none is clearly faster, or none can be queued. This waits for the GPU.

    During the last rounds power limits the GPU's clocks, which can change the order: a work may need more cycles, but
    less power. In real use, the clocks are in between. So the geometric mean of both times counts.

    Args:
        works: name -> function that queues the work on `stream`.
        first: the one to use without a measurement.
        device, stream: where they are queued.
    """
    tried = {}
    for work, launch in works.items():
        try:
            tried[work] = _timed(launch, device, stream)
        except LibraryError:
            pass  # the library proposed it, but cannot run it
    if not tried:
        return first
    hopeless = _HOPELESS * min(tried.values()) + _FIRST_USE_MS
    usable = {work: works[work] for work, taken in tried.items() if taken <= hopeless}
    flush = _flush(device, stream)
    rounds = _rounds(_FIRST_ROUNDS, [tried[work] for work in usable])
    early = _measure(usable, rounds, flush, device, stream)
    best = sorted(early, key=early.__getitem__)[:_FINALISTS]
    finalists = {work: usable[work] for work in {first: None, **dict.fromkeys(best)} if work in usable}
    rounds = _rounds(_LAST_ROUNDS, [early[work] for work in finalists])
    late = _measure(finalists, rounds, flush, device, stream)
    times = {work: math.sqrt(early[work] * late[work]) for work in finalists}
    winner = min(times, key=times.__getitem__)
    if first in times and times[first] - times[winner] < max(_GAIN * times[first], _GAIN_MS):
        return first
    return winner


def _timed(launch: Launch, device: int, stream: int) -> float:
    """Return the milliseconds of a work on the GPU when it runs for the first time."""
    start, end = (runtime().DriverEvent(device, EventFlag.DEFAULT) for _ in range(2))
    start.record(stream)
    launch()
    end.record(stream)
    end.synchronize()
    taken: float = end.elapsed_ms(start)
    return taken


def _rounds(most: int, times: Sequence[float]) -> int:
    """Return the number of rounds over works with these times."""
    return min(most, max(_LEAST_ROUNDS, int(_BUDGET_MS / max(sum(times), 1e-3))))


def _flush(device: int, stream: int) -> Launch:
    """Return a launch that overwrites the L2 cache.

    In real use, operands are not in the cache, since other work ran in between. While the GPU flushes, the host gets
    ahead, so the measurement of a short work does not include the time to queue it.
    """
    nbytes = 2 * runtime().device_attribute(DeviceAttribute.L2_CACHE_SIZE, device)
    try:
        block: Any = runtime().allocate(nbytes, device, stream)
    except DeviceError:
        return lambda: None  # no memory left: measure without a flush

    def flush() -> None:
        for _ in range(2):
            runtime().fill(block.address, b"\0", block.nbytes, device, stream)

    return flush


def _measure(works: Mapping[Work, Launch], rounds: int, flush: Launch, device: int, stream: int) -> dict[Work, float]:
    """Return the median milliseconds of each work, over rounds that run all works once, each time in another order."""
    spans: dict[Work, list[float]] = {work: [] for work in works}
    order = list(works)
    # The first round warms up.
    for number in range(rounds + 1):
        events = {work: tuple(runtime().DriverEvent(device, EventFlag.DEFAULT) for _ in range(2)) for work in works}
        for work in order:
            start, end = events[work]
            flush()
            start.record(stream)
            works[work]()
            end.record(stream)
        order.append(order.pop(0))
        for work, (start, end) in events.items():
            end.synchronize()
            if number:
                spans[work].append(end.elapsed_ms(start))
    return {work: statistics.median(times) for work, times in spans.items()}
