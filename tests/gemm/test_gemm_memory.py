"""Matrix products' scratch memory and handles, on a GPU: what tuning may write, what threads share."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import numbacc
from numbacc import gemm
from numbacc_bindings.cublasLt import cublasLt

pytestmark = pytest.mark.gpu


def normal(*shape):
    return numbacc.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("case", ["backwards", "c by columns"])
def test_tuning_stays_within_its_memory(case, tmp_path, monkeypatch):
    """Results of a batch that runs backwards, and a C that is copied first, whose strides are not D's."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    gemm.cache_clear()
    if case == "backwards":
        a, b, out = normal(3, 64, 64), normal(3, 64, 64), numbacc.zeros((3, 64, 64))
        gemm.matmul(a, b, out=out[::-1], tune=True)
        found, options = numbacc.asnumpy(out)[::-1], {}
    else:
        a, b, c = normal(8, 64), normal(64, 8), numbacc.asarray(np.asfortranarray(np.ones((8, 8), np.float32)))
        out = numbacc.zeros((8, 4096))
        gemm.matmul(a, b, c=c, beta=1.0, out=out[:, :8], tune=True)
        found, options = numbacc.asnumpy(out)[:, :8], {"c": numbacc.asnumpy(c), "beta": 1.0}
    expected = gemm.matmul(numbacc.asnumpy(a), numbacc.asnumpy(b), **options)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    gemm.cache_clear()


def test_a_threads_handles_end_with_it(monkeypatch):
    destroyed = []
    destroy = cublasLt.cublasLtDestroy
    monkeypatch.setattr(cublasLt, "cublasLtDestroy", lambda handle: (destroyed.append(handle), destroy(handle)))
    a = normal(16, 16)
    thread = threading.Thread(target=lambda: gemm.matmul(a, a))
    thread.start()
    thread.join()
    gc.collect(1)
    assert len(destroyed) == 1


def test_threads_share_a_stream_but_no_scratch_memory():
    """Sums over k in parts are several kernels, which two threads may queue in turns."""
    operands = [(normal(16, 1 << 16), normal(1 << 16, 16)) for _ in range(4)]
    assert gemm.matmul.plan(*operands[0]).info.workspace_bytes
    expected = [numbacc.asnumpy(gemm.matmul(*pair)) for pair in operands]
    wrong = []

    def work(k):
        results = (numbacc.asnumpy(gemm.matmul(*operands[k])) for _ in range(200))
        wrong.extend(k for result in results if not np.array_equal(result, expected[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.gpu
def test_scales_are_waited_for_on_other_streams():
    """A scale that is still being written on a stream of its own."""
    rng = np.random.default_rng(0)
    a, w = (numbacc.asarray(rng.standard_normal((64, 64)).astype(numbacc.float8_e4m3fn)) for _ in range(2))
    expected = numbacc.asnumpy(gemm.matmul(a, w.T, scale_a=4.0)).astype(np.float32)
    busy = numbacc.asarray(rng.standard_normal((4096, 4096)).astype(np.float32))
    for _ in range(5):
        stream = numbacc.stream()
        scale = numbacc.full((1,), 1.0, stream=stream)
        for _ in range(20):
            gemm.matmul(busy, busy, stream=stream)
        scale._fill(4.0, stream.handle)
        found = gemm.matmul(a, w.T, scale_a=scale)
        np.testing.assert_array_equal(numbacc.asnumpy(found).astype(np.float32), expected)
