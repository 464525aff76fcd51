"""Whole quotients and remainders by one fused multiply-add: bit by bit those of NumPy."""

from __future__ import annotations

import math
from fractions import Fraction

import elementwise_oracle as oracle
import numpy as np
import pytest
from conftest import bits

from numbacc.functions import division

FLOAT32 = np.dtype(np.float32)
RNG = np.random.default_rng(5)
MANY = 2000
NUMPYS = {
    division.floor_divide_single: np.floor_divide,
    division.remainder_single: np.remainder,
    division.fmod_single: np.fmod,
}


def any_bits():
    return RNG.integers(0, 2**32, MANY, np.uint32).view(np.float32)


def subnormal():
    return RNG.integers(0, 2**12, MANY).astype(np.uint32).view(np.float32)


def multiples(toward=None):
    """b and what is next to its multiples, whose quotients are rounded to whole numbers."""
    b, whole = RNG.standard_normal(MANY).astype(np.float32), RNG.integers(-(2**24), 2**24, MANY)
    a = (b.astype(np.float64) * whole).astype(np.float32)
    return (a if toward is None else np.nextafter(a, np.float32(toward))), b


PAIRS = {
    "special": lambda: tuple(x.ravel() for x in np.meshgrid(*[oracle.SPECIALS[FLOAT32][::4]] * 2)),
    "any": lambda: (any_bits(), any_bits()),
    "near": lambda: tuple(RNG.standard_normal((2, MANY)).astype(np.float32)),
    "whole": lambda: tuple(RNG.integers(-50, 50, (2, MANY)).astype(np.float32)),
    "subnormal": lambda: (-subnormal(), subnormal()),
    "multiples": multiples,
    "above multiples": lambda: multiples(np.inf),
    "below multiples": lambda: multiples(-np.inf),
    "just below one": lambda: ((b := np.abs(any_bits()), np.nextafter(b, np.float32(0)))[1], b),
}


def rounded_once(x, y, z):
    """x y + z in float32: the product of two has 48 bits, and a long double 64."""
    return np.float32(np.longdouble(x) * np.longdouble(y) + np.longdouble(z))


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("function", NUMPYS, ids=lambda function: function.__name__)
def test_bits_are_numpys(monkeypatch, function, kind):
    monkeypatch.setattr(division, "fma", rounded_once)
    with np.errstate(all="ignore"):
        a, b = PAIRS[kind]()
        if function is not division.floor_divide_single:
            # What is left to fmod is tested with the functions themselves.
            easy = [division.is_easy(*pair) for pair in zip(a / b, b, strict=True)]
            a, b = a[easy], b[easy]
        found = np.array([function(*pair) for pair in zip(a, b, strict=True)], np.float32)
        wanted = NUMPYS[function](a, b)
    if function is division.remainder_single:
        wanted = np.copysign(wanted, b)
    assert a.size > 100
    if function is division.floor_divide_single:
        # NumPy's own large quotients are rounded three times; these once.
        large = (np.abs(wanted) >= 2**22) & (np.abs(wanted) < np.inf)
        for x, y, whole in zip(a[large], b[large], found[large], strict=True):
            off = abs(Fraction(float(whole)) - math.floor(Fraction(float(x)) / Fraction(float(y))))
            assert off <= (0 if abs(whole) < 2**24 else np.spacing(abs(whole)))
        found, wanted = found[~large], wanted[~large]
    assert (np.isnan(found) == np.isnan(wanted)).all()
    np.testing.assert_array_equal(bits(found)[~np.isnan(found)], bits(wanted)[~np.isnan(found)])
