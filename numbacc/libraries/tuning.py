"""Which of the heuristics' algorithms is the fastest for a product: measured once, and kept on disk."""

from __future__ import annotations

import hashlib
import statistics
import struct
from collections.abc import Callable, Mapping
from typing import Any

from numbacc_bindings.driver import EventFlag
from numbacc_bindings.errors import LibraryError

from ..device import kernel_cache, runtime
from .products import Algorithm

#: Algorithms that the heuristics are asked for.
CANDIDATES = 32
#: Rounds over all of them, rounds over the best, and how many those are.
_FIRST_ROUNDS, _LAST_ROUNDS, _FINALISTS = 3, 15, 6
#: A measurement lasts at least this long, so that the events' own time does not count.
_SPAN_MS = 0.2
#: What an algorithm must gain over the heuristics' first to take its place: more than two measurements differ by.
_GAIN = 0.985
#: What stands on disk before cuBLASLt's own description: scratch memory, and whether it is deterministic.
_HEAD = struct.Struct("<Q?")
_FORMAT = 3

Launch = Callable[[], None]


def fastest(works: Mapping[Algorithm, Launch], first: Algorithm, device: int, stream: int) -> Algorithm:
    """The fastest of these, taking turns. This waits for the GPU."""
    usable = {}
    for algorithm, launch in works.items():
        try:
            launch()
            usable[algorithm] = launch
        except LibraryError:
            pass  # proposed, but refused when it came to it
    if not usable:
        return first
    times = _measure(usable, _FIRST_ROUNDS, device, stream)
    best = sorted(times, key=times.__getitem__)[:_FINALISTS]
    finalists = {
        algorithm: usable[algorithm] for algorithm in {first: None, **dict.fromkeys(best)} if algorithm in usable
    }
    times = _measure(finalists, _LAST_ROUNDS, device, stream)
    winner = min(times, key=times.__getitem__)
    return first if first in times and times[winner] > _GAIN * times[first] else winner


def _measure(works: Mapping[Algorithm, Launch], rounds: int, device: int, stream: int) -> dict[Algorithm, float]:
    """Median milliseconds of each, over rounds in which they take turns."""
    spans: dict[Algorithm, list[float]] = {algorithm: [] for algorithm in works}
    repeats = dict.fromkeys(works, 1)
    for _ in range(rounds + 1):
        for algorithm, launch in works.items():
            start, end = (runtime.Event(device, EventFlag.DEFAULT) for _ in range(2))
            start.record(stream)
            for _ in range(repeats[algorithm]):
                launch()
            end.record(stream)
            end.synchronize()
            spans[algorithm].append(end.elapsed_ms(start) / repeats[algorithm])
            repeats[algorithm] = min(max(1, round(_SPAN_MS / max(spans[algorithm][-1], 1e-3))), 50)
    # The first round warms up.
    return {algorithm: statistics.median(times[1:]) for algorithm, times in spans.items()}


def disk_key(choice: Any, version: str) -> str:
    """The key of a measured algorithm: what it computes, and on what."""
    return hashlib.sha256(f"cublasLt {_FORMAT} {version} {choice!r}".encode()).hexdigest()


def load(key: str) -> Algorithm | None:
    """An algorithm measured before, by this process or another."""
    found = kernel_cache.load(key)
    if found is None:
        return None
    text, data = found
    nbytes, deterministic = _HEAD.unpack_from(data)
    return Algorithm(data[_HEAD.size :], nbytes, text, deterministic=deterministic)


def save(key: str, algorithm: Algorithm) -> None:
    """Keep an algorithm for other processes."""
    head = _HEAD.pack(algorithm.workspace_bytes, algorithm.deterministic)
    kernel_cache.save(key, algorithm.text, head + algorithm.data)
