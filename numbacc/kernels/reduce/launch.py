"""Choice of the kernel and grid for a reduction, and of how many blocks share a result.

A reduction runs one kernel, or two if several blocks share a result. The kept dimensions are merged where all operands
step through them alike, and so are the reduced ones. Nothing here depends on the GPU: results are bitwise equal on all
GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple

from ...base.dtypes import TABLE, real_of
from ...base.layout import Merged, merge_dimensions, row_major_strides
from ...runtime.launch_order import BUSY_BLOCKS as _BLOCKS
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, WARP, LaunchOrder
from ..elementwise.geometry import RANKS, power_of_two
from ..elementwise.launch import Task
from ..elementwise.multi_launch import Passes
from ..specs import words_of
from .spec import ReduceSpec

#: The least number of consecutive bytes that a block reads from a row of columns.
_LINE = 128
#: The most bytes of a thread's partial results in all lanes of `reduce_strided`: they stay in registers.
_PARTS_BYTES = 32
#: Rounds of accesses whose partial results are merged with each other before they are merged with the total.
_ROUNDS = 16
#: The least number of rounds for a thread if blocks share a result.
_SHARED_ROUNDS = 4
#: With fewer rounds, no blocks share a result: a second kernel, which merges their results, takes longer.
_LEAST_ROUNDS = 12
#: The least number of accesses of a row for each thread; the second applies if merging costs more than an addition.
_ACCESSES, _MORE_ACCESSES = 4, 16
#: For reductions of partial results, which are few: consecutive bytes that a block reads, and elements per thread, at
#: least.
_PARTS_LINE, _PARTS_EACH = 32, 2


class ReduceWalk(NamedTuple):
    """The dimensions that a kernel keeps and reduces, with each operand's strides in elements.

    Attributes:
        kept: strides of the inputs, then of the outputs.
        reduced: strides of the inputs, and of the index if there is one.
        sizes: bytes of the inputs' elements.
        alignments: the inputs' addresses modulo 16.
    """

    kept: Merged
    reduced: Merged
    sizes: Sequence[int]
    alignments: Sequence[int]

    @property
    def inputs(self) -> int:
        return len(self.sizes)


class ReduceLaunch(NamedTuple):
    """A kernel and its grid.

    Attributes:
        algorithm, width: as in `ReduceSpec`.
        grid, block: blocks and threads.
        kept, reduced: the dimensions that the kernel unravels.
        scalars: the integers after the dimensions, without the count and `whole`.
        repeated: as in `ReduceSpec`.
    """

    algorithm: str
    width: int
    grid: tuple[int, int]
    block: tuple[int, int]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    scalars: tuple[int, ...]
    repeated: tuple[int, ...] = ()


def launch_of(walk: ReduceWalk, parts: Sequence[str], most: int = _BLOCKS) -> ReduceLaunch:
    """Return the kernel and grid, given the names of the partial results' dtypes; `most` is as in `by_columns`."""
    kept, reduced, sizes = walk.kept, walk.reduced, walk.sizes
    inner = reduced.strides[: walk.inputs]
    along = [k for k, step in enumerate(inner) if step[-1] == 1]
    # Empty sums go to `by_columns`: without rows there is nothing to cut into pieces.
    if along and 0 not in reduced.shape and all(step[-1] in (0, 1) for step in inner):
        wide = VECTOR_BYTES // max(sizes[k] for k in along)
        if reduced.shape[-1] >= 2 * wide:
            # A single input is read from its first aligned element on; several inputs must have the same alignment.
            if len(along) > 1:
                # Strides of dimensions of length 1 do not matter.
                outer = [[n for n, length in zip(step, kept.shape, strict=True) if length > 1] for step in kept.strides]
                steps = [(*outer[k], *inner[k][:-1]) for k in range(walk.inputs)]
                wide = _whole_width(walk, steps, along, wide)
            each = _ACCESSES if len(parts) == 1 else _MORE_ACCESSES
            return _rows(walk, wide, tuple(k for k in range(walk.inputs) if k not in along and wide > 1), each)
    columns = [step[-1] for step in kept.strides[: walk.inputs]]
    straight = [k for k, step in enumerate(columns) if step == 1]
    width, nbytes = 1, sum(max(TABLE[part].itemsize, 4) for part in parts)
    if kept.shape[-1] > 1 and straight and set(columns) <= {0, 1}:
        steps = [(*kept.strides[k][:-1], *inner[k]) for k in range(walk.inputs)]
        wide = gcd(VECTOR_BYTES // max(sizes[k] for k in straight), kept.shape[-1])
        width = _whole_width(walk, steps, straight, wide)
        while width > 1 and width * nbytes > _PARTS_BYTES:
            width //= 2
    return by_columns(walk, width, _runs(sizes, width), most)


def _runs(sizes: Sequence[int], width: int) -> int:
    """Return approximately how many accesses a thread has in flight: see `ReduceSpec.runs`."""
    return max(min(4 * VECTOR_BYTES // (width * sum(sizes)), 16), 2)


def _whole_width(walk: ReduceWalk, steps: Sequence[Sequence[int]], inputs: Iterable[int], width: int) -> int:
    """Return the widest access, in at most `width` elements, that these inputs and their strides are aligned for."""
    for k in inputs:
        size = walk.sizes[k]
        width = gcd(width, gcd(VECTOR_BYTES, walk.alignments[k], *(size * n for n in steps[k])) // size)
    return max(width, 1)


def _rows(walk: ReduceWalk, width: int, repeated: tuple[int, ...], each: int) -> ReduceLaunch:
    columns, outer, positions = walk.reduced.shape[-1], walk.reduced.shape[:-1], prod(walk.kept.shape)
    vectors, runs = -(-columns // width), _runs(walk.sizes, width)
    # Use as few threads per row as make several accesses each, but more than one; use more if there are few rows.
    x = min(_below(max(vectors // each, min(vectors, 2))), MAX_THREADS)
    while x < min(MAX_THREADS, vectors) and positions * x < _BLOCKS * MAX_THREADS:
        x *= 2
    y = min(MAX_THREADS // x, power_of_two(positions))
    blocks, round_ = -(-positions // y), x * width * runs
    rounds = -(-columns // round_)
    shares = 1
    if 2 * blocks < _BLOCKS:
        # Several blocks share a result. Start no more blocks than run at once: the remaining ones would run alone.
        shares = _shares(_BLOCKS // blocks, rounds * prod(outer))
    # Each piece of a row is merged separately, which also limits error growth.
    pieces = max(-(-rounds // _ROUNDS), min(-(-shares // max(prod(outer), 1)), rounds))
    piece = -(-rounds // pieces) * round_
    pieces = -(-columns // piece)
    units = prod(outer) * pieces
    splits = _even(units, shares)
    scalars = (positions, columns, piece, units)
    return ReduceLaunch(
        "reduce_contiguous", width, (blocks, splits), (x, y), walk.kept.shape, (*outer, pieces), scalars, repeated
    )


def of_parts(walk: ReduceWalk) -> ReduceLaunch:
    """Return the grid of the kernel that merges the partial results of blocks that share results."""
    return by_columns(walk, 1, _PARTS_EACH, 1, _PARTS_LINE)


def by_columns(walk: ReduceWalk, width: int, runs: int, most: int, line: int = _LINE) -> ReduceLaunch:
    """Return the grid of `reduce_strided`.

    Args:
        walk: the operands' dimensions and strides.
        width, runs: as in `ReduceSpec`.
        most: number of blocks that keep a GPU busy; 1 if no blocks may share a result.
        line: the least number of consecutive bytes that a block reads.
    """
    kept, reduced, size = walk.kept, walk.reduced, max(walk.sizes)
    items, positions = prod(reduced.shape), prod(kept.shape) // width
    near = abs(kept.strides[0][-1]) <= abs(reduced.strides[0][-1]) or items == 1
    # Adjacent threads read adjacent elements in memory.
    x = min(power_of_two(positions), WARP, MAX_THREADS, max(line // (width * size), 1)) if near else 1
    y = min(MAX_THREADS // x, power_of_two(-(-items // runs)))
    x = min(MAX_THREADS // y, power_of_two(positions))
    blocks = -(-positions // x)
    round_ = y * runs
    rounds = max(-(-items // round_), 1)
    shares = _shares(most // blocks, rounds) if 2 * blocks < most else 1
    splits = _even(rounds, shares)
    span = -(-rounds // splits) * round_
    repeated = tuple(k for k in range(walk.inputs) if kept.strides[k][-1] == 0 and width > 1)
    shape = (*kept.shape[:-1], kept.shape[-1] // width)
    scalars = (positions, items, span, _ROUNDS * round_)
    return ReduceLaunch("reduce_strided", width, (blocks, splits), (x, y), shape, reduced.shape, scalars, repeated)


def _shares(most: int, rounds: int) -> int:
    """Return how many blocks, at most `most`, share a result."""
    return min(most, rounds // _SHARED_ROUNDS) if rounds >= _LEAST_ROUNDS else 1


def _even(units: int, shares: int) -> int:
    """Return how many blocks, at most `shares`, share this many units so that each has the same number."""
    each = -(-units // max(shares, 1))
    return max(-(-units // max(each, 1)), 1)


def _below(number: int) -> int:
    """Return the largest power of two that is at most this number."""
    return 1 << number.bit_length() - 1


# ---------------------------------------------------------------- executables


@dataclass(kw_only=True, unsafe_hash=True)
class ReduceTask(Task):
    """A reduction of arrays with given layouts. Its formula is a `ReductionFormula`; outputs lack the reduced axes.

    Attributes:
        axes: the axes that are reduced, in order.
        adds: for each output, True if the result is added to the old values; () if none is.
    """

    axes: tuple[int, ...]
    adds: tuple[bool, ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return tuple(d for d in range(len(self.shape)) if d not in self.axes)

    def lengths(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Return the lengths of the given axes."""
        return tuple(self.shape[d] for d in axes)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the outputs."""
        return self.lengths(self.kept)

    @property
    def is_empty(self) -> bool:
        """True if the result is empty. If only the reduced axes are empty, kernels still write the results."""
        return 0 in self.result_shape

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names of the partial results' dtypes."""
        kinds = {"": self.compute, "real": real_of(self.compute), "index": "int64" if self.is_wide() else "int32"}
        return tuple(kinds.get(part, part) for part in self.formula.parts)

    @property
    def accumulator(self) -> str | None:
        """Name of the dtype of the first partial result."""
        return self.parts[0]


class ReduceExecutable(Passes):
    """A reduction, ready for arrays with the layouts of its task and any alignment.

    Args:
        task: the reduction.
        most: as in `launch.by_columns`, for reductions over columns; None if that depends on the columns.
    """

    _takes_scalars = True

    task: ReduceTask

    def __init__(self, task: ReduceTask, most: int | None = None):
        super().__init__(task)
        self._limit = () if most is None else (most,)
        self._walk = _walk(task)

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """Return the launches for arrays with this alignment."""
        task, inputs = self.task, len(self.inputs)
        walk = self._walk._replace(alignments=task.alignments(key)[: self._walk.inputs])
        launch = launch_of(walk, task.parts, *self._limit)
        splits = launch.grid[1]
        reads, writes = task.pointers[: len(task.reads)], task.pointers[len(task.reads) :]
        if splits == 1:
            return [self._order("whole", walk, launch, key, task.pointers, self._pairs())]
        # Partial results are in scratch memory: first all results of the first block along y, then of the second, and
        # so on.
        kept, count, results = walk.kept, len(task.formula.parts), prod(walk.kept.shape)
        rows = (row_major_strides(kept.shape, 1),) * count
        own = walk._replace(kept=kept._replace(strides=(*kept.strides[: walk.inputs], *rows)))
        pointers = [*reads, *((inputs + part, 0) for part in range(count))]
        first_key, second_key = self._alignments(key, 2)
        first = self._order("first", own, launch, first_key, pointers, (), results)
        spec = self._spec("second")
        own = ReduceWalk(
            kept=kept._replace(strides=(*rows, *kept.strides[walk.inputs :])),
            reduced=Merged((splits,), ((results,),) * count),
            sizes=[TABLE[part].itemsize for part in spec.parts],
            alignments=[0] * count,
        )
        pointers = [
            *((part, 0) for part in range(count)),
            *((number - inputs + count, offset) for number, offset in writes),
        ]
        return [first, self._order("second", own, of_parts(own), second_key, pointers, ())]

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """Return the arrays' addresses modulo 16 for each pass; partial results have address 0."""
        parts = (0,) * len(self.task.formula.parts)
        return [key] if passes == 1 else [(*key[: len(self.inputs)], *parts), (*parts, *key[len(self.inputs) :])]

    def _kept_results(self) -> int:
        return prod(self._walk.kept.shape)

    def _operands(self, parts: Sequence[int], passes: int) -> Sequence[tuple[int, ...]]:
        inputs, outputs = len(self.inputs), len(self.outputs)
        return (*range(inputs), *parts), (*parts, *range(inputs, inputs + outputs))

    def _spec(self, stage: str) -> ReduceSpec:
        """Return the spec of a pass's kernel, without its geometry."""
        task = self.task
        parts, (reads, writes) = task.parts, task.operand_dtypes
        floats = [TABLE[name] for name in writes if TABLE[name].is_float]
        return ReduceSpec(
            algorithm="reduce_strided",
            formula=task.formula,
            reads=parts if stage == "second" else reads,
            writes=parts if stage == "first" else writes,
            parts=parts,
            kept=1,
            reduced=1,
            wide=task.is_wide(),
            compute=task.compute,
            scalars=task.scalars,
            narrow=bool(floats) and all(row.compute == task.compute != row.name for row in floats),
            stage=stage,
            adds=() if stage == "first" else task.adds,
        )

    def _order(
        self,
        stage: str,
        walk: ReduceWalk,
        launch: ReduceLaunch,
        alignment: tuple[int, ...],
        pointers: Sequence[tuple[int, int]],
        pairs: Sequence[tuple[int, ...]],
        split_step: int = 0,
    ) -> LaunchOrder:
        """Return the launch of a pass; its outputs are `split_step` elements apart for each block along y."""
        task, kept, reduced = self.task, launch.kept, launch.reduced
        # Kernels are compiled for few ranks: dimensions of length 1 fill up the others.
        ranks = [next(rank for rank in RANKS if rank >= len(shape)) for shape in (kept, reduced)]
        before, between = ((0,) * (rank - len(shape)) for rank, shape in zip(ranks, (kept, reduced), strict=True))
        steps: list[int] = []
        for k, step in enumerate(walk.reduced.strides):
            # An index does not depend on the kept dimensions.
            own = walk.kept.strides[k] if k < walk.inputs else (0,) * len(kept)
            steps += [*before, *own, *between, *step]
        for step in walk.kept.strides[walk.inputs :]:
            steps += [*before, *step, split_step]
        return LaunchOrder(
            kernel=self._spec(stage)._replace(
                algorithm=launch.algorithm,
                kept=ranks[0],
                reduced=ranks[1],
                width=launch.width,
                repeated=launch.repeated,
                ordered=stage == "second" or not task.formula.indexed or _is_ordered(walk.reduced),
            ),
            device=self.device,
            grid=launch.grid,
            block=launch.block,
            alignment=alignment,
            pointers=tuple(pointers),
            constants=(
                *steps,
                *[1] * len(before),
                *kept,
                *[1] * len(between),
                *reduced,
                *launch.scalars,
                prod(task.lengths(task.axes)),
                1,
            ),
            pairs=tuple(pairs),
            words=words_of(task.scalars),
        )


def _is_ordered(reduced: Merged) -> bool:
    """Return whether indices (the last operand's offsets) increase in the order of reduction."""
    reach = 0
    for n, step in zip(reversed(reduced.shape), reversed(reduced.strides[-1]), strict=True):
        if n > 1:
            if step <= reach:
                return False
            reach += (n - 1) * step
    return True


def _walk(task: ReduceTask) -> ReduceWalk:
    """Return how a task's operands are stepped through; their alignment is not known yet."""
    steps, inputs = task.steps, len(task.reads)
    sources, targets = steps[:inputs], steps[inputs:]
    kept, reduced = ([tuple(step[d] for d in axes) for step in sources] for axes in (task.kept, task.axes))
    lengths = task.lengths(task.axes)
    if task.formula.indexed:
        reduced.append(row_major_strides(lengths, 1))
    return ReduceWalk(
        merge_dimensions(task.lengths(task.kept), [*kept, *targets], 1, leader=0),
        merge_dimensions(lengths, reduced, 1, leader=0),
        task.sizes[:inputs],
        [0] * inputs,
    )
