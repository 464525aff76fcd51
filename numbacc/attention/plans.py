"""The plan of attention, or of its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtypes import words
from ..errors import LayoutError
from ..plan.base import Plan, Result, outs_of
from ..plan.saved import Saved
from ..reference.attention import least_kept
from ..runtime.operation import Trial
from ..runtime.streams import handle_of
from .executables import check_hardware, executable
from .host import HostAttention
from .problem import OPERANDS, AttentionCall, is_number, numbers, resolve, scalars_of
from .saved import of_call
from .score_functions import cells_of
from .staging import key_of


class AttentionPlan(Plan[Result]):
    """A plan of attention, or of its gradients. Call it with arrays that have the layouts it was made for.

    cuDNN's plans belong to a thread: each thread that runs this plan restores its own once.
    """

    per_thread = True
    backend = "cudnn"

    def __init__(self, call: AttentionCall):
        problem = self.problem = resolve(call)
        inputs, outputs = problem.inputs, problem.outputs
        super().__init__(
            f"attention.{call.direction}", (*inputs, *outputs), tuple(inputs.values()), tuple(outputs.values())
        )
        self._check_writable()
        self.out_given = call.outs is not None
        self.math_dtype = self.accumulator_dtype = problem.compute.name
        self.empty = not any(each.size for each in self.outputs)
        #: Whether the executable uses seed and offset.
        self.takes_scalars = self.device < 0 or bool(problem.options.dropout)
        if self.device < 0:
            self._host = HostAttention(problem)
        else:
            check_hardware(problem)

    def _key(self, addresses: Sequence[int]) -> tuple[int, ...]:
        return tuple([key_of(address) for address in addresses])

    def _make(self, key: tuple[int, ...], trial: Trial | None) -> Any:
        return executable(self.problem, key, self.close, self._pairs(), lambda addresses: self._key(addresses) == key)

    def passed(self, seed: int, offset: int) -> tuple[int, ...]:
        """Return seed and offset in the form that executables, or the NumPy reference, expect."""
        if not self.takes_scalars:
            return ()
        if self.device < 0:
            return seed, offset
        p = self.problem.options.dropout
        numbers = zip((seed, offset, least_kept(p), 1.0 / (1.0 - p)), scalars_of(self.problem), strict=True)
        return tuple(word for number, kind in numbers for word in words(number, kind))

    def __call__(
        self, *arrays: Any, seed: int = 0, offset: Any = 0, out: Any = None, stream: Any = None, **extras: Any
    ) -> Result:
        """Run on arrays with the layouts that the plan was made for.

        Args:
            arrays: (q, k, v), or (do, q, k, v, o, stats), or (do, saved). A saved object also holds seed, offset and
                extras.
            seed, offset, out, stream, extras: arguments under the names that the function has for them. Pass exactly
                the arrays that the plan was made with; and mask= if it is a function that reads arrays by position.

        Raises:
            LayoutError: an array has another layout, is missing, or the plan was made without it. OptionError: seed or
                offset.
        """
        handle = handle_of(stream)
        if len(arrays) == 2 and isinstance(arrays[1], Saved):
            kept, own = of_call(arrays[1])
            arrays, extras = (arrays[0], *kept), {**own, **extras}
            seed, offset = extras.pop("seed"), extras.pop("offset")
        if (out is not None) != self.out_given:
            how = "with" if self.out_given else "without"
            raise LayoutError(f"this plan of {self.op} was made {how} out: call it {how} out, too")
        scoring = self.problem.call.scoring
        elements, mask = extras.pop("operands", None) or (), extras.pop("mask", None)
        if scoring is not None and scoring.function.has_cells:
            elements = (*elements, cells_of(mask, self.problem.geometry.scores, self.device, handle))
        extras |= {f"operands[{k}]": each for k, each in enumerate(elements)}
        if "offset" in self.names or not (offset is None or is_number(offset)):
            extras["offset"] = offset
        first = len(OPERANDS[self.problem.call.direction])
        names = self.names[first : len(self.inputs)]
        given = {name for name, array in extras.items() if array is not None}
        if given != set(names):
            raise LayoutError(
                f"this plan of {self.op} was made with {', '.join(names) or 'no further arrays'}; it was called with "
                f"{', '.join(sorted(given)) or 'none'}"
            )
        inputs = self._arrays((*arrays, *(extras[name] for name in names)), handle)
        outs = outs_of(out, handle)
        self._check_fit(inputs, outs)
        result: Result = self.run(inputs, outs, out, handle, self.passed(*numbers(seed, offset)))
        return result

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        return self._host(dict(zip(self.names, inputs, strict=False)), outs, *scalars)
