"""Custom reductions: a map of numbers, a function that merges its results along axes, and a function of the totals.

Gradients are dx = dy · after'(totals) · map'(x), computed by elementwise kernels. For maxima and minima, only the parts
that are equal to the total receive a share of dy.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..arrays.creation import empty
from ..base.casts import cast
from ..base.dtypes import TABLE
from ..base.layout import Layout, argument_of, layout, row_major_strides, view
from ..base.observing import observable
from ..errors import OptionError, ShapeError, UnsupportedError, shown, unknown
from ..functions.reduction_formula import ReductionFormula
from ..functions.symbolic.derive import backward
from ..functions.symbolic.vectorized import vectorized
from ..kernels.inspection import Inspection, inspected
from ..kernels.reduce import functions
from ..kernels.reduce.launch import ReduceTask
from ..plan.base import Result, outs_of
from ..plan.python_functions import choosing, meaning_of, python_function, taken_by
from ..plan.saved import Saved, saves
from ..runtime.streams import handle_of
from . import reduction_plan
from .calling import plans
from .gradients import run_backward
from .operation import WithNumbers, sorted_out
from .operation import run as run_map
from .planning import arrangement_of, broadcast_strides, check_given, kinds_of, out_names, resolved
from .reduction_plan import ReducePlan, axes_in, checked, result_of, written
from .rows import NAMED, Arrangement, Meaning, Row, arranged
from .signatures import Benchmark, Own, benchmark
from .type_promotion import Types

# ---------------------------------------------------------------- plans of calls

#: (parts, axes) -> the totals, for arrays.
Combine = Callable[[Sequence[Any], tuple[int, ...]], list[Any]]


class After(NamedTuple):
    """The last step of a reduction: a function of the totals.

    Attributes:
        meaning: a function of the totals, the count if `takes_count`, and options; it returns a tuple of results.
        takes_count: whether the number of elements is one of its arguments.
        options: the indices of the call's arguments that are its options.
        results: for each result "bool", or "" for the dtype that follows from the map's arguments.
    """

    meaning: Meaning
    takes_count: bool
    options: tuple[int, ...]
    results: tuple[str, ...]


class Reducer:
    """The functions of a custom reduction.

    Attributes:
        row: the map of all arguments. Its results are the parts.
        start: the parts of no elements.
        merge: (parts, other parts) -> the parts of both together, for numbers.
        combine: the same for arrays: (parts, axes) -> the totals, in float64.
        after: the function of the totals.
    """

    __slots__ = ("after", "combine", "merge", "row", "start")

    def __init__(
        self,
        row: Row,
        start: tuple[float, ...],
        merge: Callable[..., tuple[Any, ...]],
        combine: Combine,
        after: After,
    ):
        self.row, self.start, self.merge, self.combine, self.after = row, start, merge, combine, after

    def ending(self, after: After) -> Reducer:
        """Return the same reduction with another last step."""
        return Reducer(self.row, self.start, self.merge, self.combine, after)


def run(reducer: Reducer, arguments: tuple[Any, ...], axis: Any, keepdims: Any, out: Any, stream: Any) -> Any:
    """Return the results of a reduction.

    Args:
        reducer: the reduction.
        arguments: arrays and scalars, in the order of the row's names.
        axis, keepdims, out, stream: the same as in `Reduction.__call__`.
    """
    handle = handle_of(stream)
    plan, arrays, outs, numbers = _find(reducer, arguments, axis, keepdims, out, handle)
    return plan.run(arrays, outs, out, handle, plan.scalars(numbers))


def find(reducer: Reducer, arguments: tuple[Any, ...], axis: Any, keepdims: Any, out: Any) -> CustomReducePlan:
    """Return the plan that `run` runs."""
    plan, arrays, outs, _ = _find(reducer, arguments, axis, keepdims, out, handle_of(None))
    plan.prepare(arrays, outs)
    return plan


def planned(reducer: Reducer, given: tuple[Any, ...], axis: Any, keepdims: Any = False) -> CustomReducePlan:
    """Return a plan for arrays (layouts) that need not exist and scalars (types), without caching it."""
    return _plan(reducer, given, *checked(axis, keepdims), None)


class CustomReducePlan(WithNumbers[Result], ReducePlan[Result]):
    """A planned custom reduction. Call it with arrays and scalars like the ones that it was made for."""

    def __init__(self, row: Row, task: ReduceTask, given: tuple[Any, ...], types: Types, arrangement: Arrangement):
        super().__init__(task)
        self._expect(row, kinds_of(given), types, arrangement)


def _find(
    reducer: Reducer, arguments: tuple[Any, ...], axis: Any, keepdims: Any, out: Any, handle: int
) -> tuple[CustomReducePlan, list[Any], list[Any] | None, list[Any]]:
    """Return the plan of a call, its arrays, the arrays for the results, and its scalars."""
    keys, arrays, numbers = sorted_out(reducer.row, arguments, handle)
    outs = outs_of(out, handle)
    own = None if outs is None else tuple(map(operands.layout_of, outs))
    return plans.find((_plan, reducer, tuple(keys), *checked(axis, keepdims), own)), arrays, outs, numbers


def _plan(
    reducer: Reducer, given: tuple[Any, ...], axis: Any, keepdims: bool, outs: tuple[Layout, ...] | None
) -> CustomReducePlan:
    """Validate a call and return its plan. Everything here depends only on layouts, types and options."""
    row = reducer.row
    named, dtypes, types, shape = resolved(row, given)
    inputs = tuple(array for _, array in named)
    axes = axes_in(axis, len(shape), named[0][0] if len(named) == 1 else "the arrays")
    # The memory order is that of the first array that has the full shape.
    strides = next((array.strides for array in inputs if array.shape == shape), row_major_strides(shape, 1))
    seen = layout(shape, strides, inputs[0].dtype, inputs[0].device)
    names = [name or types.result for name in reducer.after.results]
    results = [result_of(seen, axes, keepdims, TABLE[name].numpy) for name in names]
    outputs, called = tuple(results) if outs is None else outs, out_names(len(results))
    check_given(outputs, results, called)
    arrangement = arrangement_of(row, given, dtypes, types, tuple(range(len(reducer.start))))
    task = ReduceTask(
        op=f"elementwise.{row.name}",
        formula=_formula(reducer, arrangement),
        reference=partial(_reference, reducer, arrangement, axes),
        names=(*(name for name, _ in named), *called),
        inputs=inputs,
        outputs=outputs,
        shape=shape,
        axes=axes,
        reads=tuple(view(k, 0, broadcast_strides(array, shape), shape) for k, array in enumerate(inputs)),
        writes=tuple(written(k, array, axes, keepdims) for k, array in enumerate(outputs)),
        out_given=outs is not None,
        compute=types.compute,
        scalars=(types.compute,) * len(arrangement.numbers),
    )
    return CustomReducePlan(row, task, given, types, arrangement)


# ---------------------------------------------------------------- the computation


@lru_cache(maxsize=4096)
def _formula(reducer: Reducer, arrangement: Arrangement) -> ReductionFormula:
    """Return the reduction for kernels. All its functions have the scalars as their last parameters."""
    row, after, parts = reducer.row, reducer.after, len(reducer.start)
    totals, numbers = [f"total{k}" for k in range(parts)], [f"x{k}" for k in arrangement.numbers]
    taken = [*totals, *["count"] * after.takes_count, *(f"x{k}" for k in after.options)]
    return ReductionFormula(
        f"elementwise.{row.name}",
        arranged(row.meanings["f"].scalar, arrangement, ("",) * parts),
        start=reducer.start,
        merge=reducer.merge,
        finish=choosing(after.meaning.scalar, [*totals, "count", *numbers], taken),
    )


@lru_cache(maxsize=64)
def unchanged(parts: int) -> After:
    """Return the last step of a reduction whose results are the totals."""
    names = ", ".join(f"total{k}" for k in range(parts))
    meaning, results = meaning_of(eval(f"lambda {names}: ({names},)"), "the totals")
    return After(meaning, False, (), tuple(results))


def _reference(reducer: Reducer, arrangement: Arrangement, axes: tuple[int, ...], *seen: Any) -> tuple[Any, ...]:
    """Compute the same in NumPy: from operands in the compute dtype, in float64, rounded once."""
    row, after, compute = reducer.row, reducer.after, TABLE[arrangement.compute].numpy
    given: list[Any] = [None] * len(row.names)
    for k, value in zip((*arrangement.arrays, *arrangement.numbers), seen, strict=True):
        given[k] = cast(value, compute) if k in row.meeting else value
    totals = reducer.combine(row.meanings["f"].numpy(*given), axes)
    count = prod(seen[0].shape[d] for d in axes)
    options = [given[k] for k in after.options]
    results: tuple[Any, ...] = after.meaning.numpy(*totals, *[count] * after.takes_count, *options)
    return results


def by_ufunc(function: np.ufunc, start: float) -> Combine:
    """Make a `Reducer.combine` from a NumPy ufunc of two numbers."""

    def combine(parts: Sequence[Any], axes: tuple[int, ...]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [function.reduce(part, axis=axes, initial=start) for part in parts]

    return combine


def in_a_tree(merge: Callable[..., Sequence[Any]], start: tuple[float, ...]) -> Combine:
    """Make a `Reducer.combine` from a function of arrays. It merges halves."""

    def combine(parts: Sequence[Any], axes: tuple[int, ...]) -> list[Any]:
        shape, first = parts[0].shape, range(len(axes))
        count, kept = prod(shape[d] for d in axes), [n for d, n in enumerate(shape) if d not in axes]
        found = [np.moveaxis(part, axes, tuple(first)).reshape(count, *kept) for part in parts]
        if not count:
            return [np.full(kept, number) for number in start]
        while count > 1:
            half = count // 2
            both = merge(*(part[:half] for part in found), *(part[half : 2 * half] for part in found))
            found = [np.concatenate([one, part[2 * half :]]) for one, part in zip(both, found, strict=True)]
            count -= half
        return [part[0] for part in found]

    return combine


# ---------------------------------------------------------------- gradients


class Gradient(NamedTuple):
    """The gradient of a custom reduction.

    Attributes:
        extreme: "max" or "min" if parts are merged this way; "" for sums.
        after: maps (dy, totals, count, options) to the gradients with respect to the totals; None if these are dy.
        totals: computes the totals in the compute dtype; None if they are not needed.
        map: maps (these gradients, arguments) to the gradients with respect to the arguments.
        written: its scalar functions.
    """

    extreme: str
    after: Row | None
    totals: Reducer | None
    map: Row
    written: tuple[Callable[..., Any], ...]


def gradient_of(
    reducer: Reducer, extreme: str, mapped: Callable[..., Any], after: Callable[..., Any] | None, taken: Sequence[int]
) -> Gradient:
    """Return the gradient of a reduction that computes sums or extremes.

    Args:
        reducer, extreme: the reduction, and `Gradient.extreme`.
        mapped, after: the functions that it was made of. `after` is None if the totals are the results.
        taken: the indices of the arguments of `mapped`.

    Raises:
        NotDerived: a part of it lacks a known derivative.
    """
    row, parts = reducer.row, len(reducer.start)
    name, count = row.name, len(row.names) - row.options
    seeds = [f"dy{k}" for k in range(parts)]
    inner = backward(mapped, name, wanted=count, is_chosen=bool(extreme))
    given = [*seeds, *(f"x{k}" for k in range(len(row.names)))]
    scalar = choosing(inner, given, [*seeds, *(f"x{k}" for k in taken)])
    by = range(parts, parts + count)
    gradient = _row(name, scalar, [*("dy" for _ in seeds), *row.names], parts + count, by, row.options)
    if after is None:
        return Gradient(extreme, None, None, gradient, (inner,))
    results, own = len(reducer.after.results), reducer.after.options
    scalar = backward(after, f"{name}'s after", wanted=parts)
    used = {each.id for each in ast.walk(ast.parse(inspect.getsource(scalar))) if isinstance(each, ast.Name)}
    numbers = ["count"] * reducer.after.takes_count + [row.names[k] for k in own]
    names = [*("dy" for _ in range(results)), *(f"total {k}" for k in range(parts)), *numbers]
    outer = _row(name, scalar, names, results + parts, [""] * parts, len(numbers))
    is_needed = not used.isdisjoint(f"x{k}" for k in range(parts))
    totals = reducer.ending(unchanged(parts)) if is_needed else None
    return Gradient(extreme, outer, totals, gradient, (scalar, inner))


def _row(
    name: str, scalar: Callable[..., Any], names: Sequence[str], meeting: int, results: Sequence[Any], options: int
) -> Row:
    meaning = Meaning(scalar, vectorized(scalar, f"{name}'s backward", rounds_numbers=True))
    return Row(
        f"{name}.backward",
        names,
        "keep",
        {"f": meaning},
        meeting=range(meeting),
        results=results,
        is_tuple=True,
        options=options,
    )


def slope_row(name: str, slope: Callable[..., Any], totals: str = "", numbers: str = "") -> Row:
    """Return the row of a reduction's gradient. Its arguments are dy, x, arrays of totals, and scalars, all by name."""
    arrays = ("dy", "x", *totals.split())
    meaning = Meaning(slope, vectorized(slope, f"{name}_backward"))
    made = Row(
        f"gradient of {name}",
        (*arrays, *numbers.split()),
        "keep",
        {"f": meaning},
        meeting=range(len(arrays)),
        results=(1,),
        options=len(numbers.split()),
    )
    return NAMED.setdefault(made.name, made)


#: The gradient of an extreme, given the extreme and the number of elements that are equal to it.
EXTREME = slope_row("extreme", functions.of_extreme, "extreme ties")


def run_gradient(
    reducer: Reducer,
    gradient: Gradient,
    dys: Sequence[Any],
    arguments: tuple[Any, ...],
    axis: Any,
    keepdims: Any,
    out: Any,
    stream: Any,
) -> Any:
    """Return the gradients of a call, given the gradients with respect to its results."""
    handle, row = handle_of(stream), reducer.row
    axis, keepdims = checked(axis, keepdims)
    keys, arrays, _ = sorted_out(row, arguments, handle)
    _, _, types, shape = resolved(row, tuple(keys))
    axes = axes_in(axis, len(shape), "the arrays")
    kept = tuple(1 if d in axes else n for d, n in enumerate(shape))
    seeds = seen(dys, shape, axes, keepdims, handle)
    device = operands.layout_of(arrays[0]).device
    where = argument_of(device)

    def memory(lengths: tuple[int, ...] = kept) -> tuple[Any, ...]:
        return tuple([empty(lengths, types.compute, device=where, stream=stream) for _ in reducer.start])

    if gradient.after is not None:
        totals: Sequence[Any] = [0.0] * len(reducer.start)
        if gradient.totals is not None:
            totals = run(gradient.totals, arguments, axis, True, memory(), stream)
        count = [float(prod(shape[d] for d in axes))] * reducer.after.takes_count
        options = [arguments[k] for k in reducer.after.options]
        seeds = run_map(gradient.after, (*seeds, *totals, *count, *options), memory(), None, stream)
    slopes = [repeated(seed, shape) for seed in seeds]
    if gradient.extreme:
        # Another kernel might round the parts differently, and no part would equal its total. Store and reuse them.
        parts = memory(shape)
        run_map(row, arguments, parts if len(parts) > 1 else parts[0], None, stream)
        for slope, part in zip(slopes if 0 not in shape else (), parts, strict=False):
            found = reduction_plan.total(f"{gradient.extreme}_ties", part, axes, None, stream)
            run_map(EXTREME, (slope, part, *found), part, None, stream)
        slopes = list(parts)
    return run_backward(gradient.map, (*slopes, *arguments), out, stream)


def seen(dys: Sequence[Any], shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, handle: int) -> list[Any]:
    """Return dy of each result, with the reduced axes as axes of length 1."""
    wanted = tuple(1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes)
    found = []
    for k, dy in enumerate(dys):
        name = "dy" if len(dys) == 1 else f"dy[{k}]"
        array = operands.as_input(dy, name, handle)
        if tuple(array.shape) != wanted:
            raise ShapeError(f"{name} has shape {tuple(array.shape)}; the result has shape {wanted}")
        if axes and not keepdims:
            array = array[tuple(None if d in axes else slice(None) for d in range(len(shape)))]
        found.append(array)
    return found


def repeated(array: Any, shape: tuple[int, ...]) -> Any:
    """Return an array broadcast to a shape."""
    return np.broadcast_to(array, shape) if isinstance(array, np.ndarray) else array.broadcast_to(shape)


def opened(dy: Any, reducer: Reducer) -> tuple[Any, ...]:
    """Return dy of each result, as a tuple.

    Raises:
        OptionError: their number is wrong.
    """
    dys, wanted = tuple(dy) if isinstance(dy, (tuple, list)) else (dy,), len(reducer.after.results)
    if len(dys) != wanted:
        raise OptionError(f"dy is {len(dys)} arrays; {reducer.row.name} has {wanted} results")
    return dys


# ---------------------------------------------------------------- the public interface

#: Name -> (the function that merges two numbers, the start, NumPy's function).
MERGES: dict[str, tuple[Callable[..., tuple[Any, ...]], float, np.ufunc]] = {
    "sum": (functions.add, 0.0, np.add),
    "prod": (functions.multiply, 1.0, np.multiply),
    "max": (functions.larger, -math.inf, np.maximum),
    "min": (functions.smaller, math.inf, np.minimum),
}
_EXTREMES = ("max", "min")
#: The shape of arrays that need not exist.
_USUAL_SHAPE = (4096, 4096)


def reduction(
    function: Callable[..., Any] | None = None,
    *,
    merge: str | Callable[..., Any] = "sum",
    start: float | tuple[float, ...] | None = None,
    after: Callable[..., Any] | None = None,
) -> Reduction | Callable[[Callable[..., Any]], Reduction]:
    """Make a reduction from Python functions of numbers: after(Σ function(x), count). It can be used as a decorator.

    A reduction has three steps. `function` maps each element to one or more parts. `merge` combines the parts along
    axes. `after` turns the totals into the result.

    Args:
        function: the map. It has one parameter for each array and returns one part, or a tuple of parts. The function
            of a `kernel` and this one may use the same things. Parameters with defaults are options.
        merge: "sum", "prod", "max" or "min", applied to each part separately. Or a function of two parts. With several
            parts, its parameters are all of the first, then all of the second: (a0, a1, b0, b1) -> (c0, c1). Parts are
            merged in any order and grouping.
        start: the parts of no elements, if `merge` is a function: a number or a tuple. Merging it must change nothing.
        after: a function of the totals and, if it has one more parameter, the number of elements. It returns the result
            or a tuple of results. Parameters with defaults are options; options that the map has, too, have the same
            values. By default, the totals are the results.

    Returns:
        a `Reduction`. Call it with arrays and scalars, `axis=` and `keepdims=`, like `elementwise.sum`. One kernel
        reads the arrays once. If there are few rows, several blocks share a row, and a second kernel merges their
        results. NumPy arrays are reduced by NumPy.

    Raises:
        OptionError: an argument is not a Python function; merge is unknown; start is missing or not needed; options of
            the two functions have the same name but different defaults, or a name that calls use: axis, keepdims,
            return_saved, out, stream.
        UnsupportedError: raised by the call, not here: a function uses something that kernels do not support (the
            message names the line).

    Example:
        >>> import math
        >>> rms = elementwise.reduction(lambda x: x * x, after=lambda total, count: math.sqrt(total / count))
        >>> rms(np.array([[1.0, 7.0], [6.0, 8.0]]), axis=1).round(3)
        array([5.   , 7.071])
    """
    if function is None:
        return lambda each: Reduction(each, merge, start, after)
    return Reduction(function, merge, start, after)


class Reduction(Own):
    """A custom reduction, which `reduction` returns. Call it with arrays and scalars.

    Example:
        >>> dot = elementwise.reduction(lambda x, y: x * y)
        >>> dot(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]), axis=-1)
        array([21., 43.])
    """

    _kind = "reduction"
    _reserved = ("axis", "keepdims", "return_saved", "out", "stream")

    def __init__(
        self,
        function: Callable[..., Any],
        merge: str | Callable[..., Any] = "sum",
        start: float | tuple[float, ...] | None = None,
        after: Callable[..., Any] | None = None,
    ):
        self._after = None if after is None else python_function(after, "after")
        self._after_takes, more = ([], {}) if self._after is None else taken_by(self._after, "after")
        own = taken_by(python_function(function, "function"), "function")[1]
        for name in own.keys() & more.keys():
            if own[name] is not more[name] and own[name] != more[name]:
                raise OptionError(
                    f"{name} has the default {shown(own[name])} in the map and {shown(more[name])} in after; use one"
                )
        super().__init__(function, more)
        if isinstance(merge, str) and merge not in MERGES:
            raise unknown("merge", merge, MERGES, f"it is {', '.join(MERGES)}, or a function")
        self._merge = merge if isinstance(merge, str) else python_function(merge, "merge")
        self._start = _starting(start, isinstance(merge, str))

    # ------------------------------------------------------------ the computation

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any] | None, Callable[..., Any] | None]:
        """Copies of the map, of the merge if it is a function, and of `after`. A change of globals renews them."""
        function, merge, after = self._frozen(
            self._function, None if isinstance(self._merge, str) else self._merge, self._after
        )
        return function, merge, after

    @cached_property
    def _taken(self) -> range:
        """The indices of the map's arguments. Options that only `after` has follow them."""
        return range(len(inspect.signature(self._function).parameters))

    @cached_property
    def _map(self) -> tuple[Meaning, list[str]]:
        """The map's functions, and its parts."""
        return meaning_of(self._functions[0], self.__name__)

    @cached_property
    def _reducer(self) -> Reducer:
        name, names, taken = self.__name__, tuple(self._signature.parameters), len(self._taken)
        meaning, parts = self._map
        row = Row(
            name,
            names,
            "divide",
            {
                "f": Meaning(
                    choosing(meaning.scalar, names, names[:taken]), lambda *given: meaning.numpy(*given[:taken])
                )
            },
            meeting=range(self._count),
            results=[""] * len(parts),
            options=len(names) - self._count,
        )
        start, merge, combine = self._merging(len(parts))
        return Reducer(row, start, merge, combine, self._ending(len(parts)))

    def _merging(self, parts: int) -> tuple[tuple[float, ...], Callable[..., tuple[Any, ...]], Combine]:
        """Return (the parts of no elements, the function that merges numbers, the function that merges arrays)."""
        if isinstance(self._merge, str):
            merge, start, ufunc = MERGES[self._merge]
            return (start,) * parts, functions.side_by_side(merge, parts), by_ufunc(ufunc, start)
        name, function, starts = self.__name__, self._functions[1], self._start
        assert function is not None
        if len(starts) != parts:
            raise OptionError(f"start is {len(starts)} numbers; {name} has {parts} parts")
        numbers, _ = taken_by(self._merge, "merge")
        if len(numbers) != 2 * parts:
            raise OptionError(f"merge has {len(numbers)} parameters; it must have {2 * parts}: two parts of {parts}")
        meaning, merged = meaning_of(function, f"{name}'s merge")
        if len(merged) != parts:
            raise OptionError(
                f"merge returns {len(merged)} numbers; it must return {parts}, as many as {name} has parts"
            )
        return starts, meaning.scalar, in_a_tree(meaning.numpy, starts)

    def _ending(self, parts: int) -> After:
        """Return the last step."""
        takes = len(self._after_takes)
        if (function := self._functions[2]) is None:
            return unchanged(parts)
        if takes not in (parts, parts + 1):
            raise OptionError(
                f"after has {takes} parameters without default; it needs {parts}, the totals, or one more, the count"
            )
        meaning, results = meaning_of(function, f"{self.__name__}'s after")
        names = list(self._signature.parameters)
        options = [names.index(name) for name in list(inspect.signature(function).parameters)[takes:]]
        return After(meaning, takes > parts, tuple(options), tuple(results))

    @cached_property
    def _gradient(self) -> Gradient:
        if self._merge not in ("sum", *_EXTREMES):
            merge = repr(self._merge) if isinstance(self._merge, str) else "a function"
            raise UnsupportedError(
                f'{self.__name__} does not support gradients: merge is {merge}; gradients need "sum", "max" or "min"'
            )
        extreme = "" if self._merge == "sum" else str(self._merge)
        mapped, _, after = self._functions
        try:
            return gradient_of(self._reducer, extreme, mapped, after, self._taken)
        except TypeError as error:
            raise UnsupportedError(str(error)) from None

    # ------------------------------------------------------------ calls

    @observable("call", ".__name__")
    def __call__(
        self,
        *arguments: Any,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        return_saved: bool = False,
        out: Any = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        """Reduce arrays and scalars that broadcast. At least one must be an array.

        Args:
            arguments, options: the arguments of the map, and the options of `after`: arrays of floats, integers or
                bool, or scalars. Integers and bool are converted to float64. Rank 0 to 8, any strides.
            axis: the axes of the broadcast shape to reduce: an integer, a tuple of integers, or None for all axes.
            keepdims: True to keep the reduced axes, with length 1.
            return_saved: whether to return a second object for `backward(dy, saved)`. It holds the arguments, the
                options, axis and keepdims. Do not change the arrays before that call; globals may change.
            out: array that receives the result. It has the result's shape and device, and its dtype or another float
                dtype. It must not share memory with the arguments. For several results, pass a tuple.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Returns:
            an array of the promoted dtype of the arguments, or of bool if a boolean is returned. Its rank is 0 if all
            axes are reduced. Several results are returned as a tuple. 16-bit floats are computed in float32 and rounded
            once. For no elements, the result is `after` of the start. With return_saved, (y, saved).

        Raises:
            ShapeError: the shapes do not broadcast; or the rank, the axis or the shape of out is wrong.
            DTypeError: an argument is complex, or no argument is an array.
            OptionError: keepdims or stream is invalid, or an option is an array.
            ArgumentsError: the function has other parameters.
            UnsupportedError: a function uses something that kernels do not support; or, with return_saved, no
                derivative is known.
            LayoutError: out is read-only, overlaps an argument, or has elements that share memory.
            DeviceError: arrays on different devices; not enough memory.
        """
        bound = self._bound(arguments, options)
        if return_saved is not False and saves(return_saved):
            axis, keepdims = checked(axis, keepdims)
            more, gradient = {"axis": axis, "keepdims": keepdims}, (self._reducer, self._gradient)
            saved = self._kept(bound, more, out, handle_of(stream), gradient)
            return run(self._reducer, bound, axis, keepdims, out, stream), saved
        return run(self._reducer, bound, axis, keepdims, out, stream)

    @observable("call", ".__name__.backward")
    def backward(
        self,
        dy: Any,
        *arguments: Any,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        """Return the gradients of a loss with respect to array arguments: dy · after'(totals) · map'(arguments).

        For "max" and "min", all parts that are equal to the total share dy, as in `max_backward`.

        Args:
            dy: an array with the result's shape, or a tuple of such arrays if there are several results.
            arguments, axis, keepdims, options: the same as in the call. Or only the object that a call with
                return_saved=True saved; it holds the gradient for the globals and closures of that call.
            out: a tuple of arrays that receive the gradients, with None where the gradients have None.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Returns:
            a tuple with one gradient for each array argument, in its shape and dtype; None for integers and bool. If an
            argument was broadcast, its gradient is summed to its shape.

        Raises:
            UnsupportedError: no derivative is known, or merge is "prod" or a function.
            OptionError: another reduction returned the saved object, or an argument differs from it.
            The other errors are the same as in the call.
        """
        if arguments and type(arguments[0]) is Saved:
            saved = arguments[0]
            axis, keepdims = checked(axis, keepdims)
            more = {} if axis is None else {"axis": axis}
            more |= {"keepdims": True} if keepdims else {}
            bound, (reducer, gradient) = self._opened(saved, arguments[1:], options, more)
            axis, keepdims = saved.options["axis"], saved.options["keepdims"]
        else:
            bound = self._bound(arguments, options)
            reducer, gradient = self._reducer, self._gradient
        return run_gradient(reducer, gradient, opened(dy, reducer), bound, axis, keepdims, out, stream)

    def plan(
        self,
        *arguments: Any,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        out: Any = None,
        **options: Any,
    ) -> CustomReducePlan:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
        bound = self._bound(arguments, options)
        return find(self._reducer, bound, axis, keepdims, out)

    # ------------------------------------------------------------ the compiled functions

    def _written(self) -> Sequence[Callable[..., Any]]:
        reducer, (_, merge, after) = self._reducer, self._functions
        found = [self._map[0].scalar]
        found += [reducer.merge] if merge is not None else []
        return found + ([reducer.after.meaning.scalar] if after is not None else [])

    def _written_gradients(self) -> Sequence[Callable[..., Any]]:
        return self._gradient.written

    def inspect(
        self, *arguments: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False, **options: Any
    ) -> Inspection:
        """Return the code that a call with these arguments is compiled to, as `Kernel.inspect` does.

        Args:
            arguments, axis, keepdims, options: the arguments of a call. By default, rows of 4096 x 4096 float32
                numbers.

        Returns:
            an `Inspection`. If there are few results, it has two `kernels`; the second merges the results of the first
            one's blocks.

        Raises:
            The same errors as the call.
        """
        self._notice()
        reducer = self._reducer
        keys, addresses = self._inspected(reducer.row, arguments, options, _USUAL_SHAPE)
        if axis is None and not (arguments or options):
            axis = -1
        plan = planned(reducer, keys, axis, keepdims)
        return inspected(self.__name__, self._source(), plan, addresses)

    def benchmark(
        self,
        shape: int | Sequence[int],
        dtype: Any = "float32",
        *,
        axis: int | Sequence[int] | None = None,
        repeats: int = 30,
        **numbers: float,
    ) -> Benchmark:
        """Measure the speed of a call on a GPU, as `Kernel.benchmark` does, for arrays that are reduced along `axis`.

        NumPy checks all results, which takes some time.
        """
        options = {**self._options, **numbers}
        names = list(self._signature.parameters)
        call = partial(self, axis=axis)
        return benchmark(self.__name__, call, names, shape, dtype, repeats, options, is_local=False)


def _starting(start: Any, is_named: bool) -> tuple[float, ...]:
    """Return the option `start` in a unique form.

    Raises:
        OptionError: it is missing or not needed, or contains something other than real numbers.
    """
    if is_named:
        if start is not None:
            raise OptionError(f"start={shown(start)} is only for a merge function: leave it out if merge is a name")
        return ()
    found = start if isinstance(start, tuple) else (start,)
    for number in found:
        is_number = isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)
        if not is_number:
            raise OptionError(
                f"start={shown(start)} is not a number or a tuple of numbers; a merge function needs a start that "
                "changes nothing when it is merged"
            )
    return tuple(float(number) for number in found)
