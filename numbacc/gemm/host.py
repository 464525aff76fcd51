"""The product on the CPU with NumPy, after the same checks as on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.dtypes import dtype
from ..reference import gemm as reference
from .problem import SCALES, GemmProblem


class HostProduct:
    """A product of NumPy arrays: a callable.

    Args:
        problem: the product to compute.
    """

    def __init__(self, problem: GemmProblem):
        kind, call, second = problem.epilogue, problem.call, problem.second or problem.matrix_aux
        self._problem = problem
        self._has_scales = any(getattr(call, name) is not None for name in SCALES)
        self._has_amax = call.amax_d is not None
        self._options = {
            "epilogue": kind.value,
            "accumulator": dtype(problem.types.accumulator),
            "out_dtype": problem.out.dtype,
            "second_dtype": problem.out.dtype if second is None else second.dtype,
            "amax": self._has_amax,
        }
        #: The user's shapes of the results.
        self._shapes = [problem.out.shape]
        if kind.produces_aux or kind.produces_bias_grad:
            visible = call.aux if kind.produces_aux and call.aux is not None else problem.second
            assert visible is not None
            self._shapes.append(visible.shape)

    def __call__(self, given: Mapping[str, Any], alpha: float, beta: float, numbers: Mapping[str, float]) -> list[Any]:
        """Return the results, in the order of the plan's outputs.

        Args:
            given: the inputs by name.
            alpha, beta: factors.
            numbers: scales that are numbers, by name.
        """
        problem, a, b = self._problem, given["a"], given["b"]
        options: dict[str, Any] = dict(self._options)
        if self._has_scales:
            factors = self._factors({**given, **numbers})
            beta *= float(factors.pop("scale_c"))
            options |= factors
        if "c" in given:
            options["c"] = given["c"].reshape((*problem.batch, problem.m, problem.n))
        if "bias" in given:
            options["bias"] = given["bias"][..., None, :]
        if "aux" in given:
            assert problem.matrix_aux is not None
            options["aux"] = given["aux"].reshape(problem.matrix_aux.shape)
        rows, columns = a if a.ndim > 1 else a[None, :], b if b.ndim > 1 else b[:, None]
        result = reference.matmul(rows, columns, alpha=alpha, beta=beta, **options)
        arrays: tuple[Any, ...] = (result.out, result.second)
        found = [array.reshape(shape) for array, shape in zip(arrays, self._shapes, strict=False)]
        return [*found, result.amax] if self._has_amax else found

    @staticmethod
    def _factors(scales: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scales in the reference's form: numbers, a column of them, or a row."""
        shapes = ((-1, 1), (1, -1), (), ())
        found = {name: scales.get(name, 1.0) for name in SCALES}
        for name, shape in zip(SCALES, shapes, strict=True):
            if isinstance(found[name], np.ndarray):
                found[name] = found[name].reshape(shape)
        return found
