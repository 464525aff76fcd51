"""The driver's binding: its declarations agree with cuda.h, and its errors say what happened.

A stub of libcuda, compiled here, stands in for the driver: its `cuInit` returns whatever status it is given.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import shutil
import subprocess
import sys
import threading
from enum import IntEnum
from types import SimpleNamespace

import pytest

import numbacc_bindings
from numbacc import errors
from numbacc_bindings import _library
from numbacc_bindings import driver as binding
from numbacc_bindings.driver import FUNCTIONS, DriverError, driver

SKIPS = {
    "compiler": "needs a C compiler, cc",
    "header": "needs cuda.h, which the wheels of the CUDA runtime hold",
    "no driver": "is about machines without a CUDA driver",
}

CC = shutil.which("cc")
needs_compiler = pytest.mark.skipif(CC is None, reason=SKIPS["compiler"])

STUB = r"""
#include <stddef.h>
#include <string.h>

static void *current;
unsigned long long seen[6];

int cuInit(unsigned int status) { return (int)status; }
int cuGetErrorName(int status, const char **text) {
    *text = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return *text ? 0 : 1;
}
int cuGetErrorString(int status, const char **text) {
    *text = status == 2 ? "out of memory" : status == 700 ? "an illegal memory access" : NULL;
    return *text ? 0 : 1;
}
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Stub GPU", size); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 8 : attribute == 76 ? 6 : 1;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &current; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = (size_t)20 << 30;
    *total = (size_t)24 << 30;
    return 0;
}
int cuMemsetD2D32Async(unsigned long long dst, size_t pitch, unsigned int ui, size_t width, size_t height,
                       void *stream) {
    seen[0] = dst; seen[1] = pitch; seen[2] = ui; seen[3] = width; seen[4] = height;
    seen[5] = (unsigned long long)stream;
    return 0;
}
"""


def compile_library(source, path):
    subprocess.run([CC, "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
    return path


@pytest.fixture(scope="session")
def stub_path(tmp_path_factory):
    if CC is None:
        pytest.skip(SKIPS["compiler"])
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

    def use():
        start.wait()
        library.cuInit(0)

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", find)
    library = new_driver()
    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["cuda"]


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


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason=SKIPS["no driver"])
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
        with pytest.raises(DriverError, match="no function cuMemPoolCreate: it is older"):
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


# ---------------------------------------------------------------- declarations against CUDA's own

#: Our enum -> (the C enum, the prefix of its members).
ENUMS = {
    binding.Status: ("CUresult", "CUDA_"),
    binding.DeviceAttribute: ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_"),
    binding.PointerAttribute: ("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_"),
    binding.MemoryType: ("CUmemorytype", "CU_MEMORYTYPE_"),
    binding.MemoryPoolAttribute: ("CUmemPool_attribute", "CU_MEMPOOL_ATTR_"),
    binding.StreamFlag: ("CUstream_flags", "CU_STREAM_"),
    binding.EventFlag: ("CUevent_flags", "CU_EVENT_"),
}
CONSTANTS = {
    "ALLOCATION_TYPE_PINNED": ("CUmemAllocationType", "CU_MEM_ALLOCATION_TYPE_PINNED"),
    "LOCATION_TYPE_DEVICE": ("CUmemLocationType", "CU_MEM_LOCATION_TYPE_DEVICE"),
}
STRUCTS = {
    binding.MemoryLocation: "CUmemLocation",
    binding.MemoryPoolProperties: "CUmemPoolProps",
    binding.LaunchConfig: "CUlaunchConfig",
}


def test_tables_are_complete():
    public = [value for name, value in vars(binding).items() if not name.startswith("_")]
    classes = [value for value in public if isinstance(value, type)]
    ours = {c for c in classes if c.__module__ == binding.__name__}
    assert {c for c in ours if issubclass(c, IntEnum)} == set(ENUMS)
    assert {c for c in ours if issubclass(c, ctypes.Structure)} == set(STRUCTS)
    assert {n for n in vars(binding) if n.isupper() and n != "FUNCTIONS"} == set(CONSTANTS)


@pytest.mark.parametrize("ours", ENUMS, ids=lambda ours: ours.__name__)
def test_enum_values(ours):
    theirs = pytest.importorskip("cuda.bindings.driver")
    enum, prefix = ENUMS[ours]
    expected = {name: int(getattr(getattr(theirs, enum), prefix + name)) for name in ours.__members__}
    assert {name: int(value) for name, value in ours.__members__.items()} == expected


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name):
    theirs = pytest.importorskip("cuda.bindings.driver")
    enum, member = CONSTANTS[name]
    assert getattr(binding, name) == int(getattr(getattr(theirs, enum), member))


def test_declared_letters_are_known():
    assert {letter for letters in FUNCTIONS.values() for letter in letters} <= set(_library.TYPES)


def test_struct_sizes():
    assert ctypes.sizeof(binding.LaunchConfig) == 56
    assert ctypes.sizeof(binding.MemoryPoolProperties) == 88
    assert ctypes.sizeof(binding.MemoryLocation) == 8


@pytest.fixture(scope="session")
def include():
    """The folder of cuda.h."""
    import cuda.pathfinder

    folder = cuda.pathfinder.find_nvidia_header_directory("cudart")
    if folder is None:
        pytest.skip(SKIPS["header"])
    return folder


@needs_compiler
def test_struct_layouts(include, tmp_path):
    places = [(s, field) for s in STRUCTS for field in [None, *(name for name, *_ in s._fields_)]]
    prints = [
        f'printf("%zu\\n", {f"offsetof({STRUCTS[s]}, {field})" if field else f"sizeof({STRUCTS[s]})"});'
        for s, field in places
    ]
    program = "\n".join(
        ["#include <stddef.h>", "#include <stdio.h>", "#include <cuda.h>", "int main(void) {", *prints, "}"]
    )
    built = tmp_path / "layouts"
    subprocess.run([CC, "-I", include, "-x", "c", "-", "-o", built], input=program, text=True, check=True)
    theirs = subprocess.run([built], capture_output=True, text=True, check=True).stdout.split()
    ours = [getattr(s, field).offset if field else ctypes.sizeof(s) for s, field in places]
    assert dict(zip(places, ours, strict=True)) == dict(zip(places, map(int, theirs), strict=True))


#: How cuda.h writes a parameter's type -> the letter that declares it; pointers are "p", text is "s".
LETTERS = {
    "unsigned int": "u",
    "int": "i",
    "CUdevice": "i",
    "CUdeviceptr": "L",
    "size_t": "z",
    "unsigned char": "b",
    "unsigned short": "h",
    **dict.fromkeys(["CUstream", "CUevent", "CUcontext", "CUmodule", "CUfunction", "CUmemoryPool"], "p"),
    **dict.fromkeys([enum for enum, _ in ENUMS.values()], "i"),
}


def letter(parameter):
    if "*" in parameter:
        return "s" if re.fullmatch(r"const char\s*\*\s*\w+", parameter) else "p"
    return LETTERS[re.sub(r"\s*\w+$", "", parameter)]


@needs_compiler
def test_parameters(include):
    header = subprocess.run(
        [CC, "-E", "-P", "-I", include, "-include", "cuda.h", "-x", "c", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {}
    for name in FUNCTIONS:
        # A later header may declare only a later version of a function, which the older one resembles.
        names = (name, rf"{name}_v\d+")
        prototype = next(filter(None, (re.search(rf"CUresult {n}\(([^)]*)\)", header) for n in names)), None)
        parameters = [p.strip() for p in prototype.group(1).split(",")] if prototype else None
        found[name] = "".join(letter(p) for p in parameters if p != "void") if prototype else None
    assert found == FUNCTIONS


def test_compiled_launch_knows_the_launch_config():
    from numbacc import native

    assert ctypes.sizeof(binding.LaunchConfig) == 8 * native.CONFIG_WORDS
    assert binding.LaunchConfig.hStream.offset == 8 * native._STREAM_IN_CONFIG
