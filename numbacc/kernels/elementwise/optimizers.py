"""The formulas of optimizers' steps: of one element of a parameter, of its gradient, and of what is kept beside it."""

from __future__ import annotations

import copyreg
import math
from operator import attrgetter

from ...functions.arithmetic import fma
from .multi_tensor_spec import ListFormula


def adamw(p, g, m, v, rest1, rest2, pace, scale, eps, kept):
    """(p, m, v) behind a step of AdamW.

    Args:
        rest1, rest2: 1 - β₁, 1 - β₂.
        pace: η/(1 - β₁ᵗ).
        scale: 1/√(1 - β₂ᵗ).
        eps: ε.
        kept: 1 - η λ.

    Products and sums are put together here, not as the compiler likes, so that all kernels give the same bits.
    """
    m = fma(rest1, g - m, m)
    v = fma(rest2, fma(g, g, -v), v)
    return fma(-pace, m / fma(math.sqrt(v), scale, eps), p * kept), m, v


def adamw_numbers(t, rate, log1, log2, rest1, rest2, eps, decay):
    """The numbers of `adamw` at step t, given log β₁ and log β₂.

    1 - βᵗ as -expm1(t log β): of a β near 1, rounded to float32, a power would be far off.
    """
    pace = rate / -math.expm1(t * log1)
    scale = 1.0 / math.sqrt(-math.expm1(t * log2))
    return rest1, rest2, pace, scale, eps, 1.0 - rate * decay


def adamw_counted(p, g, m, v, t, rate, log1, log2, rest1, rest2, eps, decay):
    """`adamw` with the numbers of step t."""
    rest1, rest2, pace, scale, eps, kept = adamw_numbers(t, rate, log1, log2, rest1, rest2, eps, decay)
    return adamw(p, g, m, v, rest1, rest2, pace, scale, eps, kept)


#: Of numbers that are known at the launch, and of a step that the kernel reads.
ADAMW, ADAMW_COUNTED = ListFormula("adamw", adamw), ListFormula("adamw_counted", adamw, adamw_numbers)


def named(name: str) -> ListFormula:
    """A formula of this module, as pickles have it."""
    return {formula.name: formula for formula in (ADAMW, ADAMW_COUNTED)}[name]


for _formula in (ADAMW, ADAMW_COUNTED):
    _formula.origin = (named, (_formula.name,))
copyreg.pickle(ListFormula, attrgetter("origin"))
