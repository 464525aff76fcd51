"""Reductions over any axes, dtypes, shapes and strides, against an oracle in more precision."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import reduction_oracle as oracle
from conftest import bits, in_parts, memory_layouts, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from in_one import in_one
from reduction_cases import (
    FUNCTIONS,
    call,
    each_function,
)
from skips import skip

import numbacc
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.elementwise import reductions

pytestmark = pytest.mark.usefixtures("poison", "small_reductions")

FEW = 20 if simulated() else settings.default.max_examples

#: Of norms.
ORDERS = [1, 2, math.inf, -math.inf, 0, 3, 2.5, 0.5, -1, -2]


def options_of(function, correction=0, order=2):
    """The options that only some have, by the function's name for them and the oracle's."""
    if function in ("var", "std"):
        return {"correction": correction}, {"correction": correction}
    return ({"ord": order}, {"order": order}) if function == "norm" else ({}, {})


def check(place, function, values, axis=None, keepdims=False, layout=None, **more):
    """A call on an operand, against the oracle."""
    values = np.asarray(values)
    given_options, oracles = options_of(function, **more)
    if not values.ndim:  # an operand has axes
        got = place.get(call(function, place.put(values), axis=axis, keepdims=keepdims, **given_options))
        oracle.assert_accurate(function, got, values, axis, keepdims, **oracles)
        return
    x = place.operand(values, **(layout or {}))
    got = place.get(call(function, x.view, axis=axis, keepdims=keepdims, **given_options))
    oracle.assert_accurate(function, got, x.values, axis, keepdims, **oracles)
    x.assert_untouched()


# ---------------------------------------------------------------- any arrays


@st.composite
def calls(draw):
    function = draw(st.sampled_from(FUNCTIONS))
    rank = draw(st.integers(0, 4))
    longest = (0, 90 if simulated() else 700, 20, 9, 5)[rank]
    shape = tuple(draw(st.lists(st.integers(1, max(longest, 1)), min_size=rank, max_size=rank)))
    axes = draw(st.permutations(range(rank)))[: draw(st.integers(1, max(rank, 1)))]
    axis = draw(st.sampled_from([None, tuple(axes), axes[0] if axes else None]))
    if function in oracle.INDICES and isinstance(axis, tuple):
        axis = axis[0] if axis else None
    if isinstance(axis, int) and draw(st.booleans()):
        axis -= rank
    return {
        "function": function,
        "dtype": draw(st.sampled_from(oracle.DTYPES[function])),
        "shape": shape,
        "axis": axis,
        "keepdims": draw(st.booleans()),
        "layout": draw(memory_layouts(rank, False)),
        "correction": draw(st.sampled_from([0, 1, 0.5])),
        "order": draw(st.sampled_from(ORDERS)),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


@in_parts(3, FEW)
@given(calls())
def test_any_array(place, part, drawn):
    function, dtype, shape, seed = (drawn.pop(name) for name in ("function", "dtype", "shape", "seed"))
    values = oracle.values(np.random.default_rng(seed), shape, dtype, function)
    check(place, function, values, **drawn)


@each_function
@in_one("dtype", TABLE)
def test_every_dtype(place, function, dtype):
    if dtype not in oracle.DTYPES[function]:
        run = lambda: call(function, place.put(np.ones(3, TABLE[dtype].numpy)))  # noqa: E731
        refused(numbacc.DTypeError, "x has dtype", dtype, function, run=run)
        return
    rng = np.random.default_rng(0)
    for shape, axis in [((3, 40), 1), ((40, 3), 0), ((40, 16), 0)]:
        if not place.is_slow or axis:
            check(place, function, oracle.values(rng, shape, dtype, function), axis)


@pytest.mark.parametrize("function", ["mean", "var", "std", "norm"])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_whose_sum_no_integer_holds(place, function, dtype):
    """A few of them, which a thread adds before it knows anything of the others, are beyond 64 bits."""
    far = np.random.default_rng(3).integers(2**61, 2**63, (3, 40), dtype=dtype)
    check(place, function, far, 1)
    if dtype == "int64":
        check(place, function, -far, 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [*oracle.FLOATS, "complex64", "int16", "bool"])
def test_norms_of_any_order(place, dtype, order):
    rng = np.random.default_rng(5)
    for shape, axis in [((3, 40), 1), ((40, 3), 0), ((4, 3, 5), None)]:
        values = oracle.values(rng, shape, dtype, "norm")
        check(place, "norm", values, axis, order=order)
        check(place, "norm", np.where(values == 0, values.dtype.type(1), values), axis, order=order)


@each_function
def test_ranks_up_to_eight(place, function):
    rng = np.random.default_rng(1)
    for shape, axis in [((), None), ((2,) * 8, (0, 2, 4, 6)), ((1, 2, 1, 3, 1, 2, 1, 2), (1, 5)), ((2,) * 8, None)]:
        axis = axis[0] if function in oracle.INDICES and axis else axis
        check(place, function, oracle.values(rng, shape, "float32", function), axis)


SHAPES = [
    ((1, 1 << 20), 1), ((3, 100003), 1), ((1000, 1000), 1), ((1000, 1000), 0), ((100003, 3), 0), ((100000, 16), 0),
    ((70000, 7), 1), ((64, 50, 200), (0, 2)), ((30, 4096, 8), 1), ((5, 131072), 1), ((131072, 5), 0), ((257, 4099), 0),
]  # fmt: skip


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("function, dtype", [("sum", "float32"), ("var", "float32"), ("sum", "bfloat16"),
                                             ("max", "float16"), ("argmax", "float32"), ("mean", "int8"),
                                             ("any", "bool"), ("prod", "complex64")])  # fmt: skip
@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
def test_large_arrays(place, function, dtype, shape, axis):
    """As many elements as take several blocks, and several passes."""
    if place.is_slow:
        skip("slow")
    axis = 0 if function == "argmax" and axis == (0, 2) else axis
    check(place, function, oracle.values(np.random.default_rng(2), shape, dtype, function), axis)


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("columns", [7, 1, 8, 9, 31, 64, 100])
def test_rows_that_start_anywhere(place, start, columns):
    if place.is_slow and columns not in (7, 64):
        skip("slow")
    for dtype in ("bfloat16", "float32", "uint8"):
        values = oracle.values(np.random.default_rng(columns), (5, columns), dtype, "sum")
        for axis in (0, 1):
            check(place, "sum", values, axis, layout={"margins": [(0, 0), (start, 2)]})
            check(place, "argmax", values, axis, layout={"margins": [(0, 0), (start, 0)]})


def test_blocks_that_share_results(device_place):
    """Two passes, with parts in scratch memory between them; in the order that rows and columns have."""
    rng = np.random.default_rng(3)
    long = 600 if device_place.is_slow else 100_000
    for function in ("sum", "var", "argmax", "any"):
        for shape, axis in (((2, long), 1), ((long, 2), 0)):
            values = oracle.values(rng, shape, "float32", function)
            x = device_place.put(values)
            check(device_place, function, values, axis)
            info = getattr(reductions, function).plan(x, axis=axis).info
            assert info.workspace_bytes > 0 and info.algorithm.count("reduce_") == 2 and info.deterministic


# ---------------------------------------------------------------- what numbers may be


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_first_of_several_extremes(place, function, dtype):
    """Among what a thread takes at once and among threads: of equals the first, NaN before all, -inf where all are."""
    is_float = dtype != "int8"
    sign = 1 if function == "argmax" else -1
    rows = []
    for first, second in [(0, 1), (3, 130), (129, 130), (40, 255), (255, 255), (17, 18)]:
        row = np.zeros(256)
        row[[first, second]] = 5 * sign
        rows.append((row, first))
        if is_float:
            row = row.copy()
            row[0] = np.inf * sign
            row[[first, second]] = np.nan
            rows.append((row, first))
    rows.append((np.full(256, -np.inf * sign if is_float else 3), 0))
    x = np.stack([row for row, _ in rows]).astype(TABLE[dtype].numpy)
    wanted = np.array([first for _, first in rows])
    called = getattr(reductions, function)
    assert (place.get(called(place.put(x), axis=1)) == wanted).all()
    assert (place.get(called(place.put(np.ascontiguousarray(x.T)), axis=0)) == wanted).all()


@pytest.mark.parametrize("dtype", oracle.FLOATS)
def test_nan_and_infinity(place, dtype):
    nan, inf = np.nan, np.inf
    values = np.array([[1, nan, 3, nan], [inf, -inf, 0, 1], [-0.0, 0.0, -inf, -1], [inf, 1, inf, 2]]).astype(dtype)
    x = place.put(values)
    wanted = {
        "sum": [nan, nan, -inf, inf],
        "max": [nan, inf, 0, inf],
        "min": [nan, -inf, -inf, 1],
        "argmax": [1, 0, 0, 0],
        "argmin": [1, 1, 2, 1],
        "any": [True, True, True, True],
        "all": [True, False, False, True],
        "norm": [nan, inf, inf, inf],
        "var": [nan, nan, nan, nan],
    }
    for function, results in wanted.items():
        for array, axis in ((x, 1), (x.transpose((1, 0)), 0)):
            np.testing.assert_array_equal(place.get(call(function, array, axis=axis)).astype(float), results)


def test_the_first_of_equals(place):
    values = np.zeros((3, 200 if place.is_slow else 70_000), np.float32)
    for where in ([7, 150], [0, 199], [198, 199]):
        values[:] = 0
        values[:, where] = 5
        x = place.put(values)
        assert (place.get(reductions.argmax(x, axis=1)) == where[0]).all()
        assert (place.get(reductions.argmin(place.put(-values), axis=1)) == where[0]).all()
        assert place.get(reductions.argmax(x)) == where[0]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float32", "int64"])
@pytest.mark.sampled(simulated=2)
def test_the_first_of_equals_in_c_order(place, dtype):
    """Wherever it lies in memory."""
    rng = np.random.default_rng(6)
    for shape in ((4, 2, 2), (3, 4, 5), (8, 8, 8)):
        for order in permutations(range(3)):
            for steps in ((1, 1, 1), (1, -1, 2)):
                values = rng.integers(0, 2, shape).astype(dtype)
                check(place, "argmax", values, layout={"order": order, "steps": steps})
                check(place, "argmin", values, layout={"order": order, "steps": steps})


def test_an_index_counts_in_c_order(place):
    values = np.random.default_rng(4).permutation(60).reshape(3, 4, 5).astype(np.float32)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        check(place, "argmax", values, layout={"order": order})
        check(place, "argmin", values, layout={"order": order, "steps": (1, -1, 2)})


@each_function
def test_nothing(place, function):
    x = place.put(np.zeros((0, 3), np.float32))
    known = {name: float(oracle.exact(name, np.zeros(0), 0)) for name in oracle.ORACLES}
    wanted = {**known, "prod": 1, "any": False, "all": True, "norm": 0}.get(function, np.nan)
    if function in oracle.EXTREMES:
        refused(numbacc.ShapeError, "(0, 3)", "axis 0", function, run=lambda: call(function, x, axis=0))
        refused(numbacc.ShapeError, "(0, 3)", function, run=lambda: call(function, x))
    else:
        for axis, shape in ((0, (3,)), (None, ())):
            got = place.get(call(function, x, axis=axis))
            np.testing.assert_array_equal(got, np.full(shape, wanted))
    assert call(function, x, axis=1).shape == (0,)


@pytest.mark.parametrize("shape", [(0, 3, 40), (3, 0, 40)])
def test_sums_of_rows_that_are_none(place, shape):
    """The array is a part of one with rows, so that it keeps that one's strides."""
    x = place.put(np.zeros((3, 3, 64), np.float32))[tuple(map(slice, shape))][..., :40]
    for function, wanted in ((reductions.sum, 0), (reductions.logsumexp, -np.inf), (reductions.var, np.nan)):
        np.testing.assert_array_equal(place.get(function(x)), np.float32(wanted))


def test_norms_of_nothing(place):
    x = place.put(np.zeros((0, 3), np.float32))
    for order, wanted in ((0, 0), (3, 0), (0.5, 0), (-1, math.inf), (math.inf, 0)):
        np.testing.assert_array_equal(place.get(reductions.norm(x, axis=0, ord=order)), [wanted] * 3)
    refused(numbacc.ShapeError, "(0, 3)", "at least one", run=lambda: reductions.norm(x, axis=0, ord=-math.inf))


def test_sums_of_integers_wrap(place):
    values = np.full(4, 2**63 - 1, np.int64)
    assert place.get(reductions.sum(place.put(values))) == np.sum(values)
    assert place.get(reductions.sum(place.put(np.full(300, 255, np.uint8)))) == 76500


@pytest.mark.parametrize(
    "function, source, target",
    [("sum", "float32", "float64"), ("sum", "bfloat16", "float32"), ("sum", "int8", "int8"),
     ("sum", "int32", "float16"), ("prod", "bool", "float32"), ("mean", "int32", "float32"),
     ("mean", "float32", "complex64"), ("sum", "float32", "int32")],
)  # fmt: skip
def test_dtype(place, function, source, target):
    values = np.random.default_rng(5).integers(0, 3, (3, 40)).astype(source)
    for spec in (target, TABLE[target].numpy):
        got = place.get(call(function, place.put(values), axis=1, dtype=spec))
        assert got.dtype == target
        wide = values.astype(np.complex128 if target == "complex64" else float)
        np.testing.assert_allclose(got.astype(wide.dtype), getattr(wide, function)(axis=1), rtol=1e-3)


@pytest.mark.parametrize("length", [100] if simulated() else [1000, 2**20])
def test_errors_grow_like_the_logarithm(place, length):
    """Of numbers of one sign, whose sum is much larger than they are."""
    values = np.random.default_rng(6).random((2, length)).astype(np.float32)
    for array, axis in ((values, 1), (np.ascontiguousarray(values.T), 0)):
        got = place.get(reductions.sum(place.put(array), axis=axis)).astype(np.longdouble)
        wanted = array.astype(np.longdouble).sum(axis)
        assert (np.abs(got - wanted) <= np.log2(length) * np.finfo(np.float32).eps / 2 * wanted).all()


def test_variance_far_from_zero(place):
    """Where the difference of two sums of squares would have no right digit."""
    values = (1e4 + np.random.default_rng(7).standard_normal((3, 100 if place.is_slow else 5000))).astype(np.float32)
    for array, axis in ((values, 1), (np.ascontiguousarray(values.T), 0)):
        got = place.get(reductions.var(place.put(array), axis=axis))
        np.testing.assert_allclose(got, array.astype(float).var(axis), rtol=1e-5)


@each_function
def test_the_same_bits_twice(place, function):
    values = np.random.default_rng(8).standard_normal((7, 100 if place.is_slow else 30_000)).astype(np.float32)
    x = place.put(values)
    for axis in (None, 0, 1):
        one, other = (np.asarray(place.get(call(function, x, axis=axis))) for _ in range(2))
        np.testing.assert_array_equal(bits(one), bits(other))


@pytest.mark.parametrize("shape, axis", [((4096, 128), 0), ((3, 2048, 40), 1), ((512, 3000), 1)], ids=str)
@pytest.mark.parametrize("function, dtype", [("sum", "bfloat16"), ("var", "float32"), ("argmax", "float16")])
def test_the_same_bits_whatever_warp_is_first(device_place, function, dtype, shape, axis):
    """Threads of a block that read what others have written before they may would differ now and then."""
    if device_place.is_slow:
        skip("slow")
    x = device_place.put(np.random.default_rng(5).standard_normal(shape).astype(TABLE[dtype].numpy))
    wanted = bits(device_place.get(call(function, x, axis=axis)))
    found = [call(function, x, axis=axis) for _ in range(200)]
    assert all((bits(device_place.get(each)) == wanted).all() for each in found)
