"""The formulas of float64 normals against long double, and what their kernel compiles to."""

from __future__ import annotations

import numpy as np
import pytest
from skips import skip_if

from numbacc.base.dispatch import simulated

pytestmark = skip_if(not simulated(), "simulator")

LONG = np.longdouble
TWO_PI = 2 * LONG("3.14159265358979323846264338327950288")


def each(function, *arrays):
    """A formula's results, called for one number of each array after the other."""
    from numbacc.base._numba import cuda

    made = []

    @cuda.jit
    def kernel():
        made.extend(function(*row) for row in zip(*arrays, strict=True))

    kernel[1, 1]()
    return np.array(made).T


@pytest.fixture(scope="module")
def words():
    found = np.random.default_rng(1).integers(0, 2**32, (4, 4000), dtype=np.uint32)
    found[:, 0] = 0
    found[:, 1] = 2**32 - 1
    found[:, 2] = 0xFFFFFFFF ^ (0xFFFFFFFF << 21 & 0xFFFFFFFF), 0xFFFFFFFF, 5, 2**31  # u is 1
    return found


def test_units_are_curands(words):
    from numbacc.kernels.random.box_muller import unit

    z = words[0].astype(np.uint64) ^ words[1].astype(np.uint64) << np.uint64(21)
    np.testing.assert_array_equal(each(unit, words[0], words[1]), z * 2.0**-53 + 2.0**-54)


def test_logarithms():
    from numbacc.kernels.random.box_muller import minus_two_log

    u = np.concatenate([np.random.default_rng(2).random(3000), 1 - np.arange(60) * 2.0**-53, 2.0 ** -np.arange(55)])
    u = np.concatenate([u, np.sqrt(0.5) + np.arange(-40, 40) * 2.0**-53])
    u = u[u > 0]
    want = -2 * np.log(u.astype(LONG))
    assert (np.abs(each(minus_two_log, u) - want) <= 4 * 2.0**-53 * want).all()


def test_roots():
    from numbacc.kernels.random.box_muller import root

    x = np.concatenate([np.random.default_rng(3).random(3000) * 75, 2.0 ** -np.arange(60), [0.0]])
    want = np.sqrt(x.astype(LONG))
    assert (np.abs(each(root, x) - want) <= 3 * 2.0**-53 * want).all()


def test_sines_and_cosines():
    from numbacc.kernels.random.box_muller import sine_cosine_of_turns

    v = np.concatenate([np.random.default_rng(4).random(3000), np.arange(65) / 64, np.arange(1, 65) / 64 - 2.0**-54])
    want = np.stack([np.sin(TWO_PI * v.astype(LONG)), np.cos(TWO_PI * v.astype(LONG))])
    assert np.abs(each(sine_cosine_of_turns, v) - want).max() <= 3 * 2.0**-53


def test_normals(words):
    from numbacc.kernels.random.box_muller import box_muller_double

    z = [words[k].astype(np.uint64) ^ words[k + 1].astype(np.uint64) << np.uint64(21) for k in (0, 2)]
    u, v = ((n * 2.0**-53 + 2.0**-54).astype(LONG) for n in z)
    radius = np.sqrt(-2 * np.log(u))
    want = np.stack([radius * np.sin(TWO_PI * v), radius * np.cos(TWO_PI * v)])
    assert np.abs(each(box_muller_double, *words) - want).max() <= 2.0**-49
