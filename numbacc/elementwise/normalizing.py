"""How a call of softmax or of a normalization becomes a plan: checks, how weights are repeated, the formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from ..arrays import operands
from ..base import checks, dtypes
from ..base.dtypes import FLOATS, info
from ..base.layout import (
    Layout,
    View,
    check_rank,
    check_same_device,
    dense_like,
    layout,
    normalize_axis,
    row_major_strides,
    same_layout,
    view,
)
from ..errors import DTypeError, OptionError, ShapeError, shown
from ..kernels.reduce.launch import ReduceTask
from ..kernels.rows.launch import RowTask
from ..kernels.rows.norms import unit_of
from ..kernels.rows.softmax import GRADIENTS, ROW_FORMULAS, SUMS
from ..plan.base import Plan, check_out, outs_of
from ..plan.rows import GradientPlan, RowPlan
from ..reference import normalization as reference
from ..runtime.streams import handle_of
from .caching import plans

#: Function -> the names of its arrays, those that are not needed last.
_NAMES = {
    "softmax": ("x",),
    "log_softmax": ("x",),
    "softmax_backward": ("dy", "y"),
    "log_softmax_backward": ("dy", "y"),
    "rms_norm": ("x", "weight"),
    "layer_norm": ("x", "weight", "bias"),
    "rms_norm_backward": ("dy", "x", "weight"),
    "layer_norm_backward": ("dy", "x", "weight"),
}
_layout = attrgetter("_numbacc_layout")


def run(
    name: str,
    arrays: tuple[Any, ...],
    out: Any,
    stream: Any,
    axis: Any = -1,
    eps: float | None = None,
    bias: Any = False,
) -> Any:
    """The results of a function.

    Args:
        name: a key of `_NAMES`.
        arrays: as the names say, None for what there is not.
        out, stream, axis, bias: as the function's docstring says.
        eps: `eps_of` what it says of that.
    """
    handle = handle_of(stream)
    given = _present(name, arrays)
    # The short way, for device arrays; all else, and all that is wrong, is checked in `_find`.
    if type(axis) is int and type(bias) is bool:
        try:
            own = None if out is None else (_layout(out),)
            plan = plans.hit((_plan, name, tuple(map(_layout, given)), axis, eps, bias, own))
        except Exception:  # NumPy's arrays have no such layout, and of what is foreign an attribute may raise anything
            plan = None
        if plan is not None:
            return plan.run(given, None if out is None else (out,), out, handle)
    plan, inputs, outs = _find(name, given, out, handle, axis, eps, bias)
    return plan.run(inputs, outs, out, handle)


def find(
    name: str, arrays: tuple[Any, ...], out: Any, axis: Any = -1, eps: float | None = None, bias: Any = False
) -> Plan:
    """The plan that `run` runs."""
    plan, inputs, outs = _find(name, _present(name, arrays), out, handle_of(None), axis, eps, bias)
    plan.prepare(inputs, outs)
    return plan


def eps_of(value: Any) -> float:
    """The option `eps` in one form."""
    return checks.at_least_0(value, "eps")


def _present(name: str, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays that a call has."""
    # What is normalized must be there, and what is a gradient of it: that is checked where they are taken.
    needed = 2 if name.endswith("_backward") else 1
    given = tuple([array for k, array in enumerate(arrays) if array is not None or k < needed])
    if len(given) < len(arrays) and arrays[-1] is not None and given:
        missing = next(own for own, array in zip(_NAMES[name], arrays, strict=True) if array is None)
        raise OptionError(f"{missing} is None; {_NAMES[name][-1]} is given, and needs it")
    return given


def _find(
    name: str, arrays: Sequence[Any], out: Any, handle: int, axis: Any, eps: float | None, bias: Any
) -> tuple[Plan, list[Any], list[Any] | None]:
    inputs = [operands.as_input(array, own, handle) for array, own in zip(arrays, _NAMES[name], strict=False)]
    outs = outs_of(out, handle)
    if outs is not None and len(outs) > 1:
        inputs[:2] = [_apart(array, outs[0], handle) for array in inputs[:2]]
    layouts = tuple([operands.layout_of(array) for array in inputs])
    own = None if outs is None else tuple([operands.layout_of(array) for array in outs])
    if not isinstance(bias, (bool, np.bool_)):
        raise OptionError(f"bias={shown(bias)} is not True or False")
    if type(axis) is not int:  # 1.0 and True would be found in the cache under 1
        axis = normalize_axis(axis, max(layouts[-1].ndim, 1), _NAMES[name][-1])
    return plans.find((_plan, name, layouts, axis, eps, bool(bias), own)), inputs, outs


def _apart(array: Any, out: Any, handle: int) -> Any:
    """An array, copied if it is where dx is written: the gradients of weights are made of it after dx."""
    if isinstance(array, np.ndarray) != isinstance(out, np.ndarray):
        return array
    if not same_layout(operands.layout_of(array), operands.layout_of(out)):
        return array
    if isinstance(array, np.ndarray):
        return array.copy() if array.ctypes.data == out.ctypes.data else array
    return array.copy(stream=handle) if array._address == out._address else array


def _check(names: Sequence[str], inputs: Sequence[Layout], rows: int) -> Layout:
    """Raise the fitting error unless the arrays fit each other; what is normalized. The first `rows` have its shape."""
    x = inputs[rows - 1]
    for array, name in zip(inputs, names, strict=False):
        check_same_device(array, name, x, names[rows - 1])
        row = info(array.dtype, name)
        if not row.is_float:
            raise DTypeError(f"{name} has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    check_rank(x.shape, names[rows - 1])
    for array, name in zip(inputs[: rows - 1], names, strict=False):
        if array.shape != x.shape:
            raise ShapeError(f"{name} has shape {array.shape}; {names[rows - 1]} has shape {x.shape}")
        if array.dtype != x.dtype:
            raise DTypeError(f"{name} has dtype {array.dtype} but {names[rows - 1]} has {x.dtype}; convert one of them")
    for array, name in zip(inputs[rows:], names[rows:], strict=False):
        if array.shape != x.shape[-1:]:
            raise ShapeError(f"{name} has shape {array.shape}; {names[rows - 1]}'s rows have shape {x.shape[-1:]}")
        if array.dtype != inputs[rows].dtype:
            raise DTypeError(f"{name} has dtype {array.dtype} but weight has {inputs[rows].dtype}; convert one of them")
    return x


def _plan(
    name: str,
    inputs: tuple[Layout, ...],
    axis: int,
    eps: float | None,
    bias: bool,
    outs: tuple[Layout, ...] | None,
) -> Plan:
    """Validation, and how the operands lie. Everything here depends on layouts and options alone."""
    names, backward = _NAMES[name][: len(inputs)], name.endswith("_backward")
    rows = 2 if backward else 1
    x = _check(names, inputs, rows)
    axis = normalize_axis(axis, x.ndim, names[rows - 1])
    weights = inputs[rows:]
    if bias and not weights:
        raise OptionError("bias=True without a weight: pass one of ones")
    wanted = [dense_like(x, x.shape)]
    if backward:
        wanted += [dense_like(weight, weight.shape) for weight in weights] * (1 + bias)
    outputs = tuple(wanted) if outs is None else outs
    out_names = ("out",) if len(wanted) == 1 else tuple(f"out[{k}]" for k in range(len(wanted)))
    check_out(outputs, wanted, out_names)
    compute = str(info(x.dtype).compute)
    task = RowTask(
        op=f"elementwise.{name}",
        formula=ROW_FORMULAS[name + ("", "_w", "_wb")[len(weights)]],
        reference=_reference(name, axis, eps, bias),
        names=(*names, out_names[0]),
        inputs=inputs,
        outputs=outputs[:1],
        shape=x.shape,
        axis=axis,
        reads=(
            *(view(k, 0, inputs[k].strides, x.shape) for k in range(rows)),
            *(_repeated(rows + k, weight, x.shape) for k, weight in enumerate(weights)),
        ),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
        out_given=outs is not None,
        compute=compute,
        scalars=() if eps is None else (compute, compute),
        kept=rows,
    )
    scalars: tuple[int, ...] = ()
    if eps is not None:
        unit = unit_of(eps, compute)
        scalars = (*dtypes.words(eps * unit * unit, compute), *dtypes.words(unit, compute))
    if not (backward and weights):
        return RowPlan(task, scalars)
    return _gradient_plan(name.removesuffix("_backward"), task, outputs[1:], out_names[1:], scalars)


def _reference(name: str, axis: int, eps: float | None, bias: bool) -> Callable[..., Any]:
    function = getattr(reference, name)
    if eps is None:
        return partial(function, axis=axis)
    return partial(function, eps=eps, bias=bias) if name == "layer_norm_backward" else partial(function, eps=eps)


def _repeated(argument: int, weight: Layout, shape: tuple[int, ...]) -> View:
    """A weight as an array of x's shape: the same for all rows."""
    return view(argument, 0, (*(0,) * (len(shape) - 1), weight.strides[0]), shape)


def _gradient_plan(
    name: str, task: RowTask, outputs: tuple[Layout, ...], names: tuple[str, ...], scalars: Sequence[int]
) -> GradientPlan:
    """The plan of the gradients of x and of weights: sums over all rows, of what is known of each row."""
    # Of the results of all stages, those that say what x is normalized by.
    shape, count = task.shape, 1 if name == "rms_norm" else 4
    own = info(np.dtype(task.compute)).numpy
    stat = layout(shape[:-1], row_major_strides(shape[:-1], own.itemsize), own, task.inputs[0].device)
    steps = (*stat.strides, 0)
    reduction = ReduceTask(
        op=task.op,
        formula=GRADIENTS[name + "_bias" * (len(outputs) > 1)],
        reference=task.reference,
        names=names,
        inputs=(*task.inputs[:2], *[stat] * count),
        outputs=outputs,
        shape=shape,
        axes=tuple(range(len(shape) - 1)),
        reads=(*task.reads[:2], *(view(2 + k, 0, steps, shape) for k in range(count))),
        writes=tuple(view(k, 0, each.strides, shape[-1:]) for k, each in enumerate(outputs)),
        out_given=task.out_given,
        compute=task.compute,
    )
    task = task._replace(
        outputs=(*task.outputs, *[stat] * count),
        writes=(*task.writes, *(view(1 + k, 0, steps, shape) for k in range(count))),
        stats=count,
    )
    return GradientPlan(task, reduction, SUMS[name + "_bias" * (len(outputs) > 1)], scalars)


def planned(name: str, inputs: tuple[Layout, ...]) -> Plan:
    """A plan for arrays that need not exist, in no cache."""
    bias = name == "layer_norm_backward" and len(inputs) > 2
    return _plan(name, inputs, -1, None if "softmax" in name else 1e-5, bias, None)


def everyday(x: Layout, weight: Layout) -> Iterator[tuple[str, tuple[Layout, ...]]]:
    """Each function with the arrays that it is mostly called with."""
    for name, names in _NAMES.items():
        yield name, tuple(weight if own in ("weight", "bias") else x for own in names)
