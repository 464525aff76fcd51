"""Run by test_order.py with the driver replaced by a recorder: the events of `numbacc.record`."""

from __future__ import annotations

import numpy as np
import pytest
import recorder
from recorder import array

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import elementwise, gated
from numbacc.runtime.memory_order import DriverEvent


@pytest.fixture(autouse=True)
def no_log_is_left():
    yield
    assert not numbacc.profiling.observers._count


def around(log, name="launch"):
    """The kinds of calls just before and after the first of this name, on its stream."""
    calls = [call for call in log.calls if call.name in ("record", name)]
    number = next(k for k, call in enumerate(calls) if call.name == name)
    return [(call.name, call.stream) for call in calls[number - 1 : number + 2]]


def test_each_kernel_has_an_event_before_and_after_it_on_its_stream(log):
    x, s = array(), numbacc.stream()
    log = recorder.Log()
    with numbacc.record() as found:
        gated.forward(x, stream=s)
    assert around(log) == [("record", s.handle), ("launch", s.handle), ("record", s.handle)]
    assert found[0].gpu_us == 1000 and not found[0].note and found[0].device == "cuda:0"
    assert found[0].backend == "kernel" and found[0].kernels[0].stream == s.handle


def test_recording_waits_for_nothing_and_reading_waits(log):
    x, s = array(), numbacc.stream()
    log = recorder.Log()
    with numbacc.record() as found:
        for stream in (s, None, s):
            gated.forward(x, stream=stream)
        len(found)
    assert not log.named("host waits", "synchronize")
    assert [call.gpu_us for call in found] == [1000] * 3
    waits = len(log.named("host waits"))
    assert waits == 3
    assert str(found.table()) and len(log.named("host waits")) == waits, "they are read once"


def test_calls_outside_record_no_event(log):
    x = array()
    gated.forward(x)
    with numbacc.record():
        gated.forward(x)
    log = recorder.Log()
    gated.forward(x)
    assert not log.named("record")


def test_work_that_is_captured_has_no_events(log):
    x = array()
    with numbacc.record() as found:
        with numbacc.graph() as graph:
            gated.forward(x)
        captured = recorder.Log()
        graph.launch()
    inside, launched = found
    assert not [call for call in recorder.Log().named("record") if call.graph]
    assert inside.gpu_us is None and "captured into a graph" in inside.note
    assert launched.function == "Graph.launch" and launched.gpu_us == 1000
    stream = captured.named("launch graph")[0].stream
    assert around(captured, "launch graph") == [(name, stream) for name in ("record", "launch graph", "record")]
    assert "No time on a GPU for 1 call: it was captured" in str(found.table())


def test_copies_fills_and_lists_have_times(log):
    x = array()
    lists = [[array(), array()] for _ in range(4)]
    with numbacc.record() as found:
        numbacc.asarray(np.ones(3))
        numbacc.zeros(3)
        numbacc.asnumpy(x)
        elementwise.adamw_step(*lists, 1)
    assert [call.gpu_us for call in found] == [1000] * 4
    assert found[3].algorithm.startswith("list_maps")


def test_an_event_that_cannot_be_made_does_not_stop_the_call(monkeypatch):
    x = array()

    def refuse(self, device, flags=None):
        self.handle = 0
        raise numbacc.DeviceError("no more events")

    with numbacc.record() as found, monkeypatch.context() as patch:
        patch.setattr(DriverEvent, "__init__", refuse)
        y = gated.forward(x)
    assert y.shape == (4, 4)
    assert found[0].gpu_us is None and "no more events" in found[0].note
