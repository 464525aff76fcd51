"""`python -m numbacc info`: report installed and missing software, and how to install it.

Every probe runs in `attempt`: a failure becomes text of the report, never an exception. So the report also works on
machines with problems, where it is needed most.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from numbacc_bindings.driver import DeviceAttribute, driver

from ._version import __version__
from .base import dispatch
from .base.dtypes import TABLE
from .runtime import device, disk_cache
from .runtime.installed import COMPILER, LIBRARIES, Part, find, library_version

Row = dict[str, Any]

#: Distribution -> the supported versions, as in setup.cfg.
REQUIRED = {
    "numba": ">=0.61",
    "numba-cuda": ">=0.30.4",
    "numpy": ">=2.1",
    "ml_dtypes": ">=0.5",
    "cuda-pathfinder": ">=1.8",
    "greenlet": ">=3.1",
    "cuda-core": ">=1.2",
}
#: Distributions that exist only for CUDA's platforms; and these, as `sys.platform` and `platform.machine()`.
CUDA_ONLY = {"numba-cuda", "cuda-core"}
CUDA_PLATFORMS = {("linux", "x86_64"), ("linux", "aarch64"), ("win32", "AMD64")}
BINDINGS = "cuda-bindings"  # the extras install it, in the version that fits
INSTALL = 'pip install "numbacc[{}]"'
#: Package, with other distributions that contain it -> the text if it is missing.
OPTIONAL = {
    "torch": "missing, optional",
    "jax": "missing, optional",
    "cupy cupy-cuda12x cupy-cuda13x": "missing, optional",
    "nccl4py": f"missing, for several GPUs: {INSTALL.format('nccl12')}",
    "scikit-learn": f"missing, for the demo: {INSTALL.format('demo')}",
    "tqdm": f"missing, for the demo: {INSTALL.format('demo')}",
}
_TENSOR_MEMORY = """on GPUs of compute capability 10.x and 11.x, wrong products together with another kernel that uses
Tensor Memory: https://docs.nvidia.com/cuda/cublas-patch-release-notes/""".replace("\n", " ")
#: (library, versions, the problem of these versions)
KNOWN_BAD = (
    ("cudnn", ">=9.8,<9.11", "wrong bf16 3-D convolutions: https://github.com/pytorch/pytorch/issues/163539"),
    ("cublasLt", ">=13,<13.1.1", _TENSOR_MEMORY),
    ("cublasLt", ">=13.6,<13.6.1", "2**31 float32 elements fail: https://github.com/NVIDIA/raft/issues/3097"),
)
ENVIRONMENT = "NUMBACC_CACHE_DIR NUMBA_ENABLE_CUDASIM NUMBACC_SIMULATE CUDA_VISIBLE_DEVICES CUDA_PATH LD_LIBRARY_PATH"
#: Environment variable -> the simulator that it replaces the GPU with.
SIMULATORS = {"NUMBA_ENABLE_CUDASIM": "Numba's simulator", "NUMBACC_SIMULATE": "the compiled simulator"}
SMI = "run nvidia-smi; where it fails too, restart the machine or reinstall the driver"
DRIVER = """on a machine with an NVIDIA GPU, install https://www.nvidia.com/drivers
(Ubuntu: sudo ubuntu-drivers install; WSL: in Windows; container: docker run --gpus all; Colab: GPU runtime)"""


def attempt(probe: Callable[..., Any], *args: Any) -> tuple[Any, str]:
    """Run a probe, and return (its result, ""), or (None, the reason) if it fails."""
    try:
        return probe(*args), ""
    except Exception as error:
        return None, str(error).strip() or type(error).__name__


def numbers(version: str) -> tuple[int, ...]:
    """Return the release part of a version: "2.5.0rc1" is (2, 5, 0)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(n) for n in found.group().split(".")) if found else ()


def within(version: str, versions: str) -> bool:
    """Return True if a version is in a range such as ">=2.1,<2.5"; "" contains every version."""
    clauses = [c for c in versions.split(",") if c]
    return all((numbers(version) >= numbers(c.lstrip("<>="))) == c.startswith(">") for c in clauses)


def known_bad(name: str, version: str | None) -> list[str]:
    """Return the known problems of this version."""
    return [what for n, versions, what in KNOWN_BAD if n == name and version and within(version, versions)]


def distribution_version(names: str) -> str | None:
    """Return the version of the first of these distributions that is installed."""
    found = [attempt(importlib.metadata.version, name)[0] for name in names.split()]
    return next(filter(None, found), None)


def package(names: str, versions: str, missing: str) -> Row:
    """Describe a Python package: its version and its problem."""
    name, version = names.split()[0], distribution_version(names)
    problem = "" if version else missing
    if version and not within(version, versions):
        problem = f"numbacc needs {versions}"
    return {"name": name, "version": version, "problem": problem}


def library(part: Part, extra: str) -> Row:
    """Describe a library: its version, wheel, path and problem."""
    path, problem = attempt(find, part.name)
    version = None
    if path and part.function:
        version, problem = attempt(library_version, part, path)
    # If the wheels for both CUDA versions are installed, the path decides: the wheels for CUDA 13 share a folder
    # "cu13".
    likely = part.cu13 if "cu13" in re.split(r"[/\\]", path or "") else getattr(part, extra)
    installed = [wheel for wheel in (likely, part.cu12, part.cu13) if distribution_version(wheel)]
    return {
        "name": part.name,
        "version": version,
        "wheel": [*installed, likely][0],
        "path": path,
        "problem": "; ".join(filter(None, [problem, *known_bad(part.name, version)])),
    }


def cuda_driver() -> Row:
    """Describe the CUDA driver: its path, the CUDA version that it supports, and its problem."""
    path, problem = attempt(find, "cuda")
    version = None
    if path:
        number, problem = attempt(lambda: device.call(driver.cuDriverGetVersion))
        version = f"{number // 1000}.{number % 1000 // 10}" if number else None
        problem = problem or attempt(lambda: driver.cuInit(0))[1]
    return {"version": version, "path": path, "problem": problem}


def gpu(number: int) -> Row:
    """Describe a GPU. The query of its free memory opens a context on it."""
    pools = partial(device.device_attribute, DeviceAttribute.MEMORY_POOLS_SUPPORTED)
    probes = (device.device_name, device.capability, device.memory_info, pools)
    (name, capability, memory, has_pools), problems = zip(*(attempt(p, number) for p in probes), strict=True)
    free, total = memory or (None, None)
    return {
        "number": number,
        "name": name,
        "capability": capability and "{}.{}".format(*capability),
        "free_gib": free and round(free / 2**30, 1),
        "total_gib": total and round(total / 2**30, 1),
        "bfloat16": capability and capability >= TABLE["bfloat16"].oldest_capability,
        "memory_pools": has_pools if has_pools is None else bool(has_pools),
        "problem": "; ".join(filter(None, dict.fromkeys(problems))),
    }


def cache() -> Row:
    """Describe the disk cache of compiled kernels, which has the layout of cuda.core's store."""
    directory = disk_cache.directory()
    sizes = [path.stat().st_size for path in (directory / "entries").rglob("*") if path.is_file()]
    # A folder that does not exist yet is created below the nearest existing one.
    existing = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    writable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    row = {"directory": str(directory), "entries": len(sizes), "bytes": sum(sizes)}
    return {**row, "writable": writable, "problem": ""}


def stack(cuda: Row, gpus: list[Row]) -> str:
    """Return the extra that fits this machine: the CUDA version of most of the installed packages.

    If both versions have equally many, the bindings decide, then the driver, then a compiler that does not come from a
    wheel. If the driver or a GPU is too old for CUDA 13, the answer is cu12.
    """
    newest = numbers(cuda["version"] or "")
    # The compiler of CUDA 13 supports no GPU older than compute capability 7.5.
    old = any(g["capability"] and numbers(g["capability"]) < (7, 5) for g in gpus)
    if old or (newest and newest < (13,)):
        return "cu12"
    bindings = numbers(distribution_version(BINDINGS) or "")[:1]
    for12, for13 = (
        (sum(map(bool, [*map(distribution_version, wheels), bindings == (major,)])), bindings == (major,))
        for major, wheels in ((n, [getattr(part, f"cu{n}") for part in COMPILER + LIBRARIES]) for n in (12, 13))
    )
    if for13 != for12:
        return "cu13" if for13 > for12 else "cu12"
    return "cu13" if newest or compiler_version([library(part, "cu13") for part in COMPILER]) >= (13,) else "cu12"


def gather() -> Row:
    """Return everything that the report contains, as plain data."""
    cuda = cuda_driver()
    gpus = [gpu(number) for number in range(attempt(device.device_count)[0] or 0)]
    extra = stack(cuda, gpus)
    here = (sys.platform, platform.machine())
    nothing = "no GPU" if here in CUDA_PLATFORMS else f"there is no CUDA for {' '.join(here)}"
    found = "GPU " + ", ".join("cuda:{number} {name}".format(**g) for g in gpus) if gpus else f"NumPy ({nothing})"
    needed = {**REQUIRED, BINDINGS: ""}
    if here not in CUDA_PLATFORMS:
        needed = {name: good for name, good in REQUIRED.items() if name not in CUDA_ONLY}
    packages = [package(name, good, "missing") for name, good in needed.items()]
    packages += [package(names, "", missing) for names, missing in OPTIONAL.items()]
    kept, no_cache = attempt(cache)
    report = {
        "version": __version__,
        "runs_on": SIMULATORS[simulated_by()] if dispatch.simulated() else found,
        "platform": attempt(platform.platform)[0],
        "python": {"version": platform.python_version(), "path": sys.executable},
        "packages": packages,
        "driver": cuda,
        "gpus": gpus,
        "install": INSTALL.format(extra),
        "compiler": [library(part, extra) for part in COMPILER],
        "libraries": [library(part, extra) for part in LIBRARIES],
        "cache": kept or {"writable": False, "problem": no_cache},
        "environment": {name: os.environ.get(name) for name in ENVIRONMENT.split()},
    }
    report["to_do"] = [{"what": what, "do": do} for what, do in to_do(report)]
    return report


def simulated_by() -> str:
    """Return the environment variable that chose the simulator."""
    return "NUMBACC_SIMULATE" if dispatch.compiles_own_kernels() else "NUMBA_ENABLE_CUDASIM"


def to_do(report: Row) -> Iterator[tuple[str, str]]:
    """Yield (problem, remedy) pairs, in the order of the steps to take."""
    bad = {row["name"] for row in report["packages"] if row["problem"]}
    base = [f'"{name}{versions}"' for name, versions in REQUIRED.items() if name in bad]
    if base:
        yield "packages are missing or of an unsuitable version", " ".join(["pip install", *base])
    parts = report["compiler"] + report["libraries"]
    bindings = {row["name"]: row for row in report["packages"]}.get(BINDINGS)
    if bindings:  # this is one of CUDA's platforms
        yield from driver_to_do(report)
        missing = [row["name"] for row in parts if not row["path"]] + [BINDINGS] * (BINDINGS in bad)
        if missing:
            yield f"missing: {', '.join(missing)}", report["install"]
        compiler, version = compiler_version(report["compiler"]), bindings["version"] or ""
        if compiler and version and numbers(version)[0] != compiler[0]:
            yield f"{BINDINGS} {version} is not for the compiler, of CUDA {compiler[0]}", report["install"]
    for row in parts:
        if row["path"] and row["problem"]:
            what = f"{row['name']} {row['version'] or ''}: {row['problem']}"
            yield what, f"pip install --upgrade {row['wheel']}"
    if not report["cache"]["writable"]:
        yield "the kernel cache cannot be written", "export NUMBACC_CACHE_DIR=a writable directory"
    if dispatch.simulated() and report["gpus"]:
        yield "the simulator hides the GPU", f"unset {simulated_by()}"


def compiler_version(rows: list[Row]) -> tuple[int, ...]:
    """Return the CUDA version of the compiler's libraries; () if they are missing."""
    return max(numbers(row["version"] or "") for row in rows)


def driver_to_do(report: Row) -> Iterator[tuple[str, str]]:
    """Yield the part of `to_do` about driver and GPUs."""
    found, gpus, visible = report["driver"], report["gpus"], report["environment"]["CUDA_VISIBLE_DEVICES"]
    version, problem = found["version"], found["problem"]
    if not found["path"] or (version and numbers(version) < (12,)):
        yield (f"the driver is for CUDA {version}, too old" if version else "no CUDA driver"), DRIVER
    elif not gpus and visible is not None and (not problem or "NO_DEVICE" in problem):
        yield f"no GPU, with CUDA_VISIBLE_DEVICES={visible!r}", "unset CUDA_VISIBLE_DEVICES"
    elif not gpus or problem:
        yield f"the driver does not work: {problem or 'it finds no GPU'}", SMI
    compiler = compiler_version(report["compiler"])
    if gpus and compiler >= (13,) and report["install"] == INSTALL.format("cu12"):
        yield f"driver or GPU is too old for the compiler, of CUDA {compiler[0]}", report["install"]
    for row in gpus:
        if row["problem"]:
            yield f"cuda:{row['number']} does not answer: {row['problem']}", SMI
        elif not row["memory_pools"]:
            yield f"cuda:{row['number']} lacks memory pools, which numbacc needs", "use another GPU"


def table(title: str, rows: list[Row]) -> str:
    """Format rows below the names of their columns. None is shown as "-", and a text by its first line."""
    cells = [list(row) for row in rows[:1]]
    cells += [["-" if c is None else (str(c).splitlines() or [""])[0] for c in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return "\n  ".join([title, *(lines or ["none"])])


def text(report: Row) -> str:
    """Format the report for reading."""
    steps = [f"{n}. {row['what']}\n{row['do']}" for n, row in enumerate(report["to_do"], 1)]
    sections = {k: v for k, v in report.items() if isinstance(v, (dict, list)) and k != "to_do"}
    blocks = [
        f"numbacc {report['version']} on {report['platform']}, runs on: {report['runs_on']}",
        *(table(key, value if isinstance(value, list) else [value]) for key, value in sections.items()),
        "\n  ".join(["What to do", *(step.replace("\n", "\n     ") for step in steps or ["nothing is missing"])]),
    ]
    return "\n\n".join(blocks)


def main(argv: list[str]) -> int:
    """Run the command line of `python -m numbacc info`."""
    parser = argparse.ArgumentParser(prog="python -m numbacc info", description="What is here, what is missing.")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(argv)
    report = gather()
    print(json.dumps(report, indent=2) if options.json else text(report))
    return 0
