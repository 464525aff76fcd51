"""The position of a generator on the GPU: how draws read it, and the kernel that advances it to the next draw.

Draws that are captured into a graph cannot receive their start as an argument, because each launch starts at another
position. They read it from three words on the GPU, which a kernel advances before each draw.
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
    """Return the device function (words, position of the first value) -> source identifier, first group, that position.

    The position refers to the first group's first value. A position on the GPU may be at any word of a group; the
    group's earlier values then have positions before the result's first.
    """

    def given(words, index):
        # Convert by way of int64: the simulator's words are Python integers and may be negative.
        return np.uint64(np.int64(words[0])), np.uint64(np.int64(words[1])), index

    load, each = accessors(TABLE["uint64"], 1, 8).load, spec.words

    def read(words, index):
        address = np.uint64(np.int64(words[0]))
        start = load((address,), (START,))[0]
        skipped = np.int64(start & np.uint64(3))
        return load((address,), (SEED,))[0], start >> np.uint64(2), index - skipped // each

    return cuda.jit(device=True)(read if spec.positioned else given)


def make(spec: AdvanceSpec) -> Kernel:
    """Return the kernel, with a single thread, that advances a position to the next draw.

    Its arguments are: no inputs; (address of the position); the number that the draw's start must be a multiple of, and
    how many outputs the draw uses.
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
    """Return the parameters of `make(spec)`, in the form of `kernel_code.parameters`."""
    return [("uint64", 0), ("uint64", 1), *[("int64", None)] * 2]
