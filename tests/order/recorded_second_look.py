"""Run by test_order.py with the driver replaced by a recorder: order and ownership where threads, captures and
finalizers meet."""

from __future__ import annotations

import ctypes
import gc
import struct
import weakref

import numpy as np
import pytest
import recorder
from foreign import OnlyDlpack
from recorder import FAKE, Consumer, array, settle, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated
from numbacc.base.dispatch import runtime
from numbacc.runtime import captures, foreign_owners, memory, memory_order, transfers

# ---------------------------------------------------------------- captures


def test_memory_dropped_in_a_broken_capture_is_freed_behind_it(log):
    s = numbacc.stream()
    x = array(s)
    address = x._address
    event = memory_order.DriverEvent(0)
    event.record(0)
    with pytest.raises(numbacc.UnsupportedError), numbacc.graph(s):
        FAKE.cuStreamWaitEvent(ctypes.c_void_p(s.handle), ctypes.c_void_p(event.handle), 0)
        del x
        with pytest.raises(numbacc.UnsupportedError, match="broken"):
            numbacc.empty(3)
        with pytest.raises(numbacc.UnsupportedError, match="broken"):
            gated.forward(array(0))
    numbacc.empty(3)
    assert address in [call.arguments[0] for call in log.named("free")]


def test_streams_of_one_capture_wait_for_each_other(log):
    """The graph is to order what its streams do with one array, as they would outside."""
    t = numbacc.stream()
    x = array()
    with numbacc.graph() as g:
        t.wait(g.stream)
        y = gated.forward(x)
        z = numbacc.empty((4, 2), stream=t)
        gated.forward(y, out=z, stream=t)
        x[...] = 2.0
        gated.forward(x, out=y, stream=t)
        g.stream.wait(t)
    first, second, third = log.named("launch")
    overwrite = log.named("fill")[-1]
    assert log.before(first, second)
    assert not log.before(second, overwrite), "that one reads another array"
    assert log.before(overwrite, third)
    g.launch()
    numbacc.asnumpy(z)


def test_memory_that_streams_of_one_capture_share_is_in_order(log):
    """A temporary's memory is given to another stream behind the work that used it."""
    t = numbacc.stream()
    with numbacc.graph() as g:
        t.wait(g.stream)
        temporary = numbacc.full((4, 8), 1.0)
        address = temporary._address
        del temporary
        again = numbacc.full((4, 8), 2.0, stream=t)
        assert again._address == address
        g.stream.wait(t)
    first, second = log.named("fill")
    assert log.before(first, second)


def test_a_stream_that_takes_part_in_a_capture_is_not_given_out_anew():
    with numbacc.graph() as g:
        t = numbacc.stream()
        t.wait(g.stream)
        g.stream.wait(t)
        handle = t.handle
        del t
        other = numbacc.stream()
        assert other.handle != handle
        assert not runtime().is_capturing(other.handle)
    del other
    assert handle in [s.handle for s in [numbacc.stream() for _ in range(40)]], "the graph is done with it"


def test_captures_may_begin_and_end_while_one_looks_at_all():
    class Ending:
        def __init__(self, number):
            self.number = number

        @property
        def active(self):
            captures.ended(self.number)
            return False

    for number in (1 << 40, 1 << 41):
        captures.begun(number, Ending(number))
    assert not captures.any_active()
    assert not captures._captures


# ---------------------------------------------------------------- what is kept, how long


def test_pinned_memory_is_kept_until_it_is_copied(monkeypatch):
    monkeypatch.setattr(transfers, "_is_pinned", lambda address, device: True)
    host = np.ones((4, 8), np.float32)
    alive = weakref.ref(host)
    x = numbacc.asarray(host)
    y = gated.forward(x)
    del host, x
    gc.collect()
    assert alive() is not None, "the copy, which y is made of, is still to be done"
    settle()
    gc.collect()
    assert alive() is None
    del y


def test_pinned_memory_is_not_kept_longer_than_that(monkeypatch):
    monkeypatch.setattr(transfers, "_is_pinned", lambda address, device: True)
    host = np.ones((4, 8), np.float32)
    alive = weakref.ref(host)
    x = numbacc.asarray(host)
    del host
    settle()
    gc.collect()
    assert alive() is None
    del x


def test_what_waits_for_the_gpu_does_not_pile_up(monkeypatch):
    """Nothing is allocated here, which would let go of it."""
    monkeypatch.setattr(transfers, "_is_pinned", lambda address, device: True)
    x, host = array(), np.empty((4, 8), np.float32)
    settle()
    FAKE.fake_pending(0)
    try:
        for _ in range(50):
            numbacc.asnumpy(x, out=host)
    finally:
        FAKE.fake_pending(1)
    assert len(memory._deferred) < 5


def test_exports_do_not_pile_up():
    s, t = streams(2)
    x = array()
    with s:
        for _ in range(30):
            give_back = Consumer(x, t.handle).drop
            gated.forward(x, out=numbacc.empty((4, 4)))
            give_back()
            foreign_owners.collect()
    assert len(x._storage._uses) <= 3


def test_foreign_memory_in_use_is_kept_through_a_capture(log):
    """Work that was queued on the stream before its capture still reads it."""
    s = numbacc.stream()
    foreign = OnlyDlpack(array())  # which does not tell its stream
    storage = numbacc.from_dlpack(foreign, stream=s)._storage
    owner = storage._owner
    alive = weakref.ref(owner)
    with numbacc.graph(s):
        del storage, owner, foreign
        gc.collect()
        assert alive() is not None
    settle()
    gc.collect()
    assert alive() is None


# ---------------------------------------------------------------- threads


def test_an_event_is_nobody_elses_while_it_is_waited_for(monkeypatch):
    """Else another thread may record it anew, and the wait is for another point."""
    s, t = streams(2)
    x = array()
    give_back = Consumer(x, t.handle).drop

    class Driver:
        def __getattr__(self, name):
            return getattr(driver, name)

        def cuStreamWaitEvent(self, stream, event, flags):
            assert event not in memory_order._idle[0]
            return driver.cuStreamWaitEvent(stream, event, flags)

    driver = memory_order.driver
    monkeypatch.setattr(memory_order, "driver", Driver())
    gated.forward(x, out=numbacc.empty((4, 4), stream=s), stream=s)
    give_back()


def test_a_read_that_another_threads_read_overtakes_is_waited_for(log):
    """A thread has seen that an array is its stream's own; before it queues its work, another one takes the array."""
    s, t = streams(2)
    x, out = array(s), numbacc.empty((4, 4), stream=t)
    with memory_order.using(s.handle, 0, reads=(x,)):
        gated.forward(x, out=out, stream=t)
        FAKE.cuMemsetD8Async(ctypes.c_uint64(out._address), 7, ctypes.c_size_t(4), ctypes.c_void_p(s.handle))
    late = log.named("fill")[-1]
    with t:
        x[...] = 3.0
    assert log.before(late, log.named("fill")[-1])


def test_an_export_that_a_read_overtakes_has_its_partner(log, monkeypatch):
    """Another thread reads on the home stream while the consumer's waits are queued: that must not be its own again."""
    (t,) = streams(1)
    x, y = array(), numbacc.empty((4, 4))
    before = memory_order.History.before

    def overtaken(self, stream, writes):
        waited = before(self, stream, writes)
        if stream == t.handle:
            monkeypatch.setattr(memory_order.History, "before", before)
            gated.forward(x, out=y)
        return waited

    monkeypatch.setattr(memory_order.History, "before", overtaken)
    give_back = Consumer(x, t.handle).drop
    FAKE.cuMemsetD8Async(ctypes.c_uint64(x._address), 7, ctypes.c_size_t(4), ctypes.c_void_p(t.handle))
    theirs = log.named("fill")[-1]
    gated.forward(x, out=y)
    assert log.before(theirs, log.named("launch")[-1])
    give_back()


def test_launchers_keep_what_threads_make_of_them_at_once():
    """Two threads that both find no template make one each, and both are used."""
    x = array()
    with numbacc.graph():
        gated.forward(x)
    launcher = gated.forward.plan(x).last.launcher
    calls = [launcher.launch_unchecked]
    del launcher.__dict__["launch_unchecked"]
    calls.append(launcher.launch_unchecked)
    del launcher
    gc.collect()
    # What a call reads is what it keeps.
    kept = [call.__module__[0] for call in calls]
    assert [struct.unpack("<2Q", call.__self__)[1] for call in calls] == [ctypes.addressof(each) for each in kept]
    assert kept[0] is not kept[1]


def test_what_cannot_be_freed_fails_no_allocation_of_others():
    """A raw stream that its owner has ended: the memory is lost, as where it is dropped at once."""
    s = numbacc.stream()
    x = array(s)
    FAKE.cuStreamBeginCapture_v2(ctypes.c_void_p(s.handle), 0)
    del x
    (deferred,) = memory._deferred
    graph = ctypes.c_void_p()
    FAKE.cuStreamEndCapture(ctypes.c_void_p(s.handle), ctypes.byref(graph))
    FAKE.cuGraphDestroy(graph)
    deferred._address += 1  # what the driver refuses to free
    assert numbacc.empty(3).size == 3
    assert not memory._deferred
