"""The compiled simulator runs thirteen usual kernels, unchecked and checked, on one worker and on two."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_launch import launch

from benchmarks.simulate_kernels import USUAL
from numbacc.simulator.compiled.kernel import Kernel


@pytest.mark.each_alone
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
@pytest.mark.parametrize("make", [each.make for each in USUAL.values()], ids=USUAL)
@pytest.mark.sampled(7)
def test_kernels_agree_with_numpy(make, checked):
    case = make(2048)
    kernel = Kernel(case.kernel, checked=checked)
    for workers in (1, 2):
        args = case.fresh()
        assert not case.is_right(args)
        launch(kernel, case.launch, args, workers=workers)
        assert case.is_right(args)
        for given, left in zip(case.args, args, strict=True):
            assert given is case.args[case.out] or np.array_equal(given, left)
