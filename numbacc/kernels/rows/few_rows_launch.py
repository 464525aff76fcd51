"""Rows so few and long that blocks of one cluster each would leave most of a GPU idle.

Each stage is a reduction that all blocks share, and its results lie in scratch memory; an elementwise operation then
writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.dtypes import TABLE
from ...base.layout import layout, row_major_strides, view
from ...functions.formula import Formula, Reduction
from ...runtime.steps import Scratch, Step, Steps
from ..elementwise.launch import MapExecutable, MapSpec
from ..reduce.launch import ReduceExecutable, ReduceTask


class FewRows:
    """The executables of a `launch.RowTask` without statistics: one for each stage, and one that writes.

    Attributes:
        stages: of each stage its reduction, and the layouts of its results.
        write: the elementwise operation.
    """

    def __init__(self, task: Any):
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
