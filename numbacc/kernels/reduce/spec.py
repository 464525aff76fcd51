"""The description of a kernel that reduces arrays."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.reduction_formula import ReductionFormula
from ...runtime.launch_order import VECTOR_BYTES, Spec
from ..specs import CHUNK

#: Accesses of 16 bytes that a thread of `reduce` has under way.
_LOADED = 4
#: Bytes of the parts of what a thread of `reduce` has under way, at most: they are in registers.
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


class ReduceSpec(_ReduceFields, Spec):
    """All that decides the code of a kernel of `reduce`, which reduces arrays.

    Attributes:
        algorithm: "reduce_contiguous" or "reduce_strided".
        formula: the reduction.
        reads, writes: names of the inputs' and outputs' dtypes; of what several passes exchange the parts' dtypes.
        parts: names of the parts' dtypes.
        kept, reduced: dimensions of the results, and dimensions that are reduced, at least one each.
        wide, width, compute, scalars: as in `KernelSpec`.
        repeated: which of the inputs are the same for neighbouring elements.
        narrow: as in `KernelSpec`, of what the last pass stores.
        stage: "whole", or of two passes "first" or "second".
        ordered: whether of what follows in memory indices do, too, where the formula is given them.
    """

    __slots__ = ()
    module = "kernels/reduce/reduce"

    @property
    def indexed(self) -> bool:
        """True if the formula is given the elements' index."""
        return self.formula.indexed and self.stage != "second"

    @property
    def runs(self) -> int:
        """Accesses of each input that a thread has under way at once: 64 bytes, fewer where parts need registers."""
        widths = [1 if k in self.repeated else self.width for k in range(len(self.reads))]
        nbytes = sum(width * TABLE[name].itemsize for width, name in zip(widths, self.reads, strict=True))
        parts = [max(TABLE[name].itemsize, 4) for name in self.parts]
        most = min(max(_LOADED * VECTOR_BYTES // nbytes, 2), 16, max(_PARTS_BYTES // (self.width * sum(parts)), 1))
        is_large = self.stage == "second" or sum(parts) > 24
        if self.formula.chunk is None and self.formula.place is None:
            is_large = is_large or self.indexed
        else:
            # All numbers are looked at twice. While those of one chunk are, or pairs, as many more are on their way.
            at_once = CHUNK if self.formula.place is not None and not self.in_words else 2 * CHUNK
            most = min(most, max(at_once // self.width, 1))
        return max(int(1 << most.bit_length() - 1) >> is_large, 1)

    @property
    def in_words(self) -> bool:
        """Whether what is looked for is looked for in pairs, which two numbers of 16 bits are in a word."""
        is_pair = self.reads[0] in ("bfloat16", "float16") and self.width > 1 and not self.repeated
        return is_pair and self.formula.place is not None and self.stage != "second" and self.ordered

    @property
    def access_bytes(self) -> int:
        """Width of the widest load."""
        return max(min(self.width * TABLE[name].itemsize, VECTOR_BYTES) for name in self.reads)

    @property
    def needs_alignment(self) -> bool:
        """As in `KernelSpec`; of one input's rows the kernel itself finds where they are aligned."""
        return self.width > 1 and (self.algorithm == "reduce_strided" or len(self.reads) > 1)
