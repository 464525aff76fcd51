"""`python -m numbacc notebooks DIR`: copy the notebooks and their data out of the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_LEFT_OUT = {"__pycache__", ".ipynb_checkpoints"}


def source() -> Path:
    """Return the folder of the notebooks: in the installed package, or next to it in a checkout."""
    installed = _HERE / "notebooks"
    return installed if installed.is_dir() else _HERE.parent / "notebooks"


def main(argv: list[str]) -> int:
    """Copy the notebooks. Return the exit status: 1 if a changed file of the user was kept."""
    parser = argparse.ArgumentParser("python -m numbacc notebooks", description="Copy the notebooks to a folder.")
    parser.add_argument("folder", metavar="DIR", type=Path, help="the target folder; it is created if needed")
    target: Path = parser.parse_args(argv).folder
    found = [p for p in sorted(source().rglob("*")) if p.is_file() and not _LEFT_OUT & set(p.parts)]
    if not found:
        print(f"there are no notebooks in {source()}: install numbacc again", file=sys.stderr)
        return 1
    kept = []
    for path in found:
        to, content = target / path.relative_to(source()), path.read_bytes()
        if to.exists() and to.read_bytes() != content:
            kept.append(to)
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)
    for path in sorted(target.glob("*.ipynb")):
        print(path)
    for path in kept:
        print(f"{path} exists already and differs: it was not overwritten", file=sys.stderr)
    print(f'\nopen them: pip install "numbacc[notebooks]" jupyterlab && jupyter lab {target}')
    return 1 if kept else 0
