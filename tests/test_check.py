"""`python -m numbacc check`: its cases, and what it calls right. Engines run on a GPU only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from skips import skip_if

from numbacc.__main__ import main
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.check import summary
from numbacc.check.cases import cases
from numbacc.check.worker import judge, names, prepare, request_of
from numbacc.conv.lowering import Way, lower, ways
from numbacc.libraries.cudnn_search import algorithms

pytestmark = skip_if(simulated(), "not simulated")
CASES = list(cases())
RESULTS = Path(__file__).parents[1] / "benchmarks" / "checks"
PLAIN = Way(False, False)


def test_cases_have_names_of_their_own():
    assert len({case.name for case in CASES}) == len(CASES)
    assert names("") == [case.name for case in CASES]
    only = names("depthwise")
    assert only and all("depthwise" in name for name in only) and len(only) < len(CASES)


@pytest.mark.parametrize("case", CASES[::7], ids=lambda case: case.name)
def test_a_rounded_result_is_right_and_a_wrong_one_is_not(case):
    arrays = prepare(case)
    found = arrays.wanted[False].astype(arrays.problem.out.dtype)
    right, over = judge(arrays, found, PLAIN, frozenset())
    assert right and over <= 1
    for wrong in (np.zeros_like(found), np.roll(found, 1), -found):
        assert not judge(arrays, wrong, PLAIN, frozenset())[0]
    if found.dtype.kind != "i":
        found.flat[-1] = np.nan  # what was not written
        assert not judge(arrays, found, PLAIN, frozenset())[0]


def test_what_was_found_wrong_is_not_taken():
    """The committed findings and the table of wrong engines say the same."""
    (committed,) = sorted(RESULTS.glob("*-conv.json"))[-1:]
    found = json.loads(committed.read_text())
    assert set(found) == {case.name for case in CASES}
    taken = []
    for case in CASES:
        problem = request_of(case).problem
        known = {
            "+".join(name for name, is_done in way._asdict().items() if is_done): algorithms.wrong(
                lower(problem, way, (True,) * (len(problem.inputs) + 1)).graphs[0], 91900
            )
            for way in ways(problem)
        }
        for key, finding in found[case.name].items():
            way, _, engine = key.rpartition(" ")
            if not finding.startswith(("right", "refused")) and int(engine) not in known[way]:
                taken.append(f"{case.name}: {key}: {finding}")
    assert not taken


def test_the_worst_of_an_engine_is_told():
    def line(engine, finding, detail, way=()):
        return {"case": "a", "engine": engine, "way": list(way), "finding": finding, "detail": detail}

    found = [
        line("engine 2, tile_size=1", "right", "0.5 of what is allowed"),
        line("engine 2, tile_size=2", "wrong", "3 of what is allowed"),
        line("engine 2", "wrong", "inf of what is allowed"),
        line("engine 3", "right", "0.25 of what is allowed"),
        line("engine 3", "right", "0.5 of what is allowed"),
        line("engine 3", "failed", "no", way=("bias",)),
    ]
    assert summary(found) == {"a": {"2": "wrong inf", "3": "right 0.5", "bias 3": "failed no"}}


@skip_if(has_gpu(), "no gpu")
def test_the_command_says_that_it_needs_a_gpu(capsys):
    assert main(["check", "conv"]) == 1
    assert "needs a GPU" in capsys.readouterr().out
