"""How a call of a reduction of one's own becomes a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..base.casts import cast
from ..base.dtypes import TABLE
from ..base.layout import Layout, layout, row_major_strides, view
from ..functions.formula import Reduction
from ..kernels.reduce.launch import FoldTask
from ..plan.base import outs_of
from ..plan.folds import FoldPlan
from ..runtime.streams import handle_of
from .caching import plans
from .planning import arrangement_of, broadcast_strides, check_given, kinds_of, out_names, resolved
from .reducing import axes_in, checked, result_of, written
from .rows import Arrangement, Meaning, Row, arranged
from .scalars import WithNumbers, sorted_out
from .signatures import meaning_of
from .type_promotion import Types

#: (parts, axes) -> the totals, of arrays.
Combine = Callable[[Sequence[Any], tuple[int, ...]], list[Any]]


class After(NamedTuple):
    """What follows a reduction.

    Attributes:
        meaning: of the totals, of the count if it `takes_count`, and of options: a tuple of results.
        takes_count: whether it is given how many elements there were.
        options: the numbers of the arguments that it is given.
        results: for each result "bool", or "" for what the map's dtypes say.
    """

    meaning: Meaning
    takes_count: bool
    options: tuple[int, ...]
    results: tuple[str, ...]


class Fold:
    """A reduction of one's own.

    Attributes:
        row: the map, of all arguments; its results are the parts.
        start: the parts of nothing.
        merge: (parts, other parts) -> their parts together, of numbers.
        combine: the same of arrays: (parts, axes) -> the totals, in float64.
        after: what follows.
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

    def ending(self, after: After) -> Fold:
        """The same with something else behind it."""
        return Fold(self.row, self.start, self.merge, self.combine, after)


def run(fold: Fold, arguments: tuple[Any, ...], axis: Any, keepdims: Any, out: Any, stream: Any) -> Any:
    """The results of a reduction.

    Args:
        fold: what it is.
        arguments: arrays and numbers, as the names of its row say.
        axis, keepdims, out, stream: as its docstring says.
    """
    handle = handle_of(stream)
    plan, arrays, outs, numbers = _find(fold, arguments, axis, keepdims, out, handle)
    return plan.run(arrays, outs, out, handle, plan.scalars(numbers))


def find(fold: Fold, arguments: tuple[Any, ...], axis: Any, keepdims: Any, out: Any) -> ReductionPlan:
    """The plan that `run` runs."""
    plan, arrays, outs, _ = _find(fold, arguments, axis, keepdims, out, handle_of(None))
    plan.prepare(arrays, outs)
    return plan


def planned(fold: Fold, given: tuple[Any, ...], axis: Any, keepdims: Any = False) -> ReductionPlan:
    """A plan of arrays (layouts) that need not exist and numbers (their types), in no cache."""
    return _plan(fold, given, *checked(axis, keepdims), None)


class ReductionPlan(WithNumbers, FoldPlan):
    """A planned reduction of one's own. Call it with arrays and numbers like those it was made for."""

    def __init__(self, row: Row, task: FoldTask, given: tuple[Any, ...], types: Types, arrangement: Arrangement):
        super().__init__(task)
        self._expect(row, kinds_of(given), types, arrangement)


def _find(
    fold: Fold, arguments: tuple[Any, ...], axis: Any, keepdims: Any, out: Any, handle: int
) -> tuple[ReductionPlan, list[Any], list[Any] | None, list[Any]]:
    """The plan of a call, its arrays, its results' arrays, its numbers."""
    keys, arrays, numbers = sorted_out(fold.row, arguments, handle)
    outs = outs_of(out, handle)
    own = None if outs is None else tuple(map(operands.layout_of, outs))
    return plans.find((_plan, fold, tuple(keys), *checked(axis, keepdims), own)), arrays, outs, numbers


def _plan(
    fold: Fold, given: tuple[Any, ...], axis: Any, keepdims: bool, outs: tuple[Layout, ...] | None
) -> ReductionPlan:
    """Validation, and how the operands lie. Everything here depends on layouts, types and options alone."""
    row = fold.row
    named, dtypes, types, shape = resolved(row, given)
    inputs = tuple(array for _, array in named)
    axes = axes_in(axis, len(shape), named[0][0] if len(named) == 1 else "the arrays")
    # In the memory order of the first array of the full shape.
    strides = next((array.strides for array in inputs if array.shape == shape), row_major_strides(shape, 1))
    seen = layout(shape, strides, inputs[0].dtype, inputs[0].device)
    names = [name or types.result for name in fold.after.results]
    results = [result_of(seen, axes, keepdims, TABLE[name].numpy) for name in names]
    outputs, called = tuple(results) if outs is None else outs, out_names(len(results))
    check_given(outputs, results, called)
    arrangement = arrangement_of(row, given, dtypes, types, tuple(range(len(fold.start))))
    task = FoldTask(
        op=f"elementwise.{row.name}",
        formula=_formula(fold, arrangement),
        reference=partial(_reference, fold, arrangement, axes),
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
    return ReductionPlan(row, task, given, types, arrangement)


# ---------------------------------------------------------------- what it computes


@lru_cache(maxsize=4096)
def _formula(fold: Fold, arrangement: Arrangement) -> Reduction:
    """The reduction as kernels have it: each of its functions is given all numbers, behind what it is of."""
    row, after, parts = fold.row, fold.after, len(fold.start)
    totals, numbers = [f"total{k}" for k in range(parts)], [f"x{k}" for k in arrangement.numbers]
    taken = [*totals, *["count"] * after.takes_count, *(f"x{k}" for k in after.options)]
    return Reduction(
        f"elementwise.{row.name}",
        arranged(row.meanings["f"].scalar, arrangement, ("",) * parts),
        start=fold.start,
        merge=fold.merge,
        finish=choosing(after.meaning.scalar, [*totals, "count", *numbers], taken),
    )


def choosing(function: Callable[..., Any], given: Sequence[str], taken: Sequence[str]) -> Callable[..., Any]:
    """A function of more numbers, `given` by name, that hands on those that are `taken`.

    Written as text, as the number of its parameters is not known here.
    """
    if list(given) == list(taken):
        return function
    space: dict[str, Any] = {"function": function}
    exec(f"def choosing({', '.join(given)}):\n    return function({', '.join(taken)})\n", space)
    chosen: Callable[..., Any] = space["choosing"]
    return chosen


@lru_cache(maxsize=64)
def unchanged(parts: int) -> After:
    """Totals that are the results."""
    names = ", ".join(f"total{k}" for k in range(parts))
    meaning, results = meaning_of(eval(f"lambda {names}: ({names},)"), "the totals")
    return After(meaning, False, (), tuple(results))


def _reference(fold: Fold, arrangement: Arrangement, axes: tuple[int, ...], *seen: Any) -> tuple[Any, ...]:
    """The same in NumPy: of what kernels compute with, in float64, rounded once."""
    row, after, compute = fold.row, fold.after, TABLE[arrangement.compute].numpy
    given: list[Any] = [None] * len(row.names)
    for k, value in zip((*arrangement.arrays, *arrangement.numbers), seen, strict=True):
        given[k] = cast(value, compute) if k in row.meeting else value
    totals = fold.combine(row.meanings["f"].numpy(*given), axes)
    count = prod(seen[0].shape[d] for d in axes)
    options = [given[k] for k in after.options]
    results: tuple[Any, ...] = after.meaning.numpy(*totals, *[count] * after.takes_count, *options)
    return results


def by_ufunc(function: np.ufunc, start: float) -> Combine:
    """A `Fold.combine` of one of NumPy's functions of two numbers."""

    def combine(parts: Sequence[Any], axes: tuple[int, ...]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [function.reduce(part, axis=axes, initial=start) for part in parts]

    return combine


def in_a_tree(merge: Callable[..., Sequence[Any]], start: tuple[float, ...]) -> Combine:
    """A `Fold.combine` of a function of arrays, by halves."""

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
