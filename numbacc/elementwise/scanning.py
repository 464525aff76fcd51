"""How a call of a scan becomes a plan: dtypes, axes, the result's shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
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
from ..kernels.scan.functions import SCANS
from ..kernels.scan.launch import ScanTask
from ..plan.base import check_out
from ..plan.saved import Saved
from ..plan.scans import ProductGradientPlan, ScanPlan
from ..reference.scans import FUNCTIONS, cumprod_backward
from ..runtime.streams import handle_of
from .caching import plans
from .calling import OfOneArray, one_out
from .reduction_plan import types_of

_BACKWARD = "_backward"


def run(name: str, x: Any, axis: Any, dtype: Any, reverse: Any, out: Any, stream: Any) -> Array:
    """The result of a scan.

    Args:
        name: a key of `reference.scans.FUNCTIONS`, or of a gradient.
        x, axis, reverse, out, stream: as the function's docstring says.
        dtype: `reduction_plan.dtype_of` what it says of that.
    """
    is_usual = type(reverse) is bool and (axis is None or type(axis) is int)
    return _CALLS.run(name, x, (axis, dtype, reverse), is_usual, out, stream)


def find(name: str, x: Any, axis: Any, dtype: Any, reverse: Any, out: Any) -> ScanPlan:
    """The plan that `run` runs."""
    return _CALLS.find(name, x, (axis, dtype, reverse), out)


def _name(name: str) -> str:
    """What a function calls its array."""
    return "dy" if name.endswith(_BACKWARD) else "x"


def _checked(name: str, x: Layout, axis: Any, dtype: Any, reverse: Any) -> tuple[Any, ...]:
    """The options, each in one form."""
    where = None if axis is None and not name.endswith(_BACKWARD) else _axis(axis, x, _name(name))
    return where, dtype, _is_reversed(reverse)


def _axis(axis: Any, array: Layout, own: str) -> int:
    """The option `axis` in one form: 1.0 and True would be found in the cache under 1."""
    if type(axis) is int:
        return axis
    if isinstance(axis, (bool, np.bool_)):
        raise ShapeError(f"axis={shown(axis)} is not an integer")
    return normalize_axis(axis, array.ndim, own)


def _is_reversed(value: Any) -> bool:
    """The option `reverse` in one form."""
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
    """Return axis, x's dtype, reverse and x's shape of a call of `cumsum`, given the options of its gradient."""
    if not isinstance(saved, Saved):
        raise DTypeError(f"saved is a {type(saved).__name__}; pass what cumsum(..., return_saved=True) returned")
    given = {"axis": axis, "dtype": None if dtype is None else info(dtype).name, "reverse": reverse}
    saved.check("elementwise.cumsum", given, {"axis": None, "dtype": None, "reverse": False})
    kept = saved.options
    row = TABLE[kept["dtype"]]
    if not (row.is_float or row.parts == 2):
        raise DTypeError(
            f"x has dtype {row.name}; cumsum_backward takes floats and complex numbers: elementwise.astype converts"
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


def run_gradient(dy: Any, x: Any, axis: Any, reverse: Any, out: Any, stream: Any) -> Array:
    """The result of `cumprod_backward`: arguments as its docstring says."""
    handle = handle_of(stream)
    plan, inputs, outs = _find_gradient(dy, x, axis, reverse, out, handle)
    return plan.run(inputs, outs, out, handle)


def find_gradient(dy: Any, x: Any, axis: Any, reverse: Any, out: Any) -> ProductGradientPlan:
    """The plan that `run_gradient` runs."""
    plan, inputs, outs = _find_gradient(dy, x, axis, reverse, out, handle_of(None))
    plan.prepare(inputs, outs)
    return plan


def _find_gradient(
    dy: Any, x: Any, axis: Any, reverse: Any, out: Any, handle: int
) -> tuple[ProductGradientPlan, list[Any], list[Any] | None]:
    inputs = [operands.as_input(array, own, handle) for array, own in ((dy, "dy"), (x, "x"))]
    layouts = [operands.layout_of(array) for array in inputs]
    outs = one_out(out, "cumprod_backward", handle)
    own = None if outs is None else operands.layout_of(outs[0])
    found = _axis(axis, layouts[1], "x")
    return plans.find((_gradient, *layouts, found, _is_reversed(reverse), own)), inputs, outs


def _gradient(dy: Layout, x: Layout, axis: int, reverse: bool, out: Layout | None) -> ProductGradientPlan:
    """As `_plan`, of the gradient of products."""
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
        op="elementwise.cumprod_backward",
        formula=SCANS["cumprod_before"],
        reference=lambda dy, x: cumprod_backward(dy, x, axis, compute, reverse),
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
    second = first._replace(
        formula=SCANS["cumprod_backward"],
        names=("dy", "x", "before", "out"),
        inputs=(dy, x, before),
        outputs=outputs,
        reads=(views[1], views[0], views[2]),
        writes=(views[3]._replace(argument=0),),
        reverse=not reverse,
    )
    return ProductGradientPlan(first, second)


def _plan(name: str, x: Layout, axis: int | None, asked: Any, reverse: bool, out: Layout | None) -> ScanPlan:
    """Validation, and how the operands lie. Everything here depends on layouts and options alone."""
    own, backward = _name(name), name.endswith(_BACKWARD)
    if x.ndim > MAX_RANK:
        raise ShapeError(f"{own} has rank {x.ndim} (shape {x.shape}); ranks 0 to {MAX_RANK} are supported")
    row = info(x.dtype, own)
    if backward and not (row.is_float or row.parts == 2):
        raise DTypeError(f"{own} has dtype {row.name}; gradients are floats of 16 bits and more, or complex")
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
    function = FUNCTIONS[name.removesuffix(_BACKWARD)]
    # What a sum up to an element is given goes to all that are in it.
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


_CALLS = OfOneArray(_plan, _checked, _name)


def planned(name: str, x: Layout, axis: int | None, *, reverse: bool = False, dtype: Any = None) -> ScanPlan:
    """A plan for an array that need not exist, in no cache."""
    return _plan(name, x, axis, dtype, reverse, None)


def planned_gradient(x: Layout, axis: int) -> ProductGradientPlan:
    """The same of the gradient of products, of arrays alike."""
    return _gradient(x, x, axis, False, None)
