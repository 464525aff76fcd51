"""The compiled simulator runs each construct of CUDA kernels, unchecked and checked."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_language import CASES
from compiled_launch import three

from numbacc.simulator.compiled.kernel import Kernel


@pytest.mark.each_alone
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
@pytest.mark.parametrize("name", CASES)
def test_constructs_agree_with_numpy(name, checked):
    make, grid, block, dynamic = CASES[name]
    function, arguments, answer = make()
    Kernel(function, checked=checked).launch(three(grid), three(block), dynamic, arguments)
    np.testing.assert_allclose(arguments[-1], answer, rtol=1e-6)
