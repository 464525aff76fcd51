"""How a call of a function of the family that has a plan of its own kind becomes a plan, and is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ..arrays import operands
from ..arrays.operands import Array
from ..base.dtypes import words
from ..base.layout import Layout
from ..errors import ShapeError
from ..kernels.elementwise.launch import MapTask
from ..plan.base import Plan, check_out, outs_of
from ..plan.tasks import MapPlan
from ..runtime.streams import handle_of
from .caching import plans

#: The kind of plan that a function has.
P = TypeVar("P", bound=Plan)


class NumberedPlan(MapPlan):
    """A planned map whose scalar arguments are its own.

    Args:
        spec: the map. Its reference knows these numbers by itself.
        numbers: one for each of its scalars.
    """

    def __init__(self, spec: MapTask, numbers: Sequence[Any]):
        pairs = zip(numbers, spec.scalars, strict=True)
        super().__init__(spec, [word for number, name in pairs for word in words(number, name)])


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
    inputs = [operands.as_input(array, name, handle) for array, name in zip(arrays, names, strict=True)]
    outs = outs_of(out, handle)
    own = None if outs is None else tuple(operands.layout_of(each) for each in outs)
    layouts = tuple(operands.layout_of(each) for each in inputs)
    return plans.find((make, layouts, own, *options)), inputs, outs


class OfOneArray(Generic[P]):
    """Functions of one array that a module has by name: their plans, and how they are run.

    Args:
        make: makes a plan, of a name, the array's layout, the options, and the layout of `out` or None.
        checked: options of a function of this name and an array laid out so, each in one form, so that they are found
            in the cache; or raises.
        called: what messages call the array of the function of a name.
    """

    def __init__(
        self,
        make: Callable[..., P],
        checked: Callable[..., tuple[Any, ...]],
        called: Callable[[str], str] = lambda name: "x",
    ):
        self._make, self._checked, self._called = make, checked, called

    def run(self, name: str, x: Any, options: tuple[Any, ...], is_usual: bool, out: Any, stream: Any) -> Array:
        """The result of a function; `is_usual` where options are in the form that `checked` would return."""
        handle = handle_of(stream)
        given = out
        take = operands.importers.get(type(x))
        if take is not None:
            x = take(x, self._called(name), handle)
            given = None if out is None else operands.as_array(out, "out", handle)
        # The short way, for device arrays; all else, and all that is wrong, is checked in `_find`.
        if is_usual:
            try:
                own = None if given is None else given._numbacc_layout
                plan = plans.hit((self._make, name, x._numbacc_layout, *options, own))
            except Exception:  # NumPy's arrays have no such layout, and what is foreign may raise anything
                plan = None
            if plan is not None:
                return plan.run((x,), None if given is None else (given,), out, handle)
        plan, inputs, outs = self._find(name, x, options, given, handle)
        return plan.run(inputs, outs, out, handle)

    def find(self, name: str, x: Any, options: tuple[Any, ...], out: Any) -> P:
        """The plan that `run` runs."""
        plan, inputs, outs = self._find(name, x, options, out, handle_of(None))
        plan.prepare(inputs, outs)
        return plan

    def _find(
        self, name: str, x: Any, options: tuple[Any, ...], out: Any, handle: int
    ) -> tuple[P, list[Any], list[Any] | None]:
        array = operands.as_input(x, self._called(name), handle)
        outs = one_out(out, name, handle)
        own = None if outs is None else operands.layout_of(outs[0])
        found = operands.layout_of(array)
        return plans.find((self._make, name, found, *self._checked(name, found, *options), own)), [array], outs


def one_out(out: Any, name: str, handle: int) -> list[Any] | None:
    """`out` of a function of this name as arrays: one, or None."""
    outs = outs_of(out, handle)
    if outs is not None and len(outs) != 1:
        raise ShapeError(f"out is a {type(out).__name__} of {len(outs)}; {name} has one result")
    return outs


def outputs_of(result: Layout, outs: tuple[Layout, ...] | None) -> tuple[Layout, ...]:
    """Where the one result of a plan goes: to arrays like it, or to those that are given.

    Raises:
        ShapeError, DTypeError, DeviceError: they do not fit.
    """
    outputs = (result,) if outs is None else outs
    check_out(outputs, (result,), ("out",))
    return outputs
