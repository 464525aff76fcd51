"""Order and ownership without a GPU: what numbacc asks the driver to do, seen by a recorder in the driver's place.

It needs a process of its own, in which the recorder is loaded before anything looks for a driver.
"""

from __future__ import annotations

import pytest
import recorder

from numbacc.base.backend import has_gpu, simulated

pytestmark = [
    pytest.mark.skipif(simulated(), reason="this is the simulator"),
    pytest.mark.skipif(recorder.CC is None, reason="needs a C compiler, cc"),
    pytest.mark.skipif(has_gpu(), reason="is about machines without a CUDA driver"),
]


@pytest.mark.parametrize("file", sorted(path.name for path in recorder.HERE.glob("recorded_*.py")))
def test_with_a_recorded_driver(file):
    recorder.run(file)
