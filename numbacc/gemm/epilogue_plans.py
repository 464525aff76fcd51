"""Plans of kernels that follow a matrix product: elementwise functions, bit masks, sums over rows.

They make up a product's epilogue where the library cannot fuse it, and the gradient of a bias. The caller has checked
shapes and dtypes, so errors in them are only caught by assertions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from ..base.dtypes import info
from ..base.layout import Layout, View, view
from ..functions.epilogues import FORMULAS, SUM
from ..functions.formula import COPY
from ..kernels.elementwise.launch import MapTask
from ..kernels.elementwise.other_launches import bits_order, reduction_order
from ..plan.cache import PlanCache
from ..plan.tasks import MapPlan
from ..reference import epilogues

# ---------------------------------------------------------------- plans

#: The plans of all threads and products, by the function that makes them and its arguments.
plans = PlanCache(lambda make, *arguments: make(*arguments), count=4096)
#: Products with Python epilogues: key of a call -> its plan, the values that the function read from outside, and the
#: names of operands and results.
quick_products: dict[Any, Any] = {}


def _kept(make: Callable[..., MapPlan]) -> Callable[..., MapPlan]:
    """Decorate a function so that it makes each plan once, and keeps it."""

    @wraps(make)
    def find(*arguments: Any) -> MapPlan:
        plan: MapPlan = plans.find((make, *arguments))
        return plan

    return find


@_kept
def map_plan(formula: str, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> MapPlan:
    """Return the plan of an elementwise function.

    Args:
        formula: a key of `functions.epilogues.FORMULAS` and of `reference.epilogues.MAPS`.
        inputs: layouts that broadcast to the outputs' shape by NumPy's rules.
        outputs: layouts of the same shape. All dtypes are the same; an output may be an input.
    """
    shape = outputs[0].shape
    assert all(array.shape == shape for array in outputs)
    assert len({array.dtype for array in (*inputs, *outputs)}) == 1
    return MapPlan(
        MapTask(
            op=formula,
            formula=FORMULAS[formula],
            reference=FORMULAS[formula].reference,
            names=_names(inputs, outputs),
            inputs=inputs,
            outputs=outputs,
            shape=shape,
            reads=tuple(view(k, 0, _broadcast(array, shape), shape) for k, array in enumerate(inputs)),
            writes=tuple(view(k, 0, array.strides, shape) for k, array in enumerate(outputs)),
            out_given=True,
        )
    )


@_kept
def cast_plan(source: Layout, target: Layout) -> MapPlan:
    """Return the plan that copies an array of floats into one of the same shape and maybe another float dtype."""
    assert source.shape == target.shape
    return MapPlan(
        MapTask(
            op="epilogue.cast",
            formula=COPY,
            reference=COPY.reference,
            names=_names((source,), (target,)),
            inputs=(source,),
            outputs=(target,),
            shape=target.shape,
            reads=(view(0, 0, source.strides, target.shape),),
            writes=(view(0, 0, target.strides, target.shape),),
            out_given=True,
            compute=str(info(source.dtype).number),
        )
    )


@_kept
def pack_plan(values: Layout, mask: Layout) -> MapPlan:
    """Return the plan that packs mask = 0 if values < 0, else 1 (also for NaN), as one bit per element.

    Args:
        values: matrices (..., rows, columns) of floats.
        mask: (..., rows, ceil(columns / 8)) of uint8; column c is bit c % 8, from the least significant, of byte
            c // 8. Bits after the last column are 0.
    """
    assert mask.shape == _mask_shape(values)
    return MapPlan(_task("pack_bits", lambda v: (epilogues.pack_bits(v),), (values,), (mask,), bits_order))


@_kept
def select_plan(values: Layout, mask: Layout, out: Layout) -> MapPlan:
    """Return the plan of out = values if the mask has a 1, else 0.

    Args:
        values, out: matrices (..., rows, columns) of the same float dtype; they may be the same array.
        mask: as `pack_plan` writes it.
    """
    assert mask.shape == _mask_shape(values) and values.shape == out.shape and values.dtype == out.dtype
    return MapPlan(_task("select_bits", epilogues.select_bits, (values, mask), (out,), bits_order))


@_kept
def sum_plan(x: Layout, axis: int, out: Layout) -> MapPlan:
    """Return the plan that sums matrices over their rows or columns, in a fixed order.

    Args:
        x: matrices (..., rows, columns) of floats.
        axis: the axis to sum over: -2 for the rows, -1 for the columns.
        out: (..., columns) or (..., rows), of x's dtype or of the accumulator's.
    """
    compute = info(x.dtype).compute
    assert axis in (-2, -1) and out.dtype.name in (x.dtype.name, compute)
    order = (-2, -1) if axis == -2 else (-1, -2)  # the axis to sum over becomes the rows
    shape, strides = ((*whole[:-2], *(whole[d] for d in order)) for whole in (x.shape, x.strides))
    assert out.shape == (*shape[:-2], shape[-1])
    task = _task("reduce_rows", partial(epilogues.sum_rows, dtype=out.dtype), (x,), (out,), reduction_order)
    reads = (_whole(0, shape, strides),)
    return MapPlan(task.replace(op="epilogue.sum_rows", formula=SUM, reads=reads, accumulator=compute))


def _task(
    algorithm: str, reference: Any, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...], make_order: Any
) -> MapTask:
    """Return the task of one kernel whose operands are whole arrays of different shapes."""
    return MapTask(
        op=f"epilogue.{algorithm}",
        formula=None,
        reference=reference,
        names=_names(inputs, outputs),
        inputs=inputs,
        outputs=outputs,
        shape=outputs[0].shape,
        reads=tuple(_whole(k, array.shape, array.strides) for k, array in enumerate(inputs)),
        writes=tuple(_whole(k, array.shape, array.strides) for k, array in enumerate(outputs)),
        out_given=True,
        order=partial(make_order, algorithm),
    )


def _names(inputs: Sequence[Layout], outputs: Sequence[Layout]) -> tuple[str, ...]:
    return (*(f"inputs[{k}]" for k in range(len(inputs))), *(f"outputs[{k}]" for k in range(len(outputs))))


def _mask_shape(values: Layout) -> tuple[int, ...]:
    return (*values.shape[:-1], -(-values.shape[-1] // 8))


def _broadcast(array: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides in bytes that broadcast an array to this shape: 0 where it is repeated."""
    assert np.broadcast_shapes(array.shape, shape) == shape
    own = (0 if n == 1 else step for n, step in zip(array.shape, array.strides, strict=True))
    return (*(0,) * (len(shape) - array.ndim), *own)


def _whole(argument: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> View:
    """Return a view of a whole argument with its own shape."""
    return view(argument, 0, strides, shape)._replace(shape=shape)
