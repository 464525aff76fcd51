"""Tables that map NumPy's functions and Python's operators to numbacc's functions and their arguments."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.dtypes import info
from ..base.layout import axes_of, normalize_axis
from ..errors import DTypeError, OptionError, ShapeError, shown

#: Operator -> the function that computes it, also for the reflected and in-place forms.
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul", "lshift": "left_shift", "rshift": "right_shift",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
UNARY = {
    "neg": "negative", "abs": "abs", "invert": "bitwise_not", "trunc": "trunc", "floor": "floor", "ceil": "ceil",
}  # fmt: skip
#: Methods of arrays that call functions -> the arguments that NumPy's methods accept by position.
METHODS = {
    **dict.fromkeys(("sum", "prod"), ("axis", "dtype", "out", "keepdims", "initial", "where")),
    **dict.fromkeys(("max", "min"), ("axis", "out", "keepdims", "initial", "where")),
    **dict.fromkeys(("var", "std"), ("axis", "dtype", "out", "ddof", "keepdims")),
    **dict.fromkeys(("argmax", "argmin"), ("axis", "out")),
    **dict.fromkeys(("any", "all"), ("axis", "out", "keepdims")),
    "mean": ("axis", "dtype", "out", "keepdims"), **dict.fromkeys(("cumsum", "cumprod"), ("axis", "dtype", "out")),
}  # fmt: skip
#: The values that sums and products start from by default.
_STARTS = {"sum": 0, "prod": 1}

#: NumPy's ufuncs -> numbacc's names, if they differ.
UFUNCS = {
    "absolute": "abs", "fabs": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "power": "pow", "true_divide": "divide",
    "rint": "round", "conjugate": "conj", "invert": "bitwise_not", "positive": "copy", "mod": "remainder",
    "gammaln": "lgamma", "psi": "digamma", "expit": "sigmoid",
}  # fmt: skip
#: Ufuncs whose name means something else in numbacc.
_OTHERS = ("float_power", "real", "imag", "round", "matvec", "vecmat", "vecdot", "heaviside", "ldexp")
_FLOATS_ONLY = ("fabs", "rint", "reciprocal")

#: NumPy's functions of arrays -> numbacc's names.
_FUNCTIONS: dict[Any, str] = {
    np.where: "where",
    np.sum: "sum", np.mean: "mean", np.var: "var", np.std: "std", np.prod: "prod", np.max: "max", np.min: "min",
    np.amax: "max", np.amin: "min", np.argmax: "argmax", np.argmin: "argmin", np.any: "any", np.all: "all",
    np.copy: "copy", np.concatenate: "concatenate", np.stack: "stack", np.clip: "clamp", np.linalg.norm: "norm",
    np.take_along_axis: "take_along_axis", np.tril: "tril", np.triu: "triu",
    np.cumsum: "cumsum", np.cumprod: "cumprod",
}  # fmt: skip
#: Arguments of these functions -> numbacc's names; for unsupported arguments, the values that change nothing.
_NAMES = {"ddof": "correction", "a": "x", "m": "x", "arr": "x", "val": "x", "z": "x", "a_min": "min", "a_max": "max"}
_IDLE = {
    "initial": np._NoValue, "keepdims": np._NoValue, "where": (True, np._NoValue), "order": "K",
    "subok": (True, False), "casting": "same_kind", "dtype": None, "deg": False, "mean": np._NoValue,
    "min": np._NoValue, "max": np._NoValue, "signature": None, "correction": np._NoValue, "mode": "raise",
}  # fmt: skip
#: The options of methods that need no translation, if keepdims is a bool.
_UNCHANGED = frozenset(("axis", "keepdims"))
#: The functions here that accept more than one argument by position.
_BY_PLACE = {"where": 3, "take_along_axis": 2}

#: The result of `answer` for functions that it does not know.
UNKNOWN = object()

Found = tuple[str | None, tuple[Any, ...], dict[str, Any]]


def is_float(array: Any) -> bool:
    """Return True for arrays of real floats."""
    return info(array.dtype).is_float


def of_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Found:
    """Return (the name of the function that computes a ufunc, or None; its arguments; its options)."""
    if method == "reduce":
        name = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}.get(ufunc.__name__)
        name = {"logical_or": "any", "logical_and": "all"}.get(ufunc.__name__, name)
        return name, inputs, _own(name, {"axis": 0} | options)
    if method == "accumulate":
        return {"add": "cumsum", "multiply": "cumprod"}.get(ufunc.__name__), inputs, _plain({"axis": 0} | options)
    if method != "__call__" or ufunc.__name__ in _OTHERS or ufunc.nout != 1:
        return None, inputs, _plain(options)
    if ufunc.__name__ in _FLOATS_ONLY and not all(is_float(each) for each in inputs if hasattr(each, "dtype")):
        return None, inputs, _plain(options)  # for integers NumPy returns another type
    if ufunc is np.power:
        check_power(*inputs)
    return UFUNCS.get(ufunc.__name__, ufunc.__name__), inputs, _plain(options)


def check_power(base: Any, exponent: Any) -> None:
    """Raise OptionError for integers to a negative power, as NumPy does. An array's elements are not read."""
    whole = getattr(getattr(base, "dtype", None), "kind", "i" if isinstance(base, int) else "f") in "iub"
    if whole and isinstance(exponent, (int, np.integer)) and exponent < 0:
        raise OptionError(
            f"an integer to the power of {exponent} is not an integer: use x.astype('float64') ** {exponent}"
        )


def of_function(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Found:
    """Return the same as `of_ufunc` for one of NumPy's functions of arrays."""
    name = _FUNCTIONS.get(function)
    if name == "norm":
        return _norm(*arguments, **options) if fits(_norm, arguments, options) else (None, arguments, options)
    if function is np.where and len(arguments) != 3:
        name = None  # unsupported, because only the GPU knows how many elements are nonzero
    count = _BY_PLACE.get(str(name), 1)
    if name is None:
        return None, arguments, _plain(options)
    if len(arguments) <= count:
        return name, arguments, _own(name, options)
    # Arguments that NumPy accepts by position are options here, in any order.
    named = dict(zip(_parameters(function)[count:], arguments[count:], strict=False))
    return name, arguments[:count], _own(name, {**named, **options})


def of_method(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for a method of `METHODS` called with these arguments after the array.

    Raises:
        DTypeError: there are more than NumPy's method accepts, or one is given twice.
    """
    # The fast path: the axis alone, or with keepdims.
    if len(arguments) == 1 and not options:
        return {"axis": arguments[0]}
    if not arguments and options.keys() <= _UNCHANGED and type(options.get("keepdims", False)) is bool:
        return options
    names = METHODS[name]
    named = dict(zip(names, arguments, strict=False))
    twice = [key for key in named if key in options]
    if twice or len(arguments) > len(names):
        wrong = f"{twice[0]} is given twice" if twice else "too many arguments"
        raise DTypeError(f"{name}({', '.join(names)}): {wrong}")
    return _own(name, {**named, **options})


@lru_cache(maxsize=256)
def _parameters(function: Any) -> tuple[str, ...]:
    """Return the names of the parameters that a function of NumPy accepts by position."""
    return tuple(
        each.name for each in inspect.signature(function).parameters.values() if each.kind is not each.KEYWORD_ONLY
    )


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Found:
    """Translate `numpy.linalg.norm`. A matrix norm over two axes is supported for order None and "fro"."""
    count = x.ndim if axis is None else len(axis) if isinstance(axis, (tuple, list)) else 1
    if ord is None or (ord == "fro" and count == 2):
        ord = 2
    elif count != 1:
        return None, (), {}
    return "norm", (x,), _plain({"ord": ord, "axis": axis, "keepdims": keepdims})


def _own(name: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Translate options of NumPy to those of the function of this name.

    Raises:
        OptionError: both `ddof` and `correction` are given, which mean the same.
    """
    plain = _plain(options)
    if "ddof" in plain and "correction" in plain:
        if plain["ddof"] != 0:
            raise OptionError(
                f"ddof={shown(plain['ddof'])} and correction={shown(plain['correction'])} mean the same; pass one"
            )
        del plain["ddof"]
    start = plain.get("initial")
    if name in _STARTS and isinstance(start, (int, float)) and start == _STARTS[name]:
        del plain["initial"]
    return {_NAMES.get(key, key): value for key, value in plain.items()}


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Remove options that change nothing, and replace a tuple of one result by the result."""
    found = {}
    for key, value in options.items():
        idle = _IDLE.get(key, UNKNOWN)
        if any(value is each for each in (idle if isinstance(idle, tuple) else (idle,))):
            continue
        if type(idle) is str and type(value) is str and value == idle:
            continue
        found[key] = value[0] if key == "out" and isinstance(value, tuple) and len(value) == 1 else value
    return {key: value for key, value in found.items() if not (key == "out" and value is None)}


def _transposed(x: Any, axes: Any = None) -> Any:
    return x.transpose(axes)


def expanded(x: Any, axis: int | Sequence[int]) -> Any:
    """Return a view with one or more new axes; `axis` names axes of the result."""
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    where = axes_of(axis, x.ndim + count, "the result", "axis")
    return x[tuple(None if d in where else slice(None) for d in range(x.ndim + count))]


def moved(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Return a view of x with one or more axes moved."""
    ones, others = (axes_of(axes, x.ndim, "x", "axis") for axes in (source, destination))
    if len(ones) != len(others):
        raise ShapeError(
            f"source names {len(ones)} axes and destination {len(others)}; they must name the same number of axes"
        )
    order = [d for d in range(x.ndim) if d not in ones]
    for place, axis in sorted(zip(others, ones, strict=True)):
        order.insert(place, axis)
    return x.transpose(tuple(order))


def swapped(x: Any, axis1: int, axis2: int) -> Any:
    """Return a view of x with two axes exchanged."""
    order = [*range(x.ndim)]
    one, other = (normalize_axis(axis, x.ndim, "the array") for axis in (axis1, axis2))
    order[one], order[other] = order[other], order[one]
    return x.transpose(order)


def repeated(x: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of x that repeats it to a shape; x may be a NumPy array."""
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.broadcast_to(shape)


def _dtype_of(each: Any) -> Any:
    return each.dtype if hasattr(each, "_numbacc_layout") else each


def _size(x: Any, axis: int | Sequence[int] | None = None) -> int:
    axes = range(x.ndim) if axis is None else axes_of(axis, x.ndim, "the array", "axis")
    return math.prod(x.shape[d] for d in axes)


#: NumPy's functions that return attributes or views -> their implementation.
_ANSWERS: dict[Any, Callable[..., Any]] = {
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: _size,
    np.transpose: _transposed,
    np.reshape: lambda x, shape, order="C", copy=None: x.reshape(shape, order=order, copy=copy),
    np.ravel: lambda x, order="C": x.ravel(order),
    np.squeeze: lambda x, axis=None: x.squeeze(axis),
    np.broadcast_to: lambda x, shape: x.broadcast_to(shape),
    np.expand_dims: expanded,
    np.swapaxes: swapped,
    np.moveaxis: moved,
    np.diagonal: lambda x, offset=0, axis1=0, axis2=1: x.diagonal(offset, axis1, axis2),
    np.trace: lambda x, offset=0, axis1=0, axis2=1, dtype=None, out=None: x.trace(offset, axis1, axis2, dtype, out),
    np.linalg.diagonal: lambda x, /, *, offset=0: x.diagonal(offset, -2, -1),
    np.linalg.trace: lambda x, /, *, offset=0, dtype=None: x.trace(offset, -2, -1, dtype),
    np.real: lambda x: x.real,
    np.imag: lambda x: x.imag,
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    np.isrealobj: lambda x: x.dtype.kind != "c",
    np.result_type: lambda *given: np.result_type(*map(_dtype_of, given)),
    np.can_cast: lambda from_, to, casting="safe": np.can_cast(_dtype_of(from_), _dtype_of(to), casting),
}


def answer(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result of a function that returns an attribute or a view; `UNKNOWN` for other functions."""
    found = _ANSWERS.get(function)
    given = {_NAMES.get(key, key): value for key, value in options.items()}
    if found is None or not fits(found, arguments, given):
        return UNKNOWN
    return found(*arguments, **given)


def fits(function: Callable[..., Any], arguments: Any, options: dict[str, Any]) -> bool:
    """Return True if a function accepts these arguments. Some options exist only in NumPy."""
    try:
        inspect.signature(function).bind(*arguments, **options)
    except TypeError:
        return False
    return True


def unknown(function: Callable[..., Any], options: dict[str, Any]) -> str:
    """Describe the arguments that a function does not accept, with an alternative."""
    known = inspect.signature(function).parameters
    names = [key for key in options if key not in known]
    hints = "".join(_INSTEAD.get(key, "") for key in names)
    return f"{', '.join(f'{key}=' for key in names) or 'these arguments'}{hints}"


#: Option that reductions lack -> the alternative.
_INSTEAD = {
    "where": " (numbacc.elementwise.where(mask, x, 0) leaves the others out of a sum)",
    "initial": " (numbacc.elementwise.add or maximum of the result and a number)",
}
