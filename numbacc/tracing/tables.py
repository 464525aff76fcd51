"""Turn a trace into table rows, one for each kernel, array and kind of access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base import html
from .counting import SECTOR


class Counts(NamedTuple):
    """The counts for one kernel, one array and one kind of access.

    Attributes:
        kernel, array: the names; "" in a sum over several.
        memory: "global" or "shared".
        access: "read", "write" or "atomic".
        line: the source line if rows are by line; else 0.
        accesses: the number of accesses by single threads.
        requests: the number of requests. A request is all accesses of a warp (up to 32 threads) at one instruction.
        bytes: how many bytes the threads accessed.
        sectors: how many 32-byte sectors of global memory the requests touch.
        used_bytes: how many different bytes each request touches, summed over the requests.
        conflicts: extra shared-memory passes caused by bank conflicts. For atomics, also the passes that threads wait
            for others at the same address.
        races: how many elements several threads access without a barrier between them, where at least one of them
            writes. Elements of shared memory count once for each block.
    """

    kernel: str = ""
    array: str = ""
    memory: str = ""
    access: str = ""
    line: int = 0
    accesses: int = 0
    requests: int = 0
    bytes: int = 0
    sectors: int = 0
    used_bytes: int = 0
    conflicts: int = 0
    races: int = 0

    @property
    def used(self) -> float:
        """The fraction of the sectors' bytes that threads accessed; 1.0 if there are no sectors."""
        return self.used_bytes / (SECTOR * self.sectors) if self.sectors else 1.0

    @property
    def sectors_per_request(self) -> float:
        """How many sectors a request touches on average: 4 if neighbouring threads read neighbouring float32."""
        return self.sectors / self.requests if self.requests else 0.0


_TEXTS = ("kernel", "array", "memory", "access", "line")


def total(rows: Sequence[Counts]) -> Counts:
    """Return the sum of rows."""
    same: dict[str, Any] = {}
    for field in _TEXTS:
        values = {getattr(row, field) for row in rows}
        if len(values) == 1:
            (same[field],) = values
    numbers = {f: sum(getattr(row, f) for row in rows) for f in Counts._fields if f not in _TEXTS}
    return Counts(**same, **numbers)


_NOTHING = "no kernel has accessed an array"


class Table:
    """The rows of a trace. Printing it shows a table.

    Attributes:
        rows: `Counts`, in the order of the arrays' first accesses.
        notes: the mistakes that the trace found, in sentences.
    """

    def __init__(self, rows: list[Counts], notes: list[str]):
        self.rows, self.notes = rows, notes

    def __str__(self) -> str:
        if not self.rows:
            return _NOTHING
        return "\n".join([*_aligned(self._lines(), 4), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table and its notes for a notebook."""
        if not self.rows:
            return html.line(_NOTHING)
        head, *rows = self._lines()
        return "\n".join([html.table(head, rows), *map(html.line, self.notes)])

    def _lines(self) -> list[list[str]]:
        """Return the names of the columns, and the texts of each row."""
        by_line = any(row.line for row in self.rows)
        head = ["kernel", "array", "memory", "access", *["line"] * by_line, "requests", "bytes", "sectors", "used"]
        lines = [[*head, "conflicts", "races"]]
        for row in self.rows:
            in_global = row.memory == "global"
            names = [row.kernel, row.array, row.memory, row.access, *[str(row.line)] * by_line]
            moved = [f"{row.sectors:,}", f"{row.used:.0%}"] if in_global else ["", ""]
            counted = in_global and row.access != "atomic"
            conflicts = "" if counted else f"{row.conflicts:,}"
            lines.append([*names, f"{row.requests:,}", f"{row.bytes:,}", *moved, conflicts, f"{row.races:,}"])
        return lines


def _aligned(lines: list[list[str]], texts: int) -> list[str]:
    """Return the lines with columns padded to one width: the first few aligned left, numbers right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return [
        "  ".join(
            c.ljust(w) if k < texts else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
