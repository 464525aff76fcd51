"""The benchmark of the compiled simulator: its kernels are right, and its figures say what was measured."""

from __future__ import annotations

import numpy as np
import pytest
from skips import skip_if

import numbacc
from benchmarks import __main__ as command
from benchmarks import harness, simulate, simulate_kernels
from numbacc.base.dispatch import simulated

PUZZLES, OTHERS = simulate_kernels.PUZZLES, simulate_kernels.USUAL
pytestmark = skip_if(simulated(), "not simulated")


@pytest.mark.parametrize("checked", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*PUZZLES, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
@pytest.mark.sampled(5)
def test_kernels_are_right(name, checked):
    subject = simulate_kernels.SUBJECTS[name]
    for n in (1024, 900):
        case = subject.make(min(n, subject.threads))
        args = case.fresh()
        assert not case.is_right(args)
        with numbacc.simulate(checked=checked):
            case.kernel[case.launch](*args)
        assert case.is_right(args)
        for given, left in zip(case.args, args, strict=True):
            assert given is case.args[case.out] or np.array_equal(given, left)


def test_the_subjects_are_those_that_are_promised():
    found = simulate_kernels.subjects()
    assert len(PUZZLES) == 14 and len(OTHERS) == 13 and len(found) == 14 + 13 + 12
    assert found["block reduction of 10^7"].make(10**7).threads >= 10**7
    assert found["tiled matmul 512^3"].make(512 * 512).args[0].shape == (512, 512)


@pytest.mark.parametrize("why", ["", "wrong", "unsupported"])
def test_figures(why):
    report = harness.Report(quiet=True, on_gpu=False)
    made = {"right": why != "wrong", "seconds": 0.5, "threads": 2048, "rate": 1e9}
    made |= {"checked_right": True, "checked_seconds": 3.5, "checked_threads": 1024, "checked_rate": 1e7}
    if why == "unsupported":
        made = {"why": "UnsupportedError: file.py:3"}
    loaded = {"right": True, "seconds": 0.01, "checked_seconds": 0.06}
    simulate.add(report, "kernel", made, loaded, {"threads_per_s": 500.0, "right": True})
    assert report.all_right == (why == "")
    if why != "unsupported":
        figures = {each["name"].partition(", ")[2]: each for each in report.figures}
        holds = {name: each["holds"] for name, each in figures.items() if "holds" in each}
        wanted = {"checked": True, "compile": True, "compile checked": False}
        assert holds == {**wanted, "from disk": True, "from disk checked": False}
        assert figures["unchecked"]["factor"] == 2e6
        row = "| kernel | 2,048 | 1.0e9 | 1.0e7 | 500 | 0.50 | 3.50 | 0.01 |"
        assert simulate.table(report.figures).splitlines()[2:] == [row]


@pytest.mark.slow
def test_it_runs_without_a_gpu(capsys):
    assert command.main(["simulate", "--quick", "--only", "GPU-Puzzles 3, guard"]) == 0
    printed = capsys.readouterr().out
    for words in ("unchecked", "checked", "compile", "from disk", "bounds hold"):
        assert words in printed


@pytest.mark.slow
def test_numbas_own_simulator_is_measured_in_a_process_of_its_own():
    found = simulate.in_numbas_simulator(["saxpy with guard", "warp shuffles in a device function"])
    assert found["saxpy with guard"]["right"] and found["saxpy with guard"]["threads_per_s"] > 100
    assert "AttributeError" in found["warp shuffles in a device function"]["why"]
