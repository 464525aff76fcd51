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
    found = re.findall(r"In `([^`]+)`, (before|behind) (`+)(.+?)\3:\n\n```\w+\n(.*?)```", section, re.DOTALL)
    return [Edit(file, where, anchor.strip(), code) for file, where, _, anchor, code in found]


def follow(title, folder):
    """A copy of the tree in which a recipe was followed."""
    for name in ("numbacc", "bindings", "tests", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.cfg", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    for edit in recipe(title):
        path = folder / edit.file
        lines = path.read_text().splitlines(keepends=True)
        (place,) = (k for k, line in enumerate(lines) if line.strip().startswith(edit.anchor))
        lines.insert(place + (edit.where == "behind"), edit.code)
        path.write_text("".join(lines))
    return folder


def run(folder, *command, **environment):
    paths = os.pathsep.join([str(folder), str(folder / "bindings")])
    run = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
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


def test_a_new_gate_is_computed_listed_and_tested_without_a_change_of_the_tests(tmp_path):
    folder = follow("A new gate", tmp_path)
    for simulation in ("0", "1"):
        run(folder, "-c", SHOW.format(folder=str(folder)), NUMBA_ENABLE_CUDASIM=simulation)
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "bilinear", "-m", "slow or not slow")
    out = run(folder, *tests, "tests/gated/test_gated.py", "tests/gated/test_reference.py", "tests/gated/test_ptx.py")
    assert int(re.search(r"(\d+) passed", out).group(1)) > 20
    assert "bilinear" in run(folder, "-m", "numbacc", "demo", "--help")


@pytest.mark.parametrize(
    "wrong", ["return b, 1.0 + 1e-3", pytest.param("return b * (1 + 1e-5), 1.0", marks=pytest.mark.slow)]
)
def test_a_gate_whose_formula_is_wrong_is_found_out(tmp_path, wrong):
    folder = follow("A new gate", tmp_path)
    path = folder / "numbacc" / "functions" / "gates.py"
    path.write_text(path.read_text().replace("    return b, 1.0\n", f"    {wrong}\n"))
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "bilinear", "tests/gated/test_gated.py"]
    with pytest.raises(AssertionError, match="failed"):
        run(folder, *command, NUMBA_ENABLE_CUDASIM="1")


def test_a_gate_whose_slope_is_wrong_is_found_out(tmp_path):
    folder = follow("A new gate", tmp_path)
    path = folder / "numbacc" / "reference" / "gated.py"
    path.write_text(path.read_text().replace("(b, np.ones_like(b))", "(b, np.ones_like(b) * 1.001)"))
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "bilinear", "tests/gated/test_reference.py"]
    with pytest.raises(AssertionError, match="failed"):
        run(folder, *command)


#: Recipe -> the function that it makes, how many lines it has, and a line of it that a wrong one stands for.
FUNCTIONS = {
    "A new activation": ("lisht", 9, "x * math.tanh(x)", "x * math.tanh(x) * 1.001"),
    "A new function of one array": ("cube", 7, "x * x * x", "x * x * x * 1.001"),
    "A new function of two arrays, with its gradient": ("squared_difference", 14, "slope, -slope", "slope, slope"),
}
TESTS = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


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


#: One of them is enough where time counts.
SOME = [pytest.param(title, marks=[pytest.mark.slow] * (number > 0)) for number, title in enumerate(FUNCTIONS)]


@pytest.mark.parametrize("title", SOME)
def test_a_new_function_is_computed_derived_listed_and_tested(tmp_path, title):
    """In NumPy and on simulated kernels, by the tests and docs as they are."""
    folder, name = follow(title, tmp_path), FUNCTIONS[title][0]
    files = [f"tests/elementwise/test_{each}.py" for each in ("elementwise", "elementwise_gradients", "blocks")]
    for simulation in ("0", "1"):
        run(folder, "-c", OWN.format(folder=str(folder), name=name), NUMBA_ENABLE_CUDASIM=simulation)
    more = ["tests/functions/test_elementwise_oracle.py", "tests/elementwise/test_elementwise_ptx.py"]
    more += ["tests/house/test_docstrings.py", "tests/house/test_readme.py"]
    out = run(folder, *TESTS, "-k", name, *files, *more)
    assert int(re.search(r"(\d+) passed", out).group(1)) > 20
    every = ("-m", "slow or not slow")
    out = run(folder, *TESTS, *every, "-k", f"{name} and not bfloat16", *files, NUMBA_ENABLE_CUDASIM="1")
    assert int(re.search(r"(\d+) passed", out).group(1)) >= 6
    lists = ("tests/house/test_readme.py::test_every_public_function_is_listed",)
    run(folder, *TESTS, *lists, "tests/functions/test_ulp.py::test_the_docs_have_the_committed_results")


@pytest.mark.parametrize("title", SOME)
def test_a_function_whose_formula_is_wrong_is_found_out(tmp_path, title):
    folder = follow(title, tmp_path)
    name, _, right, wrong = FUNCTIONS[title]
    path = folder / next(edit.file for edit in recipe(title))
    path.write_text(path.read_text().replace(f"return {right}\n", f"return {wrong}\n", 1))
    files = [f"tests/elementwise/test_{each}.py" for each in ("elementwise", "elementwise_gradients")]
    with pytest.raises(AssertionError, match="failed"):
        run(folder, *TESTS, "-k", f"{name} and float32", *files)


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


def test_a_reduction_takes_three_files():
    """Tests and docs included."""
    assert len({edit.file for edit in recipe("A new reduction")}) == 3
    assert len(lines_of("A new reduction")) <= 11


def test_a_new_reduction_is_computed_derived_listed_and_tested(tmp_path):
    """In NumPy and on simulated kernels, by the tests and docs as they are."""
    folder = follow("A new reduction", tmp_path)
    files = [f"tests/reductions/test_{each}.py" for each in ("reductions", "reductions_calls", "reduction_gradients")]
    for simulation in ("0", "1"):
        run(folder, "-c", REDUCED.format(folder=str(folder)), NUMBA_ENABLE_CUDASIM=simulation)
        out = run(folder, *TESTS, "-k", "sum_of_squares", *files, NUMBA_ENABLE_CUDASIM=simulation)
        assert int(re.search(r"(\d+) passed", out).group(1)) > 20
    more = ["tests/reductions/test_reductions_ptx.py", "tests/house/test_docstrings.py"]
    out = run(folder, *TESTS, "-m", "slow or not slow", "-k", "sum_of_squares and float32", *more)
    assert int(re.search(r"(\d+) passed", out).group(1)) >= 2
    run(folder, *TESTS, "tests/house/test_readme.py::test_every_public_function_is_listed")


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("return (x * x,)", "return (x * x * 1.001,)"),
        pytest.param("(rows * rows).sum(", "(rows * rows * 1.001).sum(", marks=pytest.mark.slow, id="numpy"),
        pytest.param("return (2.0 * dy * x,)", "return (2.001 * dy * x,)", marks=pytest.mark.slow, id="slope"),
    ],
)
def test_a_reduction_that_is_wrong_is_found_out(tmp_path, right, wrong):
    folder = follow("A new reduction", tmp_path)
    path = folder / "numbacc" / "kernels" / "reduce" / "functions.py"
    text = path.read_text()
    path.write_text(wrong.join(text.rsplit(right, 1)))
    assert text != path.read_text()
    files = [f"tests/reductions/test_{each}.py" for each in ("reductions", "reduction_gradients")]
    with pytest.raises(AssertionError, match="failed"):
        run(folder, *TESTS, "-x", "-k", "sum_of_squares", *files, NUMBA_ENABLE_CUDASIM="0" if "rows" in right else "1")


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


def test_a_new_dtype_is_held_copied_and_exchanged(tmp_path):
    folder = follow("A new dtype", tmp_path)
    run(folder, "-c", DTYPE, NUMBA_ENABLE_CUDASIM="1")
    run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/arrays/test_copies.py", NUMBA_ENABLE_CUDASIM="1")
