"""Gradients of `take` and `take_along_axis`, against products with one-hot codes in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import memory_layouts, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from index_cases import taken_back, taken_back_along

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import launcher_class, runtime, simulated
from numbacc.kernels.gather_scatter import launch

pytestmark = pytest.mark.usefixtures("poison", "small_scatters")

FLOATS = ["float32", "float64", "float16", ml_dtypes.bfloat16]
floats = pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
few = settings(max_examples=15 if simulated() else settings.default.max_examples)


# ---------------------------------------------------------------- what shall come out


def near(found, wanted, terms, dtype, count):
    """Rounded once, after sums in float32 or float64 of up to so many terms."""
    assert (found.dtype, found.shape) == (np.dtype(dtype), wanted.shape)
    compute = 2.0**-53 if np.dtype(dtype) == np.float64 else 2.0**-24
    allowed = float(ml_dtypes.finfo(dtype).eps) / 2 * np.abs(wanted) + compute * count**0.5 * 4 * terms
    allowed += float(ml_dtypes.finfo(dtype).smallest_subnormal)
    assert (np.abs(found.astype(np.float64) - wanted) <= allowed).all()


def named(rng, shape, length, kind="any"):
    """Indices from either end, some beyond; or most of them one."""
    found = rng.integers(-length, length, shape)
    if kind == "one":
        found = np.where(rng.random(shape) < 0.9, length // 2, found)
    return np.where(rng.random(shape) < 0.1, np.where(rng.random(shape) < 0.5, length, -length - 1), found)


# ---------------------------------------------------------------- take


@floats
@pytest.mark.parametrize("kind", ["any", "one"])
@pytest.mark.parametrize("tokens", [(), (3, 300), (20_000,)], ids=str)
@pytest.mark.parametrize("table, axis", [((7, 8), 0), ((2, 6, 3), 1), ((5, 9), -1), ((4, 5), None)], ids=str)
def test_take(place, dtype, kind, tokens, table, axis):
    if place.is_slow:
        tokens = tuple(min(n, 9 // len(tokens)) for n in tokens)
    rng = np.random.default_rng(0)
    length = int(np.prod(table)) if axis is None else table[axis]
    indices = np.asarray(named(rng, tokens, length, kind)).astype("int32" if kind == "one" else "int64")
    at = 0 if axis is None else axis % len(table)
    shape = tokens if axis is None else (*table[:at], *tokens, *table[at + 1 :])
    dy = np.asarray(rng.standard_normal(shape)).astype(dtype)
    out = place.empty(table, np.dtype(dtype))
    here, there = place.put(dy), place.put(indices)
    assert ew.take_backward(here, table, there, axis=axis, out=out.view) is out.view
    out.assert_written_only()
    near(out.now(), *taken_back(dy, table, indices, axis), dtype, indices.size)
    # The same bits again, into new memory, by x itself.
    again = ew.take_backward(here, place.put(np.zeros(table, dtype)), there, axis=axis)
    np.testing.assert_array_equal(place.get(again), out.now())


@few
@given(st.data())
def test_take_of_any_layout(place, data):
    rank, longest = data.draw(st.integers(1, 3)), 4 if place.is_slow else 9
    table = tuple(data.draw(st.lists(st.integers(0, longest), min_size=rank, max_size=rank)))
    axis = data.draw(st.integers(-rank, rank - 1))
    tokens = tuple(data.draw(st.lists(st.integers(0, longest), min_size=1, max_size=2)))
    at, dtype = axis % rank, np.dtype(data.draw(st.sampled_from(FLOATS)))
    shape = (*table[:at], *tokens, *table[at + 1 :])
    if not table[at] and 0 not in shape:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = data.draw(st.sampled_from(["int8", "uint8", "int32", "int64"]))
    drawn = named(rng, tokens, table[at]) if table[at] else np.zeros(tokens)
    values = rng.integers(-8, 9, shape).astype(dtype)
    dy = place.operand(values, **data.draw(memory_layouts(len(shape), False)))
    indices = place.operand(np.asarray(drawn).astype(kind), **data.draw(memory_layouts(len(tokens), False)))
    out = place.empty(table, dtype, **data.draw(memory_layouts(rank, True)))
    ew.take_backward(dy.view, table, indices.view, axis=axis, out=out.view)
    wanted, _ = taken_back(dy.values, table, indices.values, axis)
    # Small integers: exact in any order.
    np.testing.assert_array_equal(out.now().astype(np.float64), wanted.astype(dtype).astype(np.float64))
    if 0 not in table:
        out.assert_written_only()
    dy.assert_untouched(), indices.assert_untouched()


@floats
def test_rows_of_whole_accesses(place, dtype):
    """16 bytes at a time, of a table whose rows are such, and of one that starts anywhere."""
    rng, tokens = np.random.default_rng(3), 9 if place.is_slow else 3000
    indices = named(rng, (tokens,), 5, "one")
    for width in (16, 17):
        dy = rng.standard_normal((tokens, width)).astype(dtype)
        for margins in ([(0, 0), (0, 0)], [(0, 0), (1, 0)]):
            there, out = place.operand(dy, margins=margins), place.empty((5, width), np.dtype(dtype), margins=margins)
            ew.take_backward(there.view, (5, width), place.put(indices), axis=0, out=out.view)
            near(out.now(), *taken_back(dy, (5, width), indices, 0), dtype, tokens)
            out.assert_written_only()


@pytest.mark.parametrize("tokens", [(), (9,), (3000,)], ids=str)
def test_added_to_a_part_of_a_buffer(place, tokens):
    """In the dtype of dy, or in float32 for 16 bits; rows that no token names are left alone."""
    rng, table = np.random.default_rng(5), (7, 16)
    tokens = tuple(min(n, 9) for n in tokens) if place.is_slow else tokens
    indices = np.asarray(rng.integers(0, 5, tokens))
    for dtype, kind in (("float32",) * 2, (ml_dtypes.bfloat16, "float32"), ("float16",) * 2, ("float64",) * 2):
        dy = np.asarray(rng.standard_normal((*tokens, 16))).astype(dtype)
        for start in (0, 3):
            before = rng.standard_normal(130).astype(kind)
            before[start + 80 : start + 112] = np.nan  # the last two rows
            buffer = place.put(before)
            out = buffer[start : start + 112].reshape(table)
            arrays = place.put(dy), place.put(indices)
            assert ew.take_backward(arrays[0], table, arrays[1], axis=0, accumulate=True, out=out) is out
            wanted, terms = taken_back(dy, table, indices, 0)
            old = before[start : start + 112].reshape(table).astype(float)
            found = place.get(buffer)
            own = found[start : start + 112].reshape(table)
            near(own[:5], (old + wanted)[:5], (np.abs(old) + terms)[:5], kind, indices.size)
            np.testing.assert_array_equal(own[5:], old[5:])
            np.testing.assert_array_equal(
                np.delete(found, np.s_[start : start + 112]), np.delete(before, np.s_[start : start + 112])
            )
            # Not added: all rows are written.
            ew.take_backward(arrays[0], table, arrays[1], axis=0, out=out)
            near(place.get(buffer)[start : start + 112].reshape(table), wanted, terms, kind, indices.size)
    refused(numbacc.OptionError, "accumulate", run=lambda: ew.take_backward(*arrays, arrays[1], accumulate=1))
    narrow = place.put(np.zeros(table, np.float16))
    refused(numbacc.DTypeError, "out", run=lambda: ew.take_backward(arrays[0], table, arrays[1], axis=0, out=narrow))


def test_the_same_bits_twice(place):
    """Whatever runs when: on two streams, into other memory, and of a table that has rows more."""
    rng, tokens = np.random.default_rng(2), 9 if place.is_slow else 30_000
    dy, indices = rng.standard_normal((tokens, 8)).astype(np.float32), named(rng, (tokens,), 5, "one")
    here, there = place.put(dy), place.put(np.where(indices < 0, indices + 5, indices) % 6)
    wanted = place.get(ew.take_backward(here, (6, 8), there, axis=0))
    for rows in (6, 9, 2000 if not place.is_slow else 7):
        with numbacc.stream():
            found = place.get(ew.take_backward(here, (rows, 8), there, axis=0))
        np.testing.assert_array_equal(found[:6], wanted)
        assert not found[6:].any()


def test_infinities_stay_where_they_are(place):
    """Of rows that are read for others' sake nothing is added."""
    tokens = 7 if place.is_slow else 70
    dy, indices = np.ones((tokens, 2), np.float32), np.arange(tokens) % 3
    dy[1] = np.inf, np.nan
    found = place.get(ew.take_backward(place.put(dy), (4, 2), place.put(indices), axis=0))
    assert np.isfinite(found[[0, 2, 3]]).all() and found[1, 0] == np.inf and np.isnan(found[1, 1])
    assert not np.signbit(found[3]).any()


# ---------------------------------------------------------------- take_along_axis


@floats
@pytest.mark.parametrize(
    "table, own, axis",
    [((3, 5), (3, 2), 1), ((3, 5), (40, 5), 0), ((1, 6), (4, 9), 1), ((4, 3, 5), (1, 7, 5), 1), ((6,), (50,), -1),
     ((2, 1, 4), (1, 45, 2), -1)],
    ids=str,
)  # fmt: skip
def test_take_along_axis(place, dtype, table, own, axis):
    if place.is_slow:
        own = tuple(min(n, 5) for n in own)
    rng = np.random.default_rng(1)
    indices = named(rng, own, table[axis])
    alone = tuple(1 if d == axis % len(table) else n for d, n in enumerate(table))
    dy = rng.standard_normal(np.broadcast_shapes(alone, own)).astype(dtype)
    out = place.empty(table, np.dtype(dtype))
    ew.take_along_axis_backward(place.put(dy), table, place.put(indices), axis=axis, out=out.view)
    out.assert_written_only()
    near(out.now(), *taken_back_along(dy, table, indices, axis), dtype, dy.size)


@few
@given(st.data())
def test_take_along_axis_of_any_layout(place, data):
    rank, longest = data.draw(st.integers(1, 3)), 3 if place.is_slow else 6
    lengths = st.lists(st.integers(0, longest), min_size=rank, max_size=rank)
    whole, axis = data.draw(lengths), data.draw(st.integers(0, rank - 1))
    one = st.lists(st.booleans(), min_size=rank, max_size=rank)
    table, own = (tuple(1 if o else n for o, n in zip(data.draw(one), whole, strict=True)) for _ in range(2))
    table = (*table[:axis], data.draw(st.integers(1, longest)), *table[axis + 1 :])
    own = (*own[:axis], whole[axis], *own[axis + 1 :])
    alone = tuple(1 if d == axis else n for d, n in enumerate(table))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = np.dtype(data.draw(st.sampled_from(FLOATS)))
    values = rng.integers(-4, 5, np.broadcast_shapes(alone, own)).astype(dtype)
    dy = place.operand(values, **data.draw(memory_layouts(rank, False)))
    indices = place.operand(named(rng, own, table[axis]), **data.draw(memory_layouts(rank, False)))
    out = place.empty(table, dtype, **data.draw(memory_layouts(rank, True)))
    ew.take_along_axis_backward(dy.view, table, indices.view, axis=axis, out=out.view)
    wanted, _ = taken_back_along(dy.values, table, indices.values, axis)
    np.testing.assert_array_equal(out.now().astype(np.float64), wanted.astype(dtype).astype(np.float64))
    if 0 not in table:
        out.assert_written_only()


# ---------------------------------------------------------------- calls


def test_gradients_are_those_of_what_is_taken(place):
    """Σ dy take(x) = Σ take_backward(dy) x."""
    rng, tokens = np.random.default_rng(4), 7 if place.is_slow else 50
    x, indices = rng.standard_normal((5, 3)), rng.integers(-5, 5, (tokens,))
    dy = rng.standard_normal((tokens, 3))
    here, there, i = (place.put(each) for each in (x, dy, indices))
    forward = (place.get(ew.take(here, i, axis=0)) * dy).sum()
    np.testing.assert_allclose((place.get(ew.take_backward(there, here, i, axis=0)) * x).sum(), forward)
    # x is not read: its memory may be the result's.
    wanted = place.get(ew.take_backward(there, here, i, axis=0))
    assert ew.take_backward(there, here, i, axis=0, out=here) is here
    np.testing.assert_array_equal(place.get(here), wanted)


@pytest.mark.parametrize("tokens", [1, 9, 100])
def test_plans(place, tokens):
    tokens = min(tokens, 9) if place.is_slow else tokens
    dy, indices = place.put(np.ones((tokens, 4), np.float32)), place.put(np.zeros(tokens, np.int64))
    plan = ew.take_backward.plan(dy, (3, 4), indices, axis=0)
    wanted = [[tokens] * 4, [0] * 4, [0] * 4]
    np.testing.assert_array_equal(place.get(plan(dy, indices)), wanted)
    assert plan.info.op == "elementwise.take_backward" and plan.info.deterministic
    assert (plan.info.math_dtype, plan.info.accumulator_dtype) == ("float32", "float32")
    assert (plan.info.workspace_bytes > 0) == (place.is_device and tokens > launch._FEW)
    refused(numbacc.LayoutError, "dy, indices", run=lambda: plan(dy))
    out = place.empty((3, 4), np.dtype(np.float32))
    ew.take_backward.plan(dy, (3, 4), indices, axis=0, out=out.view)(dy, indices, out=out.view)
    np.testing.assert_array_equal(out.now(), wanted)
    line = place.put(np.ones((tokens, 1), np.float32))
    along = ew.take_along_axis_backward.plan(line, (3, 1), indices[:, None], axis=0)
    assert along.info.op == "elementwise.take_along_axis_backward"
    np.testing.assert_array_equal(place.get(along(line, indices[:, None])), [[tokens], [0], [0]])
    misses = ew.cache_info().misses
    ew.take_backward(dy, (3, 4), indices, axis=0)
    assert ew.cache_info().misses == misses


@pytest.mark.parametrize("tokens", [2, 6, 2000])
def test_a_graph_adds_up_what_indices_name_then(device_place, tokens):
    """Its geometry depends on no index: after a launch of many tokens one of a single one."""
    place, tokens = device_place, min(tokens, 6) if device_place.is_slow else tokens
    rng = np.random.default_rng(5)
    host = rng.integers(-9, 9, (tokens, 8)).astype(np.float32)
    dy, indices = place.put(host), place.put(np.zeros(tokens, np.int64))
    out = place.empty((11, 8), np.dtype(np.float32))
    with numbacc.graph() as graph:
        ew.take_backward(dy, (11, 8), indices, axis=0, out=out.view)
    ew.cache_clear()
    for now in (np.full(tokens, 4), rng.integers(-11, 11, tokens), np.full(tokens, 99), np.arange(tokens) % 11):
        indices[...] = now
        graph.launch()
        np.testing.assert_array_equal(out.now(), taken_back(host, (11, 8), now, 0)[0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("tokens", [1, 70])
def test_nothing_is_compiled_in_a_capture(device_place, monkeypatch, dtype, tokens):
    """What is aligned otherwise is added up by the kernels that are there."""
    place, tokens = device_place, min(tokens, 5) if device_place.is_slow else tokens
    values = np.random.default_rng(6).integers(-9, 9, (tokens, 16)).astype(dtype)
    indices, spare = place.put(np.arange(tokens) % 3), 16 // values.itemsize
    margins = [[(0, 0), (n, spare - n)] for n in (0, 1)]
    dys = [place.operand(values, margins=each) for each in margins]
    outs = [place.empty((3, 16), values.dtype, margins=each) for each in margins]
    plan = ew.take_backward.plan(dys[0].view, (3, 16), indices, axis=0, out=outs[0].view)
    plan(dys[0].view, indices, out=outs[0].view)
    wanted = outs[0].now()

    def kernels():
        last = plan.last
        steps = [step.executable for step in getattr(last, "steps", ())] or [last]
        return {each.launcher.order.kernel for each in steps if hasattr(each, "launcher")}

    before = kernels()
    addresses = [each._address for each in (dys[1].view, indices, outs[1].view)]
    with monkeypatch.context() as patch:
        patch.setattr(launcher_class(), "is_loaded", staticmethod(lambda kernel, device: False))
        patch.setattr(runtime(), "is_capturing", lambda stream: True)
        found = plan.choose_captured(addresses)
    steps = [step.executable for step in getattr(found, "steps", ())] or [found]
    assert {each.launcher.order.kernel for each in steps if hasattr(each, "launcher")} == before
    scratch = numbacc.empty(found.workspace_bytes + 256, "uint8")
    start = -(-scratch._address // 256) * 256
    assert found.launch_unchecked(0, start, addresses, ()) == 0
    np.testing.assert_array_equal(outs[1].now(), wanted)
    outs[1].assert_written_only()


def test_what_cannot_be_taken_back(place):
    dy, i = place.put(np.ones((2, 4), np.float32)), place.put(np.array([0, 1]))
    back, along = ew.take_backward, ew.take_along_axis_backward
    refused(numbacc.ShapeError, "dy has shape (2, 4)", "(2, 5)", run=lambda: back(dy, (3, 5), i, axis=0))
    refused(numbacc.ShapeError, "dy has shape (2, 4)", "(2,)", run=lambda: back(dy, (3, 4), i))
    refused(numbacc.ShapeError, "axis=2", run=lambda: back(dy, (3, 4), i, axis=2))
    refused(numbacc.ShapeError, "(2, 4)", "no elements", run=lambda: back(dy, (0, 4), i, axis=0))
    refused(numbacc.ShapeError, "negative", run=lambda: back(dy, (-3, 4), i, axis=0))
    refused(numbacc.DTypeError, "x is a int", run=lambda: back(dy, 3, i, axis=0))
    refused(numbacc.DTypeError, "indices must be integers", run=lambda: back(dy, (3, 4), dy, axis=0))
    whole = place.put(np.ones((2, 4), int))
    refused(numbacc.DTypeError, "dy has dtype int64", run=lambda: back(whole, (3, 4), i, axis=0))
    wide = place.put(np.ones((3, 4)))
    refused(numbacc.DTypeError, "dy has dtype float32", "float64", run=lambda: back(dy, wide, i, axis=0))
    refused(numbacc.ShapeError, "indices has rank 1", run=lambda: along(dy, (3, 4), i, axis=0))
    refused(numbacc.ShapeError, "do not broadcast", run=lambda: along(dy, (3, 3), whole, axis=0))
    refused(numbacc.ShapeError, "dy has shape", run=lambda: along(dy, (3, 4), whole[:1], axis=0))
    square, out = place.put(np.ones((2, 4), np.float32)), place.put(np.ones((3, 5), np.float32))
    refused(numbacc.ShapeError, "out has shape", run=lambda: back(dy, (3, 4), i, axis=0, out=out))
    refused(numbacc.LayoutError, "out overlaps dy", run=lambda: back(square, (2, 4), i, axis=0, out=square))
    if place.is_device:
        host = np.zeros((3, 4), np.float32)
        refused(numbacc.DeviceError, "x is in host memory", run=lambda: back(dy, host, i, axis=0))
        refused(numbacc.DeviceError, "indices", run=lambda: back(dy, (3, 4), np.array([0, 1]), axis=0))


# ---------------------------------------------------------------- geometry


def test_how_lists_are_cut(monkeypatch):
    for name, value in (("_FEW", 32), ("BITS", 6), ("_TOP", 4), ("_TILE", 256), ("_DIGIT", 10), ("WARP", 32)):
        monkeypatch.setattr(launch, name, value)
    assert [launch.levels(n) for n in (255, 256, 1 << 20)] == [[], [4], [16384, 256, 4]]
    for count in (33, 300, 1 << 14, (1 << 20) + 1):
        for numbers, passes in ((1, 1), (1023, 1), (1024, 2), (50257, 2), (262144, 2), (1 << 20, 3), (1 << 31, 4)):
            sort = launch.sorting(count, numbers)
            assert len(sort.shifts) == passes and sort.bins <= 1024 and sort.blocks <= 1024
            # Digits are as wide as shifts are apart, and hold the number of what names nothing.
            assert all(b - a == sort.bins.bit_length() - 1 for a, b in zip(sort.shifts, sort.shifts[1:], strict=False))
            assert numbers >> sort.shifts[-1] < sort.bins
            assert sort.tile * (sort.blocks - 1) < count <= sort.tile * sort.blocks and sort.tile % 32 == 0
