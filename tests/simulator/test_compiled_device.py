"""Functions of `numbacc.device` in plain `@cuda.jit` kernels that the compiled simulator runs, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_device import BLOCKS, THREADS, applied_twice, collectives, scalars, totals
from skips import skip_if

import numbacc
from numbacc import device
from numbacc.base.dispatch import simulated
from numbacc.errors import UnsupportedError
from numbacc.simulator.compiled.kernel import Kernel

pytestmark = skip_if(simulated(), "not simulated")


def test_a_reduction():
    x, y = np.random.default_rng(1).integers(-50, 50, 256), np.zeros(BLOCKS, np.int64)
    with numbacc.simulate(checked=True):
        totals[BLOCKS, THREADS](x, y)
    np.testing.assert_array_equal(y, 3 * x.reshape(BLOCKS, THREADS).max(1))


@pytest.mark.slow  # compiling takes seconds
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
def test_collectives(checked):
    x = np.random.default_rng(0).integers(-50, 50, BLOCKS * THREADS).astype(np.float32)
    n = x.size
    sums, scans, warps = np.full(BLOCKS, np.nan), np.full((2, n), np.nan), np.full((4, n), np.nan)
    pairs, top = np.full((2, n), np.nan), np.full(n, np.nan)
    made = Kernel(collectives, checked=checked)
    made.launch((BLOCKS, 1, 1), (THREADS, 1, 1), 0, (x, sums, scans, warps, pairs, top))
    blocks, lanes = x.reshape(BLOCKS, THREADS), x.reshape(-1, 32)
    np.testing.assert_array_equal(sums, blocks.sum(1))
    np.testing.assert_array_equal(scans[0], blocks.cumsum(1).ravel())
    np.testing.assert_array_equal(scans[1], (blocks.cumsum(1) - blocks).ravel())
    np.testing.assert_array_equal(warps[0], np.repeat(lanes.max(1), 32))
    np.testing.assert_array_equal(warps[1], (lanes.cumsum(1) - lanes).ravel())
    np.testing.assert_array_equal(warps[2], np.repeat(lanes[:, 3], 32) + 3 * x)
    np.testing.assert_array_equal(warps[3], np.repeat(blocks[:, 77], THREADS))
    order = np.stack([np.lexsort((np.arange(THREADS), -row)) for row in blocks])
    np.testing.assert_array_equal(pairs[0], np.take_along_axis(blocks, order, 1).ravel())
    np.testing.assert_array_equal(pairs[1], order.ravel())
    np.testing.assert_array_equal(top.reshape(BLOCKS, THREADS)[:, :8], -np.sort(-blocks, 1)[:, :8])


def test_scalar_functions_and_random_numbers():
    x = np.linspace(0.01, 4, 64).astype(np.float32)
    y, drawn = np.full((16, 64), np.nan, np.float32), np.full((2, 64), np.nan)
    normals, words = np.full(256, np.nan, np.float32), np.zeros(256, np.uint32)
    Kernel(scalars).launch((1, 1, 1), (64, 1, 1), 0, (x, y, 7, drawn, normals, words))
    v = x.astype(np.float64)
    once = (x * x + np.float32(1)).astype(np.float64)
    wanted = [
        2**v, np.log2(v), 1 / v, 1 / np.sqrt(v), np.sqrt(v), np.sin(v), np.cos(v), np.tanh(v), v / 3, np.maximum(v, 1),
        np.minimum(v, 1), once, v / 7, 1 / v, np.sqrt(v), v * v + 1,
    ]  # fmt: skip
    for k, answer in enumerate(wanted):
        np.testing.assert_allclose(y[k], answer, rtol=2e-7, err_msg=str(k))
    np.testing.assert_array_equal(y[11], once.astype(np.float32))
    np.testing.assert_array_equal(y[15], (v * v + 1).astype(np.float32))  # exact in float64

    def generator():
        return numbacc.random.Generator(7)

    np.testing.assert_array_equal(drawn[0], numbacc.asnumpy(generator().random(64, dtype="float32")))
    np.testing.assert_array_equal(drawn[1], numbacc.asnumpy(generator().integers(1000, size=64)))
    np.testing.assert_allclose(normals, numbacc.asnumpy(generator().normal(size=256, dtype="float32")), atol=1e-6)
    np.testing.assert_array_equal(words, numbacc.asnumpy(generator().bits(256)))


def test_functions_that_run_in_python_only():
    def kernel(y):
        shared = device.dynamic_shared()
        device.cp_async(shared, device.address_of(y), 16)

    with pytest.raises(UnsupportedError, match=r"device\.dynamic_shared is not compiled for the CPU: .*@device\.jit"):
        Kernel(kernel).launch((1, 1, 1), (32, 1, 1), 0, (np.zeros(8),))

    def recursion(y):
        y[0] = applied_twice(applied_twice, y[1])

    with pytest.raises(UnsupportedError, match="recursion"):
        Kernel(recursion).launch((1, 1, 1), (32, 1, 1), 0, (np.zeros(8),))
