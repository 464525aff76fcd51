"""Kernels compiled without a GPU, and what their PTX says: what memory they touch, how wide, in what order."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from numbacc.base import _numba
from numbacc.base.dtypes import TABLE
from numbacc.functions.epilogues import FORMULAS
from numbacc.kernels.specs import THREAD_BYTES, TILE, TILE_STEP, KernelSpec, compute_dtype, vector_thread_bytes
from numbacc.runtime import kernel_code, launch
from numbacc.runtime.launch_order import VECTOR_BYTES


@contextmanager
def pretended(capability):
    """Numba asks the current device for its compute capability when it compiles a device function."""
    with pytest.MonkeyPatch.context() as patch:
        device = SimpleNamespace(compute_capability=capability)
        patch.setattr("numba.cuda.dispatcher.get_current_device", lambda: device)
        yield


def spec(algorithm, formula, dtype, rank=1, wide=False, **more):
    """The spec of a kernel as plans make it: as many operands as the formula has, as much work a thread as pays."""
    function, size = FORMULAS[formula], TABLE[dtype].itemsize
    inputs = len(inspect.signature(function.function).parameters)
    outputs = len(function(*[1.0] * inputs))
    if algorithm == "vector":
        more |= {"width": VECTOR_BYTES // size, "lanes": vector_thread_bytes(inputs, size) // size}
    elif algorithm == "uneven":
        nbytes = THREAD_BYTES if size < 4 else vector_thread_bytes(inputs, size)
        more = {"width": max(4 // size, 1), "lanes": nbytes // size} | more
    elif algorithm == "tiled":
        rank, more = max(rank, 2), {"lanes": TILE // TILE_STEP} | more
    reads, writes = (dtype,) * inputs, (dtype,) * outputs
    return KernelSpec(algorithm, function, reads, writes, rank, wide, compute=compute_dtype(reads, writes), **more)


class Access(NamedTuple):
    """One load or store: "ld" or "st", its state space ("" is generic), its width."""

    operation: str
    space: str
    nbytes: int


_ACCESS = re.compile(r"^\s*(?:@!?%p\d+ )?(ld|st)((?:\.\w+)+)\s", re.MULTILINE)
_SPACES = ("global", "shared", "local", "param", "const")


class Ptx:
    """A kernel's PTX.

    Attributes:
        source: as compiled.
        text: with "name" for Numba's mangled names, which say anything and count.
        accesses: all loads and stores but those of the kernel's parameters, in the order of the text.
    """

    def __init__(self, source):
        self.source = source
        self.text = re.sub(r"\b_ZN\w+", "name", source)
        found = [_access(*match.groups()) for match in _ACCESS.finditer(self.text)]
        self.accesses = [access for access in found if access.space != "param"]

    @property
    def target(self):
        return re.search(r"^\.target (\w+)", self.text, re.MULTILINE).group(1)

    @property
    def shared_bytes(self):
        """Of shared memory, beside what a launch asks for."""
        return sum(map(int, re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", self.text)))

    def runs(self):
        """The widths of loads in a row, of the stores that follow, and so on: [("ld", [16, 16]), ("st", [16])]."""
        return [
            (operation, [access.nbytes for access in group])
            for operation, group in groupby(self.accesses, key=lambda access: access.operation)
        ]

    def usage(self, capability):
        """(registers, bytes spilled), as ptxas finds them."""
        return _usage(self.source, capability)


@lru_cache(maxsize=256)
def _usage(source, capability):
    command = [ptxas(), "-v", "-arch=sm_{}{}".format(*capability), "-", "-o", "/dev/null"]
    report = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stderr
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill", report)]
    assert len(spilled) == 2, report
    return int(re.search(r"Used (\d+) registers", report).group(1)), sum(spilled)


def _access(operation, modifiers):
    _, *parts = modifiers.split(".")
    space = next((part for part in parts if part in _SPACES), "")
    lanes = next((int(part[1:]) for part in parts if re.fullmatch(r"v\d", part)), 1)
    return Access(operation, space, lanes * int(re.fullmatch(r"[a-z]+(\d+)", parts[-1]).group(1)) // 8)


@lru_cache(maxsize=256)
def _ptx_of(kernel, capability):
    with pretended(capability):
        return _numba.compile_ptx(
            kernel_code.make(kernel), kernel_code.signature(kernel), capability, kernel.launch_bounds
        )


@lru_cache(maxsize=256)
def compiled(kernel, capability=(9, 0)):
    """The PTX of a kernel, given its spec."""
    return Ptx(_ptx_of(kernel, capability)[0])


def cubin(kernel, capability):
    """(entry point, machine code) of a kernel, given its spec. PTX that exists is not compiled again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "ptx_of", _ptx_of)
        return launch.compile_cubin(kernel, capability)


@lru_cache(maxsize=1)
def ptxas():
    """The path of NVIDIA's assembler in its wheel, or None."""
    for distribution in ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc"):
        try:
            files = importlib.metadata.files(distribution) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.stem == "ptxas" and file.parent.name == "bin":
                return str(file.locate())
    return None
