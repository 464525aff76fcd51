"""Epilogues that the library does not fuse, as numbacc's kernels after a plain product."""

from __future__ import annotations

from typing import NamedTuple

from ..base.dtypes import info
from ..plan.tasks import MapPlan
from .epilogue import Epilogue
from .epilogue_plans import map_plan, pack_plan, select_plan, sum_plan
from .lowering import AUX, BIAS, OUT, A, B
from .problem import GemmProblem


class KernelStep(NamedTuple):
    """One kernel: its plan, and the numbers of the product's arrays that it reads and writes."""

    plan: MapPlan
    reads: tuple[int, ...]
    writes: tuple[int, ...]


#: From this many elements of a result on, numbacc's kernel sums its rows: on an H200, cuBLASLt's DGELU with the sum
#: takes 1.3 times as long as its DGELU followed by the kernel.
_SUM_APART = 2**22


def ways(problem: GemmProblem) -> list[Epilogue]:
    """Return the parts of a problem's epilogue that the library may do, best first. numbacc's kernels do the rest."""
    kind = problem.epilogue
    if kind is Epilogue.NONE:
        return [kind]
    found: list[Epilogue] = [kind]
    # numbacc's kernels neither read nor write float8.
    if kind.uses_aux and kind.produces_bias_grad and problem.out.itemsize > 1:
        without = Epilogue(kind.value.removesuffix("_bgrad"))
        found.insert(0 if problem.matrix_out.size >= _SUM_APART else 1, without)
    # A float8 product cannot first be computed in another dtype for the kernels.
    return found if info(problem.call.a.dtype).is_scaled else [*found, Epilogue.NONE]


def steps_of(problem: GemmProblem, done: Epilogue) -> list[KernelStep]:
    """Return the steps that turn the product in `out`, after the epilogue `done`, into the problem's results."""
    kind, out = problem.epilogue, problem.matrix_out
    if done is kind:
        return []
    bias, aux, grad = problem.matrix_bias, problem.matrix_aux, problem.matrix_grad
    steps = []
    if kind.uses_aux and not done.uses_aux:
        assert aux is not None
        plan = (
            select_plan(out, aux, out) if kind.activation == "relu" else map_plan("epilogue.dgelu", (out, aux), (out,))
        )
        steps.append(KernelStep(plan, (OUT, AUX), (OUT,)))
    elif (kind.activation and not done.activation) or kind.uses_bias:
        gelu_aux = kind.produces_aux and kind.activation == "gelu"
        relu_aux = kind.produces_aux and not gelu_aux
        words = [
            None if relu_aux else kind.activation,
            "aux" if gelu_aux else None,
            "bias" if kind.uses_bias else None,
        ]
        formula = "_".join(word for word in words if word)
        if formula:
            reads, inputs = ((OUT, BIAS), (out, bias)) if bias is not None else ((OUT,), (out,))
            writes, outputs = ((OUT, AUX), (out, aux)) if gelu_aux else ((OUT,), (out,))
            steps.append(KernelStep(map_plan(f"epilogue.{formula}", inputs, outputs), reads, writes))
        if relu_aux:
            # The mask holds the signs of z, which ReLU would discard.
            assert aux is not None
            steps.append(KernelStep(pack_plan(out, aux), (OUT,), (AUX,)))
            steps.append(KernelStep(map_plan("epilogue.relu", (out,), (out,)), (OUT,), (OUT,)))
    if kind.produces_bias_grad:
        assert grad is not None
        source, array, axis = {
            Epilogue.BGRADA: (A, problem.matrix_a, -1),
            Epilogue.BGRADB: (B, problem.matrix_b, -2),
        }.get(kind, (OUT, out, -2))
        steps.append(KernelStep(sum_plan(array, axis, grad), (source,), (BIAS,)))
    return steps
