"""Plans of reductions: dtypes, axes, the shape of the result, and the choice of the formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import operands
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
from ..errors import OptionError, ShapeError, shown
from ..kernels.reduce.functions import FUNCTIONS, REDUCTIONS
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..kernels.reduce.logsumexp import EXPONENTS
from ..plan.base import Result, check_out
from ..plan.tasks import TaskPlan
from ..reference.reductions import FUNCTIONS as IN_NUMPY
from ..reference.reductions import PAIRS, of_rows
from ..runtime.streams import handle_of
from . import calling
from .calling import plans
from .type_promotion import types_of


class ReducePlan(TaskPlan[Result], ReduceExecutable):
    """A planned reduction of a `ReduceTask`. Call it with arrays that have the layouts it was made for."""


_FORMULAS = REDUCTIONS | EXPONENTS
#: Function -> its NumPy version.
_IN_NUMPY = IN_NUMPY | {name: of_rows(each.numpy) for name, each in FUNCTIONS.items() if each.numpy}
#: Reductions whose results are indices.
_INDICES = ("argmax", "argmin")
#: Functions that need at least one element.
_EXTREMES = (*_INDICES, *(name for name, each in FUNCTIONS.items() if each.needs_elements))
#: Function -> the rule of its dtypes, and whether it accepts complex numbers.
_RULES = {
    **dict.fromkeys(_INDICES, ("index", False)),
    **dict.fromkeys(("var", "std", "norm"), ("real", True)),
    **{name: (each.rule, each.takes_complex) for name, each in FUNCTIONS.items()},
}
#: The functions with an option `dtype`.
WITH_DTYPE = (*(name for name, each in FUNCTIONS.items() if each.rule in ("total", "mean")), "var", "std")
#: Order -> the norm's own formula. All other orders share one formula.
_NORMS = {0: "norm_0", 1: "norm_1", 2: "norm_2", math.inf: "norm_inf", -math.inf: "norm_least"}


def found(name: str, x: Any, axis: Any, keepdims: Any, out: Any, stream: Any, *options: Any) -> Any:
    """Return the plan of a reduction and its operands, for `plan.calls.planned`.

    Args:
        name: the function's name.
        x, axis, keepdims, out, stream: the same as in the function's docstring.
        options: its other options, each in a unique form, in the order of its signature.
    """
    axis, keepdims = checked(axis, keepdims)
    return calling.found(made, name, {"x": x}, (axis, *options, keepdims), out, stream)


def made(name: str, axis: Any, *given: Any) -> ReducePlan:
    """Return the plan of a key: options in the order of the signature, then the layout of `out` or None, and x's."""
    *options, keepdims, out, x = given
    asked = options.pop(0) if name in WITH_DTYPE else None
    return _plan(name, x, axis, keepdims, asked, options[0] if options else None, out)


def total(name: str, x: Any, axis: int | tuple[int, ...] | None, option: Any, stream: Any) -> Array:
    """Return the totals of an array, in the compute dtype and without rounding. Reduced axes are kept, with length 1.

    For a key of `reference.reductions.PAIRS`, it returns a pair of totals and reads x once.
    """
    plan = plans.find((_plan_of_totals, name, operands.layout_of(x), axis, option))
    return plan.run((x,), None, None, handle_of(stream))


def correction_of(value: Any) -> float:
    """Return the option `correction` in a unique form."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise OptionError(f"correction={shown(value)} is not a number")
    if not math.isfinite(value):
        raise OptionError(f"correction={shown(value)} is not finite")
    return float(value)


def order_of(value: Any) -> float:
    """Return the option `ord` in a unique form."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
    try:
        order = float(value) if is_number else math.nan
    except OverflowError:
        order = math.nan
    if math.isnan(order):
        raise OptionError(
            f"ord={shown(value)} is not a number that float64 can represent; matrix norms are not supported"
        )
    return order


def checked(axis: Any, keepdims: Any) -> tuple[int | tuple[int, ...] | None, bool]:
    """Return the options `axis` and `keepdims`, each in a unique form, before the array is known."""
    if not isinstance(keepdims, (bool, np.bool_)):
        raise OptionError(f"keepdims={shown(keepdims)} is not True or False")
    if axis is not None and type(axis) is not int:  # 1.0 and True would be found in the cache under 1
        axis = integers_of(axis, "axis")
    return axis, bool(keepdims)


def axes_in(axis: int | tuple[int, ...] | None, ndim: int, argument: str) -> tuple[int, ...]:
    """Return the reduced axes, in order, of an argument with this name."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (normalize_axis(axis, ndim, argument),)
    return tuple(sorted(axes_of(axis, ndim, argument, "axis")))


def _without(lengths: Sequence[int], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(lengths) if d not in axes)


def result_of(x: Layout, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype[Any]) -> Layout:
    """Return the layout of a new result. It has the memory order of the array that is reduced."""
    if keepdims:
        shape, strides = tuple(1 if d in axes else n for d, n in enumerate(x.shape)), x.strides
    else:
        shape, strides = _without(x.shape, axes), _without(x.strides, axes)
    return dense_like(layout(shape, strides, dtype, x.device), shape)


def written(number: int, out: Layout, axes: tuple[int, ...], keepdims: bool) -> View:
    """Return how result `number` is written: a view without the reduced axes."""
    if keepdims:
        return view(number, 0, _without(out.strides, axes), _without(out.shape, axes))
    return view(number, 0, out.strides, out.shape)


def _formula(name: str, x: DTypeInfo, compute: str, option: Any) -> str:
    """Return the name of the formula."""
    name = _NORMS.get(option, "norm_p") if name == "norm" else name
    # If float64 is requested, the less accurate variant must not be used.
    is_narrow = x.is_float and x.itemsize == 2 and compute == "float32"
    if name in ("var", "std", "mean_std", "logsumexp", "log_sum") and is_narrow:
        return f"{name}_narrow"
    if x.name == "bool" and name in ("max", "min"):
        return "any" if name == "max" else "all"
    is_own = compute.startswith("complex") and f"{name}_complex" in _FORMULAS
    return f"{name}_complex" if is_own else name


def _plan(
    name: str, x: Layout, axis: Any, keepdims: bool, asked: Any, option: Any, out: Layout | None, *, rounds: bool = True
) -> ReducePlan:
    """Validate a call and return its plan. Everything here depends only on layouts and options."""
    if x.ndim > MAX_RANK:
        raise ShapeError(f"x has rank {x.ndim} (shape {x.shape}); ranks 0 to {MAX_RANK} are supported")
    row = info(x.dtype, "x")
    rule, takes_complex = _RULES.get(name, ("mean", False))
    dtype, compute = types_of(name, row, asked, rule=rule, takes_complex=takes_complex)
    if name in _INDICES and axis is not None and type(axis) is not int and len(axis) != 1:
        raise ShapeError(f"axis={axis} has several axes; {name} supports one axis, or None for all")
    axes = axes_in(axis, x.ndim, "x")
    is_extreme = name in _EXTREMES or (name == "norm" and option == -math.inf)
    if is_extreme and 0 in x.shape and 0 not in _without(x.shape, axes):
        which = "it" if axis is None else f"axis {axis}"
        raise ShapeError(f"x has shape {x.shape}: {which} has no elements; {name} needs at least one")
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
    """Return the NumPy version of a reduction."""
    if name in PAIRS:
        return lambda seen: PAIRS[name](seen, axes, *given)
    return lambda seen: (_IN_NUMPY[name](seen, axes, *given),)


def planned(name: str, x: Layout, axis: int | None, option: Any, out: Layout | None = None) -> ReducePlan:
    """Return a plan for an array that need not exist, without caching it."""
    return _plan(name, x, axis, False, None, option, out)


#: Functions that are prepared for all floats -> their option.
_EVERYDAY = {
    **dict.fromkeys(("sum", "mean", "max", "min", "argmax", "argmin", "logsumexp"), None),
    "var": 0.0,
    "std": 0.0,
    "norm": 2.0,
}


def everyday_reductions(matrix: Layout) -> Iterator[ReducePlan]:
    """Yield plans that reduce the rows, the columns and all elements of a matrix."""
    yield from (planned(name, matrix, axis, option) for axis in (0, 1, None) for name, option in _EVERYDAY.items())


def _plan_of_totals(name: str, x: Layout, axis: Any, option: Any) -> ReducePlan:
    return _plan(name, x, axis, True, None, option, None, rounds=False)
