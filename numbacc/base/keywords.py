"""Errors for unknown keywords, such as torch's: the message names numbacc's own keyword.

`explain` replaces each public function by one with the same signature and `**others`. Python fills `others` only in
calls with unknown keywords.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, update_wrapper
from types import FunctionType
from typing import Any

from ..errors import ArgumentsError, nearest
from .docstrings import complete, import_in_examples
from .observing import observable

#: A keyword of other libraries -> possible names in numbacc.
_NAMES = {
    "dim": "axis axes", "dims": "axes axis", "axis": "axes", "axes": "axis", "keepdim": "keepdims",
    "input": "x a q x1 dy", "self": "x a x1", "tensor": "x a x1", "array": "x a", "tensors": "arrays", "other": "x2 b",
    "mat1": "a", "mat2": "b", "y": "x2", "weight": "w", "kernel": "w", "filter": "w", "index": "indices",
    "grad_output": "dy do", "grad_out": "dy do", "grad": "dy g", "dout": "dy do", "labels": "target", "lr": "rate",
    "learning_rate": "rate", "wd": "weight_decay", "epsilon": "eps", "dropout_p": "dropout p", "rate": "p dropout",
    "query": "q", "key": "k", "value": "v", "softmax_scale": "scale", "sm_scale": "scale", "cu_seqlens_q": "seq_len_q",
    "cu_seqlens_k": "seq_len_kv", "max_seqlen_q": "max_len_q", "max_seqlen_k": "max_len_kv", "diagonal": "k",
    "end": "stop", "steps": "num", "strides": "stride", "pad": "padding", "pads": "padding", "group": "groups",
    "dilations": "dilation", "data_format": "layout", "memory_format": "layout", "p": "ord dropout",
    "ddof": "correction", "depth": "num_classes", "size": "shape", "shape": "size", "mean": "loc", "std": "scale",
    "a_min": "min", "a_max": "max", "norm_type": "ord", "act": "activation", "type": "dtype", "descending": "reverse",
}  # fmt: skip
#: A keyword without a counterpart in the function -> the code to write instead.
_WORDS = {
    "is_causal": 'pass mask="causal"',
    "causal": 'pass mask="causal"',
    "attn_mask": 'pass mask="causal", or bias= with an array that is added to the scores',
    "approximate": "elementwise.gelu is exact, and elementwise.gelu_tanh is the tanh form",
    "inplace": "pass out=x",
    "unbiased": "pass correction=1, or 0 for unbiased=False",
    "betas": "pass beta1= and beta2=",
    "training": "call it in training only",
    "enable_gqa": "leave it out: q may have more heads than k and v",
    "requires_grad": "leave it out: gradients are functions whose names end in backward",
    "normalized_shape": "leave it out: rows are normalized along the last axis",
    "size_average": 'pass reduction="mean", "sum" or "none"',
    "reduce": 'pass reduction="mean", "sum" or "none"',
    "half_to_float": "pass an array of float32",
    "num_classes": "leave it out",
    "reduction": "leave it out",
}


def wrong(function: Callable[..., Any], others: Mapping[str, Any], called: str = "") -> ArgumentsError:
    """Return the error for keywords that a function does not have; `called` is its name, if not its own."""
    called = called or function.__name__
    (own, signature), given = _written(function), next(iter(others))
    named = next((each for each in _NAMES.get(given, "").split() if each in own), "")
    hint = f"; it is called {named}" if named else f"; {_WORDS[given]}" if given in _WORDS else nearest(given, own)
    end = "" if hint.endswith("?") else "."
    return ArgumentsError(f"{called}() has no argument {given}{hint}{end} It is {called}{signature}")


@lru_cache(maxsize=16)
def _written(function: Callable[..., Any]) -> tuple[list[str], str]:
    """Return the names of a function's parameters, and its signature as text, without annotations."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "others"]
    plain = [each.replace(annotation=each.empty) for each in parameters if each.name != "self"]
    return [each.name for each in parameters], str(inspect.Signature(plain))


def explain(module: str, names: Sequence[str]) -> None:
    """Make a module's functions raise errors that explain unknown keywords, and complete their docstrings.

    They are also replaced where they are defined, so that pickle finds them. If `<function>_backward` exists,
    `function.backward` refers to it from then on. `dir` lists the names alone.
    """
    held = vars(sys.modules[module])
    list_only(module, names)
    for name, (function, made) in _made(module, {name: held.get(name) for name in names}).items():
        home = vars(sys.modules[function.__module__])
        if home.get(name) is function:
            home[name] = made
        held[name] = made
    for name in names:
        if isinstance(gradient := held.get(f"{name}_backward"), FunctionType):
            held[name].backward = gradient
    import_in_examples(held.get(name) for name in names)


def list_only(module: str, names: Iterable[str]) -> None:
    """Make `dir(module)` list these names alone, the public ones. Completion in notebooks uses it."""
    listed = sorted(names)
    vars(sys.modules[module])["__dir__"] = lambda: list(listed)


def explain_methods(kind: type) -> None:
    """Make a class's public methods raise errors that explain unknown keywords."""
    public = {name: each for name, each in vars(kind).items() if not name.startswith("_")}
    for name, (_, made) in _made(f"{kind.__module__}.{kind.__name__}", public).items():
        setattr(kind, name, made)


def _made(owner: str, functions: Mapping[str, Any]) -> dict[str, tuple[FunctionType, FunctionType]]:
    """Return each function and its replacement, by name."""
    space: dict[str, Any] = {"__name__": owner, "wrong": wrong}
    found: dict[str, FunctionType] = {}
    source = ""
    for name, function in functions.items():
        if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
            code = function.__code__
            if not (code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_posonlyargcount):
                found[name] = function
                complete(function)
                source += _source(name, function, space)
    file = f"<numbacc.keywords of {owner}>"
    define(source, file, space)
    # "numbacc", "gated", "random.Generator"
    parts = owner.removeprefix("numbacc.").split(".")
    family = ".".join(dict.fromkeys((parts[0], parts[-1])))
    for name, function in found.items():
        observable("call", f"{family}.{name}")(update_wrapper(space[name], function))
    return {name: (function, space[name]) for name, function in found.items()}


def define(source: str, file: str, space: dict[str, Any]) -> None:
    """Run a text that defines functions, and keep it so that tracebacks and `inspect.getsource` show it.

    Args:
        source: the text.
        file: the name of the file that it stands for.
        space: the names that the text uses; it gets those that the text defines.
    """
    exec(compile(source, file, "exec"), space)
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file


def _nothing() -> None:
    """Provide the code for `hidden`."""


def hidden(function: FunctionType) -> None:
    """Hide a function's own `**others` in its signature."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    shown = FunctionType(
        _nothing.__code__.replace(
            co_argcount=code.co_argcount,
            co_kwonlyargcount=code.co_kwonlyargcount,
            co_nlocals=count,
            co_varnames=code.co_varnames[:count],
            co_name=code.co_name,
            co_filename=code.co_filename,
            co_firstlineno=code.co_firstlineno,
        ),
        function.__globals__,
        function.__name__,
        function.__defaults__,
    )
    shown.__kwdefaults__ = function.__kwdefaults__
    shown.__annotations__ = {name: each for name, each in function.__annotations__.items() if name != "others"}
    function.__wrapped__ = shown  # type: ignore[attr-defined]


class Parameters:
    """The parameters of a function, for the source text of another function with the same parameters.

    Attributes:
        names: all names, in order.
        defaults: `default_` and the name -> the default.
        annotations: name -> annotation.
    """

    def __init__(self, function: FunctionType):
        code = function.__code__
        positional = code.co_varnames[: code.co_argcount]
        self.names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        self._positional = set(positional)
        values = dict(zip(positional[::-1], (function.__defaults__ or ())[::-1], strict=False))
        values.update(function.__kwdefaults__ or {})
        self.defaults: dict[str, Any] = {f"default_{name}": value for name, value in values.items()}
        self.annotations: dict[str, Any] = function.__annotations__

    def taken(self, names: Iterable[str], *more: str) -> str:
        """Return the text that declares these parameters, and more."""
        taken: list[str] = []
        for name in names:
            if name not in self._positional and "*" not in taken:
                taken.append("*")
            taken.append(f"{name}=default_{name}" if f"default_{name}" in self.defaults else name)
        return ", ".join([*taken, *more])

    def passed(self, names: Iterable[str]) -> str:
        """Return the text that passes these parameters in a call."""
        return ", ".join(name if name in self._positional else f"{name}={name}" for name in names)


def _source(name: str, function: FunctionType, space: dict[str, Any]) -> str:
    """Return the text of a function that passes its arguments on."""
    parameters = Parameters(function)
    space[f"_{name}"] = function
    space.update({f"_{name}_{each}": value for each, value in parameters.defaults.items()})
    takes = parameters.taken(parameters.names, "**others").replace("=default_", f"=_{name}_default_")
    return (
        f"def {name}({takes}):\n"
        f"    if others:\n        raise wrong(_{name}, others)\n"
        f"    return _{name}({parameters.passed(parameters.names)})\n"
    )
