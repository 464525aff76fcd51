"""`python -m numbacc info`: right about what is there, exact about what is missing, and never stopped."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest
from c_libraries import STUB, compile_library, needs_compiler
from machines import PARTS, Gpu, commands, make_up, row

from numbacc import info
from numbacc.base import dispatch
from numbacc.runtime import device, disk_cache


def run(*arguments, **environment):
    command = [sys.executable, "-m", "numbacc", "info", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.fixture
def machine(monkeypatch, tmp_path):
    return make_up(monkeypatch, tmp_path)


# ---------------------------------------------------------------- on this machine


def test_command_line():
    # Of the processor, as the tests of other processes would count on a clock.
    start = os.times()
    shown, as_json = run(), run("--json")
    end = os.times()
    assert end.children_user + end.children_system - start.children_user - start.children_system < 2 * 3
    assert shown.returncode == 0, shown.stderr
    for part in PARTS:
        assert part.name in shown.stdout
    assert "\nWhat to do\n  " in shown.stdout
    report = json.loads(as_json.stdout)
    assert report["runs_on"] in shown.stdout
    assert report["python"]["path"] == sys.executable
    assert row(report["packages"], "numba")["version"] == importlib.metadata.version("numba")


def test_wrong_option(capsys):
    assert run("--yaml").returncode == 2
    with pytest.raises(SystemExit) as exit:
        info.main(["--yaml"])
    assert exit.value.code == 2
    assert "usage: python -m numbacc info" in capsys.readouterr().err


def test_imports_no_numba():
    check = "import sys; from numbacc import info; info.gather(); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_says_where_numbacc_runs():
    place = json.loads(run("--json").stdout)["runs_on"]
    if dispatch.simulated():
        assert place == info.SIMULATORS[info.simulated_by()]
    else:
        assert place.startswith("GPU cuda:0 " if dispatch.has_gpu() else "NumPy (no GPU)")
    found = run("--json", NUMBA_ENABLE_CUDASIM="1", NUMBACC_SIMULATE="0").stdout
    assert json.loads(found)["runs_on"] == "Numba's simulator"


def test_names_the_compiled_simulator():
    found = run("--json", NUMBA_ENABLE_CUDASIM="0", NUMBACC_SIMULATE="1").stdout
    assert json.loads(found)["runs_on"] == "the compiled simulator"


# ---------------------------------------------------------------- machines made up


def test_nothing_missing(machine, capsys):
    report = info.gather()
    assert report["to_do"] == []
    assert report["runs_on"] == "GPU cuda:0 NVIDIA H200"
    assert report["driver"] == {"version": "13.0", "path": "/lib/libcuda.so.1", "problem": ""}
    assert report["gpus"] == [
        {
            "number": 0,
            "name": "NVIDIA H200",
            "capability": "9.0",
            "free_gib": 100.0,
            "total_gib": 140.0,
            "bfloat16": True,
            "memory_pools": True,
            "problem": "",
        }
    ]
    assert info.main([]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("What to do\n  nothing is missing\n")
    assert "NVIDIA H200" in shown
    assert info.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report


def test_nothing_there(machine):
    machine.packages, machine.libraries, machine.gpus = {}, {}, []
    report = info.gather()
    packages, driver, rest = commands(report)
    assert packages == (
        'pip install "numba>=0.61" "numba-cuda>=0.30.4" "numpy>=2.1" "ml_dtypes>=0.5" '
        '"cuda-pathfinder>=1.8" "greenlet>=3.1" "cuda-core>=1.2"'
    )
    assert "https://www.nvidia.com/drivers" in driver
    assert rest == 'pip install "numbacc[cu12]"'
    missing = "nvvm, nvrtc, nvJitLink, cublasLt, cudnn, cufft, curand, cuda-bindings"
    assert report["to_do"][2]["what"] == f"missing: {missing}"
    assert report["runs_on"] == "NumPy (no GPU)"
    for part in PARTS:
        found = row(report["compiler"] + report["libraries"], part.name)
        assert found["path"] is None
        assert found["wheel"] == part.cu12
        assert found["problem"] == f"searched everywhere for {part.name}\nhere\nand there"
    shown = info.text(report)
    assert "searched everywhere for cudnn\n" in shown
    assert "and there" not in shown  # a reason's first line is enough to read


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_one_library_missing(machine, part):
    del machine.libraries[part.name], machine.packages[part.cu13]
    report = info.gather()
    assert report["to_do"] == [{"what": f"missing: {part.name}", "do": 'pip install "numbacc[cu13]"'}]
    assert row(report["compiler"] + report["libraries"], part.name)["wheel"] == part.cu13


def test_driver_that_fails(machine):
    machine.gpus, machine.init_error = [], "cuInit failed with status 803 (ERROR_SYSTEM_DRIVER_MISMATCH): no"
    report = info.gather()
    assert report["driver"]["problem"] == machine.init_error
    (step,) = report["to_do"]
    assert machine.init_error in step["what"]
    assert "nvidia-smi" in step["do"]


def test_hidden_gpus(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    machine.gpus, machine.init_error = [], "cuInit failed with status 100 (ERROR_NO_DEVICE): no device"
    assert commands(info.gather()) == ["unset CUDA_VISIBLE_DEVICES"]
    # Another failure is not the variable's fault.
    machine.init_error = "cuInit failed with status 999 (ERROR_UNKNOWN): unknown error"
    assert "nvidia-smi" in commands(info.gather())[0]


@pytest.mark.parametrize(("capability", "able"), [((7, 5), False), ((8, 0), True), ((12, 0), True)])
def test_bfloat16(machine, capability, able):
    machine.gpus = [Gpu("GPU", capability)]
    assert info.gather()["gpus"][0]["bfloat16"] is able


def test_gpu_without_memory_pools(machine):
    machine.gpus.append(Gpu("vGPU", (8, 0), pools=0))
    report = info.gather()
    assert report["runs_on"] == "GPU cuda:0 NVIDIA H200, cuda:1 vGPU"
    assert [step["what"] for step in report["to_do"]] == ["cuda:1 lacks memory pools, which numbacc needs"]


@pytest.mark.parametrize(("name", "version"), [("numpy", "2.0.2"), ("numba-cuda", "0.30.3"), ("cuda-core", "0.9")])
def test_package_too_old(machine, name, version):
    machine.packages[name] = version
    assert commands(info.gather()) == [f'pip install "{name}{info.REQUIRED[name]}"']


@pytest.mark.parametrize(
    ("version", "bad"),
    [("9.7.1", False), ("9.8.0", True), ("9.10.2", True), ("9.11.0", False), ("9.28.0", False)],
)
def test_cudnn_known_to_be_bad(machine, version, bad):
    machine.versions["cudnn"] = version
    report = info.gather()
    assert commands(report) == (["pip install --upgrade nvidia-cudnn-cu13"] if bad else [])
    problem = row(report["libraries"], "cudnn")["problem"]
    assert problem.endswith("https://github.com/pytorch/pytorch/issues/163539") if bad else problem == ""
    assert (problem in info.text(report)) or not bad


def test_optional_packages(machine):
    machine.packages["cupy-cuda13x"] = "14.2.0"
    report = info.gather()
    assert row(report["packages"], "cupy")["version"] == "14.2.0"
    assert row(report["packages"], "torch")["problem"] == "missing, optional"
    assert 'pip install "numbacc[demo]"' in row(report["packages"], "scikit-learn")["problem"]
    assert report["to_do"] == []


@pytest.mark.parametrize(("variable", "name"), info.SIMULATORS.items(), ids=info.SIMULATORS)
def test_simulator_hides_the_gpu(machine, monkeypatch, variable, name):
    for each in info.SIMULATORS:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(dispatch, "simulated", lambda: True)
    report = info.gather()
    assert report["runs_on"] == name
    assert report["environment"][variable] == "1"
    assert commands(report) == [f"unset {variable}"]


# ---------------------------------------------------------------- the kernel cache


def test_cache(machine, tmp_path):
    found = info.gather()["cache"]
    assert list(found.values()) == [str(tmp_path / "cache"), 0, 0, True, ""]
    assert not (tmp_path / "cache").exists()  # looking makes nothing
    for key in "ab":
        disk_cache.save(key * 64, "kernel", b"cubin")
    found = info.gather()["cache"]
    assert [found["entries"], found["bytes"]] == [2, 2 * len(disk_cache.pack("kernel", b"cubin"))]


def test_cache_not_writable(machine, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    report = info.gather()
    assert not report["cache"]["writable"]
    assert ["NUMBACC_CACHE_DIR" in command for command in commands(report)] == [True]


# ---------------------------------------------------------------- whatever fails


def broken(*args):
    raise OSError("the probe broke\nin many lines")


PROBES = [
    *((info, name) for name in ("find", "library_version", "driver")),
    *((device, name) for name in ("call", "device_count", "device_name", "capability")),
    *((device, name) for name in ("memory_info", "device_attribute")),
    *((disk_cache, "directory"), (info.platform, "platform"), (os, "access")),
]


@pytest.mark.parametrize(("owner", "name"), PROBES, ids=[name for _, name in PROBES])
def test_no_probe_stops_the_report(machine, monkeypatch, capsys, owner, name):
    monkeypatch.setattr(owner, name, broken)
    assert info.main([]) == 0
    assert info.main(["--json"]) == 0
    shown = capsys.readouterr().out
    answer = {"driver": "cuDriverGetVersion", "device_count": "NumPy", "platform": "None"}
    assert answer.get(name, "the probe broke") in shown


def test_no_pathfinder(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    report = info.gather()
    assert all("cuda.pathfinder" in r["problem"] for r in report["compiler"] + report["libraries"])
    assert "cuda.pathfinder" in report["driver"]["problem"]


# ---------------------------------------------------------------- versions


def test_within():
    versions = ["2", "2.1", "2.4.6", "2.4.99.dev3+local", "2.5rc1", "2.5", "2.10", "3"]
    assert [v for v in versions if info.within(v, ">=2.1,<2.5")] == ["2.1", "2.4.6", "2.4.99.dev3+local"]
    assert info.within("anything", "")


VERSIONED = """
#include <stddef.h>
int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 9; return 0; }
unsigned nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = 13; *minor = 0; return 0; }
size_t cublasLtGetVersion(void) { return 120903; }
size_t cudnnGetVersion(void) { return 92800; }
int cufftGetVersion(int *version) { *version = 11401; return 0; }
int curandGetVersion(int *version) { *version = 10310; return 0; }
"""


@needs_compiler
def test_library_versions(tmp_path):
    """As these libraries number themselves (their headers: CUBLAS_VERSION, CUDNN_VERSION, ...)."""
    path = str(compile_library(VERSIONED, tmp_path / "libversioned.so"))
    found = {part.name: info.library_version(part, path) for part in PARTS if part.function}
    assert list(found.values()) == ["12.9", "13.0", "12.9.3", "9.28.0", "11.4.1", "10.3.10"]


@needs_compiler
def test_library_version_fails(tmp_path):
    source = "int cufftGetVersion(int *version) { return 5; }"
    path = str(compile_library(source, tmp_path / "libfailing.so"))
    cufft, curand = info.LIBRARIES[2:]
    assert info.attempt(info.library_version, cufft, path) == (None, "cufftGetVersion failed with status 5")
    assert "curandGetVersion" in info.attempt(info.library_version, curand, path)[1]


@needs_compiler
def test_driver_and_gpu_through_ctypes(tmp_path):
    """The whole way, with a stub of libcuda in place of the driver."""
    compile_library(STUB, tmp_path / "libcuda.so.1")
    shown = run("--json", LD_LIBRARY_PATH=str(tmp_path), NUMBA_ENABLE_CUDASIM="0")
    report = json.loads(shown.stdout)
    assert report["driver"] == {"version": "13.0", "path": str(tmp_path / "libcuda.so.1"), "problem": ""}
    assert report["runs_on"] == "GPU cuda:0 Stub GPU"
    assert list(report["gpus"][0].values()) == [0, "Stub GPU", "8.6", 20.0, 24.0, True, True, ""]
