"""Choice of the kernel and grid for a scan along an axis, of how many blocks share a row; and the executable of scans.

A scan runs one kernel. If blocks share a contiguous row, it runs one kernel if a cluster of blocks can hold the row,
else two. If they share columns, it runs three, or one after clearing words in memory. GPUs differ only in whether they
have clusters, which add in the same order: results are bitwise equal on all GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

from ...base.dispatch import launcher_class
from ...base.dtypes import TABLE
from ...base.layout import Merged, merge_dimensions, row_major_strides
from ...runtime.launch_order import BUSY_BLOCKS as _BLOCKS
from ...runtime.launch_order import MAX_THREADS, ROW_BLOCKS, VECTOR_BYTES, WARP, LaunchOrder
from ...runtime.steps import Scratch, Step, Steps, ZeroBytes
from ..elementwise.geometry import RANKS, power_of_two
from ..elementwise.launch import Task, kernel_of
from ..elementwise.multi_launch import Passes
from ..specs import HEAD_BYTES, words_told
from .spec import ScanSpec

#: Several blocks share a row, which is then read twice, if there are fewer than `_BLOCKS` divided by this.
_FEW = 4
#: The fraction of their threads that is enough to keep it busy.
_ENOUGH = 0.9
#: Bytes that a thread loads at once, and the most bytes of partial results in all its lanes: they stay in registers.
_LOADED_BYTES, _PARTS_BYTES = 64, 128
#: Bytes of partial results that a thread merges with other threads, for its accesses of a row or for its columns.
_MERGED_BYTES = 16
#: Threads of a row, or of adjacent columns, if there are enough of them: a warp needs no barrier. In columns, a warp
#: holds one element of each of 32 columns, so its threads have nothing to merge with each other.
_NEAR = WARP
#: If there are too few columns to keep a GPU busy that way, blocks process fewer of them, down to this many bytes of a
#: row, with more threads, up to this many times as many. If that is not enough, several blocks share a column and it is
#: read twice, unless one block can process it in this many tiles.
_SEGMENT_BYTES, _MORE_THREADS, _FEW_TILES = 64, 8, 8
#: Blocks share a row of at least this many tiles; a shorter one takes less time than a second kernel.
_SHARED_TILES = 6
#: The most threads of a row, if they process it in at most so many tiles and there are few rows.
_LONG_ROW_THREADS, _LONG_ROW_TILES = 4 * MAX_THREADS, 1
#: Blocks share a row of more tiles of `MAX_THREADS` threads than this, a tile each, if few rows and few blocks, with up
#: to this many threads, are enough for it. GPUs that have clusters need one kernel then.
_CLUSTER_LEAST_TILES, _CLUSTER_THREADS = 2, 2 * MAX_THREADS
#: The most threads of blocks that process long columns alone; more threads would wait for each other in every tile.
_LONE_THREADS = MAX_THREADS
#: For blocks that share columns and read them once: threads; bytes of shared memory for the block's piece and its
#: threads' partial results (a multiprocessor has three times as much); bytes of a row that a block reads, at least and
#: at most; pieces of a group and groups of a unit: see `kernels.scan.scan`.
_CHAINED_THREADS, _CHAINED_BYTES, _STRIP_BYTES, _FAN = 256, 61440, (32, 128), 16


class Walk(NamedTuple):
    """The row and scanned dimensions of a kernel, with each operand's strides in elements, inputs first.

    Attributes:
        outer, inner: the row dimensions, and the scanned dimensions in scan order, from the first element on.
        sizes: bytes of the elements.
        alignments: the addresses modulo 16.
        inputs: number of operands that are inputs.
    """

    outer: Merged
    inner: Merged
    sizes: Sequence[int]
    alignments: Sequence[int]
    inputs: int

    @property
    def is_straight(self) -> bool:
        """True if all operands are contiguous along the scanned axis, either all forwards or all backwards."""
        return {*self.inner.strides} in ({(1,)}, {(-1,)})


class Launch(NamedTuple):
    """A kernel and its grid.

    Attributes:
        algorithm, width, runs: as in `ScanSpec`.
        grid, block: blocks and threads.
        outer: the dimensions of the rows that the kernel unravels.
        scalars: the integers after the dimensions, without `whole`.
        shared: bytes of shared memory of each block, in addition to the kernel's static shared memory.
        is_single: True if blocks that share a row process one tile each, and one cluster of blocks can do it.
    """

    algorithm: str
    width: int
    runs: int
    grid: tuple[int, int]
    block: tuple[int, int]
    outer: tuple[int, ...]
    scalars: tuple[int, ...]
    shared: int = 0
    is_single: bool = False


def told_rows(items: int, piece: int, bits: int) -> int:
    """Return how many rows of words blocks that share columns publish: one per piece, group and unit."""
    pieces = -(-items // piece)
    groups = -(-pieces >> bits)
    return pieces + groups - (-groups >> bits)


def launch_of(walk: Walk, parts: Sequence[str], shares: bool) -> Launch:
    """Return the kernel and grid, given the partial results' dtype names, and whether blocks may share a row."""
    nbytes = sum(TABLE[part].itemsize for part in parts)
    width = VECTOR_BYTES // max(walk.sizes[: walk.inputs])
    while width > 1 and width * max(nbytes, *walk.sizes) > 2 * VECTOR_BYTES:
        width //= 2
    items = prod(walk.inner.shape)
    most = _BLOCKS if shares else 0
    if walk.is_straight:
        own = _aligned(walk, width, _row_starts_alike)
        if items >= 2 * own:
            return _rows(walk, own, min(_runs(walk, own, nbytes), max(_MERGED_BYTES // nbytes, 1)), most)
    own = _column_access(walk, min(width, max(_MERGED_BYTES // nbytes, 1)))
    return _columns(
        walk, own, min(_runs(walk, own, nbytes), power_of_two(items)), most, nbytes, _column_access(walk, width)
    )


def _column_access(walk: Walk, width: int) -> int:
    """Return how many columns an access has, at most `width`."""
    outer = walk.outer
    if outer.shape[-1] == 1 or any(step[-1] != 1 for step in outer.strides):
        return 1
    while outer.shape[-1] % width:
        width //= 2
    return _aligned(walk, width, _column_is_aligned)


def _runs(walk: Walk, width: int, nbytes: int) -> int:
    """Return `ScanSpec.runs`, given the bytes of an element's partial results."""
    loaded = _LOADED_BYTES // (width * sum(walk.sizes[: walk.inputs]))
    return _below(max(min(loaded, _PARTS_BYTES // (width * nbytes)), 1))


def _aligned(walk: Walk, width: int, fits: Callable[[Walk, int, int], bool]) -> int:
    """Return how many elements an access has, at most `width`, so that each operand's accesses fit."""
    while width > 1 and not all(fits(walk, k, _access(walk, k, width)) for k in range(len(walk.sizes))):
        width //= 2
    return width


def _access(walk: Walk, k: int, width: int) -> int:
    """Return how many elements one of operand k's accesses of at most 16 bytes has."""
    return min(width, VECTOR_BYTES // walk.sizes[k])


def _row_starts_alike(walk: Walk, k: int, access: int) -> bool:
    """Return True if operand k's accesses and the first operand's begin at the same elements, in all rows."""
    starts = [walk.alignments[j] // walk.sizes[j] for j in (0, k)]
    pairs = [starts, *zip(walk.outer.strides[0], walk.outer.strides[k], strict=True)]
    return all((one - other) % access == 0 for one, other in pairs)


def _column_is_aligned(walk: Walk, k: int, access: int) -> bool:
    """Return True if operand k's columns start at access boundaries, in all rows of columns."""
    steps = [*walk.outer.strides[k][:-1], *walk.inner.strides[k]]
    return all(n % access == 0 for n in (walk.alignments[k] // walk.sizes[k], *steps))


def _rows(walk: Walk, width: int, runs: int, most: int) -> Launch:
    columns, positions = walk.inner.shape[0], prod(walk.outer.shape)
    vectors = -(-columns // width)
    # Use as few threads per row as have all their accesses, at most a warp; use more if there are few rows.
    x = min(_below(max(vectors // runs, 1)), _NEAR, MAX_THREADS)
    while x < min(MAX_THREADS, vectors) and positions * x < _BLOCKS * MAX_THREADS:
        x *= 2
    if columns <= _LONG_ROW_TILES * _LONG_ROW_THREADS * width * runs:
        # More threads than usual process such a row in fewer tiles.
        while x < _LONG_ROW_THREADS and x * width * runs < columns and positions * x < _BLOCKS * MAX_THREADS:
            x *= 2
    single = _cluster_threads(positions, columns, width * runs) if most else 0
    x = single or x
    y = max(MAX_THREADS // x, 1)
    blocks = -(-positions // y)
    # If rows share a block, they are not split into pieces.
    piece = single * width * runs or _piece(columns, x * width * runs, blocks, most if y == 1 else 0)
    # Elements of each row that are certainly in complete accesses, for any start; all, if rows start at access
    # boundaries.
    first = walk.alignments[0] // walk.sizes[0] - (columns - 1 if walk.inner.strides[0] == (-1,) else 0)
    begins_alike = all(n % width == 0 for n in (first, *walk.outer.strides[0]))
    sure = columns // width * width if begins_alike else max(columns - 2 * width + 2, 0)
    scalars = (positions, columns, piece, sure)
    grid = (blocks, -(-columns // piece))
    return Launch("scan_rows", width, runs, grid, (x, y), walk.outer.shape, scalars, is_single=single > 0)


def _cluster_threads(positions: int, columns: int, each: int) -> int:
    """Return how many threads blocks have that share a row, a tile each, in one cluster; 0 if they should not.

    `each` is the number of elements that a thread processes in a tile.
    """
    if columns <= _CLUSTER_LEAST_TILES * MAX_THREADS * each:
        return 0
    threads = MAX_THREADS
    while threads * each * ROW_BLOCKS < columns:
        threads *= 2
    is_enough = threads <= _CLUSTER_THREADS and positions * columns <= _BLOCKS * MAX_THREADS * each
    return threads if is_enough else 0


def _columns(walk: Walk, width: int, runs: int, most: int, part_bytes: int, widest: int) -> Launch:
    """Return the launch for columns; `widest` is the access width of blocks that share columns.

    `part_bytes` is the size of an element's partial results; the other arguments are as in `launch_of`.
    """
    outer, inner = walk.outer, walk.inner
    items, positions = prod(inner.shape), prod(outer.shape) // width
    near = abs(outer.strides[0][-1]) <= abs(inner.strides[0][-1])
    # Adjacent threads read adjacent elements in memory.
    x = min(power_of_two(positions), _NEAR, MAX_THREADS) if near else 1
    few, threads = _alone(positions, x, width * max(walk.sizes[: walk.inputs]))
    is_enough = -(-positions // few) * threads >= _ENOUGH * MAX_THREADS * most
    is_short = items * few <= _FEW_TILES * threads * runs
    if near and most and not is_short and (not is_enough or threads > _LONE_THREADS):
        chained = _chained(walk, widest, part_bytes)
        if chained is not None:
            return chained
    if is_enough or is_short:
        x = few
    else:
        threads = MAX_THREADS
    y = min(threads // x, power_of_two(-(-items // runs)))
    x = max(MAX_THREADS // y, x)
    blocks = -(-positions // x)
    piece = _piece(items, y * runs, blocks, most if x * y == MAX_THREADS else 0)
    shape = (*outer.shape[:-1], outer.shape[-1] // width)
    grid, scalars = (blocks, -(-items // piece)), (positions, items, piece, 0)
    return Launch("scan_columns", width, runs, grid, (x, y), shape, scalars)


def _chained(walk: Walk, width: int, part_bytes: int) -> Launch | None:
    """Return the launch of blocks that share columns and read them once; None if rows have too few adjacent bytes."""
    outer, items, nbytes = walk.outer, prod(walk.inner.shape), width * max(walk.sizes[: walk.inputs])
    positions, (least, most) = prod(outer.shape) // width, _STRIP_BYTES
    is_together = all(step[-1] == 1 for step in outer.strides)
    if not is_together or outer.shape[-1] * max(walk.sizes[: walk.inputs]) < least:
        return None
    x = min(power_of_two(positions), max(most // nbytes, 1), _NEAR)
    y, each = _CHAINED_THREADS // x, width * sum(walk.sizes[: walk.inputs])
    runs = max((_CHAINED_BYTES // _CHAINED_THREADS - width * part_bytes) // each, 1)
    piece = y * runs
    shape, strips = (*outer.shape[:-1], outer.shape[-1] // width), -(-positions // x)
    scalars, shared = (positions, items, piece, _FAN.bit_length() - 1), _CHAINED_THREADS * runs * each
    return Launch("scan_chained", width, runs, (strips * -(-items // piece), 1), (x, y), shape, scalars, shared)


def _alone(positions: int, x: int, nbytes: int) -> tuple[int, int]:
    """Return (accesses of a row for each block, its threads) so that no two blocks need to share a column.

    Args:
        positions: number of accesses of a row.
        x: accesses that a block would process.
        nbytes: bytes of an access.
    """
    threads, wanted = MAX_THREADS, _ENOUGH * MAX_THREADS * _BLOCKS
    while x * nbytes > _SEGMENT_BYTES and -(-positions // x) * 2 * threads < wanted:
        x //= 2
    while threads < _MORE_THREADS * MAX_THREADS and -(-positions // x) * threads < wanted:
        threads *= 2
    return x, threads


def _piece(items: int, tile: int, blocks: int, most: int) -> int:
    """Return how many elements of a row each block processes, in whole tiles, if `blocks` blocks process a row each."""
    tiles = -(-items // tile)
    shares = min(-(-most // blocks), tiles) if _FEW * blocks < most and tiles >= _SHARED_TILES else 1
    return -(-tiles // max(shares, 1)) * tile


def _below(number: int) -> int:
    """Return the largest power of two that is at most this number."""
    return 1 << number.bit_length() - 1


# ---------------------------------------------------------------- executable

#: The strides of an operand: along the rows' dimensions, along the scanned dimensions, and from piece to piece.
Operand = tuple[tuple[int, ...], tuple[int, ...], int]


@dataclass(kw_only=True, unsafe_hash=True)
class ScanTask(Task):
    """A scan of arrays with given layouts, with one output. Its formula is a `Scan`.

    Attributes:
        axes: the scanned axes, in C order.
        reverse: True if it goes from the last element to the first.
    """

    axes: tuple[int, ...]
    reverse: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the partial results' dtypes."""
        return (self.compute,) * len(self.formula.start)


class ScanExecutable(Passes):
    """A scan, ready for arrays with the layouts of its task and any alignment."""

    task: ScanTask

    def __init__(self, task: ScanTask):
        super().__init__(task)
        if not self.empty:
            self._walk, self._offsets = _walk(task)

    def _spec(self, stage: str) -> ScanSpec:
        """Return the spec of a pass's kernel, without its geometry."""
        task = self.task
        parts, (reads, writes) = task.parts, task.operand_dtypes
        return ScanSpec(
            algorithm="scan_columns",
            formula=task.formula,
            reads={"second": parts, "last": (*reads, *parts)}.get(stage, reads),
            writes={"first": parts, "second": parts, "chained": (*writes, "uint64")}.get(stage, writes),
            parts=parts,
            outer=1,
            inner=1,
            wide=task.is_wide(),
            compute=task.compute,
            stage=stage,
        )

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """Return the launches for arrays with this alignment."""
        task, many = self.task, len(self.inputs)
        offsets = self._offsets
        arrays = [array for array, _ in task.pointers]
        moved = [(key[array] + offset) % 16 for array, offset in zip(arrays, offsets, strict=True)]
        walk, parts = self._walk._replace(alignments=moved), task.parts
        launch, count, (outer, inner) = launch_of(walk, parts, True), len(parts), self._walk[:2]
        reverse = launch.algorithm == "scan_rows" and inner.strides[0] == (-1,)
        if reverse:  # such rows are addressed from their end
            behind = inner.shape[0] - 1
            offsets = [offset - behind * size for offset, size in zip(offsets, walk.sizes, strict=True)]
            inner = inner._replace(strides=((1,),) * len(offsets))
        steps = [(*each, 0) for each in zip(outer.strides, inner.strides, strict=True)]
        ins, outs = steps[: walk.inputs], steps[walk.inputs :]
        pointers = list(zip(arrays, offsets, strict=True))
        sources, targets = pointers[: walk.inputs], pointers[walk.inputs :]
        pieces = launch.grid[1]
        if launch.algorithm == "scan_chained":
            words = ((0,) * len(outer.shape), (0,) * len(inner.shape), 0)
            pointers.append((many + len(self.outputs), 0))
            return [self._order("chained", launch, inner.shape, ins, [*outs, words], (*key, 0), pointers, ())]
        if launch.is_single and pieces <= launcher_class().limits(self.device).cluster:
            shared = launch._replace(algorithm="scan_cluster", grid=(launch.grid[0] * pieces, 1))
            return [
                self._order("cluster", shared, inner.shape, ins, outs, key, pointers, self._pairs(), reverse, pieces)
            ]
        if pieces == 1:
            return [self._order("whole", launch, inner.shape, ins, outs, key, pointers, self._pairs(), reverse)]
        # Partial results are in scratch memory. For rows, the results of one row are adjacent; for columns, the results
        # of one piece are.
        rows = prod(outer.shape)
        near, apart = (pieces, 1) if launch.algorithm == "scan_rows" else (1, rows)
        lie = [(tuple(near * n for n in row_major_strides(outer.shape, 1)), (0,) * len(inner.shape), apart)] * count
        scratch = [(many + k, 0) for k in range(count)]
        moved_targets = [(count + array, offset) for array, offset in targets]
        keys = self._alignments(key, 3)
        targets = [*sources, *scratch, *moved_targets]
        first = self._order("first", launch, inner.shape, ins, lie, keys[0], [*sources, *scratch], (), reverse)
        last = self._order("last", launch, inner.shape, [*ins, *lie], outs, keys[2], targets, (), reverse)
        if launch.algorithm == "scan_rows":  # whose last pass merges the totals itself
            return [first, last]
        # The last piece is not followed by another and needs no entry.
        own = Walk(
            Merged((rows,), ((near,),) * (2 * count)),
            Merged((pieces - 1,), ((apart,),) * (2 * count)),
            [TABLE[part].itemsize for part in parts] * 2,
            [0] * (2 * count),
            count,
        )
        scan, both = launch_of(own, parts, False), [((near,), (apart,), 0)] * count
        totals = [(k, 0) for k in range(count)] * 2
        return [first, self._order("second", scan, own.inner.shape, both, both, keys[1], totals, ()), last]

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """Return the arrays' addresses modulo 16 for each pass; partial results have address 0."""
        many, parts = len(self.inputs), (0,) * len(self.task.formula.start)
        first, last = (*key[:many], *parts), (*key[:many], *parts, *key[many:])
        return [key] if passes == 1 else [first, *[parts] * (passes - 2), last]

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """Return the executable; words that blocks publish results in are cleared first."""
        order = orders[0]
        if order.kernel.stage != "chained":
            return super()._executable(key, orders)
        kernel, scratch, arrays = kernel_of(order), Scratch(), len(self.inputs) + len(self.outputs)
        positions, items, piece, bits, _ = order.constants[-5:]
        words = positions * told_rows(items, piece, bits) * words_told(order.kernel.parts, order.kernel.width)
        nbytes = HEAD_BYTES + 8 * words
        number = arrays + scratch.part(nbytes)
        steps = [Step(ZeroBytes(nbytes, self.device), (number,)), Step(kernel, (*range(arrays), number))]
        return Steps(steps, scratch, self.close, partial(self._fits, key), algorithm=kernel.algorithm)

    def _kept_results(self) -> int:
        return prod(self._walk.outer.shape)

    def _operands(self, parts: Sequence[int], passes: int) -> Sequence[tuple[int, ...]]:
        inputs, outputs = len(self.inputs), len(self.outputs)
        given = (*range(inputs), *parts)
        return given, *[(*parts,)] * (passes - 2), (*given, *range(inputs, inputs + outputs))

    def _order(
        self,
        stage: str,
        launch: Launch,
        inner: tuple[int, ...],
        ins: Sequence[Operand],
        outs: Sequence[Operand],
        alignment: tuple[int, ...],
        pointers: Sequence[tuple[int, int]],
        pairs: Sequence[tuple[int, ...]],
        reverse: bool = False,
        cluster: int = 1,
    ) -> LaunchOrder:
        """Return the launch of a pass over rows of the shape `inner`."""
        # Kernels are compiled for few ranks: dimensions of length 1 fill up the others.
        ranks = [next(rank for rank in RANKS if rank >= len(shape)) for shape in (launch.outer, inner)]
        before, between = ((0,) * (rank - len(shape)) for rank, shape in zip(ranks, (launch.outer, inner), strict=True))
        steps = [n for own, step, apart in (*ins, *outs) for n in (*before, *own, *between, *step, apart)]
        shapes = (*[1] * len(before), *launch.outer, *[1] * len(between), *inner)
        return LaunchOrder(
            kernel=self._spec(stage)._replace(
                algorithm=launch.algorithm,
                outer=ranks[0],
                inner=ranks[1],
                width=launch.width,
                runs=launch.runs,
                near=launch.block[0],
                threads=prod(launch.block),
                reverse=reverse,
            ),
            device=self.device,
            grid=launch.grid,
            block=launch.block,
            alignment=alignment,
            pointers=tuple(pointers),
            constants=(*steps, *shapes, *launch.scalars, 1),
            pairs=tuple(pairs),
            shared=launch.shared,
            cluster=cluster,
            follows=launch.algorithm == "scan_rows" and stage == "last",
        )

    # ------------------------------------------------------------ overlap

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        return self._in_place(i, j, source, target)

    def _shares(self, i: int, j: int) -> str:
        name = self.names[i]
        return f"out overlaps {name} in part: pass {name} itself, or memory that does not overlap it"


def _walk(task: ScanTask) -> tuple[Walk, list[int]]:
    """Return how a task's operands are stepped through, and the byte offset of each operand's first scanned element.

    The alignment is not known yet.
    """
    sizes, steps = task.sizes, task.steps
    others = [d for d in range(len(task.shape)) if d not in task.axes]
    lengths, rest = ([task.shape[d] for d in axes] for axes in (task.axes, others))
    # The last operand, the output, defines the order of the scan.
    inner = merge_dimensions(lengths, [tuple(step[d] for d in task.axes) for step in steps], 1, leader=len(steps) - 1)
    outer = merge_dimensions(rest, [tuple(step[d] for d in others) for step in steps], 1, leader=0)
    offsets = [offset for _, offset in task.pointers]
    if task.reverse:
        for k, own in enumerate(inner.strides):
            offsets[k] += sizes[k] * sum((n - 1) * step for n, step in zip(inner.shape, own, strict=True))
        inner = inner._replace(strides=tuple(tuple(-step for step in own) for own in inner.strides))
    return Walk(outer, inner, sizes, [0] * len(steps), len(task.reads)), offsets
