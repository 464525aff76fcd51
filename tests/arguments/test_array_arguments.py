"""Shapes and dtypes: what names one, and what does not, wherever an array is made."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from conftest import refused
from in_one import in_one
from wrong_arguments import HUGE, OBJECT, full, made

import numbacc
from numbacc import gemm


def test_pythons_float_is_a_dtype():
    assert numbacc.empty(3, float).dtype == np.float64


@pytest.mark.parametrize(
    "dtype",
    [
        [], {}, "float31", "f4,", None, 5, OBJECT, [("a", 5)], "datetime64[s]", ">f4", "O", np.longdouble,
        True, 1, 1.0, 1j, np.float32(1), np.float64(1), np.int8(1), np.True_, numbacc.bfloat16(1), np.ones(2), b"f4",
    ],
    ids=repr,
)  # fmt: skip
def test_dtypes_that_are_none(place, dtype):
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


def test_what_equals_a_shape_that_was_asked_for_is_none(place):
    """Layouts of new arrays are looked up by shape, where True is 1, and 2.0 is 2."""
    for shape in ((1, 2), 1, (2, 1)):
        assert numbacc.empty(shape).size in (1, 2)
    for shape in ((True, 2), (1.0, 2), True, 1.0, (np.True_, 2), (2, 1 + 0j)):
        refused(numbacc.ShapeError, "shape", run=lambda shape=shape: numbacc.empty(shape))
    assert numbacc.empty((np.int8(1), 2)).shape == (1, 2)


def test_more_than_there_is(place):
    """An address exists for every byte, but no memory."""
    refused(numbacc.DeviceError, "memory", run=lambda: numbacc.empty(2**59, "float32"))


@pytest.mark.parametrize("wrong", [True, 1, 1.0, np.float32(1), np.float64(1), np.True_], ids=repr)
def test_numbers_name_no_dtype_wherever_one_is_named(place, wrong):
    x = place.put(np.ones((2, 2), np.float32))
    gemm.matmul(x, x, out_dtype=np.float32)
    for run in (
        lambda: gemm.matmul(x, x, out_dtype=wrong),
        lambda: gemm.matmul.plan(x, x, out_dtype=wrong),
        lambda: numbacc.empty_like(x, dtype=wrong),
        lambda: numbacc.random.Generator().random(3, dtype=wrong),
        *[lambda: x.view(wrong)] * place.is_device,
    ):
        refused(numbacc.DTypeError, "dtype=", run=run)


NO_NUMBERS = {
    "None": None, "text": "5", "bytes": b"5", "NumPy's text": np.str_("5"), "date": np.datetime64("2020"),
    "duration": np.timedelta64(5), "object": OBJECT, "dictionary": {},
}  # fmt: skip
AROUND = {
    "alone": lambda v: v, "tuple": lambda v: (v,), "list": lambda v: [1, v, 2], "nested": lambda v: [[1.5, v]],
    "objects": lambda v: np.array([1, v, 2], object), "array": np.array, "arrays": lambda v: np.array([v]),
}  # fmt: skip


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@in_one("value", NO_NUMBERS.values())
@in_one("dtype", ["float32", "bfloat16", "int8", "complex64", "bool"])
def test_what_is_no_number_is_none_inside_of_others(place, value, around, dtype):
    """NumPy makes NaN of None, and numbers of text and dates."""
    wrong = around(value)
    refused(numbacc.DTypeError, "fill_value", run=lambda: full(place, (1, 3), wrong, dtype))
    refused(numbacc.DTypeError, "obj", run=lambda: numbacc.asarray(wrong, dtype))
    refused(numbacc.DTypeError, "obj", run=lambda: numbacc.asarray(wrong))
    if place.is_device:
        refused(numbacc.DTypeError, "value", run=lambda: made(place, (1, 3), dtype).__setitem__(..., wrong))


@pytest.mark.parametrize(
    "value", [[Fraction(1, 4), 1], [Decimal("1.5")], [2**70, 1], np.array([1, 2.5, Fraction(1, 2)], object)], ids=str
)
def test_numbers_of_all_kinds_are_numbers_inside_of_others(place, value):
    want = np.asarray(value, np.float32)
    np.testing.assert_array_equal(numbacc.asnumpy(full(place, want.shape, value)), want)
    np.testing.assert_array_equal(numbacc.asnumpy(numbacc.asarray(value, "float32")), want)
