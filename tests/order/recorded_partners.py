"""Run by test_order.py with the driver replaced by a recorder: what we write stays shared with others' libraries."""

from __future__ import annotations

import pytest
import recorder
from recorder import Consumer, array, foreign_capture, only, settle, streams, work

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated


def test_what_a_consumer_queues_after_our_write_is_waited_for(log):
    """A write that has waited for everything does not make memory ours alone again."""
    s, theirs = streams(2)
    x = array(s)
    consumer = Consumer(x, theirs.handle)
    with s:
        x[...] = 3.0
    later = work(theirs, x)
    gated.forward(x, out=numbacc.empty((4, 4), stream=s), stream=s)
    assert log.before(later, only(log.named("launch")))
    consumer.drop()


def test_memory_is_ours_alone_again_when_its_consumer_is_gone(log):
    """The last thing that the other library queued is waited for once, and then nothing is."""
    s, theirs = streams(2)
    x = array(s)
    consumer = Consumer(x, theirs.handle)
    last = work(theirs, x)
    consumer.drop()
    out = numbacc.empty((4, 8), stream=s)
    with s:
        gated.backward(numbacc.empty((4, 4)), x, out=x)
        assert log.before(last, only(log.named("launch")))
        seen = recorder.Log()
        gated.backward(numbacc.empty((4, 4)), x, out=out)
    assert only(seen.named("launch")) and not seen.named("record", "wait")


def test_memory_whose_consumer_captures_is_freed_when_that_has_ended(log):
    """Its stream can be waited for no sooner, and the free must not become part of the graph."""
    s, theirs = streams(2)
    x = array(s)
    consumer, address = Consumer(x, theirs.handle), x._address
    with foreign_capture(theirs) as graph:
        del x
        consumer.drop()
        numbacc.empty(3)  # which lets go of what was given back
        assert address not in [call.arguments[0] for call in log.named("free")]
    settle()
    assert address in [call.arguments[0] for call in log.named("free")]
    graph["destroy"]()
