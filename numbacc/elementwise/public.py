"""The public functions of the rows: each with a signature, a docstring and a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..base import keywords
from ..errors import ArgumentsError, OptionError
from ..functions.symbolic.opaque_functions import whole
from ..plan.saved import Saved, check_kept, saves
from ..runtime.streams import handle_of
from .operation import ElementwisePlan, find, run, run_one, run_two
from .rows import Row
from .scalars import is_number
from .table import TABLE, Entry
from .type_promotion import KINDS

#: Name -> what stands for it in formulas, of the functions that these note as a whole.
WHOLE_FUNCTIONS: dict[str, Callable[..., Any]] = {}

_RULES = {
    "keep": "the dtype in which the arguments meet",
    "float": "the same for floats and complex numbers; of integers float16, float32 or float64, by their size",
    "divide": "the dtype in which the arguments meet; of integers float64",
    "bool": "bool",
    "real": "the same; of complex numbers that of their parts",
    "angle": "float; of complex numbers that of their parts",
}


def functions_of(name: str, entry: Entry) -> dict[str, Callable[..., Any]]:
    """The public functions of a row, by name: the function, and its plan's."""
    return make_functions(entry.row, entry.options, partial(_text, name, entry), None)


def make_functions(
    row: Row, options: Mapping[str, Any], text: Callable[[], str], through: Callable[..., Any] | None
) -> dict[str, Callable[..., Any]]:
    """The function of a row and that of its plan.

    They are written as text, so that their signatures are what they say, and calls cost as little as they can.

    Args:
        row: what they compute.
        options: its options and their defaults.
        text: what makes the docstring.
        through: what is called with (row, arguments, out, stream) in the place of `run`, for functions without where.
    """
    name = row.name
    arrays = [each for each in row.names if each not in options]
    given = "".join(f"{option}: float = {default!r}, " for option, default in options.items())
    called = f"({', '.join(row.names)},)"
    takes = f"{', '.join(f'{each}: Any' for each in arrays)}, *, {given}out: Any = None"
    returned = "tuple[Array, ...]" if row.is_tuple else "Array"
    before = ""
    if through is None:
        short = {1: "run_one", 2: "run_two"}.get(len(row.names))
        given_to = f"{short}(row, {called[1:-2]}" if short else f"run(row, {called}"
        call = f"{given_to}, out, where, stream)"
        if name == "prelu":
            call = call.replace("weight", "of_rank(weight, x)")
        takes_mask, takes_all = f"{takes}, where: Any = None", f"{takes}, where: Any = None, stream: Any = None"
        if options:
            saving = f"saving(row, {called}, {len(options)}, out, where, stream)"
            before = f"    if return_saved is not False and saves(return_saved):\n        return {saving}\n"
            takes_all = takes_all.replace("out: Any", "return_saved: bool = False, out: Any", 1)
        source = _function(name, takes_all, returned, before, call)
        source += _function(f"{name}_plan", takes_mask, "ElementwisePlan", "", f"find(row, {called}, out, where)")
    else:
        call = f"through(row, {called}, out, stream)"
        takes_all = f"{takes}, stream: Any = None"
        if options:
            before = _opening(arrays[1:], options)
            # If x is a saved object, it holds the other arrays.
            for each in arrays[2:]:
                takes_all = takes_all.replace(f"{each}: Any", f"{each}: Any = None", 1)
        source = _function(name, takes_all, returned, before, call)
        source += _function(f"{name}_plan", takes, "ElementwisePlan", "", f"find(row, {called}, out, None)")
    space = compiled(name, source, {
        "row": row, "run": run, "run_one": run_one, "run_two": run_two, "find": find, "through": through,
        "ElementwisePlan": ElementwisePlan, "wrong": keywords.wrong, "of_rank": _of_rank,
        "saves": saves, "saving": _saving, "Saved": Saved, "missing": _missing,
        "defaults": {**dict.fromkeys(arrays[2:]), **options},
        "of": f"elementwise.{name.removesuffix('_backward')}",
    })  # fmt: skip
    function, plan = space[name], space[f"{name}_plan"]
    for each in (function, plan):
        space[f"_{each.__name__}_"] = each  # arguments may have the function's own name
        keywords.hidden(each)
    function.__doc__ = text()
    if "f" in row.meanings and "h" not in row.meanings and not row.results:
        # What it is of numbers, whatever their dtype: for kernels of one's own that call it.
        function.py_func = _of_numbers(row, options)
    call = ", ".join([*arrays, *options])
    plan.__doc__ = (
        f"The plan that `{name}` runs for these arguments: call it as `plan({call})`.\n\n"
        f"Arguments and errors are those of `{name}`; pass what of `out` and `where` it is to be called with.\n\n"
        f"Example:\n    >>> {_example(row, options)}.info.backend\n    'numpy'\n"
    )
    return {name: function, f"{name}_plan": plan}


def _function(name: str, takes: str, returned: str, before: str, call: str) -> str:
    """The text of a public function. It takes all keywords, and says which of them it does not have."""
    check = f"    if others:\n        raise wrong(_{name}_, others)\n"
    return f"def {name}({takes}, **others: Any) -> {returned}:\n{check}{before}    return {call}\n"


def _opening(arrays: list[str], options: Mapping[str, Any]) -> str:
    """The text that takes the arguments of a gradient, arrays and options, from a saved object in the first's place."""
    first, more = arrays[0], [*arrays[1:], *options]
    given = ", ".join(f"{each!r}: {each}" for each in more)
    text = f"    if isinstance({first}, Saved):\n"
    text += f"        {', '.join([first, *more])} = {first}.opened(of, {{{given}}}, defaults)\n"
    for each in arrays[1:]:
        text += f"    if {each} is None:\n        raise missing({each!r}, row)\n"
    return text


def _saving(row: Row, arguments: tuple[Any, ...], options: int, out: Any, where: Any, stream: Any) -> tuple[Any, Saved]:
    """The result of a function, and the saved object for its gradients.

    Args:
        row, arguments, out, where, stream: as `run` takes them.
        options: how many of the last arguments are options.
    """
    if where is not None:
        raise OptionError("return_saved=True with where=: backward has no where=. Leave one of the two out")
    count = len(arguments) - options
    names, arrays = row.names[:count], arguments[:count]
    check_kept(names, [None if is_number(each) else each for each in arrays], out, handle_of(stream))
    kept = dict(zip(row.names[count:], arguments[count:], strict=True))
    saved = Saved(f"elementwise.{row.name}", dict(zip(names, arrays, strict=True)), kept)
    return run(row, arguments, out, None, stream), saved


def _missing(name: str, row: Row) -> ArgumentsError:
    """The error of a gradient that is given neither a saved object nor all arrays."""
    of = row.name.removesuffix("_backward")
    return ArgumentsError(
        f"{name} is missing: call {row.name}(dy, saved), with saved from {of}(..., return_saved=True); or give all "
        f"arrays and the options of {of}"
    )


def _of_rank(weight: Any, x: Any) -> Any:
    """prelu's weight, as a number of rank 0 if it is one number and x has rank 0: the result has x's shape."""
    is_number = getattr(x, "shape", None) == () and getattr(weight, "shape", None) == (1,)
    return weight.reshape(()) if is_number else weight


def _of_numbers(row: Row, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The scalar function of a row, as formulas call it; its options have their defaults, as in calls with arrays."""
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


def compiled(name: str, source: str, used: dict[str, Any]) -> dict[str, Any]:
    """What a text of public functions defines, given what it uses. Editors and tracebacks find the text."""
    file, space = f"<numbacc.elementwise.{name}>", {"__name__": "numbacc.elementwise", "Any": Any, **used}
    # What an editor shows are the words, as in functions that are not made.
    source = f"from __future__ import annotations\n{source}"
    keywords.define(source, file, space)
    return space


def _example(row: Row, options: Mapping[str, Any]) -> str:
    of = row.name if row.name in TABLE else row.name.removesuffix("_backward")
    arguments, _ = TABLE[of].function.example
    dy = f"np.ones(elementwise.{of}({arguments}).shape), " if row.gradients else ""
    return f"elementwise.{row.name}_plan({dy}{arguments})"


def _text(name: str, entry: Entry) -> str:
    """A function's docstring."""
    row = entry.row
    arrays = [each for each in row.names if each not in entry.options]
    known = [told for kind, told in KINDS.items() if kind in row.meanings]
    several = f"{', '.join(arrays[:-1])} and {arrays[-1]}" if len(arrays) > 1 else arrays[0]
    lines = [entry.says, "", "Args:"]
    if len(arrays) > 1:
        lines.append(
            f"    {', '.join(arrays)}: arrays, any strides, that broadcast as in NumPy, up to 8 dimensions; or numbers,"
        )
        lines.append(
            "        at least one an array. They meet in a dtype as in NumPy: of Python's numbers the kind counts."
        )
    else:
        lines.append(f"    {several}: array of up to 8 dimensions, any strides.")
    lines += [f"    {option}: a number; {default!r} by default." for option, default in entry.options.items()]
    if entry.options:
        lines += [
            "    return_saved: whether to return a second object, which carries arrays and options to",
            f"        `{name}_backward(dy, saved)`. The arrays must not change until then.",
        ]
    lines += [
        "    out: array for the result, of its shape and device, and its dtype or a wider kind. It may be an",
        "        argument: in place. Overlap in part is refused.",
        "    where: array of bool that broadcasts with them; needs `out`, whose elements stay as they are where it is",
        "        False: they are read and written again.",
        "    stream: where the work is queued; the default stream if None. Nothing waits for it.",
        "",
        "Returns:",
        "    a device array if the arguments are, a NumPy array if these are; `out` if given. Its dtype is",
        f"    {_RULES[str(row.rule)]}.",
        "",
        "Raises:",
        f"    DTypeError: not {', '.join(known)}; numbers alone. ShapeError: no broadcasting. LayoutError:",
        "    out overlaps, or is read-only. OptionError: a number that the dtype has not. DeviceError: arrays on",
        "    several devices.",
        "",
        "Floats of 16 bits are computed in float32, and rounded once.",
        "",
        "Example:",
    ]
    arguments, printed = entry.function.example
    if entry.options:
        at = lines.index("Raises:") - 1
        lines.insert(at, "    With return_saved, (y, saved).")
        at = lines.index("Floats of 16 bits are computed in float32, and rounded once.") - 1
        lines.insert(
            at, "    With return_saved, LayoutError: out shares memory with an argument. OptionError: `where` is given."
        )
    lines.append(f"    >>> elementwise.{name}({arguments})")
    lines += [f"    {line}" for line in printed.splitlines()]
    return "\n".join(lines) + "\n"
