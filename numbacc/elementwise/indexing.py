"""Elements that indices name: `take` of one axis by a list of indices, `take_along_axis` by an array of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.dtypes import info
from ..base.layout import MAX_RANK, Layout, check_same_device, layout, normalize_axis, row_major_strides, view
from ..errors import DTypeError, ShapeError
from ..kernels.elementwise.launch import MapTask
from ..kernels.elementwise.other_launches import gather_order
from ..plan import calls
from ..plan.saved import Saved
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
