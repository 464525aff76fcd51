"""Run by test_order.py with the driver replaced by a recorder: torch's tensors as arguments."""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import recorder
from recorder import FAKE, array, foreign_capture, only, streams, work
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import fft, gated
from numbacc.arrays import operands
from numbacc.runtime.streams import torch_streams


class Device(NamedTuple):
    """A torch device."""

    type: str
    index: int


class Memory:
    """A torch storage: what keeps a tensor's memory."""

    def __init__(self, array):
        self.array = array


@pytest.fixture
def torch(monkeypatch):
    """A torch that has tensors of float32 on a GPU, and a current stream."""
    strided, current = object(), SimpleNamespace(handle=0)

    class Tensor:
        requires_grad, layout, dtype = False, strided, "torch.float32"
        is_nested = is_quantized = is_meta = False

        def __init__(self, array):
            self.memory, self.shape = Memory(array), array.shape

        def is_neg(self):
            return False

        is_conj = is_neg

        @property
        def device(self):
            return Device("cuda", self.memory.array.device)

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
    torch_streams.cache_clear()
    yield module
    torch_streams.cache_clear()


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
        ({"layout": "sparse", "stride": lambda self: 1 // 0}, "has the layout"),
        ({"data_ptr": lambda self: 0}, "no memory"),
        ({"data_ptr": lambda self: 4097}, "is no multiple|is not a multiple"),
        ({"device": property(lambda self: 1 // 0)}, "ZeroDivisionError"),
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
