"""Cross entropy and log sums of exponentials: against float64, in all dtypes, over any axis."""

from __future__ import annotations

import copy

import ml_dtypes
import numpy as np
import pytest
import simulated_blocks
from block_cases import floats, near
from conftest import refused
from row_cases import losses_of
from skips import skip

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import runtime
from numbacc.elementwise import losses
from numbacc.errors import IndexRangeError, LayoutError
from numbacc.kernels.rows import launch
from numbacc.runtime import workspace
from numbacc.runtime.streams import handle_of

pytestmark = pytest.mark.usefixtures("small_rows")


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


#: Layouts of arrays that results are written to: of losses, and of stats.
OUTS = {
    "dense": ({}, {}),
    "strided": ({"order": (1, 0), "steps": (2, 1), "margins": ((1, 0), (0, 3))},
                {"order": (2, 0, 1), "steps": (1, -1, 2), "margins": ((0, 1), (2, 0), (1, 1))}),
}  # fmt: skip


@pytest.mark.parametrize("outs", OUTS)
@pytest.mark.parametrize("smoothing, most", [(0.0, 2**26), (0.1, 2**26), (0.1, 0)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape, axis, order", [((4, 6, 5), 1, (0, 1, 2)), ((20, 30, 8), 2, (1, 0, 2))])
def test_results_of_cross_entropy_are_written_to_given_arrays(
    place, monkeypatch, shape, axis, order, reduction, smoothing, most, outs
):
    """In any layout, whether one kernel computes everything or several do; either may be left out."""
    monkeypatch.setattr(losses, "_TOTAL_BYTES", most)
    ew.cache_clear()
    rng = np.random.default_rng(2)
    x = rng.normal(size=shape).astype(np.float32)
    beside = shape[:axis] + shape[axis + 1 :]
    target = rng.integers(0, shape[axis], beside)
    target[0, 1] = -100
    here, there = place.operand(x, order=order).view, place.put(target)
    options = {"axis": axis, "reduction": reduction, "label_smoothing": smoothing}
    wanted, _ = losses_of(x, target, axis, smoothing, -100)
    wanted = {"none": wanted, "sum": wanted.sum(), "mean": wanted.sum() / (target != -100).sum()}[reduction]
    of_loss, of_stats = OUTS[outs]
    lengths = beside if reduction == "none" else ()
    first, second = (place.empty(lengths or (1,), np.dtype("float32"), **(of_loss if lengths else {})) for _ in "ab")
    one, two = (each.view if lengths else each.view.reshape(()) for each in (first, second))
    stats = place.empty((*beside, 2), np.dtype("float32"), **of_stats)
    scale = 8 * (target.size if reduction == "sum" else 1)
    assert ew.cross_entropy(here, there, out=one, **options) is one
    found = ew.cross_entropy(here, there, out=(two, stats.view), return_stats=True, **options)
    assert found[0] is two and found[1] is stats.view
    for each in (first, second):
        near(each.now().reshape(lengths), wanted, "float32", scale=scale, ulps=8)
        each.assert_written_only()
    stats.assert_written_only()
    largest = x.astype(float).max(axis)
    sums = np.log(np.exp(x - np.expand_dims(largest, axis)).sum(axis))
    near(stats.now(), np.stack([largest, sums], -1), "float32", scale=8, ulps=8)
    for given in ((None, stats.view), (one, None)):
        found = ew.cross_entropy(here, there, out=given, return_stats=True, **options)
        assert all(a is b for a, b in zip(found, given, strict=True) if b is not None)
        near(place.get(found[0]), wanted, "float32", scale=scale, ulps=8)
        near(place.get(found[1]), stats.now(), "float32", scale=8, ulps=8)
    loss, saved = ew.cross_entropy(here, there, out=one, return_saved=True, **options)
    assert loss is one
    again = ew.cross_entropy(here, there, out=(one, stats.view), return_stats=True, return_saved=True, **options)
    assert again[:2] == (one, stats.view) if place.is_device else again[0] is one
    dy = place.put(np.ones(lengths, np.float32))
    slopes = [place.get(ew.cross_entropy_backward(dy, each)) for each in (saved, again[2])]
    np.testing.assert_array_equal(*slopes)
    plan = ew.cross_entropy.plan(here, there, return_stats=True, out=(one, stats.view), **options)
    assert plan(here, there, out=(two, stats.view))[0] is two
    refused(LayoutError, "without out", run=lambda: ew.cross_entropy.plan(here, there, **options)(here, there, out=one))
    refused(LayoutError, "made", run=lambda: plan(here, there))
    refused(LayoutError, "made for", run=lambda: plan(here, there, out=(None, stats.view)))
    ew.cache_clear()


def test_arrays_that_cannot_receive_losses(place):
    x, target = place.put(np.zeros((4, 6), np.float32)), place.put(np.zeros(4, np.int64))
    like = lambda shape, dtype="float32": place.put(np.zeros(shape, dtype))  # noqa: E731

    def run(out, **options):
        return lambda: ew.cross_entropy(x, target, out=out, **options)

    refused(numbacc.ShapeError, "out", "(4,)", run=run(like((3,)), reduction="none"))
    refused(numbacc.ShapeError, "out has shape (4,)", run=run(like((4,))))
    refused(numbacc.DTypeError, "float64", run=run(like((), "float64")))
    refused(numbacc.ShapeError, "one array", run=run((like(()), like((4, 2)))))
    refused(numbacc.ShapeError, "a pair", run=run(like(()), return_stats=True))
    refused(numbacc.ShapeError, "out[1]", run=run((like(()), like((4,))), return_stats=True))
    stats = like((4, 2))
    refused(LayoutError, "out[1]", run=run((stats[:, 0], stats), return_stats=True, reduction="none"))
    refused(LayoutError, "shares memory with x", run=run(x[:, 1], reduction="none"))
    refused(LayoutError, "out", run=run(np.broadcast_to(np.float32(0), (4,)), reduction="none") if not place.is_device
            else run(like((1,)).broadcast_to((4,)), reduction="none"))  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_plans_of_cross_entropy(place, reduction):
    """They give the function's bits, for other numbers, and refuse other layouts."""
    rng = np.random.default_rng(1)
    x, target = rng.normal(size=(4, 6, 5)).astype(np.float32), rng.integers(0, 6, (4, 5))
    options = {"axis": 1, "reduction": reduction, "ignore_index": 2, "label_smoothing": 0.1}
    plan = ew.cross_entropy.plan(place.put(np.zeros_like(x)), place.put(target), return_stats=True, **options)
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
        back = ew.cross_entropy_backward.plan(dy, here, there, stats=known, out=out, **options)
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
    some = slice(None) if place.is_device else slice(4)
    found = place.get(ew.cross_entropy(place.put(x[some]), place.put(target[some]), reduction="none"))
    np.testing.assert_allclose(found, [0, np.inf, np.log(2), np.nan, np.nan][some], rtol=1e-6)
    dx = place.get(ew.cross_entropy_backward(1.0, place.put(x[:1]), place.put(target[:1])))
    np.testing.assert_array_equal(dx, [[0, 0, 0]])


@pytest.mark.parametrize("fewest", [1, 2**30])
def test_cross_entropy_of_the_largest_logits(place, monkeypatch, fewest):
    """Times log₂e they overflow float32, and so do their differences."""
    if place.is_slow:
        simulated_blocks.rows(monkeypatch.setattr)
    monkeypatch.setattr(losses, "_ROWS", fewest)
    ew.cache_clear()
    own = np.array([[3.3e38, 1.0, 2.0, 0, -3.3e38, 3.3e38, 0, 0], [-3.3e38] * 8, [2.5e38] + [-3.3e38] * 7])
    x, target = np.tile(own, (3, 1)).astype(ml_dtypes.bfloat16), np.tile([0, 1, 0], 3)
    here, there, wanted = place.put(x), place.put(target), np.tile(np.log([2, 8, 1]), 3)
    found, stats = ew.cross_entropy(here, there, reduction="none", return_stats=True)
    np.testing.assert_array_equal(place.get(stats)[:, 0], x.max(axis=1).astype(np.float32))
    np.testing.assert_allclose(place.get(stats)[:, 1], wanted, rtol=1e-6)
    np.testing.assert_allclose(place.get(found), wanted, rtol=1e-6)
    wide = own.astype(ml_dtypes.bfloat16).astype(float)
    for smoothing in (0.25, 1.0):
        found = ew.cross_entropy(here, there, reduction="none", label_smoothing=smoothing)
        exact = [losses_of(wide, np.array([0, 1, 0]), -1, s, -100)[0] for s in (0.0, 1.0)]
        with np.errstate(over="ignore"):
            wanted = np.tile((1 - smoothing) * exact[0] + smoothing * exact[1], 3).astype(np.float32)
        np.testing.assert_allclose(place.get(found), wanted, rtol=1e-6)
    ew.cache_clear()


@pytest.mark.too_long(lambda case: case.columns > 64)
@floats
@pytest.mark.parametrize("columns", [8, 1, 6, 64, 1000, 4096])
@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_cross_entropy_of_rows_with_threads_of_their_own(place, monkeypatch, dtype, columns, is_short):
    """Short rows are kept in registers, long ones are read once; those that start anywhere take another way."""
    if place.is_slow:
        simulated_blocks.rows(monkeypatch.setattr)
    monkeypatch.setattr(losses, "_ROWS", 1)
    if not is_short:
        monkeypatch.setattr(launch, "_REGISTER_THREADS", 0)
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
        total = place.get(ew.cross_entropy(seen, place.put(target), reduction="none", return_stats=True)[1]).sum(-1)
        if not isinstance(seen, np.ndarray) and not offset:
            by_rows = dtype != "float64" and columns * values.itemsize % 16 == 0
            assert ew.cross_entropy.plan(seen, place.put(target)).info.algorithm.startswith("row_maps") is by_rows
        largest = values.astype(float).max(axis=1)
        with np.errstate(all="ignore"):
            exponents = np.exp(values.astype(float) - np.where(np.isfinite(largest), largest, 0)[:, None])
            stats = np.log(exponents.sum(axis=1)) + np.where(np.isfinite(largest), largest, 0)
        near(total, stats, compute, scale=8, ulps=8)
    ew.cache_clear()


def of_one_kernel(monkeypatch, place, rows, columns, dtype, is_short=True):
    """Logits and targets, some of them ignored, of rows that have threads of their own."""
    if place.is_slow:
        simulated_blocks.rows(monkeypatch.setattr)
    if not is_short:
        monkeypatch.setattr(launch, "_REGISTER_THREADS", 0)
    monkeypatch.setattr(losses, "_ROWS", 1)
    ew.cache_clear()
    rng = np.random.default_rng(rows)
    x, target = (3 * rng.normal(size=(rows, columns))).astype(dtype), rng.integers(0, columns, rows)
    target[::3] = -100
    return x, target


@pytest.mark.too_long(lambda case: case.rows > 7 or case.dtype == np.float16)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("rows", [2, 7, 70, 50_000])
@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_means_and_sums_of_one_kernel(device_place, monkeypatch, dtype, rows, is_short):
    """Blocks tell what their rows bring, and one that has none adds it up: as few, or as many, as there are."""
    place = device_place
    x, target = of_one_kernel(monkeypatch, place, rows, 16, dtype, is_short)
    here, there = place.put(x), place.put(target)
    for smoothing in (0.0, 0.25):
        wanted, _ = losses_of(x, target, -1, smoothing, -100)
        options = {"label_smoothing": smoothing, "return_stats": True}
        for reduction, exact, scale in (("sum", wanted.sum(), rows), ("mean", wanted.sum() / (target >= 0).sum(), 1)):
            plan = ew.cross_entropy.plan(here, there, reduction=reduction, **options)
            assert plan.info.algorithm.startswith("row_maps") and ";" not in plan.info.algorithm
            assert plan.info.deterministic and plan.info.workspace_bytes
            found, stats = plan(here, there)
            again, _ = plan(here, there)
            near(place.get(found), exact, "float32", scale=8 * scale, ulps=8)
            assert place.get(found).tobytes() == place.get(again).tobytes()
            alone = ew.cross_entropy(here, there, reduction=reduction, label_smoothing=smoothing)
            assert place.get(found).tobytes() == place.get(alone).tobytes()
            each = ew.cross_entropy(here, there, reduction="none", **options)[1]
            np.testing.assert_array_equal(place.get(stats), place.get(each))
    there = place.put(np.full(rows, -100))
    assert np.isnan(place.get(ew.cross_entropy(here, there)))
    assert place.get(ew.cross_entropy(here, there, reduction="sum")) == 0
    ew.cache_clear()


@pytest.mark.too_long(lambda case: case.columns >= 1000 or case.dtype == np.float16)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("columns", [16, 1000, 9, 40960])
@pytest.mark.parametrize("how", ["short", "long", "many"])
def test_losses_and_gradients_in_one_pass(place, monkeypatch, dtype, columns, how):
    """Ignored targets and targets without a class; in place, into given arrays, in a plan.

    Another kernel adds the losses of many rows.
    """
    if how == "many":
        monkeypatch.setattr(losses, "_TOTAL_BYTES", 0)
    # NumPy has no blocks; the blocks of a cluster share the longest rows.
    rows = 7 if place.is_slow or not place.is_device else 40 if columns > 1000 else 600
    if columns > 1000 and not place.is_device:
        skip("device")
    x, target = of_one_kernel(monkeypatch, place, rows, columns, dtype, how != "long")
    target[4] = columns - 1
    target[5] = -1 if place.is_device else 2  # NumPy raises an error
    x[1, 3], x[2, :] = -3e4, x[2, 0]
    here, there = place.put(x), place.put(target)
    compute = "float64" if dtype == np.float64 else "float32"
    for smoothing in (0.0, 0.25):
        if smoothing:
            x[1, 3] = 0.0
            here = place.put(x)
        named = np.where(target == -1, 0, target)
        wanted, log_p = losses_of(x, named, -1, smoothing, -100)
        hot = (np.arange(columns) == named[:, None]) * (1 - smoothing) + smoothing / columns
        slope = np.where((target == -100)[:, None], 0.0, np.exp(log_p) - hot)
        is_wrong = target == -1
        wanted[is_wrong], slope[is_wrong] = np.nan, np.nan
        count = (target != -100).sum()
        each = place.put(np.linspace(1, 2, rows).astype(compute))
        for reduction, dloss, exact, factor in (
            ("mean", 2.0, wanted.sum() / count, 2.0 / count),
            ("sum", place.put(np.array(0.5, np.float32)), wanted.sum(), 0.5),
            ("none", 3.0, wanted, 3.0),
            ("none", each, wanted, np.linspace(1, 2, rows)[:, None]),
        ):
            options, size = {"reduction": reduction, "label_smoothing": smoothing}, np.max(factor)
            loss, dx = ew.cross_entropy_and_gradient(here, there, dloss, **options)
            alone = ew.cross_entropy(here, there, **options)
            np.testing.assert_allclose(place.get(loss), place.get(alone), rtol=1e-5)
            near(place.get(loss), exact, compute, scale=8 * (rows if reduction == "sum" else 1), ulps=8)
            near(place.get(dx), slope * factor, dtype, scale=size, ulps=8)
            own = place.empty(x.shape, x.dtype, margins=((0, 0), (0, 16)))
            given = place.put(np.full(np.shape(exact), np.nan, compute))
            found = ew.cross_entropy_and_gradient(here, there, dloss, out=(given, own.view), **options)
            assert found[0] is given and found[1] is own.view
            own.assert_written_only()
            np.testing.assert_array_equal(place.get(given), place.get(loss))
            near(own.now(), place.get(dx).astype(float), dtype, scale=size, ulps=2)
            plan = ew.cross_entropy_and_gradient.plan(here, there, dloss, out=(None, here), **options)
            if place.is_device:
                by_rows = dtype != np.float64 and columns * x.itemsize % 16 == 0
                last = plan.info.algorithm.split(";")[-1 - (how == "many" and reduction != "none" and by_rows)]
                assert ("row_maps" in last) is by_rows
            inside = place.put(x)
            again = plan(inside, there, dloss, out=(None, inside))
            assert again[1] is inside
            np.testing.assert_array_equal(place.get(again[0]), place.get(loss))
            near(place.get(inside), place.get(dx).astype(float), dtype, scale=size, ulps=2)
    ew.cache_clear()


def test_what_has_no_loss_and_gradient(place):
    x, target = place.put(np.zeros((4, 16), np.float32)), place.put(np.zeros(4, np.int64))
    run = lambda dloss=1.0, **more: lambda: ew.cross_entropy_and_gradient(x, target, dloss, **more)  # noqa: E731
    refused(numbacc.ShapeError, "dloss has shape (4,)", run=run(place.put(np.zeros(4, np.float32))))
    refused(numbacc.DTypeError, "dloss", run=run(place.put(np.array(1))))
    refused(numbacc.ShapeError, "a pair", run=run(out=x))
    refused(LayoutError, "shares memory", run=run(out=(x[0, :1].reshape(()), None)))
    other = place.put(np.zeros((4, 16), np.float32))
    refused(LayoutError, "out[0] shares memory with out[1]", run=run(out=(other[:, 1], other), reduction="none"))
    if not place.is_device:
        refused(IndexRangeError, "from 0 to 15", run=lambda: ew.cross_entropy_and_gradient(x, target + 16))


def test_a_mean_on_streams_and_in_graphs(device_place, monkeypatch):
    """Words by which blocks tell are clear before and behind; a graph clears its own, whoever has had them before."""
    place, stream = device_place, numbacc.stream()
    x, target = of_one_kernel(monkeypatch, place, 9 if place.is_slow else 60_001, 16, np.float32)
    other, there = x[::-1].copy() * 2, place.put(target)
    here, streams = place.put(x), [numbacc.stream() for _ in range(3)]
    plan = ew.cross_entropy.plan(here, there)
    first = place.get(plan(here, there)).tobytes()
    block = workspace.held(plan.info.workspace_bytes, 0, handle_of(None), True)
    held = numbacc.asarray(np.full(block.nbytes, 255, np.uint8))
    runtime().copy_on_device(held._address, block.address, block.nbytes, 0, handle_of(None))
    assert not place.get(held).any()
    found = [plan(here, there, stream=each) for _ in range(1 if place.is_slow else 5) for each in streams]
    assert {place.get(each).tobytes() for each in found} == {first}
    with numbacc.graph(stream) as graph:
        one = ew.cross_entropy(here, there, stream=stream)
        between = ew.cumsum(here, axis=0, stream=stream)
        two = ew.cross_entropy(here, there, stream=stream)
    for values in (other, x, x):
        here[...] = place.put(values)
        graph.launch()
        wanted = place.get(ew.cross_entropy(here, there)).tobytes()
        assert place.get(one).tobytes() == place.get(two).tobytes() == wanted
    assert wanted == first and place.get(between).shape == x.shape
    ew.cache_clear()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16", "uint64"])
@pytest.mark.parametrize("fewest", [1, 2**30])
@pytest.mark.parametrize("smoothing", [0.0, 0.25, 1.0])
def test_targets_of_all_kinds(place, monkeypatch, dtype, fewest, smoothing):
    """Targets that are ignored or name no class, in strided arrays of rows of rows."""
    if place.is_slow:
        simulated_blocks.rows(monkeypatch.setattr)
    monkeypatch.setattr(losses, "_ROWS", fewest)
    ew.cache_clear()
    x = np.random.default_rng(4).normal(size=(2, 5, 16)).astype(np.float32)
    is_unsigned = dtype.startswith("u")
    own = [[3, 8, 100, 0, 7], [1, 7, 2, 5, 127]] if is_unsigned else [[3, -8, -100, -1, 7], [-9, 8, 2, 0, 1]]
    own = np.array(own).astype(dtype)
    if dtype == "uint64":
        own[0, 2] = 2**64 - 1
    is_class = (own < 8) if is_unsigned else (own >= 0) & (own < 8)
    here, there = place.put(x)[:, :, 4:12], place.put(np.repeat(own, 2, axis=1))[:, ::2]
    options = {"ignore_index": 7, "label_smoothing": smoothing}
    if not place.is_device:
        refused(IndexRangeError, "from 0 to 7", run=lambda: ew.cross_entropy(here, there, **options))
        refused(IndexRangeError, "from 0 to 7", run=lambda: ew.cross_entropy_backward(2.0, here, there, **options))
        here, there, own, is_class = (each[is_class][None] for each in (here, there, own, is_class))
    found, stats = ew.cross_entropy(here, there, reduction="none", return_stats=True, **options)
    named, seen = np.where(is_class, own, 0).astype(int), place.get(here)
    wanted, log_p = losses_of(seen, named, -1, smoothing, 7)
    np.testing.assert_allclose(place.get(found), np.where(is_class, wanted, np.nan), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(place.get(stats).sum(-1), (seen - log_p)[..., 0], rtol=1e-6)
    dy = place.put(np.full(own.shape, 2.0, np.float32))
    dx = ew.cross_entropy_backward(dy, here, there, reduction="none", **options)
    hot = (np.arange(8) == named[..., None]) * (1 - smoothing) + smoothing / 8
    slope = np.where(named[..., None] == 7, 0, np.exp(log_p) - hot)
    slope[~is_class] = np.nan
    np.testing.assert_allclose(place.get(dx), 2 * slope, rtol=1e-5, atol=1e-6)
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
    refused(numbacc.ShapeError, "at least one class", run=lambda: ew.cross_entropy(x[:, :0], target))


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
