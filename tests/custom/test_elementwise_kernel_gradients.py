"""Gradients of kernels of one's own: derived, or given as backward=."""

# ruff: noqa: B023
from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from conftest import refused
from own_kernels import DTYPES, FLOATS, capped, close, numbers

import numbacc
from numbacc import elementwise as ew
from numbacc.errors import DTypeError, OptionError, UnsupportedError
from numbacc.functions.digamma import trigamma

pytestmark = pytest.mark.usefixtures("poison")


@pytest.mark.parametrize("name", FLOATS)
def test_gradients(place, name):
    x, dy = numbers((3, 4), name), numbers((3, 4), name, 1)
    wide = x.astype(np.float64)
    dx, ds = capped.backward(place.put(dy), place.put(x), place.put(np.full_like(x, 2)))
    t = np.tanh(wide / 2)
    close(place, dx, dy * (1 - t * t), name)
    close(place, ds, dy * (t - wide / 2 * (1 - t * t)), name)
    assert dx.dtype == ds.dtype == DTYPES[name]
    (dx,) = capped.backward(place.put(dy), place.put(x), 2.0)
    close(place, dx, dy * (1 - t * t), name)


def test_gradients_of_several_results_and_branches(place):
    own = ew.kernel(lambda x, y: (x * y, x + y if x > 0 else 0.0))
    x, y = np.array([1.0, -2.0]), np.array([3.0, 4.0])
    a, b = np.array([1.0, 1.0]), np.array([10.0, 10.0])
    dx, dy = own.backward((place.put(a), place.put(b)), place.put(x), place.put(y))
    close(place, dx, [13, 4])
    close(place, dy, [11, -2])
    for wrong in (place.put(a), (place.put(a),), (place.put(a),) * 3):
        refused(OptionError, "dy", "2", run=lambda: own.backward(wrong, place.put(x), place.put(y)))


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3, 4)), ((2, 3, 1), (3, 4)), ((0, 4), (4,))]
)
def test_gradients_of_what_was_repeated_are_summed(place, shapes):
    x, y = (np.asarray(numbers(shape, "float32", k)) for k, shape in enumerate(shapes))
    whole = np.broadcast_shapes(*shapes)
    dy = np.asarray(numbers(whole, "float32", 2))
    dx, dz = ew.kernel(lambda x, y: x * y).backward(place.put(dy), place.put(x), place.put(y))
    for found, wide, own in ((dx, dy * y, x), (dz, dy * x, y)):
        axes = tuple(d for d in range(len(whole)) if d < len(whole) - own.ndim or own.shape[d - len(whole)] != whole[d])
        assert found.shape == own.shape and found.dtype == own.dtype
        close(place, found, wide.sum(axes).reshape(own.shape))
    (dx,) = ew.kernel(lambda x, s: x * s).backward(place.put(dy), place.put(dy), 2.0)
    close(place, dx, 2 * dy)


def test_a_backward_of_ones_own(place):
    own = ew.kernel(lambda x, s=2.0: math.floor(s * x), backward=lambda dy, x, s: (dy * s * 10,))
    x = np.array([0.6, 1.2])
    close(place, own(place.put(x)), [1, 2])
    close(place, own.backward(place.put(x), place.put(x))[0], 20 * x)
    close(place, own.backward(place.put(x), place.put(x), s=3.0)[0], 30 * x)
    one = ew.kernel(lambda x: x, backward=lambda dy, x: dy * 3)
    close(place, one.backward(place.put(x), place.put(x))[0], 3 * x)
    for wrong in (lambda dy: (dy,), lambda dy, x, y: (dy,), lambda dy, x: (dy, dy)):
        bad = ew.kernel(lambda x: x, backward=wrong)
        with pytest.raises(numbacc.Error, match="backward"):
            bad.backward(place.put(x), place.put(x))
    none = ew.kernel(lambda x: trigamma(x))
    close(place, none(place.put(x)), [trigamma(v) for v in x])
    run = functools.partial(none.backward, place.put(x), place.put(x))
    refused(UnsupportedError, "derivative", "trigamma", "backward=", run=run)


def test_given_gradients(place):
    x, dy = numbers((4,), "float32"), numbers((4,), "float32", 1)
    out = (place.put(np.full(4, np.nan, np.float32)), place.put(np.full(4, np.nan, np.float32)))
    own = ew.kernel(lambda x, y: x * y)
    found = own.backward(place.put(dy), place.put(x), place.put(dy), out=out)
    assert found is out
    close(place, out[0], dy * dy), close(place, out[1], dy * x)
    with pytest.raises(numbacc.Error, match="out"):
        own.backward(place.put(dy), place.put(x), place.put(dy), out=out[:1])
    wide = place.put(np.ones((3, 4), np.float32))
    with pytest.raises(numbacc.Error, match="out"):
        own.backward(wide, wide, place.put(dy), out=out[:1])


def test_gradients_with_respect_to_numbers_alone(place):
    """There are none."""
    dy = place.put(np.ones(3))
    with pytest.raises(numbacc.Error):
        ew.exp_backward(dy, 2.0)
    with pytest.raises(numbacc.Error):
        ew.multiply_backward(dy, 2.0, 3.0)
    with pytest.raises(numbacc.Error):
        capped.backward(dy, 2.0, 3.0)


def test_of_masks_and_indices_there_are_none(place):
    own = ew.kernel(lambda x, mask, n: ew.where(mask, x * x * n, x))
    x, mask, n = numbers((3, 4), "float32"), np.arange(12).reshape(3, 4) % 3 == 0, np.arange(4, dtype=np.int32)
    dy = place.put(np.ones((3, 4)))
    dx, *others = own.backward(dy, place.put(x), place.put(mask), place.put(n))
    assert others == [None, None] and dx.dtype == np.float32
    close(place, dx, np.where(mask, 2.0 * x * n, 1))
    out = (place.empty((3, 4), np.dtype(np.float32)).view, None)
    assert own.backward(dy, place.put(x), place.put(mask), 3, out=out) is out
    close(place, out[0], np.where(mask, 6 * x, 1))
    dot = ew.reduction(lambda x, mask: x * x * mask, after=lambda total, n: total / n)
    for axis, dy in ((None, np.array(8.0)), (0, np.ones(4))):
        dx, none = dot.backward(place.put(dy), place.put(x), place.put(mask), axis=axis)
        assert none is None and dx.dtype == np.float32
        close(place, dx, (8 / 12 if axis is None else 1 / 3) * 2 * x * mask)
    refused(
        DTypeError, "x", "int32", run=lambda: own.backward(place.put(np.ones(4)), place.put(n), place.put(mask[0]), 1)
    )
