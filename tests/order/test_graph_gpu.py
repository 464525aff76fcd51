"""CUDA graphs on a real GPU: what a capture allocates, uses or drops is right at every replay."""

from __future__ import annotations

import gc
import itertools
import threading

import numpy as np
import pytest
from gpu_work import WORK, Slow, draw, poison
from graph_work import COLUMNS, ROWS, assert_usable, direct, normal

import numbacc
from numbacc import fft, gated, gemm, random
from numbacc.runtime import device

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def slow():
    return Slow()


@pytest.mark.parametrize("out", ["allocated", "given"])
@pytest.mark.parametrize("name", WORK)
def test_every_family_is_replayed_with_new_inputs(slow, name, out):
    x = numbacc.asarray(normal(ROWS, COLUMNS))
    like = direct(name, normal(ROWS, COLUMNS))
    given = numbacc.empty(like.shape, like.dtype) if out == "given" else None
    with numbacc.graph() as g:
        y = WORK[name](x, given, None)
    streams = [None, numbacc.stream(), numbacc.stream()]
    for k in range(10):
        host = normal(ROWS, COLUMNS)
        with numbacc.stream(streams[k % 3] or 0):
            slow(streams[k % 3], 3)
            x[...] = host
        poison(y)
        g.launch(streams[(k + 1) % 3])
        np.testing.assert_array_equal(numbacc.asnumpy(y, stream=streams[(k + 2) % 3]), direct(name, host))


def test_a_chain_with_temporaries(slow):
    x, w = numbacc.asarray(normal(64, 128)), numbacc.asarray(normal(64, 32))

    def step(x, w):
        h = gated.forward(x)
        h = gemm.matmul(h, w, epilogue="gelu_bias", bias=w[0])
        f = fft.rfft(h, norm="ortho")
        back = fft.irfft(f, 32, norm="ortho")
        return gemm.matmul(back, w.T), h

    step(x, w)
    with numbacc.graph() as g:
        y, h = step(x, w)
    for _ in range(10):
        hosts = normal(64, 128), normal(64, 32)
        x[...], w[...] = hosts
        g.launch()
        trash = [numbacc.full((64, 128), np.nan) for _ in range(8)]
        want = step(*map(numbacc.asarray, hosts))
        np.testing.assert_array_equal(numbacc.asnumpy(y), numbacc.asnumpy(want[0]))
        np.testing.assert_array_equal(numbacc.asnumpy(h), numbacc.asnumpy(want[1]))
        del trash


def test_a_planned_transform_without_out_is_launched_again():
    x = numbacc.asarray(normal(8, 1000).astype(np.complex64))
    plan = fft.fft.plan(x)
    s = numbacc.stream()
    with numbacc.graph(s) as g:
        y = plan(x, stream=s)
    for _ in range(5):
        host = normal(8, 1000).astype(np.complex64)
        x[...] = host
        g.launch()
        np.testing.assert_allclose(numbacc.asnumpy(y), np.fft.fft(host), rtol=1e-3, atol=1e-3)


def test_plans_are_made_inside_a_capture():
    """Compiling, loading, handles and plans of libraries: all at their first use, inside."""
    gated.cache_clear(), gemm.cache_clear(), fft.cache_clear()
    result = []

    def work():
        x = numbacc.asarray(normal(24, 2 * 73))
        with numbacc.graph() as g:
            y = gemm.matmul(gated.forward(x, "geglu_tanh"), numbacc.full((73, 5), 0.5))
            z = fft.fft(y, 7)
        g.launch()
        result.append((numbacc.asnumpy(x), numbacc.asnumpy(y), numbacc.asnumpy(z)))

    thread = threading.Thread(target=work)  # whose library handles are new
    thread.start()
    thread.join()
    x, y, z = result[0]
    want = gated.forward(x, "geglu_tanh") @ np.full((73, 5), 0.5, np.float32)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(z, np.fft.fft(want, 7), rtol=1e-3, atol=1e-3)


def test_plans_used_by_a_graph_survive_their_cache(slow):
    x = numbacc.asarray(normal(16, 12000).astype(np.complex64))
    with numbacc.graph() as g:
        y = fft.fft(x)
        z = gemm.matmul(numbacc.full((16, 1 << 16), 0.25), numbacc.full((1 << 16, 16), 0.25))  # in parts, with scratch
    for _ in range(3):
        fft.cache_clear(), gemm.cache_clear()
        gc.collect()
        numbacc.release_memory()
        trash = [numbacc.full(1 << 22, np.nan) for _ in range(8)]
        host = normal(16, 12000).astype(np.complex64)
        x[...] = host
        g.launch()
        np.testing.assert_allclose(numbacc.asnumpy(y), np.fft.fft(host), rtol=1e-3, atol=2e-3)
        np.testing.assert_allclose(numbacc.asnumpy(z), 4096, rtol=1e-6)
        del trash


@pytest.mark.parametrize("order", list(itertools.permutations("gxy")), ids="".join)
def test_objects_are_dropped_in_any_order(slow, order):
    for _ in range(3):
        things = {"x": numbacc.asarray(normal(ROWS, COLUMNS))}
        with numbacc.graph() as things["g"]:
            things["y"] = gated.forward(gated.forward(things["x"]))
        slow(None, 3)
        things["g"].launch()
        for name in order:
            del things[name]
            gc.collect()
            numbacc.full((ROWS, COLUMNS), np.nan)
        assert_usable()


def test_deleted_outputs_are_not_written_for_others(slow):
    x, out = numbacc.asarray(normal(ROWS, COLUMNS)), numbacc.empty((ROWS, COLUMNS // 2))
    with numbacc.graph() as g:
        gated.forward(x, out=out)
    del out, x
    gc.collect()
    others = [numbacc.full((ROWS, COLUMNS // 2), 7.0) for _ in range(8)]
    for _ in range(3):
        g.launch()
    for other in others:
        assert (numbacc.asnumpy(other) == 7).all()


def test_host_arrays_are_read_at_every_launch():
    x, staging = numbacc.empty((4, 8)), np.ones((4, 8), np.float32)
    with numbacc.graph() as g:
        x[...] = staging
        x[0] = [1, 2, 3, 4, 5, 6, 7, 8]
    gc.collect()
    for _ in range(3):
        trash = [np.full((4, 8), 9, np.float32) for _ in range(64)]
        g.launch()
        got = numbacc.asnumpy(x)
        assert (got[1:] == 1).all() and got[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        del trash


def test_pinned_memory_is_written_at_every_launch():
    from numba import cuda

    x, pinned = numbacc.full((4, 8), 1.0), cuda.pinned_array((4, 8), np.float32)
    with numbacc.graph() as g:
        numbacc.asnumpy(x, out=pinned)
    for k in range(3):
        x[...] = k
        g.launch()
        device.synchronize(0, 0)
        assert (pinned == k).all()


def test_draws(slow):
    g = random.Generator(seed=5)
    out = numbacc.empty((64, 64))
    with numbacc.graph() as graph:
        draw(out, None, 5)
        with pytest.raises(numbacc.UnsupportedError, match="graph"):
            g.poisson(3.0, 10)
    calls = random.Generator(seed=5)
    for _ in range(3):
        poison(out)
        slow(graph.stream)
        graph.launch()
        np.testing.assert_array_equal(numbacc.asnumpy(out), numbacc.asnumpy(calls.normal(0, 1, (64, 64))))


REFUSED = {
    "asnumpy": lambda y, s: numbacc.asnumpy(y),
    "element": lambda y, s: y[0, 0],
    "synchronize": lambda y, s: s.synchronize(),
    "release_memory": lambda y, s: numbacc.release_memory(),
    "wait": lambda y, s: s.wait(0),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_captured_is_refused_and_the_capture_goes_on(call):
    host = normal(ROWS, COLUMNS)
    x = numbacc.asarray(host)
    with numbacc.graph() as g:
        y = gated.forward(x)
        with pytest.raises(numbacc.UnsupportedError):
            call(y, g.stream)
        assert "DeviceArray" in repr(y)
    g.launch()
    np.testing.assert_array_equal(numbacc.asnumpy(y), direct("gated", host))


def test_an_error_inside_leaves_everything_usable():
    x = numbacc.asarray(normal(ROWS, COLUMNS))
    with pytest.raises(ZeroDivisionError), numbacc.graph() as g:
        gated.forward(x)
        _ = 1 / 0
    with pytest.raises(numbacc.OptionError):
        g.launch()
    assert_usable()


def test_a_second_stream_takes_part():
    x = numbacc.asarray(normal(ROWS, COLUMNS))
    side = numbacc.stream()
    with numbacc.graph() as g:
        side.wait(g.stream)
        y = gated.forward(x, stream=side)
        z = gated.forward(x, "geglu")
        g.stream.wait(side)
    for _ in range(3):
        host = normal(ROWS, COLUMNS)
        x[...] = host
        g.launch()
        np.testing.assert_array_equal(numbacc.asnumpy(y), direct("gated", host))
        assert np.isfinite(numbacc.asnumpy(z)).all()
    side.synchronize()


def test_a_stream_that_is_not_waited_for_is_told():
    x, side = numbacc.asarray(normal(ROWS, COLUMNS)), numbacc.stream()
    with pytest.raises(numbacc.UnsupportedError, match="did not wait"), numbacc.graph() as g:
        side.wait(g.stream)
        gated.forward(x, stream=side)
    assert_usable()


def test_graphs_in_graphs_and_threads():
    x = numbacc.asarray(normal(ROWS, COLUMNS))
    with numbacc.graph() as inner:
        y = gated.forward(x)
    with numbacc.graph() as outer:
        inner.launch()
        z = gated.forward(y)
    del inner
    gc.collect()
    host = normal(ROWS, COLUMNS)
    x[...] = host
    failures = []

    def work():
        try:
            for _ in range(50):
                outer.launch(numbacc.stream())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    want = numbacc.asnumpy(gated.forward(gated.forward(numbacc.asarray(host))))
    np.testing.assert_array_equal(numbacc.asnumpy(z), want)


def test_launching_a_dropped_graphs_results(slow):
    x = numbacc.asarray(normal(ROWS, COLUMNS))
    with numbacc.graph() as g:
        y = gated.forward(x)
    slow(None, 20)
    g.launch()
    want = direct("gated", numbacc.asnumpy(x))
    del g
    gc.collect()
    np.testing.assert_array_equal(numbacc.asnumpy(y), want)
