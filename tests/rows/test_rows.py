"""Softmax, RMSNorm and LayerNorm, forward and backward, over any dtypes, shapes and strides, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits, in_parts, refused
from hypothesis import given
from oracle import DTYPES
from row_cases import (
    FEW,
    FORWARD,
    assert_backward,
    assert_near,
    calls,
    forward,
    normal,
    options_of,
    softmax,
    values_of,
)
from skips import skip

import numbacc
from numbacc.base.dispatch import launcher_class
from numbacc.elementwise import norms
from numbacc.kernels.rows import launch
from numbacc.runtime.launch_order import Limits

pytestmark = pytest.mark.usefixtures("poison", "small_rows")

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


# ---------------------------------------------------------------- what shall come out


# ---------------------------------------------------------------- any arrays


@in_parts(4, FEW)
@given(calls())
def test_forward_of_any_array(place, part, drawn):
    name, shape, dtype, axis = (drawn[key] for key in ("name", "shape", "dtype", "axis"))
    values = values_of(np.random.default_rng(drawn["seed"]), name, shape, dtype)[: drawn["many"]]
    x, out = place.operand(values[0], **drawn["layouts"][0]), place.empty(shape, dtype, **drawn["layouts"][1])
    weights = [place.put(v) for v in values[1:]]
    options = options_of(name, axis)
    assert getattr(norms, name)(x.view, *weights, out=out.view, **options) is out.view
    wanted = forward(name, [x.values.astype(float), *[v.astype(float) for v in values[1:]]], **options)
    # The mean of a row is rounded.
    wide = x.values.astype(float)
    largest = (
        0
        if axis != -1 or "softmax" in name
        else (np.abs(wide) * normal(name.split("_")[0], wide, 1e-3)[1]).max(initial=0)
    )
    assert_near(out.now(), wanted, np.abs(wanted).max(initial=0) + 3 * largest)
    out.assert_written_only()
    x.assert_untouched()


@in_parts(5, FEW)
@given(calls())
def test_backward_of_any_array(place, part, drawn):
    assert_backward(place, drawn)


@each_dtype
@pytest.mark.parametrize("columns", [1, 7, 128, 1000, 4096, 16384, 40000, 131072])
def test_lengths_of_rows(place, dtype, columns):
    """Of a few, of as many as are kept, and of more."""
    if place.is_slow and (columns > 1000 or dtype != DTYPES[0]):
        skip("slow")
    rng = np.random.default_rng(columns)
    for name in FORWARD:
        values = values_of(rng, name, (3, columns), dtype)
        options = options_of(name)
        got = place.get(getattr(norms, name)(*map(place.put, values), **options))
        wanted = forward(name, [v.astype(float) for v in values], **options)
        assert_near(got, wanted, np.abs(wanted).max())


@pytest.mark.too_long(lambda case: case.columns > 40 or case.form == "clusters")
@pytest.mark.parametrize("columns", [40, 4000, 4100, 33333])
@pytest.mark.parametrize("form", ["registers", "shared", "half", "clusters", "few"])
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_wherever_a_row_is_kept(device_place, monkeypatch, form, dtype, columns):
    """In registers, in shared memory, half of it, in that of several blocks, nowhere: chosen here, not by length."""
    place = device_place
    if form != "registers":
        monkeypatch.setattr(launch, "_REGISTER_THREADS", 0)
    if form == "half":
        room = launch._OWN_BYTES + (128 if place.is_slow else 4096)
        monkeypatch.setattr(launcher_class(), "limits", staticmethod(lambda device: Limits(room, 1)), raising=False)
    if form == "few":
        monkeypatch.setattr(launch, "_LONG_BYTES", 1)
    if form == "clusters":
        monkeypatch.setattr(launch, "_CLUSTER_BYTES", 4096)
    norms.plans.clear()
    rng = np.random.default_rng(columns)
    dy = rng.standard_normal((3, columns)).astype(dtype)
    for name in FORWARD:
        values = values_of(rng, name, (3, columns), dtype)
        wide, options = [v.astype(float) for v in values], options_of(name)
        wanted = forward(name, wide, **options)
        assert_near(place.get(getattr(norms, name)(*map(place.put, values), **options)), wanted, np.abs(wanted).max())
        if "softmax" in name:
            values[0] = wanted.astype(dtype)
            total = dy.astype(float) if "log" in name else dy.astype(float) * values[0].astype(float)
            total = total.sum(-1, keepdims=True)
            y = values[0].astype(float)
            wanted = dy - np.exp(y) * total if "log" in name else y * (dy - total)
        else:
            d, r = normal(name.split("_")[0], wide[0], 1e-3)
            g = dy * wide[1]
            wanted = r * (g - d * (r * r * (g * d).mean(-1, keepdims=True)))
            wanted -= r * g.mean(-1, keepdims=True) if name == "layer_norm" else 0
        got = getattr(norms, f"{name}_backward")(*map(place.put, (dy, *values[:2])), **options)
        got = got[0] if isinstance(got, tuple) else got
        assert_near(place.get(got), wanted, 10 * np.abs(wanted).max())
    norms.plans.clear()


# ---------------------------------------------------------------- what else


@pytest.mark.too_long(lambda case: case.columns > 64)
@each_dtype
@pytest.mark.parametrize("columns", [3, 64, 640])
@pytest.mark.parametrize("changed", [{}, {"_REGISTER_THREADS": 0}, {"_LONG_BYTES": 1}], ids=["short", "long", "few"])
def test_special_values(place, monkeypatch, changed, columns, dtype):
    """Those of short rows in several stages, of long ones in one; each thread with a few numbers, and with many."""
    for name, value in changed.items():
        monkeypatch.setattr(launch, name, value)
    norms.plans.clear()
    nan, inf = np.nan, np.inf
    values = np.full((6, columns), -inf)
    values[:, -3:] = [[0, -inf, 0], [nan, 1, 2], [-inf, -inf, -inf], [1000, 0, 0], [inf, 0, 1], [nan, inf, 0]]
    x = place.put(values.astype(dtype))
    got = place.get(norms.softmax(x)).astype(float)
    wanted = np.zeros((6, columns))
    wanted[[0, 0, 3], [-3, -1, -3]], wanted[[1, 2, 4, 5]] = (0.5, 0.5, 1), nan
    np.testing.assert_array_equal(got, wanted)
    got = place.get(norms.log_softmax(x)).astype(float)
    np.testing.assert_allclose(got[0, -3:], [-0.6931, -inf, -0.6931], rtol=4e-3)
    np.testing.assert_array_equal(got[3, -3:], [0, -1000, -1000])
    assert np.isnan(got[[1, 2, 4, 5]]).all() and np.all(got[[0, 3], : columns - 3] == -inf)
    norms.plans.clear()


def test_norms_of_infinite_numbers(place):
    """What is beside one in rms_norm is 0; a row has no mean with it."""
    x = place.put(np.array([[np.inf, 1, -2, 0], [1e30, 1, 0, 0], [np.nan, 1, 2, 3], [0, 0, 0, 0]], np.float32))
    nan = np.nan
    wanted = np.array([[nan, 0, 0, 0], [2, 2e-30, 0, 0], [nan] * 4, [0] * 4])
    np.testing.assert_allclose(place.get(norms.rms_norm(x)), wanted, rtol=1e-6)
    got = place.get(norms.layer_norm(x))
    assert np.isnan(got[[0, 2]]).all() and not got[3].any()


def test_in_place(place):
    values = np.random.default_rng(1).standard_normal((4, 40)).astype(np.float32)
    for name in FORWARD:
        x = place.put(values)
        options = options_of(name)
        wanted = place.get(getattr(norms, name)(x, **options))
        assert getattr(norms, name)(x, out=x, **options) is x
        np.testing.assert_array_equal(place.get(x), wanted)
    for name in ("softmax_backward", "rms_norm_backward"):
        dy, x = place.put(values), place.put(values[::-1].copy())
        wanted = place.get(getattr(norms, name)(dy, x))
        getattr(norms, name)(dy, x, out=dy)
        np.testing.assert_array_equal(place.get(dy), wanted)
    x = place.put(values)
    refused(numbacc.LayoutError, "overlaps", run=lambda: norms.softmax(x[:3], out=x[1:]))


@pytest.mark.parametrize("name, more", [("rms_norm", {}), ("layer_norm", {}), ("layer_norm", {"bias": True})])
@pytest.mark.parametrize("shared", [0, 1])
@pytest.mark.parametrize("step", [1, 2])
def test_gradients_of_weights_in_place(place, name, more, shared, step):
    """dx may be written over dy or x, of which the gradients of weights are made, too."""
    values = np.random.default_rng(1).standard_normal((4, 80)).astype(np.float32)
    function, weight = getattr(norms, f"{name}_backward"), place.put(values[0, :: 1 + (step == 1)][:40].copy())
    arrays = [place.put(each.copy())[:, : 40 * step : step] for each in (values, values[::-1])]
    wanted = [place.get(each) for each in function(*arrays, weight, **more)]
    outs = (arrays[shared], *(place.empty((40,), np.dtype(np.float32)).view for _ in range(1 + len(more))))
    found = function(*arrays, weight, out=outs, **more)
    assert found[0] is arrays[shared]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(place.get(one), other, rtol=1e-5, atol=1e-6)


def test_empty_arrays(place):
    for shape in ((0, 3), (3, 0)):
        x, w = place.put(np.zeros(shape, np.float32)), place.put(np.ones(shape[-1:], np.float32))
        assert norms.softmax(x).shape == shape
        assert norms.layer_norm(x, w, w).shape == shape
        dx, dw, db = norms.layer_norm_backward(x, x, w, bias=True)
        assert dx.shape == shape
        np.testing.assert_array_equal(place.get(dw), np.zeros(shape[-1:]))
        np.testing.assert_array_equal(place.get(db), np.zeros(shape[-1:]))


def test_refused(place):
    x, w = place.put(np.ones((3, 4), np.float32)), place.put(np.ones(4, np.float32))
    bad = place.put(np.ones(3, np.float32))
    for error, words, run in [
        (numbacc.ShapeError, ("axis=2", "rank 2"), lambda: norms.softmax(x, axis=2)),
        (numbacc.ShapeError, ("axis=1.0",), lambda: norms.softmax(x, axis=1.0)),
        (numbacc.DTypeError, ("x has dtype int32",), lambda: norms.softmax(place.put(np.ones(3, np.int32)))),
        (numbacc.ShapeError, ("x has rank 0",), lambda: norms.softmax(place.put(np.ones((), np.float32)))),
        (numbacc.ShapeError, ("weight has shape (3,)", "(4,)"), lambda: norms.rms_norm(x, bad)),
        (numbacc.ShapeError, ("bias has shape (3,)", "(4,)"), lambda: norms.layer_norm(x, w, bad)),
        (numbacc.OptionError, ("weight is None", "bias"), lambda: norms.layer_norm(x, None, w)),
        (numbacc.OptionError, ("bias=True", "weight"), lambda: norms.layer_norm_backward(x, x, bias=True)),
        (numbacc.OptionError, ("bias=1",), lambda: norms.layer_norm_backward(x, x, w, bias=1)),
        (numbacc.DTypeError, ("x is a NoneType",), lambda: norms.softmax(None)),
        (numbacc.DTypeError, ("x is a NoneType",), lambda: norms.rms_norm_backward(x, None, w)),
        (numbacc.OptionError, ("eps=1",), lambda: norms.rms_norm(x, eps=10**400)),
        (numbacc.OptionError, ("eps=-1",), lambda: norms.rms_norm(x, eps=-1)),
        (numbacc.OptionError, ("eps=nan",), lambda: norms.layer_norm(x, eps=np.nan)),
        (numbacc.ShapeError, ("dy has shape (4,)",), lambda: norms.softmax_backward(w, x)),
        (numbacc.DTypeError, ("dy has dtype float64",),
         lambda: norms.rms_norm_backward(place.put(np.ones((3, 4))), x)),
        (numbacc.ShapeError, ("out has shape (4,)",), lambda: norms.softmax(x, out=w)),
        (numbacc.ShapeError, ("out must be a pair",), lambda: norms.rms_norm_backward(x, x, w, out=x)),
    ]:  # fmt: skip
        refused(error, *words, run=run)


def test_the_same_bits_twice_and_plans_from_the_cache(place):
    values = np.random.default_rng(2).standard_normal((5, 96)).astype(np.float32)
    x, w = place.put(values), place.put(values[0])
    norms.plans.clear()
    for _ in range(2):
        results = [norms.softmax(x), *norms.layer_norm_backward(x, x, w, bias=True)]
        again = [norms.softmax(x), *norms.layer_norm_backward(x, x, w, bias=True)]
        for one, other in zip(results, again, strict=True):
            np.testing.assert_array_equal(bits(place.get(one)), bits(place.get(other)))
    assert (norms.plans.info().misses, norms.plans.info().hits) == (2, 6)


def test_plans(place):
    x, w = place.put(np.ones((3, 16), np.float32)), place.put(np.ones(16, np.float32))
    plan = norms.rms_norm_backward.plan(x, x, w)
    for one, other in zip(plan(x, x, w), norms.rms_norm_backward(x, x, w), strict=True):
        np.testing.assert_array_equal(place.get(one), place.get(other))
    assert plan.info.op == "elementwise.rms_norm_backward" and plan.info.deterministic
    outs = [place.empty((3, 16), np.dtype(np.float32)), place.empty((16,), np.dtype(np.float32))]
    got = norms.rms_norm_backward(x, x, w, out=tuple(o.view for o in outs))
    assert got[1] is outs[1].view
    np.testing.assert_array_equal(outs[1].now(), place.get(plan(x, x, w)[1]))


def test_few_rows_along_any_axis(place, monkeypatch):
    """Reductions that all blocks share, and an elementwise operation, of any strides."""
    monkeypatch.setattr(launch, "_LONG_BYTES", 1)
    norms.plans.clear()
    values = np.random.default_rng(3).standard_normal((2, 12, 3)).astype(np.float32)
    x = place.put(np.ascontiguousarray(values.T)).T
    for axis in (0, 1, 2):
        wanted = softmax(values.astype(float), axis)
        assert_near(place.get(norms.softmax(x, axis=axis)), wanted)
        assert_near(place.get(norms.log_softmax(x, axis=axis)), np.log(wanted))
    in_place = place.put(values)
    assert norms.softmax(in_place, out=in_place) is in_place
    assert_near(place.get(in_place), softmax(values.astype(float), -1))
    norms.plans.clear()
