"""The numbers of float8 that cuDNN reads and writes in memory: scales, and the largest weight and result."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from ..runtime.steps import FillWords
from .problem import SCALES
from .staging import Array, Stage


def numbers(stage: Stage) -> Iterator[tuple[str, Array]]:
    """The arrays of one float32 that a graph of float8 has, by name.

    Scales that are not given are a 1, of which one is enough. What is written starts from 0, since cuDNN's kernels only
    raise it; amax_o is there, asked for or not.
    """
    for name in SCALES:
        if stage.has(name):
            yield name, stage.plain(name, stage.arrays[name].lies.shape)
            continue
        if not stage.has("one"):
            stage.add(FillWords(struct.pack("<f", 1.0), 1, stage.device), stage.part("one", (1,), np.float32))
        yield name, stage.arrays["one"]
    for name in ("amax_s", "amax_o"):
        if stage.has(name):
            made = stage.arrays[name] if stage.is_aligned(stage.arrays[name]) else stage.returned(name)
        elif name == "amax_o":
            made = stage.part(name, (1,), np.float32)
        else:
            continue
        stage.zero(made)
        yield name, made
