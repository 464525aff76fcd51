"""The scans that numbacc provides, as scalar functions, and the spec of the kernels that scan.

`reference.scans` defines their meaning in NumPy. A merge's first argument holds the earlier elements. Sums start with
-0, which preserves the sign of a zero.

The gradient of y = cumprod(x) is dx[j] = Σ over i >= j of dy[i] times all x up to i except x[j]. This is the product of
all x before j, times dy[j] + u[j + 1], where u[j] = x[j] (dy[j] + u[j + 1]) is a recurrence from the last element to
the first. Nothing is divided by x, which may be 0.
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
    """Return (before,), the total of all earlier elements."""
    return (before,)


def affine(x, dy, before):
    """Return (x, x dy), which represents the function u -> x u + x dy."""
    return x, x * dy


def chained(a, b, c, d):
    """Return the function u -> c (a u + b) + d, as (a c, b c + d)."""
    return a * c, b * c + d


def gradient(a, b, x, dy, before):
    """Return (before (dy + u),), where u is the value of all later functions at 0."""
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
    """Return a scan by name, for unpickling."""
    return SCANS[name]


for _scan in _ALL:
    _scan.origin = (named, (_scan.name,))
copyreg.pickle(Scan, attrgetter("origin"))


# ---------------------------------------------------------------- kernels

#: Threads of `scan_chained` that fit on a multiprocessor: their data fills its shared memory.
CHAINED_THREADS = 768


#: Elements that a thread processes at once where it must check whether they exist: more do not fit into registers.
_LEFT_ELEMENTS = 16


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
    """Everything that determines the code of a kernel of `scan`.

    Attributes:
        algorithm: "scan_rows", "scan_cluster", "scan_columns" or "scan_chained".
        formula: the scan: how elements are merged, and how results follow.
        reads, writes: names of the inputs' and outputs' dtypes. If `stage` is "last", the totals of the earlier pieces
            follow the inputs.
        parts: names of the partial results' dtypes.
        outer, inner: number of row dimensions, and of scanned dimensions.
        wide, compute: as in `KernelSpec`.
        width: consecutive elements that are loaded or stored together.
        runs: number of such accesses that a thread processes at once.
        near, threads: threads of a block along x, for a row or for adjacent columns; all threads of a block. Both are
            powers of two.
        reverse: True if a row is scanned from its end; for columns the strides express this.
        stage: "whole"; if there are several passes: "first", the total of each piece of a row; "second", the scan of
            these, for columns; "last", the scan of each piece starting from the earlier ones. "cluster" for
            `scan_cluster`; "chained" for `scan_chained`, where words follow the outputs.
    """

    __slots__ = ()
    module = "kernels/scan/scan"

    @property
    def inputs(self) -> int:
        """Number of arrays that are scanned."""
        return len(self.reads) - (len(self.parts) if self.stage == "last" else 0)

    @property
    def outputs(self) -> int:
        """Number of arrays that are results."""
        return len(self.writes) - (self.stage == "chained")

    @property
    def is_alone(self) -> bool:
        """True if all threads of a block process one row."""
        return self.near == self.threads

    @property
    def runs_left(self) -> int:
        """Number of accesses that a thread processes at once in the last tiles of a row, which are not full.

        If rows share a block, little is left then, and the code stays small.
        """
        return max(min(self.runs, _LEFT_ELEMENTS // self.width), 1) if self.is_alone else 1

    @property
    def is_cluster(self) -> bool:
        """True if the blocks of a cluster share a row."""
        return self.stage == "cluster"

    @property
    def is_dynamic(self) -> bool:
        """True if each launch sets the size of its shared memory."""
        return self.stage == "chained"

    @property
    def access_bytes(self) -> int:
        """Width of the widest load of the scanned arrays."""
        return max(self.width * TABLE[name].itemsize for name in self.reads[: self.inputs])

    @property
    def needs_alignment(self) -> bool:
        """True if the launch's last constant says whether the arrays are aligned to this kernel's accesses."""
        return self.width > 1

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """As many threads per multiprocessor as `specs.LAUNCH_BOUNDS`, in blocks of `threads`."""
        if self.stage == "chained":
            return self.threads, max(CHAINED_THREADS // self.threads, 1)
        most, blocks = LAUNCH_BOUNDS
        return self.threads, max(most * blocks // self.threads, 1)
