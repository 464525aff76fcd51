"""Arrays of other libraries in, numbacc's arrays out, without copies."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from skips import needed, skip

import numbacc
from numbacc import gated
from numbacc.base import dtypes
from numbacc.runtime import device

pytestmark = pytest.mark.gpu


def swiglu(torch, x):
    a, b = x.double().chunk(2, -1)
    return a * torch.nn.functional.silu(b)


def host(tensor):
    """A copy of a tensor in NumPy."""
    name = str(tensor.dtype).removeprefix("torch.")
    wide = tensor.float() if name == "bfloat16" else tensor  # NumPy's own dtypes are all that torch gives it
    return wide.cpu().numpy().astype(dtypes.dtype(name))


def assert_swiglu(y, x):
    oracle.assert_accurate("forward", "swiglu", [host(y)], np.split(host(x), 2, -1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_torch_in_and_out_without_a_copy(torch, dtype):
    x = torch.randn(32, 128, device="cuda", dtype=getattr(torch, dtype))
    y = gated.forward(x)
    back = torch.from_dlpack(y)
    assert back.data_ptr() == y._address
    assert back.dtype == x.dtype
    assert_swiglu(back, x)
    out = torch.full_like(back, float("nan"))
    assert gated.forward(x, out=out) is out
    assert torch.equal(out, back)
    assert numbacc.from_dlpack(x)._address == x.data_ptr()


def test_torch_strides_are_read_as_they_are(torch):
    base = torch.randn(64, 3, 96, device="cuda")
    for x in (
        base[:, 1],
        base.transpose(0, 2)[:, 1],
        base[::2, :, 10:50][:, 2],
        base[:, 0].expand(4, 64, 96),
    ):
        assert_swiglu(torch.from_dlpack(gated.forward(x)), x)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_crosses_both_ways(torch, name):
    source = torch.arange(16, device="cuda").float().to(getattr(torch, name))
    array = numbacc.from_dlpack(source)
    assert array._address == source.data_ptr()
    assert array.dtype.name == name
    assert torch.from_dlpack(array).dtype == source.dtype
    np.testing.assert_array_equal(numbacc.asnumpy(array).astype("f4"), source.float().cpu().numpy())


def test_torchs_current_stream_is_waited_for(torch):
    stream = torch.cuda.Stream()
    x = torch.zeros(1 << 12, 1 << 12, device="cuda")
    fresh = torch.randn_like(x)
    ours = numbacc.stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.copy_(fresh)
        y = gated.forward(x, stream=ours)
    assert (torch.from_dlpack(y).double() - swiglu(torch, fresh)).abs().max() < 1e-5


def test_torch_streams_are_taken(torch):
    stream = torch.cuda.Stream()
    x = torch.randn(16, 64, device="cuda")
    torch.cuda.synchronize()
    handle = stream if hasattr(stream, "__cuda_stream__") else stream.cuda_stream
    y = gated.forward(x, stream=handle)
    assert y._storage.stream == stream.cuda_stream


def test_the_consumers_stream_waits_for_us(torch):
    ours = numbacc.stream()
    x = numbacc.asarray(np.random.default_rng(0).standard_normal((1 << 12, 1 << 12), np.float32))
    device.synchronize(0, 0)
    busy = numbacc.empty(1 << 28, "uint8", stream=ours)
    for _ in range(300):
        device.copy_on_device(busy._address, busy._address + (1 << 27), 1 << 27, 0, ours.handle)
    y = gated.forward(x, stream=ours)
    seen = torch.from_dlpack(y).double()
    assert (seen - swiglu(torch, torch.from_dlpack(x))).abs().max() < 1e-5


def test_memory_outlives_whoever_made_it(torch):
    host = np.arange(1 << 16, dtype=np.float32)
    tensors = []
    for k in range(8):
        array = numbacc.asarray(host + k)
        tensors.append(torch.from_dlpack(array))
        del array
    for k, tensor in enumerate(tensors):
        np.testing.assert_array_equal(tensor.cpu().numpy(), host + k)
    array = numbacc.from_dlpack(torch.ones(1 << 16, device="cuda"))
    torch.cuda.empty_cache()
    assert (numbacc.asnumpy(array) == 1).all()


def test_cupy_in_and_out(cupy):
    x = cupy.random.standard_normal((32, 64)).astype(cupy.float32)
    y = gated.forward(x)
    for back in (cupy.from_dlpack(y), cupy.asarray(y)):
        assert back.data.ptr == y._address
    a, b = cupy.asnumpy(x)[:, :32].astype("f8"), cupy.asnumpy(x)[:, 32:].astype("f8")
    np.testing.assert_allclose(cupy.asnumpy(cupy.from_dlpack(y)), a * b / (1 + np.exp(-b)), rtol=1e-5, atol=1e-6)
    assert numbacc.asarray(x)._address == x.data.ptr


def test_read_only_arrays_are_not_written():
    jax = needed("jax", "jax")
    try:
        x = jax.device_put(np.ones((4, 8), np.float32), jax.devices("gpu")[0])
    except RuntimeError:
        skip("jax with a gpu")
    np.testing.assert_allclose(numbacc.asnumpy(gated.forward(x)), 1 / (1 + np.exp(-1)), rtol=1e-6)
    with pytest.raises(numbacc.LayoutError, match="read-only"):
        gated.backward(numbacc.zeros((4, 4)), numbacc.asarray(np.ones((4, 8), np.float32)), out=x)
    assert (np.asarray(x) == 1).all()


def test_mixing_host_and_device_is_refused(torch):
    x = torch.randn(4, 8, device="cuda")
    with pytest.raises(numbacc.DeviceError, match="dy"):
        gated.backward(np.zeros((4, 4), np.float32), x)
    with pytest.raises(numbacc.DeviceError, match="out"):
        gated.forward(x, out=np.zeros((4, 4), np.float32))


def test_host_tensors_run_on_numpy(torch):
    x = torch.randn(4, 8)
    y = gated.forward(x)
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, swiglu(torch, x).numpy(), rtol=1e-5, atol=1e-6)


def test_dlpack_refuses_what_it_cannot_do():
    array = numbacc.zeros((2, 3))
    assert array.__dlpack_device__() == (2, 0)
    with pytest.raises(BufferError):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        array.__dlpack__(dl_device=(1, 0), copy=False)
    np.testing.assert_array_equal(np.from_dlpack(array, device="cpu"), np.zeros((2, 3)))
    with pytest.raises(AttributeError, match="DLPack"):
        _ = numbacc.zeros(3, "bfloat16").__cuda_array_interface__
