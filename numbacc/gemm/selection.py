"""The choice of the library's product and algorithm, and of numbacc's kernels after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..base.dispatch import matmul_library
from ..errors import UnsupportedError
from .alignment import Copied, alignment_of, check_addresses, copies_of, loose_scales, takes_aux, told
from .compose import KernelStep, steps_of, ways
from .epilogue import Epilogue
from .hardware import what_is_missing
from .lowering import AUX, BIAS, OUT, C, LoweredProduct, fuses, lower
from .problem import GemmProblem

#: The default of `workspace_limit`, the scratch memory that an algorithm may use: PyTorch's limit on Hopper.
WORKSPACE_LIMIT = 32 * 2**20

#: A stream, and a function that prepares a product and its runner to be queued there, with memory for its results.
Trial = tuple[int, Callable[[LoweredProduct, Any], Callable[[], None]]]


class Selected(NamedTuple):
    """The work of a plan for arrays of one alignment: the product, its runner, and the kernels after it.

    Attributes:
        lowered: the product.
        runner: queues the product, in the thread that made it.
        steps: the kernels.
        direct: True if one call of the library is enough, unless scales must be copied.
        plain: True if that call needs nothing but the user's arrays and scratch memory.
    """

    lowered: LoweredProduct
    runner: Any
    steps: Sequence[KernelStep]
    direct: bool
    plain: bool

    @property
    def text(self) -> str:
        """A text with the algorithm and the other steps."""
        parts = [self.runner.algorithm.text, *(step.plan.op for step in self.steps)]
        if len(self.lowered.offsets) > 1:
            parts.append(f"{len(self.lowered.offsets)} calls")
        if self.lowered.copies:
            parts.append(f"aligned copies of {', '.join(each.name for each in self.lowered.copies)}")
        return "; ".join(parts)


class Offer(NamedTuple):
    """One way to compute a problem that the library has an algorithm for.

    Attributes:
        kind: the part of the epilogue that the library computes.
        lowered: the product.
        choice: the arguments of the library's choice of an algorithm.
        algorithm: the algorithm, unmeasured.
    """

    kind: Epilogue
    lowered: LoweredProduct
    choice: tuple[Any, ...]
    algorithm: Any


class Selector:
    """The choices for a problem, by the arrays' alignment. Each belongs to the thread that asks for it.

    Args:
        problem: the product to compute.
        copies_c: True if C is first copied into D, so that a call of the library is never enough.
    """

    def __init__(self, problem: GemmProblem, copies_c: bool):
        self._problem, self._copies_c = problem, copies_c

    def prepare(self, addresses: Sequence[int], trial: Trial | None = None, scales: Sequence[int] = ()) -> Selected:
        """Return the choice for arrays and scales at these addresses. `trial` is for `tune=True`.

        Raises:
            UnsupportedError: neither the library nor numbacc's kernels support it. LayoutError: an array is not aligned
                as the library needs it.
        """
        return self._select(tuple(map(alignment_of, addresses)), loose_scales(scales), trial)

    def _select(self, alignment: tuple[int, ...], loose: tuple[int, ...], trial: Trial | None) -> Selected:
        problem, library = self._problem, matmul_library()
        check_addresses(problem, alignment)
        given, copies = copies_of(problem, alignment, loose)
        offer = None
        for kind in ways(problem):
            if not (fuses(given, kind) and takes_aux(given, kind, alignment)):
                continue
            found = self._offer(given, kind, alignment, copies)
            if found is None:
                continue
            fast = not library.is_stand_in(found.lowered.product, found.algorithm, problem.call.a.device)
            # If the library has only older kernels for every way, keep the best way.
            if offer is None or fast:
                offer = found
            if fast:
                break
        if offer is None:
            raise UnsupportedError(what_is_missing(problem, alignment))
        kind, lowered, choice, algorithm = offer
        if trial is not None:
            stream, prepared = trial
            algorithm = library.tune(*choice, stream, partial(prepared, lowered)) or algorithm
        runner = library.Runner(lowered.product, algorithm, alignment, problem.call.a.device, pairs_of(problem))
        steps = steps_of(problem, kind)
        direct = not (steps or lowered.copies or len(lowered.offsets) > 1 or self._copies_c)
        # A float8 D cannot be passed as C.
        more = problem.second or problem.epilogue.produces_aux or problem.out.itemsize == 1
        plain = direct and not more
        return Selected(lowered, runner, steps, direct, plain)

    def _offer(
        self, given: GemmProblem, kind: Epilogue, alignment: tuple[int, ...], copies: Sequence[Copied]
    ) -> Offer | None:
        """Return the library's product for part of a problem's epilogue; None if it does not support the product."""
        copied = tuple(copy for copy in copies if copy.number != BIAS or kind.uses_bias)
        lowered = lower(given, kind)._replace(copies=copied)
        if lowered.product.amax and len(lowered.offsets) > 1:
            raise UnsupportedError(
                f"amax_d: the batch of these arrays takes {len(lowered.offsets)} calls of cuBLASLt, and each one "
                "would write its own amax_d. Space the matrices of a, b and out evenly"
            )
        aligned = told(given, alignment, copied)
        if len(lowered.offsets) > 1:
            # Use one algorithm for all runs, so take the lowest alignment of their starts.
            starts = zip(aligned, *lowered.offsets, strict=True)
            aligned = tuple([min(map(alignment_of, addresses)) for addresses in starts])
        call = self._problem.call
        choice = (lowered.product, aligned, call.a.device, call.workspace_limit or WORKSPACE_LIMIT)
        algorithm = matmul_library().choose(*choice)
        return None if algorithm is None else Offer(kind, lowered, choice, algorithm)


# ---------------------------------------------------------------- memory that arrays may share


def pairs_of(problem: GemmProblem) -> list[tuple[int, ...]]:
    """Return which arrays of a library call must not share memory, in the form that `native.matmul` needs.

    D may be C itself; any other output must not overlap another array.
    """
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


def c_is_out(problem: GemmProblem) -> bool:
    """Return True if C may be D itself: they have the same strides."""
    c = problem.matrix_c
    return c is not None and c.strides == problem.matrix_out.strides
