"""Shapes and dtypes: what names one, and what does not, wherever an array is made."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from test_arguments import HUGE, OBJECT, full

import numbacc
from numbacc import gemm


@pytest.mark.parametrize(
    "dtype",
    [
        [], {}, "float31", "f4,", None, 5, OBJECT, [("a", 5)], "datetime64[s]", ">f4", "O", float, np.longdouble,
        True, 1, 1.0, 1j, np.float32(1), np.float64(1), np.int8(1), np.True_, numbacc.bfloat16(1), np.ones(2), b"f4",
    ],
    ids=repr,
)  # fmt: skip
def test_dtypes_that_are_none(place, dtype):
    if dtype is float:
        assert numbacc.empty(3, dtype).dtype == np.float64
        return
    for run in (
        lambda: numbacc.empty(3, dtype),
        lambda: numbacc.zeros(3, dtype),
        lambda: numbacc.full(3, 1, dtype),
        lambda: numbacc.asarray(np.ones(3), dtype) if dtype is not None else numbacc.empty(3, dtype),
    ):
        refused(numbacc.DTypeError, "dtype", run=run)


@pytest.mark.parametrize(
    "shape",
    [
        "a", "", b"x", b"", ("a",), 1.5, (2, 1.5), None, [None], -1, (3, -2), [[1]], OBJECT, (-HUGE,), {}, set(),
        {3, 4}, {2: 3}, iter([2, 3]), True, (True, 2), [np.True_], np.True_, np.ones(2), np.ones((1, 1), int),
        memoryview(b"x"),
    ],
    ids=lambda s: type(s).__name__,
)  # fmt: skip
def test_shapes_that_are_none(place, shape):
    for make in (numbacc.empty, numbacc.zeros, lambda shape: numbacc.full(shape, 1)):
        refused(numbacc.ShapeError, "shape=", run=lambda make=make: make(shape))


@pytest.mark.parametrize(
    "shape", [2, (3, 2), [3, 2], range(2, 4), np.array([3, 2]), np.int8(2), (np.uint64(2),)], ids=str
)
def test_shapes_of_all_kinds(place, shape):
    assert numbacc.zeros(shape).shape == np.zeros(shape).shape == place.get(full(place, shape, 1)).shape


@pytest.mark.parametrize(
    "shape", [2**62, 2**63, HUGE, (2**40, 2**40), (0, 2**64), (0, 2**40, 2**40), (1,) * 65], ids=lambda s: str(type(s))
)
def test_shapes_that_no_memory_has(place, shape):
    for make in (numbacc.empty, numbacc.zeros, lambda shape: numbacc.full(shape, 1)):
        refused(numbacc.ShapeError, "shape=", "too large", run=lambda make=make: make(shape))


def test_more_than_there_is(place):
    """An address exists for every byte, but no memory."""
    refused(numbacc.DeviceError, "memory", run=lambda: numbacc.empty(2**59, "float32"))


@pytest.mark.parametrize("wrong", [True, 1, 1.0, np.float32(1), np.float64(1), np.True_], ids=repr)
def test_numbers_name_no_dtype_wherever_one_is_named(place, wrong):
    x = place.put(np.ones((2, 2), np.float32))
    gemm.matmul(x, x, out_dtype=np.float32)
    for run in (
        lambda: gemm.matmul(x, x, out_dtype=wrong),
        lambda: gemm.matmul_plan(x, x, out_dtype=wrong),
        lambda: numbacc.empty_like(x, dtype=wrong),
        lambda: numbacc.random.Generator().random(3, dtype=wrong),
        *[lambda: x.view(wrong)] * place.is_device,
    ):
        refused(numbacc.DTypeError, "dtype=", run=run)
