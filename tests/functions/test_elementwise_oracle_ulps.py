"""The oracle's special arguments, and its count of errors."""

from __future__ import annotations

import inspect
import math

import elementwise_oracle as oracle
import ml_dtypes
import numpy as np
import pytest
from elementwise_oracle import mp

FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = (oracle.DTYPES[k] for k in range(4))


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=str)
def test_specials(dtype):
    special, limits = oracle.SPECIALS[dtype], ml_dtypes.finfo(dtype)
    kind = f"u{dtype.itemsize}"
    assert special.dtype == dtype and len(np.unique(special.view(kind))) == len(special)
    digits = int(limits.nmant) + 1
    for number in (
        0.0,
        1,
        math.inf,
        0.5,
        1.5,
        2.5,
        limits.max,
        limits.smallest_normal,
        limits.smallest_subnormal,
        2**digits,
    ):
        for x in (dtype.type(number), -dtype.type(number)):
            assert np.asarray(x).view(kind) in special.view(kind)
    assert np.isnan(special).sum() == 1
    # What exp gives is just finite, and just not; and so for 0.
    with np.errstate(all="ignore"):
        beyond = np.isinf(np.exp(special[np.isfinite(special)].astype(np.float64)).astype(dtype))
        limit = np.min(special[np.isfinite(special)][beyond])
        assert np.isfinite(np.exp(np.float64(oracle.nextafter(dtype, limit, dtype.type(0)))).astype(dtype))


def test_all_16_bit():
    for dtype in (FLOAT16, BFLOAT16):
        every = oracle.all_16_bit(dtype)
        assert every.dtype == dtype and every.shape == (65536,)
        with np.errstate(invalid="ignore"):
            assert np.isinf(every.astype(np.float64)).sum() == 2


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=str)
def test_nextafter(dtype):
    x, y = (a.ravel() for a in np.meshgrid(oracle.SPECIALS[dtype], oracle.SPECIALS[dtype][::7]))
    found, wanted = oracle.nextafter(dtype, x, y), np.nextafter(x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    # NumPy's of float16 and ml_dtypes' return x where x == y, C's returns y.
    sure = ~np.isnan(x) & ~np.isnan(y) & ((x != y) | (x != 0))
    np.testing.assert_array_equal(np.signbit(found)[sure], np.signbit(wanted)[sure])
    assert np.signbit(oracle.nextafter(dtype, 0.0, -0.0))


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("kind", ["floats", "exact"])
@pytest.mark.parametrize(
    "dtype, found, wanted, error",
    [
        (np.float32, 1.0, 1.0, 0),
        (np.float32, 1 + 2.0**-23, 1.0, 1),
        (np.float32, 1 - 2.0**-24, 1.0, 0.5),
        (np.float32, 1.0, 1 - 2.0**-25, 0.5),
        (np.float32, 1.0, 1 + 2.0**-25, 0.25),
        (np.float32, -2.0, 2.0, 2.0**24),
        (np.float32, 0.0, 2.0**-149, 1),
        (np.float32, 0.0, 2.0**-151, 0.25),
        (np.float32, 2.0**-149, 0.0, 1),
        (np.float32, 0.0, -0.0, 0),
        (np.float32, NAN, NAN, 0),
        (np.float32, NAN, 1.0, INF),
        (np.float32, 1.0, NAN, INF),
        (np.float32, INF, INF, 0),
        (np.float32, INF, -INF, INF),
        (np.float32, 1.0, INF, INF),
        (np.float32, INF, 1e39, 0),
        (np.float32, -INF, 1e39, INF),
        (np.float32, INF, 2.0**128 - 2.0**103, 0),
        (np.float32, INF, 2.0**128 - 2.0**104, 1),
        (np.float32, 2.0**128 - 2.0**104, 2.0**128, 1),
        (np.float16, 65504.0, 65520.0, 0.5),
        (np.float16, INF, 65520.0, 0),
        (np.float16, INF, 65504.0, 1),
        (np.float16, 2.0**-24, 2.0**-25, 0.5),
        (ml_dtypes.bfloat16, 1.0, 1.0 + 2.0**-8, 0.5),
        (ml_dtypes.bfloat16, INF, 2.0**128 - 2.0**119, 0),
        (np.float64, 1 + 2.0**-52, 1.0, 1),
        (np.float64, 5e-324, 0.0, 1),
        (np.float64, 5e-324, 2.0**-1072, 3),
        (np.float64, INF, 1.7976931348623157e308, 1),
        (np.float64, 1.7976931348623157e308, INF, INF),
    ],
)
def test_ulps(kind, dtype, found, wanted, error):
    if kind == "exact":
        wanted = np.array([mp.mpf(wanted) if wanted and math.isfinite(wanted) else wanted], object)
    got = oracle.ulps(np.array([found]).astype(dtype), wanted, dtype)
    assert got.shape == np.broadcast_shapes((1,), np.shape(wanted))
    if math.isinf(error) and not math.isnan(found) and math.isinf(found) and not np.isinf(np.float64(wanted)).all():
        assert got > 1e4
    else:
        assert got == error


def test_ulps_beyond_float64():
    huge, tiny = mp.mpf(2) ** 5000, mp.mpf(2) ** -1076
    wanted = np.array([huge, huge, -huge, tiny, tiny, mp.mpf(1) + mp.mpf(2) ** -60], object)
    errors = oracle.ulps(np.array([INF, 1.0, -INF, 0.0, 5e-324, 1.0]), wanted, FLOAT64)
    assert errors[[0, 2, 3, 4, 5]].tolist() == [0, 0, 0.25, 0.75, 2.0**-8] and errors[1] > 1e100
    assert oracle.ulps([0.0, -0.0], [-0.0, -0.0], FLOAT32, zeros=True).tolist() == [INF, 0]
    assert oracle.ulps(np.float32([[1], [2]]), [1.0, 2.0], FLOAT32).shape == (2, 2)


def test_it_is_independent():
    assert not any("numbacc" in line for line in inspect.getsource(oracle).splitlines() if "import" in line)
