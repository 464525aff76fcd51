"""Gradients of reductions of one's own that merge by "max" and "min", against differences and the built-in ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numbacc
from numbacc import elementwise as ew

pytestmark = pytest.mark.usefixtures("poison", "small_reductions")


farthest = ew.reduction(lambda x, y: abs(x - y), merge="max")
bounds = ew.reduction(lambda x, by=1.0: (x * by, -x), merge="max", after=lambda high, low, n: (high + low) * n)
X = np.array([[1.0, -3.0, 3.0, 2.0], [2.0, 0.5, -1.0, 0.0]])


@pytest.mark.parametrize("merge", ["max", "min"])
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("axis, keepdims", [(None, False), (0, False), (1, True), ((), False)], ids=str)
def test_of_numbers_themselves_they_are_the_built_in_ones(place, merge, name, axis, keepdims):
    """Among all that are equal the gradient is shared; so it is among all NaN."""
    dtype = np.dtype(getattr(numbacc, name, name))
    x = np.array([[1, 3, 3, -2, 3], [0, -2, -2, np.nan, np.nan], [-np.inf] * 5, [0.0, -0.0, 0, -0.0, 0]]).astype(dtype)
    own, built_in = ew.reduction(lambda x: x, merge=merge), getattr(ew, f"{merge}_backward")
    d = place.put(x)
    total = own(d, axis=axis, keepdims=keepdims)
    dy = place.put(np.linspace(1, 2, math.prod(total.shape)).reshape(total.shape).astype(dtype))
    (dx,) = own.backward(dy, d, axis=axis, keepdims=keepdims)
    wanted = built_in(dy, d, axis=axis, keepdims=keepdims)
    assert dx.dtype == dtype
    np.testing.assert_array_equal(place.get(dx), place.get(wanted))


def test_it_goes_through_the_map_to_all_arguments(place):
    x, y, dy = X, np.array([0.0, 3.0, -3.0, 0.0]), np.array([1.0, 10.0])
    dx, dz = farthest.backward(place.put(dy), place.put(x), place.put(y), axis=1)
    np.testing.assert_array_equal(place.get(dx), [[0, -0.5, 0.5, 0], [0, -10, 0, 0]])
    np.testing.assert_array_equal(place.get(dz), [0, 10.5, -0.5, 0])
    (dx,) = farthest.backward(place.put(dy), place.put(x), 100.0, axis=1)
    np.testing.assert_array_equal(place.get(dx), [[0, -1, 0, 0], [0, 0, -10, 0]])
    out = (place.empty(x.shape, np.dtype(float)).view, None)
    mask = place.put(np.array([True, False, True, True]))
    assert farthest.backward(place.put(dy), place.put(x), mask, axis=1, out=out) is out
    np.testing.assert_array_equal(place.get(out[0]), [[0, -1, 0, 0], [0, 0, -10, 0]])


def test_several_parts_and_what_follows(place):
    dy = np.array([1.0, 2.0])
    (dx,) = bounds.backward(place.put(dy), place.put(X), axis=1, by=2.0)
    np.testing.assert_array_equal(place.get(dx), [[0, -4, 8, 0], [16, 0, -8, 0]])
    own = ew.reduction(lambda x: x * x, merge="min", after=lambda least: (math.sqrt(least), least))
    pair = (place.put(np.array(3.0)), place.put(np.array(1.0)))
    (dx,) = own.backward(pair, place.put(np.array([4.0, -2.0, 3.0])))
    np.testing.assert_array_equal(place.get(dx), [0, 3 * -1 + 2 * -2, 0])


def test_what_is_not_the_extreme_gets_nothing_though_its_slope_be_infinite(place):
    (dx,) = ew.reduction(lambda x: math.sqrt(x), merge="max").backward(
        place.put(np.array(2.0)), place.put(np.array([0.0, 4.0, 1.0]))
    )
    np.testing.assert_array_equal(place.get(dx), [0, 0.5, 0])
    (dx,) = ew.reduction(lambda x: 1 / x, merge="min").backward(
        place.put(np.array(2.0)), place.put(np.array([0.0, 4.0, 1.0]))
    )
    np.testing.assert_array_equal(place.get(dx), [0, -2 / 16, 0])


def test_of_nothing_there_is_nothing(place):
    for shape, axis, left in (((2, 0), 1, (2,)), ((0, 3), 1, (0,)), ((0,), None, ())):
        dx, dz = farthest.backward(
            place.put(np.ones(left)), place.put(np.ones(shape)), place.put(np.ones(())), axis=axis
        )
        assert dx.shape == shape and place.get(dz) == 0


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_parts_are_equal_to_their_totals_however_they_are_rounded(place, axis):
    """In float32, where products that are added would be rounded once in one kernel and twice in another."""
    shape = (7, 33) if place.is_slow else (700, 333)
    x, y = (np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k in range(2))
    own = ew.reduction(lambda x, y: x * y - x * math.exp(y) + y * y, merge="max")
    total = own(place.put(x), place.put(y), axis=axis)
    dy = np.ones(total.shape, np.float32)
    dx, _ = own.backward(place.put(dy), place.put(x), place.put(y), axis=axis)
    assert (np.count_nonzero(place.get(dx), axis=axis) == 1).all()
    wide = x.astype(float), y.astype(float)
    best = np.argmax(wide[0] * wide[1] - wide[0] * np.exp(wide[1]) + wide[1] ** 2, axis=axis)
    assert (np.argmax(place.get(dx) != 0, axis=axis) == best).all()
