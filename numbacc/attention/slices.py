"""Slices of the scores, so that unfused attention stays within workspace_limit: one slice is in scratch memory at once.

A slice is as large as possible. It holds all heads of several sequences; or some key heads of one sequence, with all
their query heads; or some of the query heads of one key head; or some queries of one head. In the last two cases
several slices have the same keys: the gradients of keys and values are then accumulated over these slices, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import UnsupportedError
from .geometry import AttentionGeometry
from .problem import AttentionProblem

#: Scratch memory for a matrix product, if enough is left.
PRODUCTS = 2**25
#: Bytes that alignment may cost: each part of scratch memory starts at a multiple of 256 bytes.
_GAPS = 3 * 256
#: If a slice has more queries than this, their number is a multiple of it, so that the next slice is aligned.
_QUERIES = 128


class Slice(NamedTuple):
    """Scores that are computed together.

    Attributes:
        batch, batches: the first sequence, and the number of sequences.
        head, heads: the first query head, and the number of query heads: all heads of some key heads, or some that
            share one.
        row, rows: the first query, and the number of queries: all, or some of one head.
    """

    batch: int
    batches: int
    head: int
    heads: int
    row: int
    rows: int

    def shares(self, found: AttentionGeometry) -> int:
        """Return the number of query heads in the slice for each key head."""
        return min(self.heads, found.group)

    def keys_heads(self, found: AttentionGeometry) -> int:
        """Return the number of key heads."""
        return self.heads // self.shares(found)

    def has_all_queries(self, found: AttentionGeometry) -> bool:
        """Return whether no other slice has the same keys."""
        return self.shares(found) == found.group and self.rows == found.queries

    def is_first(self, found: AttentionGeometry) -> bool:
        """Return whether no earlier slice has the same keys."""
        return self.head % found.group == 0 and not self.row

    def is_last(self, found: AttentionGeometry) -> bool:
        """Return whether no later slice has the same keys."""
        return (self.head + self.heads) % found.group == 0 and self.row + self.rows == found.queries


def whole(found: AttentionGeometry) -> Slice:
    """Return one slice with all scores."""
    return Slice(0, found.batch, 0, found.heads, 0, found.queries)


def of_keys(problem: AttentionProblem, cell: int, used: int) -> list[Slice]:
    """Return slices of whole key heads; an empty list if not even one fits.

    Args:
        cell: bytes of scratch memory for each score.
        used: bytes of scratch memory that are in use already.
    """
    found = problem.geometry
    room = _room(problem, found.group * found.queries * found.keys * cell, used)
    made = []
    if room >= found.heads_kv:
        step = min(room // found.heads_kv, found.batch)
        for batch in range(0, found.batch, step):
            batches = min(step, found.batch - batch)
            made.append(Slice(batch, batches, 0, found.heads, 0, found.queries))
    elif room:
        for batch in range(found.batch):
            for head in range(0, found.heads_kv, room):
                heads = min(room, found.heads_kv - head) * found.group
                made.append(Slice(batch, 1, head * found.group, heads, 0, found.queries))
    return made


def of_queries(problem: AttentionProblem, cell: int, used: int) -> list[Slice]:
    """Return slices of some of the query heads of one key head, or, if not even one head fits, of its queries.

    Raises:
        UnsupportedError: not even one query fits.
    """
    return list(_of_queries(problem, cell, used))


def _of_queries(problem: AttentionProblem, cell: int, used: int) -> Iterator[Slice]:
    found = problem.geometry
    heads = _room(problem, found.queries * found.keys * cell, used)
    rows = found.queries if heads else _room(problem, found.keys * cell, used)
    if not rows:
        raise UnsupportedError(
            f"workspace_limit={problem.limit} is too small: unfused, the scores of one query of one head, with "
            f"{found.keys} keys, need {found.keys * cell + used + _GAPS} bytes of scratch memory, including {used} for "
            "buffers that all slices share"
        )
    if rows < found.queries and rows > _QUERIES:
        rows -= rows % _QUERIES
    for batch in range(found.batch):
        for shared in range(0, found.heads, found.group):
            for head in range(0, found.group, heads or 1):
                for row in range(0, found.queries, rows):
                    here = min(heads or 1, found.group - head), row, min(rows, found.queries - row)
                    yield Slice(batch, 1, shared + head, *here)


def _room(problem: AttentionProblem, nbytes: int, used: int) -> int:
    """Return how many units of nbytes fit. If more than one fits, part of the memory is set aside for products."""
    free = problem.limit - used - _GAPS
    return max((free - min(PRODUCTS, free // 8)) // nbytes, min(free // nbytes, 1), 0)
