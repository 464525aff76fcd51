"""What decides the key of a compiled kernel: all that its machine code depends on."""

from __future__ import annotations

import ast
import ctypes
import importlib.metadata
import os
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from numbacc import compiling
from numbacc.functions.epilogues import FORMULAS
from numbacc.kernels.attention.flash_spec import WARP_TILES, FlashSpec
from numbacc.kernels.attention.spec import AttentionSpec
from numbacc.kernels.conv import epilogue
from numbacc.kernels.conv.depthwise_spec import DepthwiseSpec
from numbacc.kernels.elementwise.multi_tensor_spec import ListSumSpec
from numbacc.kernels.elementwise.optimizers import SQUARE
from numbacc.kernels.gemm.spec import GemmSpec
from numbacc.kernels.rows.spec import SumsSpec
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime import disk_cache, installed
from numbacc.runtime.launch_order import Spec
from numbacc_bindings.driver import DriverError

SPEC = KernelSpec("vector", FORMULAS["gated.forward.glu"], ("float32",) * 2, ("float32",), 1, False, compute="float32")
CAPABILITY = (9, 0)


@pytest.fixture
def fresh_fingerprint():
    """The digest of sources and versions is taken anew, here and after the test."""
    disk_cache.fingerprint.cache_clear()
    yield disk_cache.fingerprint.cache_clear
    disk_cache.fingerprint.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "scalar"},
        {"formula": FORMULAS["gated.forward.swiglu"]},
        {"reads": ("float32", "float16")},
        {"writes": ("float16",)},
        {"writes": ("float32", "float32")},
        {"rank": 2},
        {"wide": True},
        {"width": 2},
        {"transposed": (0,)},
        {"lanes": 4},
        {"repeated": (1,)},
        {"compute": "float64"},
        {"scalars": ("int64",)},
        {"counted": (1,)},
        {"indices": (1,)},
        {"module": "kernels/elementwise/lookup_table"},
    ],
    ids=str,
)
def test_key_depends_on_the_kernel(change):
    assert disk_cache.key(SPEC._replace(**change), CAPABILITY) != disk_cache.key(SPEC, CAPABILITY)


def test_every_field_of_the_kernel_is_tried_above():
    tried = test_key_depends_on_the_kernel.pytestmark[0].args[1]
    assert {name for change in tried for name in change} == set(KernelSpec._fields)


def test_key_depends_on_the_compute_capability():
    keys = {disk_cache.key(SPEC, capability) for capability in ((8, 0), (8, 6), (9, 0), (10, 0))}
    assert len(keys) == 4


def test_key_is_the_same_in_another_process():
    code = (
        "from numbacc.runtime import disk_cache as kernel_cache; from numbacc.kernels.specs import KernelSpec; "
        "from numbacc.functions.epilogues import FORMULAS; "
        f"spec = KernelSpec(*{tuple(SPEC._replace(formula=None))!r})._replace(formula=FORMULAS['gated.forward.glu']); "
        f"print(kernel_cache.key(spec, {CAPABILITY!r}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == disk_cache.key(SPEC, CAPABILITY)


@pytest.mark.parametrize("name", ["numba", "numba-cuda", "llvmlite", "numpy", "cuda-core", "cuda-bindings"])
def test_key_depends_on_the_compilers(name, fresh_fingerprint, monkeypatch):
    before, version = disk_cache.key(SPEC, CAPABILITY), importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda n: "0.0.1" if n == name else version(n))
    fresh_fingerprint()
    assert disk_cache.key(SPEC, CAPABILITY) != before


def test_key_depends_on_which_compilers_are_there(fresh_fingerprint, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    before = disk_cache.key(SPEC, CAPABILITY)
    monkeypatch.setattr(importlib.metadata, "version", missing)
    fresh_fingerprint()
    assert disk_cache.key(SPEC, CAPABILITY) != before


class Toolkit:
    """Files that stand for NVIDIA's compilers, wherever they are installed.

    Attributes:
        files: name to cuda-pathfinder -> path.
        linker: what nvJitLink says its version is.
        driver: the CUDA version of the driver; 0 if there is none.
    """

    def __init__(self, folder, monkeypatch):
        self.linker, self.driver = "13.0", 0
        self.files = {name: folder / f"lib{name}.so" for name in ("nvvm", "nvJitLink", "nvrtc", "device")}
        for path in self.files.values():
            path.write_text("library")
            os.utime(path, ns=(10**18, 10**18))
        monkeypatch.setattr(installed, "find", self.find)
        monkeypatch.setattr(installed, "library_version", lambda part, path: self.linker)
        monkeypatch.setattr("cuda.pathfinder.find_bitcode_lib", self.find)
        monkeypatch.setattr(installed, "driver", SimpleNamespace(cuDriverGetVersion=self.driver_version))

    def find(self, name):
        if name not in self.files:
            raise RuntimeError(f"{name} is nowhere")
        return str(self.files[name])

    def driver_version(self, address):
        if not self.driver:
            raise DriverError("no driver")
        ctypes.c_int.from_address(address).value = self.driver

    def touch(self, name):
        """Another file of the same size in the place of the one that was."""
        os.utime(self.files[name], ns=(10**18, 10**18 + 1))

    def remove(self, *names):
        for name in names:
            del self.files[name]


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    return Toolkit(tmp_path, monkeypatch)


TOOLKITS = {
    "another NVVM": (lambda t: None, lambda t: t.touch("nvvm")),
    "no NVVM": (lambda t: None, lambda t: t.remove("nvvm")),
    "another libdevice": (lambda t: None, lambda t: t.files["device"].write_text("LIBRARY")),
    "no libdevice": (lambda t: None, lambda t: t.remove("device")),
    "another nvJitLink": (lambda t: None, lambda t: t.touch("nvJitLink")),
    "nvJitLink says another version": (lambda t: None, lambda t: setattr(t, "linker", "13.1")),
    "no nvJitLink": (lambda t: None, lambda t: t.remove("nvJitLink")),
    # Numba looks for NVVM beside NVRTC, then.
    "another NVRTC, NVVM unknown": (lambda t: t.remove("nvvm"), lambda t: t.touch("nvrtc")),
    # The driver makes the machine code, then.
    "another driver, no nvJitLink": (lambda t: t.remove("nvJitLink"), lambda t: setattr(t, "driver", 13020)),
}


@pytest.mark.parametrize(("prepare", "change"), TOOLKITS.values(), ids=TOOLKITS)
def test_key_depends_on_the_libraries_however_installed(toolkit, prepare, change, fresh_fingerprint):
    def key():
        fresh_fingerprint()
        return disk_cache.key(SPEC, CAPABILITY)

    prepare(toolkit)
    before = key()
    assert key() == before
    change(toolkit)
    assert key() != before


def test_a_driver_that_makes_no_code_changes_no_key(toolkit, fresh_fingerprint):
    fresh_fingerprint()
    before = disk_cache.key(SPEC, CAPABILITY)
    toolkit.driver = 13020
    toolkit.touch("nvrtc")
    fresh_fingerprint()
    assert disk_cache.key(SPEC, CAPABILITY) == before


def test_a_key_needs_no_library_and_no_pathfinder(toolkit, fresh_fingerprint, monkeypatch):
    toolkit.files.clear()
    fresh_fingerprint()
    without_libraries = disk_cache.key(SPEC, CAPABILITY)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    fresh_fingerprint()
    assert disk_cache.key(SPEC, CAPABILITY) == without_libraries


@pytest.mark.parametrize(
    "source",
    [
        *("map.py", "specs.py", "operands.py", "formats.py", "instructions.py", "specialize.py"),
        *("casts.py", "literal_typing.py", "_numba.py", "dtypes.py", "launch.py"),
    ],
)
def test_key_depends_on_the_source(source, fresh_fingerprint, monkeypatch):
    before, read = disk_cache.key(SPEC, CAPABILITY), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path.name == source))
    fresh_fingerprint()
    assert disk_cache.key(SPEC, CAPABILITY) != before


@pytest.mark.parametrize("source", ["bias_grad.py", "draws.py", "gates.py", "arithmetic.py"])
def test_no_other_kernel_and_no_formula_s_file_changes_the_key(source, fresh_fingerprint, monkeypatch):
    before, read = disk_cache.key(SPEC, CAPABILITY), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path.name == source))
    fresh_fingerprint()
    assert disk_cache.key(SPEC, CAPABILITY) == before


# ---------------------------------------------------------------- of every kind of kernels


PACKAGE = Path(disk_cache.__file__).parents[1]
#: The modules that compile every kernel.
COMPILING = {"base/_compiler", "base/_numba", "base/dtypes", "base/function_identity"}
COMPILING |= {"runtime/kernel_code", "runtime/launch", "runtime/launch_order", "kernels/specs"}


@pytest.fixture(scope="module")
def specs():
    """One of each kind, by the module that makes it."""
    found = {spec.module: spec for spec in compiling.kernels(compiling.FAMILIES)}
    softmax = AttentionSpec("softmax", (("s", "float32"),), (("p", "float16"),), "float32")
    squares = ListSumSpec(SQUARE, ("bfloat16",), "float32")
    product = GemmSpec("bfloat16", False, False, (128, 256), FORMULAS["gated.forward.glu"], (), (("bfloat16", True),))
    flash = [FlashSpec(way, "bfloat16", 64) for way in ("forward", "backward", "prepare", "lists", "cells")]
    flash += [FlashSpec("backward", "bfloat16", 256)]
    flash += [FlashSpec(way, "bfloat16", 64, tiles=WARP_TILES[way, 64][0]) for way in ("forward", "backward")]
    more = (softmax, SumsSpec(found["kernels/rows/row"], None, 0, 2, 256, 1, True), squares, product, *flash)
    return {**found, **{spec.module: spec for spec in more}}


@cache
def modules_of(module):
    """The modules below numbacc that a module imports, by `ast`."""
    package, found = module.split("/")[:-1], []
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else [])]
            paths = ["/".join(base), *("/".join([*base, alias.name]) for alias in node.names)]
            found.extend(path for path in paths if (PACKAGE / f"{path}.py").is_file())
    return found


def test_every_kernel_s_sources_are_all_that_it_imports(specs):
    for module in specs:
        sources = disk_cache.sources(module)
        assert {module, *COMPILING} <= sources.keys()
        imported = {path for source in sources for path in modules_of(source)}
        assert {path for path in imported if path.startswith(("base/", "kernels/"))} <= sources.keys(), module
        assert {path for path in sources if path.startswith(("base/", "kernels/"))} <= imported | {module}, module
        assert all(sources[path] == (PACKAGE / f"{path}.py").read_bytes() for path in sources)


def test_modules_that_make_kernels_are_named_by_specs(specs):
    makers = {
        "/".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in (PACKAGE / "kernels").rglob("*.py")
        if {"make", "parameters"} <= names_in(path)
    }
    assert specs.keys() == makers


def names_in(path):
    """The names that a module defines or imports from others."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        found |= {each.name for each in getattr(node, "names", [])} | {getattr(node, "name", "")}
    return found


def test_scalar_functions_of_kernels_have_digests(specs):
    """A kernel's module imports no scalar function: the key has the digest of the spec's formula."""
    known = {
        # They say what a formula is, and how it becomes code.
        "functions/formula",
        "functions/reduction_formula",
        "functions/symbolic/ieee_math",
        "functions/symbolic/precision_variants",
    }
    direct = {
        (source, path)
        for module in specs
        for source in disk_cache.sources(module)
        for path in modules_of(source)
        if path.startswith("functions/") and path not in known
    }
    # The simulator's own; what `DepthwiseSpec.identity` has a digest of; formulas, which others know by their names.
    allowed = {"kernels/primitives/simulated", "kernels/conv/epilogue", "kernels/reduce/functions"}
    assert {source for source, _ in direct} == allowed


def test_a_depthwise_key_depends_on_the_activation_s_code(monkeypatch):
    spec = DepthwiseSpec("convolve", "float32", "float32", activation="relu")
    before = disk_cache.key(spec, CAPABILITY)
    monkeypatch.setitem(epilogue._ACTIVATIONS, "relu", lambda v: v if v > 1 else 1)
    epilogue.linear.cache_clear()
    try:
        assert disk_cache.key(spec, CAPABILITY) != before
    finally:
        monkeypatch.undo()
        epilogue.linear.cache_clear()
    assert disk_cache.key(spec, CAPABILITY) == before


def test_specs_stay_what_they_are(specs):
    """Copied, sent to another process, and written down."""
    for module, spec in specs.items():
        assert isinstance(spec, Spec) and not hasattr(spec, "__dict__"), module
        for other in (spec._replace(), pickle.loads(pickle.dumps(spec))):
            assert type(other) is type(spec) and other.module == module and other.identity == spec.identity
        assert " at 0x" not in spec.identity and type(spec).__name__ in spec.identity
        threads, blocks = spec.launch_bounds
        assert 0 < threads <= 1024 and blocks >= 1 and isinstance(spec.dtypes, tuple) and 0 < spec.carveout <= 100
        assert {type(value) for value in (spec.wide, spec.narrow, spec.needs_alignment, spec.is_dynamic)} == {bool}
