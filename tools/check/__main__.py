"""Run every engine of cuDNN against the reference, on a GPU: `python -m tools.check conv`, or `attention`.

There are three further checks of convolutions: `activations` measures their errors after exact sums, `nan` looks
whether engines keep NaN and do not carry it to other groups, `overflow` whether sums beyond float16 become infinities.

An engine that gives wrong numbers, or ends the process, is found here and goes into `libraries.cudnn_rules`. The work
is done in separate processes. Where an engine ends a process, another one continues. Without a GPU `attention` is
planned for one that is not there, and not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from numbacc._version import __version__
from numbacc.base.dispatch import has_gpu
from numbacc.runtime import device as runtime
from numbacc_bindings.cudnn import CudnnError, cudnn

from . import attention_cases, conv_cases

#: Subject -> the module of this package that does its work, and the cases.
_SUBJECTS: dict[str, tuple[str, Callable[[], Iterator[Any]]]] = {
    "conv": ("conv_worker", conv_cases.cases),
    "activations": ("conv_worker", conv_cases.activation_cases),
    "nan": ("conv_worker", conv_cases.nan_cases),
    "overflow": ("conv_worker", conv_cases.overflow_cases),
    "attention": ("attention_worker", attention_cases.cases),
}
#: Those that are planned where there is no GPU.
_PLANNED = ("attention",)
#: What stands before the cases in a file of findings; the first files are without it.
_ABOUT = "about"
#: Workers start in the root of the checkout, where Python finds this package.
_ROOT = Path(__file__).parents[2]
#: Most time goes to compiling; each process takes half a gigabyte of the GPU's memory.
_WORKERS = max(1, min(12, (os.cpu_count() or 1) - 2))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit status is 1 where an engine that may be taken is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.check", description=__doc__.split("\n")[0])
    parser.add_argument("subject", choices=_SUBJECTS)
    parser.add_argument("--only", nargs="+", default=[""], help="only cases whose name has one of these in it")
    parser.add_argument("--part", type=_part, default=(1, 1), help="of these the k-th of n parts, as k/n")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no case after so many")
    parser.add_argument("--workers", type=int, default=_WORKERS, help="how many processes share the work")
    parser.add_argument("--json", type=Path, help="where to write all findings")
    chosen = parser.parse_args(argv)
    if not has_gpu():
        if chosen.subject not in _PLANNED:
            print("tools.check runs engines of cuDNN, and needs a GPU; there is none")
            return 1
        print("there is no GPU: nothing is run; cuDNN is asked for a plan of each case, for an H200")
    every = names(chosen.subject, chosen.only, chosen.part)
    found, done = _run_workers(chosen.subject, every, chosen.seconds, chosen.workers)
    if chosen.json:
        record = {_ABOUT: _about(chosen.subject), **summary(found)}
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in record.items())
        chosen.json.write_text(f"{{\n{lines}\n}}\n")
    if done < len(every):
        print(f"{done} of {len(every)} cases were done in {chosen.seconds:g} s")
    return _report(found)


def _about(subject: str) -> dict[str, Any]:
    """Of what findings are: the check, the GPU (None where none ran), the versions, and the day."""
    try:
        version = cudnn.version()
    except CudnnError:
        version = None
    gpu = runtime.device_name(0) if has_gpu() else None
    day = time.strftime("%Y-%m-%d")
    return {"subject": subject, "gpu": gpu, "cudnn": version, "numbacc": __version__, "date": day}


def findings(path: Path) -> dict[str, dict[str, str]]:
    """What `--json` wrote, without what stands before the cases: case -> what is fused and engine -> finding."""
    found: dict[str, dict[str, str]] = json.loads(path.read_text())
    found.pop(_ABOUT, None)
    return found


def _part(text: str) -> tuple[int, int]:
    """Of "2/3" the two numbers."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError(text)
    return number, count


def names(subject: str, only: Sequence[str] = ("",), part: tuple[int, int] = (1, 1)) -> list[str]:
    """The names of a subject's cases that have one of these in them, or of a part of these, whose kinds are alike."""
    number, count = part
    every = [case.name for case in _SUBJECTS[subject][1]() if any(word in case.name for word in only)]
    return every[number - 1 :: count]


def _run_workers(subject: str, every: Sequence[str], seconds: float, workers: int) -> tuple[list[dict[str, Any]], int]:
    """(what the workers found, in the order of the cases, how many of these were done)."""
    deadline, (module, cases) = time.monotonic() + seconds, _SUBJECTS[subject]
    # Unusual memory layouts may end the CUDA context, so each one gets a separate process per direction and dtype.
    apart = {
        case.name: (case.memory_layout, case.direction, case.dtype)
        for case in cases()
        if getattr(case, "memory_layout", "")
    }
    kinds: dict[Any, list[str]] = {}
    for name in (name for name in every if name in apart):
        kinds.setdefault(apart[name], []).append(name)
    rest = [name for name in every if name not in apart]
    shares = [share for share in (*(rest[start::workers] for start in range(workers)), *kinds.values()) if share]
    with ThreadPoolExecutor(workers) as pool:
        found = [each for some in pool.map(lambda share: _run_worker(module, share, deadline), shares) for each in some]
    places = {name: place for place, name in enumerate(every)}
    return sorted(found, key=lambda each: places[each["case"]]), len(every) - sum(map(len, shares))


def _run_worker(module: str, left: list[str], deadline: float) -> list[dict[str, Any]]:
    """What a worker found; what it was at when it ended is a finding, too."""
    # One that is started again tells of its last case's engines again.
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    skip: dict[str, list[int]] = {}
    while left and time.monotonic() < deadline:
        command = [sys.executable, "-m", f"{__package__}.{module}"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=_ROOT, **pipes) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({"cases": left, "skip": skip, "seconds": deadline - time.monotonic()}))
            process.stdin.close()
            at: dict[str, Any] | None = None
            has_failed = False
            for line in process.stdout:
                record = json.loads(line)
                if record["finding"] == "begins":
                    at = record
                    continue
                at = None
                if record["finding"] == "case done":
                    left.remove(record["case"])
                else:
                    found[_key(record)] = record
                    if record["finding"] == "failed":  # maybe the last that its context did
                        has_failed = True
                        skip.setdefault(record["case"], []).append(record["number"])
            process.wait()
        if at is None:
            if process.returncode and has_failed:
                continue  # the next one leaves out what failed
            break
        found[_key(at)] = {**at, "finding": "ended the process", "detail": f"exit status {process.returncode}"}
        skip.setdefault(at["case"], []).append(at["number"])
    return list(found.values())


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    """What a finding is of."""
    return record["case"], record["number"], *record["way"]


#: Findings from the best to the worst.
_ORDER = (
    "planned",
    "no plan",
    "kept",
    "right",
    "refused",
    "failed",
    "spread",
    "leaked",
    "lost",
    "wrong",
    "ended the process",
)


def summary(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The worst finding of each engine, whatever its knobs: case -> what is fused and engine -> finding.

    Example:
        "forward 2-d NHWC float16 bias" -> "41" -> "right 0.8", "bias 26" -> "wrong 2.3": times what is allowed
    """
    worst: dict[str, dict[str, dict[str, Any]]] = {}
    for each in found:
        engine = each["engine"].split(",")[0].removeprefix("engine ")
        engines = worst.setdefault(each["case"], {})
        key = " ".join(["+".join(each["way"]), engine]).strip()
        if key not in engines or _rank(each) > _rank(engines[key]):
            engines[key] = each
    return {
        case: {key: f"{each['finding']} {each['detail'].split(' of what')[0]}" for key, each in engines.items()}
        for case, engines in worst.items()
    }


def _rank(each: dict[str, Any]) -> tuple[int, float]:
    over = each["detail"].split(" of what")[0]
    return _ORDER.index(each["finding"]), float(over) if each["finding"] in ("right", "wrong") else 0.0


def _report(found: Sequence[dict[str, Any]]) -> int:
    counts = Counter(each["finding"] for each in found)
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing was run")
    bad = [
        each
        for each in found
        if each["finding"] in ("no plan", "leaked", "lost", "wrong", "ended the process", "failed")
    ]
    for each in bad:
        known = " (known)" if each.get("known") else ""
        print(f"{each['finding']}{known}: {each['case']}: {each['engine']}: {each['detail']}")
    return int(any(not each.get("known") for each in bad if each["finding"] != "failed"))


if __name__ == "__main__":
    sys.exit(main())
