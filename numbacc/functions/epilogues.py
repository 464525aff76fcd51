"""Formulas of epilogues, which follow a matrix product: biases, activations and their gradients."""

from __future__ import annotations

from ..reference import epilogues
from . import gates
from .formula import COPY, Formula, identity
from .gates import activated, biased, geglu_tanh, geglu_tanh_pair, relu
from .reduction_formula import ReductionFormula


def dgelu(v, aux):
    """Return v g'(aux), the gradient of GELU's tanh form. g is the gate of GeGLU."""
    _, slope = geglu_tanh_pair(aux)
    return (v * slope,)


def activated_with_aux(activation):
    """Make the map v -> (activation(v), v). The second output is kept for the derivative."""

    def forward(v):
        return activation(v), v

    return forward


_EPILOGUES = {
    "bias": biased(identity),
    "relu": activated(relu),
    "relu_bias": biased(activated(relu)),
    "gelu": activated(geglu_tanh),
    "gelu_bias": biased(activated(geglu_tanh)),
    "gelu_aux": activated_with_aux(geglu_tanh),
    "gelu_aux_bias": biased(activated_with_aux(geglu_tanh)),
    "dgelu": dgelu,
}


def named(name: str) -> Formula:
    """Return the formula with this name."""
    return SUM if name == SUM.name else FORMULAS[name]


def part(x):
    """Return (x,), the part that an element adds to a sum."""
    return (x,)


def add(total, value):
    """Return (total + value,)."""
    return (total + value,)


def total(x, rows):
    """Return (x,): the result of a sum is the total itself."""
    return (x,)


#: The sum over rows.
SUM = ReductionFormula("sum", part, start=(0.0,), merge=add, finish=total)
SUM.origin = (named, (SUM.name,))

#: Name -> formula, for epilogues, gates and copies.
FORMULAS = {
    **gates.FORMULAS,
    **{
        name: Formula(name, _EPILOGUES[name.removeprefix("epilogue.")], means, origin=(named, (name,)))
        for name, means in epilogues.MAPS.items()
    },
    COPY.name: COPY,
}
