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

#: Argument or error -> its description in the docstrings of the table's functions.
SHARED = {
    "out": "array that receives the result. It has the result's shape and device, and its dtype or one of a wider\n"
    "    kind. It may be one of the arguments (in place), but must not overlap an argument partly.",
    "where": "bool array that broadcasts with the arguments; it requires `out`. Where it is False, the elements of\n"
    "    `out` keep their values, but they are rewritten.",
    "stream": docstrings.COMMON["stream"],
    "ShapeError": "the shapes do not broadcast, or out has the wrong shape.",
    "DTypeError": "the function does not support a dtype, or no argument is an array.",
    "OptionError": "a Python scalar is out of the dtype's range.",
    "LayoutError": "out overlaps an argument partly, or is read-only.",
    "DeviceError": "the arrays are on different devices.",
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
