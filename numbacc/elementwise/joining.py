"""Joining arrays: `concatenate` and `stack` copy arrays into parts of a new array."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
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
from ..functions.formula import Formula
from ..plan.base import Result
from ..plan.calls import planned
from ..plan.tasks import MapPlan
from ..runtime.streams import handle_of
from .calling import plans
from .casting import planned_copy
from .planning import SeveralPlan, prepared, run_several
from .type_promotion import promoted


def _found(op: str, arrays: Any, axis: Any, out: Any, handle: int) -> Any:
    """Return (the plan, the arrays, out as an array or None, out, the stream)."""
    if out is None and type(axis) is int and (type(arrays) is tuple or type(arrays) is list):
        # The fast path, for device arrays.
        try:
            plan = plans.hit((_made, op, tuple([each._numbacc_layout for each in arrays]), axis, None))
        except Exception:  # other libraries' arrays may raise anything
            plan = None
        if plan is not None:
            return plan, arrays, None, None, handle
    given = _listed(arrays)
    if not given:
        raise ShapeError("arrays is empty; pass one array or more")
    found = [operands.as_input(each, name, handle) for each, name in zip(given, _names(len(given)), strict=False)]
    target = None if out is None else operands.as_array(out, "out", handle)
    own = None if target is None else operands.layout_of(target)
    layouts = tuple(map(operands.layout_of, found))
    # Bring axis into a unique form; the cache would find 1.0 and True under 1.
    is_ready = type(axis) is int or (axis is None and op == "concatenate")
    number = axis if is_ready else normalize_axis(axis, layouts[0].ndim + (op == "stack"), "the result")
    return plans.find((_made, op, layouts, number, own)), found, target, out, handle


@planned(plans, "JoinPlan", "arrays", short=False, run=run_several, prepare=prepared)
def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, out: Any = None, stream: Any = None) -> Array:
    """Return arrays joined along an axis that they have.

    Args:
        arrays: arrays with any strides, on one device. They have the same rank, 1 to 8, and the same lengths along all
            other axes. They promote as in `add`.
        axis: the axis along which they are joined. With None, all elements are joined in C order, for arrays of any
            rank.
        out: array that receives the result. It has the result's shape and device, and its dtype or one of a wider kind.
            It must not overlap the arrays.

    Returns:
        a new C-contiguous array; `out` if given.

    Raises:
        ShapeError: the list is empty, ranks or lengths differ, or the axis is wrong.
        DTypeError: the dtypes do not promote.
        DeviceError: the arrays are on different devices.
        LayoutError: out overlaps an array, or is read-only.

    Example:
        >>> elementwise.concatenate([np.array([1, 2]), np.array([3.5])])
        array([1. , 2. , 3.5])
    """
    return _found("concatenate", arrays, axis, out, handle_of(stream))


@planned(plans, "JoinPlan", "arrays", short=False, run=run_several, prepare=prepared)
def stack(arrays: Sequence[Any], axis: int = 0, *, out: Any = None, stream: Any = None) -> Array:
    """Return arrays of one shape joined along a new axis.

    Args:
        arrays: arrays with one shape of up to 7 dimensions and any strides, on one device.
        axis: the position of the new axis in the result.
        out: array that receives the result. It has the result's shape and device, and its dtype or one of a wider kind.
            It must not overlap the arrays.

    Returns:
        a new C-contiguous array; `out` if given.

    Raises:
        ShapeError: the list is empty, the shapes differ, or the axis is wrong.
        DTypeError: the dtypes do not promote.
        DeviceError: the arrays are on different devices.
        LayoutError: out overlaps an array, or is read-only.

    Example:
        >>> elementwise.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
        array([[1, 3],
               [2, 4]])
    """
    return _found("stack", arrays, axis, out, handle_of(stream))


def two(a: Any, b: Any) -> tuple[Any, ...]:
    """Return both numbers."""
    return a, b


def three(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """Return all three numbers."""
    return a, b, c


def four(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    """Return all four numbers."""
    return a, b, c, d


def _unchanged(*arrays: Any) -> tuple[Any, ...]:
    return arrays


#: Number of arrays -> the formula of a kernel that copies them all.
_TOGETHER = {n: Formula(f"copies_of_{f.__name__}", f, _unchanged) for n, f in ((2, two), (3, three), (4, four))}


class JoinPlan(SeveralPlan[Result]):
    """A planned `concatenate` or `stack`: a copy of each array into its part of the result.

    One kernel copies two to four arrays that have one shape, and the result's dtype. Otherwise each has its own kernel.

    Args:
        op: "concatenate" or "stack".
        inputs: the arrays' layouts.
        target: the result's layout.
        axis: the axis of the result along which arrays are joined; None if the result has all elements in one row.
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
        op, names = f"elementwise.{op}", _names(len(inputs))
        self._whole: MapPlan | None = None
        alike = len({each.shape for each in inputs}) == 1 and {each.dtype for each in inputs} == {target.dtype}
        if alike and len(inputs) in _TOGETHER:
            step = target.strides[self._axis]
            tasks, starts = [copy.task for copy in copies], (0, *self._ends)
            task = tasks[0].replace(
                op=op, formula=_TOGETHER[len(inputs)], reference=_unchanged, names=(*names, "out"),
                inputs=inputs, outputs=(target,), out_given=out_given,
                reads=tuple(each.reads[0]._replace(argument=k) for k, each in enumerate(tasks)),
                writes=tuple(
                    each.writes[0]._replace(offset=start * step) for each, start in zip(tasks, starts, strict=False)
                ),
            )  # fmt: skip
            self._whole = MapPlan(task)
        super().__init__(op, names, inputs, (target,), copies if self._whole is None else [self._whole], out_given)

    def prepare(self) -> None:
        """Compile and load everything that a run needs, for the parts' positions in the result."""
        step = self.outputs[0].strides[self._axis]
        for plan, start in zip(self.plans, (0, *self._ends), strict=False):
            plan.ready(() if self._whole else (0, start * step))

    def __call__(self, arrays: Sequence[Any], *, out: Any = None, stream: Any = None) -> Result:
        """Run on arrays that have the layouts the plan was made for.

        Args:
            arrays: a list or tuple of arrays.
            out: array that receives the result, if the plan was made with `out`.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Raises:
            LayoutError: an array has another layout, or overlaps out.
        """
        return self._call(_listed(arrays), out, stream)

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Array:
        """Return the result, as `SeveralPlan.run` does."""
        (made,) = self.outputs
        if out is not None:
            # An array that overlaps out could be overwritten before it is read.
            for array, own, name in zip(arrays, self.inputs, self.names, strict=True):
                if overlap(_address(out), made, _address(array), own):
                    raise LayoutError(f"out overlaps {name}: pass memory that does not overlap it")
        if self._whole is not None:
            return self._whole.run(arrays, None if out is None else (out,), out, handle)
        if out is None:
            target = operands.empty_host(made) if self.device < 0 else operands.empty_device(made, handle)
        else:
            target = out
        start = 0
        for plan, array, own, end in zip(self.plans, arrays, self.inputs, self._ends, strict=True):
            # Remove the new axis from the slice. A result of rank 0 stays a view, too.
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


@lru_cache(maxsize=64)
def _names(count: int) -> tuple[str, ...]:
    return tuple([f"arrays[{k}]" for k in range(count)])


def _made(op: str, inputs: tuple[Layout, ...], axis: int | None, out: Layout | None) -> JoinPlan:
    """Validate a call and return its plan. Everything here depends only on layouts."""
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
            raise ShapeError(
                f"{names[0]} has rank 0; concatenate needs arrays of rank 1 to 8: use stack for arrays of rank 0"
            )
        number = normalize_axis(axis, first.ndim, names[0])
        for each, name in zip(inputs, names, strict=True):
            beside = [shape[:number] + shape[number + 1 :] for shape in (each.shape, first.shape)]
            if each.ndim != first.ndim or beside[0] != beside[1]:
                told = f"{name} has shape {each.shape} and {names[0]} {first.shape}"
                raise ShapeError(f"{told}: they must be equal except along axis {number}")
        length = sum(each.shape[number] for each in inputs)
        shape = (*first.shape[:number], length, *first.shape[number + 1 :])
    row = TABLE[promoted(tuple(info(each.dtype).name for each in inputs))]
    made = layout(shape, row_major_strides(shape, row.itemsize), row.numpy, first.device)
    if out is not None and out.shape != shape:
        raise ShapeError(f"out has shape {out.shape}; the result has shape {shape}")
    return JoinPlan(op, inputs, made if out is None else out, number, out is not None)


def _address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)
