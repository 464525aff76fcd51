"""Gated activations in NumPy: y = a * g(b), and its gradients.

Each kind is written down once, as a function of b that returns g(b) and g'(b). 16-bit floats are computed
in float32 and rounded once, when the result is stored.

Sources: GLU, Dauphin et al. 2017 (arXiv:1612.08083); ReGLU, SwiGLU and GeGLU, Shazeer 2020
(arXiv:2002.05202); the tanh form of GELU, Hendrycks and Gimpel 2016 (arXiv:1606.08415).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import info

Array = NDArray[Any]


@lru_cache(maxsize=1)
def _erfc() -> Callable[[Array], Array]:
    # NumPy has no error function; Numba compiles the C library's into a ufunc in a fraction of a second.
    # Imported here: numba takes longer to import than all the rest of numbacc.
    try:
        from numba import vectorize
    except ImportError:
        # Not on every machine; one element at a time takes a hundred times as long.
        elementwise = np.vectorize(math.erfc, otypes=[np.float64])
        return lambda x: elementwise(x).astype(x.dtype)
    ufunc: Callable[[Array], Array] = vectorize(["float32(float32)", "float64(float64)"])(lambda x: math.erfc(x))
    return ufunc


def sigmoid(b: Array) -> tuple[Array, Array]:
    """σ(b) and 1 - σ(b), each to full relative precision: exp is only taken of what is not positive."""
    e = np.exp(-np.abs(b))
    large, small = 1 / (1 + e), e / (1 + e)
    positive = b >= 0
    return np.where(positive, large, small), np.where(positive, small, large)


def glu(b: Array) -> tuple[Array, Array]:
    """g = σ(b), g' = σ(b) (1 - σ(b))."""
    s, rest = sigmoid(b)
    return s, s * rest


def reglu(b: Array) -> tuple[Array, Array]:
    """g = max(b, 0), NaN where b is; g' = 1 where b > 0, else 0."""
    return np.maximum(b, 0), (b > 0).astype(b.dtype)


def swiglu(b: Array) -> tuple[Array, Array]:
    """g = b σ(b), g' = σ(b) (1 + b (1 - σ(b)))."""
    s, rest = sigmoid(b)
    return b * s, s * (1 + b * rest)


def geglu(b: Array) -> tuple[Array, Array]:
    """g = b Φ(b), g' = Φ(b) + b φ(b), with Φ(b) = ½ erfc(-b/√2), exact in both tails."""
    cdf = 0.5 * _erfc()(-b * b.dtype.type(math.sqrt(0.5)))
    pdf = np.exp(-0.5 * b * b) * (1 / math.sqrt(2 * math.pi))
    return b * cdf, cdf + b * pdf


def geglu_tanh(b: Array) -> tuple[Array, Array]:
    """g = b ½(1 + tanh u) with u = √(2/π)(b + 0.044715 b³), and g' by the product rule.

    ½(1 + tanh u) is σ(2u). Beyond |b| = 30 σ(2u) is 0 or 1 to the last bit of float64, so u is taken of the
    clipped b, which keeps b³ from overflowing.
    """
    c = np.clip(b, -30, 30)
    scale = 2 * math.sqrt(2 / math.pi)
    s, rest = sigmoid(scale * (c + 0.044715 * c * c * c))
    slope = scale * (1 + 3 * 0.044715 * c * c)
    return b * s, s + b * (s * rest) * slope


KINDS: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "glu": glu,
    "reglu": reglu,
    "swiglu": swiglu,
    "geglu": geglu,
    "geglu_tanh": geglu_tanh,
}


def _compute(array: Array) -> Array:
    compute: Array = array.astype(info(array.dtype).compute, copy=False)
    return compute


def forward(a: Array, b: Array, *, kind: str) -> tuple[Array]:
    """(y,) with y = a * g(b), in a's dtype. Shapes and dtypes of a and b are equal."""
    # The formulas define overflow and NaN; NumPy's warnings about them would be noise.
    with np.errstate(all="ignore"):
        gate, _ = KINDS[kind](_compute(b))
        return ((_compute(a) * gate).astype(a.dtype, copy=False),)


def backward(dy: Array, a: Array, b: Array, *, kind: str) -> tuple[Array, Array]:
    """(da, db) with da = dy * g(b) and db = dy * a * g'(b), in a's dtype. All shapes and dtypes are equal."""
    with np.errstate(all="ignore"):
        g, value = _compute(dy), _compute(b)
        gate, slope = KINDS[kind](value)
        da, db = g * gate, g * (_compute(a) * slope)
        if kind == "reglu":
            # The formula selects, it does not multiply by zero: an infinite dy gives 0 where b <= 0.
            da, db = np.where(value > 0, da, 0), np.where(value > 0, db, 0)
        return da.astype(a.dtype, copy=False), db.astype(a.dtype, copy=False)
