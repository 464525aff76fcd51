"""Which kernel reduces an array over some of its axes, on what grid, and how many blocks share a result.

The dimensions that are kept and those that are reduced are merged, each where all operands walk them alike. Nothing
here depends on which GPU it is: results have the same bits on all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import NamedTuple

from ...base.dtypes import TABLE
from ...base.layout import Merged
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, WARP
from ..elementwise.geometry import power_of_two

#: Blocks that keep an H200 busy; where there are half as many, several share a result.
_BLOCKS = 1056
#: Bytes next to each other that a block takes of a row of columns, at least.
_LINE = 128
#: Bytes of a thread's parts in all lanes of `fold_columns`, at most: they stay in registers.
_PARTS_BYTES = 32
#: Rounds of accesses under way whose parts are merged before they are merged with all others.
_ROUNDS = 16
#: Rounds that a thread has at least where blocks share a result.
_SHARED_ROUNDS = 4
#: Accesses that a thread has of a row, at least; and where bringing parts together takes longer than an addition.
_ACCESSES, _MORE_ACCESSES = 4, 16
#: Bytes next to each other that a block takes of parts, and how many parts a thread, at least: they are few.
_PARTS_LINE, _PARTS_EACH = 32, 2


class Walk(NamedTuple):
    """How a kernel walks its operands: the dimensions that are kept and reduced, with each operand's steps in elements.

    Attributes:
        kept: steps of the inputs, then of the outputs.
        reduced: steps of the inputs, and of the index where there is one.
        sizes: bytes of the inputs' elements.
        alignments: the inputs' addresses modulo 16.
    """

    kept: Merged
    reduced: Merged
    sizes: Sequence[int]
    alignments: Sequence[int]

    @property
    def inputs(self) -> int:
        return len(self.sizes)


class Launch(NamedTuple):
    """A kernel and its grid.

    Attributes:
        algorithm, width: as in `FoldSpec`.
        grid, block: blocks and threads.
        kept, reduced: the dimensions that the kernel unravels.
        scalars: the integers that follow them, but for the count and `whole`.
        repeated: as in `FoldSpec`.
    """

    algorithm: str
    width: int
    grid: tuple[int, int]
    block: tuple[int, int]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    scalars: tuple[int, ...]
    repeated: tuple[int, ...] = ()


def launch_of(walk: Walk, parts: Sequence[str], most: int = _BLOCKS) -> Launch:
    """The kernel and its grid, given the names of the parts' dtypes; `most` is as in `by_columns`."""
    kept, reduced, sizes = walk.kept, walk.reduced, walk.sizes
    inner = reduced.strides[: walk.inputs]
    along = [k for k, step in enumerate(inner) if step[-1] == 1]
    # Without rows there is nothing to cut into pieces: `by_columns` has a grid for empty sums.
    if along and 0 not in reduced.shape and all(step[-1] in (0, 1) for step in inner):
        wide = VECTOR_BYTES // max(sizes[k] for k in along)
        if reduced.shape[-1] >= 2 * wide:
            # One by itself is taken from where it is aligned on; several must be aligned alike.
            if len(along) > 1:
                # Along a dimension of length 1 nothing is walked.
                outer = [[n for n, length in zip(step, kept.shape, strict=True) if length > 1] for step in kept.strides]
                steps = [(*outer[k], *inner[k][:-1]) for k in range(walk.inputs)]
                wide = _whole_width(walk, steps, along, wide)
            each = _ACCESSES if len(parts) == 1 else _MORE_ACCESSES
            return _rows(walk, wide, tuple(k for k in range(walk.inputs) if k not in along and wide > 1), each)
    columns = [step[-1] for step in kept.strides[: walk.inputs]]
    straight = [k for k, step in enumerate(columns) if step == 1]
    width, nbytes = 1, sum(max(TABLE[part].itemsize, 4) for part in parts)
    if kept.shape[-1] > 1 and straight and set(columns) <= {0, 1}:
        steps = [(*kept.strides[k][:-1], *inner[k]) for k in range(walk.inputs)]
        wide = gcd(VECTOR_BYTES // max(sizes[k] for k in straight), kept.shape[-1])
        width = _whole_width(walk, steps, straight, wide)
        while width > 1 and width * nbytes > _PARTS_BYTES:
            width //= 2
    return by_columns(walk, width, _runs(sizes, width), most)


def _runs(sizes: Sequence[int], width: int) -> int:
    """Accesses that a thread has under way, about: see `FoldSpec.runs`."""
    return max(min(4 * VECTOR_BYTES // (width * sum(sizes)), 16), 2)


def _whole_width(walk: Walk, steps: Sequence[Sequence[int]], inputs: Iterable[int], width: int) -> int:
    """Elements of an access, at most `width`, such that each of these inputs' is aligned, given its other steps."""
    for k in inputs:
        size = walk.sizes[k]
        width = gcd(width, gcd(VECTOR_BYTES, walk.alignments[k], *(size * n for n in steps[k])) // size)
    return max(width, 1)


def _rows(walk: Walk, width: int, repeated: tuple[int, ...], each: int) -> Launch:
    columns, outer, positions = walk.reduced.shape[-1], walk.reduced.shape[:-1], prod(walk.kept.shape)
    vectors, runs = -(-columns // width), _runs(walk.sizes, width)
    # As few threads a row as have several accesses each, but one alone waits for each; more where rows are few.
    x = min(_below(max(vectors // each, min(vectors, 2))), MAX_THREADS)
    while x < min(MAX_THREADS, vectors) and positions * x < _BLOCKS * MAX_THREADS:
        x *= 2
    y = min(MAX_THREADS // x, power_of_two(positions))
    blocks, round_ = -(-positions // y), x * width * runs
    rounds = -(-columns // round_)
    shares = 1
    if 2 * blocks < _BLOCKS:
        # No more than run at once: those left over would run alone.
        shares = min(_BLOCKS // blocks, rounds * prod(outer) // _SHARED_ROUNDS)
    # A piece of a row is merged by itself: that bounds the errors' growth, too.
    pieces = max(-(-rounds // _ROUNDS), min(-(-shares // max(prod(outer), 1)), rounds))
    piece = -(-rounds // pieces) * round_
    pieces = -(-columns // piece)
    units = prod(outer) * pieces
    splits = _even(units, shares)
    scalars = (positions, columns, piece, units)
    return Launch("fold_rows", width, (blocks, splits), (x, y), walk.kept.shape, (*outer, pieces), scalars, repeated)


def of_parts(walk: Walk) -> Launch:
    """The grid of what merges the parts of blocks that share results."""
    return by_columns(walk, 1, _PARTS_EACH, 1, _PARTS_LINE)


def by_columns(walk: Walk, width: int, runs: int, most: int, line: int = _LINE) -> Launch:
    """The grid of `fold_columns`.

    Args:
        walk: what is reduced.
        width, runs: as in `FoldSpec`.
        most: how many blocks keep a GPU busy; 1 where none shall share a result.
        line: bytes next to each other that a block takes, at least.
    """
    kept, reduced, size = walk.kept, walk.reduced, max(walk.sizes)
    items, positions = prod(reduced.shape), prod(kept.shape) // width
    near = abs(kept.strides[0][-1]) <= abs(reduced.strides[0][-1]) or items == 1
    # Neighbouring threads take what lies next to each other in memory.
    x = min(power_of_two(positions), WARP, MAX_THREADS, max(line // (width * size), 1)) if near else 1
    y = min(MAX_THREADS // x, power_of_two(-(-items // runs)))
    x = min(MAX_THREADS // y, power_of_two(positions))
    blocks = -(-positions // x)
    round_ = y * runs
    rounds = max(-(-items // round_), 1)
    shares = min(most // blocks, rounds // _SHARED_ROUNDS) if 2 * blocks < most else 1
    splits = _even(rounds, shares)
    span = -(-rounds // splits) * round_
    repeated = tuple(k for k in range(walk.inputs) if kept.strides[k][-1] == 0 and width > 1)
    shape = (*kept.shape[:-1], kept.shape[-1] // width)
    scalars = (positions, items, span, _ROUNDS * round_)
    return Launch("fold_columns", width, (blocks, splits), (x, y), shape, reduced.shape, scalars, repeated)


def _even(units: int, shares: int) -> int:
    """How many blocks share so many units, at most `shares`, so that each has as many."""
    each = -(-units // max(shares, 1))
    return max(-(-units // max(each, 1)), 1)


def _below(number: int) -> int:
    """The greatest power of two that is not more."""
    return 1 << number.bit_length() - 1
