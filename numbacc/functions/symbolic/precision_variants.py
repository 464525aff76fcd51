"""The variants of functions that kernels of each precision use instead of the functions that formulas name.

`replacements` lists the variants of the functions that all kernels share. A module that only some kernels need adds the
variants of its own functions to `SINGLE`, `NARROW` or `opaque_functions.DOUBLES` when it is imported.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .. import arithmetic as plain
from .. import digamma, division, exponentials
from .opaque_functions import DOUBLES

#: Function -> its variant in kernels that do not compute in float64 or complex128.
SINGLE: dict[Any, Any] = {}
#: Function -> its variant in kernels that compute in float32 and store 16 bits. It takes precedence over `SINGLE`.
NARROW: dict[Any, Any] = {}


@lru_cache(maxsize=16)
def replacements(compute: str, narrow: bool) -> Mapping[Any, Any]:
    """Return the replacements: function -> another function, or a name of `hardware`.

    Args:
        compute: the name of the compute dtype.
        narrow: True if the stored dtype is narrower. A 16-bit float keeps 8 or 11 bits; the hardware's approximations
            are accurate to 22 bits.
    """
    #: Functions of CUDA's library, which has them in each precision, and functions that are single instructions.
    theirs = (
        plain.cbrt, plain.erfinv, plain.exp2, plain.reciprocal_root, plain.rint, plain.scaled, plain.stepped
    )  # fmt: skip
    if compute in ("float64", "complex128"):
        double: dict[Any, Any] = {
            **{function: f"{function.__name__}_double" for function in theirs},
            plain.fma: "fma_double",
            plain.multiply_then_add: "multiply_add_double",
            plain.exp2_rough: "exp2_double",
            plain.exp: "exp",
            plain.gaussian: exponentials.gaussian_double,
            plain.normal_tail: plain.normal_tail_degree_22,
            exponentials.tanh_decay: exponentials.tanh_decay_double,
            exponentials.quick_decay: exponentials.quick_decay_double,
        }
        return ChainMap(double, DOUBLES)
    single: dict[Any, Any] = {function: function.__name__ for function in theirs}
    if compute == "float32":
        single |= {plain.greatest: "greatest", plain.least: "least"}
    single |= {
        plain.fma: "fma",
        plain.power_of_bits: "power_of_bits",
        plain.times_power_of_bits: "times_power_of_bits",
        plain.to_float16: "to_float16",
        plain.to_bfloat16: "to_bfloat16",
        digamma.digamma: digamma.digamma_single,
        division.floor_divide: division.floor_divide_single,
        division.floor_divide_narrow: division.floor_divide_single,
        division.remainder: division.remainder_single,
        division.fmod_of_floats: division.fmod_single,
        plain.exp2_rough: "exp2_approximate",
        plain.shared_out: plain.shared_out_by_products,
        plain.square_root: plain.square_root_by_products,
        plain.reciprocal_approximate: "reciprocal_approximate",
        plain.reciprocal_root_approximate: "reciprocal_root_approximate",
    }
    if narrow:
        of_narrow: dict[Any, Any] = {
            **single,
            plain.exp: "exp_approximate",
            plain.exp2: "exp2_approximate",
            plain.magnitude: plain.magnitude_unbounded,
            plain.gaussian: plain.gaussian_approximate,
            plain.reciprocal: "reciprocal_approximate",
            plain.inverse: "inverse_approximate",
            plain.square_root: "sqrt_approximate",
            plain.quotient: "quotient_approximate",
            plain.hyperbolic_cosine: plain.hyperbolic_cosine_rough,
            plain.hyperbolic_tangent: plain.hyperbolic_tangent_rough,
            plain.log1p_of_share: plain.log1p_of_share_degree_10,
            plain.normal_tail: plain.normal_tail_degree_7,
            division.floor_divide_narrow: division.floor_divide_rough,
            exponentials.share: exponentials.share_rough,
            exponentials.sigmoid: exponentials.sigmoid_rough,
            exponentials.silu: exponentials.silu_rough,
            exponentials.tanh_gelu: exponentials.tanh_gelu_rough,
            exponentials.quick_gelu: exponentials.quick_gelu_rough,
            exponentials.weighted_ratio: exponentials.weighted_ratio_rough,
        }
        return ChainMap(of_narrow, NARROW, SINGLE)
    of_wide: dict[Any, Any] = {
        **single,
        plain.exp: "exp",
        plain.gaussian: exponentials.gaussian_single,
        plain.normal_tail: plain.normal_tail_degree_9,
        exponentials.decay: exponentials.decay_single,
        exponentials.tanh_decay: exponentials.tanh_decay_single,
        exponentials.quick_decay: exponentials.quick_decay_single,
        exponentials.share: exponentials.share_single,
        exponentials.silu: exponentials.silu_single,
        exponentials.normal_gelu: exponentials.normal_gelu_single,
        exponentials.tanh_gelu: exponentials.tanh_gelu_single,
        exponentials.quick_gelu: exponentials.quick_gelu_single,
        exponentials.weighted_ratio: exponentials.weighted_ratio_single,
    }
    return ChainMap(of_wide, SINGLE)
