"""The puzzles of notebook 10: every solution passes, and the answers to usual mistakes help."""

from __future__ import annotations

import inspect
import math
import re
import sys
import textwrap
from collections import Counter

import nbformat
import numpy as np
import pytest
from paths import ROOT
from skips import skip_if

from numbacc import cuda, device
from numbacc.base.dispatch import compiles_own_kernels, simulated

NOTEBOOKS = ROOT / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
from device_puzzle_solutions import SOLUTIONS, add  # noqa: E402
from device_puzzles import PUZZLES, check  # noqa: E402

pytestmark = skip_if(compiles_own_kernels(), "not simulated")  # nothing is traced there

#: Puzzle, what is replaced in its solution, by what, and a part of the answer.
MISTAKES = [
    ("warp product", "    device.cp_async_wait_group(0)\n", "", "ldmatrix reads shared memory before it has arrived"),
    ("warp product", "(lane >> 3) & 1), 1, 0)", "(lane >> 3) & 0), 1, 0)", "are wrong"),
    ("warp product", "range(8)", "range(4)", "is not written"),
    ("warp product", "32 * (lane & 15) + 16 * (lane >> 4)", "24 * (lane & 15)", "not a multiple of 16"),
    ("swizzle", "((column ^ (row & 7)) << 4)\n", "16 * column\n", "are wrong"),
    ("swizzle", "(column ^ (row & 7))", "column", "112 bank conflicts: let column c of row r lie at c ^ (r % 8)"),
    ("swizzle", "row & 7", "row & 3", "16 bank conflicts: let column c of row r lie at c ^ (r % 8)"),
    (
        "two stages",
        "        device.mbarrier_wait_parity(arrived + 8 * stage, k >> 1 & 1)\n",
        "",
        "before it has arrived",
    ),
    ("two stages", "k >> 1 & 1)\n", "0)\n", "deadlock, no thread can go on: threads 0 to 255 wait at the mbarrier"),
    ("two stages", "        cuda.syncthreads()\n", "", "deadlock, no thread can go on: threads 1 to 255 wait"),
    ("two stages", "np.float32(k + 1) * ", "", "all tiles count once: tile k has the weight k + 1"),
    ("two stages", "k < 6", "k < 5", "deadlock, no thread can go on: threads 0 to 255 wait at the mbarrier"),
    ("online softmax", "math.exp(value - higher)", "math.exp(value)", "exp overflows"),
    ("online softmax", "total * math.exp(top - higher) +", "total +", "are wrong"),
    ("online softmax", "device.warp_reduce(device.max_f32, top)", "top", "are wrong"),
    ("persistent loop", ", x.shape[0], cuda.gridDim.x", ", cuda.blockIdx.x + 1", "each block does one tile only"),
    ("persistent loop", "x.shape[0]", "x.shape[0] + 1", "out of bounds"),
    ("persistent loop", "y[tile] = total", "x[tile, 0] = total", "An input was changed"),
    ("cluster sum", "    device.cluster_sync()\n", "", "has ended: call cluster_sync() at the end"),
    ("cluster sum", "    device.cluster_sync()  # all", "    # all", "may not have started yet: call cluster_sync"),
    ("cluster sum", "    everything = 0\n", "    everything = total\n", "should be"),
    ("cluster sum", "range(4)", "range(rank, rank + 1)", "each block has the sum of its own elements"),
    (
        "cluster sum",
        "    device.cluster_sync()\n",
        "    if t == 0:\n        device.cluster_sync()\n",
        "before block 1 can see it",
    ),
]


def changed(name, old, new):
    """A solution with a mistake."""
    source = textwrap.dedent(inspect.getsource(SOLUTIONS[name].py_func))
    assert old in source
    scope = {"np": np, "math": math, "cuda": cuda, "device": device, "add": add, "__name__": __name__}
    count = 1 if old.endswith("\n") else -1
    exec(source.replace(old, new, count), scope)
    return scope[SOLUTIONS[name].py_func.__name__]


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_pass(name):
    verdict = check(name, SOLUTIONS[name])
    assert verdict.solved, verdict
    assert repr(verdict).startswith(f"{name}: solved")
    assert simulated() or not verdict.note


@pytest.mark.parametrize(("name", "old", "new", "words"), MISTAKES, ids=lambda text: re.sub(r"\W+", " ", text)[:30])
def test_mistakes_are_named(name, old, new, words):
    verdict = check(name, changed(name, old, new))
    assert not verdict.solved
    assert verdict.words.startswith(f"{name}: not yet. ") and words in verdict.words, verdict


@skip_if(simulated(), "not simulated")
def test_what_a_gpu_cannot_run_is_no_solution():
    verdict = check("persistent loop", changed("persistent loop", "x[tile, t])", "float(str(x[tile, t])))"))
    assert not verdict.solved and "a GPU cannot run it" in verdict.words


def test_the_notebook_asks_all_of_them_with_hints():
    assert PUZZLES.keys() == SOLUTIONS.keys() == {name for name, *_ in MISTAKES} and len(PUZZLES) == 6
    assert min(Counter(name for name, *_ in MISTAKES).values()) >= 3
    cells = nbformat.read(NOTEBOOKS / "10-tensor-puzzles.ipynb", as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert [line.split('"')[1] for line in code.splitlines() if line.startswith('check("')] == list(PUZZLES)
    assert text.count("<details>") == text.count("</details>") >= 2 * len(PUZZLES)
