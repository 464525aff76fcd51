"""Steps of random programs by functions of `elementwise` and `conv`, exact on small integers."""

from __future__ import annotations

import numpy as np

import numbacc
from numbacc import conv
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
    "of_rows", "dropped", "drawn_on", "moved_on", "convolved", "convolved_back", "kernel_moved",
)  # fmt: skip


class Steps:
    """What `program.Program` takes these steps from.

    Attributes:
        counter, counted: an array of one integer, the offset of random numbers, and its mirror.
        generator, calls: a generator of random numbers, and its mirror.
    """

    def begin(self):
        self.counted = np.zeros(1, np.int64)
        self.counter = numbacc.asarray(self.counted.copy())
        seed = self.case.integer(0, 9)
        device = None if self.case.place.is_device else "cpu"
        self.generator, self.calls = Generator(seed, device=device), Generator(seed, device="cpu")

    def start_again(self):
        """What is counted is as at first, since a capture does nothing."""
        self.counted[...] = 0
        self.calls.state = self.calls.state._replace(position=0)

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

    def drawn_on(self):
        """The next numbers of a generator."""
        k, n = self.writable() if self.case.chance(0.5) else None, self.case.integer(1, 5)
        fresh, shape = k is None, (self.side, self.side)
        number = self.new() if fresh else k

        def ours():
            out = None if fresh else self.arrays[number]
            self.queued(self.generator.bits, n)  # numbers that nobody reads, so that draws begin anywhere
            self.arrays[number] = self.queued(self.generator.dropout_mask, 0.5, shape, dtype="float64", out=out)

        def theirs():
            self.calls.bits(n)
            values = self.calls.dropout_mask(0.5, shape, dtype="float64")
            if fresh:
                self.mirrors[number] = values
            else:
                self.mirrors[number][...] = values

        self.do(f"{number} = the next {n} bits, and a mask{'' if fresh else ' into out'}", ours, theirs)

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

    # ------------------------------------------------------------ convolutions

    @property
    def taps(self):
        """Of kernels, each way: they are the corners of arrays, which lie anywhere."""
        return min(3, self.side)

    def is_convolved_exactly(self, a, b):
        """Whether sums of products of two arrays' elements are exact."""
        first, second = (np.abs(self.mirrors[k]).max(initial=0) for k in (a, b))
        return first * second * self.side**2 < _LARGEST

    def image(self, k):
        return self.arrays[k][None, None]

    def kernel(self, k):
        return self.image(k)[..., : self.taps, : self.taps]

    def padded(self, x):
        """With the zeros of padding="same"."""
        return np.pad(x, ((self.taps - 1) // 2, self.taps // 2))

    def met(self, r, s):
        """What a tap meets of an image with its zeros."""
        return slice(r, r + self.side), slice(s, s + self.side)

    def convolved(self):
        """With a bias and ReLU, or none."""
        a, b, c = self.any(), self.any(), self.any()
        if not (self.is_convolved_exactly(a, b) and self.bounded(c)):
            self.clamped()
            return
        m, more = self.mirrors, self.case.chance(0.5)

        def want():
            x = self.padded(m[a])
            y = sum(m[b][r, s] * x[self.met(r, s)] for r, s in np.ndindex(self.taps, self.taps))
            return np.maximum(y + m[c][0, 0], 0) if more else y

        def ours(out):
            bias = self.arrays[c][0, :1] if more else None
            return self.queued(
                conv.forward, self.image(a), self.kernel(b), bias, activation="relu" if more else None, padding="same",
                out=None if out is None else out[None, None],
            )  # fmt: skip

        self.of_images("convolution" + ", bias, relu" * more, (a, b, c)[: 2 + more], want, ours)

    def convolved_back(self):
        """The gradient of images: what each tap passes on is added where the tap was."""
        a, b = self.any(), self.any()
        if not self.is_convolved_exactly(a, b):
            self.clamped()
            return
        m = self.mirrors

        def want():
            whole = self.padded(np.zeros_like(m[a]))
            for r, s in np.ndindex(self.taps, self.taps):
                whole[self.met(r, s)] += m[b][r, s] * m[a]
            start = (self.taps - 1) // 2
            return whole[self.met(start, start)].copy()

        def ours(out):
            image, more = self.image(a), {} if out is None else {"out": out[None, None]}
            return self.queued(conv.backward_data, image, self.kernel(b), image.shape, padding="same", **more)

        self.of_images("convolution backward", (a, b), want, ours)

    def of_images(self, text, inputs, want, ours):
        """A step that gives one image of one channel."""

        def matrix(out):
            answer = ours(out)
            return answer[0, 0] if out is None else out

        self.result(text, self.target(*inputs, in_place=False), inputs, want, matrix)

    def kernel_moved(self):
        """The gradient of a kernel, added to the corner of an array, which is the kernel perhaps of what comes next."""
        a, b = self.any(), self.any()
        k = self.writable(a, b)
        if k is None or not self.is_convolved_exactly(a, b):
            self.clamped()
            return
        m = self.mirrors

        def ours():
            dw = self.kernel(k)
            self.queued(
                conv.backward_filter, self.image(a), self.image(b), dw.shape, padding="same", beta=1.0, out=dw
            )  # fmt: skip

        def theirs():
            x = self.padded(m[a])
            for r, s in np.ndindex(self.taps, self.taps):
                m[k][r, s] += (x[self.met(r, s)] * m[b]).sum()

        self.do(f"{k}[:{self.taps}, :{self.taps}] += gradient of a kernel{(a, b)}", ours, theirs)
