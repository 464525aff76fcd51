"""Compiled code is kept by what it is made of; where it cannot be kept, all works, with one warning a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from paths import ROOT
from skips import skip_if

from numbacc.base.dispatch import simulated

pytestmark = skip_if(simulated(), "not simulated")


#: Compile all that numbacc compiles on a machine without a GPU, and use it.
WORK = """
import ctypes
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from numbacc.runtime import disk_cache as kernel_cache, native

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)
    def get_current(result):
        ctypes.c_uint64.from_address(result).value = 5
        return 0

    address = ctypes.cast(get_current, ctypes.c_void_p).value
    answer = native.execute(address, 6, *[0] * 7)
    for key in ("ab" * 32, "cd" * 32):
        kernel_cache.load(key)
        kernel_cache.save(key, "entry", bytes(1 << 20))
print(answer)
"""
#: The same on a GPU: a kernel, and a product that is measured.
GPU_WORK = """
import warnings

import numpy as np
import numbacc
from numbacc import gated, gemm

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = numbacc.asarray(np.ones((4, 8), "float32"))
    y = numbacc.asnumpy(gated.forward(x, kind="reglu"))
    z = numbacc.asnumpy(gemm.matmul(x, x.T, tune=True))
print(-1 if (y == 1).all() and (z == 8).all() else 0)
"""
#: What Numba and NumPy warn of besides is their own business.
REPORT = """
for warning in caught:
    if warning.category.__name__ == "CacheWarning":
        print(warning.message)
"""
UNKNOWN_USER = "import os; os.getuid = os.geteuid = lambda: 54321\n"
# Python ignores the signal, so that a write which goes further fails as on a full disk.
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
VARIABLES = {"HOME", "XDG_CACHE_HOME", "NUMBACC_CACHE_DIR", "NUMBA_CACHE_DIR"}


def copied(folder):
    """A folder with a copy of the packages, and with their bytecode."""
    for source in (ROOT / "numbacc", ROOT / "bindings" / "numbacc_bindings"):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("*.nb?"))
    return folder


@pytest.fixture(scope="module")
def read_only_package(tmp_path_factory):
    """The packages where no __pycache__ can be made: not even root makes a folder of a file."""
    package = copied(tmp_path_factory.mktemp("site"))
    for folder in [path.parent for path in package.rglob("__init__.py")]:
        if (bytecode := folder / "__pycache__").exists():
            shutil.move(bytecode, f"{package}-bytecode{folder}")  # where PYTHONPYCACHEPREFIX says
        bytecode.write_text("")
    return package


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """(packages, the cache of a process that has compiled all)"""
    package, cache = copied(tmp_path_factory.mktemp("site")), tmp_path_factory.mktemp("cache")
    assert work(package, NUMBACC_CACHE_DIR=str(cache)) == (-1, [])
    return package, cache


def work(package, prelude="", script=WORK, **environment):
    """(what a compiled function answered, the messages of CacheWarnings)"""
    others = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    bytecode = f"{package}-bytecode" if (package / "numbacc" / "__pycache__").is_file() else ""
    run = subprocess.run(
        [sys.executable, "-c", prelude + script + REPORT],
        capture_output=True, text=True, cwd=package,
        env={**others, "PYTHONPATH": str(package), "PYTHONPYCACHEPREFIX": bytecode, **environment},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    answer, *warned = run.stdout.splitlines()
    return int(answer), warned


def assert_works_with_one_warning(found, *words):
    answer, warned = found
    assert answer == -1
    assert len(warned) == 1, warned
    for word in ("NUMBACC_CACHE_DIR", *map(str, words)):
        assert word in warned[0]


@skip_if(sys.platform != "linux", "linux")
def test_read_only_home(read_only_package):
    assert_works_with_one_warning(work(read_only_package, HOME="/proc/home"), "/proc/home/.cache/numbacc")


@skip_if(sys.platform == "win32", "posix")
@pytest.mark.slow
def test_unknown_user_without_home(read_only_package):
    assert_works_with_one_warning(work(read_only_package, UNKNOWN_USER), "no home directory")


@pytest.mark.slow
def test_cache_path_is_a_file(read_only_package, tmp_path):
    (tmp_path / "file").write_text("")
    found = work(read_only_package, HOME=str(tmp_path), NUMBACC_CACHE_DIR=str(tmp_path / "file"))
    assert_works_with_one_warning(found, tmp_path / "file")
    assert (tmp_path / "file").read_text() == ""


@skip_if(sys.platform == "win32", "posix")
@pytest.mark.slow
def test_full_disk(read_only_package, tmp_path):
    assert_works_with_one_warning(work(read_only_package, FULL_DISK, HOME=str(tmp_path)), tmp_path)


@pytest.mark.gpu
def test_gpu_without_home(read_only_package):
    assert_works_with_one_warning(work(read_only_package, UNKNOWN_USER, GPU_WORK), "no home directory")


@pytest.mark.slow
def test_nothing_is_warned_of_where_all_is_kept(kept):
    package, cache = kept
    assert not list(package.rglob("*.nbi")), "compiled functions lie in the package's folder"
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}
    assert before
    assert work(package, NUMBACC_CACHE_DIR=str(cache)) == (-1, [])
    assert before == {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}, "compiled again"


@pytest.mark.slow
def test_a_constant_of_another_file_is_compiled_anew(kept):
    package, cache = kept
    codes = package / "numbacc" / "base" / "codes.py"
    before = codes.read_text()
    codes.write_text(before.replace("WRONG_CONTEXT = -1\n", "WRONG_CONTEXT = -77\n"))
    try:
        assert work(package, NUMBACC_CACHE_DIR=str(cache)) == (-77, [])
    finally:
        codes.write_text(before)


@pytest.mark.slow
def test_damaged_functions_are_compiled_anew(kept):
    package, cache = kept
    for pattern in ("execute*.nbi", "launch*.nbc"):
        for path in cache.rglob(pattern):
            path.write_bytes(bytes(1000) if path.suffix == ".nbc" else b"")
    assert work(package, NUMBACC_CACHE_DIR=str(cache)) == (-1, [])
    for pattern in ("execute*.nbi", "launch*.nbc"):
        assert any(any(path.read_bytes()) for path in cache.rglob(pattern))
