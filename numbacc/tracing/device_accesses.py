"""Count the accesses of shared memory by functions of `numbacc.device`, and their bank conflicts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from .recording import SHARED
from .tables import Counts, total

#: The beginning of the names of numbacc's modules.
_OWN = f"{__name__.partition('.')[0]}."


class DeviceAccesses:
    """The accesses of shared memory by functions of `numbacc.device`, in all launches of a trace.

    A request is what a warp accesses at one instruction: the n-th access of each of its threads there. The copy engine
    moves 128 bytes in a request.
    """

    def __init__(self) -> None:
        #: (kernel, instruction, access, line) -> (launch, block, warp, how often before) -> lane -> (address, bytes).
        self._found: dict[tuple[str, str, str, int], dict[Any, dict[int, tuple[int, int]]]] = {}
        self._times: dict[Any, int] = {}
        self._launches = 0

    def begin(self, launch: Any) -> Callable[..., None]:
        """Return a function that records the accesses of a launch."""
        self._launches += 1
        number, kernel = self._launches, launch.function.__name__

        def watch(what: str, access: str, warp: int, lanes: Any, addresses: Any, nbytes: int) -> None:
            line, block = line_of_kernel(), tuple(launch.module.blockIdx)
            requests = self._found.setdefault((kernel, what, access, line), {})
            for lane, address in zip(lanes, addresses, strict=True):
                owner = (number, block, warp, what, line, lane)
                times = self._times[owner] = self._times.get(owner, -1) + 1
                requests.setdefault((number, block, warp, times), {})[lane] = int(address), nbytes

        return watch

    def rows(self, by_line: bool) -> list[Counts]:
        """Return the counts, with a row for each kernel and instruction."""
        rows: dict[Any, list[Counts]] = {}
        for (kernel, what, access, line), requests in self._found.items():
            accesses = [each for request in requests.values() for each in request.values()]
            key = (kernel, what, SHARED, access, line if by_line else 0)
            conflicts = sum(bank_conflicts(list(request.values())) for request in requests.values())
            nbytes = sum(size for _, size in accesses)
            rows.setdefault(key, []).append(
                Counts(*key, accesses=len(accesses), requests=len(requests), bytes=nbytes, conflicts=conflicts)
            )
        return [total(same) for same in rows.values()]


def bank_conflicts(accesses: list[tuple[int, int]]) -> int:
    """Return the additional passes of a request: a pass moves 128 bytes, one 4-byte word from each of 32 banks.

    Threads that access 16 bytes pass in groups of 8, and threads that access 8 bytes in groups of 16.
    """
    size = max(4, accesses[0][1])
    found = 0
    for first in range(0, len(accesses), 128 // size):
        words = {
            word
            for address, nbytes in accesses[first : first + 128 // size]
            for word in range(address // 4, (address + nbytes + 3) // 4)
        }
        found += max(Counter(word % 32 for word in words).values()) - 1
    return found


def line_of_kernel() -> int:
    """Return the line of the kernel, or of the user's function, that calls numbacc now."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_OWN):
        frame = frame.f_back
    return frame.f_lineno
