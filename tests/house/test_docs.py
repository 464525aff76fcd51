"""The Python blocks of docs/*.md run, in order, each file in one namespace: on NumPy, a GPU, and in the simulator."""

from __future__ import annotations

import re

import pytest
from doc_blocks import blocks_of
from paths import ROOT
from skips import skip

from numbacc.base.dispatch import has_gpu, simulated

DOCS = sorted((ROOT / "docs").glob("*.md"))


#: What is about Numba's simulator, and runs there only.
SIMULATED = {"debugger"}


@pytest.mark.parametrize("path", [path for path in DOCS if blocks_of(path)], ids=lambda path: path.stem)
def test_the_code_runs(path):
    if path.stem in SIMULATED and not simulated():
        skip("simulator")
    namespace = {"__name__": path.stem}
    for line, code in blocks_of(path):
        # Empty lines in front, so that a traceback shows the line of the document.
        exec(compile("\n" * line + code, path, "exec"), namespace)


def test_the_tracers_table_is_what_it_prints(capsys):
    (path,) = [path for path in DOCS if path.stem == "tracer"]
    line, code = blocks_of(path)[0]
    exec(compile("\n" * line + code, path, "exec"), {"__name__": "tracer"})
    assert f"<!-- table -->\n```\n{capsys.readouterr().out}```" in path.read_text()


def test_names_that_other_libraries_users_look_up_exist():
    """The middle column of each table is code, which runs after the page's first block."""
    (path,) = [path for path in DOCS if path.stem == "coming-from"]
    namespace = {"__name__": path.stem}
    exec(blocks_of(path)[0][1], namespace)
    rows = re.findall(r"^\| .+? \| `([^`\n]+)` \| .*\|$", path.read_text(), re.MULTILINE)
    assert len(rows) >= 60
    for code in rows:
        if has_gpu() or "numbacc.graph(" not in code:
            exec(compile(code, code, "exec"), namespace)


@pytest.mark.parametrize("name", ["start", "coming-from", "slow"])
def test_blocks_print_what_follows_them_and_run_alone(name, capsys):
    if has_gpu() or simulated():
        skip("no gpu")
    path = ROOT / "docs" / f"{name}.md"
    text = path.read_text()
    shown = dict(re.findall(r"```python\n([^`]*?)```\n\nprints.*?```\n(.*?)```", text, re.DOTALL))
    assert shown
    for line, code in blocks_of(path):
        exec(compile("\n" * line + code, path, "exec"), {"__name__": name})
        printed = capsys.readouterr().out
        assert printed == shown.get(code, printed)


def test_every_block_of_python_is_run():
    for path in DOCS:
        assert len(blocks_of(path)) == len(re.findall(r"^ *``` *(?:python|py)\b", path.read_text(), re.MULTILINE))


def test_links_lead_somewhere():
    root = DOCS[0].parent.parent
    for path in [*DOCS, *root.glob("*.md"), *root.glob("benchmarks/*.md")]:
        prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
