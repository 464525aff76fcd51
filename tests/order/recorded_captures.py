"""Run by test_order.py with the driver replaced by a recorder: what graphs keep beside arrays, what captures forbid."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest
import recorder
from recorder import TheirStream, array, foreign_capture, only, settle
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import fft, gated
from numbacc.base.dispatch import runtime
from numbacc.runtime import graph_capture, launch, transfers


def test_a_graph_keeps_what_the_graphs_in_it_keep():
    host = np.ones((4, 8), np.float32)
    alive, x = weakref.ref(host), array()
    with numbacc.graph() as inner:
        x[...] = host
    with numbacc.graph() as outer:
        inner.launch()
    del inner, host
    gc.collect()
    assert alive() is not None, "it is read at every launch"
    del outer
    gc.collect()
    assert alive() is None


def test_a_graph_keeps_the_pinned_memory_that_it_writes(monkeypatch):
    monkeypatch.setattr(transfers, "_is_pinned", lambda address, device: True)
    host, x = np.empty((4, 8), np.float32), array()
    alive = weakref.ref(host)
    with numbacc.graph() as g:
        numbacc.asnumpy(x, out=host)
    del host
    gc.collect()
    assert alive() is not None
    g.launch()
    del g
    settle()
    gc.collect()
    assert alive() is None


def test_threads_launch_one_graph_one_by_one(log, monkeypatch):
    """As the driver wants it."""

    class Driver:
        launching = threading.Lock()

        def __getattr__(self, name):
            return getattr(driver, name)

        def cuGraphLaunch(self, graph, stream):
            assert self.launching.acquire(blocking=False), "another thread is at it"
            time.sleep(0.01)  # for that one to come
            driver.cuGraphLaunch(graph, stream)
            self.launching.release()

    driver, x = graph_capture.driver, array()
    with numbacc.graph() as g:
        gated.forward(x)
    monkeypatch.setattr(graph_capture, "driver", Driver())
    run_threads(lambda k: g.launch(), 4)
    assert len(log.named("launch graph")) == 4


def test_where_a_capture_forbids_to_ask_nothing_is_queued(log):
    """CUDA's default stream waits for the streams of others, and would draw in what is captured there."""
    theirs = TheirStream()
    x, y = array(), numbacc.empty((4, 4))
    gated.forward(x, out=y)
    with foreign_capture(theirs) as graph:
        with pytest.raises(numbacc.UnsupportedError, match="legacy default stream"):
            gated.forward(x, out=y)
        with pytest.raises(numbacc.UnsupportedError, match="legacy default stream"):
            numbacc.empty(3)
        del x
        assert runtime().is_capturing(theirs.handle), "the capture is not broken"
    graph["destroy"]()
    assert only(log.named("launch")).graph == 0
    assert not log.named("free")


@pytest.fixture
def loaded(monkeypatch):
    """The kernels that are loaded, none at first."""
    found: list[object] = []

    def load(spec, device):
        if spec not in found:
            found.append(spec)
        launch._loaded.add((spec, device))
        return 4096

    monkeypatch.setattr(launch, "load_function", load)
    monkeypatch.setattr(launch, "_loaded", set())
    return found


@pytest.mark.parametrize(
    "columns, start, others, is_transposed", [(4096, 1, 1, False), (4098, 3, 0, False), (64, 1, 1, True)]
)
def test_a_new_alignment_compiles_nothing_inside_a_capture(loaded, log, columns, start, others, is_transposed):
    """The kernel that is there is launched on it, element by element; outside the right one is made.

    That of uneven rows is right for every alignment.
    """
    gated.cache_clear()
    rows, dtype = (64, "float16") if is_transposed else (4, "float32")
    shape = (2 * columns, rows) if is_transposed else (rows, 2 * columns)
    base, y = numbacc.empty(rows * 2 * columns + start, dtype), numbacc.empty((rows, columns), dtype)
    x, moved = (base[k : rows * 2 * columns + k].reshape(shape) for k in (0, start))
    x, moved = (x.T, moved.T) if is_transposed else (x, moved)
    gated.forward(x, "glu", out=y)
    before = list(loaded)
    with numbacc.graph():
        gated.forward(moved, "glu", out=y)
    assert loaded == before
    assert [spec.algorithm for spec in loaded] == ["tiled" if is_transposed else "vector" if others else "uneven"]
    gated.forward(moved, "glu", out=y)
    assert len(loaded) == len(before) + others


def repacked(k, s):
    """What surrounds a transform, and is all of one of single points."""
    x, y = (numbacc.empty((1, 65), "complex64", stream=s)[:, k : 64 + k] for _ in range(2))
    return lambda: fft.fft(x, axis=0, out=y)


def drawn(k, s):
    """A draw into an array that starts anywhere."""
    out = numbacc.empty(203, "float32", stream=s)[k : 200 + k]
    generator = numbacc.random.Generator("philox", 1)
    return lambda: generator.random(out=out, stream=s)


def test_transforms_compile_nothing_inside_a_capture_either(loaded, log):
    s = numbacc.stream()
    fft.cache_clear()
    repacked(0, s)()
    (kernel,) = loaded
    assert kernel.needs_alignment
    other = repacked(1, s)
    log = recorder.Log()
    with numbacc.graph(s):
        other()
    assert loaded == [kernel] and all(call.graph for call in log.named("launch")) and log.named("launch")
    other()
    assert len(loaded) == 2, "outside the right one is made"


def test_draws_that_were_captured_before_compile_nothing_inside_a_capture(loaded):
    """Captured draws have kernels of their own, which read where they start."""
    s = numbacc.stream()
    numbacc.random.cache_clear()
    drawn(0, s)()
    with numbacc.graph(s):
        drawn(0, s)()
    outside, advance, kernel = loaded
    assert kernel.needs_alignment and (outside.positioned, kernel.positioned) == (False, True)
    other = drawn(1, s)
    log = recorder.Log()
    with numbacc.graph(s):
        other()
    assert loaded == [outside, advance, kernel]
    assert [bool(call.graph) for call in log.named("launch")] == [True, True]
    other()
    assert len(loaded) == 4, "outside the right one is made"
