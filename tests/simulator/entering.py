"""Processes that choose between a GPU and the simulator."""

from __future__ import annotations

import os
import subprocess
import sys


def says(code, simulate="0"):
    """Return the output of a process."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": simulate}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout


ENTERING = """
try:
    with numbacc.debug():
        pass
except numbacc.DeviceError as error:
    print(error)
"""


HOW = 'os.environ["NUMBA_ENABLE_CUDASIM"] = "1"'
