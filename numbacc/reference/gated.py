"""Gated activations y = a * g(b) and their gradients, in NumPy.

Each kind is defined by two functions of b: one returns g(b), the other returns g(b) and g'(b). 16-bit floats are
computed in float32 and rounded once, when the result is stored.

Sources: GLU, Dauphin et al. 2017 (arXiv:1612.08083); ReGLU, SwiGLU and GeGLU, Shazeer 2020 (arXiv:2002.05202); the tanh
form of GELU, Hendrycks and Gimpel 2016 (arXiv:1606.08415).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import info
from .c_library import erfc, in_pieces, product_rest

Array = NDArray[Any]


def sigmoid(b: Array) -> Array:
    """Return σ(b) with full relative precision: the argument of exp is never positive."""
    e: Array = np.exp(-np.abs(b))
    # The numerator is 1 for b >= 0, else e: the maximum of e (at most 1) and the truth value.
    s: Array = np.maximum(e, b >= 0) / (1 + e)
    return s


def sigmoids(b: Array) -> tuple[Array, Array]:
    """Return σ(b) and 1 - σ(b), both with full relative precision."""
    e: Array = np.exp(-np.abs(b))
    return np.maximum(e, b >= 0) / (1 + e), np.maximum(e, b < 0) / (1 + e)


def glu(b: Array) -> tuple[Array, Array]:
    """Return g = σ(b) and g' = σ(b) (1 - σ(b))."""
    s, rest = sigmoids(b)
    return s, s * rest


def reglu_gate(b: Array) -> Array:
    """Return max(b, 0), NaN where b is NaN."""
    return np.maximum(b, 0)


def reglu(b: Array) -> tuple[Array, Array]:
    """Return g = max(b, 0), and g' = 1 where b > 0, else 0."""
    return reglu_gate(b), (b > 0).astype(b.dtype)


def swiglu_gate(b: Array) -> Array:
    """Return b σ(b)."""
    return b * sigmoid(b)


def swiglu(b: Array) -> tuple[Array, Array]:
    """Return g = b σ(b) and g' = σ(b) (1 + b (1 - σ(b)))."""
    s, rest = sigmoids(b)
    return b * s, s * (1 + b * rest)


def in_double(function: Callable[[Array, bool], tuple[Array, ...]]) -> Callable[[Array], Any]:
    """Make a function of float64 arrays accept any floats: it computes in float64 and rounds its results once.

    An exponential multiplies the relative error of its argument by the argument, which may be 700. The second argument
    says whether the array was float64. Only then the function must correct the rounding of the exponent.
    """

    @wraps(function)
    def call(b: Array) -> Any:
        is_double = b.dtype == np.float64
        found = [y.astype(b.dtype, copy=False) for y in function(b.astype(np.float64, copy=False), is_double)]
        return found[0] if len(found) == 1 else tuple(found)

    return call


def sigmoids_beside(b: Array, rest: Any) -> tuple[Array, Array]:
    """Return σ and 1 - σ of b + rest, where rest is small."""
    e = np.exp(-np.abs(b))
    e = e - e * (np.copysign(1, b) * rest)
    return np.maximum(e, b >= 0) / (1 + e), np.maximum(e, b < 0) / (1 + e)


#: Beyond this, e^(-b²/2) and σ of the tanh form are 0 or 1 to the last bit of float64. Squares of it stay finite.
_FAR = 40.0
_ROOT, _ROOT_REST = 0.7071067811865476, -4.833646656726457e-17


def gaussian(x: Array) -> Array:
    """Return e^(-x²/2) in float64, corrected for the rounding of x²."""
    c = np.clip(x, -_FAR, _FAR)
    square = c * c
    e = np.exp(-0.5 * square)
    found: Array = e - e * (0.5 * product_rest(c, c, square))
    return found


def normal_tail(x: Array, e: Array) -> Array:
    """Return Φ(-x) = ½ erfc(x/√2) in float64, given e = e^(-x²/2). (erfc' = -2/√π e corrects the rounding of x/√2.)"""
    c = np.clip(x, -_FAR, _FAR)
    t = c * _ROOT
    slope = 2 / math.sqrt(math.pi) * np.fmin(np.fmax(e, 0), 1)  # finite for any e
    found: Array = 0.5 * (erfc(t) - slope * (product_rest(c, _ROOT, t) + c * _ROOT_REST))
    return found


def normal_pair(b: Array, is_double: bool) -> tuple[Array, Array]:
    """Return Φ(b), accurate in both tails, and its derivative φ(b)."""
    c = np.clip(b, -_FAR, _FAR)
    e = gaussian(c) if is_double else np.exp(-0.5 * c * c)
    cdf = normal_tail(-c, e) if is_double else 0.5 * erfc(-c * _ROOT)
    return cdf, e * (1 / math.sqrt(2 * math.pi))


@in_double
def geglu_gate(b: Array, is_double: bool) -> tuple[Array]:
    """Return b Φ(b)."""
    return (b * normal_pair(b, is_double)[0],)


@in_double
def geglu(b: Array, is_double: bool) -> tuple[Array, Array]:
    """Return g = b Φ(b) and g' = Φ(b) + b φ(b)."""
    cdf, pdf = normal_pair(b, is_double)
    return b * cdf, cdf + b * pdf


#: 2√(2/π), and its product with 0.044715, each in two parts.
_SCALE, _SCALE_REST = 1.5957691216057306, 1.223515168339221e-16
_CUBIC, _CUBIC_REST = 0.07135481627260025, -6.1751499181553155e-19


def _twice_u(c: Array, is_double: bool) -> tuple[Array, Any]:
    """Return 2u = c p, with p = 2√(2/π)(1 + 0.044715 c²), and its rounding error."""
    square = c * c
    term = _CUBIC * square
    p = _SCALE + term
    u = c * p
    if not is_double:
        return u, 0
    lost = (term - (p - _SCALE)) + product_rest(square, _CUBIC, term)
    lost = lost + (_SCALE_REST + _CUBIC_REST * square + _CUBIC * product_rest(c, c, square))
    return u, product_rest(c, p, u) + c * lost


@in_double
def geglu_tanh_gate(b: Array, is_double: bool) -> tuple[Array]:
    """Return b ½(1 + tanh u), where ½(1 + tanh u) is σ(2u)."""
    return (b * sigmoids_beside(*_twice_u(np.clip(b, -_FAR, _FAR), is_double))[0],)


@in_double
def geglu_tanh(b: Array, is_double: bool) -> tuple[Array, Array]:
    """Return g = b ½(1 + tanh u) and g', by the product rule."""
    c = np.clip(b, -_FAR, _FAR)
    s, rest = sigmoids_beside(*_twice_u(c, is_double))
    return b * s, s + b * (s * rest) * (_SCALE + 3 * _CUBIC * (c * c))


class Kind(NamedTuple):
    """A kind of gate: a function that returns g(b) and g'(b), and one for g(b) alone if that is less work."""

    with_slope: Callable[[Array], tuple[Array, Array]]
    without: Callable[[Array], Array] | None = None

    def gate(self, b: Array) -> Array:
        """Return g(b)."""
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
    """Return (y,) with y = a * g(b), in a's dtype. Shapes and dtypes of a and b are equal."""
    gate = KINDS[kind].gate

    def piece(a: Array, b: Array) -> tuple[Array]:
        return ((_compute(a) * gate(_compute(b))).astype(a.dtype, copy=False),)

    # The definitions include overflow and NaN, so NumPy's warnings are suppressed.
    with np.errstate(all="ignore"):
        (y,) = in_pieces(piece, a, b)
        return (y,)


def backward(dy: Array, a: Array, b: Array, *, kind: str) -> tuple[Array, Array]:
    """Return (da, db) with da = dy * g(b) and db = dy * a * g'(b), in a's dtype. All shapes and dtypes are equal."""

    def piece(dy: Array, a: Array, b: Array) -> tuple[Array, Array]:
        g, value = _compute(dy), _compute(b)
        gate, slope = KINDS[kind].with_slope(value)
        da, db = g * gate, g * (_compute(a) * slope)
        if kind == "reglu":
            # ReGLU selects and does not multiply by zero: an infinite dy gives 0 where b <= 0.
            da, db = np.where(value > 0, da, 0), np.where(value > 0, db, 0)
        return da.astype(a.dtype, copy=False), db.astype(a.dtype, copy=False)

    with np.errstate(all="ignore"):
        da, db = in_pieces(piece, dy, a, b)
        return da, db
