"""Elements that indices name: `take` of one axis by a list of indices, `take_along_axis` by an array of them.

Gradients add up elements of dy in the order of the indices, in float32 or float64, and round once. They use no
atomics: the same inputs give the same bits on every run. All of dx is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.dtypes import FLOATS, info
from ..base.layout import (
    MAX_RANK,
    Layout,
    check_same_device,
    layout,
    lengths_of,
    normalize_axis,
    row_major_strides,
    view,
)
from ..errors import ArgumentsError, DTypeError, ShapeError
from ..kernels.elementwise.launch import MapTask
from ..kernels.elementwise.other_launches import gather_order
from ..kernels.gather_scatter.launch import Scatter, ScatterExecutable, ScatterTask
from ..plan import calls
from ..plan.saved import Saved
from ..plan.tasks import TaskPlan
from ..reference import indexing as reference
from ..runtime.streams import handle_of
from .calling import found, plans
from .planning import NumberedPlan, broadcast_strides, check_indices, outputs_of


def _flat(x: Any, stream: Any) -> Any:
    """x as one row."""
    return operands.as_input(x, "x", handle_of(stream)).reshape(-1)


def _keep(x: Any, indices: Any, axis: Any, out: Any, stream: Any) -> tuple[Array, Saved]:
    """Return y and the saved object of `take_along_axis` with these arguments."""
    y = take_along_axis(x, indices, axis=axis, out=out, stream=stream)
    shape = tuple(operands.as_input(x, "x", handle_of(stream)).shape)
    return y, Saved("elementwise.take_along_axis", {"indices": indices}, {"x_shape": shape, "axis": axis})


def _take(name: str, axis: int, out: Layout | None, x: Layout, indices: Layout) -> NumberedPlan:
    number = _checked(x, indices, axis)
    rank = indices.ndim
    shape = (*x.shape[:number], *indices.shape, *x.shape[number + 1 :])
    if len(shape) > MAX_RANK:
        raise ShapeError(f"x has rank {x.ndim} and indices {rank}: the result has {len(shape)}, of at most {MAX_RANK}")
    before, behind = (0,) * number, (0,) * (x.ndim - number - 1)
    own = (*x.strides[:number], *(0,) * rank, *x.strides[number + 1 :])
    return _plan(name, (x, indices), out, shape, number, (own, (*before, *indices.strides, *behind)))


def _along(name: str, axis: int, out: Layout | None, x: Layout, indices: Layout) -> NumberedPlan:
    number = _checked(x, indices, axis)
    if indices.ndim != x.ndim:
        raise ShapeError(f"indices has rank {indices.ndim} (shape {indices.shape}); x has rank {x.ndim}")
    # Along the axis x has no say.
    alone = layout(
        (*x.shape[:number], 1, *x.shape[number + 1 :]),
        (*x.strides[:number], 0, *x.strides[number + 1 :]),
        x.dtype,
        x.device,
    )
    try:
        shape = np.broadcast_shapes(alone.shape, indices.shape)
    except ValueError:
        raise ShapeError(
            f"indices has shape {indices.shape} and x {x.shape}: they do not broadcast beside axis {number}"
        ) from None
    own, theirs = (broadcast_strides(each, shape) for each in (alone, indices))
    return _plan(name, (x, indices), out, shape, number, (own, theirs))


def _checked(x: Layout, indices: Layout, axis: int) -> int:
    """The axis, once the arrays fit each other."""
    check_same_device(indices, "indices", x, "x")
    check_indices(indices, "indices")
    if info(x.dtype, "x").compute is None:
        raise DTypeError(f"x has dtype {x.dtype}, which is not computed with: elementwise.astype converts it")
    return normalize_axis(axis, x.ndim, "x")


def _plan(
    name: str,
    inputs: tuple[Layout, Layout],
    out: Layout | None,
    shape: tuple[int, ...],
    axis: int,
    steps: tuple[tuple[int, ...], ...],
) -> NumberedPlan:
    x, _ = inputs
    row, length = info(x.dtype), x.shape[axis]
    if not length and 0 not in shape:
        raise ShapeError(f"x has shape {x.shape}: axis {axis} has no elements to take")
    result = layout(shape, row_major_strides(shape, x.itemsize), x.dtype, x.device)
    outputs = outputs_of(result, out)
    other = math.nan if row.is_float or row.parts == 2 else 0
    compute = str(row.compute)
    return NumberedPlan(
        MapTask(
            op=f"elementwise.{name}",
            formula=None,
            reference=partial(getattr(reference, name), axis=axis),
            names=("x", "indices", "out"),
            inputs=inputs,
            outputs=outputs,
            shape=shape,
            reads=tuple(view(k, 0, step, shape) for k, step in enumerate(steps)),
            writes=(view(0, 0, outputs[0].strides, shape),),
            out_given=out is not None,
            is_whole=True,
            order=partial(gather_order, length, x.strides[axis] // x.itemsize),
            compute=compute,
            scalars=(compute,),
        ),
        (other,),
    )


@calls.planned(plans, "NumberedPlan", "x indices", make=_take, note="If axis is None, it takes x of rank 1.")
def take(x: Any, indices: Any, *, axis: int | None = None, out: Any = None, stream: Any = None) -> Array:
    """Elements of x along an axis, in the order in which a list of indices names them: rows of a table, say.

    Args:
        x: array of any dtype with arithmetic, any strides.
        indices: array of integers, any shape and strides. Negative ones count from the end.
        axis: the axis that they are indices of; None for x seen as one row, which its strides must allow.
        out: array for the result, of its shape, x's dtype and device; it shares no memory with them.

    Returns:
        an array of x's shape with that of `indices` in the place of the axis, up to 8 dimensions. Of indices beyond the
        axis NaN; 0 where the dtype has none. (NumPy raises there; a GPU cannot without being waited for.)

    Raises:
        DTypeError: indices are no integers; float8. ShapeError: axis, rank, an axis without elements, shape of out.
        LayoutError: out overlaps an argument, or is read-only. DeviceError: several devices.

    Example:
        >>> elementwise.take(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 1, 0]), axis=0)
        array([[3., 4.],
               [3., 4.],
               [1., 2.]])
    """
    axis, x = (0, _flat(x, stream)) if axis is None else (checks.integer(axis, "axis"), x)
    return found(_take, "take", {"x": x, "indices": indices}, (axis,), out, stream)


@calls.planned(plans, "NumberedPlan", "x indices", make=_along, keep=_keep)
def take_along_axis(
    x: Any, indices: Any, *, axis: int = -1, return_saved: bool = False, out: Any = None, stream: Any = None
) -> Array:
    """y[i, j, k] = x[i, indices[i, j, k], k]: elements along an axis, other ones at every place.

    Args:
        x: array of any dtype with arithmetic, rank 1 to 8, any strides.
        indices: array of integers of x's rank. Along all other axes both broadcast. Negative ones count from the end.
        axis: the axis that they are indices of.
        return_saved: whether to return a second object, which carries x's shape, the indices and axis to
            `take_along_axis_backward(dy, saved)`. The indices must not change until then.
        out, stream: as in `take`.

    Returns:
        an array of the shape of `indices`, broadcast with x's along the other axes. Of indices beyond the axis as
        `take`. With return_saved, (y, saved).

    Raises:
        as `take`; ShapeError: another rank, what does not broadcast. OptionError: return_saved.

    Example:
        >>> x = np.array([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])
        >>> elementwise.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), axis=1)
        array([[5.],
               [6.]])
    """
    options = (checks.integer(axis, "axis"),)
    return found(_along, "take_along_axis", {"x": x, "indices": indices}, options, out, stream)


def everyday_blocks(matrix: Layout, indices: Layout, places: Layout) -> Iterator[NumberedPlan]:
    """Plans of calls that take rows of a matrix, its columns, and by `places` an element of each of its rows."""
    yield from (_take("take", axis, None, matrix, indices) for axis in (0, 1))
    yield _along("take_along_axis", matrix.ndim - 1, None, matrix, places)


def planned(x: Layout, indices: Layout, axis: int) -> NumberedPlan:
    """The plan of `take_along_axis` of arrays that need not exist, in no cache."""
    return _along("take_along_axis", axis, None, x, indices)


# ---------------------------------------------------------------- gradients


@calls.planned(plans, "ScatterPlan", "dy indices", call="plan(dy, indices, out=None, stream=None)", short=False)
def take_backward(
    dy: Any, x: Any, indices: Any, *, axis: int | None = None, out: Any = None, stream: Any = None
) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = take(x, indices): dx[i] = Σ dy[j] of all j
    with indices[j] = i.

    Args:
        dy: array of float32, float64, float16 or bfloat16, of y's shape, any strides.
        x: the array that was taken from, of dy's dtype, of which only the shape counts; or its shape, a tuple.
        indices: array of integers, any shape and strides. Negative ones count from the end; those beyond it, of which
            `take` made NaN, add nothing.
        axis: that of the forward call; None where x was seen as one row.
        out: array for the result, of x's shape, dy's dtype and device; it shares no memory with dy or the indices.

    Returns:
        the gradient, of x's shape in C order, 0 where no index points; a device array if dy is one, a NumPy array if dy
        is; `out` if given.

    Raises:
        ShapeError: axis, rank, dy's shape, an axis without elements, shape of out.
        DTypeError: a dtype not named above, unequal dtypes, indices that are no integers.
        OptionError: stream.
        LayoutError: out overlaps an argument, is read-only, or has elements that share memory.

    Rows of dy are added up in their order, in float32 or float64, and rounded once. On a GPU the list of more than 32
    indices is sorted first, with scratch memory of some 16 bytes an index, 4 for each element of the axis, and a 64th
    of dy's numbers: `take_backward.plan(...).info.workspace_bytes`. Nothing depends on what the indices are, so that a
    graph may be launched again after they have changed.

    Example:
        >>> elementwise.take_backward(np.array([[1.0, 2.0], [3.0, 4.0]]), (3, 2), np.array([2, 2]), axis=0)
        array([[0., 0.],
               [0., 0.],
               [4., 6.]])
    """
    options = _shape_of(x, dy, stream), None if axis is None else checks.integer(axis, "axis")
    return found(_take_gradient, "take_backward", {"dy": dy, "indices": indices}, options, out, stream)


@calls.planned(plans, "ScatterPlan", "dy indices", call="plan(dy, indices, out=None, stream=None)", short=False)
def take_along_axis_backward(
    dy: Any, x: Any, indices: Any = None, *, axis: int = -1, out: Any = None, stream: Any = None
) -> Array:
    """The gradient with respect to x, given dy, that with respect to y = take_along_axis(x, indices):
    dx[i, j, k] = Σ dy[i, n, k] of all n with indices[i, n, k] = j.

    Args:
        dy: array of float32, float64, float16 or bfloat16, of y's shape, any strides.
        x: the saved object of `take_along_axis(..., return_saved=True)`, as in `take_along_axis_backward(dy, saved)`.
            It holds x's shape, indices and axis. Or x itself, an array of dy's dtype (only its shape is used), or
            its shape, a tuple; with
        indices: array of integers of x's rank, as in the forward call. Those beyond the axis add nothing.
        axis: that of the forward call. If it is forgotten, the gradient can be wrong and nothing reports it.
        out, stream: as in `take_backward`.

    Returns:
        the gradient, as `take_backward` returns it; where x was repeated by broadcasting the sum of all repetitions.

    Raises:
        as `take_backward`; ShapeError: another rank, what does not broadcast. OptionError: an argument that differs
        from the saved one. ArgumentsError: neither a saved object nor indices.

    Of up to 32 indices for an element of x, one for each repetition, each thread looks through them all: the time of
    as many reads, mostly from the cache, for each element of dx. Of more, all of dy's elements are sorted by where they
    belong, with scratch memory of some 16 bytes for each of them, and 4 for each of x's.

    Example:
        >>> x, indices = np.ones((2, 3)), np.array([[0, 0], [2, 1]])
        >>> y, saved = elementwise.take_along_axis(x, indices, axis=1, return_saved=True)
        >>> elementwise.take_along_axis_backward(np.array([[1.0, 2.0], [3.0, 4.0]]), saved)
        array([[3., 0., 0.],
               [0., 4., 3.]])
    """
    if isinstance(x, Saved):
        given, defaults = {"indices": indices, "axis": axis}, {"indices": None, "axis": -1}
        indices, x, axis = x.opened("elementwise.take_along_axis", given, defaults)
    if indices is None:
        raise ArgumentsError(
            "indices is missing: call take_along_axis_backward(dy, saved), with saved from take_along_axis(..., "
            "return_saved=True); or give x, indices and axis as to take_along_axis"
        )
    options = _shape_of(x, dy, stream), checks.integer(axis, "axis")
    return found(_along_gradient, "take_along_axis_backward", {"dy": dy, "indices": indices}, options, out, stream)


class ScatterPlan(TaskPlan, ScatterExecutable):
    """A planned gradient, of a `ScatterTask`. Call it with arrays laid out as those it was made for."""


def everyday_blocks_gradients(matrix: Layout, tokens: Layout, places: Layout) -> Iterator[ScatterPlan]:
    """Plans of calls that bring rows back to a table by tokens, and by `places` an element to each of its rows."""
    yield _take_gradient("take_backward", matrix.shape, 0, None, matrix, tokens)
    column = layout(places.shape, row_major_strides(places.shape, matrix.itemsize), matrix.dtype, matrix.device)
    yield _along_gradient("take_along_axis_backward", matrix.shape, 1, None, column, places)


def _shape_of(x: Any, dy: Any, stream: Any) -> tuple[int, ...]:
    """The shape that x has, or is."""
    handle = handle_of(stream)
    given = operands.layout_of(operands.as_input(dy, "dy", handle))
    if isinstance(x, (tuple, list)):
        return lengths_of(x, given.itemsize, "x")
    own = operands.layout_of(operands.as_input(x, "x", handle))
    check_same_device(own, "x", given, "dy")
    if own.dtype != given.dtype:
        raise DTypeError(f"dy has dtype {given.dtype} but x has {own.dtype}; convert one of them")
    return own.shape


def _take_gradient(
    name: str, shape: tuple[int, ...], axis: int | None, out: Layout | None, dy: Layout, indices: Layout
) -> ScatterPlan:
    _check(dy, indices, shape)
    number = None if axis is None else normalize_axis(axis, len(shape), "x")
    # Where there is no axis x is one row.
    seen, at = ((math.prod(shape),), 0) if number is None else (shape, number)
    last, length = at + indices.ndim, seen[at]
    _check_shape(dy, (*seen[:at], *indices.shape, *seen[at + 1 :]), length)
    steps, none = _steps(dy, dy.shape), (0,) * len(shape)
    if number is None:
        own, numbers = none, row_major_strides(shape, 1)
    else:
        own, numbers = (*steps[:at], 0, *steps[last:]), _only(number, shape)
    listed = Scatter(
        listed=indices.shape,
        dy=steps[at:last],
        indices=_steps(indices, indices.shape),
        keys=(0,) * indices.ndim,
        apart=1,
        numbers=length,
        beside=(own, none, numbers),
    )
    meaning = partial(reference.take_backward, shape=shape, axis=number)
    return _plan_gradient(name, meaning, (dy, indices), out, shape, length, (listed, listed))


def _along_gradient(
    name: str, shape: tuple[int, ...], axis: int, out: Layout | None, dy: Layout, indices: Layout
) -> ScatterPlan:
    _check(dy, indices, shape)
    number, rank = normalize_axis(axis, len(shape), "x"), len(shape)
    if indices.ndim != rank:
        raise ShapeError(f"indices has rank {indices.ndim} (shape {indices.shape}); x has rank {rank}")
    alone = tuple(1 if d == number else n for d, n in enumerate(shape))
    try:
        whole = np.broadcast_shapes(alone, indices.shape)
    except ValueError:
        raise ShapeError(
            f"indices has shape {indices.shape} and x {shape}: they do not broadcast beside axis {number}"
        ) from None
    _check_shape(dy, whole, shape[number])
    steps, places = _steps(dy, whole), _steps(indices, whole)
    order, none = row_major_strides(shape, 1), (0,) * rank
    every = Scatter(
        listed=whole,
        dy=steps,
        indices=places,
        keys=tuple(0 if n == 1 else step for n, step in zip(alone, order, strict=True)),
        apart=order[number],
        numbers=math.prod(shape),
        beside=(none, none, order),
    )
    # What could belong to one element: all along the axis, and wherever x was repeated.
    summed = [d for d, n in enumerate(alone) if n == 1]
    own, theirs = (tuple(0 if d in summed else n for d, n in enumerate(each)) for each in (steps, places))
    line = every._replace(
        listed=tuple(whole[d] for d in summed),
        dy=tuple(steps[d] for d in summed),
        indices=tuple(places[d] for d in summed),
        keys=(0,) * len(summed),
        apart=1,
        numbers=shape[number],
        beside=(own, theirs, _only(number, shape)),
    )
    meaning = partial(reference.take_along_axis_backward, shape=shape, axis=number)
    return _plan_gradient(name, meaning, (dy, indices), out, shape, shape[number], (line, every))


def _only(axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The steps of the number along an axis."""
    return tuple(int(d == axis) for d in range(len(shape)))


def _steps(array: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides in elements of an array that is read as one of a shape."""
    return tuple(step // array.itemsize for step in broadcast_strides(array, shape))


def _check(dy: Layout, indices: Layout, shape: tuple[int, ...]) -> None:
    """Raise the fitting error of arrays that are no gradient and no indices, or of a rank that is too high."""
    check_same_device(indices, "indices", dy, "dy")
    check_indices(indices, "indices")
    if not info(dy.dtype, "dy").is_float:
        raise DTypeError(f"dy has dtype {dy.dtype}; it must be one of {', '.join(FLOATS)}")
    for name, rank in (("x", len(shape)), ("dy", dy.ndim)):
        if rank > MAX_RANK:
            raise ShapeError(f"{name} has rank {rank}; ranks up to {MAX_RANK} are supported")


def _check_shape(dy: Layout, wanted: tuple[int, ...], length: int) -> None:
    """Raise ShapeError unless dy is of the shape of what was taken, of an axis of that length."""
    if dy.shape != wanted:
        raise ShapeError(f"dy has shape {dy.shape}; what was taken has shape {wanted}")
    if not length and dy.size:
        raise ShapeError(f"x has an axis without elements, of which dy of shape {dy.shape} cannot have been taken")


def _plan_gradient(
    name: str,
    meaning: Any,
    inputs: tuple[Layout, Layout],
    out: Layout | None,
    shape: tuple[int, ...],
    length: int,
    lists: tuple[Scatter, Scatter],
) -> ScatterPlan:
    dy, _ = inputs
    result = layout(shape, row_major_strides(shape, dy.itemsize), dy.dtype, dy.device)
    compute = str(info(dy.dtype).compute)
    line, whole = lists
    return ScatterPlan(
        ScatterTask(
            op=f"elementwise.{name}",
            reference=partial(meaning, compute=compute),
            names=("dy", "indices", "out"),
            inputs=inputs,
            outputs=outputs_of(result, out),
            out_given=out is not None,
            compute=compute,
            length=length,
            line=line,
            whole=whole,
        )
    )
