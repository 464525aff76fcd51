"""Plans for torch's tensors on a GPU, for calls with the same kinds of tensors as an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays.tensors import guard_of
from ..base import observing
from ..runtime.streams import foreign, torch_streams

__all__ = ["PlanOfTensors", "plan_of_tensors"]


class PlanOfTensors:
    """A plan for torch's tensors on a GPU. torch compares them with the tensors of the plan's first call in one step.

    Calling it runs the plan, given the tensors, `out` and the stream, and returns the result. It does nothing and
    returns None if the tensors are of another kind, if torch's current stream is another one, or if the call needs
    checks.
    """

    def __init__(self, plan: Any, guard: Callable[..., bool]):
        self._plan, self._guard, self._current_stream = plan, guard, torch_streams()

    def __call__(self, tensors: tuple[Any, ...], out: Any, handle: int) -> Any:
        plan = self._plan
        if not self._guard(*tensors) or observing._observers is not None:
            return None
        if self._current_stream(plan.device) != handle:
            return None
        addresses = [each.data_ptr() for each in tensors]
        if out is not None:
            return out if (not handle or handle in foreign) and plan.queued(addresses, handle, ()) else None
        # Other streams may be captured, and memory is part of the capture then.
        if handle:
            return None
        made = plan._memory(plan.outputs[0], handle)
        addresses.append(made._address)
        return made if plan.queued(addresses, handle, ()) else None


def plan_of_tensors(plan: Any, tensors: tuple[Any, ...]) -> PlanOfTensors | None:
    """Return the object that runs a plan with one output for calls like the one with these tensors, `out` included.

    Return None if the tensors are not on a GPU, have gradients, or are not different objects.
    """
    if plan.of_tensors is None and plan.device >= 0 and not plan.overwritten:
        guard = guard_of(tensors)
        plan.of_tensors = guard and PlanOfTensors(plan, guard)
    found: PlanOfTensors | None = plan.of_tensors
    return found
