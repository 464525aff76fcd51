"""How a call of an elementwise function becomes a plan: dtypes, broadcasting, numbers beside arrays, `where=`.

`run` is what public functions call where the short path in their text does not help; `find` makes their plans.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import operands
from ..base.layout import Layout
from ..errors import LayoutError, OptionError
from ..plan.base import outs_of
from ..plan.tasks import MapPlan
from ..runtime.streams import handle_of
from .calling import plans
from .planning import Planned, lacking, plan_of, with_none, without_none
from .rows import Row
from .scalars import DoesNotFit, WithNumbers, sorted_out


def run(row: Row, arguments: tuple[Any, ...], out: Any, where: Any, stream: Any) -> Any:
    """The results of a function.

    Args:
        row: the function.
        arguments: arrays and numbers, as its names say.
        out, where, stream: as its docstring says.
    """
    handle = handle_of(stream)
    # The short way, for device arrays and Python's numbers; all else, and all that is wrong, is checked in `_find`.
    if where is None:
        arrays, numbers, keys = [], [], []
        for argument in arguments:
            kind = type(argument)
            if kind is float or kind is int:
                keys.append(kind)
                numbers.append(argument)
                continue
            take = operands.importers.get(kind)
            if take is not None:
                argument = take(argument, row.names[len(keys)], handle)
            own = getattr(argument, "_numbacc_layout", None)
            if own is None:
                break
            keys.append(own)
            arrays.append(argument)
        else:
            own = None if out is None else getattr(out, "_numbacc_layout", None)
            if out is None or own is not None:
                plan = plans.hit((_made, row, None, own, *keys))
                if plan is not None:
                    try:
                        scalars = plan.scalars(numbers) if numbers else ()
                    except DoesNotFit:
                        scalars = None
                if plan is not None and scalars is not None:
                    return plan.answered(plan.run(arrays, None if out is None else (out,), out, handle, scalars))
    plan, arrays, outs, numbers = _find(row, arguments, out, where, handle)
    try:
        scalars = plan.scalars(numbers)
    except DoesNotFit as error:
        if not row.rounded:
            raise OptionError(str(error)) from None
        return run(row, _widened(arguments), out, where, stream)
    answer = plan.run(arrays, outs, out, handle, scalars)
    return answer if answer is out and type(out) in (tuple, list) else plan.answered(answer)


def find(row: Row, arguments: tuple[Any, ...], out: Any, where: Any, stream: Any = None) -> ElementwisePlan:
    """The plan of a call."""
    plan, arrays, outs, _ = _find(row, arguments, out, where, handle_of(stream))
    plan.prepare(arrays, outs)
    return plan


class ElementwisePlan(WithNumbers, MapPlan):
    """A planned elementwise function. Call it with arrays and numbers like those it was made for.

    Attributes:
        kinds: for each argument None where it is an array, else the type of the number.
        masked: True where it was made with `where`.

    Example:
        >>> plan = elementwise.add.plan(np.ones(2), 1.0)
        >>> plan(np.ones(2), 3.0)
        array([4., 4.])
    """

    def __init__(self, row: Row, planned: Planned):
        super().__init__(planned.task)
        self.masked, self._row = planned.arrangement.masked, row
        self._lacks = planned.lacks
        self._expect(row, planned.kinds, planned.types, planned.arrangement)

    def __call__(self, *arguments: Any, out: Any = None, where: Any = None, stream: Any = None) -> Any:
        """Run on arguments like those that the plan was made for.

        Args:
            arguments: arrays laid out alike, and numbers, as the function that made the plan takes them.
            out, where: given if they were given when it was made.
            stream: as everywhere.

        Raises:
            LayoutError: an array is laid out otherwise. OptionError: a number in place of an array, or the reverse.
        """
        handle = handle_of(stream)
        if (out is not None, where is not None) != (self.out_given, self.masked):
            raise LayoutError(
                f"this plan of {self.op} was made {'with' if self.out_given else 'without'} out and "
                f"{'with' if self.masked else 'without'} where, and must be called so"
            )
        arrays, scalars = self._split(arguments)
        outs = outs_of(without_none(out, self._lacks), handle)
        if where is not None:
            arrays = [*arrays, where, *(outs or ())]
        inputs = self._arrays(arrays, handle)
        self._check_fit(inputs, outs)
        answer = self.run(inputs, outs, out, handle, scalars)
        return answer if answer is out and type(out) in (tuple, list) else self.answered(answer)

    def answered(self, found: Any) -> Any:
        """Results that were made, as the function gives them: of several a tuple, with None where there is none."""
        if not self._row.is_tuple:
            return found
        return with_none(found if isinstance(found, (tuple, list)) else (found,), self._lacks)


def _widened(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a comparison with integers as numbers of a dtype that has them: arrays then meet in one."""

    def wide(argument: Any) -> Any:
        if type(argument) is not int:
            return argument
        if -(2**63) <= argument < 2**63:
            return np.int64(argument)
        return np.uint64(argument) if 0 <= argument < 2**64 else np.float64(math.copysign(math.inf, argument))

    return tuple(map(wide, arguments))


# ---------------------------------------------------------------- the long way


def _find(
    row: Row, arguments: tuple[Any, ...], out: Any, where: Any, handle: int
) -> tuple[ElementwisePlan, list[Any], list[Any] | None, list[Any]]:
    """The plan of a call, its arrays, its results' arrays, its numbers."""
    keys, arrays, numbers = sorted_out(row, arguments, handle)
    outs = outs_of(without_none(out, lacking(row, keys)) if row.gradients else out, handle)
    mask = None
    if where is not None:
        if outs is None:
            raise OptionError(
                "where= needs out=, which keeps its values where the mask is False; or use elementwise.where"
            )
        mask = operands.as_input(where, "where", handle)
        arrays += [mask, *outs]
    own = None if outs is None else tuple(operands.layout_of(each) for each in outs)
    target = own[0] if own is not None and len(own) == 1 else own
    key = (_made, row, None if mask is None else operands.layout_of(mask), target, *keys)
    return plans.find(key), arrays, outs, numbers


def planned(row: Row, given: tuple[Any, ...], outs: tuple[Layout, ...] | None = None) -> ElementwisePlan:
    """A plan of arrays (layouts) that need not exist and numbers (their types), in no cache."""
    return _made(row, None, outs, *given)


def _made(row: Row, mask: Layout | None, outs: Layout | tuple[Layout, ...] | None, *given: Any) -> ElementwisePlan:
    # Keys have one layout as it is: a tuple less to make for each call.
    return ElementwisePlan(row, plan_of(row, given, mask, (outs,) if isinstance(outs, Layout) else outs))


#: What keys of these plans begin with.
KEY = _made
