"""Random numbers on a real GPU: the CPU's numbers, streams, graphs, and cuRAND's own device code beside the kernels."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_work import Slow
from graphs import captured
from threads import run_threads

import numbacc
from numbacc.libraries.curand import Engine
from numbacc.random import KINDS, Generator
from numbacc.random.methods import FLOATS

pytestmark = pytest.mark.gpu

N = 1_000_003


def both(kind, method, *args, **kw):
    """The same numbers from the CPU and the GPU."""
    return [numbacc.asnumpy(getattr(Generator(kind, 0, 0, device), method)(*args, N, **kw)) for device in ("cpu", None)]


@pytest.mark.parametrize(
    "kind, ordering",
    [(kind, ordering) for kind in KINDS for ordering in ("default", "legacy")[: 1 if "sobol" in kind else 2]],
)
def test_bits_are_the_cpus(kind, ordering):
    dtype = "uint64" if kind.endswith("64") else "uint32"
    cpu, gpu = (
        numbacc.asnumpy(Generator(kind, device=device, ordering=ordering).bits(N, dtype=dtype))
        for device in ("cpu", None)
    )
    np.testing.assert_array_equal(cpu, gpu)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["philox", "xorwow", "sobol64"])
def test_uniforms_and_masks_are_the_cpus(kind, dtype):
    for method, args in (("random", ()), ("uniform", (-3.0, 5.0)), ("dropout_mask", (0.3,))):
        cpu, gpu = both(kind, method, *args, dtype=dtype)
        np.testing.assert_array_equal(cpu, gpu)


@pytest.mark.parametrize("kind", ["philox", "mrg32k3a", "sobol64"])
def test_integers_are_the_cpus(kind):
    for low, high, dtype in ((0, 6, "int64"), (-100, 100, "int8"), (-(2**63), 2**63, "int64")):
        cpu, gpu = both(kind, "integers", low, high, dtype=dtype)
        np.testing.assert_array_equal(cpu, gpu)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_normals_are_the_cpus_nearly(kind, dtype):
    cpu, gpu = both(kind, "normal", 0.0, 1.0, dtype=dtype)
    # On a GPU mtgp32's float64 normals have float32's precision; philox's are numbacc's own.
    double = {"mtgp32": 1e-6, "philox": 2.0**-47}.get(kind, 1e-12)
    tolerance = 2.0**-17 if dtype == "float32" else double
    np.testing.assert_allclose(cpu, gpu, rtol=0, atol=tolerance)


@pytest.mark.parametrize("lam", [0.5, 10.0, 500.0, 50_000.0])
@pytest.mark.parametrize("kind", KINDS)
def test_poisson_numbers_are_the_cpus_nearly(kind, lam):
    cpu, gpu = both(kind, "poisson", lam)
    assert np.abs(cpu - gpu).max() <= 1
    assert (cpu != gpu).mean() < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_states_move_between_devices(kind):
    g = Generator(kind, device="cpu")
    g.normal(0, 1, 101)
    g.bits(7, dtype="uint64" if kind.endswith("64") else "uint32")
    there = Generator(kind)
    there.state = g.state
    np.testing.assert_array_equal(numbacc.asnumpy(there.random(1000)), g.random(1000))
    assert there.state == g.state


@pytest.mark.parametrize(
    "function, method", [("curandGenerateNormal", "normal"), ("curandGenerateLogNormal", "lognormal")]
)
def test_philoxs_kernel_has_the_numbers_of_curands_device_code(function, method):
    n = 1 << 20
    g = Generator("philox", 3)
    theirs = numbacc.empty(n)
    Engine(g.state, 0).generate(function, theirs._address, n, (0.5, 0.25), 0, n, 0)
    ours = numbacc.asnumpy(getattr(g, method)(0.5, 0.25, n))
    np.testing.assert_allclose(ours, numbacc.asnumpy(theirs), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("position", [0, 1, 7 * 524288, 2**40 - 3, 2**63])
@pytest.mark.parametrize(
    "function, method", [("curandGenerateNormalDouble", "normal"), ("curandGenerateLogNormalDouble", "lognormal")]
)
def test_philoxs_float64_kernel_has_the_numbers_of_curands(function, method, position):
    """Over several rounds of cuRAND's threads and a part of one, into memory that starts anywhere."""
    n = (1 << 20) + 12346
    g = Generator("philox", 2**35 + 3, position)
    first = -(-position // 524288) * 524288
    theirs = numbacc.empty(n, "float64")
    Engine(g.state, 0).generate(function, theirs._address, n, (0.5, 0.25), first, None, 0)
    want = numbacc.asnumpy(theirs)
    whole = numbacc.empty(n + 1, "float64")
    for start, count in ((0, n), (1, n), (1, n - 3), (0, 1)):
        whole[...] = np.nan
        g.state = g.state._replace(position=position)
        getattr(g, method)(0.5, 0.25, out=whole[start : start + count])
        got = numbacc.asnumpy(whole)
        assert np.isnan(got[:start]).all() and np.isnan(got[start + count :]).all()
        rounding = 2.0**-48 * 0.25 * (np.abs(want[:count]) if method == "lognormal" else 1)
        assert (np.abs(got[start : start + count] - want[:count]) <= rounding + 2.0**-52 * np.abs(want[:count])).all()


def test_work_on_several_streams_is_one_sequence():
    want = Generator("xorwow", 1, device="cpu").normal(0, 1, (6, 1 << 20))
    g, streams = Generator("xorwow", 1), [numbacc.stream() for _ in range(3)]
    parts = [g.normal(0, 1, 1 << 20, stream=streams[k % 3]) for k in range(6)]
    got = np.stack([numbacc.asnumpy(part, stream=streams[k % 3]) for k, part in enumerate(parts)])
    np.testing.assert_allclose(got, want, atol=2.0**-17)


def test_another_librarys_graph_draws_the_next_numbers_and_refuses_the_rest():
    stream = numbacc.stream()
    g, other = Generator("philox", 5), Generator("xorwow", 5)
    outs = [numbacc.empty(1001, dtype, stream=stream) for dtype in ("float32", "float32", "float64")]

    def draw(generator):
        generator.random(out=outs[0], stream=stream)
        generator.normal(out=outs[1], stream=stream)
        generator.normal(out=outs[2], stream=stream)

    draw(g)
    other.random(10, stream=stream)
    again = Generator("philox", 5)
    again.state = state = g.state
    with captured(stream) as graph:
        draw(g)
        for refused in (lambda: other.random(out=outs[0], stream=stream), lambda: g.poisson(3.0, 10, stream=stream)):
            with pytest.raises(numbacc.UnsupportedError, match="capture"):
                refused()
    assert g.state == state
    for _ in range(3):
        for out in outs:
            out._fill(np.nan, stream.handle)
        graph.replay()
        want = [numbacc.asnumpy(again.random(1001)), numbacc.asnumpy(again.normal(size=1001))]
        want.append(numbacc.asnumpy(again.normal(size=1001, dtype="float64")))
        for out, values in zip(outs, want, strict=True):
            np.testing.assert_array_equal(numbacc.asnumpy(out, stream=stream), values)
        assert g.state == again.state


def test_torchs_graphs_draw_the_next_numbers(torch):
    g, calls = Generator(5), Generator(5)
    out = torch.empty(1003, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        s = torch.cuda.current_stream()
        g.random(out=out, stream=s)
        made = g.normal(size=77, stream=s)
        del s
    torch.cuda.synchronize()
    for _ in range(4):
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_array_equal(out.cpu().numpy(), numbacc.asnumpy(calls.random(1003)))
        np.testing.assert_array_equal(numbacc.asnumpy(made), numbacc.asnumpy(calls.normal(size=77)))
        assert g.state == calls.state
    g.random(out=out)
    np.testing.assert_array_equal(out.cpu().numpy(), numbacc.asnumpy(calls.random(1003)))


@pytest.mark.parametrize("slowed", ["launches", "calls"])
def test_launches_and_calls_draw_in_order(slowed):
    """On streams of which one is late: a draw that did not wait would have another's numbers."""
    slow = Slow()
    g, calls = Generator(6), Generator(6)
    one, other = numbacc.stream(), numbacc.stream()
    with numbacc.graph() as graph:
        x = g.bits(10_001)
    y = numbacc.empty(10_001, "uint32", stream=other)
    for _ in range(3):
        slow(one if slowed == "launches" else other)
        graph.launch(one)
        g.bits(out=y, stream=other)
        for array, stream in ((x, one), (y, other)):
            np.testing.assert_array_equal(numbacc.asnumpy(array, stream=stream), numbacc.asnumpy(calls.bits(10_001)))
    slow(one)
    graph.launch(one)
    calls.bits(10_001)
    assert g.state == calls.state, "the state waits for the launch"


@pytest.mark.fills_memory
def test_more_than_2_to_the_31_values():
    n = (1 << 31) + 5
    out = numbacc.empty(n, "float16")
    Generator("philox", 2, offset=1).random(out=out)
    want = Generator("philox", 2, offset=n - 99, device="cpu").random(100, dtype="float16")
    np.testing.assert_array_equal(numbacc.asnumpy(out[n - 100 :]), want)


@pytest.mark.fills_memory
@pytest.mark.parametrize("where", ["call", "graph"])
def test_more_than_2_to_the_32_values(where):
    """From the middle of a group on, over the turn of cuRAND's threads, into memory that starts anywhere."""
    n, first = (1 << 32) + 7, 2**40 + 3
    whole = numbacc.empty(n + 1, "bool")
    out, g = whole[1:], Generator("philox", 2, offset=first)
    if where == "graph":
        with numbacc.graph() as graph:
            g.dropout_mask(0.5, out=out)
        graph.launch()
    else:
        g.dropout_mask(0.5, out=out)
    for start in (0, (1 << 31) - 50, n - 100):  # the last go over 2**32
        want = Generator("philox", 2, first + start, "cpu").dropout_mask(0.5, 100, dtype="bool")
        np.testing.assert_array_equal(numbacc.asnumpy(out[start : start + 100]), want)
    assert g.state.position == first + n


@pytest.mark.fills_memory
def test_more_than_2_to_the_32_values_of_curand_in_pieces():
    n = (1 << 32) + 7
    out = numbacc.empty(n, "float16")
    Generator("xorwow", 2).random(out=out)
    for start in (0, (1 << 24) - 50, n - 100):  # the last go over 2**32
        want = Generator("xorwow", 2, start, "cpu").random(100, dtype="float16")
        np.testing.assert_array_equal(numbacc.asnumpy(out[start : start + 100]), want)


def test_views_of_a_flat_buffer_that_curand_writes():
    """xorwow's float64 normals come in stores of 16 bytes."""
    buffer = numbacc.zeros(20_001, "float64")
    for moved in (0, 1):
        buffer[...] = 0.0
        Generator("xorwow", 2).normal(out=buffer[moved : moved + 20_000])
        want = numbacc.asnumpy(Generator("xorwow", 2).normal(size=20_000, dtype="float64"))
        np.testing.assert_array_equal(numbacc.asnumpy(buffer[moved : moved + 20_000]), want)
        assert numbacc.asnumpy(buffer)[-1 if moved == 0 else 0] == 0


def test_eight_threads_on_their_streams_share_a_captured_generator():
    g, found = Generator(4), [[] for _ in range(8)]
    with numbacc.graph() as graph:
        x = g.bits(1001)
    graph.launch()

    def work(k):
        with numbacc.stream():
            found[k].extend(g.bits(1001) for _ in range(50))
            found[k] = [numbacc.asnumpy(part).tobytes() for part in found[k]]

    run_threads(work)
    whole = Generator(4, device="cpu").bits((401, 1001))
    parts = [numbacc.asnumpy(x).tobytes(), *(part for row in found for part in row)]
    assert sorted(parts) == sorted(row.tobytes() for row in whole)
