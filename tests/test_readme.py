"""The README's example runs, and its listing of the interface is the interface."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import numbacc

FAMILIES = {"fft", "gated", "gemm", "random"}
README = (Path(__file__).parent.parent / "README.md").read_text()


def between(marker):
    found = re.search(rf"<!-- {marker} -->\n(.*?)<!-- end -->", README, re.DOTALL)
    assert found, marker
    return found.group(1).strip().removeprefix("```").removesuffix("```").strip()


def resolve(name):
    found = numbacc
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("line", between("api").splitlines())
def test_listed_signatures_are_the_real_ones(line):
    name = line.split("(")[0]
    parameters = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in inspect.signature(resolve(name)).parameters.values()
        if p.name != "self"
    ]
    assert line == f"{name}{inspect.Signature(parameters)}"


def test_every_public_function_is_listed():
    listed = {line.split("(")[0] for line in between("api").splitlines()}
    public = {f"numbacc.{n}" for n in numbacc.__all__ if inspect.isfunction(getattr(numbacc, n))}
    for family in FAMILIES & set(numbacc.__all__):
        members = vars(getattr(numbacc, family))
        public |= {f"numbacc.{family}.{n}" for n in members["__all__"] if inspect.isfunction(members[n])}
    generator = numbacc.random.Generator
    public |= {"numbacc.random.Generator"}
    public |= {f"numbacc.random.Generator.{n}" for n, f in vars(generator).items() if callable(f) and n[0] != "_"}
    assert listed == public


def test_kinds_and_errors_are_named():
    epilogues = [epilogue.value for epilogue in numbacc.gemm.Epilogue]
    kinds = [*numbacc.gated.KINDS, *numbacc.random.KINDS]
    for name in [*kinds, *epilogues, *(n for n in numbacc.__all__ if n.endswith("Error"))]:
        assert f"`{name}`" in README or f"numbacc.{name}" in README, name


def test_the_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "gated.forward" in capsys.readouterr().out


def test_each_command_is_one_line():
    for marker in ("demo command", "test command"):
        assert len(between(marker).splitlines()) == 1
        assert between(marker).startswith("python3 -m venv ")
