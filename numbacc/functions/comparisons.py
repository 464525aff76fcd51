"""Comparisons of signed with unsigned integers of 64 bits, for `numbacc.elementwise`: no dtype has the numbers of both.

Both come as int64, the unsigned one with its bits, so that those from 2^63 on are below 0: they are above any signed
number. Functions with `_reversed` take the unsigned one first.
"""

from __future__ import annotations


def equal(signed, unsigned):
    return unsigned >= 0 and signed == unsigned


def not_equal(signed, unsigned):
    return unsigned < 0 or signed != unsigned


def less(signed, unsigned):
    return unsigned < 0 or signed < unsigned


def less_equal(signed, unsigned):
    return unsigned < 0 or signed <= unsigned


def greater(signed, unsigned):
    return unsigned >= 0 and signed > unsigned


def greater_equal(signed, unsigned):
    return unsigned >= 0 and signed >= unsigned


def equal_reversed(unsigned, signed):
    return equal(signed, unsigned)


def not_equal_reversed(unsigned, signed):
    return not_equal(signed, unsigned)


def less_reversed(unsigned, signed):
    return greater(signed, unsigned)


def less_equal_reversed(unsigned, signed):
    return greater_equal(signed, unsigned)


def greater_reversed(unsigned, signed):
    return less(signed, unsigned)


def greater_equal_reversed(unsigned, signed):
    return less_equal(signed, unsigned)
