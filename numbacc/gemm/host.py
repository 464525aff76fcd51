"""The product on the CPU: NumPy, behind the same checks as on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import dtype
from ..base.layout import read_only
from ..reference import gemm as reference
from .aliasing import check_overlap
from .problem import Problem
from .results import WithAux, WithBiasGrad


def run_numpy(problem: Problem, operands: Sequence[Any], scales: Sequence[Any], alpha: float, beta: float) -> Any:
    """The product of NumPy arrays: results as of `MatmulPlan.run`."""
    a, b, c, out, bias, aux = operands
    batch, m, n = problem.batch, problem.m, problem.n
    for array, name in ((out, "out"), (aux if problem.epilogue.produces_aux else None, "aux"), (scales[4], "amax_d")):
        if array is not None and not array.flags.writeable:
            raise read_only(name)
    factors: list[Any] = [1.0 if scale is None else scale for scale in scales[:4]]
    for index, shape in ((0, (-1, 1)), (1, (1, -1))):
        if isinstance(factors[index], np.ndarray):
            factors[index] = factors[index].reshape(shape)
    for index in (2, 3):
        if isinstance(factors[index], np.ndarray):
            factors[index] = factors[index].reshape(())
    check_overlap(problem, [None if array is None else array.ctypes.data for array in operands])
    kind = problem.epilogue
    second_layout = problem.second if problem.second is not None else problem.matrix_aux
    result = reference.matmul(
        a if a.ndim > 1 else a[None, :],
        b if b.ndim > 1 else b[:, None],
        epilogue=kind.value,
        accumulator=dtype(problem.types.accumulator),
        out_dtype=problem.out.dtype,
        second_dtype=problem.out.dtype if second_layout is None else second_layout.dtype,
        c=None if c is None else c.reshape((*batch, m, n)),
        bias=None if bias is None else bias[..., None, :],
        aux=None if problem.matrix_aux is None or kind.produces_aux else aux.reshape(problem.matrix_aux.shape),
        alpha=alpha,
        beta=beta * float(factors[2]),
        scale_a=factors[0],
        scale_b=factors[1],
        scale_d=factors[3],
        amax=scales[4] is not None,
    )
    given, result_out = out, result.out.reshape(problem.out.shape)
    if given is None:
        given = result_out
    else:
        given[...] = result_out
    if scales[4] is not None:
        scales[4][...] = result.amax
    if result.second is None:
        return given
    if kind.produces_aux and aux is not None:
        aux[...] = result.second.reshape(aux.shape)
        return WithAux(given, aux)
    assert second_layout is not None
    return (WithAux if kind.produces_aux else WithBiasGrad)(given, result.second.reshape(second_layout.shape))
