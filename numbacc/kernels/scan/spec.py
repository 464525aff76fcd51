"""The scans that numbacc brings, as scalar formulas, and the description of the kernels that scan: see `specs`.

What the scans mean in NumPy is in `reference.scans`. The first parts that are merged lie before the second. Sums start
with -0, which leaves a zero's sign as it is.

The gradient of y = cumprod(x) is dx[j] = Σ over i >= j of dy[i] times all x up to i but x[j]: what lies before j, times
dy[j] + u[j + 1], where u[j] = x[j] (dy[j] + u[j + 1]) is a recurrence from the last element to the first. Nothing is
divided by x, which may be 0.
"""

from __future__ import annotations

import copyreg
from operator import attrgetter
from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.reduction_formula import Scan
from ...runtime.launch_order import LAUNCH_BOUNDS, MAX_THREADS, WARP, Spec
from ..reduce.functions import add, multiply, part


def alone(before, x):
    """(what all before make,)."""
    return (before,)


def affine(x, dy, before):
    """(x, x dy): the function u -> x u + x dy."""
    return x, x * dy


def chained(a, b, c, d):
    """u -> c (a u + b) + d."""
    return a * c, b * c + d


def gradient(a, b, x, dy, before):
    """(before (dy + u),), where u is what the functions of all behind make of 0."""
    return (before * (dy + b),)


_ALL = (
    Scan("cumsum", part, start=(-0.0,), merge=add),
    Scan("cumprod", part, start=(1.0,), merge=multiply),
    Scan("cumprod_before", part, start=(1.0,), merge=multiply, finish=alone),
    Scan("cumprod_backward", affine, start=(1.0, 0.0), merge=chained, finish=gradient),
)

#: Scans by name.
SCANS = {scan.name: scan for scan in _ALL}


def named(name: str) -> Scan:
    """The scan of a name, as pickles have it."""
    return SCANS[name]


for _scan in _ALL:
    _scan.origin = (named, (_scan.name,))
copyreg.pickle(Scan, attrgetter("origin"))


# ---------------------------------------------------------------- kernels

#: Threads of `scan_chained` that a multiprocessor has together: what they keep fills its shared memory.
CHAINED_THREADS = 768


class _ScanFields(NamedTuple):
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


class ScanSpec(_ScanFields, Spec):
    """All that decides the code of a kernel of `scan`.

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

    __slots__ = ()
    module = "kernels/scan/scan"

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
