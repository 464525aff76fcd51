"""Gated activations in NumPy: y = a * g(b), and its gradients.

Each kind is written down as two functions of b: one gives g(b), the other g(b) and g'(b). 16-bit floats are computed in
float32 and rounded once, when the result is stored.

Sources: GLU, Dauphin et al. 2017 (arXiv:1612.08083); ReGLU, SwiGLU and GeGLU, Shazeer 2020
(arXiv:2002.05202); the tanh form of GELU, Hendrycks and Gimpel 2016 (arXiv:1606.08415).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import info
from .c_library import erfc
from .pieces import in_pieces

Array = NDArray[Any]


def sigmoid(b: Array) -> Array:
    """σ(b) to full relative precision: exp is only taken of what is not positive."""
    e: Array = np.exp(-np.abs(b))
    # The larger of e and a truth value, 1 or 0, is that of 1 and e which is wanted: e is at most 1.
    s: Array = np.maximum(e, b >= 0) / (1 + e)
    return s


def sigmoids(b: Array) -> tuple[Array, Array]:
    """σ(b) and 1 - σ(b), likewise."""
    e: Array = np.exp(-np.abs(b))
    return np.maximum(e, b >= 0) / (1 + e), np.maximum(e, b < 0) / (1 + e)


def glu(b: Array) -> tuple[Array, Array]:
    """g = σ(b), g' = σ(b) (1 - σ(b))."""
    s, rest = sigmoids(b)
    return s, s * rest


def reglu_gate(b: Array) -> Array:
    """max(b, 0), NaN where b is."""
    return np.maximum(b, 0)


def reglu(b: Array) -> tuple[Array, Array]:
    """g' = 1 where b > 0, else 0."""
    return reglu_gate(b), (b > 0).astype(b.dtype)


def swiglu_gate(b: Array) -> Array:
    """b σ(b)."""
    return b * sigmoid(b)


def swiglu(b: Array) -> tuple[Array, Array]:
    """g' = σ(b) (1 + b (1 - σ(b)))."""
    s, rest = sigmoids(b)
    return b * s, s * (1 + b * rest)


def normal_cdf(b: Array) -> Array:
    """Φ(b) = ½ erfc(-b/√2), exact in both tails."""
    return 0.5 * erfc(-b * b.dtype.type(math.sqrt(0.5)))


def geglu_gate(b: Array) -> Array:
    """b Φ(b)."""
    return b * normal_cdf(b)


def geglu(b: Array) -> tuple[Array, Array]:
    """g' = Φ(b) + b φ(b)."""
    cdf = normal_cdf(b)
    pdf = np.exp(-0.5 * b * b) * (1 / math.sqrt(2 * math.pi))
    return b * cdf, cdf + b * pdf


_SCALE = 2 * math.sqrt(2 / math.pi)


def _clipped(b: Array) -> Array:
    """Beyond |b| = 30 σ(2u) is 0 or 1 to the last bit of float64, so u is taken of this, which keeps b³ from
    overflowing."""
    c: Array = np.clip(b, -30, 30)
    return c


def _twice_u(c: Array) -> Array:
    """2u, with u = √(2/π)(c + 0.044715 c³)."""
    return _SCALE * (c + 0.044715 * c * c * c)


def geglu_tanh_gate(b: Array) -> Array:
    """b ½(1 + tanh u), in which ½(1 + tanh u) is σ(2u)."""
    return b * sigmoid(_twice_u(_clipped(b)))


def geglu_tanh(b: Array) -> tuple[Array, Array]:
    """g' by the product rule."""
    c = _clipped(b)
    s, rest = sigmoids(_twice_u(c))
    slope = _SCALE * (1 + 3 * 0.044715 * c * c)
    return b * s, s + b * (s * rest) * slope


class Kind(NamedTuple):
    """A kind of gate: the pair g(b), g'(b), and g(b) alone where that is less work."""

    with_slope: Callable[[Array], tuple[Array, Array]]
    without: Callable[[Array], Array] | None = None

    def gate(self, b: Array) -> Array:
        """g(b)."""
        return self.without(b) if self.without else self.with_slope(b)[0]


KINDS = {
    "glu": Kind(glu, sigmoid),
    "reglu": Kind(reglu, reglu_gate),
    "swiglu": Kind(swiglu, swiglu_gate),
    "geglu": Kind(geglu, geglu_gate),
    "geglu_tanh": Kind(geglu_tanh, geglu_tanh_gate),
}


def _compute(array: Array) -> Array:
    compute: Array = array.astype(info(array.dtype).compute, copy=False)
    return compute


def forward(a: Array, b: Array, *, kind: str) -> tuple[Array]:
    """(y,) with y = a * g(b), in a's dtype. Shapes and dtypes of a and b are equal."""
    gate = KINDS[kind].gate

    def piece(a: Array, b: Array) -> tuple[Array]:
        return ((_compute(a) * gate(_compute(b))).astype(a.dtype, copy=False),)

    # The formulas define overflow and NaN; NumPy's warnings about them would be noise.
    with np.errstate(all="ignore"):
        (y,) = in_pieces(piece, a, b)
        return (y,)


def backward(dy: Array, a: Array, b: Array, *, kind: str) -> tuple[Array, Array]:
    """(da, db) with da = dy * g(b) and db = dy * a * g'(b), in a's dtype. All shapes and dtypes are equal."""

    def piece(dy: Array, a: Array, b: Array) -> tuple[Array, Array]:
        g, value = _compute(dy), _compute(b)
        gate, slope = KINDS[kind].with_slope(value)
        da, db = g * gate, g * (_compute(a) * slope)
        if kind == "reglu":
            # The formula selects, it does not multiply by zero: an infinite dy gives 0 where b <= 0.
            da, db = np.where(value > 0, da, 0), np.where(value > 0, db, 0)
        return da.astype(a.dtype, copy=False), db.astype(a.dtype, copy=False)

    with np.errstate(all="ignore"):
        da, db = in_pieces(piece, dy, a, b)
        return da, db
