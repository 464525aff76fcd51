"""Arrays over an address, and torch's tensors over numbacc's memory."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest
from conftest import any_bits, bits, refused
from skips import needed
from wrong_arguments import STREAMS

import numbacc
from numbacc import gated
from numbacc.base import dtypes


@pytest.fixture
def from_pointer(place):
    """`numbacc.from_pointer` for memory of the place: with a GPU, addresses would be there."""
    return functools.partial(numbacc.from_pointer, device=None if place.is_device else "cpu")


class Owner:
    """Keeps memory, and shows whether it is alive."""

    def __init__(self, array):
        self.array = array


def address_of(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array._address


def test_arrays_over_an_address(place, from_pointer):
    for dtype in (row.numpy for row in dtypes.TABLE.values()):
        values = any_bits((4, 6), dtype)
        memory = place.put(values)
        owner = Owner(memory)
        alive, size = weakref.ref(owner), dtype.itemsize
        x = from_pointer(address_of(memory), (4, 6), dtype, owner=owner)
        assert (x.shape, x.dtype, type(x)) == ((4, 6), dtype, type(memory))
        np.testing.assert_array_equal(bits(place.get(x)), bits(values))
        # The second column from the last row up, every other one.
        y = from_pointer(
            address_of(memory) + (3 * 6 + 1) * size, (2, 3), dtype, strides=(-12 * size, size), owner=owner
        )
        np.testing.assert_array_equal(bits(place.get(y)), bits(np.ascontiguousarray(values[::-2, 1:4])))
        x[1] = x[0]
        np.testing.assert_array_equal(bits(place.get(memory))[1], bits(values)[0])
        view = x[1:]
        del owner, x, y
        gc.collect(1)
        assert alive() is not None
        del view
        gc.collect(1)
        if place.name != "gpu":
            assert alive() is None


def test_options_of_addresses(place, from_pointer):
    memory = place.put(np.arange(6, dtype=np.float32))
    at = address_of(memory)
    fixed = from_pointer(at, 6, readonly=True, owner=memory)
    with pytest.raises(ValueError, match="read-only"):
        fixed[...] = 0
    assert from_pointer(0, (0, 3)).shape == (0, 3) and from_pointer(at, ()).shape == ()
    host = np.arange(3.0)
    assert np.shares_memory(numbacc.from_pointer(host.ctypes.data, 3, "float64", device="cpu"), host)
    refused(numbacc.OptionError, "address", run=lambda: from_pointer(1.5, 6))
    refused(numbacc.OptionError, "address", run=lambda: from_pointer(-8, 6))
    refused(numbacc.LayoutError, "address is null", run=lambda: from_pointer(0, 6))
    refused(numbacc.LayoutError, "multiple", run=lambda: from_pointer(at + 2, 1))
    refused(numbacc.LayoutError, "strides", run=lambda: from_pointer(at, 6, strides=(2,)))
    refused(numbacc.LayoutError, "strides", run=lambda: from_pointer(at, 6, strides=(4, 4)))
    refused(numbacc.ShapeError, "shape", run=lambda: from_pointer(at, -6))
    refused(numbacc.DTypeError, "dtype", run=lambda: from_pointer(at, 6, "float3"))
    refused(numbacc.OptionError, "readonly", run=lambda: from_pointer(at, 6, readonly=None))
    for stream in STREAMS:
        refused(numbacc.OptionError, "stream", run=lambda given=stream: from_pointer(at, 6, stream=given))
    if place.name == "gpu":
        refused(numbacc.LayoutError, "no GPU", 'device="cpu"', run=lambda: from_pointer(host.ctypes.data, 3, "float64"))


def test_calls_on_an_address(place, from_pointer):
    memory = place.put(np.ones((4, 8), np.float32))
    x = from_pointer(address_of(memory), (4, 8), owner=memory)
    y = gated.forward(x, "reglu")
    assert (place.get(y) == 1).all()


def test_tensors_over_arrays(place):
    torch = needed("torch", "torch")
    for dtype in (row.numpy for row in dtypes.TABLE.values()):
        values = any_bits((4, 6), dtype) if dtype.kind != "b" else np.eye(4, 6, dtype=bool)
        x = place.put(values)
        for view, wanted in (
            (x, values),
            (x.T[1:, ::2], values.T[1:, ::2]),
            (x[0, 0:1].reshape(()), values[0, 0]),
            (x[:0], values[:0]),
        ):
            tensor = numbacc.to_torch(view)
            assert tensor.dtype == getattr(torch, dtype.name) and tuple(tensor.shape) == view.shape
            assert not view.size or tensor.data_ptr() == address_of(view)
            assert not tensor.requires_grad
            back = numbacc.asnumpy(numbacc.asarray(tensor))
            np.testing.assert_array_equal(bits(np.ascontiguousarray(back)), bits(np.ascontiguousarray(wanted)))
    x = place.put(np.zeros(3, np.float32)).astype("bfloat16")
    tensor = numbacc.to_torch(x)
    tensor.fill_(2)
    assert place.get(x).tolist() == [2] * 3
    del x
    gc.collect()
    trash = [place.put(np.full(3, 9.0)) for _ in range(9)]
    assert tensor.tolist() == [2] * 3 and trash
    assert numbacc.to_torch(torch.ones(3)).tolist() == [1] * 3


def test_arrays_that_are_no_tensors(place, from_pointer):
    needed("torch", "torch")
    x = place.put(np.arange(4.0))
    refused(numbacc.LayoutError, "negative strides", "numbacc.array", run=lambda: numbacc.to_torch(x[::-1]))
    refused(
        numbacc.LayoutError,
        "read-only",
        run=lambda: numbacc.to_torch(from_pointer(address_of(x), 4, "f8", readonly=True)),
    )
    refused(numbacc.DTypeError, "array is a list", run=lambda: numbacc.to_torch([1.0]))


@pytest.mark.gpu
def test_tensors_are_in_order_with_numbacc():
    from gpu_work import Slow

    torch, slow = needed("torch", "torch"), Slow()
    for dtype in ("float32", "bfloat16", "float8_e4m3fn"):
        x, s = numbacc.zeros((64, 64), dtype), numbacc.stream()
        slow(s)
        with s:
            x[...] = 3
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = numbacc.to_torch(x)  # waits for s
            assert (tensor.float() == 3).all()
            torch.cuda._sleep(20_000_000)
            tensor.copy_(torch.full((64, 64), 5.0, device="cuda").to(tensor.dtype))
        assert (numbacc.asnumpy(x, stream=s).astype("f4") == 5).all()  # waits for torch's stream


@pytest.mark.gpu
def test_an_address_is_in_order_with_its_owner():
    from gpu_work import Slow

    torch, slow, s = needed("torch", "torch"), Slow(), numbacc.stream()
    theirs = torch.cuda.Stream()
    with torch.cuda.stream(theirs):
        memory = torch.zeros(64, 64, device="cuda")
        slow(theirs)
        memory.fill_(3)
    x = numbacc.from_pointer(memory.data_ptr(), (64, 64), owner=memory, stream=theirs)
    with s:
        y = x + 1
        x[...] = 7
    with torch.cuda.stream(theirs):
        again = memory + 0
    assert (numbacc.asnumpy(y) == 4).all() and (again.cpu() == 7).all()
    with pytest.raises(numbacc.DeviceError, match="does not exist"):
        numbacc.from_pointer(memory.data_ptr(), 3, device=99)
