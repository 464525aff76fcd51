"""Make the public functions of the table's rows, with their signatures, docstrings and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import indent
from typing import Any

from ..base import docstrings, keywords
from ..base.observing import observable
from ..errors import ArgumentsError, OptionError
from ..functions.symbolic.opaque_functions import whole
from ..plan.calls import opening
from ..plan.saved import Saved, check_kept, saves
from ..runtime.streams import handle_of
from .calling import SHARED, compiled, plans
from .operation import KEY, DoesNotFit, ElementwisePlan, find, is_number, run
from .rows import TABLE, Entry, Row
from .type_promotion import KINDS

#: Name -> the function's form in users' formulas, for functions that a trace records as one operation.
WHOLE_FUNCTIONS: dict[str, Callable[..., Any]] = {}

_SIZES = "Integers and bool give float16, float32 or float64, depending on their size."
#: Rule -> the dtype of the result. `common` is x's dtype, or the promoted dtype of the arguments.
_RULES = {
    "keep": " Its dtype is {common}.",
    "float": f" Its dtype is {{common}}.\n    {_SIZES}",
    "divide": " Its dtype is {common}.\n    Integers and bool give float64.",
    "bool": " Its dtype is bool.",
    "real": " Its dtype is {common}.\n    Complex numbers give the dtype of their parts.",
    "angle": f" Its dtype is {{common}}.\n    Complex numbers give the dtype of their parts.\n    {_SIZES}",
}
_DOC = """Return {what}
{more}
Args:
{args}

Returns:
    {an_array}; `out` if given.{rule}{saved}

Raises:
{raises}
{note}
Example:
    >>> elementwise.{name}({arguments})
    {printed}
"""


def function_of(name: str, entry: Entry) -> Callable[..., Any]:
    """Return the public function of an entry."""
    return make_function(entry.row, entry.options, partial(_text, name, entry), None)


def make_function(
    row: Row, options: Mapping[str, Any], text: Callable[[], str], through: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Return the public function of a row. Its attribute `plan` is the function that returns plans.

    Both are generated as source text, so that they have exact signatures and little overhead per call.

    Args:
        row: the function's row.
        options: its options and their defaults.
        text: returns the docstring.
        through: called as through(row, arguments, out, stream) instead of `run`. Such functions do not support `where`.
    """
    name = row.name
    arrays = [each for each in row.names if each not in options]
    given = "".join(f"{option}: float = {default!r}, " for option, default in options.items())
    called = f"({', '.join(row.names)},)"
    takes = f"{', '.join(f'{each}: Any' for each in arrays)}, *, {given}out: Any = None"
    returned = "tuple[Array, ...]" if row.is_tuple else "Array"
    before = opened = ""
    if through is None:
        takes_plan, takes_all = f"{takes}, where: Any = None", f"{takes}, where: Any = None, stream: Any = None"
        if options:
            saving = f"saving(row, {called}, {len(options)}, out, where, stream)"
            before = f"    if return_saved is not False and saves(return_saved):\n        return {saving}\n"
            takes_all = takes_all.replace("out: Any", "return_saved: bool = False, out: Any", 1)
        if name == "prelu":
            before += "    weight = of_rank(weight, x)\n"
        before += _short(row)
        call, planned = f"run(row, {called}, out, where, stream)", f"find(row, {called}, out, where)"
    else:
        if options:
            before = opened = _opening(row, arrays[1:], options)
            # If x is a saved object, it holds the other arrays.
            for each in arrays[2:]:
                takes = takes.replace(f"{each}: Any", f"{each}: Any = None", 1)
        before += _short(row)
        takes_plan, takes_all = takes, f"{takes}, stream: Any = None"
        call, planned = f"through(row, {called}, out, stream)", f"find(row, {called}, out, None)"
    source = _function(name, name, takes_all, returned, before, call)
    source += _function("plan", f"{name}.plan", takes_plan, "ElementwisePlan", opened, planned)
    space = compiled(name, source, {
        "row": row, "run": run, "find": find, "through": through, "key": KEY, "cache": plans,
        "known": plans.known, "handle_of": handle_of,
        "DoesNotFit": DoesNotFit, "ElementwisePlan": ElementwisePlan, "wrong": keywords.wrong, "of_rank": _of_rank,
        "saves": saves, "saving": _saving, "Saved": Saved, "missing": _missing,
        "defaults": {**dict.fromkeys(arrays[2:]), **options},
    })  # fmt: skip
    function, plan = space[name], space["plan"]
    for each in (function, plan):
        keywords.hidden(each)
    # Arguments may have the function's own name.
    space["_self"], space["_plan"] = observable("call", f"elementwise.{name}")(function), plan
    plan.__qualname__ = f"{name}.plan"
    function.plan, function.__doc__ = plan, text()
    if "f" in row.meanings and "h" not in row.meanings and not row.results:
        # The scalar function, for users' kernels that call this one.
        function.py_func = _of_numbers(row, options)
    call = ", ".join([*arrays, *options])
    plan.__doc__ = (
        f"Return the plan that `{name}` runs for these arguments. Call it as `plan({call})`.\n\n"
        f"Arguments and errors are the same as in `{name}`. If you will call the plan with `out` or `where`, pass them "
        "here, too.\n\n"
        f"Example:\n    >>> {_example(row, options)}.info.backend\n    'numpy'\n"
    )
    return function  # type: ignore[no-any-return]


def _function(name: str, called: str, takes: str, returned: str, before: str, call: str) -> str:
    """Return the source text of a public function. It accepts all keywords; its error names the wrong ones."""
    own = "_plan" if called != name else "_self"
    check = f"    if others:\n        raise wrong({own}, others, {called!r})\n"
    return f"def {name}({takes}, **others: Any) -> {returned}:\n{check}{before}    return {call}\n"


def _short(row: Row) -> str:
    """Return the source text of the fast path, for a device array and more arrays or Python scalars.

    `run` handles all other arguments and reports errors. The functions of other families take no scalars next to
    arrays; therefore this differs from the fast path of `plan.calls.planned`.
    """
    names, rest = row.names, range(1, len(row.names))
    keys = [f"{each}._numbacc_layout" for each in names]
    keys[1:] = [f"type{k} if is{k} else {keys[k]}" for k in rest]
    answer = "return plan.answered(plan.run({}))" if row.is_tuple else "return plan.run({})"
    straight = answer.format(f"({', '.join(names)},), outs, out, handle_of(stream)")
    found = f"known.get((key, row, None, own, {', '.join(keys)}))"
    if row.gradients:
        # `run_backward` sums over broadcast axes. Its steps are plans for arrays of different shapes.
        shapes = [f"{names[k]}.shape" for k in sorted({*range(row.gradients[0]), *row.gradients})]
        found += f" if {' == '.join(shapes)} else None"
    lines = [
        *(f"type{k} = type({names[k]})\nis{k} = type{k} is float or type{k} is int" for k in rest),
        "try:",
        "    own = None if out is None else out._numbacc_layout",
        f"    plan = {found}",
        "except Exception:  # NumPy arrays have no such layout, and other libraries' arrays may raise any error",
        "    plan = None",
        "if plan is not None:",
        "    cache.hits = plan.used = cache.hits + 1  # as `PlanCache.hit`",
        "    outs = None if out is None else (out,)",
    ]
    if not rest:
        lines += [f"    {straight}"]
    else:
        lines += [f"    if not ({' or '.join(f'is{k}' for k in rest)}):\n        {straight}"]
        if len(rest) == 1:
            lines += [f"    arrays, numbers = ({names[0]},), ({names[1]},)"]
        else:
            lines += [f"    arrays, numbers = [{names[0]}], []"]
            lines += [f"    (numbers if is{k} else arrays).append({names[k]})" for k in rest]
        lines += [
            "    try:",
            f"        {answer.format('arrays, outs, out, handle_of(stream), plan.scalars(numbers)')}",
            "    except DoesNotFit:",
            "        pass",
        ]
    text = "".join(f"{line}\n" for line in lines)
    return indent(text, "    ") if row.gradients else f"    if where is None:\n{indent(text, '        ')}"


def _opening(row: Row, arrays: list[str], options: Mapping[str, Any]) -> str:
    """Return the source text that reads a gradient's arrays and options from a saved object, if the first is one."""
    text = opening(f"elementwise.{row.name.removesuffix('_backward')}", [*arrays, *options]) + "\n"
    for each in arrays[1:]:
        text += f"    if {each} is None:\n        raise missing({each!r}, row)\n"
    return text


def _saving(row: Row, arguments: tuple[Any, ...], options: int, out: Any, where: Any, stream: Any) -> tuple[Any, Saved]:
    """Return the result of a function, and the saved object for its gradients.

    Args:
        row, arguments, out, where, stream: the same as in `run`.
        options: the number of options; these are the last arguments.
    """
    if where is not None:
        raise OptionError("return_saved=True does not work with where=, which backward does not support: leave one out")
    count = len(arguments) - options
    names, arrays = row.names[:count], arguments[:count]
    check_kept(names, [None if is_number(each) else each for each in arrays], out, handle_of(stream))
    kept = dict(zip(row.names[count:], arguments[count:], strict=True))
    saved = Saved(f"elementwise.{row.name}", dict(zip(names, arrays, strict=True)), kept)
    return run(row, arguments, out, None, stream), saved


def _missing(name: str, row: Row) -> ArgumentsError:
    """Return the error of a gradient that is called with neither a saved object nor all arrays."""
    of = row.name.removesuffix("_backward")
    return ArgumentsError(
        f"{name} is missing: call {row.name}(dy, saved), with saved from {of}(..., return_saved=True); or give all "
        f"arrays and the options of {of}"
    )


def _of_rank(weight: Any, x: Any) -> Any:
    """Return prelu's weight, with rank 0 if it has one element and x has rank 0, so that the result has x's shape."""
    is_number = getattr(x, "shape", None) == () and getattr(weight, "shape", None) == (1,)
    return weight.reshape(()) if is_number else weight


def _of_numbers(row: Row, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the scalar function of a row, for users' formulas. Its options have the same defaults as for arrays."""
    scalar, numpys = row.meanings["f"]
    function = TABLE[row.name].function
    if function.is_opaque:
        double = row.meanings.get("d")
        if double is not None:
            numpys = double.numpy
        scalar = whole(
            row.name,
            scalar,
            len(row.names),
            numpys,
            double and double.scalar,
            is_step=function.gradient is None,
            is_choosing=not function.is_smooth,
        )
        WHOLE_FUNCTIONS[row.name] = scalar
    if scalar is row.meanings["f"].scalar and not options:
        return scalar
    takes = ", ".join(f"{each}={options[each]!r}" if each in options else each for each in row.names)
    source = f"def {row.name}({takes}):\n    return scalar({', '.join(row.names)})\n"
    found: Callable[..., Any] = compiled(f"{row.name} of numbers", source, {"scalar": scalar})[row.name]
    return found


def _example(row: Row, options: Mapping[str, Any]) -> str:
    of = row.name if row.name in TABLE else row.name.removesuffix("_backward")
    arguments, _ = TABLE[of].function.example
    dy = f"np.ones(elementwise.{of}({arguments}).shape), " if row.gradients else ""
    return f"elementwise.{row.name}.plan({dy}{arguments})"


def listed(names: Sequence[str], word: str = "and") -> str:
    """Return names as a sentence lists them: "x", "x and y", "x, y and z"."""
    return f" {word} ".join([each for each in (", ".join(names[:-1]), names[-1]) if each])


#: Argument or error -> its lines in the docstrings of all functions.
_LINES = {each: docstrings.entry(each, told) for each, told in SHARED.items()}
_ARRAYS = """arrays with any strides and up to 8 dimensions, or scalars; at least one must be an array. They
        broadcast and promote as in NumPy: a Python scalar does not widen an array's dtype."""


_COMMON = "the dtype to which the arguments promote"
_RESULT = "a device array if the arguments are device arrays, a NumPy array if they are NumPy arrays"


def _text(name: str, entry: Entry) -> str:
    """Return a function's docstring."""
    row, options = entry.row, entry.options
    arrays = [each for each in row.names if each not in options]
    told = _ARRAYS if len(arrays) > 1 else "array with up to 8 dimensions and any strides."
    args = [f"    {', '.join(arrays)}: {told}"]
    rule, kinds, errors = str(row.rule), {*row.meanings}, _LINES
    if len(row.names) == 1:
        errors = {**errors, "OptionError": "    OptionError: `where` is given without `out`."}
    if options:
        args += [
            docstrings.entry(option, f"{entry.function.options_say[option]}. A scalar; {default!r} by default.")
            for option, default in options.items()
        ]
        args += [
            f"    return_saved: whether to return a second object, for `{name}_backward(dy, saved)`. It holds",
            f"        {listed(row.names)}. Do not change the arrays before that call.",
        ]
        errors = {
            **_LINES,
            "OptionError": _LINES["OptionError"][:-1] + ",\n        or return_saved=True is used with `where`.",
            "LayoutError": _LINES["LayoutError"][:-1]
            + ", or shares memory with an\n        argument while return_saved=True.",
        }
    if rule in ("float", "divide", "angle"):
        kinds |= {"b", "u", "i"}  # integers and bool are converted to floats first
    unsupported = [words for kind, words in KINDS.items() if kind not in kinds]
    no_array = "no argument is an array." if len(arrays) > 1 else "x is not an array."
    reason = f"the function does not support {listed(unsupported, 'or')}; or {no_array}" if unsupported else no_array
    errors = {**errors, "DTypeError": docstrings.entry("DTypeError", reason)}
    what, _, more = entry.says.partition(". ")
    arguments, printed = entry.function.example
    return _DOC.format(
        what=f"{what}." if more else what,
        more=f"\n{more}\n" if more else "",
        args="\n".join([*args, _LINES["out"], _LINES["where"], _LINES["stream"]]),
        rule=_RULES[rule].format(common="x's") if len(arrays) == 1 else "\n   " + _RULES[rule].format(common=_COMMON),
        an_array="a device array if x is one, a NumPy array if x is one" if len(arrays) == 1 else _RESULT,
        saved="\n    With return_saved, the tuple (y, saved)." if options else "",
        note="\n16-bit floats are computed in float32 and rounded once.\n" if "f" in kinds else "",
        raises="\n".join([errors[each] for each in errors if each.endswith("Error")]),
        name=name,
        arguments=arguments,
        printed=printed.replace("\n", "\n    "),
    )
