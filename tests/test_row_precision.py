"""Rows with a large common offset, of equal numbers, or of numbers whose squares overflow: losses, norms, variances."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import simulated_blocks
from conftest import refused
from test_blocks import floats, near
from test_losses import losses_of

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.device import row_geometry
from numbacc.elementwise import loss_steps

pytestmark = pytest.mark.usefixtures("poison", "small_blocks")


@pytest.fixture(scope="module")
def small_blocks():
    """In the simulator threads run one by one: blocks of few, warps of fewer."""
    with pytest.MonkeyPatch.context() as patch:
        if simulated():
            simulated_blocks.rows(patch.setattr)
        ew.cache_clear()
        yield
        ew.cache_clear()


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
    monkeypatch.setattr(loss_steps, "_ROWS", 1 if way in ("short", "long") else 2**30)
    if way == "long":
        monkeypatch.setattr(row_geometry, "_REGISTER_THREADS", 0)
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
