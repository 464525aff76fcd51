"""Every notebook runs from top to bottom, and what it is stored with is what it shows."""

from __future__ import annotations

import ast
import re

import nbformat
import pytest
from skips import skip_if
from stored_notebooks import EXACT, NOTEBOOKS, digest, joined, read, run, shown

from numbacc.base.dispatch import has_gpu, simulated

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
#: Notebooks that take 2 to 29 s of processor time. The functions that they call have fast tests; one notebook is fast.
SLOW = {
    "01-gated-activations", "02-gemm-epilogues", "03-fft-and-random", "04-convolution", "05-attention",
    "06-your-own-kernel", "07-transformer", "08-puzzles", "09-tensor-cores",
}  # fmt: skip
HOW = "run `python -m tests.house.stored_notebooks"


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= EXACT | SLOW


@each_notebook
def test_stored_outputs_are_of_the_code(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata["numbacc"]["outputs_of"] == digest(notebook), f"{HOW} {path.stem}`"
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert any(pictures for _, pictures in shown(notebook, False)), "no plot"


@each_notebook
def test_legends_lie_outside_of_the_data(path):
    """Where the data leave room depends on the machine's numbers."""
    lines = [line for cell in read(path).cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    legends = [line.strip() for line in lines if ".legend(" in line]
    assert all(line.startswith("fig.legend(") and 'loc="outside ' in line for line in legends), legends


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
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


def test_of_a_progress_bar_only_the_end_is_kept():
    """How often a bar is drawn depends on the machine."""
    cells = []
    for drawn in (3, 30):
        texts = [
            "before\n",
            *(f"\repochs: {100 * k // drawn}%|██  | {k}/{drawn}" for k in range(drawn)),
            "\r   \r",
            "after\n",
        ]
        outputs = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in texts]
        cells.append(nbformat.v4.new_code_cell("", outputs=outputs))
    seen = [shown(nbformat.v4.new_notebook(cells=[cell]), True) for cell in cells]
    assert seen[0] == seen[1] == [("before\nafter", 0)]
    for cell in cells:
        (output,) = joined(cell.outputs)
        assert output.text == "before\nafter\n"


def kernels_of_notebook_06():
    """The kernels by name, as a learner pastes them: the imports of the first cell, and a cell's own definitions."""
    (path,) = [path for path in NOTEBOOKS if path.stem == "06-your-own-kernel"]
    cells = [ast.parse(cell.source).body for cell in read(path).cells if cell.cell_type == "code"]
    imports = [line for line in cells[0] if isinstance(line, (ast.Import, ast.ImportFrom))]
    found = {}
    for cell in cells:
        defined = [each for each in cell if isinstance(each, ast.FunctionDef) or "intrinsic" in ast.unparse(each)]
        if "cuda.jit" in ast.unparse(defined):
            names = {"on_gpu": True, "__name__": "pasted"}
            exec(compile(ast.Module(imports + defined, []), path, "exec"), names)
            found |= {name: each for name, each in names.items() if name.startswith(("silu", "transpose"))}
    return found


@skip_if(simulated(), "not simulated")
def test_every_kernel_of_notebook_06_compiles_as_it_stands():
    """For a GPU, which the simulator's run does not; in single precision alone."""
    from numba import cuda

    from numbacc.base._numba import pretending, types

    ptx = {}
    for name, kernel in kernels_of_notebook_06().items():
        array = types.float32[:, ::1] if "transpose" in name else types.float32[::1]
        with pretending((9, 0)):
            ptx[name], _ = cuda.compile(kernel.py_func, types.void(array, array), device=False, abi="numba", cc=(9, 0))
        assert ".f64" not in ptx[name], name
    assert ptx.keys() == {
        "silu", "silu_once", "silu_chunks", "silu_strided", "silu4", "transpose", "transpose_tiled", "transpose_padded"
    }  # fmt: skip
    # Sixteen bytes are one instruction; what is left over is moved one by one.
    for each in ("ld", "st"):
        assert set(re.findall(rf"{each}\.global\S*", ptx["silu4"])) == {f"{each}.global.v4.f32", f"{each}.global.f32"}
        assert ptx["silu4"].count(f"{each}.global.f32") == 1 <= ptx["silu4"].count(f"{each}.global.v4.f32")
