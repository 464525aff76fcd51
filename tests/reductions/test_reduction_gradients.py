"""Gradients of reductions: against formulas in float64, central differences, at ties, zeros, NaN."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from conftest import refused
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DTYPES
from reduction_gradients import CALLS, assert_near, axes_of, gradient, options_of, values
from row_ptx import check, dense, orders_of, widest
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.elementwise import reduction_gradients

pytestmark = pytest.mark.usefixtures("poison")

each_call = pytest.mark.parametrize("call", CALLS)


def pair(call):
    name = call.partition(",")[0]
    return getattr(ew, name), getattr(ew, f"{name}_backward")


@st.composite
def reduced(draw):
    """An array of rank up to 3 as it lies in memory, which axes of it are reduced, and whether they stay."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    ndim = len(shape)
    axis = draw(st.none() | st.integers(-ndim, ndim - 1) | st.sets(st.integers(0, ndim - 1)).map(tuple))
    lying = {
        "order": draw(st.permutations(range(ndim))),
        "steps": [draw(st.sampled_from([1, 2, -1])) for _ in shape],
        "margins": [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in shape],
    }
    return shape, axis, draw(st.booleans()), draw(st.sampled_from(DTYPES)), lying, draw(st.integers(0, 99))


@pytest.mark.sampled(6)
@each_call
@settings(max_examples=12 if simulated() else 25)
@given(reduced())
def test_any_array(place, call, drawn):
    shape, axis, keepdims, dtype, lying, seed = drawn
    axes, rng = axes_of(axis, len(shape)), np.random.default_rng(seed)
    call, options = options_of(call, shape, axes)
    x = values(rng, call, shape).astype(dtype)
    dy = rng.standard_normal(np.sum(x, axis=axes, keepdims=keepdims).shape).astype(dtype)
    here = place.operand(x, **lying)
    got = pair(call)[1](place.put(dy), here.view, axis=axis, keepdims=keepdims, **options)
    kept = dy.astype(np.float64).reshape([1 if d in axes else n for d, n in enumerate(shape)])
    assert_near(place.get(got), gradient(call, kept, x.astype(np.float64), axes), np.dtype(dtype))
    np.testing.assert_array_equal(place.get(here.view), x)  # what was given stays


@each_call
def test_central_differences(call):
    """Of NumPy's arrays in float64; no two are equal, so that extremes have derivatives."""
    x, (forward, backward) = np.random.default_rng(3).permutation(np.linspace(-2, 2.3, 24)).reshape(2, 3, 4), pair(call)
    for axis in (None, 1, (0, 2)):
        options = CALLS[call]
        dy = np.random.default_rng(4).standard_normal(forward(x, axis=axis, **options).shape)
        got = backward(dy, x, axis=axis, **options)
        for place in np.ndindex(x.shape):
            h = np.zeros_like(x)
            h[place] = 1e-5
            change = forward(x + h, axis=axis, **options) - forward(x - h, axis=axis, **options)
            np.testing.assert_allclose(got[place], (dy * change).sum() / 2e-5, rtol=1e-6, atol=1e-8)


def test_equals_share(place):
    x = place.put(np.array([[3.0, 1.0, 3.0], [-3.0, 0.0, 0.0]], np.float32))
    dy = place.put(np.array([1.0, 2.0], np.float32))
    for backward, options, wanted in [
        (ew.max_backward, {}, [[0.5, 0, 0.5], [0, 1, 1]]),
        (ew.min_backward, {}, [[0, 1, 0], [2, 0, 0]]),
        (ew.norm_backward, {"ord": math.inf}, [[0.5, 0, 0.5], [-2, 0, 0]]),
        (ew.norm_backward, {"ord": -math.inf}, [[0, 1, 0], [0, 0, 0]]),
    ]:
        np.testing.assert_array_equal(place.get(backward(dy, x, axis=1, **options)), wanted)


def test_where_there_is_no_slope(place):
    """At the origin and where all are equal: 0, as torch has it. Of products with several zeros, too."""
    dy, zeros = place.put(np.float32([5.0])), place.put(np.zeros((1, 4), np.float32))
    for backward in (ew.std_backward, ew.norm_backward, ew.var_backward, ew.prod_backward):
        np.testing.assert_array_equal(place.get(backward(dy, zeros, axis=1)), np.zeros((1, 4)))
    for order in (0, 0.5, 1, 3, -1, math.inf, -math.inf):
        np.testing.assert_array_equal(place.get(ew.norm_backward(dy, zeros, axis=1, ord=order)), np.zeros((1, 4)))
    one = place.put(np.float32([[2, 0, 3, 4]]))
    np.testing.assert_array_equal(place.get(ew.prod_backward(dy, one, axis=1)), [[0, 120, 0, 0]])


def test_nan_stays(place):
    x = place.put(np.float32([[1, np.nan, 3, np.nan], [1, 2, 3, 4]]))
    dy = place.put(np.float32([1, 1]))
    for backward in (ew.max_backward, ew.min_backward):
        np.testing.assert_array_equal(place.get(backward(dy, x, axis=1))[0], [0, 0.5, 0, 0.5])
    for call in set(CALLS) - {"sum", "mean", "max", "min", "norm, 0", "norm, 1", "norm, inf", "norm, -inf"}:
        found = place.get(pair(call)[1](dy, x, axis=1, **CALLS[call]))
        assert np.isnan(found[0]).any() and np.isfinite(found[1]).all()


def test_sixteen_bits_are_not_rounded_between(place):
    """A mean of 1000 in bfloat16 is off by up to 2; differences from it are not."""
    x = place.put((1000 + np.arange(8) * 8).astype(DTYPES[3]))
    got = place.get(ew.var_backward(place.put(np.ones((), DTYPES[3])), x)).astype(float)
    np.testing.assert_allclose(got, 2 * (np.arange(8) * 8 - 28) / 8, rtol=2**-8)


def test_of_nothing(place):
    x = place.put(np.zeros((0, 3), np.float32))
    for call in CALLS:
        for axis, shape in ((1, (0,)), (0, (3,)), (None, ())):
            assert pair(call)[1](place.put(np.ones(shape, np.float32)), x, axis=axis, **CALLS[call]).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_equal_numbers_do_not_vary(place, dtype):
    """Whatever rounding makes of their sum."""
    x = place.put(np.broadcast_to(np.array([[0.1], [1 / 3], [-7e3], [0.7]], dtype), (4, 299)).copy())
    assert not place.get(ew.var(x, axis=1)).any() and not place.get(ew.std(x, axis=1)).any()
    if dtype != "complex64":
        assert not place.get(ew.std_backward(place.put(np.ones(4, dtype)), x, axis=1)).any()


def test_out_and_other_dtypes(place):
    """In place; dy of another float; gradients in a wider one."""
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    wanted = gradient("var", np.ones((4, 1)), x.astype(float), (1,))
    here = place.put(x)
    assert ew.var_backward(place.put(np.ones(4)), here, axis=1, out=here) is here
    np.testing.assert_allclose(place.get(here), wanted, rtol=1e-5, atol=1e-6)
    out = place.empty((4, 6), np.dtype(np.float32), steps=(2, -1))
    ew.mean_backward(place.put(np.ones(4, np.float32)), place.put(x), axis=1, out=out.view)
    np.testing.assert_allclose(place.get(out.view), np.full((4, 6), 1 / 6), rtol=1e-6)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_results_in_float64(place, name, dtype):
    """A function whose result is asked for in float64 has a gradient of x's dtype, though dy is float64."""
    host = np.array([[1.0, 2.5, 3.0, -4.0], [0.5, 1.5, -2.0, 3.0]])
    x, dy = place.put(host.astype(dtype)), place.put(np.array([0.75, -1.5]))
    options = {"return_saved": True} if name in ("var", "std") else {}
    y = getattr(ew, name)(x, axis=1, dtype="float64", **options)
    y, saved = y if options else (y, x)
    assert y.dtype == np.float64
    got = getattr(ew, f"{name}_backward")(dy, saved, **({} if options else {"axis": 1}))
    assert_near(place.get(got), gradient(name, np.array([[0.75], [-1.5]]), host, (1,)), dtype)


def test_gradients_lie_as_what_they_are_of(place):
    """Not as dy, which is repeated along what was reduced."""
    own = ew.reduction(lambda x: x * x)
    for axis, shape in ((1, (3,)), (0, (4,))):
        dy = place.put(np.ones(shape, np.float32))
        for order in ("C", "F"):
            x = place.put(np.ones((3, 4), np.float32, order=order))
            for found in (ew.sum_backward(dy, x, axis=axis), own.backward(dy, x, axis=axis)[0]):
                assert found.strides == x.strides


def test_refused(place):
    x = place.put(np.ones((3, 4), np.float32))
    dy = place.put(np.ones(3, np.float32))
    whole, short = place.put(np.ones((3, 4), np.int32)), place.put(np.ones((3, 3), np.float32))
    for name in ("sum", "norm"):
        backward = getattr(ew, f"{name}_backward")
        for error, words, arrays, options in [
            (numbacc.ShapeError, ("dy has shape (3,)", "(4,)"), (dy, x), {"axis": 0}),
            (numbacc.ShapeError, ("axis=2", "rank 2"), (dy, x), {"axis": 2}),
            (numbacc.OptionError, ("keepdims=1",), (dy, x), {"axis": 1, "keepdims": 1}),
            (numbacc.DTypeError, ("x has dtype int32", "needs floats"), (dy, whole), {"axis": 1}),
            (numbacc.DTypeError, ("x is a list",), (dy, [1.0]), {"axis": 0}),
            (numbacc.ShapeError, ("out has shape (3, 3)",), (dy, x), {"axis": 1, "out": short}),
        ]:
            refused(error, *words, run=partial(backward, *arrays, **options))
    refused(numbacc.OptionError, "ord=nan", run=lambda: ew.norm_backward(dy, x, axis=1, ord=math.nan))
    refused(numbacc.OptionError, "correction=inf", run=lambda: ew.var_backward(dy, x, axis=1, correction=math.inf))


def maps(dtype):
    """What the gradients of a matrix's rows launch, by name."""
    plans = reduction_gradients.everyday_reductions(dense((4096, 8192), dtype))
    return {plan._row.name.removeprefix("gradient of "): plan for plan in plans}


@pytest.mark.sampled(3)
@skip_if(simulated(), "not simulated")
@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES])
@pytest.mark.parametrize("name", maps("float32"))
def test_what_the_maps_compile_to(name, dtype):
    """16 bytes at a time; sums and means do not read x, nor does what is 0."""
    (order,) = orders_of(maps(dtype)[name])
    found = check(order.kernel, calls=(name, dtype) == ("norm p", "float64"))
    assert widest(found, "st") == 16
    reads = [access for access in found.accesses if access[:2] == ("ld", "global") and access.nbytes == 16]
    assert bool(reads) is (name.rpartition(" ")[2] not in ("sum", "mean", "0")), name
