"""Users' kernels in the compiled simulator and in Numba's own: threads a second, and seconds to compile.

Needs no GPU. `simulate_kernels` has the kernels; notebook 08 has twelve more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import numbacc

from . import simulate_kernels
from .harness import Report

#: Promises: checked threads a second; seconds to compile, unchecked and checked, and to load from the disk cache.
CHECKED, COMPILE, COMPILE_CHECKED, FROM_DISK = 5e6, 1.0, 3.0, 0.05
#: Launches of so many threads take less than a millisecond, and are repeated so often to find the time of an idle core.
SMALL, SMALL_REPEATS = 1 << 13, 200
#: Numba's simulator takes up to a minute for a kernel.
_TIMEOUT = 900


def run(report: Report, *, quick: bool = False) -> None:
    """Measure all kernels, each result checked first."""
    names = [name for name in simulate_kernels.subjects() if report.wants(name)]
    with tempfile.TemporaryDirectory() as cache:
        first = compiled(names, cache, 1 if quick else 5)
        second = compiled(names, cache, 0)  # only to load
    slow = {} if quick else in_numbas_simulator(names)
    for name in names:
        add(report, name, first[name], second[name], slow.get(name, {}))


def add(report: Report, name: str, made: Mapping[str, Any], loaded: Mapping[str, Any], slow: Mapping[str, Any]) -> None:
    """Report what was measured of a kernel."""
    if "why" in made:
        report.add(name=name, right=False, missing={"result": made["why"]})
        return
    right = made["right"] and made["checked_right"] and loaded.get("right", False) and slow.get("right", True)
    beside = {}
    if "threads_per_s" in slow:
        beside = {"numba_threads_per_s": slow["threads_per_s"], "factor": made["rate"] / slow["threads_per_s"]}
    elif "why" in slow:
        beside = {"missing": {"Numba's simulator": slow["why"]}}
    report.add(name=f"{name}, unchecked", right=right, threads=made["threads"], threads_per_s=made["rate"], **beside)
    report.add(
        name=f"{name}, checked",
        right=right,
        threads=made["checked_threads"],
        threads_per_s=made["checked_rate"],
        bound=CHECKED,
        holds=made["checked_rate"] >= CHECKED,
    )
    for what, seconds, bound in (
        ("compile", made["seconds"], COMPILE),
        ("compile checked", made["checked_seconds"], COMPILE_CHECKED),
        ("from disk", loaded["seconds"], FROM_DISK),
        ("from disk checked", loaded["checked_seconds"], FROM_DISK),
    ):
        report.add(name=f"{name}, {what}", seconds=seconds, bound=bound, holds=seconds <= bound)


def table(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of a run as the table of docs/simulator.md."""
    by_name = {figure["name"]: figure for figure in figures}
    lines = [
        "| kernel | threads | threads/s | checked | Numba's simulator | compile, s | checked, s | from disk, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (each.removesuffix(", unchecked") for each in by_name if each.endswith(", unchecked")):
        fast, checked = by_name[f"{name}, unchecked"], by_name[f"{name}, checked"]
        numba = fast.get("numba_threads_per_s")
        seconds = [by_name[f"{name}, {what}"]["seconds"] for what in ("compile", "compile checked", "from disk")]
        cells = [
            name, f"{fast['threads']:,}", _rate(fast["threads_per_s"]), _rate(checked["threads_per_s"]),
            "" if numba is None else f"{numba:,.0f}", *(f"{each:.2f}" for each in seconds),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rate(number: float) -> str:
    """A rate with two digits: 3.2e9."""
    return f"{number:.1e}".replace("e+0", "e").replace("e+", "e")


# ---------------------------------------------------------------- processes


def _lines(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Run a module of this package; return the lines that it printed, by name, even if it failed or took too long."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env={**os.environ, **environment}, stdout=out, stderr=errors
        )
        try:
            process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        out.seek(0)
        errors.seek(0)
        found = {line["name"]: line for line in map(json.loads, out.read().splitlines())}
        if process.returncode:
            last = (errors.read().strip().splitlines() or ["took too long"])[-1]
            print(f"{command[0]}: {last}", file=sys.stderr)
    return found


def in_numbas_simulator(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each kernel's threads a second in Numba's own simulator, of about 1,024 threads. numbacc is not imported."""
    return _lines([f"{__package__}.simulate_kernels", *names], {"NUMBA_ENABLE_CUDASIM": "1"})


def compiled(names: Sequence[str], cache: str, repeats: int) -> dict[str, dict[str, Any]]:
    """Each kernel in the compiled simulator, in a new process whose compiled code is kept in a folder.

    Args:
        repeats: launches of the full size; 0 for first launches only.
    """
    environment = {"NUMBACC_CACHE_DIR": cache, "NUMBA_ENABLE_CUDASIM": "0"}
    found = _lines([f"{__package__}.simulate", str(repeats), *names], environment)
    return {name: found.get(name, {"name": name, "why": "its process ended"}) for name in names}


def _timed(case: simulate_kernels.Case, args: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    case.kernel[case.launch](*args)
    return time.perf_counter() - start


def _measured(subject: simulate_kernels.Subject, checked: bool, repeats: int) -> dict[str, Any]:
    """Time a kernel: the first launch minus the next, and the fastest of `repeats` launches of the full size."""
    small = subject.make(min(1024, subject.threads))
    right, seconds = True, []
    for _ in range(3):
        args = small.fresh()
        seconds.append(_timed(small, args))
        right = right and small.is_right(args)
    found = {"seconds": max(0.0, seconds[0] - min(seconds[1:])), "right": right}
    if repeats:
        case = subject.make(subject.checked if checked else subject.threads)
        best, is_small = float("inf"), case.threads <= SMALL and repeats > 1
        for _ in range(1 if is_small else repeats):
            # Results of small launches are checked after all of them, because NumPy's work would slow the next one.
            launches = [case.fresh() for _ in range(SMALL_REPEATS if is_small else 1)]
            best = min(best, *[_timed(case, args) for args in launches])
            found["right"] = found["right"] and all(map(case.is_right, launches))
        found |= {"threads": case.threads, "rate": case.threads / best}
    return {f"checked_{key}": value for key, value in found.items()} if checked else found


def _main(repeats: int, names: Sequence[str]) -> None:
    subjects = simulate_kernels.subjects()
    for checked in (False, True):  # the first kernel of a process loads Numba's compiler
        with numbacc.simulate(checked=checked):
            simulate_kernels.warm_up[1, 32](np.zeros(32, np.float32))
    for name in names:
        line: dict[str, Any] = {"name": name}
        try:
            for checked in (False, True):
                with numbacc.simulate(checked=checked):
                    line |= _measured(subjects[name], checked, repeats)
        except Exception as error:
            line["why"] = f"{type(error).__name__}: {error}"[:200]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(table(json.loads(Path(sys.argv[2]).read_text())["figures"]))
    else:
        _main(int(sys.argv[1]), sys.argv[2:])
