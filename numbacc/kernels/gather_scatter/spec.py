"""The specs of the kernels for the gradients of gathers."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...runtime.launch_order import Spec

#: The widest digit that `sort` sorts by, in bits: its counts are in shared memory.
DIGIT_BITS = 10


def _word(wide: bool) -> str:
    """Return the dtype of keys, offsets and counts."""
    return "int64" if wide else "int32"


class _SortFields(NamedTuple):
    algorithm: str
    indices: str
    rank: int
    wide: bool


class SortSpec(_SortFields, Spec):
    """Everything that determines the code of a kernel of `sort`.

    Attributes:
        algorithm: "count", "place" or "bounds".
        indices: name of the dtype of the indices that keys are computed from; "" if keys already exist.
        rank: dimensions of the indices.
        wide: as in `KernelSpec`; keys and offsets then have 64 bits.
    """

    __slots__ = ()
    module = "kernels/gather_scatter/sort"

    @property
    def word(self) -> str:
        """Name of the dtype of keys, offsets and counts."""
        return _word(self.wide)

    @property
    def compute(self) -> str:
        """Name of the dtype that the kernel computes in."""
        return self.word

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the inputs' dtypes."""
        entries = (self.indices,) if self.indices else (self.word,) if self.algorithm != "place" else (self.word,) * 2
        return (*entries, self.word) if self.algorithm == "place" else entries

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the outputs' dtypes."""
        return (self.word,) * (2 if self.algorithm == "place" else 1)


class _ScatterFields(NamedTuple):
    algorithm: str
    dtype: str
    indices: str
    rank: int
    listed: int
    wide: bool
    compute: str
    width: int
    bits: int
    target: str
    adds: bool = False


class ScatterSpec(_ScatterFields, Spec):
    """Everything that determines the code of a kernel of `scatter`.

    Attributes:
        algorithm: "scatter_few", "scatter_chunks" or "scatter_rows".
        dtype: name of dy's dtype.
        indices: name of the dtype of the indices, for `scatter_few`.
        rank: dimensions that are unravelled.
        listed: dimensions of the list of indices, for `scatter_few`.
        wide: as in `KernelSpec`; keys and offsets then have 64 bits.
        compute: name of the dtype of sums.
        width: adjacent elements that a thread sums.
        bits: a chunk is 2^bits rows, or chunks one level below.
        target: name of the dtype of what is written: dx, or chunks' sums.
        adds: True if sums are added to the old values. Elements without rows are then left alone.
    """

    __slots__ = ()
    module = "kernels/gather_scatter/scatter"

    @property
    def word(self) -> str:
        """Name of the dtype of keys, offsets and counts."""
        return _word(self.wide)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the inputs' dtypes: dy and indices; or dy, rows' offsets, keys or segment bounds, chunks' sums."""
        return (self.dtype, self.indices) if self.indices else (self.dtype, self.word, self.word, self.compute)

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the outputs' dtypes."""
        return (self.target,)

    @property
    def access_bytes(self) -> int:
        """Width of the accesses of dy."""
        return self.width * TABLE[self.dtype].itemsize

    @property
    def needs_alignment(self) -> bool:
        """True if dy and dx must be aligned to accesses."""
        return self.width > 1
