"""Run by test_order.py with the driver replaced by a recorder: convolutions in the order of their arrays' memory.

What stands in for cuDNN fills the result.
"""

from __future__ import annotations

import pytest
import recorder
from library_order import Order, Runner, stand_in

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import conv
from numbacc.conv import convolving, plans


class Result(Runner):
    """The tensor behind the others is the result."""

    def result(self, graph):
        return len(graph.memory) - 1, graph.tensors[graph.memory[-1]].shape[0] * 4


@pytest.fixture(autouse=True)
def library(monkeypatch):
    for module in (plans, convolving):
        monkeypatch.setattr(module, "graph_library", lambda: stand_in(Result))
    conv.cache_clear()
    yield
    conv.cache_clear()


def forward(x, out, stream):
    return conv.forward(x, x[:, :, 2:], layout="NCW", out=out, stream=stream)


def with_a_kernel_behind(x, out, stream):
    return conv.forward(x, x[:, :, 2:], x[0, :, 0], layout="NCW", activation="gelu", out=out, stream=stream)


def of_copies(x, out, stream):
    return conv.backward_data(x[:, :, ::-1], x[:, :, 2:], (4, 4, 13), layout="NCW", out=out, stream=stream)


def of_nothing(x, out, stream):
    return conv.backward_filter(x[:0], x[:0, :, 2:], (4, 4, 3), layout="NCW", out=out, stream=stream)


@pytest.fixture(params=[forward, with_a_kernel_behind, of_copies, of_nothing], ids=lambda each: each.__name__)
def work(request):
    return request.param


@pytest.fixture
def drawn():
    return lambda stream=None: numbacc.full((4, 4, 8), 1.5, stream=stream)


@pytest.fixture
def forget():
    return conv.cache_clear


class TestConv(Order):
    """In the order of its arrays' memory."""
