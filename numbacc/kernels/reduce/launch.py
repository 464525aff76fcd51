"""The executables of reductions over any axes: one kernel, or two where many blocks share a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...base.dtypes import TABLE, info, real_of
from ...base.layout import Layout, Merged, View, merge_dimensions, row_major_strides
from ...functions.formula import Reduction
from ...runtime.launch_order import LaunchOrder
from ..elementwise.geometry import RANKS, alignments_of, sizes_of
from ..elementwise.multi_launch import Passes
from ..specs import words_of
from .geometry import Launch, Walk, launch_of, of_parts
from .spec import FoldSpec


class FoldTask(NamedTuple):
    """A reduction of arrays of given layouts.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        formula: the reduction.
        reference: its meaning in NumPy: takes the inputs in the shape `shape`, returns a tuple of results in that of
            what is kept.
        names, inputs, outputs, out_given: as in `launch.MapSpec`.
        shape: the shape that is reduced.
        axes: the axes that are reduced, in order.
        reads, writes: how the operands lie in the inputs, in the shape `shape`, and in the outputs, without `axes`.
        compute: name of the dtype that is computed in.
        scalars: names of the dtypes of scalar arguments.
    """

    op: str
    formula: Reduction
    reference: Callable[..., tuple[np.ndarray[Any, Any], ...]]
    names: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    out_given: bool
    compute: str
    scalars: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return tuple(d for d in range(len(self.shape)) if d not in self.axes)

    def lengths(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The lengths of axes."""
        return tuple(self.shape[d] for d in axes)


class FoldExecutable(Passes):
    """A reduction, ready for arrays laid out as its task says, wherever they start.

    Args:
        task: the reduction.
        most: as in `geometry.by_columns`, for columns that are reduced; None where that depends on them.
    """

    _takes_scalars = True

    def __init__(self, task: FoldTask, most: int | None = None):
        super().__init__(task.op, task.names, task.inputs, task.outputs)
        self.task = task
        self._limit = () if most is None else (most,)
        self.empty = 0 in task.lengths(task.kept)
        self._check_writable()
        self._walk = _walk(task)
        reach = [(array.high - array.low) // array.itemsize for array in (*task.inputs, *task.outputs)]
        #: Whether an offset or an index could pass 2^31, those of threads beyond the end included.
        self._is_wide = max(*reach, prod(task.shape)) >= 2**31 - 2**20

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """The launches for arrays aligned so."""
        task, inputs = self.task, len(self.inputs)
        walk = self._walk._replace(alignments=alignments_of(task, key)[: self._walk.inputs])
        launch = launch_of(walk, self._spec("whole").parts, *self._limit)
        splits = launch.grid[1]
        reads = [(view.argument, view.offset) for view in task.reads]
        writes = [(view.argument, view.offset) for view in task.writes]
        if splits == 1:
            pointers = [*reads, *((inputs + number, offset) for number, offset in writes)]
            return [self._order("whole", walk, launch, key, pointers, self._pairs())]
        # Parts lie in scratch memory: all results of the first block along y, then those of the second, and so on.
        kept, count, results = walk.kept, len(task.formula.parts), prod(walk.kept.shape)
        rows = (row_major_strides(kept.shape, 1),) * count
        own = walk._replace(kept=kept._replace(strides=(*kept.strides[: walk.inputs], *rows)))
        pointers = [*reads, *((inputs + part, 0) for part in range(count))]
        first_key, second_key = self._alignments(key, 2)
        first = self._order("first", own, launch, first_key, pointers, (), results)
        spec = self._spec("second")
        own = Walk(
            kept=kept._replace(strides=(*rows, *kept.strides[walk.inputs :])),
            reduced=Merged((splits,), ((results,),) * count),
            sizes=[TABLE[part].itemsize for part in spec.parts],
            alignments=[0] * count,
        )
        pointers = [*((part, 0) for part in range(count)), *((count + number, offset) for number, offset in writes)]
        return [first, self._order("second", own, of_parts(own), second_key, pointers, ())]

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """The arrays' addresses modulo 16 for each pass; those of parts are 0."""
        parts = (0,) * len(self.task.formula.parts)
        return [key] if passes == 1 else [(*key[: len(self.inputs)], *parts), (*parts, *key[len(self.inputs) :])]

    def _kept_results(self) -> int:
        return prod(self._walk.kept.shape)

    def _operands(self, parts: Sequence[int]) -> Sequence[tuple[int, ...]]:
        inputs, outputs = len(self.inputs), len(self.outputs)
        return (*range(inputs), *parts), (*parts, *range(inputs, inputs + outputs))

    def _spec(self, stage: str) -> FoldSpec:
        """The kernel of a pass, but for its geometry."""
        task = self.task
        kinds = {"": task.compute, "real": real_of(task.compute), "index": "int64" if self._is_wide else "int32"}
        parts = tuple(kinds.get(part, part) for part in task.formula.parts)
        reads = tuple(info(task.inputs[view.argument].dtype).name for view in task.reads)
        writes = tuple(info(task.outputs[view.argument].dtype).name for view in task.writes)
        floats = [TABLE[name] for name in writes if TABLE[name].is_float]
        return FoldSpec(
            algorithm="fold_columns",
            formula=task.formula,
            reads=parts if stage == "second" else reads,
            writes=parts if stage == "first" else writes,
            parts=parts,
            kept=1,
            reduced=1,
            wide=self._is_wide,
            compute=task.compute,
            scalars=task.scalars,
            narrow=bool(floats) and all(row.compute == task.compute != row.name for row in floats),
            stage=stage,
        )

    def _order(
        self,
        stage: str,
        walk: Walk,
        launch: Launch,
        alignment: tuple[int, ...],
        pointers: Sequence[tuple[int, int]],
        pairs: Sequence[tuple[int, ...]],
        split_step: int = 0,
    ) -> LaunchOrder:
        """The launch of a pass; its outputs are `split_step` elements apart for each block along y."""
        task, kept, reduced = self.task, launch.kept, launch.reduced
        # Kernels are compiled for few ranks: dimensions of length 1 fill up.
        ranks = [next(rank for rank in RANKS if rank >= len(shape)) for shape in (kept, reduced)]
        before, between = ((0,) * (rank - len(shape)) for rank, shape in zip(ranks, (kept, reduced), strict=True))
        steps: list[int] = []
        for k, step in enumerate(walk.reduced.strides):
            # An index is the same for all that is kept.
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
    """Whether indices, the last operand's offsets, grow all the way."""
    reach = 0
    for n, step in zip(reversed(reduced.shape), reversed(reduced.strides[-1]), strict=True):
        if n > 1:
            if step <= reach:
                return False
            reach += (n - 1) * step
    return True


def _walk(task: FoldTask) -> Walk:
    """How a task's operands are walked; their alignment is not known yet."""
    sizes, views = sizes_of(task), (*task.reads, *task.writes)
    steps = [tuple(step // size for step in view.strides) for view, size in zip(views, sizes, strict=True)]
    inputs = len(task.reads)
    sources, targets = steps[:inputs], steps[inputs:]
    kept, reduced = ([tuple(step[d] for d in axes) for step in sources] for axes in (task.kept, task.axes))
    lengths = task.lengths(task.axes)
    if task.formula.indexed:
        reduced.append(row_major_strides(lengths, 1))
    return Walk(
        merge_dimensions(task.lengths(task.kept), [*kept, *targets], 1, leader=0),
        merge_dimensions(lengths, reduced, 1, leader=0),
        sizes[:inputs],
        [0] * inputs,
    )
