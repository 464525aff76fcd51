"""The norm of all gradients and the factor that limits it, against float64; with AdamW and in a graph."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import refused
from optimizer_cases import OPTIONS, assert_near, exact

import numbacc
from numbacc import elementwise as ew

pytestmark = pytest.mark.usefixtures("small_lists")

SHAPES = [(5, 7), (3,), (0, 4), (), (33, 4), (261,)]


def drawn(place, dtypes, first=0):
    """Gradients: parts of flat buffers that start anywhere, a strided one, and a transposed one."""
    rng, arrays, values = np.random.default_rng(1), [], []
    for k, shape in enumerate(SHAPES):
        value = rng.standard_normal(shape).astype(dtypes[k % len(dtypes)])
        values.append(value)
        if k == 1:
            arrays.append(place.put(np.repeat(value, 2))[::2])
        elif k == 4:
            arrays.append(place.put(np.ascontiguousarray(value.T)).T)
        else:
            start = first + k
            whole = place.put(
                np.concatenate([np.full(start, 9.0), value.reshape(-1).astype(float), [9.0] * 9]).astype(value.dtype)
            )
            arrays.append(whole[start : start + value.size].reshape(shape))
    return arrays, values


@pytest.mark.parametrize(
    "dtypes", [["float32"], [ml_dtypes.bfloat16], ["float16", "float32"], ["float64", ml_dtypes.bfloat16]], ids=len
)
@pytest.mark.parametrize("write", [False, True])
def test_norms(place, dtypes, write):
    for first, most, factor in ((0, 1.0, None), (1, 1e6, None), (3, None, 0.25), (7, 2.0, "here")):
        arrays, values = drawn(place, [np.dtype(each) for each in dtypes], first)
        compute = np.dtype("float64" if "float64" in dtypes else "float32")
        given, scale = factor, factor or 1.0
        if factor == "here":
            scale = 0.5
            given = place.put(np.full(1, scale, np.float32))
        wanted = scale * np.sqrt(sum((v.astype(float) ** 2).sum() for v in values))
        ratio = scale * min(1.0, np.inf if most is None else most / (wanted + 1e-6))
        norm, found = ew.clip_grad_norm(arrays, most, factor=given, write=write)
        assert (norm.shape, norm.dtype, found.dtype) == ((), compute, compute)
        np.testing.assert_allclose([place.get(norm), place.get(found)], [wanted, ratio], rtol=4e-6)
        for array, value in zip(arrays, values, strict=True):
            limit = value.astype(float) * (ratio if write else 1.0)
            eps = float(ml_dtypes.finfo(value.dtype).eps)
            np.testing.assert_allclose(place.get(array).astype(float), limit, rtol=max(eps, 1e-5), atol=1e-7)


def test_one_array_and_nothing(place):
    values = np.arange(-40, 41).astype(np.float32)
    norm, factor = ew.clip_grad_norm(place.put(values), 3.0, write=False)
    np.testing.assert_allclose(place.get(norm), np.linalg.norm(values), rtol=1e-6)
    np.testing.assert_allclose(place.get(factor), 3.0 / np.linalg.norm(values), rtol=1e-6)
    norm, factor = ew.clip_grad_norm([place.put(np.zeros((0, 3), np.float32))], 3.0)
    assert (float(place.get(norm)), float(place.get(factor))) == (0.0, 1.0)
    for bad in (np.inf, np.nan):
        values[3] = bad
        norm, factor = ew.clip_grad_norm(place.put(values), 3.0, write=False)
        assert not np.isfinite(place.get(norm)) and np.isnan(place.get(factor))


def test_the_factor_of_a_step(place):
    """It stays on the GPU between both; infinite gradients change nothing."""
    rng = np.random.default_rng(2)
    p, g, m, v = (rng.random(300).astype(np.float32) for _ in range(4))
    half = g.astype(ml_dtypes.bfloat16)
    mine, copy = [place.put(each) for each in (p, half, m, v)], place.put(np.zeros(300, ml_dtypes.bfloat16))
    _, factor = ew.clip_grad_norm(mine[1], 0.5, write=False)
    ew.adamw_step(*mine, 1, factor=factor, copy=copy, **OPTIONS)
    size = np.linalg.norm(half.astype(float))
    wanted = exact(p, half.astype(float) * (0.5 / (size + 1e-6)), m, v, 1, **OPTIONS)
    for found, want in zip((mine[0], *mine[2:]), wanted, strict=True):
        assert_near(place.get(found), want, factor=16)
    before = place.get(mine[0])
    half[5] = np.inf
    _, factor = ew.clip_grad_norm(place.put(half), 0.5, write=False)
    ew.adamw_step(*mine, 2, factor=factor, copy=copy, **OPTIONS)
    np.testing.assert_array_equal(place.get(mine[0]), before)


def test_a_graph(device_place):
    """Norm, factor and step follow what the gradients hold at each launch."""
    place, n = device_place, 50
    values = np.linspace(-1, 1, n).astype(np.float32)
    p, m, v = (place.put(np.zeros(n, np.float32)) for _ in range(3))
    g, step, kept = place.put(values), place.put(np.ones(1, np.int64)), place.put(np.zeros(1, np.float32))

    def work():
        norm, factor = ew.clip_grad_norm([g[:20], g[20:]], 1.0, write=False)
        ew.copy(norm.reshape((1,)), out=kept)
        ew.adamw_step([p], [g], [m], [v], step, factor=factor)

    work()
    with numbacc.graph() as graph:
        work()
    for scale in (1.0, 3.0):
        ew.copy(place.put(values * np.float32(scale)), out=g)
        graph.launch()
        np.testing.assert_allclose(place.get(kept), scale * np.linalg.norm(values), rtol=1e-6)


def test_errors(place):
    x = place.put(np.ones(4, np.float32))
    error = numbacc.OptionError
    refused(error, "max_norm", run=lambda: ew.clip_grad_norm(x, -1.0))
    refused(error, "write", run=lambda: ew.clip_grad_norm(x, 1.0, write=1))
    refused(error, "factor", run=lambda: ew.clip_grad_norm(x, 1.0, factor=np.inf))
    refused(error, "empty", run=lambda: ew.clip_grad_norm([], 1.0))
    refused(numbacc.DTypeError, "float", run=lambda: ew.clip_grad_norm([x, place.put(np.ones(3, np.int32))], 1.0))
    refused(numbacc.LayoutError, "overlap", run=lambda: ew.clip_grad_norm([x, x[1:]], 1.0))
