"""Every notebook runs from top to bottom, and what it is stored with is what it shows."""

from __future__ import annotations

import math
import re

import nbformat
import pytest
from skips import skip_if
from stored_notebooks import EXACT, NOTEBOOKS, digest, read, run, shown

from numbacc.base.dispatch import has_gpu, simulated

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
HOW = "run `python -m tests.stored_notebooks"


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= EXACT


@each_notebook
def test_stored_outputs_are_of_the_code(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata["numbacc"]["outputs_of"] == digest(notebook), f"{HOW} {path.stem}`"
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert any(pictures for _, pictures in shown(notebook, False)), "no plot"


@each_notebook
def test_shows_what_it_is_stored_with(path):
    exact, notebook = path.stem in EXACT, run(path)
    if not has_gpu():  # a GPU's figures are its own
        assert shown(notebook, exact) == shown(read(path), exact), f"{HOW} {path.stem}`"


def test_another_output_is_seen():
    (path,) = [path for path in NOTEBOOKS if path.stem == "08-puzzles"]
    notebook, other = read(path), read(path)
    (text,) = [o for cell in other.cells for o in cell.get("outputs", []) if "every_fourth" in o.get("text", "")]
    text["text"] = text["text"].replace("25%", "26%")
    assert shown(other, True) != shown(notebook, True) and shown(other, False) == shown(notebook, False)
    text["text"] = text["text"].replace("global", "shared")
    assert shown(other, False) != shown(notebook, False)
    other.cells[1].source += "\npass"
    assert digest(other) != digest(notebook)


@skip_if(simulated(), "not simulated")
def test_sixteen_bytes_are_one_instruction():
    """Notebook 06's intrinsics, which no GPU compiles here; what is left over is moved one by one."""
    (path,) = [path for path in NOTEBOOKS if path.stem == "06-your-own-kernel"]
    (cell,) = [cell.source for cell in read(path).cells if "def load4(typing" in cell.source]
    from numba import cuda, float32

    from numbacc.base._numba import pretending, types

    names = {"on_gpu": True, "cuda": cuda, "float32": float32, "math": math}
    exec(cell.partition("\n\n\nname = ")[0], names)
    row = types.float32[::1]
    with pretending((9, 0)):
        ptx, _ = cuda.compile(names["silu4"].py_func, types.void(row, row), device=False, abi="numba", cc=(9, 0))
    for each in ("ld", "st"):
        assert set(re.findall(rf"{each}\.global\S*", ptx)) == {f"{each}.global.v4.f32", f"{each}.global.f32"}
        assert ptx.count(f"{each}.global.f32") == 1 <= ptx.count(f"{each}.global.v4.f32")
    assert ".f64" not in ptx
