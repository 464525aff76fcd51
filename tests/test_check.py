"""`python -m numbacc check`: its cases, and what it calls right. Engines run on a GPU only."""

from __future__ import annotations

import numpy as np
import pytest
from skips import skip_if

from numbacc.__main__ import main
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.check.cases import cases
from numbacc.check.worker import judge, names, prepare
from numbacc.conv.lowering import Way

pytestmark = skip_if(simulated(), "not simulated")
CASES = list(cases())
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


@skip_if(has_gpu(), "no gpu")
def test_the_command_says_that_it_needs_a_gpu(capsys):
    assert main(["check", "conv"]) == 1
    assert "needs a GPU" in capsys.readouterr().out
