"""Run by test_order.py with the driver replaced by a recorder: what graphs keep, wait for and let go of."""

from __future__ import annotations

import gc
import itertools
import pickle
import weakref

import numpy as np
import pytest
import recorder
from recorder import array, foreign_capture, settle

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated
from numbacc.runtime import captures, foreign_owners, memory


@pytest.fixture(autouse=True)
def no_capture_is_left():
    yield
    gc.collect()
    foreign_owners.collect()
    assert not captures._captures, "a capture was left behind"


def freed(log):
    return [call.arguments[0] for call in log.named("free")]


def test_what_is_called_inside_is_captured(log):
    x = array()
    with numbacc.graph() as g:
        gated.forward(x)
    (launched,) = log.named("launch")
    assert launched.stream == g.stream.handle and launched.graph
    assert not [call for call in log.named("allocate", "free", "record", "wait") if call.graph]
    for _ in range(10):
        g.launch()
    assert len(log.named("launch graph")) == 10


def test_what_a_capture_uses_lives_as_long_as_the_graph(log):
    x = array()
    address = x._address
    with numbacc.graph() as g:
        y = gated.forward(x)
        z = gated.forward(gated.forward(x))
    out, inner = y._address, z._address
    del x, y, z
    gc.collect()
    g.launch()
    assert not {address, out, inner} & set(freed(log))
    del g
    gc.collect()
    settle()
    assert {address, out, inner} <= set(freed(log))
    (launched,) = log.named("launch graph")
    for call in log.named("free"):
        if call.arguments[0] in (address, out, inner):
            assert log.before(launched, call)


def test_results_outlive_the_graph(log):
    x = array()
    with numbacc.graph() as g:
        y = gated.forward(x)
    g.launch()
    address = y._address
    del g, x
    gc.collect()
    assert address not in freed(log)
    numbacc.asnumpy(y)
    del y
    gc.collect()
    settle()
    assert address in freed(log)


def test_temporaries_of_a_capture_share_memory(log):
    x = array()
    with numbacc.graph() as g:
        y = gated.forward(x)
        for _ in range(20):
            y = gated.forward(numbacc.full((4, 8), 2.0))
    assert len({call.arguments[0] for call in log.named("allocate")}) < 8
    assert y._address not in freed(log)
    g.launch()


def test_a_dropped_temporary_does_not_fail_later_allocations(log):
    with numbacc.graph() as g:
        temporary = numbacc.empty(1000)
        temporary[...] = 1.0
        del temporary
    for _ in range(5):
        numbacc.empty(1000)
    g.launch()
    assert not log.named("free of what is not allocated")


def test_launches_are_in_the_order_of_inputs_and_results(log):
    s, t, u = (numbacc.stream() for _ in range(3))
    x = array()
    with numbacc.graph() as g:
        y = gated.forward(x)
    with s:
        x[...] = 2.0
    fill = log.named("fill")[-1]
    g.launch(t)
    (first,) = log.named("launch graph")
    assert log.before(fill, first)
    numbacc.asnumpy(y, stream=u)
    copied = log.named("copy out")[-1]
    assert log.before(first, copied)
    with s:
        x[...] = 3.0
    assert log.before(first, log.named("fill")[-1])
    g.launch(s)
    second = log.named("launch graph")[-1]
    assert log.before(copied, second) and log.before(log.named("fill")[-1], second)


@pytest.mark.parametrize("given", [False, True])
def test_arrays_of_the_captured_stream_are_kept_too(log, given):
    """Work on them takes the shortest way, which must not pass the graph by."""
    s = numbacc.stream()
    x, y = array(s), numbacc.empty((4, 4), stream=s)
    for _ in range(2):
        gated.forward(x, out=y, stream=s)
    addresses = {x._address, y._address}
    with numbacc.graph(s) as g:
        gated.forward(x, out=y, stream=s if given else None)
    del x, y
    gc.collect()
    assert not addresses & set(freed(log))
    g.launch()
    del g
    gc.collect()
    settle()
    assert addresses <= set(freed(log))


def test_host_memory_that_is_copied_is_kept():
    host = np.ones((4, 8), np.float32)
    alive = weakref.ref(host)
    x = array()
    with numbacc.graph() as g:
        x[...] = host
    del host
    gc.collect()
    assert alive() is not None
    g.launch()
    del g, x
    gc.collect()
    settle()
    assert alive() is None


#: What the message must name -> the call.
REFUSED = {
    "asnumpy": lambda x, s: numbacc.asnumpy(x),
    "reading an element": lambda x, s: x[0, 0],
    "item()": lambda x, s: float(x[:1, :1]),
    "copy_to_host()": lambda x, s: x.copy_to_host(),
    "pickling": lambda x, s: pickle.dumps(x),
    "asarray": lambda x, s: numbacc.asarray(x, device="cpu"),
    "synchronize()": lambda x, s: s.synchronize(),
    "one number": lambda x, s: numbacc.random.Generator(1).random(stream=s),
    "release_memory": lambda x, s: numbacc.release_memory(),
    "wait": lambda x, s: s.wait(0),
    "is being captured": lambda x, s: numbacc.graph(s).__enter__(),
}


@pytest.mark.parametrize("named, call", REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_captured_is_refused_in_words(log, named, call):
    x = array()
    with numbacc.graph() as g:
        y = gated.forward(x)
        with pytest.raises(numbacc.UnsupportedError) as caught:
            call(y, g.stream)
        assert named in str(caught.value) and len(str(caught.value)) > 40
        assert "DeviceArray" in repr(y)
    g.launch()
    numbacc.asnumpy(y)


def test_showing_arrays_adds_nothing_to_a_capture():
    x = array()
    with numbacc.graph() as g:
        y = gated.forward(x)
        log = recorder.Log()
        for each in (x, y, x.T[::2], x[::2, ::2]):
            assert repr(each) == f"DeviceArray(shape={each.shape}, dtype=float32, device=cuda:0)"
            assert "after g.launch()" in each._repr_html_()
        assert not log.calls
    g.launch()


def test_results_are_not_used_outside_while_the_capture_goes_on():
    s, x = numbacc.stream(), array()
    with numbacc.graph() as g:
        y = gated.forward(x)
        with pytest.raises(numbacc.UnsupportedError, match="capture"):
            numbacc.asnumpy(y, stream=s)
        with pytest.raises(numbacc.UnsupportedError, match="capture"):
            y.__dlpack__(stream=s.handle, max_version=(1, 0))
    g.launch()
    numbacc.asnumpy(y, stream=s)


def test_an_error_inside_ends_the_capture(log):
    x = array()
    g = numbacc.graph()
    with pytest.raises(ZeroDivisionError), g:
        gated.forward(x)
        _ = 1 / 0
    with pytest.raises(numbacc.OptionError, match="broken"):
        g.launch()
    with pytest.raises(numbacc.OptionError):
        g.__enter__()
    assert gated.forward(x).shape == (4, 4)


def test_only_captured_graphs_are_launched():
    g = numbacc.graph()
    with pytest.raises(numbacc.OptionError, match="new"):
        g.launch()
    with pytest.raises(numbacc.OptionError, match="legacy"):
        numbacc.graph(0)


def test_a_graph_in_a_graph(log):
    x = array()
    with numbacc.graph() as inner:
        y = gated.forward(x)
    with numbacc.graph() as outer:
        inner.launch()
        z = gated.forward(y)
    address = y._address
    del inner, y, x
    gc.collect()
    assert address not in freed(log)
    outer.launch()
    numbacc.asnumpy(z)
    (launched,) = [call for call in log.named("launch graph") if not call.graph]
    assert log.before(launched, log.named("copy out")[-1])


def test_work_before_the_capture_is_waited_for(log):
    """An array whose stream is being captured now is used on another one."""
    s, t = numbacc.stream(), numbacc.stream()
    x = array(s)
    with numbacc.graph(s):
        numbacc.asnumpy(x, stream=t)
    assert log.before(log.named("fill")[0], log.named("copy out")[-1])


@pytest.mark.parametrize("order", list(itertools.permutations("gxyi")), ids="".join)
def test_things_are_dropped_in_any_order(log, order):
    things = {"x": array(), "i": numbacc.asarray(np.ones((4, 8), np.float32))}
    with numbacc.graph() as things["g"]:
        things["y"] = gated.forward(things["x"])
        gated.forward(things["i"], out=things["y"])
    things["g"].launch()
    for name in order:
        del things[name]
        gc.collect()
        numbacc.empty(64)
    settle()
    assert not log.named("free of what is not allocated")
    assert not memory._deferred


def test_branches_of_a_graph_are_in_order(log):
    """Memory that one captured stream has left, or written, is waited for by the other."""
    x, side = array(), numbacc.stream()
    with numbacc.graph() as g:
        side.wait(g.stream)
        a = gated.forward(x, stream=side)
        first = a._address
        del a
        b = gated.forward(x)
        c = gated.forward(b[:, :2], stream=side)
        g.stream.wait(side)
    one, two, three = log.named("launch")
    assert {call.graph for call in (one, two, three)} == {one.graph} and one.graph
    assert b._address != first or log.before(one, two)
    assert log.before(two, three)
    assert c._address not in (b._address, x._address)
    with numbacc.graph():
        pass


def test_branches_that_share_nothing_run_beside_each_other(log):
    x, side = array(), numbacc.stream()
    ys = [numbacc.empty((4, 4)) for _ in range(2)]
    with numbacc.graph() as g:
        side.wait(g.stream)
        gated.forward(x, out=ys[0], stream=side)
        gated.forward(x, out=ys[1])
        g.stream.wait(side)
    one, two = log.named("launch")
    assert not log.before(one, two) and not log.before(two, one)


def test_host_arrays_of_one_element_are_read_at_every_launch(log):
    host, x = np.ones(1, np.float32), numbacc.empty((2, 3))
    with numbacc.graph():
        x[...] = host
    assert [call.arguments[1] for call in log.named("copy in")] == [host.ctypes.data]


# ---------------------------------------------------------------- captures begun otherwise


def test_a_capture_of_others_keeps_what_it_uses(log):
    s = numbacc.stream()
    x, y = array(), numbacc.empty((4, 4))
    with foreign_capture(s) as graph:
        gated.forward(x, out=y, stream=s)
        z = gated.forward(y[:, :2], stream=s)
    addresses = {x._address, y._address, z._address}
    del x, y, z
    gc.collect()
    numbacc.empty(3)
    assert not addresses & set(freed(log))
    graph["destroy"]()
    foreign_owners.collect()
    gc.collect()
    numbacc.empty(3)
    assert addresses <= set(freed(log))


def test_what_was_queued_before_others_captured_is_refused_in_words():
    s = numbacc.stream()
    x = array(s)
    with foreign_capture(s) as graph, pytest.raises(numbacc.UnsupportedError, match="captured"):
        numbacc.asnumpy(x, stream=0)
    graph["destroy"]()
