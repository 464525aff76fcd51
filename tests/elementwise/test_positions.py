"""Arrays whose elements follow from where they are, and elements that indices name."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import ptx
import pytest
from conftest import refused
from hypothesis import given
from hypothesis import strategies as st
from in_one import in_one
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import has_gpu, launching_by, simulated
from numbacc.compiling import Noted, _dense
from numbacc.elementwise import calling, indexing, positions
from numbacc.functions.positions import POSITIONS
from numbacc.kernels.elementwise import other_launches

DTYPES = ["float32", "float64", "float16", ml_dtypes.bfloat16, "int8", "uint8", "int64", "bool", "complex64"]
#: Where what is made is made: here without a GPU, there with one.
DEVICES = ["cpu", pytest.param(None, marks=[] if simulated() else pytest.mark.gpu)] if has_gpu() else ["cpu"]

devices = pytest.mark.parametrize("device", DEVICES)


def host(array):
    return numbacc.asnumpy(array)


# ---------------------------------------------------------------- made of nothing


@devices
@pytest.mark.parametrize(
    "arguments",
    [(5,), (0,), (2, 8, 2), (8, 2, -3), (-3, 4), (0.5, 3), (0, 1, 0.1), (1, -1, -0.25), (1000,), (4099,), (3, -3)],
)
def test_arange(device, arguments):
    found, wanted = ew.arange(*arguments, device=device), np.arange(*arguments)
    assert found.dtype == (np.int64 if wanted.dtype.kind == "i" else np.float32)
    np.testing.assert_array_equal(host(found), wanted.astype(found.dtype))


@devices
@pytest.mark.parametrize("dtype", ["float64", "float16", ml_dtypes.bfloat16, "int32", "int8", "complex64"])
def test_arange_in_a_dtype(device, dtype):
    found = host(ew.arange(-100, 100, 7, dtype=dtype, device=device))
    np.testing.assert_array_equal(found, np.arange(-100, 100, 7).astype(dtype))


@devices
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 5, 231, 1000, 4097])
@pytest.mark.parametrize("ends", [(0, 1), (-1.5, 0.1), (3, -3), (2, 2), (1, 5.5)])
def test_linspace(device, ends, num, endpoint):
    found = host(ew.linspace(*ends, num, endpoint=endpoint, dtype="float64", device=device))
    np.testing.assert_array_equal(found, np.linspace(*ends, num, endpoint=endpoint))


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("formula", ["stepped_real", "spaced", "spaced_below"])
def test_products_and_sums_are_rounded_apart(formula):
    """As NumPy's: rounded once an element differs by a bit, and the integer below it by one."""
    made = _dense((4096,), "float64")
    numbers = (0.0, 1.0) if formula == "stepped_real" else (0.0, 1.0, 3, 2.0)
    plan = positions._range(formula, made, False, numbers, "")
    specs = []
    with launching_by(Noted.into(specs)):
        plan.choose([0])
    text = ptx.compiled(specs[-1]).text
    assert "fma.rn.f64" not in text and "mul.rn.f64" in text


@devices
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_linspace_is_rounded_once(device, dtype):
    found = host(ew.linspace(-7, 3, 61, dtype=dtype, device=device))
    np.testing.assert_array_equal(found, np.linspace(-7, 3, 61, dtype=dtype))


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@in_one("shape", [(3, None), (4, 7), (5, 2), (0, 3), (1, 1), (33, 130)])
@in_one("k", [0, 1, -2, 100])
def test_eye(device, dtype, shape, k):
    found = host(ew.eye(*shape, k=k, dtype=dtype, device=device))
    np.testing.assert_array_equal(found, np.eye(*shape, k=k).astype(dtype))


@devices
def test_ranges_into_streams_and_graphs(device):
    # The same range twice is one plan, and two arrays.
    one, other = ew.arange(3, device=device), ew.arange(3, device=device)
    one += 1
    assert host(other).tolist() == [0, 1, 2] and host(one).tolist() == [1, 2, 3]
    # Equal numbers of another kind are another range.
    assert ew.arange(3.0, device=device).dtype == np.float32 and ew.arange(3, device=device).dtype == np.int64


def test_what_no_range_is():
    refused(numbacc.OptionError, "step=0", run=lambda: ew.arange(0, 3, 0))
    refused(numbacc.OptionError, "stop", "finite", run=lambda: ew.arange(np.inf))
    refused(numbacc.OptionError, "num=-1", run=lambda: ew.linspace(0, 1, -1))
    refused(numbacc.ShapeError, "n_rows=-1", run=lambda: ew.eye(-1))
    for huge in (2**63, 10**400):
        refused(numbacc.OptionError, "stop=", run=lambda huge=huge: ew.arange(0, huge, 7))
        refused(numbacc.OptionError, "num=", run=lambda huge=huge: ew.linspace(0, 1, huge))
        refused(numbacc.ShapeError, "n_rows", "too large", run=lambda huge=huge: ew.eye(huge))
        refused(numbacc.ShapeError, "num_classes", "too large", run=lambda huge=huge: ew.one_hot(np.arange(3), huge))
    refused(numbacc.OptionError, "stop", "steps", run=lambda: ew.arange(-1e308, 1e308))
    refused(numbacc.ShapeError, "too large", run=lambda: ew.arange(1e300))
    refused(numbacc.OptionError, "start=", "too large", run=lambda: ew.linspace(10**400, 1))
    refused(numbacc.DTypeError, "float8", run=lambda: ew.arange(3, dtype="float8_e5m2"))


# ---------------------------------------------------------------- triangles and codes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3), (1, 1), (0, 3), (40, 129)])
def test_triangles(place, dtype, shape):
    x = np.random.default_rng(0).integers(-5, 5, shape).astype(dtype)
    for k in (0, 1, -2):
        for ours, theirs in ((ew.tril, np.tril), (ew.triu, np.triu)):
            np.testing.assert_array_equal(place.get(ours(place.put(x), k=k)), theirs(x, k))


def test_diagonals_far_away(place):
    x = place.put(np.ones((2, 3), np.float32))
    for k in (2**62, -(2**62), 2**63, -(10**20)):
        assert place.get(ew.tril(x, k=k)).all() == (k > 0) != place.get(ew.triu(x, k=k)).any()
        assert not host(ew.eye(2, k=k, device=None if place.is_device else "cpu")).any()
    for run in (lambda: ew.tril(x, k=0.5), lambda: ew.triu(x, k="1"), lambda: ew.eye(2, k=None)):
        refused(numbacc.OptionError, "k=", run=run)


def test_triangles_of_views_and_in_place(place):
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    here = place.put(x)
    np.testing.assert_array_equal(place.get(ew.tril(here.T, k=1)), np.tril(x.T, 1))
    np.testing.assert_array_equal(place.get(ew.triu(here[::2, ::-1])), np.triu(x[::2, ::-1]))
    out = place.empty((6, 8), x.dtype)
    assert ew.tril(here, out=out.view) is out.view
    np.testing.assert_array_equal(place.get(out.view), np.tril(x))
    assert ew.triu(here, out=here) is here
    np.testing.assert_array_equal(place.get(here), np.triu(x))
    refused(numbacc.LayoutError, "overlaps", run=lambda: ew.tril(here[:-1], out=here[1:]))
    refused(numbacc.ShapeError, "rank 1", run=lambda: ew.tril(here[0]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_one_hot(place, dtype, axis):
    indices = np.array([[0, 2, -1], [3, 1, 4]], np.int32)
    wanted = np.moveaxis((indices[..., None] == np.arange(4)).astype(dtype), -1, axis)
    found = ew.one_hot(place.put(indices), 4, axis=axis, dtype=dtype)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(place.get(found), wanted)
    out = place.empty(wanted.shape, np.dtype(dtype))
    ew.one_hot(place.put(indices), 4, axis=axis, dtype=dtype, out=out.view)
    np.testing.assert_array_equal(place.get(out.view), wanted)


def test_one_hot_of_many_classes(place):
    indices = np.random.default_rng(0).integers(0, 1000, 37).astype(np.uint16)
    found = place.get(ew.one_hot(place.put(indices), 1000, dtype="float16"))
    np.testing.assert_array_equal(found, np.eye(1000, dtype=np.float16)[indices])
    refused(numbacc.DTypeError, "indices must be integers", run=lambda: ew.one_hot(place.put(np.ones(3)), 3))
    refused(numbacc.ShapeError, "axis", run=lambda: ew.one_hot(place.put(indices), 3, axis=2))


# ---------------------------------------------------------------- gathers


@given(st.data())
def test_take(place, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shape = data.draw(st.lists(st.integers(1, 9 if place.is_slow else 40), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    length = shape[axis]
    indices = rng.integers(-length, length, data.draw(st.sampled_from([(), (1,), (5,), (2, 3), (0,)])))
    indices = indices.astype(data.draw(st.sampled_from(["int64", "int32", "int8"])))
    dtype = data.draw(st.sampled_from(DTYPES))
    x = rng.integers(-5, 5, shape).astype(dtype)
    if data.draw(st.booleans()):
        x = np.asfortranarray(x)
    found = place.get(ew.take(place.put(x), place.put(indices), axis=axis))
    np.testing.assert_array_equal(found, np.take(x, indices.astype(np.int64), axis))


@given(st.data())
def test_take_along_axis(place, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    places = [data.draw(st.sampled_from([1, n])) if d != axis else 4 for d, n in enumerate(shape)]
    indices = rng.integers(-shape[axis], shape[axis], places)
    x = rng.normal(size=shape).astype(data.draw(st.sampled_from(["float32", "float16", "complex64"])))
    whole = np.broadcast_to(indices, [4 if d == axis else n for d, n in enumerate(shape)])
    found = place.get(ew.take_along_axis(place.put(x), place.put(indices), axis=axis))
    np.testing.assert_array_equal(found, np.take_along_axis(x, whole, axis))


def test_rows_of_a_table(place):
    """Whole accesses, and a table whose rows are not aligned."""
    rng = np.random.default_rng(0)
    for columns in (64, 33):
        table, tokens = rng.normal(size=(50, columns)).astype(np.float16), rng.integers(0, 50, (3, 7))
        out = place.empty((3, 7, columns), np.dtype(np.float16))
        ew.take(place.put(table), place.put(tokens), axis=0, out=out.view)
        np.testing.assert_array_equal(place.get(out.view), table[tokens])
        here = place.put(table)[:, 1:]
        np.testing.assert_array_equal(place.get(ew.take(here, place.put(tokens), axis=0)), table[tokens][..., 1:])


@pytest.fixture(params=[1, other_launches._MANY])
def threads(request, monkeypatch):
    """How many fill a GPU: few, so that some are left, and as many as do."""
    monkeypatch.setattr(other_launches, "_MANY", request.param)
    calling.plans.clear()
    yield
    calling.plans.clear()


def test_rows_of_a_table_by_several_accesses_a_thread(place, threads):
    """As where there are threads enough; of lengths with two, four and no equal parts."""
    rng = np.random.default_rng(0)
    for columns in (32, 48, 24, 17):
        table, tokens = rng.normal(size=(9, columns)).astype(np.float32), rng.integers(-9, 11, (3, 2))
        inside = (tokens >= -9) & (tokens < 9)
        wanted = np.where(inside[..., None], table[np.where(inside, tokens, 0)], np.nan)
        for start in (0, 1):
            here, out = place.put(table)[:, start:], place.empty((3, 2, columns - start), np.dtype(np.float32))
            ew.take(here, place.put(tokens), axis=0, out=out.view)
            np.testing.assert_array_equal(out.now(), wanted[..., start:])


def test_elements_of_any_axis(place, threads):
    """One index for many elements or one for each, of arrays that lie one way or another, also of many threads."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 4, 16)).astype(np.float32)
    ways = [lambda a: a, lambda a: a[::-1, :, ::-1], lambda a: a.transpose(2, 0, 1), lambda a: a[:, :, ::2]]
    for way in ways:
        here, there = way(x), way(place.put(x))
        for axis in range(3):
            tokens = rng.integers(-here.shape[axis], here.shape[axis], (2, 8))
            found = place.get(ew.take(there, place.put(tokens), axis=axis))
            np.testing.assert_array_equal(found, np.take(here, tokens, axis), err_msg=f"axis {axis}")
            along = rng.integers(-here.shape[axis], here.shape[axis], here.shape)
            for many_or_one in (along, along[:1], along[..., :1]):
                if many_or_one.shape[axis] == 1:
                    continue
                found = place.get(ew.take_along_axis(there, place.put(many_or_one), axis=axis))
                wanted = np.take_along_axis(here, many_or_one, axis)
                np.testing.assert_array_equal(found, wanted, err_msg=f"along axis {axis}")


def test_indices_beyond_the_end(place):
    indices = place.put(np.array([0, 4, -4, -5, 2**40]))
    found = place.get(ew.take(place.put(np.arange(1.0, 5)), indices))
    np.testing.assert_array_equal(found, [1, np.nan, 1, np.nan, np.nan])
    assert place.get(ew.take(place.put(np.arange(1, 5)), indices)).tolist() == [1, 0, 1, 0, 0]
    found = place.get(ew.take_along_axis(place.put(np.arange(1.0, 5)), indices))
    np.testing.assert_array_equal(found, [1, np.nan, 1, np.nan, np.nan])


def test_what_cannot_be_taken(place):
    x, i = place.put(np.ones((3, 4))), place.put(np.array([0, 1]))
    refused(numbacc.DTypeError, "indices must be integers", run=lambda: ew.take(x, x, axis=0))
    refused(numbacc.ShapeError, "axis", run=lambda: ew.take(x, i, axis=2))
    refused(numbacc.ShapeError, "no elements to take", run=lambda: ew.take(x[:0], i, axis=0))
    refused(numbacc.ShapeError, "indices has rank 1", run=lambda: ew.take_along_axis(x, i))
    wide = place.put(np.zeros((2, 2), np.int64))
    refused(numbacc.ShapeError, "do not broadcast", run=lambda: ew.take_along_axis(x, wide))
    out = place.put(np.ones((2, 4)))
    refused(numbacc.LayoutError, "overlaps", run=lambda: ew.take(out, i, axis=0, out=out))
    if place.is_device:
        refused(numbacc.DeviceError, "indices", run=lambda: ew.take(x, np.array([0]), axis=0))


# ---------------------------------------------------------------- what is compiled


def compiled(plan):
    found = []
    with launching_by(Noted.into(found)):
        plan.choose([0] * (len(plan.inputs) + len(plan.outputs)))
    return ptx.compiled(found[-1])


@pytest.mark.sampled(1)
@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_ptx(dtype):
    matrix = _dense((256, 4096), dtype)
    plans = {
        "tril": positions._triangle("tril", 0, None, matrix),
        "eye": positions._eye(matrix, 0),
        "one_hot": positions._one_hot("one_hot", 4096, -1, matrix.dtype, None, _dense((256,), "int64")),
        "take": indexing._take("take", 0, None, matrix, _dense((512,), "int64")),
    }
    for name, plan in plans.items():
        accesses = compiled(plan).accesses
        assert 16 in {each.nbytes for each in accesses if each.operation == "st"}, name
        assert not any(each.space == "local" for each in accesses), name
        if name in ("tril", "take"):
            assert 16 in {each.nbytes for each in accesses if each.operation == "ld"}, name


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("name", POSITIONS)
def test_kernels_are_kept_by_their_formulas(name):
    """These may refer to nothing that has no text."""
    assert len(POSITIONS[name].digest("float64", False)) == 64
