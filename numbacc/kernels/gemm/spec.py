"""Everything that the code of a product with an epilogue depends on."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...runtime.launch_order import WarpgroupSpec

#: Bytes of a row in shared memory; a stage holds so many bytes along K.
ROW = 128
#: Rows that a warpgroup multiplies, and columns that the epilogue processes at once.
ROWS, COLUMNS = 64, 64
#: Bytes of a part of a result in shared memory: 64 x 64 elements of 16 bits.
PART = 8192
#: The multiprocessors of an H100 or H200.
MULTIPROCESSORS = 132
#: Bytes of shared memory that a block may use.
MOST_SHARED = 232448
#: The most results that are stored by the copy engine, and the most groups of rows.
MAPS, MOST_GROUPS = 3, 512


class _GemmFields(NamedTuple):
    dtype: str
    a_down: bool
    b_down: bool
    tile: tuple[int, int]
    formula: Any
    operands: tuple[tuple[str, str], ...]
    outs: tuple[tuple[str, bool], ...]
    numbers: int = 1
    factors: int = 0
    has_c: bool = False
    sums: int = 1
    is_grouped: bool = False
    turns: int = 1
    by_k: bool = False
    reduces: tuple[str, ...] = ()
    cluster: int = 1
    transposed: bool = False


class GemmSpec(_GemmFields, WarpgroupSpec):
    """The kernel of a product with an epilogue.

    Attributes:
        dtype: of both matrices, by name.
        a_down, b_down: whether columns of A, or rows of B, are contiguous, not their elements along K.
        tile: rows and columns of the sums that a block computes at once.
        formula: the function of the sums, the operands that are arrays, and those that are numbers.
        operands: (kind, dtype) of each operand that is an array: scales of the sums, C, then the epilogue's. A kind is
            "row", "column", "whole" or "scalar".
        outs: (dtype, whether the copy engine stores it) for each result.
        numbers: how many numbers the kernel takes: alpha, beta if there is a C, then the epilogue's.
        factors: how many operands are scales of the sums.
        has_c: whether beta C is added.
        sums: 2 if the tile has columns of both halves of the product, which the epilogue combines. If it is transposed,
            it has rows of both: 64 of the first half, then 64 of the second.
        is_grouped: whether rows of A belong to groups with their own matrices B, whose sizes are in memory.
        turns: 2 if two warpgroups compute a tile each: one multiplies while the other applies the epilogue. 1 if all
            compute the same tile, 64 rows each.
        reduces: for each result "", or the reduction "sum", "max" or "min" over 64 columns that is stored instead. ()
            for none.
        by_k: whether groups divide the sums over K instead: each has its own result, of its rows of Aᵀ and B.
        cluster: 2 if pairs of blocks compute two tiles, one below the other: each loads half of B for both. Else 1.
        transposed: whether the result is stored transposed. A tile may then have any multiple of 8 columns, which are
            rows of the result in memory.
    """

    __slots__ = ()

    @property
    def module(self) -> str:
        return "kernels/gemm/wgmma"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.dtype, self.dtype, *[name for _, name in self.operands])

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.outs])

    @property
    def narrow(self) -> bool:
        return "float32" not in self.writes  # so reductions are not rounded

    @property
    def parameters(self) -> list[tuple[str, Any]]:
        """Maps; addresses and steps of operands and results; numbers, sizes of groups, lengths, rows of a band."""
        operands, outs = [("int64", len(self.operands) or 1)] * 3, [("int64", len(self.outs))] * 3
        numbers = ("float32", self.numbers)
        return [*[("tensor_map", None)] * (2 + MAPS), *operands, numbers, *outs, *[("int64", None)] * 8]

    @property
    def halves(self) -> int:
        """How many times 64 rows a warpgroup multiplies."""
        return self.tile[0] // ROWS if self.turns > 1 else max(self.tile[0] // (2 * ROWS), 1)

    @property
    def groups(self) -> int:
        """Number of warpgroups that multiply; one more loads."""
        return self.tile[0] // ROWS // self.halves * self.turns

    @property
    def band(self) -> int:
        """Rows of tiles that blocks compute together: their rows of A and columns of B then need about equal bytes."""
        return max(round(math.sqrt(MULTIPROCESSORS * self.tile[1] / self.tile[0]) / self.cluster), 1)

    @property
    def below(self) -> int:
        """2 if the second half of the sums lies below the first, in a transposed product. Else 1."""
        return self.sums if self.transposed else 1

    @property
    def own(self) -> tuple[int, int]:
        """Rows and columns of the results of a tile."""
        return self.tile[0] // self.below, self.tile[1] * self.below // self.sums

    @property
    def parts(self) -> int:
        """How many times 64 columns of results a warpgroup has."""
        return self.own[1] // COLUMNS

    @property
    def rest(self) -> int:
        """Columns of results after these, if they are stored transposed: a multiple of 8."""
        return self.own[1] % COLUMNS

    @property
    def loaded(self) -> int:
        """Columns of B in a stage: a multiple of 64 if its rows are contiguous."""
        return -(-self.tile[1] // COLUMNS) * COLUMNS if self.b_down else self.tile[1]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * (self.groups + 1)

    @property
    def stage_bytes(self) -> int:
        """Bytes of the parts of A and B that are multiplied at once."""
        return ROW * (self.tile[0] + self.loaded)

    @property
    def staging_bytes(self) -> int:
        """Bytes of results on their way to memory: one or two parts for each warpgroup."""
        return self.slots * PART * self.groups * any(is_mapped for _, is_mapped in self.outs)

    @property
    def slots(self) -> int:
        """How many parts of results a warpgroup has in shared memory: one if that makes room for a stage."""
        return 1 if self.transposed and self.tile[0] > 2 * ROWS else 2

    @property
    def stages(self) -> int:
        """Number of stages that fit into shared memory."""
        return min((MOST_SHARED - self.staging_bytes - 128 - self.sizes_bytes) // self.stage_bytes, 8)

    @property
    def sizes_bytes(self) -> int:
        """Bytes of the sizes of groups in shared memory."""
        return 4 * MOST_GROUPS * (self.is_grouped or self.by_k)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block: stages, results, two mbarriers for each stage, sizes of groups."""
        return self.stages * self.stage_bytes + self.staging_bytes + 16 * self.stages + self.sizes_bytes
