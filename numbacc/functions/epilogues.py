"""What follows a matrix product, element by element or over rows: biases, activations and their gradients."""

from __future__ import annotations

from ..reference import epilogues
from . import gates
from .formula import COPY, Formula, identity
from .gates import activated, biased, geglu_tanh, geglu_tanh_pair, relu
from .reduction_formula import ReductionFormula


def dgelu(v, aux):
    """v g'(aux), the gradient of GELU's tanh form, which is what gates GeGLU's."""
    _, slope = geglu_tanh_pair(aux)
    return (v * slope,)


def activated_with_aux(activation):
    """The map v -> (activation(v), v): what the derivative will need is kept."""

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
    """The formula of a name."""
    return SUM if name == SUM.name else FORMULAS[name]


def part(x):
    """x -> (x,): what a number adds to a sum."""
    return (x,)


def add(total, value):
    """(total, value) -> (total + value,)."""
    return (total + value,)


def total(x, rows):
    """(x,): a sum is not a mean."""
    return (x,)


#: The sum over rows.
SUM = ReductionFormula("sum", part, start=(0.0,), merge=add, finish=total)
SUM.origin = (named, (SUM.name,))

#: Formulas of epilogues, of gates, and of copies, by name.
FORMULAS = {
    **gates.FORMULAS,
    **{
        name: Formula(name, _EPILOGUES[name.removeprefix("epilogue.")], means, origin=(named, (name,)))
        for name, means in epilogues.MAPS.items()
    },
    COPY.name: COPY,
}
