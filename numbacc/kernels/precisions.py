"""What kernels of each precision have in the place of the functions that formulas are written with."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from . import angles, complexes, decays, divisions, functions, powers, psi
from . import arithmetic as plain
from .wholes import DOUBLES


@lru_cache(maxsize=16)
def replacements(compute: str, narrow: bool) -> Mapping[Any, Any]:
    """The replacements of functions of `arithmetic` and `decays`: functions, or names of `hardware`.

    Args:
        compute: name of the dtype that is computed in.
        narrow: True if what is stored is narrower: a 16-bit float keeps 8 or 11 bits, and the hardware's approximations
            are good to 22.
    """
    #: What CUDA's own library has in each precision, and what is instructions of one.
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
            plain.gaussian: decays.gaussian_double,
            plain.normal_tail: plain.normal_tail_degree_22,
            decays.tanh_decay: decays.tanh_decay_double,
            decays.quick_decay: decays.quick_decay_double,
        }
        # Those of `elementwise`, which are told when that is imported.
        return ChainMap(double, DOUBLES)
    single: dict[Any, Any] = {function: function.__name__ for function in theirs}
    if compute == "float32":
        single |= {plain.greatest: "greatest", plain.least: "least"}
    single |= {
        plain.fma: "fma",
        plain.power_of_bits: "power_of_bits",
        psi.digamma: psi.digamma_single,
        functions.floor_divide: divisions.floor_divide_single,
        divisions.floor_divide_narrow: divisions.floor_divide_single,
        functions.remainder: divisions.remainder_single,
        functions.fmod: divisions.fmod_single,
        plain.exp2_rough: "exp2_approximate",
        plain.shared_out: plain.shared_out_by_products,
        plain.square_root: plain.square_root_by_products,
        plain.reciprocal_approximate: "reciprocal_approximate",
        plain.reciprocal_root_approximate: "reciprocal_root_approximate",
        complexes.overflows: complexes.overflows_single,
        complexes.overflows_exp2: complexes.overflows_exp2_single,
        complexes.large_exp: complexes.large_exp_single,
        complexes.large_exp2: complexes.large_exp2_single,
        complexes.square_scale: complexes.square_scale_single,
        complexes.times_ln_2: complexes.times_ln_2_single,
    }
    if narrow:
        return {
            **single,
            plain.exp: "exp_approximate",
            plain.exp2: "exp2_approximate",
            plain.magnitude: plain.magnitude_unbounded,
            plain.gaussian: plain.gaussian_approximate,
            plain.reciprocal: "reciprocal_approximate",
            plain.inverse: "inverse_approximate",
            plain.square_root: "sqrt_approximate",
            plain.quotient: "quotient_approximate",
            plain.log1p_of_share: plain.log1p_of_share_degree_10,
            plain.normal_tail: plain.normal_tail_degree_7,
            divisions.floor_divide_narrow: divisions.floor_divide_rough,
            powers.power: powers.power_rough,
            powers.log2_rough: "log2_approximate",
            powers.times_power_of_bits: "times_power_of_bits",
            angles.atan2: angles.atan2_rough,
            decays.share: decays.share_rough,
            decays.sigmoid: decays.sigmoid_rough,
            decays.silu: decays.silu_rough,
            decays.tanh_gelu: decays.tanh_gelu_rough,
            decays.quick_gelu: decays.quick_gelu_rough,
            decays.weighted_ratio: decays.weighted_ratio_rough,
        }
    return {
        **single,
        plain.exp: "exp",
        plain.gaussian: decays.gaussian_single,
        plain.normal_tail: plain.normal_tail_degree_9,
        decays.decay: decays.decay_single,
        decays.tanh_decay: decays.tanh_decay_single,
        decays.quick_decay: decays.quick_decay_single,
        decays.share: decays.share_single,
        decays.silu: decays.silu_single,
        decays.tanh_gelu: decays.tanh_gelu_single,
        decays.quick_gelu: decays.quick_gelu_single,
        decays.weighted_ratio: decays.weighted_ratio_single,
    }
