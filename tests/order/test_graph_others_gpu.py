"""CUDA graphs that others capture on a real GPU: they hold numbacc's work, or it is refused in words."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from gpu_work import Slow, poison
from graph_work import COLUMNS, ROWS, assert_usable, direct, normal

import numbacc
from numbacc import fft, gated, gemm
from numbacc.runtime import device

pytestmark = pytest.mark.gpu


def test_torchs_graphs_hold_our_work(torch):
    x = torch.from_numpy(normal(ROWS, COLUMNS)).cuda()
    out = torch.empty((ROWS, COLUMNS // 2), device="cuda")
    gated.forward(x, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        s = torch.cuda.current_stream()
        ours = gated.forward(x, stream=s)  # memory of ours
        gated.forward(x, out=out, stream=s)
        spectrum = fft.fft(ours, stream=s)
        product = gemm.matmul(ours, ours.T, stream=s)
        del s
    gc.collect()
    for _ in range(5):
        trash = [numbacc.full((ROWS, COLUMNS), np.nan) for _ in range(8)]
        host = normal(ROWS, COLUMNS)
        x.copy_(torch.from_numpy(host))
        graph.replay()
        torch.cuda.synchronize()
        want = direct("gated", host)
        np.testing.assert_array_equal(out.cpu().numpy(), want)
        np.testing.assert_array_equal(numbacc.asnumpy(ours), want)
        np.testing.assert_allclose(numbacc.asnumpy(spectrum), np.fft.fft(want), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(numbacc.asnumpy(product), want @ want.T, rtol=1e-3, atol=1e-3)
        del trash


def test_work_beside_torchs_capture_is_refused_in_words(torch):
    x = torch.from_numpy(normal(ROWS, COLUMNS)).cuda()
    gated.forward(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = 2 * x
        with pytest.raises(numbacc.UnsupportedError, match="stream="):
            gated.forward(y)
    graph.replay()
    torch.cuda.synchronize()
    assert_usable()


def test_what_a_torch_graph_used_is_freed_with_it(torch):
    x = torch.from_numpy(normal(ROWS, COLUMNS)).cuda()
    gated.forward(x)

    def held():
        gc.collect()
        torch.cuda.synchronize()
        numbacc.release_memory()
        numbacc.empty(3)
        numbacc.release_memory()
        return device.pool_bytes(0)[1]

    before = held()
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            big = numbacc.empty(1 << 24, "uint8", stream=torch.cuda.current_stream())
            gated.forward(x, stream=torch.cuda.current_stream())
        del big
        graph.replay()
        assert held() >= before + (1 << 24)
        graph.reset()
        del graph
        assert held() == before


def test_streams_of_one_capture_are_in_order():
    """A second stream that takes part uses the first one's arrays, and the memory of its temporaries."""
    slow = Slow()
    x, other = numbacc.asarray(normal(ROWS, COLUMNS)), numbacc.stream()
    z, late = (numbacc.empty((ROWS, COLUMNS // 2)) for _ in range(2))
    with numbacc.graph() as g:
        other.wait(g.stream)
        slow(g.stream, 3)
        y = gated.forward(x)
        gated.forward(x, out=z)
        temporary = numbacc.full((ROWS, COLUMNS // 2), 7.0)
        late[...] = temporary
        del temporary
        with other:
            numbacc.full((ROWS, COLUMNS // 2), 9.0)
            z[...] = y
        g.stream.wait(other)
    for _ in range(3):
        host = normal(ROWS, COLUMNS)
        x[...] = host
        poison(z), poison(late)
        g.launch()
        np.testing.assert_array_equal(numbacc.asnumpy(z), numbacc.asnumpy(gated.forward(numbacc.asarray(host))))
        assert (numbacc.asnumpy(late) == 7).all()
