"""Formulas of attention's arrays, foremost of what says how long sequences are, and where they lie: whatever a user's
array holds, nothing is read or written beyond the arrays.
"""

from __future__ import annotations

from functools import lru_cache

from ...functions.formula import Formula


@lru_cache(maxsize=256)
def clamped(low: int, high: int, factor: int = 1) -> Formula:
    """The formula x -> factor times the nearest integer to x from low to high."""

    def clamp(x):
        return min(max(x, low), high) * factor

    return Formula("attention.clamped", clamp, origin=(clamped, (low, high, factor)))


@lru_cache(maxsize=256)
def between(total: int, most: int) -> Formula:
    """The formula (start, end) -> how many tokens a sequence has, of so many in all, and at most in one."""

    def count(start, end):
        return min(max(min(max(end, 0), total) - min(max(start, 0), total), 0), most)

    return Formula("attention.between", count, origin=(between, (total, most)))


def _raise(level):
    return level if level > -3.4e38 else 3.4e38


#: Statistics, those of rows without a key as they must be for exp(S - level) to be 0.
raised = Formula("attention.raised", _raise)


def _negate(x):
    return -x


#: Queries and their gradients, where it is they that have the scale's sign.
negated = Formula("attention.negated", _negate)


def _is_kept(factor):
    return factor != 0.0


#: Whether dropout keeps what has a factor.
kept = Formula("attention.kept", _is_kept)
