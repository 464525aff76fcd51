"""The plan of scans along an axis.

An operation's module says which formula and NumPy reference it means, and how arguments are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..base.layout import numpy_view
from ..device.scan_executable import ScanExecutable, ScanTask
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
