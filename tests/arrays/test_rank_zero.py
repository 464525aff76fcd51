"""Totals and other arrays of rank 0 as arguments: NumPy makes numbers of its own, which are taken as such arrays."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import elementwise as ew
from numbacc.errors import DTypeError, LayoutError

X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)
TOTAL, MOST = X.sum(), X.max()
own = ew.kernel(lambda x, y, by=1.0: x * y * by)
dot = ew.reduction(lambda x, y: x * y)
ONES = np.ones(X.shape, np.float32)

#: Lines that are the same wherever x is, and what they give.
LINES = {
    "asnumpy": (lambda x: numbacc.asnumpy(x.sum()), TOTAL),
    "empty_like": (lambda x: numbacc.empty_like(x.sum()) * 0, np.float32(0)),
    "one array": (lambda x: ew.exp(x.sum()), np.exp(TOTAL)),
    "a number": (lambda x: ew.maximum(x.sum(), 7.5), np.float32(7.5)),
    "two": (lambda x: ew.multiply(x.sum(), x.max()), TOTAL * MOST),
    "an array": (lambda x: ew.subtract(x, x.max()), X - MOST),
    "a wider dtype": (lambda x: ew.add(x, x.sum(dtype="float64")), X + np.float64(TOTAL)),
    "integers": (lambda x: ew.add(ew.astype(x, "int8").sum(), 2), np.int64(X.astype(np.int8).sum() + 2)),
    "condition": (lambda x: ew.where(x.sum() > 0, 1.5, x.max()), np.float32(1.5)),
    "condition alone": (lambda x: ew.where(x.sum() > 0, 1.5, 2.0), np.float64(1.5)),
    "condition, a number": (lambda x: ew.where(x.sum() * 0, 1.5, x), X),
    "truth": (lambda x: ew.logical_not(x.sum() > 0), np.False_),
    "where=": (lambda x: ew.add(x, 1, out=x, where=x.sum() > 0), X + 1),
    "clamp": (lambda x: ew.clamp(x.sum(), 0, x.max()), MOST),
    "astype": (lambda x: ew.astype(x.sum(), "float64"), np.float64(TOTAL)),
    "a copy or itself": (lambda x: ew.astype(x.sum(), x.dtype, copy=False) + 0, TOTAL),
    "own": (lambda x: own(x.sum(), x.max(), by=0.5), TOTAL * MOST / 2),
    "own, an option": (lambda x: own(x, 2.0, by=np.float32(0.5)), X),
    "own reduction": (lambda x: dot(x.sum(), x), np.float32(TOTAL * TOTAL)),
    "reduction": (lambda x: ew.sum(x.sum()), TOTAL),
    "stack": (lambda x: ew.stack([x.sum(), x.max()]), np.array([TOTAL, MOST])),
    "concatenate": (lambda x: ew.concatenate([x, x.sum()], None), np.append(X, TOTAL)),
    "plan": (lambda x: ew.exp.plan(x.sum())(x.max()), np.exp(MOST)),
    "plan of two": (lambda x: ew.add.plan(x.sum(), x)(x.max(), x), X + MOST),
    "plan of numbers": (lambda x: ew.add.plan(x.sum(), 1.0)(x.max(), 2.0), MOST + 2),
    "backward": (lambda x: ew.exp_backward(x.max(), x.sum()), MOST * np.exp(TOTAL)),
    "backward of two": (lambda x: ew.multiply_backward(x * 0 + 1, x, x.sum()), (ONES * TOTAL, TOTAL)),
    "backward of a number": (lambda x: ew.multiply_backward(x.max(), x.sum(), 3.0), (3 * MOST,)),
    "own backward": (lambda x: own.backward(x.sum(), x.sum(), x.max()), (TOTAL * MOST, TOTAL * TOTAL)),
    "own reduction's": (lambda x: dot.backward(dot(x, x.max()), x, x.max()), (ONES * TOTAL * MOST**2, TOTAL**2 * MOST)),
    "reduction's": (lambda x: ew.sum_backward(x.sum(), x), ONES * TOTAL),
    "reduction's, of one": (lambda x: ew.mean_backward(x.sum(), x.max()), TOTAL),
    "scan": (lambda x: ew.cumsum(x.sum(), axis=None), np.array([TOTAL])),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_lines_are_the_same_wherever_arrays_are(place, name):
    run, wanted = LINES[name]
    found = run(place.put(X))
    assert isinstance(found, tuple) == isinstance(wanted, tuple)
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        if name != "empty_like":  # its numbers are arbitrary
            np.testing.assert_allclose(numbacc.asnumpy(one), other, rtol=1e-5, atol=1e-6)


def test_what_asnumpy_gives_can_be_written(place):
    found = numbacc.asnumpy(place.put(X).sum())
    assert type(found) is np.ndarray and found.flags.writeable


@pytest.mark.parametrize("number", [np.float64(2), np.int8(2), np.True_, numbacc.bfloat16(2)], ids=repr)
def test_of_each_dtype(numpy_place, number):
    found = ew.add(number, np.float32(1.0))
    assert isinstance(found, np.ndarray) and found.shape == ()
    assert found.dtype == ew.add(np.asarray(number), np.ones((), np.float32)).dtype
    assert float(found) == float(number) + 1


def test_beside_device_arrays_they_are_numbers(device_place):
    """Of which there are no gradients; their dtype counts."""
    x = device_place.put(X)
    assert ew.add(x, np.float64(1)).dtype == np.float64
    (found,) = ew.multiply_backward(x, x, np.float32(3))
    np.testing.assert_allclose(device_place.get(found), 3 * X)
    assert ew.exp(np.float32(1)).shape == ()  # beside none: NumPy's


def test_nothing_is_written_to_them(place):
    x = place.put(X)
    refused(DTypeError, "out is a float32", run=lambda: ew.exp(x[0], out=np.float32(1)))
    refused(DTypeError, "out[1] is a float32", run=lambda: ew.multiply_backward(x, x, x, out=(x, np.float32(1))))
    refused(DTypeError, "x1 has dtype", run=lambda: ew.add(np.str_("a"), np.ones(2)))
    refused(LayoutError, "float64", run=lambda: ew.exp.plan(np.float32(1))(np.float64(1)))
