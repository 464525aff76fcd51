"""The recipes of CONTRIBUTING.md that have code, followed to the letter in a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest
from paths import ROOT
from skips import skip_if

from numbacc.base.dispatch import simulated

pytestmark = skip_if(simulated(), "not simulated")

TEXT = (ROOT / "CONTRIBUTING.md").read_text()


class Edit(NamedTuple):
    file: str
    where: str
    anchor: str
    code: str


def recipe(title):
    """What a recipe says is to be written, and where."""
    section = re.search(rf"^### {title}\n(.*?)^##", TEXT, re.MULTILINE | re.DOTALL).group(1)
    found = re.findall(r"In `([^`]+)`, (before|after) (`+)(.+?)\3:\n\n```\w+\n(.*?)```", section, re.DOTALL)
    return [Edit(file, where, anchor.strip(), code) for file, where, _, anchor, code in found]


def follow(folder, *titles):
    """A copy of the tree in which recipes were followed."""
    for name in ("numbacc", "bindings", "tests", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name)  # with its bytecode, which is good for what no recipe changes
    for name in ("pyproject.toml", "setup.cfg", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    for edit in (edit for title in titles for edit in recipe(title)):
        path = folder / edit.file
        lines = path.read_text().splitlines(keepends=True)
        (place,) = (k for k, line in enumerate(lines) if line.strip().startswith(edit.anchor))
        lines.insert(place + (edit.where == "after"), edit.code)
        path.write_text("".join(lines))
    return folder


def run(folder, *command, wanted=0, **environment):
    paths = os.pathsep.join([str(folder), str(folder / "bindings")])
    run = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "", **environment},
    )  # fmt: skip
    assert run.returncode == wanted, run.stdout[-3000:] + run.stderr[-3000:]
    return run.stdout


def lines_of(title):
    return [line for edit in recipe(title) for line in edit.code.splitlines() if line.strip()]


def test_a_gate_takes_five_lines_in_two_files_and_a_dtype_one_in_one():
    assert len(lines_of("A new gate")) <= 5
    assert len({edit.file for edit in recipe("A new gate")}) == 2
    assert len(lines_of("A new dtype")) == 1


SHOW = """
import numpy as np, numbacc
from numbacc import gated
assert numbacc.__file__.startswith({folder!r})
x = numbacc.asarray(np.array([[1.0, -2.0, 3.0, 0.5]], np.float32))
dy = numbacc.asarray(np.array([[2.0, -1.0]], np.float32))
y, dx = gated.forward(x, "bilinear"), gated.backward(dy, x, "bilinear")
np.testing.assert_array_equal(numbacc.asnumpy(y), [[3.0, -1.0]])
np.testing.assert_array_equal(numbacc.asnumpy(dx), [[6.0, -0.5, 2.0, 2.0]])
try:
    gated.forward(x, "trilinear")
except numbacc.OptionError as error:
    assert "bilinear" in str(error)
"""


#: Recipe -> the function that it makes, and how many lines it has.
FUNCTIONS = {
    "A new activation": ("lisht", 9),
    "A new function of one array": ("cube", 8),
    "A new function of two arrays, with its gradient": ("squared_difference", 14),
}


@pytest.mark.parametrize("title", FUNCTIONS)
def test_a_function_takes_three_files(title):
    """Tests and docs included."""
    assert len({edit.file for edit in recipe(title)}) == 3
    assert len(lines_of(title)) <= FUNCTIONS[title][1]


OWN = """
import numpy as np, numbacc
from numbacc import elementwise as ew
assert numbacc.__file__.startswith({folder!r})
x = numbacc.asarray(np.array([[1.0, -2.0, 3.0, 0.5]], np.float32))
given = [x] if {name!r} != "squared_difference" else [x, x + 0.25]
y = ew.{name}(*given)
wanted = numbacc.asnumpy(ew.multiply(y, y))

@ew.kernel
def of_two(x1, x2):
    return ew.{name}(x1, x2) * ew.{name}(x1, x2)

@ew.kernel
def of_one(x):
    return ew.{name}(x) * ew.{name}(x)

own = of_one if len(given) == 1 else of_two
np.testing.assert_allclose(numbacc.asnumpy(own(*given)), wanted, rtol=1e-6)
dy = ew.multiply(y, 2.0)
for one, other in zip(*(f if isinstance(f, tuple) else (f,) for f in (
    own.backward(x * 0 + 1, *given), getattr(ew, "{name}_backward")(dy, *given)))):
    np.testing.assert_allclose(numbacc.asnumpy(one), numbacc.asnumpy(other), rtol=1e-5)
if {name!r} in ew.ACTIVATIONS:
    np.testing.assert_array_equal(
        numbacc.asnumpy(ew.residual_activation(x, x, activation={name!r})), numbacc.asnumpy(ew.{name}(x + x)))
"""


REDUCED = """
import numpy as np, numbacc, pickle
from numbacc import elementwise as ew
assert numbacc.__file__.startswith({folder!r})
host = np.arange(-6, 6).reshape(3, 4)
for dtype, result in (("float32", "float32"), ("bfloat16", "bfloat16"), ("int8", "int64"), ("uint16", "uint64")):
    x = numbacc.asarray(abs(host) if dtype == "uint16" else host, dtype)
    for axis in (None, 0, (0, 1)):
        y = ew.sum_of_squares(x, axis=axis, keepdims=True)
        assert y.dtype.name == result
        wanted = (host * host).sum(axis=axis, keepdims=True)
        np.testing.assert_array_equal(numbacc.asnumpy(y).astype(float), wanted)
z = numbacc.asarray(np.array([3 + 4j, 1j], np.complex64))
assert numbacc.asnumpy(ew.sum_of_squares(z)) == (3 + 4j) ** 2 - 1
assert numbacc.asnumpy(ew.sum_of_squares(numbacc.zeros((0, 3)))) == 0
assert ew.sum_of_squares.plan(numbacc.zeros((2, 3))).info.op == "elementwise.sum_of_squares"
assert pickle.loads(pickle.dumps(ew.sum_of_squares)) is ew.sum_of_squares
x = numbacc.asarray(host, "float32")
dx = ew.sum_of_squares_backward(numbacc.asarray(np.array([1.0, 2.0, 3.0, 4.0], np.float32)), x, axis=0)
np.testing.assert_array_equal(numbacc.asnumpy(dx), 2 * host * [1, 2, 3, 4])
"""


def test_a_reduction_takes_two_files():
    """Tests and docs included."""
    assert len({edit.file for edit in recipe("A new reduction")}) == 2
    assert len(lines_of("A new reduction")) <= 8


DTYPE = """
import ml_dtypes, numpy as np, numbacc
dtype = np.dtype(ml_dtypes.float8_e5m2fnuz)
host = np.arange(-8, 8).astype(dtype).reshape(4, 4)
x = numbacc.asarray(host)
y = numbacc.zeros((4, 4), "float8_e5m2fnuz")
assert y.dtype == x.dtype == dtype
y[...] = x.T
y[1] = x[2]
wanted = host.T.copy()
wanted[1] = host[2]
np.testing.assert_array_equal(numbacc.asnumpy(y).view(np.uint8), wanted.view(np.uint8))
back = numbacc.from_dlpack(x)
assert back.dtype == dtype
"""


#: Functions of recipes whose docstrings have examples, and a program that runs these.
SHOWN = {name for name, _ in FUNCTIONS.values()} | {"sum_of_squares"}
EXAMPLES = """
import sys
sys.path[:0] = "tests", "tests/house", "tests/support", "tests/oracles", "docs"
from test_docstrings import PUBLIC, check_example
for name in {names}:
    (found,) = (each for each in PUBLIC if each.rpartition(".")[2] == name)
    check_example(found)
"""


class Recipe(NamedTuple):
    """What tests call that which a recipe makes, a program that uses it, and the files whose tests find it."""

    name: str
    program: str
    files: str
    simulated: str


def _recipes():
    elementwise = "elementwise/test_elementwise elementwise/test_elementwise_gradients"
    more = "functions/test_elementwise_oracle elementwise/test_elementwise_ptx"
    reductions = "reductions/test_reductions reductions/test_reductions_calls reductions/test_reduction_gradients"
    gated = "gated/test_gated"
    yield "A new gate", Recipe("bilinear", SHOW, f"{gated} gated/test_reference gated/test_ptx", gated)
    for title, (name, _) in FUNCTIONS.items():
        blocks = "elementwise/test_blocks" * ("activation" in title)
        yield title, Recipe(name, OWN, f"{elementwise} {blocks} {more}", f"{elementwise} {blocks}")
    more = "reductions/test_reductions_ptx"
    yield "A new reduction", Recipe("sum_of_squares", REDUCED, f"{reductions} {more}", reductions)
    yield "A new dtype", Recipe("test_copies", DTYPE, "", "arrays/test_copies")


RECIPES = dict(_recipes())


def results(folder, simulation, which, names, files, wanted=0):
    """The tests that passed and those that failed, of those in files that have one of the names in theirs."""
    paths = [f"tests/{each}.py" for each in dict.fromkeys(" ".join(files).split())]
    command = ["-m", "pytest", "-q", "-rfp", "-p", "no:cacheprovider", "-m", which, "-k", " or ".join(names), *paths]
    out = run(folder, *command, wanted=wanted, NUMBA_ENABLE_CUDASIM=simulation)
    return [re.findall(rf"^{each} (\S+)", out, re.MULTILINE) for each in ("PASSED", "FAILED")]


@pytest.mark.parametrize(
    "titles",
    [tuple(RECIPES), *(pytest.param((title,), marks=pytest.mark.slow) for title in RECIPES)],
    ids=lambda titles: "all" if len(titles) > 1 else titles[0],
)
def test_what_is_new_is_computed(tmp_path, titles):
    """In NumPy and on simulated kernels, where all recipes were followed, and where one was."""
    folder, made = follow(tmp_path, *titles), [RECIPES[title] for title in titles]
    for simulation in ("0", "1"):
        programs = [each.program.format(folder=str(folder), name=each.name) for each in made]
        run(folder, "-c", "\n".join(programs), NUMBA_ENABLE_CUDASIM=simulation)


@pytest.mark.slow
def test_what_is_new_is_derived_listed_and_tested(tmp_path):
    """In NumPy and on simulated kernels, by the tests and docs as they are, where all recipes were followed."""
    folder = follow(tmp_path, *RECIPES)
    for simulation in ("0", "1"):
        mine = [(each, each.simulated if simulation == "1" else each.files) for each in RECIPES.values()]
        names, files = [each.name for each, files in mine if files], [files for _, files in mine if files]
        if simulation == "0":
            names += ["test_every_public_name_has_a_page", "test_the_docs_have_the_committed_results"]
            files += ["house/test_readme functions/test_ulp"]
        passed, _ = results(folder, simulation, "slow or not slow", names, files)
        for each, files in mine:
            found = [name for name in passed if each.name in name]
            assert {re.search(r"tests/(.*)\.py", name).group(1) for name in found} >= {*files.split()}, each.name
            assert not files or len(found) > (9 if simulation == "0" else 2), each.name
        if simulation == "0":
            assert sum(name.endswith(tuple(names[-2:])) for name in passed) == 2
            run(folder, "-c", EXAMPLES.format(names=[name for name in names if name in SHOWN]))
            assert "bilinear" in run(folder, "-m", "numbacc", "demo", "--help")


class Wrong(NamedTuple):
    """A mistake in what a recipe makes, and the files whose tests see it, in NumPy or on simulated kernels."""

    title: str
    right: str
    wrong: str
    simulation: str
    files: str

    def make(self, folder):
        (path, *_) = (folder / edit.file for edit in recipe(self.title) if self.right in edit.code)
        text = path.read_text()
        path.write_text(self.wrong.join(text.rsplit(self.right, 1)))
        assert text != path.read_text()


_NEW = {name: title for title, (name, _) in FUNCTIONS.items()}
_REDUCED = "reductions/test_reductions reductions/test_reduction_gradients"
_ARRAYS = "elementwise/test_elementwise elementwise/test_elementwise_gradients"
#: Those of one place that have different names are made at once.
TOGETHER = [
    Wrong("A new gate", "(b, np.ones_like(b))", "(b, np.ones_like(b) * 1.001)", "0", "gated/test_reference"),
    Wrong(_NEW["lisht"], "return x * math.tanh(x)\n", "return x * math.tanh(x) * 1.001\n", "0", _ARRAYS),
    Wrong("A new gate", "return b, 1.0\n", "return b, 1.0 + 1e-3\n", "1", "gated/test_gated"),
    Wrong("A new reduction", "return (x * x,)", "return (x * x * 1.001,)", "1", _REDUCED),
]
ALONE = [
    Wrong("A new gate", "return b, 1.0\n", "return b * (1 + 1e-5), 1.0\n", "1", "gated/test_gated"),
    Wrong(_NEW["cube"], "return x * x * x\n", "return x * x * x * 1.001\n", "0", _ARRAYS),
    Wrong(_NEW["squared_difference"], "return slope, -slope\n", "return slope, slope\n", "0", _ARRAYS),
    Wrong("A new reduction", "(rows * rows).sum(", "(rows * rows * 1.001).sum(", "0", _REDUCED),
    Wrong("A new reduction", "return (2.0 * dy * x,)", "return (2.001 * dy * x,)", "1", _REDUCED),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistakes",
    [
        *([each for each in TOGETHER if each.simulation == simulation] for simulation in ("0", "1")),
        *([each] for each in ALONE),
    ],
    ids=lambda mistakes: ", ".join(each.wrong.strip() for each in mistakes),
)
def test_what_is_wrong_is_found_out(tmp_path, mistakes):
    folder = follow(tmp_path, *(each.title for each in mistakes))
    for each in mistakes:
        each.make(folder)
    # Whether a new case is among the fast ones of a sample is chance.
    names = [f"({RECIPES[each.title].name} and not float64 and not float16)" for each in mistakes]
    files = [each.files for each in mistakes]
    _, failed = results(folder, mistakes[0].simulation, "not slow or sampled", names, files, wanted=1)
    for each in mistakes:
        assert [name for name in failed if RECIPES[each.title].name in name], each
