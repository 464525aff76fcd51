"""The executable of gradients with respect to what indices took: rows of dy added up where they came from.

See `scatter_geometry` for which launches there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...base.dtypes import TABLE, info
from ...base.layout import Layout, Merged, layout, view
from ...runtime.launch_order import LaunchOrder
from ...runtime.steps import ABSENT, Scratch, Step, Steps
from ..elementwise.geometry import RANKS
from ..elementwise.multi_launch import Passes, kernel_of
from ..scan.launch import ScanExecutable, ScanTask
from ..scan.spec import SCANS
from . import geometry
from .geometry import Rows, Scatter
from .spec import ScatterSpec, SortSpec

#: The numbers of the arrays, and of the first part of scratch memory.
_DY, _INDICES, _OUT, _SCRATCH = range(4)


class ScatterTask(NamedTuple):
    """The gradient with respect to an array whose elements indices named.

    Attributes:
        op: name of the operation, for messages and `PlanInfo`.
        reference: its meaning in NumPy: takes (dy, indices), returns the gradient in the dtype that is computed in.
        names, inputs, outputs, out_given: as in `launch.MapSpec`; the inputs are dy and the indices.
        compute: name of the dtype of sums.
        length: how many elements the axis has; indices from -length to length - 1 count.
        line: for each element of dx the list of the indices that could name it.
        whole: the list of all indices.
    """

    op: str
    reference: Callable[..., np.ndarray[Any, Any]]
    names: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    out_given: bool
    compute: str
    length: int
    line: Scatter
    whole: Scatter


class _Launch(NamedTuple):
    """A launch.

    Attributes:
        order: it.
        operands: the numbers of its arrays.
    """

    order: LaunchOrder
    operands: tuple[int, ...]


class ScatterExecutable(Passes):
    """Such a gradient, ready for arrays laid out as its task says, wherever they start."""

    def __init__(self, task: ScatterTask):
        super().__init__(task.op, task.names, task.inputs, task.outputs)
        self.task, (out,) = task, task.outputs
        self.empty = not out.size
        self._check_writable()
        row = info(out.dtype)
        self._dtype, self._size, self._shape = row.name, row.itemsize, out.shape
        self._steps = tuple(
            step // row.itemsize if n > 1 else 0 for n, step in zip(out.shape, out.strides, strict=True)
        )
        self._is_few = self.empty or geometry.is_few(task.line)
        if not self._is_few:
            self._plan()

    def _plan(self) -> None:
        """How the list is sorted, and what lies in scratch memory: (keys, offsets) twice, counts, bounds, sums."""
        whole, scratch = self.task.whole, Scratch()
        self._sorting, self._levels = geometry.sorting(whole.entries, whole.numbers), geometry.levels(whole.entries)
        rows = self._rows((0, 0, 0))
        counts, sums = self._sorting.bins * self._sorting.blocks, geometry.sums_of(rows) * sum(self._levels)
        most = max(whole.entries, whole.numbers, counts, sums)
        self._wide = self._is_wide(most)
        size = 8 if self._wide else 4
        lists = [whole.entries] * (2 if len(self._sorting.shifts) == 1 else 4)
        parts = [_SCRATCH + scratch.part(size * n) for n in (counts, whole.numbers + 1, *lists)]
        self._counts, self._bounds, *pairs = parts
        self._lists = [(pairs[k], pairs[k + 1]) for k in range(0, len(pairs), 2)]
        self._sums = _SCRATCH + scratch.part(TABLE[self.task.compute].itemsize * sums) if sums else ABSENT
        self._scratch = scratch
        #: The scan of the counts, behind every `count`.
        self._scan = ScanExecutable(_scan_of(counts, size, self.device))

    def _is_wide(self, most: int = 0) -> bool:
        """True if an offset or an index could pass 2^31, those of threads beyond the end included."""
        arrays = (*self.inputs, *self.outputs)
        return max(most, *((each.high - each.low) // each.itemsize for each in arrays)) >= 2**31 - 2**20

    def _rows(self, key: Sequence[int]) -> Rows:
        alignments = key[_DY], key[_OUT]
        return geometry.over_rows(self._shape, self.task.whole, self._steps, self._size, alignments)

    # ------------------------------------------------------------ launches

    def _orders(self, key: tuple[int, ...]) -> list[LaunchOrder]:
        """The launches for arrays aligned so, but for the scans."""
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
        """A launch on arrays of these numbers, the last of them `moved` bytes further."""
        alignment = tuple([key[k] if 0 <= k < len(key) else 0 for k in operands])
        pointers = tuple([(k, moved if k == len(operands) - 1 else 0) for k in range(len(operands))])
        return _Launch(LaunchOrder(kernel, self.device, *grid, alignment, pointers, tuple(constants), pairs), operands)

    def _spec(self, algorithm: str, rows: Rows, wide: bool, indices: str = "", listed: int = 0) -> ScatterSpec:
        return ScatterSpec(
            algorithm=algorithm,
            dtype=self._dtype,
            indices=indices,
            rank=_rank(rows.outer),
            listed=listed,
            wide=wide,
            compute=self.task.compute,
            width=rows.width,
            bits=geometry.BITS,
        )

    def _few(self, key: tuple[int, ...]) -> _Launch:
        line = self.task.line
        rows = geometry.over_few(self._shape, line, self._steps, self._size, (key[_DY], key[_OUT]))
        listed = geometry.in_c_order(line)
        rank = _rank(listed.shape)
        kernel = self._spec("scatter_few", rows, self._is_wide(), info(self.inputs[_INDICES].dtype).name, rank)
        (*walked, target), outer = _filled(rows.merged._replace(shape=rows.outer), kernel.rank)
        (indices, dy, _), lengths = _filled(listed, rank)
        steps = (*_flat(walked), *dy, *indices, *target)
        scalars = (rows.rows, rows.columns, line.entries, self.task.length, 1)
        arrays = (_DY, _INDICES, _OUT)
        return self._launch_of(
            kernel, key, rows.grid, arrays, (*steps, *outer, *lengths, *scalars), pairs=self._pairs()
        )

    def _sorted(self, key: tuple[int, ...]) -> list[_Launch]:
        """The list in the order of keys, and where each key's entries begin in it."""
        whole, sort, wide, found = self.task.whole, self._sorting, self._wide, []
        index, before = info(self.inputs[_INDICES].dtype).name, [_INDICES]
        entries = geometry.in_c_order(whole)
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
            # From now on keys and offsets are there.
            index, before, entries = "", [*after], Merged((whole.entries,), ((0,), (0,), (0,)))
        grid = geometry.bounds_grid(whole.numbers)
        kernel = SortSpec("bounds", "", 1, wide)
        found.append(self._launch_of(kernel, key, grid, (before[0], self._bounds), (whole.entries, whole.numbers)))
        return found

    def _added(self, key: tuple[int, ...]) -> list[_Launch]:
        """The sums of chunks, level by level, and those of the segments."""
        rows, bits, found = self._rows(key), geometry.BITS, []
        each = geometry.sums_of(rows)
        keys, offsets = self._lists[(len(self._sorting.shifts) - 1) % len(self._lists)]
        before = top = 0
        for chunks in self._levels:
            below = geometry.over_chunks(rows, chunks)
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

    def _constants(self, rows: Rows, rank: int, each: int, top: int) -> tuple[int, ...]:
        steps, outer = _filled(rows.merged._replace(shape=rows.outer), rank)
        whole = self.task.whole
        return (*_flat(steps), *outer, rows.rows, rows.columns, whole.entries, each, top, whole.numbers, 1)

    # ------------------------------------------------------------ together

    def _alignments(self, key: tuple[int, ...], passes: int) -> list[tuple[int, ...]]:
        """As in `Passes`."""
        return [launch.order.alignment for launch in self._launches(key)]

    def _executable(self, key: tuple[int, ...], orders: Sequence[LaunchOrder]) -> Any:
        """As in `Passes`, with a scan behind every count."""
        if self._is_few:
            return super()._executable(key, orders)
        steps = []
        for order, (_, operands) in zip(orders, self._launches(key), strict=True):
            steps.append(Step(kernel_of(order), operands))
            if order.kernel.algorithm == "count":
                steps.append(Step(self._scan.choose((0, 0)), (self._counts, self._counts)))
        return Steps(
            steps,
            self._scratch,
            self.close,
            partial(self._fits, key),
            backend=steps[0].executable.backend,
            algorithm="; ".join(step.executable.algorithm for step in steps),
        )


def _rank(shape: Sequence[int]) -> int:
    """The rank of kernels for so many dimensions."""
    return next(rank for rank in RANKS if rank >= len(shape))


def _filled(merged: Merged, rank: int) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Each operand's steps and the lengths, behind as many dimensions of length 1 as make up the rank."""
    more = rank - len(merged.shape)
    return [(*(0,) * more, *step) for step in merged.strides], (*(1,) * more, *merged.shape)


def _flat(steps: Sequence[Sequence[int]]) -> list[int]:
    return [n for step in steps for n in step]


def _scan_of(count: int, size: int, device: int) -> ScanTask:
    """The sums of so many counts up to each, in place."""
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
