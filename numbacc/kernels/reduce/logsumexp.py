"""Sums of e^x as reductions: log Σ e^x, and what a loss needs of all rows; their meaning in NumPy is in
`reference.reductions`."""

from __future__ import annotations

import math

from ...functions.arithmetic import exp, exp2_rough, fma
from ...functions.reduction_formula import Chunk, ReductionFormula
from .functions import add, add_two, larger, part


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


def finite_part(largest):
    """The largest number as the base of exponents: 0 if it is infinite, as infinity minus infinity is NaN."""
    return largest if abs(largest) < math.inf else 0.0


def log_sum(largest, factor, count):
    """(base, log Σ e^(x - base)): apart, as their sum would round away the logarithm of large numbers."""
    base = finite_part(largest)
    return base, math.log(factor) + (largest - base)


def largest_of_some(largest, count):
    """(largest, base, nothing more)."""
    return largest, finite_part(largest), 0.0


def seen_from(x, largest, base, scale, none, nothing):
    """(e^(x - base),)."""
    return (exp(x - base),)


def origin_of(base):
    """(base · scale, scale), as `power_from` needs them; scale is log₂e.

    From 2^17 on, where that product is rounded by more and may overflow, scale is 1/2, and nothing is rounded: 16-bit
    floats of this size are either equal, or so far apart that e to their difference is 0.
    """
    scale = 1.4426950408889634 if abs(base) < 131072.0 else 0.5
    return base * scale, scale


def power_from(x, origin, scale):
    """e^(x - base) · 2^`lost_power`, by one multiplication that adds, and the hardware's power of 2."""
    return exp2_rough(fma(x, scale, -origin))


def lost_power(base, origin, scale):
    """By how much `origin` was rounded down: it is the same for all of a row's powers of 2."""
    return fma(base, scale, -origin)


def largest_of_some_narrow(largest, count):
    """(largest, `origin_of` its base)."""
    origin, scale = origin_of(finite_part(largest))
    return largest, origin, scale


def seen_from_narrow(x, largest, origin, scale, none, nothing):
    """(`power_from`,)."""
    return (power_from(x, origin, scale),)


def exponents_of_some_narrow(largest, origin, scale, factor, count):
    """(largest, factor without `lost_power`)."""
    return largest, factor * exp2_rough(-lost_power(finite_part(largest), origin, scale))


def exponents_of_some(largest, base, scale, factor, count):
    """(largest, factor)."""
    return largest, factor


def distance(x, base):
    """(x - base) / 2^40: neither a difference of the largest floats nor a sum of many overflows."""
    return fma(x, 9.094947017729282e-13, base * -9.094947017729282e-13)


def seen_from_with_distance(x, largest, base, scale, none, nothing, zero, no_number):
    """(e^(x - base), `distance`)."""
    return exp(x - base), distance(x, base)


def seen_from_narrow_with_distance(x, largest, origin, scale, none, nothing, zero, no_number):
    """`seen_from_narrow`, and the distance."""
    return power_from(x, origin, scale), distance(x, finite_part(largest))


def exponents_and_distances_of_some(largest, base, scale, factor, below, count):
    """(largest, factor, Σ distances, count)."""
    return largest, factor, below, count


def exponents_and_distances_of_some_narrow(largest, origin, scale, factor, below, count):
    """`exponents_of_some_narrow`, Σ distances, and count."""
    return largest, exponents_of_some_narrow(largest, origin, scale, factor, count)[1], below, count


def exponent_and_distance(x):
    """`exponent`, no distance, and one number."""
    return x, 1.0, 0.0 if abs(x) < math.inf else x, 1.0


def merged_exponents_and_distances(a, one, below, n, b, other, others_below, m):
    """`merged_exponents`, and the sum of all distances to the larger number, of n + m numbers."""
    largest, factor = merged_exponents(a, one, b, other)
    is_first = a > b or a != a
    low, moved = (b, m) if is_first else (a, n)
    # Equal numbers may be infinite, and an empty set starts at -inf: their difference would be NaN.
    apart = 0.0 if low == largest or moved == 0.0 else moved * distance(low, largest)
    return largest, factor, below + others_below + apart, n + m


def log_sum_and_mean(largest, factor, below, n, count):
    """`log_sum`, and the mean distance."""
    base, logarithm = log_sum(largest, factor, count)
    return base, logarithm, below / count


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


_CHUNKS = {
    "": Chunk(part, larger, largest_of_some, seen_from, add, exponents_of_some),
    "_narrow": Chunk(part, larger, largest_of_some_narrow, seen_from_narrow, add, exponents_of_some_narrow),
}
_CHUNKS_WITH_DISTANCES = {
    "": Chunk(part, larger, largest_of_some, seen_from_with_distance, add_two, exponents_and_distances_of_some),
    "_narrow": Chunk(
        part,
        larger,
        largest_of_some_narrow,
        seen_from_narrow_with_distance,
        add_two,
        exponents_and_distances_of_some_narrow,
    ),
}

_ALL = (
    *(
        ReductionFormula(
            name + kind, exponent, start=(-math.inf, 0.0), merge=merged_exponents, finish=finish, chunk=_CHUNKS[kind]
        )
        for name, finish in (("logsumexp", logsumexp), ("log_sum", log_sum))
        for kind in _CHUNKS
    ),
    *(
        ReductionFormula(
            f"log_sum_and_mean{kind}",
            exponent_and_distance,
            start=(-math.inf, 0.0, 0.0, 0.0),
            merge=merged_exponents_and_distances,
            finish=log_sum_and_mean,
            chunk=chunk,
        )
        for kind, chunk in _CHUNKS_WITH_DISTANCES.items()
    ),
    ReductionFormula("mean_of_counted", counted, start=(0.0, 0.0), merge=add_two, finish=mean_of_counted),
    ReductionFormula("number_of_counted", counting, start=(0.0,), merge=add, finish=number_of_counted),
)

#: Reductions by name.
EXPONENTS = {reduction.name: reduction for reduction in _ALL}


def named(name: str) -> ReductionFormula:
    """The reduction of a name, as pickles have it."""
    return EXPONENTS[name]


for _reduction in _ALL:
    _reduction.origin = (named, (_reduction.name,))
