"""The README's example prints what it says, and the table of elementwise functions has their signatures."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

from in_one import in_one
from paths import ROOT
from public_api import MODULES, names_of, pages

import numbacc
import numbacc.typing
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.elementwise.rows import TABLE

README = (ROOT / "README.md").read_text()
TABLE_PAGE = (ROOT / "docs" / "elementwise.md").read_text()


def between(marker, text=README):
    found = re.search(rf"<!-- {marker} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert found, marker
    return found.group(1).strip().removeprefix("```").removesuffix("```").strip()


def resolve(name):
    found = numbacc
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def test_every_public_name_has_a_page():
    """And one only, in the API reference that docs/public_api.py writes; test_site.py builds it."""
    text = "\n".join(pages().values())
    described = re.findall(r"^\.\. (?:auto(?!module)|py:(?!current))\w+:: ([^(\n]*)", text, re.MULTILINE)
    names = [name if module == "numbacc" else f"{module}.{name}" for module in MODULES for name in names_of(module)]
    names += [f"{module}.{name}" for module in ("typing", "device") for name in getattr(numbacc, module).__all__]
    assert sorted(described) == sorted(f"numbacc.{name}" for name in names)


@in_one("name", TABLE)
def test_signatures_of_the_table_are_the_real_ones(name):
    def signature(name):
        found = inspect.signature(resolve(f"numbacc.elementwise.{name}")).parameters.values()
        return [str(p.replace(annotation=inspect.Parameter.empty)) for p in found]

    own = re.search(rf"^\| `{name}\((.*?)\)` \|.*", TABLE_PAGE, re.MULTILINE)
    takes = own[1].replace("*, ", "").split(", ")
    saved = ["return_saved=False"] if TABLE[name].options else []
    assert signature(name) == [*takes, *saved, "out=None", "where=None", "stream=None"]
    assert signature(f"{name}.plan") == [*takes, "out=None", "where=None"]
    assert hasattr(numbacc.elementwise, f"{name}_backward") == (own[0].split(" | ")[2].strip() == "yes")
    if TABLE[name].function.gradient is None:
        return
    required = [each.split("=")[0] if each in ("min=None", "max=None") else each for each in takes]
    first, *more = [each for each in required if each.split("=")[0] not in TABLE[name].options]
    options = required[1 + len(more) :]
    more = [f"{each}=None" for each in more] if options else more
    assert signature(f"{name}_backward") == ["dy", first, *more, *options, "out=None", "stream=None"]
    assert signature(f"{name}_backward.plan") == ["dy", first, *more, *options, "out=None"]


def test_kinds_and_errors_are_named():
    text = README + "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    epilogues = [epilogue.value for epilogue in numbacc.gemm.Epilogue]
    kinds = [*numbacc.gated.KINDS, *numbacc.random.KINDS]
    for name in [*kinds, *epilogues, *(n for n in numbacc.__all__ if n.endswith("Error"))]:
        assert f"`{name}`" in text or f"numbacc.{name}" in text, name


def test_the_example_prints_what_it_says(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    if has_gpu() or simulated():
        assert "gated.forward" in printed
    else:
        assert printed.strip() == between("output")


def test_the_readme_is_short_and_speaks_of_no_contracts():
    assert len(README.splitlines()) <= 120
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert "promised" not in path.read_text(), path.name


def test_the_plots_are_of_the_newest_results(tmp_path):
    subprocess.run([sys.executable, "-m", "benchmarks.plot", tmp_path], cwd=ROOT, check=True)
    for name in ("measured.svg", "scaling.svg"):
        assert (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text()


def test_each_command_is_one_line():
    for marker in ("demo command", "test command"):
        assert len(between(marker).splitlines()) == 1
        assert between(marker).startswith("python3 -m venv ")
