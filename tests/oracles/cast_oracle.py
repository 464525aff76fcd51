"""What a number is in another dtype, by whole numbers and fractions alone; and the numbers that are hard to round."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from numbacc.base import dtypes


def _exact(number):
    """A finite number as a fraction."""
    return Fraction(int(number)) if isinstance(number, np.integer) else Fraction(float(number))


def _rounded(number, dtype):
    """The nearest float of a dtype, of two the one whose last bit is 0; of 8 bits a finite one. As a Python float."""
    limits = ml_dtypes.finfo(dtype)
    beyond = float(limits.max) if dtype.itemsize == 1 else math.inf
    if not math.isfinite(number) or not number:
        return math.copysign(beyond, number) if math.isinf(number) else float(number)
    exact = _exact(number)
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, int(limits.minexp)) - int(limits.nmant))
    found = round(magnitude / quantum) * quantum
    too_large = found > Fraction(float(limits.max))
    return math.copysign(beyond if too_large else float(found), exact)


def _whole(number, dtype):
    if math.isnan(number):
        return 0
    limits = np.iinfo(dtype)
    if math.isinf(number):
        return limits.max if number > 0 else limits.min
    return min(max(math.trunc(_exact(number)), limits.min), limits.max)


def cast(values, dtype):
    """An array in another dtype: floats rounded once, integers of floats saturated."""
    dtype = dtypes.dtype(dtype)
    if dtype.kind == "b":
        return values != 0
    if dtype.kind in "iu" and values.dtype.kind in "iub":
        numbers = [int(v) % 2 ** (8 * dtype.itemsize) for v in values.ravel()]
        return np.array(numbers, f"u{dtype.itemsize}").view(dtype).reshape(values.shape)
    single = _whole if dtype.kind in "iu" else _rounded
    found = [single(v if values.dtype.kind in "iu" else float(v), dtype) for v in values.ravel()]
    # Each is a number of the dtype already: nothing is rounded here.
    return np.array(found, dtype if dtype.kind in "iu" else np.float64).astype(dtype).reshape(values.shape)


def assert_same(got, wanted):
    """Equal, signs of zeros too."""
    assert got.dtype == wanted.dtype
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, wanted)
        return
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(got, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(wanted)[number])


def _shuffled(found, count, kind):
    found = np.concatenate(found)
    return np.random.default_rng(1).permutation(found)[:count].astype(kind)


def hard_floats(dtype, count):
    """float64s on and just beside the midpoints between floats of a dtype; its limits; any bits."""
    rng, dtype = np.random.default_rng(0), dtypes.dtype(dtype)
    words = rng.integers(0, 2 ** (8 * dtype.itemsize - 1), 4 * count).astype(f"u{dtype.itemsize}")
    with np.errstate(all="ignore"):
        low, high = (w.view(dtype).astype(np.float64) for w in (words, words + words.dtype.type(1)))
        middle = ((low + high) / 2)[np.isfinite(low) & np.isfinite(high)][:count] * rng.choice([-1, 1], count)
        limits = ml_dtypes.finfo(dtype)
        largest, smallest = float(limits.max), float(limits.smallest_subnormal)
        threshold = largest + (largest - float(np.nextafter(limits.max, dtype.type(0)))) / 2
        special = np.array([0.0, math.nan, math.inf, largest, threshold, smallest, smallest / 2, 1e300, 5e-324])
        special = np.concatenate([special, np.nextafter(special, 0), np.nextafter(special, math.inf)])
        beside = [middle, *(np.nextafter(middle, way) for way in (-math.inf, math.inf)), middle * (1 + 2.0**-30)]
        found = [*(row[: count // 5] for row in beside), rng.integers(0, 2**64, count // 10, np.uint64).view("f8")]
    rest = _shuffled(found, count - 2 * len(special), "f8")
    return np.concatenate([special, -special, rest])


def hard_integers(source, dtype, count):
    """Integers on and just beside the midpoints between floats of a dtype, and the limits."""
    rng, limits = np.random.default_rng(0), np.iinfo(source)
    bits, precision = 8 * np.dtype(source).itemsize, int(ml_dtypes.finfo(dtypes.dtype(dtype)).nmant) + 1
    found = [0, 1, limits.max, limits.max - 1, limits.min, limits.min + 1]
    while len(found) < count:
        length = int(rng.integers(1, bits if limits.min else bits + 1))
        number = int(rng.integers(2**precision // 2, 2**precision)) * 2 + 1
        shift = length - precision - 1
        number = number << shift if shift >= 0 else number >> -shift
        number += int(rng.integers(-1, 2))
        found.append(min(max(number * (-1 if limits.min and rng.integers(2) else 1), limits.min), limits.max))
    return np.array(found, source)


def hard_for_integers(source, target, count):
    """Floats about the limits of an integer dtype; NaN, infinities, fractions."""
    limits, source = np.iinfo(target), dtypes.dtype(source)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        edges = np.array([limits.min, limits.max, limits.max / 2, 0.0, 1.0, -1.0]).astype(source)
        ways = np.array([math.inf, -math.inf]).astype(source)
        beside = [np.nextafter(edges, way) for way in ways]
        plain = np.array([math.nan, -math.nan, math.inf, -math.inf, -0.0, 0.5, -0.5, 2.5, -1.75, 1e30, -1e30, 65504])
        near = [edges * source.type(factor) for factor in (0.75, 1.5)]
        other = rng.uniform(-2, 2, count) * float(limits.max)
        return np.concatenate([edges, *beside, *near, plain.astype(source), other.astype(source)])[:count]
