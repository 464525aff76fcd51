"""Run by test_order.py with the driver replaced by a recorder: the short ways of everyday calls keep the order, too."""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import recorder
from recorder import FAKE, Consumer, array, foreign_capture, only, streams, work
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import fft, gated
from numbacc.arrays import operands
from numbacc.device import lent, partners

# ---------------------------------------------------------------- torch's tensors


class Memory:
    """A torch storage: what keeps a tensor's memory."""

    def __init__(self, array):
        self.array = array


@pytest.fixture
def torch(monkeypatch):
    """A torch that has tensors of float32 on a GPU, and a current stream."""
    strided, current = object(), SimpleNamespace(handle=0)

    class Tensor:
        requires_grad, is_cuda, layout, dtype = False, True, strided, "torch.float32"
        is_nested = is_quantized = is_meta = False

        def __init__(self, array):
            self.memory, self.shape = Memory(array), array.shape

        def is_neg(self):
            return False

        is_conj = is_neg

        def get_device(self):
            return self.memory.array.device

        def stride(self):
            return tuple(step // 4 for step in self.memory.array.strides)

        def untyped_storage(self):
            return self.memory

        def data_ptr(self):
            return self.memory.array._address

    Tensor.__module__ = "torch"
    module = SimpleNamespace(
        Tensor=Tensor,
        nn=SimpleNamespace(Parameter=Tensor),
        strided=strided,
        is_grad_enabled=lambda: True,
        current=current,
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: current.handle),
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    partners.torch_streams.cache_clear()
    yield module
    partners.torch_streams.cache_clear()


def test_tensors_on_the_default_stream_wait_for_nothing(torch, log):
    tensor = torch.Tensor(array())
    for _ in range(3):
        gated.forward(tensor)
    assert len(log.named("launch")) == 3 and not log.named("record", "wait")


def test_our_stream_and_torchs_wait_for_each_other(torch, log):
    (s,) = streams(1)
    theirs = numbacc.stream()
    torch.current.handle = theirs.handle
    tensor = torch.Tensor(array())
    first = work(theirs, tensor.memory.array)
    gated.forward(tensor, stream=s)
    last = work(theirs, tensor.memory.array)
    launched = only(log.named("launch"))
    assert log.before(first, launched) and log.before(launched, last)


def test_torchs_current_stream_is_that_of_the_call(torch, log):
    """It is asked for anew each time, also of a tensor that was seen before."""
    tensor, made = torch.Tensor(array()), streams(2)
    for theirs in made:
        torch.current.handle = theirs.handle
        here = recorder.Log()
        first = work(theirs, tensor.memory.array)
        gated.forward(tensor)
        assert here.before(first, only(here.named("launch")))


def test_a_tensor_given_as_out_is_waited_for_by_torch(torch, log):
    (s,) = streams(1)
    out = torch.Tensor(numbacc.empty((4, 4)))
    assert gated.forward(array(), out=out, stream=s) is out
    launched = only(log.named("launch"))
    assert log.before(launched, work(SimpleNamespace(handle=0), out.memory.array))


def test_an_array_keeps_the_memory_that_it_was_taken_with(torch):
    """A tensor may be dropped, and given other memory: `t.data = ...`."""
    tensor = torch.Tensor(array())
    address, alive = tensor.data_ptr(), weakref.ref(tensor.memory)
    x = operands.as_array(tensor, "x", 0)
    tensor.memory = Memory(array())
    del tensor
    gc.collect()
    assert alive() is not None and x._address == address
    del x
    gc.collect()
    assert alive() is None


def test_a_tensor_that_was_given_other_memory_is_taken_anew(torch, log):
    tensor = torch.Tensor(array())
    gated.forward(tensor)
    tensor.memory = Memory(array())
    gated.forward(tensor)
    first, second = log.named("launch")
    assert first.arguments[0] != second.arguments[0] == tensor.data_ptr()


def test_a_graph_keeps_the_memory_of_tensors(torch, log):
    tensor = torch.Tensor(array())
    alive = weakref.ref(tensor.memory)
    with numbacc.graph() as g:
        gated.forward(tensor)
    del tensor
    gc.collect()
    assert alive() is not None
    g.launch()
    del g
    FAKE.fake_pending(0)
    numbacc.empty(3)
    FAKE.fake_pending(1)
    gc.collect()
    assert alive() is None


def test_a_tensor_of_a_stream_that_is_captured_is_refused(torch, log):
    (s,) = streams(1)
    theirs = numbacc.stream()
    torch.current.handle = theirs.handle
    tensor = torch.Tensor(array())
    with foreign_capture(theirs) as graph, pytest.raises(numbacc.UnsupportedError, match="capturing"):
        gated.forward(tensor, stream=s)
    graph["destroy"]()


@pytest.mark.parametrize(
    "attributes, match",
    [
        ({"requires_grad": True}, "requires gradients"),
        ({"is_neg": lambda self: True}, "is negated"),
        ({"is_conj": lambda self: True}, "is conjugated"),
        ({"layout": "sparse"}, "has the layout"),
        ({"data_ptr": lambda self: 0}, "no memory"),
        ({"data_ptr": lambda self: 4097}, "is no multiple|is not a multiple"),
        ({"get_device": lambda self: 1 // 0}, "ZeroDivisionError"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_each_tensor_is_looked_at_also_by_the_short_way(torch, monkeypatch, attributes, match):
    """Which a class of tensors is taken by once one of them was taken."""
    gated.forward(torch.Tensor(array()))
    assert operands.importers[torch.Tensor] is not None
    for name, value in attributes.items():
        monkeypatch.setattr(torch.Tensor, name, value)
    for given in ({}, {"out": numbacc.empty((4, 4))}):
        with pytest.raises(numbacc.Error, match=match):
            gated.forward(torch.Tensor(array()), **given)
    with pytest.raises(numbacc.Error, match=match):
        fft.fft(torch.Tensor(array()))


def test_arguments_beside_a_tensor_are_named_as_ever(torch):
    tensor = torch.Tensor(array())
    gated.forward(tensor)
    with pytest.raises(numbacc.DTypeError, match="dy is a list"):
        gated.backward([1.0], tensor)
    with pytest.raises(numbacc.DTypeError, match="out is a str"):
        gated.forward(tensor, out="y")
    with pytest.raises(numbacc.ShapeError, match="out must be one array"):
        gated.forward(tensor, out=(tensor, tensor))


def test_torchs_per_thread_stream_is_refused(torch):
    torch.current.handle = 2
    with pytest.raises(numbacc.UnsupportedError, match="per-thread"):
        gated.forward(torch.Tensor(array()))


def test_threads_take_one_tensor(torch):
    tensor = torch.Tensor(array())
    log = recorder.Log()

    def each(k):
        with numbacc.stream():
            for _ in range(20):
                gated.forward(tensor)

    run_threads(each)
    last = work(SimpleNamespace(handle=0), tensor.memory.array)
    past = log._past(last)
    assert all(call.number in past for call in log.named("launch"))


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
    lent.collect()
    assert x._storage.partners == ()


def test_one_of_two_consumers_on_our_stream_lets_go(log):
    """The other one still shares the memory when it goes elsewhere."""
    (s,) = streams(1)
    default = SimpleNamespace(handle=0)
    x = array()
    one, other = Consumer(x, 1), Consumer(x, 1)
    one.drop()
    lent.collect()
    theirs = work(default, x)
    with s:
        x[...] = 2.0
    ours = log.named("fill")[-1]
    assert log.before(theirs, ours) and log.before(ours, work(default, x))
    other.drop()
    lent.collect()
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
    lent.collect()
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
    lent.collect()
    assert x._storage.partners == () and x._storage.sole == 0


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
