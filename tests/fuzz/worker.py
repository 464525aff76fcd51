"""The process that runs cases: `python -m tests.fuzz.worker` with the arguments that `tests.fuzz` gives it."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections import Counter

import simulated_blocks
from conftest import poisoned

import numbacc

from .case import Case, plain
from .large import as_if_large
from .operands import FuzzPlace

_LIBRARY = os.path.dirname(numbacc.__file__)
#: What the process ends with when the GPU no longer answers, so that another must go on.
GPU_LOST = 77
#: How often a case runs on a GPU, each time with arrays in other places, and families whose cases run once.
_WAYS = 3
_ONCE = ("arrays", "order", "graphs", "wrong")
#: Failures alike that are printed in full.
_PRINTED = 2


class Worker:
    """Cases of several families, each family given the same time.

    Args:
        place: "numpy", "simulator" or "gpu".
        first: family -> the seed it begins with.
        step: how far apart seeds are: there may be others at work.
        progress: file for the current family and seed, for those who see this process end. A file with ".lines" after
            its name holds the calls of the case so far.
        report: file for the figures, written every second.
        brief: whether failures are not printed when they occur.
        shares: family -> its share of the time, compared with a family that is not in it.
    """

    def __init__(self, place, first, step, progress, report, brief=False, shares=None):
        self.place, self.step = FuzzPlace(place), step
        modules = {family: importlib.import_module(f".{family}", __package__) for family in first}
        # Some families are for some places only.
        self._run = {name: m.run for name, m in modules.items() if getattr(m, "available", lambda _: True)(self.place)}
        self.next = {family: seed for family, seed in first.items() if family in self._run}
        self.used = dict.fromkeys(self.next, 0.0)
        self.cases, self.calls, self.refusals, self.failures = Counter(), {}, {}, {}
        self._progress, self._lines = (
            os.open(path, os.O_WRONLY | os.O_CREAT) for path in (progress, f"{progress}.lines")
        )
        self._at = 0
        self._report, self._told, self._brief, self._shares = report, time.perf_counter(), brief, shares or {}

    def run(self, seconds, most):
        """Run cases for so long, or so many of each family: one number for all, or for each its own."""
        end = time.perf_counter() + seconds
        most = most if isinstance(most, dict) else dict.fromkeys(self.next, most)
        with poisoned():
            while time.perf_counter() < end:
                open_ = [family for family in self.next if most[family] is None or self.cases[family] < most[family]]
                if not open_:
                    return
                self.one(min(open_, key=lambda family: self.used[family] / self._shares.get(family, 1)))
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
        start = time.perf_counter()
        self.cases[family] += 1
        # Compiling a kernel or making a plan takes long on a GPU: it is used with arrays in several places.
        is_repeated = self.place.name == "gpu" and family not in _ONCE
        with as_if_large(Case(family, seed, self.place)) as large:
            for way in range(_WAYS if is_repeated else 1):
                if not self.attempt(Case(family, seed, self.place, way), large):
                    break
        self.used[family] += time.perf_counter() - start

    def attempt(self, case, large):
        """Run a case; return whether it passed."""
        case.told, self._at = self.told, 0
        os.pwrite(self._lines, b"\0", 0)
        for line in large:
            case.note(line)
        try:
            self._run[case.family](case)
            case.buffers.assert_untouched()
            # An error that a kernel causes late belongs to this case, not to the next.
            self.place.settle()
            return True
        except Exception as error:
            self.failed(case, error)
            return False
        finally:
            self.calls.setdefault(case.family, Counter()).update(case.calls)
            self.refusals.setdefault(case.family, Counter()).update(case.refusals)

    def told(self, line):
        """Write down what a case calls before it does: the process may end there."""
        text = f"{line}\n".encode()
        os.pwrite(self._lines, text + b"\0", self._at)
        self._at += len(text)

    def failed(self, case, error):
        """Print what happened, and go on, if the GPU does."""
        alike = f"{case.family}: {signature(error)}"
        found = self.failures.setdefault(alike, {"family": case.family, "seeds": [], "text": ""})
        found["seeds"].append(case.seed)
        text = described(case, error)
        found["text"] = found["text"] or text
        if len(found["seeds"]) <= _PRINTED and not self._brief:
            print(text, flush=True)
        if self.place.name == "gpu":
            try:
                self.place.settle()
            except Exception as lost:
                found["text"] += f"\n  The GPU no longer answers: {lost}"
                print(f"The GPU no longer answers after {case.family}, seed {case.seed}: {lost}", flush=True)
                raise SystemExit(GPU_LOST) from None

    def figures(self):
        return {
            "cases": dict(self.cases),
            "seconds": {family: round(t, 2) for family, t in self.used.items()},
            "calls": {family: dict(c) for family, c in self.calls.items() if c},
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
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    where = next((f for f in reversed(frames) if f.filename.startswith(_LIBRARY)), frames[-1])
    return f"{type(error).__name__} in {os.path.basename(where.filename)}:{where.name}: {plain(error)}"


def main():
    asked = json.loads(sys.argv[1])
    if asked["place"] == "simulator":
        simulated_blocks.shrink(setattr)
    worker = Worker(*(asked[name] for name in ("place", "first", "step", "progress", "report", "brief", "shares")))
    try:
        worker.run(asked["seconds"], asked["cases"])
    finally:
        worker.tell(done=True)


if __name__ == "__main__":
    main()
