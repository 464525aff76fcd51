"""Events and priorities of streams: records, waits, times, and the errors of wrong calls."""

from __future__ import annotations

import copy
import pickle
import time

import numpy as np
import pytest
from conftest import refused
from wrong_arguments import STREAMS

import numbacc
from numbacc import gated


def test_times(place):
    start, end, alone = numbacc.event(), numbacc.event(), numbacc.event(timing=False)
    assert start.query()  # as in CUDA, where it was never recorded
    start.synchronize(), start.wait()
    refused(numbacc.OptionError, "this event was not recorded", run=lambda: start.elapsed_time(end))
    assert start.record() is start
    refused(numbacc.OptionError, "end was not recorded", run=lambda: start.elapsed_time(end))
    gated.forward(place.put(np.ones((4, 8), np.float32)))
    time.sleep(0.02)
    end.record(numbacc.stream())
    assert start.elapsed_time(end) >= 20 > 20 + end.elapsed_time(start) - 1e-3
    alone.record()
    refused(numbacc.OptionError, "end", "timing=False", run=lambda: start.elapsed_time(alone))
    refused(numbacc.OptionError, "float", run=lambda: start.elapsed_time(1.0))
    assert "recorded" in repr(end)
    for refusing in (copy.copy, copy.deepcopy, pickle.dumps):
        refused(numbacc.DTypeError, "numbacc.event()", run=lambda call=refusing: call(end))


def test_wrong_arguments(place):
    event = numbacc.event()
    for stream in (*STREAMS, 2):
        refused(numbacc.OptionError, "stream", run=lambda given=stream: event.record(given))
        refused(numbacc.OptionError, "stream", run=lambda given=stream: event.record().wait(given))
    refused(numbacc.OptionError, "timing", run=lambda: numbacc.event(timing=1.5))
    refused(numbacc.DeviceError, "device", run=lambda: numbacc.event(device="x"))
    for priority in (1.5, "high", None):
        refused(numbacc.OptionError, "priority", run=lambda given=priority: numbacc.stream(priority=given))
    refused(numbacc.OptionError, "priority", run=lambda: numbacc.stream(numbacc.stream(), priority=-1))
    if place.is_device:
        for device in ("cpu", 99):
            refused(numbacc.DeviceError, f"{device}", run=lambda given=device: numbacc.event(device=given))


def test_priorities(place):
    assert numbacc.stream().priority == numbacc.stream(0).priority == 0
    assert numbacc.stream(priority=1).priority == 0  # outside of the range
    for _ in range(2):  # the second time it is a stream that nobody uses any more
        high, highest = numbacc.stream(priority=-1), numbacc.stream(priority=-99)
        if place.name == "gpu":
            assert 0 > high.priority > highest.priority
        assert numbacc.stream(high) is high and numbacc.stream(high.handle).priority == high.priority
        del high, highest


def test_events_inside_a_capture(device_place):
    x, side = device_place.put(np.ones((4, 8), np.float32)), numbacc.stream()
    before = numbacc.event().record()
    with numbacc.graph() as g:
        fork = numbacc.event().record()
        refused(numbacc.UnsupportedError, "in that capture", run=before.wait)
        before.synchronize()
        fork.wait(side)
        y = gated.forward(x, "reglu", stream=side)
        numbacc.event(timing=False).record(side).wait()
        for use in (fork.query, fork.synchronize, lambda: fork.elapsed_time(fork)):
            refused(numbacc.UnsupportedError, "capture", run=use)
    refused(numbacc.UnsupportedError, "has ended", run=lambda: fork.wait(side))
    for k in (2, 3):
        x[...] = k
        g.launch()
        assert (device_place.get(y) == k * k).all()
    assert fork.record().query() in (True, False)


@pytest.mark.gpu
def test_events_order_other_work_on_a_gpu():
    """Work that numbacc does not see, by the driver alone: without the event the copy would be done first."""
    from gpu_work import Slow

    from numbacc.runtime import device

    slow, s, t = Slow(), numbacc.stream(), numbacc.stream(priority=-5)
    source, target = numbacc.zeros(1 << 20), numbacc.zeros(1 << 20)
    device.synchronize(0, 0)
    start = numbacc.event().record(s)
    slow(s, 20)
    device.fill(source._address, b"\0\0\x80\x3f", 1 << 20, 0, s.handle)
    filled = numbacc.event().record(s)
    assert not filled.query()
    filled.wait(t)
    device.copy_on_device(target._address, source._address, source.nbytes, 0, t.handle)
    end = numbacc.event().record(t)
    assert 0.1 < start.elapsed_time(filled) <= start.elapsed_time(end)
    assert filled.query() and (numbacc.asnumpy(target) == 1).all()


@pytest.mark.gpu
def test_a_high_priority_stream_overtakes():
    """A kernel with many blocks runs. Blocks of the stream with the higher priority start before its waiting blocks."""
    x, small = numbacc.full((1 << 14, 1 << 14), 1.0), numbacc.full((64, 64), 1.0)
    low, high = numbacc.stream(), numbacc.stream(priority=-5)
    outs = [numbacc.empty((1 << 14, 1 << 13)) for _ in range(2)]
    for stream in (low, high):
        gated.forward(x, out=outs[0], stream=stream), gated.forward(small, stream=stream)
    took = {}
    for name, stream in (("high", high), ("ordinary", numbacc.stream())):
        low.synchronize(), stream.synchronize()
        for k in range(8):
            gated.forward(x, out=outs[k % 2], stream=low)
        start = numbacc.event().record(stream)
        for _ in range(4):
            gated.forward(small, stream=stream)
        took[name] = start.elapsed_time(numbacc.event().record(stream))
    low.synchronize()
    print(took)
    assert took["high"] < 0.5 * took["ordinary"], took
