"""What only a real GPU shows of cuDNN's bindings: handles, and plans that run."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import sentinel
from cudnn_graphs import LENGTHS, Made
from graphs import captured, overwrite
from skips import skip

import numbacc
from numbacc import info
from numbacc.runtime import device as runtime
from numbacc.runtime.contexts import on_device
from numbacc_bindings.cudnn import (
    AttributeName,
    DescriptorType,
    cudnn,
    finalize,
    get_int64,
    get_text,
    set_handle,
)

pytestmark = pytest.mark.gpu
HALF = np.dtype(np.float16)


@pytest.fixture
def made():
    if info.attempt(info.find, "cudnn")[1] or not cudnn.knows(DescriptorType.DEVICEPROP_DESCRIPTOR):
        skip("library")
    with on_device(0):
        found = Made()
        yield found
        found.destroy()


@pytest.fixture
def handle(made):
    found = ctypes.c_void_p()
    cudnn.cudnnCreate(ctypes.byref(found))
    yield found.value
    cudnn.cudnnDestroy(found.value)


def device_of(made, handle):
    """This GPU, as cuDNN sees it."""
    found = made(DescriptorType.DEVICEPROP_DESCRIPTOR)
    set_handle(found, AttributeName.DEVICEPROP_HANDLE, handle)
    finalize(found)
    return found


def operands():
    """x, w and a poisoned y on the GPU, channels last, and y as it should be: sums of so few integers are exact."""
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-1, 2, [n, h, width, c]).astype(HALF) for n, c, h, width in (LENGTHS["X"], LENGTHS["W"]))
    n, c, h, width = LENGTHS["Y"]
    y = np.full((n, h, width, c), sentinel(HALF))
    around = np.pad(x.astype(np.int64), [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (1, 2))
    want = np.einsum("nhwcij,kijc->nhwk", windows, w.astype(np.int64))
    return [numbacc.asarray(array) for array in (x, w, y)], want


def address(array):
    return array.__cuda_array_interface__["data"][0]


def made_plan(made, handle):
    device, graph = device_of(made, handle), made.graph()
    return made.plan(made.configurations(graph, device)[0], device), device


@contextmanager
def ready(made, plan):
    """Arrays, a pack of their addresses, and what the plan should make of them."""
    arrays, want = operands()
    size = get_int64(plan, AttributeName.EXECUTION_PLAN_WORKSPACE_SIZE)
    scratch = numbacc.empty((max(size, 1),), np.int8)
    pack = made.pack([1, 2, 3], [address(array) for array in arrays], address(scratch))
    runtime.synchronize(0, 0)
    yield pack, arrays[2], want
    runtime.synchronize(0, 0)


def test_a_plan_runs(made, handle):
    plan, device = made_plan(made, handle)
    text = get_text(plan, AttributeName.EXECUTION_PLAN_JSON_REPRESENTATION)
    for used in (plan, made.restored(text, device)):
        with ready(made, used) as (pack, y, want):
            cudnn.cudnnSetStream(handle, 0)
            cudnn.cudnnBackendExecute(handle, used, pack)
            runtime.synchronize(0, 0)
            np.testing.assert_array_equal(numbacc.asnumpy(y), want)


def test_a_plan_runs_in_a_graph(made, handle):
    plan, _ = made_plan(made, handle)
    stream = numbacc.stream()
    cudnn.cudnnSetStream(handle, stream.handle)
    with ready(made, plan) as (pack, y, want):
        with captured(stream) as graph:
            cudnn.cudnnBackendExecute(handle, plan, pack)
        for _ in range(2):
            overwrite(y, np.full(y.shape, sentinel(HALF)), stream)
            graph.replay()
            np.testing.assert_array_equal(numbacc.asnumpy(y), want)
