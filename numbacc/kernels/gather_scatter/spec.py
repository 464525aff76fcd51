"""The descriptions of the kernels that bring gradients back to where indices took elements from."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE

#: The widest digit that `sorting` sorts by, in bits: its counts are in shared memory.
DIGIT_BITS = 10


def _word(wide: bool) -> str:
    """The dtype of keys, offsets and counts."""
    return "int64" if wide else "int32"


class SortSpec(NamedTuple):
    """All that decides the code of a kernel of `sorting`.

    Attributes:
        algorithm: "count", "place" or "bounds".
        indices: name of the dtype of the indices that keys are made of; "" where keys are there.
        rank: dimensions of the indices.
        wide: as in `KernelSpec`; keys and offsets have 64 bits then.
    """

    algorithm: str
    indices: str
    rank: int
    wide: bool

    @property
    def needs_alignment(self) -> bool:
        """False: accesses are of one element."""
        return False

    @property
    def word(self) -> str:
        """Name of the dtype of keys, offsets and counts."""
        return _word(self.wide)

    @property
    def compute(self) -> str:
        """As in `KernelSpec`."""
        return self.word

    @property
    def reads(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        entries = (self.indices,) if self.indices else (self.word,) if self.algorithm != "place" else (self.word,) * 2
        return (*entries, self.word) if self.algorithm == "place" else entries

    @property
    def writes(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return (self.word,) * (2 if self.algorithm == "place" else 1)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (*self.reads, *self.writes)

    @property
    def access_bytes(self) -> int:
        """As in `KernelSpec`."""
        return max(TABLE[name].itemsize for name in self.dtypes)

    @property
    def sources(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return ("kernels/gather_scatter/sort", "kernels/gather_scatter/spec")

    @property
    def identity(self) -> str:
        """As in `KernelSpec`."""
        return repr(self)


class ScatterSpec(NamedTuple):
    """All that decides the code of a kernel of `scatters`.

    Attributes:
        algorithm: "scatter_few", "scatter_chunks" or "scatter_rows".
        dtype: name of dy's dtype, and dx's.
        indices: name of the dtype of the indices, for `scatter_few`.
        rank: dimensions that are unravelled.
        listed: dimensions of the list of indices, for `scatter_few`.
        wide: as in `KernelSpec`; keys and offsets have 64 bits then.
        compute: name of the dtype of sums.
        width: elements next to each other that a thread adds up.
        bits: a chunk is 2^bits rows, or chunks one level below.
    """

    algorithm: str
    dtype: str
    indices: str
    rank: int
    listed: int
    wide: bool
    compute: str
    width: int
    bits: int

    @property
    def word(self) -> str:
        """As in `SortSpec`."""
        return _word(self.wide)

    @property
    def reads(self) -> tuple[str, ...]:
        """dy, and the indices; or dy, the rows' offsets, what says which are one element's, and the chunks' sums."""
        return (self.dtype, self.indices) if self.indices else (self.dtype, self.word, self.word, self.compute)

    @property
    def writes(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return (self.compute if self.algorithm == "scatter_chunks" else self.dtype,)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (*self.reads, *self.writes)

    @property
    def access_bytes(self) -> int:
        """Width of the accesses of dy."""
        return self.width * TABLE[self.dtype].itemsize

    @property
    def needs_alignment(self) -> bool:
        """As in `KernelSpec`."""
        return self.width > 1

    @property
    def sources(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return (
            "kernels/gather_scatter/scatter",
            "kernels/gather_scatter/spec",
            "kernels/scan/lanes",
            "kernels/reduce/functions",
        )

    @property
    def identity(self) -> str:
        """As in `KernelSpec`."""
        return repr(self)
