"""The position of a generator on the GPU: how draws read it, and the kernel that moves it to the next draw.

Draws that are captured into a graph cannot be told where they start, since every launch starts elsewhere. They read it
from three words on the GPU, which a kernel before each draw moves on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.operands import accessors
from ..specs import Kernel
from .spec import NEXT, SEED, START, AdvanceSpec, DrawSpec


def reader(spec: DrawSpec) -> Any:
    """A function (words, number of the first group's first value) -> what names the source, first group, that number.

    A position on the GPU may be at any of a group's words, so that values before the result's first come first.
    """

    def given(words, index):
        # By way of int64: the simulator's words are Python's integers, of either sign.
        return np.uint64(np.int64(words[0])), np.uint64(np.int64(words[1])), index

    load, each = accessors(TABLE["uint64"], 1, 8).load, spec.words

    def read(words, index):
        address = np.uint64(np.int64(words[0]))
        start = load((address,), (START,))[0]
        skipped = np.int64(start & np.uint64(3))
        return load((address,), (SEED,))[0], start >> np.uint64(2), index - skipped // each

    return cuda.jit(device=True)(read if spec.positioned else given)


def make(spec: AdvanceSpec) -> Kernel:
    """The kernel of one thread that moves a position to the next draw.

    Its arguments: no inputs; (address of the position); the outputs that the draw's start is a multiple of, and how
    many outputs the draw takes.
    """
    io = accessors(TABLE["uint64"], 1, 8)
    load, store = io.load, io.store

    def advance(ins, outs, span, length):
        spans = np.uint64(span)
        start = (load(outs, (NEXT,))[0] + spans - np.uint64(1)) // spans * spans
        store(outs, (START,), (start,))
        store(outs, (NEXT,), (start + np.uint64(length),))

    return advance


def parameters(spec: AdvanceSpec) -> list[tuple[str, Any]]:
    """The parameters of `make(spec)`: see `kernel_code.parameters`."""
    return [("uint64", 0), ("uint64", 1), *[("int64", None)] * 2]
