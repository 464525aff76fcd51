"""Which product of the library's, with which algorithm, and which of our kernels behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..backend import matmul_library
from ..codes import ALIGNED
from ..errors import UnsupportedError
from .aliasing import pairs_of
from .compose import Step, steps_of, ways
from .hardware import what_is_missing
from .lowering import Lowered, fuses, lower
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
        direct: True if one call of the library is all.
        plain: True if that call needs nothing but the arrays that the user gives.
    """

    lowered: Lowered
    runner: Any
    steps: Sequence[Step]
    direct: bool
    plain: bool


def alignment_of(address: int) -> int:
    """The greatest power of two up to ALIGNED that divides an address; of no array it is ALIGNED."""
    found = address | ALIGNED
    return found & -found


class Selector(threading.local):
    """A problem's selections in the calling thread, by the arrays' alignment: library handles belong to threads.

    Args:
        problem: what is to be computed.
        copies_c: True if C is copied into D first, so that a call of the library is never all.

    Attributes:
        last: the selection used last.
    """

    def __init__(self, problem: Problem, copies_c: bool):
        # Run once in every thread that uses the object.
        self._problem, self._copies_c = problem, copies_c
        self._selected: dict[tuple[int, ...], Selected] = {}
        self.last: Selected | None = None

    def prepare(self, addresses: Sequence[int], trial: Trial | None = None) -> Selected:
        """The selection for arrays at these addresses. `trial` is for `tune=True`.

        Raises:
            UnsupportedError: neither the library nor our kernels have it.
        """
        alignment = tuple(alignment_of(address) for address in addresses)
        found = self._selected.get(alignment)
        if found is None:
            found = self._select(alignment, trial)
            if self._problem.call.tune and trial is None:
                return found  # not tuned yet
            self._selected[alignment] = found
        self.last = found
        return found

    def _select(self, alignment: tuple[int, ...], trial: Trial | None) -> Selected:
        problem, library = self._problem, matmul_library()
        device, limit = problem.call.a.device, problem.call.workspace_limit or WORKSPACE_LIMIT
        for kind in ways(problem):
            if not fuses(problem, kind):
                continue
            lowered = lower(problem, kind)
            aligned = alignment
            if len(lowered.offsets) > 1:
                # One algorithm for all runs, wherever they start.
                starts = zip(alignment, *lowered.offsets, strict=True)
                aligned = tuple([min(map(alignment_of, places)) for places in starts])
            choice = (lowered.product, aligned, device, limit)
            algorithm = library.choose(*choice)
            if algorithm is not None and trial is not None:
                stream, prepared = trial
                algorithm = library.tune(*choice, stream, partial(prepared, lowered))
            if algorithm is not None:
                runner = library.Runner(lowered.product, algorithm, aligned, device, pairs_of(problem))
                steps = steps_of(problem, kind)
                direct = not (steps or len(lowered.offsets) > 1 or self._copies_c)
                # A float8 D is not given in the place of C.
                more = problem.second or problem.epilogue.produces_aux or problem.out.itemsize == 1
                plain = direct and not (more or runner.workspace_bytes)
                return Selected(lowered, runner, steps, direct, plain)
        raise UnsupportedError(what_is_missing(problem, alignment))
