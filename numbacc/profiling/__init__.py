"""Find out where the time goes: a log of calls, with their times on the GPU and on the host (docs/slow.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Literal, overload

from ..base.keywords import explain
from ..base.ownership import NotCopied
from ..errors import OptionError, shown
from .entries import ORDERS, CallTable, RecordedCall, RecordedKernel, entry_of, read_events
from .observers import ArrayArgument, OpenCall, begin, end, logs_here

__all__ = ["ArrayArgument", "CallLog", "RecordedCall", "RecordedKernel", "record"]

Order = Literal["start", "function", "gpu", "host", "setup", "bytes", "calls"]


class CallLog(NotCopied):
    """The calls that were made inside of a `with`, in order: a sequence of `RecordedCall`.

    `numbacc.record()` makes one. Reading an entry, a table or a file waits for the recorded work on the GPU. The length
    does not.

    Example:
        >>> with numbacc.record() as log:
        ...     y = gated.forward(np.ones(8), "geglu")
        >>> len(log), log[0].function, log[0].backend, log[0].nbytes
        (1, 'gated.forward', 'numpy', 96)
    """

    _instead = "share it"

    def __init__(self) -> None:
        self._calls: list[OpenCall] = []
        self._entries: list[RecordedCall] = []
        #: The identity of an event -> its time in microseconds after the start.
        self._shifts: dict[int, float] = {}
        self._start = 0
        #: Whether calls are noted at the moment.
        self.is_active = False
        #: GPU -> the event that the times of its work are compared to.
        self.bases: dict[int, Any] = {}

    def add(self, call: OpenCall) -> None:
        """Append a call that is done."""
        self._calls.append(call)

    def __enter__(self) -> CallLog:
        if self.is_active:
            raise OptionError("this log records already: make another one with numbacc.record()")
        begin()
        self._start = self._start or perf_counter_ns()
        logs_here.set((*logs_here.get(), self))
        self.is_active = True
        return self

    def __exit__(self, *error: object) -> None:
        if not self.is_active:
            raise OptionError("this log does not record: its with block has not begun")
        self.is_active = False
        logs_here.set(tuple(log for log in logs_here.get() if log is not self))
        end()

    # ------------------------------------------------------------ entries

    def _read(self) -> list[RecordedCall]:
        new = self._calls[len(self._entries) :]
        if new:
            if read_events(new, self._start, self._shifts):
                self._entries, new = [], [*self._calls[: len(self._entries)], *new]
            self._entries += [entry_of(call, self._start, self._shifts) for call in new]
        return self._entries

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[RecordedCall]:
        return iter(self._read()[:])

    @overload
    def __getitem__(self, index: int) -> RecordedCall: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordedCall]: ...
    def __getitem__(self, index: int | slice) -> RecordedCall | list[RecordedCall]:
        return self._read()[index]

    # ------------------------------------------------------------ reports

    def table(self, sort: Order = "start", *, by_function: bool = False) -> CallTable:
        """Return the calls as a table with totals and shares, which prints as text.

        Args:
            sort: the order of the rows. "start" is the order of the calls, and "function" is alphabetical. "gpu",
                "host" and "setup" sort by times, "bytes" and "calls" by counts; the largest come first.
            by_function: whether all calls of a function are one row.

        Raises:
            OptionError: sort is unknown.
        """
        if sort not in ORDERS:
            raise OptionError(f"sort={shown(sort)} is unknown: it may be {', '.join(map(repr, ORDERS))}")
        groups: dict[Any, list[RecordedCall]] = {}
        for number, call in enumerate(self._read()):
            groups.setdefault(call.function if by_function else number, []).append(call)
        value, is_falling = ORDERS[sort]
        return CallTable(sorted(groups.values(), key=value, reverse=is_falling), by_function)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file in Chrome's trace format, which https://ui.perfetto.dev shows: rows of the host and the GPUs.

        The GPU's clock is not the host's. Its rows are shifted so that no work starts before it was queued.
        """
        Path(path).write_text(json.dumps({"traceEvents": self._events(), "displayTimeUnit": "ns"}), encoding="utf-8")

    def _events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        #: Where events are shown: (process, thread) -> its numbers.
        rows: dict[tuple[str, str], tuple[int, int]] = {}

        def row(process: str, thread: str) -> dict[str, int]:
            if (process, thread) not in rows:
                pid = next((own for (name, _), (own, _) in rows.items() if name == process), len(rows) + 1)
                rows[process, thread] = pid, len(rows) + 1
                for kind, number, name in (("process_name", 0, process), ("thread_name", len(rows), thread)):
                    found.append({"ph": "M", "name": kind, "pid": pid, "tid": number, "args": {"name": name}})
            pid, tid = rows[process, thread]
            return {"pid": pid, "tid": tid}

        def add(name: str, kind: str, start: float, length: float, where: dict[str, int], **args: Any) -> None:
            found.append({"ph": "X", "name": name, "cat": kind, "ts": start, "dur": length, **where, "args": args})

        for call in self._read():
            texts = {"arrays": [str(each) for each in (*call.inputs, *call.outputs)], "bytes": call.nbytes}
            more = {"note": call.note, "error": call.error, "algorithm": call.algorithm, "setup_us": call.setup_us}
            more = {name: value for name, value in more.items() if value}
            where = row("host", f"thread {call.thread}")
            add(call.function, call.backend, call.start_us, call.host_us, where, backend=call.backend, **texts, **more)
            for kernel in call.kernels:
                if kernel.gpu_us is not None and kernel.gpu_start_us is not None:
                    where = row(kernel.device, f"stream {kernel.stream:#x}")
                    about = {"call": call.function, "algorithm": kernel.algorithm, "bytes": kernel.nbytes}
                    add(kernel.name, kernel.backend, kernel.gpu_start_us, kernel.gpu_us, where, **about)
        return found

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def record() -> CallLog:
    """Record the calls of numbacc's functions that are made inside of a `with`, to find out what takes time.

    Each entry has the function, the backend and its algorithm, the arrays' shapes and dtypes, and the bytes that were
    read and written. It has the time on the GPU, between two events, and the time on the host. Only calls that you make
    are entries; their kernels are inside. Copies to and from the host, launches of graphs, your own elementwise kernels
    and reductions, and simulated launches are entries, too. Kernels that Numba launches on a GPU are not.

    Recording does not synchronize. Calls are recorded in the thread, and in the asyncio task, that has entered the
    `with`. Calls inside a graph's capture have no time on the GPU, but the launches of the graph do.

    Returns:
        a `CallLog`: `table()`, `save("trace.json")`; its length, index and iteration give the entries.

    Example:
        >>> with numbacc.record() as log:
        ...     y = elementwise.softmax(np.ones((4, 8)))
        >>> log[0].function, [str(array) for array in log[0].inputs]
        ('elementwise.softmax', ['x float64 (4, 8)'])
    """
    return CallLog()


explain(__name__, __all__)
