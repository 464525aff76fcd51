"""Run by test_order.py with a recorder as driver: the calls of the driver for events and priorities."""

from __future__ import annotations

import pytest
import recorder
from recorder import array, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated
from numbacc.runtime import streams as runtime_streams


def test_work_behind_an_event_waits_for_it(log):
    s, t = streams(2)
    x, y = array(s), array(t)
    gated.forward(x, stream=s)
    event = numbacc.event().record(s)
    event.wait(t)
    gated.forward(y, stream=t)
    first, second = log.named("launch")
    assert log.before(first, second)
    assert not event.query()
    event.synchronize()
    assert event.query() and event.elapsed_time(event.record(s)) == 1


def test_without_the_event_nothing_waits(log):
    s, t = streams(2)
    x, y = array(s), array(t)
    gated.forward(x, stream=s)
    numbacc.event().record(s)
    gated.forward(y, stream=t)
    first, second = log.named("launch")
    assert not log.before(first, second)


def test_events_of_two_gpus(log):
    s, t = numbacc.stream(device=0), numbacc.stream(device=1)
    x, y = array(s, 0), array(t, 1)
    gated.forward(x, stream=s)
    event = numbacc.event().record(s)
    assert event.device == 0
    event.wait(t)
    gated.forward(y, stream=t)
    first, second = log.named("launch")
    assert log.before(first, second)
    with pytest.raises(numbacc.DeviceError, match="clocks"):
        event.elapsed_time(numbacc.event().record(t))
    with pytest.raises(numbacc.DeviceError, match="cuda:1"):
        numbacc.event(device=1).record(s)
    with t:
        assert numbacc.event().record().device == 1
    assert event.record(t).device == 1  # it was made for no GPU


def test_priorities_are_those_of_the_gpu(log):
    assert [numbacc.stream(priority=k).priority for k in (3, 0, -2, -99)] == [0, 0, -2, -5]
    high = numbacc.stream(priority=-2)
    handle = high.handle
    assert numbacc.stream(handle).priority == -2
    del high
    assert handle in runtime_streams._idle[0, -2]
    assert numbacc.stream().handle != handle == numbacc.stream(priority=-2).handle
