"""The plans of operations that normalize rows; of gradients, with the sums over all rows that weights have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..base.casts import cast
from ..functions.formula import Formula
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..kernels.rows.launch import RowExecutable, RowSums, RowTask
from ..runtime.operation import Operation
from ..runtime.steps import Scratch, Step, Steps
from .base import OwnScalars


class _Rows(OwnScalars):
    """What both plans share: NumPy."""

    task: RowTask

    def _decide(self, task: RowTask, scalars: Sequence[int]) -> None:
        self.out_given, self.math_dtype, self.accumulator_dtype = task.out_given, task.compute, task.compute
        self._keep(scalars)

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        results, made = self.task.reference(*inputs), self._targets(outs)
        for target, result in zip(made, results, strict=True):
            np.copyto(target, cast(result, target.dtype))
        return made


class RowPlan(_Rows, RowExecutable):
    """A planned operation on rows. Call it with arrays laid out as those it was made for.

    Args:
        task: what it is.
        scalars: the scalar arguments that each run has, as words, which the reference knows by itself.
    """

    def __init__(self, task: RowTask, scalars: Sequence[int] = ()):
        RowExecutable.__init__(self, task)
        self._decide(task, scalars)


class GradientPlan(_Rows):
    """A planned gradient: of rows, and by sums over all of them of weights.

    Args:
        task: the gradient of rows; `reference` returns all results. Behind its output come those that have one element
            a row, in scratch memory.
        reduction: the sums, of the first two inputs and of these.
        sums: the same as `row_sums.RowSums` has it.
        scalars: as of `RowPlan`, for the former.
    """

    def __init__(self, task: RowTask, reduction: ReduceTask, sums: Formula, scalars: Sequence[int]):
        outputs = (task.outputs[0], *reduction.outputs)
        Operation.__init__(self, task.op, (*task.names, *reduction.names), task.inputs, outputs)
        self.task = task
        self._stats = task.outputs[1:]
        many = len(self._stats)
        rows = task._replace(names=(*task.names, *("stats",) * many))
        self._rows, self._sums = (
            RowExecutable(rows),
            ReduceExecutable(reduction._replace(names=("",) * (2 + many) + reduction.names)),
        )
        alone = task._replace(outputs=task.outputs[:1], writes=task.writes[:1], stats=0)
        self._together = RowSums(alone, sums, reduction.outputs)
        # Without rows sums of nothing are still to be written.
        self.empty = self._sums.empty
        self._decide(task, scalars)

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
        return Steps(
            steps,
            scratch,
            self.close,
            partial(self._fits, key),
            backend=sums.backend,
            algorithm="; ".join(step.executable.algorithm for step in steps),
        )
