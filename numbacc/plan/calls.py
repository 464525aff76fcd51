"""Public functions generated from one signature: the call, its fast path through the cache, and `function.plan`.

A family defines the signature, the docstring, and how arguments become a plan and arrays (a `PlannedCall`). `planned`
generates the rest. It generates plain functions, so `help`, `inspect.signature` and `pickle` work as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from types import FunctionType
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from ..arrays import operands
from ..base import docstrings
from ..base.keywords import Parameters, define, hidden, wrong
from ..base.observing import observable
from ..runtime.streams import handle_of
from .cache import PlanCache
from .saved import Saved, check_kept, saves
from .tensors import plan_of_tensors

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

#: An option's annotation -> the type test that a call must pass for the fast path. A test is needed because 1.0, True
#: and 1 are equal as keys of a cache.
_USUAL = {
    "bool": "({0} is False or {0} is True)",
    "int": "type({0}) is int",
    "int | None": "({0} is None or type({0}) is int)",
    "int | Sequence[int] | None": "({0} is None or type({0}) is int)",
    "float": "(type({0}) is float or type({0}) is int)",
    "float | None": "({0} is None or type({0}) is float)",
}


#: A call whose plan is known: the plan, its inputs, its outputs (None if it allocates them), the stream's handle, and
#: the scalars for `Plan.run`. It is a plain tuple because that is fastest to create.
PlannedCall = tuple[Any, Sequence[Any], "Sequence[Any] | None", int, Sequence[Any]]
#: The test of options with a guard.
_GUARDED = "({0} is default_{0} or type({0}) is int or is_usual_{0}({0}))"


class PlannedFunction(Protocol[P, R]):
    """A public function.

    Attributes:
        plan: the function that returns the plan of a call.
        request, supports: functions that make a cuDNN request from a call, and check whether cuDNN has a plan for it.
        backward, backward_data, backward_filter: its gradients, if it has them.
        py_func: the equivalent function of scalars, if user-defined kernels may call it.
    """

    __name__: str
    __wrapped__: Callable[..., Any]
    plan: Callable[..., Any]
    request: Callable[..., Any]
    supports: Callable[..., Any]
    backward: Any
    backward_data: Any
    backward_filter: Any
    py_func: Any

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the plan of these arguments."""


class Decorator(Protocol):
    """The decorator that `planned` returns."""

    def __call__(self, body: Callable[P, R], /) -> PlannedFunction[P, R]:
        """Make the public function."""


def planned(
    cache: PlanCache,
    plan: str,
    arrays: str,
    *,
    example: str = "",
    make: Callable[..., Any] | tuple[Any, ...] | None = None,
    call: str = "",
    note: str = "",
    optional: str = "",
    defaults: str = "",
    calls_only: str = "",
    extras: str = "",
    passes: tuple[str, Callable[..., Any]] | None = None,
    guards: Mapping[str, Callable[[Any], bool]] | None = None,
    forms: Mapping[str, Callable[[Any], Any]] | None = None,
    pair: bool = False,
    opens: tuple[str, Callable[..., dict[str, Any]]] | str | None = None,
    keep: Callable[..., Any] | str | None = None,
    run: Callable[..., Any] | None = None,
    prepare: Callable[..., Any] | None = None,
    of: Any = None,
    short: bool = True,
    keeps_last: bool = False,
) -> Decorator:
    """Return a decorator that makes a public function and its `plan` from a function that returns a `PlannedCall`.

    The fast path looks for a plan under the key (`make`, function's name, options in order, layout of out or None,
    layouts of the optional arrays if the function has any, layouts of the arrays). It handles arrays that have a
    layout, and options of the types that their annotations name. The decorated function checks everything else, and
    must look for the plan under the same key.

    Args:
        cache: the cache of its plans.
        plan: the class of its plans, by name.
        arrays, optional: names of parameters, separated by blanks: all arrays except `out`. An optional array requires
            those before it.
        example: the lines of the example of `plan`; NAME stands for the function's name. By default, the plan of the
            function's own example, and its op.
        make: the first part of keys: the function that a cache calls with the other parts. Or a tuple of all parts
            before the options, which replaces the name.
        call: how the plan is called; by default with the arrays.
        note: more text about `plan`.
        defaults: parameters that must have their defaults on the fast path; they are in no key.
        calls_only: parameters that `plan` does not have, in addition to stream and return_saved.
        extras: names of optional arrays; each may be missing. The key has a tuple of their layouts, or None if
            all are missing. With extras, the key also has a tuple of the layouts of `out`.
        passes: (parameters, function): numbers that are in no key, and (plan, numbers) -> the scalars of the plan's
            run. One of them may be among the extras: it is then an array or an integer.
        guards: options -> a test whether a value that is neither the default nor an integer is usual, for options whose
            annotation does not define a test.
        pair: True if plans may have a second result, which has no `out`.
        opens: names of a saved object's contents, in order; users may pass the object as the first of them. Or
            (parameter,
            function): if the parameter is a saved object, the function is called with the defaults of all parameters
            and with all arguments by name, and returns the arguments to use instead.
        keep: names of the saved object's contents: parameters, arrays first; a name that is no parameter stands for the
            result. Or a function that is called with the arguments of a call with return_saved=True (but without
            return_saved), and returns the call's result.
        run, prepare: functions that run the plan, or prepare and return it, if the decorated function does not return a
            `PlannedCall`; its results are their arguments.
        of: the function that this is the gradient of.
        short: False to omit the fast path.
        keeps_last: whether the fast path also keeps what ran the last call with torch's tensors. The function then has
            one result, and no optional arrays nor scalars.
    """

    def decorate(body: Callable[P, R]) -> PlannedFunction[P, R]:
        assert isinstance(body, FunctionType)
        name, parameters = body.__name__, Parameters(body)
        family = body.__module__.split(".")[1]
        own = [each for each in parameters.names if each not in {"stream", "return_saved", *calls_only.split()}]
        space: dict[str, Any] = {
            "__name__": body.__module__, "body": body, "wrong": wrong, "handle_of": handle_of, "hit": cache.hit,
            "importers": operands.importers, "as_array": operands.as_array, "Saved": Saved, "saves": saves,
            "run": run, "prepare": prepare, "make": make, "ndarray": np.ndarray, **parameters.defaults,
        }  # fmt: skip
        if keeps_last:
            #: (`PlanOfTensors`, options) of the last calls with torch's tensors: with `out`, and without it.
            last: list[Any] = [None, None]
            cache.forgets(partial(last.__setitem__, slice(None), (None, None)))
            space |= {"last_of_tensors": last, "plan_of_tensors": plan_of_tensors}
        space |= {f"is_usual_{each}": test for each, test in (guards or {}).items()}
        space |= {f"form_{each}": form for each, form in (forms or {}).items()}
        space |= {"keep": keep, "opened": opens and opens[1], "check_kept": check_kept}
        space["passed"] = passes and passes[1]
        space["defaults"] = {each: space.get(f"default_{each}") for each in parameters.names}
        forward = name.removesuffix("_backward") if of is None else of.__name__

        def opened(called: str, names: Sequence[str]) -> list[str]:
            """Return lines that replace the arguments of a call by the contents of a saved object."""
            if opens is None:
                return []
            if isinstance(opens, str):
                return [opening(f"{family}.{forward}", opens.split())]
            return [f"    if type({opens[0]}) is Saved:\n        return {called}(**opened(defaults, {_named(names)}))"]

        lines = [f"def {name}({parameters.taken(parameters.names, '**others')}):"]
        lines += [f"    if others:\n        raise wrong(body, others, {name!r})"]
        if isinstance(keep, str):
            lines += _keeping(name, family, keep.split(), [*arrays.split(), *optional.split()], parameters)
        elif keep is not None:
            given = _named(parameters.names, "return_saved")
            lines += [
                "    if return_saved is not False:",
                f"        return keep({given}) if saves(return_saved) else {name}({given})",
            ]
        lines += opened(name, parameters.names)
        if short:
            first = [repr(name)] if make is None else ["make", repr(name)] if callable(make) else ["*make"]
            lines += _short(
                first, parameters, arrays.split(), optional.split(), defaults.split(), guards or {}, forms or {}, pair,
                extras.split(), passes[0].split() if passes else [], keeps_last,
            )  # fmt: skip
        answer = [
            f"    plan, inputs, outs, handle, scalars = body({parameters.passed(parameters.names)})",
            "    return plan.run(inputs, outs, out, handle, scalars)",
        ]
        lines += answer if run is None else [f"    return run(*body({parameters.passed(parameters.names)}))"]
        lines += [f"def plan({parameters.taken(own, '**others')}):"]
        lines += [f'    if others:\n        raise wrong(plan, others, "{name}.plan")']
        lines += opened("plan", own)
        answer = [
            f"    found, inputs, outs, _, _ = body({parameters.passed(own)})",
            "    found.prepare(inputs, outs)\n    return found",
        ]
        lines += answer if prepare is None else [f"    return prepare(*body({parameters.passed(own)}))"]
        source, file = "\n".join([*lines, ""]), f"<numbacc.{name} of {body.__module__}>"
        define(source, file, space)
        told = {**docstrings.COMMON, **docstrings.ERRORS}
        if isinstance(keep, str):
            told["return_saved"] = _returns(name, keep.split(), [*arrays.split(), *optional.split()], parameters.names)
        if "out" not in parameters.names:
            del told["LayoutError"]
        docstrings.complete(body, told)
        made: Any = observable("call", f"{family}.{name}")(update_wrapper(space[name], body))
        made.plan = found = space["plan"]
        found.__qualname__, found.__module__ = f"{name}.plan", body.__module__
        found.__annotations__ = {each: body.__annotations__[each] for each in own} | {"return": plan}
        shown = example or _example(name, family, body.__doc__)
        found.__doc__ = _DOC.format(
            name=name, call=call or f"plan({', '.join(arrays.split())}, out=None, stream=None)",
            note=note and f"{note}\n    ",
            example="\n        ".join(shown.strip().replace("NAME", name).split("\n")),
        )  # fmt: skip
        hidden(found)
        if of is not None:
            setattr(of, name if name.startswith("backward") else "backward", made)
        return made  # type: ignore[no-any-return]

    return decorate


_DOC = """Return the plan that `{name}` runs for these arguments, ready to run.

    Arguments and errors are those of `{name}`. Pass `out` if the plan is to be called with one.
    {note}Call the plan as `{call}`; `plan.info` shows what it decided.

    Example:
        {example}
    """


def _named(names: Sequence[str], without: str = "") -> str:
    """Return the text of arguments that are passed by name."""
    return ", ".join(f"{each}={each}" for each in names if each != without)


def _keeping(name: str, family: str, held: list[str], arrays: list[str], parameters: Parameters) -> list[str]:
    """Return lines that compute a call's result and a saved object with these contents, in this order."""
    given = _named(parameters.names, "return_saved")
    kept = [each for each in held if each in arrays]
    own = [each for each in held if each in kept or each not in parameters.names]
    pairs = [f"{each!r}: {each if each in kept else 'result'}" for each in own]
    options = [f"{each!r}: {each}" for each in held if each not in own]
    lines = ["    if return_saved is not False and saves(return_saved):"]
    if kept:
        lines += [
            f"        if out is not None:\n            check_kept({kept}, ({', '.join(kept)},), out, handle_of(stream))"
        ]
    return [
        *lines,
        f"        result = {name}({given})",
        f"        return result, Saved('{family}.{name}', {{{', '.join(pairs)}}}, {{{', '.join(options)}}})",
    ]


def _returns(name: str, held: list[str], arrays: list[str], names: list[str]) -> str:
    """Return the docstring's text on `return_saved`."""
    fixed, result = [each for each in held if each in arrays], "the result"
    more = f" Do not change {_listed(fixed)} before that call, nor pass an `out` that shares their memory."
    more = more.replace("their", "its") if len(fixed) == 1 else more if fixed else ""
    if result in (held := [each if each in names else result for each in held]):
        more = f" Do not change {result} before that call."
    return f"whether to return a second object, for `{name}_backward(dy, saved)`. It holds {_listed(held)}.{more}"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def opening(of: str, held: Sequence[str]) -> str:
    """Return the text that replaces arguments by the contents of a saved object of the function `of`.

    Users may pass the object as the first of these arguments. The text needs `Saved`, and `defaults` of the other
    arguments.
    """
    given = ", ".join([f"{each!r}: {each}" for each in held[1:]])
    taken = f"{', '.join(held)} = {held[0]}.opened({of!r}, {{{given}}}, defaults)"
    return f"    if type({held[0]}) is Saved:\n        {taken}"


def _example(name: str, family: str, text: str | None) -> str:
    """Return the lines of `plan`'s example: the function's own example, with a plan instead of the call."""
    call = f"{family}.{name}("
    lines = [line.strip() for line in (text or "").rpartition("Example:")[2].split("\n")]
    last = next(k for k, line in enumerate(lines) if call in line)
    depth, arguments = 1, ""
    for each in lines[last].partition(call)[2]:
        depth += (each in "([{") - (each in ")]}")
        if not depth:
            break
        arguments += each
    arguments = arguments.replace(", return_saved=True", "")
    before = [line for line in lines[:last] if line.startswith((">>>", "..."))]
    return "\n".join([*before, f">>> {family}.{name}.plan({arguments}).info.op", f"'{family}.{name}'"])


def _short(
    first: list[str], parameters: Parameters, arrays: list[str], optional: list[str], defaults: list[str],
    guards: Mapping[str, Any], forms: Mapping[str, Any], pair: bool, extras: list[str], passes: list[str],
    keeps_last: bool,
) -> list[str]:  # fmt: skip
    """Return the lines of the fast path, for device arrays. The function handles all other calls and all errors."""
    apart = {"out", "stream", "return_saved", *arrays, *optional, *defaults, *extras, *passes}
    options = [each for each in parameters.names if each not in apart]
    # NumPy arrays have no layout, but catching the AttributeError would take longer than this test.
    tests = [f"type({arrays[0]}) is not ndarray", *(_is_default(each, parameters) for each in defaults)]
    for each in options:
        test = _GUARDED if each in guards else _USUAL.get(parameters.annotations[each], "")
        if test:
            tests.append(test.format(each))
    layouts = [f"{each}._numbacc_layout" for each in arrays]
    keys = [f"form_{each}({each})" if each in forms else each for each in options]
    more = [f"None if {one} is None else {one}._numbacc_layout" for one in optional]
    inputs = f"({', '.join([*arrays, *optional])},)"
    for count in range(len(optional) - 1, -1, -1):
        inputs = f"({', '.join([*arrays, *optional[:count]])},) if {optional[count]} is None else {inputs}"
    target = "None if given is None else given._numbacc_layout"
    imports = "; ".join(f"{each} = as_array({each}, {each!r}, handle)" for each in arrays)
    outs = "None if given is None else (given,)"
    find: list[str] = []
    scalars = ""
    if extras:
        target = "None if given is None else tuple([each._numbacc_layout for each in given])"
        target += " if type(given) is tuple else (given._numbacc_layout,)"
        outs = "None if given is None else given if type(given) is tuple else (given,)"
        also = [f"None if type({each}) is int else {each}" if each in passes else each for each in extras]
        missing = [f"{' is '.join(each for each in extras if each not in passes)} is None"]
        missing += [f"type({each}) is int" for each in extras if each in passes]
        find = [
            f"            if {' and '.join(missing)}:",
            f"                inputs, more = {inputs}, None",
            "            else:",
            f"                extras = ({', '.join(also)},)",
            "                more = tuple([None if each is None else each._numbacc_layout for each in extras])",
            f"                inputs = (*{inputs}, *[each for each in extras if each is not None])",
        ]
        inputs, more = "inputs", ["more"]
    if passes:
        tests += [f"type({each}) is int" for each in passes if each not in extras]
        usual = " or ".join(f"{each} is not default_{each}" for each in passes)
        scalars = f", passed(plan, {', '.join(passes)}) if plan.takes_scalars or {usual} else ()"
    before: list[str] = []
    if keeps_last:
        given = f"{', '.join(arrays)},"
        before = [
            f"                tensors = ({given}) if out is None else ({given} out)",
            "                last = last_of_tensors[out is None]",
            f"                if last is not None and last[1] == ({', '.join(keys)},):",
            "                    answer = last[0](tensors, out, handle)",
            "                    if answer is not None:",
            "                        return answer",
        ]
    lines = [
        f"    if {' and '.join(tests)}:",
        "        given = out",
        *["        tensors = None"] * keeps_last,
        # The function finds any error again and reports it, in the same way as for NumPy arrays.
        "        try:",
        "            handle = handle_of(stream)",
        f"            if type({arrays[-1]}) in importers and type(out) is not tuple and type(out) is not list:",
        *before,
        f"                {imports}",
        "                given = None if out is None else as_array(out, 'out', handle)",
        *find,
        f"            plan = hit(({', '.join([*first, *keys, target, *more, *layouts])}))",
        "        except Exception:  # foreign arrays may raise anything",
        "            plan = None",
        "        if plan is not None:",
    ]
    if pair:
        lines += [
            "            if len(plan.outputs) != 1:",
            f"                return plan.run({inputs}, (given, None), None, handle)",
        ]
    run = f"plan.run({inputs}, {outs}, out, handle{scalars})"
    if keeps_last:
        return [
            *lines,
            "            if tensors is None:",
            f"                return {run}",
            f"            answer = {run}",
            "            kept = plan_of_tensors(plan, tensors)",
            "            if kept is not None:",
            f"                last_of_tensors[out is None] = kept, ({', '.join(keys)},)",
            "            return answer",
        ]
    return [*lines, f"            return {run}"]


def _is_default(name: str, parameters: Parameters) -> str:
    value = parameters.defaults[f"default_{name}"]
    if value is None or isinstance(value, bool):
        return f"{name} is {value}"
    return f"({name} is default_{name} or type({name}) is {type(value).__name__} and {name} == default_{name})"
