"""Formulas for attention's arrays, mostly for those with sequence lengths and starts.

They ensure that nothing is read or written outside the arrays, for any values in a user's array.
"""

from __future__ import annotations

from functools import lru_cache

from ...functions.formula import Formula


@lru_cache(maxsize=256)
def clamped(low: int, high: int, factor: int = 1) -> Formula:
    """Return the formula x -> factor times x clamped to the range from low to high."""

    def clamp(x):
        return min(max(x, low), high) * factor

    return Formula("attention.clamped", clamp, origin=(clamped, (low, high, factor)))


@lru_cache(maxsize=256)
def between(total: int, most: int) -> Formula:
    """Return the formula (start, end) -> a sequence's number of tokens, at most `most`, within `total` tokens."""

    def count(start, end):
        return min(max(min(max(end, 0), total) - min(max(start, 0), total), 0), most)

    return Formula("attention.between", count, origin=(between, (total, most)))


def _raise(level):
    return level if level > -3.4e38 else 3.4e38


#: Statistics with -inf (rows without a key) replaced by a large value, so that exp(S - level) is 0.
raised = Formula("attention.raised", _raise)


def _negate(x):
    return -x


#: Queries and their gradients negated, for a negative scale.
negated = Formula("attention.negated", _negate)


def _is_kept(factor):
    return factor != 0.0


#: Whether dropout keeps the weight with this factor.
kept = Formula("attention.kept", _is_kept)
