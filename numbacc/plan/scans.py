"""The plans of scans along an axis, and of the gradient of products.

An operation's module says which formula and NumPy reference it means, and how arguments are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.casts import cast
from ..base.layout import numpy_view, same_layout
from ..kernels.scan.launch import ScanExecutable, ScanTask
from ..runtime.operation import Operation
from ..runtime.steps import Scratch, Step, Steps
from .base import Plan


class ScanPlan(Plan, ScanExecutable):
    """A planned scan. Call it with arrays laid out as those it was made for.

    Args:
        task: what it is.
    """

    def __init__(self, task: ScanTask):
        ScanExecutable.__init__(self, task)
        self.out_given, self.math_dtype, self.accumulator_dtype = task.out_given, task.compute, task.compute

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        task, made = self.task, self._targets(outs)
        (write,) = task.writes
        seen = [numpy_view(inputs[read.argument], read.offset, task.shape, read.strides) for read in task.reads]
        target = made[write.argument]
        result = cast(task.reference(*seen), target.dtype)
        np.copyto(numpy_view(target, write.offset, task.shape, write.strides), result)
        return made


class ProductGradientPlan(Plan):
    """A planned gradient of products up to each element: a scan of x, and one of dy, x and what that made.

    Args:
        before: the first; its output lies in scratch memory.
        task: the second, of (dy, x, that). Its reference is of dy and x.
    """

    def __init__(self, before: ScanTask, task: ScanTask):
        Operation.__init__(self, task.op, (*task.names[:2], task.names[-1]), task.inputs[:2], task.outputs)
        self._before, self._gradient, self._reference = ScanExecutable(before), ScanExecutable(task), task.reference
        self.empty = self._gradient.empty
        self.out_given, self.math_dtype, self.accumulator_dtype = task.out_given, task.compute, task.compute

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        made = self._targets(outs)
        np.copyto(made[0], cast(self._reference(*inputs), made[0].dtype))
        return made

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        # dy and x are read element by element where the gradient is written.
        return source == target and same_layout(self.inputs[i], self.outputs[0])

    def _shares(self, i: int, j: int) -> str:
        return self._gradient._shares(i, j)

    def _make(self, key: tuple[int, ...], trial: Any) -> Steps:
        return self._steps(key, lambda scan, alignment: scan.choose(alignment))

    def choose_captured(self, addresses: Sequence[int]) -> Any:
        """As `choose`; but compiles nothing where there are kernels that can be launched on these arrays."""
        key = self._key(addresses)
        if not self.chosen.made or key in self.chosen.made:
            return self.choose(addresses)
        return self._steps(key, lambda scan, alignment: scan.choose_captured(alignment))

    def _steps(self, key: tuple[int, ...], choose: Callable[[ScanExecutable, tuple[int, ...]], Any]) -> Steps:
        dy, x, out = key
        scratch = Scratch()
        part = 3 + scratch.part(self._before.outputs[0].nbytes)
        steps = [
            Step(choose(self._before, (x, 0)), (1, part)),
            Step(choose(self._gradient, (dy, x, 0, out)), (0, 1, part, 2)),
        ]
        return Steps(
            steps,
            scratch,
            self.close,
            partial(self._fits, key),
            backend=steps[0].executable.backend,
            algorithm="; ".join(step.executable.algorithm for step in steps),
        )
