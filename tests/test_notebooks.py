"""Every notebook runs from top to bottom, and what it is stored with is what it shows."""

from __future__ import annotations

import nbformat
import pytest
from stored_notebooks import EXACT, NOTEBOOKS, digest, read, run, shown

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
    exact = path.stem in EXACT
    now, stored = (shown(notebook, exact) for notebook in (run(path), read(path)))
    assert now == stored, f"{HOW} {path.stem}`"


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
