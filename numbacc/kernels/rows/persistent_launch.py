"""Gradients of rows and of weights in one pass over dy and x: each block adds up what its rows bring to the weights'.

The blocks' sums lie in scratch memory; a reduction of them follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.dispatch import launcher_class
from ...base.dtypes import TABLE
from ...base.layout import Layout, layout, row_major_strides, view
from ...functions.formula import Formula
from ...runtime.steps import Scratch, Step, Steps
from ..elementwise.launch import Kernel
from ..reduce.functions import REDUCTIONS
from ..reduce.launch import ReduceExecutable, ReduceTask
from .geometry import launch_sums
from .launch import RowExecutable, RowTask, described
from .softmax import GRADIENTS


class RowSums(RowExecutable):
    """The executables of gradients of rows and weights.

    Args:
        task: the gradient of rows, without statistics.
        sums: what is added up, as in `SumsSpec`.
        weights: the layouts of what that gives, one for each sum.
    """

    def __init__(self, task: RowTask, sums: Formula, weights: Sequence[Layout]):
        super().__init__(task)
        self._sums, self._weights = sums, tuple(weights)

    def executable(
        self, key: tuple[int, ...], close: Sequence[tuple[int, ...]], fits: Callable[[Sequence[int]], bool]
    ) -> Steps | None:
        """What runs on arrays that lie at these addresses modulo 16, the weights' gradients last; None where two passes
        are better. `close` and `fits` are as in `Steps`."""
        task, parts, arrays = self.task, len(self._weights), len(self.inputs) + 1
        limits, own = launcher_class().limits(self.device), key[:arrays]
        rows = self._rows(own)
        found = launch_sums(rows, parts, self._weight_bytes, limits)
        if found is None:
            return None
        scratch = Scratch()
        shape = (found.groups, rows.columns)
        sums = layout(shape, row_major_strides(shape, 4), TABLE["float32"].numpy, self.device)
        places = tuple(arrays + parts + scratch.part(sums.nbytes) for _ in range(parts))
        order = self._walk(own, rows, found, self._sums, parts)
        order = order._replace(
            alignment=(*own, *[0] * parts),
            pointers=(*order.pointers, *((arrays + k, 0) for k in range(parts))),
            pairs=(),
        )
        launcher = launcher_class()(order)
        launcher.algorithm = described("row_sums", rows, order)
        # There are so few that one pass is faster than two.
        reduction = ReduceExecutable(_reduction(task, sums, self._weights), 1).choose((*[0] * parts, *key[arrays:]))
        steps = [
            Step(Kernel(launcher), (*range(arrays), *places), takes_scalars=True),
            Step(reduction, (*places, *range(arrays, arrays + parts))),
        ]
        algorithm = "; ".join(step.executable.algorithm for step in steps)
        return Steps(steps, scratch, close, fits, backend=launcher.backend, algorithm=algorithm)


def _reduction(task: RowTask, sums: Layout, weights: Sequence[Layout]) -> ReduceTask:
    """The sums of all blocks' sums."""
    parts = len(weights)
    return ReduceTask(
        op=task.op,
        formula=REDUCTIONS["sum"] if parts == 1 else GRADIENTS["two"],
        reference=task.reference,
        names=("",) * (2 * parts),
        inputs=(sums,) * parts,
        outputs=tuple(weights),
        shape=sums.shape,
        axes=(0,),
        reads=tuple(view(k, 0, sums.strides, sums.shape) for k in range(parts)),
        writes=tuple(view(k, 0, weight.strides, weight.shape) for k, weight in enumerate(weights)),
        out_given=task.out_given,
        compute=task.compute,
    )
