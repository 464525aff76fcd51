"""Run by test_order.py with the driver replaced by a recorder: attention in the order of its arrays' memory.

What stands in for cuDNN fills the outputs.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest
import recorder
from recorder import streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import attention
from numbacc.attention import calling, fusing
from numbacc.base.dispatch import runtime


class Runner:
    """A plan of what stands in for cuDNN: what the last operation writes is the result."""

    backend = algorithm = "stand-in"
    library_bytes, workspace_bytes, deterministic, direct = 0, 512, True, False

    def __init__(self, graph, algorithm, device, operands=None, pairs=(), values=()):
        place = dict(graph.nodes[-1].tensors)["y"]
        self._nbytes, self._device = graph.tensors[place].shape[2] * 4, device
        self._result = graph.memory.index(place)
        if operands is not None:
            self._result = operands[self._result]

    def ready(self, addresses):
        pass

    def launch_unchecked(self, stream, scratch, addresses, scalars):
        assert scratch
        runtime().fill(addresses[self._result], b"\1", self._nbytes, self._device, stream)
        return 0

    def check(self, status):
        raise AssertionError(status)


@pytest.fixture(autouse=True)
def library(monkeypatch):
    stand_in = SimpleNamespace(Runner=Runner, choose=lambda *arguments: None, algorithms=SimpleNamespace(clear=list))
    for module in (fusing, calling):
        monkeypatch.setattr(module, "graph_library", lambda: stand_in)
    attention.cache_clear()
    yield
    attention.cache_clear()


def forward(x, out, stream):
    return attention.forward(x, x, x, out=out, stream=stream)


def of_copies(x, out, stream):
    return attention.forward(x[:, :, ::-1], x, x, out=out, stream=stream)


def with_a_kernel_behind(x, out, stream):
    return attention.forward(x, x[:, :, :3], x[:, :, :3], mask="causal_bottom_right", out=out, stream=stream)


each_kind = pytest.mark.parametrize("work", [forward, of_copies, with_a_kernel_behind])


def drawn(stream=None):
    return numbacc.full((2, 2, 8, 16), 1.5, dtype=np.float16, stream=stream)


@each_kind
def test_what_stays_on_its_stream_waits_for_nothing(work):
    x = drawn()
    work(x, None, None)
    log = recorder.Log()
    for _ in range(2):
        y = work(x, None, None)
    del x, y
    assert log.named("launch", "fill") and not log.named("record", "wait")


@each_kind
def test_every_pair_of_streams(work):
    """All of its work comes behind what made x, before whoever reads the result and whoever overwrites x."""
    s, t = streams(2)
    like = work(drawn(), None, None)
    for home, writer, reader in ((None, s, t), (s, None, t), (s, t, None), (None, s, None)):
        x, y = drawn(home), numbacc.empty(like.shape, like.dtype, stream=home)
        log = recorder.Log()
        assert work(x, y, writer) is y
        done = log.named("launch", "fill", "copy")
        assert done
        numbacc.asnumpy(y, stream=reader)
        y[...] = 2.0
        copied, overwrite = log.named("copy out")[-1], log.named("fill")[-1]
        assert all(log.before(each, copied) and log.before(each, overwrite) for each in done)


@each_kind
def test_what_a_graph_uses_lives_as_long_as_it(work):
    x = drawn()
    work(x, None, None)
    log = recorder.Log()
    with numbacc.graph() as graph:
        y = work(x, None, None)
    addresses = {x._address, y._address}
    assert not [call for call in log.named("free", "record", "wait") if call.graph]
    del x, y
    attention.cache_clear()
    gc.collect()
    graph.launch()
    assert not addresses & {call.arguments[0] for call in log.named("free")}
    del graph
    gc.collect()
    recorder.settle()
    assert addresses <= {call.arguments[0] for call in log.named("free")}
