"""Norms of a sum with a residual, and gradients of norms in the user's arrays: in place, added, in float32."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import in_parts, memory_layouts, refused
from hypothesis import given
from hypothesis import strategies as st
from oracle import DTYPES
from row_cases import FEW, assert_near, calls, gradients, normal
from row_ptx import check, dense, orders_of, widest
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import launcher_class, simulated
from numbacc.elementwise import norms
from numbacc.kernels.rows import launch
from numbacc.runtime.launch_order import Limits

pytestmark = pytest.mark.usefixtures("poison", "small_rows")

KINDS = ("rms", "layer")


def norm_calls():
    return calls().filter(lambda drawn: "norm" in drawn["name"])


def rounded(values, dtype):
    return np.asarray(values, np.float32 if dtype.itemsize < 8 else np.float64).astype(dtype)


@in_parts(4, FEW)
@given(norm_calls(), st.data())
def test_norms_of_a_sum(place, part, drawn, data):
    """The results of two functions, bit for bit, wherever the arrays are, and over either argument."""
    name, shape, dtype = (drawn[key] for key in ("name", "shape", "dtype"))
    rng = np.random.default_rng(drawn["seed"])
    x, residual = (
        place.operand(rng.standard_normal(shape).astype(dtype), **data.draw(memory_layouts(len(shape), True)))
        for _ in range(2)
    )
    weights = [place.put(rng.standard_normal(shape[-1]).astype(dtype)) for _ in range(drawn["many"] - 1)]
    total = rounded(x.values.astype(float) + residual.values.astype(float), dtype)
    alone = place.get(getattr(ew, name)(place.put(total), *weights, eps=1e-3))
    out = place.empty(shape, dtype, **drawn["layouts"][1])
    over = data.draw(st.sampled_from([None, x.view, residual.view]))
    found = getattr(ew, f"add_{name}")(x.view, residual.view, *weights, eps=1e-3, out=(out.view, over))
    assert found[0] is out.view and (over is None or found[1] is over)
    np.testing.assert_array_equal(place.get(found[1]), total)
    wide = total.astype(float)
    largest = (np.abs(wide) * normal(name.split("_")[0], wide, 1e-3)[1]).max(initial=0)
    assert_near(out.now(), alone.astype(float), np.abs(alone.astype(float)).max(initial=0) + 3 * largest)
    out.assert_written_only()
    for each in (x, residual):
        if over is not each.view:
            each.assert_untouched()


@in_parts(4, FEW)
@given(norm_calls(), st.data())
def test_gradients_in_the_users_arrays(place, part, drawn, data):
    """Parts of flat buffers, written or added to, in float32 for 16 bits; dx over any argument; with a residual."""
    name, shape, dtype = (drawn[key] for key in ("name", "shape", "dtype"))
    rng, is_sum = np.random.default_rng(drawn["seed"]), data.draw(st.booleans())
    dy, x, more = (
        place.operand(rng.standard_normal(shape).astype(dtype), **data.draw(memory_layouts(len(shape), True)))
        for _ in range(3)
    )
    weight = rng.standard_normal(shape[-1]).astype(dtype)
    values = [weight.astype(float)] * (drawn["many"] - 1)
    wanted = gradients(name, dy.values.astype(float), [x.values.astype(float), *values], eps=1e-3)
    arrays = {"dtotal": more.view} if is_sum else {}
    over = data.draw(st.sampled_from([None, dy, x, *([more] if is_sum else []), "added"]))
    adds = [over == "added" and not is_sum, *(data.draw(st.booleans()) for _ in wanted[1:])]
    target = more.view if adds[0] else getattr(over, "view", None)
    if is_sum or adds[0]:
        wanted[0] = wanted[0] + more.values.astype(float)
    before = place.operand(rng.standard_normal(200 + 2 * shape[-1]).astype(np.float32))
    first = data.draw(st.integers(0, 7))
    starts = [first + k * (shape[-1] + 13) for k in range(len(wanted) - 1)]
    sums = [before.view[start : start + shape[-1]] for start in starts] if dtype.itemsize < 8 else [None] * len(starts)
    function = getattr(ew, f"{'add_' * is_sum}{name}_backward")
    options = {"bias": True} if len(wanted) > 2 else {}
    given_weights = [place.put(weight)] if values else []
    out = (target, *sums) if values else target
    found = function(
        dy.view, *arrays.values(), x.view, *given_weights, eps=1e-3, out=out, accumulate=tuple(adds), **options
    )
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(wanted) and (target is None or found[0] is target)
    rows = max(x.values.size // shape[-1], 1)
    scale = 90 * (np.abs(wanted[0]).max(initial=0) + rows)
    assert_near(place.get(found[0]), wanted[0], scale)
    for k, (own, sum_of, start) in enumerate(zip(found[1:], sums, starts, strict=True), 1):
        total = wanted[k] + (before.values[start : start + shape[-1]] if adds[k] and sum_of is not None else 0)
        assert sum_of is None or own is sum_of
        # The bound of 16-bit kernels, though the result is in float32.
        assert (np.abs(place.get(own).astype(float) - total) <= 3e-3 * (np.abs(total).max(initial=0) + rows)).all()
    if sums and sums[0] is not None:
        left = np.ones(before.values.shape, bool)
        for start in starts:
            left[start : start + shape[-1]] = False
        np.testing.assert_array_equal(place.get(before.view)[left], before.values[left])


@pytest.mark.too_long(lambda case: case.columns > 40 or case.form == "clusters")
@pytest.mark.parametrize("columns", [40, 4000, 33333])
@pytest.mark.parametrize("form", ["registers", "shared", "half", "clusters", "few", "one pass"])
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_wherever_a_row_is_kept(device_place, monkeypatch, form, dtype, columns):
    place = device_place
    if form not in ("registers", "one pass"):
        for name in ("_REGISTER_THREADS", "_REGISTER_THREADS_OF_THREE"):
            monkeypatch.setattr(launch, name, 0)
    if form == "half":
        room = launch._OWN_BYTES + (192 if place.is_slow else 6144)
        monkeypatch.setattr(launcher_class(), "limits", staticmethod(lambda device: Limits(room, 1)), raising=False)
    for name, value in {
        "few": {"_LONG_BYTES": 1},
        "clusters": {"_CLUSTER_BYTES": 4096},
        "one pass": {"_SUM_BLOCKS": 1, "_SUM_CLUSTERED": 1, "_SUM_ROWS": 1},
    }.get(form, {}).items():
        monkeypatch.setattr(launch, name, value)
    norms.plans.clear()
    rng = np.random.default_rng(columns)
    dy, x, residual, dtotal = (rng.standard_normal((3, columns)).astype(dtype) for _ in range(4))
    w, b = (rng.standard_normal(columns).astype(dtype) for _ in range(2))
    total = rounded(x.astype(float) + residual.astype(float), dtype)
    t = total.astype(float)
    for kind in KINDS:
        weights = [place.put(w), *([place.put(b)] if kind == "layer" else [])]
        forward, backward = (getattr(ew, f"add_{kind}_norm{end}") for end in ("", "_backward"))
        over = place.put(residual)
        (y, _), saved = forward(place.put(x), over, *weights, eps=1e-3, out=(None, over), return_saved=True)
        d, r = normal(kind, t, 1e-3)
        wanted = d * r * w.astype(float) + (b.astype(float) if kind == "layer" else 0)
        np.testing.assert_array_equal(place.get(over), total)
        assert_near(place.get(y), wanted, np.abs(wanted).max())
        g, own = dy.astype(float) * w.astype(float), dy.astype(float) * d * r
        wanted = r * (g - (kind == "layer") * g.mean(-1, keepdims=True) - d * r * r * (g * d).mean(-1, keepdims=True))
        wanted = wanted + dtotal.astype(float)
        over = place.put(dtotal)
        found = backward(place.put(dy), over, saved, out=(over, *[None] * len(weights)))
        assert found[0] is over
        assert_near(place.get(found[0]), wanted, 10 * np.abs(wanted).max())
        for one, other in zip(found[1:], [own.sum(0), dy.astype(float).sum(0)], strict=False):
            assert_near(place.get(one), other, 10 * np.abs(other).max())
        # Without a weight, dx is the only result.
        g = dy.astype(float)
        wanted = r * (g - (kind == "layer") * g.mean(-1, keepdims=True) - d * r * r * (g * d).mean(-1, keepdims=True))
        alone = place.get(backward(place.put(dy), place.put(dtotal), place.put(total), eps=1e-3))
        wanted = wanted + dtotal.astype(float)
        assert_near(alone, wanted, 10 * np.abs(wanted).max())
    norms.plans.clear()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [3, 40])
def test_gradients_with_the_normalized_rows(place, monkeypatch, dtype, rows):
    """The results of both functions, also added to dx and to the weight's gradient, by kernels of one pass or two."""
    if rows > 3:
        for name in ("_SUM_BLOCKS", "_SUM_ROWS"):
            monkeypatch.setattr(launch, name, 1)
        norms.plans.clear()
    rng = np.random.default_rng(rows)
    dy, x, dx = (rng.standard_normal((rows, 24)).astype(dtype) for _ in range(3))
    w, dw = (rng.standard_normal(24).astype(dtype) for _ in range(2))
    g, t, v = (each.astype(float) for each in (dy, x, w))
    d, r = normal("rms", t, 1e-3)
    wanted = r * (g * v - d * r * r * (g * v * d).mean(-1, keepdims=True)), d * r * v, (g * d * r).sum(0)
    for skipped in (0, 3):
        rows_of, columns_of = {"margins": ((0, 0), (skipped, 2))}, {"margins": ((skipped, 2),)}
        given, total = (place.operand(each, **rows_of) for each in (dy, dx))
        weights, others = place.operand(dw, **columns_of), (place.put(x), place.put(w))
        found = norms.rms_norm_backward_and_forward(given.view, *others, eps=1e-3)
        for one, other in zip(found, wanted, strict=True):
            assert_near(place.get(one), other, 10 * np.abs(other).max())
        out = total.view, None, weights.view
        found = norms.rms_norm_backward_and_forward(
            given.view, *others, eps=1e-3, out=out, accumulate=(True, False, True)
        )
        assert found[0] is total.view and found[2] is weights.view
        sums = wanted[0] + dx.astype(float), wanted[1], wanted[2] + dw.astype(float)
        for one, other in zip(found, sums, strict=True):
            assert_near(place.get(one), other, 10 * np.abs(other).max())
        given.assert_untouched()
        for each in (total, weights):
            each.assert_written_only()
    norms.plans.clear()


def test_plans_and_errors(place):
    values = np.random.default_rng(1).standard_normal((4, 24)).astype(np.float32)
    dy, x, dx = (place.put(values + k) for k in range(3))
    w, dw = place.put(values[0].copy()), place.put(values[1].copy())
    plan = ew.rms_norm_backward.plan(dy, x, w, accumulate=True, out=(dx, dw))
    wanted = [place.get(each) for each in ew.rms_norm_backward(dy, x, w)]
    found = plan(dy, x, w, out=(dx, dw))
    assert found[0] is dx and found[1] is dw
    for found, made, before in zip((dx, dw), wanted, (values + 2, values[1]), strict=True):
        np.testing.assert_allclose(place.get(found), made + before, rtol=1e-5, atol=1e-5)
    alone = ew.layer_norm_backward.plan(dy, x, accumulate=True, out=dx)
    before, wanted = place.get(dx), place.get(ew.layer_norm_backward(dy, x))
    assert alone(dy, x, out=dx) is dx
    np.testing.assert_allclose(place.get(dx), wanted + before, rtol=1e-5, atol=1e-5)
    error = numbacc.OptionError
    refused(error, "accumulate", run=lambda: ew.rms_norm_backward(dy, x, w, accumulate=(True,)))
    refused(error, "accumulate", run=lambda: ew.layer_norm_backward(dy, x, w, accumulate=1, out=(dx, dw)))
    refused(error, "dtotal", run=lambda: ew.add_rms_norm_backward(dy, x, x, w, accumulate=True, out=(dx, dw)))
    refused(numbacc.ShapeError, "out", run=lambda: ew.rms_norm_backward(dy, x, w, out=(dx, dw, dw)))
    refused(numbacc.ShapeError, "residual", run=lambda: ew.add_rms_norm(x, dw))
    half = place.put(values[0].astype(np.float16))
    refused(numbacc.DTypeError, "out", run=lambda: ew.rms_norm_backward(dy, x, w, out=(None, half)))
    refused(numbacc.LayoutError, "overlap", run=lambda: ew.add_rms_norm(x[:3], dx[:3], out=(x[1:], None)))
    refused(numbacc.LayoutError, "overlap", run=lambda: ew.add_rms_norm(x, dx, out=(x, x)))
    saves = {"out": (w, None), "return_saved": True}
    refused(numbacc.LayoutError, "weight", run=lambda: ew.add_rms_norm(x[0], dx[0], w, **saves))


@pytest.mark.sampled(1)
@skip_if(simulated(), "not simulated")
@pytest.mark.each_alone(paired=True, in_pairs=True)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("columns", [768, 4096, 16384])
@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("add_rms_norm", "xxw"),
        ("add_layer_norm", "xxww"),
        ("add_rms_norm_backward", "xxxw"),
        ("add_layer_norm_backward", "xxxw"),
        ("rms_norm_backward_and_forward", "xxw"),
    ],
)
def test_the_kernels(dtype, columns, name, arrays):
    """16 bytes of each array at a time; no kernel spills more than a few registers."""
    x, w = dense((2**26 // columns, columns), dtype), dense((columns,), dtype)
    order = orders_of(norms.planned(name, tuple(x if each == "x" else w for each in arrays)))[0]
    found = check(order.kernel, spilled=16)
    assert widest(found, "st") == 16
    assert "cp.async" in found.text or widest(found) == 16
