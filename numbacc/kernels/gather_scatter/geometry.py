"""How the rows of dy are brought back to where indices took them from: lists, keys, and how each kernel walks arrays.

Nothing here depends on what the indices are, nor on which GPU it is: a graph that was captured adds up what the indices
of each launch name, and results have the same bits on all GPUs.

* Of up to `_FEW` indices for an element of dx each of its threads looks through them all: one launch, which reads dy
  and writes dx once.
* Of more, the list of all is sorted by 10 bits a pass at most, three launches and a scan's for each, two for up to a
  million keys; `bounds` finds each key's segment. Of a list of n that moves about 24 n bytes a pass, beside 8 bytes for
  each key and 4 for each of up to 2^20 counts.
* Of rows that are many times a chunk's there are chunks of 64 rows, of 64 of those, and so on: as many levels as leave
  256 chunks at most on top, a launch each. Their sums take a 64th of dy's elements in scratch memory, in the dtype that
  is computed in; only those of chunks of one key are written.
* Last, one launch adds up every element of dx. Threads side by side take 16 bytes each of what is contiguous in dx and
  dy, blocks below each other elements of dx that lie apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from ...base.layout import Merged, merge_dimensions, row_major_strides
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, WARP
from ..elementwise.geometry import row_grid
from .spec import DIGIT_BITS

#: Indices that a thread looks through, at most.
_FEW = 32
#: A chunk is so many rows, or chunks one level below, as a power of two; where there are `_TOP` times so many chunks
#: there are chunks of chunks.
BITS, _TOP = 6, 4
#: Blocks that sort a list, at most, of at least so many entries each.
_BLOCKS, _TILE = 1024, 256
#: Bits of a digit, at most.
_DIGIT = DIGIT_BITS


class Scatter(NamedTuple):
    """Which entries of a list an element of dx is the sum of. Steps are in elements.

    Attributes:
        listed: the shape of the list.
        dy, indices: the steps along it to an entry's elements of dy, and to its index.
        keys: the steps of the number that the index, times `apart`, is added to.
        apart: what 1 of an index is worth.
        numbers: how many numbers there are so.
        beside: the steps of (dy, indices, number) along dx's axes: an element is the sum of the entries of its number.
    """

    listed: tuple[int, ...]
    dy: tuple[int, ...]
    indices: tuple[int, ...]
    keys: tuple[int, ...]
    apart: int
    numbers: int
    beside: tuple[tuple[int, ...], ...]

    @property
    def entries(self) -> int:
        """How many the list has."""
        return prod(self.listed)


class Sorting(NamedTuple):
    """How a list is sorted.

    Attributes:
        tile, blocks: entries that a block takes, and blocks.
        shifts: of each pass, how many bits lie below its digit.
        bins: how many digits there are.
    """

    tile: int
    blocks: int
    shifts: tuple[int, ...]
    bins: int

    @property
    def grid(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Blocks and threads."""
        return (self.blocks, 1), (WARP, 1)


class Rows(NamedTuple):
    """A grid over dx, or over chunks' sums.

    Attributes:
        merged: the dimensions, at least two, and each operand's steps.
        width: elements of the last that a thread takes.
    """

    merged: Merged
    width: int

    @property
    def outer(self) -> tuple[int, ...]:
        """The dimensions of the rows."""
        return self.merged.shape[:-1]

    @property
    def rows(self) -> int:
        """How many there are."""
        return prod(self.outer)

    @property
    def columns(self) -> int:
        """Their length."""
        return self.merged.shape[-1]

    @property
    def grid(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Blocks and threads."""
        return row_grid(self.columns // self.width, self.rows, 1)


def is_few(line: Scatter) -> bool:
    """True if threads are to look through the list."""
    return line.entries <= _FEW


def sorting(count: int, numbers: int) -> Sorting:
    """How so many entries are sorted by keys from 0 to `numbers`."""
    bits = numbers.bit_length()
    passes = -(-bits // _DIGIT)
    digit = -(-bits // passes)
    blocks = min(-(-count // _TILE), _BLOCKS)
    # Whole warps of entries, so that only the last is not full.
    tile = -(-count // (blocks * WARP)) * WARP
    return Sorting(tile, -(-count // tile), tuple(range(0, bits, digit)), 1 << digit)


def levels(count: int) -> list[int]:
    """How many chunks there are of a list, level by level."""
    found: list[int] = []
    while count >> BITS >= _TOP:
        count >>= BITS
        found.append(count)
    return found


def in_c_order(scatter: Scatter) -> Merged:
    """The list's dimensions, merged, with the steps of (indices, dy, key)."""
    steps = (row_major_strides(scatter.listed, 1), scatter.indices, scatter.dy, scatter.keys)
    merged = merge_dimensions(scatter.listed, steps, 1, leader=0)
    return merged._replace(strides=merged.strides[1:])


def over_few(shape: Sequence[int], line: Scatter, out: Sequence[int], size: int, alignments: Sequence[int]) -> Rows:
    """For `scatter_few`: the steps of (dy, indices, number, dx).

    Args:
        shape: dx's.
        line: the list.
        out: dx's steps.
        size: bytes of an element.
        alignments: the addresses of dy and dx modulo 16.
    """
    merged = _two(merge_dimensions(shape, (*line.beside, out), 1, leader=3))
    dy, indices, number, target = merged.strides
    width = _width(merged.shape[-1], (dy, target), (*line.dy,), size, alignments)
    return Rows(merged, width if not indices[-1] and not number[-1] else 1)


def over_rows(shape: Sequence[int], whole: Scatter, out: Sequence[int], size: int, alignments: Sequence[int]) -> Rows:
    """For `scatter_rows`, as `over_few`: the steps of (dy, chunks' sums, number, dx)."""
    dy, _, number = whole.beside
    merged = _two(merge_dimensions(shape, (dy, number, out), 1, leader=2))
    dy, number, target = merged.strides
    beside = [0 if step else n for n, step in zip(merged.shape, number, strict=True)]
    sums = row_major_strides([n or 1 for n in beside], 1)
    part = tuple(step if n > 1 else 0 for n, step in zip(beside, sums, strict=True))
    width = _width(merged.shape[-1], (dy, target), (*whole.dy,), size, alignments)
    return Rows(Merged(merged.shape, (dy, part, number, target)), 1 if number[-1] else width)


def sums_of(rows: Rows) -> int:
    """How many sums a chunk has: one for each element of dx that has a given number."""
    return prod(n for n, step in zip(rows.merged.shape, rows.merged.strides[2], strict=True) if not step)


def over_chunks(rows: Rows, chunks: int) -> Rows:
    """For `scatter_chunks`, given what `over_rows` says: the steps of (dy, sums below, chunk, sums)."""
    shape, (dy, part, number, _) = rows.merged
    kept = [d for d, step in enumerate(number) if not step]
    lengths, dy, part = (tuple([steps[d] for d in kept]) for steps in (shape, dy, part))
    none = (0,) * len(kept)
    return Rows(
        _two(Merged((chunks, *lengths), ((0, *dy), (0, *part), (1, *none), (sums_of(rows), *part)))), rows.width
    )


def bounds_grid(numbers: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Blocks and threads, one for each number and one more."""
    return (-(-(numbers + 1) // MAX_THREADS), 1), (MAX_THREADS, 1)


def _two(merged: Merged) -> Merged:
    """At least two dimensions, since kernels unravel at least one."""
    if len(merged.shape) > 1:
        return merged
    return Merged((1, *merged.shape), tuple((0, *step) for step in merged.strides))


def _width(
    columns: int, walked: Sequence[tuple[int, ...]], listed: Sequence[int], size: int, alignments: Sequence[int]
) -> int:
    """Elements of an access, where those of dy and dx are next to each other and aligned everywhere."""
    if any(step[-1] != 1 for step in walked):
        return 1
    distances = (columns, *(n for step in walked for n in step[:-1]), *listed)
    return max(gcd(VECTOR_BYTES, *alignments, *(size * n for n in distances)) // size, 1)
