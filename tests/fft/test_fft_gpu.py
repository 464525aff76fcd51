"""What only a real cuFFT shows: streams, threads, graphs, memory, sizes beyond 2^31."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from conftest import held_bytes
from fft_oracle import verify
from graphs import captured, overwrite
from skips import needed, skip

import numbacc
from numbacc import fft
from numbacc.runtime import device, workspace

pytestmark = pytest.mark.gpu


def values(*shape, dtype=np.complex64):
    rng = np.random.default_rng(5)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def assert_close(result, want):
    np.testing.assert_allclose(numbacc.asnumpy(result), want, rtol=0, atol=1e-5 * np.abs(want).max())


#: Functions that use one plan of cuFFT alone, scratch memory, and cuFFT's work area.
WORKS = [
    ("fft", (64, 64), {}),
    ("irfft", (64, 33), {}),
    ("fft", (4, 65537), {}),
    ("fftn", (8, 9, 10), {"s": (12, 9, 16), "axes": (0, 1, 2), "norm": "ortho"}),
]


@pytest.mark.parametrize("function, shape, options", WORKS)
def test_arrays_and_calls_on_several_streams(function, shape, options):
    x = values(*shape)
    want = getattr(np.fft, function)(x, **options)
    first, second = numbacc.stream(), numbacc.stream()
    array = numbacc.asarray(x, stream=first)
    for stream in (first, second, None, second):
        result = getattr(fft, function)(array, **options, stream=stream)
        assert result._storage.stream == (stream.handle if stream else 0)
        assert_close(result, want)


@pytest.mark.parametrize("function, shape, options", WORKS)
def test_threads_have_plans_of_their_own(function, shape, options):
    x = values(*shape)
    want, array = getattr(np.fft, function)(x, **options), numbacc.asarray(x)
    results, start = [], threading.Barrier(8)

    def use():
        start.wait()
        results.extend([getattr(fft, function)(array, **options) for _ in range(20)])

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    for result in results:
        assert_close(result, want)


@pytest.mark.parametrize("function, shape, options", WORKS)
def test_a_planned_transform_is_captured_into_a_graph(function, shape, options):
    stream, x = numbacc.stream(), values(*shape)
    source = numbacc.asarray(x, stream=stream)
    out = numbacc.empty_like(getattr(fft, function)(source, **options, stream=stream), stream=stream)
    plan = getattr(fft, function).plan(source, **options, out=out)
    plan(source, out=out, stream=stream)
    with captured(stream) as graph:
        plan(source, out=out, stream=stream)
    workspace.release(0)  # the graph has memory of its own
    for scale in (1, 2):
        overwrite(source, (scale * x).astype(x.dtype), stream)
        out._fill(np.nan, stream.handle)
        graph.replay()
        assert_close(out, getattr(np.fft, function)(scale * x, **options))
    plan(source, out=out, stream=stream)  # and work areas are the stream's again
    assert_close(out, getattr(np.fft, function)(2 * x, **options))


def test_plans_hold_no_work_area():
    """Many plans, one block: as large as the largest of them asked for."""
    fft.cache_clear()
    numbacc.release_memory()
    x = [numbacc.asarray(values(1, 65537 + 2 * n)) for n in range(5)]
    for array in x:
        fft.fft(array)
    info = fft.cache_info()
    assert info.currsize == 5 and info.currbytes > 0
    assert held_bytes(0) <= info.currbytes / 5 * 2
    fft.cache_clear()
    numbacc.release_memory()
    assert held_bytes(0) == 0


def test_input_is_not_lost():
    for function, shape in (("irfft", (7, 33)), ("irfft2", (5, 16, 9)), ("irfftn", (4, 5, 6, 7)), ("hfft", (7, 33))):
        x = values(*shape)
        array = numbacc.asarray(x)
        getattr(fft, function)(array)
        np.testing.assert_array_equal(numbacc.asnumpy(array), x)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(64, 2049), (3, 4097), (64, 4097), (4, 8193), (32, 4097), (1, 6), (5, 4)])
@pytest.mark.parametrize("overwrite_input", [False, True])
def test_imaginary_parts_that_real_signals_lack_are_ignored(dtype, shape, overwrite_input):
    """cuFFT sees them in its kernels for 4096, 8192 and 16384 points, among others."""
    x = values(*shape, dtype=dtype)
    x[:, 0] += 100j
    x[:, -1] -= 50j
    for function, axes in (("irfft", -1), ("hfft", -1), ("irfftn", (0, 1)), ("irfftn", (1,))):
        result = getattr(fft, function)(numbacc.asarray(x), None, axes, overwrite_input=overwrite_input)
        verify(function, numbacc.asnumpy(result), x, None, axes)


@pytest.mark.parametrize("function, shape, dtype, n, axis", [
    ("fft", (64, 8192), np.complex64, None, 0),
    ("fft", (512, 1000), np.complex64, None, 0),
    ("ifft", (4096, 100), np.complex64, None, 0),
    ("ifft", (4096, 100), np.complex128, None, 0),
    ("fft", (5000, 70), np.complex64, None, 0),
    ("fft", (5000, 70), np.complex128, 6001, 0),
    ("fft", (3000, 70), np.float16, None, 0),
    ("fft", (3000, 70), np.int8, 3333, 0),
    ("rfft", (4096, 100), np.float32, None, 0),
    ("rfft", (4096, 100), np.float64, 5000, 0),
    ("irfft", (2049, 100), np.complex64, None, 0),
    ("irfft", (2049, 100), np.complex128, 4097, 0),
    ("hfft", (2049, 100), np.complex64, 4000, 0),
    ("ihfft", (4096, 100), np.float32, None, 0),
    ("fft", (7, 600, 100), np.complex64, None, 1),
    ("fft", (40, 64, 70), np.complex64, None, 1),
    ("irfft", (30, 65, 100), np.complex64, None, 1),
    ("fft", (1000, 257), np.complex64, None, 1),
    ("ifft", (700, 300), np.complex64, None, 1),
    ("fft", (700, 300), np.complex64, 301, 1),
])  # fmt: skip
def test_large_arrays_by_every_way(function, shape, dtype, n, axis):
    x = (9 * values(*shape, dtype=np.complex128)).astype(np.complex128)
    x = x.astype(dtype) if np.dtype(dtype).kind == "c" else x.real.astype(dtype)
    call = getattr(fft, function)
    for source in (numbacc.asarray(x), numbacc.asarray(np.asfortranarray(x)), numbacc.asarray(np.repeat(x, 2, 0))[::2]):
        made = call(source, n, axis)
        verify(function, numbacc.asnumpy(made), x, n, axis)
        for order in ("C", "F"):
            out = numbacc.asarray(np.full(made.shape, np.nan, made.dtype, order=order))
            verify(function, numbacc.asnumpy(call(source, n, axis, out=out)), x, n, axis)
        np.testing.assert_array_equal(numbacc.asnumpy(source), x)


def test_torch_arrays_go_in_as_they_are():
    torch = needed("torch", "torch")
    x = torch.randn(6, 64, dtype=torch.complex64, device="cuda")
    out = torch.empty_like(x)
    assert fft.fft(x, out=out) is out
    assert_close(numbacc.from_dlpack(out), np.fft.fft(x.cpu().numpy()))
    y = torch.randn(65, device="cuda")[1:]  # aligned to a float only
    assert_close(fft.rfft(y), np.fft.rfft(y.cpu().numpy()))


@pytest.mark.fills_memory
def test_more_than_2_to_the_31_elements():
    rows = 2**25 + 1
    if device.memory_info(0)[0] < 80 << 30:
        skip("gpu memory")
    x = numbacc.full((rows, 64), 1, "complex64")
    assert fft.fft(x, norm="forward", out=x) is x
    for row in (0, rows // 2, rows - 1):
        np.testing.assert_allclose(numbacc.asnumpy(x[row]), np.eye(64)[0], atol=1e-6)
    # Of lengths from 2^31 on cuFFT has plans for some only, powers of 2 among them.
    x = numbacc.full((2**32,), 1, "float32")
    first = numbacc.asnumpy(fft.rfft(x)[:4])
    np.testing.assert_allclose(first, [2**32, 0, 0, 0], atol=1e-4 * rows)
