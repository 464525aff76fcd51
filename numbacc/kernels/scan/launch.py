"""The executable of scans along an axis: one kernel; where blocks share a row three, or one behind cleared words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...base.dtypes import TABLE, info
from ...base.layout import Layout, Merged, View, merge_dimensions, row_major_strides, same_layout
from ...functions.formula import Scan
from ...runtime.launch_order import LaunchOrder
from ...runtime.steps import Scratch, Step, Steps, ZeroBytes
from ..elementwise.geometry import RANKS, sizes_of
from ..elementwise.multi_launch import Passes, kernel_of
from ..specs import HEAD_BYTES, words_told
from .geometry import Launch, Walk, launch_of, told_rows
from .spec import ScanSpec

#: How a kernel walks an operand: steps along the rows' dimensions, along what is scanned, and from piece to piece.
Operand = tuple[tuple[int, ...], tuple[int, ...], int]


class ScanTask(NamedTuple):
    """A scan of arrays of given layouts.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        formula: the scan.
        reference: its meaning in NumPy: takes the inputs in the shape `shape`, returns the result in that shape.
        names, inputs, outputs, out_given: as in `launch.MapSpec`. There is one output.
        shape: the shape that is scanned.
        axes: the axes that are scanned, in C order.
        reads, writes: how the operands lie in the inputs and outputs, in the shape `shape`.
        compute: name of the dtype that is computed in.
        reverse: True where it goes from the last element to the first.
    """

    op: str
    formula: Scan
    reference: Callable[..., np.ndarray[Any, Any]]
    names: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    out_given: bool
    compute: str
    reverse: bool = False


class ScanExecutable(Passes):
    """A scan, ready for arrays laid out as its task says, wherever they start."""

    def __init__(self, task: ScanTask):
        super().__init__(task.op, task.names, task.inputs, task.outputs)
        self.task = task
        self.empty = 0 in task.shape
        self._check_writable()
        reach = [(array.high - array.low) // array.itemsize for array in (*task.inputs, *task.outputs)]
        #: Whether an offset or an index could pass 2^31, those of threads beyond the end included.
        self._is_wide = max(*reach, prod(task.shape)) >= 2**31 - 2**20
        if not self.empty:
            self._walk, self._offsets = _walk(task)

    def _spec(self, stage: str) -> ScanSpec:
        """The kernel of a pass, but for its geometry."""
        task = self.task
        parts = (task.compute,) * len(task.formula.start)
        reads = tuple(info(task.inputs[view.argument].dtype).name for view in task.reads)
        writes = tuple(info(task.outputs[view.argument].dtype).name for view in task.writes)
        return ScanSpec(
            algorithm="scan_columns",
            formula=task.formula,
            reads={"second": parts, "last": (*reads, *parts)}.get(stage, reads),
            writes={"first": parts, "second": parts, "chained": (*writes, "uint64")}.get(stage, writes),
            parts=parts,
            outer=1,
            inner=1,
            wide=self._is_wide,
            compute=task.compute,
            stage=stage,
        )

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """The launches for arrays aligned so."""
        task, many = self.task, len(self.inputs)
        views, offsets = (*task.reads, *task.writes), self._offsets
        arrays = [view.argument + (many if k >= len(task.reads) else 0) for k, view in enumerate(views)]
        moved = [(key[array] + offset) % 16 for array, offset in zip(arrays, offsets, strict=True)]
        walk, parts = self._walk._replace(alignments=moved), self._spec("whole").parts
        launch, count, (outer, inner) = launch_of(walk, parts, True), len(parts), self._walk[:2]
        reverse = launch.algorithm == "scan_rows" and inner.strides[0] == (-1,)
        if reverse:  # such rows are taken from their end
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
        if pieces == 1:
            return [self._order("whole", launch, inner.shape, ins, outs, key, pointers, self._pairs(), reverse)]
        # Parts lie in scratch memory: those of a row next to each other, of columns those of a piece of all of them.
        rows = prod(outer.shape)
        near, apart = (pieces, 1) if launch.algorithm == "scan_rows" else (1, rows)
        lie = [(tuple(near * n for n in row_major_strides(outer.shape, 1)), (0,) * len(inner.shape), apart)] * count
        scratch = [(many + k, 0) for k in range(count)]
        moved_targets = [(count + array, offset) for array, offset in targets]
        # Behind the last piece there is none.
        own = Walk(
            Merged((rows,), ((near,),) * (2 * count)),
            Merged((pieces - 1,), ((apart,),) * (2 * count)),
            [TABLE[part].itemsize for part in parts] * 2,
            [0] * (2 * count),
            count,
        )
        scan, both = launch_of(own, parts, False), [((near,), (apart,), 0)] * count
        keys = self._alignments(key, 3)
        return [
            self._order("first", launch, inner.shape, ins, lie, keys[0], [*sources, *scratch], (), reverse),
            self._order("second", scan, own.inner.shape, both, both, keys[1], [(k, 0) for k in range(count)] * 2, ()),
            self._order(
                "last",
                launch,
                inner.shape,
                [*ins, *lie],
                outs,
                keys[2],
                [*sources, *scratch, *moved_targets],
                (),
                reverse,
            ),
        ]

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """As in `Passes`."""
        many, parts = len(self.inputs), (0,) * len(self.task.formula.start)
        return [key] if passes == 1 else [(*key[:many], *parts), parts, (*key[:many], *parts, *key[many:])]

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """As in `Passes`; words by which blocks tell each other are cleared before."""
        order = orders[0]
        if order.kernel.stage != "chained":
            return super()._executable(key, orders)
        kernel, scratch, arrays = kernel_of(order), Scratch(), len(self.inputs) + len(self.outputs)
        positions, items, piece, bits, _ = order.constants[-5:]
        words = positions * told_rows(items, piece, bits) * words_told(order.kernel.parts, order.kernel.width)
        nbytes = HEAD_BYTES + 8 * words
        number = arrays + scratch.part(nbytes)
        return Steps(
            [Step(ZeroBytes(nbytes, self.device), (number,)), Step(kernel, (*range(arrays), number))],
            scratch,
            self.close,
            partial(self._fits, key),
            backend=kernel.backend,
            algorithm=kernel.algorithm,
        )

    def _kept_results(self) -> int:
        return prod(self._walk.outer.shape)

    def _operands(self, parts: Sequence[int]) -> Sequence[tuple[int, ...]]:
        inputs, outputs = len(self.inputs), len(self.outputs)
        given = (*range(inputs), *parts)
        return given, (*parts,), (*given, *range(inputs, inputs + outputs))

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
    ) -> LaunchOrder:
        """The launch of a pass over rows of the shape `inner`."""
        # Kernels are compiled for few ranks: dimensions of length 1 fill up.
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
        )

    # ------------------------------------------------------------ overlap

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        """True for what is written element by element where it is read."""
        return source == target and same_layout(self.inputs[i], self.outputs[j - len(self.inputs)])

    def _shares(self, i: int, j: int) -> str:
        name = self.names[i]
        return f"out overlaps {name} in part: pass {name} itself, or memory that shares nothing"


def _walk(task: ScanTask) -> tuple[Walk, list[int]]:
    """How a task's operands are walked, their alignment not known yet; how many bytes behind the start of its array
    each has the element that is taken first."""
    sizes, views = sizes_of(task), (*task.reads, *task.writes)
    steps = [tuple(step // size for step in view.strides) for view, size in zip(views, sizes, strict=True)]
    others = [d for d in range(len(task.shape)) if d not in task.axes]
    lengths, rest = ([task.shape[d] for d in axes] for axes in (task.axes, others))
    # The last operand, the output, has the order in which they are scanned.
    inner = merge_dimensions(lengths, [tuple(step[d] for d in task.axes) for step in steps], 1, leader=len(steps) - 1)
    outer = merge_dimensions(rest, [tuple(step[d] for d in others) for step in steps], 1, leader=0)
    offsets = [view.offset for view in views]
    if task.reverse:
        for k, own in enumerate(inner.strides):
            offsets[k] += sizes[k] * sum((n - 1) * step for n, step in zip(inner.shape, own, strict=True))
        inner = inner._replace(strides=tuple(tuple(-step for step in own) for own in inner.strides))
    return Walk(outer, inner, sizes, [0] * len(steps), len(task.reads)), offsets
