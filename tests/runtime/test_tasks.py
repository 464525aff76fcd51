"""Tasks of kernels and their plans, which are alike for all kinds of kernels."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from numbacc import elementwise as ew
from numbacc.base.layout import layout, view
from numbacc.elementwise import indexing, norms, reduction_plan, scans
from numbacc.kernels.elementwise.launch import MapTask, Task
from numbacc.kernels.gather_scatter.launch import ScatterTask
from numbacc.kernels.reduce.launch import ReduceTask
from numbacc.kernels.rows.launch import RowTask
from numbacc.kernels.scan.launch import ScanTask
from numbacc.plan.tasks import TaskPlan

KINDS = (MapTask, ReduceTask, RowTask, ScanTask, ScatterTask)


def floats(*shape, device=-1):
    strides = np.empty(shape, "f4").strides
    return layout(shape, strides, np.dtype("f4"), device)


def plans(device=-1):
    x, tokens = floats(4, 6, device=device), layout((4,), (8,), np.dtype("i8"), device)
    yield reduction_plan.planned("sum", x, 1, None)
    yield norms.planned("softmax", (x,))
    yield norms.planned("rms_norm_backward", (x, x, floats(6, device=device)))
    yield scans.planned("cumsum", x, 1)
    yield scans.planned_gradient(x, 1)
    yield from indexing.everyday_blocks_gradients(x, tokens, layout((4, 1), (8, 8), np.dtype("i8"), device))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_says_only_what_is_its_own(kind):
    shared = {field.name for field in fields(Task)}
    assert issubclass(kind, Task)
    assert set(kind.__annotations__) & shared <= {"is_whole"}


def test_tasks_are_equal_by_what_they_say():
    x = floats(2, 3)
    given = {
        "op": "own",
        "names": ("x", "y"),
        "inputs": (x,),
        "outputs": (x,),
        "reference": np.negative,
        "shape": (2, 3),
    }
    one, other = (ReduceTask(**given, axes=(k,)) for k in (0, 1))
    assert one == ReduceTask(**given, axes=(0,)) and hash(one) == hash(ReduceTask(**given, axes=(0,)))
    assert one != other and one.replace(axes=(1,)) == other and one != ScanTask(**given, axes=(0,))
    assert (one.result_shape, other.result_shape) == ((3,), (2,))


def test_where_operands_lie_follows_from_the_task():
    x, y = floats(2, 6), floats(2, 3)
    halves = [view(0, offset, x.strides, (2, 3)) for offset in (0, 12)]
    task = MapTask(
        op="own", names=("x", "y"), inputs=(x,), outputs=(y,), reference=np.add, shape=(2, 3),
        reads=tuple(halves), writes=(view(0, 0, y.strides, (2, 3)),),
    )  # fmt: skip
    assert task.operands == (x, x, y) and task.sizes == (4, 4, 4)
    assert task.steps == ((6, 1), (6, 1), (3, 1)) and task.pointers == ((0, 0), (0, 12), (1, 0))
    assert task.alignments((8, 4)) == [8, 4, 4]
    assert task.operand_dtypes == (("float32", "float32"), ("float32",))
    assert not task.is_wide() and task.is_wide(2**31 - 2**20) and not task.is_wide(2**31 - 2**20, beyond=2**16)
    assert task.replace(shape=(0, 3)).is_empty and not task.is_empty


def test_plans_of_all_kinds_are_one_kind_of_plan():
    for plan in plans():
        assert isinstance(plan, TaskPlan) and isinstance(plan.task, Task)
        assert type(plan)._compute is TaskPlan._compute
        info = plan.info
        assert (info.backend, info.math_dtype, info.accumulator_dtype) == ("numpy", "float32", "float32")


def test_a_reference_may_return_one_result_or_several():
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(ew.cumsum(x, axis=1), np.cumsum(x, axis=1))
    np.testing.assert_array_equal(ew.take_along_axis(x, np.array([[0], [2]]), axis=1), [[0.0], [5.0]])
    values, places = ew.sum(x, axis=0), ew.argmax(x, axis=1)
    np.testing.assert_array_equal(values, x.sum(0))
    np.testing.assert_array_equal(places, [2, 2])
