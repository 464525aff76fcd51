"""The formulas of optimizer steps, for one element of a parameter, its gradient and its optimizer state."""

from __future__ import annotations

import copyreg
import math
from operator import attrgetter

from ...functions.arithmetic import fma
from .multi_tensor_spec import ListFormula


def adamw(p, g, m, v, rest1, rest2, pace, scale, eps, kept):
    """Return (p, m, v) after a step of AdamW.

    Args:
        rest1, rest2: 1 - β₁, 1 - β₂.
        pace: η/(1 - β₁ᵗ).
        scale: 1/√(1 - β₂ᵗ).
        eps: ε.
        kept: 1 - η λ.

    The grouping of products and sums is fixed here, not left to the compiler, so that all kernels give the same bits.
    """
    m = fma(rest1, g - m, m)
    v = fma(rest2, fma(g, g, -v), v)
    return fma(-pace, m / fma(math.sqrt(v), scale, eps), p * kept), m, v


def adamw_numbers(t, rate, log1, log2, rest1, rest2, eps, decay):
    """Return the parameters of `adamw` at step t, given log β₁ and log β₂.

    1 - βᵗ is computed as -expm1(t log β): for β near 1, rounded to float32, a power would be inaccurate.
    """
    pace = rate / -math.expm1(t * log1)
    scale = 1.0 / math.sqrt(-math.expm1(t * log2))
    return rest1, rest2, pace, scale, eps, 1.0 - rate * decay


def adamw_counted(p, g, m, v, t, rate, log1, log2, rest1, rest2, eps, decay):
    """Return `adamw` with the parameters of step t."""
    rest1, rest2, pace, scale, eps, kept = adamw_numbers(t, rate, log1, log2, rest1, rest2, eps, decay)
    return adamw(p, g, m, v, rest1, rest2, pace, scale, eps, kept)


#: AdamW with parameters known at the launch, and with a step number that the kernel reads.
ADAMW, ADAMW_COUNTED = ListFormula("adamw", adamw), ListFormula("adamw_counted", adamw, adamw_numbers)


def named(name: str) -> ListFormula:
    """Return a formula of this module by name, for unpickling."""
    return {formula.name: formula for formula in (ADAMW, ADAMW_COUNTED)}[name]


for _formula in (ADAMW, ADAMW_COUNTED):
    _formula.origin = (named, (_formula.name,))
copyreg.pickle(ListFormula, attrgetter("origin"))
