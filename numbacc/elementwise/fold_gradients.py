"""Gradients of reductions of one's own: dx = dy · after'(totals) · map'(x), by elementwise kernels.

Of largest and smallest parts only those that are equal to the total have a share in dy.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..arrays.creation import empty
from ..base.layout import argument_of
from ..errors import OptionError, ShapeError
from ..functions.symbolic.derive import backward
from ..functions.symbolic.vectorized import vectorized
from ..kernels.reduce.gradients import of_extreme
from ..runtime.streams import handle_of
from . import folding, reducing
from .folding import Fold, choosing, unchanged
from .gradients import run_backward
from .operation import run as run_map
from .planning import resolved
from .reducing import axes_in, checked
from .rows import NAMED, Meaning, Row
from .scalars import sorted_out


class Gradient(NamedTuple):
    """The gradient of a reduction of one's own.

    Attributes:
        extreme: "max" or "min" where parts are merged so; "" of sums.
        after: of (dy, totals, count, options) the gradients with respect to the totals; None where these are dy.
        totals: what computes these, in the dtype that is computed in; None where they are not needed.
        map: of (those, arguments) the gradients with respect to the arguments.
        written: its functions of numbers.
    """

    extreme: str
    after: Row | None
    totals: Fold | None
    map: Row
    written: tuple[Callable[..., Any], ...]


def gradient_of(
    fold: Fold, extreme: str, mapped: Callable[..., Any], after: Callable[..., Any] | None, taken: Sequence[int]
) -> Gradient:
    """The gradient of a fold that sums, or finds extremes.

    Args:
        fold, extreme: it, and as in `Gradient`.
        mapped, after: the functions that it was made of; None where nothing follows.
        taken: the numbers of the arguments that the former takes.

    Raises:
        NotDerived: something has no derivative.
    """
    row, parts = fold.row, len(fold.start)
    name, count = row.name, len(row.names) - row.options
    seeds = [f"dy{k}" for k in range(parts)]
    inner = backward(mapped, name, wanted=count, is_chosen=bool(extreme))
    given = [*seeds, *(f"x{k}" for k in range(len(row.names)))]
    scalar = choosing(inner, given, [*seeds, *(f"x{k}" for k in taken)])
    by = range(parts, parts + count)
    gradient = _row(name, scalar, [*("dy" for _ in seeds), *row.names], parts + count, by, row.options)
    if after is None:
        return Gradient(extreme, None, None, gradient, (inner,))
    results, own = len(fold.after.results), fold.after.options
    scalar = backward(after, f"{name}'s after", wanted=parts)
    used = {each.id for each in ast.walk(ast.parse(inspect.getsource(scalar))) if isinstance(each, ast.Name)}
    numbers = ["count"] * fold.after.takes_count + [row.names[k] for k in own]
    names = [*("dy" for _ in range(results)), *(f"total {k}" for k in range(parts)), *numbers]
    outer = _row(name, scalar, names, results + parts, [""] * parts, len(numbers))
    is_needed = not used.isdisjoint(f"x{k}" for k in range(parts))
    totals = fold.ending(unchanged(parts)) if is_needed else None
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
    """The row of what a reduction's gradient is: of dy, x, arrays of totals, and numbers, all by name."""
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


#: Of an extreme, and how many are equal to it.
EXTREME = slope_row("extreme", of_extreme, "extreme ties")


def run(
    fold: Fold,
    gradient: Gradient,
    dys: Sequence[Any],
    arguments: tuple[Any, ...],
    axis: Any,
    keepdims: Any,
    out: Any,
    stream: Any,
) -> Any:
    """The gradients of a call, given those with respect to its results."""
    handle, row = handle_of(stream), fold.row
    axis, keepdims = checked(axis, keepdims)
    keys, arrays, _ = sorted_out(row, arguments, handle)
    _, _, types, shape = resolved(row, tuple(keys))
    axes = axes_in(axis, len(shape), "the arrays")
    kept = tuple(1 if d in axes else n for d, n in enumerate(shape))
    seeds = seen(dys, shape, axes, keepdims, handle)
    device = operands.layout_of(arrays[0]).device
    where = argument_of(device)

    def memory(lengths: tuple[int, ...] = kept) -> tuple[Any, ...]:
        return tuple([empty(lengths, types.compute, device=where, stream=stream) for _ in fold.start])

    if gradient.after is not None:
        totals: Sequence[Any] = [0.0] * len(fold.start)
        if gradient.totals is not None:
            totals = folding.run(gradient.totals, arguments, axis, True, memory(), stream)
        count = [float(prod(shape[d] for d in axes))] * fold.after.takes_count
        options = [arguments[k] for k in fold.after.options]
        seeds = run_map(gradient.after, (*seeds, *totals, *count, *options), memory(), None, stream)
    slopes = [repeated(seed, shape) for seed in seeds]
    if gradient.extreme:
        # Computed anew, in another kernel, parts might be rounded otherwise, and none be equal to its total.
        parts = memory(shape)
        run_map(row, arguments, parts if len(parts) > 1 else parts[0], None, stream)
        for slope, part in zip(slopes if 0 not in shape else (), parts, strict=False):
            found = reducing.totals(f"{gradient.extreme}_ties", part, axes, None, stream)
            run_map(EXTREME, (slope, part, *found), part, None, stream)
        slopes = list(parts)
    return run_backward(gradient.map, (*slopes, *arguments), out, stream)


def seen(dys: Sequence[Any], shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, handle: int) -> list[Any]:
    """dy of each result with the axes that were reduced, of length 1."""
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
    """An array broadcast to a shape."""
    return np.broadcast_to(array, shape) if isinstance(array, np.ndarray) else array.broadcast_to(shape)


def opened(dy: Any, fold: Fold) -> tuple[Any, ...]:
    """dy of each result.

    Raises:
        OptionError: they are not as many.
    """
    dys, wanted = tuple(dy) if isinstance(dy, (tuple, list)) else (dy,), len(fold.after.results)
    if len(dys) != wanted:
        raise OptionError(f"dy is {len(dys)} arrays; {fold.row.name} has {wanted} results")
    return dys
