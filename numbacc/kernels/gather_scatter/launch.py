"""The gradient of gathers: how rows of dy are added to the elements of dx that they came from.

Nothing here depends on the indices' values or on the GPU: a captured graph uses the indices of each launch, and results
are bitwise equal on all GPUs.

* If at most `_FEW` indices can select an element of dx, each thread searches all of them: one launch, which reads dy
  and writes dx once.
* Otherwise the list of all indices is sorted by at most 10 bits per pass, with two launches and those of a scan for
  each pass; a million keys need two passes. `bounds` then finds each key's segment. For a list of n entries, a pass
  moves about 24 n bytes, plus 8 bytes for each key and 4 for each of up to 2^20 counts.
* If there are many times more rows than a chunk has, there are chunks of 16 rows, of 16 chunks, and so on: as many
  levels as leave at most 63 chunks on top, with one launch per level. Their sums take a 15th of dy's elements in
  scratch memory, in the compute dtype; only the sums of chunks with a single key are written.
* Last, one launch sums every element of dx. Adjacent threads handle 16 bytes each of the contiguous elements of dx and
  dy; the y dimension of the grid handles the elements of dx that are not adjacent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ...base.dtypes import TABLE, info
from ...base.layout import Merged, layout, merge_dimensions, row_major_strides, view
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, WARP, LaunchOrder
from ...runtime.steps import ABSENT, Scratch, Step, Steps
from ..elementwise.geometry import RANKS, row_grid
from ..elementwise.launch import Task, kernel_of
from ..elementwise.multi_launch import Passes
from ..scan.launch import ScanExecutable, ScanTask
from ..scan.spec import SCANS
from .spec import DIGIT_BITS, ScatterSpec, SortSpec

#: The most indices that a thread searches.
_FEW = 32
#: The base-2 logarithm of a chunk's size, in rows or in chunks one level below. If there are at least `_TOP` times that
#: many chunks, there is a level of larger chunks above them.
BITS, _TOP = 4, 4
#: The most blocks that sort a list, and the least number of entries for each.
_BLOCKS, _TILE = 1024, 256
#: The most bits of a digit.
_DIGIT = DIGIT_BITS


class Scatter(NamedTuple):
    """The entries of a list that contribute to an element of dx. Strides are in elements.

    Attributes:
        listed: the shape of the list.
        dy, indices: the strides along it of an entry's elements of dy, and of its index.
        keys: the strides of the number that the index, times `apart`, is added to.
        apart: the factor of an index in the resulting number.
        numbers: how many different numbers result.
        beside: the strides of (dy, indices, number) along dx's axes: an element is the sum of the entries of its
            number.
    """

    listed: tuple[int, ...]
    dy: tuple[int, ...]
    indices: tuple[int, ...]
    keys: tuple[int, ...]
    apart: int
    numbers: int
    beside: tuple[tuple[int, ...], ...]

    @property
    def entries(self) -> int:
        """Number of entries of the list."""
        return prod(self.listed)


class Sorting(NamedTuple):
    """The parameters of sorting a list.

    Attributes:
        tile, blocks: entries per block, and number of blocks.
        shifts: for each pass, the number of bits below its digit.
        bins: number of different digits.
    """

    tile: int
    blocks: int
    shifts: tuple[int, ...]
    bins: int

    @property
    def grid(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Blocks and threads."""
        return (self.blocks, 1), (WARP, 1)


class ScatterRows(NamedTuple):
    """A grid over dx, or over chunks' sums.

    Attributes:
        merged: the dimensions, at least two, and each operand's strides.
        width: elements of the last dimension that a thread handles.
    """

    merged: Merged
    width: int

    @property
    def outer(self) -> tuple[int, ...]:
        """The dimensions of the rows."""
        return self.merged.shape[:-1]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return prod(self.outer)

    @property
    def columns(self) -> int:
        """Length of a row."""
        return self.merged.shape[-1]

    @property
    def grid(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Blocks and threads."""
        return row_grid(self.columns // self.width, self.rows, 1)


def is_few(line: Scatter) -> bool:
    """Return True if threads should search the list."""
    return line.entries <= _FEW


def sorting(count: int, numbers: int) -> Sorting:
    """Return the parameters of sorting this many entries by keys from 0 to `numbers`."""
    bits = numbers.bit_length()
    passes = -(-bits // _DIGIT)
    digit = -(-bits // passes)
    blocks = min(-(-count // _TILE), _BLOCKS)
    # Tiles are whole warps of entries, so that only the last warp is incomplete.
    tile = -(-count // (blocks * WARP)) * WARP
    return Sorting(tile, -(-count // tile), tuple(range(0, bits, digit)), 1 << digit)


def levels(count: int) -> list[int]:
    """Return the number of chunks of a list, level by level."""
    found: list[int] = []
    while count >> BITS >= _TOP:
        count >>= BITS
        found.append(count)
    return found


def in_c_order(scatter: Scatter) -> Merged:
    """Return the list's merged dimensions, with the strides of (indices, dy, key)."""
    steps = (row_major_strides(scatter.listed, 1), scatter.indices, scatter.dy, scatter.keys)
    merged = merge_dimensions(scatter.listed, steps, 1, leader=0)
    return merged._replace(strides=merged.strides[1:])


def over_few(
    shape: Sequence[int], line: Scatter, out: Sequence[int], sizes: Sequence[int], alignments: Sequence[int]
) -> ScatterRows:
    """Return the grid of `scatter_few`, with the strides of (dy, indices, number, dx).

    Args:
        shape: the shape of dx.
        line: the list.
        out: the strides of dx.
        sizes: bytes of an element of dy and of dx.
        alignments: the addresses of dy and dx modulo 16.
    """
    merged = _two(merge_dimensions(shape, (*line.beside, out), 1, leader=3))
    dy, indices, number, target = merged.strides
    width = _width(merged.shape[-1], (dy, target), line.dy, sizes, alignments)
    return ScatterRows(merged, width if not indices[-1] and not number[-1] else 1)


def over_rows(
    shape: Sequence[int], whole: Scatter, out: Sequence[int], sizes: Sequence[int], alignments: Sequence[int]
) -> ScatterRows:
    """Return the grid of `scatter_rows`, with the strides of (dy, chunks' sums, number, dx); see `over_few`."""
    dy, _, number = whole.beside
    merged = _two(merge_dimensions(shape, (dy, number, out), 1, leader=2))
    dy, number, target = merged.strides
    beside = [0 if step else n for n, step in zip(merged.shape, number, strict=True)]
    sums = row_major_strides([n or 1 for n in beside], 1)
    part = tuple(step if n > 1 else 0 for n, step in zip(beside, sums, strict=True))
    width = _width(merged.shape[-1], (dy, target), whole.dy, sizes, alignments)
    return ScatterRows(Merged(merged.shape, (dy, part, number, target)), 1 if number[-1] else width)


def sums_of(rows: ScatterRows) -> int:
    """Return how many sums a chunk has: one for each element of dx with the same number."""
    return prod(n for n, step in zip(rows.merged.shape, rows.merged.strides[2], strict=True) if not step)


def over_chunks(rows: ScatterRows, chunks: int) -> ScatterRows:
    """Return the grid of `scatter_chunks`, given `over_rows`: the strides of (dy, sums below, chunk, sums)."""
    shape, (dy, part, number, _) = rows.merged
    kept = [d for d, step in enumerate(number) if not step]
    lengths, dy, part = (tuple([steps[d] for d in kept]) for steps in (shape, dy, part))
    none = (0,) * len(kept)
    return ScatterRows(
        _two(Merged((chunks, *lengths), ((0, *dy), (0, *part), (1, *none), (sums_of(rows), *part)))), rows.width
    )


def bounds_grid(numbers: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return blocks and threads, with one thread for each number and one more."""
    return (-(-(numbers + 1) // MAX_THREADS), 1), (MAX_THREADS, 1)


def _two(merged: Merged) -> Merged:
    """Return the dimensions extended to at least two, as kernels unravel at least one."""
    if len(merged.shape) > 1:
        return merged
    return Merged((1, *merged.shape), tuple((0, *step) for step in merged.strides))


def _width(
    columns: int,
    walked: Sequence[tuple[int, ...]],
    listed: Sequence[int],
    sizes: Sequence[int],
    alignments: Sequence[int],
) -> int:
    """Return how many elements an access has, if they are adjacent and aligned throughout dy and dx; else 1."""
    if any(step[-1] != 1 for step in walked):
        return 1
    width = VECTOR_BYTES
    for size, own, step, more in zip(sizes, alignments, walked, (listed, ()), strict=True):
        distances = (columns, *step[:-1], *more)
        width = min(width, max(gcd(VECTOR_BYTES, own, *(size * n for n in distances)) // size, 1))
    return width


# ---------------------------------------------------------------- executable

#: The numbers of the arrays, and of the first part of scratch memory.
_DY, _INDICES, _OUT, _SCRATCH = range(4)


@dataclass(kw_only=True, unsafe_hash=True)
class ScatterTask(Task):
    """The gradient with respect to an array that was gathered from by index. The inputs are dy and the indices.

    Attributes:
        length: number of elements of the axis; indices from -length to length - 1 are valid.
        line: for each element of dx, the list of the indices that could select it.
        whole: the list of all indices.
        adds: whether sums are added to the old values of dx.
    """

    length: int
    line: Scatter
    whole: Scatter
    is_whole: bool = True
    adds: bool = False

    @property
    def is_empty(self) -> bool:
        """True if dx is empty."""
        return not self.outputs[0].size


class _Launch(NamedTuple):
    """A launch and its arrays.

    Attributes:
        order: the launch.
        operands: the numbers of its arrays.
    """

    order: LaunchOrder
    operands: tuple[int, ...]


class ScatterExecutable(Passes):
    """The gradient of a gather, ready for arrays with the layouts of its task and any alignment."""

    task: ScatterTask

    def __init__(self, task: ScatterTask):
        super().__init__(task)
        (out,) = task.outputs
        row, own = info(out.dtype), info(task.inputs[_DY].dtype)
        self._dtype, self._target, self._shape = own.name, row.name, out.shape
        self._sizes = own.itemsize, row.itemsize
        self._steps = tuple(
            step // row.itemsize if n > 1 else 0 for n, step in zip(out.shape, out.strides, strict=True)
        )
        self._is_few = self.empty or is_few(task.line)
        if not self._is_few:
            self._plan()

    def _plan(self) -> None:
        """Decide how to sort, and the contents of scratch memory: (keys, offsets) twice, counts, bounds, sums."""
        whole, scratch = self.task.whole, Scratch()
        self._sorting, self._levels = sorting(whole.entries, whole.numbers), levels(whole.entries)
        rows = self._rows((0, 0, 0))
        counts, sums = self._sorting.bins * self._sorting.blocks, sums_of(rows) * sum(self._levels)
        self._wide = self.task.is_wide(whole.entries, whole.numbers, counts, sums)
        size = 8 if self._wide else 4
        lists = [whole.entries] * (2 if len(self._sorting.shifts) == 1 else 4)
        parts = [_SCRATCH + scratch.part(size * n) for n in (counts, whole.numbers + 1, *lists)]
        self._counts, self._bounds, *pairs = parts
        self._lists = [(pairs[k], pairs[k + 1]) for k in range(0, len(pairs), 2)]
        self._sums = _SCRATCH + scratch.part(TABLE[self.task.compute].itemsize * sums) if sums else ABSENT
        self._scratch = scratch
        #: The scan of the counts, after each `count`.
        self._scan = ScanExecutable(_scan_of(counts, size, self.device))

    def _rows(self, key: Sequence[int]) -> ScatterRows:
        alignments = key[_DY], key[_OUT]
        return over_rows(self._shape, self.task.whole, self._steps, self._sizes, alignments)

    # ------------------------------------------------------------ launches

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """Return the launches for arrays with this alignment, without the scans."""
        return [launch.order for launch in self._launches(key)]

    def _launches(self, key: tuple[int, ...]) -> list[_Launch]:
        if self._is_few:
            return [self._few(key)]
        return [*self._sorted(key), *self._added(key)]

    def _launch_of(
        self,
        kernel: Any,
        key: Sequence[int],
        grid: tuple[tuple[int, int], tuple[int, int]],
        operands: tuple[int, ...],
        constants: Sequence[int],
        moved: int = 0,
        pairs: tuple[tuple[int, ...], ...] = (),
    ) -> _Launch:
        """Return a launch on arrays of these numbers, the last of them at an offset of `moved` bytes."""
        alignment = tuple([key[k] if 0 <= k < len(key) else 0 for k in operands])
        pointers = tuple([(k, moved if k == len(operands) - 1 else 0) for k in range(len(operands))])
        return _Launch(LaunchOrder(kernel, self.device, *grid, alignment, pointers, tuple(constants), pairs), operands)

    def _spec(self, algorithm: str, rows: ScatterRows, wide: bool, indices: str = "", listed: int = 0) -> ScatterSpec:
        return ScatterSpec(
            algorithm=algorithm,
            dtype=self._dtype,
            indices=indices,
            rank=_rank(rows.outer),
            listed=listed,
            wide=wide,
            compute=self.task.compute,
            width=rows.width,
            bits=BITS,
            target=self.task.compute if algorithm == "scatter_chunks" else self._target,
            adds=self.task.adds and algorithm != "scatter_chunks",
        )

    def _few(self, key: tuple[int, ...]) -> _Launch:
        line = self.task.line
        rows = over_few(self._shape, line, self._steps, self._sizes, (key[_DY], key[_OUT]))
        listed = in_c_order(line)
        rank = _rank(listed.shape)
        kernel = self._spec("scatter_few", rows, self.task.is_wide(), info(self.inputs[_INDICES].dtype).name, rank)
        (*walked, target), outer = _filled(rows.merged._replace(shape=rows.outer), kernel.rank)
        (indices, dy, _), lengths = _filled(listed, rank)
        steps = (*_flat(walked), *dy, *indices, *target)
        scalars = (rows.rows, rows.columns, line.entries, self.task.length, 1)
        arrays = (_DY, _INDICES, _OUT)
        return self._launch_of(
            kernel, key, rows.grid, arrays, (*steps, *outer, *lengths, *scalars), pairs=self._pairs()
        )

    def _sorted(self, key: tuple[int, ...]) -> list[_Launch]:
        """Return the launches that sort the list by keys, and find where each key's entries begin in it."""
        whole, sort, wide, found = self.task.whole, self._sorting, self._wide, []
        index, before = info(self.inputs[_INDICES].dtype).name, [_INDICES]
        entries = in_c_order(whole)
        for number, shift in enumerate(sort.shifts):
            rank = _rank(entries.shape)
            steps, lengths = _filled(entries, rank)
            scalars = (whole.entries, sort.tile, sort.blocks, shift, sort.bins)
            constants = (*_flat(steps), *lengths, *scalars, self.task.length, whole.apart, whole.numbers)
            after = self._lists[number % len(self._lists)]
            arrays = {"count": (before[0], self._counts), "place": (*before, self._counts, *after)}
            for algorithm, operands in arrays.items():
                kernel = SortSpec(algorithm, index, rank, wide)
                found.append(self._launch_of(kernel, key, sort.grid, operands, constants))
            # From here on, keys and offsets are available.
            index, before, entries = "", [*after], Merged((whole.entries,), ((0,), (0,), (0,)))
        grid = bounds_grid(whole.numbers)
        kernel = SortSpec("bounds", "", 1, wide)
        found.append(self._launch_of(kernel, key, grid, (before[0], self._bounds), (whole.entries, whole.numbers)))
        return found

    def _added(self, key: tuple[int, ...]) -> list[_Launch]:
        """Return the launches that sum chunks, level by level, and then segments."""
        rows, bits, found = self._rows(key), BITS, []
        each = sums_of(rows)
        keys, offsets = self._lists[(len(self._sorting.shifts) - 1) % len(self._lists)]
        before = top = 0
        for chunks in self._levels:
            below = over_chunks(rows, chunks)
            kernel = self._spec("scatter_chunks", below, self._wide)
            arrays = (_DY, offsets, keys, self._sums, self._sums)
            moved = before * each * TABLE[self.task.compute].itemsize
            constants = self._constants(below, kernel.rank, each, top)
            found.append(self._launch_of(kernel, key, below.grid, arrays, constants, moved))
            before, top = before + chunks, top + bits
        kernel = self._spec("scatter_rows", rows, self._wide)
        arrays = (_DY, offsets, self._bounds, self._sums, _OUT)
        found.append(self._launch_of(kernel, key, rows.grid, arrays, self._constants(rows, kernel.rank, each, top)))
        return found

    def _constants(self, rows: ScatterRows, rank: int, each: int, top: int) -> tuple[int, ...]:
        steps, outer = _filled(rows.merged._replace(shape=rows.outer), rank)
        whole = self.task.whole
        return (*_flat(steps), *outer, rows.rows, rows.columns, whole.entries, each, top, whole.numbers, 1)

    # ------------------------------------------------------------ together

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """Return the arrays' addresses modulo 16 for each pass."""
        return [launch.order.alignment for launch in self._launches(key)]

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """Return the executable, with a scan after each `count`."""
        if self._is_few:
            return super()._executable(key, orders)
        steps = []
        for order, (_, operands) in zip(orders, self._launches(key), strict=True):
            steps.append(Step(kernel_of(order), operands))
            if order.kernel.algorithm == "count":
                steps.append(Step(self._scan.choose((0, 0)), (self._counts, self._counts)))
        return Steps(steps, self._scratch, self.close, partial(self._fits, key))


def _rank(shape: Sequence[int]) -> int:
    """Return the rank of kernels for this many dimensions."""
    return next(rank for rank in RANKS if rank >= len(shape))


def _filled(merged: Merged, rank: int) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Return each operand's strides and the lengths, padded in front with dimensions of length 1 up to the rank."""
    more = rank - len(merged.shape)
    return [(*(0,) * more, *step) for step in merged.strides], (*(1,) * more, *merged.shape)


def _flat(steps: Sequence[Sequence[int]]) -> list[int]:
    return [n for step in steps for n in step]


def _scan_of(count: int, size: int, device: int) -> ScanTask:
    """Return the task of an inclusive sum of this many counts, in place."""
    name = f"int{8 * size}"
    counts = layout((count,), (size,), TABLE[name].numpy, device)
    own = view(0, 0, counts.strides, counts.shape)
    return ScanTask(
        op="",
        formula=SCANS["cumsum"],
        reference=np.cumsum,
        names=("", ""),
        inputs=(counts,),
        outputs=(counts,),
        shape=counts.shape,
        axes=(0,),
        reads=(own,),
        writes=(own,),
        out_given=True,
        compute=name,
    )
