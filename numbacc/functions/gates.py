"""The scalar math of all kernels of gated units, for all dtypes. Each formula is followed by its derivative.

These are ordinary Python functions of numbers and can be called as such. A kernel uses a copy made by
`specialize`: every number has the kernel's compute dtype, and the names imported from `arithmetic` stand for that
dtype's fastest accurate instructions.

Sources: GLU, Dauphin et al. 2017 (arXiv:1612.08083); ReGLU, SwiGLU and GeGLU, Shazeer 2020 (arXiv:2002.05202); the tanh
form of GELU, Hendrycks and Gimpel 2016 (arXiv:1606.08415).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..reference import gated
from .arithmetic import gaussian, magnitude, minimum, normal_tail
from .exponentials import TANH_CUBIC, TANH_LINEAR, decay, normal_gelu, share, sigmoid, silu, tanh_decay, tanh_gelu
from .formula import Formula
from .symbolic.derive import written
from .symbolic.vectorized import vectorized

INV_SQRT_2PI = 0.3989422804014327  # 1/√(2π), so that φ(b) = INV_SQRT_2PI · exp(-b²/2)


def shares(b, e):
    """Return σ(b) and σ(b) (1 - σ(b)), both without a subtraction that cancels.

    With e = exp(-|b|), σ and 1 - σ are 1/(1+e) and e/(1+e).
    """
    large = share(1.0, e)
    small = e * large
    if b >= 0.0:
        return large, large * small
    return small, large * small


def sigmoid_pair(b):
    """Return σ(b) and σ'(b) = σ(b) (1 - σ(b))."""
    return shares(b, decay(abs(b)))


def normal_pair(b):
    """Return Φ(b) and φ(b), the normal distribution and its density, from one exponential.

    Φ(-|b|) = ½ erfc(|b|/√2) keeps its relative precision for large |b|, where ½(1 + erf) would cancel.
    """
    x = magnitude(b)
    e = gaussian(x)
    tail = normal_tail(x, e)
    if b >= 0.0:
        return 1.0 - tail, INV_SQRT_2PI * e
    return tail, INV_SQRT_2PI * e


def glu(b):
    """Return g = σ(b)."""
    return sigmoid(b)


def glu_pair(b):
    """Return g = σ(b) and g' = σ'(b)."""
    return sigmoid_pair(b)


def swiglu(b):
    """Return g = b σ(b)."""
    return silu(b)


def swiglu_pair(b):
    """Return g = b σ(b) and g' = σ(b) (1 + b (1 - σ(b))) = σ(b) + b σ'(b)."""
    s, slope = sigmoid_pair(b)
    return b * s, s + b * slope


def geglu(b):
    """Return g = b Φ(b)."""
    return normal_gelu(b)


def geglu_pair(b):
    """Return g = b Φ(b) and g' = Φ(b) + b φ(b)."""
    cdf, pdf = normal_pair(b)
    return b * cdf, cdf + b * pdf


def geglu_tanh(b):
    """Return g = b ½(1 + tanh u) = b σ(2u), where 2u = 2√(2/π)(b + 0.044715 b³)."""
    return tanh_gelu(b)


def geglu_tanh_pair(b):
    """Return g = b σ(2u) and g' = σ(2u) + b σ'(2u) (2u)'.

    The square in u is limited. The limit takes effect from |b| = 47 on, where σ(2u) is 0 or 1 to the last bit; without
    it, u' would overflow and be multiplied by 0. For the same reason, b is multiplied by σ' first.
    """
    square = TANH_CUBIC * minimum(b * b, 2200.0)
    s, slope = shares(b, tanh_decay(b))
    return b * s, s + (slope * b) * (TANH_LINEAR + 3.0 * square)


def reglu_forward(a, b):
    """Return y = a max(b, 0), where max(NaN, 0) is NaN."""
    if b <= 0.0:
        return (a * 0.0,)
    return (a * b,)


def reglu_backward(dy, a, b):
    """Return da = dy b and db = dy a where b > 0, else 0. This is a selection: an infinite dy gives 0, not NaN."""
    if b > 0.0:
        return dy * b, dy * a
    return 0.0, 0.0


def gated_forward(gate):
    """Make the map (a, b) -> (a g(b),)."""

    def forward(a, b):
        return (a * gate(b),)

    return forward


def gated_backward(gate_pair):
    """Make the map (dy, a, b) -> (dy g(b), dy a g'(b)).

    a is multiplied by g' first, which is of the order of 1. The product a dy alone could overflow.
    """

    def backward(dy, a, b):
        g, slope = gate_pair(b)
        return dy * g, dy * (a * slope)

    return backward


def relu(v):
    """Return max(v, 0), where max(NaN, 0) is NaN."""
    if v <= 0.0:
        return 0.0
    return v


def activated(activation):
    """Make the map v -> (activation(v),)."""

    def forward(v):
        return (activation(v),)

    return forward


def biased(formula):
    """Make the map (v, b) -> formula(v + b)."""

    def forward(v, b):
        return formula(v + b)

    return forward


class Gate(NamedTuple):
    """A kind of gate: the maps (a, b) -> (y,) and (dy, a, b) -> (da, db)."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]


def smooth(pair, gate=None):
    """Make a gate from `pair`, which returns g(b) and g'(b). `gate` returns g alone, if that is less work."""
    return Gate(gated_forward(gate or (lambda b: pair(b)[0])), gated_backward(pair))


#: Kind of gate -> its maps. To add a kind, add a row here and one in `reference.gated.KINDS`.
GATES = {
    "glu": smooth(glu_pair, glu),
    "reglu": Gate(reglu_forward, reglu_backward),
    "swiglu": smooth(swiglu_pair, swiglu),
    "geglu": smooth(geglu_pair, geglu),
    "geglu_tanh": smooth(geglu_tanh_pair, geglu_tanh),
}


def first(function):
    """Make the function that returns the first result of another one."""

    def of(b):
        return function(b)[0]

    return of


def both(one, other):
    """Make the function that returns the results of two functions."""

    def of(b):
        return one(b), other(b)

    return of


def own_gate(kind: str, gate: Callable[[Any], Any], slope: Callable[[Any], Any] | None = None) -> dict[str, Formula]:
    """Return the formulas of a user's gate by direction. It is given by g, and by g' unless g' can be derived.

    Raises:
        TypeError: g is not a formula. NotDerived: g' cannot be derived.
    """
    alone = first(written(gate, kind, gradient=False))
    if slope is None:
        pair = written(gate, kind, gradient=True)
    else:
        pair = both(alone, first(written(slope, f"{kind}'s slope", gradient=False)))
    forward, backward = smooth(pair, alone)
    ours, theirs = (vectorized(each, kind, rounds_numbers=True) for each in (forward, backward))
    made = Formula(f"gated.backward.{kind}", backward, theirs)
    return {"forward": Formula(f"gated.forward.{kind}", forward, ours, made), "backward": made}


def named(name: str) -> Formula:
    """Return the formula with this name."""
    return FORMULAS[name]


def _gated(direction: str, derivatives: dict[str, Formula]) -> dict[str, Formula]:
    return {
        kind: Formula(
            f"gated.{direction}.{kind}",
            getattr(gate, direction),
            partial(getattr(gated, direction), kind=kind),
            derivatives.get(kind),
            (named, (f"gated.{direction}.{kind}",)),
        )
        for kind, gate in GATES.items()
    }


_BACKWARD = _gated("backward", {})
#: Formulas by name.
FORMULAS = {formula.name: formula for formula in (*_gated("forward", _BACKWARD).values(), *_BACKWARD.values())}
