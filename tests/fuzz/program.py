"""Random programs: steps over a handful of arrays, each queued on a stream drawn at random, and the same in NumPy.

All values are small integers in float64, and all steps but a Fourier transform are exact on them: whatever differs at
the end is an error of order, ownership or memory, not of rounding.
"""

from __future__ import annotations

import numpy as np
from host_curand import philox

import numbacc
from numbacc import fft, gated, gemm
from numbacc.random import Generator

from . import steps
from .gemm import is_stored
from .operands import installed
from .steps import Steps

#: Beyond this float64 would round.
_LARGEST = 2.0**48
#: Bytes that a slow step copies, and how often.
_SLOW = (1 << 28, 40)


class Program(Steps):
    """Arrays by number, their mirrors in NumPy, and what was done to them.

    Attributes:
        arrays, mirrors: number -> array. Views share memory in both.
        frozen: numbers of arrays that must not be written.
        finals: (array, what it must be, tolerance) of results that no step uses.
        replay: what each step does to the mirrors.
    """

    def __init__(self, case, side=None, streams=None):
        self.case = case
        self.side = side or (
            case.pick([8, 64, 256, 1024]) if case.place.name == "gpu" else 2 if case.place.is_slow else 12
        )
        self.streams = streams or all_streams(case)
        self.arrays, self.mirrors, self.frozen, self.finals, self.replay = {}, {}, set(), [], []
        self._count = 0
        self.begin()

    # ------------------------------------------------------------ steps

    def do(self, text, ours, theirs):
        """One step, on both sides; the number of the new array, if there is one."""
        self.case.note(text)
        self.replay.append(theirs)
        theirs()
        return ours()

    def new(self):
        self._count += 1
        return self._count

    def step(self, kinds):
        getattr(self, self.case.pick(kinds))()

    def queued(self, function, *arguments, **options):
        """A call on a stream: named, or the default of a `with`."""
        stream = self.case.pick(self.streams)
        self.case.lines[-1] += f" on {text_of(stream)}"
        if stream is not None and self.case.chance(0.3):
            with numbacc.stream(stream):
                return function(*arguments, **options)
        return function(*arguments, **options, stream=stream)

    def assigned(self, target, index, value):
        stream = self.case.pick(self.streams)
        self.case.lines[-1] += f" on {text_of(stream)}"
        if stream is None:
            target[index] = value
            return
        with numbacc.stream(stream):
            target[index] = value

    def values(self):
        return self.case.rng.integers(-4, 5, (self.side, self.side)).astype(np.float64)

    def any(self, stored=False):
        numbers = [k for k in self.arrays if not stored or is_stored(self.mirrors[k])]
        if not numbers:
            self.fresh()
            numbers = [self._count]
        return self.case.pick(numbers)

    def writable(self, *others, stored=False):
        """An array that may be written and shares no memory with others; or None."""
        fits = [
            k
            for k in self.arrays
            if k not in self.frozen
            and (not stored or is_stored(self.mirrors[k]))
            and not any(np.may_share_memory(self.mirrors[k], self.mirrors[o]) for o in others)
        ]
        return self.case.pick(fits) if fits else None

    def fresh(self):
        k, host = self.new(), self.values()
        if self.case.chance(0.2):
            value = float(self.case.integer(-3, 3))

            def ours():
                self.arrays[k] = self.queued(numbacc.full, host.shape, value, "float64")

            self.do(f"{k} = full({value})", ours, lambda: self.mirrors.__setitem__(k, np.full(host.shape, value)))
            return

        def from_host():
            array = self.queued(numbacc.asarray, host)
            # On the CPU it is the host array itself.
            self.arrays[k] = array.copy() if array is host else array

        self.do(f"{k} = asarray(host)", from_host, lambda: self.mirrors.__setitem__(k, host.copy()))

    def result(self, text, k, inputs, want, ours):
        """A step that gives one array of NumPy's value `want()`, new or in `k`."""
        if np.abs(want()).max(initial=0) > _LARGEST:
            self.fill()
            return
        fresh = k is None
        number = self.new() if fresh else k

        def run():
            out = None if fresh else self.arrays[number]
            answer = ours(out)
            assert fresh or answer is out
            self.arrays[number] = answer

        def mirror():
            value = want()
            if fresh:
                self.mirrors[number] = value
            else:
                self.mirrors[number][...] = value

        self.do(f"{number} = {text}{tuple(inputs)}{'' if fresh else ' into out'}", run, mirror)

    def forward(self):
        a, b = self.any(), self.any()
        k = self.writable(a, b) if self.case.chance(0.5) else None
        if k is None and self.case.chance(0.3) and a not in self.frozen and not self.aliases(a, b):
            k = a  # in place
        m = self.mirrors

        def ours(out):
            return self.queued(gated.forward, (self.arrays[a], self.arrays[b]), "reglu", out=out)

        self.result("reglu", k, (a, b), lambda: m[a] * np.maximum(m[b], 0) + 0.0, ours)

    def aliases(self, a, b):
        """Whether two arrays share memory and are not the same."""
        m = self.mirrors
        same = m[a].ctypes.data == m[b].ctypes.data and m[a].strides == m[b].strides
        return np.may_share_memory(m[a], m[b]) and not same

    def backward(self):
        """Two results of one call."""
        dy, a, b = self.any(), self.any(), self.any()
        m = self.mirrors

        def want():
            keep = m[b] > 0
            return np.where(keep, m[dy] * m[b], 0), np.where(keep, m[dy] * m[a], 0)

        if max(np.abs(w).max(initial=0) for w in want()) > _LARGEST:
            return
        first, second = self.new(), self.new()

        def ours():
            pair = (self.arrays[a], self.arrays[b])
            self.arrays[first], self.arrays[second] = self.queued(gated.backward, self.arrays[dy], pair, "reglu")

        self.do(f"{first}, {second} = reglu backward{(dy, a, b)}", ours,
                lambda: self.mirrors.update(zip((first, second), want(), strict=True)))  # fmt: skip

    def matmul(self):
        a, b = self.any(stored=True), self.any(stored=True)
        if not (is_stored(self.mirrors[a]) and is_stored(self.mirrors[b])):
            return
        k = self.writable(a, b, stored=True) if self.case.chance(0.6) else None
        m, more = self.mirrors, {}
        added = k is not None and self.case.chance(0.4)
        if added:
            more = {"c": self.arrays[k], "beta": 1.0}
        bound = np.abs(m[a]).max(initial=0) * np.abs(m[b]).max(initial=0) * self.side
        if bound > _LARGEST:
            self.fill()
            return

        def want():
            return m[a] @ m[b] + (m[k] if added else 0.0)

        def ours(out):
            return self.queued(gemm.matmul, self.arrays[a], self.arrays[b], out=out, **more)

        self.result("matmul" + " + c" * added, k, (a, b), want, ours)

    def fill(self):
        k = self.writable()
        if k is not None:
            part, value = self.rows(), float(self.case.integer(-3, 3))
            self.do(f"{k}[{part}] = {value}", lambda: self.assigned(self.arrays[k], part, value),
                    lambda: self.mirrors[k].__setitem__(part, value))  # fmt: skip

    def copy(self):
        """Rows of one array, or of the host, into those of another."""
        source = self.any()
        k = self.writable(source)
        if k is None:
            return
        length = self.case.integer(1, self.side)
        one, other = (self.case.integer(0, self.side - length) for _ in range(2))
        here, there = slice(one, one + length), slice(other, other + length)
        if self.case.chance(0.3):
            host = self.values()[here]
            self.do(f"{k}[{there}] = host", lambda: self.assigned(self.arrays[k], there, host),
                    lambda: self.mirrors[k].__setitem__(there, host))  # fmt: skip
            return

        def ours():
            self.assigned(self.arrays[k], there, self.arrays[source][here])

        def mirror():
            self.mirrors[k][there] = self.mirrors[source][here]

        self.do(f"{k}[{there}] = {source}[{here}]", ours, mirror)

    def rows(self):
        start = self.case.integer(0, self.side - 1)
        return self.case.pick([Ellipsis, slice(start, None), slice(start, start + 1), slice(None, None, 2)])

    def view(self):
        source, k = self.any(), self.new()
        name, take = self.case.pick(
            [
                ("T", lambda x: x.T),
                ("[::-1]", lambda x: x[::-1]),
                ("[:, ::-1]", lambda x: x[:, ::-1]),
                ("[:]", lambda x: x[:]),
            ]
        )

        def ours():
            self.arrays[k] = take(self.arrays[source])

        self.do(f"{k} = {source}{name}", ours, lambda: self.mirrors.__setitem__(k, take(self.mirrors[source])))
        if source in self.frozen:
            self.frozen.add(k)

    def delete(self):
        if len(self.arrays) > 2:
            k = self.any()
            if k not in self.frozen:
                self.case.note(f"del {k}")
                del self.arrays[k]

    def transform(self):
        """A result of its own, with a tolerance."""
        a = self.any()

        def ours():
            value = self.queued(fft.fft, self.arrays[a])
            want = np.fft.fft(self.mirrors[a])
            self.finals.append((value, want, 1e-12 * (np.abs(self.mirrors[a]).max(initial=0) * self.side + 1)))

        self.do(f"fft({a})", ours, lambda: None)

    def draw(self):
        """Random bits, of a generator of its own."""
        seed, count = self.case.integer(0, 99), self.side * self.side

        def ours():
            g = Generator("philox", seed, device=None if self.case.place.is_device else "cpu")
            self.finals.append((self.queued(g.bits, count), philox(seed, 0, count), 0))

        self.do(f"Generator(seed={seed}).bits({count})", ours, lambda: None)

    def slow(self):
        """Work that keeps a stream busy for some milliseconds."""
        if self.case.place.name != "gpu":
            return
        stream = self.case.pick(self.streams)
        self.case.note(f"slow work on {text_of(stream)}")
        nbytes, times = _SLOW
        one, other = (numbacc.empty(nbytes, "uint8", stream=stream) for _ in range(2))
        with numbacc.stream(numbacc.current_stream() if stream is None else stream):
            for _ in range(times):
                one[...] = other

    def abroad(self):
        """To torch or CuPy, changed there on a stream of theirs, and back; or only read there."""
        libraries = [name for name in ("torch", "cupy") if installed(name)]
        if self.case.place.name != "gpu" or not libraries:
            return
        library, k = self.case.pick(libraries), self.writable()
        if k is None or (library == "torch" and min(self.mirrors[k].strides) < 0):
            return
        if self.case.chance(0.5):
            self.changed_abroad(library, k)
        else:
            self.read_abroad(library, k)

    def changed_abroad(self, library, k):
        """In place; then only what came back is used: of the others numbacc cannot know that they changed."""
        for other in [o for o in self.arrays if o != k and np.may_share_memory(self.mirrors[o], self.mirrors[k])]:
            del self.arrays[other]
        if np.abs(self.mirrors[k]).max(initial=0) * 2 > _LARGEST:
            return

        def ours():
            with their_stream(library):
                theirs = __import__(library).from_dlpack(self.arrays.pop(k))
                theirs *= 2
                self.arrays[k] = numbacc.from_dlpack(theirs)

        self.do(f"{k} *= 2 in {library}, and back", ours, lambda: np.multiply(self.mirrors[k], 2, out=self.mirrors[k]))

    def read_abroad(self, library, k):
        """Their result comes in as a new array; what was read is not written any more, since they may be at it."""
        number = self.new()
        shared = [o for o in self.arrays if np.may_share_memory(self.mirrors[o], self.mirrors[k])]
        self.frozen.update(shared)

        def ours():
            with their_stream(library):
                theirs = __import__(library).from_dlpack(self.arrays[k])
                self.arrays[number] = numbacc.from_dlpack(theirs + 1)

        self.do(f"{number} = {k} + 1 in {library}", ours,
                lambda: self.mirrors.__setitem__(number, self.mirrors[k] + 1))  # fmt: skip
        if self.case.chance(0.5) and not self.frozen.isdisjoint(shared):
            self.case.note(f"del {shared}")
            for other in shared:
                del self.arrays[other]

    # ------------------------------------------------------------ the end

    def check(self):
        """All arrays are what NumPy has, read on any stream."""
        for k, array in self.arrays.items():
            self.case.note(f"asnumpy({k})")
            found = self.queued(numbacc.asnumpy, array)
            np.testing.assert_array_equal(found, self.mirrors[k], err_msg=f"array {k}")
        for array, want, tolerance in self.finals:
            found = self.queued(numbacc.asnumpy, array)
            np.testing.assert_allclose(found, want, rtol=0, atol=tolerance)


STEPS = (
    "forward", "forward", "backward", "matmul", "matmul", "fill", "copy", "copy", "fresh", "view", "delete", "delete",
    "transform", "draw", "slow", "abroad", *steps.NAMES,
)  # fmt: skip


def all_streams(case):
    """None for the default, and streams of all libraries."""
    streams = [None, numbacc.stream(), numbacc.stream()]
    if case.place.name != "gpu":
        return streams
    from numba import cuda

    streams += [0, cuda.stream()]
    if installed("torch"):
        import torch

        streams.append(torch.cuda.Stream())
    if installed("cupy"):
        import cupy

        streams.append(cupy.cuda.Stream(non_blocking=case.chance(0.5)))
    # What has no protocol is known by its handle.
    return [s if hasattr(s, "__cuda_stream__") or s is None or isinstance(s, int) else handle(s) for s in streams]


def handle(stream):
    return getattr(stream, "cuda_stream", None) or getattr(stream, "ptr", None) or int(stream.handle.value)


def text_of(stream):
    return "the default stream" if stream is None else f"{type(stream).__module__}.{type(stream).__name__} {stream}"


def their_stream(library):
    """A new stream of a library's, as its current one."""
    if library == "torch":
        import torch

        return torch.cuda.stream(torch.cuda.Stream())
    import cupy

    return cupy.cuda.Stream(non_blocking=True)
