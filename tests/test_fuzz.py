"""The fuzzer: a few cases of each family on the CPU, and that it tells of failures and of processes that end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import conv_call
import conv_oracle
import numpy as np
import pytest
from conftest import Place
from fuzz import conv as fuzz_conv
from fuzz import worker
from fuzz.__main__ import FAMILIES
from fuzz.case import Case

ROOT = Path(__file__).parents[1]


def fuzz(*options):
    command = [sys.executable, "-m", "tests.fuzz", "--place", "cpu", "--seconds", "300", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_cases_of_every_family(tmp_path):
    report = tmp_path / "report.json"
    run = fuzz("--seed", "1", "--cases", "25", "--json", str(report))
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(report.read_text())
    assert found["failures"] == [] and found["place"] == "numpy"
    # There are no graphs on the CPU.
    assert found["cases"] == {family: 25 for family in FAMILIES if family != "graphs"}


def test_a_case_is_its_family_and_seed():
    """Whatever ran before it."""
    first, second, other = (
        Case(family, seed, Place("numpy")) for family, seed in [("fft", 7), ("fft", 7), ("gemm", 7)]
    )
    draws = [[case.shape(3), case.pick("abcdef"), case.integer(0, 10**6)] for case in (first, second, other)]
    assert draws[0] == draws[1] != draws[2]


def test_a_failure_is_told_and_the_next_case_runs(tmp_path, capsys):
    def run(case):
        case.call("float", float, "1" * 10)
        if case.seed % 2:
            raise RuntimeError(f"number {case.seed}")

    progress = tmp_path / "progress"
    found = worker.Worker("numpy", {"gated": 0}, 1, str(progress), str(tmp_path / "report"))
    found._run["gated"] = run
    found.run(60, 6)
    told = capsys.readouterr().out
    for words in ("FAILED gated, seed 1", "float('1111111111')", "number 1", "--only gated --seed 1 --cases 1"):
        assert words in told
    figures = found.figures()
    assert figures["cases"] == {"gated": 6}
    (alike,) = figures["failures"].values()
    assert alike["seeds"] == [1, 3, 5]
    assert progress.read_text().split() == ["gated", "5"]


def test_a_process_that_ends_is_a_failure_of_its_case(tmp_path):
    """Another goes on with the next case."""
    report = tmp_path / "report.json"
    code = (
        "import os, signal, sys; sys.argv[1:] = ['--place', 'cpu', '--only', 'gated', '--seed', '3', '--cases', '2',"
        f" '--json', {str(report)!r}]\n"
        "from tests.fuzz import __main__ as fuzz\n"
        "start, started = fuzz.Process.start, []\n"
        "def killed(self):\n"
        "    start(self)\n"
        "    if not started:\n"
        "        started.append(1)\n"
        "        self.process.kill(); self.process.wait(); self.progress.write_text('gated 3'.ljust(80))\n"
        "fuzz.Process.start = killed\n"
        "sys.exit(fuzz.main())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "FAILED gated, seed 3: the process ended, signal SIGKILL" in run.stdout
    assert json.loads(report.read_text())["cases"]["gated"] == 2


def test_unknown_families_are_refused():
    run = fuzz("--only", "gated,jam")
    assert run.returncode == 2 and "'jam' is no family" in run.stderr


@pytest.mark.parametrize("direction", conv_oracle.DIRECTIONS)
def test_sums_of_convolutions_by_taps(direction):
    """They are those of the tests' oracle."""
    for layout, more in (
        ("NCHW", {"stride": (2, 1), "padding": ((0, 3), (1, 0)), "dilation": (1, 2)}),
        ("NHWC", {"padding": "same", "flip": True}),
        ("NDHWC", {"stride": 2}),
    ):
        case = conv_call.small(direction, layout, **more)
        first, second, *_ = (None if a is None else a.astype(np.float64) for a in conv_oracle.inputs(case))
        wanted = conv_oracle.sums(case, first, second)
        np.testing.assert_allclose(fuzz_conv.by_taps(case, first, second), wanted, atol=1e-12)
