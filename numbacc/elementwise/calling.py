"""How a call of a function of the family that has a plan of its own kind becomes a plan, and is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..arrays import operands
from ..base.dtypes import words
from ..base.layout import Layout
from ..device.map_executable import MapSpec
from ..device.streams import handle_of
from ..plan.base import Plan, check_out, outs_of
from ..plan.folds import OwnScalars
from ..plan.maps import MapPlan
from .caching import plans

#: The kind of plan that a function has.
P = TypeVar("P", bound=Plan)


class NumberedPlan(OwnScalars, MapPlan):
    """A planned map whose scalar arguments are its own.

    Args:
        spec: the map. Its reference knows these numbers by itself.
        numbers: one for each of its scalars.
    """

    def __init__(self, spec: MapSpec, numbers: Sequence[Any]):
        MapPlan.__init__(self, spec)
        pairs = zip(numbers, spec.scalars, strict=True)
        self._keep([word for number, name in pairs for word in words(number, name)])


def call(
    make: Callable[..., Plan],
    names: Sequence[str],
    arrays: Sequence[Any],
    options: Sequence[Any],
    out: Any,
    stream: Any,
) -> Any:
    """The results of a function.

    Args:
        make: what makes the plan.
        names, arrays: the arrays, and what messages call them.
        options: in one form each, so that they are found in the cache.
        out, stream: as everywhere.
    """
    handle = handle_of(stream)
    plan, inputs, outs = _find(make, names, arrays, options, out, handle)
    return plan.run(inputs, outs, out, handle)


def find(make: Callable[..., P], names: Sequence[str], arrays: Sequence[Any], options: Sequence[Any], out: Any) -> P:
    """The plan that `call` runs."""
    plan, inputs, outs = _find(make, names, arrays, options, out, handle_of(None))
    plan.prepare(inputs, outs)
    return plan


def _find(
    make: Callable[..., P], names: Sequence[str], arrays: Sequence[Any], options: Sequence[Any], out: Any, handle: int
) -> tuple[P, list[Any], list[Any] | None]:
    inputs = [operands.as_array(array, name, handle) for array, name in zip(arrays, names, strict=True)]
    outs = outs_of(out, handle)
    own = None if outs is None else tuple(operands.layout_of(each) for each in outs)
    layouts = tuple(operands.layout_of(each) for each in inputs)
    return plans.find((make, layouts, own, *options)), inputs, outs


def outputs_of(result: Layout, outs: tuple[Layout, ...] | None) -> tuple[Layout, ...]:
    """Where the one result of a plan goes: to arrays like it, or to those that are given.

    Raises:
        ShapeError, DTypeError, DeviceError: they do not fit.
    """
    outputs = (result,) if outs is None else outs
    check_out(outputs, (result,), ("out",))
    return outputs
