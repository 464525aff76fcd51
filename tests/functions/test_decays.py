"""Formulas as float32 kernels compute them, operation by operation: their errors, and what special numbers give.

A GPU's own approximations are the only thing that is not computed here as there: a reciprocal is rounded, or off by one
unit in the last place more.
"""

from __future__ import annotations

import math

import elementwise_oracle as oracle
import numpy as np
import pytest
from float32_steps import F32, in_float32

from numbacc.elementwise.rows import TABLE
from numbacc.functions import activations, binary, digamma, exponentials, gates

#: Formulas of one number by the name of what they compute, and the largest error in ulp. That of the normal
#: distribution adds its polynomial's.
FORMULAS = {
    "sigmoid": (exponentials.sigmoid, 1.5), "silu": (exponentials.silu, 2.0),
    "quick_gelu": (exponentials.quick_gelu, 2.0),
    "gelu_tanh": (exponentials.tanh_gelu, 2.0), "mish": (activations.mish, 2.0), "gelu": (gates.geglu, 4.0),
    "tanhshrink": (activations.tanhshrink_single, 2.0), "hardswish": (activations.hardswish, 1.5),
    "log_sigmoid": (activations.log_sigmoid, 1.5),
}  # fmt: skip


def samples(count=3000):
    """Everyday numbers and those far out: results down to subnormal ones."""
    rng = np.random.default_rng(5)
    tails = rng.uniform(0, 105, count)
    small = 10.0 ** rng.uniform(-6, 1, count)
    x = np.concatenate([rng.normal(0, 3, count), -tails, tails[::7], small, -small, [0.5, 1.0, 1.25, 20.0, -20.0]])
    return x.astype(F32)


@pytest.mark.parametrize("units", [0, 1, -1])
@pytest.mark.parametrize("name", FORMULAS)
def test_errors(name, units):
    function, most = FORMULAS[name]
    x = samples(400 if units else 3000)
    options = {key: float(F32(value)) for key, value in TABLE[name].options.items()}
    with np.errstate(all="ignore"):
        wanted = oracle.vector(name, x, **options)
    # A product of subnormal numbers has fewer digits.
    off = np.where(np.abs(wanted) < 1e-36, 0, oracle.ulps(in_float32(function, units)(x), wanted, F32))
    assert off.max() <= most, f"{off.max()} at {x[off.argmax()]}"


def test_far_out_results_are_subnormal_numbers():
    x = np.linspace(85, 104, 2000, dtype=F32)
    off = oracle.ulps(in_float32(exponentials.decay)(x), np.exp(-x.astype(np.float64)), F32)
    assert off.max() <= 0.8
    assert in_float32(exponentials.decay)(F32([0, 105, 1e5, math.inf])).tolist() == [1, 0, 0, 0]


SPECIAL = F32([math.nan, math.inf, -math.inf, 0.0, -0.0, 3.4028235e38, -3.4028235e38, 1e30, -1e30, 1e-42, -1e-42, 1e19])


@pytest.mark.parametrize("name", FORMULAS)
def test_special_numbers(name):
    """What the plain formula makes of them, or infinity times 0."""
    function, _ = FORMULAS[name]
    found = in_float32(function)(SPECIAL)
    with np.errstate(all="ignore"):
        wanted = oracle.vector(name, SPECIAL)
    np.testing.assert_array_equal(np.isnan(found) & ~np.isneginf(SPECIAL), np.isnan(wanted) & ~np.isneginf(SPECIAL))
    known = ~np.isnan(wanted) & ~np.isneginf(SPECIAL)
    assert (oracle.ulps(found[known], wanted[known], F32) <= 1).all()
    assert np.isnan(found[2]) or found[2] in (0.0, -math.inf)


def test_digamma():
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.uniform(-6, 6, 4000), 10.0 ** rng.uniform(-30, 30, 500), [1, 2, 1.4616321, -0.5, -1.5]])
    x = x.astype(F32)
    found, wanted = in_float32(digamma.digamma)(x), oracle.vector("digamma", x.astype(np.float64))
    size = np.maximum(1, np.maximum(np.abs(x), np.abs(wanted)))
    off = np.minimum(oracle.ulps(found, wanted, F32), np.abs(found - wanted) / (2.0**-23 * size))
    assert off.max() <= 2, f"{off.max()} at {x[off.argmax()]}"
    ends = in_float32(digamma.digamma)(F32([0.0, -0.0, -1.0, -1e9, math.inf, -math.inf, math.nan]))
    np.testing.assert_array_equal(ends, [-math.inf, math.inf, math.nan, math.nan, math.inf, math.nan, math.nan])


def test_lerp_meets_both_ends():
    rng = np.random.default_rng(7)
    a, b = rng.normal(0, 4, (2, 3000)).astype(F32)
    lerp = in_float32(binary.lerp)
    np.testing.assert_array_equal(lerp(a, b, np.zeros_like(a)), a)
    np.testing.assert_array_equal(lerp(a, b, np.ones_like(a)), b)
    weight = rng.normal(0, 3, 3000).astype(F32)
    wanted = oracle.vector("lerp", *(x.astype(np.float64) for x in (a, b, weight)))
    size = np.maximum.reduce([np.ones(3000), *(np.abs(x) for x in (a, b, weight, wanted))])
    assert (np.abs(lerp(a, b, weight) - wanted) <= 2 * 2.0**-23 * size).all()


@pytest.mark.parametrize("name", ["silu", "quick_gelu", "gelu_tanh", "mish", "hardswish"])
def test_zeros_have_the_sign_of_the_argument(name):
    """Of what underflows, too."""
    function, _ = FORMULAS[name]
    x = F32([-0.0, 0.0, -6e4, -1e30, -1e-45, 1e-45])
    assert np.signbit(in_float32(function)(x)).tolist() == np.signbit(x).tolist()
