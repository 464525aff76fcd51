"""Scans over columns that many blocks share: each reads its piece once, and looks back at what others have told."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits
from scan_cases import assert_right, exact, values_of, wide

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import runtime
from numbacc.base.dtypes import TABLE
from numbacc.runtime import workspace
from numbacc.runtime.streams import handle_of

pytestmark = pytest.mark.usefixtures("poison", "small_scans")


def near_one(values):
    """So near to 1 that no product of many is beyond float32."""
    return np.copysign(np.abs(values) ** np.float32(0.01), values)


def is_chained(plan):
    return plan.info.algorithm.startswith("scan_chained") and plan.info.workspace_bytes > 0 and plan.info.deterministic


#: Rows of pieces of several units, and of none; columns of several strips, of parts of one, of accesses of one element.
LONG = [(157, 8), (90, 36), (61, 15)], [(300_001, 16), (120_000, 36), (24_003, 132), (30_003, 65)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name, dtype", [("cumsum", "float32"), ("cumsum", "bfloat16"), ("cumsum", "int8"),
    ("cumsum", "complex64"), ("cumprod", "float32"), ("cumprod", "float64")])  # fmt: skip
@pytest.mark.sampled(simulated=2)
def test_columns(device_place, name, dtype, reverse):
    for shape in LONG[not device_place.is_slow]:
        values = values_of(np.random.default_rng(1), shape, dtype, name)
        if name == "cumprod":
            values = near_one(values)
        x = device_place.operand(values)
        plan = getattr(ew, name).plan(x.view, axis=0, reverse=reverse)
        assert is_chained(plan) or values.itemsize * shape[1] < 32
        assert_right(name, device_place.get(plan(x.view)), values, 0, reverse)
        x.assert_untouched()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.sampled(simulated=1)
def test_strides_and_dimensions(device_place, reverse):
    """Columns in several dimensions, rows with gaps, an array that starts anywhere, a result that lies otherwise."""
    long = 40 if device_place.is_slow else 30_003
    rng = np.random.default_rng(2)
    for shape, axis, layout in (
        ((2, long, 24), 1, {}),
        ((long, 2, 24), 0, {"margins": [(0, 0), (1, 0), (1, 7)]}),
        ((long, 24), 0, {"margins": [(0, 0), (3, 5)]}),
        ((long, 24), 0, {"steps": (2, 1)}),
    ):
        values = values_of(rng, shape, "float32", "cumsum")
        x = device_place.operand(values, **layout)
        assert is_chained(ew.cumsum.plan(x.view, axis=axis, reverse=reverse))
        assert_right("cumsum", device_place.get(ew.cumsum(x.view, axis=axis, reverse=reverse)), values, axis, reverse)
        out = device_place.empty(shape, np.dtype(np.float32), margins=[(0, 0)] * (len(shape) - 1) + [(2, 2)])
        ew.cumsum(x.view, axis=axis, reverse=reverse, out=out.view)
        assert_right("cumsum", np.array(out.now()), values, axis, reverse)
        out.assert_written_only()
        ew.cumsum(x.view, axis=axis, reverse=reverse, out=x.view)  # in place
        assert_right("cumsum", np.array(x.now()), values, axis, reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_of_products(device_place, reverse):
    """The parts of u -> x u + x dy do not commute: they are merged in order."""
    shape = (90 if device_place.is_slow else 50_001, 8)
    rng = np.random.default_rng(3)
    dy, x = rng.standard_normal(shape), np.exp2(rng.standard_normal(shape) / 9)
    plan = ew.cumprod_backward.plan(device_place.put(dy), device_place.put(x), axis=0, reverse=reverse)
    assert plan.info.algorithm.count("scan_chained") == 2
    got = device_place.get(plan(device_place.put(dy), device_place.put(x)))
    y = exact("cumprod", wide(x), 0, reverse)
    scale = exact("cumsum", np.abs(dy * y), 0, not reverse) / np.abs(x)
    error = np.abs(got - exact("cumsum", dy * y, 0, not reverse) / x)
    assert (error <= 40 * np.finfo(float).eps * shape[0] ** 0.5 * scale).all()


def test_infinity_reaches_what_lies_behind(device_place):
    shape = (90 if device_place.is_slow else 50_001, 16)
    values = np.ones(shape, np.float32)
    values[shape[0] // 3, 5] = np.inf
    got = device_place.get(ew.cumsum(device_place.put(values), axis=0))
    assert (got[shape[0] // 3 :, 5] == np.inf).all()
    got[shape[0] // 3 :, 5] = 0
    assert np.isfinite(got).all()


def test_what_scratch_memory_holds_is_nothing(device_place):
    """Words that say that they are there, and tickets that are taken, are cleared before."""
    shape = (120 if device_place.is_slow else 200_000, 32)
    values = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    x, stream = device_place.put(values), handle_of(None)
    plan = ew.cumsum.plan(x, axis=0)
    wanted = device_place.get(plan(x))
    for _ in range(3):
        block = workspace.held(plan.info.workspace_bytes, 0, stream)
        runtime().fill(block.address, b"\xff", block.nbytes, 0, stream)
        np.testing.assert_array_equal(bits(device_place.get(plan(x))), bits(wanted))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.sampled(simulated=1)
def test_the_same_bits_on_streams_and_in_graphs(device_place, dtype):
    """Whoever is first: alone, beside others, each with words of its own, and again in a graph on other numbers."""
    shape = (48 if device_place.is_slow else 200_003, 40)
    rng = np.random.default_rng(5)
    old, new = (rng.standard_normal(shape).astype(TABLE[dtype].numpy) for _ in range(2))
    x, stream, streams = device_place.put(old), numbacc.stream(), [numbacc.stream() for _ in range(3)]
    assert is_chained(ew.cumsum.plan(x, axis=0))
    first = bits(device_place.get(ew.cumsum(x, axis=0)))
    results = [ew.cumsum(x, axis=0, stream=each) for _ in range(1 if device_place.is_slow else 5) for each in streams]
    for result in results:
        np.testing.assert_array_equal(bits(device_place.get(result)), first)
    with numbacc.graph(stream) as graph:
        captured = [ew.cumsum(x, axis=0, stream=stream) for _ in range(2)]
    for values in (new, old):
        x[...] = device_place.put(values)
        graph.launch()
        wanted = bits(device_place.get(ew.cumsum(x, axis=0)))
        for result in captured:
            np.testing.assert_array_equal(bits(device_place.get(result)), wanted)
    np.testing.assert_array_equal(wanted, first)
