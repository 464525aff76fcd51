"""What is refused is planned once: a second look at the arguments would hide mistakes of the planner."""

from __future__ import annotations

import numpy as np
import pytest

import numbacc
from numbacc import gated, gemm
from numbacc.gemm import product


@pytest.mark.parametrize("wrong", [{"b": np.ones((5, 3), np.float32)}, {"b": np.ones((4, 3), np.float64)}])
def test_a_refused_product_is_planned_once(place, monkeypatch, wrong):
    planned = []

    def plan(call):
        planned.append(call)
        return made(call)

    made = product.MatmulPlan
    monkeypatch.setattr(product, "MatmulPlan", plan)
    with pytest.raises(numbacc.Error):
        gemm.matmul(place.put(np.ones((2, 4), np.float32)), place.put(wrong["b"]))
    assert len(planned) == 1


def test_a_refused_gated_call_is_planned_once(place, monkeypatch):
    gated.cache_clear()
    for shape in ((2, 3), (2, 5)):
        before = gated.cache_info().misses
        with pytest.raises(numbacc.ShapeError):
            gated.forward(place.put(np.ones(shape, np.float32)))
        assert gated.cache_info().misses == before + 1


def test_a_mistake_of_the_planner_is_not_hidden(place, monkeypatch):
    def broken(*arguments):
        raise ValueError("a mistake")

    monkeypatch.setattr(product, "MatmulPlan", broken)
    x = place.put(np.ones((3, 3), np.float32))
    gemm.cache_clear()
    with pytest.raises(ValueError, match="a mistake"):
        gemm.matmul(x, x)
