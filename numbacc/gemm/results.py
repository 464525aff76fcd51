"""The results of a product that has two."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays.operands import Array


class WithAux(NamedTuple):
    """Result of an epilogue that also gives `aux`, what the backward product needs."""

    out: Array
    aux: Array


class WithBiasGrad(NamedTuple):
    """Result of an epilogue that also gives `bias_grad`."""

    out: Array
    bias_grad: Array


def as_given(result: Any, out: Any, aux: Any) -> Any:
    """A result with the arrays that the user gave for it, which may be another library's, instead of those returned."""
    if isinstance(result, WithAux):
        return WithAux(result.out if out is None else out, result.aux if aux is None else aux)
    if isinstance(result, WithBiasGrad):
        return result if out is None else result._replace(out=out)
    return result if out is None else out
