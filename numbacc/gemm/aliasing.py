"""Which of a product's arrays may share memory: D may be C itself; else what is written touches no other array."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.layout import Layout, overlap
from ..errors import LayoutError
from .lowering import AUX, BIAS, OUT, C
from .problem import Problem

_NAMES = ("a", "b", "c", "out", "bias", "aux")


def layouts_of(problem: Problem) -> tuple[Layout | None, ...]:
    """The layouts of a, b, c, out, bias or bias_grad, aux."""
    return (
        problem.matrix_a,
        problem.matrix_b,
        problem.matrix_c if problem.call.has_beta else None,
        problem.matrix_out,
        problem.matrix_bias or problem.matrix_grad,
        problem.matrix_aux,
    )


def written_by(problem: Problem) -> list[int]:
    """The numbers of the arrays that are written."""
    kind = problem.epilogue
    return [OUT, *[BIAS] * kind.produces_bias_grad, *[AUX] * kind.produces_aux]


def pairs_of(problem: Problem) -> list[tuple[int, ...]]:
    """Which arrays must not share bytes, as `native.matmul` has it."""
    pairs: list[tuple[int, ...]] = []
    layouts, written = layouts_of(problem), written_by(problem)
    for j in written:
        target = layouts[j]
        assert target is not None
        for i, other in enumerate(layouts):
            if other is None or i == j or (i in written and i > j):
                continue
            in_place = int(i == C and j == OUT and other.strides == target.strides)
            pairs.append((i, other.low, other.high, j, target.low, target.high, in_place))
    return pairs


def check_overlap(problem: Problem, addresses: Sequence[int | None]) -> None:
    """Raise LayoutError where an array that is written shares memory with another, given their addresses."""
    layouts = layouts_of(problem)
    for i, _, _, j, _, _, in_place in pairs_of(problem):
        one, other, source, target = layouts[i], layouts[j], addresses[i], addresses[j]
        assert one is not None and other is not None
        if not source or not target or (source == target and in_place):
            continue
        if overlap(source, one, target, other):
            name = {BIAS: "bias_grad", AUX: "aux"}.get(j, "out")
            only = "; only c may be out itself (in place)" if j == OUT else ""
            raise LayoutError(f"{name} shares memory with {_NAMES[i]}: pass memory of its own{only}")
