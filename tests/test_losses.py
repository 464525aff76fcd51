"""Cross entropy and log sums of exponentials: against float64, in all dtypes, over any axis."""

from __future__ import annotations

import copy

import ml_dtypes
import numpy as np
import pytest
import simulated_blocks
from conftest import refused
from skips import skip
from test_blocks import floats, near, small_blocks

import numbacc
from numbacc import elementwise as ew
from numbacc.device import row_geometry
from numbacc.elementwise import loss_steps
from numbacc.errors import LayoutError

__all__ = ["small_blocks"]


def losses_of(x, target, axis, smoothing, ignored):
    """The losses of all rows, in float64, by the definition."""
    rows = np.moveaxis(np.asarray(x, np.float64), axis, -1)
    largest = rows.max(axis=-1, keepdims=True)
    log_p = rows - largest - np.log(np.exp(rows - largest).sum(axis=-1, keepdims=True))
    safe = np.where(target == ignored, 0, target)
    right = np.take_along_axis(log_p, safe[..., None], axis=-1)[..., 0]
    found = -(1 - smoothing) * right - smoothing * log_p.mean(axis=-1)
    return np.where(target == ignored, 0.0, found), log_p


@floats
@pytest.mark.parametrize("shape, axis", [((5, 7), -1), ((4, 3, 6), 1), ((3, 130), 0), ((2, 1000), 1), ((7,), 0)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_cross_entropy(place, dtype, shape, axis, smoothing):
    rng = np.random.default_rng(0)
    x = (3 * rng.normal(size=shape)).astype(dtype)
    beside = [n for d, n in enumerate(shape) if d != axis % len(shape)]
    target = np.asarray(rng.integers(0, shape[axis], beside))
    if target.size > 2:
        target.flat[1] = -100
    wanted, log_p = losses_of(x, target, axis, smoothing, -100)
    here, there = place.put(x), place.put(target)
    compute = "float64" if dtype == "float64" else "float32"
    options = {"axis": axis, "label_smoothing": smoothing}
    found, stats = ew.cross_entropy(here, there, reduction="none", return_stats=True, **options)
    near(place.get(found), wanted, compute, scale=8, ulps=8)
    total = ew.cross_entropy(here, there, reduction="sum", **options)
    near(place.get(total), wanted.sum(), compute, scale=8 * target.size, ulps=8)
    mean = ew.cross_entropy(here, there, **options)
    count = (target != -100).sum()
    near(place.get(mean), wanted.sum() / count, compute, scale=8, ulps=8)
    # The gradient, from probabilities and what was to be predicted.
    p = np.exp(log_p)
    hot = (np.arange(shape[axis]) == target[..., None]) * (1 - smoothing) + smoothing / shape[axis]
    slope = np.where((target == -100)[..., None], 0.0, p - hot)
    for reduction, dy, factor in (
        ("mean", 2.0, 2.0 / count),
        ("sum", place.put(np.array(0.5, np.float32)), 0.5),
        ("none", place.put(np.full(target.shape, 3.0, compute)), 3.0),
    ):
        for known in (None, stats):
            dx = ew.cross_entropy_backward(dy, here, there, reduction=reduction, stats=known, **options)
            near(place.get(dx), np.moveaxis(slope * factor, -1, axis), dtype, scale=factor, ulps=8)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_plans_of_cross_entropy(place, reduction):
    """They give the function's bits, for other numbers, and refuse other layouts."""
    rng = np.random.default_rng(1)
    x, target = rng.normal(size=(4, 6, 5)).astype(np.float32), rng.integers(0, 6, (4, 5))
    options = {"axis": 1, "reduction": reduction, "ignore_index": 2, "label_smoothing": 0.1}
    plan = ew.cross_entropy_plan(place.put(np.zeros_like(x)), place.put(target), return_stats=True, **options)
    here, there = place.put(x), place.put(target)
    loss, stats = plan(here, there)
    for found, wanted in zip((loss, stats), ew.cross_entropy(here, there, return_stats=True, **options), strict=True):
        np.testing.assert_array_equal(place.get(found), place.get(wanted))
    assert plan.info.op == "elementwise.cross_entropy" and "target int64 (4, 5)" in repr(plan)
    refused(LayoutError, "elementwise.cross_entropy", run=lambda: plan(place.put(x[:3]), place.put(target[:3])))
    refused(LayoutError, "x, target", run=lambda: plan._call((here,), None, None))
    refused(numbacc.DTypeError, "LossPlan cannot be copied", run=lambda: copy.copy(plan))
    dy = place.put(np.full(target.shape if reduction == "none" else (), 2.0, np.float32))
    for known, out in ((None, None), (stats, None), (stats, place.empty(x.shape, x.dtype).view)):
        back = ew.cross_entropy_backward_plan(dy, here, there, stats=known, out=out, **options)
        found = back(dy, here, there, stats=known, out=out)
        assert out is None or found is out
        wanted = ew.cross_entropy_backward(dy, here, there, stats=known, **options)
        np.testing.assert_array_equal(place.get(found), place.get(wanted))
        assert back.info.dtypes[-1] == "float32" and back.info.deterministic
        other = {"stats": known, "out": here if out is None else None}
        refused(LayoutError, "out", run=lambda other=other, back=back: back(dy, here, there, **other))
    refused(LayoutError, "dy, x, target, stats", run=lambda: back(dy, here, there, out=out))
    if reduction != "none":
        np.testing.assert_array_equal(place.get(back(2.0, here, there, stats=stats, out=out)), place.get(wanted))
    info = ew.cache_info()
    ew.cross_entropy(here, there, return_stats=True, **options)
    assert (ew.cache_info().hits, ew.cache_info().misses) == (info.hits + 1, info.misses)


def test_cross_entropy_of_large_and_infinite_logits(place):
    x = np.array([[1e4, 0.0, -1e4], [np.inf, 0, 1], [-np.inf, 0, 0], [np.nan, 0, 1], [1, 2, 3]], np.float32)
    target = np.array([0, 1, 1, 2, 7])
    found = place.get(ew.cross_entropy(place.put(x), place.put(target), reduction="none"))
    np.testing.assert_allclose(found, [0, np.inf, np.log(2), np.nan, np.nan], rtol=1e-6)
    dx = place.get(ew.cross_entropy_backward(1.0, place.put(x[:1]), place.put(target[:1])))
    np.testing.assert_array_equal(dx, [[0, 0, 0]])


@pytest.mark.parametrize("fewest", [1, 2**30])
def test_cross_entropy_of_the_largest_logits(place, monkeypatch, fewest):
    """Times log₂e they are no float32 any more."""
    if place.is_slow:
        simulated_blocks.rows(monkeypatch.setattr)
    monkeypatch.setattr(loss_steps, "_ROWS", fewest)
    ew.cache_clear()
    own = np.array([[3.3e38, 1.0, 2.0, 0, -3.3e38, 3.3e38, 0, 0], [-3.3e38] * 8, [2.5e38] + [-3.3e38] * 7])
    x, target = np.tile(own, (3, 1)).astype(ml_dtypes.bfloat16), np.tile([0, 1, 0], 3)
    found, stats = ew.cross_entropy(place.put(x), place.put(target), reduction="none", return_stats=True)
    np.testing.assert_array_equal(place.get(stats), x.max(axis=1).astype(np.float32))
    np.testing.assert_array_equal(place.get(found), np.zeros(9))
    ew.cache_clear()


@floats
@pytest.mark.parametrize("columns", [1, 6, 8, 64, 1000, 4096])
@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_cross_entropy_of_rows_with_threads_of_their_own(place, monkeypatch, dtype, columns, is_short):
    """Short rows are kept in registers, long ones are read once; those that start anywhere take another way."""
    if place.is_slow and columns > 64:
        skip("slow")
    if place.is_slow:
        simulated_blocks.rows(monkeypatch.setattr)
    monkeypatch.setattr(loss_steps, "_ROWS", 1)
    if not is_short:
        monkeypatch.setattr(row_geometry, "_REGISTER_THREADS", 0)
    ew.cache_clear()
    rng, rows = np.random.default_rng(columns), 7 if place.is_slow else 70
    x = (3 * rng.normal(size=(rows, columns))).astype(dtype)
    special = np.zeros((5, columns), dtype)
    special[:, -1:] = np.array([[1e4], [np.inf], [-np.inf], [np.nan], [-1e4]]).astype(dtype)
    x, target = np.concatenate([x, special]), rng.integers(0, columns, rows + 5)
    compute = "float64" if dtype == "float64" else "float32"
    whole = place.put(np.concatenate([x.reshape(-1), x.reshape(-1)[:1]]))
    for offset in (0, 1):
        seen = whole[offset : offset + x.size].reshape(x.shape)
        values = place.get(seen)
        for smoothing in (0.0, 0.25):
            with np.errstate(all="ignore"):
                wanted, _ = losses_of(values, target, -1, smoothing, -100)
            found = ew.cross_entropy(seen, place.put(target), reduction="none", label_smoothing=smoothing)
            finite = np.isfinite(values.astype(float)).all(axis=1)
            near(place.get(found)[finite], wanted[finite], compute, scale=8 + np.abs(values[finite]).max(), ulps=8)
        total = place.get(ew.cross_entropy(seen, place.put(target), reduction="none", return_stats=True)[1])
        if not isinstance(seen, np.ndarray) and not offset:
            by_rows = dtype != "float64" and columns * values.itemsize % 16 == 0
            assert ew.cross_entropy_plan(seen, place.put(target)).info.algorithm.startswith("row_maps") is by_rows
        largest = values.astype(float).max(axis=1)
        with np.errstate(all="ignore"):
            exponents = np.exp(values.astype(float) - np.where(np.isfinite(largest), largest, 0)[:, None])
            stats = np.log(exponents.sum(axis=1)) + np.where(np.isfinite(largest), largest, 0)
        near(total, stats, compute, scale=8, ulps=8)
    ew.cache_clear()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
@pytest.mark.parametrize("fewest", [1, 2**30])
def test_targets_of_all_kinds(place, monkeypatch, dtype, fewest):
    """Those that count from the end, name no class, or are ignored; out of arrays that lie apart, in rows of rows."""
    if place.is_slow:
        simulated_blocks.rows(monkeypatch.setattr)
    monkeypatch.setattr(loss_steps, "_ROWS", fewest)
    ew.cache_clear()
    x = np.random.default_rng(4).normal(size=(2, 5, 16)).astype(np.float32)
    own = np.array(
        [[3, 8, 100, 0, 7], [1, 7, 2, 5, 127]] if dtype == "uint16" else [[3, -8, -100, -1, 7], [-9, 8, 2, 0, 1]]
    )
    here, there = place.put(x)[:, :, 4:12], place.put(np.repeat(own.astype(dtype), 2, axis=1))[:, ::2]
    found, stats = ew.cross_entropy(here, there, reduction="none", ignore_index=7, return_stats=True)
    seen = x[:, :, 4:12].astype(np.float64)
    total = np.log(np.exp(seen).sum(axis=2))
    picked = np.take_along_axis(seen, np.where(abs(own) < 8, own, own % 8)[..., None], 2)[..., 0]
    wanted = np.where((own < -8) | (own > 7), np.nan, np.where(own == 7, 0, total - picked))
    np.testing.assert_allclose(place.get(found), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(place.get(stats), total, rtol=1e-6)
    ew.cache_clear()


def test_cross_entropy_in_place_and_of_nothing_that_counts(place):
    x, target = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32), np.full(6, -100)
    here, there = place.put(x), place.put(target)
    assert np.isnan(place.get(ew.cross_entropy(here, there)))
    assert place.get(ew.cross_entropy(here, there, reduction="sum")) == 0
    assert ew.cross_entropy_backward(1.0, here, there, out=here) is here
    np.testing.assert_array_equal(place.get(here), 0)


def test_what_has_no_cross_entropy(place):
    x, target = place.put(np.zeros((2, 3))), place.put(np.zeros(2, np.int64))
    refused(numbacc.ShapeError, "target has shape (3,)", run=lambda: ew.cross_entropy(x, place.put(np.zeros(3, int))))
    refused(numbacc.DTypeError, "target", "integers", run=lambda: ew.cross_entropy(x, place.put(np.zeros(2))))
    whole = place.put(np.zeros((2, 3), int))
    refused(numbacc.DTypeError, "x has dtype int64", run=lambda: ew.cross_entropy(whole, target))
    refused(numbacc.OptionError, "reduction", run=lambda: ew.cross_entropy(x, target, reduction="max"))
    refused(numbacc.OptionError, "reduction", run=lambda: ew.cross_entropy(x, target, reduction=np.ones(2)))
    refused(numbacc.OptionError, "return_stats=1", run=lambda: ew.cross_entropy(x, target, return_stats=1))
    refused(numbacc.OptionError, "label_smoothing", run=lambda: ew.cross_entropy(x, target, label_smoothing=2))
    refused(numbacc.ShapeError, "dy has shape", run=lambda: ew.cross_entropy_backward(target, x, target))
    refused(numbacc.ShapeError, "no classes", run=lambda: ew.cross_entropy(x[:, :0], target))


# ---------------------------------------------------------------- log Σ e^x


@floats
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_logsumexp(place, dtype, axis):
    x = (50 * np.random.default_rng(0).normal(size=(6, 5, 70))).astype(dtype)
    wide = x.astype(np.float64)
    largest = wide.max(axis=axis, keepdims=True)
    wanted = (largest + np.log(np.exp(wide - largest).sum(axis=axis, keepdims=True))).astype(np.float64)
    found = place.get(ew.logsumexp(place.put(x), axis=axis, keepdims=True))
    near(found, wanted, dtype, ulps=3)


def test_logsumexp_of_what_is_special(place):
    rows = np.array([[np.inf, 1, np.inf], [-np.inf] * 3, [np.nan, np.inf, 0], [-np.inf, 0, 0], [-np.inf, np.inf, 0]])
    found = place.get(ew.logsumexp(place.put(rows), axis=1))
    np.testing.assert_allclose(found, [np.inf, -np.inf, np.nan, np.log(2), np.inf])
    assert place.get(ew.logsumexp(place.put(rows[:, :0]), axis=1)).tolist() == [-np.inf] * 5
