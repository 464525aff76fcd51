"""Run by test_order.py with the driver replaced by a recorder: who waits for what, and what is freed when."""

from __future__ import annotations

import ctypes
import gc

import pytest
import recorder
from recorder import FAKE, Consumer, array, only, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated
from numbacc.runtime import foreign_owners

# ---------------------------------------------------------------- order


def test_what_stays_on_its_stream_waits_for_nothing(log):
    x = array()
    for _ in range(3):
        y = gated.forward(x)
        gated.backward(y, x, out=x)
    del x, y
    assert not log.named("record", "wait")


@pytest.mark.parametrize("home", [None, "own"])
def test_a_result_written_elsewhere_is_waited_for(log, home):
    (s,) = streams(1)
    x = array()
    y = numbacc.empty((4, 4), stream=numbacc.stream() if home else None)
    gated.forward(x, out=y, stream=s)
    numbacc.asnumpy(y)
    assert log.before(only(log.named("launch")), only(log.named("copy out")))


def test_every_pair_of_streams(log):
    """Writer and reader on the home stream, the default one, and others: whoever is next waits."""
    made = streams(3)
    for home in (None, *made):
        for writer in (None, *made):
            for reader in (None, *made):
                here = recorder.Log()
                x, y = array(stream=home), numbacc.empty((4, 4), stream=home)
                gated.forward(x, out=y, stream=writer)
                numbacc.asnumpy(y, stream=reader)
                x[...] = 2.0
                fill, overwrite = here.named("fill")[0], here.named("fill")[-1]
                launched, copied = only(here.named("launch")), only(here.named("copy out"))
                assert here.before(fill, launched)
                assert here.before(launched, copied)
                assert here.before(launched, overwrite)
                del x, y
                freed = here.named("free")
                assert len(freed) == 2
                for free in freed:
                    assert (here.before(launched, free) and here.before(copied, free)) or free.arguments[1] == 128
                    assert here.before(launched, free)


def test_an_overwrite_waits_for_readers(log):
    s, t = streams(2)
    x, y, z = array(), numbacc.empty((4, 4), stream=s), numbacc.empty((4, 4), stream=t)
    gated.forward(x, out=y, stream=s)
    gated.forward(x, out=z, stream=t)
    x[...] = 3.0
    first, second = log.named("launch")
    overwrite = log.named("fill")[-1]
    assert log.before(first, overwrite) and log.before(second, overwrite)


def test_reads_run_beside_reads(log):
    s, t = streams(2)
    x, y, z = array(), numbacc.empty((4, 4), stream=s), numbacc.empty((4, 4), stream=t)
    gated.forward(x, out=y, stream=s)
    gated.forward(x, out=z, stream=t)
    gated.forward(x, out=numbacc.empty((4, 4)))
    first, second, third = log.named("launch")
    for one, other in ((first, second), (second, first), (first, third), (second, third)):
        assert not log.before(one, other)


def test_a_write_makes_a_stream_the_arrays_own():
    (s,) = streams(1)
    x, y = array(), numbacc.empty((4, 4))
    with s:
        x[...] = 1.0
        y[...] = 1.0
        log = recorder.Log()
        for _ in range(3):
            gated.forward(x, out=y)
    assert not log.named("record", "wait")
    del x, y
    assert {call.stream for call in log.named("free")} == {s.handle}


def test_a_reader_that_is_done_is_forgotten():
    (s,) = streams(1)
    x = array()
    gated.forward(x, out=numbacc.empty((4, 4), stream=s), stream=s)
    y = gated.forward(x)
    assert x._storage.sole is None
    FAKE.fake_pending(0)
    try:
        gated.forward(x, out=y)
        assert x._storage.sole == 0
        log = recorder.Log()
        gated.forward(x, out=y)
        assert not log.named("record", "wait")
    finally:
        FAKE.fake_pending(1)


def test_memory_is_freed_behind_all_who_read_it(log):
    made = streams(3)
    x = array()
    outs = [numbacc.empty((4, 4), stream=s) for s in made]
    for s, out in zip(made, outs, strict=True):
        gated.forward(x, out=out, stream=s)
    address = x._address
    del x
    free = only([call for call in log.named("free") if call.arguments[0] == address])
    for launched in log.named("launch"):
        assert log.before(launched, free)


def test_a_failed_call_leaves_the_order(log):
    (s,) = streams(1)
    x = array()
    x[0, 0] = 2.0
    with pytest.raises(numbacc.Error):
        gated.forward(x, out=x[:, 2:6], stream=s)
    numbacc.asnumpy(x)
    x[...] = 5.0
    assert (numbacc.asnumpy(x) == 5).all()


# ---------------------------------------------------------------- other libraries


@pytest.mark.parametrize("version", [(1, 0), None])
def test_a_consumer_waits_and_is_waited_for(log, version):
    s, theirs = streams(2)
    x = array()
    y = numbacc.empty((4, 4))
    gated.forward(x, out=y, stream=s)
    consumer = Consumer(y, theirs.handle, version)
    FAKE.cuMemsetD8Async(ctypes.c_uint64(y._address), 7, ctypes.c_size_t(4), ctypes.c_void_p(theirs.handle))
    use = log.named("fill")[-1]
    assert log.before(only(log.named("launch")), use)
    numbacc.asnumpy(y)
    assert log.before(use, log.named("copy out")[-1]), "our work waits for the consumer's"
    FAKE.cuMemsetD8Async(ctypes.c_uint64(y._address), 8, ctypes.c_size_t(4), ctypes.c_void_p(theirs.handle))
    last = log.named("fill")[-1]
    assert log.before(log.named("copy out")[-1], last), "the consumer's work waits for ours"
    address = y._address
    del y
    gc.collect()
    assert address not in [call.arguments[0] for call in log.named("free")]
    consumer.drop()
    foreign_owners.collect()
    free = only([call for call in log.named("free") if call.arguments[0] == address])
    assert log.before(last, free)


def test_a_capsule_that_nobody_takes_frees_its_memory(log):
    x = array()
    address = x._address
    capsule = x.__dlpack__(stream=1, max_version=(1, 0))
    del x, capsule
    foreign_owners.collect()
    assert address in [call.arguments[0] for call in log.named("free")]


def test_consumers_on_our_own_stream_cost_nothing(log):
    x = array()
    consumers = [Consumer(x, 1) for _ in range(3)]
    y = gated.forward(x)
    gated.backward(y, x, out=x)
    for consumer in consumers:
        consumer.drop()
    foreign_owners.collect()
    gated.forward(x, out=y)
    assert not log.named("record", "wait")
