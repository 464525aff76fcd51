"""Gradients of reductions in float64."""

from __future__ import annotations

import math

import numpy as np
from reduction_oracle import ORACLES

#: Function and options, of all ways in which one is computed.
CALLS = {
    "mean": {},
    "var": {"correction": 0},
    "var, n - 1": {"correction": 1},
    "std": {"correction": 0},
    "std, n - 1": {"correction": 1},
    "max": {},
    "min": {},
    "prod": {},
    "norm": {"ord": 2},
    "norm, 1": {"ord": 1},
    "norm, inf": {"ord": math.inf},
    "norm, -inf": {"ord": -math.inf},
    "norm, 0": {"ord": 0},
    "norm, 3": {"ord": 3},
    "norm, 0.5": {"ord": 0.5},
    "norm, -1": {"ord": -1},
    "logsumexp": {},
    **{name: {} for name, oracle in ORACLES.items() if oracle.gradient},
}


def gradient(call, dy, x, axes):
    """In float64, of dy with the axes that were reduced."""
    n = math.prod(x.shape[d] for d in axes)
    # Less the first of them: so numbers that are all alike are 0 away from their mean, and not what that is rounded by.
    away = x - x[tuple(slice(1) if d in axes else slice(None) for d in range(x.ndim))]
    away -= away.mean(axes, keepdims=True)
    if call in ORACLES:
        return ORACLES[call].gradient(dy, x)
    if call == "mean":
        return dy / n + 0 * x
    if call.startswith("var"):
        return dy * 2 * away / (n - CALLS[call]["correction"])
    if call.startswith("std"):
        divisor = n - CALLS[call]["correction"]
        std = np.sqrt((away**2).sum(axes, keepdims=True) / divisor)
        return np.where(std == 0, 0, dy * away / divisor / np.where(std == 0, 1, std))
    if call in ("max", "min"):
        there = x == getattr(x, call)(axes, keepdims=True)
        return dy * there / there.sum(axes, keepdims=True)
    if call == "prod":
        found = np.empty_like(x)
        for place in np.ndindex(x.shape):
            others = tuple(slice(None) if d in axes else place[d] for d in range(x.ndim))
            rest = x.copy()
            rest[place] = 1
            found[place] = rest[others].prod()
        return dy * found
    if call == "norm":
        y = np.sqrt((x**2).sum(axes, keepdims=True))
        return dy * x / np.where(y == 0, 1, y)
    if call == "norm, 1":
        return dy * np.sign(x)
    if call == "norm, inf":
        there = abs(x) == abs(x).max(axes, keepdims=True)
        return dy * there * np.sign(x) / there.sum(axes, keepdims=True)
    if call == "norm, -inf":
        there = abs(x) == abs(x).min(axes, keepdims=True)
        return dy * there * np.sign(x) / there.sum(axes, keepdims=True)
    if call == "norm, 0":
        return 0 * dy * x
    if call.startswith("norm, "):
        order = CALLS[call]["ord"]
        with np.errstate(all="ignore"):
            y = (abs(x) ** order).sum(axes, keepdims=True) ** (1 / order)
            return np.where((x == 0) | (y == 0), 0, dy * np.sign(x) * abs(x / y) ** (order - 1))
    e = np.exp(x - x.max(axes, keepdims=True))
    return dy * e / e.sum(axes, keepdims=True)


def assert_near(got, wanted, dtype, cancelled=0.0):
    """Within some roundings of what is computed in, relative to the largest of the gradients, or to what `cancelled` in
    it, and one of x's."""
    assert got.dtype == dtype and got.shape == wanted.shape
    eps = float(np.finfo(np.float64 if dtype == np.float64 else np.float32).eps)
    rounded = {2: 2.0**-8 if "bfloat" in dtype.name else 2.0**-11}.get(dtype.itemsize, eps)
    tiny = float(np.finfo(np.float16).smallest_subnormal) if dtype == np.float16 else 0
    error = np.abs(got.astype(np.float64) - wanted)
    bound = rounded * np.abs(wanted) + 100 * eps * (np.abs(wanted) + np.abs(wanted).max(initial=0)) + tiny
    bound += 10 * eps * cancelled
    assert (error <= bound).all(), (error.max(), (error - bound).max())


def axes_of(axis, rank):
    return tuple(range(rank)) if axis is None else tuple(d % rank for d in np.atleast_1d(axis).astype(int))


def options_of(call, shape, axes):
    """(a call's key, its options): with n - 1 of one number there is none."""
    if CALLS[call].get("correction") and math.prod(shape[d] for d in axes) == 1:
        call = call.partition(",")[0]
    return call, CALLS[call]


def values(rng, call, shape):
    """Of extremes and products few different ones, some of them equal, or 0."""
    if call in ("max", "min", "norm, inf", "norm, -inf", "prod"):
        return rng.integers(-6, 7, shape) / 4
    return rng.standard_normal(shape)
