"""Write the stubs of numbacc's public modules, which type checkers and editors read: `python -m tools.stubs`.

Most public functions are made at run time, and have attributes such as `plan` and `backward`. A stub declares each of
them as an object of a class with `__call__` and these attributes. Names, defaults and docstrings come from the
functions, types from the tables in this file. The names of options in `numbacc/typing.py` come from numbacc's tables.

`python -m tools.stubs --check` changes nothing, and fails if a file is not up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numbacc
from numbacc import typing as vocabulary

_ROOT = Path(__file__).parent.parent
#: Module -> its stub.
STUBS = {
    "numbacc": "numbacc/__init__.pyi",
    "numbacc.gated": "numbacc/gated.pyi",
    "numbacc.device": "numbacc/device/__init__.pyi",
    **{
        f"numbacc.{name}": f"numbacc/{name}/__init__.pyi"
        for name in ("attention", "conv", "distributed", "elementwise", "fft", "gemm", "nn", "random")
    },
}
CUDA, TYPES = "numbacc/cuda.pyi", "numbacc/typing.py"
_HEAD = '# Written by `python -m tools.stubs`: do not edit.\n# mypy: disable-error-code="overload-overlap"\n'
_WIDTH = 120

# ---------------------------------------------------------------- the names of options


def options() -> dict[str, tuple[str, ...]]:
    """Return the type of each option -> the names that the option accepts at run time."""
    from numbacc.attention import geometry as attention
    from numbacc.attention import masks
    from numbacc.base import dtypes
    from numbacc.conv import geometry as conv
    from numbacc.conv.problem import TRANSFORMS
    from numbacc.elementwise import ACTIVATIONS, custom_reductions, losses
    from numbacc.fft.arguments import NORMS
    from numbacc.gemm import Epilogue, layers
    from numbacc.libraries import curand
    from numbacc.reference.conv import ACTIVATIONS as conv_activations

    computes = [name for row in dtypes.TABLE.values() if row.products for name in row.products.compute]
    of_conv = [name for name in computes if name != "fast"]  # only float8 has it
    return {
        "GatedKind": numbacc.gated.KINDS,
        "Gate": numbacc.gated.GATES,
        "Activation": ACTIVATIONS,
        "LossReduction": losses.REDUCTIONS,
        "Merge": tuple(custom_reductions.MERGES),
        "ProductEpilogue": tuple(
            each.value for each in Epilogue if not each.produces_aux and not each.produces_bias_grad
        ),
        "AuxEpilogue": tuple(each.value for each in Epilogue if each.produces_aux),
        "BiasGradEpilogue": tuple(each.value for each in Epilogue if each.produces_bias_grad),
        "ProductCompute": tuple(dict.fromkeys(computes)),
        "LayerActivation": tuple(each for each in layers.ACTIVATIONS if each is not None),
        "ConvLayout": conv.LAYOUTS,
        "ConvPadding": conv.PADDINGS,
        "ConvActivation": tuple(conv_activations),
        "ConvCompute": tuple(dict.fromkeys([*of_conv, *(name for names in TRANSFORMS.values() for name in names)])),
        "AttentionLayout": tuple(attention.LAYOUTS),
        "AttentionMask": tuple(masks.NAMED),
        "FftNorm": NORMS,
        "RandomKind": tuple(curand.KINDS),
        "RandomOrdering": tuple(dict.fromkeys(name for kind in curand.KINDS.values() for name in kind.orderings)),
    }


@cache
def _vocabulary() -> frozenset[str]:
    """Return the names of `numbacc.typing`."""
    own = {name for name in vars(vocabulary) if name[0].isupper() and name not in _STANDARD}
    return frozenset(own | options().keys())


def _literal(name: str, values: Sequence[str]) -> str:
    """Return the declaration of an option's type, as ruff formats it."""
    texts = [f'"{value}"' for value in values]
    for text in (f"{name}: TypeAlias = Literal[{', '.join(texts)}]",):
        if len(text) <= _WIDTH:
            return text
    inner = f"    {', '.join(texts)}"
    if len(inner) > _WIDTH:
        inner = "\n".join(f"    {each}," for each in texts)
    return f"{name}: TypeAlias = Literal[\n{inner}\n]"


def types_text(text: str) -> str:
    """Return the text of `numbacc/typing.py` with the current names of options."""
    found = "\n".join(_literal(name, values) for name, values in options().items())
    before, _, rest = text.partition("# generated\n")
    rest = rest.partition("# end\n")[2]
    own = re.findall(r"^(?:class )?([A-Z]\w+)(?=: TypeAlias| = NewType|\()", before, re.MULTILINE)
    names = "".join(f'    "{name}",\n' for name in sorted([*own, *options()], key=_as_ruff_sorts))
    return f"{before}# generated\n{found}\n\n__all__ = [\n{names}]\n# end\n{rest}"


def _as_ruff_sorts(name: str) -> tuple[bool, str]:
    """Return the key of ruff's order in `__all__`: constants, then classes."""
    return not name.isupper(), name


# ---------------------------------------------------------------- types of parameters

_ARRAYS = """
x x1 x2 x3 y dy dtotal total a b c q k v o do stats w w1 w2 b1 b2 bias aux residual weight indices target cos sin alibi
seq_len_q seq_len_kv page_table_k page_table_v descale_q descale_k descale_v scale_s descale_s scale_o amax_d condition
min max threshold value
"""
#: Parameter without a type in the source -> its type.
_PARAMETERS = {
    **dict.fromkeys(_ARRAYS.split(), "AnyArray"),
    **dict.fromkeys(("dtype", "out_dtype", "bias_dtype"), "DTypeLike"),
    **dict.fromkeys(("stride", "dilation", "size", "shape"), "Shape"),
    **dict.fromkeys(("x_shape", "w_shape", "q_shape", "k_shape", "v_shape", "bias_shape"), "Sequence[int]"),
    **dict.fromkeys(("scale_a", "scale_b", "scale_c", "scale_d", "dloss"), "AnyArray | float"),
    "out": "AnyArray",
    "where": "AnyArray | bool",
    "axes": "Axes",
    "axis": "int",
    "n": "int",
    "s": "Shape",
    "norm": "FftNorm",
    "device": "int | str",
    "mask": "AttentionMask | SlidingWindow",
    "offset": "int | AnyArray",
    "epilogue": "ProductEpilogue | AuxEpilogue | BiasGradEpilogue | Epilogue",
    **dict.fromkeys(("obj", "fill_value", "stream"), "Any"),
}
#: (family, parameter) -> its type; it replaces the type in the source.
_OPTIONS = {
    ("gated", "kind"): "GatedKind | RegisteredKind",
    ("gated", "gate"): "Gate",
    ("elementwise", "activation"): "Activation",
    ("elementwise", "reduction"): "LossReduction",
    ("elementwise", "merge"): "Merge | Callable[..., Any]",
    ("gemm", "activation"): "LayerActivation",
    ("gemm", "compute"): "ProductCompute",
    ("conv", "layout"): "ConvLayout",
    ("conv", "activation"): "ConvActivation",
    ("conv", "padding"): "ConvPadding | int | Sequence[int | Sequence[int]]",
    ("conv", "compute"): "ConvCompute",
    ("attention", "layout"): "AttentionLayout",
    ("attention", "mask"): "AttentionMask | SlidingWindow | Callable[..., Any]",
    ("attention", "score"): "Callable[..., Any]",
    ("attention", "operands"): "Sequence[AnyArray]",
    ("random", "kind"): "RandomKind | int",
    ("random", "ordering"): "RandomOrdering",
}
#: (function, parameter) -> its type.
_SPECIAL = {
    ("from_dlpack", "obj"): "AnyArray",
    ("gated.register", "kind"): "str",
    ("gemm.grouped", "sizes"): "AnyArray",
    ("gemm.grouped_backward", "dy"): "AnyArray | Sequence[AnyArray]",
    ("gemm.grouped_backward", "sizes"): "AnyArray",
    ("gemm.grouped_backward", "epilogue"): "Callable[..., Any] | None",
    ("gemm.grouped", "epilogue"): "Callable[..., Any] | None",
    ("gemm.grouped", "out"): "AnyArray | Sequence[AnyArray]",
    ("gemm.grouped", "out_dtype"): "DTypeLike | Sequence[DTypeLike | None]",
    ("gemm.matmul_backward", "dy"): "AnyArray | Sequence[AnyArray]",
    ("gemm.matmul_backward", "epilogue"): 'Callable[..., Any] | Epilogue | Literal["none"]',
    ("gated.register", "gate"): "Callable[[float], float]",
    ("gated.forward", "x"): "AnyArray | Sequence[AnyArray]",
    ("gated.backward", "x"): "AnyArray | Sequence[AnyArray]",
    ("gated.backward", "out"): "AnyArray | Sequence[AnyArray]",
    ("gated.linear_backward", "out"): "Sequence[AnyArray | None]",
    ("elementwise.cross_entropy_backward", "dy"): "AnyArray | Scalar",
    ("elementwise.dropout_backward", "p"): "float",
    ("elementwise.cumsum_backward", "saved"): "Saved",
    ("elementwise.fill", "value"): "Operand",
    ("elementwise.take_backward", "x"): "AnyArray | Sequence[int]",
    ("elementwise.take_along_axis_backward", "x"): "AnyArray | Sequence[int]",
    ("elementwise.adamw_step", "g"): "AnyArray | Sequence[AnyArray]",
    ("elementwise.adamw_step", "step"): "int | AnyArray",
    ("elementwise.adamw_step", "rate"): "float | AnyArray",
    ("elementwise.adamw_step", "weight_decay"): "float | Sequence[float]",
    ("elementwise.adamw_step", "factor"): "float | AnyArray",
    ("elementwise.adamw_step", "copy"): "AnyArray | Sequence[AnyArray]",
    ("elementwise.clip_grad_norm", "g"): "AnyArray | Sequence[AnyArray]",
    ("elementwise.clip_grad_norm", "factor"): "float | AnyArray",
    ("elementwise.clip_grad_norm", "out"): "Sequence[AnyArray]",
    ("nn.linear_cross_entropy", "dloss"): "float | AnyArray",
    **dict.fromkeys((("nn.muon_step", name) for name in ("p", "g", "m", "copy")), "AnyArray | Sequence[AnyArray]"),
    ("nn.muon_step", "factor"): "float | AnyArray",
    ("nn.muon_step", "dtype"): "str",
    ("nn.linear_cross_entropy", "reduction"): 'Literal["mean", "sum"]',
    ("elementwise.concatenate", "arrays"): "Sequence[AnyArray]",
    ("elementwise.stack", "arrays"): "Sequence[AnyArray]",
    **{(f"attention.{name}", "bias"): "AnyArray" for name in ("forward", "backward", "dropout_mask")},
}
#: Type of an argument -> its type if all arrays are NumPy arrays.
_OF_NUMPY = {"AnyArray": "NumPyArray", "Operand": "NumPyOperand"}


#: Parameter of a method of `Kernel` and `Reduction` -> its type.
_OF_CUSTOM = {
    "dy": "AnyArray | Sequence[AnyArray]",
    "axis": "Axes",
    "out": "AnyArray | Sequence[AnyArray | None] | None",
    "where": "AnyArray | bool | None",
    "shape": "Shape",
    "dtype": "DTypeLike",
}


class Parameter(NamedTuple):
    """A parameter as a stub declares it: its default is a text, or None."""

    name: str
    type: str
    default: str | None
    by_name: bool


def parameters(family: str, name: str, function: Any, *, is_part: bool = False) -> list[Parameter]:
    """Return the parameters of a public function, with their types."""
    found = []
    own: Any = function
    for each in inspect.signature(own).parameters.values():
        if each.name == "self":
            continue
        missing = each.default is inspect.Parameter.empty
        key = f"{family}.{name}".lstrip(".")
        kind = _SPECIAL.get((key, each.name)) or _OPTIONS.get((family, each.name))
        if kind is None:
            kind = str(each.annotation)
            if kind == "Any":
                if each.name not in _PARAMETERS:
                    raise LookupError(f"{key} has the parameter {each.name}: annotate it, or add it to _PARAMETERS")
                kind = _PARAMETERS[each.name]
                if each.name == "out" and _returns(function) not in ("Array", "Any", None) and not is_part:
                    kind = "AnyArray | Sequence[AnyArray | None]"
        if each.default is None and not kind.endswith("| None") and kind != "Any":
            kind += " | None"
        found.append(
            Parameter(each.name, kind, None if missing else repr(each.default), each.kind is each.KEYWORD_ONLY)
        )
    return found


def _returns(function: Any) -> str | None:
    found = inspect.signature(function).return_annotation
    return None if found is inspect.Signature.empty else str(found)


# ---------------------------------------------------------------- overloads

#: Parameter -> its new type and default; None for a parameter that must be given.
Change = Mapping[str, tuple[str, str | None]]
_NO, _YES, _EITHER = ("Literal[False]", "False"), ("Literal[True]", None), ("bool", "False")


class Overload(NamedTuple):
    """A way to call a function: the changes of its parameters, and its result. ARRAY stands for an array.

    With `positional`, all arguments before those that are passed by name are one `*arrays`.
    """

    changes: Change
    returns: str
    positional: str = ""


def _flags(*names: str) -> list[Change]:
    """Return all combinations of options that are True or False."""
    return [dict(zip(names, values, strict=True)) for values in product((_NO, _YES), repeat=len(names))]


def _tuple(first: str, *parts: str) -> str:
    return f"tuple[{', '.join([first, *parts])}]" if parts else first


def _attention() -> list[Overload]:
    names = ("return_stats", "return_amax", "return_saved")
    found = []
    for changes in _flags(*names):
        stats, amax, saved = (changes[name] is _YES for name in names)
        if not (amax and saved):
            found.append(Overload(changes, _tuple("ARRAY", *["ARRAY"] * (stats + 2 * amax), *["Saved"] * saved)))
    return [*found, Overload(dict.fromkeys(names, _EITHER), "Any")]


def _losses() -> list[Overload]:
    names = ("return_stats", "return_saved")
    found = []
    for changes in _flags(*names):
        stats, saved = (changes[name] is _YES for name in names)
        found.append(Overload(changes, _tuple("ARRAY", *["ARRAY"] * stats, *["Saved"] * saved)))
    return [*found, Overload(dict.fromkeys(names, _EITHER), "Any")]


def _norm_gradients(x: str, kind: str) -> list[Overload]:
    """Return the ways to call the gradients of a norm. Its saved object may replace `x`."""
    found = [Overload({x: ("Saved", None)}, "Any"), Overload({"weight": _NONE}, "ARRAY")]
    if kind == "rms":
        return [*found, Overload({"weight": _WEIGHT}, "tuple[ARRAY, ARRAY]")]
    return [
        *found,
        Overload({"weight": _WEIGHT, "bias": _NO}, "tuple[ARRAY, ARRAY]"),
        Overload({"weight": _WEIGHT, "bias": _YES}, "tuple[ARRAY, ARRAY, ARRAY]"),
    ]


_SEVERAL_OUTS = ("AnyArray | Sequence[AnyArray | None] | None", "None")
_PAIR = ("ARRAY", "ARRAY")
_BY_SAVED = Overload({"x": ("Saved", None)}, "Any")
_WEIGHT = ("AnyArray", None)
_CPU = ('Literal["cpu"]', None)
_NONE = ("None", "None")
_FUNCTION = ("Callable[..., _Numbers]", None)
#: Function -> its overloads, where they do not follow from its signature.
_OVERLOADS = {
    "empty_like": [
        Overload({"device": _CPU}, "NumPyArray"),
        Overload({"obj": ("NumPyArray", None), "device": _NONE}, "NumPyArray"),
        Overload({}, "DeviceArray"),
    ],
    "attention.forward": _attention(),
    "attention.backward": [
        Overload({"bias_grad": _NO, "operand_grads": _NO}, "tuple[ARRAY, ARRAY, ARRAY]"),
        Overload({"bias_grad": _YES, "operand_grads": _NO}, "tuple[ARRAY, ARRAY, ARRAY, ARRAY]"),
        Overload({}, "tuple[ARRAY, ...]"),
    ],
    "gated.backward": [
        Overload({"x": ("AnyArray | Saved", None), "out": ("AnyArray | Sequence[AnyArray] | None", "None")}, "ARRAY"),
        Overload({"x": ("Sequence[AnyArray]", None), "out": ("Sequence[AnyArray] | None", "None")}, _tuple(*_PAIR)),
    ],
    "gemm.matmul": [
        Overload({"epilogue": ("ProductEpilogue", "'none'")}, "ARRAY"),
        Overload({"epilogue": ("AuxEpilogue", None)}, "WithAux"),
        Overload({"epilogue": ("BiasGradEpilogue", None), "out": _SEVERAL_OUTS}, "WithBiasGrad"),
        Overload({"epilogue": ("Epilogue", None), "out": _SEVERAL_OUTS}, "Any"),
        Overload(
            {
                "epilogue": ("Callable[..., Any]", None),
                "out": _SEVERAL_OUTS,
                "out_dtype": ("DTypeLike | Sequence[DTypeLike | None] | None", "None"),
            },
            "Any",
        ),
    ],
    "gemm.mlp": [
        Overload({}, "tuple[ARRAY, SavedMlp]"),
        # mlp(x, *weights)
        Overload({}, "tuple[ARRAY, SavedMlp]", "activation"),
    ],
    "elementwise.kernel": [
        Overload({"function": _FUNCTION}, "Kernel[_Numbers]"),
        Overload({"function": _NONE}, "Callable[[Callable[..., _Numbers]], Kernel[_Numbers]]"),
    ],
    "elementwise.reduction": [
        Overload({"function": _FUNCTION, "after": _NONE}, "Reduction[_Numbers]"),
        Overload({"function": ("Callable[..., Any]", None), "after": _FUNCTION}, "Reduction[_Numbers]"),
        Overload(
            {"function": _NONE, "after": _NONE}, "Callable[[Callable[..., _Numbers]], Reduction[_Numbers]]"
        ),
        Overload({"function": _NONE, "after": _FUNCTION}, "Callable[[Callable[..., Any]], Reduction[_Numbers]]"),
    ],
    "elementwise.cross_entropy": _losses(),
    "elementwise.cross_entropy_backward": [
        Overload({"dy": ("Scalar", None), "x": ("Saved", None)}, "Any"),
        Overload({}, "ARRAY"),
    ],
    "elementwise.rms_norm_backward": _norm_gradients("x", "rms"),
    "elementwise.add_rms_norm_backward": _norm_gradients("total", "rms"),
    "elementwise.layer_norm_backward": _norm_gradients("x", "layer"),
    "elementwise.add_layer_norm_backward": _norm_gradients("total", "layer"),
}  # fmt: skip


def overloads(key: str, returns: str, taken: Sequence[Parameter]) -> list[Overload]:
    """Return the ways to call a function, without regard to the arrays."""
    if key in _OVERLOADS:
        return _OVERLOADS[key]
    result = re.sub(r"\bArray\b", "ARRAY", returns)
    if any(each.name == "return_saved" for each in taken):
        return [
            Overload({"return_saved": _NO}, result),
            Overload({"return_saved": _YES}, f"tuple[{result}, Saved]"),
            Overload({"return_saved": ("bool", "False")}, "Any"),
        ]
    return [Overload({}, result)]


def _changed(taken: Sequence[Parameter], changes: Change) -> list[Parameter]:
    found = []
    for each in taken:
        kind, default = changes.get(each.name, (each.type, each.default))
        found.append(each._replace(type=kind, default=default))
    return found


def _replaced(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda found: names.get(found[0], found[0]), text)


def signatures(
    key: str, returns: str, taken: Sequence[Parameter], function: Any
) -> Iterator[tuple[list[Parameter], str]]:
    """Yield (parameters, result) of each overload of a call."""
    names = {each.name for each in taken}
    is_of_arrays = any("AnyArray" in each.type or "Operand" in each.type for each in taken if each.name != "out")
    if hasattr(function, "py_func") and key.startswith("elementwise."):
        # In the Python function of a kernel, it is called with numbers.
        yield (
            [
                each._replace(type="float | None" if each.default == "None" else "float")
                for each in taken
                if each.name not in ("out", "where", "stream", "return_saved")
            ],
            "float",
        )
    for found in overloads(key, returns, taken):
        if any(name not in names and change is _YES for name, change in found.changes.items()):
            continue  # plans lack some options, such as return_saved
        own = _changed(taken, found.changes)
        if found.positional:
            own = [Parameter("*arrays", "AnyArray", None, False), *_by_name_from(own, found.positional)]
        if "ARRAY" not in found.returns:
            yield own, found.returns
        elif is_of_arrays:
            numpys = [each._replace(type=_replaced(each.type, _OF_NUMPY)) for each in own]
            yield numpys, found.returns.replace("ARRAY", "NumPyArray")
            yield own, found.returns.replace("ARRAY", "DeviceArray")
        else:
            # The device decides.
            yield (
                _by_name_after(_changed(own, {"device": _CPU}), "device"),
                found.returns.replace("ARRAY", "NumPyArray"),
            )
            yield own, found.returns.replace("ARRAY", "DeviceArray")


def _custom_calls(
    name: str, own: str, taken: Sequence[Parameter], returns: str
) -> Iterator[tuple[str, Sequence[Parameter], str]]:
    """Yield (self, parameters, result) of each overload of a method of `Kernel` or `Reduction`.

    A type checker knows nothing about a function without annotations. It then uses the first overload: the result is an
    array.
    """
    if own not in ("__call__", "backward", "plan"):
        yield "self", taken, returns
        return
    if (name, own) == ("Kernel", "__call__"):
        # Another kernel calls it with numbers.
        yield "self", [each._replace(type="float") for each in taken if each.name.startswith("*")], "_Numbers"
    results = {f"self: {name}[float]": "ARRAY", f"self: {name}[tuple[Any, ...]]": "tuple[ARRAY, ...]"}
    for saves in (_NO, _YES) if own == "__call__" else (_NO,):
        given = _changed(
            taken, {"return_saved": saves, "*arguments": ("Operand | Saved" if own == "backward" else "Operand", None)}
        )
        numpys = [each._replace(type=_replaced(each.type, _OF_NUMPY)) for each in given]
        for first, result in {"self": "tuple[ARRAY, ...]"}.items() if own == "backward" else results.items():
            whole = f"tuple[{result}, Saved]" if saves is _YES else f"{returns}[{result}]" if own == "plan" else result
            yield first, numpys, whole.replace("ARRAY", "NumPyArray")
            yield first, given, whole.replace("ARRAY", "DeviceArray")
    if own != "backward":
        yield "self", taken, returns


def _by_name_from(taken: Sequence[Parameter], name: str) -> list[Parameter]:
    """Return the parameters from one on; they are passed by name."""
    place = next(k for k, each in enumerate(taken) if each.name == name)
    return [each._replace(by_name=True) for each in taken[place:]]


def _by_name_after(taken: Sequence[Parameter], name: str) -> list[Parameter]:
    """Return parameters after one of them lost its default. It and later parameters are then passed by name."""
    place = next(k for k, each in enumerate(taken) if each.name == name)
    has_defaults = any(each.default is not None for each in taken[:place])
    return [each._replace(by_name=each.by_name or (has_defaults and k >= place)) for k, each in enumerate(taken)]


def _accept_saved(key: str, taken: list[Parameter], pairs: Iterable[tuple[str, str]]) -> list[Parameter]:
    """Return the parameters of a gradient. One of them may be the saved object of the forward function."""
    names = {name for function, name in pairs if function == key}
    return [each._replace(type=f"{each.type} | Saved") if each.name in names else each for each in taken]


# ---------------------------------------------------------------- the text of a stub


def _signature(name: str, taken: Sequence[Parameter], returns: str, indent: str, first: str = "") -> str:
    """Return the text of a declaration, in lines of at most 120 characters."""
    parts = [first] if first else []
    has_star = False
    for each in taken:
        if each.by_name and not has_star:
            parts.append("*")
        has_star |= each.by_name or each.name.startswith("*")
        default = "" if each.default is None else f" = {each.default}"
        parts.append(f"{each.name}: {each.type}{default}")
    text = f"{indent}def {name}({', '.join(parts)}) -> {returns}: ..."
    if len(text) <= _WIDTH:
        return f"{text}\n"
    lines = [""]
    for part in parts:
        if lines[-1] and len(indent) + 6 + len(lines[-1]) + len(part) > _WIDTH:
            lines.append("")
        lines[-1] += f" {part}," if lines[-1] else f"{part},"
    inner = "".join(f"{indent}    {line}\n" for line in lines)
    return f"{indent}def {name}(\n{inner}{indent}) -> {returns}: ...\n"


def _first_line(thing: Any) -> str:
    text = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    return text.replace("\\", "\\\\").replace('"""', "'''")


#: The attributes of functions that hold other functions.
_GRADIENTS = ("backward", "backward_data", "backward_filter")
_PARTS = ("plan", "request", "supports")


class Stub:
    """The text of one module's stub, as it is written."""

    def __init__(self, module: str):
        self.module, self.family = import_module(module), module.partition(".")[2]
        self.classes: dict[str, str] = {}
        #: The classes of functions, inside another class, so that completion does not list them.
        self.functions: list[str] = []
        self.members: Mapping[str, Any] = {name: getattr(self.module, name) for name in self.module.__all__}
        self.saved = list(self._saved())

    def _saved(self) -> Iterator[tuple[str, str]]:
        """Yield (function, parameter) of the gradients' parameters that may be a saved object."""
        for function in self.members.values():
            if inspect.isfunction(function) and "return_saved" in inspect.signature(function).parameters:
                for part in _GRADIENTS:
                    if hasattr(function, part):
                        gradient = getattr(function, part).__name__
                        found = [*inspect.signature(getattr(function, part)).parameters]
                        number = found.index("total") if "total" in found else int(part != "backward_filter")
                        yield f"{self.family}.{gradient}", found[number]

    # ------------------------------------------------------------ names

    def _find(self, name: str, function: Any) -> type:
        """Return the class of that name, which an annotation of a function mentions, and note where it is defined."""
        spaces = [vars(sys.modules[function.__module__]), vars(self.module)]
        spaces += [vars(module) for key, module in sorted(sys.modules.items()) if key.startswith("numbacc.")]
        for space in spaces:
            if inspect.isclass(found := space.get(name)) and found.__name__ == name:
                self.classes[name] = found.__module__
                return found
        raise LookupError(f"{function.__module__}.{function.__name__}: no class {name}")

    def _known(self, annotation: str, function: Any) -> str:
        for name in re.findall(r"(?<!\")\b[A-Z]\w+\b(?!\")", re.sub(r'"[^"]*"', "", annotation)):
            if name not in {*_STANDARD, *_vocabulary(), "None", "True", "False", "Array"}:
                self._find(name, function)
        return annotation

    # ------------------------------------------------------------ members

    def _part(self, name: str, part: str, whole: Any) -> str:
        """Return the declaration of a function that another one, `whole`, has as an attribute."""
        function = getattr(whole, part)
        taken, returns = parameters(self.family, name, function, is_part=True), _returns(function) or "Any"
        found = [(taken, returns)]
        if part == "plan":
            key = f"{self.family}.{name}"
            taken = [each._replace(type=_replaced(each.type, dict.fromkeys(_VARIABLES, _LISTED))) for each in taken]
            taken = _accept_saved(key, self._operands(name, taken), self.saved)
            found = list(signatures(key, _returns(whole) or "Any", taken, function))
            # The result of a call does not depend on an option that the plan lacks: keep the first of equal signatures.
            found = [pair for k, pair in enumerate(found) if pair[0] not in [own for own, _ in found[:k]]]
            is_generic = hasattr(self._find(returns, function), "__parameters__")
            found = [(own, f"{returns}[{result}]" if is_generic else returns) for own, result in found]
        for own, result in found:
            for text in (*(each.type for each in own), result):
                self._known(text, function)
        return "".join(
            ("        @overload\n" if len(found) > 1 else "") + _signature(part, own, result, " " * 8, "self")
            for own, result in found
        )

    def _operands(self, name: str, taken: list[Parameter]) -> list[Parameter]:
        """Return the parameters of a function of the elementwise table, which accept numbers next to arrays."""
        if self.family != "elementwise":
            return taken
        from numbacc.elementwise.rows import NAMED

        arrays = [each for each in taken if each.type.startswith("AnyArray") and each.name not in ("out", "where")]
        if name not in NAMED or len(arrays) < 2:
            return taken
        changes = {each.name: (each.type.replace("AnyArray", "Operand"), each.default) for each in arrays}
        return _changed(taken, changes)

    def _function(self, name: str, function: Any) -> str:
        """Return the declaration of a function that has other functions as attributes."""
        key, returns = f"{self.family}.{name}", _returns(function) or "Any"
        taken = _accept_saved(key, self._operands(name, parameters(self.family, name, function)), self.saved)
        found = list(signatures(key, returns, taken, function))
        for own, result in found:
            for text in (*(each.type for each in own), result):
                self._known(text, function)
        calls = "".join(
            ("        @overload\n" if len(found) > 1 else "") + _signature("__call__", own, result, " " * 8, "self")
            for own, result in found
        )
        parts = [part for part in _PARTS if hasattr(function, part)]
        text = f"    class {name}(_Function):\n{calls}"
        text += "".join(self._part(name, part, function) for part in parts)
        for part in _GRADIENTS:
            if hasattr(function, part):
                gradient = getattr(function, part).__name__
                text += f"        {part}: _Functions.{gradient}\n"
        if hasattr(function, "py_func"):
            text += "        py_func: Callable[..., Any]\n"
        self.functions.append(text)
        return f'{name}: _Functions.{name}\n"""{_first_line(function)}"""\n'

    def _plain(self, name: str, function: Any) -> str:
        key, returns = f"{self.family}.{name}".lstrip("."), _returns(function) or "Any"
        taken = parameters(self.family, name, function)
        has_overloads = "Array" in returns or key in _OVERLOADS
        found = list(signatures(key, returns, taken, function)) if has_overloads else [(taken, returns)]
        for own, result in found:
            for text in (*(each.type for each in own), result):
                self._known(text, function)
        mark = "@overload\n" if len(found) > 1 else ""
        return "".join(mark + _signature(name, own, result, "") for own, result in found)

    def _class(self, name: str, kind: type) -> str:
        """Return the declaration of `Generator`, whose numbers are in NumPy arrays if its device is "cpu"."""
        text = f'class {name}(Generic[_Drawn]):\n    """{_first_line(kind)}"""\n\n'
        taken = parameters(self.family, name, kind)
        on_cpu = _by_name_after(_changed(taken, {"device": _CPU}), "device")
        for given, drawn in ((on_cpu, "NumPyArray"), (taken, "DeviceArray")):
            text += "    @overload\n"
            text += _signature("__init__", given, "None", "    ", f"self: {name}[{drawn}]")
        for own, member in vars(kind).items():
            if own.startswith("_"):
                continue
            if isinstance(member, property):
                found = self._known(str(_returns(member.fget)), member.fget)
                text += f"    @property\n    def {own}(self) -> {found}: ...\n"
                if member.fset is not None:
                    text += f"    @{own}.setter\n    def {own}(self, {own}: {found}) -> None: ...\n"
                continue
            taken, returns = parameters(self.family, name, member), _returns(member) or "Any"
            for each in taken:
                self._known(each.type, member)
            calls = [(taken, self._known(returns, member).replace(name, f"{name}[_Drawn]"))]
            if returns == "Any":
                # Without a shape and `out`, a call draws one number.
                number = "np.integer[Any]" if own in _DRAWS_INTEGERS else "np.floating[Any]"
                calls = [(_changed(taken, {"size": _NONE, "out": _NONE}), number), (taken, "_Drawn")]
            doc = f'        """{_first_line(member)}"""\n'
            for given, result in calls:
                text += "    @overload\n" if len(calls) > 1 else ""
                text += _signature(own, given, result, "    ", "self").removesuffix(" ...\n") + f"\n{doc}"
        return text

    def _custom(self, name: str, kind: type) -> str:
        """Return the declaration of `Kernel` or `Reduction`. The Python function decides the results."""
        text = f'class {name}(Generic[_Numbers]):\n    """{_first_line(kind)}"""\n\n    __name__: str\n'
        stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        text += "    __qualname__: str\n" + "    py_func: Callable[..., _Numbers]\n" * (name == "Kernel")
        for own, member in vars(kind).items():
            if not inspect.isfunction(member) or (own.startswith("_") and own not in ("__init__", "__call__")):
                continue
            taken = [
                Parameter(
                    stars.get(each.kind, "") + each.name,
                    "Operand" if str(each.kind).startswith("VAR_") else _OF_CUSTOM.get(each.name, str(each.annotation)),
                    None if each.default is each.empty else repr(each.default),
                    each.kind is each.KEYWORD_ONLY,
                )
                for each in inspect.signature(member).parameters.values()
                if each.name != "self"
            ]
            calls = list(_custom_calls(name, own, taken, _returns(member) or "None"))
            doc = f'        """{_first_line(member)}"""\n'
            for first, given, result in calls:
                for each in (*(each.type for each in given), result):
                    self._known(each, member)
                text += "    @overload\n" if len(calls) > 1 else ""
                line = _signature(own, given, result, "    ", first)
                text += line if own == "__init__" else line.removesuffix(" ...\n") + f"\n{doc}"
        return text

    def _member(self, name: str, thing: Any) -> str:
        home = getattr(thing, "__module__", "")
        if isinstance(thing, ModuleType):
            return f"from . import {name} as {name}\n"
        if inspect.isclass(thing) and name in _CLASSES:
            return self._custom(name, thing) if name in _CUSTOM else self._class(name, thing)
        if inspect.isclass(thing) and thing.__name__ == name and home.startswith("numbacc"):
            return f"from {home} import {name} as {name}\n"
        if inspect.isclass(thing):
            return f"{name}: type[Any]\n"  # a dtype of ml_dtypes, whose stubs are missing
        if not inspect.isfunction(thing):
            return f"{name}: {_CONSTANTS[f'{self.family}.{name}'.lstrip('.')]}\n"
        if home in _AS_WRITTEN or (not self.family and name not in _MADE):
            return f"from {home} import {name} as {name}\n"
        if any(hasattr(thing, part) for part in (*_PARTS, *_GRADIENTS)) or self._is_gradient(thing):
            return self._function(name, thing)
        return self._plain(name, thing)

    def _is_gradient(self, function: Any) -> bool:
        """Return whether another function has this one as an attribute."""
        held = [getattr(each, part, None) for each in self.members.values() for part in _GRADIENTS]
        return any(each is function for each in held)

    def text(self) -> str:
        """Return the whole stub."""
        body = [self._member(name, thing) for name, thing in sorted(self.members.items(), key=_order)]
        names = "".join(f'    "{name}",\n' for name in sorted(self.members))
        # Not in `__all__`: `from numbacc import *` works without JAX and torch.
        body += [] if self.family else ["from . import jax as jax\n", "from . import torch as torch\n"]
        imported = "".join(each for each in body if each.startswith("from"))
        text = "\n".join(each for each in body if not each.startswith("from"))
        if self.functions:
            inner = "\n".join(self.functions)
            text = f"{_BASE}\nclass _Functions:\n{inner}\n{text}"
        text = f"{imported}\n{text}" if imported else text
        words = set(re.findall(r"\w+", text))
        heads = [
            f'{_HEAD}"""{_first_line(self.module)}"""\n\n',
        ]
        for module, known in _STANDARD_MODULES.items():
            if used := sorted(words & known):
                heads.append(f"from {module} import {', '.join(used)}\n")
        variables = [name for name in _VARIABLES if name in words]
        if variables:
            heads.append("from typing_extensions import TypeVar\n")
        if "np" in words:
            heads.append("\nimport numpy as np\n")
        own = sorted(name for name in words if name in _vocabulary())
        own = [name for name in own if name not in self.members]
        if own:
            heads.append(f"from {vocabulary.__name__} import (\n" + "".join(f"    {name},\n" for name in own) + ")\n")
        for name, module in sorted(self.classes.items(), key=lambda pair: (pair[1], pair[0])):
            if name not in self.members:
                heads.append(f"from {module} import {name}\n")
        made = "".join(f'{name} = TypeVar("{name}", {_VARIABLES[name]})\n' for name in variables)
        return f"{''.join(heads)}\n__all__ = [\n{names}]\n\n{made}\n{text}"


def _order(pair: tuple[str, Any]) -> tuple[bool, bool, str]:
    """Return the key that puts imports first."""
    name, thing = pair
    return not isinstance(thing, ModuleType), inspect.isfunction(thing), name


_BASE = """class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
"""
_CUDA = """
from collections.abc import Callable
from typing import Any, Literal, overload

class Kernel:
    __name__: str
    py_func: Callable[..., Any]

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]: ...
    def __call__(self, *args: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class Index:
    x: int
    y: int
    z: int

@overload
def jit(function: Callable[..., Any], /) -> Kernel: ...
@overload
def jit(*signatures: Any, **options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...
@overload
def grid(ndim: Literal[1], /) -> int: ...
@overload
def grid(ndim: Literal[2], /) -> tuple[int, int]: ...
@overload
def grid(ndim: Literal[3], /) -> tuple[int, int, int]: ...
@overload
def gridsize(ndim: Literal[1], /) -> int: ...
@overload
def gridsize(ndim: Literal[2], /) -> tuple[int, int]: ...
@overload
def gridsize(ndim: Literal[3], /) -> tuple[int, int, int]: ...
def syncthreads() -> None: ...
def synchronize() -> None: ...

threadIdx: Index
blockIdx: Index
blockDim: Index
gridDim: Index
warpsize: int
laneid: int
"""
_STANDARD_MODULES = {
    "collections.abc": {"Callable", "Iterable", "Mapping", "Sequence"},
    "typing": {"Any", "Generic", "Literal", "overload"},
}
_STANDARD = set[str]().union(*_STANDARD_MODULES.values())
_LISTED = "AnyArray | Sequence[AnyArray]"
#: The numbers that a generator draws; the result of a Python function; the arrays, or lists of arrays, of `adamw_step`.
_VARIABLES = {
    **dict.fromkeys(("_Drawn", "_Numbers"), "covariant=True, default=Any"),
    **dict.fromkeys(("_P", "_M", "_V"), f"bound={_LISTED}"),
}
#: Functions of `numbacc` that return arrays, and classes with methods that do.
_MADE = ("array", "asarray", "empty", "empty_like", "from_dlpack", "from_pointer", "full", "zeros")
#: Modules whose functions have all types in the source: they work on variables as well as arrays.
_AS_WRITTEN = tuple(f"numbacc.nn.{name}" for name in ("functions", "modules", "tape", "transformer"))
_CUSTOM = ("Kernel", "Reduction")
_CLASSES = ("Generator", *_CUSTOM)
#: The methods of a generator that draw integers. The others draw floats.
_DRAWS_INTEGERS = ("bits", "integers", "poisson")
_CONSTANTS = {
    "__version__": "str",
    "gated.KINDS": "tuple[GatedKind, ...]",
    "elementwise.ACTIVATIONS": "tuple[Activation, ...]",
    "random.KINDS": "tuple[RandomKind, ...]",
}


def cuda_text() -> str:
    """Return the stub of `numbacc.cuda`: numba.cuda's names without types, except for the most used names."""
    from numbacc import cuda
    from numbacc.simulator.compiled import host

    typed = set(re.findall(r"^(?:def |class )?([a-z]\w*)[:(]", _CUDA, re.MULTILINE))
    names = {*cuda._NAMES, *cuda._TYPES, *host.FUNCTIONS, "types"} - typed
    rest = "".join(f"{name}: Any\n" for name in sorted(names))
    return f'{_HEAD}"""{_first_line(cuda)}"""\n{_CUDA}\n{rest}\ndef __getattr__(name: str) -> Any: ...\n'


#: The names of `numbacc.device` that the host uses.
_DEVICE = """
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

from ..typing import AnyArray

#: What a thread holds of a matrix.
Fragment: TypeAlias = tuple[Any, ...]

class TensorMap:
    array: Any
    box: tuple[int, ...]
    swizzle: int
    nbytes: int
    def encoded(self) -> bytes: ...

class DeviceKernel:
    py_func: Callable[..., Any]
    def __getitem__(self, configuration: tuple[Any, ...], /) -> Callable[..., None]: ...
    def configure(
        self, grid: Any, block: Any, stream: Any = None, shared: int = 0, cluster: Any = 1
    ) -> Callable[..., None]: ...
    def compile(self, *args: Any, block: int, capability: tuple[int, int] = (9, 0)) -> tuple[str, bytes]: ...

@overload
def jit(
    function: Callable[..., Any],
    *,
    launch_bounds: int | tuple[int, ...] | None = None,
    fastmath: bool = False,
    reads: Iterable[str] = (),
) -> DeviceKernel: ...
@overload
def jit(
    function: None = None,
    *,
    launch_bounds: int | tuple[int, ...] | None = None,
    fastmath: bool = False,
    reads: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], DeviceKernel]: ...
def function(function: Callable[..., Any]) -> Callable[..., Any]: ...
def tensor_map(x: AnyArray, box: Sequence[int], swizzle: int = 128) -> TensorMap: ...
"""


def device_text() -> str:
    """Return the stub of `numbacc.device`."""
    from numbacc import device

    lines = []
    for name in sorted(device.__all__):
        if re.search(rf"^(?:class|def) {name}\b", _DEVICE, re.MULTILINE):
            continue
        each = getattr(device, name)
        signature = inspect.signature(getattr(each, "py_func", each))
        taken = [
            Parameter(p.name, str(p.annotation), None if p.default is p.empty else repr(p.default), False)
            for p in signature.parameters.values()
        ]
        returns = str(signature.return_annotation)
        text = _signature(name, taken, returns, "").removesuffix(" ...\n")
        lines.append(f'{text}\n    """{_first_line(getattr(each, "py_func", each))}"""\n')
    return f'{_HEAD}"""{_first_line(device)}"""\n{_DEVICE}\n{"".join(lines)}'


def texts() -> dict[Path, str]:
    """Return the path of each generated file -> its text."""
    found = {_ROOT / path: Stub(module).text() for module, path in STUBS.items() if module != "numbacc.device"}
    found[_ROOT / STUBS["numbacc.device"]] = device_text()
    found[_ROOT / CUDA] = cuda_text()
    path = _ROOT / TYPES
    return {path: types_text(path.read_text()), **found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with --check report those that are not up to date."""
    given = sys.argv[1:] if arguments is None else arguments
    old = [path for path, text in texts().items() if not path.exists() or path.read_text() != text]
    for path in old:
        name = path.relative_to(_ROOT)
        print(f"{name} is not up to date: run python -m tools.stubs" if "--check" in given else f"wrote {name}")
        if "--check" not in given:
            path.write_text(texts()[path])
    return int(bool(old) and "--check" in given)


if __name__ == "__main__":
    sys.exit(main())
