"""Operations of NCCL and data-parallel training on two GPUs, in processes that the launcher starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import ROOT, pythonpath
from skips import needed, skip_if

from numbacc.base.dispatch import has_gpu, simulated
from numbacc.runtime import device as runtime

pytestmark = [
    pytest.mark.gpu,
    skip_if(simulated() or not has_gpu() or runtime.device_count() < 2, "two gpus"),
]


@pytest.fixture
def run():
    needed("nccl.bindings", "nccl")

    def launch(name, gpus=2):
        script = str(Path(__file__).parent / "gpu_ranks.py")
        command = [sys.executable, "-m", "numbacc", "launch", f"--gpus={gpus}", script]
        environment = {**os.environ, "PYTHONPATH": pythonpath(ROOT, ROOT / "bindings")}
        start = time.monotonic()
        done = subprocess.run(
            [*command, name], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr, time.monotonic() - start

    return launch


def test_everything_on_all_gpus(run):
    for gpus in (each for each in (2, 4, 8) if each <= runtime.device_count()):
        status, out, errors, _ = run("checks", gpus)
        assert status == 0, errors
        assert out.count("all right") == gpus and f"[rank {gpus - 1}] all right {gpus - 1}\n" in out


@pytest.mark.parametrize(
    "how, status, words",
    [
        ("error", 1, "RankError: rank 1 of 2 has failed, so rank 0 ends.\nTraceback"),
        ("killed", 128 + 9, "rank 1 of 2 was ended by SIGKILL first"),
        ("hangs", 1, "rank 1 of 2 has failed, so rank 0 ends.\nit has not made a call that rank 0 made 6 s ago"),
        ("shapes", 1, "differs between ranks: rank "),
        ("well", 1, "rank 0 called all_reduce(float32 (1000,), sum), and rank 1 has already ended"),
    ],
)
def test_a_rank_that_ends(run, how, status, words):
    """The other rank ends, although it waits in a kernel of NCCL's."""
    got, _, errors, seconds = run(how)
    assert got == status and words in errors, errors
    # Processes and CUDA start in 3 s. The whole test takes at most 14 s on a machine without other work, and 21 s where
    # twenty other tests run.
    assert seconds < 40
    if how == "error":
        assert errors.endswith("ValueError: boom\n")
