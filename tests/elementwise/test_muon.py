"""Muon's step against the formula in float64, and the singular values of its matrices."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import nn


def exact(p, g, m, rate, momentum, decay, nesterov=True):
    """A step in float64."""
    m = momentum * m + g
    u = g + momentum * m if nesterov else m
    x = u / np.linalg.norm(u)
    for _ in range(5):
        s = x @ x.T
        x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
    return p * (1 - rate * decay) - 0.2 * rate * np.sqrt(max(p.shape)) * x, m


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_steps(place, nesterov, dtype):
    rng, shapes = np.random.default_rng(1), [(5, 8), (9, 4)]
    p, g, m = ([rng.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(3))
    mine = [[place.put(x) for x in each] for each in (p, g, m)]
    half = [place.put(np.zeros(shape, np.float16)) for shape in shapes]
    options = {"rate": 0.1, "momentum": 0.9, "nesterov": nesterov, "weight_decay": 0.5}
    found = nn.muon_step(*mine, dtype=dtype, factor=0.5, copy=half, **options)
    assert found[0] is mine[0] and found[1] is mine[2]
    for k in range(2):
        own = [each[k].astype(float) for each in (p, g, m)]
        wanted, first = exact(own[0], own[1] * 0.5, own[2], 0.1, 0.9, 0.5, nesterov)
        error = 1e-5 if dtype == "float32" else 0.02
        np.testing.assert_allclose(place.get(mine[0][k]), wanted, atol=error)
        np.testing.assert_allclose(place.get(mine[2][k]), first, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(place.get(half[k]), place.get(mine[0][k]).astype(np.float16))
    # The change of a matrix has singular values near each other.
    change = (place.get(mine[0][0]) - p[0] * 0.95) / (0.02 * np.sqrt(8))
    values = np.linalg.svd(change, compute_uv=False)
    assert values.min() > 0.6 and values.max() < 1.3
    before = [place.get(each[0]) for each in (mine[0], mine[2])]
    nan = place.put(np.full(1, np.nan, np.float32)) if place.is_device else np.nan
    nn.muon_step(mine[0][0], mine[1][0], mine[2][0], factor=nan)
    for each, old in zip((mine[0][0], mine[2][0]), before, strict=True):
        np.testing.assert_array_equal(place.get(each), old)


def test_errors(place):
    x, row = place.put(np.ones((3, 4), np.float32)), place.put(np.ones(3, np.float32))
    others = [place.put(np.ones((3, 4), np.float32)) for _ in range(2)]
    refused(numbacc.ShapeError, "adamw_step", run=lambda: nn.muon_step(row, row, row))
    refused(numbacc.ShapeError, "shape", run=lambda: nn.muon_step(x, others[0].T, others[1]))
    refused(numbacc.ShapeError, "list", run=lambda: nn.muon_step([x], others, [others[1]]))
    refused(numbacc.OptionError, "momentum", run=lambda: nn.muon_step(x, *others, momentum=-1.0))
    refused(numbacc.OptionError, "iterations", run=lambda: nn.muon_step(x, *others, iterations=0))
