"""Where arrays are made that are like others, and what is not converted on the way."""

from __future__ import annotations

import array

import numpy as np
import pytest
from conftest import refused
from foreign import OnlyDlpack
from in_one import in_one

import numbacc
from numbacc.base import casts
from numbacc.base.dtypes import TABLE


def test_an_array_like_another_is_where_that_is(place):
    """Also NumPy's on a machine with a GPU; unless another dtype or device is asked for."""
    like = place.put(np.ones((2, 3), np.float16))
    for made, dtype in ((numbacc.empty_like(like), "float16"), (numbacc.empty_like(like, dtype="int8"), "int8")):
        assert (type(made), made.shape, made.dtype) == (type(like), (2, 3), np.dtype(dtype))
    assert type(numbacc.empty_like(np.ones(3))) is np.ndarray
    assert type(numbacc.empty_like(like, device="cpu")) is np.ndarray


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float64", "float16"])
def test_what_is_on_a_gpu_is_not_converted(device_place, dtype):
    """Not even to a dtype of the same size."""
    x = device_place.put(np.ones(3, np.float32))
    refused(numbacc.DTypeError, "obj", "float32", dtype, run=lambda: numbacc.asarray(x, dtype))
    assert numbacc.asarray(x, "float32") is x


@pytest.mark.parametrize("dtype, fits", [("int32", True), ("int8", False), ("float16", False), ("float64", False)])
def test_the_same_bytes_as_another_dtype_of_their_size(device_place, dtype, fits):
    x = device_place.put(np.arange(4, dtype=np.float32))
    if fits:
        np.testing.assert_array_equal(numbacc.asnumpy(x.view(dtype)), np.arange(4, dtype=np.float32).view(dtype))
    else:
        refused(numbacc.DTypeError, "float32", dtype, "sizes", run=lambda: x.view(dtype))


def sources(place):
    """Return objects that become arrays, by name."""
    host = np.arange(6, dtype=np.float32)
    own = place.put(host)
    swapped = np.asfortranarray(host.reshape(2, 3)).T
    buffer = array.array("f", range(6))
    return {
        "list": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "numpy": host, "read-only": np.broadcast_to(host, host.shape),
        "transposed": swapped, "steps": np.repeat(host, 2)[::2], "dlpack": OnlyDlpack(host), "buffer": buffer,
        "numpy's number": np.float32(3), "number": 3.0, "place": own, "view": own[::2],
    }  # fmt: skip


SOURCES = (
    "list", "numpy", "read-only", "transposed", "steps", "dlpack", "buffer", "numpy's number", "number", "place",
    "view",
)  # fmt: skip


def as_numpy(obj):
    if isinstance(obj, OnlyDlpack):
        return obj._owner
    return np.array(numbacc.asnumpy(obj) if hasattr(obj, "shape") else obj)


@pytest.mark.parametrize("dtype", [None, "float32", "float64", "int8"])
@pytest.mark.parametrize("name", SOURCES)
def test_a_copy_shares_nothing(place, name, dtype):
    obj = sources(place)[name]
    before = np.array(as_numpy(obj))
    for made in (numbacc.array(obj, dtype), numbacc.asarray(obj, dtype, copy=True)):
        assert isinstance(made, np.ndarray) is not (numbacc.has_gpu())
        expected = before if dtype is None else before.astype(dtype)
        assert made.dtype == expected.dtype and made.shape == before.shape
        np.testing.assert_array_equal(numbacc.asnumpy(made), expected)
        made[...] = 9
        assert (numbacc.asnumpy(made) == 9).all()
        np.testing.assert_array_equal(as_numpy(obj), before)


@pytest.mark.parametrize("name", SOURCES)
def test_no_copy_shares_memory_or_raises(place, name):
    obj = sources(place)[name]
    here = numbacc.asarray(0.0).__class__ is np.ndarray
    is_device = name in ("place", "view") and place.is_device
    if name in ("list", "numpy's number", "number") or (not here and not is_device):
        refused(numbacc.LayoutError, "copy=False", "needs a copy", run=lambda: numbacc.asarray(obj, copy=False))
    else:
        made = numbacc.asarray(obj, copy=False)
        assert made is obj if is_device else np.may_share_memory(made, np.asarray(as_view(obj)))
    for dtype in ("float64", "int8"):
        error = numbacc.DTypeError if is_device else numbacc.LayoutError
        refused(error, "needs a copy", run=lambda dtype=dtype: numbacc.asarray(obj, dtype, copy=False))


def as_view(obj):
    return obj._owner if isinstance(obj, OnlyDlpack) else obj


def test_a_copy_is_made_only_where_it_is_needed(place):
    host = np.arange(6, dtype=np.float32)
    x = place.put(host)
    assert numbacc.asarray(x) is x and numbacc.asarray(x, "float32") is x
    assert numbacc.asarray(host, device="cpu") is host
    assert numbacc.asarray(host, "float32", device="cpu", copy=False) is host
    assert numbacc.asarray(host, device="cpu", copy=True) is not host
    there = numbacc.array(x, device="cpu")
    assert type(there) is np.ndarray and there is not x
    np.testing.assert_array_equal(there, host)
    np.testing.assert_array_equal(numbacc.array(x, "int16", device="cpu"), host.astype("int16"))
    if place.is_device:
        refused(numbacc.LayoutError, "copy=False", "cpu", run=lambda: numbacc.asarray(x, device="cpu", copy=False))


def test_copies_keep_the_order_of_memory(place):
    x = place.put(np.arange(6, dtype=np.float32).reshape(2, 3)).T
    assert numbacc.array(x).strides == x.strides == (4, 12)
    steps = place.put(np.arange(8, dtype=np.float32))[::2]
    assert numbacc.array(steps).strides == (4,)


@in_one("source", TABLE)
@in_one("target", TABLE)
def test_one_number_stays_an_array(source, target):
    """NumPy's functions make scalars of arrays of rank 0, and ml_dtypes' scalars have no memory."""
    for value in (np.ones((), TABLE[source].numpy), np.ones(3, TABLE[source].numpy)[1]):
        found = casts.cast(value.real if target[0] != "c" else value, TABLE[target].numpy)
        assert type(found) is np.ndarray and found.shape == () and found.dtype == TABLE[target].numpy and found == 1


@pytest.mark.parametrize("source", TABLE)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_one_number_goes_to_a_gpu_and_back(place, name, source):
    value = np.ones((), "float32" if source[0] == "c" else TABLE[source].numpy)
    for made in (numbacc.asarray(value, name), numbacc.array(value, name), numbacc.full((), value, name)):
        assert numbacc.asnumpy(made) == 1 and made.shape == () and made.dtype == TABLE[name].numpy
    made[...] = value


@pytest.mark.parametrize("copy", [0, 1, "yes", "if needed"])
def test_whether_to_copy_is_true_or_false(copy):
    refused(numbacc.OptionError, "copy", run=lambda: numbacc.asarray([1.0], copy=copy))


def test_what_is_copied_to_lies_in_one_piece(place):
    x = place.put(np.arange(6, dtype=np.float32).reshape(2, 3))
    for out in (np.zeros((3, 2), np.float32).T, np.zeros((2, 6), np.float32)[:, ::2]):
        refused(numbacc.LayoutError, "out", "C-contiguous", run=lambda out=out: numbacc.asnumpy(x, out=out))
        assert not out.any()
    out = np.zeros((2, 3), np.float32)
    assert numbacc.asnumpy(x, out=out) is out
    np.testing.assert_array_equal(out, [[0, 1, 2], [3, 4, 5]])
