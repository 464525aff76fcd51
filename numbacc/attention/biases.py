"""Biases that are repeated along queries or keys: all of them for cuDNN, and their gradients added up behind it."""

from __future__ import annotations

import math

from ..base.layout import layout, view
from ..errors import UnsupportedError
from ..functions.formula import COPY
from ..kernels.reduce.functions import REDUCTIONS
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..libraries.cudnn_graph import ALIGNED
from ..runtime.steps import Step
from .geometry import AttentionGeometry
from .staging import Array, Stage


def are_misread(array: Array, found: AttentionGeometry, is_backward: bool, is_output: bool) -> bool:
    """Whether cuDNN 9.19 computes wrong numbers with a bias, without a word: on an H200 engines 2 and 6 did forward
    where it was repeated along queries and had one key, if there was one alone, too, and backward wherever it was along
    queries; its gradient they added up wrongly along either."""
    *_, queries, keys = array.lies.shape
    is_along_queries, is_along_keys = queries == 1 < found.queries, keys == 1 < found.keys
    if is_output:
        return is_along_queries or is_along_keys
    return (is_along_queries and (is_backward or keys == 1)) or (is_along_keys and queries == 1)


def spread(stage: Stage, name: str, is_backward: bool) -> Array:
    """A copy of a bias that has all that it repeats along keys, and backward along queries, too, as where there is one
    key.

    Raises:
        UnsupportedError: it would take more than workspace_limit.
    """
    own, found, limit = stage.arrays[name], stage.problem.geometry, stage.problem.limit
    queries = found.queries if is_backward or found.keys == 1 else 1
    shape = (*own.lies.shape[:2], queries, found.keys)
    if (nbytes := math.prod(shape) * own.lies.itemsize) > limit:
        raise UnsupportedError(
            f"cuDNN needs a copy of the bias that repeats less, {nbytes} bytes, more than workspace_limit={limit}"
        )
    steps = tuple(0 if n == 1 else step for n, step in zip(own.lies.shape, own.lies.strides, strict=True))
    source = Array(own.number, layout(shape, steps, own.lies.dtype, stage.device))
    target = stage.part(f"{name}_spread", shape, own.lies.dtype, ALIGNED)
    stage.add(stage.mapped(COPY, source, target), source, target)
    return target


def summed(stage: Stage, name: str) -> Array:
    """The gradient of a bias before it is added up along queries, and keys: a kernel of ours does that in the end."""
    own, found, compute = stage.arrays[name], stage.problem.geometry, stage.problem.compute
    shape = (*own.lies.shape[:2], found.queries, found.keys)
    whole = stage.part(f"{name}_whole", shape, stage.problem.dtype)
    axes = tuple(axis for axis in (2, 3) if own.lies.shape[axis] < shape[axis])
    kept = [axis for axis in range(4) if axis not in axes]
    sizes, steps = ([each[axis] for axis in kept] for each in (own.lies.shape, own.lies.strides))
    task = ReduceTask(
        op="attention.backward",
        formula=REDUCTIONS["sum"],
        reference=lambda whole: (whole.astype(compute).sum(axes),),
        names=("dS", name),
        inputs=(whole.lies,),
        outputs=(own.lies,),
        shape=shape,
        axes=axes,
        reads=(view(0, 0, whole.lies.strides, shape),),
        writes=(view(0, 0, steps, sizes),),
        out_given=True,
        compute=compute.name,
    )
    stage.behind.append(Step(ReduceExecutable(task, 1), (whole.number, own.number)))
    return whole


def chosen(stage: Stage, step: Step) -> Step:
    """A step behind cuDNN's with its kernel, for which there must be a GPU: graphs are drawn without."""
    if not isinstance(step.executable, ReduceExecutable):
        return step
    return step._replace(executable=step.executable.choose([stage.address(k) % 16 for k in step.operands]))
