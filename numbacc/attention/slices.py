"""Which scores unfused attention has in scratch memory at once: slices that keep to the workspace limit.

A slice is as large as may be: all heads of several sequences; some heads of keys of one sequence, with all heads of
queries that share them; some of those heads of queries; or some queries of one head. Of the last two several have the
same keys: the gradients of keys and values are then added up over them, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import UnsupportedError
from .geometry import AttentionGeometry
from .problem import AttentionProblem

#: Scratch memory that a product may use where there is enough.
PRODUCTS = 2**25
#: Bytes that the parts of scratch memory behind each other may lose: each starts at a multiple of 256.
_GAPS = 3 * 256
#: Queries of a slice are a multiple of this where they are more: what lies behind is then aligned.
_QUERIES = 128


class Slice(NamedTuple):
    """Scores that are taken together.

    Attributes:
        batch, batches: the first sequence, and how many.
        head, heads: the first head of queries, and how many: those of whole heads of keys, or some that share one.
        row, rows: the first query, and how many: all, or some of one head.
    """

    batch: int
    batches: int
    head: int
    heads: int
    row: int
    rows: int

    def shares(self, found: AttentionGeometry) -> int:
        """How many heads of queries it has of each head of keys."""
        return min(self.heads, found.group)

    def keys_heads(self, found: AttentionGeometry) -> int:
        """How many heads of keys it has."""
        return self.heads // self.shares(found)

    def has_all_queries(self, found: AttentionGeometry) -> bool:
        """Whether no other slice has the same keys."""
        return self.shares(found) == found.group and self.rows == found.queries

    def is_first(self, found: AttentionGeometry) -> bool:
        """Whether no slice before has the same keys."""
        return self.head % found.group == 0 and not self.row

    def is_last(self, found: AttentionGeometry) -> bool:
        """Whether no slice behind has the same keys."""
        return (self.head + self.heads) % found.group == 0 and self.row + self.rows == found.queries


def whole(found: AttentionGeometry) -> Slice:
    """All scores."""
    return Slice(0, found.batch, 0, found.heads, 0, found.queries)


def of_keys(problem: AttentionProblem, cell: int, used: int) -> list[Slice]:
    """Slices of whole heads of keys; none where not even one fits.

    Args:
        cell: bytes of scratch memory for each score.
        used: bytes of scratch memory that are used already.
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
    """Slices of some of the heads of queries that share one of keys, or, if one does not fit, of its queries.

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
            f"workspace_limit={problem.limit} leaves no room: unfused, the scores of one query of one head, with "
            f"{found.keys} keys, need {found.keys * cell + used + _GAPS} bytes of scratch memory, {used} of them for "
            "what is the same for all"
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
    """How many times so many bytes fit: where it is more than once, products have scratch memory of their own."""
    free = problem.limit - used - _GAPS
    return max((free - min(PRODUCTS, free // 8)) // nbytes, min(free // nbytes, 1), 0)
