"""Scripts that run in processes of their own, from a file: the compiled simulator reads the source of kernels."""

from __future__ import annotations

import os
import subprocess
import sys


def runs(folder, code, simulate="0"):
    """Return the output of a script."""
    path = folder / "script.py"
    path.write_text(code)
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": simulate}
    run = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout
