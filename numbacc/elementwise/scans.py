"""Scans: for each element, the sum or product of all elements up to it, along an axis.

    f(x, *, axis=None, dtype=None, reverse=False, out=None, stream=None)

The order of merging depends only on shapes, strides and alignment: the same inputs give the same bits on every run.
Rows are processed in tiles of some hundred to some thousand elements, columns in tiles of 16 to some thousand. Each
tile is merged as a tree, and its total is carried to the next tile. Errors therefore grow with the number of tiles, not
of elements. If several blocks share a column, a thread merges 16 to some hundred elements in order, and a block merges
the results of its threads as a tree. The results of 16 blocks are merged as a tree, then 16 of these results again, and
so on. NaN and infinities affect later elements, but no earlier ones.

Sources: Blelloch 1990, "Prefix sums and their applications", for scans with associative merges; Merrill and Garland
2016, "Single-pass parallel prefix scan with decoupled look-back", for blocks that exchange their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base.docstrings import like
from ..base.dtypes import FLOATS, TABLE, info
from ..base.layout import (
    MAX_RANK,
    Layout,
    check_rank,
    check_same_device,
    dense_like,
    layout,
    normalize_axis,
    row_major_strides,
    view,
)
from ..base.views import is_contiguous
from ..errors import ArgumentsError, DTypeError, LayoutError, OptionError, ShapeError, shown
from ..kernels.scan.launch import ScanExecutable, ScanTask
from ..kernels.scan.spec import SCANS
from ..plan import calls
from ..plan.base import Result, check_out
from ..plan.saved import Saved
from ..plan.tasks import TaskPlan
from ..reference import scans as reference
from ..runtime.steps import Scratch, Step, Steps
from ..runtime.streams import handle_of
from . import calling
from .calling import plans
from .type_promotion import dtype_of, types_of

__all__ = [
    "cumprod",
    "cumprod_backward",
    "cumsum",
    "cumsum_backward",
]


class ScanPlan(TaskPlan[Result], ScanExecutable):
    """A planned scan of a `ScanTask`. Call it with arrays that have the layouts it was made for."""


class ProductGradientPlan(TaskPlan[Result]):
    """A planned gradient of cumulative products: a scan of x, then a scan of dy, x and the first result.

    Args:
        before: the first scan. Its output is in scratch memory.
        task: the second scan, of (dy, x, first result). Its reference uses dy and x.
    """

    def __init__(self, before: ScanTask, task: ScanTask):
        super().__init__(task.replace(names=(*task.names[:2], task.names[-1]), inputs=task.inputs[:2], is_whole=True))
        self._before, self._gradient = ScanExecutable(before), ScanExecutable(task)

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        # dy and x are read element by element, where the gradient is written.
        return self._in_place(i, j, source, target)

    def _shares(self, i: int, j: int) -> str:
        return self._gradient._shares(i, j)

    def _make(self, key: tuple[int, ...], trial: Any) -> Steps:
        return self._steps(key, lambda scan, alignment: scan.choose(alignment))

    def choose_captured(self, addresses: Sequence[int]) -> Any:
        """Do the same as `choose`, but compile nothing if there are kernels that can run on these arrays."""
        key = self._key(addresses)
        if not self.chosen.made or key in self.chosen.made:
            return self.choose(addresses)
        return self._steps(key, lambda scan, alignment: scan.choose_captured(alignment))

    def _steps(self, key: tuple[int, ...], choose: Callable[[ScanExecutable, tuple[int, ...]], Any]) -> Steps:
        dy, x, out = key
        scratch = Scratch()
        part = 3 + scratch.part(self._before.outputs[0].nbytes)
        steps = [
            Step(choose(self._before, (x, 0)), (1, part)),
            Step(choose(self._gradient, (dy, x, 0, out)), (0, 1, part, 2)),
        ]
        return Steps(steps, scratch, self.close, partial(self._fits, key))


_BACKWARD = "_backward"


def made(name: str, axis: int | None, asked: Any, reverse: bool, out: Layout | None, x: Layout) -> ScanPlan:
    """Validate a key and return its plan. Everything here depends only on layouts and options."""
    backward = name.endswith(_BACKWARD)
    own = "dy" if backward else "x"
    if x.ndim > MAX_RANK:
        raise ShapeError(f"{own} has rank {x.ndim} (shape {x.shape}); ranks 0 to {MAX_RANK} are supported")
    row = info(x.dtype, own)
    if backward and not (row.is_float or row.parts == 2):
        raise DTypeError(f"{own} has dtype {row.name}; it must be a float of 16 bits or more, or complex")
    dtype, compute = types_of(name, row, asked, own)
    if axis is None:
        axes = tuple(range(x.ndim))
        result = layout((x.size,), (dtype.itemsize,), dtype, x.device)
    else:
        axes = (normalize_axis(axis, x.ndim, own),)
        result = dense_like(layout(x.shape, x.strides, dtype, x.device), x.shape)
    outputs = (result if out is None else out,)
    check_out(outputs, (result,), ("out",))
    steps = outputs[0].strides
    if axis is None:
        steps = tuple(steps[0] * n for n in row_major_strides(x.shape, 1))
    function = reference.FUNCTIONS[name.removesuffix(_BACKWARD)]
    # The gradient of a sum of elements goes to all these elements, so it scans in the other direction.
    direction = reverse != backward
    return ScanPlan(
        ScanTask(
            op=f"elementwise.{name}",
            formula=SCANS[name.removesuffix(_BACKWARD)],
            reference=lambda seen: function(seen, axes, compute, direction),
            names=(own, "out"),
            inputs=(x,),
            outputs=outputs,
            shape=x.shape,
            axes=axes,
            reads=(view(0, 0, x.strides, x.shape),),
            writes=(view(0, 0, steps, x.shape),),
            out_given=out is not None,
            compute=compute,
            reverse=direction,
        )
    )


def made_gradient(
    name: str, axis: int, reverse: bool, out: Layout | None, dy: Layout, x: Layout
) -> ProductGradientPlan:
    """Return the plan of the gradient of products, like `made`."""
    check_same_device(dy, "dy", x, "x")
    row = info(x.dtype, "x")
    if not row.is_float:
        raise DTypeError(f"x has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    check_rank(x.shape, "x")
    if dy.shape != x.shape:
        raise ShapeError(f"dy has shape {dy.shape}; x has shape {x.shape}")
    if dy.dtype != x.dtype:
        raise DTypeError(f"dy has dtype {dy.dtype} but x has {x.dtype}; convert one of them")
    axis = normalize_axis(axis, x.ndim, "x")
    result, compute = dense_like(x, x.shape), str(row.compute)
    outputs = (result if out is None else out,)
    check_out(outputs, (result,), ("out",))
    before = dense_like(layout(x.shape, x.strides, info(np.dtype(compute)).numpy, x.device), x.shape)
    views = [view(k, 0, array.strides, x.shape) for k, array in enumerate((dy, x, before, outputs[0]))]
    first = ScanTask(
        op=f"elementwise.{name}",
        formula=SCANS["cumprod_before"],
        reference=lambda dy, x: reference.cumprod_backward(dy, x, axis, compute, reverse),
        names=("x", "before"),
        inputs=(x,),
        outputs=(before,),
        shape=x.shape,
        axes=(axis,),
        reads=(views[1]._replace(argument=0),),
        writes=(views[2]._replace(argument=0),),
        out_given=out is not None,
        compute=compute,
        reverse=reverse,
    )
    second = first.replace(
        formula=SCANS["cumprod_backward"],
        names=("dy", "x", "before", "out"),
        inputs=(dy, x, before),
        outputs=outputs,
        reads=(views[1], views[0], views[2]),
        writes=(views[3]._replace(argument=0),),
        reverse=not reverse,
    )
    return ProductGradientPlan(first, second)


def _found(name: str, x: Any, axis: Any, out: Any, stream: Any, dtype: Any, reverse: Any) -> Any:
    """Return the plan of a scan and its operands, for `plan.calls.planned`.

    Args:
        name: a key of `reference.scans.FUNCTIONS`, or the name of a gradient.
        x, axis, out, stream, reverse: the same as in the function's docstring.
        dtype: the result of `dtype_of` for the function's `dtype`.
    """
    own = "dy" if name.endswith(_BACKWARD) else "x"
    x = operands.as_input(x, own, handle_of(stream))
    where = None if axis is None else _axis(axis, operands.layout_of(x), own)
    return calling.found(made, name, {own: x}, (where, dtype, _is_reversed(reverse)), out, stream)


def _keep_cumsum(x: Any, axis: Any, dtype: Any, reverse: Any, out: Any, stream: Any) -> tuple[Array, Saved]:
    """Return y and the saved object of `cumsum` with these arguments."""
    # Read shape and dtype first; objects that have only DLPack show them after the import.
    x = operands.as_input(x, "x", handle_of(stream))
    options = {"axis": axis, "dtype": info(x.dtype, "x").name, "reverse": reverse, "x_shape": tuple(x.shape)}
    y = cumsum(x, axis=axis, dtype=dtype, reverse=reverse, out=out, stream=stream)
    return y, Saved("elementwise.cumsum", {}, options)


_FLAT = "If x was flattened, so are dy and the plan's result."


def _flattened(axis: Any, out: Any, shape: tuple[int, ...] | None, stream: Any) -> Any:
    """Return `out`, or its view in one dimension if the gradient is that of a flattened array with this shape."""
    return out if axis is not None or shape is None or out is None else flattened_out(out, shape, handle_of(stream))


def _in_shape(call: calls.PlannedCall, out: Any, shape: tuple[int, ...] | None) -> Array:
    """Run a plan. The result gets this shape unless it is None."""
    plan, inputs, outs, handle, _ = call
    dx = plan.run(inputs, outs, out, handle)
    return dx if out is not None or shape is None else dx.reshape(shape)


def _prepared(call: calls.PlannedCall, out: Any, shape: Any) -> Any:
    """Return the plan, ready to run."""
    plan, inputs, outs, _, _ = call
    plan.prepare(inputs, outs)
    return plan


@calls.planned(plans, "ScanPlan", "x", make=made, forms={"dtype": dtype_of}, keep=_keep_cumsum)
def cumsum(
    x: Any,
    *,
    axis: int | None = None,
    dtype: Any = None,
    reverse: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Return the cumulative sum: y[i] is the sum of x[j] over all j <= i, or over all j >= i with reverse=True.

    Args:
        x: array of floats (16 bits or wider), integers, complex numbers or bool, with rank 0 to 8 and any strides.
        axis: the axis along which elements are added; None for all elements in C order.
        dtype: the dtype of the result and of the arithmetic; 16-bit floats are computed in float32. By default, it is
            x's dtype; for bool and signed integers int64, for unsigned integers uint64.
        reverse: True to go from the last element to the first.
        return_saved: whether to return a second object for `cumsum_backward(dy, saved)`. It holds x's shape and dtype
            and the options.
        out: array that receives the result. It has the result's shape, dtype and device, and may be x itself (in
            place).

    Returns:
        the sums, with x's shape, or with shape (x.size,) for axis=None: a device array if x is one, a NumPy array if x
        is one; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: the rank, the axis or the shape of out is wrong.
        DTypeError: x is not an array, or has a dtype not named above.
        OptionError: reverse, return_saved or stream is invalid.

    Integers wrap around. 16-bit floats are added in float32 and rounded once. NumPy's `cumsum` computes the same.

    Example:
        >>> elementwise.cumsum(np.array([1.0, 2.0, 3.0]))
        array([1., 3., 6.])
    """
    return _found("cumsum", x, axis, out, stream, dtype_of(dtype), reverse)


@calls.planned(plans, "ScanPlan", "x", make=made, forms={"dtype": dtype_of}, keep="x axis reverse")
@like(cumsum)
def cumprod(
    x: Any,
    *,
    axis: int | None = None,
    dtype: Any = None,
    reverse: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Return the cumulative product: y[i] is the product of x[j] over all j <= i, or over all j >= i with reverse=True.

    Args:
        x: array of floats (16 bits or wider), integers, complex numbers or bool, with rank 0 to 8 and any strides.
        axis: the axis along which elements are multiplied; None for all elements in C order.

    Returns:
        the products, with x's shape, or with shape (x.size,) for axis=None: a device array if x is one, a NumPy array
        if x is one; `out` if given. With return_saved, (y, saved).

    Integers wrap around. 16-bit floats are multiplied in float32 and rounded once. NumPy's `cumprod` computes the same,
    with one exception: if the elements after a 0 overflow by themselves, their products with the 0 may be NaN.

    Example:
        >>> elementwise.cumprod(np.array([1.0, 2.0, 3.0]))
        array([1., 2., 6.])
    """
    return _found("cumprod", x, axis, out, stream, dtype_of(dtype), reverse)


@calls.planned(
    plans,
    "ScanPlan",
    "dy",
    make=made,
    defaults="saved",
    forms={"dtype": dtype_of},
    run=_in_shape,
    prepare=_prepared,
    note=_FLAT,
)
def cumsum_backward(
    dy: Any,
    saved: Any = None,
    *,
    axis: int | None = None,
    dtype: Any = None,
    reverse: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Return the gradient of cumsum(x) with respect to x, multiplied by dy: dx[i] is the sum of dy[j] over all j >= i.

    Args:
        dy: array of floats (16 bits or wider) or complex numbers, with rank 1 to 8 and any strides.
        saved: the object saved by `cumsum(..., return_saved=True)`. It holds axis, reverse, and x's shape and dtype. Or
            None.
        axis: the same as in `cumsum`, if no saved object is given. If it was None, x was flattened: pass 0 and reshape
            the result with `dx.reshape(x.shape)`.
        dtype: x's dtype, if it differs from dy's.
        reverse: the same as in `cumsum`. If you forget it, the gradient is wrong and no error is raised.
        out: array that receives the result. It has the result's shape, dtype and device, and may be dy itself (in
            place). If the saved object is from a call with axis=None, it must be C-contiguous.

    Returns:
        dx, with dy's shape, or with x's shape if `saved` is given; `out` if given.

    Raises:
        ArgumentsError: neither saved nor axis is given.
        ShapeError: the rank, the axis or the shape of out is wrong.
        DTypeError: dy is not an array, or has a dtype not named above; or the saved x has integers or bool.
        OptionError: an argument differs from the saved one, or reverse or stream is invalid.

    Example:
        >>> y, saved = elementwise.cumsum(np.ones(3), return_saved=True)
        >>> elementwise.cumsum_backward(np.array([1.0, 2.0, 3.0]), saved)
        array([6., 5., 3.])
    """
    dtype, shape = dtype_of(dtype), None
    if saved is not None:
        axis, dtype, reverse, shape = opened(saved, axis, dtype, reverse)
    elif axis is None:
        raise missing("cumsum")
    flat = _flattened(axis, out, shape, stream)
    call = _found("cumsum_backward", dy, 0 if axis is None else axis, flat, stream, dtype, reverse)
    return call, out, shape if axis is None else None


@calls.planned(plans, "ProductGradientPlan", "dy x", make=made_gradient, run=_in_shape, prepare=_prepared, note=_FLAT)
def cumprod_backward(
    dy: Any, x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, stream: Any = None
) -> Array:
    """Return the gradient of cumprod(x) with respect to x, multiplied by dy.

    dx[j] is the sum of dy[i] y[i] / x[j] over all i >= j. It is also correct where x is 0.

    Args:
        dy: array of float32, float64, float16 or bfloat16, with x's shape and dtype and any strides.
        x: the object saved by `cumprod(..., return_saved=True)`. It holds x, axis and reverse. Or x itself, an array
            with dy's dtype, rank 1 to 8 and any strides.
        axis: the same as in `cumprod`, if no saved object is given. If it was None, pass x.reshape(-1) and 0.
        reverse: the same as in `cumprod`. If you forget it, the gradient is wrong and no error is raised.
        out: array that receives the result. It has x's shape, dtype and device, and may be dy or x itself (in place).
            If the saved object is from a call with axis=None, it must be C-contiguous, and x is copied unless it is
            contiguous, too.

    Returns:
        dx, with x's shape: a device array if x is one, a NumPy array if x is one; `out` if given.

    Raises:
        ArgumentsError: neither a saved object nor axis is given.
        ShapeError: the rank or the axis is wrong, or shapes differ.
        DTypeError: an argument is not an array, has a dtype not named above, or dtypes differ.
        OptionError: an argument differs from the saved one, or reverse or stream is invalid.

    The product of the elements before x[j] is multiplied by dy[j] + x[j+1] (dy[j+1] + x[j+2] (dy[j+2] + ...)), without
    any division. If a product of some elements overflows by itself, results may be NaN.

    Example:
        >>> y, saved = elementwise.cumprod(np.array([2.0, 0.0, 3.0]), return_saved=True)
        >>> elementwise.cumprod_backward(np.ones(3), saved)
        array([1., 8., 0.])
    """
    shape = None
    if isinstance(x, Saved):
        given, defaults = {"axis": axis, "reverse": reverse}, {"axis": None, "reverse": False}
        x, axis, reverse = x.opened("elementwise.cumprod", given, defaults)
        if axis is None:
            x = operands.as_input(x, "x", handle_of(stream))
            x, shape = x.ravel(), tuple(x.shape)
    elif axis is None:
        raise missing("cumprod")
    handle, flat = handle_of(stream), _flattened(axis, out, shape, stream)
    x = operands.as_input(x, "x", handle)
    where = _axis(0 if axis is None else axis, operands.layout_of(x), "x")
    options = where, _is_reversed(reverse)
    return calling.found(made_gradient, "cumprod_backward", {"dy": dy, "x": x}, options, flat, stream), out, shape


def _axis(axis: Any, array: Layout, own: str) -> int:
    """Return the option `axis` in a unique form. Without this, the cache would find 1.0 and True under 1."""
    if type(axis) is int:
        return axis
    if isinstance(axis, (bool, np.bool_)):
        raise ShapeError(f"axis={shown(axis)} is not an integer")
    return normalize_axis(axis, array.ndim, own)


def _is_reversed(value: Any) -> bool:
    """Return the option `reverse` in a unique form."""
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"reverse={shown(value)} is not True or False")
    return bool(value)


def missing(name: str) -> ArgumentsError:
    """Return the error of a gradient that is given neither a saved object nor an axis."""
    return ArgumentsError(
        f"axis is missing: call {name}_backward(dy, saved), with saved from {name}(..., return_saved=True); or give "
        f"axis and reverse as to {name}"
    )


def opened(saved: Any, axis: Any, dtype: Any, reverse: Any) -> tuple[Any, np.dtype[Any], Any, tuple[int, ...]]:
    """Return axis, x's dtype, reverse and x's shape of a saved call of `cumsum`, given its gradient's options."""
    if not isinstance(saved, Saved):
        raise DTypeError(f"saved is a {type(saved).__name__}; pass what cumsum(..., return_saved=True) returned")
    given = {"axis": axis, "dtype": None if dtype is None else info(dtype).name, "reverse": reverse}
    saved.check("elementwise.cumsum", given, {"axis": None, "dtype": None, "reverse": False})
    kept = saved.options
    row = TABLE[kept["dtype"]]
    if not (row.is_float or row.parts == 2):
        raise DTypeError(
            f"x has dtype {row.name}; cumsum_backward needs floats or complex numbers: convert with elementwise.astype"
        )
    return kept["axis"], row.numpy, kept["reverse"], kept["x_shape"]


def flattened_out(out: Any, shape: tuple[int, ...], handle: int) -> Array:
    """Return a view of `out`, the gradient of a flattened array of this shape, in one dimension.

    Raises:
        ShapeError: it has another shape. LayoutError: it is not C-contiguous.
    """
    array = operands.as_array(out, "out", handle)
    if tuple(array.shape) != shape:
        raise ShapeError(f"out has shape {tuple(array.shape)}; x has shape {shape}")
    if not is_contiguous(operands.layout_of(array)):
        raise LayoutError("out is not C-contiguous; the gradient of a call with axis=None is written as one row")
    return array.reshape(-1)


def planned(name: str, x: Layout, axis: int | None, *, reverse: bool = False, dtype: Any = None) -> ScanPlan:
    """Return a plan for an array that need not exist, without caching it."""
    return made(name, axis, dtype, reverse, None, x)


def everyday_reductions(matrix: Layout) -> Iterator[ScanPlan]:
    """Yield plans of cumulative sums and products of rows, of columns, and of a vector."""
    flat = layout((matrix.size,), (matrix.itemsize,), matrix.dtype, matrix.device)
    for x, axis in ((matrix, 0), (matrix, 1), (flat, 0)):
        yield from (planned("cumsum", x, axis, reverse=reverse) for reverse in (False, True))
        yield planned("cumprod", x, axis)


def planned_gradient(x: Layout, axis: int) -> ProductGradientPlan:
    """Return a plan of the gradient of products, for arrays with x's layout that need not exist."""
    return made_gradient("cumprod_backward", axis, False, None, x, x)
