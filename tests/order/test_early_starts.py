"""Small kernels start before the stream's previous kernel has ended. They must not read or write memory too early."""

from __future__ import annotations

import numpy as np
import pytest

import numbacc
from numbacc import elementwise
from numbacc.runtime import device as runtime

pytestmark = pytest.mark.gpu

#: x[n] = x[n-1] - x[n-2] and x[n] = x[n-1] - x[n-2] + x[n-3]. float32 holds all values, because they stay small.
SECOND = elementwise.subtract
THIRD = elementwise.kernel(lambda a, b, c: a - b + c)
STEPS = 24


def chain(step, terms, arrays, stream):
    """Fill the arrays in turns, each from those filled before it, and over the oldest one."""
    count = len(arrays)
    for n in range(STEPS):
        given = [arrays[(n - k) % count] for k in range(1, terms + 1)]
        step(*given, out=arrays[n % count], stream=stream)


def wanted(step, terms, hosts):
    arrays = [each.astype(np.float64) for each in hosts]
    chain(lambda *given, out, stream: out.__setitem__(..., _term(*given)), terms, arrays, None)
    return arrays


def _term(a, b, c=0.0):
    return a - b + c


@pytest.mark.parametrize("step, terms", [(SECOND, 2), (THIRD, 3)], ids=["two", "three"])
@pytest.mark.parametrize("way", ["stream", "side", "graph"])
def test_chains_of_small_kernels(step, terms, way):
    rng = np.random.default_rng(5)
    for size in (1, 1000, 100_003, 1_000_000):
        hosts = [rng.integers(-999, 999, size).astype(np.float32) for _ in range(terms + 1)]
        stream = numbacc.stream() if way == "side" else None
        arrays = [numbacc.asarray(each, stream=stream) for each in hosts]
        if way == "graph":
            chain(step, terms, [numbacc.asarray(each) for each in hosts], None)
            with numbacc.graph() as graph:
                chain(step, terms, arrays, None)
            graph.launch()
        else:
            chain(step, terms, arrays, stream)
        for found, exact in zip(arrays, wanted(step, terms, hosts), strict=True):
            np.testing.assert_array_equal(numbacc.asnumpy(found), exact)


@pytest.mark.parametrize("shape", [(64, 256), (3000, 1000), (200, 30_001), (4096, 7)], ids=str)
def test_chains_of_rows(shape):
    """Calls that do not wait for each other give the same bits as calls that do."""
    rng = np.random.default_rng(5)
    hosts = [rng.normal(size=shape).astype(np.float32) for _ in range(3)]
    weight = numbacc.asarray(np.ones(shape[1], np.float32))

    def run(waits):
        arrays = [numbacc.asarray(each) for each in hosts]
        for n in range(STEPS):
            a, b, out = (arrays[(n - k) % 3] for k in (1, 2, 0))
            elementwise.softmax(a, out=out)
            elementwise.softmax_backward(b, out, out=b)
            elementwise.add(out, b, out=out)
            elementwise.rms_norm(out, weight, out=out)
            elementwise.log_softmax(b, out=b)
            if waits:
                runtime.synchronize(0, runtime.current_device())
        return [numbacc.asnumpy(each) for each in arrays]

    for one, other in zip(run(False), run(True), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("in_graph", [False, True])
def test_torchs_kernels_between(torch, in_graph):
    """Kernels of torch's, which start after the previous one has ended, follow ours and the other way round."""
    tensors = [torch.randint(-999, 999, (300_000,), device="cuda").float() for _ in range(3)]
    exact = [each.double() for each in tensors]
    chain(lambda *given, out, stream: out.copy_(_term(*given)), 2, exact, None)

    def mixed(numbers, stream):
        for n in range(STEPS):
            a, b, out = (tensors[(n - k) % 3] for k in (1, 2, 0))
            if n in numbers:
                torch.subtract(a, b, out=out)
            else:
                elementwise.subtract(a, b, out=out, stream=stream)

    numbers = {n for n in range(STEPS) if n % 5 in (1, 4)}
    if in_graph:
        kept = [each.clone() for each in tensors]
        mixed(numbers, None)
        torch.cuda.synchronize()
        for each, start in zip(tensors, kept, strict=True):
            each.copy_(start)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            mixed(numbers, torch.cuda.current_stream())
        graph.replay()
    else:
        mixed(numbers, None)
    for found, each in zip(tensors, exact, strict=True):
        assert torch.equal(found.double(), each)
