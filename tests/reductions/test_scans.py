"""Cumulative sums and products of any dtypes, shapes, strides and axes, against an oracle in more precision."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import reduction_oracle as oracle
import simulated_clusters
from conftest import bits, in_parts, memory_layouts, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import spacing
from scan_cases import (
    DTYPES_OF_ALL,
    NAMES,
    assert_right,
    each_name,
    exact,
    values_of,
    wide,
)
from skips import needed, skip

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import launcher_class, simulated
from numbacc.base.dtypes import TABLE, info
from numbacc.elementwise import calling
from numbacc.kernels.scan import launch
from numbacc.runtime.launch_order import Limits

pytestmark = pytest.mark.usefixtures("poison", "small_scans")

FEW = 20 if simulated() else settings.default.max_examples


@pytest.fixture
def alone(monkeypatch):
    """No two blocks share a row."""
    calling.plans.clear()
    monkeypatch.setattr(launch, "_FEW", 1 << 30)
    monkeypatch.setattr(launch, "_CLUSTER_LEAST_TILES", 1 << 30)
    yield
    calling.plans.clear()


# ---------------------------------------------------------------- what shall come out


def check(place, name, values, axis=None, layout=None, **options):
    x = place.operand(values, **(layout or {}))
    got = place.get(getattr(ew, name)(x.view, axis=axis, **options))
    assert_right(name, got, x.values, axis, options.get("reverse", False))
    x.assert_untouched()


# ---------------------------------------------------------------- any arrays


@st.composite
def calls(draw):
    rank = draw(st.integers(0, 4))
    longest = (0, 150 if simulated() else 5000, 20, 9, 5)[rank]
    shape = tuple(draw(st.lists(st.integers(0 if rank > 2 else 1, max(longest, 1)), min_size=rank, max_size=rank)))
    axis = draw(st.sampled_from([None, *range(-rank, rank)]))
    return {
        "name": draw(st.sampled_from(NAMES)),
        "dtype": draw(st.sampled_from(DTYPES_OF_ALL)),
        "shape": shape,
        "axis": axis,
        "reverse": draw(st.booleans()),
        "layouts": (draw(memory_layouts(rank, False)), draw(memory_layouts(1 if axis is None else rank, True))),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


@in_parts(3, FEW)
@given(calls())
def test_any_array(place, part, drawn):
    name, axis, reverse, shape = (drawn[key] for key in ("name", "axis", "reverse", "shape"))
    values = values_of(np.random.default_rng(drawn["seed"]), shape, drawn["dtype"], name)
    if not shape:
        got = place.get(getattr(ew, name)(place.put(values), reverse=reverse))
        assert_right(name, got, values, None, reverse)
        return
    x = place.operand(values, **drawn["layouts"][0])
    made = exact(name, x.values, axis, reverse)
    out = place.empty(made.shape, oracle.result_dtype("sum", values.dtype), **drawn["layouts"][1])
    assert getattr(ew, name)(x.view, axis=axis, reverse=reverse, out=out.view) is out.view
    assert_right(name, np.array(out.now()), x.values, axis, reverse)
    if values.dtype.kind == "f":  # the sentinel is no number, but -1
        out.assert_written_only()
    x.assert_untouched()


@pytest.mark.parametrize("dtype", TABLE)
@each_name
def test_every_dtype(place, name, dtype):
    function = getattr(ew, name)
    if dtype not in DTYPES_OF_ALL:
        refused(
            numbacc.DTypeError,
            "x has dtype",
            dtype,
            name,
            run=lambda: function(place.put(np.ones(3, TABLE[dtype].numpy))),
        )
        return
    rng = np.random.default_rng(0)
    for shape, axis in [((3, 30), 1), ((30, 3), 0)] if place.is_slow else [((3, 70), 1), ((70, 3), 0), ((40, 16), 0)]:
        for reverse in (axis == 1,) if place.is_slow else (False, True):
            check(place, name, values_of(rng, shape, dtype, name), axis, reverse=reverse)


def test_ranks_up_to_eight(place):
    rng = np.random.default_rng(1)
    for shape, axis in [((2,) * 8, 3), ((2,) * 8, None), ((1, 2, 1, 3, 1, 2, 1, 2), 3), ((1, 1), 0)]:
        check(place, "cumsum", values_of(rng, shape, "float32", "cumsum"), axis)
    check(place, "cumsum", values_of(rng, (3, 4, 2), "float32", "cumsum"), None, {"order": (2, 0, 1)}, reverse=True)
    refused(numbacc.ShapeError, "rank 9", "0 to 8", run=lambda: ew.cumsum(place.put(np.ones((1,) * 9))))


#: Large enough for several blocks, tiles and passes, but no larger: the oracle adds in long double.
SHAPES = [
    ((1, 1 << 18), 1), ((3, 100003), 1), ((300, 1000), 1), ((300, 1000), 0), ((100003, 3), 0), ((50000, 16), 0),
    ((70000, 7), 1), ((5, 4096, 8), 1), ((5, 131072), 1), ((65536, 5), 0), ((257, 4099), 0), (((1 << 19) + 3,), 0),
    ((100, 3, 700), None), ((300, 4097), 1), ((300, 4098), 1), ((1, 8192), 1), ((9, 6001), 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "float64", "complex64"])
@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
def test_large_arrays(device_place, dtype, shape, axis):
    if device_place.is_slow:
        skip("slow")
    values = values_of(np.random.default_rng(2), shape, dtype, "cumsum")
    for reverse in (False, True):
        check(device_place, "cumsum", values, axis, reverse=reverse)


@pytest.mark.parametrize("columns", [7, 1, 8, 9, 31, 64, 100, 259])
@pytest.mark.parametrize("start", [0, 1, 3])
def test_rows_that_start_anywhere(place, start, columns):
    """And results that start elsewhere."""
    if place.is_slow and (columns not in (7, 64) or start == 3):
        skip("slow")
    for dtype in ("float32", "int8") if place.is_slow else ("bfloat16", "float32", "int8"):
        values = values_of(np.random.default_rng(columns), (5, columns), dtype, "cumsum")
        for reverse in (False, True):
            x = place.operand(values, margins=[(0, 0), (start, 2)])
            for other in (start, 0):
                out = place.empty(values.shape, oracle.result_dtype("sum", values.dtype), margins=[(0, 0), (other, 2)])
                ew.cumsum(x.view, axis=1, reverse=reverse, out=out.view)
                assert_right("cumsum", np.array(out.now()), values, 1, reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_blocks_that_share_rows(device_place, reverse):
    """Several passes, with parts in scratch memory between them; of rows, columns and flattened arrays."""
    long = 300 if device_place.is_slow else 300_001
    for name, shape, axis in (("cumsum", (2, long), 1), ("cumprod", (long, 4), 0), ("cumsum", (long, 3), None)):
        values = values_of(np.random.default_rng(3), shape, "float32", name)
        if name == "cumprod":
            # So near to 1 that no product of many is beyond float32.
            values = np.copysign(np.abs(values) ** np.float32(0.01), values)
        check(device_place, name, values, axis, reverse=reverse)
        plan = getattr(ew, name).plan(device_place.put(values), axis=axis, reverse=reverse)
        passes = 3 if "scan_columns" in plan.info.algorithm else 2
        assert (
            plan.info.workspace_bytes > 0 and plan.info.algorithm.count("scan_") == passes and plan.info.deterministic
        )


@pytest.mark.parametrize("reverse", [False, True])
def test_blocks_that_take_many_tiles(device_place, alone, reverse):
    long = 150 if device_place.is_slow else 50_001
    for shape, axis in (((2, long), 1), ((long, 4), 0), ((long, 3), None)):
        values = values_of(np.random.default_rng(4), shape, "float32", "cumsum")
        check(device_place, "cumsum", values, axis, reverse=reverse)
        plan = ew.cumsum.plan(device_place.put(values), axis=axis)
        assert plan.info.workspace_bytes == 0 and plan.info.algorithm.count("scan_") == 1


@pytest.fixture
def in_clusters():
    """A context: in it, blocks share a row in clusters, or never do."""
    needed("greenlet", "greenlet")

    @contextmanager
    def within(are_used):
        calling.plans.clear()
        with simulated_clusters.clusters(8) if simulated() else nullcontext(), pytest.MonkeyPatch.context() as patch:
            if not are_used:
                patch.setattr(launcher_class(), "limits", staticmethod(lambda device: Limits(49152, 1)))
            yield
        calling.plans.clear()

    return within


@pytest.mark.sampled(simulated=1)
@pytest.mark.parametrize("reverse", [False, True])
def test_clusters_add_in_the_order_of_two_passes(device_place, in_clusters, reverse):
    """Rows start and end anywhere. Results are in place, or start at another alignment. Merges need not commute."""
    rng = np.random.default_rng(6)
    # In some rows of 8,194 elements the last piece is shorter than an aligned access.
    sizes = ((3, 10_001), (1, 16_384), (9, 8_194), (2, 31_001))
    for rows, columns in ((2, 700), (1, 900)) if device_place.is_slow else sizes:
        for dtype, start, other in (("float32", 0, 0), ("float32", 3, 3), ("bfloat16", 5, 5), ("uint8", 1, 0)):
            if device_place.is_slow and start == 0:
                continue
            values = values_of(rng, (rows, columns), dtype, "cumsum")
            found = []
            for are_used in (True, False):
                with in_clusters(are_used):
                    x = device_place.operand(values, margins=[(0, 0), (start, 2)])
                    result = oracle.result_dtype("sum", values.dtype)
                    out = device_place.empty(values.shape, result, margins=[(0, 0), (other, 2)])
                    plan = ew.cumsum.plan(x.view, axis=1, reverse=reverse, out=out.view)
                    assert plan.info.algorithm.count("scan_") == 2 - plan.info.algorithm.startswith("scan_cluster")
                    # Clusters of 8 blocks do not hold all rows.
                    fits = dtype != "uint8" and columns < 20_000
                    assert plan.info.algorithm.startswith("scan_cluster") == are_used or not (are_used and fits)
                    plan(x.view, out=out.view)
                    assert_right("cumsum", np.array(out.now()), values, 1, reverse)
                    out.assert_written_only()
                    x.assert_untouched()
                    found.append(bits(np.array(out.now())))
                    if x.values.dtype == result:
                        ew.cumsum(x.view, axis=1, reverse=reverse, out=x.view)
                        np.testing.assert_array_equal(bits(np.array(x.now())), found[0])
            np.testing.assert_array_equal(*found)
    columns = 90 if device_place.is_slow else 3_001
    dy, x = rng.standard_normal(columns), np.exp2(rng.standard_normal(columns) / 9)
    found = []
    for are_used in (True, False):
        with in_clusters(are_used):
            given = device_place.put(dy), device_place.put(x)
            plan = ew.cumprod_backward.plan(*given, axis=0, reverse=reverse)
            assert plan.info.algorithm.count("scan_cluster") == 2 * are_used
            found.append(bits(device_place.get(plan(*given))))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("columns, blocks", [(8, 2), (5, 2), (8, 8), (2, 8), (40, 8), (64, 8)])
def test_more_threads_take_columns_alone(device_place, monkeypatch, columns, blocks):
    """Where so many blocks keep a GPU busy: of one to all warps, with one to all threads of a row in a warp.

    The parts of u -> x u + x dy do not commute: they are merged in order, or the gradient of products is wrong.
    """
    if device_place.is_slow and columns > 8:
        skip("slow")
    calling.plans.clear()
    monkeypatch.setattr(launch, "_BLOCKS", blocks)
    monkeypatch.setattr(launch, "_LONE_THREADS", 1 << 20)
    rng = np.random.default_rng(columns + blocks)
    long = 75 if device_place.is_slow else 5_003
    shape = (long, columns)
    values = rng.standard_normal(shape).astype(np.float32)
    for reverse in (False, True):
        check(device_place, "cumsum", values, 0, reverse=reverse)
    dy, x = rng.standard_normal(shape), np.exp2(rng.standard_normal(shape) / 9)
    plan = ew.cumprod_backward.plan(device_place.put(dy), device_place.put(x), axis=0)
    got = device_place.get(plan(device_place.put(dy), device_place.put(x)))
    y = exact("cumprod", wide(x), 0)
    scale = exact("cumsum", np.abs(dy * y), 0, True) / np.abs(x)
    error = np.abs(got - exact("cumsum", dy * y, 0, True) / x)
    assert (error <= 40 * np.finfo(float).eps * long**0.5 * scale).all()
    assert plan.info.algorithm.count("scan_columns") == 2
    calling.plans.clear()


# ---------------------------------------------------------------- what numbers may be


@pytest.mark.parametrize("dtype", oracle.FLOATS)
@each_name
def test_nan_and_infinity_reach_what_lies_behind(place, name, dtype):
    length = 60 if place.is_slow else 20_000
    for shape, axis in (((2, length), 1), ((length, 2), 0), ((length * 2,), None)):
        values, along = np.ones(shape, dtype), length if axis is not None else 2 * length
        rows = values if axis != 0 else values.T
        rows[..., along // 3] = np.inf
        rows[..., along // 2] = np.nan
        for reverse in (False, True):
            got = place.get(getattr(ew, name)(place.put(values), axis=axis, reverse=reverse)).astype(float)
            got = got.T if axis == 0 else got
            first, second = along // 3, along // 2
            if reverse:
                assert np.isnan(got[..., : second + 1]).all() and np.isfinite(got[..., second + 1 :]).all()
            else:
                assert np.isfinite(got[..., :first]).all() and np.isnan(got[..., second:]).all()
                assert (got[..., first:second] == np.inf).all()


def test_zeros(place):
    minus = place.put(np.full(70, -0.0, np.float32))
    assert np.signbit(place.get(ew.cumsum(minus))).all()
    values = np.full((2, 70), 1.5, np.float32)
    values[:, 20] = 0
    assert (place.get(ew.cumprod(place.put(values), axis=1))[:, 20:] == 0).all()


def test_integers_wrap(place):
    values = np.full(40, 2**62 + 1, np.int64)
    np.testing.assert_array_equal(place.get(ew.cumsum(place.put(values))), np.cumsum(values))
    np.testing.assert_array_equal(place.get(ew.cumprod(place.put(values))), np.cumprod(values))


@pytest.mark.parametrize(
    "source, target",
    [("float32", "float64"), ("bfloat16", "float32"), ("int8", "int8"), ("int32", "float16"), ("bool", "float32"),
     ("float32", "complex64"), ("float32", "int32"), ("float64", "bfloat16")],
)  # fmt: skip
@each_name
def test_dtype(place, name, source, target):
    values = np.random.default_rng(5).integers(0, 2, (3, 40)).astype(TABLE[source].numpy)
    for spec in (target, TABLE[target].numpy):
        for axis in (0, 1):
            got = place.get(getattr(ew, name)(place.put(values), axis=axis, dtype=spec))
            assert got.dtype == TABLE[target].numpy
            np.testing.assert_array_equal(got.astype(complex), getattr(np, name)(values.astype(int), axis=axis))


@pytest.mark.parametrize("length", [120] if simulated() else [1000, 2**20])
def test_errors_do_not_grow_with_the_length(place, length):
    """Of numbers of one sign: with the number of tiles, and the logarithm."""
    values = np.random.default_rng(6).random((2, length)).astype(np.float32)
    for array, axis in ((values, 1), (np.ascontiguousarray(values.T), 0)):
        got = place.get(ew.cumsum(place.put(array), axis=axis)).astype(np.longdouble)
        wanted = np.cumsum(array.astype(np.longdouble), axis)
        error = np.abs(got - wanted) / (np.finfo(np.float32).eps / 2 * wanted)
        assert error.max() <= 2 * np.log2(length) + 16


def test_nothing(place):
    x = place.put(np.zeros((0, 3), np.float32))
    for axis, shape in ((0, (0, 3)), (1, (0, 3)), (None, (0,))):
        assert ew.cumsum(x, axis=axis).shape == ew.cumprod(x, axis=axis, reverse=True).shape == shape
    assert ew.cumsum_backward(x, axis=1).shape == (0, 3)


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("dtype", [*oracle.FLOATS, "complex64"])
@pytest.mark.parametrize("reverse", [False, True])
def test_backward(place, dtype, reverse):
    """The Jacobian of a sum up to an element has ones below the diagonal."""
    dy = values_of(np.random.default_rng(7), (4, 30), dtype, "cumsum")
    for axis in (0, 1, -1):
        got = place.get(ew.cumsum_backward(place.put(dy), axis=axis, reverse=reverse))
        jacobian = np.tril(np.ones((dy.shape[axis],) * 2))
        jacobian = jacobian.T if reverse else jacobian
        wanted = np.moveaxis(np.tensordot(jacobian.T, oracle.wide(dy), (1, axis)), 0, axis)
        np.testing.assert_allclose(
            got.astype(complex), wanted.astype(complex), atol=40 * float(np.finfo(np.float32).eps) + 0.0
            if TABLE[dtype].itemsize >= 4 else 0.05, rtol=0.02 if TABLE[dtype].itemsize == 2 else 1e-5,
        )  # fmt: skip
        assert got.dtype == dy.dtype


@pytest.mark.parametrize("dtype", oracle.FLOATS)
@pytest.mark.parametrize("reverse", [False, True])
def test_backward_of_products(place, dtype, reverse):
    """Also where factors are 0: the derivative of each product written out."""
    rng, length = np.random.default_rng(8), 26 if place.is_slow else 70
    for shape, axis in (((3, length), 1), ((length, 4), 0), ((3, 1), 1)):
        dy, x = (rng.standard_normal(shape).astype(TABLE[dtype].numpy) for _ in range(2))
        x = np.sign(x) * np.exp2(x / 4).astype(x.dtype)
        x[0, 0] = x[shape[0] // 2, 0] = 0
        given_dy, given_x = place.operand(dy, steps=(1, 2)), place.operand(x, margins=[(0, 0), (1, 0)])
        got = place.get(ew.cumprod_backward(given_dy.view, given_x.view, axis=axis, reverse=reverse))
        d, rows = (np.moveaxis(a.astype(np.longdouble), axis, -1) for a in (dy, x))
        d, rows = (a[..., ::-1] if reverse else a for a in (d, rows))
        wanted, scale = np.zeros_like(rows), np.zeros_like(rows)
        for j in range(rows.shape[-1]):
            others = rows.copy()
            others[..., j] = 1
            terms = d[..., j:] * np.cumprod(others, -1)[..., j:]
            wanted[..., j], scale[..., j] = terms.sum(-1), np.abs(terms).sum(-1)
        wanted, scale = (np.moveaxis(a[..., ::-1] if reverse else a, -1, axis) for a in (wanted, scale))
        bound = 4 * length * np.finfo(info(dy.dtype).compute).eps * scale + spacing(wanted, dy.dtype)
        assert got.dtype == dy.dtype and (np.abs(got.astype(np.longdouble) - wanted) <= bound).all()
        for out in (given_dy, given_x):  # in place
            twin = place.operand(np.array(out.values), **({"steps": (1, 2)} if out is given_dy else {}))
            arrays = (twin.view, given_x.view) if out is given_dy else (given_dy.view, twin.view)
            assert ew.cumprod_backward(*arrays, axis=axis, reverse=reverse, out=twin.view) is twin.view
            assert (np.abs(twin.now().astype(np.longdouble) - wanted) <= bound).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_backward_of_long_products(device_place, reverse):
    """In several passes each; the parts of u -> x u + x dy do not commute."""
    length = 90 if device_place.is_slow else 50_001
    for shape, axis in (((2, length), 1), ((length, 2), 0)):
        rng = np.random.default_rng(9)
        dy, x = (
            rng.standard_normal(shape),
            np.sign(rng.standard_normal(shape)) * np.exp2(rng.standard_normal(shape) / 9),
        )
        put = device_place.put
        got = device_place.get(ew.cumprod_backward(put(dy), put(x), axis=axis, reverse=reverse))
        y = exact("cumprod", wide(x), axis, reverse)
        wanted = exact("cumsum", dy * y, axis, not reverse) / x
        scale = exact("cumsum", np.abs(dy * y), axis, not reverse) / np.abs(x)
        assert (np.abs(got - wanted) <= 40 * np.finfo(float).eps * length**0.5 * scale).all()
        info = ew.cumprod_backward.plan(put(dy), put(x), axis=axis).info
        passes = 6 if "scan_columns" in info.algorithm else 4
        assert info.algorithm.count("scan_") == passes and info.workspace_bytes >= x.nbytes
