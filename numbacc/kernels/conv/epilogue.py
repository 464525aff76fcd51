"""Operations after a convolution that cuDNN does not perform: a factor, a bias and an activation, in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...functions import gates
from ...functions.activations import elu, leaky_relu
from ...functions.exponentials import sigmoid
from ...functions.formula import Formula, identity
from ...functions.gates import activated, biased
from ...reference import conv as reference


def _leaky_relu(v):
    return leaky_relu(v, 0.01)


def _elu(v):
    return elu(v, 1.0)


#: The kernels' functions for `reference.conv.ACTIVATIONS`.
_ACTIVATIONS = {
    "relu": gates.relu,
    "leaky_relu": _leaky_relu,
    "gelu": gates.geglu,
    "gelu_tanh": gates.geglu_tanh,
    "silu": gates.swiglu,
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "elu": _elu,
}


def _relu_of_integers(v):
    return v if v > 0 else 0


#: Activations with integer results.
_OF_INTEGERS = {"relu": _relu_of_integers}


def epilogue(activation: str | None, has_bias: bool, factor: float = 1.0, whole: bool = False) -> Formula:
    """Return the formula (v, b) -> activation(factor v + b), or v -> activation(factor v); for integers if `whole`."""
    return _epilogue(activation, has_bias, factor, whole)


@lru_cache(maxsize=256)
def _epilogue(activation: str | None, has_bias: bool, factor: float, whole: bool) -> Formula:
    means = reference.ACTIVATIONS.get(activation or "", lambda v: v)
    functions = _OF_INTEGERS if whole else _ACTIVATIONS
    formula = identity if activation is None else activated(functions[activation])
    name = f"conv.{activation or 'identity'}"
    origin = (_epilogue, (activation, has_bias, factor, whole))
    if has_bias:
        both = _scaled_first(biased(formula), factor)
        return Formula(f"{name}+bias", both, lambda v, b: (means(v * v.dtype.type(factor) + b),), origin=origin)
    return Formula(name, _scaled(formula, factor), lambda v: (means(v * v.dtype.type(factor)),), origin=origin)


@lru_cache(maxsize=64)
def linear(activation: str | None, is_scaled: bool, adds: bool, has_bias: bool) -> Callable[..., Any]:
    """Return the map (v, o, b, alpha, beta) -> (activation(alpha v + beta o + b),), without the unused arguments.

    Args:
        activation: name of the activation, or None.
        is_scaled: True if there are alpha and beta, which are always given together.
        adds: True if there is o, which requires alpha and beta.
        has_bias: True if there is b.
    """
    formula = identity if activation is None else activated(_ACTIVATIONS[activation])
    if not is_scaled:
        return biased(formula) if has_bias else formula

    def scaled(v, alpha, beta):
        return formula(alpha * v)

    def scaled_biased(v, b, alpha, beta):
        return formula(alpha * v + b)

    def added(v, o, alpha, beta):
        return formula(alpha * v + beta * o)

    def added_biased(v, o, b, alpha, beta):
        return formula(alpha * v + beta * o + b)

    if adds:
        return added_biased if has_bias else added
    return scaled_biased if has_bias else scaled


def _scaled(formula: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """Return the map v -> formula(factor v)."""
    if factor == 1.0:
        return formula

    def forward(v):
        return formula(v * factor)

    return forward


def _scaled_first(formula: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """Return the map (v, b) -> formula(factor v, b)."""
    if factor == 1.0:
        return formula

    def forward(v, b):
        return formula(v * factor, b)

    return forward
