"""Run by test_order.py with the driver replaced by a recorder: memory that other libraries use, too."""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace

import pytest
import recorder
from recorder import Consumer, TheirArray, TheirStream, array, foreign_capture, only, streams, work
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated


@pytest.fixture
def their_cupy(monkeypatch):
    """A CuPy that has a current stream, and nothing else."""
    cupy = SimpleNamespace(stream=TheirStream())
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: cupy.stream)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


# ---------------------------------------------------------------- ours


def test_what_a_consumer_queues_later_waits_for_our_work(log):
    s, theirs = streams(2)
    x = array()
    consumer = Consumer(x, theirs.handle)
    gated.forward(x, out=numbacc.empty((4, 4), stream=s), stream=s)
    assert log.before(only(log.named("launch")), work(theirs, x))
    consumer.drop()


def test_a_consumer_by_the_array_interface_waits_for_all_readers(log):
    """It is told of one stream, and may write."""
    s, home = streams(2)
    x = array(home)
    gated.forward(x, out=numbacc.empty((4, 4), stream=s), stream=s)
    assert x.__cuda_array_interface__["stream"] == home.handle
    assert log.before(only(log.named("launch")), work(home, x))


def test_current_streams_are_partners_of_what_the_array_interface_gave_out(log, their_cupy):
    (s,) = streams(1)
    x = array()
    assert x.__cuda_array_interface__["stream"] == 1
    theirs = work(their_cupy.stream, x)
    assert log.before(log.named("fill")[0], theirs)
    gated.forward(x, out=numbacc.empty((4, 4), stream=s), stream=s)
    assert log.before(theirs, only(log.named("launch")))
    assert log.before(only(log.named("launch")), work(their_cupy.stream, x))


def test_memory_is_freed_behind_the_work_of_its_partners(log, their_cupy):
    x = array()
    address = x.__cuda_array_interface__["data"][0]
    theirs = work(their_cupy.stream, x)
    del x
    assert log.before(theirs, only(call for call in log.named("free") if call.arguments[0] == address))


def test_a_consumer_on_its_threads_own_default_stream_is_refused(log):
    x = array()
    with pytest.raises(BufferError, match="per-thread"):
        x.__dlpack__(stream=2, max_version=(1, 0))
    gated.forward(x)
    assert not log.named("record", "wait")


@pytest.mark.parametrize("taken", [False, True])
def test_a_partners_stream_lives_as_long_as_the_memory(their_cupy, taken):
    """CuPy ends a stream that nobody holds, and each use of the memory waits for it."""
    x, theirs = array(), TheirArray(array())
    their_cupy.stream = TheirStream()
    alive = weakref.ref(their_cupy.stream)
    if taken:
        theirs.__cuda_array_interface__["stream"] = their_cupy.stream.handle
        x = numbacc.asarray(theirs)
    else:
        assert x.__cuda_array_interface__
    their_cupy.stream = TheirStream()
    gc.collect()
    assert alive() is not None
    del x
    gc.collect()
    assert alive() is None


# ---------------------------------------------------------------- theirs


def test_a_producer_on_its_threads_own_default_stream_is_refused():
    with pytest.raises(numbacc.UnsupportedError, match="per-thread"):
        gated.forward(TheirArray(array(), 2))


def test_a_producer_that_is_being_captured_is_refused(log):
    """Our work on another stream would not be part of its graph."""
    s, theirs = streams(2)
    x = TheirArray(array(), theirs.handle)
    with foreign_capture(theirs) as graph:
        with pytest.raises(numbacc.UnsupportedError, match="capturing"):
            gated.forward(x, stream=s)
        assert not log.named("launch")
        gated.forward(x, stream=theirs)
    graph["destroy"]()


def test_their_array_may_be_the_first_thing_that_a_thread_uses(log):
    """It has no context, without which the driver does not tell where an address is."""
    x = TheirArray(array(device=1), 1)
    run_threads(lambda k: gated.forward(x), 1)
    assert only(log.named("launch"))
