"""Rows that start anywhere: full, aligned accesses, and single elements before the first and after the last."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import DTYPES
from row_cases import assert_near, forward, gradients
from skips import skip

from numbacc import elementwise
from numbacc.base.dispatch import launcher_class
from numbacc.elementwise import norms
from numbacc.kernels.rows import launch
from numbacc.runtime.launch_order import Limits

pytestmark = pytest.mark.usefixtures("poison")

#: Elements in memory before and after each row.
MARGINS = {"alone": (0, 0), "one before": (1, 0), "apart": (3, 2), "whole accesses apart": (1, 15)}
#: Where a row is kept -> the constants and limits that lead there.
FORMS: dict[str, dict[str, int]] = {"shared": {}, "half": {"_IDLE_BLOCKS": 0}, "clusters": {"_CLUSTER_BYTES": 4096}}


@pytest.fixture
def keep(device_place, monkeypatch):
    """Keep rows in shared memory in one of these forms, also short ones."""

    def keep(form):
        if device_place.is_slow and form == "clusters":
            skip("slow")
        monkeypatch.setattr(launch, "_REGISTER_THREADS", 0)
        for name, value in FORMS[form].items():
            monkeypatch.setattr(launch, name, value)
        if form == "half":
            room = launch._OWN_BYTES + (512 if device_place.is_slow else 4096)
            monkeypatch.setattr(launcher_class(), "limits", staticmethod(lambda device: Limits(room, 1)), raising=False)
        norms.plans.clear()
        return device_place

    yield keep
    norms.plans.clear()


def is_unaligned(function, *arrays, **options):
    return "to unaligned rows" in function.plan(*arrays, **options).info.algorithm


def columns_of(place, dtype, columns):
    """In the simulator as few as have a thread for each single element."""
    if place.is_slow:
        return 520 * 2 // dtype.itemsize + columns % 16
    return columns


@pytest.mark.sampled(48, simulated=10)
@pytest.mark.too_long(lambda case: case.columns == 50257)  # there, it has as many columns as 2049
@pytest.mark.parametrize("columns", [2049, 4099, 16391, 50257])
@pytest.mark.parametrize("margins", MARGINS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[2], DTYPES[3]], ids=str)
def test_softmax(keep, form, dtype, margins, columns):
    place = keep(form)
    columns = columns_of(place, dtype, columns)
    rng, around = np.random.default_rng(columns), {"margins": ((0, 0), MARGINS[margins])}
    values = rng.standard_normal((5, columns)).astype(dtype)
    for name in ("softmax", "log_softmax"):
        x, out = place.operand(values, **around), place.empty(values.shape, dtype, **around)
        function = getattr(norms, name)
        function(x.view, out=out.view)
        assert is_unaligned(function, x.view, out=out.view)
        wanted = forward(name, [values.astype(float)])
        assert_near(out.now(), wanted, np.abs(wanted).max())
        out.assert_written_only()
        x.assert_untouched()
        # In place: threads read single elements before others write.
        function(x.view, out=x.view)
        np.testing.assert_array_equal(x.now(), out.now())


@pytest.mark.sampled(12, simulated=4)
@pytest.mark.parametrize("columns", [4099, 50257])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_gradients(keep, form, dtype, columns):
    place = keep(form)
    columns = columns_of(place, dtype, columns)
    rng, around = np.random.default_rng(columns), {"margins": ((0, 0), (1, 0))}
    values, dy = (rng.standard_normal((3, columns)).astype(dtype) for _ in range(2))
    for name in ("softmax", "log_softmax"):
        y = forward(name, [values.astype(float)]).astype(dtype)
        given = [place.operand(each, **around) for each in (dy, y)]
        out = place.empty(dy.shape, dtype, **around)
        function = getattr(norms, f"{name}_backward")
        function(*(each.view for each in given), out=out.view)
        assert is_unaligned(function, *(each.view for each in given), out=out.view)
        wide, sums = y.astype(float), dy.astype(float)
        total = (sums if name == "log_softmax" else sums * wide).sum(-1, keepdims=True)
        wanted = sums - np.exp(wide) * total if name == "log_softmax" else wide * (sums - total)
        assert_near(out.now(), wanted, 10 * np.abs(wanted).max())
        out.assert_written_only()


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 1, 2)], ids=str)
def test_rows_of_several_axes(keep, order):
    """Permuted and strided rows that start at the same element of an access in all arrays."""
    place = keep("shared")
    dtype = DTYPES[3]
    columns = columns_of(place, dtype, 4099)
    values = np.random.default_rng(1).standard_normal((3, 2, columns)).astype(dtype)
    layout = {"order": order, "steps": (-2, 1, 1), "margins": ((0, 1), (1, 0), (2, 3))}
    x, out = place.operand(values, **layout), place.empty(values.shape, dtype, **layout)
    norms.softmax(x.view, out=out.view)
    assert is_unaligned(norms.softmax, x.view, out=out.view)
    wanted = forward("softmax", [values.astype(float)])
    assert_near(out.now(), wanted, wanted.max())
    out.assert_written_only()


def test_rows_that_start_at_different_elements(keep):
    """The result is aligned in another way than x, so accesses are narrow."""
    place = keep("shared")
    dtype = DTYPES[3]
    columns = columns_of(place, dtype, 4099)
    values = np.random.default_rng(1).standard_normal((3, columns)).astype(dtype)
    x, out = place.operand(values), place.empty(values.shape, dtype, margins=((0, 0), (1, 0)))
    norms.softmax(x.view, out=out.view)
    assert not is_unaligned(norms.softmax, x.view, out=out.view)
    wanted = forward("softmax", [values.astype(float)])
    assert_near(out.now(), wanted, wanted.max())
    out.assert_written_only()


@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
@pytest.mark.parametrize("place_of", ["first", "last", "inside"])
def test_single_elements_count(keep, dtype, place_of):
    """The largest element of a row, a NaN or -inf among the single elements of either end, or among the others."""
    place = keep("shared")
    columns = columns_of(place, dtype, 4099)
    column = {"first": 0, "last": columns - 1, "inside": columns // 2}[place_of]
    values = np.zeros((8, columns))
    values[0:4, column], values[4, column], values[5], values[6, column] = 50, np.nan, -np.inf, -np.inf
    values[7], values[7, column] = -np.inf, 1
    x = place.put(values.astype(dtype))
    assert is_unaligned(norms.softmax, x)
    got = place.get(norms.softmax(x)).astype(float)
    wanted = np.zeros_like(values)
    wanted[0:4, column], wanted[4:6], wanted[6], wanted[7, column] = 1, np.nan, 1 / (columns - 1), 1
    wanted[6, column] = 0
    np.testing.assert_allclose(got, wanted, rtol=4e-3, atol=1e-6)


def test_losses_of_unaligned_logits(keep):
    """Only reduced values are written: rows are read once, and not kept."""
    place = keep("shared")
    dtype = DTYPES[3]
    columns = columns_of(place, dtype, 4096) // 16 * 16
    rng = np.random.default_rng(1)
    rows = 40 if place.is_slow else 600
    values, target = rng.standard_normal((rows, columns)).astype(dtype), rng.integers(0, columns, rows)
    x = place.operand(values, margins=((0, 0), (1, 7)))
    got = place.get(elementwise.cross_entropy(x.view, place.put(target), reduction="none"))
    wanted = -forward("log_softmax", [values.astype(float)])[np.arange(rows), target]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_gradients_match_the_jacobian(keep):
    place = keep("shared")
    dtype = DTYPES[0]
    columns = columns_of(place, dtype, 4099)
    rng = np.random.default_rng(2)
    values, dy = (rng.standard_normal((2, columns)).astype(dtype) for _ in range(2))
    y = forward("softmax", [values.astype(float)]).astype(dtype)
    got = place.get(norms.softmax_backward(place.put(dy), place.put(y)))
    wanted = gradients("softmax", dy.astype(float), [values.astype(float)])[0]
    assert_near(got, wanted, 10 * np.abs(wanted).max())
