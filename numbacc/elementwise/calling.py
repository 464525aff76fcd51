"""How a call of a function of the family that has a plan of its own kind becomes a plan, and is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..arrays import operands
from ..base.dtypes import words
from ..base.layout import Layout
from ..errors import ShapeError
from ..kernels.elementwise.launch import MapSpec
from ..plan.base import OwnScalars, Plan, check_out, outs_of
from ..plan.calls import PlannedCall
from ..plan.maps import MapPlan
from ..runtime.streams import handle_of
from .caching import plans


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


def found(
    make: Callable[..., Plan], name: str, arrays: Mapping[str, Any], options: Sequence[Any], out: Any, stream: Any
) -> PlannedCall:
    """The plan of a call, and what it runs on, for `plan.calls.planned`.

    Args:
        make: what makes the plan, of name, options, the layout of `out` or None, and those of the arrays.
        name: the function's.
        arrays: by name.
        options: in one form each, so that they are found in the cache.
        out, stream: as everywhere.

    Raises:
        ShapeError: several arrays to write to.
    """
    handle = handle_of(stream)
    inputs = [operands.as_input(array, own, handle) for own, array in arrays.items()]
    outs = outs_of(out, handle)
    if outs is not None and len(outs) != 1:
        raise ShapeError(f"out is a {type(out).__name__} of {len(outs)}; {name} has one result")
    target = None if outs is None else operands.layout_of(outs[0])
    return plans.find((make, name, *options, target, *map(operands.layout_of, inputs))), inputs, outs, handle, ()


def outputs_of(result: Layout, out: Layout | None) -> tuple[Layout]:
    """Where the one result of a plan goes: to an array like it, or to one that is given.

    Raises:
        ShapeError, DTypeError, DeviceError: they do not fit.
    """
    outputs = (result if out is None else out,)
    check_out(outputs, (result,), ("out",))
    return outputs
