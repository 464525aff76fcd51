"""Cases of the functions of `elementwise` and of their gradients: arguments, options, and what errors are allowed."""

from __future__ import annotations

import elementwise_oracle as oracle
import numpy as np

from numbacc.elementwise.rows import TABLE

#: What the oracle calls options.
OPTIONS = {"min_val": "low", "max_val": "high"}


#: Errors in ulp that kernels may have in float32: CUDA's own functions', and those of formulas that say so.
LIMITS = {
    "sinh": 3, "cosh": 2.5, "atanh": 3, "tan": 3.5, "erfc": 4, "erfinv": 2.5, "gelu": 5.5, "log10": 2.5, "selu": 2.1,
    "lgamma": 8, "celu": 3, "pow": 4, "hardsigmoid": 2.5,
}  # fmt: skip


#: Those of NumPy, which computes in float32.
NUMPYS = {
    "log": 4,
    "atan2": 4,
    "sigmoid": 4,
    "silu": 4,
    "mish": 4,
    "softplus": 3,
    "log_sigmoid": 3,
    "hardswish": 3,
    "lerp": 4,
    "digamma": 8,
    "selu": 4,
    "asin": 3,
    "log10": 3,
    "erfc": 4,
}


NUMPYS |= {"expm1": 3, "exp": 3, "elu": 3, "exp2": 3, "atan": 3, "logaddexp": 4}


#: Where terms cancel: an error that is small beside them, in ulps of 1, or of the largest argument.
CANCELS = {"logaddexp": 2, "addcmul": 2, "addcdiv": 3, "lerp": 4, "digamma": 16, "lgamma": 16}


#: From where on results are so small that an intermediate overflows: they are 0.
VANISHES = {"silu": 1e-35, "gelu": 1e-35, "gelu_tanh": 1e-35, "quick_gelu": 1e-35, "mish": 1e-35, "sigmoid": 1.2e-38}


VANISHES |= {"softplus": 1e-38, "log_sigmoid": 1e-38, "exp2": 1.2e-38, "exp": 1.2e-38}


NAMES = [name for name in TABLE if name in oracle.VECTORS]


def arrays_of(name):
    return [each for each in TABLE[name].row.names if each not in TABLE[name].options]


def options_of(name):
    """Options as a float32 kernel has them, by the oracle's names."""
    return {OPTIONS.get(k, k): float(np.float32(v)) for k, v in TABLE[name].options.items()}


def _from_whole(x):
    return np.abs(x - np.rint(x))


#: Where libraries differ, and none is to be preferred: which inputs are left out.
OPEN = {
    "relu": np.isnan, "relu6": np.isnan, "hardsigmoid": np.isnan, "hardtanh": np.isnan, "hardshrink": np.isnan,
    "digamma": np.isinf, "acosh": lambda x: ~(x > 1), "fmod": lambda a, b: (b == 0) | ~(_from_whole(a / b) > 1e-6),
    "remainder": lambda a, b: (b == 0) | ~(_from_whole(a / b) > 1e-6), "atan2": lambda a, b: np.hypot(a, b) < 1e-15,
    "gelu_tanh": lambda x: np.abs(x) > 1e150, "quick_gelu": lambda x: np.abs(x) > 1e300,
    "clamp": lambda x, low, high: low >= high, "hardswish": lambda x: np.abs(np.abs(x) - 3) < 1e-6,
    "tan": lambda x: np.abs(x) > 1e6, "erfinv": lambda x: np.abs(x) >= 1, "cbrt": lambda x: np.abs(x) < 1e-300,
    "lgamma": lambda x: (np.abs(x - 1.4616321) < 0.05) | ((x < 0) & (_from_whole(x) > 0.2)),
    "pow": lambda a, b: ~((a > 0) & (np.abs(b) < 50)),
}  # fmt: skip


#: Units of rounding, where it is amplified: arguments of a power, of sines far out, series.
ROUGH = {"erfc": 40, "erf": 40, "digamma": 60, "lgamma": 60, "pow": 80, "erfinv": 200, "hypot": 20, "gelu": 200}


ROUGH |= {"gelu_tanh": 200, "quick_gelu": 200, "tan": 40, "asin": 2000, "acos": 2000, "atanh": 2000, "acosh": 2000}
