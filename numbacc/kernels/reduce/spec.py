"""The spec of kernels that reduce arrays."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.reduction_formula import ReductionFormula
from ...runtime.launch_order import VECTOR_BYTES, Spec
from ..specs import CHUNK

#: 16-byte accesses that a thread of `reduce` has in flight.
_LOADED = 4
#: The most bytes of partial results of the elements that a thread of `reduce` has in flight: they are in registers.
_PARTS_BYTES = 400


class _ReduceFields(NamedTuple):
    algorithm: str
    formula: ReductionFormula
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parts: tuple[str, ...]
    kept: int
    reduced: int
    wide: bool
    width: int = 1
    compute: str = ""
    repeated: tuple[int, ...] = ()
    scalars: tuple[str, ...] = ()
    narrow: bool = False
    stage: str = "whole"
    ordered: bool = True
    adds: tuple[bool, ...] = ()


class ReduceSpec(_ReduceFields, Spec):
    """Everything that determines the code of a kernel of `reduce`, which reduces arrays.

    Attributes:
        algorithm: "reduce_contiguous" or "reduce_strided".
        formula: the reduction.
        reads, writes: names of the inputs' and outputs' dtypes. Between passes, these are the partial results' dtypes.
        parts: names of the partial results' dtypes.
        kept, reduced: dimensions of the results, and dimensions that are reduced, at least one each.
        wide, width, compute, scalars: as in `KernelSpec`.
        repeated: the inputs that are constant over the elements of an access.
        narrow: as in `KernelSpec`, for the outputs of the last pass.
        stage: "whole"; if there are two passes, "first" or "second".
        ordered: True if elements that follow each other in memory have increasing indices, for formulas with an index.
        adds: for each output, True if the result is added to the old values; () if none is.
    """

    __slots__ = ()
    module = "kernels/reduce/reduce"

    @property
    def indexed(self) -> bool:
        """True if the formula receives the elements' index."""
        return self.formula.indexed and self.stage != "second"

    @property
    def runs(self) -> int:
        """Accesses of each input that a thread has in flight: 64 bytes, fewer if partial results need registers."""
        widths = [1 if k in self.repeated else self.width for k in range(len(self.reads))]
        nbytes = sum(width * TABLE[name].itemsize for width, name in zip(widths, self.reads, strict=True))
        parts = [max(TABLE[name].itemsize, 4) for name in self.parts]
        most = min(max(_LOADED * VECTOR_BYTES // nbytes, 2), 16, max(_PARTS_BYTES // (self.width * sum(parts)), 1))
        is_large = self.stage == "second" or sum(parts) > 24
        if self.formula.chunk is None and self.formula.place is None:
            is_large = is_large or self.indexed
        else:
            # All elements are examined twice. While one chunk (or its pairs) is examined, as many elements are in
            # flight.
            at_once = CHUNK if self.formula.place is not None and not self.in_words else 2 * CHUNK
            most = min(most, max(at_once // self.width, 1))
        return max(int(1 << most.bit_length() - 1) >> is_large, 1)

    @property
    def in_words(self) -> bool:
        """True if the search compares pairs of 16-bit elements, two in a word."""
        is_pair = self.reads[0] in ("bfloat16", "float16") and self.width > 1 and not self.repeated
        return is_pair and self.formula.place is not None and self.stage != "second" and self.ordered

    @property
    def access_bytes(self) -> int:
        """Width of the widest load."""
        return max(min(self.width * TABLE[name].itemsize, VECTOR_BYTES) for name in self.reads)

    @property
    def needs_alignment(self) -> bool:
        """True if arrays must be aligned; with a single input, the kernel itself aligns its accesses to the rows."""
        return self.width > 1 and (self.algorithm == "reduce_strided" or len(self.reads) > 1)
