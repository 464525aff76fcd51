"""Launches that normalize rows: how rows are divided among threads and blocks, and which kernels run on them.

Functions of sizes and of the constants below decide where rows are kept; adjust the constants after measuring. The
decision depends on the GPU only if rows are longer than a multiprocessor can keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import gcd, prod
from typing import Any, NamedTuple

from ...base.dispatch import launcher_class
from ...base.dtypes import TABLE
from ...base.layout import Layout, Merged, layout, merge_dimensions, row_major_strides, view
from ...functions.formula import Formula
from ...functions.reduction_formula import ReductionFormula
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, WARP, LaunchOrder, Limits
from ...runtime.steps import Scratch, Step, Steps
from ..elementwise.geometry import RANKS, power_of_two
from ..elementwise.launch import MapExecutable, MapTask, Task, TaskOperation, kernel_of
from ..elementwise.multi_launch import KernelWithScratch
from ..reduce.functions import REDUCTIONS
from ..reduce.launch import ReduceExecutable, ReduceTask
from ..specs import words_of
from .functions import GRADIENTS
from .spec import ACROSS_THREADS, ROW_WARPS, SHARED_THREADS, RowSpec, SumsSpec, word_bytes

# ---------------------------------------------------------------- threads, blocks and where rows are kept

#: For rows kept in registers, the most bytes that a thread keeps, the most elements that these and the weights make up,
#: and the most threads of a row.
_REGISTER_BYTES, _NUMBERS, _REGISTER_THREADS = 4 * VECTOR_BYTES, 96, 256
#: The most threads of a row of operations that keep three inputs.
_REGISTER_THREADS_OF_THREE = 512
#: The most accesses of each input that a thread has in flight.
_RUNS = 8
#: If only reduced values are written: how many times as many bytes a thread keeps in registers, and the least number of
#: threads that read consecutive accesses when a thread makes more of them: 64 bytes, half a cache line.
_REDUCTION, _NEIGHBOURS = 2, 4
#: The limits for rows in shared memory, with more threads and fewer registers each: bytes, elements, accesses.
_SHARED_BYTES, _SHARED_NUMBERS, _SHARED_RUNS = 2 * VECTOR_BYTES, 48, 4
#: Threads of a block for short rows, and for the longest rows.
_THREADS, _MOST_THREADS = MAX_THREADS, 1024
#: Threads that fit on a multiprocessor with 64 registers each. For fewer registers, see `SHARED_THREADS`.
_RESIDENT = 1024
#: The most shared memory that a block uses in addition to rows: partial results of its threads, and the GPU's reserve.
#: If adjacent threads process adjacent rows, each thread has its own partial results.
_OWN_BYTES, _ACROSS_BYTES = 8192, 24576
#: The most bytes of a row that a block of a cluster keeps if there are enough blocks, and the least it keeps if rows
#: are so few that blocks of a cluster share them to keep more multiprocessors busy.
_CLUSTER_BYTES, _SHARE_BYTES = 65536, 8192
#: If clusters make at most this many blocks, the GPU is mostly idle; rows with this many bytes per block then use all
#: of it.
_IDLE_BLOCKS, _LONG_BYTES = 64, 262144
#: Threads, and blocks of long rows, that keep an H200 busy.
_BUSY, _BUSY_BLOCKS = 132 * _RESIDENT, 264
#: Blocks that sum the weights' gradients are a multiple of the first; each has at least this many rows.
_SUM_BLOCKS, _SUM_ROWS = 132, 4
#: With clusters of four and eight blocks, their number is a multiple of this. Each cluster stays in one part (GPC) of
#: the GPU and leaves some of its 14 to 18 multiprocessors idle. A cluster that had to wait for another to end would
#: double the time.
_SUM_CLUSTERED = 120
#: For threads of these blocks: approximate bytes of each input's row, the most elements (as their sums are held in
#: registers), and the most elements that stay in registers from one stage to the next.
_SUM_BYTES, _SUM_ELEMENTS, _HELD_ELEMENTS = 4 * VECTOR_BYTES, 32, 16
#: Bytes of each input's row for a thread of operations that keep three inputs, unless `_SUM_BYTES` leaves fewer threads
#: idle. Each stage reads their elements again.
_SUM_BYTES_OF_THREE = 2 * VECTOR_BYTES
#: Threads of such a block for short rows, and threads per multiprocessor with 128 registers each. Blocks with more
#: threads have fewer registers and read the elements again in each stage.
_SUM_THREADS, _SUM_RESIDENT = 256, 512
#: The most rows in flight for a block that processes rows alone, and for clusters; and bytes of shared memory that a
#: block needs in addition to these rows and the weights.
_SUM_DEPTHS, _SUM_OWN_BYTES = (2, 4), 3712
#: Bytes of a row with weights above which blocks process rows one after the other, and the same limit if the weights
#: take at least twice as many bytes as the row.
_WALK_BYTES, _WALK_WEIGHED_BYTES = 65536, 16384
#: Groups of such a block and threads of each, in order of preference: while one group waits, others compute. Maps the
#: bytes of an element to the choices for blocks that process rows alone, and for blocks of clusters.
_WALKS = {2: (((1, 1024),), ((2, 256), (1, 512))), 4: (((1, 512),), ((2, 512), (1, 512), (1, 1024)))}
#: Registers of a multiprocessor, and those that a thread needs in addition to its elements.
_REGISTERS, _WALK_REGISTERS = 65536, 48
#: The most elements that such a thread keeps if a stage has several sums. With 48 nothing is spilled; with 64, bfloat16
#: layer_norm spilled 188 bytes per thread and took 1.37 times as long on an H100.
_WALK_HELD = 48


class RowLaunch(NamedTuple):
    """The launch parameters of a kernel of `row_maps`.

    Attributes:
        form, runs: as in `RowSpec`.
        block: threads along x and y.
        blocks: number of blocks that share a row.
        held: accesses of each input that a thread keeps in shared memory.
        shared: bytes of shared memory that these accesses need.
    """

    form: str
    runs: int
    block: tuple[int, int]
    blocks: int = 1
    held: int = 1
    shared: int = 0


class SumsLaunch(NamedTuple):
    """The launch parameters of a kernel of `row_sums`.

    Attributes:
        launch: the launch of its rows.
        groups: number of blocks, or of clusters of blocks that share a row.
        depth, threads, held: as in `SumsSpec`.
    """

    launch: RowLaunch
    groups: int
    depth: int
    threads: int
    held: int


class Rows(NamedTuple):
    """The shape and access width of rows that are to be normalized.

    Attributes:
        rows, columns: number of rows, and elements of each.
        width: elements of an access.
        nbytes: bytes of an access.
        inputs, kept: number of inputs, and how many of them are kept.
        is_double: whether the compute dtype is float64, whose exponential needs many registers.
        is_across: whether adjacent elements in memory belong to different rows.
        is_reduction: whether only reduced values are written: long rows are read once and not kept.
        sums: the most sums of a stage.
        is_unaligned: as in `RowSpec`.
        has_factor: whether rows have a factor, see `RowSpec.factor`: the formula needs more registers.
    """

    rows: int
    columns: int
    width: int
    nbytes: int
    inputs: int
    kept: int
    is_double: bool
    is_across: bool
    is_reduction: bool = False
    sums: int = 1
    is_unaligned: bool = False
    has_factor: bool = False


def are_few(given: Rows, limits: Limits) -> bool:
    """Return True if more blocks should share a row than a cluster has."""
    nbytes = given.columns // given.width * given.nbytes * given.kept
    return given.rows * limits.cluster <= _IDLE_BLOCKS and nbytes >= limits.cluster * _LONG_BYTES


def launch_rows(given: Rows, limits: Limits) -> RowLaunch:
    """Return the launch for these rows on a GPU of these limits."""
    rows, nbytes, kept = given.rows, given.nbytes, given.kept
    accesses, most = given.columns // given.width, 1 if given.is_double else _most_runs(given)
    if given.is_across:
        x = min(WARP, power_of_two(rows))
        threads = min(_threads(x * accesses * nbytes * kept, _RESIDENT, limits), ACROSS_THREADS)
        return _in_shared("across", most, (x, threads // x), threads // x, accesses, nbytes * kept, 1, limits)
    runs = min(_reduction_runs(given, accesses, most) if given.is_reduction else most, power_of_two(accesses))
    while runs > 1 and rows * _group(accesses, runs) < _BUSY:
        runs //= 2
    runs = _whole_runs(accesses, runs)
    group = _group(accesses, runs)
    threads = _REGISTER_THREADS if kept < 3 else _REGISTER_THREADS_OF_THREE
    if group <= threads and not given.is_double and not given.is_unaligned:
        return RowLaunch("registers", runs, _block(group, rows))
    if given.is_reduction:
        return RowLaunch("shared", most, _block(min(_group(accesses, 4), _THREADS), rows), held=0)
    blocks = _blocks(rows, accesses * nbytes * kept, limits)
    each = -(-accesses // blocks)
    resident = _RESIDENT if given.is_double or given.has_factor else SHARED_THREADS
    group = min(_group(each, 4), _threads(each * nbytes * kept, resident, limits))
    most = min(most, _runs(given, _SHARED_BYTES, _SHARED_NUMBERS, _SHARED_RUNS))
    # A block that shares a row processes only this row.
    block = (group, 1) if blocks > 1 else _block(group, rows)
    return _in_shared("shared", most, block, group * blocks, accesses, nbytes * kept, blocks, limits)


def launch_sums(given: Rows, parts: int, weight_bytes: int, limits: Limits) -> SumsLaunch | None:
    """Return the launch of rows in shared memory, with `parts` float32 sums for each column held in registers.

    `weight_bytes` is the sum of the weights' element sizes. Returns None if a row is too long for this, or if there are
    too few rows.
    """
    if given.is_double or given.is_across:
        return None
    # Prefer the fewest blocks per row that have enough registers and room for the next row; else the fewest that fit.
    shares = [1 << k for k in range(limits.cluster.bit_length())]
    fitting = [each for blocks in shares if (each := _shared_sums(given, blocks, parts, weight_bytes, limits))]
    easy = [each for each in fitting if each.depth >= 2 and each.threads <= _SUM_RESIDENT]
    found = next(iter(easy + fitting), None)
    if found is None:
        return None
    return _in_equal_shares(given, found)


def _in_equal_shares(given: Rows, found: SumsLaunch) -> SumsLaunch | None:
    """Return the launch with its number of groups for a whole GPU; None if there are too few rows."""
    blocks, units = found.launch.blocks, -(-given.rows // found.launch.block[1])
    busy = max((_SUM_BLOCKS if blocks <= 2 else _SUM_CLUSTERED) // blocks, 1)
    groups = min(busy * found.groups, units // _SUM_ROWS)
    return None if groups < busy else found._replace(groups=-(-units // -(-units // groups)))


def _shared_sums(given: Rows, blocks: int, parts: int, weight_bytes: int, limits: Limits) -> SumsLaunch | None:
    """Return the launch of `launch_sums` with this many blocks per row; None if it does not fit into memory.

    Its `groups` count groups per multiprocessor, not for the whole GPU.
    """
    most = _sums_of(given, blocks, parts, weight_bytes, limits, _SUM_BYTES, True)
    if given.kept < 3 or most is None:
        return most
    found = _sums_of(given, blocks, parts, weight_bytes, limits, _SUM_BYTES_OF_THREE, False)
    if found is None:
        return most
    is_whole, is_exact = (
        blocks * each.launch.block[0] * each.launch.runs * given.width == given.columns for each in (most, found)
    )
    # On an H200, this took add_layer_norm_backward of 5120 columns from 0.72 to 0.85 of a copy's speed, and of 768 from
    # 0.76 to 0.91.
    is_idle = given.sums > 2 and found.groups * found.launch.block[0] * found.launch.block[1] < _SUM_RESIDENT
    return most if is_idle or (is_whole and not is_exact) else found


def _sums_of(
    given: Rows, blocks: int, parts: int, weight_bytes: int, limits: Limits, nbytes: int, is_whole: bool
) -> SumsLaunch | None:
    """Return the launch of `_shared_sums` with about `nbytes` of each input's row for a thread.

    With `is_whole`, all threads make as many accesses if possible.
    """
    accesses = -(-given.columns // given.width // blocks)
    most = max(min(_SUM_ELEMENTS // given.width, _RUNS), 1)
    runs = min(nbytes // given.nbytes, most, power_of_two(accesses))
    while 2 * runs <= most and _group(accesses, runs) > _SUM_RESIDENT:
        runs *= 2
    runs = _whole_runs(accesses, runs) if is_whole else runs
    group, side = _group(accesses, runs), 1
    if blocks == 1:
        # Process several rows at a time if there are enough rows for all blocks.
        many = max(given.rows // (_SUM_BLOCKS * _SUM_ROWS), 1)
        side = max(min(_SUM_THREADS // group, 1 << many.bit_length() - 1), WARP // group, 1)
    elif group < WARP:
        return None
    threads = group * side
    resident = _SUM_RESIDENT if threads <= _SUM_RESIDENT else _MOST_THREADS
    weights, row = (
        _whole_accesses(runs * given.width * weight_bytes * group),
        runs * given.nbytes * given.kept * threads,
    )
    fitting = (limits.shared + 1024) // (weights + row + _SUM_OWN_BYTES)
    together = min(resident // threads, fitting)
    if together == 0:
        return None
    depth = min(((limits.shared + 1024) // together - _SUM_OWN_BYTES - weights) // row, _SUM_DEPTHS[blocks > 1])
    # At the end, half of the threads put their sums there, unless a row takes all threads.
    sums = 4 * parts * runs * given.width * group * (side + 1 >> 1) if side > 1 else 0
    shared = max(weights + depth * row, sums)
    launch = RowLaunch("registers", runs, (group, side), blocks, shared=shared)
    is_held = given.kept < 3 and runs * given.width <= _HELD_ELEMENTS and resident <= _SUM_RESIDENT
    held = given.inputs if is_held else 0
    return SumsLaunch(launch, together, depth, resident, held)


def launch_walk(given: Rows, weight_bytes: int, limits: Limits) -> SumsLaunch | None:
    """Return the launch of long rows that blocks or clusters process one after the other.

    Each block keeps its weights and the next rows in shared memory. `weight_bytes` is as in `launch_sums`. Returns None
    for operations without weights, or if rows are short, too few, or too long.
    """
    row, weights = given.columns // given.width * given.nbytes * given.kept, given.columns * weight_bytes
    if given.is_double or given.is_across or given.is_reduction or not weights:
        return None
    if row <= (_WALK_WEIGHED_BYTES if weights >= 2 * row else _WALK_BYTES):
        return None
    lone, several = _WALKS[given.nbytes // given.width]
    shares = [1 << k for k in range(1, limits.cluster.bit_length())]
    # The preferred groups, with as few blocks per row as possible.
    ways = [(1, *each) for each in lone] + [(blocks, *each) for each in several for blocks in shares]
    found = [each for way in ways if (each := _walk(given, *way, weight_bytes, limits))]
    return _in_equal_shares(given, found[0]) if found else None


def _walk(given: Rows, blocks: int, sides: int, threads: int, weight_bytes: int, limits: Limits) -> SumsLaunch | None:
    """Return the launch of `launch_walk` with `blocks` blocks per row and `sides` groups of `threads` threads each."""
    accesses = -(-given.columns // given.width // blocks)
    runs = -(-accesses // threads)
    group, elements = _group(accesses, runs), runs * given.width
    most = _REGISTERS // (sides * threads) - _WALK_REGISTERS
    held = given.kept if elements * given.kept <= (most if given.sums == 1 else min(most, _WALK_HELD)) else 0
    weights, row = _whole_accesses(elements * weight_bytes * group), runs * given.nbytes * given.kept * group * sides
    depth = min((limits.shared + 1024 - _SUM_OWN_BYTES - weights) // row, _SUM_DEPTHS[1])
    if group < WARP or runs > _RUNS or depth < 1 or (sides == 1 and depth == 1 and not held):
        return None
    launch = RowLaunch("registers", runs, (group, sides), blocks, shared=weights + depth * row)
    return SumsLaunch(launch, 1, depth, sides * threads, held)


def _whole_accesses(nbytes: int) -> int:
    """Return the byte count, rounded up to a multiple of an access."""
    return -(-nbytes // VECTOR_BYTES) * VECTOR_BYTES


def _most_runs(given: Rows) -> int:
    """Return how many accesses of each input a thread has in flight at most: a power of two."""
    return _runs(given, _REGISTER_BYTES, _NUMBERS, _RUNS)


def _reduction_runs(given: Rows, accesses: int, most: int) -> int:
    """Return how many accesses a thread has in flight for rows in registers, if only reduced values are written."""
    more = _runs(given, _REDUCTION * _REGISTER_BYTES, _NUMBERS, _RUNS)
    return max(most, min(more, power_of_two(accesses // _NEIGHBOURS)))


def _runs(given: Rows, nbytes: int, numbers: int, most: int) -> int:
    """Return the largest number of accesses, a power of two, within limits of bytes, elements and accesses."""
    most = min(nbytes // (given.nbytes * given.kept), numbers // (given.width * given.inputs), most)
    return 1 << max(most, 1).bit_length() - 1


def _whole_runs(accesses: int, most: int) -> int:
    """Return how many accesses each thread makes, so that all threads of a row make the same number.

    It is at least half of `most`. If no such number exists, `most` is returned.
    """
    for runs in range(most, (most - 1) // 2, -1):
        group = _group(accesses, runs)
        if group <= _REGISTER_THREADS and group * runs == accesses:
            return runs
    return most


def _group(accesses: int, runs: int) -> int:
    """Return how many threads a row needs for `runs` accesses each: a power of two up to a warp, or whole warps."""
    threads = -(-accesses // runs)
    return power_of_two(threads) if threads <= WARP else -(-threads // WARP) * WARP


def _block(group: int, rows: int) -> tuple[int, int]:
    """Return the block's shape: several rows side by side, at least enough to fill a warp."""
    return group, max(min(_THREADS // group, power_of_two(rows)), WARP // group, 1)


def _threads(nbytes: int, resident: int, limits: Limits) -> int:
    """Return how many threads a block with this many bytes needs for about `resident` threads per multiprocessor."""
    together = max((limits.shared + 1024) // (nbytes + _OWN_BYTES // 4), 1)
    threads = _THREADS
    while threads < _MOST_THREADS and 2 * threads * together <= resident:
        threads *= 2
    return threads


def _blocks(rows: int, nbytes: int, limits: Limits) -> int:
    """Return how many blocks share a row."""
    blocks = 1
    while 2 * blocks <= limits.cluster and (
        nbytes > blocks * _CLUSTER_BYTES or (rows * blocks < _BUSY_BLOCKS and nbytes >= 2 * blocks * _SHARE_BYTES)
    ):
        blocks *= 2
    return blocks


def _in_shared(
    form: str, runs: int, block: tuple[int, int], group: int, accesses: int, nbytes: int, blocks: int, limits: Limits
) -> RowLaunch:
    """Return the launch of a block that keeps as much as fits in shared memory; `group` threads process a row."""
    threads = block[0] * block[1]
    own = _ACROSS_BYTES if form == "across" else _OWN_BYTES
    held = min(-(-accesses // group), max(limits.shared - own, 0) // (threads * nbytes))
    return RowLaunch(form, runs, block, blocks, held, held * threads * nbytes)


# ---------------------------------------------------------------- executables


@dataclass(kw_only=True, unsafe_hash=True)
class RowTask(Task):
    """An operation on rows of arrays with given layouts. Its formula is a `RowFormula`.

    Attributes:
        axis: the axis that rows lie along, in the shape of the normalized array.
        kept, stats: as in `RowSpec`.
        indexed: how many inputs, counted from the last, have one element per row: 1 for an index, see `RowSpec.picks`;
            2 for an index and a factor, see `RowSpec.factor`.
        total: as in `RowSpec`: the first output has a single element.
    """

    axis: int
    is_whole: bool = True
    kept: int = 1
    stats: int = 0
    indexed: int = 0
    total: ReductionFormula | None = None


class RowExecutable(TaskOperation):
    """An operation on rows, ready for arrays with the layouts of its task and any alignment."""

    task: RowTask

    def __init__(self, task: RowTask):
        super().__init__(task)
        lengths, outer = list(task.shape), [list(step) for step in task.steps]
        self._columns = lengths.pop(task.axis)
        self._inner = [step.pop(task.axis) for step in outer]
        self._outer: Merged = merge_dimensions(lengths, outer, 1, leader=0)
        self._sizes = task.sizes
        self.clear = task.total is not None

    def _make(self, key: tuple[int, ...], trial: Any) -> Any:
        rows, limits = self._rows(key), launcher_class().limits(self.device)
        if are_few(rows, limits) and not self.task.stats:
            return self._few.executable(key, self.close, partial(self._fits, key))
        walk = None if self.task.stats else launch_walk(rows, self._weight_bytes, limits)
        if walk:
            order = self._walk(key, rows, walk)
        else:
            rows = self._in_full_accesses(key, rows, limits)
            order = self._order(key, rows, launch_rows(rows, limits))
        kernel = kernel_of(order)
        if self.task.total is None:
            return kernel
        return KernelWithScratch(kernel.launcher, word_bytes(order.kernel, order.grid[0] - order.cluster))

    def access_bytes(self, key: tuple[int, ...]) -> int:
        """Return how many bytes each access has, for arrays with this alignment."""
        return self._rows(key).nbytes

    @cached_property
    def _few(self) -> FewRows:
        return FewRows(self.task)

    def _rows(self, key: tuple[int, ...]) -> Rows:
        """Return the rows to normalize, for arrays with this alignment."""
        task, outer = self.task, self._outer
        width = self._width(task.alignments(key))
        return Rows(
            rows=prod(outer.shape),
            columns=self._columns,
            width=width,
            nbytes=width * self._sizes[0],
            inputs=len(task.reads) - task.indexed,
            kept=task.kept,
            is_double=task.compute == "float64",
            is_across=width == 1 and abs(self._inner[0]) > abs(outer.strides[0][-1]) > 0,
            is_reduction=task.stats == len(task.writes),
            sums=max(len(stage.start) for stage in task.formula.stages),
            has_factor=task.indexed > 1,
        )

    def _order(self, key: tuple[int, ...], given: Rows, launch: RowLaunch) -> LaunchOrder:
        task, outer, rows = self.task, self._outer, given.rows
        (reads, writes), read = task.operand_dtypes, len(task.reads) - task.indexed
        rank = next(rank for rank in RANKS if rank >= len(outer.shape))
        before = (0,) * (rank - len(outer.shape))
        kernel = RowSpec(
            formula=task.formula if launch.form == "registers" else task.formula.fewer,
            reads=reads[:read],
            picks=reads[read] if task.indexed else None,
            factor=reads[read + 1] if task.indexed > 1 else None,
            writes=writes,
            kept=task.kept,
            stats=task.stats,
            rank=rank,
            wide=task.is_wide(),
            width=given.width,
            compute=task.compute,
            scalars=task.scalars,
            form=launch.form,
            runs=launch.runs,
            is_cluster=launch.blocks > 1,
            warps=next(n for n in ROW_WARPS if n * WARP >= launch.block[0]),
            whole=launch.form == "registers" and launch.block[0] * launch.runs * given.width == given.columns,
            total=task.total,
            is_unaligned=given.is_unaligned,
        )
        has_total, words = task.total is not None, (len(task.inputs) + len(task.outputs), 0)
        grid = -(-rows // launch.block[0 if given.is_across else 1]) * launch.blocks
        steps = [n for step, inner in zip(outer.strides, self._inner, strict=True) for n in (*before, *step, inner)]
        return LaunchOrder(
            kernel=kernel,
            device=self.device,
            grid=(grid + has_total * launch.blocks, 1),
            block=launch.block,
            alignment=(*key, 0) if has_total else key,
            pointers=(*task.pointers, *((words,) if has_total else ())),
            constants=(*steps, *[1] * len(before), *outer.shape, rows, given.columns, launch.blocks, launch.held),
            pairs=self._pairs(),
            words=words_of(task.scalars),
            shared=launch.shared,
            cluster=launch.blocks,
            follows=kernel.is_early,
        )

    @property
    def _weight_bytes(self) -> int:
        """Sum of the weights' element sizes."""
        return sum(array.itemsize for array in self.task.inputs[self.task.kept :])

    def _walk(
        self, key: tuple[int, ...], given: Rows, found: SumsLaunch, sums: Formula | None = None, parts: int = 0
    ) -> LaunchOrder:
        """Return the launch of rows that each block or cluster processes one after the other."""
        launch = found.launch
        order = self._order(key, given, launch)
        row: Any = order.kernel._replace(
            warps=max(power_of_two(-(-launch.block[0] // WARP)), 2), sides=launch.block[1] if launch.blocks > 1 else 1
        )
        if not parts:
            row = row._replace(formula=self.task.formula.fewer)
        is_whole = launch.blocks * launch.block[0] * launch.runs * given.width == given.columns
        return order._replace(
            kernel=SumsSpec(row, sums, parts, found.depth, found.threads, found.held, is_whole),
            grid=(found.groups * launch.blocks, 1),
            constants=(*order.constants[:-1], -(-given.rows // launch.block[1])),
            follows=False,
        )

    def _width(self, alignments: Sequence[int]) -> int:
        """Return how many elements an access has, so that all accesses are complete and aligned."""
        width = gcd(VECTOR_BYTES // self._sizes[0], self._columns)
        for size, inner, outer, start in self._whole_rows(alignments):
            if inner != 1:
                return 1
            whole = gcd(VECTOR_BYTES, start, *(size * n for n in outer))
            # An access wider than 16 bytes is split into several.
            width = width if whole == VECTOR_BYTES else gcd(width, max(whole // size, 1))
        return width

    def _whole_rows(self, alignments: Sequence[int]) -> Sequence[tuple[int, int, Sequence[int], int]]:
        """Return (element size, stride along rows, other strides, alignment) of each operand with whole rows.

        Arrays with one element per row are left out: they are read or written element by element.
        """
        task, operands = self.task, list(zip(self._sizes, self._inner, self._outer.strides, alignments, strict=True))
        return operands[: len(task.reads) - task.indexed] + operands[len(task.reads) : len(operands) - task.stats]

    def _in_full_accesses(self, key: tuple[int, ...], given: Rows, limits: Limits) -> Rows:
        """Return the rows with accesses of full width that are aligned even if rows are not.

        This needs rows in shared memory, and operands whose rows all start at the same element of an access. If that is
        not so, return the rows as they are.
        """
        width = VECTOR_BYTES // self._sizes[0]
        if given.width >= width or given.is_double:
            return given
        starts = {
            (size, inner, start, *(step % width for step in outer))
            for size, inner, outer, start in self._whole_rows(self.task.alignments(key))
        }
        if len(starts) > 1 or next(iter(starts))[1] != 1 or launch_rows(given, limits).form != "shared":
            return given
        wide = given._replace(width=width, nbytes=VECTOR_BYTES, is_unaligned=True)
        launch = launch_rows(wide, limits)
        # Each element outside of the accesses needs a thread. Threads without a row have higher numbers than these.
        has_threads = min(launch.block[0] * launch.blocks, given.columns // width) > 2 * (width - 1)
        return wide if has_threads else given

    # ------------------------------------------------------------ overlap

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        is_row = i < self.task.kept and j - len(self.inputs) < len(self.outputs) - self.task.stats
        return is_row and self._in_place(i, j, source, target)

    def _shares(self, i: int, j: int) -> str:
        if i < self.task.kept:
            name = self.names[i]
            return f"out overlaps {name} in part: pass {name} itself, or memory that does not overlap it"
        return super()._shares(i, j)


# ---------------------------------------------------------------- few long rows


class FewRows:
    """The executables of a `RowTask` without statistics: one for each stage, and one that writes the rows.

    It serves rows so few and long that one cluster per row would leave most of a GPU idle. Each stage is a reduction
    that all blocks share, and its results go to scratch memory. An elementwise operation then writes the rows.

    Attributes:
        stages: each stage's reduction, and the layouts of its results.
        write: the elementwise operation.
    """

    def __init__(self, task: RowTask):
        own, shape, axis = TABLE[task.compute].numpy, task.shape, task.axis
        kept = (*shape[:axis], *shape[axis + 1 :])
        steps = row_major_strides(kept, own.itemsize)
        stat = layout(kept, steps, own, task.inputs[0].device)
        # Constant along a row.
        spread = (*steps[:axis], 0, *steps[axis:])
        inputs, reads, scalars = task.inputs, task.reads, len(task.scalars)
        self._inputs = inputs
        self.stages: list[tuple[ReduceExecutable, tuple[Any, ...]]] = []
        for stage in task.formula.fewer.stages:
            made = (stat,) * stage.results(scalars)
            reduction = ReduceTask(
                op=task.op,
                formula=stage,
                reference=task.reference,
                names=("",) * (len(inputs) + len(made)),
                inputs=inputs,
                outputs=made,
                shape=shape,
                axes=(axis,),
                reads=reads,
                writes=tuple(view(k, 0, steps, kept) for k in range(len(made))),
                out_given=False,
                compute=task.compute,
                scalars=task.scalars,
            )
            self.stages.append((ReduceExecutable(reduction), made))
            reads = (*reads, *(view(len(inputs) + k, 0, spread, shape) for k in range(len(made))))
            inputs = (*inputs, *made)
        self.write = MapExecutable(
            MapTask(
                op=task.op,
                formula=Formula(task.formula.name, task.formula.function),
                reference=task.reference,
                names=("",) * (len(inputs) + len(task.outputs)),
                inputs=inputs,
                outputs=task.outputs,
                shape=shape,
                reads=reads,
                writes=task.writes,
                out_given=task.out_given,
                compute=task.compute,
                scalars=task.scalars,
            )
        )

    def executable(
        self, key: Sequence[int], close: Sequence[tuple[int, ...]], fits: Callable[[Sequence[int]], bool]
    ) -> Steps:
        """Return all steps for arrays that start at these addresses modulo 16; `close` and `fits` are as in `Steps`."""
        scratch, arrays, first = Scratch(), len(key), len(self._inputs)
        known: tuple[int, ...] = tuple(range(first))
        steps = []
        for reduction, made in self.stages:
            stats = tuple(arrays + scratch.part(each.nbytes) for each in made)
            nothing = (0,) * (len(known) - first + len(stats))
            steps.append(Step(reduction.choose((*key[:first], *nothing)), (*known, *stats), takes_scalars=True))
            known = (*known, *stats)
        nothing = (0,) * (len(known) - first)
        write = self.write.choose((*key[:first], *nothing, *key[first:]))
        steps.append(Step(write, (*known, *range(first, arrays)), takes_scalars=True))
        return Steps(steps, scratch, close, fits)


# ---------------------------------------------------------------- gradients of rows and of weights


class RowSums(RowExecutable):
    """The executables that compute the gradients of rows and weights in one pass over dy and x.

    Each block sums what its rows contribute to the weights' gradients. The blocks' sums go to scratch memory, and a
    reduction of them follows.

    Args:
        task: the gradient of rows, without statistics.
        sums: the terms to sum, as in `SumsSpec`.
        weights: the layouts of the results, one for each sum.
        adds: as in `ReduceTask`, for the results.
    """

    def __init__(self, task: RowTask, sums: Formula, weights: Sequence[Layout], adds: tuple[bool, ...] = ()):
        super().__init__(task)
        self._sums, self._weights, self._adds = sums, tuple(weights), adds

    def executable(
        self, key: tuple[int, ...], close: Sequence[tuple[int, ...]], fits: Callable[[Sequence[int]], bool]
    ) -> Steps | None:
        """Return the steps for arrays that start at these addresses modulo 16; None if two passes are faster.

        The weights' gradients come last in `key`. `close` and `fits` are as in `Steps`.
        """
        task, parts, arrays = self.task, len(self._weights), len(self.inputs) + len(self.task.outputs)
        limits, own = launcher_class().limits(self.device), key[:arrays]
        rows = self._rows(own)
        found = launch_sums(rows, parts, self._weight_bytes, limits)
        if found is None:
            return None
        scratch = Scratch()
        shape = (found.groups, rows.columns)
        sums = layout(shape, row_major_strides(shape, 4), TABLE["float32"].numpy, self.device)
        places = tuple(arrays + parts + scratch.part(sums.nbytes) for _ in range(parts))
        order = self._walk(own, rows, found, self._sums, parts)
        order = order._replace(
            alignment=(*own, *[0] * parts),
            pointers=(*order.pointers, *((arrays + k, 0) for k in range(parts))),
            pairs=(),
        )
        kernel = kernel_of(order)
        # There are so few sums that reducing them in one pass is faster than in two.
        totals = _reduction(task, sums, self._weights, self._adds)
        reduction = ReduceExecutable(totals, 1).choose((*[0] * parts, *key[arrays:]))
        steps = [
            Step(kernel, (*range(arrays), *places), takes_scalars=True),
            Step(reduction, (*places, *range(arrays, arrays + parts))),
        ]
        return Steps(steps, scratch, close, fits)


def _reduction(task: RowTask, sums: Layout, weights: Sequence[Layout], adds: tuple[bool, ...]) -> ReduceTask:
    """Return the task that sums all blocks' sums."""
    parts = len(weights)
    return ReduceTask(
        op=task.op,
        formula=REDUCTIONS["sum"] if parts == 1 else GRADIENTS["two"],
        reference=task.reference,
        names=("",) * (2 * parts),
        inputs=(sums,) * parts,
        outputs=tuple(weights),
        shape=sums.shape,
        axes=(0,),
        reads=tuple(view(k, 0, sums.strides, sums.shape) for k in range(parts)),
        writes=tuple(view(k, 0, weight.strides, weight.shape) for k, weight in enumerate(weights)),
        out_given=task.out_given,
        compute=task.compute,
        adds=adds,
    )
