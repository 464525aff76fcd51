"""The kernels that sort indices: (key, offset) pairs, by key; the sort is stable.

A key is the number of the element of dx that an index selects; an offset is the position of that element's share in dy.
Keys are sorted digit by digit from the lowest (a radix sort, as with punched cards). A pass has three launches:

`count`    block b counts how often each digit occurs in its own tile of the list: counts[digit, b].
(a scan)   counts become the number of entries with lower digits, or with the same digit in earlier tiles: the start of
           each block's entries.
`place`    block b stores its tile's entries there, one after the other.

A block is a warp. It processes its tile 32 entries at a time. One instruction tells each thread which other threads
have its digit, and thus how many of these come before it. Entries of one digit keep their order, results do not depend
on the order of blocks, and no two threads increment the same count.

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
    """Return the device function (ins, n, steps, outer, length, apart, beyond) -> (key, offset) of entry n.

    The key of an index is the number of its position plus `apart` times the index, which may count from the end. An
    index that is out of range has the key `beyond`.
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
    """Return the kernel of `count` or `place`: a warp for each of `blocks` tiles, by the digit at bit `shift`."""
    places, before = spec.algorithm == "place", 1 if spec.indices else 2
    words = operands((TABLE[spec.word],), 1, 1)
    load, store, entry = words.load, words.store, _entries(spec)
    # One slot more than there are digits, for the threads after the last entry.
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
    """Return the kernel with one thread for each of `numbers` keys and one more: it counts the smaller sorted keys."""
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
    """Build the kernel, as `kernel_code.make` describes."""
    return _bounds(spec) if spec.algorithm == "bounds" else _pass(spec)


def parameters(spec: SortSpec) -> Sequence[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `kernel_code.parameters`."""
    integer = spec.word
    addresses = [("uint64", len(spec.reads)), ("uint64", len(spec.writes))]
    if spec.algorithm == "bounds":
        return [*addresses, (integer, None), (integer, None)]
    return [*addresses, (integer, (3, spec.rank)), (integer, spec.rank), *[(integer, None)] * 8]
