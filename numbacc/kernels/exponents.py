"""Sums of e^x as reductions: log Σ e^x, and what a loss needs of all rows; their meaning in NumPy is in
`reference.reductions`."""

from __future__ import annotations

import math

from .arithmetic import exp, exp2_rough, fma, greatest
from .fold_formulas import add, add_two, larger, part
from .formula import Chunk, Reduction


def exponent(x):
    """x -> (x, 1): the sum of e^x as its largest exponent and a factor."""
    return x, 1.0


def merged_exponents(a, one, b, other):
    """Two sums of e^x together: of the larger exponent, the other brought to it. NaN if one is."""
    is_first = a > b or a != a
    largest = a if is_first else b
    # Equal infinities have no difference.
    less = 1.0 if a == b else exp((b if is_first else a) - largest)
    return largest, one + other * less if is_first else other + one * less


def logsumexp(largest, factor, count):
    """(largest + log factor,)."""
    return (largest + math.log(factor),)


def largest_of_some(largest, count):
    """(largest, what exponents are seen from): an infinite one has no difference to itself."""
    return largest, largest if abs(largest) < math.inf else 0.0


def seen_from(x, largest, base, none, nothing):
    """(e^(x - base),)."""
    return (exp(x - base),)


def power_from(x, base):
    """e^(x - b) by one multiplication that adds, and the hardware's power of 2: `base` is b log₂e.

    Its rounding, of a number as large as b, changes log Σ e^x by half a unit in its last place; of 16-bit floats sums
    are as exact otherwise.
    """
    return exp2_rough(fma(x, 1.4426950408889634, -base))


def largest_of_some_narrow(largest, count):
    """(largest, what exponents are seen from, times log₂e)."""
    return largest, largest * 1.4426950408889634 if abs(largest) < math.inf else 0.0


def seen_from_narrow(x, largest, base, none, nothing):
    """(e^(x - base),) of 16-bit floats."""
    return (power_from(x, base),)


def exponents_of_some_narrow(largest, base, factor, count):
    """(largest, factor). Beyond 2.3e38 bases are infinite: there no factor changes the logarithm."""
    return largest, factor if abs(base) < math.inf else 1.0


def exponents_of_some(largest, base, factor, count):
    """(largest, factor)."""
    return largest, factor


def twice(x):
    """(x, x)."""
    return x, x


def larger_and_sum(a, sum_a, b, sum_b):
    """(the larger of a and b, NaN if one is, the sum)."""
    return greatest(a, b), sum_a + sum_b


def largest_and_sum_of_some(largest, total, count):
    """`largest_of_some`, and the sum."""
    return largest, largest if abs(largest) < math.inf else 0.0, total


def seen_from_with_sum(x, largest, base, total, none, nothing, zero):
    """(e^(x - base),)."""
    return (exp(x - base),)


def seen_from_narrow_with_sum(x, largest, base, total, none, nothing, zero):
    """`seen_from_narrow`."""
    return (power_from(x, base),)


def exponents_and_sum_of_some(largest, base, total, factor, count):
    """(largest, factor, total)."""
    return largest, factor, total


def largest_and_sum_of_some_narrow(largest, total, count):
    """`largest_of_some_narrow`, and the sum."""
    largest, base = largest_of_some_narrow(largest, count)
    return largest, base, total


def exponents_and_sum_of_some_narrow(largest, base, total, factor, count):
    """`exponents_of_some_narrow`, and the sum."""
    return largest, factor if abs(base) < math.inf else 1.0, total


def exponent_and_value(x):
    """`exponent`, and x."""
    return x, 1.0, x


def merged_exponents_and_values(a, one, sum_a, b, other, sum_b):
    """`merged_exponents`, and the sum."""
    largest, factor = merged_exponents(a, one, b, other)
    return largest, factor, sum_a + sum_b


def logsumexp_and_mean(largest, factor, total, count):
    """(largest + log factor, total / count)."""
    return largest + math.log(factor), total / count


def counted(value, target, ignored):
    """(value, 1) of what counts, (0, 0) of what is ignored."""
    return (0.0, 0.0) if target == ignored else (value, 1.0)


def counting(target, ignored):
    """(1,) of what counts, (0,) of what is ignored."""
    return (0.0 if target == ignored else 1.0,)


def mean_of_counted(total, number, count, ignored):
    """(total / number,)."""
    return (total / number,)


def number_of_counted(number, count, ignored):
    """(number,)."""
    return (number,)


_ALL = (
    *(
        Reduction(
            f"logsumexp{kind}",
            exponent,
            start=(-math.inf, 0.0),
            merge=merged_exponents,
            finish=logsumexp,
            chunk=Chunk(part, larger, middle, second, add, end),
        )
        for kind, middle, second, end in (
            ("", largest_of_some, seen_from, exponents_of_some),
            ("_narrow", largest_of_some_narrow, seen_from_narrow, exponents_of_some_narrow),
        )
    ),
    *(
        Reduction(
            f"logsumexp_and_mean{kind}",
            exponent_and_value,
            start=(-math.inf, 0.0, 0.0),
            merge=merged_exponents_and_values,
            finish=logsumexp_and_mean,
            chunk=Chunk(twice, larger_and_sum, middle, second, add, end),
        )
        for kind, middle, second, end in (
            ("", largest_and_sum_of_some, seen_from_with_sum, exponents_and_sum_of_some),
            (
                "_narrow",
                largest_and_sum_of_some_narrow,
                seen_from_narrow_with_sum,
                exponents_and_sum_of_some_narrow,
            ),
        )
    ),
    Reduction("mean_of_counted", counted, start=(0.0, 0.0), merge=add_two, finish=mean_of_counted),
    Reduction("number_of_counted", counting, start=(0.0,), merge=add, finish=number_of_counted),
)

#: Reductions by name.
EXPONENTS = {reduction.name: reduction for reduction in _ALL}


def named(name: str) -> Reduction:
    """The reduction of a name, as pickles have it."""
    return EXPONENTS[name]


for _reduction in _ALL:
    _reduction.origin = (named, (_reduction.name,))
