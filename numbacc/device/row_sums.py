"""Gradients of rows and of weights in one pass over dy and x: each block adds up what its rows bring to the weights'.

The blocks' sums lie in scratch memory; a reduction of them follows for each weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dispatch import launcher_class
from ..base.dtypes import TABLE
from ..base.layout import Layout, layout, row_major_strides, view
from ..kernels.fold_formulas import REDUCTIONS
from ..kernels.formula import Formula
from ..kernels.row_specs import SumsSpec
from .fold_kernels import FoldExecutable, FoldTask
from .map_executable import Kernel
from .row_executable import RowExecutable, RowTask
from .row_geometry import launch_sums
from .steps import Scratch, Step, Steps


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
        found = launch_sums(rows, parts, limits)
        if found is None:
            return None
        launch, blocks = found
        scratch = Scratch()
        held = blocks * launch.block[1]
        shape = (held, rows.columns)
        sums = layout(shape, row_major_strides(shape, 4), TABLE["float32"].numpy, self.device)
        places = tuple(arrays + parts + scratch.part(sums.nbytes) for _ in range(parts))
        units = -(-rows.rows // launch.block[1])
        order = self._order(own, rows, launch)
        kernel: Any = order.kernel
        order = order._replace(
            kernel=SumsSpec(kernel, self._sums, parts),
            grid=(blocks, 1),
            alignment=(*own, *[0] * parts),
            pointers=(*order.pointers, *((arrays + k, 0) for k in range(parts))),
            constants=(*order.constants[:-2], units),
            pairs=(),
        )
        launcher = launcher_class()(order)
        launcher.algorithm = f"row_sums, {8 * rows.nbytes}-bit accesses, grid {order.grid}, block {order.block}"
        steps = [Step(Kernel(launcher), (*range(arrays), *places), takes_scalars=True)]
        for k, weight in enumerate(self._weights):
            fold = FoldExecutable(_fold(task, sums, weight)).choose((0, key[arrays + k]))
            steps.append(Step(fold, (places[k], arrays + k)))
        algorithm = "; ".join(step.executable.algorithm for step in steps)
        return Steps(steps, scratch, close, fits, backend=launcher.backend, algorithm=algorithm)


def _fold(task: RowTask, sums: Layout, weight: Layout) -> FoldTask:
    """The sum of all blocks' sums."""
    return FoldTask(
        op=task.op,
        formula=REDUCTIONS["sum"],
        reference=task.reference,
        names=("", ""),
        inputs=(sums,),
        outputs=(weight,),
        shape=sums.shape,
        axes=(0,),
        reads=(view(0, 0, sums.strides, sums.shape),),
        writes=(view(0, 0, weight.strides, weight.shape),),
        out_given=task.out_given,
        compute=task.compute,
    )
