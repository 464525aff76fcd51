"""How a call of a reduction becomes a plan: dtypes, axes, the result's shape, and which formula is meant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays.operands import Array
from ..base import dtypes
from ..base.dtypes import DTypeInfo, info, real_of
from ..base.layout import (
    MAX_RANK,
    Layout,
    View,
    axes_of,
    dense_like,
    integers_of,
    layout,
    normalize_axis,
    view,
)
from ..errors import DTypeError, OptionError, ShapeError, shown
from ..kernels.reduce.functions import REDUCTIONS
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..kernels.reduce.logsumexp import EXPONENTS
from ..plan.base import check_out
from ..plan.tasks import TaskPlan
from ..reference.reductions import FUNCTIONS, PAIRS
from .calling import OfOneArray


class ReducePlan(TaskPlan, ReduceExecutable):
    """A planned reduction, of a `ReduceTask`. Call it with arrays laid out as those it was made for."""


_FORMULAS = REDUCTIONS | EXPONENTS
#: What has no value of nothing.
_EXTREMES = ("max", "min", "argmax", "argmin")
_INDICES = ("argmax", "argmin")
#: Order -> the formula of its own; all others have one together.
_NORMS = {0: "norm_0", 1: "norm_1", 2: "norm_2", math.inf: "norm_inf", -math.inf: "norm_least"}


def run(name: str, x: Any, axis: Any, keepdims: Any, option: Any, out: Any, stream: Any) -> Array:
    """The result of a reduction.

    Args:
        name: a key of `reference.reductions.FUNCTIONS`.
        x, axis, keepdims, out, stream: as the function's docstring says.
        option: `dtype_of`, `spread_of` or `order_of` what it says of others; None where there is nothing to say.
    """
    is_usual = type(keepdims) is bool and (axis is None or type(axis) is int)
    return _CALLS.run(name, x, (axis, keepdims, option), is_usual, out, stream)


def find(name: str, x: Any, axis: Any, keepdims: Any, option: Any, out: Any) -> ReducePlan:
    """The plan that `run` runs."""
    return _CALLS.find(name, x, (axis, keepdims, option), out)


def total(name: str, x: Any, axis: int | tuple[int, ...] | None, option: Any, stream: Any) -> Array:
    """The same with the axes that are reduced, of length 1, and in the dtype that is computed in: not rounded."""
    return _TOTALS_OF.run(name, x, (axis, True, option), True, None, stream)


def totals(name: str, x: Any, axis: int | tuple[int, ...] | None, option: Any, stream: Any) -> tuple[Array, ...]:
    """`total` of a pair of totals, which x is read for once: a key of `reference.reductions.PAIRS`."""
    found: Any = _TOTALS_OF.run(name, x, (axis, True, option), True, None, stream)
    return tuple(found)


def dtype_of(spec: Any) -> Any:
    """The option `dtype` in one form: None, or a NumPy dtype."""
    return None if spec is None else dtypes.dtype(spec)


def correction_of(value: Any) -> float:
    """The option `correction` in one form."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise OptionError(f"correction={shown(value)} is not a number")
    if not math.isfinite(value):
        raise OptionError(f"correction={shown(value)} is not finite")
    return float(value)


def spread_of(correction: Any, dtype: Any) -> Any:
    """The options of variances in one form: `correction`, or a pair of it and a dtype that is asked for."""
    number = correction_of(correction)
    return number if dtype is None else (number, dtype_of(dtype))


def order_of(value: Any) -> float:
    """The option `ord` in one form."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
    try:
        order = float(value) if is_number else math.nan
    except OverflowError:
        order = math.nan
    if math.isnan(order):
        raise OptionError(f"ord={shown(value)} is no number that float64 has; norms of matrices are not here")
    return order


def _kind(row: DTypeInfo) -> str:
    """What a dtype is of: "float", "complex", "integer" or "bool"."""
    if row.parts == 2:
        return "complex"
    return "float" if row.is_float else "bool" if row.name == "bool" else "integer"


#: What is real of complex numbers, too.
_REAL = ("var", "std", "norm")
#: What adds up or multiplies.
_TOTALS = ("sum", "prod", "cumsum", "cumprod", "cumsum_backward")


def types_of(name: str, row: DTypeInfo, asked: Any, own: str = "x") -> tuple[np.dtype[Any], str]:
    """(the result's dtype, the name of the one that is computed in), of a function of an array that it calls `own`.

    Raises:
        DTypeError: the function does not take x's dtype, or has no result of the one that is asked for.
    """
    kind = _kind(row) if row.compute is not None else None
    takes_complex = name in (*_TOTALS, *_REAL, "mean", "any", "all")
    if kind is None or (kind == "complex" and not takes_complex):
        raise DTypeError(
            f"{own} has dtype {row.name}; {name} takes floats of 16 bits and more, integers"
            f"{', complex numbers' if takes_complex else ''} and bool"
        )
    if name in ("any", "all"):
        return np.dtype(bool), str(row.compute)
    if name in _INDICES:
        return np.dtype(np.int64), "uint8" if kind == "bool" else str(row.compute)
    if name in ("max", "min"):
        return row.numpy, str(row.compute)
    if kind == "complex" and name in _REAL:
        if asked is not None:
            raise DTypeError(f"dtype={shown(asked)}: {own} is complex, its {name} real; convert {own}, leave dtype out")
        return np.dtype(real_of(str(row.compute))), str(row.compute)
    if asked is None:
        asked = row.numpy
        if name in _TOTALS:
            wide = {"bool": "int64", "integer": "uint64" if row.numpy.kind == "u" else "int64"}.get(kind)
        else:
            wide = "float64" if kind in ("bool", "integer") else None
        asked = row.numpy if wide is None else np.dtype(wide)
    wanted = info(asked, "dtype")
    known = {"mean": ("float", "complex"), "var": ("float",), "std": ("float",)}.get(
        name, ("float", "complex", "integer")
    )
    if wanted.compute is None or _kind(wanted) not in known:
        raise DTypeError(
            f"dtype={wanted.name} is none that {name} has results of: use one of {', '.join(known)} dtypes"
        )
    if kind == "complex" and _kind(wanted) != "complex":
        raise DTypeError(f"dtype={wanted.name} is real, and {own} is {row.name}: sum {own}.real, or leave dtype out")
    return wanted.numpy, str(wanted.compute)


def checked(axis: Any, keepdims: Any) -> tuple[int | tuple[int, ...] | None, bool]:
    """The options `axis` and `keepdims`, each in one form, before it is known what they are of."""
    if not isinstance(keepdims, (bool, np.bool_)):
        raise OptionError(f"keepdims={shown(keepdims)} is not True or False")
    if axis is not None and type(axis) is not int:  # 1.0 and True would be found in the cache under 1
        axis = integers_of(axis, "axis")
    return axis, bool(keepdims)


def axes_in(axis: int | tuple[int, ...] | None, ndim: int, argument: str) -> tuple[int, ...]:
    """The axes that are reduced of an argument of this name, in order."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (normalize_axis(axis, ndim, argument),)
    return tuple(sorted(axes_of(axis, ndim, argument, "axis")))


def _without(lengths: Sequence[int], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(lengths) if d not in axes)


def result_of(x: Layout, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype[Any]) -> Layout:
    """The layout of a new result, in the memory order of what is reduced."""
    if keepdims:
        shape, strides = tuple(1 if d in axes else n for d, n in enumerate(x.shape)), x.strides
    else:
        shape, strides = _without(x.shape, axes), _without(x.strides, axes)
    return dense_like(layout(shape, strides, dtype, x.device), shape)


def written(number: int, out: Layout, axes: tuple[int, ...], keepdims: bool) -> View:
    """How result number `number` is written: without the axes that are reduced."""
    if keepdims:
        return view(number, 0, _without(out.strides, axes), _without(out.shape, axes))
    return view(number, 0, out.strides, out.shape)


def _formula(name: str, x: DTypeInfo, compute: str, option: Any) -> str:
    """The name of the formula."""
    name = _NORMS.get(option, "norm_p") if name == "norm" else name
    # What is asked for in float64 is not to be rough.
    is_narrow = x.is_float and x.itemsize == 2 and compute == "float32"
    if name in ("var", "std", "mean_std", "logsumexp", "log_sum") and is_narrow:
        return f"{name}_narrow"
    if x.name == "bool" and name in ("max", "min"):
        return "any" if name == "max" else "all"
    is_own = compute.startswith("complex") and f"{name}_complex" in _FORMULAS
    return f"{name}_complex" if is_own else name


def _plan(
    name: str, x: Layout, axis: Any, keepdims: bool, option: Any, out: Layout | None, *, rounds: bool = True
) -> ReducePlan:
    """Validation, and how the operands lie. Everything here depends on layouts and options alone."""
    if x.ndim > MAX_RANK:
        raise ShapeError(f"x has rank {x.ndim} (shape {x.shape}); ranks 0 to {MAX_RANK} are supported")
    row = info(x.dtype, "x")
    asked = option if name in ("sum", "prod", "mean") else None
    if name in ("var", "std") and type(option) is tuple:
        option, asked = option
    dtype, compute = types_of(name, row, asked)
    if name in _INDICES and axis is not None and type(axis) is not int and len(axis) != 1:
        raise ShapeError(f"axis={axis} are several axes; {name} takes one, or None for all")
    axes = axes_in(axis, x.ndim, "x")
    is_extreme = name in _EXTREMES or (name == "norm" and option == -math.inf)
    if is_extreme and 0 in x.shape and 0 not in _without(x.shape, axes):
        which = "it" if axis is None else f"axis {axis}"
        raise ShapeError(f"x has shape {x.shape}: {which} has no elements, and nothing has no {name}")
    result = result_of(x, axes, keepdims, dtype if rounds else np.dtype(compute))
    results, called = ((result,) * 2, ("first", "second")) if name in PAIRS else ((result,), ("out",))
    outputs = results if out is None else (out,)
    check_out(outputs, results, called)
    has_scalar = name in ("var", "std", "mean_std") or (name == "norm" and option not in _NORMS)
    real = real_of(compute)
    more = (option,) if has_scalar or name == "norm" else ()
    task = ReduceTask(
        op=f"elementwise.{name}",
        formula=_FORMULAS[_formula(name, row, compute, option)],
        reference=_reference(name, axes, compute, *more),
        names=("x", *called),
        inputs=(x,),
        outputs=outputs,
        shape=x.shape,
        axes=axes,
        reads=(view(0, 0, x.strides, x.shape),),
        writes=tuple(written(k, each, axes, keepdims) for k, each in enumerate(outputs)),
        out_given=out is not None,
        compute=compute,
        scalars=(real,) if has_scalar else (),
    )
    return ReducePlan(task, dtypes.words(option, real) if has_scalar else ())


def _reference(name: str, axes: tuple[int, ...], *given: Any) -> Callable[..., tuple[Any, ...]]:
    """What it means in NumPy, of what is reduced."""
    if name in PAIRS:
        return lambda seen: PAIRS[name](seen, axes, *given)
    return lambda seen: (FUNCTIONS[name](seen, axes, *given),)


def planned(name: str, x: Layout, axis: int | None, option: Any) -> ReducePlan:
    """A plan for an array that need not exist, in no cache."""
    return _plan(name, x, axis, False, option, None)


#: Functions that are reduced in all floats, and their option.
_EVERYDAY = {
    **dict.fromkeys(("sum", "mean", "max", "min", "argmax", "argmin", "logsumexp"), None),
    "var": 0.0,
    "std": 0.0,
    "norm": 2.0,
}


def everyday_reductions(matrix: Layout) -> Iterator[ReducePlan]:
    """Plans of calls that reduce rows, columns and all of a matrix."""
    yield from (planned(name, matrix, axis, option) for axis in (0, 1, None) for name, option in _EVERYDAY.items())


def _plan_of_totals(*given: Any) -> ReducePlan:
    return _plan(*given, rounds=False)


def _checked(name: str, x: Layout, axis: Any, keepdims: Any, option: Any) -> tuple[Any, ...]:
    return *checked(axis, keepdims), option


_CALLS, _TOTALS_OF = OfOneArray(_plan, _checked), OfOneArray(_plan_of_totals, _checked)
