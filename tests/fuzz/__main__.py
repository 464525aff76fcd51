"""The command: starts processes that run cases, sees what becomes of them, and adds up."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

#: Modules of this package with a `run(case)`.
FAMILIES = (
    "gated", "gemm", "layers", "conv", "attention", "attention_float8", "elementwise", "formulas", "rows", "fft",
    "random", "arrays", "order", "graphs", "wrong",
)  # fmt: skip
_ROOT = Path(__file__).parents[2]
#: Seconds that a case may take before its process is ended.
_PATIENCE = 60
#: Seconds that workers have to finish their case when time is over; then they are killed, which is no failure.
_GRACE = 15
#: If a function raises an error in all of this many calls or more, that is a failure.
_OFTEN = 20
#: Messages of a family that are printed.
_MESSAGES = 5


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (60)")
    parser.add_argument("--cases", type=int, help="at most so many of each family")
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each family; the next has the next")
    parser.add_argument("--only", default=",".join(FAMILIES), help="families, with commas between: %(default)s")
    parser.add_argument("--shares", default="", help="family:share,...: how much time compared with others (1)")
    parser.add_argument("--place", choices=("cpu", "gpu", "simulator"), help="by default the GPU, if there is one")
    parser.add_argument("--processes", type=int, default=1, help="how many at once (1)")
    parser.add_argument("--brief", action="store_true", help="print of each failure a few lines, at the end")
    parser.add_argument("--json", type=Path, help="file for the figures")
    found = parser.parse_args(arguments)
    found.only = found.only.split(",")
    for family in found.only:
        if family not in FAMILIES:
            parser.error(f"{family!r} is no family; the families are {', '.join(FAMILIES)}")
    pairs = [each.partition(":") for each in found.shares.split(",") if each]
    if not all(family in FAMILIES and re.fullmatch(r"\d*\.?\d+", share) for family, _, share in pairs):
        parser.error(f"--shares {found.shares}: write family:share, as in conv:4,gated:0.5")
    found.shares = {family: float(share) for family, _, share in pairs}
    return found


def place_of(name):
    """The place as `conftest.Place` calls it."""
    if name is None:
        from numbacc.base.dispatch import has_gpu, simulated

        return "simulator" if simulated() else "gpu" if has_gpu() else "numpy"
    return "numpy" if name == "cpu" else name


class Process:
    """A worker, and those that take its place where one ends before its time."""

    def __init__(self, options, place, number, folder):
        self.options, self.place, self.end = options, place, time.monotonic() + options.seconds
        self.progress, self.report = folder / f"progress{number}", folder / f"report{number}"
        self.first = dict.fromkeys(options.only, options.seed + number)
        self.left = dict.fromkeys(options.only, options.cases)
        self.totals = Totals()
        self.start()

    def start(self):
        self.report.unlink(missing_ok=True)
        self.progress.write_text("")
        asked = {
            "place": self.place,
            "first": self.first,
            "step": self.options.processes,
            "seconds": self.end - time.monotonic(),
            "cases": self.left,
            "progress": str(self.progress),
            "report": str(self.report),
            "brief": self.options.brief,
            "shares": self.options.shares,
        }
        path = [str(_ROOT), str(_ROOT / "bindings"), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        if self.place == "simulator":
            env["NUMBA_ENABLE_CUDASIM"] = "1"
        elif self.place == "numpy":
            env["CUDA_VISIBLE_DEVICES"] = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", json.dumps(asked)], cwd=_ROOT, env=env
        )
        self.seen, self.since = "", time.monotonic()

    def poll(self):
        """True when there is no more to wait for."""
        now = self.progress.read_text()
        if now != self.seen:
            self.seen, self.since = now, time.monotonic()
        hung = time.monotonic() - self.since > _PATIENCE
        if hung:
            self.process.kill()
            self.process.wait()
        elif time.monotonic() > self.end + _GRACE:
            self.stop()
            return True
        status = self.process.poll()
        if status is None:
            return False
        found = self.collect()
        if status == 0:
            return True
        self.ended(status, hung, reported=found.get("done", False))
        if not self.seen.strip() or time.monotonic() > self.end:
            return True
        self.start()
        return False

    def stop(self):
        """Kill the worker, and keep its figures. It is not waited for: giving up a GPU can take seconds."""
        self.process.kill()
        self.collect()

    def collect(self):
        """Add the worker's figures to the totals; return them."""
        found = json.loads(self.report.read_text()) if self.report.exists() else {}
        self.totals.add(found)
        self.first.update(found.get("next", {}))
        if self.options.cases is not None:
            cases = found.get("cases", {})
            self.left = {family: most - cases.get(family, 0) for family, most in self.left.items()}
        return found

    def ended(self, status, hung, reported):
        """A process that ended by itself is a failure of the case at work."""
        why = (
            "took too long" if hung else f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        )
        family, seed = (*self.seen.split(), None)[:2] if self.seen.strip() else ("start", None)
        if seed is not None and not reported:
            self.first[family] = int(seed) + self.options.processes
        if reported:  # it has told of its failure itself
            return
        called = Path(f"{self.progress}.lines")
        lines = called.read_bytes().split(b"\0")[0].decode() if seed is not None and called.exists() else ""
        text = f"FAILED {family}, seed {seed}: the process ended, {why}"
        text = "\n".join([text, *(f"  {line}" for line in lines.splitlines())])
        if not self.options.brief:
            print(text, flush=True)
        alike = f"{family}: the process ended, {why}"
        self.totals.add({"failures": {alike: {"family": family, "seeds": [seed], "text": text}}})


class Totals:
    """Sums of what workers report."""

    def __init__(self):
        self.cases, self.seconds, self.calls, self.refusals, self.failures = Counter(), Counter(), {}, {}, {}

    def add(self, found):
        self.cases.update(found.get("cases", {}))
        self.seconds.update(found.get("seconds", {}))
        for name in ("calls", "refusals"):
            for family, counts in found.get(name, {}).items():
                getattr(self, name).setdefault(family, Counter()).update(counts)
        for alike, failure in found.get("failures", {}).items():
            known = self.failures.setdefault(alike, {**failure, "seeds": []})
            known["seeds"] += failure["seeds"]

    def refused(self):
        """Yield a failure for each function that was called often and raised an error each time."""
        for family, calls in self.calls.items():
            messages = self.refusals.get(family, {})
            for name, count in calls.items():
                own = {text: n for text, n in messages.items() if text.startswith(f"{name}: ")}
                if family != "wrong" and count >= _OFTEN and sum(own.values()) >= count:
                    alike = f"{family}: {name} refused all of {count} calls"
                    yield alike, {"family": family, "seeds": [None], "text": "\n".join([alike, *own])}

    def figures(self):
        return {
            "cases": dict(self.cases),
            "seconds": {family: round(t, 1) for family, t in self.seconds.items()},
            "calls": {family: dict(counts) for family, counts in self.calls.items()},
            "refusals": {family: dict(counts) for family, counts in self.refusals.items()},
            "failures": [{"alike": alike, **failure} for alike, failure in self.failures.items()],
        }


def main(arguments=None):
    options = parsed(arguments)
    place, began = place_of(options.place), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        running = [Process(options, place, number, Path(folder)) for number in range(options.processes)]
        processes = list(running)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            while running:
                running = [process for process in running if not process.poll()]
                time.sleep(0.05)
        except KeyboardInterrupt:
            print("Interrupted: these are the figures until now.", flush=True)
            for process in running:
                process.stop()
        finally:
            for process in running:
                process.process.kill()
    totals = Totals()
    for process in processes:
        totals.add({**process.totals.figures(), "failures": process.totals.failures})
    totals.add({"failures": dict(totals.refused())})
    told = {
        "place": place,
        "seed": options.seed,
        "processes": options.processes,
        "brief": options.brief,
        "wall_seconds": round(time.monotonic() - began, 1),
        **totals.figures(),
    }
    report(told)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if told["failures"] or not sum(told["cases"].values()) else 0


def report(told):
    """The figures as text."""
    print(f"\n{'family':16} {'cases':>8} {'calls':>8} {'seconds':>8}  refused, by error")
    for family, count in told["cases"].items():
        messages, by_type = told["refusals"].get(family, {}), Counter()
        for text, n in messages.items():
            by_type[text.split(": ")[1]] += n
        refused = ", ".join(f"{name} {n}" for name, n in sorted(by_type.items()))
        calls = sum(told["calls"].get(family, {}).values())
        print(f"{family:16} {count:8} {calls:8} {told['seconds'].get(family, 0):8}  {refused}")
        if family != "wrong":  # where any message may be
            for text, n in Counter(messages).most_common(_MESSAGES):
                print(f"{'':18}{n} x {text}")
    for failure in told["failures"]:
        seeds = failure["seeds"]
        print(
            f"{len(seeds)} x {failure['alike']}\n    seeds {', '.join(map(str, seeds[:8]))}{'...' * (len(seeds) > 8)}"
        )
        if told["brief"]:
            print("\n".join(f"    {line}" for line in brief(failure["text"])))
    count = sum(len(failure["seeds"]) for failure in told["failures"])
    print(f"{sum(told['cases'].values())} cases on {told['place']} in {told['wall_seconds']} s: {count} failed")


def brief(text):
    """Return the last call and the last lines of the error from a failure's text."""
    lines = text.splitlines()[1:]
    called = [line for line in lines if line.startswith("  ") and not line.startswith(("  |", "  again:"))]
    error = [line for line in lines if line.startswith("  |") and not line.startswith("  |   ")]
    return [line.strip()[:600] for line in [*called[-2:], *error[-2:]]]


if __name__ == "__main__":
    sys.exit(main())
