"""The plan of elementwise operations: a formula applied to arrays position by position.

An operation's module says how its arguments are seen (two halves of one array, say) and which formula and NumPy
reference it means. Other operations of one kernel are planned alike: they bring a launcher of their own, and views with
shapes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..base.dtypes import info
from ..base.layout import Layout, View, numpy_view, row_major_strides
from ..kernels.elementwise.launch import MapExecutable, MapSpec
from ..kernels.specs import compute_dtype
from .base import Plan


class MapPlan(Plan, MapExecutable):
    """A planned elementwise operation. Call it with arrays laid out as those it was made for."""

    def __init__(self, spec: MapSpec):
        MapExecutable.__init__(self, spec)
        self.out_given = spec.out_given
        reads = [info(spec.inputs[view.argument].dtype).name for view in spec.reads]
        writes = [info(spec.outputs[view.argument].dtype).name for view in spec.writes]
        self.math_dtype, self.accumulator_dtype = spec.compute or compute_dtype(reads, writes), spec.accumulator
        if self.device < 0:
            self._reads = [_viewer(spec, view, spec.inputs[view.argument]) for view in spec.reads]
            self._writes = [_viewer(spec, view, spec.outputs[view.argument]) for view in spec.writes]
            #: True if the reference's results are the outputs, one by one, not parts of them.
            self._is_whole = self._writes == [None] * len(self.outputs) and [view.argument for view in spec.writes] == [
                *range(len(self.outputs))
            ]

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        spec = self.spec
        seen = [
            inputs[view.argument] if look is None else look(inputs[view.argument])
            for view, look in zip(spec.reads, self._reads, strict=True)
        ]
        results = spec.reference(*seen, *scalars)
        if outs[0] is None and self._is_whole and all(map(self._is_new, results, self.outputs, [seen] * len(outs))):
            return results
        outs = self._targets(outs)
        for view, look, result in zip(spec.writes, self._writes, results, strict=True):
            target = outs[view.argument]
            seen_target = target if look is None else look(target)
            np.copyto(seen_target, cast(result, seen_target.dtype))
        return outs

    @staticmethod
    def _is_new(result: Any, made: Layout, seen: Sequence[Any]) -> bool:
        """True if a result is an array of its own, laid out as it is to be, so that it need not be copied."""
        return (
            type(result) is np.ndarray
            and result.base is None
            and (result.shape, result.strides, result.dtype) == (made.shape, made.strides, made.dtype)
            and not any(result is operand for operand in seen)
        )


def _viewer(spec: MapSpec, part: View, array: Layout) -> Callable[[Any], Any] | None:
    """Return a function that takes an operand's part of a NumPy array; None where it is all of it."""
    shape = spec.shape_of(part)
    if spec.as_bits and info(array.dtype).is_scaled:
        return lambda whole: numpy_view(whole, part.offset, shape, part.strides, np.dtype(np.uint8))
    if (part.offset, shape) == (0, array.shape) and all(
        n == 1 or one == other for n, one, other in zip(shape, part.strides, array.strides, strict=True)
    ):
        return None
    if array.dtype.isbuiltin == 1 and array.strides == row_major_strides(array.shape, array.itemsize) and array.size:
        # NumPy's constructor takes a third of the time, but only memory without gaps, of its own dtypes.
        return lambda whole: np.ndarray(shape, array.dtype, whole, part.offset, part.strides)
    return lambda whole: numpy_view(whole, part.offset, shape, part.strides)
