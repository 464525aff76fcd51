"""AdamW's step in float64, and lists of arrays for it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits
from oracle import spacing

from numbacc.base.dtypes import TABLE

#: dtypes of parameters, gradients, and moments.
KINDS = [
    ("float32", "float32", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float16", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("float64", "float64", "float64"),
    ("float64", "float32", "float32"),
]


each_kind = pytest.mark.parametrize("kinds", KINDS, ids="-".join)


OPTIONS = {"rate": 0.1, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.02}


SHAPES = [(5, 7), (3,), (0, 4), (), (2, 3, 4), (61,), (130,)]


def dtype(name):
    return TABLE[name].numpy


def drawn(kinds, shapes=SHAPES, seed=0):
    """Parameters, gradients, and moments as they may be after some steps, in NumPy."""
    rng = np.random.default_rng(seed)
    p, g = ([rng.normal(size=shape).astype(dtype(kind)) for shape in shapes] for kind in kinds[:2])
    m = [np.asarray(0.1 * rng.normal(size=shape)).astype(dtype(kinds[2])) for shape in shapes]
    v = [np.asarray(0.1 * rng.random(size=shape)).astype(dtype(kinds[2])) for shape in shapes]
    return p, g, m, v


def put(place, lists):
    return [[place.put(x) for x in each] for each in lists]


def exact(p, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """A step in float64, as torch's documentation has it."""
    p, g, m, v = (np.asarray(x).astype(np.float64) for x in (p, g, m, v))
    p = p - rate * weight_decay * p
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    return p - rate * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps), m, v


def assert_near(found, wanted, size=1.0, factor=8):
    """Within a few units of what is computed in, and one of what is stored."""
    found, kind = np.asarray(found), np.asarray(found).dtype
    compute = np.dtype(np.float64 if kind == np.float64 else np.float32)
    limit = spacing(wanted, kind) + factor * np.finfo(compute).eps * np.maximum(np.abs(wanted), size)
    np.testing.assert_array_less(np.abs(found.astype(np.float64) - wanted), limit + 1e-300)


def assert_same(place, lists, others):
    for each, other in zip(lists, others, strict=True):
        for x, y in zip(each, other, strict=True):
            np.testing.assert_array_equal(bits(place.get(x)), bits(place.get(y)))
