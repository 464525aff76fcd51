"""What is installed, and what an import costs."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec

import pytest
from packaging.requirements import Requirement
from paths import ROOT
from skips import needed, skip_if
from sources import FAMILIES, PACKAGES, imports

import numbacc
from numbacc import info

# ---------------------------------------------------------------- setup.cfg


@pytest.fixture(scope="module")
def setup():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_the_citation_names_the_version():
    assert f"\nversion: {numbacc.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def lines(text):
    return text.strip().splitlines()


def requirements(text):
    """Requirement, with its extra -> its versions."""
    found = [Requirement(line) for line in lines(text)]
    return {f"{r.name}{f'[{min(r.extras)}]' if r.extras else ''}": str(r.specifier) for r in found}


def test_dependencies(setup):
    needed = requirements(setup["options"]["install_requires"])
    assert needed == info.REQUIRED  # which `python -m numbacc info` checks
    assert set(needed) == {"numba", "numba-cuda", "numpy", "ml_dtypes", "cuda-pathfinder", "greenlet", "cuda-core"}


@pytest.mark.parametrize(
    ("system", "processor", "wheels"),
    [
        ("linux", "x86_64", True),
        ("linux", "aarch64", True),
        ("win32", "AMD64", True),
        ("linux", "ppc64le", False),
        ("win32", "ARM64", False),
        ("darwin", "arm64", False),
        ("darwin", "x86_64", False),
    ],
)
def test_dependencies_are_those_that_there_are_wheels_of(setup, system, processor, wheels):
    """As `pip download --only-binary=:all: --platform` finds them."""
    place = {"sys_platform": system, "platform_machine": processor}
    needed = [Requirement(line) for line in lines(setup["options"]["install_requires"])]
    here = {r.name for r in needed if not r.marker or r.marker.evaluate(place)}
    assert here == set(info.REQUIRED) - (set() if wheels else {"numba-cuda", "cuda-core"})
    assert ((system, processor) in info.CUDA_PLATFORMS) == wheels
    assert set(info.REQUIRED) - info.CUDA_ONLY <= here
    for name in ("test", "notebooks"):
        asked = [Requirement(line) for line in lines(setup["options.extras_require"][name])]
        of_cuda = {r.name for r in asked if r.name.startswith(("nvidia-", "numba-cuda", "cuda-"))}
        here = {r.name for r in asked if not r.marker or r.marker.evaluate(place)}
        assert of_cuda and here & of_cuda == (of_cuda if wheels else set())
        assert len(here - of_cuda) > 3


def test_one_marker_says_where_cuda_is(setup):
    every = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    markers = {str(r.marker) for text in every for r in map(Requirement, lines(text)) if r.marker}
    assert len(markers) == 1


def extra(setup, name):
    """What an extra asks for, those extras included that it names."""
    found = set(requirements(setup["options.extras_require"][name]))
    inner = {r for r in found if r.startswith("numbacc[")}
    return (found - inner).union(*(extra(setup, r[len("numbacc[") : -1]) for r in inner))


def notebook_imports():
    """The packages that the notebooks import, but for Python's own library and files beside them."""
    notebooks = [json.loads(path.read_text()) for path in (ROOT / "notebooks").glob("*.ipynb")]
    cells = [cell for notebook in notebooks for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = ["".join(line for line in cell["source"] if not line.startswith("%%")) for cell in cells]
    names = {name.partition(".")[0] for each in code for name in imports(each, "notebook")}
    names = {{"sklearn": "scikit-learn"}.get(name, name) for name in names}
    beside = {path.stem for path in (ROOT / "notebooks").glob("*.py")}
    return names - set(sys.stdlib_module_names) - beside


def test_extras(setup):
    extras = {name: extra(setup, name) for name in setup["options.extras_require"]}
    of_gpus = {"cu12", "cu13", "nccl", "nccl12", "nccl13"}
    assert set(extras) == {*of_gpus, "demo", "notebooks", "test", "torch", "jax", "docs", "dev"}
    for name in ("12", "13"):
        assert extras[f"nccl{name}"] == {*extras["nccl"], f"nvidia-nccl-cu{name}"} and extras["nccl"] == {"nccl4py"}
    libraries = ("cublas", "cudnn", "cufft", "curand")
    assert extras["cu12"] == {"numba-cuda[cu12]", *(f"nvidia-{name}-cu12" for name in libraries)}
    # Of CUDA 13's wheels only cuDNN's has the version in its name.
    assert extras["cu13"] == {
        "numba-cuda[cu13]",
        *("nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cufft", "nvidia-curand"),
    }
    assert {"scikit-learn", "tqdm"} <= extras["demo"] <= extras["notebooks"] <= extras["test"] <= extras["dev"]
    # Without libclang and the wheels with the headers, tests of the bindings would be skipped.
    assert {"pytest", "hypothesis", "scipy", "libclang"} <= extras["test"]
    assert {f"nvidia-{name}-cu12" for name in ("cublas", "cufft", "curand")} <= extras["test"]
    assert {"mypy", "basedpyright", "ruff"} <= extras["dev"]
    brought = {"llvmlite", "matplotlib_inline"}  # by numba and by ipykernel
    assert notebook_imports() <= {*extras["notebooks"], *info.REQUIRED, *brought, "numbacc"}
    assert "nvidia-curand-cu12" in extras["notebooks"]  # Sobol's points, which cuRAND makes on the CPU too
    for name in ("cu12", "cu13"):
        assert {getattr(part, name) for part in info.LIBRARIES} <= extras[name]


@pytest.fixture
def tree(tmp_path):
    """A copy of the source tree, to build in."""
    needed("setuptools", "setuptools", minversion="77")
    folders = ("bindings", "numbacc", "tests", "notebooks", "docs", "benchmarks", "tools", ".ci")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".ipynb_checkpoints")
    for folder in folders:
        shutil.copytree(ROOT / folder, tmp_path / "tree" / folder, ignore=ignored)
    shutil.rmtree(tmp_path / "tree" / "docs" / "reference", ignore_errors=True)  # a build of the site writes it
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith(".git"):
            shutil.copy(path, tmp_path / "tree")
    return tmp_path / "tree"


def built(tree, what):
    """The archive of a distribution."""
    code = f"from setuptools import build_meta; build_meta.build_{what}({str(tree.parent)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tree, check=True, capture_output=True)
    (archive,) = [path for path in tree.parent.iterdir() if path.suffix in (".gz", ".whl")]
    return archive


def test_the_source_distribution_holds_tests_and_notebooks_whole(tree):
    wanted = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    with tarfile.open(built(tree, "sdist")) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    assert wanted <= held, sorted(wanted - held)


def test_the_wheel_holds_the_packages_and_nothing_else(tree):
    """No benchmarks, tools or tests, also where a folder has caches of Python and of notebooks."""
    for folder in ("notebooks/__pycache__", "notebooks/.ipynb_checkpoints", "numbacc/base/__pycache__"):
        (tree / folder).mkdir()
        (tree / folder / "left.txt").write_text("")
    with zipfile.ZipFile(built(tree, "wheel")) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    sources = {f"numbacc/{path.relative_to(tree / 'numbacc')}" for path in (tree / "numbacc").rglob("*.py")}
    bindings = {str(path.relative_to(tree / "bindings")) for path in (tree / "bindings").rglob("*.py")}
    typed = {f"{name}/py.typed" for name in PACKAGES}
    stubs = {f"numbacc/{path.relative_to(tree / 'numbacc')}" for path in (tree / "numbacc").rglob("*.pyi")}
    assert len(stubs) > 5
    rest = {name for name in held if not name.startswith("numbacc/notebooks/")}
    assert rest == sources | bindings | typed | stubs
    assert not any("left.txt" in name for name in held)


def test_an_installed_package_gives_its_notebooks(tree):
    """With what they read; a learner's own changes stay."""
    with zipfile.ZipFile(built(tree, "wheel")) as wheel:
        wheel.extractall(tree.parent / "installed")
    folder = tree.parent / "mine"
    command = [sys.executable, "-m", "numbacc", "notebooks", str(folder)]
    where = {"cwd": tree.parent, "env": {**os.environ, "PYTHONPATH": str(tree.parent / "installed")}}
    run = subprocess.run(command, **where, check=True, capture_output=True, text=True)
    notebooks = tree / "notebooks"
    wanted = {path.relative_to(notebooks) for path in notebooks.rglob("*") if path.is_file()}
    assert {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} == wanted
    assert all((folder / path).read_bytes() == (notebooks / path).read_bytes() for path in wanted)
    assert all(str(folder / path) in run.stdout for path in wanted if path.suffix == ".ipynb")
    (folder / "08-puzzles.ipynb").write_text("solved")
    again = subprocess.run(command, **where, capture_output=True, text=True)
    assert again.returncode == 1 and "08-puzzles.ipynb exists already" in again.stderr
    assert (folder / "08-puzzles.ipynb").read_text() == "solved"


def test_types_are_shipped(setup):
    for name, folder in PACKAGES.items():
        assert (folder / "py.typed").is_file()
        assert "py.typed" in setup["options.package_data"][name]


def test_public_names():
    assert len(set(numbacc.__all__)) == len(numbacc.__all__)
    for name in numbacc.__all__:
        assert (getattr(numbacc, name).__doc__ or "").strip(), f"numbacc.{name} has no docstring"
    for name in FAMILIES & set(numbacc.__all__):
        family = getattr(numbacc, name)
        for member in family.__all__:
            value = getattr(family, member)
            assert not callable(value) or value.__doc__, f"numbacc.{name}.{member} has no docstring"


# ---------------------------------------------------------------- the cost of an import


def test_import_loads_no_library():
    check = """
import sys
import numbacc
heavy = [name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite") or name.startswith("cuda.")]
assert not heavy, heavy
try:
    maps = open("/proc/self/maps").read()
except FileNotFoundError:
    maps = ""
for library in ("libcuda", "libcublas", "libcudnn", "libcufft", "libcurand", "libnv"):
    assert library not in maps, library
"""
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.fixture
def environment(tree):
    """The Python of an environment that has numbacc as `pip install -e .` installs it, and nothing else."""
    folder = tree.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    site = "import sysconfig; print(sysconfig.get_path('purelib'))"
    place = subprocess.check_output([python, "-c", site], text=True).strip()
    with zipfile.ZipFile(built(tree, "editable")) as wheel:
        wheel.extractall(place)
    return python


def test_an_editable_install_names_folders(environment, tree):
    """Type checkers and editors read names of folders in .pth files. They run no import hooks."""
    find = "import importlib.util as u; print(*(u.find_spec(name).origin for name in ('numbacc', 'numbacc_bindings')))"
    found = subprocess.check_output([environment, "-I", "-c", find], text=True).split()
    assert found == [str(tree / "numbacc/__init__.py"), str(tree / "bindings/numbacc_bindings/__init__.py")]
    (file,) = environment.parent.parent.rglob("__editable__*.pth")
    assert file.read_text().split() == [str(tree), str(tree / "bindings")]


@pytest.mark.slow
@skip_if(find_spec("mypy") is None, "mypy")
def test_mypy_finds_an_editable_install(environment, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("from numbacc import elementwise as ew\n\new.softmax\new.softmaxx\n")
    command = [sys.executable, "-m", "mypy", "--python-executable", environment, "--cache-dir", tmp_path / "cache"]
    run = subprocess.run([*command, program], cwd=tmp_path, capture_output=True, text=True)
    assert re.findall(r"program.py:(\d+): error: (.*?)[;.]", run.stdout) == [
        ("4", 'Module has no attribute "softmaxx"')
    ]


def test_import_is_quick():
    """Less than half a second more than NumPy's."""
    measure = """
import time
import numpy
start = time.process_time()  # the machine may be busy
import numbacc
print(time.process_time() - start)
"""
    command = [sys.executable, "-c", measure]
    seconds = [float(subprocess.check_output(command)) for _ in range(5)]
    assert statistics.median(seconds) < 0.5, seconds


def test_families_are_imported_when_they_are_used():
    check = """
import sys
import numbacc
families = {"attention", "conv", "cudnn", "fft", "gated", "gemm", "random"}
assert families <= set(dir(numbacc))
assert not [name for name in sys.modules if name.partition(".")[2].split(".")[0] in families and "numbacc" in name]
from numbacc import fft
assert numbacc.fft is fft and numbacc.gated.forward and "numbacc.gemm" not in sys.modules
assert not hasattr(numbacc, "nothing")
"""
    subprocess.run([sys.executable, "-c", check], check=True)
