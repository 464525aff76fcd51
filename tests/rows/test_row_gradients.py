"""Gradients of rows and of weights in one pass over both arrays, wherever and however many rows are."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import in_parts
from hypothesis import given
from oracle import DTYPES
from row_cases import FEW, assert_backward, assert_near, calls, normal
from skips import skip, skip_if

from numbacc.base.dispatch import simulated
from numbacc.elementwise import norms
from numbacc.kernels.rows import launch
from numbacc.kernels.rows.functions import ROW_FORMULAS

pytestmark = pytest.mark.usefixtures("poison", "small_rows")


def one_pass(patch, **sizes):
    """Gradients of rows and weights take one pass, by one block or cluster."""
    for name, value in {"BLOCKS": 1, "CLUSTERED": 1, "ROWS": 1, **sizes}.items():
        patch.setattr(launch, f"_SUM_{name}", value)
    norms.plans.clear()


@in_parts(8, FEW)
@given(calls().filter(lambda drawn: drawn["many"] > 1))
def test_backward_of_any_array_in_one_pass(device_place, part, drawn):
    """As many rows as there are bring what they have to the weights' gradients at once."""
    with pytest.MonkeyPatch.context() as patch:
        one_pass(patch, THREADS=8 if device_place.is_slow else 64)
        assert_backward(device_place, drawn)
    norms.plans.clear()


def assert_gradients(place, shape, dtype, kind, more, algorithm="", weight=np.float32):
    """Of rows that are too long for `gradients`."""
    rng = np.random.default_rng(shape[1])
    dy, x = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    w = rng.standard_normal(shape[1]).astype(weight)
    arrays, name = tuple(map(place.put, (dy, x, w))), f"{kind}_norm_backward"
    got = getattr(norms, name)(*arrays, eps=1e-3, **more)
    if place.is_device:
        assert algorithm in getattr(norms, name).plan(*arrays, eps=1e-3, **more).info.algorithm
    d, (centered, r) = dy.astype(float), normal(kind, x.astype(float), 1e-3)
    g = d * w.astype(float)
    dx = r * (g - (kind == "layer") * g.mean(-1, keepdims=True) - centered * r * r * (g * centered).mean(-1)[:, None])
    assert [a.dtype for a in got] == [dtype, *[w.dtype] * (1 + bool(more))]
    for one, other in zip(got, [dx, (d * centered * r).sum(0), d.sum(0)], strict=False):
        assert_near(place.get(one), other, np.sqrt(len(x)) * np.abs(other).max())


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("columns", [64, 2048, 20000])
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_gradients_of_many_rows(place, columns, dtype):
    """As many as blocks share the sums for a weight."""
    if place.is_slow and columns > 64:
        skip("slow")
    rows = 20 if place.is_slow or not place.is_device else 3000 if columns < 20000 else 40
    for kind, more in (("rms", {}), ("layer", {"bias": True})):
        assert_gradients(place, (rows, columns), dtype, kind, more)


@pytest.mark.parametrize(
    "threads, depth, columns",
    [(32, 2, 7), (32, 2, 64), (32, 2, 1000), (32, 2, 4096), (64, 1, 60), (64, 1, 1024), (64, 1, 16384), (128, 4, 7),
     (128, 4, 60), (128, 4, 1024), (128, 4, 4096)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_gradients_in_one_pass(device_place, monkeypatch, dtype, threads, depth, columns):
    """Rows on their way while others are worked on: fewer blocks than rows, groups of threads without a row."""
    if device_place.is_slow and columns > 64:
        skip("slow")
    one_pass(monkeypatch, THREADS=threads, RESIDENT=threads, DEPTHS=(depth, depth))
    for kind, more in (("rms", {}), ("layer", {}), ("layer", {"bias": True}))[:: 1 if columns < 100 else 2]:
        assert_gradients(device_place, (45 if device_place.is_slow else 601, columns), dtype, kind, more, "row_sums")
    norms.plans.clear()


@pytest.mark.parametrize("columns", [16388, 20001, 50000, 131072])
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_gradients_of_long_rows(device_place, monkeypatch, dtype, columns):
    """Blocks of a cluster share a row: two, four or eight, and the last ones have less of it."""
    if device_place.is_slow:
        skip("slow")
    one_pass(monkeypatch)
    for kind, more in (("rms", {}), ("layer", {"bias": True})):
        assert_gradients(device_place, (37, columns), dtype, kind, more, "row_sums")
    norms.plans.clear()


@skip_if(simulated(), "slow")
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("columns", [32768, 65536, 100008, 131072])
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_gradients_of_few_long_rows(device_place, monkeypatch, dtype, columns, rows):
    """As many as a cluster has on their way, fewer and more; more or fewer for one cluster than for another."""
    one_pass(monkeypatch, CLUSTERED=24, BLOCKS=24, ROWS=1) if rows == 16 else one_pass(monkeypatch)
    for kind, more in (("rms", {}), ("layer", {}), ("layer", {"bias": True})):
        # The weights' gradients of one row are no sums.
        assert_gradients(device_place, (rows, columns), dtype, kind, more, "row_sums" if rows > 1 else "", dtype)
    norms.plans.clear()


@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
@pytest.mark.parametrize("columns", [32768, 131072])
def test_gradients_of_long_rows_are_the_same_each_time(device_place, dtype, columns):
    """Whichever of a cluster's blocks is the first to send what it has of a row."""
    place = device_place
    if place.is_slow:
        skip("slow")
    rng = np.random.default_rng(1)
    dy, x = (place.put((3 * rng.standard_normal((300, columns), np.float32) + 1).astype(dtype)) for _ in range(2))
    w = place.put(rng.standard_normal(columns).astype(dtype))
    wanted, *others = (
        [place.get(a).tobytes() for a in norms.layer_norm_backward(dy, x, w, bias=True)] for _ in range(4)
    )
    assert all(other == wanted for other in others)


def parts_of(dy, x, dtype, middle=None):
    """What a block has of its elements of a row, seen from a number near their mean."""
    middle = (x.mean() if len(x) else 0.0) if middle is None else middle
    d = x - middle
    return tuple(map(dtype, (len(x), middle, d @ d, d.sum(), dy.sum(), dy @ d)))


@pytest.mark.parametrize("places", [[0, 100], [20], [1, 2, 3, 40, 41, 99], [50, 50], [0, 0]])
def test_what_blocks_have_of_a_row_together(places):
    """All that a gradient needs, whichever comes first; of blocks that have no elements, too."""
    rng = np.random.default_rng(len(places))
    dy, x = rng.standard_normal(100), 5 + np.arange(100) * rng.standard_normal(100)
    merge = ROW_FORMULAS["layer_norm_backward"].shared.merge
    for dtype, eps in (np.float64, 1e-13), (np.float32, 4e-6):
        blocks = [parts_of(*both, dtype) for both in zip(np.split(dy, places), np.split(x, places), strict=True)]
        found = blocks[0]
        for other in blocks[1:]:
            one, same = merge(*found, *other), merge(*other, *found)
            assert np.array(one, dtype).tobytes() == np.array(same, dtype).tobytes()
            found = one
        assert abs(found[1] - x.mean()) < 1e-4 * np.abs(x).mean()
        wanted = parts_of(dy, x, np.float64, float(found[1]))
        scale = [100, 0, wanted[2], np.abs(x).sum(), np.abs(dy).sum(), np.abs(dy) @ np.abs(x)]
        assert (np.abs(np.subtract(found, wanted)) <= eps * np.array(scale)).all()


def test_blocks_without_elements_change_nothing():
    """However far the others' mean is from theirs, which is 0: its square would be infinite."""
    shared = ROW_FORMULAS["layer_norm_backward"].shared
    for mean in (-3e19, 0.0, 3e19):
        own = tuple(map(np.float32, (64, mean, 5.0, 0.5, -2.0, 0.25)))
        nothing = tuple(map(np.float32, shared.start))
        assert shared.merge(*own, *nothing) == shared.merge(*nothing, *own) == own
    assert shared.merge(*nothing, *nothing) == nothing
