"""Random kernels with barriers, and a reference that runs each thread as a Python generator."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np

THREADS, BLOCKS = 12, 3


class Program:
    """A random kernel's text: `x` is read, `y` written, `s` shared; barriers stand where all threads come."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.count = 0
        self.body(1, 2, True, False)
        self.lines += ["    y[i] = a + 10 * b + 100 * c + u"]

    def text(self):
        head = [
            "def kernel(x, y):",
            "    s = cuda.shared.array(THREADS, int64)",
            "    k, i = cuda.threadIdx.x, cuda.grid(1)",
            "    a, b, c, u = x[i], k, 0, cuda.blockIdx.x",
            "    y[i] = -1",
        ]
        return "\n".join([*head, *self.lines]) + "\n"

    def value(self, uniform=False):
        r = self.random
        if uniform:
            return r.choice(["u", "u", "cuda.blockDim.x", "cuda.blockIdx.x", str(r.randrange(1, 6)), "(u + 2)", "x[0]"])
        return r.choice(["a", "b", "c", "u", "k", "x[i]", "(a - b)", "(c + k)", str(r.randrange(1, 9))])

    def test(self, uniform):
        r = self.random
        return f"{self.value(uniform)} % {r.randrange(2, 5)} {r.choice(['==', '!=', '<', '>='])} {r.randrange(3)}"

    def add(self, depth, line):
        self.lines.append("    " * depth + line)

    def body(self, depth, most, uniform, loop):
        """Statements. `uniform`: all threads come, `loop`: the jumps of a loop are allowed."""
        r = self.random
        for _ in range(r.randrange(2, 5)):
            kind = r.choice(["set", "set", "augment", "uniform", "meet", "if", "if", "for", "while", "jump"])
            if kind == "set":
                self.add(depth, f"{r.choice('abc')} = {self.value()} * 2 - {self.value()}")
            elif kind == "augment":
                self.add(depth, f"{r.choice('abc')} += {self.value()} % 7")
            elif kind == "uniform" and uniform:
                self.add(depth, f"u = {self.value(True)} % 9 + {r.randrange(3)}")
            elif kind == "meet" and uniform:
                self.meet(depth)
            elif kind == "if" and most:
                same = uniform and r.random() < 0.6
                self.add(depth, f"if {self.test(same)}:")
                self.body(depth + 1, most - 1, same, loop if same or not uniform else "")
                if r.random() < 0.5:
                    self.add(depth, "else:")
                    self.body(depth + 1, most - 1, same, loop if same or not uniform else "")
            elif kind == "for" and most:
                same = uniform and r.random() < 0.7
                self.count += 1
                self.add(depth, f"for n{self.count} in range({self.value(same)} % 4):")
                self.add(depth + 1, f"{r.choice('abc')} += n{self.count}")
                self.body(depth + 1, most - 1, same, "all")
            elif kind == "while" and most:
                same = uniform and r.random() < 0.7
                self.count += 1
                w = f"w{self.count}"
                self.add(depth, f"{w} = {self.value(same)} % 4")
                self.add(depth, f"while {w} > 0:")
                self.add(depth + 1, f"{w} -= 1")
                self.body(depth + 1, most - 1, same, "all")
            elif kind == "jump" and r.random() < 0.6:
                self.jump(depth, uniform, loop)
        self.add(depth, "pass")

    def meet(self, depth):
        r = self.random
        self.add(depth, "cuda.syncthreads()")
        self.add(depth, f"s[k] = {self.value()}")
        self.add(depth, "cuda.syncthreads()")
        self.add(depth, f"{r.choice('abc')} = s[k] + (s[0] if x[i] % 2 else 1)")
        if r.random() < 0.3:
            self.add(depth, "u = s[0] % 5")

    def jump(self, depth, uniform, loop):
        """A return of some threads, where no thread waits for another in a loop; or a jump of all."""
        r = self.random
        if loop == "all":
            self.add(depth, f"if {self.test(uniform)}: {r.choice(['break', 'continue'])}")
        elif uniform and r.random() < 0.3:
            self.add(depth, f"if {self.test(r.random() < 0.5)}: return")


def reference(text, x, y):
    """Run the threads of each block as generators that stop at barriers."""
    names = {"THREADS": THREADS, "int64": None}
    waits = text.replace("cuda.syncthreads()", "yield").replace("cuda.shared.array(THREADS, int64)", "SHARED")
    exec(waits.replace("def kernel(x, y)", "def thread(x, y, SHARED, cuda)") + "    yield\n", names)
    for block in range(BLOCKS):
        shared = np.zeros(THREADS, np.int64)

        def start(k, block=block, shared=shared):
            one = SimpleNamespace
            i = block * THREADS + k
            seen = one(threadIdx=one(x=k), blockIdx=one(x=block), blockDim=one(x=THREADS), grid=lambda n: i)
            return names["thread"](x, y, shared, seen)

        threads = [start(k) for k in range(THREADS)]
        while threads:
            threads = [t for t in threads if next(t, "end") != "end"]
