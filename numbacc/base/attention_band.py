"""Bands along a diagonal of the score matrix: which keys a query may see, by their positions. Nothing is checked here.

Query i sees key j if

    lower <= j - i - shift <= upper

where None means no bound. The diagonal has shift 0 if it starts in the matrix's top left corner. If it ends in the
bottom right corner of a sequence's own queries and keys, shift = keys - queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Band:
    """A band of a matrix of scores.

    Attributes:
        lower, upper: how far a key may be before the diagonal (negative) and after it; None for no bound.
        bottom_right: True if the diagonal ends in the bottom right corner, False if it starts in the top left.
    """

    lower: int | None = None
    upper: int | None = None
    bottom_right: bool = False

    @property
    def is_full(self) -> bool:
        """Whether every query sees every key."""
        return self.lower is None and self.upper is None

    def within(self, queries: int, keys: int) -> Band:
        """Return the band for at most this many queries and keys, without bounds that hide nothing there.

        Very large bounds could overflow 32 bits when positions are added. A window on both sides that hides nothing
        loses both bounds. A narrower one keeps both, and "causal" with a single key stays causal: libraries support
        those together.
        """
        before, behind = (keys, queries) if self.bottom_right else (queries, keys)
        if self.lower is not None and self.upper and self.lower <= 1 - before and self.upper >= behind - 1:
            return replace(self, lower=None, upper=None)
        reach = queries + keys
        lower = None if self.lower is None or self.lower <= -reach else self.lower
        upper = None if self.upper is None or self.upper >= reach else self.upper
        return replace(self, lower=lower, upper=upper)

    def shift(self, queries: int, keys: int) -> int:
        """Return where the diagonal starts: the key opposite query 0."""
        return keys - queries if self.bottom_right else 0

    def keys_of(self, first: int, last: int, queries: int, keys: int) -> tuple[int, int]:
        """Return the range of keys that any of the queries `first` to `last` (inclusive) sees."""
        shift = self.shift(queries, keys)
        start = 0 if self.lower is None else first + shift + self.lower
        end = keys if self.upper is None else last + shift + self.upper + 1
        start, end = max(start, 0), min(end, keys)
        return start, max(end, start)

    def leaves_rows_empty(self, queries: int, keys: int) -> bool:
        """Return whether some query sees no key."""
        if not (queries and keys):
            return bool(queries)
        ends = (self.keys_of(row, row, queries, keys) for row in (0, queries - 1))
        return any(start == end for start, end in ends)
