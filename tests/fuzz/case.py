"""One case: its random choices, where it runs, and what is printed of it if it fails."""

from __future__ import annotations

import zlib
from collections import Counter

import numpy as np


class Case:
    """The random choices of a case, which follow from its family and seed alone.

    Attributes:
        place: where it runs, a `operands.FuzzPlace`.
        lines: what was done so far, in words.
        refusals: how many errors of numbacc's were seen where they belong, by type.
    """

    def __init__(self, family, seed, place):
        self.family, self.seed, self.place = family, seed, place
        self.rng = np.random.default_rng([seed, zlib.crc32(family.encode())])
        self.lines, self.refusals = [], Counter()

    def pick(self, items):
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability):
        return bool(self.rng.random() < probability)

    def integer(self, lowest, highest):
        """An integer from `lowest` to `highest`, both included."""
        return int(self.rng.integers(lowest, highest + 1))

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

    def call(self, name, function, /, *arguments, **options):
        """Call a function, its arguments written down first."""
        words = [show(a) for a in arguments] + [f"{key}={show(value)}" for key, value in options.items()]
        self.note(f"{name}({', '.join(words)})")
        return function(*arguments, **options)

    def refused(self, error):
        self.refusals[type(error).__name__] += 1

    def stream(self, probability=0.15):
        """Options that name a new stream, or none."""
        import numbacc

        return {"stream": numbacc.stream()} if self.chance(probability) else {}


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
        return f"<{kind.__module__}.{kind.__name__} {dtype} {shape} strides {strides}{' read-only' * frozen}>"
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:40]}... ({len(text)} characters)"
