"""Every notebook runs from top to bottom, and is stored without outputs so that its diffs can be read."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
TIMEOUT_S = 300  # of a cell

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks():
    assert NOTEBOOKS


@each_notebook
def test_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, f"clear the outputs of {cell.id}"


@each_notebook
def test_runs(path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    # A cell that raises makes this raise CellExecutionError, with the cell and its traceback.
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=where).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
