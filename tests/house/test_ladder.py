"""docs/ladder.md: the PTX beside the lines of Python is in the kernels, in that order; the lines are in the source."""

from __future__ import annotations

import re
from inspect import getsource

import pytest
from doc_blocks import blocks_of
from paths import ROOT
from skips import skip_if

from numbacc.base.dispatch import simulated

PAGE = ROOT / "docs" / "ladder.md"
NAMES = ("first", "scalar", "vector", "batched")


def table(name):
    """(lines of Python, instructions) of each row of a table."""
    (text,) = re.findall(rf"<!-- ptx {name} -->\n(.*?)\n\n", PAGE.read_text(), re.DOTALL)
    rows = [row.split(" | ") for row in text.splitlines()[2:]]
    return [(re.findall(r"`(.*?)`", python), re.findall(r"`(.*?)`", ptx)) for python, ptx, *_ in rows]


def pattern(instruction):
    """Registers have other numbers, spaces may be tabs, and … is anything."""
    text = re.escape(instruction).replace("…", r"[^\n]*").replace(r"\ ", r"\s*")
    return re.sub(r"%(p|r|rd|f)\d+", r"%\1\\d+", text)


@pytest.fixture(scope="module")
def code():
    """The PTX of the page's kernels, by name."""
    names = {"__name__": "ladder"}
    for _, block in blocks_of(PAGE):
        exec(compile(block, PAGE, "exec"), names)
    from numba import cuda

    from numbacc.base._numba import pretending, types

    with pretending((9, 0)):
        signature = types.void(*[types.float32[::1]] * 3)
        first, _ = cuda.compile(names["first"].py_func, signature, device=False, abi="numba", cc=(9, 0))
    return {"first": first, **{name: names[name].ptx for name in NAMES[1:]}}


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("name", NAMES)
def test_the_instructions_are_there(name, code):
    for python, instructions in table(name):
        wanted = r".*?".join(rf"^\s*{pattern(each)}$" for each in instructions)
        assert re.search(wanted, code[name], re.DOTALL | re.MULTILINE), (python, instructions, code[name])


@skip_if(simulated(), "not simulated")
def test_all_loads_are_under_way_before_the_first_use(code):
    four = r"(ld\.global\.v4(?:(?!ex2|ld\.global).)*){4}ex2"
    assert re.search(four, code["batched"], re.DOTALL) and not re.search(four, code["vector"], re.DOTALL)


@skip_if(simulated(), "not simulated")
def test_another_instruction_is_missed(code):
    assert not re.search(rf"^\s*{pattern('ld.global.v2.f32 {%f1, %f2}, [%rd1];')}$", code["vector"], re.MULTILINE)


@skip_if(simulated(), "not simulated")
def test_the_first_kernel_is_of_single_precision(code):
    assert not any(".f64" in text for text in code.values())


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_lines_are_in_the_source(name):
    from numbacc.kernels.elementwise import map

    source = getsource(getattr(map, name))
    for python, _ in table(name):
        for line in python:
            assert re.search(re.escape(line).replace("…", ".*"), source), line
