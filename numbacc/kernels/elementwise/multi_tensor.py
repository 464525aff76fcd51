"""The kernel that applies a formula to lists of arrays in one launch.

The arrays are cut into chunks, one for each block. A block reads from the table of chunks which arrays its chunk
belongs to, and from the table of arrays where they are. If all arrays of a row start at multiples of 16 bytes, the
block's threads move 16 bytes at a time; otherwise, and at the arrays' ends, they move a few single elements at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import WORDS
from ..primitives.instructions import hardware
from ..primitives.operands import operands, scalar_reader
from ..primitives.specialize import specialize
from ..specs import Kernel, words_of
from .multi_tensor_spec import ListSpec

#: Elements that a thread handles at once in unaligned rows, by compute dtype; registers set the limit.
_SOME = {"float32": 4, "float64": 1}


def _numbers(spec: ListSpec) -> Any:
    """Return the device function that computes parameters from single-element arrays and scalar arguments."""
    scalars = scalar_reader(spec.scalars)
    if spec.formula.numbers is None:

        def given(ins, words):
            return scalars(words)

        return cuda.jit(device=True)(given)
    function = specialize(spec.formula.numbers, spec.compute, spec.narrow)
    io = operands(tuple(TABLE[name] for name in spec.singles), 1, 1, spec.compute)
    load, apply, starts = io.load, io.apply, (0,) * len(spec.singles)

    def made(ins, words):
        return apply(function, load(ins[2:], starts), scalars(words))

    return cuda.jit(device=True)(made)


def _applying(spec: ListSpec) -> Any:
    """Return the intrinsic (function, numbers, more numbers) -> the function's results."""
    return operands((TABLE[spec.compute],), 1, 1, spec.compute).apply


def _of_row(spec: ListSpec) -> Any:
    """Return the device function (parameters, a word of the table) -> the parameters for a row of arrays."""
    if spec.formula.row is None:

        def same(known, word):
            return known

        return cuda.jit(device=True)(same)
    function, apply = specialize(spec.formula.row, spec.compute, spec.narrow), _applying(spec)
    is_double, of_single, of_double = spec.compute == "float64", hardware.float_of_bits, hardware.double_of_bits

    def single(known, word):
        return apply(function, known, (of_single(np.uint32(word)),))

    def double(known, word):
        return apply(function, known, (of_double(word),))

    return cuda.jit(device=True)(double if is_double else single)


def _idling(spec: ListSpec) -> Any:
    """Return the device function (parameters) -> whether nothing changes."""
    if spec.formula.idle is None:

        def never(known):
            return False

        return cuda.jit(device=True)(never)
    function, apply = specialize(spec.formula.idle, spec.compute, spec.narrow), _applying(spec)

    def is_idle(known):
        return apply(function, known, ())[0] != 0

    return cuda.jit(device=True)(is_idle)


def make(spec: ListSpec) -> Kernel:
    """Return the kernel. Each block processes one chunk of a row of arrays."""
    rows = tuple(TABLE[name] for name in spec.operands)
    results = tuple(rows[k] for k in spec.written)
    width, lanes, count, row_words = spec.width, _SOME[spec.compute], len(rows), spec.row_words
    sources, reads = rows[: spec.sources], spec.sources
    whole, some = operands(sources, width, width, spec.compute), operands(sources, lanes, 1, spec.compute)
    whole_out, some_out = operands(results, width, width), operands(results, lanes, 1)
    load_lanes, store_lanes = whole.load_lanes, whole_out.store_lanes
    map_lanes, offsets = whole.map_lanes, whole.offsets
    load_some, store_some = some.load_some, some_out.store_some
    load_number = operands((TABLE["int32"],), 1, 1).load
    load_row = operands((TABLE["uint64"],), row_words, 2).load_lanes
    each, each_result = ((1,),) * reads, ((1,),) * len(results)
    function, numbers = specialize(spec.formula.function, spec.compute, spec.narrow), _numbers(spec)
    choose, of_row, is_idle = _choosing(spec.written), _of_row(spec), _idling(spec)

    def kernel(ins, outs, chunk, words):
        known = numbers(ins, words)
        if is_idle(known):
            return
        number = np.int64(load_number((ins[0],), (cuda.blockIdx.x,))[0])
        row = load_row((ins[1],), (number * row_words,), 2)[0]
        arrays, targets, more = row[:reads], choose(row), of_row(known, row[count + 3])
        size, first, body = np.int64(row[count]), np.int64(row[count + 1]), np.int64(row[count + 2])
        threads = np.int64(cuda.blockDim.x)
        start = (np.int64(cuda.blockIdx.x) - first) * chunk
        end = min(start + chunk, size)
        at = start + cuda.threadIdx.x * width
        while at < min(end, body):
            values = load_lanes(arrays, offsets((at,), each), 0)
            store_lanes(targets, offsets((at,), each_result), 0, map_lanes(function, values, more))
            at += threads * width
        at = max(start, body) + cuda.threadIdx.x
        while at < end:
            here = (end - at + threads - 1) // threads
            values = load_some(arrays, offsets((at,), each), threads, here)
            store_some(targets, offsets((at,), each_result), threads, map_lanes(function, values, more), here)
            at += threads * lanes

    return kernel


def _choosing(written: Sequence[int]) -> Any:
    """Return the device function that selects the fields with these numbers from a row.

    It is generated as source text because Numba needs the tuple's length at compile time.
    """
    space: dict[str, Any] = {}
    exec(f"def choose(row):\n    return ({', '.join(f'row[{k}]' for k in written)},)\n", space)
    return cuda.jit(device=True)(space["choose"])


def parameters(spec: ListSpec) -> Sequence[tuple[str, Any]]:
    """Return the parameters: tables and single-element arrays; elements of a chunk; scalar arguments."""
    return [("uint64", 2 + len(spec.singles)), ("uint64", 0), ("int64", None), (WORDS, words_of(spec.scalars))]
