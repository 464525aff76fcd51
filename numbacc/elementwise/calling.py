"""The cache of the family's plans, by the function that makes a plan and its arguments; how a call finds its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..arrays import operands
from ..base import docstrings, keywords
from ..errors import ShapeError
from ..plan.base import Plan, outs_of
from ..plan.cache import PlanCache, functions_of
from ..plan.calls import PlannedCall
from ..runtime.streams import handle_of

plans = PlanCache(lambda make, *arguments: make(*arguments), count=4096)
cache_info, cache_clear, cache_limit = functions_of(plans, "numbacc.elementwise")

#: The docstrings' text on the arguments and errors that functions of the table share.
SHARED = {
    "out": "array for the result, of its shape and device, and of its dtype or a wider kind. It may be one of the\n"
    "    arguments (in place), but must not overlap one in part.",
    "where": "array of bool that broadcasts with the arguments; needs `out`. Where it is False, `out` keeps its\n"
    "    elements; they are read and written again.",
    "stream": docstrings.COMMON["stream"],
    "ShapeError": "the shapes do not broadcast, or out has another shape.",
    "DTypeError": "a dtype that the function does not take, or no array among the arguments.",
    "OptionError": "a number that the dtype does not hold.",
    "LayoutError": "out overlaps an argument in part, or is read-only.",
    "DeviceError": "arrays on several devices.",
}


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


def compiled(name: str, source: str, used: dict[str, Any]) -> dict[str, Any]:
    """What a text of public functions defines, given what it uses. Editors and tracebacks find the text."""
    file, space = f"<numbacc.elementwise.{name}>", {"__name__": "numbacc.elementwise", "Any": Any, **used}
    # What an editor shows are the words, as in functions that are not made.
    source = f"from __future__ import annotations\n{source}"
    keywords.define(source, file, space)
    return space
