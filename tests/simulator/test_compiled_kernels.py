"""The compiled simulator runs thirteen usual kernels, unchecked and checked."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_kernels import CASES, case, launch, right

from numbacc.simulator.compiled.kernel import Kernel


@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
@pytest.mark.parametrize("name", CASES)
def test_kernels_agree_with_numpy(name, checked):
    function, configuration, arguments, out, answer = case(name, 2048)
    kernel = Kernel(function, checked=checked)
    for workers in (1, 2):
        fresh = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        launch(kernel, configuration, fresh, workers=workers)
        assert right(fresh[out], answer)
