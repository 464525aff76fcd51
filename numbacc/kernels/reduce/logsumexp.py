"""Sums of e^x as reductions: log Σ e^x, and the reductions that losses need; see `reference.reductions` for NumPy."""

from __future__ import annotations

import math

from ...functions.arithmetic import exp, exp2_rough, fma
from ...functions.reduction_formula import Chunk, ReductionFormula
from .functions import add, add_two, larger, part


def exponent(x):
    """Return (x, 1): the sum of e^x as its largest exponent and a factor."""
    return x, 1.0


def merged_exponents(a, one, b, other):
    """Return two sums of e^x combined, rescaling the one with the smaller exponent; NaN if one is NaN."""
    is_first = a > b or a != a
    largest = a if is_first else b
    # The difference of equal infinities would be NaN.
    less = 1.0 if a == b else exp((b if is_first else a) - largest)
    return largest, one + other * less if is_first else other + one * less


def logsumexp(largest, factor, count):
    """Return (largest + log factor,)."""
    return (largest + math.log(factor),)


def finite_part(largest):
    """Return the largest number as the base of exponents, or 0 if it is infinite, as inf - inf is NaN."""
    return largest if abs(largest) < math.inf else 0.0


def log_sum(largest, factor, count):
    """Return (base, log Σ e^(x - base)): their sum would round away the logarithm if the base is large."""
    base = finite_part(largest)
    return base, math.log(factor) + (largest - base)


def largest_of_some(largest, count):
    """Return (largest, base, 0)."""
    return largest, finite_part(largest), 0.0


def seen_from(x, largest, base, scale, none, nothing):
    """Return (e^(x - base),)."""
    return (exp(x - base),)


def origin_of(base):
    """Return (base · scale, scale), as `power_from` needs them; scale is log₂e.

    For |base| of 2^17 and above, where that product has larger rounding errors and may overflow, scale is 1/2 and
    nothing is rounded: 16-bit floats of this size are either equal, or so far apart that e to their difference is 0.
    """
    scale = 1.4426950408889634 if abs(base) < 131072.0 else 0.5
    return base * scale, scale


def power_from(x, origin, scale):
    """Return e^(x - base) · 2^`lost_power`, computed by one fused multiply-add and the hardware's power of 2."""
    return exp2_rough(fma(x, scale, -origin))


def lost_power(base, origin, scale):
    """Return how much `origin` was rounded down: it is the same for all powers of 2 of a row."""
    return fma(base, scale, -origin)


def largest_of_some_narrow(largest, count):
    """Return (largest, `origin_of` its base)."""
    origin, scale = origin_of(finite_part(largest))
    return largest, origin, scale


def seen_from_narrow(x, largest, origin, scale, none, nothing):
    """Return (`power_from`,)."""
    return (power_from(x, origin, scale),)


def exponents_of_some_narrow(largest, origin, scale, factor, count):
    """Return (largest, factor with `lost_power` corrected)."""
    return largest, factor * exp2_rough(-lost_power(finite_part(largest), origin, scale))


def exponents_of_some(largest, base, scale, factor, count):
    """Return (largest, factor)."""
    return largest, factor


def distance(x, base):
    """Return (x - base) / 2^40: neither the difference of the largest floats nor a sum of many overflows."""
    return fma(x, 9.094947017729282e-13, base * -9.094947017729282e-13)


def seen_from_with_distance(x, largest, base, scale, none, nothing, zero, no_number):
    """Return (e^(x - base), `distance`)."""
    return exp(x - base), distance(x, base)


def seen_from_narrow_with_distance(x, largest, origin, scale, none, nothing, zero, no_number):
    """Return `seen_from_narrow` and the distance."""
    return power_from(x, origin, scale), distance(x, finite_part(largest))


def exponents_and_distances_of_some(largest, base, scale, factor, below, count):
    """Return (largest, factor, Σ distances, count)."""
    return largest, factor, below, count


def exponents_and_distances_of_some_narrow(largest, origin, scale, factor, below, count):
    """Return the results of `exponents_of_some_narrow`, Σ distances, and count."""
    return largest, exponents_of_some_narrow(largest, origin, scale, factor, count)[1], below, count


def exponent_and_distance(x):
    """Return the results of `exponent`, a distance of 0 (or x if it is not finite), and a count of 1."""
    return x, 1.0, 0.0 if abs(x) < math.inf else x, 1.0


def merged_exponents_and_distances(a, one, below, n, b, other, others_below, m):
    """Return `merged_exponents`, the sum of all distances to the larger base, and the count n + m."""
    largest, factor = merged_exponents(a, one, b, other)
    is_first = a > b or a != a
    low, moved = (b, m) if is_first else (a, n)
    # Equal numbers may be infinite, and an empty set starts at -inf: in both cases the difference would be NaN.
    apart = 0.0 if low == largest or moved == 0.0 else moved * distance(low, largest)
    return largest, factor, below + others_below + apart, n + m


def log_sum_and_mean(largest, factor, below, n, count):
    """Return `log_sum` and the mean distance."""
    base, logarithm = log_sum(largest, factor, count)
    return base, logarithm, below / count


def counted(value, target, ignored):
    """Return (value, 1), or (0, 0) if the target is ignored."""
    return (0.0, 0.0) if target == ignored else (value, 1.0)


def counting(slope, target, ignored):
    """Return (1, slope), or (0, slope) if the target is ignored."""
    return (0.0 if target == ignored else 1.0), slope


def merged_counts(number, slope, more, other):
    """Return (the sum of the numbers, the slope of all elements): that of no elements is 0."""
    return number + more, slope if slope != 0.0 else other


def mean_of_counted(total, number, count, ignored):
    """Return (total / number,)."""
    return (total / number,)


def share_of_counted(number, slope, count, ignored):
    """Return (slope / number,)."""
    return (slope / number,)


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
    ReductionFormula("share_of_counted", counting, start=(0.0, 0.0), merge=merged_counts, finish=share_of_counted),
)

#: Reductions by name.
EXPONENTS = {reduction.name: reduction for reduction in _ALL}


def named(name: str) -> ReductionFormula:
    """Return a reduction by name, for unpickling."""
    return EXPONENTS[name]


for _reduction in _ALL:
    _reduction.origin = (named, (_reduction.name,))
