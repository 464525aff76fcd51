"""The entries of a log, and the tables that they print as."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ..base import html
from ..base.dispatch import has_gpu, simulated
from ..runtime.contexts import relaxed
from .observers import ArrayArgument, OpenCall, OpenKernel, place_of


@dataclass(frozen=True)
class RecordedKernel:
    """A kernel, a library call or a copy, inside a call.

    Attributes:
        name: the operation.
        backend: the software that ran it: "kernel" (numbacc's own), "cublasLt", "cudnn", "cufft", "cuRAND", "copy",
            "graph", "simulator" or "numpy".
        algorithm: which kernel, and how it was launched; or the library's algorithm.
        inputs, outputs: the arrays that it read and wrote: their names, dtypes and shapes.
        nbytes: the bytes of these arrays. An array counts once, or twice if it is changed in place.
        device: where it ran: "cuda:0" or "cpu".
        stream: the handle of its stream.
        start_us: when it was started, in microseconds after the log's start.
        host_us: microseconds on the host.
        gpu_us: microseconds on the GPU, between two events; None if it has no events.
        gpu_start_us: when it started on the GPU, in microseconds after the log's start.
        note: why gpu_us is None, or "".
    """

    name: str
    backend: str
    algorithm: str
    inputs: tuple[ArrayArgument, ...]
    outputs: tuple[ArrayArgument, ...]
    nbytes: int
    device: str
    stream: int
    start_us: float
    host_us: float
    gpu_us: float | None
    gpu_start_us: float | None
    note: str


@dataclass(frozen=True)
class RecordedCall:
    """A call of a function of numbacc, which the user made.

    Attributes:
        function: its name, such as "gemm.matmul"; of your own kernels, the Python function's name.
        backend, algorithm: of its kernels; several are joined by "+" and by "; ".
        inputs, outputs: the arrays that it got and returned: their names, dtypes and shapes.
        nbytes: the bytes that its kernels read and wrote.
        device: where it ran: "cuda:0" or "cpu"; "" if it only waited.
        start_us: when it started, in microseconds after the log's start.
        host_us: microseconds on the host until it returned, without the time that recording took.
        setup_us: the part of host_us for making plans and compiling kernels, which later calls need not repeat.
        gpu_us: microseconds of its kernels on the GPU; None if that is unknown.
        note: why gpu_us is None or incomplete, or "".
        error: the name of the exception that it raised, or "".
        thread: the thread's number, as `threading.get_ident()` returns it.
        kernels: its kernels, in order.
    """

    function: str
    backend: str
    algorithm: str
    inputs: tuple[ArrayArgument, ...]
    outputs: tuple[ArrayArgument, ...]
    nbytes: int
    device: str
    start_us: float
    host_us: float
    setup_us: float
    gpu_us: float | None
    note: str
    error: str
    thread: int
    kernels: tuple[RecordedKernel, ...]

    @property
    def gigabytes_per_second(self) -> float | None:
        """The bandwidth: nbytes over gpu_us. None if gpu_us is unknown."""
        return self.nbytes / self.gpu_us / 1000 if self.gpu_us and self.nbytes else None


def entry_of(call: OpenCall, start: int, shifts: dict[int, float]) -> RecordedCall:
    """Return the entry of a call. This waits for its work on the GPU.

    Args:
        call: the call, which is done.
        start: the log's start, by `time.perf_counter_ns`.
        shifts: the identity of an event -> its time in microseconds after the log's start.
    """
    kernels = tuple(_kernel_of(kernel, start, shifts) for kernel in call.kernels)
    times = [each.gpu_us for each in kernels if each.gpu_us is not None]
    one = kernels[0] if len(kernels) == 1 else None
    return RecordedCall(
        function=call.name,
        backend="+".join(_different(each.backend for each in kernels)),
        algorithm="; ".join(_different(each.algorithm for each in kernels)),
        inputs=one.inputs if one and not call.inputs else call.inputs,
        outputs=one.outputs if one and not call.outputs else call.outputs,
        nbytes=sum(each.nbytes for each in kernels),
        device=next((each.device for each in kernels), ""),
        start_us=(call.start - start) / 1000,
        host_us=(call.end - call.start - call.own) / 1000,
        setup_us=call.setup / 1000,
        gpu_us=sum(times) if times else None,
        note="; ".join(_different(each.note for each in kernels if each.note)),
        error=call.error,
        thread=call.thread,
        kernels=kernels,
    )


def _kernel_of(kernel: OpenKernel, start: int, shifts: dict[int, float]) -> RecordedKernel:
    kernel.describe()
    shift = shifts.get(id(kernel.base))
    known = kernel.gpu_start_us is not None and shift is not None
    return RecordedKernel(
        name=kernel.name,
        backend=kernel.backend,
        algorithm=kernel.algorithm,
        inputs=kernel.inputs,
        outputs=kernel.outputs,
        nbytes=kernel.nbytes,
        device=place_of(kernel),
        stream=kernel.stream,
        start_us=(kernel.start - start) / 1000,
        host_us=(kernel.end - kernel.start) / 1000,
        gpu_us=kernel.gpu_us,
        gpu_start_us=kernel.gpu_start_us + shift if known else None,  # type: ignore[operator]
        note=kernel.note,
    )


def read_events(calls: Sequence[OpenCall], start: int, shifts: dict[int, float]) -> bool:
    """Wait for the work of calls, and read its events. Return True if a shift that was known has changed.

    The GPU's clock is not the host's. Work starts on the GPU after the host has queued it, and some of it at once. So
    the base gets the earliest time with which no work starts before it was queued.

    Args:
        calls: the calls, which are done.
        start: the log's start, by `time.perf_counter_ns`.
        shifts: as for `entry_of`; this updates them.
    """
    kernels = [kernel for call in calls for kernel in call.kernels]
    # A capture of this thread must not break because its user reads a log.
    is_pending = any(kernel.events for kernel in kernels) and has_gpu() and not simulated()
    with relaxed() if is_pending else nullcontext():
        for kernel in kernels:
            kernel.read()
    changed = False
    for kernel in kernels:
        if kernel.gpu_start_us is not None:
            base, least = id(kernel.base), (kernel.start - start) / 1000 - kernel.gpu_start_us
            if least > shifts.get(base, -math.inf):
                changed = changed or base in shifts
                shifts[base] = least
    return changed


def _different(texts: Any) -> list[str]:
    return [*dict.fromkeys(texts)]


# ---------------------------------------------------------------- tables


class CallTable:
    """The calls of a log, which print as a table and have an HTML form in notebooks.

    Attributes:
        rows: for each row its calls: one, or with `by_function` all of one function.
    """

    def __init__(self, rows: list[list[RecordedCall]], by_function: bool):
        self.rows, self._by_function = rows, by_function

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the names of the columns, and the cells of all rows; the last one has the totals."""
        everything = [call for row in self.rows for call in row]
        gpu, host = _gpu_us(everything) or 0.0, sum(call.host_us for call in everything)
        setup, timed_any = any(call.setup_us for call in everything), _gpu_us(everything) is not None
        head = ["function", *["calls"] * self._by_function, "backend", *["arrays"] * (not self._by_function)]
        head += [
            "bytes",
            *["GPU us", "share", "GB/s"] * timed_any,
            "host us",
            "share",
            *["setup us"] * setup,
            "algorithm",
        ]

        def line(name: str, calls: list[RecordedCall], texts: tuple[str, str, str]) -> list[str]:
            time, nbytes = _gpu_us(calls), sum(call.nbytes for call in calls)
            timed = sum(call.nbytes for call in calls if call.gpu_us)
            own = sum(call.host_us for call in calls)
            on_gpu = [
                "" if time is None else f"{time:,.1f}",
                "" if time is None or not gpu else f"{time / gpu:.0%}",
                f"{timed / time / 1000:,.0f}" if time and timed else "",
            ]
            return [
                name,
                *[f"{len(calls):,}"] * self._by_function,
                texts[0],
                *[texts[1]] * (not self._by_function),
                f"{nbytes:,}",
                *on_gpu * timed_any,
                f"{own:,.1f}",
                f"{own / host:.0%}" if host else "",
                *[f"{sum(call.setup_us for call in calls):,.1f}"] * setup,
                texts[2],
            ]

        cells = []
        for calls in self.rows:
            first = calls[0]
            raised = _different(call.error for call in calls if call.error)
            name = f"{first.function} ({', '.join(raised)})" if raised else first.function
            backend = "+".join(_different(call.backend for call in calls))
            algorithm = first.algorithm if not self._by_function else "; ".join(_different(c.algorithm for c in calls))
            cells.append(line(name, calls, (backend, _arrays_of(first), algorithm)))
        cells.append(line("total", everything, ("", "", "")))
        return head, cells

    def _notes(self) -> list[str]:
        """Return sentences on the calls without a time on the GPU."""
        counts: dict[str, int] = {}
        for row in self.rows:
            for call in row:
                if call.note:
                    counts[call.note] = counts.get(call.note, 0) + 1
        return [f"No time on a GPU for {n} call{'s' * (n != 1)}: {note}." for note, n in counts.items()]

    def __str__(self) -> str:
        if not self.rows:
            return "no calls were recorded"
        head, cells = self._cells()
        texts = {k for k, name in enumerate(head) if name in ("function", "backend", "arrays", "algorithm")}
        lines = [head, *[[*row[:-1], _shortened(row[-1])] for row in cells]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        rows = [
            "  ".join(
                cell.ljust(width) if k in texts else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*rows, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.rows:
            return html.line("no calls were recorded")
        head, cells = self._cells()
        return "\n".join([html.table(head, cells[:-1], total=cells[-1]), *map(html.line, self._notes())])


def _gpu_us(calls: Sequence[RecordedCall]) -> float | None:
    times = [call.gpu_us for call in calls if call.gpu_us is not None]
    return sum(times) if times else None


def _arrays_of(call: RecordedCall, most: int = 3) -> str:
    """Return a call's arrays as text: "float32 (8, 4) -> float32 (8,)"."""

    def listed(arrays: Sequence[ArrayArgument]) -> str:
        texts = [f"{each.dtype} {each.shape}" for each in arrays]
        return ", ".join([*texts[:most], *(["..."] if len(texts) > most else [])])

    if not call.outputs:
        return listed(call.inputs)
    return f"{listed(call.inputs)} -> {listed(call.outputs)}".lstrip()


def _shortened(text: str, most: int = 48) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


#: The name of an order -> a function that returns a row's value, and whether large values come first.
ORDERS: dict[str, tuple[Callable[[list[RecordedCall]], Any], bool]] = {
    "start": (lambda row: row[0].start_us, False),
    "function": (lambda row: row[0].function, False),
    "gpu": (lambda row: _gpu_us(row) or 0.0, True),
    "host": (lambda row: sum(call.host_us for call in row), True),
    "setup": (lambda row: sum(call.setup_us for call in row), True),
    "bytes": (lambda row: sum(call.nbytes for call in row), True),
    "calls": (lambda row: len(row), True),
}
