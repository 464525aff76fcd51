"""The plan of gradients with respect to arrays whose elements indices named.

An operation's module says which elements these are, and which NumPy reference it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..kernels.gather_scatter.launch import ScatterExecutable, ScatterTask
from .base import Plan


class ScatterPlan(Plan, ScatterExecutable):
    """A planned gradient. Call it with arrays laid out as those it was made for.

    Args:
        task: what it is.
    """

    def __init__(self, task: ScatterTask):
        ScatterExecutable.__init__(self, task)
        self.out_given, self.math_dtype, self.accumulator_dtype = task.out_given, task.compute, task.compute

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        (target,) = made = self._targets(outs)
        np.copyto(target, cast(self.task.reference(*inputs), target.dtype))
        return made
