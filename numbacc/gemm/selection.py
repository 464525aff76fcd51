"""Which product of the library's, with which algorithm, and which of our kernels behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..base.backend import matmul_library
from ..errors import UnsupportedError
from .aliasing import pairs_of
from .alignment import alignment_of, check_addresses, copies_of, loose_scales, takes_aux, told
from .compose import Step, steps_of, ways
from .hardware import what_is_missing
from .lowering import BIAS, Lowered, fuses, lower
from .problem import Problem

#: Scratch memory that an algorithm may use, where `workspace_limit` says nothing else: what PyTorch allows on Hopper.
WORKSPACE_LIMIT = 32 * 2**20

#: A stream, and what gives a function that queues a product there by a runner, with scratch memory for its results.
Trial = tuple[int, Callable[[Lowered, Any], Callable[[], None]]]


class Selected(NamedTuple):
    """What a plan runs for arrays of one alignment: the product, its runner, the kernels behind it.

    Attributes:
        lowered: the product.
        runner: what queues it, in the thread that made it.
        steps: the kernels.
        direct: True if one call of the library is all, unless scales are to be copied.
        plain: True if that call needs nothing but the arrays that the user gives.
    """

    lowered: Lowered
    runner: Any
    steps: Sequence[Step]
    direct: bool
    plain: bool

    @property
    def text(self) -> str:
        """The algorithm, and what is done beside it, to be read."""
        parts = [self.runner.algorithm.text, *(step.plan.spec.op for step in self.steps)]
        if len(self.lowered.offsets) > 1:
            parts.append(f"{len(self.lowered.offsets)} calls")
        if self.lowered.copies:
            parts.append(f"aligned copies of {', '.join(each.name for each in self.lowered.copies)}")
        return "; ".join(parts)


class Selector:
    """A problem's selections, by the arrays' alignment. Each belongs to the thread that asks for it.

    Args:
        problem: what is to be computed.
        copies_c: True if C is copied into D first, so that a call of the library is never all.
    """

    def __init__(self, problem: Problem, copies_c: bool):
        self._problem, self._copies_c = problem, copies_c

    def prepare(self, addresses: Sequence[int], trial: Trial | None = None, places: Sequence[int] = ()) -> Selected:
        """The selection for arrays at these addresses, and scales at `places`. `trial` is for `tune=True`.

        Raises:
            UnsupportedError: neither the library nor our kernels have it. LayoutError: the library cannot take an array
            that starts there.
        """
        return self._select(tuple(map(alignment_of, addresses)), loose_scales(places), trial)

    def _select(self, alignment: tuple[int, ...], loose: tuple[int, ...], trial: Trial | None) -> Selected:
        problem, library = self._problem, matmul_library()
        device, limit = problem.call.a.device, problem.call.workspace_limit or WORKSPACE_LIMIT
        check_addresses(problem, alignment)
        given, copies = copies_of(problem, alignment, loose)
        for kind in ways(problem):
            if not (fuses(given, kind) and takes_aux(given, kind, alignment)):
                continue
            copied = tuple(copy for copy in copies if copy.number != BIAS or kind.uses_bias)
            lowered = lower(given, kind)._replace(copies=copied)
            if lowered.product.amax and len(lowered.offsets) > 1:
                raise UnsupportedError(
                    f"amax_d: the batch of these arrays takes {len(lowered.offsets)} calls of cuBLASLt, each of which "
                    "would write its own. Lay the matrices of a, b and out evenly apart"
                )
            aligned = told(given, alignment, copied)
            if len(lowered.offsets) > 1:
                # One algorithm for all runs, wherever they start.
                starts = zip(aligned, *lowered.offsets, strict=True)
                aligned = tuple([min(map(alignment_of, places)) for places in starts])
            choice = (lowered.product, aligned, device, limit)
            algorithm = library.choose(*choice)
            if algorithm is not None and trial is not None:
                stream, prepared = trial
                algorithm = library.tune(*choice, stream, partial(prepared, lowered))
            if algorithm is not None:
                runner = library.Runner(lowered.product, algorithm, alignment, device, pairs_of(problem))
                steps = steps_of(problem, kind)
                direct = not (steps or copied or len(lowered.offsets) > 1 or self._copies_c)
                # A float8 D is not given in the place of C.
                more = problem.second or problem.epilogue.produces_aux or problem.out.itemsize == 1
                plain = direct and not (more or runner.workspace_bytes)
                return Selected(lowered, runner, steps, direct, plain)
        raise UnsupportedError(what_is_missing(problem, alignment))
