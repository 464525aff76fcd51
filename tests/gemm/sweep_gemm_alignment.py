"""Which alignments matrix products survive: every pointer, pitch and batch stride, every dtype and epilogue.

    python tests/gemm/sweep_gemm_alignment.py [--quick] [--seconds 240] [--workers 12] [--json FILE]
    python tests/gemm/sweep_gemm_alignment.py --raw ...

Cases run in worker processes on one GPU, each checked against the float64 oracle, and for writes beside its results. A
case that ends a process or its CUDA context is noted, and the next ones run in a new process; whatever went wrong is
run again at the end, alone in a process of its own. As it is, the sweep runs `gemm.matmul`, of which every case must be
right or refused in words (exit status 1 if not). With `--raw` it gives the arrays to cuBLASLt as they are, with each of
the algorithms that its heuristics propose for such pointers: that is what `numbacc.gemm.alignment` should know.

The table has a line for each thing varied and each way in which that turned out: outcomes by bytes (`start` is the
alignment of the pointer, `pitch` and `batch` what rows and matrices are further apart than dense ones), then for which
products. `.` right, `r` refused or not offered, `S` the call failed (status), `W` wrong, `X` process or context lost,
`H` hung, `E` another error, `-` not run. Products that are right everywhere have no line; JSON has every case that was
not right, with message and algorithm. In Numba's simulator it tests itself.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from gemm_sweep_cases import ATTEMPTS, EPILOGUES, SHAPES, combinations, described, tasks

HERE = Path(__file__).resolve().parent
#: The worst first.
MARKS = {"crash": "X", "hang": "H", "wrong": "W", "status": "S", "error": "E", "refused": "r", "ok": ".", "": "-"}
BAD = ("crash", "hang", "wrong", "status", "error")


class Worker:
    """A process that works."""

    def __init__(self):
        self.lines = queue.Queue()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        path = [
            HERE,
            *(HERE.parent / name for name in ("support", "oracles", ".")),
            *(HERE.parents[1] / name for name in (".", "bindings")),
        ]
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, path), environment.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, HERE / "gemm_sweep_worker.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.errors = collections.deque(maxlen=20)
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        self.ready = self.next(120) == ["ready"]

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.process.wait()
        self.lines.put(None)

    def next(self, seconds):
        """What it says next; None at its end, "late" where it says nothing for so long."""
        try:
            return self.lines.get(timeout=max(seconds, 0.01))
        except queue.Empty:
            return "late"

    def send(self, task):
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended, as `next` says

    def end(self):
        self.process.kill()
        self.process.wait()


class Sweep:
    """All results, and the threads that feed the workers."""

    def __init__(self, raw, seconds):
        self.raw, self.started = raw, time.monotonic()
        self.deadline = self.started + seconds
        self.lock = threading.Lock()
        self.worst = {}
        self.counts = collections.Counter()
        self.bad, self.restarts, self.broken = [], 0, ""

    def note(self, given, attempt, outcome, text):
        name, nbytes = described(given)
        key = given["product"], given["epilogue"], name, nbytes
        with self.lock:
            self.counts[outcome] += 1
            before = self.worst.get(key, "ok")
            self.worst[key] = min(before, outcome, key=list(MARKS).index)
            if outcome in BAD:
                self.bad.append({"case": given, "attempt": attempt, "outcome": outcome, "text": text[-600:]})

    def is_known(self, given):
        """True if something like it has ended a context already."""
        name, nbytes = described(given)
        return nbytes and self.worst.get((given["product"], given["epilogue"], name, nbytes)) in ("crash", "hang")

    def feed(self, source):
        """Have tasks done until there are none, or no time."""
        worker = None
        while time.monotonic() < self.deadline and not self.broken:
            with self.lock:
                task = next(source, None)
            if task is None:
                break
            worker = self.run([given for given in task[1] if not self.is_known(given)], worker)
        if worker is not None:
            worker.end()

    def run(self, cases, worker, alone=False):
        """Run cases, in new processes where one ends, and return the last."""
        position = attempt = 0
        while position < len(cases) and (alone or time.monotonic() < self.deadline):
            if worker is None:
                worker = Worker()
                if not worker.ready:
                    self.broken = "a worker did not start: " + "".join(worker.errors)
                    return None
                self.restarts += 1
            first = position == 0 and attempt == 0 and not alone
            worker.send({"cases": cases[position:], "attempt": attempt, "raw": self.raw, "first": first})
            base, current = position, None
            while True:
                # Time for a case, with the compiling of its kernels.
                said = worker.next(90 if alone else min(90, self.deadline - time.monotonic() + 5))
                if said == ["done"]:
                    return worker
                if said is None or said == "late":
                    late = said == "late"
                    worker.end()
                    if current is not None and not (late and not alone and time.monotonic() > self.deadline):
                        code = f"exit status {worker.process.returncode}: {''.join(worker.errors)}"
                        self.note(cases[current[0]], current[1], "hang" if late else "crash", "" if late else code)
                    worker = None
                    break
                what, index, *rest = said
                if what == "begin":
                    current, position, attempt = (base + index, rest[0]), base + index, rest[0]
                else:
                    self.note(cases[base + index], *rest)
                    current = None
            # The next algorithm of the case that ended the process, or the next case.
            position, attempt = (position, attempt + 1) if self.raw else (position + 1, 0)
            if self.raw and attempt >= ATTEMPTS:
                position, attempt = position + 1, 0
        return worker

    def again(self, most):
        """Run what went wrong once more, one kind after the other, each alone in a process."""
        kinds = {}
        for each in self.bad:
            kinds.setdefault((each["case"]["product"], each["case"]["epilogue"], *described(each["case"])), each)
        for each in list(kinds.values())[:most]:
            found = Sweep(self.raw, 0)
            worker = found.run([each["case"]], None, alone=True)
            if worker is not None:
                worker.end()
            each["again, alone"] = dict(found.counts)
        return len(kinds)


def table(worst):
    """Lines: outcomes of what was varied, and for which products and epilogues."""
    rows = collections.defaultdict(dict)
    for (product, epilogue, name, nbytes), outcome in worst.items():
        rows[product, epilogue, name][nbytes] = outcome
    alike = collections.defaultdict(lambda: collections.defaultdict(list))
    for (product, epilogue, name), found in sorted(rows.items()):
        if set(found.values()) != {"ok"}:
            text = " ".join(f"{n or ''}{MARKS[found[n]]}" for n in sorted(found))
            alike[name, text][product].append(epilogue)
    for (name, text), products in sorted(alike.items()):
        by_epilogues = collections.defaultdict(list)
        for product, epilogues in products.items():
            whole = "all" if len(epilogues) == len(EPILOGUES) else ",".join(epilogues)
            by_epilogues[whole].append(product)
        yield f"{name:28} {text}"
        for epilogues, products in by_epilogues.items():
            yield f"        {'; '.join(products)}: {epilogues}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few products and alignments, one shape")
    parser.add_argument("--raw", action="store_true", help="cuBLASLt as it is, without numbacc's protection")
    parser.add_argument(
        "--seconds", type=float, default=240, help="time for the sweep; then what went wrong runs again"
    )
    parser.add_argument("--workers", type=int, default=12, help="processes at a time")
    parser.add_argument("--again", type=int, default=16, help="how many kinds of wrong cases are run again, alone")
    parser.add_argument("--json", type=Path, help="file for everything that was not right")
    parser.add_argument("--lines", type=int, default=120, help="lines of the table that are printed")
    parser.add_argument("--only", default="", help="products and epilogues to run: e.g. 'e4m3 > bf16 fast:relu_bias'")
    options = parser.parse_args()
    simulated = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
    shapes = [(16, 32, 32)] if simulated else SHAPES
    product, _, epilogue = options.only.partition(":")
    listed = [
        task for task in tasks(options.quick, shapes)
        if task[1][0]["product"] in (product or task[1][0]["product"]) and epilogue in ("", task[1][0]["epilogue"])
    ]  # fmt: skip
    remaining = iter(listed)
    endless = [] if options.quick or options.only or simulated else combinations(shapes, random.Random(0))
    sweep = Sweep(options.raw, options.seconds)

    source = itertools.chain(remaining, endless)
    threads = [threading.Thread(target=sweep.feed, args=(source,)) for _ in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.monotonic() - sweep.started
    kinds = sweep.again(options.again)
    print(
        f"{'cuBLASLt itself' if options.raw else 'gemm.matmul'}: {sum(sweep.counts.values())} runs in {spent:.0f} s, ",
        end="",
    )
    begun = "" if next(remaining, None) is None else "; NOT EVERYTHING WAS BEGUN"
    print(f"{sweep.restarts} processes; {dict(sweep.counts)}{begun}")
    lines = list(table(sweep.worst))
    print("\n".join(lines[: options.lines]))
    if len(lines) > options.lines:
        print(f"... and {len(lines) - options.lines} lines more (--lines)")
    print(f"{len(sweep.bad)} runs went wrong, of {kinds} kinds; the first, with what they did again alone:")
    for each in sweep.bad:
        if "again, alone" in each:
            shown = {key: value for key, value in each["case"].items() if value}
            print(f"{each['outcome']} {each['again, alone']}: {json.dumps(shown)}: {each['text'][-240:]}")
    if options.json:
        worst = [[*key, outcome] for key, outcome in sorted(sweep.worst.items())]
        options.json.write_text(json.dumps({"counts": sweep.counts, "worst": worst, "bad": sweep.bad}, indent=0))
    if sweep.broken:
        print(sweep.broken)
        return 2
    return 1 if sweep.bad and not options.raw else 0


if __name__ == "__main__":
    sys.exit(main())
