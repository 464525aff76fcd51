"""Powers, angles and whole quotients of two floats of 16 bits, as kernels compute them in float32, step by step.

The hardware's approximations are exact here, rounded, or off by as much as NVIDIA's documentation of PTX lets them be:
what is rounded at last is to be as near as any function of float32 would leave it.
"""

from __future__ import annotations

import math

import elementwise_oracle as oracle
import ml_dtypes
import numpy as np
import pytest
from float32_steps import in_float32

from benchmarks import ulp
from numbacc.functions import binary, division, powers
from numbacc.kernels.primitives import simulated

F32 = np.float32
NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
FUNCTIONS = {"pow": powers.power, "atan2": binary.atan2, "floor_divide": division.floor_divide_narrow}
#: Errors in ulp of float32 before results are rounded: with exact approximations, and with the worst.
SINGLE = {"pow": (5, 11), "atan2": (2.3, 3.3)}


def off_by(units):
    """The hardware's approximations with errors up to `units` of what is stated, here this way and there that."""
    draws = np.random.default_rng(12)

    def flushed(x):
        return F32(math.copysign(0.0, x)) if abs(x) < 2.0**-126 else F32(x)

    def moved(x, error):
        return flushed(F32(np.float64(x) * (1 + units * draws.choice([-1.0, 1.0]) * error)))

    def log2(x):
        found = powers.log2_rough(float(flushed(x)))
        return F32(found + units * draws.choice([-1.0, 1.0]) * 2.0**-22 * max(1.0, abs(found)))

    return {
        "reciprocal_approximate": lambda x: moved(np.float64(1) / np.float64(flushed(x)), 2.0**-23),
        "exp2_approximate": lambda x: moved(np.float64(2) ** np.float64(flushed(x)), 2.0**-22.5),
        "log2_approximate": log2,
    }


def pairs(name, dtype, count):
    """All that is special, whole and half numbers, everyday ones, and any: both arguments."""
    rng = np.random.default_rng(11)
    with np.errstate(invalid="ignore"):
        every = [x for x in oracle.all_16_bit(dtype) if not np.isnan(x)]
    known = np.array([np.nan, np.inf, -np.inf, -0.0, *np.arange(-3, 3.5, 0.5)]).astype(dtype)
    specials = np.concatenate([oracle.SPECIALS[dtype][::3], known])
    grid = [each.ravel() for each in np.meshgrid(specials, specials)]
    parts = [
        (rng.choice(every, count), rng.choice(every, count)),
        (rng.choice(every, count), (rng.integers(-12, 13, count) / 2).astype(dtype)),
        tuple(rng.normal(0, 4, (2, count)).astype(dtype)),
        (np.abs(rng.choice(every, count)), 10.0 ** rng.uniform(-5, 2, count).astype(dtype)),
    ]
    if name == "pow":
        # The largest and the smallest results.
        x = np.abs(rng.choice([x for x in every if 0 < abs(x) < np.inf], count))
        top = math.log2(float(ml_dtypes.finfo(dtype).max))
        with np.errstate(all="ignore"):
            parts.append((x, (rng.uniform(-top, top, count) / np.log2(x.astype(np.float64))).astype(dtype)))
    return tuple(np.concatenate([each.astype(dtype) for each in found]) for found in zip(grid, *parts, strict=True))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("units", [0, 1])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors(monkeypatch, name, dtype, units):
    for key, function in off_by(units).items():
        monkeypatch.setattr(simulated.hardware, key, function)
    x, y = pairs(name, dtype, 500)
    with np.errstate(all="ignore"):
        if name == "floor_divide":
            wanted = np.floor_divide(x.astype(F32), y.astype(F32)).astype(dtype).astype(np.float64)
        else:
            wanted = oracle.vector(name, x, y)
        single = in_float32(FUNCTIONS[name], narrow=True)(x.astype(F32), y.astype(F32))
        found = single.astype(dtype)
    if name in SINGLE:
        limits = ml_dtypes.finfo(dtype)
        normal = (np.abs(wanted) >= 2 * float(limits.smallest_normal)) & (np.abs(wanted) <= float(limits.max))
        assert oracle.ulps(single[normal], wanted[normal], F32).max() <= SINGLE[name][units]
    off = oracle.ulps(found, wanted, dtype, zeros=True)
    worst = off.argmax()
    most = 0 if name == "floor_divide" else ulp.bound(name, dtype.name)
    assert off[worst] <= most, f"{off[worst]} at {x[worst]}, {y[worst]}: {found[worst]}, not {wanted[worst]}"
