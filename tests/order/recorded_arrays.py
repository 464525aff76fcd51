"""Run by test_order.py with the driver replaced by a recorder: the short ways of everyday calls keep the order, too."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import recorder
from recorder import FAKE, Consumer, array, only, streams, work
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.runtime import foreign_owners, sharing

# ---------------------------------------------------------------- exports


@pytest.mark.parametrize("version", [(1, 0), None])
def test_an_export_says_what_the_array_is(version):
    """In every field of the structure, strides that go backward included."""
    for x in (array()[::-2, 1:6:2], numbacc.empty((), "complex64"), numbacc.empty((2, 0, 3), "int8"), array(device=1)):
        consumer = Consumer(x, 1, version)
        tensor = consumer.structure.tensor
        assert (tensor.data or 0) == (x._address if x.size else 0) and tensor.byte_offset == 0
        assert (tensor.device.device_type, tensor.device.device_id, tensor.ndim) == (2, x.device, x.ndim)
        assert tuple(tensor.shape[: x.ndim]) == x.shape
        assert tuple(step * x.dtype.itemsize for step in tensor.strides[: x.ndim]) == x.strides
        assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (
            {"f": 2, "c": 5, "i": 0}[x.dtype.kind], 8 * x.dtype.itemsize, 1,
        )  # fmt: skip
        if version:
            assert (consumer.structure.version.major, consumer.structure.version.minor) == (1, 0)
            assert consumer.structure.flags == 0
        consumer.drop()
    if version:
        consumer = Consumer(array().broadcast_to((2, 4, 8)), 1)
        assert consumer.structure.tensor.strides[0] == 0
        consumer.drop()


def test_exports_share_no_structure():
    x = array()
    one, other = Consumer(x, 1), Consumer(x[1:], 1)
    again = Consumer(x, 1)
    assert len({one.address, other.address, again.address}) == 3
    assert one.structure.tensor.data == again.structure.tensor.data == x._address
    for consumer in (one, other, again):
        consumer.drop()
    foreign_owners.collect()
    assert x._storage.partners == ()


def test_one_of_two_consumers_on_our_stream_lets_go(log):
    """The other one still shares the memory when it goes elsewhere."""
    (s,) = streams(1)
    default = SimpleNamespace(handle=0)
    x = array()
    one, other = Consumer(x, 1), Consumer(x, 1)
    one.drop()
    foreign_owners.collect()
    theirs = work(default, x)
    with s:
        x[...] = 2.0
    ours = log.named("fill")[-1]
    assert log.before(theirs, ours) and log.before(ours, work(default, x))
    other.drop()
    foreign_owners.collect()
    with s:
        x[...] = 3.0
        here = recorder.Log()
        x[...] = 4.0
    assert not here.named("record", "wait")


def test_a_captured_consumer_keeps_the_memory(log):
    """Also one on the array's own stream, for which nothing would have to be waited for."""
    (s,) = streams(1)
    x = array(s)
    alive = weakref.ref(x._storage)
    with numbacc.graph(s) as g:
        consumer = Consumer(x, s.handle)
        assert x._storage.partners == ()
    consumer.drop()
    del x
    foreign_owners.collect()
    gc.collect()
    assert alive() is not None
    del g
    recorder.settle()
    gc.collect()
    assert alive() is None


def test_threads_export_one_array():
    x = array()

    def each(k):
        for _ in range(200):
            consumer = Consumer(x, 1)
            assert consumer.structure.tensor.data == x._address
            consumer.drop()

    run_threads(each)
    foreign_owners.collect()
    assert x._storage.partners == () and x._storage.sole == 0


def test_what_others_were_given_of_borrowed_memory_keeps_its_owner(log):
    """Its library's stream is not known, that of whoever it was passed on to is: what is queued there is awaited."""

    class Owner:
        pass

    theirs, owner, x = numbacc.stream(), Owner(), array()
    alive = weakref.ref(owner)
    memory = sharing.borrow(owner, x._address, 0, 0, None, "x")
    memory.share(theirs.handle)
    last = work(theirs, x)
    FAKE.fake_pending(1)
    del memory, owner
    gc.collect()
    assert alive() is not None
    assert any(log.before(last, each) for each in log.named("record") if each.stream == theirs.handle)
    recorder.settle()
    gc.collect()
    assert alive() is None


# ---------------------------------------------------------------- new arrays


@pytest.mark.parametrize(
    "call", [lambda: numbacc.empty(900_000, "int8"), lambda: numbacc.asarray(np.ones(900_000, "i1"))]
)
def test_memory_that_is_short_makes_way(call):
    """What was asked for before is not what is there now."""
    kept = call()
    del kept
    numbacc.release_memory()
    held = numbacc.empty(900_000, "int8", stream=numbacc.stream())
    FAKE.fake_limit(FAKE.fake_used() + 1000)
    try:
        with pytest.raises(numbacc.DeviceError, match="out of memory"):
            call()
        del held
        assert call().size == 900_000
    finally:
        FAKE.fake_limit(1 << 30)


def test_new_arrays_in_a_capture_are_the_graphs():
    outside = numbacc.empty((4, 8))
    with numbacc.graph() as g:
        inside = numbacc.empty((4, 8))
        assert inside._storage.sole is None and inside._numbacc_layout is outside._numbacc_layout
    g.launch()
    assert numbacc.empty((4, 8))._storage.sole == 0


# ---------------------------------------------------------------- views and copies


def test_views_are_in_the_order_of_their_memory(log):
    s, t = streams(2)
    x = array()
    with s:
        x[:, :4][...] = 2.0
    with t:
        x.T[...] = 3.0
    numbacc.asnumpy(x.reshape(2, 16)[..., None])
    first, second, third = log.named("fill", "launch")
    assert log.before(first, second) and log.before(second, third) and log.before(third, log.named("copy out")[-1])


def test_values_have_come_when_they_are_returned(log):
    """Into memory of NumPy's own CUDA need not be asked whether it is pinned."""
    (s,) = streams(1)
    x = array()
    for copied in (x.copy_to_host, lambda: numbacc.asnumpy(x), lambda: x[0, 0], lambda: numbacc.asnumpy(x, stream=s)):
        here = recorder.Log()
        copied()
        out = only(here.named("copy out"))
        assert [call.stream for call in here.named("synchronize") if call.number > out.number] == [out.stream]
    out = np.empty((4, 8), np.float32)
    assert numbacc.asnumpy(x, out=out) is out and (out == 1.5).all()


def test_values_are_refused_inside_a_capture(log):
    """Whoever owns the memory they would be copied to; the capture goes on."""
    x, out = array(), np.empty((4, 8), np.float32)
    with numbacc.graph() as g:
        for call in (x.copy_to_host, x.item, lambda: numbacc.asnumpy(x, out=out), lambda: x[0, 0]):
            with pytest.raises(numbacc.Error):
                call()
        x[...] = 2.0
    assert not log.named("copy out")
    g.launch()
    assert only(log.named("launch graph"))


def test_host_arrays_that_a_graph_reads_are_kept():
    host, x = np.ones((4, 8), np.float32), array()
    alive = weakref.ref(host)
    with numbacc.graph() as g:
        x[...] = host
    del host
    gc.collect()
    assert alive() is not None
    del g
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "make", [np.asfortranarray, lambda a: a[::2], lambda a: a[:, ::-1], lambda a: a.astype("bool")]
)
def test_host_arrays_of_all_kinds_arrive(make):
    """Read-only, backward and Fortran's, whose addresses are found out another way."""
    host = make(np.arange(32, dtype=np.float32).reshape(4, 8))
    host.flags.writeable = False
    x = numbacc.asarray(host)
    np.testing.assert_array_equal(x.copy_to_host(), host)
    np.testing.assert_array_equal(numbacc.asarray(host.astype(ml_dtypes.bfloat16)).copy_to_host(), host)


# ---------------------------------------------------------------- showing


def test_arrays_of_another_device_are_shown(log):
    """Element by element where they lie apart: no kernel copies them."""
    for x, reads in ((array(device=1), 1), (array(device=1)[::2, ::2], 8)):
        seen = recorder.Log()
        text = x._repr_html_()
        assert "cuda:1" in text and "no values" not in text
        assert len(seen.named("copy out")) == reads and not seen.named("launch")
