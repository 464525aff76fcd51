"""The plan of a task: it checks arguments and runs the kernels, or the reference in NumPy.

A module of functions decides which views of its arguments are operands (such as two halves of one array), and which
formula and reference they need. The plan of each kind of kernel inherits from `TaskPlan` and from the operation that
builds the kernels. `MapPlan` is the plan of elementwise tasks and of other single-kernel tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..base.dtypes import info
from ..base.layout import Layout, View, numpy_view, row_major_strides
from ..kernels.elementwise.launch import MapExecutable, TaskOperation
from ..kernels.specs import compute_dtype
from .base import Plan, Result


class TaskPlan(Plan[Result], TaskOperation):
    """A planned task. Call it with arrays of the layouts that it was made for.

    Args:
        task: the task.
        scalars: the scalar arguments of all runs, as words; the reference knows them. Empty if each run has its own.

    Attributes:
        adds: for each output, whether the reference's result is added to the old values; () if none is.
    """

    adds: tuple[bool, ...] = ()

    def __init__(self, task: Any, scalars: Sequence[int] = ()):
        super().__init__(task)
        self.out_given = task.out_given
        self.math_dtype = task.compute or compute_dtype(*task.operand_dtypes)
        self.accumulator_dtype = task.accumulator
        if self.device >= 0:
            self._scalars = tuple(scalars)
            return
        #: For each operand the number of its array, and a function that returns its part of the array, or None.
        self._reads: list[Any] = [(k, None) for k in range(len(task.inputs))]
        self._writes: list[Any] = [(k, None) for k in range(len(task.outputs))]
        #: True if the reference's results are the outputs, not parts of them.
        self._is_whole = True
        if not task.is_whole:
            inputs, outputs, written = task.inputs, task.outputs, task.result_shape
            self._reads = [(v.argument, _viewer(task, v, inputs[v.argument], task.shape)) for v in task.reads]
            writes = [(v.argument, _viewer(task, v, outputs[v.argument], written)) for v in task.writes]
            self._is_whole, self._writes = writes == self._writes, writes

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        seen = [inputs[k] if look is None else look(inputs[k]) for k, look in self._reads]
        results: Any = self.task.reference(*seen, *scalars)
        if isinstance(results, (np.ndarray, np.generic)):
            results = (results,)
        are_new = self._is_whole and all(each is None for each in outs)
        if are_new and all(map(self._is_new, results, self.outputs, [seen] * len(outs))):
            return tuple(results)
        outs = self._targets(outs)
        for (k, look), result in zip(self._writes, results, strict=True):
            target = outs[k] if look is None else look(outs[k])
            if self.adds and self.adds[k]:
                result = cast(target, result.dtype) + result
            np.copyto(target, cast(result, target.dtype))
        return outs

    @staticmethod
    def _is_new(result: Any, made: Layout, seen: Sequence[Any]) -> bool:
        """Return True if a result is a new array with the wanted layout, so that it need not be copied."""
        return (
            type(result) is np.ndarray
            and result.base is None
            and (result.shape, result.strides, result.dtype) == (made.shape, made.strides, made.dtype)
            and not any(result is operand for operand in seen)
        )


class MapPlan(TaskPlan[Result], MapExecutable):
    """A planned elementwise operation, of a `MapTask`. Call it with arrays of the layouts that it was made for."""


def _viewer(task: Any, part: View, array: Layout, shape: tuple[int, ...]) -> Callable[[Any], Any] | None:
    """Return a function that returns an operand's part of a NumPy array; None if the operand is the whole array."""
    shape = shape if part.shape is None else part.shape
    if task.as_bits and (name := info(array.dtype).bits_name) != info(array.dtype).name:
        return lambda whole: numpy_view(whole, part.offset, shape, part.strides, np.dtype(name))
    if (part.offset, shape) == (0, array.shape) and all(
        n == 1 or one == other for n, one, other in zip(shape, part.strides, array.strides, strict=True)
    ):
        return None
    if array.dtype.isbuiltin == 1 and array.strides == row_major_strides(array.shape, array.itemsize) and array.size:
        # NumPy's constructor takes a third of the time, but supports only contiguous memory and NumPy's own dtypes.
        return lambda whole: np.ndarray(shape, array.dtype, whole, part.offset, part.strides)
    return lambda whole: numpy_view(whole, part.offset, shape, part.strides)
