"""The kernels that sort what indices name: (key, offset) pairs, by key, those of one key in the order they came in.

A key is the number of the element of dx that an index names, an offset where in dy that element's share lies. Keys are
sorted digit by digit from the lowest, as one sorts punched cards. A pass has three launches:

`count`    block b counts how often each digit is in its own tile of the list: counts[digit, b].
(a scan)   counts become how many entries have lower digits, or the same in an earlier tile: where each block's begin.
`place`    block b puts its tile's entries there, one behind the other.

A block is a warp. It takes its tile 32 entries at a time: each thread learns which others have its digit (one
instruction), so how many of these stand before it. Entries of one digit keep their order, nothing depends on which
block is first, and no two threads add to one count.

`bounds` then finds, by bisection, where the entries of each key begin.

Source: Knuth, "The Art of Computer Programming" vol. 3, 5.2.5, for sorting by digits; Merrill and Grimshaw 2010,
"Revisiting sorting for GPGPU stream architectures", for counting, scanning and placing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base._numba import cuda, types
from ...base.dtypes import TABLE
from ..primitives.block_scan import alike
from ..primitives.operands import operands
from ..specs import Kernel
from .spec import DIGIT_BITS, SortSpec


def _entries(spec: SortSpec) -> Callable[..., Any]:
    """The device function (ins, n, steps, outer, length, apart, beyond) -> (key, offset) of entry n.

    Of indices the key is what its place says and `apart` times the index, which may count from the end; `beyond` where
    it names nothing.
    """
    words = operands((TABLE[spec.word],), 1, 1)
    load, offsets, unravel = words.load, words.offsets, words.unravel
    if not spec.indices:
        both = spec.algorithm == "place"

        def known(ins, n, steps, outer, length, apart, beyond):
            key = load(ins[:1], (n,))[0]
            return key, load(ins[1:2], (n,))[0] if both else key

        return cuda.jit(device=True)(known)  # type: ignore[no-any-return]
    load_index = operands((TABLE[spec.indices],), 1, 1, "int64").load

    def made(ins, n, steps, outer, length, apart, beyond):
        at = offsets(unravel(n, outer), steps)
        (number,) = load_index(ins[:1], at[:1])
        if number < 0:
            number += length
        return at[2] + number * apart if 0 <= number < length else beyond, at[1]

    return cuda.jit(device=True)(made)  # type: ignore[no-any-return]


def _pass(spec: SortSpec) -> Kernel:
    """`count` and `place`: a warp for each of `blocks` tiles of `tile` entries, by the digit `shift` bits up."""
    places, before = spec.algorithm == "place", 1 if spec.indices else 2
    words = operands((TABLE[spec.word],), 1, 1)
    load, store, entry = words.load, words.store, _entries(spec)
    # One more than digits: that of the threads behind the last entry.
    slots, cell = (1 << DIGIT_BITS) + 1, getattr(types, spec.word)

    def kernel(ins, outs, steps, outer, count, tile, blocks, shift, bins, length, apart, beyond):
        cells = cuda.shared.array(slots, cell)
        lane, lanes, block = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
        digit = lane
        while digit <= bins:
            at = digit * blocks + block - 1
            cells[digit] = load(ins[before:], (at,))[0] if places and at >= 0 and digit < bins else 0
            digit += lanes
        cuda.syncthreads()
        base, end = block * tile, min(block * tile + tile, count)
        while base < end:
            is_there = base + lane < end
            key, offset = entry(ins, base + lane if is_there else base, steps, outer, length, apart, beyond)
            digit = (key >> shift) & (bins - 1) if is_there else bins
            others = alike(digit)
            rank = cuda.popc(others & ((1 << lane) - 1))
            first = cells[digit]
            cuda.syncthreads()
            if is_there:
                if places:
                    store(outs, (first + rank, first + rank), (key, offset))
                if rank == 0:
                    cells[digit] = first + cuda.popc(others)
            cuda.syncthreads()
            base += lanes
        if not places:
            digit = lane
            while digit < bins:
                store(outs, (digit * blocks + block,), (cells[digit],))
                digit += lanes

    return kernel


def _bounds(spec: SortSpec) -> Kernel:
    """One thread for each of `numbers` keys, and one more: how many of `count` sorted keys are less."""
    words = operands((TABLE[spec.word],), 1, 1)
    load, store = words.load, words.store

    def kernel(ins, outs, count, numbers):
        number = cuda.grid(1)
        if number <= numbers:
            low, high = 0, count
            while low < high:
                middle = low + (high - low) // 2
                if load(ins, (middle,))[0] < number:
                    low = middle + 1
                else:
                    high = middle
            store(outs, (number,), (low,))

    return kernel


def make(spec: SortSpec) -> Kernel:
    """See `kernel_code.make`."""
    return _bounds(spec) if spec.algorithm == "bounds" else _pass(spec)


def parameters(spec: SortSpec) -> Sequence[tuple[str, Any]]:
    """See `kernel_code.parameters`."""
    integer = spec.word
    addresses = [("uint64", len(spec.reads)), ("uint64", len(spec.writes))]
    if spec.algorithm == "bounds":
        return [*addresses, (integer, None), (integer, None)]
    return [*addresses, (integer, (3, spec.rank)), (integer, spec.rank), *[(integer, None)] * 8]
