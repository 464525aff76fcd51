"""Steps of random programs by functions of `elementwise`, exact on small integers."""

from __future__ import annotations

import numpy as np

import numbacc
from numbacc import elementwise as ew
from numbacc.random import Generator

#: Beyond this a sum of some thousand numbers of float64 would be rounded.
_LARGEST = 2.0**40
#: Function -> (numbers of arrays, its meaning).
_MAPS = {
    "add": (2, np.add),
    "subtract": (2, np.subtract),
    "maximum": (2, np.maximum),
    "minimum": (2, np.minimum),
    "negative": (1, np.negative),
    "abs": (1, np.abs),
}
_BOUND = 8.0
#: Of AdamW: the moments are those of this gradient alone, so that a step along ±1 is ∓rate/2.
_ADAMW = {"rate": 2.0, "beta1": 0.0, "beta2": 0.0, "eps": 1.0, "weight_decay": 0.0}

NAMES = (
    "mapped", "mapped", "masked", "clamped", "chosen", "through_float32", "triangle", "taken", "cumulated", "added_up",
    "of_rows", "dropped", "moved_on",
)  # fmt: skip


class Steps:
    """What `program.Program` takes these steps from.

    Attributes:
        counter, counted: an array of one integer, the offset of random numbers, and its mirror.
    """

    def begin(self):
        self.counted = np.zeros(1, np.int64)
        self.counter = numbacc.asarray(self.counted.copy())

    def target(self, *inputs, in_place=True):
        """The number of an array that may be written where these are read, or None."""
        if in_place and self.case.chance(0.3):
            fits = [k for k in inputs if k not in self.frozen and not any(self.aliases(k, other) for other in inputs)]
            if fits:
                return self.case.pick(fits)
        return self.writable(*inputs) if self.case.chance(0.5) else None

    def bounded(self, *numbers):
        """Whether sums of these arrays are exact."""
        return all(np.abs(self.mirrors[k]).max(initial=0) * self.side < _LARGEST for k in numbers)

    def of(self, name, inputs, want, *more, in_place=True, **options):
        """A step that is a function of `elementwise`'s, of arrays by number."""

        def ours(out):
            views = [self.arrays[k] for k in inputs]
            return self.queued(getattr(ew, name), *views, *more, **options, out=out)

        self.result(name, self.target(*inputs, in_place=in_place), inputs, want, ours)

    def mapped(self):
        name = self.case.pick(_MAPS)
        count, meaning = _MAPS[name]
        inputs = [self.any() for _ in range(count)]
        self.of(name, inputs, lambda: meaning(*(self.mirrors[k] for k in inputs)))

    def masked(self):
        """Where a mask holds, made just before, on another stream perhaps."""
        a, b = self.any(), self.any()
        k = self.writable(a, b)
        if k is None:
            return
        m = self.mirrors

        def ours():
            mask = self.queued(ew.greater, self.arrays[a], 0.0)
            self.queued(ew.copy, self.arrays[b], out=self.arrays[k], where=mask)

        self.do(f"{k}[{a} > 0] = {b}", ours, lambda: np.copyto(m[k], m[b], where=m[a] > 0))

    def clamped(self):
        """What keeps numbers small."""
        a = self.any()
        self.of("clamp", [a], lambda: np.clip(self.mirrors[a], -_BOUND, _BOUND), -_BOUND, _BOUND)

    def chosen(self):
        inputs = [self.any() for _ in range(3)]
        c, a, b = inputs
        m = self.mirrors
        self.of("where", inputs, lambda: np.where(m[c] != 0, m[a], m[b]), in_place=False)

    def through_float32(self):
        a = self.any()

        def ours(out):
            return self.queued(ew.astype, self.queued(ew.astype, self.arrays[a], "float32"), "float64", out=out)

        self.result("by way of float32", self.target(a, in_place=False), (a,),
                    lambda: self.mirrors[a].astype(np.float32).astype(np.float64), ours)  # fmt: skip

    def triangle(self):
        a, k, name = self.any(), self.case.integer(-1, 1), self.case.pick(["tril", "triu"])
        self.of(name, [a], lambda: getattr(np, name)(self.mirrors[a], k), k=k)

    def taken(self):
        """Rows or columns, by indices that are made just before."""
        a, axis = self.any(), self.case.integer(0, 1)
        indices = self.case.rng.integers(-self.side, self.side, self.side)

        def ours(out):
            there = self.queued(numbacc.asarray, indices)
            return self.queued(ew.take, self.arrays[a], there, axis=axis, out=out)

        self.result("take", self.target(a, in_place=False), (a,),
                    lambda: np.take(self.mirrors[a], indices, axis), ours)  # fmt: skip

    def cumulated(self):
        a, axis, reverse = self.any(), self.case.integer(0, 1), self.case.chance(0.5)
        if not self.bounded(a):
            self.clamped()
            return

        def want():
            x = self.mirrors[a]
            return np.flip(np.cumsum(np.flip(x, axis), axis), axis).copy() if reverse else np.cumsum(x, axis)

        self.of("cumsum", [a], want, in_place=False, axis=axis, reverse=reverse)

    def added_up(self):
        """Sums beside what they are of."""
        a, axis = self.any(), self.case.pick([None, 0, 1])
        if not self.bounded(a):
            self.clamped()
            return
        m = self.mirrors

        def ours(out):
            total = self.queued(ew.sum, self.arrays[a], axis=axis, keepdims=True)
            return self.queued(ew.subtract, self.arrays[a], total, out=out)

        self.result("x - sum(x)", self.target(a), (a,), lambda: m[a] - m[a].sum(axis=axis, keepdims=True), ours)

    def of_rows(self):
        """Where the largest numbers of rows are: of whole numbers far apart no other has a probability."""
        a, axis = self.any(), self.case.integer(0, 1)
        m = self.mirrors

        def ours(out):
            p = self.queued(ew.softmax, self.queued(ew.multiply, self.arrays[a], 1000.0), axis=axis)
            return self.queued(ew.ceil, p, out=out)

        self.result("ceil(softmax)", self.target(a), (a,),
                    lambda: (m[a] == m[a].max(axis, keepdims=True)) + 0.0, ours)  # fmt: skip

    def dropped(self):
        """By an offset that the GPU reads, and moves on behind it."""
        a, seed = self.any(), self.case.integer(0, 9)
        if self.side > 256:
            return

        def want():
            g = Generator("philox", seed, device="cpu", offset=int(self.counted[0]))
            return 2 * self.mirrors[a] * g.dropout_mask(0.5, (self.side, self.side), dtype="bool")

        def ours(out):
            return self.queued(ew.dropout, self.arrays[a], 0.5, seed=seed, offset=self.counter, out=out)

        self.result("dropout", self.target(a), (a,), want, ours)
        self.do("offset += 4", lambda: self.queued(ew.add, self.counter, 4, out=self.counter),
                lambda: np.add(self.counted, 4, out=self.counted))  # fmt: skip

    def moved_on(self):
        """A step of AdamW, of one array or a list, along gradients of ±1."""
        a, first = self.any(), self.writable()
        second = None if first is None else self.writable(first)
        moved = [k for k in (first, second) if k is not None]
        if not moved:
            return
        m = self.mirrors

        def ours():
            down = self.queued(numbacc.full, (self.side, self.side), -1.0, "float64")
            g = self.queued(ew.where, self.queued(ew.greater, self.arrays[a], 0.0), 1.0, down)
            moments = [[self.queued(numbacc.zeros, (self.side, self.side), "float64") for _ in moved] for _ in "mv"]
            self.queued(ew.adamw_step, [self.arrays[k] for k in moved], [g] * len(moved), *moments, 1, **_ADAMW)

        def theirs():
            sign = np.where(m[a] > 0, 1.0, -1.0)
            for k in moved:
                m[k][...] -= sign

        self.do(f"step of AdamW of {moved} along the sign of {a}", ours, theirs)
