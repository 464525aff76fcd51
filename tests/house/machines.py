"""Machines made up for `python -m numbacc info`."""

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace
from typing import NamedTuple

from numbacc import info
from numbacc.runtime import device
from numbacc_bindings.driver import DeviceAttribute, DriverError

PARTS = info.COMPILER + info.LIBRARIES


def commands(report):
    return [step["do"] for step in report["to_do"]]


def row(rows, name):
    return next(r for r in rows if r["name"] == name)


class Gpu(NamedTuple):
    name: str
    capability: tuple[int, int]
    memory: tuple[int, int] = (100 * 2**30, 140 * 2**30)
    pools: int = 1


class Machine:
    """What the probes find: by default all that numbacc needs, and one H200 with a driver for CUDA 13.0."""

    def __init__(self):
        self.packages = {name: versions.strip("<>=").split(",")[0] for name, versions in info.REQUIRED.items()}
        self.packages |= {"cuda-bindings": "13.0", **{part.cu13: "13.0" for part in PARTS}}
        self.libraries = {part.name: f"/lib/lib{part.name}.so" for part in PARTS} | {"cuda": "/lib/libcuda.so.1"}
        self.versions = {"nvrtc": "13.0", "nvJitLink": "13.0", "cublasLt": "13.1.1", "cudnn": "9.28.0"}
        self.driver_version = 13000
        self.init_error = None
        self.gpus = [Gpu("NVIDIA H200", (9, 0))]

    def remove_wheels(self):
        """What there is of CUDA comes from elsewhere."""
        for name in ("cuda-bindings", *(part.cu13 for part in PARTS)):
            del self.packages[name]

    def use_cuda_12(self):
        """What is installed is of CUDA 12."""
        self.remove_wheels()
        self.packages |= {"cuda-bindings": "12.9", **{part.cu12: "12.9" for part in PARTS}}
        self.versions |= {"nvrtc": "12.9", "nvJitLink": "12.9"}

    def version(self, name):
        if name not in self.packages:
            raise importlib.metadata.PackageNotFoundError(name)
        return self.packages[name]

    def find(self, name):
        if name not in self.libraries:
            raise RuntimeError(f"searched everywhere for {name}\nhere\nand there")
        return self.libraries[name]

    def init(self, flags):
        if self.init_error:
            raise DriverError(self.init_error)

    def attribute(self, attribute, number):
        assert attribute == DeviceAttribute.MEMORY_POOLS_SUPPORTED
        return self.gpus[number].pools


def make_up(monkeypatch, tmp_path):
    """A machine that the probes of `info` see, until the test is over."""
    machine = Machine()
    for name in info.ENVIRONMENT.split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "cache"))
    # In `info` alone: other libraries ask for versions too.
    metadata = SimpleNamespace(version=machine.version)
    monkeypatch.setattr(info, "importlib", SimpleNamespace(metadata=metadata))
    monkeypatch.setattr(info, "find", machine.find)
    monkeypatch.setattr(info, "library_version", lambda part, path: machine.versions.get(part.name, "1.0"))
    monkeypatch.setattr(info, "driver", SimpleNamespace(cuDriverGetVersion=None, cuInit=machine.init))
    monkeypatch.setattr(device, "call", lambda function: machine.driver_version)
    monkeypatch.setattr(device, "device_count", lambda: len(machine.gpus))
    monkeypatch.setattr(device, "device_name", lambda n: machine.gpus[n].name)
    monkeypatch.setattr(device, "capability", lambda n: machine.gpus[n].capability)
    monkeypatch.setattr(device, "memory_info", lambda n: machine.gpus[n].memory)
    monkeypatch.setattr(device, "device_attribute", machine.attribute)
    return machine
