"""The puzzles of notebook 08: every solution passes, usual mistakes are answered with what helps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import nbformat
import pytest
from paths import ROOT
from skips import skip_if

from numbacc.base.dispatch import simulated

NOTEBOOKS = ROOT / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
import puzzle_stops  # noqa: E402, F401 - more of them
from puzzle_mistakes import MISTAKES  # noqa: E402
from puzzle_solutions import SOLUTIONS  # noqa: E402
from puzzles import PUZZLES, check  # noqa: E402


def name_of(kernel):
    return getattr(kernel, "py_func", kernel).__name__


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_pass(name):
    verdict = check(name, SOLUTIONS[name])
    assert verdict.solved, verdict
    assert repr(verdict).startswith(f"{name}: solved\n\nkernel ")


#: Mistakes that Numba's simulator finds in other words, if at all.
_COMPILED = """
counted_from_one no_guard one_too_far half_a_guard barrier_in_a_branch half_written no_maximum at_once endless
endless_with_a_variable no_maximum_in_double_precision
"""
#: One mistake for each way to find it. To compile the others takes half a second each. They are slow tests, and fast
#: ones in Numba's simulator, which takes a tenth of that.
_KINDS = """
all_at_one in_the_input counted_from_one within_the_block rows_along_x exchanged no_loop unordered barrier_in_a_branch
half_written no_maximum at_once endless with_a_list of_any_length
"""


def marks(kernel):
    if simulated():
        return [skip_if(kernel in _COMPILED.split(), "not simulated")]
    return [pytest.mark.slow] * (kernel not in _KINDS.split())


@pytest.mark.parametrize(
    "name, kernel, words",
    [pytest.param(*each, id=f"{each[0]} {name_of(each[1])}", marks=marks(name_of(each[1]))) for each in MISTAKES],
)
def test_mistakes_are_named(name, kernel, words):
    verdict = check(name, kernel)
    assert not verdict.solved
    assert verdict.words.startswith(f"{name}: not yet. ")
    assert [word for word in words if word not in verdict.words] == [], verdict


def test_without_a_compiler_it_is_solved_and_says_so(monkeypatch):
    from numbacc.tracing import compile_errors

    monkeypatch.setattr(compile_errors._compiler, "answer", lambda job: ("unable", "OSError: no libnvvm"))
    verdict = check("map", SOLUTIONS["map"])
    assert verdict.solved and verdict.words == "map: solved"
    assert repr(verdict).endswith('pip install "numbacc[cu12]"') and "not compiled for a GPU: OSError" in repr(verdict)
    name, kernel, _ = next(each for each in MISTAKES if each[0] == "map 2d")
    assert not check(name, kernel).solved  # all else is still checked


def test_there_are_twelve_with_three_mistakes_each():
    assert len(PUZZLES) == 12 and PUZZLES.keys() == SOLUTIONS.keys()
    counted = Counter(name for name, _, _ in MISTAKES)
    assert {*_KINDS.split(), *_COMPILED.split()} <= {name_of(kernel) for _, kernel, _ in MISTAKES}
    assert counted.keys() == PUZZLES.keys() and min(counted.values()) >= 3


def test_the_notebook_asks_all_of_them_with_hints():
    cells = nbformat.read(NOTEBOOKS / "08-puzzles.ipynb", as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert [line.split('"')[1] for line in code.splitlines() if line.startswith('check("')] == list(PUZZLES)
    assert text.count("<details>") == text.count("</details>") >= len(PUZZLES)


@pytest.mark.slow
def test_a_notebook_loads_the_compilers_while_the_user_reads(tmp_path):
    """The first answer then takes less than a second of the process's time. An early exit waits for the thread."""
    script = f"""
import sys, threading, time, types
sys.path.insert(0, {str(NOTEBOOKS)!r})
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: True)
import puzzles
from puzzle_solutions import SOLUTIONS
if "read" in sys.argv:
    [each.join() for each in threading.enumerate() if each.name == "puzzles"]
    start = time.process_time()
    print(puzzles.check("guard", SOLUTIONS["guard"]).solved, time.process_time() - start < 1)
"""
    environment = {**os.environ, "NUMBACC_CACHE_DIR": str(tmp_path), "NUMBA_ENABLE_CUDASIM": "0"}
    for words, answer in ((["read"], "True True"), ([], "")):
        command = [sys.executable, "-c", script, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, answer, "")
