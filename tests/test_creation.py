"""Where arrays are made that are like others, and what is not converted on the way."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused

import numbacc


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


def test_what_is_copied_to_lies_in_one_piece(place):
    x = place.put(np.arange(6, dtype=np.float32).reshape(2, 3))
    for out in (np.zeros((3, 2), np.float32).T, np.zeros((2, 6), np.float32)[:, ::2]):
        refused(numbacc.LayoutError, "out", "C-contiguous", run=lambda out=out: numbacc.asnumpy(x, out=out))
        assert not out.any()
    out = np.zeros((2, 3), np.float32)
    assert numbacc.asnumpy(x, out=out) is out
    np.testing.assert_array_equal(out, [[0, 1, 2], [3, 4, 5]])
