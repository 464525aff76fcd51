"""One case: its random choices, where it runs, and what is printed of it if it fails."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from contextlib import suppress

import numpy as np

from .memory import Buffers


class Draws:
    """Random choices, which follow from a seed alone."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, items):
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability):
        return bool(self.rng.random() < probability)

    def integer(self, lowest, highest):
        """An integer from `lowest` to `highest`, both included."""
        return int(self.rng.integers(lowest, highest + 1))


class Case(Draws):
    """The random choices of a case, which follow from its family and seed alone.

    Args:
        way: the number of the choices where arrays lie; the other choices are the same for all ways.

    Attributes:
        place: where it runs, a `operands.FuzzPlace`.
        where: the choices where arrays lie.
        lines: what was done so far, in words.
        refusals: how many errors of numbacc's were seen where they belong, by function, type and message.
        calls: how often each function was called.
        buffers: the flat buffers that arrays of the case lie in.
        told: called with each line, when it is written.
    """

    told = None

    def __init__(self, family, seed, place, way=0):
        self.family, self.seed, self.place = family, seed, place
        super().__init__([seed, zlib.crc32(family.encode())])
        self.where = Draws([seed, zlib.crc32(family.encode()), 2, way])
        self.lines, self.refusals, self.calls, self._called = [], Counter(), Counter(), family
        self.buffers = Buffers()

    def seed_of_values(self):
        return self.integer(0, 2**31)

    def shape(self, rank, longest=None, empty=0.05):
        """A shape of so many dimensions, its size bounded; lengths 1 are common, 0 is not."""
        longest = longest or {0: 1, 1: 300, 2: 24, 3: 8, 4: 5, 5: 3}.get(rank, 2)
        if self.place.is_slow:
            longest = min(longest, {1: 60, 2: 8, 3: 4}.get(rank, 2))
        elif self.place.name == "gpu" and self.chance(0.2):
            longest = {1: 50_000, 2: 400, 3: 50, 4: 16}.get(rank, longest)
        lengths = [1 if self.chance(0.12) else self.integer(1, longest) for _ in range(rank)]
        if rank and self.chance(empty):
            lengths[self.integer(0, rank - 1)] = 0
        return tuple(lengths)

    def note(self, text):
        self.lines.append(text)
        if self.told is not None:
            self.told(text)

    def call(self, name, function, /, *arguments, **options):
        """Call a function, its arguments written down first."""
        words = [show(a) for a in arguments] + [f"{key}={show(value)}" for key, value in options.items()]
        self.note(f"{name}({', '.join(words)})")
        self.calls[name] += 1
        self._called = name
        return function(*arguments, **options)

    def refused(self, error):
        """An error of the last call's that belongs there."""
        self.refusals[f"{self._called}: {type(error).__name__}: {plain(error)}"] += 1

    def stream(self, probability=0.15):
        """Options that name a new stream, or none."""
        import numbacc

        return {"stream": numbacc.stream()} if self.where.chance(probability) else {}


def plain(error):
    """Return the first line of an error without its numbers and quoted names, so that similar errors are equal."""
    text = re.sub(r"(?<![A-Za-z0-9])[-+]?\d[\d.e+x]*|'[^']*'|<[^>]*>", "#", str(error).split("\n")[0])
    return re.sub(r"\(#(, #)*,?\)", "(#)", text)[:120]


def address(array):
    """Where an array of any library starts, or None."""
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    with suppress(Exception):  # not every value is an array
        found = getattr(array, "_address", None) or getattr(array, "data_ptr", None) or getattr(array, "data", None)
        found = found() if callable(found) else getattr(found, "ptr", found)
        return found if isinstance(found, int) else None
    return None


def show(value):
    """A value in words: of an array what a call depends on."""
    if isinstance(value, (tuple, list)):
        inside = ", ".join(show(v) for v in value)
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None and not isinstance(value, np.generic):
        kind = type(value)
        strides = getattr(value, "strides", None)
        if strides is None and callable(getattr(value, "stride", None)):
            strides = f"{tuple(value.stride())} elements"
        flags = getattr(value, "flags", None)
        frozen = getattr(value, "_readonly", False) or (isinstance(value, np.ndarray) and not flags.writeable)
        start = address(value)
        off = f" at {start % 256} of 256 bytes" if start is not None and start % 16 else ""
        return f"<{kind.__module__}.{kind.__name__} {dtype} {shape} strides {strides}{off}{' read-only' * frozen}>"
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:40]}... ({len(text)} characters)"
