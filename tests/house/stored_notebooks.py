"""The outputs that notebooks are stored with: `python -m tests.house.stored_notebooks [NAME ...]` makes them anew.

A notebook holds the digest of the code that its outputs are of, so that one of them does not change without the other.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
TIMEOUT_S = 300  # of a cell

#: Notebooks whose outputs are counted, not measured or rounded: they are the same everywhere, but for lines of speeds.
EXACT = {"06-your-own-kernel", "08-puzzles", "10-tensor-puzzles"}
_SPEED = re.compile(r".* GB/s .*")
_NUMBER = re.compile(r"[-+±]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?|\b(nan|inf)\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")  # text that a progress bar draws over


def read(path):
    return nbformat.read(path, as_version=4)


def digest(notebook):
    """Of all code cells."""
    code = "\n\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()


def run(path):
    """A notebook as it is after all cells have run. A cell that raises makes this raise, with its traceback."""
    notebook = read(path)
    where = {"metadata": {"path": str(path.parent)}}
    environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=where).execute(env=environment)
    return notebook


def shown(notebook, exact):
    """What each code cell shows: its texts, with numbers left out unless they must be the same; of pictures, that
    there are some."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        texts, pictures = [], 0
        for output in cell.outputs:
            data = output.get("data", {})
            is_picture = any(kind.startswith("image/") for kind in data)
            pictures += is_picture
            if not is_picture:
                texts.append(output.get("text", data.get("text/plain", "")))
        text = _ADDRESS.sub("0x", _OVERWRITTEN.sub("", "".join(texts)))
        text = _SPEED.sub(lambda line: _NUMBER.sub("#", line[0]), text)
        if not exact:
            text = re.sub(r"[ \-#█▏▎▍▌▋▊▉|\r]+", " ", _NUMBER.sub("#", text))
        found.append((text.strip(), pictures))
    return found


def joined(outputs):
    """Join texts that came in pieces. Of a progress bar, keep its last state."""
    found = []
    for output in outputs:
        if found and output.output_type == "stream" == found[-1].output_type and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    for output in found:
        if output.output_type == "stream":
            output.text = _OVERWRITTEN.sub("", output.text)
    return [output for output in found if output.output_type != "stream" or output.text]


def store(path):
    """Run a notebook, and write it with what its cells show."""
    notebook = run(path)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)  # times
        cell.outputs = joined(cell.get("outputs", []))
    notebook.metadata["numbacc"] = {"outputs_of": digest(notebook)}
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for each in NOTEBOOKS:
        if not sys.argv[1:] or each.stem in sys.argv[1:]:
            store(each)
            print(each.name)
