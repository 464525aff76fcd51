"""Random numbers: any kind, method, dtype and place, one draw after another, against cuRAND's own sequences."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
from conftest import bits
from host_curand import HostCurand, philox

import numbacc
from numbacc.base import dtypes
from numbacc.random import Generator

from .operands import anywhere

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
SOBOL = ("sobol32", "scrambled_sobol32", "sobol64", "scrambled_sobol64")
#: Outputs that a call of normal or poisson begins and ends with: of float32, of float64.
ROUNDS = {"philox": (2, 524288), "xorwow": (8192, 16384), "mrg32k3a": (163840, 163840), "mtgp32": (1, 1)}


def run(case):
    chance = case.rng.random()
    if chance < 0.25:
        points(case)
    else:
        # To start mrg32k3a takes seconds where it is not entered at its beginning.
        kind = "philox" if chance < 0.9 else "xorwow" if chance < 0.96 else "mtgp32" if chance < 0.998 else "mrg32k3a"
        Sequence(case, kind).run(case.integer(1, 5))


class Sequence:
    """A generator, and where it must be."""

    def __init__(self, case, kind):
        self.case, self.kind, self.seed = case, kind, case.pick([0, 1, 2**32 + 5, 2**64 - 1, case.seed_of_values()])
        far = [0, 1, 3, case.integer(0, 300_000), 2**32 - 5, 2**40 + 1]
        self.position = case.pick(far if kind == "philox" else far[:3])
        device = None if case.place.is_device else "cpu"
        self.g = case.call("Generator", Generator, kind, self.seed, self.position, device)

    def run(self, draws):
        before = self.g.state
        seen = [self.draw() for _ in range(draws)]
        if self.case.chance(0.3):
            self.case.note("g.state = an earlier state; the draws again")
            kept = pickle.loads(pickle.dumps(before))
            self.g.state = kept
            for name, arguments, options, values in seen:
                again = self.case.place.get(getattr(self.g, name)(*arguments, values.shape, **options))
                np.testing.assert_array_equal(bits(again), bits(values))

    def words(self, first, count, function="Generate", *parameters):
        """Outputs of the sequence."""
        if self.kind == "philox" and function == "Generate":
            return philox(self.seed, first, count)
        theirs = HostCurand(self.kind, self.seed, 0 if self.kind == "mtgp32" else first)
        if self.kind == "mtgp32":
            theirs("Generate", first)
        dtype = np.float64 if function.endswith("Double") else np.float32
        return theirs(function, count + count % 2, *map(dtype, parameters))[:count]

    def draw(self):
        case = self.case
        name = case.pick(METHODS)
        shape = case.shape(case.pick([0, 1, 1, 2, 3]))
        long = self.kind == "xorwow" and not case.place.is_slow and case.chance(0.6)
        if long:
            shape = (case.integer(8192, 40_000),)  # whole rounds, which cuRAND writes where they are wanted
        arguments, dtype = METHODS[name](case)
        out = None
        options = {"dtype": dtype}
        if case.chance(0.4):
            how = {"margins": [(case.integer(0, 3), 1)]} if long else anywhere(case, shape, True)
            out = case.place.empty(shape, dtypes.dtype(dtype), **how)
            options["out"] = out.view
        kept = self.position
        if case.place.is_device and self.kind == "philox" and name != "poisson" and case.chance(0.2):
            case.note("in a graph, which is launched once:")
            with numbacc.graph() as graph:
                answer = case.call(f"g.{name}", getattr(self.g, name), *arguments, shape, **options)
            graph.launch()
        else:
            answer = case.call(f"g.{name}", getattr(self.g, name), *arguments, shape, **options, **case.stream())
        case.place.settle()
        if out is not None:
            assert answer is out.view, "not `out` is returned"
            out.assert_untouched_around()
            answer = out.ours
        values = case.place.get(answer)
        assert (values.shape, values.dtype) == (shape, dtypes.dtype(dtype))
        self.verify(name, arguments, dtype, values.reshape(-1))
        if not values.size:
            self.position = kept
        assert self.g.state.position == self.position, f"at {self.g.state.position}, should be at {self.position}"
        return name, arguments, {"dtype": dtype}, values

    def take(self, count, each):
        """The words of values that take so many outputs each, which begin at a multiple of as many."""
        start = -(-self.position // each) * each
        self.position = start + count * each
        return self.words(start, count * each)

    def verify(self, name, arguments, dtype, values):
        n = values.size
        if n:
            getattr(self, f"_{name}")(arguments, np.dtype(dtypes.dtype(dtype)), values, n)

    def _bits(self, arguments, dtype, values, n):
        words = self.take(n, dtype.itemsize // 4)
        np.testing.assert_array_equal(values, words.view(dtype))

    def _unit(self, dtype, n, significand):
        if dtype == np.float64:
            return (self.take(n, 2).view(np.uint64) >> np.uint64(11)) * 2.0**-53
        return (self.take(n, 1) >> np.uint32(32 - significand)) * 2.0**-significand

    def _random(self, arguments, dtype, values, n):
        want = self._unit(dtype, n, int(ml_dtypes.finfo(dtype).nmant) + 1)
        np.testing.assert_array_equal(values.astype(np.float64), want)

    def _uniform(self, arguments, dtype, values, n):
        low, high = map(float, arguments)
        want = low + (high - low) * self._unit(dtype, n, 24)
        real = np.finfo(np.float64 if dtype == np.float64 else np.float32)
        stored = ml_dtypes.finfo(dtype)
        allowed = 4 * real.eps * max(abs(low), abs(high), high - low) + float(stored.smallest_subnormal)
        allowed, largest = allowed + float(stored.eps) * np.abs(want), float(stored.max)
        inside = np.abs(want) < largest / 2
        assert (np.abs(values.astype(np.float64) - want)[inside] <= allowed[inside]).all()

    def _integers(self, arguments, dtype, values, n):
        low, high = arguments
        count = high - low
        each = 2 if count <= 2**32 else 4
        x = [int(word) for word in self.take(n, each).view(np.uint64)]
        if each == 4:
            x = [b << 64 | a for a, b in zip(x[::2], x[1::2], strict=True)]
        want = [low + (v * count >> 32 * each) for v in x]
        assert values.tolist() == want

    def _dropout_mask(self, arguments, dtype, values, n):
        (p,) = arguments
        kept = self.take(n, 1) >= round(p * 2**32)
        if dtype == np.bool_:
            np.testing.assert_array_equal(values, kept)
            return
        scale = 1 / (1 - p) if p < 1 else 0.0
        stored = np.float64(scale) if dtype == np.float64 else np.float32(scale).astype(dtype)
        np.testing.assert_array_equal(values.astype(np.float64), np.where(kept, np.float64(stored), 0.0))

    def rounded(self, function, arguments, dtype, n):
        """What cuRAND makes in whole rounds."""
        double = dtype == np.float64
        span = ROUNDS[self.kind][double]
        each = 2 if double and self.kind in ("philox", "xorwow") else 1
        start = -(-self.position // span) * span
        self.position = start + -(-n * each // span) * span
        return self.words(start, n, f"Generate{function}{'Double' * double}", *arguments)

    def _normal(self, arguments, dtype, values, n, function="Normal"):
        want = self.rounded(function, arguments, dtype, n)
        on_host = not self.case.place.is_device
        if on_host and self.kind != "philox":
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(values, want.astype(dtype))
            return
        # NumPy's numbers are within 2^-20 of the deviation, in float64 2^-49; those of cuRAND's device code within
        # 2^-19. Of exp that is a factor.
        near = 2.0**-16 if not on_host else 2.0**-46 if dtype == np.float64 else 2.0**-19
        scale = (2 + abs(arguments[0]) + arguments[1]) * near + float(ml_dtypes.finfo(dtype).eps)
        want, got = want.astype(np.float64), values.astype(np.float64)
        finite = np.abs(want) < float(ml_dtypes.finfo(dtype).max) / 2
        size = np.abs(want) if function == "LogNormal" else np.abs(want) + arguments[1] + abs(arguments[0])
        assert (np.abs(got - want)[finite] <= (scale * size)[finite] + float(ml_dtypes.finfo(dtype).tiny)).all()

    def _lognormal(self, arguments, dtype, values, n):
        self._normal(arguments, dtype, values, n, "LogNormal")

    def _poisson(self, arguments, dtype, values, n):
        span = ROUNDS[self.kind][0]
        start = -(-self.position // span) * span
        self.position = start + -(-n // span) * span
        theirs = HostCurand(self.kind, self.seed, 0 if self.kind == "mtgp32" else start)
        if self.kind == "mtgp32":
            theirs("Generate", start)
        want = theirs("GeneratePoisson", n + n % 2, *arguments)[:n].astype(np.int64)
        off = np.abs(values.astype(np.int64) - want)
        assert (off <= (1 + 2e-5 * want if self.case.place.is_device else 0)).all()


def _of(dtypes_, *arguments):
    return lambda case: (tuple(a(case) if callable(a) else a for a in arguments), case.pick(dtypes_))


def _integers(case):
    dtype = case.pick(INTEGERS)
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max) + 1
    if case.chance(0.7):
        low = max(low, case.pick([0, -3, 5]))
        high = min(high, low + case.pick([1, 2, 6, 1000, 2**32, 2**32 + 1, 2**50]))
    return (low, high), dtype


def _uniform(case):
    low = case.pick([0.0, -1.0, 2.5, -1000.0])
    return (low, low + case.pick([1.0, 1e-3, 5.0, 4096.0])), case.pick(FLOATS)


METHODS = {
    "bits": _of(("uint32", "uint64")),
    "random": _of(FLOATS),
    "uniform": _uniform,
    "integers": _integers,
    "dropout_mask": _of((*FLOATS, "bool"), lambda case: case.pick([0.0, 0.25, 0.7, 1.0, 0.999])),
    "normal": _of(FLOATS, lambda case: case.pick([0.0, 1.5]), lambda case: case.pick([1.0, 0.0, 2.0])),
    "lognormal": _of(FLOATS, lambda case: case.pick([0.0, 0.5]), lambda case: case.pick([1.0, 0.25])),
    "poisson": _of(("int64", "int32", "uint64", "uint32"), lambda case: case.pick([0.01, 10.0, 5000.0])),
}


def points(case):
    """Quasi-random points: bits and integers, in pieces that join."""
    kind, dimensions, offset = case.pick(SOBOL), case.integer(1, 4), case.pick([0, 1, 7, 1000])
    wide = kind.endswith("64")
    device = None if case.place.is_device else "cpu"
    g = case.call("Generator", Generator, kind, 0, offset, device, dimensions)
    theirs = HostCurand(kind, offset=offset, dimensions=dimensions)
    counts = [case.integer(1, 40) for _ in range(case.integer(1, 3))]
    total = sum(counts)
    want = theirs("GenerateLongLong" if wide else "Generate", total * dimensions).reshape(dimensions, total)
    at = 0
    for n in counts:
        part = want[:, at : at + n]
        at += n
        name = case.pick(["bits", "integers", "random"])
        options = {}
        if name == "bits":
            options["dtype"] = part.dtype
        elif name == "integers":
            part = np.array([[10 + (int(x) * 1000 >> (64 if wide else 32)) for x in row] for row in part])
        else:
            part = (part >> part.dtype.type(part.dtype.itemsize * 8 - 24)) * 2.0**-24
        first = (10, 1010) if name == "integers" else ()
        shape = (dimensions, n)
        if case.chance(0.4):
            out = case.place.empty(shape, {"random": np.float32, "integers": np.int64}.get(name, part.dtype),
                                   **anywhere(case, shape, True))  # fmt: skip
            case.call(f"g.{name}", getattr(g, name), *first, out=out.view)
            case.place.settle()
            out.assert_untouched_around()
            got = out.now()
        else:
            got = case.place.get(case.call(f"g.{name}", getattr(g, name), *first, shape, **options))
        np.testing.assert_array_equal(got, part)
    assert g.state.position == offset + total
