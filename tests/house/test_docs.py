"""Each Python block of docs/*.md runs alone: on NumPy, a GPU, and in the simulator. The links lead somewhere."""

from __future__ import annotations

import re

import pytest
from cudnn_cases import need_planning
from doc_blocks import blocks_of, run_session
from paths import ROOT
from skips import needed, skip

from numbacc.base.dispatch import has_gpu, simulated

DOCS = sorted((ROOT / "docs").glob("*.md"))


#: Pages about Numba's simulator. Their blocks run only there.
SIMULATED = {"debugger"}
#: Pages that train a model, which takes minutes in the simulator.
TRAINED = {"distributed", "nn", "training"}


@pytest.mark.parametrize("path", [path for path in DOCS if blocks_of(path)], ids=lambda path: path.stem)
def test_each_block_runs_alone_and_prints_what_the_page_says(path, capsys):
    """As a reader pastes it, into a namespace where nothing is imported."""
    if path.stem in SIMULATED and not simulated():
        skip("simulator")
    if path.stem in TRAINED and simulated():
        skip("slow")
    if path.stem == "jax":
        needed("jax", "jax")
    if path.stem == "torch":
        needed("torch", "torch")
    shown = dict(
        re.findall(r"^```python\n([^`]*?)^```\n\nprints.*?```\n(.*?)```", path.read_text(), re.DOTALL | re.MULTILINE)
    )
    for line, code in blocks_of(path):
        # Empty lines in front, so that a traceback shows the line of the document.
        exec(compile("\n" * line + code, path, "exec"), {"__name__": path.stem})
        printed = capsys.readouterr().out
        if not has_gpu() and not simulated():
            assert printed == shown.get(code, printed)


def sessions_of(path):
    """The text of each block that shows a session of Python."""
    return re.findall(r"^```\n(>>> .*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", [path for path in DOCS if sessions_of(path)], ids=lambda path: path.stem)
def test_sessions_run_alone_and_print_what_the_page_says(path):
    need_planning()
    for text in sessions_of(path):
        text = text if has_gpu() else re.sub(r"^>>> .*# on a GPU\n", "", text, flags=re.MULTILINE)
        run_session(text, path.stem)


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


def test_every_block_of_python_is_run():
    for path in DOCS:
        assert len(blocks_of(path)) == len(re.findall(r"^ *``` *(?:python|py)\b", path.read_text(), re.MULTILINE))


def anchors_of(path):
    """The anchors that a page's headings get, on GitHub and on the site."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def test_links_lead_somewhere():
    for path in [*DOCS, *ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("notebooks/*/*.md")]:
        prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose):
            there = path.parent / target if target else path
            assert there.exists(), f"{path.name} links to {target}"
            if anchor:
                assert anchors_of(there).count(anchor) == 1, f"{path.name} links to {target}#{anchor}"
