"""The executable of operations that normalize rows: its kernel, its grid, and which memory may be shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ..base.dispatch import launcher_class
from ..base.dtypes import info
from ..base.layout import Layout, Merged, View, merge_dimensions, same_layout
from ..kernels.formula import RowFormula
from ..kernels.specs import KEPT_BYTES, MAX_THREADS, VECTOR_BYTES, WARP, LaunchOrder, RowSpec, words_of
from .geometry import RANKS, alignments_of, arrays_of, power_of_two, sizes_of
from .map_executable import Kernel
from .operation import Operation

#: Blocks that keep an H200 busy.
_BLOCKS = 1056


class RowTask(NamedTuple):
    """An operation on rows of arrays of given layouts.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        formula: what it does.
        reference: its meaning in NumPy: takes the inputs, returns a tuple of results.
        names, inputs, outputs, out_given: as in `map_executable.MapSpec`.
        shape: the shape of what is normalized.
        axis: the axis that rows lie along.
        reads, writes: how the operands lie in the inputs and outputs, in the shape `shape`.
        compute: name of the dtype that is computed in.
        scalars: names of the dtypes of scalar arguments.
        kept, stats: as in `RowSpec`.
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

    def _make(self, key: tuple[int, ...], trial: Any) -> Kernel:
        launcher = launcher_class()(self._order(key))
        order = launcher.order
        launcher.algorithm = (
            f"row_maps, {8 * order.kernel.access_bytes}-bit accesses, grid {order.grid}, block {order.block}"
        )
        return Kernel(launcher)

    def _order(self, key: tuple[int, ...]) -> LaunchOrder:
        task, outer, columns = self.task, self._outer, self._columns
        arrays, inputs = arrays_of(task), len(task.reads)
        names = [info(array.dtype).name for array in arrays]
        reach = [(array.high - array.low) // array.itemsize for array in (*task.inputs, *task.outputs)]
        width = self._width(alignments_of(task, key))
        rank = next(rank for rank in RANKS if rank >= len(outer.shape))
        kernel = RowSpec(
            formula=task.formula,
            reads=tuple(names[:inputs]),
            writes=tuple(names[inputs:]),
            kept=task.kept,
            stats=task.stats,
            rank=rank,
            wide=max(*reach, prod(task.shape)) >= 2**31 - 2**20,
            width=width,
            compute=task.compute,
            scalars=task.scalars,
        )
        rows, before = prod(outer.shape), (0,) * (rank - len(outer.shape))
        across = int(width == 1 and abs(self._inner[0]) > abs(outer.strides[0][-1]) > 0)
        block, held = self._block(kernel, rows, across)
        blocks = -(-rows // block[0 if across else 1])
        steps = [n for step, inner in zip(outer.strides, self._inner, strict=True) for n in (*before, *step, inner)]
        return LaunchOrder(
            kernel=kernel,
            device=self.device,
            grid=(blocks, 1),
            block=block,
            alignment=key,
            pointers=(
                *((view.argument, view.offset) for view in task.reads),
                *((len(task.inputs) + view.argument, view.offset) for view in task.writes),
            ),
            constants=(*steps, *[1] * len(before), *outer.shape, rows, columns, across, held),
            pairs=self._pairs(),
            words=words_of(task.scalars),
        )

    def _width(self, alignments: Sequence[int]) -> int:
        """Elements of an access such that all of them are whole and aligned."""
        width, many = gcd(VECTOR_BYTES // self._sizes[0], self._columns), len(self._sizes) - self.task.stats
        for size, inner, outer, start in zip(
            self._sizes[:many], self._inner, self._outer.strides, alignments, strict=False
        ):
            if inner != 1:
                return 1
            whole = gcd(VECTOR_BYTES, start, *(size * n for n in outer))
            # What is wider than an access of 16 bytes is several of them.
            width = width if whole == VECTOR_BYTES else gcd(width, max(whole // size, 1))
        return width

    def _block(self, kernel: RowSpec, rows: int, across: int) -> tuple[tuple[int, int], int]:
        """(threads along x and y, 1 where all of a row is kept)."""
        accesses = self._columns // kernel.width
        most = KEPT_BYTES // kernel.access_bytes // kernel.kept // MAX_THREADS
        if across:
            x = min(WARP, power_of_two(rows), MAX_THREADS)
            group = MAX_THREADS // x
            return (x, group), int(-(-accesses // group) <= most)
        # As few threads a row as have four accesses each; more where rows are few, or too long to be kept.
        group = min(1 << max(accesses // 4, 1).bit_length() - 1, MAX_THREADS)
        while group < min(MAX_THREADS, accesses) and (rows * group < _BLOCKS * MAX_THREADS or accesses > group * most):
            group *= 2
        return (group, min(MAX_THREADS // group, power_of_two(rows))), int(-(-accesses // group) <= most)

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
