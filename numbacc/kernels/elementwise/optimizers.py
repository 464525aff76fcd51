"""The formulas of optimizer steps, for one element of a parameter, its gradient and its optimizer state."""

from __future__ import annotations

import copyreg
import math
from collections.abc import Callable
from itertools import product
from operator import attrgetter
from typing import Any

from ...functions.arithmetic import fma
from ...functions.formula import Formula
from ...functions.reduction_formula import ReductionFormula
from ..reduce.functions import add
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


def adamw_times(p, g, m, v, factor, rest1, rest2, pace, scale, eps, kept):
    """Return `adamw` with the gradient g factor."""
    return adamw(p, g * factor, m, v, rest1, rest2, pace, scale, eps, kept)


def adamw_times_copied(p, g, m, v, factor, rest1, rest2, pace, scale, eps, kept):
    """Return `adamw_times`, and p again, for its copy."""
    own, first, second = adamw(p, g * factor, m, v, rest1, rest2, pace, scale, eps, kept)
    return own, first, second, own


def is_nan(factor, rest1, rest2, pace, scale, eps, kept):
    """Return (1 if the factor is NaN, so that a step changes nothing, else 0,)."""
    return (0.0 if factor == factor else 1.0,)


def adamw_scaled(p, g, m, v, factor, rest1, rest2, pace, scale, eps, kept):
    """Return `adamw` with the gradient g factor; p, m and v as they are if the factor is NaN."""
    own, first, second = adamw(p, g * factor, m, v, rest1, rest2, pace, scale, eps, kept)
    is_number = factor == factor
    return own if is_number else p, first if is_number else m, second if is_number else v


def adamw_copied(p, g, m, v, rest1, rest2, pace, scale, eps, kept):
    """Return `adamw`, and p again, for its copy."""
    own, first, second = adamw(p, g, m, v, rest1, rest2, pace, scale, eps, kept)
    return own, first, second, own


def adamw_scaled_copied(p, g, m, v, factor, rest1, rest2, pace, scale, eps, kept):
    """Return `adamw_scaled`, and p again, for its copy."""
    own, first, second = adamw_scaled(p, g, m, v, factor, rest1, rest2, pace, scale, eps, kept)
    return own, first, second, own


#: (whether there is a factor, whether there are copies) -> the function of elements for lists, whose kernels end at
#: once if the factor is NaN; and the function for one parameter.
LIST_STEPS: dict[tuple[bool, bool], Callable[..., Any]] = {
    (False, False): adamw,
    (False, True): adamw_copied,
    (True, False): adamw_times,
    (True, True): adamw_times_copied,
}
STEPS: dict[tuple[bool, bool], Callable[..., Any]] = {
    (False, False): adamw,
    (False, True): adamw_copied,
    (True, False): adamw_scaled,
    (True, True): adamw_scaled_copied,
}

# ---------------------------------------------------------------- Muon


def muon_momentum(m, g, factor, momentum):
    """Return (the momentum μ m + g, the same that is not yet updated), the gradient being g factor.

    If the factor is NaN, the momentum stays.
    """
    first = momentum * m + g * factor
    return first if factor == factor else m, first


def muon_nesterov(m, g, factor, momentum):
    """Return `muon_momentum` with Nesterov's g + μ (μ m + g) as the second result."""
    own = g * factor
    first = momentum * m + own
    return first if factor == factor else m, own + momentum * first


def muon_update(p, o, factor, pace, kept):
    """Return (p (1 - η λ) - pace o, the same for a copy), or p if the factor is NaN."""
    found = fma(-pace, o, p * kept) if factor == factor else p
    return found, found


# ---------------------------------------------------------------- the norm of gradients


def square(g):
    """Return (g²,)."""
    return (g * g,)


def scaled(g, factor):
    """Return (g factor,)."""
    return (g * factor,)


def is_one(factor):
    """Return (1 if `scaled` changes nothing, else 0,)."""
    return (1.0 if factor == 1.0 else 0.0,)


def only(factor):
    """Return the parameter of `scaled`."""
    return (factor,)


def clipped(total, most, factor):
    """Return (the norm, the gradients' factor), given the sum of squares, the largest norm, and another factor.

    The result is NaN if the norm is not finite.
    """
    norm = abs(factor) * math.sqrt(total)
    ratio = most / (norm + 1e-6)
    return norm, (factor * (ratio if ratio < 1.0 else 1.0) if norm - norm == 0.0 else math.nan)


def clipped_by(total, count, most, factor):
    """Return `clipped` with both numbers given."""
    return clipped(total, most, factor)


def total_alone(total, most, factor):
    """Return (a block's sum,)."""
    return (total,)


def total_and_factor(total, factor, most):
    """Return (a block's sum, the factor)."""
    return total, factor


def merged_total(total, factor, other, same):
    """Return (the sum of both, the factor, which one of them may lack)."""
    return total + other, factor if factor != -math.inf else same


def clipped_here(total, factor, count, most):
    """Return `clipped` with the factor of `total_and_factor`."""
    return clipped(total, most, factor)


SQUARE = Formula("square", square)
SCALED = ListFormula("scaled", scaled, only, idle=is_one)
#: Whether the factor is on the GPU -> the reduction of blocks' sums.
CLIPPED = {
    False: ReductionFormula("clipped", total_alone, start=(0.0,), merge=add, finish=clipped_by),
    True: ReductionFormula(
        "clipped_here", total_and_factor, start=(0.0, -math.inf), merge=merged_total, finish=clipped_here
    ),
}

# ---------------------------------------------------------------- the parameters of a step


def adamw_paces(t, rate, log1, log2, rest1, rest2, eps):
    """Return the first five parameters of `adamw` at step t, given log β₁ and log β₂.

    1 - βᵗ is computed as -expm1(t log β): for β near 1, rounded to float32, a power would be inaccurate.
    """
    pace = rate / -math.expm1(t * log1)
    scale = 1.0 / math.sqrt(-math.expm1(t * log2))
    return rest1, rest2, pace, scale, eps


def adamw_numbers(t, rate, log1, log2, rest1, rest2, eps, decay):
    """Return the parameters of `adamw` at step t, given log β₁ and log β₂."""
    rest1, rest2, pace, scale, eps = adamw_paces(t, rate, log1, log2, rest1, rest2, eps)
    return rest1, rest2, pace, scale, eps, 1.0 - rate * decay


def adamw_rates(t, rate, log1, log2, rest1, rest2, eps, decay):
    """Return `adamw_numbers` with the rate in place of 1 - η λ, which `kept_by` computes for each array."""
    rest1, rest2, pace, scale, eps = adamw_paces(t, rate, log1, log2, rest1, rest2, eps)
    return rest1, rest2, pace, scale, eps, rate


def kept_by(rest1, rest2, pace, scale, eps, rate, decay):
    """Return the parameters of `adamw` for an array with this decay, given the rate in place of 1 - η λ."""
    return rest1, rest2, pace, scale, eps, 1.0 - rate * decay


def kept_by_scaled(factor, rest1, rest2, pace, scale, eps, rate, decay):
    """Return `kept_by`, with a factor."""
    return factor, rest1, rest2, pace, scale, eps, 1.0 - rate * decay


def all_numbers(factor, rest1, rest2, pace, scale, eps, kept):
    """Return the parameters of `adamw_scaled` as they are."""
    return factor, rest1, rest2, pace, scale, eps, kept


def _after_step(numbers: Any) -> tuple[Any, Any]:
    """Return the parameters of `adamw_scaled` given (t, factor, rate, ...), and given (t, rate, factor, ...)."""

    def first(t, factor, rate, log1, log2, rest1, rest2, eps, decay):
        rest1, rest2, pace, scale, eps, kept = numbers(t, rate, log1, log2, rest1, rest2, eps, decay)
        return factor, rest1, rest2, pace, scale, eps, kept

    def second(t, rate, factor, log1, log2, rest1, rest2, eps, decay):
        return first(t, factor, rate, log1, log2, rest1, rest2, eps, decay)

    return first, second


def _counted(function: Any, is_scaled: bool) -> Any:
    """Return a function of elements with the parameters of step t."""

    def counted(p, g, m, v, t, rate, log1, log2, rest1, rest2, eps, decay):
        rest1, rest2, pace, scale, eps, kept = adamw_numbers(t, rate, log1, log2, rest1, rest2, eps, decay)
        return function(p, g, m, v, rest1, rest2, pace, scale, eps, kept)

    def counted_scaled(p, g, m, v, factor, t, rate, log1, log2, rest1, rest2, eps, decay):
        rest1, rest2, pace, scale, eps, kept = adamw_numbers(t, rate, log1, log2, rest1, rest2, eps, decay)
        return function(p, g, m, v, factor, rest1, rest2, pace, scale, eps, kept)

    return counted_scaled if is_scaled else counted


#: The same with a step on the GPU, for one parameter.
COUNTED_STEPS = {key: _counted(function, key[0]) for key, function in STEPS.items()}


def _formulas() -> dict[tuple[str, bool, bool], ListFormula]:
    """Return the formulas of lists by (what is on the GPU, whether there are copies, whether decays differ)."""
    found = {}
    for has_copies, has_decays in product((False, True), repeat=2):
        counted = adamw_rates if has_decays else adamw_numbers
        first, second = _after_step(counted)
        kinds: dict[str, Any] = {
            "": None, "step": counted, "scaled": None, "factor": all_numbers, "step factor": first,
            "step rate factor": second,
        }  # fmt: skip
        for kind, numbers in kinds.items():
            is_scaled = kind not in ("", "step")
            row = (kept_by_scaled if is_scaled else kept_by) if has_decays else None
            name = "_".join(["adamw", *kind.split(), *["copied"] * has_copies, *["decays"] * has_decays])
            function, idle = LIST_STEPS[is_scaled, has_copies], is_nan if is_scaled else None
            found[kind, has_copies, has_decays] = ListFormula(name, function, numbers, row, idle)
    return found


#: (what is on the GPU, whether there are copies, whether decays differ) -> the formula. What is on the GPU: "" for
#: nothing, "step" for the step and possibly the rate, and with a factor: "scaled" for nothing, "factor", "step factor"
#: for the step and possibly the factor, "step rate factor".
ADAMWS = _formulas()
#: AdamW with parameters known at the launch, and with a step number that the kernel reads.
ADAMW, ADAMW_COUNTED = ADAMWS["", False, False], ADAMWS["step", False, False]


def named(name: str) -> Formula:
    """Return a formula of this module by name, for unpickling."""
    return {formula.name: formula for formula in _ALL}[name]


_ALL: tuple[Formula, ...] = (*ADAMWS.values(), SQUARE, SCALED, *CLIPPED.values())
for _formula in _ALL:
    _formula.origin = (named, (_formula.name,))
copyreg.pickle(ListFormula, attrgetter("origin"))
