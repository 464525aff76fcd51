"""The specs of kernels that normalize rows."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.formula import Formula
from ...functions.reduction_formula import ReductionFormula, RowFormula
from ...runtime.launch_order import WARP, Spec
from ..specs import HEAD_BYTES, ROW_BOUNDS, words_told

#: Threads of a block if adjacent threads process adjacent rows.
ACROSS_THREADS = 256
#: The numbers of warps that can process a row together; the last is the largest block.
ROW_WARPS = (8, 16, ROW_BOUNDS[0] // WARP)
#: Threads per multiprocessor, with 40 registers each, in blocks that keep rows in shared memory; and with 48 registers
#: each, if rows are not aligned or have a factor. With 40, softmax of unaligned bfloat16 spilled 28 bytes per thread.
SHARED_THREADS, FEWER_SHARED_THREADS = 1536, 1280


class _RowFields(NamedTuple):
    formula: RowFormula
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    kept: int
    stats: int
    rank: int
    wide: bool
    width: int
    compute: str
    scalars: tuple[str, ...] = ()
    form: str = "registers"
    runs: int = 1
    is_cluster: bool = False
    warps: int = ROW_WARPS[-1]
    whole: bool = False
    picks: str | None = None
    factor: str | None = None
    sides: int = 1
    total: ReductionFormula | None = None
    is_unaligned: bool = False


class RowSpec(_RowFields, Spec):
    """Everything that determines the code of a kernel of `row_maps`, which normalizes rows.

    Attributes:
        formula: the operation on a row.
        reads, writes: names of the inputs' and outputs' dtypes.
        kept: number of inputs, counted from the first, that a thread keeps from one stage to the next.
        stats: number of outputs, counted from the last, that have one element per row: the results of the stages. If
            all outputs have one element per row, they hold the formula's value for these results.
        rank, wide, width, compute, scalars: as in `KernelSpec`.
        form: where a row is kept: "registers"; "shared", in shared memory; "across", also in shared memory, with
            adjacent threads processing adjacent rows.
        runs: accesses of each input that a thread has in flight at once; in the form "registers" all its accesses.
        is_cluster: True if several blocks share a row.
        warps: the most warps of a block that process a row together: one of `ROW_WARPS`.
        whole: True if all accesses of each thread in registers are inside a row.
        picks: the dtype of an extra input with one index per row, or None. The formula then receives, after the results
            of the stages, the element at this index (NaN if it is outside the row) and the index. The stages get no
            scalars.
        factor: the dtype of one more input with one number per row, or None. The thread that writes the element at the
            index writes what `RowFormula.chosen` returns for it instead, and the row's own result.
        sides: number of groups of a block that each share a row with groups of other blocks, row after row.
        total: the reduction of the first output over all rows, a function of that output, the index and the scalars;
            None if that output has one element per row. After the outputs then come words of `decoupled_look_back`.
        is_unaligned: True if accesses are aligned but rows are not, nor are they a multiple of accesses long. The
            elements before the first access of a row and after the last are processed one by one.
    """

    __slots__ = ()
    module = "kernels/rows/row"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands."""
        return (*self.reads, *(each for each in (self.picks, self.factor) if each is not None), *self.writes)

    @property
    def narrow(self) -> bool:
        """True if all outputs (or, if only statistics are written, all inputs) are narrower than the compute dtype."""
        return all(name != self.compute for name in self.writes[: len(self.writes) - self.stats] or self.reads)

    @property
    def is_reduction(self) -> bool:
        """True if only statistics are written: the formula's value for the results of all stages."""
        return self.stats == len(self.writes)

    @property
    def is_early(self) -> bool:
        """True if the kernel waits for the stream's previous kernel itself, see `LaunchOrder.follows`."""
        return not self.is_cluster and self.total is None

    @property
    def is_packed(self) -> bool:
        """True if a thread keeps its row in words of two 16-bit floats: see `packed_16bit.in_words`."""
        is_alone = self.is_reduction and len(self.reads) == 1 and self.form == "registers"
        return is_alone and TABLE[self.reads[0]].itemsize == 2 and self.width > 1

    def described(self, launch: str) -> str:
        """Return the kernel's description, including the form and the access width."""
        accesses = f"{8 * self.access_bytes}-bit accesses" + " to unaligned rows" * self.is_unaligned
        return f"row_maps, {self.form}, {accesses}, {launch}"

    @property
    def access_bytes(self) -> int:
        """Bytes of one access of the inputs that are kept."""
        return self.width * TABLE[self.reads[0]].itemsize

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """The most threads of a block, and how many such blocks fit on a multiprocessor."""
        if self.form != "shared" or self.is_reduction or self.compute == "float64":
            return ROW_BOUNDS
        has_fewer = self.is_unaligned or self.factor is not None
        resident = FEWER_SHARED_THREADS if has_fewer else SHARED_THREADS
        return WARP * self.warps, max(resident // (WARP * self.warps), 1)

    @property
    def is_dynamic(self) -> bool:
        """True if each launch sets the size of its shared memory."""
        return self.form != "registers"


class _SumsFields(NamedTuple):
    rows: RowSpec
    sums: Formula | None
    parts: int
    depth: int
    threads: int
    held: int
    whole: bool


class SumsSpec(_SumsFields, Spec):
    """Everything that determines the code of the kernel of `row_sums`: rows in turn, and sums over all of them.

    Attributes:
        rows: the operation on rows; a thread makes `runs` accesses of each input of a row.
        sums: the terms to sum over all rows, a function of the elements of all inputs and the results of all stages;
            None if nothing is summed.
        parts: number of these sums.
        depth: number of rows in flight or being processed at once.
        threads: threads per multiprocessor, and therefore the most threads of a block.
        held: number of inputs, counted from the first, whose elements a thread keeps in registers from one stage to the
            next. Each stage reads the others again.
        whole: True if all accesses of each thread of a block are inside a row.
    """

    __slots__ = ()
    module = "kernels/rows/persistent"

    @property
    def is_early(self) -> bool:
        """True if the next row may overwrite a thread's copy of this row as soon as its elements are in registers."""
        return self.held >= self.rows.kept

    @property
    def is_ahead(self) -> bool:
        """True if blocks that share a row exchange the results of both stages in one message.

        They send the next row's results while the last row is finished: the next row's elements are in shared memory as
        well, and a third row is being copied. If a thread keeps its row in registers, none are left for the next row;
        there, two exchanges are faster than one.
        """
        return self.is_cluster and self.rows.formula.shared is not None and self.depth > 2 and not self.held

    @property
    def exchanged(self) -> tuple[ReductionFormula, ...]:
        """The reductions whose partial results these blocks exchange."""
        formula = self.rows.formula
        return (formula.shared,) if self.is_ahead and formula.shared is not None else formula.stages

    @property
    def wide(self) -> bool:
        """True if offsets or sizes need 64-bit integers."""
        return self.rows.wide

    @property
    def compute(self) -> str:
        """Name of the dtype that the formula computes in."""
        return self.rows.compute

    @property
    def narrow(self) -> bool:
        """True if all stored values are narrower than the compute dtype, see `RowSpec.narrow`."""
        return self.rows.narrow

    @property
    def is_cluster(self) -> bool:
        """True if several blocks share a row."""
        return self.rows.is_cluster

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands."""
        return self.rows.dtypes

    def described(self, launch: str) -> str:
        """Return the kernel's description, including the access width."""
        return f"row_sums, {8 * self.access_bytes}-bit accesses, {launch}"

    @property
    def access_bytes(self) -> int:
        """Bytes of one access of the inputs that are kept."""
        return self.rows.access_bytes

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """The most threads of a block, and how many such blocks fit on a multiprocessor."""
        return self.threads, 1

    @property
    def is_dynamic(self) -> bool:
        """Always True: copies of rows are in flight in shared memory."""
        return True


def word_bytes(spec: RowSpec, blocks: int) -> int:
    """Return how many bytes of zeroed memory hold the words of this many blocks."""
    assert spec.total is not None
    return HEAD_BYTES + 8 * blocks * words_told((spec.compute,) * len(spec.total.start), 1)
