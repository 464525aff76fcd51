"""Which of a product's arrays may share memory: D may be C itself; else what is written touches no other array."""

from __future__ import annotations

from .lowering import AUX, BIAS, OUT, C
from .problem import Problem


def pairs_of(problem: Problem) -> list[tuple[int, ...]]:
    """Which arrays of a call of the library must not share bytes, as `native.matmul` has it."""
    kind = problem.epilogue
    layouts = (
        problem.matrix_a,
        problem.matrix_b,
        problem.matrix_c if problem.call.has_beta else None,
        problem.matrix_out,
        problem.matrix_bias or problem.matrix_grad,
        problem.matrix_aux,
    )
    written = [OUT, *[BIAS] * kind.produces_bias_grad, *[AUX] * kind.produces_aux]
    pairs: list[tuple[int, ...]] = []
    for j in written:
        target = layouts[j]
        assert target is not None
        for i, other in enumerate(layouts):
            if other is None or i == j or (i in written and i > j):
                continue
            in_place = int(i == C and j == OUT and c_is_out(problem))
            pairs.append((i, other.low, other.high, j, target.low, target.high, in_place))
    return pairs


def c_is_out(problem: Problem) -> bool:
    """True if C may be D itself: they are laid out alike."""
    c = problem.matrix_c
    return c is not None and c.strides == problem.matrix_out.strides
