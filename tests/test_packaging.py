"""What is installed, what an import costs, and which module may know which."""

from __future__ import annotations

import ast
import configparser
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import numbacc
from numbacc import info
from numbacc.device import host_cache

ROOT = Path(__file__).parents[1]
PACKAGES = {"numbacc": ROOT / "numbacc", "numbacc_bindings": ROOT / "bindings" / "numbacc_bindings"}
SOURCES = sorted(path for folder in PACKAGES.values() for path in folder.rglob("*.py"))
FAMILIES = {"gated", "elementwise", "gemm", "conv", "attention", "fft", "random"}


# ---------------------------------------------------------------- setup.cfg


@pytest.fixture(scope="module")
def setup():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def lines(text):
    return text.strip().splitlines()


def requirements(text):
    """Requirement, with its extra -> its versions."""
    found = [Requirement(line) for line in lines(text)]
    return {f"{r.name}{f'[{min(r.extras)}]' if r.extras else ''}": str(r.specifier) for r in found}


def test_dependencies(setup):
    needed = requirements(setup["options"]["install_requires"])
    assert needed == info.REQUIRED  # which `python -m numbacc info` checks
    assert set(needed) == {"numba", "numba-cuda", "numpy", "ml_dtypes", "cuda-pathfinder", "cuda-core"}


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
    """The packages outside of Python's own library that the notebooks import."""
    notebooks = [json.loads(path.read_text()) for path in (ROOT / "notebooks").glob("*.ipynb")]
    cells = [cell for notebook in notebooks for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names = {name.partition(".")[0] for cell in cells for name in imports("".join(cell["source"]), "notebook")}
    return names - set(sys.stdlib_module_names)


def test_extras(setup):
    extras = {name: extra(setup, name) for name in setup["options.extras_require"]}
    assert set(extras) == {"cu12", "cu13", "demo", "notebooks", "test", "dev"}
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
    assert {"mypy", "ruff"} <= extras["dev"]
    assert notebook_imports() <= {*extras["notebooks"], *info.REQUIRED, "numbacc"}
    assert "nvidia-curand-cu12" in extras["notebooks"]  # Sobol's points, which cuRAND makes on the CPU too
    for name in ("cu12", "cu13"):
        assert {getattr(part, name) for part in info.LIBRARIES} <= extras[name]


def test_every_package_is_listed(setup):
    found = {
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in PACKAGES.items()
        for path in folder.rglob("__init__.py")
    }
    assert set(lines(setup["options"]["packages"])) == found


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


def test_import_is_quick():
    """Less than half a second more than NumPy's."""
    measure = """
import time
import numpy
start = time.perf_counter()
import numbacc
print(time.perf_counter() - start)
"""
    command = [sys.executable, "-c", measure]
    seconds = [float(subprocess.check_output(command)) for _ in range(5)]
    assert statistics.median(seconds) < 0.5, seconds


def test_families_are_imported_when_they_are_used():
    check = """
import sys
import numbacc
families = {"fft", "gated", "gemm", "random"}
assert families <= set(dir(numbacc))
assert not [name for name in sys.modules if name.partition(".")[2].split(".")[0] in families and "numbacc" in name]
from numbacc import fft
assert numbacc.fft is fft and numbacc.gated.forward and "numbacc.gemm" not in sys.modules
assert not hasattr(numbacc, "nothing")
"""
    subprocess.run([sys.executable, "-c", check], check=True)


# ---------------------------------------------------------------- layers


def imports(source, package):
    """The absolute names of everything a module imports, also inside functions.

    Of `from a import b` both "a" and "a.b" are given, since b may be a module.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found


def module_name(path):
    for name, folder in PACKAGES.items():
        if path.is_relative_to(folder):
            return ".".join([name, *path.relative_to(folder).with_suffix("").parts])
    raise ValueError(path)


IMPORTS = {module_name(path): imports(path.read_text(), module_name(path).rpartition(".")[0]) for path in SOURCES}


def reaches(module, *targets):
    """What a module imports of these modules and those below them."""
    return {name for name in IMPORTS[module] for target in targets if f"{name}.".startswith(f"{target}.")}


def importers(*targets):
    return {module for module in IMPORTS if reaches(module, *targets)}


def numbacc_modules(*names):
    return [f"numbacc.{name}" for name in names]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from numba import cuda", {"numba", "numba.cuda"}),
        ("def f():\n    import numba.cuda.cudadrv", {"numba.cuda.cudadrv"}),
        ("from . import plans", {"numbacc.kernels", "numbacc.kernels.plans"}),
        ("from .. import plans", {"numbacc", "numbacc.plans"}),
        ("from ..plans import MapPlan", {"numbacc.plans", "numbacc.plans.MapPlan"}),
    ],
)
def test_imports_are_found(source, expected):
    assert imports(source, "numbacc.kernels") == expected


def test_one_door_to_numba_cuda():
    assert importers("numba.cuda") == {"numbacc.base._numba"}
    allowed = numbacc_modules(
        "base._numba", "device.host_cache", "device.lent_code", "device.native", "reference.gated"
    )
    assert importers("numba", "llvmlite") <= {*allowed}


def test_what_native_imports_decides_its_cache():
    """Its constants are part of the machine code that `host_cache` keeps."""
    kept_by = {name.removesuffix(".py").replace("/", ".") for name in host_cache.SOURCES}
    imported = {name for name in reaches("numbacc.device.native", "numbacc") if name in IMPORTS}
    assert imported and imported <= {*numbacc_modules(*kept_by)}


def test_bindings_know_no_arrays():
    for module in IMPORTS:
        if module.startswith("numbacc_bindings"):
            assert not reaches(module, "numpy", "numba", "numbacc", "ml_dtypes"), module


def test_reference_knows_no_gpu():
    above = numbacc_modules("base._numba", "base.backend", "arrays", "device", "gemm", "kernels", "plan")
    for module in IMPORTS:
        if module.startswith("numbacc.reference"):
            assert not reaches(module, *above, "numba.cuda", "numbacc_bindings"), module


def test_kernels_know_no_validation_and_no_library():
    above = numbacc_modules("arrays", "base.layout", "device", "errors", "plan", "reference")
    for module in IMPORTS:
        if module.startswith("numbacc.kernels"):
            families = numbacc_modules(*FAMILIES)
            assert not reaches(module, *above, *families, "numbacc_bindings", "ctypes"), module


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_public_modules_know_no_ctypes(family):
    below = numbacc_modules("base._numba", "device.native", "device.runtime")
    for module in family_modules(family):
        assert not reaches(module, "ctypes", "numba", "llvmlite", "cuda", "numbacc_bindings", *below), module


def family_modules(family):
    """The modules of a family: one, or those of a package."""
    return [module for module in IMPORTS if re.fullmatch(rf"numbacc\.{family}(\.\w+)?", module)]


def test_core_knows_no_family():
    core = {"arrays", "base", "device", "kernels", "libraries", "plan"}
    families = numbacc_modules(*FAMILIES, *(f"reference.{family}" for family in FAMILIES))
    for module in IMPORTS:
        if module.split(".")[1] in core:
            assert not reaches(module, *families), module


@pytest.mark.parametrize("folder", ["numbacc", "bindings", "tests"])
def test_files_are_short(folder):
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in (ROOT / folder).rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
