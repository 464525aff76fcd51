"""Arrays put together: `concatenate` and `stack`, by copies into parts of one array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base.dtypes import TABLE, info
from ..base.layout import (
    Layout,
    check_same_device,
    check_writable,
    layout,
    normalize_axis,
    overlap,
    row_major_strides,
)
from ..errors import DTypeError, LayoutError, ShapeError
from ..plan.calls import planned
from ..runtime.streams import handle_of
from .calling import plans
from .casting import planned_copy
from .planning import SeveralPlan, prepared, run_several
from .type_promotion import promoted


def _found(op: str, arrays: Any, axis: Any, out: Any, handle: int) -> Any:
    """(the plan, the arrays, out as an array or None, out, the stream)."""
    given = _listed(arrays)
    if not given:
        raise ShapeError("arrays is empty; pass one array or more")
    found = [operands.as_input(each, name, handle) for each, name in zip(given, _names(len(given)), strict=True)]
    target = None if out is None else operands.as_array(out, "out", handle)
    own = None if target is None else operands.layout_of(target)
    layouts = tuple(map(operands.layout_of, found))
    # In one form: 1.0 and True would be found in the cache under 1.
    is_ready = type(axis) is int or (axis is None and op == "concatenate")
    number = axis if is_ready else normalize_axis(axis, layouts[0].ndim + (op == "stack"), "the result")
    return plans.find((_made, op, layouts, number, own)), found, target, out, handle


@planned(plans, "JoinPlan", "arrays", short=False, run=run_several, prepare=prepared)
def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, out: Any = None, stream: Any = None) -> Array:
    """Arrays one behind the other along an axis that they have.

    Args:
        arrays: of one rank, 1 to 8, and of equal lengths along all other axes; of any strides, on one device. They meet
            in a dtype as in `add`.
        axis: where they follow each other. With None all elements do, in C order, of arrays of any ranks.
        out: array for the result, of its shape and device, and its dtype or a wider kind; it must not overlap them.

    Returns:
        a new array, C-contiguous; `out` if given.

    Raises:
        ShapeError: no arrays, unequal ranks or lengths, axis. DTypeError: what does not meet. DeviceError: several
        devices. LayoutError: out overlaps an array, or is read-only.

    Example:
        >>> elementwise.concatenate([np.array([1, 2]), np.array([3.5])])
        array([1. , 2. , 3.5])
    """
    return _found("concatenate", arrays, axis, out, handle_of(stream))


@planned(plans, "JoinPlan", "arrays", short=False, run=run_several, prepare=prepared)
def stack(arrays: Sequence[Any], axis: int = 0, *, out: Any = None, stream: Any = None) -> Array:
    """Arrays of one shape side by side along a new axis.

    Args:
        arrays: of one shape, of up to 7 dimensions; of any strides, on one device.
        axis: where the new axis is in the result.
        out, stream: as in `concatenate`.

    Returns, raises:
        as `concatenate`.

    Example:
        >>> elementwise.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
        array([[1, 3],
               [2, 4]])
    """
    return _found("stack", arrays, axis, out, handle_of(stream))


class JoinPlan(SeveralPlan):
    """A planned `concatenate` or `stack`: a copy of each array into its part of the result.

    Args:
        op: which of the two.
        inputs: the arrays' layouts.
        target: the result's layout.
        axis: along which the arrays lie in it; None where it has one, for the elements of all.
    """

    def __init__(self, op: str, inputs: tuple[Layout, ...], target: Layout, axis: int | None, out_given: bool):
        check_writable(target, "out")
        self._axis, self._is_flat = axis or 0, axis is None
        self._is_new = op == "stack"
        lengths = [each.size if axis is None else 1 if self._is_new else each.shape[axis] for each in inputs]
        self._ends = list(accumulate(lengths))
        kept = tuple(step for d, step in enumerate(target.strides) if d != axis or not self._is_new)
        copies = []
        for each in inputs:
            strides = row_major_strides(each.shape, kept[0]) if self._is_flat else kept
            copies.append(planned_copy(each, layout(each.shape, strides, target.dtype, target.device)))
        super().__init__(f"elementwise.{op}", _names(len(inputs)), inputs, (target,), copies, out_given)

    def prepare(self) -> None:
        """As `SeveralPlan.prepare`, of parts that start where they do in the result."""
        step = self.outputs[0].strides[self._axis]
        for plan, start in zip(self.plans, (0, *self._ends), strict=False):
            plan.ready((0, start * step))

    def __call__(self, arrays: Sequence[Any], *, out: Any = None, stream: Any = None) -> Array:
        """Run on arrays laid out as those that the plan was made for.

        Args:
            arrays: a list or tuple of them.
            out: where to write, if the plan was made with `out`.
            stream: as everywhere.

        Raises:
            LayoutError: an array is laid out otherwise, or overlaps out.
        """
        return self._call(_listed(arrays), out, stream)

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Array:
        """As `SeveralPlan.run`."""
        (made,) = self.outputs
        if out is None:
            target = operands.empty_host(made) if self.device < 0 else operands.empty_device(made, handle)
        else:
            target = out
            # Part by part it could be overwritten before it is read.
            for array, own, name in zip(arrays, self.inputs, self.names, strict=True):
                if overlap(_address(out), made, _address(array), own):
                    raise LayoutError(f"out overlaps {name}: pass memory that shares nothing with it")
        start = 0
        for plan, array, own, end in zip(self.plans, arrays, self.inputs, self._ends, strict=True):
            # A slice without its axis, where that is new: of rank 0, too, it is a view.
            part = target[(slice(None),) * self._axis + (slice(start, end),)]
            if self._is_flat:
                part = part.reshape(own.shape)
            elif self._is_new:
                part = part.reshape(()) if own.ndim == 0 else part[(slice(None),) * self._axis + (0,)]
            plan.run((array,), (part,), part, handle)
            start = end
        return target


def _listed(arrays: Any) -> Sequence[Any]:
    if not isinstance(arrays, (tuple, list)):
        raise DTypeError(f"arrays is a {type(arrays).__name__}; pass a list or tuple of arrays")
    return arrays


def _names(count: int) -> list[str]:
    return [f"arrays[{k}]" for k in range(count)]


def _made(op: str, inputs: tuple[Layout, ...], axis: int | None, out: Layout | None) -> JoinPlan:
    """Validation. Everything here depends on layouts alone."""
    names, first = _names(len(inputs)), inputs[0]
    for each, name in zip(inputs, names, strict=True):
        check_same_device(each, name, first, names[0])
    number: int | None
    shape: tuple[int, ...]
    if axis is None:
        number, shape = None, (sum(each.size for each in inputs),)
    elif op == "stack":
        for each, name in zip(inputs, names, strict=True):
            if each.shape != first.shape:
                raise ShapeError(f"{name} has shape {each.shape} and {names[0]} {first.shape}; they must be equal")
        number, length = normalize_axis(axis, first.ndim + 1, "the result"), len(inputs)
        shape = (*first.shape[:number], length, *first.shape[number:])
    else:
        if not first.ndim:
            raise ShapeError(f"{names[0]} has rank 0; concatenate takes arrays of rank 1 to 8: stack joins numbers")
        number = normalize_axis(axis, first.ndim, names[0])
        for each, name in zip(inputs, names, strict=True):
            beside = [shape[:number] + shape[number + 1 :] for shape in (each.shape, first.shape)]
            if each.ndim != first.ndim or beside[0] != beside[1]:
                told = f"{name} has shape {each.shape} and {names[0]} {first.shape}"
                raise ShapeError(f"{told}: they must be equal but along axis {number}")
        length = sum(each.shape[number] for each in inputs)
        shape = (*first.shape[:number], length, *first.shape[number + 1 :])
    row = TABLE[promoted(tuple(info(each.dtype).name for each in inputs))]
    made = layout(shape, row_major_strides(shape, row.itemsize), row.numpy, first.device)
    if out is not None and out.shape != shape:
        raise ShapeError(f"out has shape {out.shape}; the result has shape {shape}")
    return JoinPlan(op, inputs, made if out is None else out, number, out is not None)


def _address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)
