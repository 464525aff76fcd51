"""compute-sanitizer over kernels with device functions: no wrong access, and no race of shared memory.

Run it with `python -m pytest -m "gpu and slow" tests/device/test_device_sanitizer.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from paths import ROOT
from skips import skip

#: The tests that compute-sanitizer runs, a process each: all instructions, and small products and attention.
PARTS = (
    ["tests/device/test_device_copies.py"],
    ["tests/device/test_device_threads.py"],
    ["tests/device/test_device_matrices.py", "-k", "wgmma_of"],
    ["tests/device/test_device_matrices.py", "-k", "not wgmma_of"],
    ["tests/device/test_device_kernels.py", "-k", "persistent_product and not machine_code"],
    ["tests/gemm/test_epilogue_kernel.py", "-k", "operand or reductions or groups or gated"],
    ["tests/attention/test_flash_kernels.py", "-k", "results"],
)
#: A kernel with a mistake that each tool finds: a store beyond an array, and a missing barrier.
MISTAKES = {
    "memcheck": "device.st_global_b32(device.address_of(x) + (1 << 33), 1)",
    "racecheck": "device.st_shared_b32(shared + 4 * t, t); x[t] = device.ld_shared_b32(shared + 4 * (t ^ 32))",
}
_MISTAKE = """
import numbacc
from numbacc import cuda, device

@device.jit
def run(x):
    t, shared = cuda.threadIdx.x, device.dynamic_shared()
    {}

x = numbacc.zeros(64, dtype="int64")
run[1, 64, None, 1024](x)
numbacc.asnumpy(x)
"""
#: The last lines of the tools' reports.
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": r"RACECHECK SUMMARY: 0 hazards"}
FOUND = {"memcheck": "Invalid __global__ write", "racecheck": r"RACECHECK SUMMARY: [1-9]\d* hazard"}


def program():
    """The path of compute-sanitizer."""
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(found).exists():
        skip("sanitizer")
    return found


def sanitized(tool, *command):
    """Return the output of compute-sanitizer with a process of Python.

    Errors of the driver's functions are not reported: numbacc asks about addresses that the driver does not know.
    """
    words = [program(), "--tool", tool, "--report-api-errors", "no", sys.executable, *command]
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, timeout=300)
    return run.stdout


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("tool", CLEAN)
def test_no_wrong_access_and_no_race(tool):
    program()
    with ThreadPoolExecutor(len(PARTS)) as pool:
        said = list(pool.map(lambda part: sanitized(tool, "-m", "pytest", "-q", "-n", "0", *part), PARTS))
    for part, text in zip(PARTS, said, strict=True):
        found = "\n".join([line for line in text.splitlines() if "=========" in line])
        assert re.search(CLEAN[tool], text), f"{part}\n{found[:8000]}"
        assert re.search(r"\d+ passed", text) and "failed" not in text, f"{part}\n{text[-4000:]}"


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("tool", MISTAKES)
def test_the_tool_finds_a_mistake(tool):
    text = sanitized(tool, "-c", _MISTAKE.format(MISTAKES[tool]))
    assert re.search(FOUND[tool], text), (os.environ.get("PATH"), text[-4000:])
