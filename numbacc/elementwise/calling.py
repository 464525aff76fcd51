"""The cache of elementwise plans. Keys consist of the function that makes a plan and its arguments."""

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

#: (function, whether `out` is None) -> what ran the last call with torch's tensors.
last_of_tensors: dict[tuple[Any, bool], Any] = {}
plans = PlanCache(lambda make, *arguments: make(*arguments), count=4096, forget=last_of_tensors.clear)
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
    "OptionError": "a Python scalar is out of the dtype's range, or `where` is given without `out`.",
    "LayoutError": "out overlaps an argument partly, or is read-only.",
    "DeviceError": "the arrays are on different devices.",
}


def found(
    make: Callable[..., Plan], name: str, arrays: Mapping[str, Any], options: Sequence[Any], out: Any, stream: Any
) -> PlannedCall:
    """Return the plan of a call and its operands, for `plan.calls.planned`.

    Args:
        make: makes the plan from the name, the options, the layout of `out` or None, and the layouts of the arrays.
        name: the function's name.
        arrays: the arrays by name.
        options: the options, each in a unique form, so that equal options find the same plan in the cache.
        out, stream: the same as in the public functions.

    Raises:
        ShapeError: `out` is several arrays.
    """
    handle = handle_of(stream)
    inputs = [operands.as_input(array, own, handle) for own, array in arrays.items()]
    outs = outs_of(out, handle)
    if outs is not None and len(outs) != 1:
        raise ShapeError(f"out is a {type(out).__name__} of {len(outs)}; {name} has one result")
    target = None if outs is None else operands.layout_of(outs[0])
    return plans.find((make, name, *options, target, *map(operands.layout_of, inputs))), inputs, outs, handle, ()


def compiled(name: str, source: str, used: dict[str, Any]) -> dict[str, Any]:
    """Run generated source text and return the names that it defines. Editors and tracebacks find the text."""
    file, space = f"<numbacc.elementwise.{name}>", {"__name__": "numbacc.elementwise", "Any": Any, **used}
    # Editors then show annotations as text, as for functions that are not generated.
    source = f"from __future__ import annotations\n{source}"
    keywords.define(source, file, space)
    return space
