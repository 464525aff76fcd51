"""The plan of reductions over any axes: a formula whose parts are merged over what is reduced.

An operation's module says which formula and NumPy reference it means, and how arguments are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..base.layout import numpy_view
from ..kernels.reduce.launch import FoldExecutable, FoldTask
from ..kernels.rows.launch import RowExecutable, RowTask
from ..runtime.launch_order import VECTOR_BYTES
from .base import Plan


class OwnScalars(Plan):
    """A plan whose scalar arguments are its own: each run has the same."""

    def _keep(self, scalars: Sequence[int]) -> None:
        """Take them, as words; a reference knows them by itself."""
        self._scalars = () if self.device < 0 else tuple(scalars)


class FoldPlan(OwnScalars, FoldExecutable):
    """A planned reduction. Call it with arrays laid out as those it was made for.

    Args:
        task: what it is.
        scalars: the scalar arguments that each run has, as words, which the reference knows by itself.
    """

    def __init__(self, task: FoldTask, scalars: Sequence[int] = ()):
        FoldExecutable.__init__(self, task)
        self.out_given, self.math_dtype = task.out_given, task.compute
        self.accumulator_dtype = self._spec("whole").parts[0]
        self._keep(scalars)

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        task, seen = self.task, []
        for view in task.reads:
            array = inputs[view.argument]
            same = view.offset == 0 and task.shape == array.shape
            seen.append(array if same else numpy_view(array, view.offset, task.shape, view.strides))
        results = task.reference(*seen, *scalars)
        made = self._targets(outs)
        for view, result in zip(task.writes, results, strict=True):
            target, shape = made[view.argument], task.lengths(task.kept)
            np.copyto(numpy_view(target, view.offset, shape, view.strides), cast(result, target.dtype))
        return made


class RowFoldPlan(FoldPlan):
    """A planned reduction along many rows, which threads that share a row bring together in registers.

    Args:
        task: what it is.
        rows: the same as a task of rows: only where arrays are aligned so that accesses are as wide as can be.
    """

    def __init__(self, task: FoldTask, rows: RowTask):
        super().__init__(task)
        self._by_rows = RowExecutable(rows)

    def _make(self, key: Any, trial: Any) -> Any:
        wide = self._by_rows.access_bytes(key) == VECTOR_BYTES
        return self._by_rows.choose(key) if wide else super()._make(key, trial)
