"""The plans of operations that normalize rows, and of their gradients, including the weights' sums over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ..functions.formula import Formula
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..kernels.rows.launch import RowExecutable, RowSums, RowTask
from ..runtime.steps import Scratch, Step, Steps
from .base import Result
from .tasks import TaskPlan


class RowPlan(TaskPlan[Result], RowExecutable):
    """A planned operation on rows, of a `RowTask`. Call it with arrays of the layouts that it was made for."""


class GradientPlan(TaskPlan[Result]):
    """A planned gradient of rows and, by sums over all rows, of weights.

    Args:
        task: the gradient of rows; `reference` returns all results. After its output come outputs with one element per
            row, in scratch memory.
        reduction: the sums, over the first two inputs and these outputs.
        sums: the same sums in the form of `launch.RowSums`.
        scalars: the scalars of `task`, as in `TaskPlan`.
    """

    task: RowTask

    def __init__(self, task: RowTask, reduction: ReduceTask, sums: Formula, scalars: Sequence[int]):
        names, outputs = (*task.names, *reduction.names), (task.outputs[0], *reduction.outputs)
        super().__init__(task.replace(names=names, outputs=outputs), scalars)
        self._stats = task.outputs[1:]
        many = len(self._stats)
        rows = task.replace(names=(*task.names, *("stats",) * many))
        self._rows, self._sums = (
            RowExecutable(rows),
            ReduceExecutable(reduction.replace(names=("",) * (2 + many) + reduction.names)),
        )
        alone = task.replace(outputs=task.outputs[:1], writes=task.writes[:1], stats=0)
        self._together = RowSums(alone, sums, reduction.outputs)
        # Without rows, the sums, which are 0, must still be written.
        self.empty = self._sums.empty

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        # The sums read dy and x after the rows' gradient has been written.
        return False

    def _make(self, key: tuple[int, ...], trial: Any) -> Steps:
        found = self._together.executable(key, self.close, partial(self._fits, key)) if prod(self.task.shape) else None
        return found or self._in_two_passes(key)

    def _in_two_passes(self, key: tuple[int, ...]) -> Steps:
        scratch, inputs, outputs = Scratch(), len(self.inputs), len(self.outputs)
        parts = [inputs + outputs + scratch.part(stat.nbytes) for stat in self._stats]
        nothing = (0,) * len(parts)
        ins, outs = key[:inputs], key[inputs:]
        sums = self._sums.choose((*ins[:2], *nothing, *outs[1:]))
        steps = [Step(sums, (0, 1, *parts, *range(inputs + 1, inputs + outputs)))]
        if prod(self.task.shape):
            rows = self._rows.choose((*ins, outs[0], *nothing))
            steps.insert(0, Step(rows, (*range(inputs), inputs, *parts), takes_scalars=True))
        return Steps(steps, scratch, self.close, partial(self._fits, key))
