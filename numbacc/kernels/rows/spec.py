"""The description of kernels that normalize rows."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.formula import Formula
from ...functions.reduction_formula import ReductionFormula, RowFormula
from ...runtime.launch_order import WARP, Spec
from ..specs import HEAD_BYTES, ROW_BOUNDS, words_told

#: Threads of a block whose threads side by side take rows side by side.
ACROSS_THREADS = 256
#: Warps of a block that take a row together: so many, or as many as a block has.
ROW_WARPS = (8, 16, ROW_BOUNDS[0] // WARP)
#: Threads that a multiprocessor takes of blocks that keep rows in shared memory: with 40 registers each.
SHARED_THREADS = 1536


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
    sides: int = 1
    total: ReductionFormula | None = None


class RowSpec(_RowFields, Spec):
    """All that decides the code of a kernel of `row_maps`, which normalizes rows.

    Attributes:
        formula: what it does.
        reads, writes: names of the inputs' and outputs' dtypes.
        kept: how many of the inputs, the first ones, a thread keeps from one stage to the next.
        stats: how many of the outputs, the last ones, have one element a row: results of the stages. Where all have,
            what the formula makes of these results.
        rank, wide, width, compute, scalars: as in `KernelSpec`.
        form: where a row is kept: "registers"; "shared", in shared memory; "across", there too, threads side by side
            taking rows side by side.
        runs: accesses of each input that a thread has under way at once; in registers all that it has.
        is_cluster: True where several blocks share a row.
        warps: how many warps of a block take a row together, at most: one of `ROW_WARPS`.
        whole: True where all accesses of each thread in registers are inside a row.
        picks: the dtype of a further input, which has one index a row, None where there is none. Behind the results of
            the stages, which are given no scalars, the formula is then given the element there, NaN beyond the row, and
            the index.
        sides: how many groups of a block share each a row with those of other blocks, row after row.
        total: what the first of the outputs is reduced to over all rows: of it, the index, and the scalars. None where
            it has one element a row. Behind the outputs then are words of `decoupled_look_back`.
    """

    __slots__ = ()
    module = "kernels/rows/row"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (*self.reads, *([] if self.picks is None else [self.picks]), *self.writes)

    @property
    def narrow(self) -> bool:
        """As in `KernelSpec`; where nothing but statistics is written, of what is read."""
        return all(name != self.compute for name in self.writes[: len(self.writes) - self.stats] or self.reads)

    @property
    def is_reduction(self) -> bool:
        """True where nothing but statistics is written: what the formula makes of the results of all stages."""
        return self.stats == len(self.writes)

    @property
    def is_packed(self) -> bool:
        """True where a thread keeps its row in words of two 16-bit floats: see `packed_16bit.in_words`."""
        is_alone = self.is_reduction and len(self.reads) == 1 and self.form == "registers"
        return is_alone and TABLE[self.reads[0]].itemsize == 2 and self.width > 1

    def described(self, launch: str) -> str:
        """As in `Spec`."""
        return f"row_maps, {self.form}, {8 * self.access_bytes}-bit accesses, {launch}"

    @property
    def access_bytes(self) -> int:
        """Width of one access of what is kept."""
        return self.width * TABLE[self.reads[0]].itemsize

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, at most, and blocks that fit a multiprocessor together."""
        if self.form != "shared" or self.is_reduction or self.compute == "float64":
            return ROW_BOUNDS
        return WARP * self.warps, max(SHARED_THREADS // (WARP * self.warps), 1)

    @property
    def is_dynamic(self) -> bool:
        """True where each launch says how much shared memory it has."""
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
    """All that decides the code of the kernel of `row_sums`: rows one after the other, and sums over all of them.

    Attributes:
        rows: what is done with rows, of which a thread has `runs` accesses of each input.
        sums: what is added up over all of them, of the numbers of all inputs and the results of all stages; None where
            nothing is.
        parts: how many sums these are.
        depth: rows that are on their way, or worked on, at once.
        threads: those that a multiprocessor has at once, and so a block at most.
        held: of how many inputs, the first ones, a thread has its numbers in registers from one stage to the next; it
            reads those of the others again in each.
        whole: True where each of a block's threads has all its accesses inside a row.
    """

    __slots__ = ()
    module = "kernels/rows/persistent"

    @property
    def is_early(self) -> bool:
        """True where the next row may be on its way to where a thread's was as soon as its numbers are in registers."""
        return self.held >= self.rows.kept

    @property
    def is_ahead(self) -> bool:
        """True where blocks that share a row send each other once what they have of both stages, and of the next row
        while the last one's results are made: its numbers are in shared memory beside these, and a third row's come.

        Where a thread has its row in registers it has none for the next one, and two exchanges are faster than one.
        """
        return self.is_cluster and self.rows.formula.shared is not None and self.depth > 2 and not self.held

    @property
    def exchanged(self) -> tuple[ReductionFormula, ...]:
        """The reductions whose parts such blocks send each other."""
        formula = self.rows.formula
        return (formula.shared,) if self.is_ahead and formula.shared is not None else formula.stages

    @property
    def wide(self) -> bool:
        """As in `KernelSpec`."""
        return self.rows.wide

    @property
    def compute(self) -> str:
        """As in `KernelSpec`."""
        return self.rows.compute

    @property
    def narrow(self) -> bool:
        """As in `RowSpec`."""
        return self.rows.narrow

    @property
    def is_cluster(self) -> bool:
        """As in `RowSpec`."""
        return self.rows.is_cluster

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return self.rows.dtypes

    def described(self, launch: str) -> str:
        """As in `Spec`."""
        return f"row_sums, {8 * self.access_bytes}-bit accesses, {launch}"

    @property
    def access_bytes(self) -> int:
        """As in `RowSpec`."""
        return self.rows.access_bytes

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """As in `RowSpec`."""
        return self.threads, 1

    @property
    def is_dynamic(self) -> bool:
        """True: rows are on their way in shared memory."""
        return True


def word_bytes(spec: RowSpec, blocks: int) -> int:
    """Bytes of clear memory for the words of so many blocks."""
    assert spec.total is not None
    return HEAD_BYTES + 8 * blocks * words_told((spec.compute,) * len(spec.total.start), 1)
