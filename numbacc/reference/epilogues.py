"""Epilogues in NumPy: biases, activations and their derivatives, bit masks, sums over rows.

16-bit floats are computed in float32 and rounded once, when the result is stored. GELU is its tanh form, Hendrycks and
Gimpel 2016 (arXiv:1606.08415), as in cuBLASLt.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import info
from .gated import geglu_tanh, geglu_tanh_gate

Array = NDArray[Any]
Map = Callable[..., tuple[Array, ...]]


def gelu(z: Array) -> Array:
    """Return z ½(1 + tanh u), u = √(2/π)(z + 0.044715 z³), the factor in GeGLU."""
    found: Array = geglu_tanh_gate(z)
    return found


def dgelu(z: Array) -> Array:
    """Return the derivative of `gelu`."""
    found: Array = geglu_tanh(z)[1]
    return found


def relu(z: Array) -> Array:
    """Return max(z, 0), NaN where z is NaN."""
    return np.maximum(z, 0)


def pack_bits(z: Array) -> Array:
    """Pack one bit per element: 0 where z < 0, else 1. Column c of a row is bit c % 8 (from the lowest) of byte c // 8.

    So 0, -0 and NaN give 1, as in cuBLASLt's masks; but for NaN in results of 16 and 8 bits, that depends on cuBLASLt's
    algorithm.
    """
    with np.errstate(invalid="ignore"):  # NaN sets this flag
        return np.packbits(~(z < 0), axis=-1, bitorder="little")


def unpack_bits(mask: Array, columns: int) -> Array:
    """Return the first `columns` bits of each row of a mask, as booleans."""
    return np.unpackbits(mask, axis=-1, count=columns, bitorder="little").astype(bool)


def select_bits(v: Array, mask: Array) -> tuple[Array]:
    """Return (y,) with y = v where the mask is 1, else 0. This selects, so an infinite v gives 0, not NaN."""
    return (np.where(unpack_bits(mask, v.shape[-1]), v, np.zeros((), v.dtype)),)


def sum_rows(x: Array, *, dtype: np.dtype[Any]) -> tuple[Array]:
    """Return (s,), where s is the sum of matrices over their rows, in `dtype`."""
    with np.errstate(all="ignore"):
        return (x.sum(axis=-2, dtype=info(x.dtype).compute).astype(dtype, copy=False),)


def rounded(function: Map) -> Map:
    """Make a function of arrays in the compute dtype accept arrays in their own dtype."""

    @wraps(function)
    def mapped(*operands: Array) -> tuple[Array, ...]:
        dtype = operands[0].dtype
        # The definitions include overflow and NaN, so NumPy's warnings are suppressed.
        with np.errstate(all="ignore"):
            results = function(*(x.astype(info(dtype).compute, copy=False) for x in operands))
            return tuple(y.astype(dtype, copy=False) for y in results)

    return mapped


#: The elementwise functions, by the names of the kernels' scalar functions.
MAPS: dict[str, Map] = {
    "epilogue.bias": rounded(lambda v, b: (v + b,)),
    "epilogue.relu": rounded(lambda v: (relu(v),)),
    "epilogue.relu_bias": rounded(lambda v, b: (relu(v + b),)),
    "epilogue.gelu": rounded(lambda v: (gelu(v),)),
    "epilogue.gelu_bias": rounded(lambda v, b: (gelu(v + b),)),
    "epilogue.gelu_aux": rounded(lambda v: (gelu(v), v)),
    "epilogue.gelu_aux_bias": rounded(lambda v, b: (gelu(v + b), v + b)),
    "epilogue.dgelu": rounded(lambda v, aux: (v * dgelu(aux),)),
}
