"""The launcher starts processes, forwards their output, and ends all of them when one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from paths import ROOT, pythonpath

from numbacc.distributed import launch, launching
from numbacc.errors import OptionError

PROGRAM = """
import os, signal, sys, time
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np, numbacc
team = numbacc.distributed.init()
total = team.all_reduce(np.arange(3.0) + team.rank)
print("rank", team.rank, "of", team.world_size, total.tolist(), flush=True)
team.barrier()  # all have printed
what = sys.argv[1]
if team.rank == 1 and what == "error":
    raise ValueError("boom")
if team.rank == 1 and what == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if what != "well":
    while True:  # without a call that could notice
        time.sleep(0.01)
"""


def run(tmp_path, what, processes=2):
    """The launcher's status, output, errors and seconds."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "numbacc", "launch", f"--processes={processes}", str(script), what]
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr, time.monotonic() - start


def environment():
    return {**os.environ, "PYTHONPATH": pythonpath(ROOT, ROOT / "bindings"), "CUDA_VISIBLE_DEVICES": ""}


def test_an_error_in_one_rank_ends_all_and_is_reported(tmp_path):
    status, out, errors, seconds = run(tmp_path, "error")
    assert status == 1 and seconds < 12
    assert "rank 0 of 2 [1.0, 3.0, 5.0]\n" in out and "[rank 1] rank 1 of 2 [1.0, 3.0, 5.0]\n" in out
    assert "numbacc.errors.RankError: rank 1 of 2 has failed, so rank 0 ends.\n" in errors
    report = errors.partition("numbacc launch: rank 1 of 2 ended with status 1 first; all others were ended.\n")[2]
    assert "Traceback (most recent call last):\n" in report and report.endswith("ValueError: boom\n")


@pytest.mark.slow
def test_a_killed_rank_ends_all(tmp_path):
    status, _, errors, seconds = run(tmp_path, "killed", 3)
    assert status == 128 + 9 and seconds < 12
    assert "rank 1 of 3 was ended by SIGKILL first" in errors
    assert "RankError: rank 1 of 3 has failed, so rank 2 ends.\n[rank 2] the process ended without a message" in errors


@pytest.mark.slow
def test_a_program_that_ends_well(tmp_path):
    status, out, errors, _ = run(tmp_path, "well", 3)
    assert (status, errors) == (0, "") and out.count("of 3 [3.0, 6.0, 9.0]\n") == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_launcher_ends_the_processes(tmp_path, number):
    script = tmp_path / "waits.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "numbacc", "launch", "--processes=2", str(script)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as launcher:
        found = [int(launcher.stdout.readline().split()[-1]) for _ in range(2)]
        launcher.send_signal(number)
        assert launcher.wait(20) == 128 + number
    for process in found:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_variables(tmp_path, capfd):
    """A program on the second of two hosts gets the variables of torchrun."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    code = f"import os; print(*[os.environ[name] for name in {names}])"
    assert launch([sys.executable, "-c", code], 1, hosts=2, host_rank=1, address="h:7") == 0
    assert capfd.readouterr().out == "[rank 1] 1 2 0 h 7\n"
    assert launch([sys.executable, "-c", "raise SystemExit(5)"], 1) == 5


def test_messages(capsys):
    for words, options in (
        ("need the address of the first one", {"hosts": 2}),
        ("processes=0", {"processes": 0}),
        ("host_rank=2", {"hosts": 2, "host_rank": 2, "address": "h:1"}),
        ('must be "host:port"', {"address": "h"}),
    ):
        with pytest.raises(OptionError, match=words):
            launch(["true"], **options)
    assert launching.main([]) == 2 and launching.main(["--help"]) == 0 and launching.main(["--gpus", "x", "a.py"]) == 2
    assert "usage: numbacc launch" in capsys.readouterr().out
