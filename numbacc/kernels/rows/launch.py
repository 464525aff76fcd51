"""The executables of operations that normalize rows: their kernels, their grids, and which memory may be shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ...base.dispatch import launcher_class
from ...base.dtypes import TABLE, info
from ...base.layout import Layout, Merged, View, layout, merge_dimensions, row_major_strides, same_layout, view
from ...functions.formula import Formula, Reduction, RowFormula
from ...runtime.launch_order import VECTOR_BYTES, WARP, LaunchOrder
from ...runtime.operation import Operation
from ...runtime.steps import Scratch, Step, Steps
from ..elementwise.geometry import RANKS, alignments_of, arrays_of, clusters, power_of_two, sizes_of
from ..elementwise.launch import Kernel, KernelWithScratch, MapExecutable, MapSpec
from ..reduce.functions import REDUCTIONS
from ..reduce.launch import ReduceExecutable, ReduceTask
from ..specs import words_of
from .functions import GRADIENTS
from .geometry import RowLaunch, Rows, SumsLaunch, are_few, launch_rows, launch_sums, launch_walk
from .spec import ROW_WARPS, RowSpec, SumsSpec, word_bytes


class RowTask(NamedTuple):
    """An operation on rows of arrays of given layouts.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        formula: what it does.
        reference: its meaning in NumPy: takes the inputs, returns a tuple of results.
        names, inputs, outputs, out_given: as in `launch.MapSpec`.
        shape: the shape of what is normalized.
        axis: the axis that rows lie along.
        reads, writes: how the operands lie in the inputs and outputs, in the shape `shape`.
        compute: name of the dtype that is computed in.
        scalars: names of the dtypes of scalar arguments.
        kept, stats: as in `RowSpec`.
        indexed: whether the last of the inputs has one index a row, see `RowSpec.picks`.
        total: as in `RowSpec`: the first of the outputs has one element in all.
    """

    op: str
    formula: RowFormula
    reference: Callable[..., tuple[np.ndarray[Any, Any], ...]]
    names: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    shape: tuple[int, ...]
    axis: int
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    out_given: bool
    compute: str
    scalars: tuple[str, ...] = ()
    kept: int = 1
    stats: int = 0
    indexed: bool = False
    total: Reduction | None = None


def described(kernel: str, rows: Rows, order: LaunchOrder) -> str:
    """What a plan's algorithm says of a launch."""
    return f"{kernel}, {8 * rows.nbytes}-bit accesses, grid {order.grid}, block {order.block}{clusters(order)}"


class RowExecutable(Operation):
    """An operation on rows, ready for arrays laid out as its task says, wherever they start."""

    def __init__(self, task: RowTask):
        super().__init__(task.op, task.names, task.inputs, task.outputs)
        self.task = task
        self.empty = 0 in task.shape
        self._check_writable()
        sizes, views = sizes_of(task), (*task.reads, *task.writes)
        steps = [[step // size for step in view.strides] for view, size in zip(views, sizes, strict=True)]
        lengths, outer = list(task.shape), [list(step) for step in steps]
        self._columns = lengths.pop(task.axis)
        self._inner = [step.pop(task.axis) for step in outer]
        self._outer: Merged = merge_dimensions(lengths, outer, 1, leader=0)
        self._sizes = sizes
        self.clear = task.total is not None

    def _make(self, key: tuple[int, ...], trial: Any) -> Any:
        rows, limits = self._rows(key), launcher_class().limits(self.device)
        if are_few(rows, limits) and not self.task.stats:
            return self._few.executable(key, self.close, partial(self._fits, key))
        walk = None if self.task.stats else launch_walk(rows, self._weight_bytes, limits)
        order = self._walk(key, rows, walk) if walk else self._order(key, rows, launch_rows(rows, limits))
        launcher = launcher_class()(order)
        kernel: Any = order.kernel
        launcher.algorithm = described("row_sums" if walk else f"row_maps, {kernel.form}", rows, order)
        if self.task.total is None:
            return Kernel(launcher)
        return KernelWithScratch(launcher, word_bytes(kernel, order.grid[0] - 1))

    def access_bytes(self, key: tuple[int, ...]) -> int:
        """Bytes of each access of arrays that are aligned so."""
        return self._rows(key).nbytes

    @cached_property
    def _few(self) -> FewRows:
        return FewRows(self.task)

    def _rows(self, key: tuple[int, ...]) -> Rows:
        """What is to be normalized, of arrays that are aligned so."""
        task, outer = self.task, self._outer
        width = self._width(alignments_of(task, key))
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
        )

    def _order(self, key: tuple[int, ...], given: Rows, launch: RowLaunch) -> LaunchOrder:
        task, outer, rows = self.task, self._outer, given.rows
        arrays, inputs, read = arrays_of(task), len(task.reads), len(task.reads) - task.indexed
        names = [info(array.dtype).name for array in arrays]
        reach = [(array.high - array.low) // array.itemsize for array in (*task.inputs, *task.outputs)]
        rank = next(rank for rank in RANKS if rank >= len(outer.shape))
        before = (0,) * (rank - len(outer.shape))
        kernel = RowSpec(
            formula=task.formula if launch.form == "registers" else task.formula.fewer,
            reads=tuple(names[:read]),
            picks=names[read] if task.indexed else None,
            writes=tuple(names[inputs:]),
            kept=task.kept,
            stats=task.stats,
            rank=rank,
            wide=max(*reach, prod(task.shape)) >= 2**31 - 2**20,
            width=given.width,
            compute=task.compute,
            scalars=task.scalars,
            form=launch.form,
            runs=launch.runs,
            is_cluster=launch.blocks > 1,
            warps=next(n for n in ROW_WARPS if n * WARP >= launch.block[0]),
            whole=launch.form == "registers" and launch.block[0] * launch.runs * given.width == given.columns,
            total=task.total,
        )
        has_total, words = task.total is not None, (len(task.inputs) + len(task.outputs), 0)
        grid = -(-rows // launch.block[0 if given.is_across else 1]) * launch.blocks
        steps = [n for step, inner in zip(outer.strides, self._inner, strict=True) for n in (*before, *step, inner)]
        return LaunchOrder(
            kernel=kernel,
            device=self.device,
            grid=(grid + has_total, 1),
            block=launch.block,
            alignment=(*key, 0) if has_total else key,
            pointers=(
                *((view.argument, view.offset) for view in task.reads),
                *((len(task.inputs) + view.argument, view.offset) for view in task.writes),
                *((words,) if has_total else ()),
            ),
            constants=(*steps, *[1] * len(before), *outer.shape, rows, given.columns, launch.blocks, launch.held),
            pairs=self._pairs(),
            words=words_of(task.scalars),
            shared=launch.shared,
            cluster=launch.blocks,
        )

    @property
    def _weight_bytes(self) -> int:
        """Those of all weights' elements of one column."""
        return sum(array.itemsize for array in self.task.inputs[self.task.kept :])

    def _walk(
        self, key: tuple[int, ...], given: Rows, found: SumsLaunch, sums: Formula | None = None, parts: int = 0
    ) -> LaunchOrder:
        """The launch of rows that each block or cluster takes one after the other."""
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
        )

    def _width(self, alignments: Sequence[int]) -> int:
        """Elements of an access such that all of them are whole and aligned."""
        task, width = self.task, gcd(VECTOR_BYTES // self._sizes[0], self._columns)
        operands = list(zip(self._sizes, self._inner, self._outer.strides, alignments, strict=True))
        # What has one element a row is read, or written, alone.
        whole_rows = operands[: len(task.reads) - task.indexed] + operands[len(task.reads) : len(operands) - task.stats]
        for size, inner, outer, start in whole_rows:
            if inner != 1:
                return 1
            whole = gcd(VECTOR_BYTES, start, *(size * n for n in outer))
            # What is wider than an access of 16 bytes is several of them.
            width = width if whole == VECTOR_BYTES else gcd(width, max(whole // size, 1))
        return width

    # ------------------------------------------------------------ overlap

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        """True for what is written element by element where it is read."""
        output = j - len(self.inputs)
        return (
            i < self.task.kept
            and output < len(self.outputs) - self.task.stats
            and source == target
            and same_layout(self.inputs[i], self.outputs[output])
        )

    def _shares(self, i: int, j: int) -> str:
        if i < self.task.kept:
            return f"out overlaps {self.names[i]} in part: pass {self.names[i]} itself, or memory that shares nothing"
        return super()._shares(i, j)


# ---------------------------------------------------------------- rows that are few and long


class FewRows:
    """The executables of a `RowTask` without statistics: one for each stage, and one that writes.

    Its rows are so few and long that blocks of one cluster each would leave most of a GPU idle. Each stage is a
    reduction that all blocks share, and its results lie in scratch memory; an elementwise operation then writes the
    rows.

    Attributes:
        stages: of each stage its reduction, and the layouts of its results.
        write: the elementwise operation.
    """

    def __init__(self, task: RowTask):
        own, shape, axis = TABLE[task.compute].numpy, task.shape, task.axis
        kept = (*shape[:axis], *shape[axis + 1 :])
        steps = row_major_strides(kept, own.itemsize)
        stat = layout(kept, steps, own, task.inputs[0].device)
        # The same all along a row.
        spread = (*steps[:axis], 0, *steps[axis:])
        inputs, reads, scalars = task.inputs, task.reads, len(task.scalars)
        self.stages: list[tuple[ReduceExecutable, tuple[Any, ...]]] = []
        for stage in task.formula.fewer.stages:
            made = (stat,) * _results(stage, scalars)
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
            MapSpec(
                op=task.op,
                formula=Formula(task.formula.name, task.formula.function),
                reference=task.reference,
                names=("",) * (len(inputs) + 1),
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
        """All of them, for arrays that lie at these addresses modulo 16; `close` and `fits` as in `Steps`."""
        scratch, arrays, first = Scratch(), len(key), len(key) - 1
        known: tuple[int, ...] = tuple(range(first))
        steps = []
        for reduction, made in self.stages:
            stats = tuple(arrays + scratch.part(each.nbytes) for each in made)
            nothing = (0,) * (len(known) - first + len(stats))
            steps.append(Step(reduction.choose((*key[:first], *nothing)), (*known, *stats), takes_scalars=True))
            known = (*known, *stats)
        nothing = (0,) * (len(known) - first)
        write = self.write.choose((*key[:first], *nothing, key[first]))
        steps.append(Step(write, (*known, first), takes_scalars=True))
        algorithm = "; ".join(step.executable.algorithm for step in steps)
        return Steps(steps, scratch, close, fits, backend=write.backend, algorithm=algorithm)


def _results(stage: Reduction, scalars: int) -> int:
    """How many numbers a stage makes of a row."""
    with np.errstate(all="ignore"):
        return len(stage.finish(*[np.float64(1)] * (len(stage.start) + 1 + scalars)))


# ---------------------------------------------------------------- gradients of rows and of weights


class RowSums(RowExecutable):
    """The executables of gradients of rows and weights, in one pass over dy and x.

    Each block adds up what its rows bring to the weights'. The blocks' sums lie in scratch memory; a reduction of them
    follows.

    Args:
        task: the gradient of rows, without statistics.
        sums: what is added up, as in `SumsSpec`.
        weights: the layouts of what that gives, one for each sum.
    """

    def __init__(self, task: RowTask, sums: Formula, weights: Sequence[Layout]):
        super().__init__(task)
        self._sums, self._weights = sums, tuple(weights)

    def executable(
        self, key: tuple[int, ...], close: Sequence[tuple[int, ...]], fits: Callable[[Sequence[int]], bool]
    ) -> Steps | None:
        """What runs on arrays that lie at these addresses modulo 16, the weights' gradients last; None where two passes
        are better. `close` and `fits` are as in `Steps`."""
        task, parts, arrays = self.task, len(self._weights), len(self.inputs) + 1
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
        launcher = launcher_class()(order)
        launcher.algorithm = described("row_sums", rows, order)
        # There are so few that one pass is faster than two.
        reduction = ReduceExecutable(_reduction(task, sums, self._weights), 1).choose((*[0] * parts, *key[arrays:]))
        steps = [
            Step(Kernel(launcher), (*range(arrays), *places), takes_scalars=True),
            Step(reduction, (*places, *range(arrays, arrays + parts))),
        ]
        algorithm = "; ".join(step.executable.algorithm for step in steps)
        return Steps(steps, scratch, close, fits, backend=launcher.backend, algorithm=algorithm)


def _reduction(task: RowTask, sums: Layout, weights: Sequence[Layout]) -> ReduceTask:
    """The sums of all blocks' sums."""
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
    )
