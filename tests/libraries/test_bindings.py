"""The driver's binding: bound when first used, and its errors say what happened.

A stub of libcuda, compiled here, stands in for the driver: its `cuInit` returns whatever status it is given.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from c_libraries import CC, STUB, compile_library
from paths import pythonpath
from skips import skip, skip_if
from threads import run_threads

import numbacc_bindings
from numbacc import errors
from numbacc_bindings import _library
from numbacc_bindings import driver as binding
from numbacc_bindings.driver import FUNCTIONS, DriverError, driver


@pytest.fixture(scope="session")
def stub_path(tmp_path_factory):
    if CC is None:
        skip("compiler")
    return str(compile_library(STUB, tmp_path_factory.mktemp("stub") / "libcuda.so.1"))


def new_driver():
    """As `driver`, with nothing loaded yet."""
    return _library.Library("cuda", DriverError, FUNCTIONS, binding._describe, driver._remedy)


@pytest.fixture
def stub(stub_path, monkeypatch):
    import cuda.pathfinder

    found = SimpleNamespace(abs_path=stub_path)
    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", lambda name: found)
    return new_driver()


# ---------------------------------------------------------------- nothing before it is needed


def test_import_loads_nothing():
    check = """
import sys
import numbacc_bindings
from numbacc_bindings.driver import driver
hasattr(driver, "cuNoSuchFunction")
# "cuda" alone is a namespace that Python may make at its start.
heavy = [name for name in sys.modules if name in ("numpy", "numba", "numbacc") or name.startswith("cuda.")]
assert not heavy, heavy
assert driver._loaded is None
try:
    maps = open("/proc/self/maps").read()
except FileNotFoundError:
    maps = ""
assert "libcuda" not in maps
"""
    subprocess.run([sys.executable, "-c", check], check=True)


def test_loaded_once_by_many_threads(stub_path, monkeypatch):
    import cuda.pathfinder

    calls, start = [], threading.Barrier(8)

    def find(name):
        calls.append(name)
        return SimpleNamespace(abs_path=stub_path)

    def use(k):
        start.wait()
        library.cuInit(0)

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", find)
    library = new_driver()
    run_threads(use)
    assert calls == ["cuda"]


def test_a_function_is_bound_once_by_many_threads():
    """All wait for the library to load, and one calls: what they bind must not free what its call uses."""
    check = """
import ctypes, time
from numbacc_bindings._library import Library
from numbacc_bindings.errors import LibraryError
from threads import run_threads

class Slow(Library):
    def load(self):
        with self._lock:
            if self._loaded is None:
                time.sleep(0.05)
                self._loaded = ctypes.CDLL(None)
            return self._loaded

junk = []

def work(k):
    if k:
        library.usleep(20_000)
        return
    time.sleep(0.06)  # where others are in the call
    for size in range(90, 200):
        junk.extend(b"\\xff" * size + bytes([i % 256]) for i in range(500))

for _ in range(5):
    library = Slow("c", LibraryError, {"usleep": "u"}, lambda library, status: ("", ""), "")
    run_threads(work)
"""
    subprocess.run([sys.executable, "-c", check], check=True, env={**os.environ, "PYTHONPATH": pythonpath()})


# ---------------------------------------------------------------- errors


def test_roots():
    assert issubclass(DriverError, (errors.Error, errors.LibraryError, RuntimeError))
    assert numbacc_bindings.Error is errors.Error
    assert numbacc_bindings.LibraryError is errors.LibraryError


def test_missing_driver_says_where_and_what_to_do(monkeypatch):
    import cuda.pathfinder

    def find(name):
        raise cuda.pathfinder.DynamicLibNotFoundError("searched here and there")

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", find)
    for use in (lambda d: d.cuInit(0), lambda d: d.address("cuInit"), lambda d: d.load()):
        with pytest.raises(DriverError, match="install NVIDIA's driver") as caught:
            use(new_driver())
        assert "searched here and there" in str(caught.value)
        assert caught.value.function is None
        assert caught.value.status is None
        assert caught.value.status_name is None


@skip_if(ctypes.util.find_library("cuda") is not None, "no driver")
def test_this_machine_has_no_driver():
    with pytest.raises(DriverError, match="install NVIDIA's driver") as caught:
        new_driver().cuInit(0)
    assert "system search" in str(caught.value)  # where cuda-pathfinder looked


@pytest.mark.parametrize(
    ("status", "name", "text"),
    [
        (2, "ERROR_OUT_OF_MEMORY", ": out of memory"),
        (700, "ERROR_ILLEGAL_ADDRESS", ": an illegal memory access"),
        (99999, "unknown status", ""),
        (2**31 - 1, "unknown status", ""),
    ],
)
def test_status_becomes_an_error(stub, status, name, text):
    assert stub.cuInit(0) is None
    with pytest.raises(DriverError) as caught:
        stub.cuInit(status)
    assert str(caught.value) == f"cuInit failed with status {status} ({name}){text}"
    assert caught.value.function == "cuInit"
    assert caught.value.status == status
    assert caught.value.status_name == name
    # A compiled caller brings the status itself.
    with pytest.raises(DriverError, match=f"cuLaunchKernelEx failed with status {status} "):
        stub.check("cuLaunchKernelEx", status)
    stub.check("cuLaunchKernelEx", 0)


def test_status_negative(stub):
    with pytest.raises(DriverError, match=r"status -1 \(unknown status\)"):
        stub.cuInit(2**32 - 1)


def test_old_library(stub):
    for use in (lambda: stub.cuMemPoolCreate(0, 0), lambda: stub.address("cuMemPoolCreate")):
        with pytest.raises(DriverError, match="lacks the function cuMemPoolCreate: it is older"):
            use()


def test_undeclared_function(stub):
    for use in (lambda: stub.cuNoSuchFunction, lambda: stub.address("cuNoSuchFunction")):
        with pytest.raises(AttributeError, match="cuNoSuchFunction"):
            use()


def test_address_is_the_functions(stub):
    address = stub.address("cuInit")
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(address)(7) == 7


def test_arguments_keep_their_bits(stub, stub_path):
    sent = (2**64 - 3, 2**63 + 5, 2**32 - 7, 2**40, 2**41, 2**62 + 1)
    stub.cuMemsetD2D32Async(*sent)
    assert tuple((ctypes.c_uint64 * 6).in_dll(ctypes.CDLL(stub_path), "seen")) == sent


@pytest.mark.parametrize("wrong", [(), ("text",), (1.5,)])
def test_wrong_arguments(stub, wrong):
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        stub.cuInit(*wrong)


def test_compiled_launch_knows_the_launch_config():
    from numbacc.runtime import native

    assert ctypes.sizeof(binding.LaunchConfig) == 8 * native.CONFIG_WORDS
    assert binding.LaunchConfig.hStream.offset == 8 * native._STREAM_IN_CONFIG
