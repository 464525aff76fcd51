"""Biases that repeat along queries or keys: copies that cuDNN reads correctly, and sums of their gradients."""

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
    """Return whether cuDNN 9.19 silently computes wrong results with a bias.

    On an H200, engines 2 and 6 were wrong in these cases. Forward: a bias repeated along queries with one key, also if
    only one key exists. Backward: any bias repeated along queries. The gradient of a bias repeated along either axis
    was summed wrongly.
    """
    *_, queries, keys = array.lies.shape
    is_along_queries, is_along_keys = queries == 1 < found.queries, keys == 1 < found.keys
    if is_output:
        return is_along_queries or is_along_keys
    return (is_along_queries and (is_backward or keys == 1)) or (is_along_keys and queries == 1)


def spread(stage: Stage, name: str, is_backward: bool) -> Array:
    """Copy a bias so that it does not repeat along keys.

    Backward, and if there is only one key, the copy does not repeat along queries either.

    Raises:
        UnsupportedError: the copy would take more than workspace_limit.
    """
    own, found, limit = stage.arrays[name], stage.problem.geometry, stage.problem.limit
    queries = found.queries if is_backward or found.keys == 1 else 1
    shape = (*own.lies.shape[:2], queries, found.keys)
    if (nbytes := math.prod(shape) * own.lies.itemsize) > limit:
        raise UnsupportedError(
            f"cuDNN needs a copy of the bias without repeated axes, {nbytes} bytes, more than workspace_limit={limit}"
        )
    steps = tuple(0 if n == 1 else step for n, step in zip(own.lies.shape, own.lies.strides, strict=True))
    source = Array(own.number, layout(shape, steps, own.lies.dtype, stage.device))
    target = stage.part(f"{name}_spread", shape, own.lies.dtype, ALIGNED)
    stage.add(stage.mapped(COPY, source, target), source, target)
    return target


def summed(stage: Stage, name: str) -> Array:
    """Make an array for the gradient of a bias before it is summed, and add the kernel that sums it in the end."""
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
    """Choose the kernel of a step that runs after cuDNN. This needs a GPU, while graphs are drawn without one."""
    if not isinstance(step.executable, ReduceExecutable):
        return step
    return step._replace(executable=step.executable.choose([stage.address(k) % 16 for k in step.operands]))
