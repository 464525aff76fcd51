"""Rows with a large common offset, of equal numbers, or of numbers whose squares overflow: losses, norms, variances."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from block_cases import floats, near
from conftest import refused
from row_cases import losses_of

import numbacc
from numbacc import elementwise as ew
from numbacc.elementwise import losses
from numbacc.kernels.rows import launch

pytestmark = pytest.mark.usefixtures("poison", "small_rows")


def rounded(values, dtype):
    """Values as a dtype has them; finite ones stay finite."""
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.clip(values, -largest, largest).astype(dtype)


# ---------------------------------------------------------------- losses

LOGITS = {
    "far": np.array([[1e8, 1e8], [1e8 - 16, 1e8 + 8]]),
    "near 1e4": np.random.default_rng(5).normal(size=(4, 24)) + 1e4,
    "near -3e3": np.random.default_rng(6).normal(size=(4, 48)) - 3e3,
    "sure": np.array([[30.0, 18.0, 0.0]] * 3),
    "equal": np.full((3, 50), 3e37),
    "apart": np.array([[3e38, -3e38, 2e38, -3e38]] * 3),
}


@floats
@pytest.mark.parametrize("name", LOGITS)
@pytest.mark.parametrize("way", ["short", "long", "steps", "columns"])
def test_what_logits_have_in_common_changes_no_loss(place, monkeypatch, dtype, name, way):
    """Nor an element of a gradient: rows in registers, long rows, several kernels, and classes that lie apart."""
    monkeypatch.setattr(losses, "_ROWS", 1 if way in ("short", "long") else 2**30)
    if way == "long":
        monkeypatch.setattr(launch, "_REGISTER_THREADS", 0)
    ew.cache_clear()
    x, axis = rounded(LOGITS[name], dtype), 0 if way == "columns" else 1
    target = np.arange(len(x)) % x.shape[1]
    compute = "float64" if dtype == "float64" else "float32"
    here, there = place.put(np.ascontiguousarray(x if axis else x.T)), place.put(target)
    for smoothing in (0.0, 0.1, 1.0):
        options = {"axis": axis, "label_smoothing": smoothing}
        _, log_p = losses_of(x, target, -1, 0.0, -100)
        hot = (np.arange(x.shape[1]) == target[:, None]) * (1 - smoothing) + smoothing / x.shape[1]
        # Where nothing is to be predicted, log p may be too large for a product.
        with np.errstate(over="ignore"):
            wanted = (-np.where(hot > 0, hot * log_p, 0).sum(axis=1)).astype(compute)
        found, stats = ew.cross_entropy(here, there, reduction="none", return_stats=True, **options)
        near(place.get(found), wanted, compute, scale=1, ulps=16)
        slope = 3 * (np.exp(log_p) - hot)
        for known in (None, stats):
            dx = ew.cross_entropy_backward(3.0, here, there, reduction="sum", stats=known, **options)
            near(place.get(dx), slope if axis else slope.T, dtype, scale=3, ulps=8)
    dx = ew.logsumexp_backward(place.put(np.ones(len(x), dtype)), here, axis=axis)
    near(place.get(dx), np.exp(log_p if axis else log_p.T), dtype, scale=1, ulps=8)
    ew.cache_clear()


def test_stats_of_another_shape_are_refused(place):
    x, target = place.put(np.ones((3, 4), np.float32)), place.put(np.zeros(3, np.int64))
    for shape in ((3,), (3, 1), (2, 3)):
        stats = place.put(np.zeros(shape, np.float32))
        refused(
            numbacc.ShapeError,
            "stats has shape",
            "(3, 2)",
            run=lambda stats=stats: ew.cross_entropy_backward(1.0, x, target, stats=stats),
        )


# ---------------------------------------------------------------- norms

COLUMNS = 40
ROWS = {
    "equal 1.1": np.full((5, COLUMNS), 1.1),
    "equal 45002.93": np.full((5, COLUMNS), 45002.93),
    "equal 1.7e30": np.full((5, COLUMNS), 1.7e30),
    "near 1e4": np.random.default_rng(7).normal(size=(5, COLUMNS)) + 1e4,
    "large": np.tile([[1e20, -1e20, 3e19, 0.0]], (5, COLUMNS // 4)),
    "larger": np.random.default_rng(8).normal(size=(5, COLUMNS)) * 1e30,
    "small": np.random.default_rng(9).normal(size=(5, COLUMNS)) * 1e-12,
}
#: How rows are taken: constants of `row_geometry` that are changed for it.
WAYS = {
    "registers": {},
    "shared": {"_REGISTER_THREADS": 0},
    "all blocks": {"_LONG_BYTES": 1},
    "one pass": {"_SUM_BLOCKS": 1, "_SUM_CLUSTERED": 1, "_SUM_ROWS": 1},
}


def norm_of(kind, x, dy, weight, eps):
    """(y without a weight, dx, the gradient of the weight, r), in more digits than float64 has."""
    x, dy, weight = (each.astype(float).astype(np.longdouble) for each in (x, dy, weight))
    middle = np.where((x == x[:, :1]).all(axis=1), x[:, 0], x.mean(axis=1))[:, None]
    d = x - middle * (kind == "layer")
    r, g = 1 / np.sqrt((d * d).mean(axis=1, keepdims=True) + eps), dy * weight
    dx = r * (g - (kind == "layer") * g.mean(axis=1, keepdims=True) - d * r * (g * d * r).mean(axis=1, keepdims=True))
    return d * r, dx, (dy * d * r).sum(axis=0), r


@floats
@pytest.mark.parametrize("kind", ["rms", "layer"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("way", WAYS)
def test_norms_of_equal_and_of_large_numbers(place, monkeypatch, dtype, kind, name, way):
    """Equal numbers are exactly 0, and squares do not overflow; gradients of x and of a weight, too."""
    for constant, value in WAYS[way].items():
        monkeypatch.setattr(launch, constant, value)
    ew.cache_clear()
    with np.errstate(over="ignore"):
        x = ROWS[name].astype(dtype)
    if not np.isfinite(x.astype(float)).all():
        x = np.full_like(x, 60000.0)
    rng, eps = np.random.default_rng(3), 1e-5
    dy, weight = rng.normal(size=x.shape).astype(dtype), rng.normal(size=COLUMNS).astype(dtype)
    y, dx, dw, r = norm_of(kind, x, dy, weight, eps)
    here, slope, scale = map(place.put, (x, dy, weight))
    found = place.get(getattr(ew, f"{kind}_norm")(here, eps=eps))
    near(found, y, dtype, scale=1, ulps=16)
    if kind == "layer" and name.startswith("equal"):
        assert not found.any()
    weighted = place.get(getattr(ew, f"{kind}_norm")(here, scale, eps=eps))
    near(weighted, y * weight.astype(float), dtype, scale=3, ulps=16)
    got = [place.get(each) for each in getattr(ew, f"{kind}_norm_backward")(slope, here, scale, eps=eps)]
    # Floats of the smallest exponent have fewer digits.
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    size = max(float(r.max()), np.abs(dx).max())
    assert np.abs(got[0].astype(float) - dx).max() <= 32 * (size * float(ml_dtypes.finfo(dtype).eps) / 2 + tiny)
    near(got[1], dw, dtype, scale=5, ulps=32)
    ew.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["rms", "layer"])
@pytest.mark.parametrize("columns", [100, 768, 4096, 20000, 131072, 1 << 20])
@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16], ids=str)
def test_long_norms_of_equal_and_of_large_numbers(device_place, dtype, kind, columns):
    """In the ways that a GPU takes rows of these lengths."""
    place, eps = device_place, 1e-5
    rng, rows = np.random.default_rng(columns), 64 if columns < 10**6 else 2
    dy, weight = rng.normal(size=(rows, columns)).astype(dtype), rng.normal(size=columns).astype(dtype)
    scale = place.put(weight)
    for x in (np.full((rows, columns), 45002.93), np.full((rows, columns), 1.7e30), 1e20 * dy.astype(float)[::-1]):
        x = x.astype(dtype)
        y, dx, dw, r = norm_of(kind, x, dy, weight, eps)
        here = place.put(x)
        found = place.get(getattr(ew, f"{kind}_norm")(here, eps=eps))
        near(found, y, dtype, scale=1, ulps=32)
        if kind == "layer" and (x == x[0, 0]).all():
            assert not found.any()
        got = [place.get(each) for each in getattr(ew, f"{kind}_norm_backward")(place.put(dy), here, scale, eps=eps)]
        size = max(float(r.max()), np.abs(dx).max())
        assert np.abs(got[0].astype(float) - dx).max() <= 64 * size * float(ml_dtypes.finfo(dtype).eps)
        near(got[1], dw, dtype, scale=5 * rows**0.5, ulps=64)


# ---------------------------------------------------------------- variances


@pytest.mark.parametrize("function", ["var", "std"])
@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_variances_of_large_numbers(place, function, dtype, axis):
    """Equal ones have none; where squares overflow the variance is infinite, and never NaN."""
    with np.errstate(over="ignore"):
        rows = [np.full((3, n), value) for n, value in ((1, 1e20), (1, 3e38), (7, 1e20), (64, 2e22), (8, -1e25))]
        rows.append(np.tile([1e30, -1e30], (3, 4)))
    for values in rows:
        x = values.astype(dtype)
        found = place.get(getattr(ew, function)(place.put(x if axis else np.ascontiguousarray(x.T)), axis=axis))
        wide = x.astype(float)
        if (wide == wide[:, :1]).all():
            assert (np.abs(found.astype(float)) <= 1e-7 * np.abs(wide[:, 0]) ** (2 if function == "var" else 1)).all()
        else:
            assert (found == np.inf).all()
