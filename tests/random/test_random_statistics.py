"""What random numbers must look like, at fixed seeds: moments, distributions, independence, discrepancy.

A test at a fixed seed passes always or never. The bounds are such that a right generator fails one in a million.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
import scipy  # it imports its parts where they are used: `stats` takes a second
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.random import KINDS, Generator

# The values do not depend on the device, as test_random shows, and these take many.
pytestmark = [skip_if(simulated(), "slow"), pytest.mark.each_alone(paired=True)]

NAMES = ("philox", "xorwow", "mrg32k3a", "mtgp32")
#: The slow kind takes a host 15 times as long as xorwow, the next.
PSEUDO = [pytest.param(name, marks=[pytest.mark.slow] * (name == "mrg32k3a")) for name in NAMES]
N = 200_000
SIGMAS = 5
P_VALUE = 1e-6


@lru_cache(maxsize=32)
def sample(kind, name, *args, dtype=None):
    g = Generator(kind, 20_240_229, device="cpu")
    return getattr(g, name)(*args, N, dtype=dtype)


def assert_moments(x, mean, variance, kurtosis):
    """Mean and variance within what their own standard deviations allow; `kurtosis` is the excess."""
    x = x.astype(np.float64)
    assert abs(x.mean() - mean) < SIGMAS * math.sqrt(variance / N)
    assert abs(x.var() - variance) < SIGMAS * variance * math.sqrt((kurtosis + 2) / N)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", PSEUDO)
def test_uniforms(kind, dtype):
    x = sample(kind, "random", dtype=dtype)
    assert_moments(x, 1 / 2, 1 / 12, -6 / 5)
    assert scipy.stats.kstest(x, "uniform").pvalue > P_VALUE
    assert x.min() < 1e-4 and 1 - 1e-4 < x.max() < 1
    y = sample(kind, "uniform", -3.0, 5.0, dtype=dtype)
    assert_moments(y, 1, 64 / 12, -6 / 5)
    assert scipy.stats.kstest(y, "uniform", (-3, 8)).pvalue > P_VALUE


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", PSEUDO)
def test_normals(kind, dtype):
    x = sample(kind, "normal", 1.5, 2.0, dtype=dtype)
    assert_moments(x, 1.5, 4, 0)
    assert scipy.stats.kstest(x, scipy.stats.norm(1.5, 2).cdf).pvalue > P_VALUE
    y = sample(kind, "lognormal", 0.5, 0.25, dtype=dtype)
    assert scipy.stats.kstest(np.log(y), scipy.stats.norm(0.5, 0.25).cdf).pvalue > P_VALUE


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits(dtype):
    x = sample("philox", "normal", 0.0, 1.0, dtype=dtype).astype(np.float64)
    assert_moments(x, 0, 1, 0)
    u = sample("philox", "random", dtype=dtype).astype(np.float64)
    step = 2.0 ** -(11 if dtype == "float16" else 8)
    assert_moments(u, (1 - step) / 2, (1 - step**2) / 12, -6 / 5)
    counts = np.bincount((u / step).astype(int), minlength=int(1 / step))
    assert scipy.stats.chisquare(counts).pvalue > P_VALUE


@pytest.mark.parametrize("lam", [0.1, 4.0, 70.0, 5000.0])
@pytest.mark.parametrize("kind", PSEUDO)
def test_poisson(kind, lam):
    x = sample(kind, "poisson", lam)
    assert_moments(x, lam, lam, 1 / lam)
    exact = scipy.stats.poisson(lam)
    edges = np.unique(exact.ppf(np.linspace(0, 1, 21)[1:-1]))
    counts = np.histogram(x, [-np.inf, *(edges + 0.5), np.inf])[0]
    expected = np.diff([0, *exact.cdf(edges), 1]) * N
    assert scipy.stats.chisquare(counts, expected).pvalue > P_VALUE


@pytest.mark.parametrize("low, high", [(0, 2), (-7, 20), (0, 1000), (-(2**62), 2**63 - 1), (0, 3 * 2**32)])
@pytest.mark.parametrize("kind", PSEUDO)
def test_integers(kind, low, high):
    x = sample(kind, "integers", low, high)
    cells = min(high - low, 100)
    counts = np.bincount([int(n - low) * cells // (high - low) for n in x.tolist()], minlength=cells)
    sizes = [-(-(high - low) * (k + 1) // cells) - -(-(high - low) * k // cells) for k in range(cells)]
    expected = np.array([size / (high - low) * N for size in sizes])
    assert scipy.stats.chisquare(counts, expected * N / expected.sum()).pvalue > P_VALUE


@pytest.mark.parametrize("kind", PSEUDO)
def test_every_bit(kind):
    words = sample(kind, "bits")
    ones = ((words[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)).sum(0)
    assert np.abs(ones - N / 2).max() < SIGMAS * math.sqrt(N) / 2


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_masks(p):
    mask = sample("philox", "dropout_mask", p)
    assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / (1 - p))}
    assert abs((mask == 0).mean() - p) < SIGMAS * math.sqrt(p * (1 - p) / N)
    assert abs(mask.mean() - 1) < SIGMAS * math.sqrt(p / (1 - p) / N)


def test_normals_are_uncorrelated():
    """Also the two that come from the same pair of words, and their squares."""
    x = sample("philox", "normal", 0.0, 1.0).astype(np.float64)
    for lag in (1, 2, 3, 4, 5, 256):
        for y in (x, x**2 - 1):
            assert abs(np.corrcoef(y[lag:], y[:-lag])[0, 1]) < SIGMAS / math.sqrt(N)


# ---------------------------------------------------------------- spawned generators


@pytest.mark.parametrize("kind", PSEUDO)
def test_spawned_generators_are_independent(kind):
    parent = Generator(kind, 5, device="cpu")
    n, few = 20_000, 2 if kind == "mrg32k3a" else 6
    family = [parent, *parent.spawn(few)]
    if kind != "mrg32k3a":
        family += family[1].spawn(2)
    x = np.stack([g.random(n, dtype="float64") for g in family])
    for row in x:
        assert scipy.stats.kstest(row, "uniform").pvalue > P_VALUE
    correlation = np.corrcoef(np.concatenate([x, x[:, ::-1]]))
    others = correlation[~np.eye(2 * len(x), dtype=bool)]
    assert np.abs(others).max() < SIGMAS / math.sqrt(n)


def test_spawned_generators_do_not_overlap():
    """No 64 bits of one are anywhere in another."""
    parent = Generator("philox", 1, device="cpu")
    family = [parent, *parent.spawn(20)]
    words = np.concatenate([g.bits(50_000, dtype="uint64") for g in family])
    assert len(np.unique(words)) == len(words)


def test_spawned_generators_are_reproducible():
    parent = Generator("philox", 1, offset=9, device="cpu")
    first, second = parent.spawn(2), parent.spawn(1)
    seeds = [g.state.seed for g in (*first, *second)]
    assert seeds == [g.state.seed for g in Generator("philox", 1, device="cpu").spawn(3)]
    assert seeds == [int(np.random.SeedSequence(1, spawn_key=(k,)).generate_state(1, np.uint64)[0]) for k in range(3)]
    assert len({*seeds, 1}) == 4
    assert parent.state.spawned == 3 and parent.state.position == 9
    assert {(g.state.kind, g.state.position, g.device) for g in first} == {("philox", 0, "cpu")}
    many = Generator("philox", 1, device="cpu").spawn(3000)
    assert len({g.state.seed for g in many}) == 3000
    assert max(g.state.seed for g in Generator("mt19937", 1, device="cpu").spawn(20)) < 2**32


# ---------------------------------------------------------------- quasi-random points


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {*NAMES, "mt19937"}))
@pytest.mark.parametrize("dimensions", [2, 5])
def test_points_fill_space_more_evenly_than_random_ones(kind, dimensions):
    n = 1024
    points = Generator(kind, device="cpu", dimensions=dimensions).random((dimensions, n), dtype="float64").T
    pseudo = Generator("philox", 3, device="cpu").random((n, dimensions), dtype="float64")
    assert scipy.stats.qmc.discrepancy(points) < scipy.stats.qmc.discrepancy(pseudo) / 10
    # Of any 2^k points in a row, from a multiple of 2^k on, each of 2^k slices holds one, in every coordinate.
    slices = (points[512:] * 512).astype(int)
    assert all(sorted(column) == list(range(512)) for column in slices.T)


@pytest.mark.parametrize("kind", ["scrambled_sobol32", "scrambled_sobol64"])
def test_integrals_converge_faster_than_with_random_numbers(kind):
    n, d = 1 << 14, 4
    exact = (1 / 2) ** d
    points = Generator(kind, device="cpu", dimensions=d).random((d, n), dtype="float64")
    pseudo = Generator("philox", 1, device="cpu").random((d, n), dtype="float64")
    error, usual = (abs(x.prod(0).mean() - exact) for x in (points, pseudo))
    assert error < 1e-5 < usual


def test_20000_dimensions():
    points = Generator("sobol64", device="cpu", dimensions=20_000).random((20_000, 64))
    assert points.shape == (20_000, 64) and (np.sort(points, 1) * 64).astype(int).tolist() == [list(range(64))] * 20_000
