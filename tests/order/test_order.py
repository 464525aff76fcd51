"""Order and ownership without a GPU: what numbacc asks the driver to do, seen by a recorder in the driver's place.

It needs a process of its own, in which the recorder is loaded before anything looks for a driver.
"""

from __future__ import annotations

from pathlib import Path

import recorder
from replaced_driver import CC
from skips import skip_if

from numbacc.base.dispatch import has_gpu, simulated

pytestmark = [
    skip_if(simulated(), "not simulated"),
    skip_if(CC is None, "compiler"),
    skip_if(has_gpu(), "no driver"),
]


FILES = sorted(Path(__file__).parent.glob("recorded_*.py"))


def test_with_a_recorded_driver():
    """In one process, which takes seconds to start."""
    recorder.run(*FILES)
