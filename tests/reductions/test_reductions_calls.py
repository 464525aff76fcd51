"""How reductions are called: axes, out=, plans and their cache, what is refused and what the messages say."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from conftest import Operand, refused
from reduction_cases import FUNCTIONS, call, each_function

import numbacc
from numbacc.base.dispatch import launcher_class
from numbacc.base.dtypes import TABLE
from numbacc.elementwise import calling, reductions
from numbacc.kernels.reduce.functions import FUNCTIONS as DESCRIBED

pytestmark = pytest.mark.usefixtures("poison")


def matrix(place):
    return place.put(np.arange(12, dtype=np.float32).reshape(3, 4) - 5)


@each_function
def test_axes(place, function):
    x = matrix(place)
    last = place.get(call(function, x, axis=1))
    for axis in (-1, np.int64(1), (1,), (-1,), [1]):
        np.testing.assert_array_equal(place.get(call(function, x, axis=axis)), last)
    kept = call(function, x, axis=1, keepdims=True)
    assert kept.shape == (3, 1)
    np.testing.assert_array_equal(place.get(kept)[:, 0], last)
    assert call(function, x, keepdims=True).shape == (1, 1)
    if function not in ("argmax", "argmin"):
        np.testing.assert_array_equal(place.get(call(function, x, axis=(1, 0))), place.get(call(function, x)))
        assert call(function, x, axis=()).shape == (3, 4)


@each_function
def test_refused_axes(place, function):
    x = matrix(place)
    for axis, words in [(2, ("axis=2", "rank 2", "-2 to 1")), (1.0, ("axis=1.0", "integer")), ("x", ("axis='x'",)),
                        (True, ("axis=True",)), ((0, True), ("axis=(0, True)",))]:  # fmt: skip
        refused(numbacc.ShapeError, *words, run=lambda axis=axis: call(function, x, axis=axis))
    words = ("axis=(0, 1)", "None") if function in ("argmax", "argmin") else ("axis=(0, 0)", "twice")
    axis = (0, 1) if function in ("argmax", "argmin") else (0, 0)
    refused(numbacc.ShapeError, *words, run=lambda: call(function, x, axis=axis))


def test_refused_options(place):
    x = matrix(place)
    refused(numbacc.OptionError, "keepdims=1", "True or False", run=lambda: reductions.sum(x, keepdims=1))
    refused(numbacc.OptionError, "correction='1'", run=lambda: reductions.var(x, correction="1"))
    refused(numbacc.OptionError, "correction=inf", run=lambda: reductions.std(x, correction=math.inf))
    refused(numbacc.OptionError, "correction=True", run=lambda: reductions.std(x, correction=True))
    refused(numbacc.OptionError, "ord=nan", "not a number", run=lambda: reductions.norm(x, ord=math.nan))
    refused(numbacc.OptionError, "ord=True", run=lambda: reductions.norm(x, ord=True))
    refused(numbacc.OptionError, "ord='fro'", run=lambda: reductions.norm(x, ord="fro"))
    refused(numbacc.DTypeError, "dtype='wide'", run=lambda: reductions.sum(x, dtype="wide"))
    refused(numbacc.DTypeError, "dtype=bool", "sum", run=lambda: reductions.sum(x, dtype=bool))
    refused(numbacc.DTypeError, "dtype=int32", "mean", run=lambda: reductions.mean(x, dtype="int32"))
    z = place.put(np.ones(3, np.complex64))
    refused(numbacc.DTypeError, "dtype=float32", "complex64", run=lambda: reductions.sum(z, dtype="float32"))
    refused(numbacc.DTypeError, "x is a list", run=lambda: reductions.sum([1.0, 2.0]))
    refused(numbacc.ShapeError, "rank 9", "0 to 8", run=lambda: reductions.sum(place.put(np.ones((1,) * 9))))


@each_function
def test_out(place, function):
    x = matrix(place)
    wanted = place.get(call(function, x, axis=0))
    for layout in ({}, {"steps": (-2,), "margins": [(3, 1)]}):
        out = place.empty((4,), wanted.dtype, **layout)
        assert call(function, x, axis=0, out=out.view) is out.view
        np.testing.assert_array_equal(out.now(), wanted)
    out = place.empty((1, 4), wanted.dtype, order=(1, 0))
    call(function, x, axis=0, out=out.view, keepdims=True)
    np.testing.assert_array_equal(out.now()[0], wanted)


def test_refused_outs(place):
    x = matrix(place)
    for shape, dtype, error, words in [
        ((3,), "float32", numbacc.ShapeError, ("out has shape (3,)", "the result has shape (4,)")),
        ((4,), "float64", numbacc.DTypeError, ("out has dtype float64", "float32")),
    ]:
        out = place.put(np.zeros(shape, dtype))
        refused(error, *words, run=lambda out=out: reductions.sum(x, axis=0, out=out))
    refused(numbacc.LayoutError, "out overlaps x", run=lambda: reductions.sum(x, axis=0, out=x[1]))
    pair = (place.put(np.zeros(4, np.float32)),) * 2
    refused(numbacc.ShapeError, "tuple of 2", "one result", run=lambda: reductions.sum(x, axis=0, out=pair))
    repeated = Operand(place, np.zeros(4, np.float32), steps=(0,)).view
    refused(numbacc.LayoutError, "out", run=lambda: reductions.sum(x, axis=0, out=repeated))
    if place.is_device:
        host = np.zeros(4, np.float32)
        refused(numbacc.DeviceError, "out is in host memory", run=lambda: reductions.sum(x, axis=0, out=host))


def test_results_lie_as_x_does(place):
    x = place.put(np.ones((2, 3, 4), np.float32).transpose(2, 0, 1).copy(order="F"))
    assert reductions.sum(x, axis=0).strides == (4, 8)
    assert reductions.sum(x, axis=1, keepdims=True).strides[2] == 16


# ---------------------------------------------------------------- plans


@each_function
def test_a_second_call_hits_the_cache(place, function):
    x = matrix(place)
    calling.plans.clear()
    for axis in (0, None):
        call(function, x, axis=axis)
    assert (calling.plans.info().hits, calling.plans.info().misses) == (0, 2)
    call(function, x, axis=0)
    call(function, copy.copy(x) if not place.is_device else matrix(place), axis=None)
    assert (calling.plans.info().hits, calling.plans.info().misses) == (2, 2)
    call(function, x, axis=(0,))
    call(function, x, axis=0, keepdims=True)
    assert calling.plans.info().misses == 4


def test_options_that_are_equal_share_a_plan(place):
    x = matrix(place)
    calling.plans.clear()
    for run in (lambda: reductions.var(x, correction=1), lambda: reductions.var(x, correction=np.float32(1))):
        run()
    for dtype in ("float64", np.float64, np.dtype(float)):
        reductions.sum(x, dtype=dtype)
    for order in (1, 1.0):
        reductions.norm(x, ord=order)
    assert calling.plans.info().misses == 3


@each_function
def test_plans(place, function):
    x, other = matrix(place), place.put(np.ones((4, 3), np.float32))
    plan = getattr(reductions, function).plan(x, axis=1)
    np.testing.assert_array_equal(place.get(plan(x)), place.get(call(function, x, axis=1)))
    info = plan.info
    assert info.op == f"elementwise.{function}" and info.deterministic
    assert info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    assert f"plan of elementwise.{function}" in repr(plan)
    refused(numbacc.LayoutError, "elementwise", run=lambda: plan(other))
    refused(numbacc.LayoutError, "without out", run=lambda: plan(x, out=other))
    out = place.empty((3,), np.dtype(info.dtypes[-1]))
    getattr(reductions, function).plan(x, axis=1, out=out.view)(x, out=out.view)
    np.testing.assert_array_equal(out.now(), place.get(call(function, x, axis=1)))


def test_info_says_what_is_computed_in(place):
    for dtype, function, math_dtype, accumulator in [
        ("bfloat16", "sum", "float32", "float32"),
        ("int8", "sum", "int64", "int64"),
        ("float64", "var", "float64", "float64"),
        ("float16", "any", "float32", "bool"),
    ]:
        x = place.put(np.ones((2, 3)).astype(TABLE[dtype].numpy))
        info = getattr(reductions, function).plan(x).info
        assert (info.math_dtype, info.accumulator_dtype) == (math_dtype, accumulator)


def test_unaligned_arrays_have_a_plan_of_their_own_alignment(device_place):
    """One layout, several addresses: the kernel is the one that fits."""
    values = np.random.default_rng(0).standard_normal((4, 43)).astype(np.float32)
    for start in (0, 1, 2, 3, 0):
        x = device_place.operand(values, margins=[(0, 0), (start, 5 - start)])
        for axis in (0, 1):
            got = device_place.get(reductions.sum(x.view, axis=axis))
            np.testing.assert_allclose(got, values.sum(axis), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compiles", [True, False])
def test_graphs(device_place, compiles, monkeypatch):
    """Captured, and launched on other numbers; on arrays that start elsewhere than those that were reduced before.

    Where nothing may be compiled the kernels that are there take them, element by element.
    """
    values = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    x = device_place.put(np.zeros((9, 64), np.float32))
    for rows in (x[:8], x[1:]):
        for axis in (0, 1):
            reductions.sum(rows, axis=axis)
    shifted = device_place.operand(values, margins=[(0, 0), (1, 3)])
    stream = numbacc.stream()
    if not compiles:
        monkeypatch.setattr(launcher_class(), "is_loaded", staticmethod(lambda kernel, device: False))
    with numbacc.graph(stream) as graph:
        results = [reductions.var(a, axis=axis, stream=stream) for a in (x[:8], shifted.view) for axis in (0, 1)]
    x[:8] = device_place.put(values)
    graph.launch()
    for result, axis in zip(results, (0, 1, 0, 1), strict=True):
        np.testing.assert_allclose(device_place.get(result), values.var(axis), rtol=1e-5)


def test_all_are_public():
    assert {*DESCRIBED} <= {*FUNCTIONS}, "each has a row in reduction_oracle"
    for name in FUNCTIONS:
        assert name in reductions.__all__ and getattr(reductions, name).plan


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_strided_arrays_without_elements(place, dtype):
    """Also where the axis along which memory is read has a length, and another has none."""
    # NumPy's strides are 0 then.
    whole = (numbacc if place.is_device else np).zeros((0, 16, 4, 8), dtype)
    for x in (whole[:, ::2], whole[:, :, ::2], whole.transpose(0, 2, 1, 3), whole[:, ::2].transpose(1, 0, 2, 3)):
        assert place.get(reductions.sum(x)) == 0 and place.get(reductions.prod(x)) == 1
        kept = tuple(n for axis, n in enumerate(x.shape) if axis not in (0, 1, 3))
        np.testing.assert_array_equal(place.get(reductions.sum(x, axis=(0, 1, 3))), np.zeros(kept))
