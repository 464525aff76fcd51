"""The description of the kernels that scan rows: see `specs`, which knows all others."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.formula import Scan
from ...runtime.launch_order import LAUNCH_BOUNDS, MAX_THREADS, WARP

#: Threads of `scan_chained` that a multiprocessor has together: what they keep fills its shared memory.
CHAINED_THREADS = 768


class ScanSpec(NamedTuple):
    """All that decides the code of a kernel of `scans`.

    Attributes:
        algorithm: "scan_rows", "scan_columns" or "scan_chained".
        formula: what is merged, and what is made of it.
        reads, writes: names of the inputs' and outputs' dtypes. Where `stage` is "last", the parts of the pieces before
            follow the inputs.
        parts: names of the parts' dtypes.
        outer, inner: dimensions of the rows, and of what is scanned.
        wide, compute: as in `KernelSpec`.
        width: elements next to each other that are loaded or stored together.
        runs: how many times so many a thread takes at once.
        near, threads: threads of a block along x, of a row or of neighbouring columns; all its threads. Powers of two.
        reverse: True where a row is scanned from its end; of columns the steps say so.
        stage: "whole"; or of three passes "first", what each piece of a row makes; "second", the scan of these; "last",
            the scan of each piece behind those before it. "chained" of `scan_chained`: its words follow the outputs.
    """

    algorithm: str
    formula: Scan
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parts: tuple[str, ...]
    outer: int
    inner: int
    wide: bool
    compute: str
    width: int = 1
    runs: int = 1
    near: int = WARP
    threads: int = MAX_THREADS
    reverse: bool = False
    stage: str = "whole"

    @property
    def inputs(self) -> int:
        """How many arrays are scanned."""
        return len(self.reads) - (len(self.parts) if self.stage == "last" else 0)

    @property
    def outputs(self) -> int:
        """How many arrays are results."""
        return len(self.writes) - (self.stage == "chained")

    @property
    def is_dynamic(self) -> bool:
        """True where each launch says how much shared memory it has."""
        return self.stage == "chained"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (*self.reads, *self.writes)

    @property
    def access_bytes(self) -> int:
        """Width of the widest load of what is scanned."""
        return max(self.width * TABLE[name].itemsize for name in self.reads[: self.inputs])

    @property
    def needs_alignment(self) -> bool:
        """True if the launch's last constant says whether the arrays are aligned as this kernel's accesses are."""
        return self.width > 1

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """As `specs.LAUNCH_BOUNDS`: as many threads of a multiprocessor, in blocks of so many."""
        if self.stage == "chained":
            return self.threads, max(CHAINED_THREADS // self.threads, 1)
        most, blocks = LAUNCH_BOUNDS
        return self.threads, max(most * blocks // self.threads, 1)

    @property
    def sources(self) -> tuple[str, ...]:
        """The modules of this folder that write the kernel."""
        return (
            "kernels/scan/scan",
            "kernels/scan/chained",
            "kernels/scan/pieces",
            "kernels/scan/decoupled_look_back",
            "kernels/scan/groups",
            "kernels/scan/lanes",
            "kernels/rows/load_store",
        )

    @property
    def identity(self) -> str:
        """A text that tells it from every other kernel's code, wherever and whenever it was written."""
        return repr((self.formula.digest(self.compute, False), self._replace(formula=None)))  # type: ignore[arg-type]
