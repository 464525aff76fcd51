"""Arrays put together, and AdamW's step."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused

import numbacc
import numbacc.array_api
from numbacc import elementwise as ew
from numbacc.base.dtypes import TABLE


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate(place, axis):
    rng = np.random.default_rng(0)
    shapes = [(2, 3), (2, 3), (5, 3)] if axis == 0 else [(2, 3), (2, 1), (2, 0), (2, 4)]
    host = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    host[1] = np.asfortranarray(host[1])
    found = ew.concatenate([place.put(each) for each in host], axis)
    np.testing.assert_array_equal(place.get(found), np.concatenate(host, axis))
    if place.is_device:
        again = np.concatenate([place.put(each) for each in host], axis)
        np.testing.assert_array_equal(place.get(again), place.get(found))


def test_concatenate_all_elements(place):
    """With axis=None in C order, of any ranks and strides, into any strides."""
    host = [np.arange(6.0).reshape(2, 3).T[::-1], np.array(7.0), np.zeros((0, 2)), np.arange(4, dtype=np.int8)[::2]]
    arrays = [place.put(each) for each in host]
    arrays[0], arrays[-1] = arrays[0][::-1], arrays[-1][::-1]
    host[0], host[-1] = host[0][::-1], host[-1][::-1]
    wanted = np.concatenate(host, axis=None)
    np.testing.assert_array_equal(place.get(ew.concatenate(arrays, axis=None)), wanted)
    out = place.empty(wanted.shape, wanted.dtype, steps=(-2,))
    plan = ew.concatenate.plan(arrays, None, out=out.view)
    assert plan(arrays, out=out.view) is out.view
    np.testing.assert_array_equal(out.now(), wanted)
    out.assert_written_only()
    if place.is_device:
        np.testing.assert_array_equal(place.get(np.concatenate(arrays, axis=None)), wanted)
        np.testing.assert_array_equal(place.get(numbacc.array_api.concat(arrays, axis=None)), wanted)
    refused(numbacc.ShapeError, "axis=None", run=lambda: ew.stack(arrays[:1], axis=None))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stack(place, axis):
    host = [np.arange(6).reshape(2, 3) + 10 * k for k in range(3)]
    found = ew.stack([place.put(each) for each in host], axis)
    np.testing.assert_array_equal(place.get(found), np.stack(host, axis))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int64", "complex128"])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_arrays_of_one_shape(place, count, dtype):
    """One kernel copies up to four: misaligned, strided and permuted ones; into a strided array; with equal bits."""
    kind = TABLE[dtype].numpy
    # Bytes below 100 make no NaN and not the poison of outputs.
    host = np.random.default_rng(count).integers(0, 100, (count, 4, 7, 9 * kind.itemsize), np.uint8)
    whole = [each.view(kind) for each in host]
    starts = [(slice(None), slice(k % 2, 6 + k % 2), slice(k, 5 + k)) for k in range(count)]
    arrays = [place.put(each)[where] for each, where in zip(whole, starts, strict=True)]
    arrays[1] = arrays[1][::-1]
    parts = [each[where] for each, where in zip(whole, starts, strict=True)]
    parts[1] = parts[1][::-1]
    for axis in (0, 1, 2, None):
        wanted = np.concatenate(parts, axis)
        _assert_same_bits(place.get(ew.concatenate(arrays, axis)), wanted)
        out = place.empty(wanted.shape, kind, steps=(2,) * wanted.ndim)
        ew.concatenate(arrays, axis, out=out.view)
        _assert_same_bits(out.now(), wanted)
        out.assert_written_only()
        if axis is not None:
            _assert_same_bits(place.get(ew.stack(arrays, axis)), np.stack(parts, axis))
    kernels = ew.concatenate.plan(arrays, 1).info.algorithm.count(";") + 1
    assert not place.is_device or kernels == (1 if count < 5 else 5)


def _assert_same_bits(found, wanted):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()


def test_stack_of_single_elements(place):
    host = [np.array(1.5), np.array(2.5)]
    assert place.get(ew.stack([place.put(each) for each in host])).tolist() == [1.5, 2.5]


def test_dtypes_meet_and_out(place):
    x, y = place.put(np.array([1, 2], np.int32)), place.put(np.array([0.5], np.float32))
    found = ew.concatenate([x, y])
    assert place.get(found).tolist() == [1.0, 2.0, 0.5] and found.dtype == np.float64
    out = place.empty((3,), np.dtype(np.float64)).view
    assert ew.concatenate((x, y), out=out) is out
    assert place.get(out).tolist() == [1.0, 2.0, 0.5]


@pytest.mark.parametrize("name", ["concatenate", "stack"])
def test_plans(place, name):
    """Of arrays of two dtypes; into an array whose memory lies otherwise; they refuse other layouts."""
    rng = np.random.default_rng(0)
    host = [rng.normal(size=(3, 5)).astype(np.float32), rng.integers(-9, 9, (3, 5)).astype(np.int16)]
    wanted = getattr(np, name)(host, axis=1).astype(np.float32)
    arrays = [place.put(each) for each in host]
    plan = getattr(ew, name).plan([place.put(np.zeros_like(each)) for each in host], 1)
    np.testing.assert_array_equal(place.get(plan(arrays)), wanted)
    assert plan.info.op == f"elementwise.{name}" and plan.info.dtypes == ("float32", "int16", "float32")
    assert f"elementwise.{name}" in repr(plan) and "arrays[1] int16 (3, 5)" in repr(plan)
    out = place.empty(wanted.shape, wanted.dtype, order=range(wanted.ndim)[::-1], steps=(-1, *[2] * (wanted.ndim - 1)))
    into = getattr(ew, name).plan(arrays, 1, out=out.view)
    assert into(arrays, out=out.view) is out.view
    np.testing.assert_array_equal(out.now(), wanted)
    out.assert_written_only()
    refused(numbacc.LayoutError, "with out", run=lambda: into(arrays))
    refused(numbacc.LayoutError, "was made for", run=lambda: plan(arrays[::-1]))
    refused(numbacc.LayoutError, "arrays[0], arrays[1]", run=lambda: plan(arrays[:1]))
    refused(numbacc.DTypeError, "list or tuple", run=lambda: plan(arrays[0]))
    for axis in (1.0, 7):
        refused(numbacc.ShapeError, "axis", run=lambda axis=axis: getattr(ew, name)(arrays, axis))


def test_what_does_not_go_together(place):
    x, y = place.put(np.ones((2, 3))), place.put(np.ones((2, 4)))
    refused(numbacc.ShapeError, "arrays[1]", (2, 4), "axis 0", run=lambda: ew.concatenate([x, y]))
    refused(numbacc.ShapeError, "arrays[1]", (2, 4), run=lambda: ew.stack([x, y]))
    refused(numbacc.ShapeError, "empty", run=lambda: ew.concatenate([]))
    refused(numbacc.DTypeError, "list or tuple", run=lambda: ew.concatenate(x))
    refused(numbacc.ShapeError, "axis", run=lambda: ew.concatenate([x, x], 2))
    refused(numbacc.ShapeError, "out has shape", run=lambda: ew.concatenate([x, x], out=x))
    refused(numbacc.LayoutError, "out overlaps", run=lambda: ew.concatenate([x[1:], x[:1]], out=x))
    if place.is_device:
        refused(numbacc.DeviceError, "arrays[1]", run=lambda: ew.concatenate([x, np.ones((2, 3))]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_adamw(place, dtype):
    """Three steps, against the formula in float64."""
    rng = np.random.default_rng(1)
    kind = np.dtype(numbacc.bfloat16 if dtype == "bfloat16" else dtype)
    moments = np.dtype(np.float32) if dtype == "bfloat16" else kind
    p = rng.normal(size=(5, 7)).astype(kind)
    mine = [place.put(p), place.put(np.zeros(p.shape, moments)), place.put(np.zeros(p.shape, moments))]
    exact, m, v = p.astype(float), 0.0, 0.0
    for t in range(1, 4):
        g = rng.normal(size=p.shape).astype(kind)
        assert ew.adamw_step(mine[0], place.put(g), mine[1], mine[2], t, rate=0.1, weight_decay=0.02)[0] is mine[0]
        wide = g.astype(float)
        m, v = 0.9 * m + 0.1 * wide, 0.999 * v + 0.001 * wide**2
        exact -= 0.1 * (m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) + 0.02 * exact)
    limit = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(place.get(mine[0]).astype(float), exact, rtol=limit, atol=limit)
    np.testing.assert_allclose(place.get(mine[1]).astype(float), m, rtol=limit, atol=limit)


@pytest.mark.parametrize(
    "options, named",
    [({"step": 0}, "step=0"), ({"beta1": 1.0}, "beta1="), ({"rate": -1.0}, "rate="), ({"eps": "x"}, "eps=")],
)
def test_options_of_adamw(place, options, named):
    x = [place.put(np.ones(2)) for _ in range(4)]
    refused(numbacc.OptionError, named, run=lambda: ew.adamw_step(*x, **({"step": 1} | options)))
