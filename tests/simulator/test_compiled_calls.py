"""CUDA's functions inside of compiled kernels: float16 and bfloat16, atomics, warps and libdevice."""

import math

import compiled_calls as kernels
import ml_dtypes
import numpy as np
import pytest

from numbacc.simulator.compiled.kernel import Kernel

CHECKED = pytest.mark.parametrize("checked", (False, True), ids=("unchecked", "checked"))


def launch(kernel, blocks, threads, *arguments, checked=False):
    Kernel(kernel.py_func, checked=checked).launch((blocks, 1, 1), (threads, 1, 1), 0, arguments)


def test_warps():
    x = np.random.default_rng(0).integers(0, 12, 128)
    x[32:64], x[64:96] = 8, 2 * (x[64:96] // 2)
    y = np.full((13, 128), -99, np.int64)
    launch(kernels.warp_calls, 2, 64, x, y)
    for t in range(128):
        warp, lane = x[t - t % 32 : t - t % 32 + 32].tolist(), t % 32
        even = sum(1 << k for k, v in enumerate(warp) if v % 2 == 0)
        signed = even - (1 << 32) if even >> 31 else even
        same = sum(1 << k for k, v in enumerate(warp) if v == x[t])
        answer = [
            signed, (even & ((1 << lane) - 1)).bit_count(), same - (1 << 32) if same >> 31 else same, -1, 1,
            int(7 in warp), 1, int(even in (0, 2**32 - 1)), warp[lane ^ 3], warp[lane - 2] if lane > 1 else warp[lane],
            lane, 32 - even.bit_length(),
            even if x[t] % 2 == 0 else -99,
        ]  # fmt: skip
        assert y[:, t].tolist() == answer, t


@CHECKED
def test_float16_through_shared_memory(checked):
    x = np.random.default_rng(1).standard_normal(192).astype(np.float16)
    y, total = np.full(192, np.nan, np.float16), np.full(3, np.nan, np.float32)
    launch(kernels.half_tile, 3, 64, x, y, np.float16(1.3), total, checked=checked)
    value = x * np.float16(1.3)
    other = value.reshape(3, 64)[:, ::-1].ravel()
    np.testing.assert_array_equal(y, value * other + x)  # NumPy rounds after each operation, too
    exact = value.reshape(3, 64).astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(total, exact, rtol=1e-5, atol=1e-5)


@CHECKED
def test_bfloat16(checked):
    x = np.random.default_rng(2).standard_normal(96).astype(ml_dtypes.bfloat16) * ml_dtypes.bfloat16(3)
    y = np.full(96, np.nan, ml_dtypes.bfloat16)
    launch(kernels.bfloat_math, 3, 32, x, y, checked=checked)
    root = np.sqrt(np.abs(x).astype(np.float64)).astype(ml_dtypes.bfloat16).reshape(3, 32)[:, ::-1].ravel()
    best = np.maximum(root, x)
    np.testing.assert_array_equal(y, np.where(best > 1, best - ml_dtypes.bfloat16(0.5), -best))


@CHECKED
def test_atomics(checked):
    x = np.random.default_rng(3).integers(0, 8, 256).astype(np.int32)
    counts, most = np.zeros((2, 8), np.int32), np.full(1, -1, np.float32)
    slots, order = np.array([0, 5], np.uint32), np.full(256, -1)
    launch(kernels.counted, 4, 64, x, counts, most, slots, order, checked=checked)
    rows = x.reshape(4, 64)
    assert counts.tolist() == [np.bincount(rows[k::2].ravel(), minlength=8).tolist() for k in (0, 1)]
    assert most[0] == 1.5 * x.max()
    assert slots.tolist() == [256, 6]
    assert sorted(order) == list(range(256))


def test_libdevice():
    x = np.linspace(0.25, 3.0, 64).astype(np.float32)
    y = np.full((7, 64), np.nan)
    launch(kernels.library, 2, 32, x, y)
    wide = x.astype(np.float64)
    tolerance = {"rtol": 3e-7}
    np.testing.assert_allclose(y[0], 1 / np.sqrt(wide), **tolerance)
    np.testing.assert_array_equal(y[1], (wide * wide + wide).astype(np.float32))
    np.testing.assert_array_equal(y[2], x)
    np.testing.assert_array_equal(y[3], np.where(x > 1, x, -x))
    np.testing.assert_allclose(y[4], [math.erfc(-v / math.sqrt(2)) / 2 for v in wide], **tolerance)
    np.testing.assert_allclose(y[5], np.sin(wide) + np.cos(wide), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(y[6], np.fmod(x, np.float32(0.75)))
