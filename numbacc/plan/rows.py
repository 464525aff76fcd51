"""The plans of operations that normalize rows, and of their gradients, including the weights' sums over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ..functions.formula import COPY, Formula
from ..kernels.elementwise.launch import mapped
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..kernels.rows.launch import RowExecutable, RowSums, RowTask
from ..runtime.steps import Scratch, Step, Steps
from .base import Result
from .tasks import TaskPlan


class RowPlan(TaskPlan[Result], RowExecutable):
    """A planned operation on rows, of a `RowTask`. Call it with arrays of the layouts that it was made for."""


class AddingPlan(RowPlan[Result]):
    """A planned gradient of rows that is added to `out`, which is the second input, too."""

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None) -> Result:
        """Run on arrays with the layouts that the plan was made for: see `Plan`."""
        first = out[0] if isinstance(out, (tuple, list)) else out
        return super().__call__(*arguments[:1], first, *arguments[1:], out=out, stream=stream)


class GradientPlan(TaskPlan[Result]):
    """A planned gradient of rows and, by sums over all rows, of weights.

    Args:
        task: the gradient of rows, maybe with their normalized values; `reference` returns all results. After these
            outputs come `stats` outputs with one element per row, in scratch memory.
        reduction: the sums, over the first and the last row input and these outputs.
        sums: the same sums in the form of `launch.RowSums`.
        scalars: the scalars of `task`, as in `TaskPlan`.
        adds: for each result, whether it is added to the old values; () if none is. If the first one is, the
            task's second input is in the same memory.
        shared: the inputs of the sums that are in the same memory as the first result. In `reduction` they are dense.
    """

    task: RowTask

    def __init__(
        self,
        task: RowTask,
        reduction: ReduceTask,
        sums: Formula,
        scalars: Sequence[int],
        adds: tuple[bool, ...] = (),
        shared: tuple[int, ...] = (),
    ):
        rows = len(task.outputs) - task.stats
        names, outputs = (*task.names, *reduction.names), (*task.outputs[:rows], *reduction.outputs)
        # The reference adds to the first result, which is an input, too.
        self._adds_rows, self._shared, self.adds = True in adds[:1], shared, (False, *adds[1:]) if adds else ()
        super().__init__(task.replace(names=names, outputs=outputs), scalars)
        self._stats = task.outputs[rows:]
        many = len(self._stats)
        self._rows, self._sums = (
            RowExecutable(task.replace(names=(*task.names, *("stats",) * many))),
            ReduceExecutable(reduction.replace(names=("",) * (2 + many) + reduction.names)),
        )
        ends = (0, task.kept - 1)
        #: Input of the sums -> a copy of it, which two passes need.
        self._copies = {k: mapped(COPY, (task.inputs[k],), reduction.inputs[ends.index(k)], ("", "")) for k in shared}
        alone = task.replace(outputs=task.outputs[:rows], writes=task.writes[:rows], stats=0)
        self._together = RowSums(alone, sums, reduction.outputs, reduction.adds)
        # Without rows, the sums, which are 0, must still be written.
        self.empty = self._sums.empty

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None) -> Result:
        """Run on arrays with the layouts that the plan was made for: see `Plan`."""
        if self._adds_rows and isinstance(out, (tuple, list)) and len(out):
            arguments = (*arguments[:1], out[0], *arguments[1:])
        return super().__call__(*arguments, out=out, stream=stream)

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        # In two passes, the sums read copies of what is written over.
        is_row = j == len(self.inputs) and (i in self._shared or 0 < i < self.task.kept - 1)
        return is_row and self._in_place(i, j, source, target)

    def _make(self, key: tuple[int, ...], trial: Any) -> Steps:
        found = self._together.executable(key, self.close, partial(self._fits, key)) if prod(self.task.shape) else None
        return found or self._in_two_passes(key)

    def _in_two_passes(self, key: tuple[int, ...]) -> Steps:
        scratch, inputs, outputs = Scratch(), len(self.inputs), len(self.outputs)
        arrays, first = inputs + outputs, inputs + len(self._rows.outputs) - len(self._stats)
        parts = [arrays + scratch.part(stat.nbytes) for stat in self._stats]
        nothing = (0,) * len(parts)
        ins = key[:inputs]
        steps, sources = [], [0, self.task.kept - 1]
        for k, copy in self._copies.items() if prod(self.task.shape) else ():
            place = arrays + scratch.part(copy.outputs[0].nbytes)
            steps.append(Step(copy.choose((ins[k], 0)), (k, place)))
            sources[sources.index(k)] = place
        if prod(self.task.shape):
            rows = self._rows.choose((*key[:first], *nothing))
            steps.append(Step(rows, (*range(first), *parts), takes_scalars=True))
        starts = [0 if k >= arrays else ins[k] for k in sources]
        sums = self._sums.choose((*starts, *nothing, *key[first:]))
        steps.append(Step(sums, (*sources, *parts, *range(first, arrays))))
        return Steps(steps, scratch, self.close, partial(self._fits, key))
