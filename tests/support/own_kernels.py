"""Kernels of one's own for tests, with what they must give."""

from __future__ import annotations

import math

import numpy as np

import numbacc
from numbacc import elementwise as ew

FLOATS = ("float32", "float64", "float16", "bfloat16")


DTYPES = {name: np.dtype(getattr(numbacc, name, name)) for name in (*FLOATS, "int32", "uint8", "bool", "int64")}


@ew.kernel
def capped(x, s):
    """s tanh(x / s)."""
    return s * math.tanh(x / s)


@ew.kernel
def bent(x, y, slope=0.25):
    if x > y:
        return x - y, x > 2
    return slope * (x - y), False


def numbers(shape, name, seed=0):
    return (np.random.default_rng(seed).integers(-8, 9, shape) / (2 if name in FLOATS else 1)).astype(DTYPES[name])


def close(place, found, wanted, name="float64"):
    found = place.get(found)
    tolerance = {2: 1e-2 if name == "bfloat16" else 2e-3, 4: 1e-6, 8: 1e-12}[found.dtype.itemsize]
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def bent_by_numpy(x, y, slope=0.25):
    x, y = np.float64(x), np.float64(y)
    return np.where(x > y, x - y, slope * (x - y)), (x > y) & (x > 2)
