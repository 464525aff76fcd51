"""The process that runs cases: `python -m tests.fuzz.worker` with the arguments that `tests.fuzz` gives it."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import time
import traceback
from collections import Counter

import simulated_blocks
from conftest import poisoned

import numbacc

from .case import Case
from .large import as_if_large
from .operands import FuzzPlace

_LIBRARY = os.path.dirname(numbacc.__file__)
#: What the process ends with when the GPU no longer answers, so that another must go on.
GPU_LOST = 77
#: Failures alike that are printed in full.
_PRINTED = 2


class Worker:
    """Cases of several families, each family given the same time.

    Args:
        place: "numpy", "simulator" or "gpu".
        first: family -> the seed it begins with.
        step: how far apart seeds are: there may be others at work.
        progress: file that the family and seed at work are written to, for those who see this process end.
        report: file for the figures, written every second.
    """

    def __init__(self, place, first, step, progress, report):
        self.place, self.step = FuzzPlace(place), step
        modules = {family: importlib.import_module(f".{family}", __package__) for family in first}
        # Some families are for some places only.
        self._run = {name: m.run for name, m in modules.items() if getattr(m, "available", lambda _: True)(self.place)}
        self.next = {family: seed for family, seed in first.items() if family in self._run}
        self.used = dict.fromkeys(self.next, 0.0)
        self.cases, self.refusals, self.failures = Counter(), {}, {}
        self._progress = os.open(progress, os.O_WRONLY | os.O_CREAT)
        self._report, self._told = report, time.perf_counter()

    def run(self, seconds, most):
        """Run cases for so long, or `most` of each family."""
        end = time.perf_counter() + seconds
        with poisoned():
            while time.perf_counter() < end:
                open_ = [family for family in self.next if most is None or self.cases[family] < most]
                if not open_:
                    return
                self.one(min(open_, key=self.used.__getitem__))
                if time.perf_counter() - self._told > 1:
                    self.tell(done=False)

    def tell(self, done):
        """Write the figures; `done` says that whoever reads them need ask no further."""
        self._told = time.perf_counter()
        with open(f"{self._report}.new", "w") as file:
            json.dump({**self.figures(), "done": done}, file)
        os.replace(f"{self._report}.new", self._report)

    def one(self, family):
        """The next case of a family."""
        seed = self.next[family]
        self.next[family] += self.step
        os.pwrite(self._progress, f"{family} {seed}".ljust(80).encode(), 0)
        case, start = Case(family, seed, self.place), time.perf_counter()
        try:
            with as_if_large(case):
                self._run[family](case)
        except Exception as error:
            self.failed(case, error)
        self.used[family] += time.perf_counter() - start
        self.cases[family] += 1
        self.refusals.setdefault(family, Counter()).update(case.refusals)

    def failed(self, case, error):
        """Print what happened, and go on, if the GPU does."""
        alike = f"{case.family}: {signature(error)}"
        found = self.failures.setdefault(alike, {"family": case.family, "seeds": [], "text": ""})
        found["seeds"].append(case.seed)
        text = described(case, error)
        found["text"] = found["text"] or text
        if len(found["seeds"]) <= _PRINTED:
            print(text, flush=True)
        if self.place.name == "gpu":
            try:
                self.place.settle()
            except Exception as lost:
                print(f"The GPU no longer answers: {lost}", flush=True)
                raise SystemExit(GPU_LOST) from None

    def figures(self):
        return {
            "cases": dict(self.cases),
            "seconds": {family: round(t, 2) for family, t in self.used.items()},
            "refusals": {family: dict(c) for family, c in self.refusals.items() if c},
            "failures": self.failures,
            "next": self.next,
        }


def described(case, error):
    """A failure in words: what was called, on what, what came of it, and how to see it again."""
    trace = traceback.format_exception(type(error), error, error.__traceback__)
    lines = [
        f"FAILED {case.family}, seed {case.seed}, on {case.place.name}",
        *(f"  {line}" for line in case.lines),
        *(f"  | {line}" for line in "".join(trace).rstrip().splitlines()[-30:]),
        f"  again: python -m tests.fuzz --place {case.place.name.replace('numpy', 'cpu')} --only {case.family} "
        f"--seed {case.seed} --cases 1",
    ]
    return "\n".join(lines)


def signature(error):
    """The same text for errors that are alike: the type, where it was raised, and what it says but for numbers."""
    text = re.sub(r"[-+]?\d[\d.e+x]*|'[^']*'|<[^>]*>", "#", str(error).split("\n")[0])[:120]
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    where = next((f for f in reversed(frames) if f.filename.startswith(_LIBRARY)), frames[-1])
    return f"{type(error).__name__} in {os.path.basename(where.filename)}:{where.name}: {text}"


def main():
    asked = json.loads(sys.argv[1])
    if asked["place"] == "simulator":
        simulated_blocks.shrink(setattr)
    worker = Worker(*(asked[name] for name in ("place", "first", "step", "progress", "report")))
    try:
        worker.run(asked["seconds"], asked["cases"])
    finally:
        worker.tell(done=True)


if __name__ == "__main__":
    main()
