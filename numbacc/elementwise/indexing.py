"""Indexing: `take` uses a list of indices for one axis, `take_along_axis` an array of indices.

Gradients add up elements of dy in the order of the indices, in float32 or float64, and round once. They use no atomics,
so that the same inputs give the same bits on every run. All of dx is written.
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
from ..plan.base import Result
from ..plan.saved import Saved
from ..plan.tasks import TaskPlan
from ..reference import indexing as reference
from ..runtime.streams import handle_of
from .calling import found, plans
from .planning import NumberedPlan, broadcast_strides, check_indices, outputs_of


def _flat(x: Any, stream: Any) -> Any:
    """Return x as one row."""
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
        raise ShapeError(
            f"x has rank {x.ndim} and indices has rank {rank}: the result has rank {len(shape)}, above {MAX_RANK}"
        )
    before, behind = (0,) * number, (0,) * (x.ndim - number - 1)
    own = (*x.strides[:number], *(0,) * rank, *x.strides[number + 1 :])
    return _plan(name, (x, indices), out, shape, number, (own, (*before, *indices.strides, *behind)))


def _along(name: str, axis: int, out: Layout | None, x: Layout, indices: Layout) -> NumberedPlan:
    number = _checked(x, indices, axis)
    if indices.ndim != x.ndim:
        raise ShapeError(f"indices has rank {indices.ndim} (shape {indices.shape}); x has rank {x.ndim}")
    # Only the other axes of x take part in broadcasting.
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
            f"indices has shape {indices.shape} and x {x.shape}: they do not broadcast apart from axis {number}"
        ) from None
    own, theirs = (broadcast_strides(each, shape) for each in (alone, indices))
    return _plan(name, (x, indices), out, shape, number, (own, theirs))


def _checked(x: Layout, indices: Layout, axis: int) -> int:
    """Check that the arrays fit together, and return the axis."""
    check_same_device(indices, "indices", x, "x")
    check_indices(indices, "indices")
    if info(x.dtype, "x").compute is None:
        raise DTypeError(
            f"x has dtype {x.dtype}, which does not support arithmetic: convert it with elementwise.astype"
        )
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


@calls.planned(plans, "NumberedPlan", "x indices", make=_take, note="If axis is None, it needs x of rank 1.")
def take(x: Any, indices: Any, *, axis: int | None = None, out: Any = None, stream: Any = None) -> Array:
    """Return elements of x along an axis, in the order of a list of indices, for example rows of a table.

    Args:
        x: array with any strides, of any dtype that supports arithmetic.
        indices: array of integers with any shape and strides. Negative indices count from the end.
        axis: the axis to index; None to view x as one row, which its strides must allow.
        out: array that receives the result. It has the result's shape and x's dtype and device. It must not share
            memory with x or the indices.

    Returns:
        an array with x's shape, where the shape of `indices` replaces the axis. It has up to 8 dimensions. Indices
        beyond the axis give NaN, or 0 if the dtype has no NaN. (`np.take` raises an error instead; a GPU cannot do so
        without synchronization.)

    Raises:
        DTypeError: the indices are not integers, or x is float8.
        ShapeError: the axis or the rank is wrong, the axis has no elements, or out has the wrong shape.
        LayoutError: out overlaps an argument, or is read-only.
        DeviceError: the arrays are on different devices.

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
    """Return elements along an axis, with separate indices for each row: y[i, j, k] = x[i, indices[i, j, k], k].

    Args:
        x: array with rank 1 to 8 and any strides, of any dtype that supports arithmetic.
        indices: array of integers with x's rank. It broadcasts with x along all other axes. Negative indices count from
            the end.
        axis: the axis to index.
        return_saved: whether to return a second object for `take_along_axis_backward(dy, saved)`. It holds x's shape,
            the indices and axis. Do not change the indices before that call.
        out: array that receives the result. It has the result's shape and x's dtype and device. It must not share
            memory with x or the indices.

    Returns:
        an array with the shape of `indices`, broadcast with x along the other axes. Indices beyond the axis give
        NaN, or 0 if the dtype has no NaN. With return_saved, (y, saved).

    Raises:
        DTypeError: the indices are not integers, or x is float8.
        ShapeError: the ranks differ, the shapes do not broadcast, the axis is wrong or has no elements, or out has the
            wrong shape.
        LayoutError: out overlaps an argument, or is read-only.
        DeviceError: the arrays are on different devices.
        OptionError: return_saved is invalid.

    Example:
        >>> x = np.array([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])
        >>> elementwise.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), axis=1)
        array([[5.],
               [6.]])
    """
    options = (checks.integer(axis, "axis"),)
    return found(_along, "take_along_axis", {"x": x, "indices": indices}, options, out, stream)


def everyday_blocks(matrix: Layout, indices: Layout, places: Layout) -> Iterator[NumberedPlan]:
    """Yield plans that take rows and columns of a matrix, and, with `places`, one element of each row."""
    yield from (_take("take", axis, None, matrix, indices) for axis in (0, 1))
    yield _along("take_along_axis", matrix.ndim - 1, None, matrix, places)


def planned(x: Layout, indices: Layout, axis: int) -> NumberedPlan:
    """Return a plan of `take_along_axis` for arrays that need not exist, without caching it."""
    return _along("take_along_axis", axis, None, x, indices)


# ---------------------------------------------------------------- gradients


@calls.planned(plans, "ScatterPlan", "dy indices", call="plan(dy, indices, out=None, stream=None)", short=False)
def take_backward(
    dy: Any,
    x: Any,
    indices: Any,
    *,
    axis: int | None = None,
    accumulate: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Return the gradient of take(x, indices) with respect to x, multiplied by dy.

    dx[i] is the sum of dy[j] over all j with indices[j] = i.

    Args:
        dy: array of float32, float64, float16 or bfloat16, with the shape of take's result and any strides.
        x: the array that was indexed, with dy's dtype; only its shape is used. Or its shape, a tuple.
        indices: array of integers with any shape and strides. Negative indices count from the end. Indices beyond the
            axis, for which `take` returned NaN, add nothing.
        axis: the same as in `take`; None if x was viewed as one row.
        accumulate: True adds the gradient to `out`. Where no index points, `out` is then neither read nor written.
        out: array that receives the result. It has x's shape and dy's dtype and device. If dy has 16 bits, it may also
            be float32. It must not share memory with dy or the indices.

    Returns:
        dx, with x's shape in C order, and 0 where no index points: a device array if dy is one, a NumPy array if dy is
        one; `out` if given.

    Raises:
        ShapeError: the axis, the rank, or the shape of dy or out is wrong; or the axis has no elements.
        DTypeError: a dtype is not named above, dtypes differ, or the indices are not integers.
        OptionError: accumulate or stream is invalid.
        LayoutError: out overlaps an argument, is read-only, or has elements that share memory.

    Rows of dy are added in their order, in float32 or float64, and rounded once. If there are more than 32 indices, a
    GPU sorts them first. This needs scratch memory (`take_backward.plan(...).info.workspace_bytes`): about 16 bytes for
    each index, 4 bytes for each element of the axis, and a 15th of dy's elements. The launches do not depend on the
    values of the indices, so that a captured graph can be launched again after the indices change.

    Example:
        >>> elementwise.take_backward(np.array([[1.0, 2.0], [3.0, 4.0]]), (3, 2), np.array([2, 2]), axis=0)
        array([[0., 0.],
               [0., 0.],
               [4., 6.]])
    """
    adds = checks.boolean(accumulate, "accumulate") and out is not None
    options = _shape_of(x, dy, stream), None if axis is None else checks.integer(axis, "axis"), adds
    return found(_take_gradient, "take_backward", {"dy": dy, "indices": indices}, options, out, stream)


@calls.planned(plans, "ScatterPlan", "dy indices", call="plan(dy, indices, out=None, stream=None)", short=False)
def take_along_axis_backward(
    dy: Any, x: Any, indices: Any = None, *, axis: int = -1, out: Any = None, stream: Any = None
) -> Array:
    """Return the gradient of take_along_axis(x, indices) with respect to x, multiplied by dy.

    dx[i, j, k] is the sum of dy[i, n, k] over all n with indices[i, n, k] = j.

    Args:
        dy: array of float32, float64, float16 or bfloat16, with the shape of the result and any strides.
        x: the object saved by `take_along_axis(..., return_saved=True)`. It holds x's shape, indices and axis. Or x
            itself, an array with dy's dtype (only its shape is used), or its shape, a tuple.
        indices: the same array as in `take_along_axis`, if no saved object is given. Indices beyond the axis add
            nothing.
        axis: the same as in `take_along_axis`, if no saved object is given. If you forget it, the gradient can be wrong
            and no error is raised.
        out: array that receives the result. It has x's shape and dy's dtype and device. It must not share memory with
            dy or the indices.

    Returns:
        dx, with x's shape in C order, and 0 where no index points: a device array if dy is one, a NumPy array if dy is
        one; `out` if given. If x was broadcast, dx is summed to its shape.

    Raises:
        ShapeError: the ranks differ, the shapes do not broadcast, the axis is wrong or has no elements, or dy or out
            has the wrong shape.
        DTypeError: a dtype is not named above, dtypes differ, or the indices are not integers.
        OptionError: an argument differs from the saved one.
        ArgumentsError: neither a saved object nor indices are given.

    If up to 32 indices can select an element of x, counting each repetition by broadcasting, each thread checks them
    all. Each element of dx then takes the time of that many reads, mostly from the cache. If there are more, all
    elements of dy are sorted by their positions in dx. This needs scratch memory: about 16 bytes for each element of dy
    and 4 for each element of x.

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


class ScatterPlan(TaskPlan[Result], ScatterExecutable):
    """A planned gradient of a `ScatterTask`. Call it with arrays that have the layouts it was made for."""

    def __init__(self, task: ScatterTask):
        super().__init__(task)
        self.adds = (task.adds,)


def everyday_blocks_gradients(matrix: Layout, tokens: Layout, places: Layout) -> Iterator[ScatterPlan]:
    """Yield plans that add rows to a table by tokens, and, with `places`, one element to each of its rows."""
    yield _take_gradient("take_backward", matrix.shape, 0, False, None, matrix, tokens)
    column = layout(places.shape, row_major_strides(places.shape, matrix.itemsize), matrix.dtype, matrix.device)
    yield _along_gradient("take_along_axis_backward", matrix.shape, 1, None, column, places)


def _shape_of(x: Any, dy: Any, stream: Any) -> tuple[int, ...]:
    """Return the shape of x, or x if it is a shape."""
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
    name: str, shape: tuple[int, ...], axis: int | None, adds: bool, out: Layout | None, dy: Layout, indices: Layout
) -> ScatterPlan:
    _check(dy, indices, shape)
    number = None if axis is None else normalize_axis(axis, len(shape), "x")
    # Without an axis, x is one row.
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
    return _plan_gradient(name, meaning, (dy, indices), out, shape, length, (listed, listed), adds)


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
            f"indices has shape {indices.shape} and x {shape}: they do not broadcast apart from axis {number}"
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
    # All indices that can select one element: along the axis, and along the axes where x was broadcast.
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
    """Return strides that are 1 along an axis and 0 along the others."""
    return tuple(int(d == axis) for d in range(len(shape)))


def _steps(array: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array that is broadcast to a shape."""
    return tuple(step // array.itemsize for step in broadcast_strides(array, shape))


def _check(dy: Layout, indices: Layout, shape: tuple[int, ...]) -> None:
    """Raise an error if an array has the wrong dtype for a gradient or for indices, or if a rank is too high."""
    check_same_device(indices, "indices", dy, "dy")
    check_indices(indices, "indices")
    if not info(dy.dtype, "dy").is_float:
        raise DTypeError(f"dy has dtype {dy.dtype}; it must be one of {', '.join(FLOATS)}")
    for name, rank in (("x", len(shape)), ("dy", dy.ndim)):
        if rank > MAX_RANK:
            raise ShapeError(f"{name} has rank {rank}; ranks up to {MAX_RANK} are supported")


def _check_shape(dy: Layout, wanted: tuple[int, ...], length: int) -> None:
    """Raise ShapeError unless dy has the shape of the result of indexing an axis with this length."""
    if dy.shape != wanted:
        raise ShapeError(f"dy has shape {dy.shape}; the result of the forward call has shape {wanted}")
    if not length and dy.size:
        raise ShapeError(f"dy has shape {dy.shape}; it must be empty, since x has no elements along the axis")


def _plan_gradient(
    name: str,
    meaning: Any,
    inputs: tuple[Layout, Layout],
    out: Layout | None,
    shape: tuple[int, ...],
    length: int,
    lists: tuple[Scatter, Scatter],
    adds: bool = False,
) -> ScatterPlan:
    dy, _ = inputs
    wide = dy.itemsize == 2 and out is not None and out.dtype == np.float32
    dtype = np.dtype(np.float32) if wide else dy.dtype
    result = layout(shape, row_major_strides(shape, dtype.itemsize), dtype, dy.device)
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
            adds=adds,
        )
    )
