"""Gradients of rows and of weights in one pass over dy and x: each block adds up what its rows bring to the weights'.

The blocks' sums lie in scratch memory; a reduction of them follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dispatch import launcher_class
from ..base.dtypes import TABLE
from ..base.layout import Layout, layout, row_major_strides, view
from ..kernels.fold_formulas import REDUCTIONS
from ..kernels.formula import Formula
from ..kernels.row_formulas import GRADIENTS
from ..kernels.row_specs import SumsSpec
from ..kernels.specs import WARP
from .fold_kernels import FoldExecutable, FoldTask
from .geometry import clusters, power_of_two
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
        weight_bytes = sum(array.itemsize for array in task.inputs[task.kept :])
        found = launch_sums(rows, parts, weight_bytes, limits)
        if found is None:
            return None
        launch, scratch = found.launch, Scratch()
        shape = (found.groups, rows.columns)
        sums = layout(shape, row_major_strides(shape, 4), TABLE["float32"].numpy, self.device)
        places = tuple(arrays + parts + scratch.part(sums.nbytes) for _ in range(parts))
        order = self._order(own, rows, launch)
        kernel: Any = order.kernel._replace(warps=max(power_of_two(-(-launch.block[0] // WARP)), 2))
        is_whole = launch.blocks * launch.block[0] * launch.runs * rows.width == rows.columns
        order = order._replace(
            kernel=SumsSpec(kernel, self._sums, parts, found.depth, found.threads, found.holds, is_whole),
            grid=(found.groups * launch.blocks, 1),
            alignment=(*own, *[0] * parts),
            pointers=(*order.pointers, *((arrays + k, 0) for k in range(parts))),
            constants=(*order.constants[:-1], -(-rows.rows // launch.block[1])),
            pairs=(),
        )
        launcher = launcher_class()(order)
        launcher.algorithm = (
            f"row_sums, {8 * rows.nbytes}-bit accesses, grid {order.grid}, block {order.block}{clusters(order)}"
        )
        # There are so few that one pass is faster than two.
        fold = FoldExecutable(_fold(task, sums, self._weights), 1).choose((*[0] * parts, *key[arrays:]))
        steps = [
            Step(Kernel(launcher), (*range(arrays), *places), takes_scalars=True),
            Step(fold, (*places, *range(arrays, arrays + parts))),
        ]
        algorithm = "; ".join(step.executable.algorithm for step in steps)
        return Steps(steps, scratch, close, fits, backend=launcher.backend, algorithm=algorithm)


def _fold(task: RowTask, sums: Layout, weights: Sequence[Layout]) -> FoldTask:
    """The sums of all blocks' sums."""
    parts = len(weights)
    return FoldTask(
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
