"""Kernels of numba-cuda's successor run in the compiled simulator without a change, where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from paths import ROOT, TESTS
from skips import skip, skip_if

from numbacc.base.dispatch import simulated

pytestmark = [pytest.mark.slow, skip_if(simulated(), "not simulated")]


def test_kernels_of_the_successor(tmp_path):
    if find_spec("numba_cuda_mlir") is None:
        skip("successor")
    script = TESTS / "simulator" / "compiled_successor.py"
    places = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    kernels, constructs = map(int, run.stdout.split())
    assert kernels >= 27 and constructs >= 61
