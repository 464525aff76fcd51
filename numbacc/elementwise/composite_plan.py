"""Plans that run several plans, one after the other: what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arrays import operands
from ..base.layout import Layout, same_layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import LayoutError
from ..plan.base import Plan, PlanInfo
from ..runtime.streams import handle_of


def run_several(plan: SeveralPlan, arrays: Sequence[Any], target: Any, out: Any, handle: int) -> Any:
    """The results of a plan; `out` if given, which is `target` as an array."""
    result = plan.run(arrays, target, handle)
    return result if out is None else out


def prepared(plan: SeveralPlan, *given: Any) -> SeveralPlan:
    """The plan, ready to run."""
    plan.prepare()
    return plan


class SeveralPlan(NotCopied):
    """A plan of several plans. Call it with arrays laid out as those it was made for.

    Args:
        op, names: what messages call it and its arrays.
        inputs: the arrays' layouts.
        outputs: those of the results.
        plans: what it runs, in order.
        out_given: whether the result is written to the user's array.

    Attributes:
        used, cache, library_bytes: as in every plan.
    """

    _instead = PLAN_INSTEAD
    used, library_bytes = 0, 0
    cache: Any = None

    def __init__(
        self,
        op: str,
        names: Sequence[str],
        inputs: Sequence[Layout],
        outputs: Sequence[Layout],
        plans: Sequence[Plan],
        out_given: bool = False,
    ):
        self.op, self.names, self.inputs, self.outputs = op, tuple(names), tuple(inputs), tuple(outputs)
        self.plans, self.out_given, self.device = tuple(plans), out_given, inputs[0].device

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Any:
        """The results, of arrays of the layouts it was made for; `out` as an array, or None."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Compile and load what a run needs, of arrays that start at multiples of 256 bytes."""
        for plan in self.plans:
            plan.ready(())

    def _call(self, arrays: Sequence[Any], out: Any, stream: Any) -> Any:
        """The results of arrays that may be laid out otherwise, or be another library's."""
        handle = handle_of(stream)
        if (out is not None) != self.out_given:
            raise LayoutError(
                f"this plan of {self.op} was made {'with' if self.out_given else 'without'} out, and must be called so"
            )
        if len(arrays) != len(self.inputs):
            raise LayoutError(
                f"this plan of {self.op} was made for {', '.join(self.names)}; it was called with {len(arrays)} arrays"
            )
        found = [operands.as_input(array, name, handle) for array, name in zip(arrays, self.names, strict=True)]
        target = None if out is None else operands.as_array(out, "out", handle)
        wanted = [*self.inputs, *self.outputs[: out is not None]]
        given = [operands.layout_of(array) for array in (*found, *([] if target is None else [target]))]
        if not all(map(same_layout, given, wanted)):
            raise LayoutError(
                f"this plan of {self.op} was made for {wanted}; it was called with {given}. Make a plan for these "
                "arrays, or call the function, which does"
            )
        result = self.run(found, target, handle)
        return result if out is None else out

    @property
    def info(self) -> PlanInfo:
        """The decisions of all its plans: scratch memory is the most that one takes, beside what they hand on."""
        infos = [plan.info for plan in self.plans]
        sums = [each.accumulator_dtype for each in infos if each.accumulator_dtype]
        return PlanInfo(
            op=self.op,
            dtypes=tuple(each.dtype.name for each in (*self.inputs, *self.outputs)),
            backend=infos[0].backend,
            algorithm="reference" if self.device < 0 else "; ".join(each.algorithm for each in infos),
            workspace_bytes=max(each.workspace_bytes for each in infos),
            math_dtype=infos[-1].math_dtype,
            accumulator_dtype=sums[0] if sums else None,
            deterministic=all(each.deterministic for each in infos),
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in zip(self.names, self.inputs, strict=True))
        results = ", ".join(f"{each.dtype} {each.shape}" for each in self.outputs)
        where = "NumPy" if self.device < 0 else f"{self.info.backend} on cuda:{self.device}"
        return f"<plan of {self.op}: {arrays} -> {results}, {where}>"
