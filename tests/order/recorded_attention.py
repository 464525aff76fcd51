"""Run by test_order.py with the driver replaced by a recorder: attention in the order of its arrays' memory.

What stands in for cuDNN fills the outputs.
"""

from __future__ import annotations

import numpy as np
import pytest
import recorder
from library_order import Order, Runner, stand_in

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import attention
from numbacc.attention import calling, fused_calls


class Result(Runner):
    """What the last operation writes is the result."""

    def result(self, graph):
        place = dict(graph.nodes[-1].tensors)["y"]
        return graph.memory.index(place), graph.tensors[place].shape[2] * 4


@pytest.fixture(autouse=True)
def library(monkeypatch):
    for module in (fused_calls, calling):
        monkeypatch.setattr(module, "graph_library", lambda: stand_in(Result))
    attention.cache_clear()
    yield
    attention.cache_clear()


def forward(x, out, stream):
    return attention.forward(x, x, x, out=out, stream=stream)


def of_copies(x, out, stream):
    return attention.forward(x[:, :, ::-1], x, x, out=out, stream=stream)


def with_a_kernel_behind(x, out, stream):
    return attention.forward(x, x[:, :, :3], x[:, :, :3], mask="causal_bottom_right", out=out, stream=stream)


@pytest.fixture(params=[forward, of_copies, with_a_kernel_behind], ids=lambda each: each.__name__)
def work(request):
    return request.param


@pytest.fixture
def drawn():
    return lambda stream=None: numbacc.full((2, 2, 8, 16), 1.5, dtype=np.float16, stream=stream)


@pytest.fixture
def forget():
    return attention.cache_clear


class TestAttention(Order):
    """In the order of its arrays' memory."""
