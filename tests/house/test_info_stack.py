"""`python -m numbacc info` names the extra and the wheels of the stack that is there: CUDA 12's or CUDA 13's."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from machines import PARTS, Gpu, commands, make_up, row

from numbacc import info


@pytest.fixture
def machine(monkeypatch, tmp_path):
    return make_up(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("version", "capability", "extra"),
    [(12000, (8, 0), "cu12"), (12090, (9, 0), "cu12"), (13000, (7, 5), "cu13"), (13020, (10, 0), "cu13")]
    # CUDA 13 has no compiler for these.
    + [(13000, (7, 0), "cu12")],
)
def test_extra_follows_the_driver_where_nothing_is_installed(machine, version, capability, extra):
    machine.driver_version, machine.gpus = version, [Gpu("GPU", capability)]
    machine.remove_wheels()
    machine.versions |= {"nvrtc": "12.9", "nvJitLink": "12.9"}
    del machine.libraries["cufft"]
    assert commands(info.gather()) == [f'pip install "numbacc[{extra}]"']


@pytest.mark.parametrize("version", [None, 13000])
def test_extra_is_that_of_the_wheels(machine, version):
    """Those of CUDA 12 run with a newer driver; those of CUDA 13 wait for theirs."""
    machine.driver_version = version
    if not version:
        del machine.libraries["cuda"]
        machine.gpus = []
    del machine.libraries["cufft"]
    assert commands(info.gather())[-1] == 'pip install "numbacc[cu13]"'
    machine.use_cuda_12()
    assert commands(info.gather())[-1] == 'pip install "numbacc[cu12]"'


def test_bindings_alone_decide(machine):
    machine.remove_wheels()
    machine.packages["cuda-bindings"] = "12.9.1"
    machine.libraries = {"cuda": machine.libraries["cuda"]}
    machine.versions = {}
    assert commands(info.gather()) == ['pip install "numbacc[cu12]"']


def test_bindings_decide_where_one_wheel_is_of_the_other(machine):
    """numbacc's own extras for tests and notebooks bring a cuRAND of CUDA 12."""
    machine.remove_wheels()
    machine.packages |= {"cuda-bindings": "13.0.1", "nvidia-curand-cu12": "10.3"}
    del machine.libraries["cuda"], machine.libraries["cufft"]
    machine.gpus = []
    assert commands(info.gather())[-1] == 'pip install "numbacc[cu13]"'


@pytest.mark.parametrize("version, extra", [("13.0", "cu13"), ("12.9", "cu12")])
def test_a_compiler_that_no_wheel_brought_decides_where_there_is_no_driver(machine, version, extra):
    machine.remove_wheels()
    machine.versions |= {"nvrtc": version, "nvJitLink": version}
    del machine.libraries["cuda"], machine.libraries["cufft"]
    machine.gpus = []
    assert commands(info.gather())[-1] == f'pip install "numbacc[{extra}]"'


def test_bindings_of_another_cuda_than_the_libraries(machine):
    machine.packages["cuda-bindings"] = "12.9.1"
    del machine.packages["nvidia-cudnn-cu13"]
    machine.versions["cudnn"] = "9.9.0"
    report = info.gather()
    assert report["to_do"][0] == {
        "what": "cuda-bindings 12.9.1 is not for the compiler, of CUDA 13",
        "do": 'pip install "numbacc[cu13]"',
    }
    assert commands(report)[1:] == ["pip install --upgrade nvidia-cudnn-cu13"]


@pytest.mark.parametrize(("folder", "wheel"), [("cu13/lib", "cu13"), ("cufft/lib", "cu12")])
def test_the_wheel_of_a_library_where_both_are_installed(machine, folder, wheel):
    machine.driver_version = 12080
    machine.packages["nvidia-cufft-cu12"] = "11.4"
    machine.libraries["cufft"] = f"/site-packages/nvidia/{folder}/libcufft.so"
    part = next(part for part in PARTS if part.name == "cufft")
    assert row(info.gather()["libraries"], "cufft")["wheel"] == getattr(part, wheel)


@pytest.mark.parametrize(("system", "processor"), [("darwin", "arm64"), ("win32", "ARM64"), ("linux", "ppc64le")])
def test_nothing_is_missing_where_there_is_no_cuda(machine, monkeypatch, system, processor):
    machine.remove_wheels()
    del machine.packages["numba-cuda"], machine.packages["cuda-core"]
    machine.libraries, machine.gpus = {}, []
    monkeypatch.setattr(info, "sys", SimpleNamespace(platform=system, executable=sys.executable))
    monkeypatch.setattr(info.platform, "machine", lambda: processor)
    report = info.gather()
    assert report["runs_on"] == f"NumPy (there is no CUDA for {system} {processor})"
    assert report["to_do"] == []
    assert {"numba-cuda", "cuda-core", "cuda-bindings"}.isdisjoint(r["name"] for r in report["packages"])
    assert "nothing is missing" in info.text(report)


@pytest.mark.parametrize(("version", "capability"), [(12080, (9, 0)), (13000, (7, 0))])
def test_compiler_too_new(machine, version, capability):
    machine.driver_version, machine.gpus = version, [Gpu("GPU", capability)]
    (step,) = info.gather()["to_do"]
    assert step["what"] == "driver or GPU is too old for the compiler, of CUDA 13"
    assert step["do"] == 'pip install "numbacc[cu12]"'


def test_driver_too_old(machine):
    machine.driver_version = 11080
    machine.use_cuda_12()
    (step,) = info.gather()["to_do"]
    assert step == {"what": "the driver is for CUDA 11.8, too old", "do": info.DRIVER}


def test_upgrade_names_the_wheel_that_is_installed(machine):
    del machine.packages["nvidia-cudnn-cu13"]
    machine.packages["nvidia-cudnn-cu12"] = machine.versions["cudnn"] = "9.9.0"
    assert commands(info.gather()) == ["pip install --upgrade nvidia-cudnn-cu12"]
