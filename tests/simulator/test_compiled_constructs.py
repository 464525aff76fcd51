"""The compiled simulator runs each construct of CUDA kernels, unchecked and checked."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_language import CASES
from compiled_launch import three
from numba import cuda

from numbacc.simulator.compiled.kernel import Kernel


@cuda.jit
def places(y):
    x, j, z = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    y[x + cuda.blockDim.x * (j + cuda.blockDim.y * z)] = x + 100 * j + 10_000 * z


@pytest.mark.each_alone
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(20)
def test_constructs_agree_with_numpy(name, checked):
    make, grid, block, dynamic = CASES[name]
    function, arguments, answer = make()
    Kernel(function, checked=checked).launch(three(grid), three(block), dynamic, arguments)
    np.testing.assert_allclose(arguments[-1], answer, rtol=1e-6)


@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
def test_one_kernel_in_blocks_of_one_to_three_axes(checked):
    made = Kernel(places, checked=checked)
    for block in (64, (8, 8), (4, 8, 2), (64, 1), (1, 64), (1, 1, 64), 64):
        y = np.full(64, 77, np.int64)
        made.launch(three(1), three(block), 0, (y,))
        x, _, z = three(block)
        k = np.arange(64)
        rows = 64 // (x * z)
        np.testing.assert_array_equal(y, k % x + 100 * (k // x % rows) + 10_000 * (k // (x * rows)))
    assert len(made._compiled) == 3
