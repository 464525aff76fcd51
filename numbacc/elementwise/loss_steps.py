"""The steps that cross entropy is put together of, forward and backward: each a plan, of given layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.dtypes import info
from ..base.layout import Layout, View, dense_like, layout, row_major_strides, view
from ..kernels.elementwise.launch import MapSpec
from ..kernels.elementwise.transformer import BLOCKS
from ..kernels.reduce.launch import ReduceTask
from ..kernels.reduce.logsumexp import EXPONENTS
from ..kernels.rows.launch import RowExecutable, RowTask
from ..kernels.rows.losses import LOSSES
from ..kernels.rows.softmax import ROW_FORMULAS
from ..plan.rows import RowPlan
from ..reference import blocks as reference
from ..reference import reductions as numpy_reductions
from ..reference.indexing import take_along_axis
from ..runtime.launch_order import VECTOR_BYTES
from .calling import NumberedPlan, outputs_of
from .planning import broadcast_strides
from .reduction_plan import ReducePlan

#: Numbers of a row that `stats` has: the largest, and the logarithm of the sum of all exponentials measured from it.
STATS = 2
#: Rows from which on each has threads of its own, and no others'.
_ROWS = 512


class RowReducePlan(ReducePlan):
    """A planned reduction along many rows, which threads that share a row bring together in registers.

    Args:
        task: what it is.
        rows: the same as a task of rows: only where arrays are aligned so that accesses are as wide as can be.
    """

    def __init__(self, task: ReduceTask, rows: RowTask):
        super().__init__(task)
        self._by_rows = RowExecutable(rows)

    def _make(self, key: Any, trial: Any) -> Any:
        wide = self._by_rows.access_bytes(key) == VECTOR_BYTES
        return self._by_rows.choose(key) if wide else super()._make(key, trial)


def _of_rows(x: Layout, axis: int) -> tuple[str, Layout]:
    """What is computed in, and the layout of one number a row."""
    compute = str(info(x.dtype).compute)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return compute, dense_like(layout(shape, x.strides, dtypes.TABLE[compute].numpy, x.device), shape)


def _stats_of(result: Layout, axis: int) -> Layout:
    """The layout of `stats`: two numbers next to each other for each row."""
    lengths, steps = ([*each[:axis], *each[axis + 1 :]] for each in (result.shape, result.strides))
    return layout((*lengths, STATS), (*(STATS * step for step in steps), result.itemsize), result.dtype, result.device)


def _each_stat(argument: int, stats: Layout, axis: int, shape: tuple[int, ...]) -> list[View]:
    """How each of the numbers of `stats` lies in it, the same all along a row of this shape."""
    *steps, apart = stats.strides
    steps.insert(axis, 0)
    return [view(argument, k * apart, steps, shape) for k in range(STATS)]


def _has_rows(x: Layout, axis: int) -> bool:
    """True where threads that share a row bring their parts together in registers: of many rows."""
    many = prod(x.shape[:axis]) * prod(x.shape[axis + 1 :]) >= _ROWS
    return x.strides[axis] == x.itemsize and info(x.dtype).compute != "float64" and many


def _row_task(
    name: str, names: Sequence[str], inputs: tuple[Layout, ...], outputs: tuple[Layout, ...], axis: int,
    reference: Callable[..., Any], scalars: tuple[str, ...] = (),
) -> RowTask:  # fmt: skip
    """A formula of rows of the first input; another has an index a row. Outputs have a number a row, or are `stats`."""
    x = inputs[0]
    reads = tuple(view(k, 0, broadcast_strides(each, x.shape), x.shape) for k, each in enumerate(inputs))
    writes: list[View] = []
    for k, each in enumerate(outputs):
        if names[len(inputs) + k] == "stats":
            writes += _each_stat(k, each, axis, x.shape)
        else:
            writes.append(view(k, 0, broadcast_strides(each, x.shape), x.shape))
    return RowTask(
        op="elementwise.cross_entropy",
        formula=ROW_FORMULAS[name + "_narrow" * (x.itemsize == 2)],
        reference=reference,
        names=tuple(names),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        axis=axis,
        reads=reads,
        writes=tuple(writes),
        out_given=False,
        compute=str(info(x.dtype).compute),
        scalars=scalars,
        stats=len(writes),
        indexed=len(inputs) > 1,
    )


def loss_rows(
    x: Layout, places: Layout, axis: int, reduction: str, ignored: int, smoothing: float, with_stats: bool
) -> RowPlan | None:
    """The plan of the losses, or what they are reduced to, and of `stats`, in one kernel; None where that would not
    read whole accesses."""
    if not _has_rows(x, axis):
        return None
    compute, result = _of_rows(x, axis)
    loss = result if reduction == "none" else layout((), (), result.dtype, x.device)

    def losses(x: Any, places: Any) -> tuple[Any, ...]:
        found = numpy_reductions.log_sum_and_mean(x, (axis,), compute)
        base, total, mean = (np.expand_dims(each, axis) for each in found)
        (value,) = take_along_axis(x, places, axis)
        (each,) = reference.loss(base, total, mean, value, places, ignored, smoothing, x.shape[axis])
        return (_reduced(each, places, reduction, ignored), np.stack(found[:STATS], axis=-1))[: 1 + with_stats]

    task = _row_task(
        "smoothed_row_loss" if smoothing else "row_loss",
        ("x", "target", "losses", "stats")[: 3 + with_stats],
        (x, places),
        (loss, _stats_of(result, axis))[: 1 + with_stats],
        axis,
        losses,
        ("int64", compute),
    )._replace(total=LOSSES.get(reduction))
    plan = RowPlan(task, (*dtypes.words(ignored, "int64"), *dtypes.words(smoothing, compute)))
    return plan if plan.access_bytes((0,) * (len(task.inputs) + len(task.outputs))) == VECTOR_BYTES else None


def _reduced(losses: Any, places: Any, reduction: str, ignored: int) -> Any:
    """Losses as they are, their sum, or the mean of those that count."""
    if reduction == "mean":
        return numpy_reductions.mean_of_counted(losses, places, ignored)
    return losses if reduction == "none" else numpy_reductions.total(losses.reshape(-1))


def log_sums(inputs: tuple[Layout, ...], outs: None, axis: int, with_mean: bool) -> ReducePlan:
    """The plan of `stats`, and of the mean distance that label smoothing needs."""
    (x,) = inputs
    compute, result = _of_rows(x, axis)
    outputs = (_stats_of(result, axis), result)[: 1 + with_mean]

    def means(seen: Any) -> tuple[Any, ...]:
        return numpy_reductions.log_sum_and_mean(seen, (axis,), compute)[: STATS + with_mean]

    *steps, apart = outputs[0].strides
    kept = [d for d in range(x.ndim) if d != axis]
    lengths = [x.shape[d] for d in kept]
    writes = [view(0, k * apart, steps, lengths) for k in range(STATS)]
    name = "log_sum" + "_and_mean" * with_mean
    task = ReduceTask(
        op="elementwise.cross_entropy",
        formula=EXPONENTS[name + "_narrow" * (x.itemsize == 2)],
        reference=means,
        names=("x", "stats", "mean")[: 2 + with_mean],
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        axes=(axis,),
        reads=(view(0, 0, x.strides, x.shape),),
        writes=(*writes, *[view(1, 0, [result.strides[d] for d in kept], lengths)] * with_mean),
        out_given=False,
        compute=compute,
    )
    if with_mean or not _has_rows(x, axis):
        return ReducePlan(task)
    return RowReducePlan(task, _row_task(name, task.names, inputs, outputs, axis, means))


def losses_of(
    inputs: tuple[Layout, ...], outs: None, axis: int, ignored: int, smoothing: float, classes: int
) -> NumberedPlan:
    """The plan of the losses, of `stats`, the mean that smoothing needs or any other number, x's numbers that count,
    and targets."""
    stats, target = inputs[0], inputs[-1]
    compute = info(stats.dtype).name
    made = layout(target.shape, row_major_strides(target.shape, stats.itemsize), stats.dtype, stats.device)
    spec = MapSpec(
        op="elementwise.cross_entropy",
        formula=BLOCKS["loss"],
        reference=partial(reference.loss, ignored=ignored, smoothing=smoothing, classes=classes),
        names=("stats", "mean", "x", "target", "loss"),
        inputs=inputs,
        outputs=(made,),
        shape=target.shape,
        reads=(
            *_each_stat(0, stats, axis, target.shape),
            *(view(1 + k, 0, each.strides, target.shape) for k, each in enumerate(inputs[1:])),
        ),
        writes=(view(0, 0, made.strides, target.shape),),
        out_given=False,
        compute=compute,
        scalars=("int64", compute),
        indices=(4,),
    )
    return NumberedPlan(spec, (ignored, smoothing))


def mean_of(inputs: tuple[Layout, ...], outs: None, ignored: int) -> ReducePlan:
    return _counting("mean_of_counted", inputs, inputs[0].dtype, ignored, numpy_reductions.mean_of_counted)


def count_of(inputs: tuple[Layout, ...], outs: None, ignored: int, dtype: np.dtype[Any]) -> ReducePlan:
    return _counting("number_of_counted", inputs, dtype, ignored, lambda targets, ignored: np.sum(targets != ignored))


def _counting(name: str, inputs: tuple[Layout, ...], dtype: Any, ignored: int, function: Any) -> ReducePlan:
    """A reduction over all rows, to one number."""
    first, compute = inputs[0], info(dtype).name
    made = layout((), (), dtypes.TABLE[compute].numpy, first.device)
    task = ReduceTask(
        op="elementwise.cross_entropy",
        formula=EXPONENTS[name],
        reference=lambda *seen: (function(*seen, ignored),),
        names=("losses", "target", "loss")[-1 - len(inputs) :],
        inputs=inputs,
        outputs=(made,),
        shape=first.shape,
        axes=tuple(range(first.ndim)),
        reads=tuple(view(k, 0, each.strides, first.shape) for k, each in enumerate(inputs)),
        writes=(view(0, 0, (), ()),),
        out_given=False,
        compute=compute,
        scalars=(compute,),
    )
    return ReducePlan(task, dtypes.words(ignored, compute))


def slopes(
    inputs: tuple[Layout, ...], outs: tuple[Layout, ...] | None, axis: int, ignored: int, smoothing: float
) -> NumberedPlan:
    """The plan of the gradient, of x, `stats`, dy and targets."""
    x, stats, *rows = inputs
    result, compute = dense_like(x, x.shape), str(info(x.dtype).compute)
    outputs = outputs_of(result, outs)
    spec = MapSpec(
        op="elementwise.cross_entropy_backward",
        formula=BLOCKS["loss_slope"],
        reference=partial(reference.loss_slope, axis=axis, ignored=ignored, smoothing=smoothing, compute=compute),
        names=("x", "stats", "dy", "target", "out"),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        reads=(
            view(0, 0, x.strides, x.shape),
            *_each_stat(1, stats, axis, x.shape),
            *(view(2 + k, 0, broadcast_strides(each, x.shape), x.shape) for k, each in enumerate(rows)),
        ),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
        out_given=outs is not None,
        compute=compute,
        scalars=("int64", "int64", compute, compute),
        counters=(tuple(int(d == axis) for d in range(x.ndim)),),
        indices=(4,),
    )
    classes = x.shape[axis]
    return NumberedPlan(spec, (ignored, classes, 1.0 - smoothing, smoothing / classes))
